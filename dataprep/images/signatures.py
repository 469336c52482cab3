"""Recognise the format of a file by its first bytes. The file name is not used."""

import re
import struct

from schemas.images.placeholders import describe_text

UNKNOWN = "data in an unknown format"
# Formats that are read.
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
_RAW = "camera raw; develop it to JPEG, PNG or TIFF first"
# (bytes, offset, name) of image formats that are not read.
_PICTURES: tuple[tuple[bytes, int, str], ...] = (
    (b"IIRO", 0, _RAW),  # Olympus
    (b"IIRS", 0, _RAW),
    (b"MMOR", 0, _RAW),
    (b"IIU\0", 0, _RAW),  # Panasonic, Leica
    (b"FUJIFILMCCD-RAW", 0, _RAW),
    (b"FOVb", 0, _RAW),  # Sigma
    (b"\0MRM", 0, _RAW),  # Minolta
    (b"HEAPCCDR", 6, _RAW),  # Canon before CR2
    (b"HEAPJPGM", 6, _RAW),
    (b"ARRI", 0, _RAW),
    (b"8BPS", 0, "a Photoshop document"),
    (b"gimp xcf ", 0, "a GIMP document"),
    (b"Paint Shop Pro Image File", 0, "a Paint Shop Pro document"),
    (b"PDN3", 0, "a Paint.NET document"),
    (b"\x00\xffKA", 0, "an Affinity document"),
    (b"\0\0\1\0", 0, "a Windows icon"),
    (b"\0\0\2\0", 0, "a Windows cursor"),
    (b"icns", 0, "an Apple icon"),
    (b"\xff\x0a", 0, "JPEG XL"),
    (b"\0\0\0\x0cJXL ", 0, "JPEG XL"),
    (b"II\xbc", 0, "JPEG XR"),
    (b"MM\0\xbc", 0, "JPEG XR"),
    (b"\x97JB2\r\n\x1a\n", 0, "JBIG2"),
    (b"FLIF", 0, "FLIF"),
    (b"BPG\xfb", 0, "BPG"),
    (b"\xff\xa0\xff", 0, "WSQ"),
    (b"\x8aMNG\r\n\x1a\n", 0, "MNG"),
    (b"\x8bJNG\r\n\x1a\n", 0, "JNG"),
    (b"DDS ", 0, "a DirectDraw surface"),
    (b"\xabKTX 11\xbb\r\n\x1a\n", 0, "a KTX texture"),
    (b"\xabKTX 20\xbb\r\n\x1a\n", 0, "a KTX texture"),
    (b"PVR\x03", 0, "a PVR texture"),
    (b"\x13\xab\xa1\x5c", 0, "an ASTC texture"),
    (b"VTF\0", 0, "a Valve texture"),
    (b"BLP1", 0, "a Blizzard texture"),
    (b"BLP2", 0, "a Blizzard texture"),
    (b"FTEX", 0, "an FTEX texture"),
    (b"\x76\x2f\x31\x01", 0, "OpenEXR"),
    (b"#?RADIANCE", 0, "Radiance HDR"),
    (b"#?RGBE", 0, "Radiance HDR"),
    (b"SDPX", 0, "DPX"),
    (b"XPDS", 0, "DPX"),
    (b"\x80\x2a\x5f\xd7", 0, "Cineon"),
    (b"SIMPLE  =", 0, "FITS"),
    (b"DICM", 128, "DICOM"),
    (b"n+1\0", 344, "NIfTI"),
    (b"NRRD000", 0, "NRRD"),
    (b"ZISRAWFILE", 0, "a Zeiss CZI image"),
    (b"\xda\xce\xbe\x0a", 0, "a Nikon ND2 image"),
    (b"LBLSIZE=", 0, "VICAR"),
    (b"PDS_VERSION_ID", 0, "a PDS image"),
    (b"farbfeld", 0, "farbfeld"),
    (b"\x59\xa6\x6a\x95", 0, "a Sun raster image"),
    (b"\xb1\x68\xde\x3a", 0, "DCX"),
    (b"\x53\x80\xf6\x34", 0, "a Softimage PIC image"),
    (b"PCD_IPI", 2048, "Kodak PhotoCD"),
    (b"AT&TFORM", 0, "DjVu"),
    (b"DanM", 0, "a Microsoft Paint image"),
    (b"LinS", 0, "a Microsoft Paint image"),
    (b"id=ImageMagick", 0, "MIFF"),
    (b"\xd7\xcd\xc6\x9a", 0, "a Windows metafile"),
    (b" EMF", 40, "a Windows metafile"),
    (b"/* XPM */", 0, "XPM"),
    (b"\xc5\xd0\xd3\xc6", 0, "PostScript with a preview"),
    (b"%!PS", 0, "PostScript"),
)
# (bytes, offset, name) of other files.
_OTHER: tuple[tuple[bytes, int, str], ...] = (
    (b"\0\x05\x16\x07", 0, "macOS metadata (AppleDouble); the image is in the file without the leading ._"),
    (b"\0\x05\x16\0", 0, "macOS metadata (AppleSingle)"),
    (b"book\0\0\0\0mark", 0, "a macOS alias; copy the file that it points to"),
    (b"\x4c\0\0\0\x01\x14\x02\0", 0, "a Windows shortcut; copy the file that it points to"),
    (b"\0\0\0\x01Bud1", 0, "macOS folder settings (.DS_Store)"),
    (b"bplist00", 0, "a macOS property list"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "an OLE document (Thumbs.db, Word, FlashPix)"),
    (b"%PDF", 0, "a PDF document"),
    (b"{\\rtf", 0, "an RTF document"),
    (b"PK\x03\x04", 0, "a ZIP archive"),
    (b"PK\x05\x06", 0, "a ZIP archive"),
    (b"\x1f\x8b", 0, "gzip data"),
    (b"BZh", 0, "bzip2 data"),
    (b"\xfd7zXZ\0", 0, "xz data"),
    (b"\x28\xb5\x2f\xfd", 0, "Zstandard data"),
    (b"\x04\x22\x4d\x18", 0, "LZ4 data"),
    (b"7z\xbc\xaf", 0, "a 7z archive"),
    (b"Rar!", 0, "a RAR archive"),
    (b"ustar", 257, "a tar archive"),
    (b"SQLite format 3", 0, "an SQLite database"),
    (b"\x89HDF\r\n\x1a\n", 0, "HDF5"),
    (b"\x93NUMPY", 0, "a NumPy array"),
    (b"MATLAB 5.0", 0, "a MATLAB file"),
    (b"PAR1", 0, "Parquet"),
    (b"\x7fELF", 0, "a program"),
    (b"MZ", 0, "a Windows program"),
    (b"RIFF", 0, "a RIFF container: audio or video"),
    (b"\x1a\x45\xdf\xa3", 0, "Matroska or WebM video"),
    (b"FLV\x01", 0, "Flash video"),
    (b"\0\0\x01\xba", 0, "MPEG video"),
    (b"\0\0\x01\xb3", 0, "MPEG video"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", 0, "Windows Media audio or video"),
    (b"OggS", 0, "Ogg audio or video"),
    (b"fLaC", 0, "FLAC audio"),
    (b"ID3", 0, "MP3 audio"),
    (b"Salted__", 0, "encrypted data"),
)
# Image formats without fixed magic bytes.
_PATTERNS = (
    (re.compile(rb"P[Ff]\s"), "a PFM float map"),
    (re.compile(rb"P7[\s ]"), "PAM"),
    (re.compile(rb"#define \w+_width \d"), "XBM"),
    (re.compile(rb"\x0a[\x00\x02\x03\x04\x05]\x01[\x01\x02\x04\x08]"), "PCX"),
    (re.compile(rb"\x01\xda[\x00\x01][\x01\x02]\x00[\x01\x02\x03]"), "an SGI image"),
    (re.compile(rb"(?s)FORM....(ILBM|PBM |ACBM|RGB8)"), "an Amiga IFF image"),
    (re.compile(rb"(?s)FOR4....CIMG"), "a Maya IFF image"),
    (re.compile(rb"(?s)RIFF....(CDR|cdr)"), "a CorelDRAW document"),
    (re.compile(rb"(?s)RIFF....ACON"), "an animated Windows cursor"),
    (re.compile(rb"(?s)....[\x11\x12]\xaf.{6}\x08\x00[\x00\x03]\x00"), "FLI/FLC animation"),
)
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1", b"mif2")
_TARGA_END = b"TRUEVISION-XFILE.\0"
# Image types of Targa, and the bits per pixel of each.
_TARGA_BITS = {1: (8,), 2: (15, 16, 24, 32), 3: (8, 16), 9: (8,), 10: (15, 16, 24, 32), 11: (8, 16)}


def is_readable(head: bytes) -> bool:
    """Return True if the first bytes (32 are enough) are those of a supported format."""
    if head.startswith(_READ) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return True
    return bool(re.match(rb"P[1-6]\s", head)) or (head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"))


def looks_like_image(head: bytes) -> bool:
    """Return True if the first bytes (32 are enough) are those of an image, supported or not."""
    return is_readable(head) or describe_other(head)[0] == "unsupported_format"


def describe_other(head: bytes) -> tuple[str, str]:
    """Return reason code and format name of data in an unsupported format.

    `head` is its first 2,100 bytes or more.
    """
    if head[4:8] == b"ftyp":
        return _describe_container(head[8:12])
    if is_targa(head, tail=b""):
        return TARGA
    if name := _by_magic(head, _PICTURES) or _by_pattern(head):
        return "unsupported_format", name
    if name := _by_magic(head, _OTHER):
        return "not_an_image", name
    return describe_text(head[:1024]) or ("not_an_image", UNKNOWN)


TARGA = ("unsupported_format", "a Targa image")


def _by_magic(head: bytes, table: tuple[tuple[bytes, int, str], ...]) -> str | None:
    return next((name for magic, at, name in table if head[at : at + len(magic)] == magic), None)


def _by_pattern(head: bytes) -> str | None:
    return next((name for pattern, name in _PATTERNS if pattern.match(head)), None)


def _describe_container(brand: bytes) -> tuple[str, str]:
    if brand == b"crx ":
        return "unsupported_format", _RAW
    if brand in _HEIF_BRANDS:
        return "unsupported_format", "HEIF/HEIC; convert it to JPEG or PNG first"
    return "not_an_image", "MP4 or another media container"


def is_targa(head: bytes, tail: bytes) -> bool:
    """Return True for a Targa picture.

    It is recognised by the footer of version 2, or by a header with all fields in range. `head` is the first 18 bytes
    of the file, `tail` the last 18.
    """
    if len(head) < 18:
        return False
    has_map, kind = head[1], head[2]
    map_start, map_length, map_bits, _, _, width, height, bits, flags = struct.unpack_from("<HHBHHHHBB", head, 3)
    if has_map > 1 or bits not in _TARGA_BITS.get(kind, ()) or not width or not height:
        return False
    if tail.endswith(_TARGA_END):
        return True
    map_fits = map_bits in (15, 16, 24, 32) and 0 < map_length <= 256 if has_map else not (map_start or map_length)
    return map_fits and (has_map == 1) == (kind in (1, 9)) and not flags & 0xC0 and (flags & 15) in (0, 1, 8)
