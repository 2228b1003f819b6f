"""Sinks that Spark writes, through whole queries: exactly once for files across kill −9, at least once else."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import run as command_line
from engine.connectors import coordinate
from engine.errors import SinkError
from engine.query.file import read_query
from engine.query.model import SinkSpec
from engine.runner import QueryRun
from engine.settings import Settings
from engine.sinks import open_sink
from engine.sinks.handover import Handover
from tests.engine.sinks_handover_shared import write_query

ROOT = Path(__file__).resolve().parents[2]
# Dies by SIGKILL at the n-th call of a method of Handover, before it does anything.
VICTIM = """
import os, signal, sys
import run
from engine.sinks.handover import Handover
name, left = sys.argv[2], [int(sys.argv[3])]
inner = getattr(Handover, name)
def wrapped(*args):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(*args)
setattr(Handover, name, wrapped)
sys.exit(run.main(["query", "run", sys.argv[1], "--once"]))
"""


def run_once(file: Path) -> None:
    QueryRun(read_query(file), Settings.load({}), (), once=True).run(None)


def killed(file: Path, method: str, call: int) -> None:
    command = [sys.executable, "-c", VICTIM, str(file), method, str(call)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


class Died(Exception):
    """The process is gone, as far as what is handed over goes."""


@contextmanager
def dying(method: str, call: int) -> Iterator[None]:
    """From the n-th call of a method of Handover on, none of them does anything."""
    left, dead = call, False

    def deadly(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            nonlocal left, dead
            left -= name == method
            dead = dead or not left
            if dead:
                raise Died(name)
            return inner(*args, **more)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for name, inner in vars(Handover).items():
            if inspect.isfunction(inner) and not name.startswith("__"):
                patch.setattr(Handover, name, deadly(name, inner))
        with pytest.raises(Died):
            yield


def seen(spark: SparkSession, kind: str, path: Path, **options: str) -> Counter[int]:
    schema = "value string" if kind == "text" else "k long, v string"
    rows = spark.read.format(kind).options(**options).schema(schema).load(str(path)).collect()
    return Counter(int(row[0].removeprefix("a") if kind == "text" else row[0]) for row in rows)


KILLS = [
    ("json", "_show", ""),  # Spark has written, the journal says what, nothing is in view
    ("csv", "_moves", "options = { header = true }"),  # Spark has written, no journal yet
    ("orc", "_mark", ""),  # all is in view, and not noted
]


@pytest.mark.parametrize(
    ("kind", "method", "options", "really"),
    [
        *((*kill, False) for kill in KILLS),
        (*KILLS[0], True),
        *(pytest.param(*kill, True, marks=pytest.mark.long) for kill in KILLS[1:]),
    ],
)
def test_files_have_each_row_once_across_a_kill(
    spark: SparkSession, tmp_path: Path, kind: str, method: str, options: str, really: bool
) -> None:
    """kill −9 of another process, or an exception in this one, after which nothing more is handed over."""
    file = write_query(tmp_path, f'format = "{kind}"\npath = "out"\n{options}')
    if really:
        killed(file, method, 2)
    else:
        with dying(method, 2):
            run_once(file)
    partly = seen(spark, kind, tmp_path / "out", **({"header": "true"} if options else {}))
    assert partly < Counter(range(60))
    run_once(file)
    again = seen(spark, kind, tmp_path / "out", **({"header": "true"} if options else {}))
    assert again == Counter(range(60))
    assert not [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".deliver")]


@pytest.mark.parametrize(
    ("kind", "options"), [("text", ""), ("xml", 'options = { rowTag = "row" }')]
)
def test_other_file_formats(spark: SparkSession, tmp_path: Path, kind: str, options: str) -> None:
    columns = "a.v" if kind == "text" else "a.k, a.v"
    file = write_query(tmp_path, f'format = "{kind}"\npath = "out"\n{options}', columns)
    run_once(file)
    got = seen(spark, kind, tmp_path / "out", **({"rowTag": "row"} if options else {}))
    assert got == Counter(range(60))


def test_a_database_gets_rows_at_least_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Derby comes with PySpark; a crash after the insert and before its note makes it come again."""
    from engine.sinks.handover import Handover

    url = f"jdbc:derby:{tmp_path}/db;create=true;user=me;password=hunter2"
    sink = f'format = "jdbc"\noptions = {{ url = "{url}", dbtable = "results" }}'
    file = write_query(tmp_path, sink)
    mark, marked = Handover._mark, []

    def crash(self: Handover, version: int) -> None:
        marked.append(version)
        if len(marked) == 2:
            raise RuntimeError("crash")
        mark(self, version)

    monkeypatch.setattr(Handover, "_mark", crash)
    with pytest.raises(Exception, match="crash"):
        run_once(file)
    run_once(file)
    rows = spark.read.format("jdbc").options(url=url, dbtable="results").load().collect()
    counts = Counter(row[0] for row in rows)
    assert set(counts) == set(range(60))
    assert set(counts.values()) <= {1, 2}


def test_what_a_database_says_has_no_secrets(spark: SparkSession, tmp_path: Path) -> None:
    url = "jdbc:derby:/nowhere/at/all;user=me;password=hunter2"
    file = write_query(
        tmp_path,
        f'format = "jdbc"\noptions = {{ url = "{url}", dbtable = "r", password = "s3same" }}',
    )
    with pytest.raises(SinkError, match="Spark cannot write jdbc") as caught:
        run_once(file)
    assert "hunter2" not in str(caught.value) and "s3same" not in str(caught.value)


def test_a_missing_driver_says_how_to_give_it(spark: SparkSession, tmp_path: Path) -> None:
    url = 'options = { url = "jdbc:nosuch://h/db", dbtable = "r" }'
    with pytest.raises(SinkError, match=r"driver is not on its class path\n.*--set packages=GROUP"):
        run_once(write_query(tmp_path, f'format = "jdbc"\n{url}'))


@pytest.mark.parametrize("kind", ["kafka", "avro", "delta"])
def test_a_missing_connector_says_how_to_give_it(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    sink = open_sink(SinkSpec(kind, str(tmp_path / "out")), tmp_path / "cp", spark)
    with pytest.raises(SinkError, match=f"Spark has no {kind}: the connector") as caught:
        sink.prepare()
    assert coordinate(kind) in caught.value.hint
    assert not os.path.exists(tmp_path / "out")


@pytest.mark.parametrize(
    ("sink", "promised"),
    [
        ('format = "orc"\npath = "out"', "exactly once"),
        ('format = "noop"', "at least once (the sink is noop)"),
        ('format = "kafka"\noptions = { kafka.bootstrap.servers = "h:1", topic = "t" }',
         "at least once (the sink is kafka)\n└─ sink kafka t at h:1"),
    ],
)  # fmt: skip
def test_check_shows_the_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str, promised: str
) -> None:
    assert command_line.main(["query", "check", str(write_query(tmp_path, sink))]) == 0
    assert f", {promised}\n" in capsys.readouterr().out
