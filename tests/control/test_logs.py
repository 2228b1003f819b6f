"""Logs stay small: long texts are cut in the middle, and a file is rotated while its writer goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.supervisor import Supervisor
from control.logs import LOG_BYTES_MAX, OLD_LOGS, TEXT_MAX, rotate, shortened

WRITER = "import os, sys\nfor line in sys.stdin:\n os.write(1, line.encode()); os.write(2, b'.')"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "begin" + "x" * 1_000_000 + "end"
    short = shortened(text)
    assert short.startswith("begin") and short.endswith("end")
    assert "992,008 characters left out" in short and len(short) < TEXT_MAX + 100
    assert shortened("short") == "short"


def test_a_log_is_rotated_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("ab") as log:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdin=-1, stdout=log, stderr=-1, bufsize=0
        )
    assert writer.stdin and writer.stderr
    for number in range(6):
        writer.stdin.write(f"line {number}\n".encode())
        assert writer.stderr.read(1) == b"."
        assert rotate(path, 5)
        assert path.read_bytes() == b"", "its writer appends: nothing is left before the next line"
    writer.stdin.close()
    assert writer.wait() == 0
    assert not rotate(path, 5)
    kept = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert kept == {
        "x.log": "",
        **{f"x.log.{n}": f"line {6 - n}\n" for n in range(1, OLD_LOGS + 1)},
    }
    assert (tmp_path / "x.log.1").stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_copied_stays(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "none.log", 0)
    path = tmp_path / "x.log"
    path.write_text("words")
    (tmp_path / "x.log.new").mkdir()
    assert not rotate(path, 0)
    assert path.read_text() == "words"


def test_the_supervisor_rotates_the_logs_of_what_runs(tmp_path: Path) -> None:
    supervisor = Supervisor({"one": ["cat"]}, tmp_path, print)
    child = supervisor.children[0]
    stop = threading.Event()

    def each() -> None:
        if stop.is_set():
            return
        assert child.up
        if child.log.stat().st_size:
            os.truncate(child.log, LOG_BYTES_MAX + 1)
            supervisor.look(child)
            stop.set()
        else:
            child.log.write_text("x")

    supervisor.run(stop, each)
    assert child.log.stat().st_size == 0 and child.starts == 1
    assert (tmp_path / "one.log.1").stat().st_size == LOG_BYTES_MAX + 1


@pytest.mark.usefixtures("spark")
def test_spark_s_log_is_watched_while_spark_runs() -> None:
    assert "spark.log" in {thread.name for thread in threading.enumerate()}
