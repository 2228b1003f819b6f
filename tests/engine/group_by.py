"""A query with window functions: its rows, and its results compared with DuckDB's."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from tests.engine.chains import stamps
from tests.engine.oracle import Case

TIMED = 'time = "ts"\nwatermark = "4 seconds"'
ROWS = "(PARTITION BY k ORDER BY ts ROWS BETWEEN {} PRECEDING AND CURRENT ROW)"
RANGE = "(PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL {} SECONDS PRECEDING AND CURRENT ROW)"
ONE = (
    "SELECT k, ts, id, v, sum(v) OVER w AS s, avg(v) OVER w AS m, count(v) OVER r AS n, min(g) OVER r AS lo, "
    f"max(d) OVER w AS hi, sum(d) OVER r AS t, stddev(v) OVER w AS sd FROM a WINDOW w AS {ROWS.format(3)}, "
    f"r AS {RANGE.format(7)}"
)
SCHEMA = "ts timestamp, k int, id long, v long, g string, d decimal(9,2)"


def table(
    rng: np.random.Generator, tick: int, rows: int, first: int, *, late: float = 0.0
) -> pa.Table:
    """Whole seconds, so that there are ties; up to 4 s of disorder."""
    seconds = np.floor(tick * 10 + rng.uniform(-4, 10, rows)) - np.where(
        rng.random(rows) < late, 90, 0
    )
    values = rng.integers(-99, 99, rows)
    return pa.table({
        "ts": stamps(np.maximum(seconds, 0 if not late else -1000)),
        "k": pa.array(rng.integers(0, 5, rows).astype(np.int32), mask=rng.random(rows) < 0.1),
        "id": pa.array(np.arange(first, first + rows)), "v": pa.array(values, mask=rng.random(rows) < 0.1),
        "g": pa.array(rng.choice(["x", "yy", ""], rows), mask=rng.random(rows) < 0.1),
        "d": pa.array(values * 7).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
    })  # fmt: skip


def one(root: Path, sql: str = ONE, nodes: int = 2) -> Case:
    case = Case(root, sql, {"a": SCHEMA}, nodes=nodes, groups=8, stream_extra=TIMED)
    case.write()
    return case


def plain(sql: str) -> str:
    """The query for DuckDB: ids break ties among rows, as they rise with the offset; and types are Spark's."""
    for part in ("ROWS 3 PRECEDING", "ROWS BETWEEN 3 PRECEDING", "ROWS BETWEEN 2 PRECEDING"):
        sql = sql.replace(f"ORDER BY ts {part}", f"ORDER BY ts, id {part}")
    return sql


def same(case: Case, sql: str, before: str) -> int:
    """Published results are those of `sql` in DuckDB whose time is before the last watermark; doubles nearly."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(case.expected(f"CREATE TABLE want AS SELECT * FROM ({plain(sql)}) WHERE {before}"))
    con.execute(f"CREATE TABLE got AS SELECT * FROM read_parquet('{case.out}/*.parquet')")
    kinds = {name: kind for name, kind, *_ in con.execute("DESCRIBE got").fetchall()}
    columns = ", ".join(
        f"round({name}, 6) AS {name}" if kind == "DOUBLE" else f"CAST({name} AS {kind}) AS {name}"
        for name, kind in kinds.items()
    )
    missing = con.execute(
        f"SELECT {columns} FROM want EXCEPT ALL SELECT {columns} FROM got"
    ).fetchall()
    spurious = con.execute(
        f"SELECT {columns} FROM got EXCEPT ALL SELECT {columns} FROM want"
    ).fetchall()
    assert not missing and not spurious, (
        f"missing {missing[:5]} ({len(missing)}), spurious {spurious[:5]} ({len(spurious)})"
    )
    return int(con.execute("SELECT count(*) FROM got").fetchall()[0][0])


FINAL = "ts < (SELECT max(ts) - INTERVAL 4 SECONDS FROM a)"


def feed(
    case: Case, ticks: range, seed: int, rows: int = 60, streams: str = "a", *, late: float = 0.0
) -> None:
    for tick in ticks:
        for number, name in enumerate(streams):
            rng = np.random.default_rng([seed, tick, number])
            case.feed(name, tick, table(rng, tick, rows, 1000 * tick, late=late))
            os.utime(case.root / "data" / name / f"{tick:03d}.parquet", (1_700_000_000 + tick,) * 2)
