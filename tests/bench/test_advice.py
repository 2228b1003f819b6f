"""The advice benchmark's own parts: what it judges, from made-up runs, and one setting in small on Spark."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import SparkSession

from control.cost.coefficients import Coefficients
from control.cost.recalibrate import estimates_of
from engine.papers.live_figure import Runner
from tests.bench import advice, advice_runs
from tests.bench.advice import Bench
from tests.bench.advice_page import NEAR, lengths, near, page, settings, write
from tests.bench.advice_runs import BEGUN, Ran, Seen, Setting, Told
from tests.bench.exact import Difference

SETTING = Setting.of(4.0, 0.6, 2000.0, 5e-7)
KNOWN = estimates_of(Coefficients())
EXACT = Difference(10, 10, 0, 0)


def ran(
    way: str, number: int, late: float, told: float = 0.0, took: float = 1.0, best: str = ""
) -> Ran:
    found = Ran(SETTING, way, number, Seen(EXACT, late, 10), [0.1])
    if way != BEGUN:
        found.told = Told(told, best, {way: 1.0}, {way: told}, {"figures": {}})
        actual = {"seconds": took, "pause_s": 0.1}
        found.action = {"actual": actual, "records": [], "step": {"at_once": way == "moving"}}
    return found


def sweep(moving: float, parallel: float, advised: str, noise: float = 0.0) -> list[Ran]:
    """Three rounds after a lesson that nothing is judged by."""
    out = [ran("moving", -1, 9e9, 9e9, best=advised)]
    for number in range(3):
        off = noise * (number - 1)
        out.append(ran(BEGUN, number, 100 + off))
        out.append(ran("moving", number, 100 + moving, 1.2, best=advised))
        out.append(ran("parallel", number, 100 + parallel, 1.3, best=advised))
    return out


def test_partners_make_the_load() -> None:
    assert SETTING.partners[1:] == advice_runs.OTHERS
    made = SETTING.rate * SETTING.partners[0] * (2 + 3 * SETTING.partners[1])
    assert made * 5e-7 == pytest.approx(0.6)
    keys = SETTING.chain.keys
    assert keys[0] == round(SETTING.rate * 4 / SETTING.partners[0])
    every, teaches = advice.whole(5e-7)
    assert len(every) == len(advice.SWEEP) and teaches not in every
    assert len({setting.name for setting in every}) == len(every)


@pytest.mark.parametrize(
    ("moving", "parallel", "advised", "noise", "verdict"),
    [
        (50, 100, "moving", 0, "reached"),
        (100, 108, "parallel", 0, "reached"),
        (50, 100, "parallel", 0, "**missed**"),
        (50, 100, "parallel", 40, "within the noise"),
        (-5, 100, "parallel", 40, "**missed**"),
        (-5, 20, "parallel", 40, "within the noise"),
    ],
)
def test_the_advice_is_judged_by_what_it_costs(
    moving: float, parallel: float, advised: str, noise: float, verdict: str
) -> None:
    runs = sweep(moving, parallel, advised, noise)
    (one,) = settings(runs)
    assert one.cost == {"moving": moving, "parallel": parallel} and one.advised == advised
    assert one.best == ("moving" if moving < parallel else "parallel")
    assert one.verdict == verdict and verdict in page(runs, KNOWN)


def test_lengths_are_judged_by_runs_that_count(tmp_path: Path) -> None:
    runs = sweep(50, 60, "moving")
    found = [one for one in runs if one.number >= 0 and one.way != BEGUN]
    assert near(found) == 0.5, "1.2 is within a quarter of 1, 1.3 is not"
    assert near([one for one in found if one.way == "moving"]) == 1.0
    lines = "\n".join(lengths(runs))
    assert "| moving | 3 | 100% |" in lines and "| together | 6 | 50% |" in lines
    found[0].action = None
    assert found[0].ratio == 0 and abs(found[0].ratio - 1) > NEAR, "not over in time"
    text = write(runs, KNOWN, tmp_path).read_text()
    assert (
        "ticks waited 2 of 3 times" in text
        and "advice.svg" in text
        and (tmp_path / "advice.json").stat().st_size > 100
    )


@pytest.mark.long
@pytest.mark.timeout(600)
def test_one_setting_in_small(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration and the good order from the start: exact, lateness counted, the prediction there, something learned."""
    monkeypatch.setattr(advice_runs, "WARM_S", 2.0)
    monkeypatch.setattr(advice_runs, "SETTLES_S", 4.0)
    lines: list[str] = []
    bench = Bench(Runner(spark, tmp_path), tmp_path, lines.append, strategies=("moving",))
    small = Setting(1.0, 0.1, 300.0, (3.0, 1.0, 1.0))
    bench.sweep([small], small, runs=1, lessons=0)
    begun, moved = bench.runs
    assert (begun.way, moved.way) == (BEGUN, "moving") and len(lines) == 2
    assert begun.seen.check.exact and moved.seen.check.exact and moved.seen.check.rows > 1000
    assert begun.seen.rows == moved.seen.rows > 500, "the same results are due within the horizon"
    for one in bench.runs:
        assert 0.05 < one.seen.late_row_s / one.seen.rows < 60
    assert moved.told is not None and moved.told.length_s > 0 and moved.action is not None
    assert moved.told.recommended in moved.told.lengths_s
    assert bench.known["swap_s"].count == 1 and bench.numbers.swap_s != bench.base.swap_s
    assert median(moved.ticks_s) > 0
