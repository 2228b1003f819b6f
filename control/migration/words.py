"""What is said of migrations' figures: why a strategy, and sizes and row·s as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from control.migration.strategies import Strategy

if TYPE_CHECKING:
    from control.migration.gain import Offer

CALLED: dict[Strategy, str] = {
    "moving": "moving state",
    "parallel": "the parallel track",
    "delta": "the delta plan",
}


def reasons(span_s: float, offers: Sequence[Offer], chosen: Offer | None, factor: float) -> str:
    """Why this strategy, with the figures that decide. `factor`: of windows, where two cost the same."""
    said = [_said(one) for one in offers]
    if chosen is None:
        return "; ".join(said) + ": none can be done"
    others = [one.gain_row_s for one in offers if one is not chosen and one.possible]
    verdict = f"{CALLED[chosen.strategy]} is better"
    if others:
        verdict += f" by {rows_s(chosen.gain_row_s - max(others))}"
    if 0 < factor < inf:
        verdict += f"; moving state and the parallel track cost the same with windows of {factor * span_s:,.3g} s ({span_s:,.3g} s now)"
    return f"{'; '.join(said)}; {verdict}"


def _said(one: Offer) -> str:
    told = one.estimate
    if one.hindrance:
        return f"{one.strategy}: not possible, {one.hindrance}"
    if told.strategy == "moving":
        waits = "ticks wait" if told.at_once else f"no results for {told.stall_s:,.3g} s"
        what = f"{told.rows:,.0f} rows computed anew in {told.length_s:,.3g} s, {waits}"
    elif told.strategy == "delta":
        what = f"{told.sorted_rows:,.0f} rows sorted and {told.rows - told.sorted_rows:,.0f} computed anew in {told.length_s:,.3g} s, no intermediate state for {told.ticks_s:,.3g} s of it, no results for {told.stall_s:,.3g} and {told.again_s:,.3g} s"
    else:
        what = f"both plans for {told.length_s:,.3g} s, no pause, {mb(told.extra_bytes)} more"
        if told.behind_s > 0:
            what += f", {told.behind_s:,.3g} s of it behind"
    return f"{told.strategy}: {what}, gain {rows_s(one.gain_row_s)}"


def mb(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def rows_s(value: float) -> str:
    """Row·s as people read them."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.3g} {unit} row·s"
    return f"{value:,.3g} row·s"
