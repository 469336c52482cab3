import os
from pathlib import Path

import pytest

from schemas.storage.files import write_whole
from trainer.errors import Busy, TrainerError
from trainer.runs.folder import next_run_folder, run_folder, scratch


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


DATA = Path("/data/flowers")


def test_runs_are_numbered_by_dataset_and_never_reused() -> None:
    for number in (1, 2):
        with run_folder(None, DATA) as run:
            (run / "kept").touch()
        assert run == Path.cwd() / "runs" / f"flowers-{number}"


def test_folder_in_which_nothing_was_written_is_taken_away_again() -> None:
    with pytest.raises(ZeroDivisionError), run_folder(None, DATA):
        raise ZeroDivisionError
    assert not Path("runs").exists()


def test_given_name_is_used_even_when_the_folder_exists_empty() -> None:
    Path("mine").mkdir()
    with run_folder("mine", DATA) as run:
        (run / "kept").touch()
    assert run == Path.cwd() / "mine"


@pytest.mark.parametrize("taken", ["folder", "file"])
def test_earlier_run_is_never_touched(taken: str) -> None:
    if taken == "folder":
        Path("mine").mkdir()
        Path("mine/best.ckpt").touch()
    else:
        Path("mine").touch()
    with pytest.raises(TrainerError, match="mine already exists"), run_folder("mine", DATA):
        pass


def test_run_inside_the_dataset_is_refused() -> None:
    with pytest.raises(TrainerError, match="inside the dataset"), run_folder("set/run", Path("set").resolve()):
        pass


def test_run_folder_that_cannot_be_made_is_named() -> None:
    Path("file").touch()
    with pytest.raises(TrainerError, match="cannot create the run folder"), run_folder("file/run", DATA):
        pass


def test_looking_for_the_next_folder_creates_nothing() -> None:
    assert next_run_folder(None, DATA).name == "flowers-1"
    assert not Path("runs").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_scratch_takes_the_litter_away_and_comes_home(fails: bool, tmp_path: Path) -> None:
    home = Path.cwd()
    try:
        with scratch(tmp_path):
            os.mkdir("rank_0")
            assert Path.cwd().parent == tmp_path
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert Path.cwd() == home
    assert os.listdir(tmp_path) == ["work"]


def test_folder_in_which_a_process_trains_is_not_entered() -> None:
    with run_folder("mine", DATA) as run:
        (run / "config.json").touch()
        with pytest.raises(Busy, match="another process is training in"), run_folder("mine", DATA):
            pass


def test_begun_run_is_entered_and_what_a_killed_process_left_is_taken_away() -> None:
    Path("mine/.scratch-x/rank_0").mkdir(parents=True)
    for name in (".last-7.ckpt", ".result.json.part", "config.json", "last.ckpt"):
        Path("mine", name).touch()
    with run_folder("mine", DATA) as run:
        assert sorted(os.listdir(run)) == ["config.json", "last.ckpt"]


def fail_after(files: dict[str, str]) -> None:
    """A run that has written these files into its folder when it fails."""
    with pytest.raises(ZeroDivisionError), run_folder("mine", DATA) as run:
        raise write(run, files)


def write(run: Path, files: dict[str, str]) -> Exception:
    for name, text in files.items():
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(text)
    return ZeroDivisionError()


def test_run_that_came_to_nothing_leaves_nothing_that_hinders_the_right_command() -> None:
    fail_after({"config.json": "{}", "starts.jsonl": "{}", "steps.jsonl": "", "tensorboard/events": "head"})
    assert not Path("mine").exists()


@pytest.mark.parametrize("came_of_it", ["steps.jsonl", "nonfinite.json", "last.ckpt"])
def test_run_of_which_something_came_stays(came_of_it: str) -> None:
    fail_after({"config.json": "{}", came_of_it: "x"})
    assert sorted(os.listdir("mine")) == sorted(["config.json", came_of_it])


def test_run_that_an_earlier_process_began_stays() -> None:
    write(Path("mine"), {"config.json": "{}"})
    fail_after({"starts.jsonl": "{}"})
    assert sorted(os.listdir("mine")) == ["config.json", "starts.jsonl"]


def test_folder_with_nothing_but_what_a_killed_process_left_counts_as_empty() -> None:
    Path("mine/.scratch-x").mkdir(parents=True)
    with run_folder("mine", DATA) as run:
        assert os.listdir(run) == []


def test_file_that_cannot_be_written_whole_leaves_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    Path("report.json").write_text("earlier")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(Path("report.json"), "new")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [("report.json", "earlier")]


def test_file_is_written_through_a_link() -> None:
    Path("link").symlink_to("report.json")
    write_whole(Path("link"), "\udcff")
    assert (Path("link").is_symlink(), Path("report.json").read_bytes()) == (True, b"\xff")
