"""One image: bytes in; bytes that the trainer's decoder reads, or a Refusal with its reason, out."""

from dataprep.images.check import glimpse, image_size, keep_decoders_single, normalise
from dataprep.images.decoding import decode
from dataprep.images.policy import Picture, Policy, Refusal
from dataprep.images.reasons import reason_of_head

__all__ = [
    "Picture",
    "Policy",
    "Refusal",
    "decode",
    "glimpse",
    "image_size",
    "keep_decoders_single",
    "normalise",
    "reason_of_head",
]
