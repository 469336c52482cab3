"""The images of a folder of class folders, at any depth, as `dataprep shard` reads them; what is skipped is counted."""

import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from trainer.errors import TrainerError
from trainer.feed.image_files import find_files

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp")  # what ImageFolderDataset takes and MindSpore decodes
SIGNATURES = {b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n\x1a\n": ".png", b"BM": ".bmp"}
# Why a file is skipped.
REFUSED = "refused by the set"
NO_CLASS = "in no class folder"
OTHER_FORMAT = "not JPEG, PNG or BMP"
UNREADABLE = "not readable, or not a file"
CLOSED, LINKED, SYSTEM = "folders that could not be listed", "links to folders", "hidden or of a system"


@dataclass
class ClassImages:
    """`files` are the images with the number of their class, in order; `endings` what their content calls for.

    `skipped` counts the rest by reason. `is_plain` says that ImageFolderDataset finds these files and no others.
    """

    files: list[tuple[Path, int]] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    is_plain: bool = True

    def skipped_text(self) -> str:
        """Return the counts in words; empty when nothing was skipped."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.items())


def class_images(folder: Path, refused: frozenset[str] = frozenset(), root: Path | None = None) -> ClassImages:
    """Return the images below the class folders of `folder`; content decides the format, never the name.

    `refused` are keys of the set: paths below `root`, the folder that was sharded. Raises TrainerError when there is no
    file at all.
    """
    paths, passed_over = find_files([folder])
    found = ClassImages()
    counts = (CLOSED, len(passed_over.closed)), (LINKED, len(passed_over.links)), (SYSTEM, passed_over.system.total())
    found.skipped.update({reason: count for reason, count in counts if count})
    classes = sorted({path.relative_to(folder).parts[0] for path in paths if path.parent != folder})
    numbers = {name: number for number, name in enumerate(classes)}
    for path in paths:
        reason, ending = _looked_at(path, folder, refused, root or folder)
        if reason:
            found.skipped[reason] += 1
        else:
            found.files.append((path, numbers[path.relative_to(folder).parts[0]]))
            found.endings.append(ending)
    found.is_plain = _seen_by_mindspore(folder) == {path for path, _ in found.files}
    return found


def _looked_at(path: Path, folder: Path, refused: frozenset[str], root: Path) -> tuple[str, str]:
    """Why a file is skipped, empty when it is not; and the ending that its content calls for."""
    if path.parent == folder:
        return NO_CLASS, ""
    if path.relative_to(root).as_posix() in refused:
        return REFUSED, ""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would block
            return UNREADABLE, ""
        with path.open("rb") as file:
            first = file.read(8)
    except OSError:
        return UNREADABLE, ""
    ending = next((ending for signature, ending in SIGNATURES.items() if first.startswith(signature)), "")
    return ("", ending) if ending else (OTHER_FORMAT, "")


def _seen_by_mindspore(folder: Path) -> set[Path]:
    """What ImageFolderDataset looks at: files in the class folders themselves, by their endings."""
    places = [place for place in folder.iterdir() if place.is_dir()]
    return {path for place in places for path in _listed(place) if path.suffix.lower() in ENDINGS}


def _listed(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except OSError as error:
        raise TrainerError(f"{place} could not be listed ({error.strerror}); let this user read it") from error


def as_links(images: ClassImages, folder: Path) -> None:
    """Link the images into `folder`, one folder per class, with the endings that ImageFolderDataset goes by."""
    for number, ((path, label), ending) in enumerate(zip(images.files, images.endings, strict=True)):
        place = folder / f"{label:05d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:07d}{ending}").symlink_to(path)
