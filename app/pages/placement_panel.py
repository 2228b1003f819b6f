"""The right-hand panel of Placement: what would come of a selection or a draft, before anybody proposes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from dash.development.base_component import Component

from app.components import proposal_view, reasons, states
from app.components.help import mark
from app.components.kit import d, icon_button, key, s
from app.components.steps import VERBS, said_step
from app.components.units import (
    MINUS,
    NONE,
    counted,
    duration,
    node_name,
    percent,
    rate,
    said,
    said_size,
    signed,
    signed_size,
)
from app.pages.placement_what import OTHERS_MAX, SPREAD, Made, Target, after, evenness
from control import predict
from control.arbiter import Refusal
from control.cost.coefficients import Coefficients
from control.menu import forecast
from control.plans import Plan, Step, nodes_of, pairs_of, step_to_json
from control.snapshot import NO_LIMIT, ClusterSnapshot

NODES_SHOWN_MAX = 8
DAY_TEXT = "> 24 h"
BIG = 1 << 55  # of bytes: no limit


@dataclass(frozen=True)
class Predicted:
    """A plan's outcome: the model's preview, the state afterwards, when nodes fill."""

    preview: Mapping[str, Any]
    now: ClusterSnapshot
    then: ClusterSnapshot
    full: Sequence[float | None]
    full_then: Sequence[float | None]
    left: tuple[float, float]  # of the day: bytes, seconds of pause


def predicted(
    snapshot: ClusterSnapshot, plan: Plan, numbers: Coefficients, left: tuple[float, float]
) -> Predicted:
    then = after(snapshot, plan.steps)
    told = predict.preview(plan, snapshot, numbers)
    full, full_then = forecast(snapshot, numbers), forecast(then, numbers)
    return Predicted(told, snapshot, then, full, full_then, left)


def nothing(draft: bool) -> list[Any]:
    keys = d(key("click"), " or ", key("drag"), " tiles · ", key("/"), " to filter", c="dim")
    text = "What you select is priced here before anything is done: memory, rates, pauses, targets."
    return [] if draft else [states.empty("Select groups", text, "grid-3x3", action=keys)]


def head(made: Made, do: str, drafted: int) -> list[Any]:
    size = sum(step.bytes for step in made.steps)
    groups = sum(len(pairs_of(step)) for step in made.steps)
    rest = [f"{counted(count, 'group')} left out: {why}" for why, count in made.left_out]
    return [
        d(s(VERBS[do], c="b"), f" {counted(groups, 'group')}, {said_size(size)}", c="pv-t"),
        d("; ".join(rest), c="pv-note warn") if rest else None,
        d(f"after the draft's {counted(drafted, 'step')}; figures are of all", c="pv-note")
        if drafted
        else None,
    ]


def outcome(found: Predicted, refusals: Sequence[Refusal]) -> list[Any]:
    return [
        proposal_view.nodes(_nodes(found)),
        _effects(found),
        _checks(found, refusals),
    ]


def _nodes(found: Predicted) -> list[dict[str, Any]]:
    """Touched nodes; all of them where there are few."""
    touched = {told["node"] for told in found.preview["nodes"]}
    count = len(found.now.nodes)
    shown = range(count) if count <= NODES_SHOWN_MAX else sorted(touched)[: 2 * NODES_SHOWN_MAX]
    return [
        {"node": n, "before": _node(found.now, n), "after": _node(found.then, n)} for n in shown
    ]


def _node(snapshot: ClusterSnapshot, node: int) -> dict[str, Any]:
    memory, budget = int(snapshot.nodes.memory_bytes[node]), int(snapshot.nodes.budget_bytes[node])
    limited = 0 < budget < NO_LIMIT
    return {
        "memory_bytes": memory,
        "budget_bytes": budget if limited else None,
        "share": memory / budget if limited else None,
    }


# -- effects -------------------------------------------------------------------------------------------


def _effects(found: Predicted) -> Component:
    head_ = d(
        s("effect", c="kv-k"), s("now", c="r"), s("after", c="r"), s("change", c="r"), c="kv h"
    )
    rows = [*_full(found), *_even(found), *_busy(found), *_results(found), *_cost(found)]
    return d(head_, *rows, c="pv-sec")


def _kv(name: str, before: str, then: str, change: str, help: str = "") -> Component:
    label = d(name, mark(help) if help else None, c="kv-k")
    tone = "dim" if change in ("±0", "") else "sg"
    return d(
        label,
        s(before, c="r dim"),
        s(then, c="r" if change == "±0" else "r b"),
        s(change, c=f"r {tone}"),
        c="kv",
    )


def _touched(found: Predicted, most: int = 3) -> list[int]:
    """The nodes that lose or gain most memory."""
    shift = np.abs(found.then.nodes.memory_bytes - found.now.nodes.memory_bytes)
    order = np.argsort(-shift, kind="stable")[:most]
    return [int(n) for n in order if shift[n] > 0]


def _full(found: Predicted) -> list[Component]:
    rows = []
    for n in _touched(found):
        was, then = found.full[n], found.full_then[n]
        if was is None and then is None:
            continue
        change = ""
        if was is not None and then is not None:
            change = signed(duration(abs(then - was)), then - was)
        rows.append(_kv(f"{node_name(n)} full in", _when(was), _when(then), change, "full_in"))
    return rows


def _when(seconds: float | None) -> str:
    return DAY_TEXT if seconds is None else "full" if seconds <= 0 else duration(seconds)


def _even(found: Predicted) -> list[Component]:
    was = evenness(found.now.nodes.memory_bytes, found.now.nodes.alive)
    then = evenness(found.then.nodes.memory_bytes, found.then.nodes.alive)
    if was is None or then is None:
        return []
    change = _signed(then - was)
    return [_kv("least / most memory", f"{was:.2f}", f"{then:.2f}", change, "even")]


def _signed(value: float) -> str:
    rounded = round(value, 2)
    return "±0" if rounded == 0 else f"{'+' if rounded > 0 else MINUS}{abs(rounded):.2f}"


def _busy(found: Predicted) -> list[Component]:
    """Only where groups change their node."""
    rows = []
    for n in _touched(found, 2):
        was, then = float(found.now.nodes.busy[n]), float(found.then.nodes.busy[n])
        points = round(100 * (then - was))
        if points:
            change = f"{'+' if points > 0 else MINUS}{abs(points)} pt"
            rows.append(_kv(f"{node_name(n)} busy", percent(was), percent(then), change, "busy"))
    return rows


def _results(found: Predicted) -> list[Component]:
    was = float(found.now.groups.rows_out_per_s.sum())
    then = float(found.then.groups.rows_out_per_s.sum())
    change = (
        "±0" if round(then - was, 6) == 0 else signed(" ".join(rate(abs(then - was))), then - was)
    )
    rows = [
        _kv("results, right after", " ".join(rate(was)), " ".join(rate(then)), change, "rows_out")
    ]
    owed = float(found.now.groups.owed_rows.sum())
    more = float(found.preview["whole"]["owed_rows"])
    later = max(0.0, owed + more)
    put = "±0" if round(more) == 0 else signed(said(abs(more)), more)
    return [*rows, _kv("results put off", said(owed), said(later), put, "puts_off")]


def _cost(found: Predicted) -> list[Component]:
    whole = found.preview["whole"]
    size, pause = float(whole["bytes"]), float(whole["pause_s"])
    rows = [
        _kv("takes about", "", duration(whole["duration_s"]), "", "cost"),
        _kv("input held", "", duration(pause), "", "pause"),
    ]
    left, pauses = found.left
    if isfinite(left) and left < BIG:
        rows.append(
            _kv("bytes left today", said_size(left), said_size(max(0.0, left - size)),
                signed_size(-size) if size else "±0", "day")
        )  # fmt: skip
    if pause > 0:
        rows.append(
            _kv("pause left today", duration(pauses), duration(max(0.0, pauses - pause)),
                signed(duration(pause), -pause), "day")
        )  # fmt: skip
    minutes = round(float(found.preview["horizon_s"]) / 60)
    rows.append(
        _kv(f"row·s gained in {minutes} min", "", said(whole["gain_row_s"]), "model", "menu")
    )
    rows.append(_kv("confidence", "", percent(whole.get("chance")), "model", "confidence"))
    return rows


def _checks(found: Predicted, refusals: Sequence[Refusal]) -> Component:
    if refusals:
        told = [{"text": one.text, "found": one.found, "limit": one.limit} for one in refusals[:6]]
        return d(reasons.refusals(told), c="pv-sec pv-ck")
    lines = [reasons.check("nothing speaks against it now")]
    for n in _touched(found):
        budget = int(found.then.nodes.budget_bytes[n])
        grows = found.then.nodes.memory_bytes[n] > found.now.nodes.memory_bytes[n]
        if grows and 0 < budget < NO_LIMIT:
            share = percent(int(found.then.nodes.memory_bytes[n]) / budget)
            lines.append(reasons.check(f"{node_name(n)} stays under 95 % of its budget ({share})"))
    return d(*lines, c="pv-sec pv-ck")


# -- targets -------------------------------------------------------------------------------------------


def target_name(node: int) -> str:
    return "several nodes" if node == SPREAD else node_name(node)


def options(found: Sequence[Target]) -> list[dict[str, Any]]:
    """For the chooser: best first, and what each would be filled to."""
    return [
        {
            "value": str(one.node),
            "label": f"{target_name(one.node)} · {_ends(one)}",
            "disabled": not one.fits,
        }
        for one in found
    ]


def _ends(one: Target) -> str:
    share = f"{percent(one.share)} full" if one.share is not None else said_size(one.ends_at)
    return share if one.fits else f"{share}: no room"


def others(found: Sequence[Target], chosen: int | None) -> Component | None:
    """The next best targets, and why they are not the first."""
    rest = [one for one in found if one.node != chosen][:OTHERS_MAX]
    if not rest:
        return None
    best = next((one for one in found if one.node == chosen), None)
    head_ = d(
        s("other targets", c="kv-k"),
        s("ends at", c="r"),
        s("least/most", c="r"),
        s("", c="r"),
        c="kv h",
    )
    rows = [
        d(
            s(target_name(one.node), c="kv-k"),
            s(said_size(one.ends_at), c="r"),
            s(f"{one.even:.2f}" if one.even is not None else NONE, c="r"),
            s(_against(one, best), c="r dim"),
            c="kv",
        )
        for one in rest
    ]
    return d(head_, *rows, c="pv-sec pv-alt")


def _against(one: Target, best: Target | None) -> str:
    if not one.fits:
        return "no room"
    if best is None or one.even is None or best.even is None:
        return ""
    if one.node == SPREAD and one.even >= best.even:
        return "even, more steps"
    gap = round(one.even - best.even, 2)
    return "less even" if gap < 0 else "more even" if gap > 0 else "as even"


# -- the draft -----------------------------------------------------------------------------------------


def draft(steps: Sequence[Step]) -> list[Any]:
    """Steps so far, each with a way to take it out."""
    if not steps:
        return []
    rows = [
        d(
            s(str(at + 1), c="mi-rank"),
            s(said_step(step_to_json(step)), c="clip"),
            s(said_size(step.bytes), c="num dim"),
            icon_button("x", f"Take step {at + 1} out", id={"type": "placement-drop", "at": at}),
            c="pl-step",
        )
        for at, step in enumerate(steps)
    ]
    title = d(s("Draft", c="b"), s(counted(len(steps), "step"), c="k"), c="pl-draft-h")
    return [d(title, *rows, c="pv-sec pl-draft")]


def source_names(steps: Sequence[Step]) -> str:
    found = sorted({nodes_of(step)[0] for step in steps})
    return ", ".join(node_name(n) for n in found[:4]) + (" …" if len(found) > 4 else "")
