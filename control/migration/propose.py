"""Better orders for the tree that runs, each with what it would take and gain: what "propose a better order" shows.

Looked at are the best tree of any shape, the best left-deep one, the best by rows alone and by state alone, and one join
of all where all share one key; what makes the same rows in between as the running one is not among them. A person's own tree is priced alike (`price`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from control.cost.outlook import Outlook
from control.migration.curve import Point
from control.migration.gain import Advice, Offer, advise
from control.migration.model import Model, TreeLoad, load_of
from control.migration.optimise import Shape, Weights, best, same_joins, shape_of, weights_from
from control.migration.pictured import trees
from control.migration.strategies import EVERY, Pace, Strategy
from control.migration.trees import Tree, check, one_key, show
from control.migration.words import mb


@dataclass(frozen=True)
class Proposal:
    """One tree and what is advised for it."""

    tree: Tree
    shape: str
    text: str
    advice: Advice

    @property
    def gain_row_s(self) -> float:
        chosen = self.advice.chosen
        return chosen.gain_row_s if chosen is not None else float("-inf")


def price(
    outlook: Outlook,
    model: Model,
    running: Tree,
    tree: Tree,
    pace: Pace,
    seed: int = 0,
    able: Sequence[Strategy] = EVERY,
) -> Proposal:
    """Any equivalent tree. PlanError where it is none."""
    check(tree, model.classes, len(model.rates))
    return Proposal(
        tree,
        shape_of(tree),
        show(tree, model.names),
        advise(outlook, model, running, tree, pace, seed, able),
    )


def proposals(
    outlook: Outlook,
    model: Model,
    running: Tree,
    pace: Pace,
    seed: int = 0,
    able: Sequence[Strategy] = EVERY,
) -> list[Proposal]:
    """Best gain first; empty where nothing is better by rows or by state, or where nothing is known yet."""
    now = load_of(model, running)
    if now.rows_in_per_s <= 0:
        return []
    both = weights_from(now)
    tries: Sequence[tuple[Weights, Shape]] = (
        (both, "any"),
        (both, "left"),
        (Weights(both.row, 0.0), "any"),
        (Weights(0.0, both.byte), "any"),
    )
    found_trees: list[Tree] = [best(model, weights, shape).tree for weights, shape in tries]
    inputs = range(len(model.rates))
    if one_key(model.classes, [1 << n for n in inputs]):
        found_trees.append(tuple(inputs))
    trees: list[Tree] = []
    for tree in found_trees:
        if not any(same_joins(tree, other) for other in (running, *trees)):
            trees.append(tree)
    found = [price(outlook, model, running, tree, pace, seed, able) for tree in trees]
    return sorted(found, key=lambda one: -one.gain_row_s)


def told(proposal: Proposal) -> dict[str, Any]:
    """As JSON: what a preview shows, and what the menu ranks by (the names that its other entries have)."""
    advice = proposal.advice
    change, chosen = advice.change, advice.chosen
    return {
        "do": "migrate",
        "join_order": proposal.text,
        "shape": proposal.shape,
        "strategy": chosen.strategy if chosen is not None else None,
        "before": _load(change.old, advice.pace),
        "after": _load(change.new, advice.pace),
        "state": {
            "shared": len(change.matched.shared),
            "sorted_anew": len(change.matched.sorted_anew),
            "recomputed": len(change.matched.recomputed),
            "dropped": len(change.matched.dropped),
        },
        "strategies": {one.strategy: _offer(one) for one in advice.offers},
        "crossover": advice.crossover if isfinite(advice.crossover) else None,
        "window_s": change.model.span_s if isfinite(change.model.span_s) else None,
        "curve": [_point(point) for point in advice.curve],
        "trees": trees(change, advice.pace),
        "text": advice.why,
        "verdict": verdict(chosen),
        **(_offer(chosen) if chosen is not None else {}),
    }


def verdict(chosen: Offer | None) -> str:
    """In the words of the menu."""
    if chosen is None:
        return "cannot be done"
    if chosen.gain_row_s <= 0:
        return "loses against doing nothing"
    if chosen.gain_row_s < 2 * chosen.cost_row_s:
        return "gains less than twice its cost"
    if chosen.sure.chance < 0.8:
        return f"gains, but only in {chosen.sure.chance:.0%} of draws"
    return f"gains in {chosen.sure.chance:.0%} of draws"


def summary(proposal: Proposal) -> str:
    """One line; how good that is, `verdict` says."""
    change = proposal.advice.change
    return (
        f"{proposal.text} ({proposal.shape}): {change.new.between_per_s:,.0f} rows a second in between "
        f"instead of {change.old.between_per_s:,.0f}, {mb(change.new.state_bytes)} of state instead of "
        f"{mb(change.old.state_bytes)}"
    )


def _point(point: Point) -> dict[str, Any]:
    """Costs at windows so many times today's."""
    return {
        "factor": point.factor,
        "moving": {"duration_s": point.moving_s, "cost_row_s": point.moving_row_s},
        "parallel": {"duration_s": point.parallel_s, "cost_row_s": point.parallel_row_s},
    }


def _load(load: TreeLoad, pace: Pace) -> dict[str, float]:
    return {
        "between_per_s": load.between_per_s,
        "state_rows": load.state_rows,
        "state_bytes": load.state_bytes,
        "spread": load.spread,
        "rows_out_per_s": load.operators[-1].rows_out_per_s,
        "cpu_s": load.cpu(pace.join_s, pace.insert_s),
    }


def _offer(one: Offer) -> dict[str, Any]:
    estimate = one.estimate
    finite = isfinite(estimate.length_s)
    return {
        "gain_row_s": one.gain_row_s,
        "cost_row_s": one.cost_row_s,
        "p10_row_s": one.sure.p10,
        "p50_row_s": one.sure.p50,
        "p90_row_s": one.sure.p90,
        "chance": one.sure.chance,
        "pays": one.pays,
        "duration_s": estimate.length_s if finite else None,
        "pause_s": estimate.pause_s,
        "at_once": estimate.at_once,
        "rows": estimate.rows,
        "cpu_s": estimate.cpu_s if finite else None,
        "bytes": int(estimate.extra_bytes),
        "behind_s": estimate.behind_s,
        "hindrance": one.hindrance,
        "full_s": one.full_s if isfinite(one.full_s) else None,
    }
