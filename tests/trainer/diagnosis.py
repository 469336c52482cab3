"""A diagnosis with invented figures, as `trainer doctor` returns it."""

from trainer.doctor.advice import conclude
from trainer.doctor.convolution import Convolution
from trainer.doctor.diagnose import Diagnosis
from trainer.doctor.remedies import Remedy, Tried, weigh
from trainer.doctor.stages import Measured
from trainer.doctor.storage import Storage
from trainer.doctor.traps import Trap
from trainer.doctor.verdict import Rates, Verdict

GIB = 2**30


def measured(part: str, rate: float, data_wait: float | None = None) -> Measured:
    return Measured(part, rate, rate, rate, 1.9, 2 * GIB, 4, data_wait)


def trial(flags: str, part: str, before: float, *ratios: float, price: str = "") -> Tried:
    return weigh(Remedy(flags, price=price), part, [before] * len(ratios), [before * ratio for ratio in ratios])


RATES = Rates(4000, 300, 250, feed=200, step=640, feed_cpu_s=0.01, step_cpu_s=0.001, cores=None)
RESIZED = "dataprep shard ... --resize 256"
TRIED = [
    trial("--prefetch 16", "feed", 200, 1.01, 1.0, 1.02, price="more memory"),
    trial(RESIZED, "feed", 200, 2.2, 2.2, 2.3, price="the pixels are gone for good"),
    trial(RESIZED, "loop", 181, 2.1, 2.2, 2.3),
    trial("--amp-level O2", "step", 600, 0.5, 0.5, 0.5, price="other rounding"),
]
FOUND = Diagnosis(
    dataset="/data/set",
    device="CPU",
    cores=2,
    model="resnet18",
    recipe="imagenet",
    image_size=224,
    batch_size=32,
    amp_level="O0",
    sink="MindSpore cannot sink on CPU",
    short_side=480,
    storage=Storage("ext4", False, 3000.0, 30000.0),
    parts=[
        measured("read", 4000),
        measured("decode", 300),
        measured("augment", 250),
        measured("feed", 200),
        measured("step O0", 640),
        measured("loop, sink off", 180, 0.7),
    ],
    verdict=Verdict("feed", 3.2, 200.0, False, {"read": 0.05, "decode": 0.62, "augment": 0.13, "batch": 0.2}, "decode"),
    tried=TRIED,
    advice=conclude(TRIED, RATES),
    traps=[
        Trap("large images", "the shorter side is 480 pixels (median), training looks at 224", "--resize 256"),
        Trap("small batch", "a step on 64 images handles 1.40 times as many a second", "--batch-size 64", False),
    ],
    failed={"--amp-level O1": "no such kernel"},
    left_out=["--amp-level O3"],
)
FAST = Convolution("AVX2", ("x64:gemm:jit",), 2.0)
SLOW = Convolution("AVX512_CORE", ("jit_uni_ncsp:conv+ref:any", "x64:gemm:jit"), 90.0)
