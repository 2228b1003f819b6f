"""Spark's built-in stream–stream join of a workload. Runs as its own process, prints a JSON line.

Same files, trigger, slots, shuffle partitions and checkpoint file manager as ours; which state store and which
state format version is the caller's choice, so that the best can be found.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.bench.workloads import WORKLOADS, Workload

CHECKPOINT_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
STATE_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": f"{STATE_PACKAGE}.RocksDBStateStoreProvider",
    # Both are what Spark's own tuning guide advises for speed.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
SETTINGS: dict[str, dict[str, str]] = {
    "hdfs-v2": {"spark.sql.streaming.join.stateFormatVersion": "2"},
    "rocksdb-v2": {**ROCKSDB, "spark.sql.streaming.join.stateFormatVersion": "2"},
    "rocksdb-v3": {**ROCKSDB, "spark.sql.streaming.join.stateFormatVersion": "3"},
    "rocksdb-v4": {**ROCKSDB, "spark.sql.streaming.join.stateFormatVersion": "4"},
}


# Joins upon joins within windows: refused without these two; delay_of() sees to their being exact.
TREE = {
    "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",
}


def start_session(task: dict[str, Any]) -> SparkSession:
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": task["driver_memory"],
        "spark.sql.shuffle.partitions": str(task["slots"]),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{CHECKPOINT_PACKAGE}.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        **(TREE if WORKLOADS[task["workload"]].tree else {}),
        **SETTINGS[task["setting"]],
    }
    # One slot more than nodes, as ours has for its side jobs.
    builder = SparkSession.builder.master(f"local[{task['slots'] + 1},4]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def delay_of(workload: Workload) -> str:
    """In a tree of joins Spark drops a lower join's results as late where a part of them is older than the
    watermark; it refuses such a query unless told not to. A delay as long as the window makes it exact."""
    return f"{int(workload.window_s) + 1} seconds" if workload.tree else "1 second"


def start_query(session: SparkSession, workload: Workload, task: dict[str, Any]) -> StreamingQuery:
    for stream in workload.streams:
        frame = (
            session.readStream.schema(stream.schema)
            .option("maxFilesPerTrigger", task["files_per_trigger"])
            .parquet(f"{task['folder']}/{stream.name}")
        )
        if workload.window_s:
            frame = frame.withWatermark("ts", delay_of(workload))
        frame.createOrReplaceTempView(stream.name)
    return (
        session.sql(workload.sql)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", task["out"])
        .option("checkpointLocation", task["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )


def watch(query: StreamingQuery, limit_s: float | None) -> bool:
    """Wait for the end; True if it was stopped because it took longer than the best so far by far."""
    started = time.monotonic()
    while not query.awaitTermination(1):
        if limit_s is not None and time.monotonic() - started > limit_s:
            query.stop()
            return True
    return False


def summarise(workload: Workload, query: StreamingQuery) -> dict[str, Any]:
    ticks = [update for update in query.recentProgress if update["numInputRows"]]
    return {
        "query": workload.name,
        "ticks": len(ticks),
        "rows_in": sum(update["numInputRows"] for update in ticks),
        "rows_out": None,
        "tick_seconds": [update["durationMs"]["triggerExecution"] / 1000 for update in ticks],
        "state_bytes": sum(op["memoryUsedBytes"] for op in ticks[-1]["stateOperators"])
        if ticks
        else 0,
    }


def main() -> int:
    task = json.loads(Path(sys.argv[1]).read_text())
    workload = WORKLOADS[task["workload"]].scaled(task["rows"])
    began = time.perf_counter()
    session = start_session(task)
    started = time.perf_counter()
    query = start_query(session, workload, task)
    stopped = watch(query, task.get("limit_s"))
    seconds = time.perf_counter() - started
    summary = summarise(workload, query)
    summary |= {"seconds": seconds, "seconds_startup": started - began, "stopped": stopped}
    print(json.dumps(summary))
    session.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
