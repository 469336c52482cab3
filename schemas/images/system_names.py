"""Names of files and folders that operating systems, network storage and browsers create; both programs skip them."""

import re

_BOTH = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
# Names of folders only: a file of such a name may be an image.
_FOLDERS = frozenset(
    {
        "@eadir",  # Synology: thumbnails of each image, themselves JPEGs
        "@tmp",
        "@recycle",  # QNAP
        "@recently-snapshot",
        "@__thumb",
        "#recycle",
        "#snapshot",
        "~snapshot",  # NetApp
        "$recycle.bin",  # Windows
        "system volume information",
        "lost+found",  # ext4, readable by root only
        "lost.dir",  # Android
        "network trash folder",  # Netatalk
        "thevolumesettingsfolder",
        "temporary items",
        "__pycache__",
    }
)
_FOLDER_PATTERN = re.compile(r"(?i:found\.\d{3})|RECYCLER|RECYCLER\.BIN")  # "recycler" may be a class
_FILES = frozenset({"ehthumbs.db", "ehthumbs_vista.db", "icon\r"})
_UNFINISHED = (".part", ".filepart", ".partial", ".crdownload")


def system_rule(name: str, is_folder: bool) -> str | None:
    """Return the rule by which a file or folder of this name is ignored; None if it may be data."""
    if name.startswith("."):
        return "appledouble" if name.startswith("._") else "hidden"
    lower = name.lower()
    if lower in _BOTH or lower in (_FOLDERS if is_folder else _FILES):
        return lower.rstrip()
    if is_folder:
        return "system folder" if _FOLDER_PATTERN.fullmatch(name) else None
    if lower.endswith(_UNFINISHED):
        return "unfinished download"
    return "office lock" if name.startswith("~$") else None
