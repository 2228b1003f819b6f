"""What a query file says, as frozen values. Parsing lives in file.py (TOML) and sql.py (SQL)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_STREAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def is_stream_name(text: object) -> bool:
    """Whether a stream may be called so. Files and folders bear the names of streams, so nothing else may be in them."""
    return isinstance(text, str) and _STREAM_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Field:
    """A column: name and Spark SQL type (simple string, e.g. `bigint`, `decimal(10,2)`)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One `[streams.NAME]` table. `path` is absolute once read; "" where the format has none."""

    name: str
    format: str
    path: str
    fields: tuple[Field, ...]
    time: str | None = None
    watermark_s: float = 0.0
    idle_after_s: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    value_format: str = ""  # json or csv: the columns are in the messages of the column `value`
    trusted: bool = True  # by whoever runs the engine; not if it was registered over the network


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The `[sink]` table. `parquet` is native; any other Spark format is handed each tick's files. `umask`: what result
    files are made with, where that is not the process's own."""

    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    umask: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One `[operators.join-N]` table: what an operator has of its own."""

    groups: int | None = None
    placement: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A whole query file, defaults filled in, paths absolute."""

    name: str
    sql: str
    streams: Mapping[str, StreamSpec]
    sink: SinkSpec
    checkpoint: Path
    file: Path
    nodes: int = 2
    groups: int = 256
    window_s: float | None = None
    memory_per_node_bytes: int | None = None
    memory_of_node: Mapping[int, int] = field(default_factory=dict)  # where nodes differ
    placement: Mapping[int, float] | None = None
    join_order: str | None = None
    operators: Mapping[str, OperatorSpec] = field(default_factory=dict)

    def budgets(self, nodes: int) -> dict[int, int]:
        """Bytes of memory of each node that has a budget."""
        common = self.memory_per_node_bytes
        every = dict.fromkeys(range(nodes), common) if common is not None else {}
        return every | {node: size for node, size in self.memory_of_node.items() if node < nodes}


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One input's member of a key class: Spark SQL over the stream's columns, already cast to `type`.

    A key class is a set of expressions that the query makes equal; classes are numbered over the whole
    query. `column` names the stream's column when the expression is that column and nothing more
    (a widening cast aside), so that a columnar reader can do without Spark SQL.
    """

    expr: str
    type: str
    column: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One stream as it enters the join: its alias, key, filter, and the columns needed afterwards."""

    alias: str
    stream: str
    keys: tuple[KeyPart, ...]
    payload: tuple[Field, ...]
    where: str | None = None  # Spark SQL over the stream's columns
    time: str | None = None  # the event time column, where windows need it
    exprs: tuple[
        str, ...
    ] = ()  # Spark SQL of each payload column, where not the column of that name
    more: tuple[JoinInput, ...] = ()  # UNION ALL: further streams under this alias
    ordered: bool = False  # its rows carry their offset
    nullable: bool = False  # a null key is a key like any other

    def column_id(self, name: str) -> str:
        """The name of this input's column `name` in the joined row."""
        return f"{self.alias}.{name}"


def offset_id(alias: str) -> str:
    """The name of an input's offset in the joined row: the order in which its rows came, for ties in time."""
    return f"#{alias}"


def key_id(part: int) -> str:
    """The name of key class `part` in the joined row (all its members agree on the value)."""
    return f"${part}"


def time_id(alias: str) -> str:
    """The name of an input's event time in the joined row, where windows need it."""
    return f"@{alias}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A window: the time of input `late` is at most `us` microseconds after that of input `early`."""

    early: int
    late: int
    us: int


Tree = int | tuple["Tree", ...]
"""A join order: an input's number, or the subtrees that one operator joins."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result: either a joined column as it is (`source`), or DuckDB SQL (`expr`)
    over joined columns, quoted by their ids (`"a.va"`, `"$0"`). `type` is the Spark SQL type that
    Spark itself would give the column; the result is cast to it."""

    name: str
    type: str
    source: str | None = None
    expr: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """Which rows an aggregate sees, up to the current one: so many before it, or all that are at most
    so many microseconds older (and all of its own time)."""

    rows: int | None = None
    us: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One window function. `argument` is the id of a column, or of an expression among the query's
    `arguments`; None for count(*). Its result is named `id`."""

    id: str
    function: str
    argument: str | None
    frame: Frame
    type: str


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Window functions over the joined row: PARTITION BY `key`, ORDER BY `time`; `order` are the columns
    that decide among equal times. `arguments` are DuckDB SQL over the joined row."""

    key: tuple[Field, ...]
    time: str
    order: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    arguments: tuple[OutputColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """A checked inner equi-join of 2 to 8 inputs, or of 1 where there is a `group`.

    `bounds` are closed: the shortest path between every two inputs that windows connect at all.
    `order` is the tree to run; None: one multi-way join of all inputs, which then share every class.
    `group`: window functions over the joined rows; outputs may then use their ids.
    """

    inputs: tuple[JoinInput, ...]
    outputs: tuple[OutputColumn, ...]
    where: str | None = None  # DuckDB SQL over the joined columns' ids
    bounds: tuple[Bound, ...] = ()
    order: Tree | None = None
    group: GroupQuery | None = None
