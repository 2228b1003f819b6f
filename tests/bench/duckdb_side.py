"""DuckDB's batch join of a workload, written to Parquet: the distance to the limit. Runs as its own process."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.bench.data import connect, define_views
from tests.bench.workloads import WORKLOADS


def main() -> int:
    task = json.loads(Path(sys.argv[1]).read_text())
    workload = WORKLOADS[task["workload"]].scaled(task["rows"])
    out = Path(task["out"])
    out.mkdir(parents=True)
    with connect(task["slots"]) as connection:
        define_views(connection, workload, Path(task["folder"]))
        started = time.perf_counter()
        copied = connection.execute(
            f"COPY ({workload.sql}) TO '{out}/part-0.parquet' (FORMAT parquet)"
        ).fetchall()
        seconds = time.perf_counter() - started
    rows_in = workload.rows * len(workload.streams)
    summary = {
        "query": workload.name,
        "ticks": 1,
        "rows_in": rows_in,
        "rows_out": int(copied[0][0]),
        "seconds": seconds,
        "seconds_startup": 0.0,
        "tick_seconds": [seconds],
    }
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
