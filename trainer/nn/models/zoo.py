"""Models of the optional package mindcv."""

from collections.abc import Callable
from typing import Any

from trainer.errors import TrainerError, WrongUsage, nearest


def mindcv_factory(name: str) -> Callable[..., Any]:
    """Return a factory of the untrained mindcv model `name`; the factory takes num_classes=N.

    Raises TrainerError if mindcv is missing, does not load with this MindSpore, or has no such model.
    """
    try:
        import mindcv
    except ModuleNotFoundError as error:
        if error.name != "mindcv":
            raise TrainerError(f"mindcv does not load: the package '{error.name}' is missing; install it") from error
        raise TrainerError(f"model 'mindcv:{name}' needs the package mindcv: pip install mindcv") from None
    except (ImportError, AttributeError) as error:
        raise TrainerError(f"mindcv does not load with this MindSpore ({error}); try: pip install -U mindcv") from error
    known = set(mindcv.list_models())
    if name not in known:
        raise WrongUsage(f"mindcv has no model '{name}'; {_suggestion(name, known)}")

    def factory(num_classes: int) -> Any:
        return mindcv.create_model(name, num_classes=num_classes)

    return factory


def _suggestion(name: str, known: set[str]) -> str:
    # mindcv has hundreds of models, so only models with the same first letters are suggested.
    similar = {model for model in known if model[:4] == name[:4]}
    return (
        nearest(name, similar) if similar else "list them with: python -c 'import mindcv; print(mindcv.list_models())'"
    )
