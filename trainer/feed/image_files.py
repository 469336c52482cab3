"""Find the image files in given files and folders, and record skipped files and folders."""

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
class Skipped:
    """Files and folders that were skipped.

    `closed` lists the folders that could not be listed, each with the error. `links` lists the symbolic links to
    folders. `system` maps each rule to the number of hidden or system files and folders.
    """

    closed: tuple[tuple[str, OSError], ...] = ()
    links: tuple[str, ...] = ()
    system: Counter[str] = field(default_factory=Counter)

    def check(self) -> None:
        """Raise Unlisted if a folder could not be listed, or Busy if the error may be temporary."""
        if not self.closed:
            return
        named = _some([f"'{folder}' ({error.strerror or error})" for folder, error in self.closed])
        raise _kind(*(error for _, error in self.closed))(
            f"{_count(len(self.closed), 'folder')} could not be listed, so their files have no row in the output: "
            f"{named}; give this user read access, and run the same command again"
        )

    def lines(self) -> list[str]:
        """Return one message per kind of skipped file or folder, except hidden files."""
        messages = []
        if self.links:
            named = _some([f"'{folder}'" for folder in self.links])
            messages.append(
                f"links to folders are not followed, so their files have no row in the output: "
                f"{_count(len(self.links), 'link')}, {named}; give a link as INPUT to follow the link"
            )
        known = {rule: count for rule, count in self.system.items() if rule not in ("hidden", "appledouble")}
        if known:
            kinds = ", ".join(f"{count:,} {rule}" for rule, count in sorted(known.items()))
            messages.append(f"system files and folders are skipped: {kinds}")
        return messages


def find_files(inputs: Iterable[Path]) -> tuple[list[Path], Skipped]:
    """Return the files in `inputs` and in the folders of `inputs`, and a record of skipped files and folders.

    The files of a folder are sorted. Hidden and system files are skipped. Raises WrongUsage if an input does not exist,
    and TrainerError if no file is found. Raises Unlisted or Busy if an input cannot be read, or if no file is found
    because a folder could not be listed.
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
    skipped = Skipped(tuple(closed), tuple(sorted(links)), system)
    if not files:
        skipped.check()
        why = "".join(f"; {line}" for line in skipped.lines())
        raise TrainerError(f"no files in {', '.join(map(str, inputs))}{why}")
    return files, skipped


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise WrongUsage(f"{path} does not exist; give image files, a folder of images, or a sealed dataset") from None
    except OSError as error:
        raise _kind(error)(f"cannot read {path}: {error.strerror or error}") from None


def _kind(*errors: OSError) -> type[TrainerError]:
    return Busy if any(error.errno in PASSING_ERRORS for error in errors) else Unlisted


def _inside(folder: Path, closed: list[tuple[str, OSError]], links: list[str], system: Counter[str]) -> Iterator[Path]:
    def note_closed(error: OSError) -> None:
        closed.append((str(error.filename or folder), error))

    for parent, folders, names in os.walk(folder, onerror=note_closed):
        kept = []
        for name in folders:
            rule = system_rule(name, is_folder=True)
            if rule:
                system[rule] += 1
            elif os.path.islink(os.path.join(parent, name)):
                links.append(os.path.join(parent, name))
            else:
                kept.append(name)
        folders[:] = sorted(kept)
        for name in names:
            rule = system_rule(name, is_folder=False)
            if rule:
                system[rule] += 1
            else:
                yield Path(parent, name)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
