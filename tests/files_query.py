"""A query over files, to be registered while everything runs: its text, its input, its results and DuckDB's."""

from __future__ import annotations

import contextlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.up import Up

QUERY = """
name = "files"
sql = "SELECT a.k, a.va, b.vb FROM a JOIN b ON a.k = b.k"
nodes = 2
groups = 16
checkpoint = "state"

[streams.a]
format = "parquet"
path = "{inputs}/a"
schema = "k long, va long"

[streams.b]
format = "parquet"
path = "{inputs}/b"
schema = "k long, vb long"

[sink]
format = "parquet"
path = "out"
"""


def feed(inputs: Path, number: int) -> None:
    for name in "ab":
        keys = [(17 * i + number) % 97 for i in range(400)]
        (inputs / name).mkdir(parents=True, exist_ok=True)
        path = inputs / name / f"{number:03d}.parquet"
        part = path.with_name(f".{path.name}")
        pq.write_table(
            pa.table({"k": keys, f"v{name}": [number * 1000 + i for i in range(400)]}), part
        )
        part.rename(path)


def wanted(inputs: Path) -> tuple[int, int]:
    return count(
        f"SELECT a.k, va, vb FROM '{inputs}/a/*.parquet' a JOIN '{inputs}/b/*.parquet' b ON a.k = b.k"
    )


def results(up: Up) -> tuple[int, int]:
    with contextlib.suppress(duckdb.IOException):
        return count(f"SELECT k, va, vb FROM '{up.data}/queries/files/out/part-*.parquet'")
    return (0, 0)


def count(sql: str) -> tuple[int, int]:
    """Rows, and a sum of their hashes: equal for equal multisets."""
    summed = f"SELECT count(*), sum(hash(k, va, vb)::HUGEINT) FROM ({sql})"
    with duckdb.connect() as db:
        found = db.execute(summed).fetchone()
    assert found is not None
    return int(found[0]), int(found[1] or 0)
