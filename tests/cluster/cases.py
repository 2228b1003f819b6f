"""The queries that the cluster tests run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.engine.oracle import Case

STAR = "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"


def three_way(root: Path, files: int, *, seed: int = 1, rows: int = 500, nodes: int = 3) -> Case:
    """A join of three streams on one key; one file of each per tick."""
    rng = np.random.default_rng(seed)
    root.mkdir()
    case = Case(root, STAR, dict.fromkeys("abc", "k long, v long"), nodes=nodes, groups=32)
    case.write()
    for stream in "abc":
        for number in range(files):
            keys = pa.array(rng.integers(0, 400, rows), mask=rng.random(rows) < 0.02)
            case.feed(stream, number, pa.table({"k": keys, "v": rng.integers(0, 99, rows)}))
    return case


CHAIN = "SELECT a.k, b.j, c.v FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j"


def chain(root: Path, files: int, *, seed: int = 2, rows: int = 200, short: bool = False) -> Case:
    """A tree of two joins on different keys: an exchange lies between them. `short`: within a window of two ticks, so
    that what is old does not stay old."""
    rng = np.random.default_rng(seed)
    root.mkdir()
    stamp = pa.array(np.arange(files * rows, dtype="int64") * 1000, pa.timestamp("us", "UTC"))
    case = Case(
        root,
        CHAIN,
        {
            "a": "k long, ts timestamp",
            "b": "k long, j long, ts timestamp",
            "c": "j long, v long, ts timestamp",
        },
        nodes=3,
        groups=32,
        extra=f'window = "{2 * rows} milliseconds"' if short else 'window = "1 hour"',
        stream_extra=f'time = "ts"\nwatermark = "{"0 seconds" if short else "1 hour"}"',
    )
    case.write()

    def pick(below: int) -> pa.Array:
        return pa.array(rng.integers(0, below, rows))

    for number in range(files):
        ts = stamp.slice(number * rows, rows)
        case.feed("a", number, pa.table({"k": pick(100), "ts": ts}))
        case.feed("b", number, pa.table({"k": pick(100), "j": pick(100), "ts": ts}))
        case.feed("c", number, pa.table({"j": pick(100), "v": pick(9), "ts": ts}))
    return case


def within(case: Case, rows: int = 200) -> str:
    """A short chain's query for DuckDB, which does not know the file's window."""
    pairs = (("a", "b"), ("b", "c"), ("a", "c"))
    gaps = (f"abs(epoch_us({x}.ts) - epoch_us({y}.ts)) <= {2000 * rows}" for x, y in pairs)
    return f"{case.sql} WHERE {' AND '.join(gaps)}"
