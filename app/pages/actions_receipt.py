"""An action's correctness receipt: per stream before + in − expired = after, where the rows are, checksums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from app.components.help import mark
from app.components.kit import chip, d, icon, s
from app.components.units import MINUS, counted, node_name, said, said_size, whole


def receipt(found: Mapping[str, Any], over: bool) -> Component:
    """Per stream: before + in − expired = after. Per place: where the rows were and are. Checksums."""
    if not found:
        text = (
            "None was kept: nothing was committed."
            if over
            else "Written when the action has ended."
        )
        return d(
            title("Correctness receipt", "receipt"),
            d(text, c="ac-note"),
            c="ac-sec",
        )
    good = bool(found.get("ok"))
    good_or_not = chip("equal", "", "check") if good else chip("differs", "fail", "octagon-x")
    parts = [
        title("Correctness receipt", "receipt", good_or_not),
        _problems(found),
        _streams(found),
        _places(found),
        _meanwhile(found),
    ]
    return d(*[p for p in parts if p is not None], _checked(found), c="ac-sec")


def _problems(found: Mapping[str, Any]) -> Component | None:
    lines = [d(icon("octagon-x"), s(str(text)), c="ck no") for text in found.get("problems", ())]
    return d(*lines, role="alert") if lines else None


def _streams(found: Mapping[str, Any]) -> Component | None:
    rows = found.get("streams") or ()
    if not rows:
        return None
    heads = ("rows", "before", "+ in", f"{MINUS} expired", "= after", "")
    lines = [d(*[s(text, c="" if not at else "r") for at, text in enumerate(heads)], c="ac-rc h")]
    for one in rows:
        four = [one["rows_before"], one["rows_in"], one["rows_expired"], one["rows_after"]]
        equal = four[0] + four[1] - four[2] == four[3]
        same = icon("equal") if equal else icon("x", "bad")
        name = f"{one['operator']} · {one['stream']}"
        lines.append(
            d(s(name, c="clip", title=name), *[s(whole(n), c="r") for n in four], same, c="ac-rc")
        )
    return d(*lines)


def _meanwhile(found: Mapping[str, Any]) -> Component | None:
    """A node's own spill and a move are not to be at once: where they were, it is said with both."""
    if during := found.get("during"):
        text = f"The node was at all of its budget while {', '.join(map(str, during))} moved state: it did not wait."
        return d(text, c="ac-note")
    if times := int(found.get("spills_meanwhile") or 0):
        return d(f"Nodes spilled by themselves meanwhile: {counted(times, 'time')}.", c="ac-note")
    return None


def _places(found: Mapping[str, Any]) -> Component | None:
    rows = found.get("places") or ()
    if not rows:
        return None
    top = d(
        s("where"),
        s("rows before", c="r"),
        s("rows after", c="r"),
        s("bytes after", c="r"),
        c="ac-pl h",
    )
    lines = [
        d(
            s(f"{node_name(one['node'])} {'in memory' if one['tier'] == 'memory' else 'on disk'}"),
            s(whole(one["rows_before"]), c="r"),
            s(whole(one["rows_after"]), c="r"),
            s(said_size(one["bytes_after"]), c="r"),
            c="ac-pl",
        )
        for one in rows
    ]
    return d(top, *lines)


def _checked(found: Mapping[str, Any]) -> Component:
    sums = found.get("checksums") or {}
    agree = "agree" if sums.get("agree") else "differ"
    texts = []
    if sums.get("kind") not in (None, "none"):
        count = f", {counted(sums['segments'], 'segment')}" if sums.get("segments") else ""
        texts.append(f"Checksums {agree} ({sums['kind']}{count}).")
    else:
        texts.append("Nothing was written anew: rows are counted.")
    owed = found.get("owed") or {}
    if owed.get("rows_after_estimated") is not None:
        before, after = owed.get("rows_before_estimated"), owed["rows_after_estimated"]
        texts.append(f"Results owed by these groups, estimated: {said(before)} → {said(after)}.")
    if found.get("groups_total"):
        texts.append(f"{counted(found['groups_total'], 'group')} counted.")
    return d(" ".join(texts), c="ac-note")


def title(text: str, help: str, right: Any = None) -> Component:
    end = d(right, c="p-right") if right else None
    return d(html.H3(text, className="p-title"), mark(help), end, c="ac-h")
