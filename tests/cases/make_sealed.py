"""Makes an archive in tests/cases/sealed: what a version of the programs leaves, for later versions to read.

    python tests/cases/make_sealed.py CHECKOUT NAME

CHECKOUT is a folder with the source of that version. NAME.tar.gz gets the raw images, the dataset, a complete run, and
a run killed after its third step; NAME.json gets what the programs printed.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

SEALED = Path(__file__).parent / "sealed"
SHARD = ["shard", "raw", "set", "--val", "0.25", "--num-shards", "2", "--seed", "7", "--prove", "off", "--workers", "1"]
SHARD += ["--max-rejects", "1"]
RUN = ["run", "set", "--model", "two_layers:model", "--recipe", "none", "--image-size", "16", "--batch-size", "4"]
RUN += ["--epochs", "2", "--save-every", "1", "--device", "CPU", "--workers", "1"]
MODEL = '''"""A model of two layers for 16 pixels."""

from mindspore import nn


def model(num_classes):
    layers = [nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Dense(256, num_classes)]
    return nn.SequentialCell(layers)
'''


def draw(folder: Path) -> None:
    """Two classes of six images and a copy of one; a file that is no image, and one to ignore."""
    for number in range(12):
        name, kind = ("down", "across")[number % 2], ("PNG", "JPEG")[number // 2 % 2]
        image = Image.linear_gradient("L").resize((24, 18 + number)).rotate(90 * (number % 2), expand=True)
        path = folder / name / f"{min(number, 10):02d}.{kind.lower()}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.convert("RGB").save(path, kind)
    shutil.copy(folder / "down" / "00.png", folder / "down" / "again.png")
    (folder / "down" / "page.jpg").write_text("<html>not here</html>")
    (folder / "across" / "Thumbs.db").write_bytes(b"x")


def run(checkout: Path, folder: Path, program: str, *arguments: str, kill_at: str = "") -> Any:
    """What the program printed as JSON; None if it was killed."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "TRAINER_KILL_AT": kill_at}
    command = [sys.executable, "-m", program, *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, check=not kill_at)
    return None if kill_at else json.loads(done.stdout.decode().replace(f"{folder}/", ""))


def member(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The entry without owner and time; None for what belongs to the machine."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if Path(entry.name).name in (".work", "__pycache__") else entry


def main() -> None:
    checkout, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        draw(folder / "raw")
        (folder / "two_layers.py").write_text(MODEL)
        printed = {"shard": run(checkout, folder, "dataprep", *SHARD)}
        printed["run"] = run(checkout, folder, "trainer", *RUN, "--out", "run")
        run(checkout, folder, "trainer", *RUN, "--out", "killed", kill_at="step:3")
        printed["eval"] = run(checkout, folder, "trainer", "eval", "run", "set", "--device", "CPU")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz", compresslevel=9) as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name, filter=member)
    SEALED.mkdir(exist_ok=True)
    (SEALED / f"{name}.tar.gz").write_bytes(data.getvalue())
    (SEALED / f"{name}.json").write_text(json.dumps(printed, indent=1) + "\n")


if __name__ == "__main__":
    main()
