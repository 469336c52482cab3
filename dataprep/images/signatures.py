"""What a file is by its first bytes. Content decides the format, never the name."""

import re

# Formats that the images package reads.
_READ = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF8",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"II+\0",
    b"MM\0+",
    b"\0\0\0\x0cjP  \r\n\x87\n",
    b"\xff\x4f\xff\x51",
    b"qoif",
)
# (bytes, offset, reason, what it is): pictures of a kind that is not read, and things that are no pictures.
_OTHER = (
    (b"8BPS", 0, "unsupported_format", "a Photoshop document"),
    (b"\0\0\1\0", 0, "unsupported_format", "a Windows icon"),
    (b"\0\0\2\0", 0, "unsupported_format", "a Windows cursor or a Targa picture"),
    (b"\xff\x0a", 0, "unsupported_format", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", 0, "unsupported_format", "JPEG XL"),
    (b"DDS ", 0, "unsupported_format", "a DirectDraw surface"),
    (b"\x76\x2f\x31\x01", 0, "unsupported_format", "OpenEXR"),
    (b"#?RADIANCE", 0, "unsupported_format", "Radiance HDR"),
    (b"SIMPLE  =", 0, "unsupported_format", "FITS"),
    (b"DICM", 128, "unsupported_format", "DICOM"),
    (b"\xc5\xd0\xd3\xc6", 0, "unsupported_format", "PostScript with a preview"),
    (b"%!PS", 0, "unsupported_format", "PostScript"),
    (b"icns", 0, "unsupported_format", "an Apple icon"),
    (b"%PDF", 0, "not_an_image", "a PDF document"),
    (b"PK\x03\x04", 0, "not_an_image", "a ZIP archive"),
    (b"\x1f\x8b", 0, "not_an_image", "gzip data"),
    (b"7z\xbc\xaf", 0, "not_an_image", "a 7z archive"),
    (b"Rar!", 0, "not_an_image", "a RAR archive"),
    (b"ustar", 257, "not_an_image", "a tar archive"),
    (b"SQLite format 3", 0, "not_an_image", "an SQLite database"),
    (b"\x7fELF", 0, "not_an_image", "a program"),
    (b"OggS", 0, "not_an_image", "Ogg audio or video"),
    (b"ID3", 0, "not_an_image", "MP3 audio"),
)
UNKNOWN = "data of no known image format"
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")


def is_readable(head: bytes) -> bool:
    """Whether the first bytes (32 are enough) are those of a format that the images package reads."""
    if head.startswith(_READ) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return True
    return bool(re.match(rb"P[1-6]\s", head)) or (head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"))


def looks_like_image(head: bytes) -> bool:
    """Whether the first bytes (32 are enough) are those of an image, read here or not."""
    return is_readable(head) or describe_other(head)[0] == "unsupported_format"


def describe_other(head: bytes) -> tuple[str, str]:
    """(reason, what it is) of data that no reader knows; `head` is its first kilobyte or so."""
    for magic, offset, reason, name in _OTHER:
        if head[offset : offset + len(magic)] == magic:
            return reason, name
    if head[4:8] == b"ftyp":
        if head[8:12] in _HEIF_BRANDS:
            return "unsupported_format", "HEIF/HEIC; convert it to JPEG or PNG first"
        return "not_an_image", "MP4 or another media container"
    return _describe_text(head)


def _describe_text(head: bytes) -> tuple[str, str]:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in text[:1000]:
        return "unsupported_format", "SVG; render it to PNG first"
    if text.startswith((b"<!doctype html", b"<html")):
        return "not_an_image", "an HTML page"
    if text.startswith(b"<?xml"):
        return "not_an_image", "an XML document"
    if not head.strip(b"\0"):
        return "not_an_image", "zero bytes only"
    if all(byte >= 0x20 or byte in b"\t\r\n\f\x1b" for byte in head):
        return "not_an_image", "text"
    return "not_an_image", UNKNOWN
