"""`trainer bench`: compare the speed of shards, of image files read in C++, and of image files read in Python."""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore.dataset import vision

from schemas.counting import many
from trainer.config import RunConfig
from trainer.device.context import this_machine
from trainer.doctor.class_folders import ENDINGS, ClassImages, class_images, write_links
from trainer.doctor.notes import Measuring, SkippedFiles, Tell, WritingSample
from trainer.doctor.samples import (
    MOST_BYTES,
    Row,
    rejected_files,
    sample_rows,
    write_dataset,
    write_files,
)
from trainer.doctor.session import Session
from trainer.doctor.stages import Measured, Stage, feeding, medians, pipeline_stage
from trainer.errors import TrainerError, WrongUsage, first_line
from trainer.feed.picture import plain_picture
from trainer.feed.pipeline import batched, train_transforms
from trainer.plan.prepare import check_data, prepared
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.signals import StopSignals

SHARDS, FILES, PYTHON = "MindDataset", "ImageFolderDataset", "GeneratorDataset"
ROUNDS = 5
SAMPLE_ROWS = 4000
LEAST_BATCHES = 2


@dataclass(frozen=True)
class Comparison:
    """Result of `trainer bench`. `images` is the given folder, or None for a sample of rows.

    `files` is the number of images in the folder. `gains` are the median speed ratios of MindDataset to the other
    sources. `skipped` has the number of files that were not read, by reason. `python_decodes` is True if
    GeneratorDataset decodes with Pillow, False if it returns bytes.
    """

    dataset: str
    images: str | None
    rows: int
    shards: int
    files: int
    recipe: str
    image_size: int
    batch_size: int
    workers: int
    python_decodes: bool
    sources: list[Measured]
    gains: dict[str, float]
    rounds: int
    seconds: float
    skipped: dict[str, int] = field(default_factory=dict)


class ImageFiles:
    """GeneratorDataset source as in tutorials: a row has an image file, as pixels or bytes, and its label."""

    def __init__(self, files: Sequence[tuple[Path, int]], decodes: bool) -> None:
        self.files = files
        self.decodes = decodes

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.files[index]
        image = plain_picture(path) if self.decodes else np.fromfile(path, np.uint8)
        return image, np.int32(label)


def compare(
    config: RunConfig,
    images: Path | None,
    seconds: float,
    tell: Tell,
    stop: StopSignals,
    home: Path = Path(),
) -> Comparison:
    """Measure three sources of batches for about `seconds`. Only temporary files are written.

    `images` has class folders, or a folder train with class folders. If `images` is None, a sample of rows is written
    as files and as a dataset. `tell` receives progress notes. `home` is as in RunPlan. Raises TrainerError or
    ContractError if a run could not start, and Interrupted after a signal.
    """
    images = None if images is None else images.resolve()
    plan = plan_run(replace(config, device="CPU"), this_machine("CPU"), home=home)
    check_data(plan, ("train",))
    with prepared(plan) as scratch:
        session = Session(plan, scratch, seconds, stop, tell)
        if images is None:
            source, folder = _sampled(session)
            sample = class_images(folder)
        else:
            source = plan
            folder, sample = given_images(plan, images, scratch, tell)
        if len(sample.files) < LEAST_BATCHES * config.batch_size:
            skipped = f" (skipped: {sample.skipped_text()})" if sample.skipped else ""
            raise TrainerError(
                f"{many(len(sample.files), 'image')} in class folders of {images or folder}{skipped}: too few for "
                f"{LEAST_BATCHES} batches of {config.batch_size}; use a smaller --batch-size, or another --against"
            )
        tell(Measuring(seconds))
        return replace(_compare(session, source, folder, sample.files, images), skipped=dict(sample.skipped))


def _compare(
    session: Session, source: RunPlan, folder: Path, files: list[tuple[Path, int]], images: Path | None
) -> Comparison:
    plan, config = session.plan, session.plan.config
    decodes = for_pixels(train_transforms(plan.recipe, plan.pixels)) is not None
    parts = [
        pipeline_stage(SHARDS, source, feeding),
        _named(folder, pipeline_stage(FILES, source, lambda plan: _from_folder(plan, folder))),
        _named(folder, pipeline_stage(PYTHON, source, lambda plan: _from_python(plan, files))),
    ]
    turns = session.rounds(parts, ROUNDS, session.left_s())
    rates = {name: [turn.images_per_s for turn in done] for name, done in turns.items()}
    gains = {
        name: statistics.median(ours / theirs for ours, theirs in zip(rates[SHARDS], rates[name], strict=True))
        for name in (FILES, PYTHON)
    }
    return Comparison(
        dataset=str(plan.folder),
        images=None if images is None else str(images),
        rows=source.train_split.rows,
        shards=len(source.train_split.shards),
        files=len(files),
        recipe=config.recipe,
        image_size=plan.pixels.size,
        batch_size=config.batch_size,
        workers=plan.effect.workers,
        python_decodes=decodes,
        sources=list(medians(turns).values()),
        gains=gains,
        rounds=len(rates[SHARDS]),
        seconds=round(session.spent_s, 1),
    )


def given_images(plan: RunPlan, images: Path, scratch: Path, tell: Tell) -> tuple[Path, ClassImages]:
    """Return a folder for ImageFolderDataset, and the images in class folders of `images` or of `images`/train.

    Files that dataprep rejected are left out, because a rejected file would stop the measurement. ImageFolderDataset
    goes by file names and ignores subfolders. If it would read other files, the returned folder has links in `scratch`.
    Raises WrongUsage if `images` is not a folder.
    """
    if not images.is_dir():
        raise WrongUsage(f"--against {images} is not a folder; give the source folder of the dataset")
    folder = images / "train" if (images / "train").is_dir() else images
    found = class_images(folder, rejected_files(plan.folder), images)
    if found.skipped:
        tell(SkippedFiles(folder, found.skipped))
    if found.is_plain:
        return folder, found
    links = scratch / "files"
    write_links(found, links)
    return links, found


def _sampled(session: Session) -> tuple[RunPlan, Path]:
    plan = session.plan
    rows: list[Row] = sample_rows(plan, SAMPLE_ROWS)
    session.tell(WritingSample(len(rows), plan.train_split.rows, MOST_BYTES))
    folder = session.scratch / "files"
    write_files(rows, folder)
    return write_dataset(rows, session.scratch / "shards", plan), folder


def _from_folder(plan: RunPlan, folder: Path) -> Any:
    endings = [*ENDINGS, *map(str.upper, ENDINGS)]
    rows = ds.ImageFolderDataset(
        str(folder), num_parallel_workers=plan.effect.workers, shuffle=True, extensions=endings
    )
    return _batched(rows, plan, train_transforms(plan.recipe, plan.pixels))


def _from_python(plan: RunPlan, files: Sequence[tuple[Path, int]]) -> Any:
    transforms = train_transforms(plan.recipe, plan.pixels)
    on_pixels = for_pixels(transforms)
    # Worker processes are not used: they would not receive stop signals, and their CPU time is not measured.
    rows = ds.GeneratorDataset(
        ImageFiles(files, on_pixels is not None),
        ["image", "label"],
        num_parallel_workers=plan.effect.workers,
        shuffle=True,
        python_multiprocessing=False,
    )
    return _batched(rows, plan, transforms if on_pixels is None else on_pixels)


def _batched(rows: Any, plan: RunPlan, transforms: list[Any]) -> Any:
    schema = plan.dataset.schema
    columns = [schema.column("image"), schema.column("label")]
    if columns != ["image", "label"]:
        rows = rows.rename(["image", "label"], columns)
    return batched(rows, plan.dataset, plan.recipe, transforms, plan.config.batch_size, plan.effect)


def for_pixels(transforms: Sequence[Any]) -> list[Any] | None:
    """Return the transforms for decoded images, or None if the first transform is not a decoder of MindSpore."""
    first, *rest = transforms
    if isinstance(first, vision.Decode):
        return rest
    if isinstance(first, vision.RandomCropDecodeResize):
        settings = (first.size, first.scale, first.ratio, first.interpolation, first.max_attempts)
        return [vision.RandomResizedCrop(*settings), *rest]
    return None


def _named(folder: Path, part: Stage) -> Stage:
    def work(timer: Any) -> float | None:
        with _errors_of(folder, part.name):
            return part.work(timer)

    return replace(part, work=work)


@contextlib.contextmanager
def _errors_of(folder: Path, source: str) -> Iterator[None]:
    """Re-raise a RuntimeError of a pipeline on files as a TrainerError that names `folder` and `source`."""
    try:
        yield
    except RuntimeError as error:
        raise TrainerError(
            f"{source} failed on {folder}: {first_line(error)}; this pipeline stops at a file that it cannot decode; "
            "omit --against to compare with rows of the dataset"
        ) from error
