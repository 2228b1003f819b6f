"""Query files (TOML) to `QuerySpec`: defaults filled in, paths absolute, everything checked that
can be checked without parsing the SQL (sql.py does that) and without Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from control.errors import TomlError
from control.ports import Secrets
from control.toml import read_toml_file
from engine.errors import QueryFileError
from engine.query.formats import SINKS, SOURCES
from engine.query.model import (
    Field,
    OperatorSpec,
    QuerySpec,
    SinkSpec,
    StreamSpec,
    is_stream_name,
)
from engine.query.options import option_paths, read_format, read_options, read_value_format
from engine.query.paths import (
    Roots,
    check_apart,
    check_links,
    check_roots,
    check_source,
    local_path,
)
from engine.query.schema import read_schema
from engine.query.values import Table, is_number

NODES_DEFAULT, NODES_MAX = 2, 1000
GROUPS_DEFAULT, GROUPS_MAX = 256, 65536
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


def read_query(
    path: Path, *, roots: Roots | None = None, secrets: Secrets | None = None
) -> QuerySpec:
    """The query in a file. With `roots`, what it reads and what it writes must lie under these; with `secrets`, the
    named secrets that it refers to must be there."""
    table = Table(str(path), "", _load(path))
    folder = path.absolute().parent
    name = _query_name(table, path)
    nodes = table.whole("nodes", NODES_DEFAULT, 1, NODES_MAX)
    groups = _groups(table, GROUPS_DEFAULT, nodes)
    window_s = table.duration("window")
    checkpoint = local_path(table, "checkpoint", f"state/{name}", folder=folder)
    trusted = roots is None
    hint = 'add [sink] with format = "parquet" and path'
    sink = _sink(table.table("sink", hint=hint), folder, trusted=trusted, secrets=secrets)
    tables = _stream_tables(table)
    _check_paths(str(path), _source_paths(tables, folder), checkpoint, sink, roots)
    streams = {
        key: _stream(key, t, folder, window_s, trusted=trusted, secrets=secrets)
        for key, t in tables.items()
    }
    _check_option_paths(str(path), streams, sink, roots)
    memory = _memory(table, nodes)
    spec = QuerySpec(
        name=name,
        sql=table.text("sql", hint='write the query: sql = "SELECT …"'),
        streams=streams,
        sink=sink,
        checkpoint=checkpoint,
        file=path.absolute(),
        nodes=nodes,
        groups=groups,
        window_s=window_s,
        memory_per_node_bytes=memory[0],
        memory_of_node=memory[1],
        placement=_placement(table, nodes),
        join_order=_join_order(table),
        operators=_operators(table, nodes),
    )
    table.allow("window", "memory_per_node", "placement", "join_order", "operators")
    table.close()
    return spec


def _memory(table: Table, nodes: int) -> tuple[int | None, dict[int, int]]:
    """One budget for all nodes, or a table with a budget for each that has one."""
    if not table.is_table("memory_per_node"):
        return table.size("memory_per_node"), {}
    budgets = table.table("memory_per_node")
    found: dict[int, int] = {}
    for key in list(budgets.values):
        if not is_number(key) or int(key) >= nodes:
            raise budgets.error(f"there is no node {key}", key, f"nodes are 0 to {nodes - 1}")
        size = budgets.size(key)
        assert size is not None
        found[int(key)] = size
    return None, found


def _groups(table: Table, default: int, nodes: int) -> int:
    groups = table.whole("groups", default, 1, GROUPS_MAX)
    if groups < nodes:
        raise table.error(
            f"is {groups}, less than the {nodes} nodes",
            "groups",
            "each node needs at least one group",
        )
    return groups


def _operators(table: Table, nodes: int) -> dict[str, OperatorSpec]:
    """Groups and placement of single operators; their names are known once there is a plan."""
    found: dict[str, OperatorSpec] = {}
    operators = table.table("operators") if table.has("operators") else None
    for name in operators.values if operators else ():
        assert operators is not None
        one = operators.table(name)
        groups = _groups(one, GROUPS_DEFAULT, nodes) if one.has("groups") else None
        found[name] = OperatorSpec(groups, _placement(one, nodes))
        one.allow("groups", "placement")
        one.close()
    return found


def _join_order(table: Table) -> str | None:
    """The tree of joins as text; what it means depends on the SQL."""
    hint = 'write for example "((a b) (c d))"'
    return table.text("join_order", hint=hint) if table.has("join_order") else None


def _load(path: Path) -> Mapping[str, object]:
    if not path.exists():
        hint = "give the path of a .toml file"
        raise QueryFileError("there is no such query file", where=str(path), hint=hint)
    try:
        return read_toml_file(path)
    except TomlError as error:
        hint = error.hint or "texts need quotes, tables look like [streams.a]"
        raise QueryFileError(error.what, where=str(path), hint=hint) from None


def _query_name(table: Table, path: Path) -> str:
    name = table.text("name", path.stem)
    if not _NAME.match(name):
        raise table.error(
            f"`{name}` is not a name", "name", "use up to 64 letters, digits, -, _ and ."
        )
    return name


def _stream_tables(table: Table) -> dict[str, Table]:
    hint = "add a table for each stream: [streams.a]"
    streams = table.table("streams", hint=hint)
    if not streams.values:
        raise table.error("is empty", "streams", hint)
    seen: set[str] = set()
    for name in streams.values:
        if not is_stream_name(name):
            raise streams.error("is not a stream's name", name, "use letters, digits and _")
        if name.lower() in seen:
            raise streams.error("differs from another stream only in capitals", name)
        seen.add(name.lower())
    return {name: streams.table(name, hint=hint) for name in streams.values}


def _source_paths(tables: Mapping[str, Table], folder: Path) -> dict[str, Path]:
    return {
        f"{t.name}.path": local_path(t, "path", folder=folder)
        for t in tables.values()
        if SOURCES[read_format(t, SOURCES)].path
    }


def _check_paths(
    file: str,
    sources: Mapping[str, Path],
    checkpoint: Path,
    sink: SinkSpec,
    roots: Roots | None,
) -> None:
    own = own_paths(checkpoint, sink)
    if roots is not None:
        hint = "; the setting sink_roots names further ones"
        check_roots(file, own, roots.write, roots.private, hint)
        check_roots(file, sources, roots.read, roots.private)
        for key, path in sources.items():
            check_links(file, key, path, roots.read)
    check_apart(file, own, sources)


def own_paths(checkpoint: Path, sink: SinkSpec) -> dict[str, Path]:
    """What a query writes to, by its key in the query file."""
    own = {"checkpoint": checkpoint}
    if sink.path:
        own["sink.path"] = Path(sink.path)
    return own


def _check_option_paths(
    file: str, streams: Mapping[str, StreamSpec], sink: SinkSpec, roots: Roots | None
) -> None:
    """Files that options name, as a trust store, lie under the roots too."""
    if roots is None:
        return
    named = option_paths("sink", sink.options)
    for name, stream in streams.items():
        named |= option_paths(f"streams.{name}", stream.options)
    check_roots(file, named, roots.read, roots.private)


def _stream(
    name: str,
    table: Table,
    folder: Path,
    window_s: float | None,
    *,
    trusted: bool,
    secrets: Secrets | None,
) -> StreamSpec:
    kind = read_format(table, SOURCES)
    form = SOURCES[kind]
    messages = read_value_format(table, kind)
    options = read_options(
        table, form, folder, value_format=messages, trusted=trusted, secrets=secrets
    )
    path = Path()
    if form.path:
        path = local_path(table, "path", folder=folder)
        check_source(table, path)
    elif table.has("path"):
        raise table.error(f"is not for {kind}", "path", "leave it out; see docs/sources.md")
    fields = read_schema(table, kind, path, options, messages)
    time = _time(table, fields, window_s)
    watermark_s = table.duration("watermark") or 0.0
    if watermark_s and time is None:
        raise table.error("needs `time`", "watermark", "name the stream's event time column")
    idle_after_s = _idle_after(table, time)
    table.allow("schema", "time", "watermark", "idle_after")
    table.close()
    return StreamSpec(
        name,
        kind,
        str(path) if form.path else "",
        fields,
        time,
        watermark_s,
        idle_after_s,
        options,
        messages,
        trusted,
    )


def _idle_after(table: Table, time: str | None) -> float | None:
    """After how long a silence a stream no longer holds back the others' windows."""
    found = table.duration("idle_after")
    if found is not None and time is None:
        raise table.error("needs `time`", "idle_after", "name the stream's event time column")
    if found == 0:
        raise table.error(
            "must be longer than 0",
            "idle_after",
            "leave it out to wait for a silent stream forever",
        )
    return found


def _time(table: Table, fields: tuple[Field, ...], window_s: float | None) -> str | None:
    if not table.has("time"):
        if window_s is not None:
            raise table.error(
                "is missing, and the query has a window",
                "time",
                "name the stream's event time column",
            )
        return None
    name = table.text("time")
    found = next((f for f in fields if f.name.lower() == name.lower()), None)
    if found is None:
        raise table.error(
            f"there is no column `{name}`",
            "time",
            f"columns are: {', '.join(f.name for f in fields)}",
        )
    if found.type not in ("timestamp", "timestamp_ntz"):
        raise table.error(
            f"column `{name}` is {found.type}, not a timestamp",
            "time",
            "declare it as timestamp or timestamp_ntz",
        )
    return found.name


def _sink(table: Table, folder: Path, *, trusted: bool, secrets: Secrets | None) -> SinkSpec:
    kind = read_format(table, SINKS, trusted=trusted)
    options = read_options(table, SINKS[kind], folder, trusted=trusted, secrets=secrets)
    path = ""
    if SINKS[kind].path:
        found = local_path(table, "path", folder=folder)
        if os.path.exists(found) and not found.is_dir():
            raise table.error(f"`{found}` is a file", "path", "give a folder")
        path = str(found)
    table.close()
    return SinkSpec(kind, path, options)


def _placement(table: Table, nodes: int) -> dict[int, float] | None:
    shares = table.shares("placement")
    if shares is None:
        return None
    for node in shares:
        if node >= nodes:
            raise table.error(f"there is no node {node}; nodes are 0 to {nodes - 1}", "placement")
    if abs(sum(shares.values()) - 1) > 0.001:
        raise table.error(f"the shares sum to {sum(shares.values()):g}, not 1", "placement")
    return shares
