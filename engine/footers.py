"""Parquet files looked at before Spark starts: has each column that a query reads a type that can be read as
the declared one, by whoever will read it?

Here: which files and columns are looked at. Which types fit is sources/parquet_types.py's. Files that cannot be
opened are left to the reading itself, which names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.flow import Flow
from engine.ingest import lay_out
from engine.query.model import JoinInput, StreamSpec
from engine.query.schema import parquet_files
from engine.query.spark_text import quote
from engine.sources.native import local_path
from engine.sources.parquet_types import fits, fits_spark, mismatch

FILES_MAX = 100  # of a stream: half of them the first by name, half the last


def check_footers(flow: Flow) -> None:
    """SourceError, with the file, the column, both types and what to declare, where a type cannot be read."""
    for source, layout in zip(flow.sources, lay_out(flow).layouts, strict=True):
        stream = source.scan.stream
        if stream.format != "parquet":
            continue
        for path in _files(stream):
            schema = _schema(path)
            if schema is not None:
                _check(str(path), schema, stream, layout.native, source.scan.input)


def _check(
    path: str,
    schema: pa.Schema,
    stream: StreamSpec,
    native: tuple[str, ...] | None,
    given: JoinInput,
) -> None:
    names = set(native) if native is not None else set(_read_by_spark(stream, given))
    for field in stream.fields:
        same = [column for column in schema.names if column.lower() == field.name.lower()]
        if field.name not in names or len(same) != 1:
            continue  # it is not read, or it is not there and null, or the reader says that it is ambiguous
        have = schema.field(same[0]).type
        if not (fits if native is not None else fits_spark)(have, field.type):
            raise mismatch(path, same[0], have, field)


def _read_by_spark(stream: StreamSpec, given: JoinInput) -> Iterator[str]:
    """The stream's columns that Spark reads for this input."""
    keys = [part.expr for part in given.keys]
    text = " ".join([given.where or "", *given.exprs, *keys])
    for field in stream.fields:
        payload = not given.exprs and field in given.payload
        if payload or field.name == given.time or quote(field.name) in text:
            yield field.name


def _files(stream: StreamSpec) -> list[Path]:
    options = {name.lower(): text for name, text in stream.options.items()}
    wanted = options.get("pathglobfilter", "*")
    root = Path(local_path(stream.path))
    if "{" in wanted or not root.exists():
        return []
    found = [path for path in parquet_files(root) if fnmatchcase(path.name, wanted)]
    half = FILES_MAX // 2
    return found if len(found) <= FILES_MAX else [*found[:half], *found[-half:]]


def _schema(path: Path) -> pa.Schema | None:
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            return file.schema_arrow
    except (pa.ArrowException, OSError):
        return None
