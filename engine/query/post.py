"""WHERE and SELECT over chunks of joined rows: plain columns by Arrow, the rest by DuckDB.

DuckDB is closed to the outside (no files, no network, no settings) and runs on one thread, since
the caller has one core. Not here: what the expressions may be (infer.py, duck_text.py).
"""

from __future__ import annotations

from functools import lru_cache

import duckdb
import pyarrow as pa

from engine.errors import SpillwayError
from engine.query.duck_text import quote
from engine.query.model import JoinQuery, OutputColumn
from engine.query.types import arrow_type

_CHUNK = "chunk"


def evaluate(table: pa.Table, query: JoinQuery) -> pa.Table:
    """The result rows of a chunk of joined rows, whose columns are named by their ids."""
    plain = [output for output in query.outputs if output.source is not None]
    if query.where is None and len(plain) == len(query.outputs):
        return _plain(table, query.outputs)
    if query.where is None:
        return _beside_plain(table, query, tuple(plain))
    return _computed(table, query)


def output_schema(query: JoinQuery) -> pa.Schema:
    """The Arrow schema of results."""
    return pa.schema([(output.name, arrow_type(output.type)) for output in query.outputs])


def _plain(table: pa.Table, outputs: tuple[OutputColumn, ...]) -> pa.Table:
    columns = []
    for output in outputs:
        column = table.column(output.source)
        kind = arrow_type(output.type)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.table(columns, names=[output.name for output in outputs])


def _beside_plain(table: pa.Table, query: JoinQuery, plain: tuple[OutputColumn, ...]) -> pa.Table:
    """Without a filter rows stay in order: only expressions need DuckDB, the rest is not copied."""
    rest = tuple(output for output in query.outputs if output.source is None)
    found = _computed(table, JoinQuery(query.inputs, rest))
    for output, column in zip(plain, _plain(table, plain).columns, strict=True):
        found = found.append_column(output.name, column)
    return found.select([output.name for output in query.outputs])


def _computed(table: pa.Table, query: JoinQuery) -> pa.Table:
    cursor = connection().cursor()
    try:
        cursor.register(_CHUNK, table)
        found = cursor.sql(_select(query)).to_arrow_table()
    except duckdb.Error as error:
        raise _explained(cursor, query, error) from None
    finally:
        cursor.close()
    return _cast(found, output_schema(query))


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table if table.schema.equals(schema) else table.cast(schema)


@lru_cache(maxsize=64)
def _select(query: JoinQuery) -> str:
    columns = ", ".join(
        f"{output.expr or quote(output.source or '')} AS {quote(output.name)}"
        for output in query.outputs
    )
    where = f" WHERE {query.where}" if query.where else ""
    return f"SELECT {columns} FROM {_CHUNK}{where}"


@lru_cache(maxsize=1)
def connection() -> duckdb.DuckDBPyConnection:
    """One closed DuckDB per process."""
    connection = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = true")  # _beside_plain relies on it
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _explained(
    cursor: duckdb.DuckDBPyConnection, query: JoinQuery, error: duckdb.Error
) -> SpillwayError:
    """Names the expression that failed, by trying each by itself."""
    culprit = _culprit(cursor, query)
    reason = str(error).splitlines()[0]
    return SpillwayError(
        f"cannot compute {culprit}: {reason}",
        where="query",
        hint="guard it with CASE WHEN …, CAST to a wider type, or filter the rows",
    )


def _culprit(cursor: duckdb.DuckDBPyConnection, query: JoinQuery) -> str:
    if query.where:
        try:
            cursor.execute(f"SELECT count(*) FROM {_CHUNK} WHERE {query.where}").fetchall()
        except duckdb.Error:
            return f"WHERE {query.where}"
    for output in query.outputs:
        try:
            if output.expr:
                only = JoinQuery(query.inputs, (output,), query.where)
                cursor.sql(_select(only)).to_arrow_table()
        except duckdb.Error:
            return f"column `{output.name}` ({output.expr})"
    return "the result"
