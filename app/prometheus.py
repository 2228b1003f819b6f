"""/metrics in Prometheus' text format. Read from the newest samples: nothing is counted here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from flask import Flask, Response, g

from app.health import processes
from app.parts import Need, Parts, parts_of
from control.actions import State
from control.people import Role
from control.samples import Sample
from control.snapshot import NO_LIMIT

TYPE = "text/plain; version=0.0.4; charset=utf-8"
DAY_S = 86_400.0
Line = tuple[dict[str, str], float]
# Name, help, and the figure of NODE_FIGURES it shows.
NODE_GAUGES = (
    ("node_memory_bytes", "State in memory.", "memory_bytes"),
    ("node_held_bytes", "Copies in flight and rows that wait.", "held_bytes"),
    ("node_disk_bytes", "State on disk.", "disk_bytes"),
    ("node_budget_bytes", "Memory budget; none: no limit.", "budget_bytes"),
    ("node_rows_in_per_second", "Rows in, each second.", "rows_in_per_s"),
    ("node_rows_out_per_second", "Results, each second.", "rows_out_per_s"),
    ("node_busy_ratio", "Share of the last round that the node worked.", "busy"),
)
QUERY_GAUGES = (
    ("query_rows_in_per_second", "Rows in, each second.", "rows_in_per_s"),
    ("query_rows_out_per_second", "Results, each second.", "rows_out_per_s"),
    ("query_tick_seconds", "Length of the last tick.", "tick_s"),
    ("query_held_rows", "Rows that wait at the exchange.", "held_rows"),
    ("query_late_rows", "Rows that came too late.", "late_rows"),
    ("query_lag_seconds", "How far the sources are ahead.", "lag_s"),
    ("query_memory_bytes", "State in memory, all nodes.", "memory_bytes"),
    ("query_disk_bytes", "State on disk, all nodes.", "disk_bytes"),
    ("query_checkpoint_bytes", "Size of the checkpoint.", "checkpoint_bytes"),
    (
        "query_spills_in_moves",
        "Nodes' own spills during moves, since its start.",
        "spills_in_moves",
    ),
    (
        "query_moves_gave_way",
        "Moves that gave way to a full node, since its start.",
        "moves_gave_way",
    ),
)


def install(app: Flask) -> None:
    parts = parts_of(app)

    def metrics() -> Response:
        return Response(text(parts, g.now_s), content_type=TYPE)

    app.add_url_rule(
        "/metrics", "metrics", metrics, methods=["GET"], provide_automatic_options=False
    )
    parts.registry.add("metrics", "GET", Need(Role.VIEWER, sessions=False))


def text(parts: Parts, now_s: float) -> str:
    """Everything, newest figures."""
    found = (parts.store.metrics.newest(row.name) for row in parts.store.queries.all())
    samples = [sample for sample in found if sample is not None]
    lines: list[str] = []
    for name, help, figure in NODE_GAUGES:
        lines += _metric(name, help, [line for s in samples for line in _of_nodes(s, figure)])
    alive = [line for s in samples for line in _alive(s)]
    lines += _metric(
        "node_alive", "1: its executor is up and it reports, or answers a probe.", alive
    )
    for name, help, figure in QUERY_GAUGES:
        told = [
            ({"query": s.query}, float(s.figures[figure])) for s in samples if figure in s.figures
        ]
        lines += _metric(name, help, told)
    lines += _metric(
        "query_sample_age_seconds",
        "Since the query was last heard of.",
        [({"query": s.query}, max(0.0, now_s - s.time_s)) for s in samples],
    )
    return "\n".join([*lines, *_of_ledger(parts, now_s), *_of_processes(parts, now_s)]) + "\n"


def _of_nodes(sample: Sample, figure: str) -> Iterator[Line]:
    for node, value in enumerate(sample.nodes.get(figure, ())):
        if figure == "budget_bytes" and value >= NO_LIMIT:
            continue
        yield {"query": sample.query, "node": str(node)}, float(value)


def _alive(sample: Sample) -> Iterator[Line]:
    for node, alive in enumerate(sample.snapshot.nodes.alive.tolist()):
        yield {"query": sample.query, "node": str(node)}, float(alive)


def _of_ledger(parts: Parts, now_s: float) -> list[str]:
    recent = Counter(row.state for row in parts.store.actions.since(now_s - DAY_S))
    running = Counter(row.query for row in parts.store.actions.running())
    states = [({"state": state.value}, float(recent.get(state.value, 0))) for state in State]
    opened = Counter(alert.kind for alert in parts.store.alerts.open())
    used = parts.store.actions.used(now_s - DAY_S)
    return [
        *_metric("actions_last_day", "Actions of the last 24 hours, by state.", states),
        *_metric(
            "actions_running",
            "Actions on their way.",
            [({"query": query}, float(count)) for query, count in sorted(running.items())],
        ),
        *_metric("budget_used_bytes", "Bytes of the last 24 hours.", [({}, float(used.bytes))]),
        *_metric("budget_used_pause_seconds", "Pause of the last 24 hours.", [({}, used.pause_s)]),
        *_metric(
            "alerts_open",
            "Alerts that last, by kind.",
            [({"kind": kind}, float(count)) for kind, count in sorted(opened.items())]
            or [({}, 0.0)],
        ),
    ]


def _of_processes(parts: Parts, now_s: float) -> list[str]:
    alive = processes(parts.store, parts.settings, now_s)
    ages = [({"process": a.process}, a.age_s) for a in alive if a.age_s is not None]
    up = [({"process": a.process}, float(not a.stale)) for a in alive]
    dropped = [
        ({"process": beat.process}, float(beat.about["samples_dropped"]))
        for beat in parts.store.metrics.heartbeats()
        if isinstance(beat.about.get("samples_dropped"), int | float)
    ]
    return [
        *_metric("process_up", "Heard of lately.", up),
        *_metric("process_age_seconds", "Since it was last heard of.", ages),
        *_metric(
            "samples_dropped_total", "Samples the store was too slow for.", dropped, "counter"
        ),
    ]


def _metric(name: str, help: str, lines: list[Line], kind: str = "gauge") -> list[str]:
    head = [f"# HELP spillway_{name} {help}", f"# TYPE spillway_{name} {kind}"]
    return [
        *head,
        *(f"spillway_{name}{_labels(labels)} {_value(value)}" for labels, value in lines),
    ]


def _labels(labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(value: Any) -> str:
    number = float(value)
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
