"""Run folders as `trainer run` and `trainer eval` leave them, written without training."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainer.config import RunConfig
from trainer.decisions import Decision
from trainer.evaluation.details import Details, Evaluation, picture_name, write_report
from trainer.runs.history import Start

STEPS = 10  # an epoch
CONFIG = RunConfig("data/flowers", epochs=4, batch_size=16)
DECISIONS = (
    Decision("device", "default", "CPU", "MindSpore finds no Ascend here"),
    Decision("peak lr", "default", "0.003", "adamw, batch 16, cosine"),
)


def epoch(number: int, **other: Any) -> dict[str, Any]:
    """A line of metrics.jsonl; the third epoch is the best."""
    accuracy = (0.5, 0.7, 0.9, 0.8, 0.6)[(number - 1) % 5]
    line = {"epoch": number, "step": STEPS * number, "loss": 2.0 / number, "lr": 0.1, "images_per_s": 100.0 + number}
    line |= {"data_wait": 0.25, "skipped": 0, "train_s": 1.5, "val_s": 0.5, "val_loss": 1.5 / number}
    return line | {"val_accuracy": accuracy} | other


def step(number: int, **other: Any) -> dict[str, Any]:
    """A line of steps.jsonl."""
    line = {"epoch": (number - 1) // STEPS + 1, "step": number, "loss": 2.0 + (number % 3) / 10 - number / 40}
    return line | {"lr": 0.1, "images_per_s": 100.0, "data_wait": 0.2} | other


def lines(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in content))


def start(after: int = 0, **effects: str) -> Start:
    """A process of the run; `effects` are in effect instead of what is usual."""
    decisions = tuple(replace(one, effect=effects.get(one.setting, one.effect)) for one in DECISIONS)
    return Start(after, "2026-01-02T03:04:05+00:00", "d" * 64, {"mindspore": "2.10.0"}, decisions)


def write_run(folder: Path, config: RunConfig = CONFIG, epochs: int | None = None, complete: bool = True) -> Path:
    """A run of so many epochs, by default all that were asked for."""
    folder.mkdir(parents=True)
    done = config.epochs if epochs is None else epochs
    (folder / "config.json").write_text(config.to_json())
    lines(folder / "starts.jsonl", [asdict(start())])
    lines(folder / "metrics.jsonl", [epoch(number) for number in range(1, done + 1)])
    lines(folder / "steps.jsonl", [step(number) for number in range(1, STEPS * done + 1)])
    if complete:
        (folder / "result.json").write_text(json.dumps({"best_epoch": 3, "seconds": 12.5, "dataset_digest": "d" * 64}))
    return folder


def jpeg(colour: tuple[int, int, int] = (200, 30, 30), side: int = 48) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(buffer, "JPEG")
    return buffer.getvalue()


def write_evaluation(
    run: Path, classes: tuple[str, ...], rows: int, worst: int = 5, split: str = "val", **other: Any
) -> Path:
    """RUN/eval/<split>: row i is of class i and predicted as the next class if i is a multiple of three."""
    labels = np.arange(rows, dtype=np.int32) % len(classes)
    guesses = (labels + (np.arange(rows) % 3 == 0)) % len(classes)
    logits = np.zeros((rows, len(classes)), np.float32)
    logits[np.arange(rows), guesses] = 5 + np.arange(rows) / rows
    details = Details(classes, worst)
    details.add(logits, labels, [f"{classes[label]}/{row}.jpg" for row, label in enumerate(labels)])
    evaluation = Evaluation(
        checkpoint="",
        split=split,
        dataset="/data/flowers",
        epoch=3,
        step=30,
        rows=rows,
        correct=details.correct,
        accuracy=details.correct / rows,
        top5=None,
        loss=details.loss_sum / rows,
        same_data=True,
        classes=details.by_class,
        confusion=details.confusion,
        worst=details.worst,
    )
    folder = run / "eval" / split
    write_report(folder, replace(evaluation, **other))
    (folder / "worst").mkdir()
    for place in range(len(details.worst)):
        (folder / picture_name(place)).write_bytes(jpeg())
    return folder
