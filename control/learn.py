"""What actions teach the cost model: predicted against actual, coefficient by coefficient, each step kept.

A prediction is compared as it would be made now: for the bytes or rows that there really were, and with the
coefficients as they are by now, so that ten actions predicted alike do not teach the same lesson ten times.
Gains are counterfactual and teach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeGuard

from control.cost.coefficients import Coefficients
from control.cost.recalibrate import CORRECTS, Estimate, estimates_of, learned, numbers_of
from control.ledger import ActionRow, Json, Learned
from control.ports import Store

# What a figure grows with: a write of twice the bytes teaches nothing about the price of a byte.
GROWS_WITH: Mapping[str, str] = {
    "spill_cpu_s": "bytes",
    "move_cpu_s": "bytes",
    "cleanup_read_cpu_s": "bytes",
    "cleanup_join_cpu_s": "cleanup_rows",
    "recompute_cpu_s": "recompute_rows",
    "sort_cpu_s": "sort_rows",
}
# With so many it is as sure as not that it was rows that a measurement is of: with fewer it is mostly what else a job does.
SURE_ROWS: Mapping[str, float] = {"recompute_cpu_s": 5e5, "sort_cpu_s": 5e5}
BASE = Coefficients()


def numbers(store: Store, base: Coefficients = BASE) -> Coefficients:
    """The coefficients as learned so far; predictions are made with these."""
    known = estimates(store, base)
    return numbers_of(base, {name: one for name, one in known.items() if one.count})


def estimates(store: Store, base: Coefficients = BASE) -> dict[str, Estimate]:
    """With how unsure each is, and from how many actions it was learned."""
    return estimates_from(store.learning.estimates(), base)


def estimates_from(
    kept: Mapping[str, Mapping[str, float]], base: Coefficients = BASE
) -> dict[str, Estimate]:
    known = {field.name for field in fields(Estimate)}
    found = {
        name: Estimate(**{k: v for k, v in body.items() if k in known})  # type: ignore[arg-type]
        for name, body in kept.items()
    }
    return {name: found.get(name, fresh) for name, fresh in estimates_of(base).items()}


def lesson(
    row: ActionRow, before: Mapping[str, Estimate], now_s: float
) -> tuple[list[Learned], dict[str, Estimate]]:
    """One action's lines, and the estimates after them."""
    predicted, made_with = _figures(row.predicted), row.predicted.get("coefficients", {})
    after, lines = dict(before), []
    for figure, name in CORRECTS.items():
        actual = row.actual.get(figure)
        if not _positive(actual) or not _positive(predicted.get(figure)):
            continue
        known = after[name].value
        would = float(predicted[figure]) * _scale(figure, predicted, row.actual)
        if _positive(made_with.get(name)):
            would *= known / float(made_with[name])
        after = learned(after, figure, float(actual), would, _weight(figure, row.actual))
        value = after[name].value
        lines.append(Learned(now_s, row.id, figure, would, float(actual), name, known, value))
    return lines, after


def learn(store: Store, now_s: float, most: int = 100) -> int:
    """Learn from what has ended since; how many actions that were. Done once for each, in one transaction."""
    rows = store.actions.unlearned(most)
    if not rows:
        return 0
    before = after = estimates(store)
    lines: list[Learned] = []
    for row in sorted(rows, key=lambda row: row.ended_s or 0.0):
        some, after = lesson(row, after, now_s)
        lines += some
    changed = {name: asdict(after[name]) for name in after if after[name] != before[name]}
    with store.together():
        store.learning.learn(lines, changed)
        store.learning.marked([row.id for row in rows])
    return len(rows)


def compared(row: ActionRow) -> list[dict[str, Any]]:
    """Predicted against actual as a person reads it, figure by figure, nothing scaled."""
    predicted = _figures(row.predicted)
    names = [name for name in predicted if name in row.actual]
    return [
        {
            "figure": name,
            "predicted": predicted[name],
            "actual": row.actual[name],
            "ratio": row.actual[name] / predicted[name] if _positive(predicted[name]) else None,
            "corrects": CORRECTS.get(name),
        }
        for name in names
        if isinstance(row.actual[name], int | float)
    ]


def _figures(predicted: Json) -> Json:
    """A step of a preview has them under `figures`."""
    found: Json = predicted.get("figures", predicted)
    return found


def _scale(figure: str, predicted: Json, actual: Json) -> float:
    """How much more there was to do than was predicted."""
    by = GROWS_WITH.get(figure)
    if by is None or not _positive(predicted.get(by)) or not _positive(actual.get(by)):
        return 1.0
    return float(actual[by]) / float(predicted[by])


def _weight(figure: str, actual: Json) -> float:
    """How much there is to be learned of a measurement."""
    sure, rows = SURE_ROWS.get(figure), actual.get(GROWS_WITH.get(figure, ""))
    return rows / (rows + sure) if sure is not None and _positive(rows) else 1.0


def _positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value < float("inf")
