"""`dataprep verify`: check that a sealed dataset is unchanged."""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from dataprep.build.decode_check.supervisor import DecodeChecker, ShardFiles
from dataprep.build.receipt import ROWS, NotedRow
from dataprep.build.row_digests import SealedDigests
from dataprep.build.workdir import rows_file
from dataprep.errors import DataprepError, TryLater
from dataprep.images.check import image_size
from dataprep.items import StepProgress
from dataprep.mindrecord.index import read_index
from dataprep.mindrecord.reader import ShardReader
from dataprep.tools.damage import DamagedSet
from schemas.counting import many, were
from schemas.dataset import Dataset, Shard, Split, file_problems, file_sha256, load_dataset
from schemas.errors import ContractError
from schemas.layout import DUPLICATES, REJECTS, ROW_DIGESTS, SPLITS, index_name
from schemas.process.host import usable_cores
from schemas.process.temporary_folder import temporary_folder_problem
from schemas.storage.files import listing

DECODE_DEADLINE_S = 60.0
ROWS_NAMED = 5  # in a message; Verdict.damaged has all
PROGRESS_ROWS = 500
VERIFIED = "rows verified"


def no_progress(step: str, done: int, total: int) -> None:
    """Show nothing; a StepProgress."""


@dataclass(frozen=True)
class DamagedRow:
    """A damaged row: its number in the shard, and its key if known."""

    row: int
    key: str | None


@dataclass(frozen=True)
class Verdict:
    """The result of a check.

    `full` is True if every byte was read. `problems` has a sentence per problem. `damaged` lists the damaged rows by
    shard, as far as they are known.
    """

    path: str
    digest: str
    shards: int
    rows: int
    full: bool
    problems: list[str]
    damaged: dict[str, list[DamagedRow]] = field(default_factory=dict)


def verify(folder: Path, full: bool = True, decode: bool = False, progress: StepProgress = no_progress) -> Verdict:
    """Check the files of a sealed dataset against dataset.json. Raises ContractError if that is missing or damaged.

    Always checked: the size of every file, index digests and row counts, and that there are no other shards. `full`
    reads every byte: digests, index against data, and the damaged rows of damaged shards. `decode` decodes every image
    with MindSpore, in a child process because the decoder may crash.
    """
    dataset = load_dataset(folder)
    problems = _foreign(folder, dataset) + rejects_problem(folder, dataset) + duplicates_problem(folder, dataset)
    digests = SealedDigests(folder / ROW_DIGESTS, dataset, full)
    problems += [digests.problem] if digests.problem else []
    deep = _DeepCheck(folder, dataset, digests, progress)
    for split in dataset.splits.values():
        for shard in split.shards:
            file_problem = file_problems(folder, [shard])
            problems += file_problem or _row_problems(folder, shard)
            if full and (folder / shard.name).is_file():
                problems += deep.problems(split, shard, check_index=not file_problem)
            deep.done += shard.rows
            progress(VERIFIED, deep.done, dataset.written)
    if decode and not problems:
        problems += _decode_problems(folder, dataset)
    if not problems:
        problems += _class_problems(folder, dataset)
    return Verdict(str(folder), dataset.digest, len(dataset.shards), dataset.written, full, problems, deep.damaged)


def _foreign(folder: Path, dataset: Dataset) -> list[str]:
    known = {shard.name for shard in dataset.shards}
    names = sorted(path.name for split in SPLITS for path in listing(folder, f"{split}.mindrecord*"))
    foreign = [name for name in names if name not in known and name.removesuffix(".db") not in known]
    return [f"{name} is not part of the dataset; MindDataset may read it as a shard" for name in foreign]


def duplicates_problem(folder: Path, dataset: Dataset) -> list[str]:
    """Return the problem of duplicates.jsonl, if there is one."""
    path = folder / DUPLICATES
    if not path.is_file():
        return [f"{DUPLICATES} is missing"]
    lines = path.read_bytes().count(b"\n")
    expected = dataset.duplicates.get("groups", 0)
    return [] if lines == expected else [f"{DUPLICATES} has {lines} lines, expected {expected}"]


def rejects_problem(folder: Path, dataset: Dataset) -> list[str]:
    """Return the problem of rejects.jsonl, if there is one."""
    path = folder / REJECTS
    if not path.is_file():
        return [f"{REJECTS} is missing"]
    try:
        reasons = Counter(json.loads(line)["reason"] for line in path.read_bytes().splitlines())
    except (ValueError, KeyError, TypeError):
        return [f"{REJECTS} has an invalid line"]
    return [] if reasons == Counter(dataset.rejected) else [f"{REJECTS} differs from the counts in dataset.json"]


def _row_problems(folder: Path, shard: Shard) -> list[str]:
    """Check row counts and names in the header and the index."""
    try:
        with ShardReader(folder / shard.name) as reader:
            rows, sealed_name = reader.rows, reader.own_name
            indexed = sum(1 for _ in islice(read_index(reader.path, reader.schema), shard.rows + 1))
    except ContractError as error:
        return [str(error)]
    except OSError as error:
        return [f"{shard.name} cannot be read: {error.strerror}"]
    problems = []
    if sealed_name != shard.name:
        problems.append(
            f"{shard.name} contains the data of {sealed_name}: files were swapped or renamed; "
            "'dataprep repair' restores them"
        )
    if rows != shard.rows:
        problems.append(f"{shard.name} has {many(rows, 'row')}, {shard.rows:,} {were(shard.rows)} sealed")
    if indexed != shard.rows:
        more = "more" if indexed > shard.rows else many(indexed, "row")
        problems.append(f"{index_name(shard.name)} lists {more}, expected {shard.rows}")
    return problems


class _DeepCheck:
    """Reads every byte of the shards. `done` counts the rows of the finished shards."""

    def __init__(self, folder: Path, dataset: Dataset, digests: SealedDigests, progress: StepProgress) -> None:
        self.damaged: dict[str, list[DamagedRow]] = {}
        self.done = 0
        self._folder = folder
        self._rows = dataset.written
        self._no_digests = digests.unknown
        self._set = DamagedSet(folder, dataset, digests)
        self._progress = progress

    def problems(self, split: Split, shard: Shard, check_index: bool) -> list[str]:
        """Return the problems of a shard, one sentence each."""
        path = self._folder / shard.name
        problems = []
        try:
            damage = "is damaged (its sha256 differs)" if file_sha256(path) != shard.sha256 else ""
        except OSError as error:
            damage = f"cannot be read: {error.strerror}"
        if damage:
            problems.append(f"{shard.name} {damage}; {self._damaged_rows(split, shard)}")
        if check_index:
            try:
                with ShardReader(path) as reader:
                    problem = reader.index_problem(lambda number: self._show_row(VERIFIED, number))
            except ContractError as error:
                problem = str(error)
            except OSError as error:
                problem = None if damage else f"{shard.name} cannot be read: {error.strerror}"
            problems += [problem] if problem else []
        return problems

    def _show_row(self, step: str, number: int) -> None:
        if number % PROGRESS_ROWS == 0:
            self._progress(step, self.done + number, self._rows)

    def _damaged_rows(self, split: Split, shard: Shard) -> str:
        """Return a sentence about the damaged rows of a damaged shard, and record them."""
        damaged: list[DamagedRow] = []
        unverified = 0
        for row in self._set.rows(split, shard, decode_unverified=False):
            if row.row is None:
                damaged.append(DamagedRow(row.number, row.key))
            unverified += not row.verified
            self._show_row("rows searched for damage", row.number)
        if damaged:
            self.damaged[shard.name] = damaged
        named = ", ".join(f"{row.row} ('{row.key}')" if row.key else f"{row.row}" for row in damaged[:ROWS_NAMED])
        more = f" and {len(damaged) - ROWS_NAMED} more" if len(damaged) > ROWS_NAMED else ""
        if unverified:
            unknown = f"cannot tell which rows are damaged: {self._no_digests}"
            return f"{unknown}; unreadable: row {named}{more}" if damaged else unknown
        if not damaged:
            return "no row is damaged: the damage is in the header or between rows"
        return f"damaged: row {named}{more}"


def _decode_problems(folder: Path, dataset: Dataset) -> list[str]:
    problem = temporary_folder_problem()
    if problem:
        raise (TryLater if problem.full else DataprepError)(problem.text)
    problems = []
    keep = dataset.plan.get("options", {}).get("warnings") == "keep"
    with (
        tempfile.TemporaryDirectory() as scratch,
        DecodeChecker(dataset.schema, Path(scratch), "full", usable_cores(), DECODE_DEADLINE_S, keep) as checker,
    ):
        for shard in dataset.shards:
            noted = rows_file(folder, shard.name)
            if not noted.is_file():
                noted = _note_from_data(folder / shard.name, dataset, Path(scratch))
            for fault in checker.check(ShardFiles(folder / shard.name, shard.rows, noted)).faults:
                problems.append(f"{shard.name}: row {fault.row} fails decoding: {fault.reason}: {fault.detail}")
    return problems


def _note_from_data(path: Path, dataset: Dataset, scratch: Path) -> Path:
    """Write the missing ROWS file of a shard. Keys and labels come from the data, sizes from the images."""
    image, label, key = (dataset.schema.column(role) for role in ("image", "label", "key"))
    noted = scratch / ROWS
    with ShardReader(path) as reader, noted.open("w") as rows:
        for row in reader:
            width, height = image_size(row[image])
            rows.write(json.dumps(NotedRow(row[key], row[label], width, height, "", "", "")) + "\n")
    return noted


def _class_problems(folder: Path, dataset: Dataset) -> list[str]:
    indexed = [field.name for field in dataset.schema.index_fields]
    label = dataset.schema.column("label")
    if label not in indexed:
        return []
    column = indexed.index(label) - len(indexed)  # the indexed values are the last of an index row
    problems = []
    for name, split in dataset.splits.items():
        counts: Counter[int] = Counter()
        for shard in split.shards:
            counts.update(row[column] for row in read_index(folder / shard.name, dataset.schema))
        if [counts.pop(number, 0) for number in range(len(dataset.classes))] != list(split.class_rows) or counts:
            problems.append(f"the labels of {name} differ from the counts in dataset.json")
    return problems
