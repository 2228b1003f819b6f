"""The sink's promise: a plain glob sees every committed row once, and no other, at any instant."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.errors import SinkError
from engine.query.model import SinkSpec
from engine.sinks import ParquetDirectory, ResultWriter, StagedFile, open_sink, staged, tail
from engine.sinks.tail import newer
from tests.engine.sinks_shared import SCHEMA, rows, stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def visible(directory: Path) -> Counter[int]:
    """What a reader with a plain glob sees."""
    seen: Counter[int] = Counter()
    for path in glob.glob(f"{directory}/*"):
        seen.update(pq.read_table(path)["k"].to_pylist())
    return seen


class Crash(BaseException):
    """The process dies here."""


@contextmanager
def crash_after(calls: int, look: Callable[[], None] = lambda: None) -> Iterator[list[str]]:
    """Die at the file system's `calls`-th change of a name, and look at the directory before each."""
    patch = pytest.MonkeyPatch()
    done: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            look()
            if len(done) >= calls:
                raise Crash(name)
            done.append(name)
            return real(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink"):
        patch.setattr(os, name, wrap(name, getattr(os, name)))
    try:
        yield done
    finally:
        patch.undo()


class Publishing(RuleBasedStateMachine):
    """Ticks, crashes anywhere, restarts and compaction against a list of committed keys."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(mkdtemp(prefix="sink-"))
        self.directory = ParquetDirectory(self.path, small_files=4)
        self.directory.prepare()
        self.committed: Counter[int] = Counter()
        self.version = self.next_key = 0
        self.last: tuple[int, list[StagedFile]] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    def look(self) -> None:
        assert not visible(self.path) - self.committed, "a row twice, or not committed"

    def attempt(self, crash: int, work: Callable[[], object]) -> None:
        try:
            with crash_after(crash, self.look):
                work()
        except Crash:
            self.restart(crash=10_000)

    @rule(crash=st.integers(0, 12))
    def restart(self, crash: int) -> None:
        self.directory = ParquetDirectory(self.path, small_files=4)
        commits = [self.last] if self.last else []
        self.attempt(crash, lambda: self.directory.recover(commits))

    @rule(sizes=st.lists(st.integers(0, 3), max_size=3), crash=st.integers(0, 12))
    def tick(self, sizes: list[int], crash: int) -> None:
        files = [
            stage(self.path, self.version, *self.take(n), node=i) for i, n in enumerate(sizes) if n
        ]
        self.look()
        self.committed.update(range(self.next_key - sum(sizes), self.next_key))
        self.last = (self.version, files)
        self.version += 1
        self.attempt(crash, lambda: self.directory.publish(files))

    @rule(n=st.integers(1, 3))
    def failed_attempt(self, n: int) -> None:
        stage(self.path, self.version, *range(-n, 0))

    @rule(crash=st.integers(0, 12))
    def compact(self, crash: int) -> None:
        self.attempt(crash, self.directory.maybe_compact)

    @precondition(lambda self: self.last)
    @rule()
    def publish_again(self) -> None:
        assert self.last
        self.directory.publish(self.last[1])

    def take(self, n: int) -> range:
        self.next_key += n
        return range(self.next_key - n, self.next_key)

    @invariant()
    def all_there(self) -> None:
        assert visible(self.path) == self.committed

    @invariant()
    def in_order(self) -> None:
        shown = tail(self.path, 10_000)
        keys = shown["k"].to_pylist() if shown.num_rows else []
        assert keys == sorted(keys)


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_writer_makes_no_file_without_rows(tmp_path: Path) -> None:
    writer = ResultWriter(str(tmp_path), 1, 0, SCHEMA)
    writer.write(rows())
    assert writer.close() is None
    assert list(tmp_path.iterdir()) == []


def test_staged_file_is_hidden_and_survives_json(tmp_path: Path) -> None:
    file = stage(tmp_path, 12, 1, 2, node=3)
    assert file.tmp.startswith(".part-00000012-0003-") and file.tmp.endswith(".parquet.tmp")
    assert (file.final, file.rows, file.version) == ("part-00000012-0003.parquet", 2, 12)
    assert file.bytes == (tmp_path / file.tmp).stat().st_size
    assert StagedFile(**json.loads(json.dumps(asdict(file)))) == file


def test_row_groups_are_bounded_and_small_writes_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "ROW_GROUP_ROWS", 1000)
    writer = ResultWriter(str(tmp_path), 1, 0, SCHEMA)
    for start in range(0, 2500, 100):
        writer.write(rows(*range(start, start + 100)).to_batches()[0])
    file = writer.close()
    assert file is not None
    footer = pq.read_metadata(tmp_path / file.tmp)
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [1000, 1000, 500]


def test_abort_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "ROW_GROUP_ROWS", 10)
    writer = ResultWriter(str(tmp_path), 1, 0, SCHEMA)
    writer.write(rows(*range(20)))
    assert len(list(tmp_path.iterdir())) == 1
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group_rows", [10, 1 << 20], ids=["while writing", "at the end"])
def test_full_disk_is_a_sink_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    (tmp_path / ".full").symlink_to("/dev/full")
    monkeypatch.setattr(staged, "stage", lambda version, node: (".full", "full"))
    monkeypatch.setattr(staged, "ROW_GROUP_ROWS", group_rows)
    writer = ResultWriter(str(tmp_path), 1, 0, SCHEMA)
    with pytest.raises(SinkError, match="No space left on device") as caught:
        writer.write(rows(*range(50)))
        writer.close()
    assert "Free some space" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_missing_directory_is_a_sink_error(tmp_path: Path) -> None:
    writer = ResultWriter(str(tmp_path / "gone"), 1, 0, SCHEMA)
    writer.write(rows(1))
    with pytest.raises(SinkError, match="cannot write results: No such file"):
        writer.close()


def test_prepare_refuses_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot write results"):
        ParquetDirectory(tmp_path / "file" / "out").prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_prepare_names_missing_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SinkError, match="Give this user write permission"):
        ParquetDirectory(tmp_path / "out").prepare()


def test_lost_staged_file_is_an_error(tmp_path: Path) -> None:
    file = stage(tmp_path, 1, 1)
    (tmp_path / file.tmp).unlink()
    with pytest.raises(SinkError, match="result file vanished"):
        ParquetDirectory(tmp_path).publish([file])


def test_reader_may_take_published_files_away(tmp_path: Path) -> None:
    file = stage(tmp_path, 1, 1)
    ParquetDirectory(tmp_path).publish([file])
    (tmp_path / file.final).unlink()
    ParquetDirectory(tmp_path).recover([(1, [file])])
    assert visible(tmp_path) == Counter()


def test_never_overwrites_results(tmp_path: Path) -> None:
    ParquetDirectory(tmp_path).publish([stage(tmp_path, 1, 1)])
    with pytest.raises(SinkError, match="is there already"):
        ParquetDirectory(tmp_path).publish([stage(tmp_path, 1, 2)])
    assert visible(tmp_path) == Counter([1])


def test_sweep_keeps_what_it_is_told(tmp_path: Path) -> None:
    kept, stale = stage(tmp_path, 1, 1), stage(tmp_path, 1, 2)
    assert ParquetDirectory(tmp_path).sweep({kept.tmp}) == 1
    assert (tmp_path / kept.tmp).exists() and not (tmp_path / stale.tmp).exists()


def test_compaction_goes_on_without_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = ParquetDirectory(tmp_path, small_files=2)
    directory.publish([stage(tmp_path, version, version) for version in range(4)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.sinks.compact._concatenate", full)
    assert directory.maybe_compact() == 0
    assert "stay unmerged" in caplog.text
    assert visible(tmp_path) == Counter(range(4))
    assert not list(tmp_path.glob(".compact-*"))


def test_compaction_leaves_large_files_and_few_files_alone(tmp_path: Path) -> None:
    directory = ParquetDirectory(tmp_path)
    directory.publish([stage(tmp_path, version, version) for version in range(5)])
    assert directory.maybe_compact() == 0
    assert len(list(tmp_path.glob("part-*"))) == 5


def parquet_sink(path: Path, **options: str) -> SinkSpec:
    return SinkSpec("parquet", str(path), options)


def test_results_of_another_query_are_refused(tmp_path: Path) -> None:
    first = open_sink(parquet_sink(tmp_path / "out"), tmp_path / "one", None)  # type: ignore[arg-type]
    first.prepare()
    first.recover([])
    first.publish(0, [stage(first.directory, 0, 1)])
    other = open_sink(parquet_sink(tmp_path / "out"), tmp_path / "two", None)  # type: ignore[arg-type]
    with pytest.raises(SinkError, match=r"whose checkpoint is .*one"):
        other.prepare()
    first.prepare()
    with pytest.raises(SinkError, match="holds results already"):
        first.recover([])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "rar"}, "unknown compression 'rar'"),
        ({"mode": "x"}, "unknown option 'mode'"),
    ],
)
def test_sink_options_are_checked(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(SinkError, match=message):
        open_sink(parquet_sink(tmp_path, **options), tmp_path, None)  # type: ignore[arg-type]


def test_tail_takes_the_newest_rows_over_files(tmp_path: Path) -> None:
    directory = ParquetDirectory(tmp_path)
    assert tail(tmp_path / "nothing", 5).num_rows == 0
    directory.publish(
        [
            stage(tmp_path, 9, 1, 2, 3),
            stage(tmp_path, 10, 4, node=0),
            stage(tmp_path, 10, 5, 6, node=1),
        ]
    )
    assert tail(tmp_path, 4)["k"].to_pylist() == [3, 4, 5, 6]
    assert tail(tmp_path, 100)["k"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_newer_shows_each_row_once_though_files_are_merged(tmp_path: Path) -> None:
    directory = ParquetDirectory(tmp_path, small_files=2)
    directory.publish([stage(tmp_path, version, version) for version in range(3)])
    seen: set[str] = set()
    assert len(list(newer(tmp_path, seen))) == 3
    assert directory.maybe_compact() == 2
    directory.publish([stage(tmp_path, 3, 3)])
    assert [path.name for path in newer(tmp_path, seen)] == ["part-00000003-0000.parquet"]


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_readable_by_spark_duckdb_and_arrow(
    spark: SparkSession, tmp_path: Path, compression: str
) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int64()),
            "d": pa.array([1.5, 2.5, None], pa.float64()),
            "s": pa.array(["a", "é", None]),
            "b": pa.array([b"x", None, b""], pa.binary()),
            "t": pa.array([0, 1, None], pa.timestamp("us", tz="UTC")),
            "n": pa.array([0, 1, None], pa.timestamp("us")),
            "m": pa.array([None, "1.10", "2.20"]).cast(pa.decimal128(10, 2)),
        }
    )
    directory = ParquetDirectory(tmp_path)
    directory.prepare()
    writer = ResultWriter(str(tmp_path), 1, 0, table.schema, compression=compression)
    writer.write(table)
    file = writer.close()
    assert file is not None
    stage(tmp_path, 2, 1)  # hidden, of another schema: nobody may look at it
    directory.publish([file])
    assert spark.read.parquet(str(tmp_path)).toArrow().to_pylist() == table.to_pylist()
    assert duckdb.sql(
        f"SELECT count(*), sum(i), max(s), max(m)::text, count(t), max(b) "
        f"FROM '{tmp_path}/*.parquet'"
    ).fetchall() == [(3, 4, "é", "2.20", 2, b"x")]
    assert ds.dataset(tmp_path).to_table().equals(table)


@pytest.mark.parametrize(
    ("fmt", "pattern"), [("json", "*.json"), ("csv", "*.csv"), ("orc", "*.orc")]
)
def test_handover_to_file_formats(
    spark: SparkSession, tmp_path: Path, fmt: str, pattern: str
) -> None:
    spec = SinkSpec(fmt, str(tmp_path / "out"), {"header": "true"} if fmt == "csv" else {})
    sink = open_sink(spec, tmp_path / "checkpoint", spark)
    sink.prepare()
    sink.recover([])
    files = [stage(sink.directory, 1, 1, 2), stage(sink.directory, 1, 3, node=1)]
    sink.publish(1, files)
    sink.publish(1, files)
    sink.publish(2, [])
    assert all(
        path.name.startswith("part-00000001-")
        for path in (tmp_path / "out").glob("*")
        if not path.name.startswith(".")
    )
    again = spark.read.format(fmt).options(**spec.options).load(str(tmp_path / "out"))
    assert sorted(int(row.k) for row in again.collect()) == [1, 2, 3]
    assert glob.glob(str(tmp_path / "out" / pattern))
    assert not list(sink.directory.glob("part-*")), "staged Parquet must not pile up"


def test_handover_is_exactly_once_wherever_it_stops(spark: SparkSession, tmp_path: Path) -> None:
    def seen(out: Path) -> list[int]:
        return sorted(
            json.loads(line)["k"]
            for path in glob.glob(f"{out}/*")
            for line in Path(path).read_text().splitlines()
        )

    for crash in range(100):
        base = tmp_path / str(crash)
        spec = SinkSpec("json", str(base / "out"))
        sink = open_sink(spec, base / "checkpoint", spark)
        sink.prepare()
        sink.recover([])
        commit = (1, [stage(sink.directory, 1, 1, 2), stage(sink.directory, 1, 3, node=1)])
        try:
            with crash_after(crash):
                sink.publish(*commit)
            finished = True
        except Crash:
            finished = False
        again = open_sink(spec, base / "checkpoint", spark)
        again.prepare()
        again.recover([commit])
        assert seen(base / "out") == [1, 2, 3], f"after {crash} calls"
        assert not list((base / "out").glob(".deliver*"))
        if finished:
            break
    assert crash > 3


def test_other_formats_are_appended_and_labelled(spark: SparkSession, tmp_path: Path) -> None:
    sink = open_sink(SinkSpec("noop", ""), tmp_path / "checkpoint", spark)
    sink.prepare()
    sink.recover([])
    assert sink.guarantee == "at least once"
    commit = (1, [stage(sink.directory, 1, 1)])
    sink.publish(*commit)
    sink.recover([commit])


def test_console_prints_on_our_terminal(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = open_sink(SinkSpec("console", "", {"numRows": "2"}), tmp_path / "checkpoint", spark)
    sink.prepare()
    sink.publish(1, [stage(sink.directory, 1, 1, 2, 3)])
    assert capsys.readouterr().out.splitlines() == [
        "version 1: 3 rows",
        "k  s",
        "-  -----",
        "1  row 1",
        "2  row 2",
    ]


def test_unknown_format_is_named(spark: SparkSession, tmp_path: Path) -> None:
    sink = open_sink(SinkSpec("nonsense", str(tmp_path / "x")), tmp_path / "checkpoint", spark)
    with pytest.raises(SinkError, match=r"Spark has no nonsense: .*Failed to find"):
        sink.prepare()


def test_options_that_spark_refuses_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    spec = SinkSpec("json", str(tmp_path / "x"), {"compression": "rar"})
    sink = open_sink(spec, tmp_path / "checkpoint", spark)
    sink.prepare()
    with pytest.raises(SinkError, match=r"Spark cannot write json: .*rar"):
        sink.publish(1, [stage(sink.directory, 1, 1)])
