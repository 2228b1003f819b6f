"""The driver dies at any operation on files: commits, snapshots, publishing, merging of results, clearing away.
After every death what a reader sees is committed and there once; in the end results and counts are exact."""

from __future__ import annotations

import builtins
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine import tick
from engine.sinks import ParquetDirectory
from engine.state import commits
from tests.engine.faulty import make, manifest, nothing_uncommitted
from tests.engine.oracle import Case, quiet

TICKS = 8


class Crash(Exception):
    """The process ends here, as far as files go."""


class Torn:
    """A file of which only half a write arrives."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __enter__(self) -> Torn:
        return self

    def __exit__(self, *_: object) -> None:
        self.inner.close()

    def write(self, data: bytes) -> None:
        self.inner.write(data[: len(data) // 2])
        raise Crash("write")


@contextmanager
def crash_at(step: int) -> Iterator[list[str]]:
    """Everything from the `step`-th operation on fails, in whatever thread."""
    done: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(done) >= step:
                if name == "open" and len(done) == step:
                    done.append("torn")
                    return Torn(real(*args, **kwargs))
                done.append("failed")
                raise Crash(name)
            done.append(name)
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "rename", "unlink"):
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        patch.setattr(commits, "open", wrap("open", builtins.open), raising=False)
        yield done


def crash_often(case: Case, rng: random.Random) -> int:
    """Run to the end through one crash after another; how many there were."""
    for crashes in range(60):
        with crash_at(rng.randrange(30) + 15 * rng.randrange(6)):
            try:
                case.run()
                return crashes
            except Crash:
                pass
        nothing_uncommitted(case)
    pytest.fail("no progress between crashes")


def crashes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    monkeypatch.setattr(tick, "SNAPSHOT_EVERY", 3)
    monkeypatch.setitem(ParquetDirectory.__init__.__kwdefaults__, "small_files", 3)
    case = make(root, TICKS, rows=120)
    assert crash_often(case, random.Random(seed)) >= 1
    summary = case.run()
    rows = [pq.read_table(path)["k"] for path in (root / "data").rglob("*.parquet")]
    assert summary.rows_out == case.check()
    assert summary.rows_in == sum(len(k) - k.null_count for k in rows)
    assert summary.null_key_rows == sum(k.null_count for k in rows)
    now = manifest(case)
    assert set(os.listdir(case.checkpoint / "state")) == now.durable_files()
    left = {path.name for path in Path(quiet().mem_dir).glob("spillway-*/*.arrow")}
    assert not left & now.memory_files(), "memory is given back at an orderly end"
    assert not list(case.out.glob(".part*")) and not list(case.out.glob(".compact*"))


def test_a_crash_at_any_file_operation(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes(tmp_path, monkeypatch)


@pytest.mark.long
def test_a_crash_at_any_file_operation_for_long(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (root := tmp_path / str(number)).mkdir()
        crashes(root, monkeypatch)
