"""Images in class folders at any depth, as in `dataprep shard`, and the number of skipped files by reason."""

import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from trainer.errors import TrainerError
from trainer.feed.image_files import find_files

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp")  # accepted by ImageFolderDataset and decoded by MindSpore
SIGNATURES = {b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n\x1a\n": ".png", b"BM": ".bmp"}
# Reasons for skipping files.
REJECTED = "rejected by dataprep"
NO_CLASS = "in no class folder"
OTHER_FORMAT = "not JPEG, PNG or BMP"
UNREADABLE = "unreadable, or not a regular file"
CLOSED, LINKED, SYSTEM = "unreadable folders", "links to folders", "hidden or system files"


@dataclass
class ClassImages:
    """Images (`files`) with class numbers, in order, and the suffixes that match their contents (`endings`).

    `skipped` counts the other files by reason. `is_plain` is True if ImageFolderDataset would find the same files.
    """

    files: list[tuple[Path, int]] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    is_plain: bool = True

    def skipped_text(self) -> str:
        """Return the counts as text, empty if nothing was skipped."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.items())


def class_images(folder: Path, rejected: frozenset[str] = frozenset(), root: Path | None = None) -> ClassImages:
    """Return the images below the class folders of `folder`. The format is read from the content, not from the name.

    `rejected` are keys: paths relative to `root`, the source folder. Raises TrainerError if there is no file.
    """
    paths, passed_over = find_files([folder])
    found = ClassImages()
    counts = (CLOSED, len(passed_over.closed)), (LINKED, len(passed_over.links)), (SYSTEM, passed_over.system.total())
    found.skipped.update({reason: count for reason, count in counts if count})
    classes = sorted({path.relative_to(folder).parts[0] for path in paths if path.parent != folder})
    numbers = {name: number for number, name in enumerate(classes)}
    for path in paths:
        reason, ending = _checked(path, folder, rejected, root or folder)
        if reason:
            found.skipped[reason] += 1
        else:
            found.files.append((path, numbers[path.relative_to(folder).parts[0]]))
            found.endings.append(ending)
    found.is_plain = _found_by_mindspore(folder) == {path for path, _ in found.files}
    return found


def _checked(path: Path, folder: Path, rejected: frozenset[str], root: Path) -> tuple[str, str]:
    """Return (reason, "") for a file to skip, or ("", suffix that matches the content) for an image."""
    if path.parent == folder:
        return NO_CLASS, ""
    if path.relative_to(root).as_posix() in rejected:
        return REJECTED, ""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would block
            return UNREADABLE, ""
        with path.open("rb") as file:
            first = file.read(8)
    except OSError:
        return UNREADABLE, ""
    ending = next((ending for signature, ending in SIGNATURES.items() if first.startswith(signature)), "")
    return ("", ending) if ending else (OTHER_FORMAT, "")


def _found_by_mindspore(folder: Path) -> set[Path]:
    """Return the files that ImageFolderDataset finds: files directly in class folders, with an accepted suffix."""
    class_folders = [entry for entry in folder.iterdir() if entry.is_dir()]
    return {path for entry in class_folders for path in _listed(entry) if path.suffix.lower() in ENDINGS}


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise TrainerError(f"{folder} could not be listed ({error.strerror}); give this user read access") from error


def write_links(images: ClassImages, folder: Path) -> None:
    """Link the images into `folder`, one folder per class, with the suffixes that ImageFolderDataset accepts."""
    for number, ((path, label), ending) in enumerate(zip(images.files, images.endings, strict=True)):
        class_folder = folder / f"{label:05d}"
        class_folder.mkdir(parents=True, exist_ok=True)
        (class_folder / f"{number:07d}{ending}").symlink_to(path)
