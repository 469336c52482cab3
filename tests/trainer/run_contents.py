"""The content of a run folder, for comparing two runs bit by bit."""

import json
from pathlib import Path

import mindspore


def contents(run: Path) -> list[object]:
    """The tensors of both checkpoints byte by byte, and what in the metrics is no time."""
    found: list[object] = []
    for name in ("best.ckpt", "last.ckpt"):
        entries = mindspore.load_checkpoint(str(run / name), crc_check=True)
        found += [(key, value.asnumpy().tobytes()) for key, value in entries.items() if not isinstance(value, str)]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return found + [[line[key] for key in ("epoch", "step", "loss", "lr", "skipped", "val_loss")] for line in lines]
