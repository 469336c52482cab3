"""MindRecord 3.0 written and read with the standard library, byte for byte as MindSpore's FileWriter does."""

from dataprep.mindrecord.format import Geometry, HeaderFull, RowError, RowTooLarge
from dataprep.mindrecord.reader import ShardReader, Stored, read_stored
from dataprep.mindrecord.writer import ShardWriter

__all__ = ["Geometry", "HeaderFull", "RowError", "RowTooLarge", "ShardReader", "ShardWriter", "Stored", "read_stored"]
