"""Finds the image files that a user means by files and folders, and says what it passes over."""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from schemas.errors import PASSING_ERRORS
from schemas.images.system_names import system_rule
from trainer.errors import Busy, TrainerError, Unlisted, WrongUsage

_NAMED = 5


@dataclass(frozen=True)
class PassedOver:
    """What lies in the folders given and is not looked at.

    `closed` are folders that could not be listed, with the error; `links` are links to folders; `system` counts hidden
    files and those of the system by the rule that says so.
    """

    closed: tuple[tuple[str, OSError], ...] = ()
    links: tuple[str, ...] = ()
    system: Counter[str] = field(default_factory=Counter)

    def check(self) -> None:
        """Raise Unlisted when folders could not be listed, Busy where waiting may help."""
        if not self.closed:
            return
        named = _some([f"'{folder}' ({error.strerror or error})" for folder, error in self.closed])
        raise _kind(*(error for _, error in self.closed))(
            f"{_count(len(self.closed), 'folder')} could not be listed, so the files in them have no row: {named}; let "
            "this user read them, and run the same command again"
        )

    def lines(self) -> list[str]:
        """What a person should know of the rest, a sentence each; hidden files are none of it."""
        told = []
        if self.links:
            named = _some([f"'{folder}'" for folder in self.links])
            told.append(
                f"links to folders are not followed, so their files have no row: {_count(len(self.links), 'link')}, "
                f"{named}; a link that is given as INPUT is followed"
            )
        known = {rule: count for rule, count in self.system.items() if rule not in ("hidden", "appledouble")}
        if known:
            kinds = ", ".join(f"{count:,} {rule}" for rule, count in sorted(known.items()))
            told.append(f"files and folders of systems are passed over: {kinds}")
        return told


def find_files(inputs: Iterable[Path]) -> tuple[list[Path], PassedOver]:
    """The files meant, and what was passed over: those named, and in folders all but hidden and system ones, by path.

    Raises TrainerError when an input is not there or no file is found, Unlisted or Busy when that is because folders or
    an input itself cannot be looked into.
    """
    inputs = list(inputs)
    files: list[Path] = []
    closed: list[tuple[str, OSError]] = []
    links: list[str] = []
    system: Counter[str] = Counter()
    for each in inputs:
        if _is_folder(each):
            files += sorted(_inside(each, closed, links, system))
        else:
            files.append(each)
    passed_over = PassedOver(tuple(closed), tuple(sorted(links)), system)
    if not files:
        passed_over.check()
        why = "".join(f"; {line}" for line in passed_over.lines())
        raise TrainerError(f"no files in {', '.join(map(str, inputs))}{why}")
    return files, passed_over


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise WrongUsage(f"{path} is not there; give image files, a folder of them, or a sealed dataset") from None
    except OSError as error:
        raise _kind(error)(f"cannot look at {path}: {error.strerror or error}") from None


def _kind(*errors: OSError) -> type[TrainerError]:
    return Busy if any(error.errno in PASSING_ERRORS for error in errors) else Unlisted


def _inside(folder: Path, closed: list[tuple[str, OSError]], links: list[str], system: Counter[str]) -> Iterator[Path]:
    def note_closed(error: OSError) -> None:
        closed.append((str(error.filename or folder), error))

    for place, folders, names in os.walk(folder, onerror=note_closed):
        kept = []
        for name in folders:
            rule = system_rule(name, is_folder=True)
            if rule:
                system[rule] += 1
            elif os.path.islink(os.path.join(place, name)):
                links.append(os.path.join(place, name))
            else:
                kept.append(name)
        folders[:] = sorted(kept)
        for name in names:
            rule = system_rule(name, is_folder=False)
            if rule:
                system[rule] += 1
            else:
                yield Path(place, name)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
