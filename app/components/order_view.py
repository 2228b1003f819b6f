"""Another join order beside the running one: both trees, what changes, what each strategy takes, which is advised.

Drawn from what control/migration/propose.py tells; nothing is worked out here but shares and sums of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from app.components import order_chart, order_tree, plan_tree
from app.components.charts import graph
from app.components.help import mark
from app.components.kit import d, icon, panel, s
from app.components.order_tree import FATES, Pair
from app.components.steps import STRATEGIES as NAMES
from app.components.units import (
    NONE,
    duration,
    percent,
    said,
    said_size,
    signed,
    signed_size,
)

Told = Mapping[str, Any]
LEAST_SHARE = 0.04  # of the bar of states: so much room has the smallest
READ_SHARE = 0.2  # and so much one whose size is written on it


def preview(told: Told, running: str, theme: str, id: str, foot: Component) -> list[Component]:
    """`running`: the order that runs; `id`: of the chart, its own on each page; `foot`: what can be done."""
    pair = Pair.of(told["trees"])
    found = order_tree.fates(pair)
    return [
        d(
            s(s(told["join_order"], c="b mono"), s(f" instead of {running}", c="dim mono")),
            order_tree.legend({name: count for name, (count, _, _) in found.items()}),
            c="mg-head",
        ),
        _trees(told, pair),
        d(changes(told, pair), _how_long(told, theme, id), advice(told, foot), c="mg-low"),
    ]


def _trees(told: Told, pair: Pair) -> Component:
    before, after = told["before"], told["after"]
    whole = float(before["cpu_s"])
    heads = [
        f"{said_size(one['state_bytes'])} of state · {percent(_share(one['cpu_s'], whole))} CPU"
        for one in (before, after)
    ]
    panels = [
        panel(
            name,
            order_tree.drawn(pair, root, f"{name}: {said_tree(root, one)}"),
            sub=_shape(root),
            right=s(head, c="k"),
            c=c,
        )
        for name, root, head, one, c in (
            ("Now", pair.before, heads[0], before, "mg-tree"),
            ("Proposed", pair.after, heads[1], after, "mg-tree prop"),
        )
    ]
    least = f"minmax(min(100%, {pair.width + 18:.0f}px), 1fr)"
    return d(*panels, c="mg-trees", style={"gridTemplateColumns": f"repeat(auto-fit, {least})"})


def said_tree(root: plan_tree.Node, load: Told) -> str:
    """The drawing in words."""
    parts = [
        f"{plan_tree.title(op)} gives {said(op['rows_out_per_s'], '/s')}"
        for op in plan_tree.operators(root)
    ]
    kept = f"{said_size(load['state_bytes'])} of state"
    return f"{'; '.join(parts)}; {kept}"


def _shape(root: plan_tree.Node) -> str:
    joins = len(list(plan_tree.operators(root)))
    height = plan_tree.rank(root)
    return f"{joins} join{'' if joins == 1 else 's'}, height {height}"


def _share(value: float, whole: float) -> float | None:
    return value / whole if whole > 0 else None


# -- what changes --------------------------------------------------------------------------------------


def changes(told: Told, pair: Pair) -> Component:
    """States by what becomes of them, and the plan's figures before and after."""
    before, after = told["before"], told["after"]
    top = d(s("measure"), s("now", c="r"), s("proposed", c="r"), s("change", c="r"), c="ef h")
    size, rows, cpu = (
        (float(before[name]), float(after[name]))
        for name in ("state_bytes", "between_per_s", "cpu_s")
    )
    state_rows = float(before["state_rows"]), float(after["state_rows"])
    lines = [
        ("rows in between", *[said(x, "/s") for x in rows], by(*rows)),
        ("state", *[said_size(x) for x in size], signed_size(size[1] - size[0])),
        ("rows of state", *[said(x) for x in state_rows], by(*state_rows)),
        ("CPU of the joins", *[percent(_share(x, cpu[0])) for x in cpu], by(*cpu)),
        ("results", *[said(x["rows_out_per_s"], "/s") for x in (before, after)], "±0"),
    ]
    return panel(
        "What changes",
        _bar(pair),
        _fates(pair),
        top,
        *[_change(*line) for line in lines],
        d(_doubt(after), c="mg-note"),
        help=mark("between"),
    )


def _change(name: str, before: str, after: str, change: str) -> Component:
    same = before == after
    return d(
        s(name),
        s(before, c="r dim"),
        s(after, c="r" if same else "r b"),
        s("±0" if same else change, c="r dim" if same else "r sg"),
        c="ef",
    )


def by(before: float, after: float) -> str:
    """How much less or more: in per cent, beyond double as a factor."""
    if before <= 0 or after <= 0:
        return NONE if after != before else "±0"
    ratio = after / before
    if ratio >= 2:
        return f"× {said(ratio)}"
    if ratio <= 1 / 2:
        return f"÷ {said(1 / ratio)}"
    return signed(percent(abs(ratio - 1)), ratio - 1) if percent(abs(ratio - 1)) != "0 %" else "±0"


def _doubt(after: Told) -> str:
    """How well the new tree's rows are known."""
    spread = float(after["spread"])
    text = "Results are the same rows: states are matched by what is in them, not by name."
    if spread < 0.1:
        return text
    return f"{text} The new rows in between are known to a factor of {1 + spread:.1f}."


def _bar(pair: Pair) -> Component:
    """All bytes of state, by what becomes of them; the least one can still be seen."""
    found = {name: one for name, one in order_tree.fates(pair).items() if one[0]}
    whole = sum(size for _, _, size in found.values()) or 1.0
    parts = [
        d(
            s(said_size(size)) if size >= READ_SHARE * whole else None,
            c=f"sb {FATES[name][0]}",
            style={"flex": f"{max(LEAST_SHARE, size / whole):.3f} 1 0"},
            title=f"{FATES[name][2]}: {said_size(size)}",
        )
        for name, (_, _, size) in found.items()
    ]
    return d(*parts, c="sbar", aria_hidden="true")


def _fates(pair: Pair) -> Component:
    told = [
        s(
            s(f"{count} {FATES[name][2]}", c="b"),
            s(f" {said(rows)} rows, {said_size(size)}", c="k"),
            c="mg-fate",
        )
        for name, (count, rows, size) in order_tree.fates(pair).items()
        if count
    ]
    return d(*told, c="mg-fates")


# -- how long it takes, and which way ------------------------------------------------------------------


def _how_long(told: Told, theme: str, id: str) -> Component:
    drawn = order_chart.crossover(told, theme)
    sub = "row·s over the length of windows"
    if drawn is None:
        text = "Without windows between all streams old rows never go: there is nothing to compare."
        return panel("What it costs", d(text, c="mg-note"), sub=sub, help=mark("crossover"))
    chart = graph(id, order_chart.HEIGHT, _said_curve(told), drawn)
    return panel("What it costs", chart, sub=sub, help=mark("crossover"))


def _said_curve(told: Told) -> str:
    factor, window = told.get("crossover"), float(told["window_s"])
    equal = (
        f"; equal at windows of {duration(window * factor)}" if factor else "; they do not cross"
    )
    costs = [
        f"{NAMES.get(name, name)} {said(one['cost_row_s'])} row·s"
        for name, one in told["strategies"].items()
    ]
    return f"Cost at windows of {duration(window)}: {', '.join(costs)}{equal}"


def advice(told: Told, foot: Component) -> Component:
    """Which strategy, why, and the figures of all side by side."""
    chosen = told.get("recommended", told.get("strategy"))
    names = [name for name in NAMES if name in told["strategies"]]
    name = NAMES.get(str(chosen), "")
    title = f"Advice: {name}" if chosen else "Advice: not now"
    heads = [s(NAMES[one], c="r acc" if one == chosen else "r") for one in names]
    style = {"gridTemplateColumns": f"minmax(118px, 1fr) repeat({len(names)}, minmax(0, 112px))"}
    rows = [
        d(s(text), *[s(cell, c=c) for cell, c in _cells(told, names, key)], c="cm", style=style)
        for key, text in ROWS
        if key != "behind_s" or any(told["strategies"][one][key] for one in names)
    ]
    barred = [
        d(icon("ban"), s(f"{NAMES[one]}: {told['strategies'][one]['hindrance']}"), c="ck")
        for one in names
        if told["strategies"][one]["hindrance"]
    ]
    top = d(s(""), *heads, c="cm h", style=style)
    why = d(*why_text(told), c="rc-t")
    low = [d(*barred, c="rc-no") if barred else None, foot]
    return panel(title, why, top, *rows, *low, c="advice", help=mark("strategy"))


ROWS = (
    ("duration_s", "takes about"),
    ("pause_s", "results stand still"),
    ("behind_s", "results fall behind"),
    ("rows", "rows computed"),
    ("bytes", "more memory"),
    ("cpu_s", "CPU"),
    ("gain_row_s", "gain, row·s"),
    ("chance", "sure"),
)


def _cells(told: Told, names: Sequence[str], key: str) -> list[tuple[str, str]]:
    """One line of the table; the better one is strong."""
    values = [told["strategies"][one].get(key) for one in names]
    best = [v for v in values if v is not None]
    most = key in ("gain_row_s", "chance")
    leads = (max if most else min)(best, default=None)
    found = []
    for name, value in zip(names, values, strict=True):
        barred = bool(told["strategies"][name]["hindrance"])
        text = written(key, value).removesuffix(" row·s")  # which the line says
        strong = not barred and value == leads and len(set(best)) > 1
        found.append((text, "r b" if strong else "r dim" if barred or text == "none" else "r"))
    return found


def written(key: str, value: float | None) -> str:
    if value is None:
        return NONE
    if key in ("pause_s", "behind_s", "bytes", "rows") and not value:
        return "none"
    if key in ("duration_s", "pause_s", "behind_s", "cpu_s"):
        return duration(value)
    if key == "bytes":
        return f"+{said_size(value)}"
    if key == "chance":
        return percent(value)
    return said(value) if key == "rows" else f"{said(value)} row·s"


def why_text(told: Told) -> list[Component]:
    """The advice in a sentence or two, with the figures that decide."""
    chosen, offers = told.get("recommended", told.get("strategy")), told["strategies"]
    if not chosen:
        return [s("Neither way can be taken now. ", c="b"), s("See below what speaks against it.")]
    one = offers[chosen]
    first = f"{NAMES[chosen].capitalize()}: {duration(one['duration_s'])}"
    still = one["pause_s"]
    first += f", results stand still for {duration(still)}. " if still else ", without a pause. "
    others = [(n, o) for n, o in offers.items() if n != chosen and not o["hindrance"]]
    rest = [f"It {_gain(one)}."]
    rest += [f"{NAMES[name].capitalize()} {_gain(other)}." for name, other in others]
    factor, window = told.get("crossover"), told.get("window_s")
    if factor and window and others:
        pair = f"{NAMES['moving'].capitalize()} and {NAMES['parallel']}"
        rest.append(f"{pair} cost the same at windows of {duration(factor * window)}.")
    return [s(first, c="b"), s(" ".join(rest))]


def _gain(one: Told) -> str:
    gain = float(one["gain_row_s"])
    if gain <= 0:
        return f"loses {said(abs(gain))} row·s against doing nothing"
    sure = f"{percent(one['chance'])} sure"
    text = f"gains {said(gain)} row·s, {sure}"
    return text if one["pays"] else f"{text}: less than what a rule would act on"
