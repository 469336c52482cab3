"""`dataprep verify`: is a sealed set still what was sealed?"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from dataprep.build.decode_check.supervisor import DecodeChecker, ShardFiles
from dataprep.build.receipt import ROWS, NotedRow
from dataprep.build.row_digests import SealedDigests
from dataprep.build.workdir import rows_file
from dataprep.errors import DataprepError, TryLater
from dataprep.images.check import image_size
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
ROWS_NAMED = 5  # in a sentence; Verdict.damaged names all
TELL_EVERY_ROWS = 500
VERIFIED = "rows verified"

Tell = Callable[[str, int, int], None]  # what is at hand, how much of it is done, how much there is


def silent(what: str, done: int, total: int) -> None:
    """A Tell that shows nothing."""


@dataclass(frozen=True)
class DamagedRow:
    """A row that is not what was sealed: its number in the shard, and its key where that is known."""

    row: int
    key: str | None


@dataclass(frozen=True)
class Verdict:
    """What was checked, whether every byte was read for it, and every problem that was found, in words. `damaged` lists
    the damaged rows by shard, as far as they are known.
    """

    path: str
    digest: str
    shards: int
    rows: int
    full: bool
    problems: list[str]
    damaged: dict[str, list[DamagedRow]] = field(default_factory=dict)


def verify(folder: Path, full: bool = True, decode: bool = False, tell: Tell = silent) -> Verdict:
    """Check the files of a sealed set against its manifest; raises ContractError when there is no sound manifest.

    Always: every file is there with its size, the index digests and row counts hold, nothing else claims to be
    part of the set. With `full` every byte is read: digests, and the index against the data; of a damaged shard the
    damaged rows are named. With `decode` MindSpore decodes every image, in a child process that may die over it.
    `tell` is called as rows are done.
    """
    dataset = load_dataset(folder)
    problems = _foreign(folder, dataset) + rejects_problem(folder, dataset) + duplicates_problem(folder, dataset)
    digests = SealedDigests(folder / ROW_DIGESTS, dataset, full)
    problems += [digests.problem] if digests.problem else []
    look = _DeepLook(folder, dataset, digests, tell)
    for split in dataset.splits.values():
        for shard in split.shards:
            found = file_problems(folder, [shard])
            problems += found or _row_problems(folder, shard)
            if full and (folder / shard.name).is_file():
                problems += look.problems(split, shard, index_too=not found)
            look.done += shard.rows
            tell(VERIFIED, look.done, dataset.written)
    if decode and not problems:
        problems += _decode_problems(folder, dataset)
    if not problems:
        problems += _class_problems(folder, dataset)
    return Verdict(str(folder), dataset.digest, len(dataset.shards), dataset.written, full, problems, look.damaged)


def _foreign(folder: Path, dataset: Dataset) -> list[str]:
    known = {shard.name for shard in dataset.shards}
    names = sorted(path.name for split in SPLITS for path in listing(folder, f"{split}.mindrecord*"))
    strange = [name for name in names if name not in known and name.removesuffix(".db") not in known]
    return [f"{name} is not part of the sealed set; MindDataset may take it for one" for name in strange]


def duplicates_problem(folder: Path, dataset: Dataset) -> list[str]:
    """What is wrong with the list of equal pictures, in at most one sentence."""
    path = folder / DUPLICATES
    if not path.is_file():
        return [f"{DUPLICATES} is missing"]
    lines = path.read_bytes().count(b"\n")
    expected = dataset.duplicates.get("groups", 0)
    return [] if lines == expected else [f"{DUPLICATES} has {lines} lines, {expected} were sealed"]


def rejects_problem(folder: Path, dataset: Dataset) -> list[str]:
    """What is wrong with the list of rejected files, in at most one sentence."""
    path = folder / REJECTS
    if not path.is_file():
        return [f"{REJECTS} is missing"]
    try:
        reasons = Counter(json.loads(line)["reason"] for line in path.read_bytes().splitlines())
    except (ValueError, KeyError, TypeError):
        return [f"{REJECTS} has a line that is no reject"]
    return (
        []
        if reasons == Counter(dataset.rejected)
        else [f"{REJECTS} does not list what the manifest counts as rejected"]
    )


def _row_problems(folder: Path, shard: Shard) -> list[str]:
    """Row counts and names: what the header and the index say of themselves."""
    try:
        with ShardReader(folder / shard.name) as reader:
            rows, named = reader.rows, reader.own_name
            indexed = sum(1 for _ in islice(read_index(reader.path, reader.schema), shard.rows + 1))
    except ContractError as error:
        return [str(error)]
    except OSError as error:
        return [f"{shard.name} cannot be read: {error.strerror}"]
    problems = []
    if named != shard.name:
        problems.append(
            f"{shard.name} holds the data of {named}: files were swapped or renamed; 'dataprep repair' restores them"
        )
    if rows != shard.rows:
        problems.append(f"{shard.name} has {many(rows, 'row')}, {shard.rows:,} {were(shard.rows)} sealed")
    if indexed != shard.rows:
        more = "more" if indexed > shard.rows else many(indexed, "row")
        problems.append(f"{index_name(shard.name)} lists {more}, {shard.rows} were sealed")
    return problems


class _DeepLook:
    """Reads the shards of a set to their last byte. `done` counts the rows of the shards before the one at hand."""

    def __init__(self, folder: Path, dataset: Dataset, digests: SealedDigests, tell: Tell) -> None:
        self.damaged: dict[str, list[DamagedRow]] = {}
        self.done = 0
        self._folder = folder
        self._rows = dataset.written
        self._no_digests = digests.unknown
        self._set = DamagedSet(folder, dataset, digests)
        self._tell = tell

    def problems(self, split: Split, shard: Shard, index_too: bool) -> list[str]:
        """What is wrong with a shard, a sentence each."""
        path = self._folder / shard.name
        problems = []
        try:
            damage = "is not what was sealed (its sha256 differs)" if file_sha256(path) != shard.sha256 else ""
        except OSError as error:
            damage = f"cannot be read: {error.strerror}"
        if damage:
            problems.append(f"{shard.name} {damage}; {self._damaged_rows(split, shard)}")
        if index_too:
            try:
                with ShardReader(path) as reader:
                    problem = reader.index_problem(lambda number: self._tell_row(VERIFIED, number))
            except ContractError as error:
                problem = str(error)
            except OSError as error:
                problem = None if damage else f"{shard.name} cannot be read: {error.strerror}"
            problems += [problem] if problem else []
        return problems

    def _tell_row(self, what: str, number: int) -> None:
        if number % TELL_EVERY_ROWS == 0:
            self._tell(what, self.done + number, self._rows)

    def _damaged_rows(self, split: Split, shard: Shard) -> str:
        """Which rows of a damaged shard are damaged, as far as it can be known."""
        found: list[DamagedRow] = []
        unproven = 0
        for row in self._set.rows(split, shard, decode_unproven=False):
            if row.row is None:
                found.append(DamagedRow(row.number, row.key))
            unproven += not row.proven
            self._tell_row("rows searched for damage", row.number)
        if found:
            self.damaged[shard.name] = found
        named = ", ".join(f"{row.row} ('{row.key}')" if row.key else f"{row.row}" for row in found[:ROWS_NAMED])
        more = f" and {len(found) - ROWS_NAMED} more" if len(found) > ROWS_NAMED else ""
        if unproven:
            unknown = f"cannot tell which rows are damaged: {self._no_digests}"
            return f"{unknown}; unreadable: row {named}{more}" if found else unknown
        if not found:
            return "no row is damaged: the damage lies in the header or between rows"
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
    """The ROWS file of a shard that came without one: keys and labels from the data, sides from the images."""
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
    column = indexed.index(label) - len(indexed)  # the indexed values end an index row
    problems = []
    for name, split in dataset.splits.items():
        counts: Counter[int] = Counter()
        for shard in split.shards:
            counts.update(row[column] for row in read_index(folder / shard.name, dataset.schema))
        if [counts.pop(number, 0) for number in range(len(dataset.classes))] != list(split.class_rows) or counts:
            problems.append(f"the labels of {name} are not those that the manifest counts")
    return problems
