"""Archives compared with folders: `tar` plans a tar of many members, `tar_speed` shards photos from a tar and folders.

    python -m benchmarks.archives tar FOLDER [--members 1000000]
    python -m benchmarks.archives tar_speed FOLDER --images PHOTOS [--rounds 3]

FOLDER is for scratch files. stdout: one JSON object.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from benchmarks.peers.tiny import CLASS_FOLDERS, VARIANTS, jpegs

_PLAN = """
import resource, sys, time
from pathlib import Path
from dataprep.job.scan import choose_layout, origin_of, scan
from dataprep.options import ShardOptions
from dataprep.plan.planner import make_plan

class Quiet:
    def scanning(self, found): pass

source, plan, options = Path(sys.argv[1]), Path(sys.argv[2]), ShardOptions()
started = time.perf_counter()
layout = choose_layout(source, options)
make_plan(plan, scan(source, layout, options, Quiet()), origin_of(source, layout), options)
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def make_tar(path: Path, members: int) -> None:
    """Write a tar of so many tiny images in class folders, mixed as a shuffled data set is."""
    images = jpegs(VARIANTS)
    with path.open("wb") as file:
        for number in range(members):
            info = tarfile.TarInfo(f"class{number % CLASS_FOLDERS:04d}/{number:09d}.jpg")
            info.size = len(images[number % VARIANTS])
            file.write(info.tobuf(tarfile.USTAR_FORMAT))
            file.write(images[number % VARIANTS].ljust(-(-info.size // 512) * 512, b"\0"))
        file.write(bytes(1024))


def tar(folder: Path, members: int = 1_000_000) -> dict[str, float]:
    """Return seconds and peak memory of planning a tar of so many members. Wanted: below 60 s and 400 MB."""
    path = folder / f"members-{members}.tar"
    if not path.exists():
        make_tar(path, members)
    command = [sys.executable, "-c", _PLAN, str(path), str(folder / "plan.sqlite")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {"members": members, "plan_s": float(told[0]), "peak_mb": float(told[1])}


def tar_speed(folder: Path, images: Path, rounds: int = 3) -> dict[str, float]:
    """Return the median seconds of sharding photos from class folders and from a tar of them, interleaved.

    Wanted: a ratio below 1.1.
    """
    path = folder / "photos.tar"
    if not path.exists():
        with tarfile.open(path, "w") as made:
            for file in sorted(images.rglob("*")):
                if file.is_file():
                    made.add(file, file.relative_to(images).as_posix())
    seconds: dict[str, list[float]] = {"folders": [], "tar": []}
    for _ in range(rounds):
        for name, source in (("folders", images), ("tar", path)):
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            command = [sys.executable, "-m", "dataprep", "shard", str(source), str(out), "--quiet", "--prove", "off"]
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    medians = {f"{name}_s": statistics.median(taken) for name, taken in seconds.items()}
    return {**medians, "ratio": medians["tar_s"] / medians["folders_s"]}


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tar", "tar_speed"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "tar":
        figures = tar(asked.folder, asked.members)
    elif asked.images is None:
        parser.error("tar_speed needs --images")
    else:
        figures = tar_speed(asked.folder, asked.images, asked.rounds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
