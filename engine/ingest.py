"""From sources to batches: one streaming DataFrame for all inputs, and its rows as columns again.

Inputs differ in their columns; Spark wants one schema. So every row has its input's number, the path of
a file (where the task is to read it), and slots that columns of one type share. What happens to the rows
then is exchange.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.flow import Flow, Source, Target
from engine.query.model import Field, JoinInput, key_id, offset_id, time_id
from engine.query.types import arrow_type
from engine.sources.native import is_native, read_native

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Records = Mapping[str, Path]
NO_RECORDS: Records = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Feed:
    """Another plan's side that a source feeds too, and the columns as that has them."""

    op: int
    side: int
    columns: tuple[str, ...]
    keys: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How one source travels: its columns in state, and where they are in the union's rows."""

    number: int
    alias: str
    mark: str  # the name of its watermark
    op: int
    side: int
    columns: tuple[Field, ...]  # the operator's key first
    keys: int
    needed: tuple[str, ...]  # key classes and time: rows without are set aside
    time: str | None
    native: tuple[str, ...] | None  # the file's columns, when the task reads the file
    fields: tuple[Field, ...]  # the stream's declared columns
    slots: tuple[int, ...]  # of each column, when Spark reads
    offset: str | None = None  # the column of the rows' offsets, which are made where rows are read
    stream: int = 0  # its number
    streams: int = 1  # under this alias
    nullable: bool = False  # keys may be null
    plain: tuple[
        tuple[str, str], ...
    ] = ()  # columns with their names for people: as in the (first) stream, whatever the plan
    also: tuple[Feed, ...] = ()

    def schema(self) -> pa.Schema:
        """Of the columns as they are read."""
        return pa.schema([(f.name, arrow_type(f.type)) for f in self.columns])

    def sorted_schema(self, first: str) -> pa.Schema:
        """Of the columns as they are sent: after a hash column named `first`, offsets last."""
        columns = [(first, pa.uint64()), *((f.name, f.type) for f in self.schema())]
        return pa.schema([*columns, (self.offset, pa.int64())] if self.offset else columns)


@dataclass(frozen=True, slots=True)
class Union:
    """The one schema of all sources: `input`, `path`, and slots."""

    layouts: tuple[Layout, ...]
    slots: tuple[str, ...]  # Spark type of each


def lay_out(flow: Flow) -> Union:
    """Decide how each source travels."""
    slots: list[str] = []
    layouts = []
    for number, source in enumerate(flow.sources):
        op, given = flow.ops[source.op], source.scan.input
        offset = offset_id(given.alias) if given.ordered else None
        columns = tuple(f for f in op.sides[source.side].columns if f.name != offset)
        native = _native(source, columns)
        mine = () if native else _slots(columns, slots)
        keys = [] if given.nullable else [key_id(part.number) for part in given.keys]
        needed = [*keys, *([source.time] if source.time else [])]
        peers = [n for n, other in enumerate(flow.sources) if other.base == source.base]
        layouts.append(
            Layout(
                number,
                given.alias,
                source.mark,
                source.op,
                op.place(source.side, new=True),
                columns,
                op.keys,
                tuple(needed),
                source.time,
                native,
                source.scan.stream.fields,
                mine,
                offset,
                peers.index(number),
                len(peers),
                given.nullable,
                _plain(columns, flow.sources[peers[0]].scan.input),
                tuple(_feed(flow, target) for target in source.also),
            )
        )
    return Union(tuple(layouts), tuple(slots))


def _feed(flow: Flow, target: Target) -> Feed:
    op = flow.ops[target.op]
    columns = tuple(f.name for f in op.sides[target.side].columns)
    return Feed(target.op, op.place(target.side, new=True), columns, op.keys)


def past_the_jvm(flow: Flow) -> bool:
    """Does every row come from a file that the task itself reads?"""
    return all(layout.native is not None for layout in lay_out(flow).layouts)


def _native(source: Source, columns: Sequence[Field]) -> tuple[str, ...] | None:
    """The file's columns, if the columnar reader can do without Spark SQL."""
    given = source.scan.input
    if given.where is not None or given.exprs or not is_native(source.scan.stream):
        return None
    plain = {key_id(part.number): part.column for part in given.keys}
    names = [plain.get(f.name, _column(f.name, given)) for f in columns]
    return tuple(name for name in names if name) if all(names) else None


def _plain(columns: Sequence[Field], given: JoinInput) -> tuple[tuple[str, str], ...]:
    """A name for each column, none twice. Keys come first, in the query's order, not in that of a plan."""
    order = {key_id(part.number): n - len(given.keys) for n, part in enumerate(given.keys)}
    columns = sorted(columns, key=lambda column: order.get(column.name, 0))
    keys = {key_id(part.number): part.column or f"key_{part.number}" for part in given.keys}
    names: list[str] = []
    for column in columns:
        name = keys.get(column.name) or _column(column.name, given) or column.name
        names.append(name if name not in names else f"{name}_{len(names)}")
    return tuple((column.name, name) for column, name in zip(columns, names, strict=True))


def _column(name: str, given: JoinInput) -> str | None:
    """The stream's column behind a column of the joined row, key classes aside."""
    if name == time_id(given.alias):
        return given.time
    return next((f.name for f in given.payload if given.column_id(f.name) == name), None)


def _expr(name: str, given: JoinInput) -> str:
    """Spark SQL for a column of the joined row."""
    for part in given.keys:
        if key_id(part.number) == name:
            return part.expr
    column = _column(name, given) or ""
    at = next((n for n, f in enumerate(given.payload) if given.column_id(f.name) == name), None)
    if given.exprs and at is not None:
        return given.exprs[at]
    return "`" + column.replace("`", "``") + "`"


def _slots(columns: Sequence[Field], slots: list[str]) -> tuple[int, ...]:
    """A slot for each column: the same one in whatever order a plan has them."""
    used = set[int]()
    places = {
        f.name: _slot(f.type, slots, used) for f in sorted(columns, key=lambda column: column.name)
    }
    return tuple(places[f.name] for f in columns)


def same_rows(some: Union, other: Union) -> bool:
    """Do the sources' rows travel alike, so that Spark need not be told anything new?"""
    return (some.slots, [_travels(one) for one in some.layouts]) == (
        other.slots,
        [_travels(one) for one in other.layouts],
    )


def _travels(layout: Layout) -> object:
    names = (f.name for f in layout.columns)
    return layout.number, layout.mark, layout.native is None, sorted(zip(names, layout.slots))  # noqa: B905 (native ones have none)


def _slot(kind: str, slots: list[str], used: set[int]) -> int:
    """A slot of this type that the source does not use yet."""
    free = [i for i, have in enumerate(slots) if have == kind and i not in used]
    if not free:
        slots.append(kind)
        free = [len(slots) - 1]
    used.add(free[0])
    return free[0]


def streaming_union(
    spark: SparkSession, flow: Flow, union: Union, records: Records = NO_RECORDS
) -> DataFrame:
    """All sources as one streaming DataFrame; filters and projections run in Spark SQL. `records`: by stream,
    of the changes to generated ones."""
    pairs = zip(flow.sources, union.layouts, strict=True)
    parts = [_select(spark, source, layout, union, records) for source, layout in pairs]
    return reduce(lambda a, b: a.unionAll(b), parts)


def _select(
    spark: SparkSession, source: Source, layout: Layout, union: Union, records: Records
) -> DataFrame:
    from engine.sources.files import open_file_list, open_stream

    given, native = source.scan.input, layout.native is not None
    stream = source.scan.stream
    rows = (
        open_file_list(spark, stream)
        if native
        else open_stream(spark, stream, records.get(stream.name))
    )
    if given.where:
        rows = rows.where(given.where)
    exprs = {
        slot: _expr(f.name, given) for slot, f in zip(layout.slots, layout.columns, strict=False)
    }
    columns = [
        f"cast({layout.number} as tinyint) as input",
        f"{'path' if native else 'cast(null as string)'} as path",
    ]
    columns += [
        f"cast({exprs.get(n, 'null')} as {kind}) as s{n}" for n, kind in enumerate(union.slots)
    ]
    return rows.selectExpr(*columns)


def read(layout: Layout, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The source's columns, in state's order, of rows of the union."""
    schema = layout.schema()
    if layout.native is None:
        yield pa.RecordBatch.from_arrays(
            [rows.column(2 + slot) for slot in layout.slots], schema=schema
        )
        return
    for path in rows.column(1).to_pylist():
        table = read_native(
            path, list(dict.fromkeys(layout.native)), layout.fields
        ).combine_chunks()
        for part in table.to_batches():
            columns = [part.column(name) for name in layout.native]
            fitting = [
                c if c.type == f.type else c.cast(f.type)
                for c, f in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(fitting, schema=schema)
