"""Input files of a workload, made from its seed and kept under data/bench (git-ignored).

Also what follows from the files alone: DuckDB views over them, and how many rows each tick brings in and out.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.workloads import Stream, Workload

ROOT = Path(__file__).resolve().parents[2]
BENCH_DIR = ROOT / "data" / "bench"
ARROW_TYPES = {"long": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}


def inputs(workload: Workload, under: Path = BENCH_DIR) -> Path:
    """The folder with one sub-folder of Parquet files per stream; made on first use."""
    folder = under / workload.key
    if folder.is_dir():
        return folder
    scratch = folder.with_name(folder.name + f".{os.getpid()}.tmp")
    shutil.rmtree(scratch, ignore_errors=True)
    for stream in workload.streams:
        _write_stream(workload, stream, scratch / stream.name)
    scratch.rename(folder)
    return folder


def _write_stream(workload: Workload, stream: Stream, folder: Path) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng([workload.seed, ord(stream.name[0])])
    columns = workload.generate(workload, stream.name, rng)
    table = pa.table(
        {
            name: pa.array(columns[name]).cast(ARROW_TYPES[kind])
            for name, kind in stream.columns.items()
        }
    )
    bounds = np.linspace(0, workload.rows, workload.files + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(bounds.tolist())):
        path = folder / f"{number:04d}.parquet"
        pq.write_table(table.slice(low, high - low), path)
        # Spark's file source takes the oldest first: make the order certain.
        moment = 1_700_000_000 + number
        os.utime(path, (moment, moment))


def connect(threads: int = 2) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def define_views(connection: duckdb.DuckDBPyConnection, workload: Workload, folder: Path) -> None:
    for stream in workload.streams:
        pattern = str(folder / stream.name / "*.parquet")
        columns = ", ".join(stream.columns)
        connection.execute(
            f"CREATE VIEW {stream.name} AS SELECT {columns}, "
            f"CAST(parse_filename(filename, true) AS INTEGER) AS file "
            f"FROM read_parquet('{pattern}', filename = true)"
        )


def rows_per_tick(workload: Workload, folder: Path, files_per_trigger: int) -> list[int]:
    """Input plus output rows of each tick: a result belongs to the tick of its latest part."""
    with connect() as connection:
        define_views(connection, workload, folder)
        names = [stream.name for stream in workload.streams]
        latest = "greatest(" + ", ".join(f"{name}.file" for name in names) + ")"
        counts = [
            f"SELECT {latest} // {files_per_trigger} AS tick, count(*) AS n "
            f"FROM {workload.source} GROUP BY 1"
        ]
        counts += [
            f"SELECT file // {files_per_trigger}, count(*) FROM {name} GROUP BY 1" for name in names
        ]
        rows = connection.execute(
            f"SELECT tick, sum(n) FROM ({' UNION ALL '.join(counts)}) GROUP BY 1 ORDER BY 1"
        ).fetchall()
    return [int(count) for _, count in rows]
