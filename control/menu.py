"""What would help now: every kind of option at its best amount, ranked by gain, and what nothing leads to.

Each entry is a plan that can be proposed as it stands; its figures are those that its preview will show.
Options that do not pay are in it too, with why not. `forecast` says when each node will be full.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from control.cost.coefficients import Coefficients, LocalRule
from control.cost.exact import Exact, exact
from control.cost.options import Option, Priced
from control.cost.outlook import Outlook, look, rule_of
from control.cost.search import Breadth, ranked
from control.limits import Limits
from control.orders import better_orders
from control.plans import Plan, Reason, Step, Topic, plan_to_json, step_to_json
from control.policies.best_gain import rows_of, step_of
from control.predict import HORIZON, gains
from control.snapshot import NO_LIMIT, ClusterSnapshot, Doubles, node_sums

SEARCHED = Breadth(senders=4, receivers=3, spills=4, cleanups=4)
DAY_S = 86_400.0
Made = tuple[Option, Step, Exact]
ORDERS = 2  # of other join orders at most
TIMES = np.r_[0.0, np.geomspace(1.0, DAY_S, 240)]


def menu(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    limits: Limits,
    rule: LocalRule | None = None,
    seed: int = 0,
    most: int = 8,
) -> list[dict[str, Any]]:
    """At most `most` entries, best first, `nothing` among them; what gains less than it stands below it."""
    outlook = look(snapshot, numbers, HORIZON, rule)
    best = _one_each(ranked(outlook, limits, SEARCHED))
    found = [made for priced in best if (made := _made(outlook, priced))]
    found.sort(key=lambda made: -made[2].gain_row_s)
    orders = _orders(snapshot, numbers, limits, rule, seed, min(ORDERS, most // 2))
    entries = [_entry(outlook, *made, seed) for made in _mixed(found, most - 1 - len(orders))]
    entries = [*entries, *orders, _nothing(outlook)]
    entries = sorted(entries, key=lambda e: (-e["gain_row_s"], e["do"]))
    return [{"rank": n, **entry} for n, entry in enumerate(entries, start=1)]


def _orders(
    snapshot: ClusterSnapshot,
    numbers: Coefficients,
    limits: Limits,
    rule: LocalRule | None,
    seed: int,
    most: int,
) -> list[dict[str, Any]]:
    """Other join orders that are possible, with what other entries have besides."""
    found = better_orders(snapshot, numbers, limits, rule=rule, horizon=HORIZON, seed=seed)
    bare = {"node": None, "to": None, "groups": 0, "owed_rows": 0.0}
    able = [one for one in found if one["strategy"] is not None and not one["hindrance"]]
    return [{**bare, **one, "text": one["summary"], "why": one["text"]} for one in able[:most]]


def _one_each(best: list[Priced]) -> list[Priced]:
    """Of each kind the best for each node: a sender's other receivers say nothing new."""
    first: dict[tuple[str, int], Priced] = {}
    for priced in best:
        if priced.option.kind != "nothing":
            first.setdefault((priced.option.kind, priced.option.node), priced)
    return list(first.values())


def _mixed(found: list[Made], most: int) -> list[Made]:
    """The best of each kind, so that kinds can be compared, then whatever gains most."""
    kinds: dict[str, Made] = {}
    for made in found:
        kinds.setdefault(made[0].kind, made)
    kept = list(kinds.values())[:most]
    rest = [made for made in found if not any(made is one for one in kept)]
    return kept + rest[: most - len(kept)]


def _made(outlook: Outlook, priced: Priced) -> Made | None:
    """An option as whole groups, priced as such; None where no whole group fits its amount."""
    rows = rows_of(outlook, priced.option)
    if not len(rows):
        return None
    step = step_of(outlook.snapshot, priced.option, rows)
    return priced.option, step, exact(outlook, (step,))


def _entry(
    outlook: Outlook, option: Option, step: Step, priced: Exact, seed: int
) -> dict[str, Any]:
    told, direct = gains(outlook, priced, seed), priced.steps[0]
    groups = len(rows_of(outlook, option))
    full = float(priced.after.full_s.min(initial=np.inf))
    text = _text(option, groups, direct.bytes, full, outlook.horizon.seconds)
    verdict = _verdict(told)
    plan = Plan((step,), (Reason.of(Topic.CHOSEN, f"{text}; {verdict}", **_numbers(told)),))
    return {
        "do": option.kind,
        "node": option.node,
        "to": option.target if option.kind == "move" else None,
        "groups": groups,
        "bytes": direct.bytes,
        **told,
        "pause_s": direct.pause_s,
        "duration_s": direct.seconds,
        "owed_rows": direct.owed_rows,
        "full_s": full if isfinite(full) else None,
        "text": text,
        "verdict": verdict,
        "step": step_to_json(step),
        "plan": plan_to_json(plan),
    }


def _numbers(told: dict[str, Any]) -> dict[str, float]:
    names = ("gain_row_s", "cost_row_s", "p10_row_s", "p50_row_s", "p90_row_s", "chance")
    return {name: told[name] for name in names}


def _text(option: Option, groups: int, size: int, full_s: float, horizon_s: float) -> str:
    what = {
        "move": f"move {groups} groups from node {option.node} to node {option.target}",
        "spill": f"spill {groups} groups of node {option.node}",
        "cleanup": f"clean up {groups} groups of node {option.node}",
    }[option.kind]
    left = f"full in {full_s:,.0f} s" if isfinite(full_s) else f"not full within {horizon_s:,.0f} s"
    return f"{what} ({size / 1e6:,.1f} MB); then {left}"


def _verdict(told: dict[str, Any]) -> str:
    if told["gain_row_s"] <= 0:
        return "loses against doing nothing"
    if not told["pays"]:
        return "gains less than twice its cost"
    if told["chance"] < 0.8:
        return f"gains, but only in {told['chance']:.0%} of draws"
    return f"gains in {told['chance']:.0%} of draws"


def _nothing(outlook: Outlook) -> dict[str, Any]:
    """Doing nothing: what it is measured against, and which nodes it fills when."""
    rolled, horizon_s = outlook.nothing, outlook.horizon.seconds
    full = [
        {"node": node, "full_s": float(rolled.full_s[node])}
        for node in np.argsort(rolled.full_s, kind="stable").tolist()
        if isfinite(rolled.full_s[node])
    ]
    if full:
        first = full[0]
        text = (
            f"node {first['node']} is full in {first['full_s']:,.0f} s and spills by its own rule"
        )
    else:
        text = f"no node is full within {horizon_s:,.0f} s"
    if outlook.numbers.cores > 0 and len(outlook.snapshot.nodes) > 1:
        text += "; all nodes share the same cores: moving for load gains nothing"
    return {
        "do": "nothing",
        "gain_row_s": 0.0,
        "cost_row_s": 0.0,
        "nothing_row_s": float(rolled.row_s.sum()),
        "owed_rows": float(rolled.owed_rows.sum()),
        "spilled_bytes": int(rolled.spilled_bytes.sum()),
        "full_s": full[0]["full_s"] if full else None,
        "full": full,
        "text": text,
        "step": None,
        "plan": None,
    }


def forecast(
    snapshot: ClusterSnapshot, numbers: Coefficients, rule: LocalRule | None = None
) -> list[float | None]:
    """By node: seconds until it is full and spills by its own rule, at today's growth; None: not within a
    day, or no budget, or not alive. 0: it is full."""
    del numbers  # growth is measured, not modelled; every function here is called alike
    nodes = snapshot.nodes
    limit = nodes.budget_bytes * (rule or rule_of(snapshot)).threshold
    curve = memory_ahead(snapshot, TIMES)
    over = curve >= limit[:, None]
    out: list[float | None] = []
    for node in range(len(nodes)):
        fits = nodes.alive[node] and nodes.budget_bytes[node] < NO_LIMIT and over[node].any()
        out.append(_crossing(curve[node], float(limit[node])) if fits else None)
    return out


def _crossing(curve: Doubles, limit: float) -> float:
    """When a curve over TIMES first reaches a limit, straight between two points."""
    at = int((curve >= limit).argmax())
    if at == 0:
        return 0.0
    low, high = curve[at - 1], curve[at]
    share = (limit - low) / (high - low)
    return float(TIMES[at - 1] + share * (TIMES[at] - TIMES[at - 1]))


def memory_ahead(snapshot: ClusterSnapshot, later_s: Doubles) -> Doubles:
    """Memory by node, so many seconds later, at today's growth: a straight line without a window, toward βW
    with one."""
    groups, count = snapshot.groups, len(snapshot.nodes)
    curve = np.repeat(snapshot.nodes.memory_bytes.astype(np.float64)[:, None], len(later_s), axis=1)
    for index, operator in enumerate(snapshot.operators):
        mine = groups.operator == index
        owner = groups.owner[mine]
        beta = node_sums(owner, groups.bytes_per_s[mine], count)
        if operator.window_s is None:
            curve += beta[:, None] * later_s
            continue
        size = node_sums(owner, groups.memory_bytes[mine], count)
        toward = beta * operator.window_s - size
        curve += toward[:, None] * -np.expm1(-later_s / operator.window_s)
    return curve
