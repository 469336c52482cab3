"""File names in a dataset folder."""

DATASET = "dataset.json"
REJECTS = "rejects.jsonl"
DUPLICATES = "duplicates.jsonl"
ROW_DIGESTS = "row_digests.bin"  # one digest per row, to find damaged rows in any copy
REPORT = "report.html"
WORK = ".work"
PLAN = "plan.sqlite"  # in WORK: the plan of the job
SWAP = "swap.json"  # in WORK: exists while a new dataset replaces the old one
RUN_LOG = "run.jsonl"  # in WORK: one event per line; the last event is the state of the job
REFUSED = "refused"  # event in RUN_LOG: the job ended and was not sealed; the key `problem` says why

SPLITS = ("train", "val", "test")


def shard_name(split: str, index: int, count: int) -> str:
    """Return the name of shard `index` of `count`, as MindSpore's FileWriter names it: train.mindrecord07 of 12."""
    width = len(str(count - 1))
    return f"{split}.mindrecord{index:0{width}d}"


def index_name(shard: str) -> str:
    """Return the name of the SQLite index of a MindRecord file."""
    return shard + ".db"
