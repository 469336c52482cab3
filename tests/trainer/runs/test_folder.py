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


def test_empty_run_folder_is_removed() -> None:
    with pytest.raises(ZeroDivisionError), run_folder(None, DATA):
        raise ZeroDivisionError
    assert not Path("runs").exists()


def test_existing_empty_folder_is_used() -> None:
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


def test_run_inside_the_dataset_is_rejected() -> None:
    with pytest.raises(TrainerError, match="inside the dataset"), run_folder("set/run", Path("set").resolve()):
        pass


def test_run_folder_that_cannot_be_created_is_reported() -> None:
    Path("file").touch()
    with pytest.raises(TrainerError, match="cannot create the run folder"), run_folder("file/run", DATA):
        pass


def test_next_run_folder_creates_nothing() -> None:
    assert next_run_folder(None, DATA).name == "flowers-1"
    assert not Path("runs").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_scratch_removes_its_folder_and_restores_the_directory(fails: bool, tmp_path: Path) -> None:
    home = Path.cwd()
    try:
        with scratch(tmp_path) as folder:
            os.mkdir("rank_0")
            assert (folder / "rank_0").is_dir()
            assert folder.parent == tmp_path
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert Path.cwd() == home
    assert os.listdir(tmp_path) == ["work"]


def test_folder_of_a_running_process_is_rejected() -> None:
    with run_folder("mine", DATA) as run:
        (run / "config.json").touch()
        with pytest.raises(Busy, match="another process is training in"), run_folder("mine", DATA):
            pass


def test_existing_run_is_reused_without_temporary_files() -> None:
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


def test_folder_of_a_run_without_steps_is_removed() -> None:
    fail_after({"config.json": "{}", "starts.jsonl": "{}", "steps.jsonl": "", "tensorboard/events": "head"})
    assert not Path("mine").exists()


@pytest.mark.parametrize("came_of_it", ["steps.jsonl", "nonfinite.json", "last.ckpt"])
def test_folder_of_a_run_with_results_is_kept(came_of_it: str) -> None:
    fail_after({"config.json": "{}", came_of_it: "x"})
    assert sorted(os.listdir("mine")) == sorted(["config.json", came_of_it])


def test_folder_of_an_earlier_process_is_kept() -> None:
    write(Path("mine"), {"config.json": "{}"})
    fail_after({"starts.jsonl": "{}"})
    assert sorted(os.listdir("mine")) == ["config.json", "starts.jsonl"]


def test_folder_with_temporary_files_only_counts_as_empty() -> None:
    Path("mine/.scratch-x").mkdir(parents=True)
    with run_folder("mine", DATA) as run:
        assert os.listdir(run) == []


def test_failed_write_keeps_the_earlier_file(monkeypatch: pytest.MonkeyPatch) -> None:
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
