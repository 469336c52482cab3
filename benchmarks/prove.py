"""What the gate costs: sharding with --prove decode against --prove off, beside one full decode of the same images.

    python -m benchmarks.prove --images FOLDER [--rounds 3]

FOLDER has class folders. Rounds are interleaved; figures are medians, ratios are taken within this one run. `cpu` is
user and system time of all processes, since on a busy machine wall time says little.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PILLOW = """
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from PIL import Image

def decode(path):
    try:
        Image.open(path).convert("RGB").load()
    except Exception:
        pass

with ProcessPoolExecutor() as pool:
    list(pool.map(decode, [p for p in Path(sys.argv[1]).rglob("*") if p.is_file()], chunksize=32))
"""


MINDSPORE = """
import os, sys
os.environ["GLOG_v"] = "4"
import mindspore.dataset as ds
from mindspore.dataset import vision

images = ds.ImageFolderDataset(sys.argv[1], shuffle=False)
images = images.map(vision.Decode(), "image", num_parallel_workers=os.cpu_count())
for _ in images.create_dict_iterator(num_epochs=1, output_numpy=True):
    pass
"""


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shard(images: Path, prove: str) -> tuple[float, float]:
    """Seconds to shard all images."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "dataprep", "shard", str(images), f"{out}/set", "--prove", prove]
        return timed([*command, "--max-rejects", "100%", "--max-class-loss", "100%"])


def main() -> None:
    """Run the rounds and print a JSON line a row, then the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sizes = [path.stat().st_size for path in asked.images.rglob("*") if path.is_file()]
    what = f"{len(sizes)} files of {statistics.mean(sizes) / 1000:.0f} KB"
    print(f"{what}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "prove off": lambda: shard(asked.images, "off"),
        "prove rows": lambda: shard(asked.images, "rows"),
        "prove decode": lambda: shard(asked.images, "decode"),
        "one decode by Pillow": lambda: timed([sys.executable, "-c", PILLOW, str(asked.images)]),
        "one decode by MindSpore": lambda: timed([sys.executable, "-c", MINDSPORE, str(asked.images)]),
    }
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        for name, run in ways.items():
            seen[name].append(run())
    middle = {name: [statistics.median(values) for values in zip(*runs, strict=True)] for name, runs in seen.items()}
    for name, (wall, cpu) in middle.items():
        print(json.dumps({"way": name, "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "runs": len(seen[name])}))
    off, decode = middle["prove off"], middle["prove decode"]
    for at, kind in enumerate(("wall", "cpu")):
        print(f"{kind}: prove decode / prove off = {decode[at] / off[at]:.2f}")
        for name in ("one decode by Pillow", "one decode by MindSpore"):
            print(f"{kind}: the gate costs {(decode[at] - off[at]) / middle[name][at]:.2f} of {name}")


if __name__ == "__main__":
    main()
