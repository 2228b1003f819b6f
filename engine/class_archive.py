"""Spark's JVM finds its classes in an archive, which set-up makes, and so starts sooner (decision 19).

`python -m engine.class_archive` makes it, by a small query that touches what queries touch. Without one, or with one of
another Java or another Spark, the JVM starts as ever.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
DUMP_S = 300.0  # that the JVM may take to write it
QUERY = """
name = "classes"
sql = "SELECT a.k, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k JOIN c ON b.v = c.v"
window = "10 seconds"
join_order = "((a b) c)"
nodes = 2
groups = 8
checkpoint = "state"

[sink]
format = "parquet"
path = "out"
"""
STREAM = """
[streams.{name}]
format = "parquet"
path = "{name}"
schema = "k long, v long, ts timestamp"
time = "ts"
options = {{ maxFilesPerTrigger = "1" }}
"""


def java_options() -> str:
    """What makes a JVM use it; empty where there is none."""
    return _quiet(f"SharedArchiveFile={ARCHIVE}") if ARCHIVE.is_file() else ""


def _quiet(flag: str) -> str:
    """An archive that does not fit is no matter for anybody's log."""
    return f'"-XX:{flag}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def make(to: Path = ARCHIVE) -> None:
    """Run the query in a JVM that writes down which classes it has loaded, and wait for its end."""
    from pyspark import SparkContext

    from engine.session import start_session

    inner: Any = SparkContext
    part = to.with_suffix(f".{os.getpid()}.part")
    with tempfile.TemporaryDirectory(prefix="spillway-classes-") as folder:
        session = start_session(
            master=None, nodes=2, app_name="classes", log_dir=Path(folder) / "logs", light=True,
            java=_quiet(f"ArchiveClassesAtExit={part}"),
        )  # fmt: skip
        try:
            _run(session, Path(folder))
        finally:
            session.stop()
            gateway = inner._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(DUMP_S)
    part.replace(to)  # not there if the JVM could not write it: then that is the error


def _run(session: SparkSession, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from engine.query.file import read_query
    from engine.runner import QueryRun
    from engine.settings import Settings

    for name in "abc":
        (folder / name).mkdir()
        for tick in range(2):
            at = pa.array([tick * 1_000_000] * 8, pa.timestamp("us", "UTC"))
            rows = pa.table({"k": range(8), "v": range(8), "ts": at})
            pq.write_table(rows, folder / name / f"{tick}.parquet")
    file = folder / "classes.toml"
    file.write_text(QUERY + "".join(STREAM.format(name=name) for name in "abc"))
    QueryRun(read_query(file), Settings.load({}), (), once=True).serve(lambda: session)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        make()
