import dataclasses
import json

import pytest

from trainer.cli.commands import run
from trainer.config import RunConfig
from trainer.errors import TrainerError

NOT_SETTINGS = {"config", "dry_run", "plan_cores", "plan_memory", "preview", "as_json", "verbose"}


def test_options_of_run_are_the_fields_of_run_config_with_the_same_defaults() -> None:
    context = run.make_context("run", ["data"])
    options = {name: value for name, value in context.params.items() if name not in NOT_SETTINGS}
    assert options == dataclasses.asdict(RunConfig(dataset="data"))


def test_every_option_has_help() -> None:
    assert {p.name for p in run.params if not getattr(p, "help", None)} == {"dataset"}


def test_stored_configuration_is_restored() -> None:
    config = RunConfig(dataset="d", lr=0.5, sink=False, workers=3, freeze=("stem",), monitor=("TimeMonitor",))
    assert RunConfig.from_dict(json.loads(config.to_json())) == config


@pytest.mark.parametrize("steps", ["5", "5..", "0..3", "7..6", "a..b"])
def test_invalid_profile_range_is_rejected(steps: str) -> None:
    with pytest.raises(TrainerError, match="give the first and the last"):
        _ = RunConfig("d", profile=steps).profile_steps
    assert RunConfig("d", profile="7..12").profile_steps == (7, 12)


def test_stored_form_with_an_unknown_key_is_rejected_by_name() -> None:
    with pytest.raises(TrainerError, match="'epoch'; did you mean 'epochs'"):
        RunConfig.from_dict({"dataset": "d", "epoch": 3})
