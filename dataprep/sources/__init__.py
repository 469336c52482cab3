"""Layouts of raw data, one file per layout. The table SOURCES lists them.

Each file has a Source with a function scan(root, options) -> Iterator[ScanEntry].
"""

from importlib import import_module

from dataprep.sources.source import Source

# layout -> Source, or `module:object` that is imported at first use. Layouts are recognised in this order.
SOURCES: dict[str, Source | str] = {
    "classes": "dataprep.sources.class_folders:CLASS_FOLDERS",
    "splits": "dataprep.sources.split_folders:SPLIT_FOLDERS",
    "cloud": "dataprep.sources.object_store:OBJECT_STORE",
    "tar": "dataprep.sources.archives.layouts:TAR",
    "tars": "dataprep.sources.archives.layouts:TARS",
    "zip": "dataprep.sources.archives.layouts:ZIP",
    "webdataset": "dataprep.sources.archives.webdataset:WEBDATASET",
    "csv": "dataprep.sources.tables.table:CSV",
    "jsonl": "dataprep.sources.tables.table:JSON_LINES",
    "metadata": "dataprep.sources.tables.table:METADATA",
    "mindrecord": "dataprep.sources.records.mindrecord:MINDRECORD",
    "parquet": "dataprep.sources.records.parquet:PARQUET",
    "coco": "dataprep.sources.annotations.coco:COCO",
    "voc": "dataprep.sources.annotations.voc:VOC",
    "yolo": "dataprep.sources.annotations.yolo:YOLO",
    "masks": "dataprep.sources.annotations.mask_folders:MASKS",
}


def find_source(layout: str) -> Source:
    """Return the source of a layout in the table."""
    source = SOURCES[layout]
    if isinstance(source, Source):
        return source
    module, _, attribute = source.partition(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, Source)
    return found
