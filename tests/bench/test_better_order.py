"""W4 in a better order, in small, and what is made of its runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import better_order
from tests.bench.better_order_runs import BAD, Phase, exact, measure
from tests.bench.workloads import UNEVEN, UNEVEN_CHAIN, distinct


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_better_order(tmp_path: Path) -> None:
    """A window of 1 000 rows and a tick of 500: the optimiser finds the order, and it makes far fewer rows."""
    small = replace(UNEVEN_CHAIN, rows=9000, files=18, spacing_us=60_000)
    lines: list[str] = []
    found = measure(small, 1, lines.append, tmp_path, strategies=("moving",))
    assert exact(found), "\n".join(lines)
    (only,) = found
    assert only.migrated == ["moving"] and only.runs["moving"].order != BAD
    assert only.fewer("moving") >= better_order.FEWER_LEAST
    assert only.before("moving").kept_rows > 5 * only.after("moving").kept_rows
    text = better_order.write(small, found, tmp_path / "page").read_text()
    assert "all exact" in text and only.runs["moving"].order in text


def test_a_phase_is_from_commit_to_commit() -> None:
    made = [
        {"end_s": float(2 * n), "rows_in": 10, "between_rows": n, "kept_rows": 0, "cpu_s": 0.1}
        for n in range(6)
    ]
    phase = Phase.of(made, 2, 5)
    assert (phase.tick_s, phase.rows_per_s, phase.between_per_tick) == (2.0, 5.0, 3.0)
    assert phase.cpu_s_per_row == pytest.approx(0.01)


def test_keys_give_the_partners_that_are_said() -> None:
    near = 2 * UNEVEN_CHAIN.window_s * 1e6 / UNEVEN_CHAIN.spacing_us
    for partners in UNEVEN.values():
        assert near / distinct(UNEVEN_CHAIN, partners) == pytest.approx(partners, rel=0.01)
