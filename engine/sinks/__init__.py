"""Results: staged by tasks, published by the driver after the commit, each row once."""

from engine.sinks.native import ParquetSink, Sink, open_sink, side_directory
from engine.sinks.parquet import ParquetDirectory
from engine.sinks.staged import ResultWriter, StagedFile
from engine.sinks.tail import tail

__all__ = [
    "ParquetDirectory",
    "ParquetSink",
    "ResultWriter",
    "Sink",
    "StagedFile",
    "open_sink",
    "side_directory",
    "tail",
]
