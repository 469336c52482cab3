"""Writes the result of `trainer eval` to disk: tables, and thumbnails of the worst rows."""

import contextlib
from pathlib import Path

from schemas.dataset import load_dataset
from trainer.errors import TrainerError, disk_error
from trainer.evaluation.details import PICTURES, Evaluation, picture_name, write_report
from trainer.feed.picture import Unreadable, thumbnail
from trainer.feed.pipeline import encoded_at
from trainer.runs.folder import EVALUATIONS, holds_run, scratch

SIDE = 320  # pixels; a thumbnail is about 20 KB
MAX_THUMBNAILS = 200


def keep_evaluation(evaluation: Evaluation, checkpoint: Path, report: Path | None) -> str:
    """Write tables and thumbnails to `report`, or to RUN/eval/<split> if `checkpoint` is a run folder.

    Returns a sentence that names the folder, empty if nothing is written. Raises TrainerError if `report` cannot be
    written; for a run folder that cannot be written, such as a colleague's, the sentence says so.
    """
    if report is not None:
        _write(report, evaluation)
        return f"report: {report}"
    if not holds_run(checkpoint):
        return ""
    folder = checkpoint / EVALUATIONS / evaluation.split
    try:
        _write(folder, evaluation)
    except TrainerError as error:
        return f"{error}; use --report FOLDER to write it elsewhere"
    return f"written to {folder}; 'trainer report {checkpoint}' makes a page of it"


def _write(folder: Path, evaluation: Evaluation) -> None:
    write_report(folder, evaluation)
    write_thumbnails(folder, evaluation)


def write_thumbnails(folder: Path, evaluation: Evaluation) -> int:
    """Write FOLDER/worst/0001.jpg and so on for the worst rows, replacing earlier ones. Return their number.

    Raises TrainerError if the folder cannot be written. An image that Pillow cannot read is left out.
    """
    folder = folder.absolute()
    thumbnails = _thumbnails(evaluation)  # before the earlier ones are deleted
    try:
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for path in (folder / PICTURES).glob("[0-9][0-9][0-9][0-9].jpg"):
            path.unlink()
        for number, content in thumbnails.items():
            (folder / picture_name(number)).write_bytes(content)
    except OSError as error:
        raise disk_error(error, f"cannot write the pictures into {folder / PICTURES}") from None
    return len(thumbnails)


def _thumbnails(evaluation: Evaluation) -> dict[int, bytes]:
    """Return JPEG bytes by index in `evaluation.worst`."""
    worst = evaluation.worst[:MAX_THUMBNAILS]
    rows = {number: each.row for number, each in enumerate(worst) if each.row is not None}
    if not rows:
        return {}
    folder = Path(evaluation.dataset)
    with scratch(None):
        images = encoded_at(folder, load_dataset(folder), evaluation.split, list(rows.values()))
    thumbnails = {}
    for number, row in rows.items():
        key, image = images[row]
        if key == worst[number].key:
            with contextlib.suppress(Unreadable):
                thumbnails[number] = thumbnail(image, SIDE)
    return thumbnails
