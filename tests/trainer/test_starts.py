import json
from pathlib import Path

import pytest

from tests.trainer.run_folders import DECISIONS, start
from trainer.decision import Decision
from trainer.starts import Start, note_start, software


def read(run: Path) -> list[Start]:
    return [Start.from_dict(json.loads(line)) for line in (run / "starts.jsonl").read_text().splitlines()]


def test_each_process_of_a_run_has_its_line(tmp_path: Path) -> None:
    note_start(tmp_path, 0, "digest", DECISIONS)
    note_start(tmp_path, 7, "digest", DECISIONS[:1])
    begun, taken_up = read(tmp_path)
    assert (begun.step, begun.decisions, begun.dataset_digest) == (0, DECISIONS, "digest")
    assert (taken_up.step, taken_up.decisions) == (7, DECISIONS[:1])
    assert begun.at.endswith("+00:00")


def test_decisions_come_back_as_they_were_and_those_of_earlier_versions_too(tmp_path: Path) -> None:
    decisions = (Decision("device", "default", "CPU", "why", notable=True), Decision("mode", "default", "graph", "why"))
    note_start(tmp_path, 0, "digest", decisions)
    assert read(tmp_path)[0].decisions == decisions
    line = json.loads((tmp_path / "starts.jsonl").read_text())
    for one in line["decisions"]:
        del one["notable"]
    assert [one.setting for one in Start.from_dict(line).decisions] == ["device", "mode"]


def test_versions_that_decide_what_is_computed_are_named() -> None:
    assert {"Python", "mindspore", "numpy"} <= set(software())


@pytest.mark.parametrize("broken", [{}, {"step": "x"}, {"decisions": [{"other": "form"}]}, {"software": []}])
def test_another_form_is_refused(broken: dict[str, object]) -> None:
    whole = json.loads(json.dumps(vars(start()), default=vars))
    values = whole | broken if broken else {}
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        Start.from_dict(values)
