"""Experiments by the clock, in very small: their input, a run on Spark, and figures drawn from made-up runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from control.migration.model import Model
from engine.papers import live_figure, probe, zhu2004_live, zhu2004_live_plans
from engine.papers.live import LiveLine, LiveRun, run_live
from engine.papers.live_figure import LiveFigure, Runner
from engine.papers.paced import EPOCH_S, HEADS, Chain, Player, file_of
from engine.papers.page import verdict
from engine.papers.ticks import Tick
from engine.papers.zhu2004 import CLASSES, OLD
from engine.papers.zhu2004_live import NEW_ORDER, OLD_ORDER
from tests.control.made import cluster
from tests.control.migration.made import joins_of

SMALL = Chain((100.0, 100.0, 50.0, 100.0), (20, 30, 20), 1.0, 1.5, 3.0)


def rows(folder: Path, name: str) -> list[tuple[int, ...]]:
    files = sorted((folder / name).glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    return [row for path in files for row in zip(*pq.read_table(path).to_pydict().values(), strict=True)]  # fmt: skip


def test_input_is_the_same_each_time_and_in_the_order_of_its_times(tmp_path: Path) -> None:
    one, two = SMALL.make(tmp_path / "x"), SMALL.make(tmp_path / "y")
    for stream, name in enumerate(SMALL.names):
        found = rows(one, name)
        assert found == rows(two, name)
        times = [(row[-2].timestamp() - EPOCH_S) for row in found]  # type: ignore[attr-defined]
        assert times == sorted(times) and times[-1] < SMALL.head_s + SMALL.end_s
        assert len(found) == SMALL.rows(stream, SMALL.head_s + SMALL.end_s)
        heads = [pq.read_table(one / name / file_of(n)).num_rows for n in range(HEADS)]
        assert sum(heads) == SMALL.rates[stream] * SMALL.head_s and max(heads) - min(heads) <= 1
    assert SMALL.due_rows(0.0) == 350 * 1.5 and SMALL.due_rows(99.0) == 350 * 4.5


@dataclass
class Clock:
    """Goes on by what somebody waits for it."""

    now: float = 100.0
    waited: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


def player(tmp_path: Path, clock: Clock, over: threading.Event) -> Player:
    made = SMALL.make(tmp_path)
    found = Player(SMALL, made, tmp_path / "live", 5.0, over.set, clock)

    def wait(seconds: float) -> bool:
        clock.waited.append(seconds)
        clock.now += seconds
        return False

    found._enough.wait = wait  # type: ignore[method-assign, assignment]
    return found


def test_files_appear_when_they_are_due(tmp_path: Path) -> None:
    clock, over = Clock(), threading.Event()
    playing = player(tmp_path, clock, over)
    for number in range(HEADS):
        there = sorted(path.name for path in (tmp_path / "live" / "a").iterdir())
        assert there == [file_of(n) for n in range(number + 1)]
        assert playing.next_head() == (number < HEADS - 1)
    playing.begin()
    playing.join(10)
    assert over.is_set() and clock.now == pytest.approx(100 + SMALL.end_s + 5)
    assert clock.waited[:3] == pytest.approx([SMALL.piece_s] * 3)
    for name in SMALL.names:
        assert rows(tmp_path / "live", name) == rows(SMALL.make(tmp_path), name)
    assert playing.due_s(SMALL.head_s + 2) == 102 and playing.due_s(0.0) == 100


@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["moving", "parallel", ""])
def test_a_line_by_the_clock_has_every_result(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    found: list[int] = []

    def look(run: LiveRun, place: Path) -> None:
        con = duckdb.connect()
        results = con.execute(f"SELECT count(*) FROM '{place}/out/part-*.parquet'").fetchall()
        found.append(int(results[0][0]))

    to = NEW_ORDER if strategy else ""
    line = LiveLine("small", OLD_ORDER, to, strategy, at_s=0.5, patience_s=60)
    run = run_live(spark, SMALL, line, tmp_path, trigger_s=0.1, look=look)
    con = duckdb.connect()
    for name in SMALL.names:
        con.execute(f"CREATE VIEW {name} AS FROM '{SMALL.make(tmp_path)}/{name}/*.parquet'")
    near = " AND ".join(f"abs(epoch_us({x}.ts) - epoch_us({y}.ts)) <= 1000000" for x, y in (
        "ab", "ac", "ad", "bc", "bd", "cd"))  # fmt: skip
    wanted = con.execute(f"SELECT count(*) FROM ({SMALL.sql} WHERE {near})").fetchall()[0][0]
    assert found == [wanted] and wanted > 100
    assert run.whole and sum(tick.rows_out for tick in run.ticks) == wanted
    assert run.waiting(run.ticks[-1]) == 0 and run.begun_s < run.ticks[-1].end_s
    assert set(run.commits) >= {tick.version for tick in run.ticks}
    assert len(run.ticks) - len(run.live) == HEADS
    if strategy:
        assert run.done and run.length_s > 0 and run.before is not None
        assert run.before.joins is not None and run.before.joins.known
        assert run.asked_s >= run.begun_s + 0.5
    else:
        assert not run.actions
        with pytest.raises(RuntimeError, match="was not done"):
            _ = run.action


# -- figures from made-up runs ------------------------------------------------------------------------


def tick(number: int, end_s: float, rows_in: int, out: int, kept: int) -> Tick:
    return Tick(number, number + 1, end_s, 0.2, rows_in, out, kept // 10, kept, 1000, 0.02)


OLD_KEPT, NEW_KEPT = 10_000, 1000


def made_up(chain: Chain, line: LiveLine, length_s: float, behind: float = 1.0) -> LiveRun:
    """A run of which every row goes through in time (`behind`: so many times later)."""
    ends = (np.arange(0.5, chain.end_s + 0.5, 0.5) * behind).tolist()
    over = line.at_s + length_s if line.strategy else np.inf
    came = [chain.due_rows(end / behind) for end in [0.0, *ends]]
    ticks = [tick(0, 0.0, came[0], 5, 0)]
    for n, end in enumerate(ends):
        kept = NEW_KEPT if end > over or line.order != OLD_ORDER else OLD_KEPT
        ticks.append(tick(n + 1, end, came[n + 1] - came[n], 10, kept))
    run = LiveRun(line, chain, ticks, begun_s=0.0, asked_s=line.at_s)
    if line.strategy:
        rows = 0.1 * chain.rates[1] * chain.window_s**3
        side = {"recompute_rows": rows, "recompute_cpu_s": 1e-6 * rows, "cpu_s": 1e-6 * rows}
        actual = {"seconds": length_s, "pause_s": 0.1, "job_s": 0.5, "swap_s": 0.1, **side}
        records = [["All", line.at_s, line.at_s + length_s, 0]]
        about = {"id": "m", "state": "done", "note": ""}
        run.actions = [{**about, "actual": actual, "records": records}]
        chances = [1 / keys for keys in chain.keys]
        known = joins_of(Model.of(chain.rates, CLASSES, chances, chain.window_s), OLD)
        run.before = replace(cluster([[1], [1]]), joins=known)
    return run


class MadeUp(Runner):
    """Answers as an engine would whose parallel track lasts W and half a second, and which takes two seconds to move
    state; at high rates the old plan falls behind."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(None, tmp_path)  # type: ignore[arg-type]

    def __call__(self, chain: Chain, line: LiveLine) -> LiveRun:
        length = chain.window_s + 0.5 if line.strategy == "parallel" else 2.0
        slow = line.order == OLD_ORDER and not line.strategy and chain.rates[0] > 2000
        return made_up(chain, line, length, 3.0 if slow else 1.0)


def drawn(name: str, tmp_path: Path) -> tuple[LiveFigure, str, list[str]]:
    """A figure's page, and the claims on it that do not hold."""
    every = (*zhu2004_live.FIGURES, *zhu2004_live_plans.FIGURES)
    figure = next(one for one in every if one.name == name)
    claims = live_figure.write(figure, MadeUp(tmp_path), tmp_path, "a command")
    page = (tmp_path / f"zhu2004-{name}.md").read_text()
    assert verdict(claims) in page and "a command" in page
    assert (tmp_path / f"zhu2004-{name}.json").stat().st_size > 1000
    return figure, page, [claim.text for claim in claims if not claim.holds]


MODEL = "the engine's own model predicts the length within 25 %, after two runs that taught it"
MISSED = {  # by an engine with the made-up lengths
    "live-fig9": ["T_PT is 2W"],
    "live-fig10": [
        "T_MS grows as a polynomial in W, faster than W", "the equations estimate T_MS", MODEL
    ],
    "live-fig11": ["T_MS increases with λB", MODEL],
    "live-fig12": [
        "at small windows moving state is faster", "T_PT stays at about 2W",
        "beyond some window the parallel track is faster",
    ],
    "live-fig13": [],
    "live-fig14": [],
    "live-fig15": ["the parallel track has fewer rows in between at first"],
    "live-fig16": [
        "the parallel track has a higher output rate at first", "moving state is silent for seconds"
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MISSED)
def test_figures_judge_what_they_are_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "row_s", lambda run: 5e-7)
    figure, page, found = drawn(name, tmp_path)
    assert found == MISSED[name]
    assert not found or figure.why[:60] in page


def test_all_windows_count_where_lengths_grow(tmp_path: Path) -> None:
    """From the second window on they grow as W^1.5, from the first one as W^0.8."""
    lengths = dict(zip((8.0, 16.0, 24.0, 32.0, 40.0), (1.81, 1.79, 4.82, 5.85, 6.96), strict=True))

    class Recorded(MadeUp):
        def __call__(self, chain: Chain, line: LiveLine) -> LiveRun:
            return made_up(chain, line, lengths[chain.window_s])

    figure = next(one for one in zhu2004_live.FIGURES if one.name == "live-fig10")
    grows = figure.draw(Recorded(tmp_path)).claims[0]
    assert not grows.holds and "from 1.81 s at 8 s" in grows.measured and "W^0.8" in grows.measured


def test_partners_make_the_load_that_is_asked_for() -> None:
    partners = probe.partners_for(0.5, 4e-7, 1000.0, (0.5, 0.1))
    made = probe.between_per_s(1000.0, (partners, 0.5, 0.1))
    assert made * 4e-7 == pytest.approx(0.5)


def test_what_a_row_takes_is_the_slope_of_ticks() -> None:
    line = LiveLine("probe", OLD_ORDER)
    ticks = [Tick(n, n, n, 0.3 + 2e-6 * n * 1000, 0, 0, n * 1000, 0, 0, 0.0) for n in range(9)]
    assert probe.cost_of(LiveRun(line, probe.PROBE, ticks)) == pytest.approx(2e-6)


def test_crossings() -> None:
    x = [1.0, 2.0, 3.0]
    assert zhu2004_live.crossings(x, [3, 2, 1], [1, 2, 3]) == pytest.approx(2.0)
    assert zhu2004_live.crossings(x, [3, 3, 3], [1, 1, 1]) is None
    assert zhu2004_live.crossings(x, [1, 1, 1], [3, 3, 3]) is None
    assert zhu2004_live.exponent([1, 4], [2, 32]) == pytest.approx(2.0)
