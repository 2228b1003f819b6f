"""Streams opened in Spark: files, the generator, sockets, Kafka and what else Spark itself reads.

Here: which DataFrame a StreamSpec is, and clear errors before Spark starts. Not here: reading
Parquet past the JVM (native.py), the generator's rows (generator.py), and which options and paths a
query may use (the query package).
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions

from engine.connectors import look_up, naming
from engine.errors import SourceError
from engine.query.formats import MESSAGES, SOURCES, Format
from engine.query.model import Field, StreamSpec
from engine.sources import generator, socket_stream
from engine.sources.native import local_path
from engine.spark_log import for_spark

FILE_LIST_SCHEMA = "path string, modificationTime timestamp, length long, content binary"
_SMALL = ("tinyint", "smallint")
_REMOTE = re.compile(r"(?!file:)\w[\w+.-]*://")


def ensure_registered(spark: SparkSession) -> None:
    """Make our own formats known to this session; harmless to repeat."""
    generator.register(spark)
    socket_stream.register(spark)


def open_stream(spark: SparkSession, stream: StreamSpec, record: Path | None = None) -> DataFrame:
    """A streaming DataFrame with exactly the stream's columns, in their order. `record`: of the changes to a
    generated one (workload.py)."""
    if stream.format == generator.FORMAT:
        return _open_generator(spark, stream, record)
    form = SOURCES.get(stream.format)
    if form is None:
        raise SourceError(
            f'format "{stream.format}" is not supported',
            where=f"stream {stream.name}",
            hint=f"there are: {', '.join(SOURCES)}",
        )
    if form.path:
        check_path(stream)
    frame = _load(spark, stream, form)
    if stream.value_format:
        frame = from_messages(frame, stream)
    if _is_widened(stream):
        return frame.selectExpr(
            *(f"cast({quoted(f.name)} as {f.type}) as {quoted(f.name)}" for f in stream.fields)
        )
    return frame.select(*(quoted(field.name) for field in stream.fields))


def _is_widened(stream: StreamSpec) -> bool:
    """Parquet keeps small numbers in 32 bits, which Spark's reader would cut to the declared ones without a
    word: so they are read as they are, and the cast ends the query where one does not fit."""
    return stream.format == "parquet" and any(f.type in _SMALL for f in stream.fields)


def _as_stored(stream: StreamSpec) -> tuple[Field, ...]:
    """The columns as Spark's reader is asked for them."""
    if not _is_widened(stream):
        return stream.fields
    return tuple(Field(f.name, "int" if f.type in _SMALL else f.type) for f in stream.fields)


def _load(spark: SparkSession, stream: StreamSpec, form: Format) -> DataFrame:
    """What Spark's own source gives."""
    kind = stream.format
    where = f"stream {stream.name}"
    ours: dict[str, str] = {}
    if kind == "socket":
        ensure_registered(spark)
        kind = socket_stream.SPARK_FORMAT
        ours = {} if stream.trusted else {socket_stream.CONFINED: "true"}
    elif form.package:
        look_up(spark, kind, SourceError, where)
    given = for_spark(spark, stream.options)
    own = {n: t for n, t in given.items() if not _is_message_option(stream, n, form)}
    reader = spark.readStream.format(kind).options(**_with_defaults(dict(form.strict), own), **ours)
    if not form.columns:
        reader = reader.schema(ddl(_as_stored(stream)))
    with naming(kind, f"Spark cannot read {stream.format}", SourceError, where, stream.options):
        return reader.load(stream.path) if form.path else reader.load()


def _is_message_option(stream: StreamSpec, name: str, form: Format) -> bool:
    return name in MESSAGES.get(stream.value_format, ()) and name not in (form.options or ())


def from_messages(frame: DataFrame, stream: StreamSpec) -> DataFrame:
    """The columns that are written in the messages of the column `value`. A message that is null
    (Kafka's tombstones) gives nulls; one that cannot be read ends the query."""
    kind = stream.value_format
    given = {n: t for n, t in stream.options.items() if n in MESSAGES[kind]}
    options = _with_defaults({"mode": "FAILFAST"}, given)
    parse = functions.from_json if kind == "json" else functions.from_csv
    text = functions.col("value").cast("string")
    return frame.select(parse(text, ddl(stream.fields), options).alias("message")).select(
        "message.*"
    )


def open_file_list(spark: SparkSession, stream: StreamSpec) -> DataFrame:
    """The stream's files as they arrive: one column, `path`; their contents are not read."""
    check_path(stream)
    reader = spark.readStream.format("binaryFile").schema(FILE_LIST_SCHEMA)
    return reader.options(**dict(stream.options)).load(stream.path).select("path")


def check_path(stream: StreamSpec) -> None:
    """SourceError if a local path is not there or may not be read."""
    if _REMOTE.match(stream.path) or "{" in stream.path:
        return  # Spark's own globs know {a,b}; Python's do not
    path = local_path(stream.path)
    matches = glob.glob(path) if re.search(r"[*?\[]", path) else [path]
    here = f"stream {stream.name}"
    if not matches or not os.path.exists(matches[0]):
        hint = "create the directory or correct `path` (relative to the query file)"
        raise SourceError(f"{path} does not exist", where=here, hint=hint)
    for match in matches:
        need = os.R_OK | os.X_OK if os.path.isdir(match) else os.R_OK
        if not os.access(match, need):
            raise SourceError(f"no permission to read {match}", where=here, hint="grant it")


def ddl(fields: tuple[Field, ...]) -> str:
    """The columns as Spark DDL."""
    return ", ".join(f"{quoted(field.name)} {field.type}" for field in fields)


def quoted(name: str) -> str:
    """A column name as Spark SQL takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def _with_defaults(defaults: dict[str, str], given: object) -> dict[str, str]:
    options = dict(given)  # type: ignore[call-overload]
    named = {name.lower() for name in options}
    return {**{k: v for k, v in defaults.items() if k.lower() not in named}, **options}


def _open_generator(spark: SparkSession, stream: StreamSpec, record: Path | None) -> DataFrame:
    have = {field.name: field.type for field in generator.default_fields(stream.options)}
    for field in stream.fields:
        if have.get(field.name) != field.type:
            there_are = ", ".join(f"{name} {kind}" for name, kind in have.items())
            raise SourceError(
                f"the generator has no column {field.name} of type {field.type}",
                where=f"stream {stream.name}",
                hint=f"leave `schema` out, or choose from: {there_are}",
            )
    ensure_registered(spark)
    seed = {"stream_seed": str(generator.stream_seed(stream.name))}
    options = _with_defaults(seed, stream.options)
    if record is not None:
        options[generator.RECORD] = str(record)
    frame = spark.readStream.format(generator.SPARK_FORMAT).options(**options).load()
    return frame.select(*(quoted(field.name) for field in stream.fields))
