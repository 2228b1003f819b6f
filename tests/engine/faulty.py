"""What the tests of faults share: a query over small files, the command line around it, and small disks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import run as command_line
from engine.state.commits import CommitLog
from engine.state.model import Manifest
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
