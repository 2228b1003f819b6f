"""How Settings looks, and the facts behind "About": versions, sizes of what is in the data folder."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from app.components import states
from app.components.kit import button, chip, d, icon, s, table
from app.components.units import (
    NONE,
    clock,
    counted,
    duration,
    figure,
    moment,
    percent,
    said,
    said_size,
    signed,
)
from app.health import Alive
from control.cost.coefficients import Coefficients
from control.cost.recalibrate import Estimate
from control.ledger import Learned, Webhook
from control.samples import Heartbeat

PACKAGES = ("dash", "flask", "plotly", "dash-mantine-components", "dash-ag-grid", "SQLAlchemy", "APScheduler", "pyspark",
            "pyarrow", "numpy")  # fmt: skip
FIXED_IN = (3, 51, 3)  # of SQLite's WAL-reset bug
# Each coefficient: what it is in words, how it is shown, and the unit of that.
WORDS: Mapping[str, tuple[str, float, str]] = {
    "write_s_per_byte": ("writing a spill", 1e9, "CPU s/GB"),
    "read_s_per_byte": ("reading for a clean-up", 1e9, "CPU s/GB"),
    "join_s_per_row": ("joining what is owed", 1e6, "CPU s/M rows"),
    "owed_factor": ("results owed, against the forecast", 1.0, "times"),
    "transfer_s_per_byte": ("copying for a move", 1e9, "CPU s/GB"),
    "bandwidth_bytes_per_s": ("speed of a copy", 1e-6, "MB/s"),
    "tick_s": ("length of a tick", 1.0, "s"),
    "recompute_s_per_row": ("computing state for another order", 1e6, "CPU s/M rows"),
    "sort_s_per_row": ("sorting state for another order", 1e6, "CPU s/M rows"),
    "side_cores": ("what its tasks get beside the ticks", 1.0, "cores"),
    "job_ticks": ("what each of its jobs takes besides", 1.0, "ticks"),
    "swap_s": ("each job that a tick waits for", 1.0, "s"),
}
FIGURES: Mapping[str, str] = {
    "spill_cpu_s": "writing, CPU s",
    "move_cpu_s": "copying, CPU s",
    "cleanup_read_cpu_s": "reading, CPU s",
    "cleanup_join_cpu_s": "joining, CPU s",
    "cleanup_rows": "results owed",
    "move_bandwidth": "copy, B/s",
    "tick_s": "tick, s",
    "recompute_cpu_s": "computing state, CPU s",
    "sort_cpu_s": "sorting state, CPU s",
    "side_cores": "cores of side jobs",
    "job_s": "a side job besides, s",
    "swap_s": "plan in place, s",
}
BYTES = frozenset({"segment_bytes_max", "hold_bytes_max"})


# -- about -----------------------------------------------------------------------------------------------


def facts(about: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: versions, the data folder, sizes of what is in it."""
    data = str(about.get("data", ""))
    folder = Path(data) if data else None
    sizes = {name: _size(folder / name) for name in _parts(folder)} if folder else {}
    return {
        "versions": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "sqlite": sqlite3.sqlite_version,
        "sqlite_fixed": sqlite3.sqlite_version_info >= FIXED_IN,
        "data": data,
        "sizes": sizes,
        **{name: value for name, value in about.items() if name not in ("data",)},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return NONE


def _parts(folder: Path) -> list[str]:
    """Files of the store, and folders: what somebody who needs room looks at."""
    try:
        found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []
    return [name for name in found if name.endswith((".db", "-wal")) or (folder / name).is_dir()]


def _size(path: Path) -> int:
    """Of a file, or of all files below a folder; what vanishes meanwhile counts nothing."""
    try:
        if path.is_file():
            return path.stat().st_size
        return sum(_size(one) for one in path.iterdir())
    except OSError:
        return 0


def about(
    found: Mapping[str, Any], processes: Sequence[Alive], beats: Sequence[Heartbeat], now_s: float
) -> Component:
    started = {beat.process: beat for beat in beats}
    runs = [d(*_process(one, started.get(one.process), now_s)) for one in processes]
    sqlite_ = [s(found["sqlite"], c="num")]
    if not found["sqlite_fixed"]:
        sqlite_.append(
            s(
                " older than 3.51.3, whose checkpoints can lose a commit: here they are made by one task only",
                c="k",
            )
        )
    sizes = [
        d(s(name, c="mono"), s(said_size(size), c="num se-z"), c="se-f")
        for name, size in found["sizes"].items()
    ]
    versions = ", ".join(f"{name} {text}" for name, text in found["versions"].items())
    pairs: list[tuple[str, Any]] = [
        ("processes", runs),
        ("data folder", s(found["data"] or NONE, c="mono")),
        ("in it", sizes or NONE),
        ("SQLite", sqlite_),
        ("Python", f"{found['python']} on {found['system']}"),
        ("packages", s(versions, c="dim")),
    ]
    cells = [cell for name, told in pairs for cell in (html.Dt(name), html.Dd(told))]
    return html.Dl(cells, className="dl")


def _process(alive: Alive, beat: Heartbeat | None, now_s: float) -> list[Any]:
    if alive.stale or beat is None:
        return [s(alive.process, c="b"), " ", chip("no answer", "fail", "octagon-x")]
    up = duration(max(0.0, now_s - beat.started_s))
    return [s(alive.process, c="b"), s(f" {alive.state}, up {up}, process {beat.pid}", c="dim")]


# -- settings --------------------------------------------------------------------------------------------


def settings(found: Mapping[str, Any]) -> Component:
    """One row each: {"value", "default", "variable", "help"}; only a value where no more is known."""
    if not found:
        return states.empty(
            "No setting is known", "The console was started without its table.", "settings"
        )
    heads = [("setting", ""), ("value", ""), ("default", "")]
    rows = [_setting(name, told) for name, told in found.items()]
    return d(table(heads, rows, "wrap top se-t"), c="scroll-x")


def _setting(name: str, told: Any) -> list[Any]:
    row: Mapping[str, Any] = told if isinstance(told, Mapping) else {"value": told}
    value, default = _written(name, row.get("value")), row.get("default")
    variable = str(row.get("variable", f"SPILLWAY_{name.upper()}"))
    changed = bool(row.get("changed"))
    return [
        d(
            d(s(name, c="mono b"), s(variable, c="mono dim se-v")),
            d(str(row.get("help", "")), c="k"),
        ),
        s(value, c="mono b" if changed else "mono"),
        s(_empty(default), c="mono dim") if default is not None else NONE,
    ]


def _written(name: str, value: Any) -> str:
    if name in BYTES and isinstance(value, int):
        return said_size(value)
    return _empty(value)


def _empty(value: Any) -> str:
    return str(value) if value not in (None, "") else "(none)"


# -- what was learned ------------------------------------------------------------------------------------


def coefficients(known: Mapping[str, Estimate]) -> Component:
    heads = [
        ("coefficient", ""),
        ("now", "r"),
        ("at first", "r"),
        ("changed", "r"),
        ("± (1 σ)", "r"),
        ("from", "r"),
    ]
    return d(table(heads, [_coefficient(name, one) for name, one in known.items()]), c="scroll-x")


def _coefficient(name: str, one: Estimate) -> list[Any]:
    words, factor, unit = WORDS.get(name, (name, 1.0, ""))
    base = getattr(Coefficients(), name)
    change = one.value / base - 1 if base else 0.0
    learned = one.count > 0
    return [
        words,
        s(
            s(figure(one.value * factor), c="n b" if learned else "n"),
            s(f" {unit}", c="u"),
            c="nowrap",
        ),
        s(figure(base * factor), c="dim n"),
        signed(percent(abs(change)), change) if learned else s(NONE, c="dim"),
        s(percent(one.spread), c="" if learned else "dim"),
        counted(one.count, "action") if learned else s("a guess yet", c="dim"),
    ]


def lines(found: Sequence[Learned], zone_min: int) -> Component:
    """The ledger: what was predicted, what it was, what the model made of it."""
    if not found:
        return states.empty(
            "Nothing yet",
            "Every spill, clean-up and move that ends is compared with its prediction.",
            "scale",
        )
    heads = [
        ("when", ""),
        ("action", ""),
        ("figure", ""),
        ("predicted", "r"),
        ("actual", "r"),
        ("error", "r"),
        ("made it", "r"),
    ]
    return d(table(heads, [_line(one, zone_min) for one in found]), c="scroll-x")


def _line(one: Learned, zone_min: int) -> list[Any]:
    error = one.actual / one.predicted - 1 if one.predicted else 0.0
    _, factor, _ = WORDS.get(one.coefficient, ("", 1.0, ""))
    tail = one.action[-8:]
    return [
        s(clock(one.time_s, zone_min), c="num dim"),
        dcc.Link(
            f"…{tail}",
            href=f"/actions?action={one.action}",
            className="text-link nowrap",
            title=one.action,
        ),
        s(FIGURES.get(one.figure, one.figure.replace("_", " ")), c="nowrap"),
        said(one.predicted),
        s(said(one.actual), c="b"),
        signed(percent(abs(error)), error),
        f"{figure(one.before * factor)} → {figure(one.after * factor)}",
    ]


# -- webhooks --------------------------------------------------------------------------------------------


EXEMPT = "to a port of this machine from before ports had to be allowed (setting webhook_ports)"


def hooks(found: Sequence[Webhook], zone_min: int) -> Component:
    if not found:
        return states.empty(
            "No webhook", "Add one to be told of alerts, actions and proposals elsewhere.", "bell"
        )
    heads = [("address", ""), ("events", ""), ("by", ""), ("added", "r"), ("", "r")]
    rows = [
        [
            d(s(hook.url, c="mono se-u"), d(EXEMPT, c="dim") if hook.exempt else None),
            s(", ".join(hook.events), c="dim"),
            hook.user,
            s(moment(hook.created_s, zone_min)[:10], c="nowrap"),
            d(
                button(
                    "Drop",
                    id={"type": "settings-drop", "webhook": hook.id},
                    aria_label=f"Drop {hook.url}",
                ),
                c="td-b",
            ),
        ]
        for hook in found
    ]
    return d(table(heads, rows, "wrap"), c="scroll-x")


def secret(text: str) -> Component:
    """The only time that it is seen."""
    return d(
        d(
            icon("check"),
            s("Added. Copy its secret now: it is shown this once, and signs every event."),
            c="ck",
        ),
        d(
            html.Code(text, className="us-token mono"),
            dcc.Clipboard(content=text, className="us-copy", title="Copy the secret"),
            c="us-made",
        ),
    )
