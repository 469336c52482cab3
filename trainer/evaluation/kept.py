"""What `trainer eval` keeps on disk: tables, and small pictures of the worst rows, for when the dataset is gone."""

import contextlib
from pathlib import Path

from schemas.dataset import load_dataset
from trainer.errors import TrainerError, disk_error
from trainer.evaluation.details import picture_name, write_report
from trainer.evaluation.evaluate import Evaluation
from trainer.feed.picture import Unreadable, thumbnail
from trainer.feed.pipeline import encoded_at
from trainer.runs.folder import EVALUATIONS, PICTURES, holds_run, scratch

SIDE = 320  # pixels: about 20 KB each
MOST = 200  # pictures, however many rows --worst names


def keep_evaluation(found: Evaluation, checkpoint: Path, report: Path | None) -> str:
    """Write tables and pictures into `report`, or else into RUN/eval/<split> when `checkpoint` is a run folder.

    Gives a sentence that says where, empty when nothing was to be kept. Raises TrainerError when `report` cannot be
    written; a run folder that cannot, such as a colleague's, is only said to be so.
    """
    if report is not None:
        _keep(report, found)
        return f"report: {report}"
    if not holds_run(checkpoint):
        return ""
    try:
        _keep(checkpoint / EVALUATIONS / found.split, found)
    except TrainerError as error:
        return f"{error}; with --report FOLDER it is kept elsewhere"
    return f"kept in {checkpoint / EVALUATIONS / found.split}; 'trainer report {checkpoint}' makes a page of it"


def _keep(folder: Path, found: Evaluation) -> None:
    write_report(folder, found)
    write_thumbnails(folder, found)


def write_thumbnails(folder: Path, found: Evaluation) -> int:
    """Write FOLDER/worst/0001.jpg and on for the rows of `found.worst`; those of an earlier report go. Gives how many.

    Raises TrainerError when the folder cannot be written. A picture that Pillow cannot read is left out.
    """
    folder = folder.absolute()
    pictures = _thumbnails(found)  # all are made before any of the earlier ones goes
    try:
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        for path in (folder / PICTURES).glob("[0-9][0-9][0-9][0-9].jpg"):
            path.unlink()
        for place, picture in pictures.items():
            (folder / picture_name(place)).write_bytes(picture)
    except OSError as error:
        raise disk_error(error, f"cannot write the pictures into {folder / PICTURES}") from None
    return len(pictures)


def _thumbnails(found: Evaluation) -> dict[int, bytes]:
    """JPEG bytes by place in `found.worst`, without those that cannot be read."""
    rows = {place: one.row for place, one in enumerate(found.worst[:MOST]) if one.row is not None}
    if not rows:
        return {}
    data = Path(found.dataset)
    with scratch(None):
        images = encoded_at(data, load_dataset(data), found.split, list(rows.values()))
    made = {}
    for place, row in rows.items():
        key, image = images[row]
        if key == found.worst[place].key:
            with contextlib.suppress(Unreadable):
                made[place] = thumbnail(image, SIDE)
    return made
