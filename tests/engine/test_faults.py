"""What goes wrong around a query: full disks, missing permissions, damaged and removed files, changed queries.
Each is told in one message that names the place, ends the run with code 2 and no traceback, leaves state
as it was, and once it is put right the results are exact. All through the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.state import folders
from tests.engine.faulty import (
    ROOT,
    SQL,
    Shell,
    grow,
    make,
    manifest,
    nothing_uncommitted,
    small_disk,
    source,
)
from tests.engine.oracle import Case


@pytest.fixture
def shell(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# -- full disks --------------------------------------------------------------------------------------

BIG = 30_000  # rows a file: 0.7 MB


@pytest.mark.parametrize(
    ("place", "size"), [("cp", "4m"), ("out", "2m"), ("memory", "4m"), ("cp/spark", "60k")]
)
def test_a_full_disk(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, size: str
) -> None:
    case, full = make(tmp_path, rows=BIG), tmp_path / place
    monkeypatch.setattr(folders, "_HEADROOM", 0)
    if place == "memory":
        monkeypatch.setenv("SPILLWAY_MEM_DIR", str(full))
    with small_disk(full, size):
        code, err = shell(case)
        assert code == 2, "the disk is not small enough: the test proves nothing"
        assert "no space left" in err.lower() and str(full) in err, err
        assert manifest(case).tick >= 0, "not even one tick fitted"
        nothing_uncommitted(case)
        shell.refused(case, "o space left", str(full))  # and again, for a stubborn user
        nothing_uncommitted(case)
        grow(full)
        shell.goes_on(case)
        assert not list(case.out.glob(".part*"))


def test_a_disk_that_is_full_from_the_start(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path)
    with small_disk(case.checkpoint, "64k"):
        with pytest.raises(OSError, match="No space"):
            (case.checkpoint / "balloon").write_bytes(bytes(1 << 20))
        shell.refused(case, "no space left", str(case.checkpoint))
        (case.checkpoint / "balloon").unlink()
        grow(case.checkpoint)
        shell.goes_on(case)


def test_a_small_memory_folder_is_told_and_done_without(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path)
    with small_disk(tmp_path / "shm", "4m"):
        code, err = shell(case, settings=(f"mem_dir={tmp_path / 'shm'}",))
        assert code == 0, err
        (warning,) = [line for line in err.splitlines() if line.startswith("warning: ")]
        assert f"{tmp_path / 'shm'} has 4 MB free" in warning and "local disk" in warning
        assert not os.listdir(tmp_path / "shm")
        case.check()


# -- sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["ours", "Spark's"])
@pytest.mark.parametrize("damage", ["text", "half", "middle"])
def test_a_damaged_source_file_is_named(
    shell: Shell, tmp_path: Path, reader: str, damage: str
) -> None:
    """A filter on the stream makes Spark read it, which it does in its own way."""
    case = make(tmp_path, 4)
    if reader == "Spark's":
        case = replace(case, sql=SQL + " WHERE b.v >= 0 AND a.v >= 0")
        case.write()
    path = source(case, "b", 2)
    kept = path.read_bytes()
    body = bytearray(kept)
    body[4:200] = bytes(196)
    path.write_bytes(
        {
            "text": b"this is no Parquet\n" * 9,
            "half": kept[: len(kept) // 2],
            "middle": bytes(body),
        }[damage]
    )
    os.utime(path, (10**9 + 2, 10**9 + 2))
    code, err = shell(case)
    assert code == 2 and str(path) in err and ("repair" in err.lower()), err
    assert manifest(case).tick == 1
    path.write_bytes(kept)
    nothing_uncommitted(case)
    os.utime(path, (10**9 + 2, 10**9 + 2))
    shell.goes_on(case)


def test_a_missing_source(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 1)
    (tmp_path / "data" / "b").rename(tmp_path / "elsewhere")
    shell.refused(case, f"there is no `{tmp_path}/data/b`", "streams.b")
    (tmp_path / "elsewhere").rename(tmp_path / "data" / "b")
    shell.goes_on(case)


# -- permissions, Java -------------------------------------------------------------------------------


def outside(case: Case, *prefix: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, perhaps of another user."""
    return subprocess.run(
        [*prefix, sys.executable, str(ROOT / "run.py"), "query", "run", str(case.file), "--once"],
        cwd="/", text=True, capture_output=True, check=False, timeout=200,
        env=os.environ | {"SPILLWAY_PROGRESS": "off", "PYTHONDONTWRITEBYTECODE": "1"} | environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cp", "the checkpoint cannot be written: Permission denied"),
        ("data/a", "no permission to read"),
        ("out", "cannot write results: Permission denied"),
    ],
)
def test_no_permission(tmp_path: Path, place: str, words: str) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    try:
        able = (
            subprocess.run([*nobody, "test", "-r", str(ROOT / "run.py")], check=False).returncode
            == 0
        )
    except FileNotFoundError:
        able = False
    if os.geteuid() != 0 or not able:
        pytest.skip("NOT TESTED: this process cannot become another user")
    (root := tmp_path / "q").mkdir()
    case = make(root, 1)
    for path in (case.checkpoint, case.out, root / "shm"):
        path.mkdir()
    for path in (root, *root.rglob("*")):
        os.chown(path, 65534, 65534)
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o011)
    os.chown(root / place, 0, 0)
    (root / place).chmod(0o711)
    done = outside(case, *nobody, SPILLWAY_MEM_DIR=str(root / "shm"), HOME=str(root))
    assert done.returncode == 2, done.stderr
    assert (
        words in done.stderr and str(root / place) in done.stderr and "Traceback" not in done.stderr
    )


def test_no_java(tmp_path: Path) -> None:
    case = make(tmp_path, 1)
    done = outside(case, PATH="/nowhere", JAVA_HOME="")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "Java is missing" in done.stderr and "Install a Java runtime" in done.stderr
    assert done.stdout == ""


# -- a run in real time that ends early ------------------------------------------------------------------------------------------


def start(case: Case) -> subprocess.Popen[str]:
    """A run in real time, in a process of its own."""
    options = ["--set", "progress=off", "query", "run", str(case.file)]
    command = [sys.executable, str(ROOT / "run.py"), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def after_commits(case: Case, process: subprocess.Popen[str], count: int) -> None:
    wait = threading.Event()
    while (
        len(list((case.checkpoint / "commits").glob("commit-*"))) < count and process.poll() is None
    ):
        wait.wait(0.02)


def end(process: subprocess.Popen[str]) -> None:
    """Whatever is left of it, by pid."""
    if process.poll() is None:
        for child in (*psutil.Process(process.pid).children(recursive=True), process):
            child.kill()
        process.communicate()


# Ctrl-C itself stops two queries in tests/test_cli.py.
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_ctrl_c_in_the_middle_and_going_on(
    spark: SparkSession, tmp_path: Path, number: signal.Signals
) -> None:
    """In real time, with ticks one after the other; stopped once; then all is there once."""
    case = make(tmp_path, 16)
    process = start(case)
    try:
        after_commits(case, process, 4)
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    finally:
        end(process)
    assert process.returncode == 0, err
    assert "stopped; start again to resume" in err and "Traceback" not in err and "rror" not in err
    assert out == ""
    assert 0 < manifest(case).tick < 15, "it was not in the middle"
    nothing_uncommitted(case)
    summary = case.run()
    case.check()
    assert summary.rows_in == sum(
        pq.read_table(path)["k"].drop_null().length()
        for path in (tmp_path / "data").rglob("*.parquet")
    )


def test_a_jvm_that_dies(spark: SparkSession, tmp_path: Path) -> None:
    """Killed by the kernel for want of memory, say: one message, and going on is exact."""
    case = make(tmp_path, 16)
    process = start(case)
    try:
        after_commits(case, process, 3)
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.name() == "java":
                child.kill()
        _, err = process.communicate(timeout=240)
    finally:
        end(process)
    assert process.returncode == 2, err
    *_, message = err.split("error: ")  # PySpark's own threads say something before
    assert "Spark's JVM has gone away" in message and "spark.log" in message
    assert "Traceback" not in message, err
    nothing_uncommitted(case)
    case.run()
    case.check()
