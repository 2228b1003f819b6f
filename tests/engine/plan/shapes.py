"""Queries of certain shapes, and their plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.plan.build import build_plan
from engine.plan.tree import Plan
from engine.query.ddl import parse_schema
from engine.query.model import QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

CHAIN = """SELECT A.x, D.z, B.v, C.ts FROM A A JOIN B B ON A.x = B.x JOIN C C ON B.y = C.y
    JOIN D D ON C.z = D.z"""
LEFT = "(((a b) c) d)"
SCHEMAS = {
    "a": "x long, ts timestamp, u int",
    "b": "x int, y long, v int, ts timestamp",
    "c": "y long, z long, ts timestamp, w int",
    "d": "z long, ts timestamp",
}


def plan(sql: str, schemas: dict[str, str] = SCHEMAS, **changes: object) -> Plan:
    streams = {
        name: StreamSpec(name, "parquet", f"/in/{name}", parse_schema(text), "ts", 1.0)
        for name, text in schemas.items()
    }
    sink = SinkSpec("parquet", "/out")
    spec = QuerySpec("q", sql, streams, sink, Path("/state"), Path("q.toml"), groups=8)
    spec = replace(spec, **changes)  # type: ignore[arg-type]
    return build_plan(spec, analyse(spec))


STAR = (
    "SELECT a.k, b.v + c.v AS s FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k JOIN d ON d.k = a.k"
)
SAME = dict.fromkeys("abcd", "k long, v int, ts timestamp")
