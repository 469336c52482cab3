"""Layout webdataset: tars of samples, each an image and its labels with the same name."""

from collections.abc import Iterator
from pathlib import Path

from dataprep.items import ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.archives.files import TAR_NAMES, ArchiveFile
from dataprep.sources.archives.layouts import Containers, read_archives, read_tar
from dataprep.sources.archives.members import MemberReader, indexed
from dataprep.sources.archives.recognise import is_webdataset
from dataprep.sources.archives.samples import IMAGE_TEXTS, sample_rows
from dataprep.sources.archives.spool import Opened
from dataprep.sources.source import Source
from dataprep.sources.walk import Tree


def _scan(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the samples of a tar, or of a folder of tars."""
    tree = Tree(root, options)
    containers = Containers()
    prefixes: list[str] = []

    def read(opened: Opened, archive: ArchiveFile, number: int, members: MemberReader) -> Iterator[ScanEntry]:
        prefixes.append(archive.prefix)
        yield from read_tar(opened, archive, number, members)

    with indexed() as index:
        members = MemberReader(tree, index, IMAGE_TEXTS)
        yield from read_archives(tree, root, options, TAR_NAMES, members, read, containers)
        yield from sample_rows(index.entries(), containers.all, prefixes, options)
    yield from tree.notices()


WEBDATASET = Source(
    _scan,
    "SOURCE has tars of samples <key>.jpg with <key>.cls, .json or .txt",
    is_webdataset,
    gives=("class", "classes", "captions"),
    gives_fields=True,
    numbers_sort=True,
)
