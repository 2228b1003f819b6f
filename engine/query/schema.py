"""A stream's columns: from its `schema` text, from a Parquet file's footer, or the generator's."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import QueryFileError, SourceError
from engine.query.ddl import DdlError, parse_schema, quoted
from engine.query.formats import columns_of
from engine.query.model import Field
from engine.query.types import NoSuchType, spark_type
from engine.query.values import Table


def read_schema(
    table: Table, kind: str, path: Path, options: Mapping[str, str], value_format: str = ""
) -> tuple[Field, ...]:
    """The columns of a stream; required in the file for formats that do not carry them."""
    generated = _from_generator(table, options) if kind == "generator" else ()
    fixed = () if value_format else columns_of(kind, options)
    if fixed:
        return _picked(table, kind, fixed) if table.has("schema") else fixed
    if table.has("schema"):
        return _declared(table)
    if kind == "parquet":
        return _from_parquet(table, path)
    if kind == "generator":
        return generated
    needy = f"value_format = {value_format}" if value_format else kind
    raise table.error("is missing", "schema", f'{needy} needs one: schema = "k long, v string"')


def _picked(table: Table, kind: str, fixed: tuple[Field, ...]) -> tuple[Field, ...]:
    """The declared columns, which must be among those that the format has."""
    have = {field.name: field.type for field in fixed}
    declared = _declared(table)
    for field in declared:
        if have.get(field.name) != field.type:
            there_are = ", ".join(f"{name} {its}" for name, its in have.items())
            more = "; or say value_format" if kind in ("kafka", "socket") else ""
            raise table.error(
                f"{kind} has no column {field.name} {field.type}",
                "schema",
                f"it has: {there_are}{more}",
            )
    return declared


def _from_generator(table: Table, options: Mapping[str, str]) -> tuple[Field, ...]:
    """The generator's own columns; it checks its options on the way."""
    # not imported above: the generator is a Spark data source, and this package has no Spark
    generator = importlib.import_module("engine.sources.generator")
    try:
        fields: tuple[Field, ...] = generator.default_fields(options)
    except QueryFileError as error:
        raise table.error(
            f"{error.where}: {error.what}" if error.where else error.what, "options", error.hint
        ) from None
    return fields


def _declared(table: Table) -> tuple[Field, ...]:
    text = table.text("schema")
    try:
        fields = parse_schema(text)
    except DdlError as error:
        raise table.error(
            str(error), "schema", 'write for example "k long, ts timestamp"'
        ) from None
    return _unique(table, fields)


def _unique(table: Table, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    seen: set[str] = set()
    for column in fields:
        if column.name.lower() in seen:
            raise table.error(
                f"column `{column.name}` is there twice",
                "schema",
                "Spark does not tell capitals apart in column names",
            )
        seen.add(column.name.lower())
    return fields


def _from_parquet(table: Table, path: Path) -> tuple[Field, ...]:
    where = f"{table.file}: {table.name}"
    first = next(parquet_files(path), None)
    if first is None:
        raise SourceError(
            f"there is no Parquet file in `{path}` yet to take the schema from",
            where=where,
            hint='give it: schema = "k long, ts timestamp"',
        )
    try:
        footer = pq.ParquetFile(first)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"`{first}` is not a readable Parquet file: {error}",
            where=where,
            hint="remove or repair the file, or give the schema",
        ) from None
    return _unique(
        table, tuple(_field(where, first, footer, i) for i in range(len(footer.schema_arrow)))
    )


def _field(where: str, file: Path, footer: pq.ParquetFile, position: int) -> Field:
    column = footer.schema_arrow.field(position)
    if column.name in _int96(footer):
        return Field(column.name, "timestamp")
    try:
        return Field(column.name, spark_type(column.type))
    except NoSuchType as error:
        raise SourceError(
            f"column `{column.name}` of `{file}`: {error}", where=where, hint=_declare(footer)
        ) from None


def _declare(footer: pq.ParquetFile) -> str:
    """The schema to write where a column has a type that we do not choose one for; it may be left out."""
    known = []
    for column in footer.schema_arrow:
        try:
            known.append(f"{quoted(column.name)} {spark_type(column.type)}")
        except NoSuchType:
            if pa.types.is_timestamp(column.type):  # in nanoseconds, which are cut
                known.append(
                    f"{quoted(column.name)} {'timestamp' if column.type.tz else 'timestamp_ntz'}"
                )
    return f'declare the columns: schema = "{", ".join(known)}"'


def _int96(footer: pq.ParquetFile) -> set[str]:
    """Columns in the old form of timestamps, which Spark reads as UTC instants."""
    schema = footer.schema
    return {
        schema.column(i).path
        for i in range(len(schema))
        if schema.column(i).physical_type == "INT96"
    }


def parquet_files(path: Path) -> Iterator[Path]:
    """The files below a path that Spark would take, by name; hidden and empty ones are none."""
    if path.is_file():
        yield path
        return
    for found in sorted(path.rglob("*")):
        hidden = any(part[0] in "._" for part in found.relative_to(path).parts)
        if found.is_file() and not hidden and found.stat().st_size:
            yield found
