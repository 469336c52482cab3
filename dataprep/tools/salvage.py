"""`dataprep repair --salvage`: write the undamaged rows of a dataset to a new sealed dataset."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from dataprep.build.records import find_record_kind
from dataprep.build.row_digests import SealedDigests, stored_digest
from dataprep.build.workdir import json_lines, save_row_digests, write_whole
from dataprep.build.worker import describe_shard
from dataprep.errors import DataprepError
from dataprep.items import Reject, StepProgress
from dataprep.mindrecord.reader import ShardReader
from dataprep.mindrecord.writer import ShardWriter
from dataprep.tools.damage import CheckedRow, DamagedSet
from dataprep.tools.repair import misplaced
from dataprep.tools.verify import PROGRESS_ROWS, duplicates_problem, no_progress, rejects_problem
from schemas.dataset import Dataset, Shard, Split, load_dataset
from schemas.layout import DATASET, DUPLICATES, REJECTS, ROW_DIGESTS, index_name

LOST = "lost"  # the reason of a row that could not be saved
_COLLECTED = "row_digests.collected"  # in NEW until it is sealed
UNFINISHED = "salvage.unfinished"  # in NEW while its rows are written: the digest of the damaged dataset


@dataclass(frozen=True)
class Salvaged:
    """The result of a salvage. `lost` counts rows by split; rejects.jsonl lists them.

    `unchecked` counts rows of damaged shards without a digest, written because they decode. `unknown` has a sentence
    for each other unknown property of the new dataset.
    """

    path: str
    digest: str
    rows: dict[str, int]
    lost: dict[str, int]
    unchecked: dict[str, int]
    unknown: list[str]


@dataclass
class _Salvage:
    """A running salvage. `digests` collects the digests of the written rows."""

    new: Path
    dataset: Dataset
    damaged: DamagedSet
    digests: BinaryIO
    progress: StepProgress
    lost: list[Reject] = field(default_factory=list)
    unchecked: int = 0
    done: int = 0

    def labels(self, row: dict[str, Any]) -> tuple[int, ...]:
        """Return the labels of a row."""
        schema = self.dataset.schema
        return find_record_kind(schema.kind).labels(schema, row)

    def split(self, split: Split) -> Split:
        """Write the undamaged rows of a split."""
        if not split.shards:
            return split
        names = [shard.name for shard in split.shards]
        class_rows = [0] * len(self.dataset.classes)
        geometry = self.damaged.geometry(split)
        if geometry is None:
            raise DataprepError(f"no shard of {names[0].split('.')[0]} has a readable header; nothing can be salvaged")
        shards = []
        for number, shard in enumerate(split.shards):
            with ShardWriter(self.new, names, number, self.dataset.schema, geometry) as writer:
                for row in self._undamaged_rows(split, shard, len(class_rows)):
                    self.digests.write(stored_digest(writer.write(row)))
                    for label in set(self.labels(row)):
                        class_rows[label] += 1
                writer.finish()
            shards.append(describe_shard(self.new / shard.name, writer.rows))
        return Split(tuple(class_rows), tuple(shards))

    def _undamaged_rows(self, split: Split, shard: Shard, classes: int) -> Iterator[dict[str, Any]]:
        for checked in self._rows(split, shard):
            row = checked.row
            if row is None or not all(0 <= label < classes for label in self.labels(row)):
                key = checked.key or f"row {checked.number} of {shard.name}"
                self.lost.append(Reject(key, LOST, f"its row in {shard.name} was damaged"))
            else:
                self.unchecked += not checked.verified
                yield row
            self.done += 1
            if self.done % PROGRESS_ROWS == 0:
                self.progress("rows read", self.done, self.dataset.written)

    def _rows(self, split: Split, shard: Shard) -> Iterator[CheckedRow]:
        if not self.damaged.is_undamaged(shard):
            yield from self.damaged.rows(split, shard)
            return
        with ShardReader(self.damaged.path(shard)) as reader:
            for number, row in enumerate(reader):
                yield CheckedRow(number, None, row, verified=True)


def salvage(folder: Path, new: Path, progress: StepProgress = no_progress) -> Salvaged:
    """Write the undamaged rows of `folder` to a new sealed dataset in `new`, and list the others as rejects.

    A row is undamaged if it has the sealed digest, or without a digest if its image decodes. After a kill the same call
    starts again from the first row. Raises DataprepError if `new` is not an empty folder.
    """
    dataset = load_dataset(folder)
    _claim(new, dataset)
    data = {target.name: path for path, target in misplaced(folder, dataset).items()}
    digests = SealedDigests(data.get(ROW_DIGESTS, folder / ROW_DIGESTS), dataset)
    damaged = DamagedSet(folder, dataset, digests, data)
    splits, lost, unchecked = {}, {}, {}
    with (new / _COLLECTED).open("w+b") as collected:
        job = _Salvage(new, dataset, damaged, collected, progress)
        for name, split in dataset.splits.items():
            lost_before, unchecked_before = len(job.lost), job.unchecked
            splits[name] = job.split(split)
            lost[name] = len(job.lost) - lost_before
            unchecked[name] = job.unchecked - unchecked_before
        collected.seek(0)
        sealed = save_row_digests(new, iter(lambda: collected.read(1 << 20), b""))
    (new / _COLLECTED).unlink()
    rejects, duplicates, unknown = _lists(folder, dataset)
    write_whole(new / REJECTS, rejects + json_lines(reject.to_dict() for reject in job.lost))
    write_whole(new / DUPLICATES, duplicates or b"")
    salvaged = replace(
        dataset,
        splits=splits,
        rejected=Counter(dataset.rejected) + Counter({LOST: len(job.lost)}),
        duplicates={} if duplicates is None else dataset.duplicates,
        plan={**dataset.plan, "salvaged_from": dataset.digest},
        row_digests=sealed,
    )
    write_whole(new / DATASET, salvaged.to_json())
    (new / UNFINISHED).unlink()
    if any(unchecked.values()):
        rows = sum(unchecked.values())
        unknown.insert(0, f"{rows} rows of damaged shards may have changed since sealing: {digests.unknown}")
    return Salvaged(
        str(new), salvaged.digest, {name: split.rows for name, split in splits.items()}, lost, unchecked, unknown
    )


def _claim(new: Path, dataset: Dataset) -> None:
    """Create the folder of the new dataset.

    If it has the files of a killed salvage of the same dataset, remove them.
    """
    mark = new / UNFINISHED
    if mark.is_file() and mark.read_text() in ("", dataset.digest):  # empty: killed while writing it
        names = [name for shard in dataset.shards for name in (shard.name, index_name(shard.name))]
        lists = [f"{listed}{end}" for listed in (REJECTS, DUPLICATES, ROW_DIGESTS, DATASET) for end in ("", ".part")]
        for name in (DATASET, _COLLECTED, *names, *lists):
            (new / name).unlink(missing_ok=True)
        mark.unlink()
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise DataprepError(f"{new} is not an empty folder; choose another")
    new.mkdir(parents=True, exist_ok=True)
    mark.write_text(dataset.digest)


def _lists(folder: Path, dataset: Dataset) -> tuple[bytes, bytes | None, list[str]]:
    """Return the lists of rejected files and duplicates, None if lost, and a sentence for each loss."""
    unknown = []
    if not rejects_problem(folder, dataset):
        rejects = (folder / REJECTS).read_bytes()
    else:
        lines, unnamed = _known_rejects(folder / REJECTS, dataset)
        rejects = json_lines(lines)
        if unnamed:
            unknown.append(f"the names of {unnamed} rejected files: {REJECTS} is missing or damaged")
    duplicates = None
    if not duplicates_problem(folder, dataset):
        duplicates = (folder / DUPLICATES).read_bytes()
    else:
        unknown.append(f"the duplicates: {DUPLICATES} is missing or damaged")
    return rejects, duplicates, unknown


def _known_rejects(path: Path, dataset: Dataset) -> tuple[list[dict[str, str | int]], int]:
    """Return as many rejects per reason as dataset.json counts, and the number of rejects without a name."""
    left = Counter(dataset.rejected)
    known = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError):
            reject = Reject(**json.loads(line))
            if left[reject.reason] > 0:
                left[reject.reason] -= 1
                known.append(reject.to_dict())
    unnamed = [reason for reason, count in sorted(left.items()) for _ in range(count)]
    detail = f"name unknown: {REJECTS} was missing or damaged"
    lines = [Reject(f"unknown file {number}", reason, detail).to_dict() for number, reason in enumerate(unnamed, 1)]
    return known + lines, len(unnamed)
