"""A chain of four streams within windows: the query, its data, and what should come of it. For tests on Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.engine.oracle import Case

T0 = datetime(2026, 1, 1, tzinfo=UTC)
ALL = ("ab", "ac", "ad", "bc", "bd", "cd")
KEYS = {"a": ["x"], "b": ["x", "y"], "c": ["y", "z"], "d": ["z"]}


def stamps(seconds: np.ndarray) -> pa.Array:
    base = int(T0.timestamp() * 1_000_000)
    return pa.array((base + seconds * 1_000_000).astype(np.int64)).cast(
        pa.timestamp("us", tz="UTC")
    )


def chain(root: Path, order: str = "", nodes: int = 2) -> Case:
    case = Case(
        root,
        "SELECT a.x, b.y, c.z, a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd "
        "FROM a JOIN b ON a.x = b.x JOIN c ON b.y = c.y JOIN d ON c.z = d.z",
        {
            "a": "ts timestamp, x long, v long",
            "b": "ts timestamp, x long, y long, v long",
            "c": "ts timestamp, y long, z int, v long",
            "d": "ts timestamp, z long, v long",
        },
        nodes=nodes,
        groups=16,
        extra='window = "20 seconds"\n' + (f'join_order = "{order}"' if order else ""),
        stream_extra='time = "ts"\nwatermark = "5 seconds"',
    )
    case.write()
    return case


def feed_chain(
    case: Case, ticks: int, seed: int, rows: int = 60, late: float = 0.0, start: int = 0
) -> None:
    rng = np.random.default_rng(seed)
    columns = {"a": ["x"], "b": ["x", "y"], "c": ["y", "z"], "d": ["z"]}
    for tick in range(start, start + ticks):
        for name, keys in columns.items():
            seconds = (
                tick * 10 + rng.uniform(-2.4, 10, rows) - np.where(rng.random(rows) < late, 60, 0)
            )
            table = {"ts": stamps(seconds)}
            for key in keys:
                values = rng.integers(0, 12, rows)
                kind = pa.int32() if (name, key) == ("c", "z") else pa.int64()
                table[key] = pa.array(values, mask=rng.random(rows) < 0.03).cast(kind)
            table["v"] = pa.array(rng.integers(0, 10**6, rows))
            case.feed(name, tick, pa.table(table))


def near(*pairs: str, seconds: float = 20) -> str:
    both = (
        f"abs(epoch_us({p[0]}.ts) - epoch_us({p[1]}.ts)) <= {int(seconds * 1e6)}" for p in pairs
    )
    return " AND ".join(both)


def accepted(case: Case) -> str:
    """Each stream without what was set aside, as a WITH clause for DuckDB."""
    out = []
    for name, keys in KEYS.items():
        data = f"SELECT * FROM read_parquet('{case.root}/data/{name}/*.parquet')"
        aside = case.checkpoint / "side" / "late" / name
        if list(aside.glob("*.parquet")):
            columns = ", ".join(["ts", *keys, "v"])
            data += f" EXCEPT ALL SELECT {columns} FROM read_parquet('{aside}/*.parquet')"
        out.append(f"{name} AS ({data})")
    return f"WITH {', '.join(out)} "
