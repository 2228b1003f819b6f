"""What goes wrong around a query: full disks, missing permissions, damaged and removed files, changed queries.
Each is told in one message that names the place, ends the run with code 2 and no traceback, leaves state
as it was, and once it is put right the results are exact. All through the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import run as command_line
from engine import lock
from engine.state import commits, folders
from engine.state.commits import CommitLog
from engine.state.model import FORMAT_VERSION, Manifest
from tests.engine.oracle import Case

ROOT = Path(command_line.__file__).parent
SQL = "SELECT a.k, a.t AS ta, a.v AS va, b.t AS tb FROM a JOIN b ON a.k = b.k"
SCHEMAS = {"a": "k long, t long, v long", "b": "k long, t long, v long"}
TICKS = 4


def table(seed: int, tick: int, rows: int = 400) -> pa.Table:
    rng = np.random.default_rng((seed, tick))
    keys = pa.array(rng.integers(0, 300 + rows // 2, rows), mask=rng.random(rows) < 0.01)
    return pa.table({"k": keys, "t": np.full(rows, tick), "v": rng.integers(0, 2**60, rows)})


def make(root: Path, ticks: int = TICKS, rows: int = 400, **more: object) -> Case:
    case = Case(root, SQL, SCHEMAS, **more)  # type: ignore[arg-type]
    case.write()
    feed(case, range(ticks), rows)
    return case


def feed(case: Case, ticks: range, rows: int = 400) -> None:
    for tick in ticks:
        for seed, stream in enumerate("ab"):
            case.feed(stream, tick, table(seed, tick, rows))
            os.utime(source(case, stream, tick), (10**9 + tick, 10**9 + tick))


def source(case: Case, stream: str, tick: int) -> Path:
    return case.root / "data" / stream / f"{tick:03d}.parquet"


def manifest(case: Case) -> Manifest:
    return CommitLog(case.checkpoint / "commits").recover().manifest


class Shell:
    """The command line in this process, whose Spark session it uses."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(
        self, case: Case, *options: str, settings: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        flags = [part for item in ("progress=off", *settings) for part in ("--set", item)]
        code = command_line.main([*flags, "query", "run", str(case.file), "--once", *options])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        assert code == 2 or json.loads(said.out)["query"] == "case"
        return code, said.err

    def refused(self, case: Case, *words: str, options: tuple[str, ...] = ()) -> str:
        """It ends with 2, says all of the words, and has committed nothing that it did not before."""
        before = manifest(case) if (case.checkpoint / "commits").is_dir() else None
        code, err = self(case, *options)
        assert code == 2, err
        message = err[err.index("error: ") :]
        for word in words:
            assert word in message, message
        if before is not None and before.version:
            assert manifest(case) == before
        return message

    def goes_on(self, case: Case, *options: str) -> None:
        code, err = self(case, *options)
        assert code == 0, err
        case.check()


@pytest.fixture
def shell(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    path.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "spillway-test", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"NOT TESTED: a small disk cannot be mounted here ({done.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def grow(path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=256m", str(path)], check=True)


def nothing_uncommitted(case: Case) -> None:
    """Whatever a reader sees now belongs to committed ticks, and once."""
    tick = manifest(case).tick
    if not list(case.out.glob("*.parquet")):
        return
    con = duckdb.connect()
    word = "AND" if "WHERE" in case.sql else "WHERE"
    con.execute(
        case.expected(f"CREATE TABLE want AS {case.sql} {word} a.t <= {tick} AND b.t <= {tick}")
    )
    spurious = f"SELECT * FROM read_parquet('{case.out}/*.parquet') EXCEPT ALL SELECT * FROM want"
    assert con.execute(f"SELECT count(*) FROM ({spurious})").fetchall() == [(0,)]


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


# -- the checkpoint ----------------------------------------------------------------------------------


def test_a_checkpoint_in_use(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path)
    with lock.hold(case.checkpoint):
        shell.refused(
            case, f"checkpoint {case.checkpoint} is in use by process {os.getpid()}", "Stop it"
        )
    shell.goes_on(case)


def test_another_query_schema_or_format_is_refused(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, ticks=1)
    shell.goes_on(case)
    other = replace(case, sql="SELECT a.k, a.v AS va FROM a JOIN b ON a.k = b.k")
    other.write()
    shell.refused(other, "belongs to another query", "outputs changed: 4 → 2", str(case.checkpoint))
    other = replace(case, schemas=SCHEMAS | {"b": "k long, t long, v string"})
    other.write()
    shell.refused(
        other,
        "stream b: schema changed: k bigint, t bigint, v bigint → k bigint, t bigint, v string",
    )
    replace(case, groups=32).write()
    shell.refused(case, "groups changed: 16 → 32")
    case.write()
    meta = case.checkpoint / "commits" / "meta.json"
    kept = meta.read_bytes()
    commits._write(meta, commits._read(meta) | {"format": FORMAT_VERSION + 1})
    shell.refused(
        case, f"has format {FORMAT_VERSION + 1}, this version reads {FORMAT_VERSION}", str(meta)
    )
    meta.write_bytes(kept)
    feed(case, range(1, 2))
    shell.goes_on(case)


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_part_of_the_checkpoint_is_gone(shell: Shell, tmp_path: Path, ticks: int) -> None:
    """Spark's part or ours: refused before a row is read or a file deleted, with new input and without."""
    case = make(tmp_path, ticks)
    shell.goes_on(case)
    for part, words in (
        ("spark", f"Spark's part of the checkpoint is missing, ours ends with batch {ticks - 1}"),
        ("commits", f"our part of the checkpoint is missing, Spark's ends with batch {ticks - 1}"),
    ):
        (case.checkpoint / part).rename(tmp_path / "away")
        state = sorted(os.listdir(case.checkpoint / "state"))
        shell.refused(case, words, "restore it from a copy")
        feed(case, range(ticks, ticks + 1))
        shell.refused(case, words)
        assert sorted(os.listdir(case.checkpoint / "state")) == state
        shutil.rmtree(case.checkpoint / part, ignore_errors=True)
        (tmp_path / "away").rename(case.checkpoint / part)
    shell.goes_on(case)


def test_an_older_copy_of_a_part_is_refused(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 1)
    shell.goes_on(case)
    for part in ("spark", "commits"):
        shutil.copytree(case.checkpoint / part, tmp_path / part)
    feed(case, range(1, 4))
    shell.goes_on(case)
    for part, ends in (("spark", (0, 3)), ("commits", (3, 0))):
        (case.checkpoint / part).rename(tmp_path / "away")
        shutil.copytree(tmp_path / part, case.checkpoint / part)
        shell.refused(
            case,
            "Spark's part of the checkpoint ends with batch {}, ours with batch {}".format(*ends),
        )
        shutil.rmtree(case.checkpoint / part)
        (tmp_path / "away").rename(case.checkpoint / part)
    feed(case, range(4, 5))
    shell.goes_on(case)


def test_damaged_state_files(shell: Shell, tmp_path: Path) -> None:
    """A short memory file heals; a short or missing durable one is named; a commit that does not fit its sum too."""
    case = make(tmp_path, 2)
    shell.goes_on(case)
    (run, *_), *_ = (runs for runs in manifest(case).runs.values() if runs)
    for copy in Path(os.environ["SPILLWAY_MEM_DIR"]).glob(f"*/{run.memory[0].file}"):
        copy.write_bytes(copy.read_bytes()[:100])
    feed(case, range(2, 3))
    shell.goes_on(case)
    (run, *_), *_ = (runs for runs in manifest(case).runs.values() if runs)
    durable = case.checkpoint / "state" / run.durable[0].file
    kept = durable.read_bytes()
    durable.write_bytes(kept[:50])
    shell.refused(case, f"{durable}: state file has 50 bytes instead of {len(kept)}", "copy")
    durable.unlink()
    shell.refused(case, f"{durable}: state file is missing", "copy")
    middle = len(kept) // 2
    durable.write_bytes(kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :])
    for folder in Path(os.environ["SPILLWAY_MEM_DIR"]).glob("spillway-*"):
        shutil.rmtree(folder)
    shell.refused(case, f"{durable}: state file does not match its checksum")
    shell.refused(
        case, f"{durable}: state file does not match its checksum", options=("--nodes", "3")
    )
    durable.write_bytes(kept)
    commit = sorted((case.checkpoint / "commits").glob("commit-*"))[-1]
    kept = commit.read_bytes()
    commit.write_bytes(kept[:-1])
    code, err = shell(case)
    assert code == 2 and f"{commit}: does not match its checksum" in err
    commit.write_bytes(kept)
    feed(case, range(3, 4))
    shell.goes_on(case)


def test_another_number_of_nodes_on_restart(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 2)
    shell.goes_on(case)
    for tick, nodes in enumerate((3, 1, 4, 4, 2), 2):
        feed(case, range(tick, tick + 1))
        for folder in Path(os.environ["SPILLWAY_MEM_DIR"]).glob("spillway-*"):
            shutil.rmtree(folder)
        shell.goes_on(case, "--nodes", str(nodes))
        now = manifest(case)
        assert now.nodes == nodes and {p.node for p, runs in now.runs.items() if runs} == set(
            range(nodes)
        )
        assert set(os.listdir(case.checkpoint / "state")) == now.durable_files()


def test_nodes_that_do_not_fit_the_placement(shell: Shell, tmp_path: Path) -> None:
    case = make(tmp_path, 1, extra="placement = {0 = 0.5, 1 = 0.5}")
    shell.refused(case, "--nodes 1 does not fit", "names node 1", options=("--nodes", "1"))
    shell.goes_on(case)
    feed(case, range(1, 2))
    shell.goes_on(case, "--nodes", "3")


def test_an_earlier_life_leaves_nothing_behind(shell: Shell, tmp_path: Path) -> None:
    """The checkpoint was deleted and made anew: what the old one had in memory goes."""
    case = make(tmp_path, 3)
    shell.goes_on(case)
    shutil.rmtree(case.checkpoint)
    shutil.rmtree(case.out)
    shell.goes_on(case)
    now = manifest(case)
    found = [path.name for path in Path(os.environ["SPILLWAY_MEM_DIR"]).glob("spillway-*/*")]
    assert now.memory_files() <= set(found)
    mine = next(
        Path(os.environ["SPILLWAY_MEM_DIR"]).glob(f"*/{sorted(now.memory_files())[0]}")
    ).parent
    assert set(os.listdir(mine)) == now.memory_files()


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
    for path in (tmp_path, *tmp_path.parents[:2]):
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_and_going_on(
    spark: SparkSession, tmp_path: Path, number: signal.Signals
) -> None:
    """In real time, with ticks one after the other; stopped once; then all is there once."""
    case = make(tmp_path, 16)
    process = start(case)
    try:
        after_commits(case, process, 4)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
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
        _, err = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 2, err
    *_, message = err.split("error: ")  # PySpark's own threads say something before
    assert "Spark's JVM has gone away" in message and "spark.log" in message
    assert "Traceback" not in message, err
    nothing_uncommitted(case)
    case.run()
    case.check()
