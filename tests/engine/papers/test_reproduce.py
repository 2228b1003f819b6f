"""The papers' experiments in very small: every line has all results in the end, pages say what was measured."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.errors import SettingError
from engine.papers import liu2005, page
from engine.papers.feed import SPEED, SQL, STREAMS, Feed
from engine.papers.figure import Claim, Figure, state_bytes
from engine.papers.lines import Line, Run, run_line, to_disk
from engine.papers.reproduce import FIGURES, PAGES, Drawable, find, full_name, show

KNOBS = {"tuple_range": "1000", "join_ratios": "4,2,1"}
FEED = Feed(6, 5, KNOBS, groups=30)


def figure(name: str) -> Figure:
    return find([name])[0]


def wanted(folder: Path) -> int:
    con = duckdb.connect()
    for name in STREAMS:
        con.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')")
    return int(con.execute(f"SELECT count(*) FROM ({SQL})").fetchall()[0][0])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


@pytest.fixture(scope="module")
def runs(spark: SparkSession, place: Path) -> list[Run]:
    """The four lines of figure 11, and one that moves."""
    budget = int(0.6 * state_bytes(FEED))
    spills = {"policy": "local_spill", "spill_percent": 30.0}
    moving = {"policy": "relocate", "ratio": 0.9, "span_s": 45.0}
    lines = [
        Line("low", {**spills, "victim": "least_productive"}, budget=budget),
        Line("high", {**spills, "victim": "most_productive"}, budget=budget),
        Line("moves", moving, nodes=2, placement={0: 2 / 3, 1: 1 / 3}),
        Line("memory", {"policy": "none"}),
    ]
    return [run_line(spark, line, FEED, place) for line in lines]


def test_every_line_ends_with_all_results(runs: list[Run], place: Path, tmp_path: Path) -> None:
    rows = wanted(FEED.make(place))
    assert [run.rows for run in runs] == [rows] * 4
    assert runs[0].count("spill") and runs[0].cleanup_rows > 0 and runs[0].cleanup_cpu_s
    assert runs[2].count("move") >= 1
    for run in runs:
        assert len(run.results) == len(run.memory) == len(run.took_s) == FEED.minutes
        assert min(run.took_s) > 0 and run.minutes == FEED.minutes
    small = replace(figure("fig12"), judge=figure("fig11").judge)
    claims = page.write(small, FEED, runs, tmp_path, "a command")
    text = (tmp_path / "liu2005-fig12.md").read_text()
    assert page.verdict(claims) in text and "a command" in text
    assert f"with commit {page.commit()}" in text and "× 1 of the paper's" in text
    assert page.SPILLS in text
    raw = json.loads((tmp_path / "liu2005-fig12.json").read_text())
    assert [one["holds"] for one in raw["claims"]] == [claim.holds for claim in claims]
    root = ET.fromstring((tmp_path / "liu2005-fig12.svg").read_text())
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 4


def test_l12_figure_11_on_the_engine(runs: list[Run]) -> None:
    """Spilling what gives few results leaves more results in the run, and fewer to the clean-up."""
    low, high, _, memory = runs
    assert high.results[-1] < low.results[-1] < memory.results[-1]
    assert 0 < low.cleanup_rows < high.cleanup_rows


def test_without_spilling_a_line_stops_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    never = {"policy": "local_spill", "spill_percent": 0.0}
    run = run_line(spark, Line("M1", never, budget=state_bytes(FEED, 3)), FEED, tmp_path)
    assert 0 < len(run.results) < FEED.minutes
    assert "needs" in run.stopped


def test_all_figures_of_the_paper_are_there() -> None:
    names = [f.name for f in FIGURES if f.paper == "liu2005"]
    assert names == [f"fig{n}" for n in (6, 7, 9, 10, 11, 12, 14, 15, 16, 17, 20, 21)]
    assert "fig11" in show()
    for one in FIGURES:
        if isinstance(one, Figure):
            for long in (False, True):
                assert len(one.lines(one.feed(long), long)) >= 2


@pytest.mark.parametrize("one", [f for f in FIGURES if f.paper == "liu2005"], ids=full_name)
def test_one_factor_scales_all_of_the_papers_rows(one: Figure) -> None:
    short, long = one.feed(False), one.feed(True)
    times = long.factor / short.factor
    assert long.minutes == short.minutes and long.tick_s == short.tick_s
    assert long.rate == pytest.approx(times * short.rate)
    assert int(long.knobs["tuple_range"]) == times * int(short.knobs["tuple_range"])
    assert long.clock_s * SPEED == long.tick_s * long.factor
    budgets = {line.name: line.budget for line in one.lines(long, True)}
    for line in one.lines(short, False):
        wanted = budgets[line.name]
        assert line.budget == (pytest.approx(wanted / times, abs=2) if wanted else None)


def test_the_long_ones_have_budgets_of_50_mb_a_node() -> None:
    figures = [one for one in FIGURES if isinstance(one, Figure)]
    budgets = [line.budget for one in figures for line in one.lines(one.feed(True), True)]
    assert min(budget for budget in budgets if budget) >= 50_000_000


def made_up(name: str, took_s: float = 0.1, **more: object) -> Run:
    """Forty minutes of three seconds by the clock, with ten more results each than the one before."""
    line, ticks = Line(name, {"policy": "none"}), 40
    run = Run(line, 3.0, took_s=[took_s] * ticks, memory=[[100]] * ticks, seconds=[took_s] * ticks)
    run.results = [10 * n * (n + 1) // 2 for n in range(1, ticks + 1)]
    run.rows = run.results[-1]
    return replace(run, **more)  # type: ignore[arg-type]


def moves(count: int, course: str = "move", nodes: int = 1) -> list[dict[str, object]]:
    return [
        {"course": course, "state": "done", "by": "policy", "step": {"node": n % nodes}}
        for n in range(count)
    ]


def missed(name: str, runs: list[Run]) -> list[str]:
    return [claim.text[:40] for claim in figure(name).judge(runs) if not claim.holds]


def test_throughput_is_judged_by_the_clock() -> None:
    quick, slow, behind = made_up("a"), made_up("b", 0.4), made_up("c", 3.5)
    assert quick.late_s() == pytest.approx(0.1) and slow.late_s() == pytest.approx(0.4)
    assert behind.late_s() > 10 > slow.late_s()
    assert quick.throughput() > slow.throughput() > behind.throughput()
    assert behind.out_s()[-1] == pytest.approx(3.0 + 40 * 3.5)
    same = liu2005.same_throughput
    assert same("x", [quick, slow]).holds and not same("x", [quick, slow, behind]).holds


def test_what_each_figure_misses_when_a_run_is_unlike_the_papers() -> None:
    good, behind = made_up("M"), made_up("M", 3.5)
    late = made_up("M", 0.2)
    assert missed("fig6", [good, good, good, good, late]) == []
    assert missed("fig6", [good] * 5) == ["the throughput of five machines is sligh"]
    assert "more machines have a negligible effect o" in missed("fig6", [good] * 4 + [behind])
    first = replace(good, stopped="memory", results=good.results[:25], took_s=[0.1] * 25)
    second = replace(good, stopped="memory", results=good.results[:35], took_s=[0.1] * 35)
    assert missed("fig7", [first, second, good, good, good]) == []
    assert missed("fig7", [first, good, good, good, behind]) == [
        "two machines stop for want of memory, to", "with enough memory M4 and M5 have almost"
    ]  # fmt: skip
    assert len(missed("fig7", [good, good, good, first, good])) == 4


def test_adaptation_is_judged_by_what_the_paper_measured() -> None:
    pushes = [made_up("0 %")]
    pushes += [made_up(f"{k}", results=[0] * 39 + [8_000 - k]) for k in (10, 30, 50, 100)]
    assert missed("fig9", pushes) == []
    pushes[2] = replace(pushes[2], results=[0] * 39 + [7_980])
    assert missed("fig9", [*pushes[:2], pushes[1], *pushes[3:]]) == [
        "the more state is pushed at once, the fe"
    ]
    few, many = made_up("few", actions=moves(2)), made_up("many", actions=moves(24))
    assert missed("fig14", [made_up("none"), few, few, many]) == []
    assert missed("fig14", [made_up("none"), few, few, few]) == [
        "a higher threshold moves more often (pap"
    ]
    assert missed("fig14", [made_up("none"), few, few, replace(many, took_s=[3.5] * 40)]) == [
        "throughput is almost the same whatever t"
    ]  # fmt: skip
    spans = [made_up("none"), *(made_up("x", actions=moves(n)) for n in (31, 27, 24))]
    assert missed("fig15", spans) == []
    assert missed("fig15", [*spans[:2], spans[1], spans[3]]) == [
        "a shorter least time-span moves more oft"
    ]


def test_memory_and_moves_are_judged_by_what_the_paper_measured() -> None:
    pushes = [made_up("0 %")]
    pushes += [
        replace(made_up("x", actions=moves(n, "spill")), line=Line("x", {}, budget=100))
        for n in (17, 6, 4, 2)
    ]
    assert missed("fig10", pushes) == []
    assert missed("fig10", [*pushes[:4], replace(pushes[4], memory=[[101]])]) == [
        "memory stays under control"
    ]
    assert missed("fig10", [*pushes[:4], pushes[3]]) == ["the more is pushed at once, the less oft"]
    less = [8_000] * 40
    assert missed("fig12", [made_up("low"), made_up("high", results=less)]) == []
    assert len(missed("fig12", [made_up("low"), made_up("high")])) == 1
    uneven, even = made_up("none", memory=[[900, 100]] * 40), made_up("90", memory=[[5, 4]] * 40)
    assert missed("fig16", [uneven, even]) == [] and len(missed("fig16", [uneven, uneven])) == 1
    full, moved = made_up("full", actions=moves(3, "spill"), results=less), made_up("moved")
    assert missed("fig17", [full, moved]) == []
    assert len(missed("fig17", [moved, full])) == 2
    lazy = made_up("lazy", results=[10] * 20 + less[:20])
    active = made_up("active", results=[5] * 20 + [9_000] * 20)
    assert missed("fig21", [lazy, active]) == [] and len(missed("fig21", [active, active])) == 2


def test_clean_ups_are_judged_by_the_time_they_take() -> None:
    low = made_up("low", cleanup_rows=100, cleanup_s=1.0)
    high = made_up("high", cleanup_rows=500, cleanup_s=13.0, results=[0] * 39 + [1_000])
    assert missed("fig11", [low, high]) == []
    assert missed("fig11", [low, replace(high, cleanup_s=1.1)]) == [
        "and its clean-up is far shorter (paper: "
    ]
    local = made_up("local", actions=moves(3, "spill"), results=[0] * 39 + [5_000])
    lazy = made_up("lazy", actions=moves(9, "spill", 3))
    little, spread = replace(local, cleanup_s=16.0), replace(local, cleanup_s=4.0)
    assert missed("fig20", [local, lazy, little, spread]) == []
    assert missed("fig20", [local, lazy, little, replace(spread, cleanup_s=15.0)]) == [
        "but the clean-up, spread over all machin"
    ]  # fmt: skip
    assert len(missed("fig20", [lazy, local, little, spread])) == 2


def test_a_verdict_counts_the_papers_claims_and_ours_apart() -> None:
    claims = [Claim("a", "1", True), Claim("b", "1", False), Claim("c", "1", True, ours=True)]
    assert page.verdict(claims) == "of the paper's claims 1 of 2 hold, of ours 1 of 1 hold"
    assert page.verdict(claims[2:]) == "of ours 1 of 1 hold"
    assert [claim.said for claim in claims] == ["a", "b", "(ours) c"]


@pytest.mark.parametrize("one", FIGURES, ids=full_name)
def test_every_page_says_with_which_commit_it_was_made_and_counts_its_claims(one: Drawable) -> None:
    text = (PAGES / f"{full_name(one)}.md").read_text()
    assert re.search(r"with commit [0-9a-f]{7,}", text)
    record = json.loads((PAGES / f"{full_name(one)}.json").read_text())
    said = [claim["text"] for claim in record["claims"]]
    claims = [
        Claim(claim["text"], claim["measured"], claim["holds"], claim["text"].startswith("(ours) "))
        for claim in record["claims"]
    ]
    assert f"with commit {record['commit']}" in text and said
    for claim in claims:
        assert (
            f"| {claim.text} | {claim.measured} | {'' if claim.holds else '**does not '}hold"
            in text
        )
    if "**To be recorded again.**" not in text:
        assert f"**Verdict: {page.verdict(claims)}.**" in text


def test_files_leave_the_cache(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.arrow").write_bytes(b"x" * 5000)
    assert to_disk(tmp_path) == 1 and (tmp_path / "a" / "b.arrow").read_bytes() == b"x" * 5000


def test_an_unknown_figure_is_named() -> None:
    with pytest.raises(SettingError, match="no figure 'fig1'"):
        find(["fig1"])
