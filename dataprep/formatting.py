"""Formats durations, sizes and counts."""

from schemas.names import printable


def duration(seconds: float) -> str:
    """Return seconds as 1 h 02 min, 3 min 04 s or 5 s."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def size(count: float) -> str:
    """Return bytes as 12 B, 3.4 KiB or 5.6 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def counts(values: dict[str, int]) -> str:
    """Return counts as `3 empty, 1 truncated`, the largest first."""
    ordered = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number:,} {printable(name)}" for name, number in ordered)
