"""Physical limits: each image through a decoder once, on all cores.

python -m benchmarks.peers.decode pillow|simplejpeg|mindspore IMAGES
python -m benchmarks.peers.decode resize IMAGES OUT: shrink in the decoder, resize to 256, encode at quality 90, write
"""

import io
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from PIL import Image

from benchmarks.peers.folder import labelled, sync

SHORT_SIDE, QUALITY = 256, 90


def pillow(path: Path) -> None:
    """A full decode by Pillow, which uses libjpeg-turbo."""
    Image.open(path).convert("RGB").load()


def simplejpeg(path: Path) -> None:
    """A full decode by libjpeg-turbo through a thin wrapper."""
    from simplejpeg import decode_jpeg

    decode_jpeg(path.read_bytes())


def resize(path: Path, out: Path) -> None:
    """What `dataprep shard --resize 256 --quality 90` does to a JPEG, and nothing else; one file each."""
    image: Image.Image = Image.open(path)
    full = image.size
    image.draft(None, (SHORT_SIDE, SHORT_SIDE))
    if min(full) > SHORT_SIDE:
        scale = SHORT_SIDE / min(full)
        size = (round(full[0] * scale), round(full[1] * scale))
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    (out / f"{path.parent.name}-{path.name}").write_bytes(buffer.getvalue())


def mindspore(images: Path) -> None:
    """A full decode of all images by MindSpore, on all cores."""
    import mindspore.dataset as ds
    from mindspore.dataset import vision

    rows = ds.ImageFolderDataset(str(images), shuffle=False)
    rows = rows.map(vision.Decode(), "image", num_parallel_workers=os.cpu_count())
    for _ in rows.create_dict_iterator(num_epochs=1, output_numpy=True):
        pass


def main() -> None:
    """Decode all."""
    kind, images = sys.argv[1], Path(sys.argv[2])
    if kind == "mindspore":
        mindspore(images)
        return
    out = Path(sys.argv[3]) if kind == "resize" else None
    one = partial(resize, out=out) if out else {"pillow": pillow, "simplejpeg": simplejpeg}[kind]
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(one, [path for path, _ in labelled(images)], chunksize=32):
            pass
    if out:
        sync(out)


if __name__ == "__main__":
    main()
