"""Changes to a running stream: what is kept, refused, and survives a crash; and a query on Spark that is changed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import HostError, QueryFileError, SourceError, decode
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import QueryRun
from engine.settings import Settings
from engine.sources import generator_stream, workload
from engine.sources.generator import stream_seed
from engine.sources.generator_stream import GeneratorReader, Source
from engine.sources.knobs import LIVE, OPTIONS
from engine.sources.workload import change, current, prepare
from engine.state.commits import CommitLog
from tests.engine.checked import scratch
from tests.engine.sources.segments import BEGUN, START, S, made, table, times

# -- the record ---------------------------------------------------------------------------------------


def test_a_change_is_kept_and_told(tmp_path: Path) -> None:
    path = prepare(tmp_path, "a", {"RATE": "5", "keys": "10"}, now_us=1)
    assert current(tmp_path, "a") == workload.Workload("a", _defaults(rate="5", keys="10"), {})
    told = change(tmp_path, "a", {"rate": 50, "Zipf": 1.5, "null_keys": None}, now_us=9)
    assert told.changed == {"rate": "50", "zipf": "1.5"}
    assert current(tmp_path, "a") == told
    assert change(tmp_path, "a", {"rate": "50"}, now_us=20) == told, (
        "nothing is changed by the same"
    )
    again = change(tmp_path, "a", {"rate": "", "zipf": ""}, now_us=3)
    assert again.values["rate"] == "1000"
    at_us = [c.at_us for c in (workload.read(path) or _none()).changes]
    assert at_us == [0, 9, 10], "times only go up"
    assert workload.streams(tmp_path) == ["a"] and current(tmp_path, "b") is None


def _defaults(**given: str) -> dict[str, str]:
    return {name: given.get(name, OPTIONS[name].default) for name in OPTIONS if name in LIVE}


def _none() -> workload.Record:
    raise AssertionError("there is a record")


def test_a_restart_keeps_changes_and_an_edit_of_the_file_ends_them(tmp_path: Path) -> None:
    given = {"rate": "5", "seed": "1"}
    prepare(tmp_path, "a", given, now_us=1)
    change(tmp_path, "a", {"rate": 50}, now_us=9)
    prepare(tmp_path, "a", given, now_us=20)
    assert (current(tmp_path, "a") or _fail()).values["rate"] == "50"
    prepare(tmp_path, "a", {**given, "seed": "2"}, now_us=30)
    assert (current(tmp_path, "a") or _fail()).values["rate"] == "50", (
        "seed is not a thing to change"
    )
    path = prepare(tmp_path, "a", {"rate": "7"}, now_us=40)
    found = current(tmp_path, "a") or _fail()
    assert found.values["rate"] == "7" and not found.changed
    assert (workload.read(path) or _none()).changes[-1].at_us == 40


def _fail() -> workload.Workload:
    raise AssertionError("there is a stream")


def test_many_threads_change_one_stream(tmp_path: Path) -> None:
    path = prepare(tmp_path, "a", {}, now_us=1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: change(tmp_path, "a", {"rate": n + 1}, now_us=5), range(64)))
    changes = (workload.read(path) or _none()).changes
    assert len(changes) == 65
    assert all(a.at_us < b.at_us for a, b in pairwise(changes))


def test_the_record_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = prepare(tmp_path, "a", {"rate": "3"}, now_us=1)
    for n in range(20):
        change(tmp_path, "a", {"rate": n + 1}, now_us=5)
    record = workload.read(path) or _none()
    many = replace(record, changes=tuple(record.changes) * 60)
    workload._write(path, many)
    kept = (workload.read(path) or _none()).changes
    assert len(kept) == workload.CHANGES_MAX + 1 and kept[0].at_us == 0
    assert kept[-1] == record.changes[-1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"declared": {}, "changes": [], "readers": 1}'])
def test_a_damaged_record_is_told(tmp_path: Path, text: str) -> None:
    path = prepare(tmp_path, "a", {}, now_us=1)
    path.write_text(text)
    with pytest.raises(SourceError, match=r"cannot be read[\s\S]*Remove the file"):
        current(tmp_path, "a")
    with pytest.raises(SourceError, match="cannot be read"):
        change(tmp_path, "a", {"rate": 1}, now_us=2)
    path.unlink()
    prepare(tmp_path, "a", {}, now_us=3)
    change(tmp_path, "a", {"rate": 1}, now_us=4)


@pytest.mark.parametrize(
    ("declared", "asked", "message"),
    [
        ({}, {"preset": "prices"}, "preset: it cannot be changed while"),
        ({}, {"columns": "a, b, c"}, "columns: it cannot be changed"),
        ({}, {"seed": 4}, "seed: it cannot be changed"),
        ({}, {"rates": 4}, r"no such option\n  did you mean rate"),
        ({}, {"rate": 0}, "between 0.001"),
        ({}, {"rate": "x"}, "a number is wanted"),
        ({}, {"shift": 3}, "no keys are hotter"),
        ({"tuple_range": "90"}, {"zipf": 1}, "no place beside tuple_range"),
        ({}, {"join_ratio": 2}, "needs tuple_range"),
        ({"classes": "2"}, {"class_shares": [1, 2, 3]}, "3 entries for 2 classes"),
        ({"tuple_range": "90", "fresh_keys": "true"}, {"tuple_range": 60}, "the same keys"),
        (
            {"tuple_range": "90", "join_ratio": "3", "fresh_keys": "true"},
            {"join_ratio": 2},
            "file, 3",
        ),
        (
            {"preset": "prices"},
            {"keys": 20_000_000, "class_shares": "1, 1", "groups": "9"},
            "groups",
        ),
        ({"preset": "prices", "class_shares": "1, 1"}, {"keys": 20_000_000}, "11,881,376 symbols"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, declared: dict[str, str], asked: dict[str, Any], message: str
) -> None:
    path = prepare(tmp_path, "a", declared, now_us=1)
    before = path.read_text()
    with pytest.raises(QueryFileError, match=message) as caught:
        change(tmp_path, "a", asked, now_us=2)
    assert caught.value.hint or "entries" in message or "symbols" in message
    assert path.read_text() == before


def test_streams_that_cannot_be_changed(tmp_path: Path) -> None:
    prepare(tmp_path, "a", {}, readers=2, now_us=1)
    with pytest.raises(QueryFileError, match="reads stream a 2 times"):
        change(tmp_path, "a", {"rate": 5}, now_us=2)
    with pytest.raises(SourceError, match=r"no generated stream b[\s\S]*There are: a"):
        change(tmp_path, "b", {"rate": 5}, now_us=2)


# -- the reader ---------------------------------------------------------------------------------------


def test_a_restart_between_a_change_and_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is durable before the batch is planned, and the batch before it is read."""
    clock = [BEGUN]
    monkeypatch.setattr(generator_stream, "_clock_us", lambda: clock[0])
    with scratch() as root:
        record = prepare(root, "a", {"rate": "100", "start": START}, now_us=clock[0])
        reader = GeneratorReader({"rate": "100", "start": START}, str(record))
        limit = reader.getDefaultReadLimit()
        start = reader.initialOffset()
        clock[0] += S
        change(root, "a", {"rate": 1000}, now_us=clock[0] - S // 2)
        # Killed here, before a batch is planned; and again after, before it is read.
        reader = GeneratorReader({"rate": "100", "start": START}, str(record))
        end = reader.latestOffset(start, limit)
        assert end["rows"] == 50 + 500
        planned = table(reader.partitions(start, end))
        change(root, "a", {"rate": 3, "keys": 9}, now_us=clock[0])
        again = GeneratorReader({"rate": "100", "start": START}, str(record))
        assert table(again.partitions(start, end)) == planned
        Path(record).unlink()
        lost = GeneratorReader({"rate": "100", "start": START}, str(record))
        assert table(lost.partitions(start, end)) == planned, "the offset is enough"
        rows = [row for part in again.partitions(start, end) for row in again.read(part)]
        assert pa.Table.from_batches(rows).combine_chunks() == planned.combine_chunks()


def test_an_edited_file_goes_on_in_event_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [BEGUN]
    monkeypatch.setattr(generator_stream, "_clock_us", lambda: clock[0])
    with scratch() as root:
        rows, at, limit = [], None, None
        for rate in ("1000", "10", "100"):
            record = prepare(root, "a", {"rate": rate, "start": START}, now_us=clock[0])
            reader = GeneratorReader({"rate": rate, "start": START}, str(record))
            at, limit = at or reader.initialOffset(), reader.getDefaultReadLimit()
            clock[0] += S
            end = reader.latestOffset(at, limit)
            rows.append(table(reader.partitions(at, end)))
            at = end
    assert [batch.num_rows for batch in rows] == [1000, 10, 100]
    assert times(pa.concat_tables(rows))[[999, 1000, 1009, 1010]].tolist() == [
        999_000, 1_000_000, 1_900_000, 2_000_000
    ]  # fmt: skip


def test_a_damaged_record_ends_the_query_with_its_error(tmp_path: Path) -> None:
    record = prepare(tmp_path, "a", {}, now_us=1)
    reader = GeneratorReader({}, str(record))
    record.write_text("{")
    with pytest.raises(RuntimeError) as caught:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert isinstance(decode(str(caught.value)), SourceError)


# -- slow nodes -----------------------------------------------------------------------------------------


def test_nodes_are_made_slow_all_or_none() -> None:
    slow: dict[int, float] = {0: 1.0}
    assert workload.slow_down(slow, 3, {"2": 1.5, 0: "0"}) == {2: 1.5}
    before = dict(slow)
    for wanted in ({1: 1.0, 3: 1.0}, {1: 1.0, 0: -1}, {"one": 2}, {0: "much"}, {0: float("nan")}):
        with pytest.raises(HostError, match="Nodes are 0 to 2") as caught:
            workload.slow_down(slow, 3, wanted)
        assert caught.value.hint and slow == before


# -- with Spark -----------------------------------------------------------------------------------------

QUERY = """
name = "live"
sql = "SELECT a.k, a.v AS va, b.v AS vb, a.ts AS ta FROM a JOIN b ON a.k = b.k"
nodes = 2
groups = 8
checkpoint = "cp"
[streams.a]
format = "generator"
options = { rate = 300, keys = 400, start = "now" }
[streams.b]
format = "generator"
options = { rate = 200, tuple_range = 400, catch_up = "1 s" }
[sink]
format = "parquet"
path = "out"
"""


class Watching:
    """Does something after a tick, once."""

    def __init__(self, *then: tuple[int, Callable[[], object]]) -> None:
        self.then, self.ticks = list(then), 0
        self.until_s: dict[int, float] = {}

    def publish(self, report: TickReport) -> None:
        self.ticks += report.tick is not None
        if report.tick is not None:
            self.until_s[report.tick] = report.until_s
        while self.then and self.then[0][0] <= self.ticks:
            self.then.pop(0)[1]()


def planned(root: Path, options: Mapping[str, str], number: int, ticks: int) -> pa.Table:
    """The rows of a source's batches, made again from Spark's own log of offsets."""
    source = Source.of({**options, "stream_seed": str(stream_seed("ab"[number]))})
    ends = [
        json.loads(
            (root / "cp" / "spark" / "offsets" / str(n)).read_text().splitlines()[2 + number]
        )
        for n in range(ticks + 1)
    ]
    begun = {"rows": 0, "clock": 0, "epoch": ends[0]["epoch"]}
    batches = [made(source, a, b) for a, b in pairwise([begun, *ends]) if a["rows"] < b["rows"]]
    return pa.concat_tables(batches)


def noted_s(root: Path, batch: int) -> float:
    """When Spark planned a batch, by its own log of offsets."""
    head = (root / "cp" / "spark" / "offsets" / str(batch)).read_text().splitlines()[1]
    return float(json.loads(head)["batchTimestampMs"]) / 1e3


def test_a_running_query_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    """Rate, skew and slow nodes, while it runs and over a restart; against DuckDB over the rows made again."""
    (tmp_path / "q.toml").write_text(QUERY)
    spec = read_query(tmp_path / "q.toml")
    settings = Settings.load({"trigger_seconds": "0.2"})

    def ask(stream: str, **options: Any) -> Callable[[], object]:
        return lambda: change(spec.checkpoint, stream, options, now_us=time.time_ns() // 1000)

    watch = Watching(
        (3, ask("a", rate=1500)),
        (4, ask("b", rate=900, join_ratio=4)),
        (6, ask("a", zipf=1.2, keys=50)),
        (6, ask("a", shift=7)),
        (7, lambda: workload.slow_down(run.slow, 2, {1: 0.05})),
        (10, lambda: run.stop()),
    )
    run = QueryRun(spec, settings, [watch], once=False)
    run.run(None)
    assert watch.until_s == {n: noted_s(tmp_path, n) for n in watch.until_s}, "where input ends"
    ask("b", rate=100)()
    after = Watching((3, lambda: again.stop()))
    again = QueryRun(spec, settings, [after], once=False)
    again.run(None)
    ticks = CommitLog(spec.checkpoint / "commits").recover().manifest.tick
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    for number, name in enumerate("ab"):
        rows = planned(tmp_path, spec.streams[name].options, number, ticks)
        assert rows["v"].to_pylist() == list(range(rows.num_rows))
        assert (np.diff(times(rows)) >= 0).all()
        con.register(name, rows)
    con.execute(f"CREATE TABLE want AS {spec.sql}")
    con.execute(f"CREATE TABLE got AS SELECT * FROM read_parquet('{tmp_path}/out/*.parquet')")
    for one, other in (("want", "got"), ("got", "want")):
        found = con.execute(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchone()
        assert found == (0,), f"{one}, not {other}"
    hot = con.execute("SELECT k, count(*) FROM a GROUP BY k ORDER BY 2 DESC LIMIT 1").fetchone()
    assert hot is not None and hot[0] == 7
    assert (con.execute("SELECT count(*) FROM got").fetchone() or (0,))[0] > 1000
