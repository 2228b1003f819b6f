"""The papers' experiments in very small: every line has all results in the end, pages say what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from engine.errors import SettingError
from engine.papers import page
from engine.papers.feed import SQL, STREAMS, Feed
from engine.papers.figure import Figure, state_bytes
from engine.papers.lines import Line, run_line
from engine.papers.reproduce import FIGURES, find, show

KNOBS = {"tuple_range": "1000", "join_ratios": "4,2,1"}
FEED = Feed(6, 5, KNOBS, groups=30)


def figure(name: str) -> Figure:
    return find([name])[0]


def wanted(folder: Path) -> int:
    con = duckdb.connect()
    for name in STREAMS:
        con.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')")
    return int(con.execute(f"SELECT count(*) FROM ({SQL})").fetchall()[0][0])


def test_every_line_ends_with_all_results(spark: SparkSession, tmp_path: Path) -> None:
    budget = int(0.8 * state_bytes(FEED))
    spilling = {"policy": "local_spill", "spill_percent": 30.0, "victim": "least_productive"}
    skewed = {0: 2 / 3, 1: 1 / 3}
    moving = {"policy": "relocate", "ratio": 0.9, "span_s": 45.0}
    lines = [
        Line("low", spilling, budget=budget),
        Line("moves", moving, nodes=2, placement=skewed),
        Line("memory", {"policy": "none"}),
    ]
    runs = [run_line(spark, line, FEED, tmp_path) for line in lines]
    rows = wanted(FEED.make(tmp_path))
    assert [run.rows for run in runs] == [rows] * 3
    assert runs[0].count("spill") and runs[0].cleanup_rows > 0 and runs[0].cleanup_cpu_s
    assert runs[1].count("move") >= 1
    assert all(len(run.results) == len(run.memory) == FEED.minutes for run in runs)
    small = replace(figure("fig12"), judge=figure("fig11").judge)
    claims = page.write(small, runs, tmp_path / "pages", "a command")
    text = (tmp_path / "pages" / "liu2005-fig12.md").read_text()
    assert page.verdict(claims) in text and "a command" in text
    root = ET.fromstring((tmp_path / "pages" / "liu2005-fig12.svg").read_text())
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 3


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


def test_an_unknown_figure_is_named() -> None:
    with pytest.raises(SettingError, match="no figure 'fig1'"):
        find(["fig1"])
