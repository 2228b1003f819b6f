"""The command line as a user meets it: messages, exit codes, and what is on stdout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import run
from engine import commands
from engine.errors import SettingError, SpillwayError
from engine.progress import RunSummary
from engine.settings import TABLE
from engine.table import aligned
from tests.inside import inside

ROOT = Path(run.__file__).parent
QUERY = """
name = "pair"
sql = "SELECT a.k, a.va, b.vb FROM a JOIN b ON a.k = b.k"
nodes = 2
groups = 8
checkpoint = "state"

[streams.a]
format = "parquet"
path = "data/a"
schema = "k long, va long"

[streams.b]
format = "parquet"
path = "data/b"
schema = "k long, vb long"

[sink]
format = "parquet"
path = "out"
"""


@pytest.fixture
def query(tmp_path: Path) -> Path:
    for name in "ab":
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        pq.write_table(
            pa.table({"k": [1, 2, 2, None], f"v{name}": [1, 2, 3, 4]}), folder / "0.parquet"
        )
    file = tmp_path / "q.toml"
    file.write_text(QUERY)
    return file


def results(folder: Path, **columns: list[object]) -> None:
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "part-00000001-0000.parquet")


def test_check_shows_the_plan(query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["query", "check", str(query)]) == 0
    assert "multi_join" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["query", "check"], ["query", "run"], ["query", "tail"]])
def test_user_errors_are_two_without_a_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*arguments, "/none.toml"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: /none.toml") and "Traceback" not in said.err


def test_sql_errors_say_where(query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query.write_text(QUERY.replace("JOIN", "LEFT JOIN"))
    assert run.main(["query", "check", str(query)]) == 2
    assert "LEFT JOIN is not supported" in capsys.readouterr().err


def test_settings_are_listed_and_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--set", "driver_memory=3g", "settings"]) == 0
    shown = capsys.readouterr().out
    assert "3g" in shown and all(row.name in shown for row in TABLE)


@pytest.mark.parametrize("item", ["driver_memory", "no_such=1", "progress=loud"])
def test_bad_settings_are_refused(item: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--set", item, "settings"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_nodes_out_of_range(query: Path) -> None:
    spec = commands.read_query(query)
    assert commands.with_nodes(spec, None) is spec
    assert commands.with_nodes(spec, 7).nodes == 7
    with pytest.raises(SettingError, match="--nodes 0 is out of range"):
        commands.with_nodes(spec, 0)


def test_tail_prints_an_aligned_table(
    query: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["query", "tail", str(query)]) == 0
    assert "no results in" in capsys.readouterr().out
    results(tmp_path / "out", k=[1, 2, 300], name=["a", None, "b\n" + "x" * 60])
    assert run.main(["query", "tail", str(query), "-n", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  k  name",
        "---  ----------------------------------------",
        "  2  NULL",
        "300  b\N{REPLACEMENT CHARACTER}" + "x" * 37 + "…",
    ]


def test_tail_follows(query: Path, tmp_path: Path) -> None:
    results(tmp_path / "out", k=[1])
    process = subprocess.Popen(
        [sys.executable, "run.py", "query", "tail", str(query), "--follow"],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert process.stdout
    try:
        assert [process.stdout.readline().strip() for _ in range(3)] == ["k", "-", "1"]
        new = tmp_path / "out" / "part-00000002-0000.parquet"
        pq.write_table(pa.table({"k": [2]}), tmp_path / "hidden")
        (tmp_path / "hidden").rename(new)
        assert [process.stdout.readline().strip() for _ in range(3)] == ["k", "-", "2"]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == run.EXIT_INTERRUPTED and errors == ""


def test_tail_needs_a_parquet_sink(query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query.write_text(QUERY.replace('[sink]\nformat = "parquet"', '[sink]\nformat = "json"'))
    assert run.main(["query", "tail", str(query)]) == 2
    assert "cannot show json results" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["0", "-1", "many"])
def test_tail_refuses_odd_counts(
    query: Path, rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(["query", "tail", str(query), "-n", rows])
    assert caught.value.code == 2


def test_a_reader_that_goes_away_is_no_error(query: Path, tmp_path: Path) -> None:
    results(tmp_path / "out", k=list(range(100_000)))
    command = (
        f"{sys.executable} run.py query tail {query} -n 100000 | head -1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_aligned_without_columns() -> None:
    assert aligned(pa.table({"a": pa.array([], pa.int64())})).splitlines() == ["a", "-"]


def test_once_prints_one_json_line_last(
    query: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = RunSummary("pair", 1, 8, 5, 0.1, 0.2, (0.1,), 1, 0, 0, 2)
    monkeypatch.setattr("engine.runner.run", lambda *_, **__: summary)
    before = signal.getsignal(signal.SIGINT)
    assert run.main(["query", "run", str(query), "--once"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
    said = capsys.readouterr()
    assert said.out == summary.to_json() + "\n"
    assert "starting Spark" in said.err


def test_engine_errors_end_a_run_with_two(
    query: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> RunSummary:
        raise SpillwayError("it broke", where="there", hint="mend it")

    monkeypatch.setattr("engine.runner.run", fail)
    assert run.main(["query", "run", str(query)]) == 2
    assert capsys.readouterr().err.endswith("error: there: it broke\n  mend it\n")


def test_a_whole_run_and_its_resumption(spark: SparkSession, query: Path, tmp_path: Path) -> None:
    first = inside("query", "run", query, "--once")
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.splitlines()) == 1
    summary = json.loads(first.stdout)
    assert (summary["rows_out"], summary["null_key_rows"]) == (5, 2)
    assert pq.read_table(tmp_path / "out").num_rows == 5
    again = inside("query", "run", query, "--once")
    assert again.returncode == 0, again.stderr
    assert pq.read_table(tmp_path / "out").num_rows == 5


def test_check_takes_several_and_looks_at_them_together(
    query: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = another(query, "second")
    assert run.main(["query", "check", str(query), str(second)]) == 0
    assert capsys.readouterr().out.count("multi_join") == 2
    clash = tmp_path / "clash.toml"
    clash.write_text(QUERY.replace('"pair"', '"clash"'))
    assert run.main(["query", "check", str(clash), "/none.toml", str(query), str(second)]) == 2
    said = capsys.readouterr()
    assert said.out.count("multi_join") == 2, "the right ones are shown"
    assert "error: /none.toml" in said.err and "overlaps the checkpoint" in said.err


def another(query: Path, name: str) -> Path:
    """The same query over the same streams, with its own state and results."""
    file = query.with_name(f"{name}.toml")
    text = QUERY.replace('"pair"', f'"{name}"').replace('"state"', f'"state-{name}"')
    file.write_text(text.replace('"out"', f'"out-{name}"'))
    return file


@pytest.mark.parametrize("extra", [[], ["--once"]])
def test_clashing_queries_are_refused_before_spark_starts(
    query: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["query", "run", str(query), str(query), *extra]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "there is a query 'pair' already" in said.err


def test_several_at_once_of_which_one_fails(
    spark: SparkSession, query: Path, tmp_path: Path
) -> None:
    second, bad = another(query, "second"), another(query, "bad")
    bad.write_text(bad.read_text().replace("data/b", "data/c"))
    (tmp_path / "data" / "c").mkdir()
    (tmp_path / "data" / "c" / "0.parquet").write_bytes(b"PAR1" + b"\0" * 99)
    done = inside("query", "run", query, bad, second, "--once")
    assert done.returncode == 2, done.stderr
    first, failed, last = map(json.loads, done.stdout.splitlines())
    assert (first["query"], failed["query"], last["query"]) == ("pair", "bad", "second")
    assert first["rows_out"] == last["rows_out"] == 5
    assert "c/0.parquet" in failed["failed"] and "error: query bad: " in done.stderr
    assert "Traceback" not in done.stderr.split("error: query bad")[1]
    for out in ("out", "out-second"):
        assert pq.read_table(tmp_path / out).num_rows == 5


def test_ctrl_c_stops_all_cleanly(query: Path, tmp_path: Path) -> None:
    second = another(query, "second")
    process = subprocess.Popen(
        [sys.executable, "run.py", "query", "run", str(query), str(second)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SPILLWAY_PROGRESS": "lines"},
    )
    assert process.stderr
    ticked: set[str] = set()
    while len(ticked) < 2:
        line = process.stderr.readline()
        assert line, "it ended"
        ticked |= set(re.findall(r"^(\w+): tick 0 ", line))
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, "")
    assert "finishing the running tick" in errors and "stopped; start again" in errors
    assert "Traceback" not in errors
    for folder in ("out", "out-second"):
        assert pq.read_table(tmp_path / folder).num_rows == 5


def test_ctrl_c_while_starting(query: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "run.py", "query", "run", str(query)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SPILLWAY_PROGRESS": "off"},
    )
    assert process.stderr
    process.stderr.readline()
    process.stderr.readline()
    time.sleep(0.5)  # somewhere inside the start of the JVM
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert "stopped; start again to resume" in errors
    assert "Traceback" not in errors
    assert process.returncode in (0, 130)


def test_readme_has_every_setting_and_command() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [row.name for row in TABLE if f"| `{row.name}` | `{row.variable}` |" not in readme] == []
    for command in ("query check", "query run", "query tail", "demo", "settings"):
        assert f"| `run.py {command}" in readme


def test_readme_commands_work(tmp_path: Path) -> None:
    """The five minutes, as a new user types them, in a copy of the folder."""
    for name in ("run.py", "engine", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = (ROOT / "README.md").read_text().split("## Five minutes")[1].split("\n4. ")[0]
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.S)
    plain = [(kind, textwrap.dedent("   " + body.lstrip())) for kind, body in blocks]
    data, query, typed = plain
    script = f"{data[1]}\ncat > data/mine/paid.toml <<'END'\n{query[1]}\nEND\n{typed[1]}"
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert (
        json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))[
            "rows_out"
        ]
        == 500
    )
