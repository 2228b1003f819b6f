"""Set-up checks, what Spark is started with, the lock, tokens, and Arrow tasks without pandas."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from control.logs import LOG_BYTES_MAX
from engine import class_archive, lock, session, worker_daemon
from engine.arrow_map import map_in_arrow
from engine.errors import CheckpointError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_java_version(said: str, version: int | None) -> None:
    assert session.java_version(said) == version


def fake_java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_classes_come_from_an_archive_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not is left aside, without a word."""
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "two words.jsa")
    assert class_archive.java_options() == ""
    class_archive.ARCHIVE.write_bytes(b"not an archive")
    flags = shlex.split(class_archive.java_options())
    assert f"-XX:SharedArchiveFile={class_archive.ARCHIVE}" in flags
    done = subprocess.run(
        [session.check_java(), *flags, "-version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout == ""
    assert session.java_version(done.stderr) is not None and "archive" not in done.stderr


def test_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="Java 11 is too old: Spark needs 17") as caught:
        session.check_java()
    assert "apt install" in caught.value.hint


@pytest.mark.parametrize("home", [True, False], ids=["JAVA_HOME", "PATH"])
def test_missing_java_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: bool
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="Java is missing") as caught:
        session.check_java()
    assert "JAVA_HOME" in caught.value.hint
    assert caught.value.where == (f"JAVA_HOME={tmp_path}" if home else "PATH")


def test_default_master_has_a_spare_slot_and_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    assert session.default_master(2) == "local[3,4]"
    assert session.default_master(1) == "local[2,4]"
    assert session.default_master(64) == "local[3,4]"


def test_local_settings_stay_local() -> None:
    local = session.spark_conf("local[3,4]", 2, "2g")
    cluster = session.spark_conf("spark://host:7077", 2, "2g")
    assert local["spark.shuffle.compress"] == "false"
    assert not {"spark.driver.host", "spark.shuffle.compress"} & set(cluster)
    assert cluster["spark.locality.wait"] != local["spark.locality.wait"] == "0s"
    assert cluster["spark.driver.memory"] == "2g"


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 256, 1000])
def test_tokens_are_those_of_spark(spark: SparkSession, nodes: int) -> None:
    chosen = session.tokens(spark, nodes)
    rows = spark.createDataFrame([(t,) for t in chosen], "t int")
    found = rows.selectExpr("t", f"pmod(hash(t), {nodes}) n").collect()
    assert {row.t: row.n for row in found} == {t: n for n, t in enumerate(chosen)}


def test_hash_is_that_of_spark(spark: SparkSession) -> None:
    ints = [0, 1, 2, 41, 42, 1 << 16, (1 << 31) - 1]
    rows = spark.createDataFrame([(i,) for i in ints], "t int").selectExpr("t", "hash(t) h")
    expected = {row.t: row.h for row in rows.collect()}
    mine = session.spark_hash(np.array(ints, dtype=np.uint32)).tolist()
    assert mine == [expected[i] for i in ints]


@given(nodes=st.integers(1, 300))
def test_each_node_has_one_token(nodes: int) -> None:
    chosen = session.tokens(None, nodes)  # type: ignore[arg-type]
    targets = session.spark_hash(np.array(chosen, dtype=np.uint32)).astype(np.int64) % nodes
    assert targets.tolist() == list(range(nodes))


def test_arrow_tasks_need_no_pandas(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            value = batch.column(0).to_numpy() * 2
            yield pa.RecordBatch.from_arrays([pa.array(value)], names=["a.b"])

    rows = spark.range(5).selectExpr("id as `a.b`")
    doubled = map_in_arrow(rows, double, "`a.b` long").collect()
    assert sorted(row[0] for row in doubled) == [0, 2, 4, 6, 8]


def test_daemon_starts_no_threads_that_a_fork_would_lose() -> None:
    """jemalloc's background thread is all right: it handles a fork by itself."""
    script = (
        "import os; from engine.worker_daemon import preload; preload();"
        "names = [open(f'/proc/self/task/{t}/comm').read().strip()"
        " for t in os.listdir('/proc/self/task')];"
        "print(sorted(n for n in names if n != 'jemalloc_bg_thd'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=session.ROOT,
        text=True,
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(session.ROOT)},
    )
    assert len(eval(done.stdout)) == 1


def test_daemon_does_without_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_daemon, "PRELOAD", ("numpy", "no_such_library"))
    assert worker_daemon.preload() == ["numpy"]


START = """
import signal, sys
from pathlib import Path
from engine.session import start_session
before = signal.getsignal(signal.SIGINT)
spark = start_session(master="local[1,4]", nodes=1, app_name="x", log_dir=Path(sys.argv[1]))
assert signal.getsignal(signal.SIGINT) is before, "Ctrl-C is ours"
assert spark.range(3).selectExpr("sum(id) s").collect()[0].s == 3
assert start_session(master=None, nodes=1, app_name="y", log_dir=None) is spark
spark.stop()
"""


def start(
    folder: Path, script: str = START, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(session.ROOT)} | environment
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )


def test_start_says_nothing_on_the_terminal(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert "WARN" in (tmp_path / "spark.log").read_text()


def test_spark_that_does_not_start_is_explained(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from engine.errors import SetupError\n"
        "from engine.session import start_session\n"
        "try: start_session(master='local[1]', nodes=1, app_name='x', log_dir=Path(sys.argv[1]),"
        " driver_memory='1m')\n"
        "except SetupError as error: print(error)\n"
    )
    done = start(tmp_path, script)
    assert "Spark does not start" in done.stdout and "driver_memory" in done.stdout
    assert str(tmp_path / "spark.log") in done.stdout


def test_log_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="cannot write Spark's log"):
        with session._log(tmp_path / "file" / "logs"):
            pass


def test_large_log_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("x" * (LOG_BYTES_MAX + 1))
    with session._log(tmp_path):
        pass
    assert (tmp_path / "spark.log.1").stat().st_size == LOG_BYTES_MAX + 1
    assert (tmp_path / "spark.log").read_text() == ""


def test_lock_names_its_holder_and_ends_with_the_block(tmp_path: Path) -> None:
    checkpoint = tmp_path / "state"
    with lock.hold(checkpoint):
        with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()}") as caught:
            with lock.hold(checkpoint):
                pass
        assert caught.value.hint == "Stop it or use another checkpoint."
    with lock.hold(checkpoint) as path:
        assert path.read_text() == str(os.getpid())


def test_lock_dies_with_its_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from engine import lock\n"
        "held = lock.hold(Path(sys.argv[1])); held.__enter__(); os._exit(9)"
    )
    assert start(tmp_path, script).returncode == 9
    with lock.hold(tmp_path):
        pass


def test_lock_in_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        with lock.hold(tmp_path / "file" / "state"):
            pass
