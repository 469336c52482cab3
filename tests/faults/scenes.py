"""The commands of dataprep that the harness disturbs, each on a small set of its own, and what must hold afterwards."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.mindrecord import reader  # noqa: F401  a set that cannot be read is no scene
from tests.dataprep.examples import picture
from tests.faults.harness import Ended, Faults, Point, complaints, copy, run_plainly

MODULES = [
    *(
        "dataprep.cli.commands",
        "dataprep.pipeline",
        "dataprep.job.dry_run",
        "dataprep.cli.terminal",
        "dataprep.tools.inspect",
    ),
    *(
        "dataprep.tools.verify",
        "dataprep.tools.repair",
        "dataprep.report",
        "dataprep.report.render",
        "dataprep.report.figures",
    ),
]
COMMAND = "dataprep.cli.commands:main"
PROGRAM = (sys.executable, "-m", "dataprep")
JOB = ("--num-shards", "2", "--max-rejects", "9", "-q")  # with val: three shards
SERIAL = ("--engine", "serial", "--prove", "off")
RESULT = ("shards", "rows", "path", "digest", "problems", "done", "lost", "fields", "classes")  # compared of a --json


@dataclass(frozen=True)
class Scene:
    """One command. `words` may hold OUT, NEW and SOURCE; `below` is what of them fails; `make` prepares the folders."""

    name: str
    words: tuple[str, ...]
    make: Callable[[Path, Path], None]
    below: str = "box"
    alone: bool = True  # one process, so that it can be forked; else a program with workers and children


def _raw(source: Path) -> None:
    """Twelve images a class, one file that is none."""
    for number in range(24):
        path = source / ("cat" if number % 2 else "dog") / f"{number:02d}.img"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number, "PNG" if number % 3 else "JPEG"))
    (source / "cat" / "bad.jpg").write_bytes(b"<html>")
    (source / "cat" / "notes").write_text("no image by name or content")


def _plain(*words: str, **env: str) -> Ended:
    return run_plainly([*PROGRAM, *words], env)


def _sealed(source: Path, box: Path) -> None:
    _raw(source)
    done = _plain("shard", str(source), str(box / "out"), *JOB, *SERIAL)
    assert done.code == 0, done.err


def _begun(source: Path, box: Path) -> None:
    """One shard is in place, the others are not."""
    _raw(source)
    done = _plain("shard", str(source), str(box / "out"), *JOB, *SERIAL, DATAPREP_KILL_AT="commit.receipt")
    assert done.code == -9, done.err


def _fix_rejects(source: Path, box: Path) -> None:
    _sealed(source, box)
    (source / "cat" / "bad.jpg").write_bytes(picture(99))


def _swapped(source: Path, box: Path) -> None:
    """One index is gone, and two data files have each other's name."""
    _sealed(source, box)
    first, second = (box / "out" / f"train.mindrecord{number}" for number in (0, 1))
    first.rename(box / "out" / "x")
    second.rename(first)
    (box / "out" / "x").rename(second)
    (box / "out" / "val.mindrecord.db").unlink(missing_ok=True)
    for index in (box / "out").glob("val*.db"):
        index.unlink()


def _torn(source: Path, box: Path) -> None:
    """A byte of one image is another."""
    _sealed(source, box)
    path = box / "out" / "train.mindrecord0"
    data = bytearray(path.read_bytes())
    data[data.index(b"\x89PNG") + 30] ^= 0xFF
    path.write_bytes(data)


SHARD = ("shard", "SOURCE", "OUT", *JOB)
SCENES = {
    scene.name: scene
    for scene in (
        Scene("shard", (*SHARD, *SERIAL), lambda source, box: _raw(source)),
        Scene("shard, SOURCE", (*SHARD, *SERIAL), lambda source, box: _raw(source), "source"),
        Scene("rerun, unfinished", (*SHARD, *SERIAL), _begun),
        Scene("rerun, unfinished, SOURCE", (*SHARD, *SERIAL), _begun, "source"),
        Scene("rerun, complete", (*SHARD, *SERIAL), _sealed),
        Scene("overwrite", (*SHARD, *SERIAL, "--num-shards", "1", "--overwrite"), _sealed),
        Scene("retry-rejects", (*SHARD, *SERIAL, "--retry-rejects"), _fix_rejects),
        Scene("retry-rejects, SOURCE", (*SHARD, *SERIAL, "--retry-rejects"), _fix_rejects, "source"),
        Scene("verify", ("verify", "OUT", "--json"), _sealed),
        Scene("repair", ("repair", "OUT", "--json"), _swapped),
        Scene("repair --salvage", ("repair", "OUT", "--salvage", "NEW", "--json"), _torn),
        Scene("inspect", ("inspect", "OUT", "--split", "train", "--json"), _sealed),
        Scene("inspect --row", ("inspect", "OUT", "--split", "train", "--row", "3", "--json"), _sealed),
        Scene("report", ("report", "OUT", "-q", "--json"), _sealed),
        Scene("shard, workers", (*SHARD, "--workers", "2"), lambda source, box: _raw(source), alone=False),
    )
}


def state(folder: Path) -> dict[str, str]:
    """The digests of what a reader of a set sees."""
    passing = (".part", ".html", ".unfinished")
    files = [path for path in folder.glob("*") if path.is_file() and path.suffix not in passing]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Stage:
    """A scene with its folders, in a lane of its own: several may be played at once."""

    def __init__(self, scene: Scene, folder: Path, faults: Faults) -> None:
        self.scene = scene
        self.faults = faults
        self.source, self.template, self.box = folder / "source", folder / "template", folder / "box"
        shutil.rmtree(folder, ignore_errors=True)
        self.template.mkdir(parents=True)
        scene.make(self.source, self.template)
        self.before = state(self.template / "out")
        copy(self.template, self.box)
        ended, self.points = faults.trace(self.command, self.root)
        self.code, self.result = ended.code, self._result(ended)
        self.after = self._states()
        assert not complaints(ended), ended.err

    @property
    def command(self) -> list[str]:
        """What is run."""
        places = {"SOURCE": self.source, "OUT": self.box / "out", "NEW": self.box / "new"}
        words = [str(places.get(word, word)) for word in self.scene.words]
        return [COMMAND, *words] if self.scene.alone else [*PROGRAM, *words]

    @property
    def root(self) -> Path:
        """Below it calls fail."""
        return self.box if self.scene.below == "box" else self.source

    def play(self, point: Point, fault: Any) -> tuple[Ended, list[str]]:
        """Disturb the command once, run it again undisturbed, and say what is wrong."""
        copy(self.template, self.box)
        ended = self.faults.run(self.command, self.root, fault, point.number, timeout=120.0)
        wrong = complaints(ended)
        if ended.code == 0 and self.code == 0 and self.result != self._result(ended):
            wrong.append("another result")
        wrong += self._check_sealed()
        if "NEW" in self.scene.words and ended.code == 0:  # a new set that is whole is not written again
            return ended, wrong if self._states() == self.after else [*wrong, "other bytes"]
        again = self._plain(self.command)
        wrong += [f"rerun: {complaint}" for complaint in complaints(again)]
        if (again.code, self._result(again)) != (self.code, self.result) or self._states() != self.after:
            wrong.append(f"rerun: exit {again.code}, other bytes: {again.err.strip()[:200]}")
        return ended, wrong

    def _check_sealed(self) -> list[str]:
        """What is called sealed is the old set or the new one, and the old one is not lost before."""
        out, new = self.box / "out", self.box / "new"
        if (out / ".work" / "swap.json").is_file():  # whoever comes next finishes it
            self._plain([COMMAND, "verify", str(out)])
        now = state(out)
        if self.scene.name.startswith("repair"):  # which only gives names back
            lost = set(self.before.values()) - set(now.values())
            wrong = ["files lost"] if lost else []
            if (new / "dataset.json").exists() and state(new) != self.after[1]:
                wrong.append("a set sealed that is not whole")
            return wrong
        if "dataset.json" in now:
            return [] if now in (self.before, self.after[0]) else ["a set sealed that is not whole"]
        return ["the old set is lost"] if "dataset.json" in self.before else []

    def _plain(self, command: Sequence[str]) -> Ended:
        if not self.faults.launch or command[0] != COMMAND:
            return run_plainly([*PROGRAM, *command[1:]] if command[0] == COMMAND else command)
        return self.faults.launch(command, {"FAULT_ROOT": "", "FAULT_STATE": ""}, 120.0)

    def _states(self) -> tuple[dict[str, str], dict[str, str]]:
        return state(self.box / "out"), state(self.box / "new")

    def _result(self, ended: Ended) -> Any:
        """What it has found, where that is printed for machines; not what it did on the way, which a rerun need not."""
        if "--json" not in self.scene.words or not ended.out.strip():
            return None
        value = json.loads(ended.out)
        return {name: value[name] for name in RESULT if name in value and name != "done"}


def is_root() -> bool:
    """Whether permissions mean nothing to this user."""
    return os.geteuid() == 0
