"""The models of the package mindcv, when it is installed."""

from collections.abc import Callable
from typing import Any

from trainer.errors import TrainerError, WrongUsage, nearest


def mindcv_factory(name: str) -> Callable[..., Any]:
    """A function of num_classes=N that makes mindcv's model `name`, untrained.

    Raises TrainerError when mindcv is missing, does not load with this MindSpore, or has no such model.
    """
    try:
        import mindcv
    except ModuleNotFoundError as error:
        if error.name != "mindcv":
            raise TrainerError(f"mindcv does not load: it needs the package '{error.name}'; pip install it") from error
        raise TrainerError(f"model 'mindcv:{name}' needs the package mindcv: pip install mindcv") from None
    except (ImportError, AttributeError) as error:
        raise TrainerError(f"mindcv does not load with this MindSpore ({error}); try: pip install -U mindcv") from error
    known = set(mindcv.list_models())
    if name not in known:
        raise WrongUsage(f"mindcv has no model '{name}'; {_near(name, known)}")

    def factory(num_classes: int) -> Any:
        return mindcv.create_model(name, num_classes=num_classes)

    return factory


def _near(name: str, known: set[str]) -> str:
    # It has hundreds: those that begin alike are shown.
    alike = {one for one in known if one[:4] == name[:4]}
    return nearest(name, alike) if alike else "list them with: python -c 'import mindcv; print(mindcv.list_models())'"
