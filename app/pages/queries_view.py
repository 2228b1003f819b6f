"""What Queries & plans shows, drawn from plain values: the list, the plan with its operators, one operator by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from app.components import plan_tree as tree
from app.components import plan_view, states
from app.components.help import mark as help_mark
from app.components.kit import button, chip, d, link, num, s, table
from app.components.plan_figures import Figures, figures_of, ratio
from app.components.units import (
    NONE,
    clock,
    counted,
    duration,
    figure,
    node_name,
    prefixed,
    rate,
    size,
    whole,
)
from app.desk import may, role
from control.kinds import KINDS
from control.ledger import QueryRow, Wanted
from control.samples import Sample

NODES_SHOWN_MAX = 16
LIVE = frozenset({"starting", "running", "pausing", "paused", "resuming", "stopping"})
TONES = {"running": ("", "play"), "failed": ("fail", "octagon-x"), "paused": ("", "pause"),
         "stopped": ("mode-off", ""), "finished": ("mode-off", "check")}  # fmt: skip
# What each state lets one do: (kind, word).
DOES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "running": (("query.pause", "Pause"), ("query.stop", "Stop")),
    "paused": (("query.resume", "Resume"), ("query.stop", "Stop")),
    "starting": (("query.stop", "Stop"),),
    "pausing": (("query.stop", "Stop"),),
    "resuming": (("query.stop", "Stop"),),
    "stopping": (),
}
REST = (("query.start", "Start"), ("query.unregister", "Unregister"))
HEADS = (("query", ""), ("state", ""), ("source lag", "r"), ("rows in", "r"), ("results", "r"),
         ("in memory", "r"), ("on disk", "r"), ("nodes", "r"), ("tick", "r"), ("", "r"))  # fmt: skip


def listed(
    rows: Sequence[QueryRow], newest: Mapping[str, Sample | None], chosen: str, search: str = ""
) -> Component:
    """Every query; the one that is looked at has a mark."""
    if not rows:
        text = "Register one: a query file, or SQL and a few fields."
        return states.empty("No query is registered", text, "git-branch")
    body = [_row(row, newest.get(row.name), row.name == chosen) for row in rows]
    heads = [
        html.Th(text or s("what to do", c="sr"), className=c, scope="col") for text, c in HEADS
    ]
    made = html.Table([html.Thead(html.Tr(heads)), html.Tbody(body)], className="tbl qu-list")
    return d(made, c="scroll-x")


def _row(row: QueryRow, sample: Sample | None, chosen: bool) -> Component:
    figures: Mapping[str, float] = sample.figures if sample else {}
    running = row.state == "running"
    name = d(
        dcc.Link(row.name, href=f"/queries?query={quote(row.name)}", className="text-link b"),
        chip("demo") if row.demo else None,
        c="qu-n",
    )
    flow = [
        num(*rate(figures.get(n) if running else None)) for n in ("rows_in_per_s", "rows_out_per_s")
    ]
    held = [num(*size(figures.get(n) if sample else None)) for n in ("memory_bytes", "disk_bytes")]
    nodes = len(sample.snapshot.nodes) if sample else row.nodes or row.about.get("nodes")
    cells = [
        name, state_of(row), _lag(figures.get("lag_s") if running else None), *flow, *held,
        whole(nodes) if nodes else NONE, whole(sample.version) if sample else NONE, _buttons(row),
    ]  # fmt: skip
    classes = [c for _, c in HEADS]
    tds = [html.Td(cell, className=c) for cell, c in zip(cells, classes, strict=True)]
    return html.Tr(tds, className="on" if chosen else "")


def _lag(seconds: float | None) -> Any:
    if seconds is None or seconds != seconds:
        return s(NONE, c="dim", title="Its sources do not say how far ahead they are.")
    value, _, unit = duration(seconds).rpartition(" ")
    return num(value, unit)


def state_of(row: QueryRow) -> Component:
    """What it is, and what it should be where that differs."""
    tone, ic = TONES.get(row.state, ("", "clock"))
    said = [chip(row.state, tone, ic)]
    if row.wanted is not _meant(row.state) and row.state != "failed":
        said.append(s(f"to be {row.wanted}", c="k"))
    return d(*said, c="qu-s")


def _meant(state: str) -> Wanted:
    if state in ("running", "starting", "resuming"):
        return Wanted.RUNNING
    return Wanted.PAUSED if state in ("paused", "pausing") else Wanted.STOPPED


def does(row: QueryRow) -> tuple[tuple[str, str], ...]:
    return DOES.get(row.state, REST)


def _buttons(row: QueryRow) -> Component:
    made = []
    for kind, word in does(row):
        allowed = may(kind)
        why = None if allowed else states.not_allowed(KINDS[kind].role, role())
        at = {"type": "queries-do", "kind": kind, "query": row.name}
        tone = "danger" if kind == "query.unregister" else ""
        made.append(
            button(
                word, tone, id=at, disabled=not allowed, title=why, aria_label=f"{word} {row.name}"
            )
        )
    return d(*made, c="td-b")


# -- the plan ------------------------------------------------------------------------------------------


def plan(row: QueryRow, sample: Sample | None, chosen: str) -> Component:
    """Its operators as a tree with live figures; as text where an older engine told no tree."""
    root = root_of(row)
    if root is None:
        text = row.about.get("tree")
        if text:
            return html.Pre(str(text), className="code-box")
        return states.empty(
            "No plan yet", "The engine tells it when it takes the query in.", "git-branch"
        )
    found, asked = figures_of(sample) if sample else {}, asked_rates(row)
    drawn = plan_view.drawn("queries", root, found, asked, chosen)
    other = beside(row)
    if other is None:
        return drawn
    head = d("Beside it, until no old row can be in a result to come", c="pg-foot pt-beside")
    return d(drawn, head, plan_view.drawn("queries", other, found, asked, chosen))


def root_of(row: QueryRow) -> tree.Node | None:
    return _tree_of(row, "root")


def beside(row: QueryRow) -> tree.Node | None:
    """The other tree, while two run."""
    return _tree_of(row, "beside")


def _tree_of(row: QueryRow, name: str) -> tree.Node | None:
    plan = row.about.get("plan")
    root = plan.get(name) if isinstance(plan, Mapping) else None
    return root if isinstance(root, Mapping) and tree.children(root) else None


def operators_of(row: QueryRow) -> list[tree.Node]:
    """All that run: those of the tree last, its topmost at the end."""
    roots = [root for root in (beside(row), root_of(row)) if root is not None]
    return [op for root in roots for op in tree.operators(root)]


def asked_rates(row: QueryRow) -> dict[str, float]:
    """Rows per second that its generated streams were asked for."""
    streams = row.about.get("streams")
    found: dict[str, float] = {}
    for name, told in streams.items() if isinstance(streams, Mapping) else ():
        options = told.get("options") if isinstance(told, Mapping) else None
        if isinstance(options, Mapping) and options.get("rate"):
            found[str(name)] = float(options["rate"])
    return found


def operator_named(row: QueryRow, chosen: str) -> str:
    """The chosen operator if it is one of the plan's, else the topmost."""
    names = [str(op["id"]) for op in operators_of(row)] or list(_told(row))
    if chosen in names:
        return chosen
    return names[-1] if names else ""


def _told(row: QueryRow) -> Sequence[str]:
    found = row.about.get("operators")
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def definition(row: QueryRow, operator: str) -> Component:
    """What an operator does, in the words of the query."""
    node = next((op for op in operators_of(row) if op["id"] == operator), None)
    if node is None:
        return d()
    pairs = [
        ("on", node.get("on")),
        ("within", node.get("within")),
        ("computes", node.get("computes")),
    ]
    rows: list[tuple[str, list[Any]]] = [
        (name, [d(str(line)) for line in told]) for name, told in pairs if told
    ]
    rows.append(("groups", [counted(float(node.get("groups", 0)), "group")]))
    fused = [tree.title(child) for child in tree.children(node) if child.get("fused")]
    if fused:
        rows.append(
            ("fused with", [", ".join(fused), s(" (same key and placement: no exchange)", c="dim")])
        )
    cells = [cell for name, told in rows for cell in (html.Dt(name), html.Dd(told))]
    return html.Dl(cells, className="dl")


BY_NODE = (("node", ""), ("groups", "r"), ("rows in", "r"), ("results", "r"), ("σ", "r"),
           ("in memory", "r"), ("on disk", "r"), ("owed", "r"))  # fmt: skip


def by_node(sample: Sample | None, operator: str) -> Component:
    """One operator on each node; of very many nodes those with most in memory."""
    found = figures_of(sample).get(operator) if sample else None
    if found is None:
        return states.empty("Nothing known yet", "Figures come with the first tick.", "server")
    memory = found.nodes["memory_bytes"]
    order = np.argsort(-memory, kind="stable")[:NODES_SHOWN_MAX]
    rows = [_node_row(found, node) for node in sorted(order.tolist())]
    rest = len(memory) - len(rows)
    more = d(
        s(f"and {counted(rest, 'node')} with less in memory: "),
        link("Nodes", "/nodes"),
        c="pg-foot",
    )
    return d(d(table(BY_NODE, rows), c="scroll-x"), more if rest else None)


def _node_row(found: Figures, node: int) -> list[Any]:
    n = found.nodes
    took, gave = float(n["rows_in_per_s"][node]), float(n["rows_out_per_s"][node])
    return [
        s(node_name(node), c="b"),
        whole(float(n["groups"][node])),
        num(*rate(took)),
        num(*rate(gave)),
        figure(ratio(gave, took)),
        num(*size(float(n["memory_bytes"][node]))),
        num(*size(float(n["disk_bytes"][node]))) if n["disk_bytes"][node] else s("0", c="dim"),
        num(*prefixed(float(n["owed_rows"][node]))) if n["owed_rows"][node] else s("0", c="dim"),
    ]


def facts(row: QueryRow, zone_min: int, now_s: float) -> Component:
    """What the query is, beside its plan."""
    sink = row.about.get("sink") if isinstance(row.about.get("sink"), Mapping) else {}
    assert isinstance(sink, Mapping)
    streams = row.about.get("streams")
    names = ", ".join(map(str, streams)) if streams else NONE
    pairs: list[tuple[str, Any]] = [
        ("state", state_of(row)),
        ("streams", names),
        ("sink", f"{sink.get('format', NONE)} {_short(str(sink.get('path', '')))}".strip()),
        ("registered", f"{clock(row.created_s, zone_min)}, {duration(now_s - row.created_s)} ago"),
    ]
    if row.error:
        pairs.insert(1, ("error", s(row.error, c="bad pre")))
    notes = row.about.get("notes")
    if notes and isinstance(notes, list | tuple):
        pairs.append(("note", [d(str(note)) for note in notes]))
    cells = [cell for name, told in pairs for cell in (html.Dt(name), html.Dd(told))]
    return html.Dl(cells, className="dl")


def _short(path: str) -> str:
    """The end of a path: the beginning is the data folder, which Settings shows."""
    parts = path.split("/")
    return path if len(parts) <= 4 else "…/" + "/".join(parts[-3:])


def help_line() -> Component:
    return d(s("σ ", c="b"), "results for each row in", help_mark("selectivity"), c="pt-note")
