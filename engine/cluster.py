"""Spark on a cluster: what a session needs there beyond one on this machine, and which executors are up.

Checkpoint, sink and source folders must be shared by the driver and all workers; state/hosts.py and the
driver's commit say so when they are not. Where nodes run is affinity.py's.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.authentication import user_settings
from engine.errors import StateError
from engine.sinks.staged import StagedFile
from engine.state.commits import RESULTS, WITHHELD
from engine.state.hosts import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.state.commits import Commit

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = "spillway-engine.zip"
PACKAGES = ("engine", "control")  # tasks are the engine's, which speaks control's words
WAIT_MOST_S = 30.0
CALM_S = 1.5  # executors come one by one: none for so long, and they are all there
CONF = {
    # Nodes are at home where their anchor is (affinity.py), not where most of a tick's rows come from.
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.locality.wait": "10s",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A host that was cut off is given up after this long.
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeout": "60s",
}


def is_cluster(master: str) -> bool:
    """Do tasks run in other processes than the driver's, maybe on other hosts?"""
    return not re.fullmatch(r"local(\[.*\])?", master)


def conf() -> dict[str, str]:
    """Spark's settings for any cluster; the user's spark-defaults.conf goes before ours."""
    given = user_settings()
    chosen = {name: value for name, value in CONF.items() if name not in given}
    # What we ship lies in the executor's working folder before its first task begins.
    return chosen | {"spark.executorEnv.PYTHONPATH": SHIPPED}


def ship_engine(context: Any) -> None:
    """Executors elsewhere get our packages; locally the workers import them from here."""
    folder = Path(tempfile.mkdtemp(prefix="spillway-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # late executors fetch it late
    context.addPyFile(str(packed(folder)))


def packed(folder: Path) -> Path:
    """What tasks import, in one file."""
    with zipfile.ZipFile(folder / SHIPPED, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(p for name in PACKAGES for p in (ROOT / name).rglob("*.py")):
            file.write(path, path.relative_to(ROOT))
    return folder / SHIPPED


def written(commit: Commit, durable: str, sink: str, sides: str) -> Iterator[tuple[str, int]]:
    """The files that tasks wrote for a commit, with their sizes."""
    for run in (run for change in commit.changes.values() for run in change.added):
        fresh = [s for s in run.durable if s.version == commit.version]
        yield from ((os.path.join(durable, s.file), s.bytes) for s in fresh)
    for name, staged in commit.staged.items():
        folder = sink if name in (RESULTS, WITHHELD) else os.path.join(sides, name)
        files = [StagedFile(*item) for item in staged]
        yield from ((os.path.join(folder, file.tmp), file.bytes) for file in files)


def check_seen(written: Iterable[tuple[str, int]]) -> None:
    """Can the driver see what tasks say they wrote? Before it counts: folders that are not shared."""
    for path, size in written:
        have = os.path.getsize(path) if os.path.exists(path) else -1
        if have != size:
            what = "is not there" if have < 0 else f"has {have} bytes instead of {size}"
            raise StateError(
                f"a file that a worker wrote {what} on the driver's host", where=path, hint=SHARED
            )


def executors(spark: SparkSession) -> int:
    """How many executors are up."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver's own


def executor_ids(spark: SparkSession) -> frozenset[str]:
    """Spark's names for the executors that are up, as its scheduler knows them."""
    context: Any = spark.sparkContext
    return frozenset(context._jsc.sc().getExecutorIds().mkString(" ").split())


def wait_for_executors(spark: SparkSession) -> int:
    """Until the executors that the master can give are up; how many there are."""
    wanted = _wanted(spark)
    end, calm, count = time.monotonic() + WAIT_MOST_S, time.monotonic() + CALM_S, 0
    while time.monotonic() < end and (wanted is None or count < wanted):
        now = executors(spark)
        if now != count:
            count, calm = now, time.monotonic() + CALM_S
        if wanted is None and count and time.monotonic() > calm:
            break
        time.sleep(0.1)
    return count


def _wanted(spark: SparkSession) -> int | None:
    """How many executors there will be, where it is known."""
    found = re.match(r"local-cluster\[\s*(\d+)", spark.sparkContext.master or "")
    text = found[1] if found else spark.sparkContext.getConf().get("spark.executor.instances")
    return int(text) if text else None
