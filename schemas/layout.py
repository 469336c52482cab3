"""Every file name in a dataset folder."""

DATASET = "dataset.json"
REJECTS = "rejects.jsonl"
DUPLICATES = "duplicates.jsonl"
ROW_DIGESTS = "row_digests.bin"  # a digest per row, by which damaged rows are found on any copy
REPORT = "report.html"
WORK = ".work"
PLAN = "plan.sqlite"  # in WORK: the plan of the job that made the set
SWAP = "swap.json"  # in WORK: a new set is being moved into the place of the old one
RUN_LOG = "run.jsonl"  # in WORK: what happened, a line each; the last says how the job stands
REFUSED = "refused"  # an event there: a job came to its end and was not sealed, for the reason in `problem`

SPLITS = ("train", "val", "test")


def shard_name(split: str, index: int, count: int) -> str:
    """Name of shard `index` of `count`, as MindSpore's FileWriter names them: train.mindrecord07 of 12."""
    width = len(str(count - 1))
    return f"{split}.mindrecord{index:0{width}d}"


def index_name(shard: str) -> str:
    """Name of the SQLite index that MindRecord keeps beside a shard."""
    return shard + ".db"
