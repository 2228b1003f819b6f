"""What a person or a script sees of a run: live progress on the terminal, and the `--once` summary.

Consumers of tick reports only; nothing here touches the engine, and nothing may hold up a tick.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol, TextIO

from engine.reports import NodeReport, TickReport, Totals

RATE_WINDOW_S = 5.0
LINE_EVERY_S = 1.0
NODES_SHOWN_MAX = 16
BAR_WIDTH = 24


class Counts(Protocol):
    """Counts over a query's life."""

    rows_in: int
    rows_out: int
    null_key_rows: int
    late_rows: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A whole run, as `--once` prints it. `seconds`: start of the first tick to the last commit;
    `tick_seconds`: whole triggers as Structured Streaming measures them."""

    query: str
    ticks: int
    rows_in: int
    rows_out: int
    seconds: float
    seconds_startup: float
    tick_seconds: tuple[float, ...]
    state_bytes: int
    spilled_bytes: int
    late_rows: int
    null_key_rows: int

    @classmethod
    def of(
        cls,
        query: str,
        totals: Counts,
        triggers: Sequence[Mapping[str, Any]],
        last_commit_s: float,
        startup_s: float,
        state_bytes: int,
        spilled_bytes: int,
    ) -> RunSummary:
        """From Structured Streaming's own progress reports (`triggers`) and the engine's counts."""
        first = datetime.fromisoformat(triggers[0]["timestamp"]).timestamp() if triggers else 0.0
        ticks = [t["durationMs"].get("triggerExecution", 0) for t in triggers if t["numInputRows"]]
        return cls(
            query=query,
            ticks=len(ticks),
            rows_in=totals.rows_in,
            rows_out=totals.rows_out,
            seconds=round(max(0.0, last_commit_s - first) if last_commit_s else 0.0, 3),
            seconds_startup=round(startup_s, 3),
            tick_seconds=tuple(ms / 1000 for ms in ticks),
            state_bytes=state_bytes,
            spilled_bytes=spilled_bytes,
            late_rows=totals.late_rows,
            null_key_rows=totals.null_key_rows,
        )

    def to_json(self) -> str:
        """One line, with exactly these fields in this order."""
        return json.dumps(asdict(self))


def bytes_text(size: float) -> str:
    """1536000 → "1.5 MB", in powers of ten as everywhere in Spillway."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def rows_text(rows: float) -> str:
    """12345678 → "12.3 M"."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if rows >= scale:
            return f"{rows / (1e3 if unit == 'k' else scale):.1f} {unit}"
    return f"{rows:.0f}"


def bar(part: float, whole: float, width: int = BAR_WIDTH) -> str:
    """A bar of `width` cells in eighths; ASCII-free because every terminal of today draws it."""
    eighths = round(8 * width * min(1.0, part / whole)) if whole > 0 else 0
    full, rest = divmod(eighths, 8)
    cells = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return cells.ljust(width)


class Rates:
    """Rows per second in and out over the last few seconds of reports."""

    def __init__(self, window_s: float = RATE_WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, float, int, int]] = deque()

    def add(self, report: TickReport) -> None:
        begun = report.time_s - report.seconds
        self._seen.append((begun, report.time_s, report.rows_in, report.rows_out))
        while self._seen[0][1] < report.time_s - self._window_s:
            self._seen.popleft()

    def per_second(self) -> tuple[float, float]:
        if not self._seen:
            return 0.0, 0.0
        span = max(self._seen[-1][1] - self._seen[0][0], 1e-3)
        return sum(s[2] for s in self._seen) / span, sum(s[3] for s in self._seen) / span


@dataclass(slots=True)
class _Shown:
    """What is known of one query."""

    rates: Rates = field(default_factory=Rates)
    totals: Totals = field(default_factory=Totals)
    report: TickReport | None = None
    line_at: float = float("-inf")

    def add(self, report: TickReport) -> None:
        self.rates.add(report)
        self.totals.add(report)
        self.report = report


class TerminalProgress:
    """One live block on a terminal; plain lines anywhere else, at most one a second. Of several
    queries the block has a line each, and they take turns.

    `mode`: auto, block, lines or off. A terminal that goes away ends the display, not the query.
    Queries report from threads of their own.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        mode: str = "auto",
        queries: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = sys.stderr if out is None else out
        block = mode == "block" or (mode == "auto" and self._out.isatty())
        self._show: Callable[[TickReport], None] = self._block if block else self._line
        if mode == "off":
            self._show = _nothing
        self._clock = clock
        self._queries = {name: _Shown() for name in queries}
        self._drawn: list[str] = []  # the block on the screen
        self._lock = threading.Lock()

    def publish(self, report: TickReport) -> None:
        if report.tick is None and not (report.rows_in or report.rows_out):
            return  # a change of the manifest: the next tick's figures have it
        with self._lock:
            self._queries.setdefault(report.query, _Shown()).add(report)
            try:
                self._show(report)
            except (OSError, ValueError):
                self._show = _nothing

    def note(self, text: str) -> None:
        """Something to be read later too: above the block, or a line. Shown in every mode."""
        with self._lock:
            with contextlib.suppress(OSError, ValueError):
                self._draw([], text + "\n", self._drawn)

    def _line(self, report: TickReport) -> None:
        now, shown = self._clock(), self._queries[report.query]
        if now - shown.line_at < LINE_EVERY_S * len(self._queries):
            return
        shown.line_at = now
        self._out.write(self._headline(report) + "\n")
        self._out.flush()

    def _block(self, report: TickReport) -> None:
        columns, height = shutil.get_terminal_size()
        lines = self._lines(report) if len(self._queries) == 1 else self._table()
        self._draw([line[: columns - 1] for line in lines][: height - 1])

    def _draw(self, lines: list[str], above: str = "", below: Sequence[str] = ()) -> None:
        """Write `above` and the lines over the block that is there."""
        lines = [*lines, *below]
        up = f"\x1b[{len(self._drawn)}F" if self._drawn else ""
        clear = "\x1b[0J" if up else ""
        body = "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[0J" if lines else ""
        self._out.write(up + (clear + above if above else "") + body)
        self._out.flush()
        self._drawn = lines

    def _headline(self, report: TickReport) -> str:
        rows_in, rows_out = self._queries[report.query].rates.per_second()
        tick = "-" if report.tick is None else str(report.tick)
        return (
            f"{report.query}: tick {tick} in {report.seconds:.2f} s"
            f" | in {rows_text(rows_in)} rows/s | out {rows_text(rows_out)} rows/s"
            f" | state {bytes_text(report.memory_bytes)}"
            + (f" | held {rows_text(report.held_rows)} rows" if report.held_rows else "")
        )

    def _table(self) -> list[str]:
        """A line for each query."""
        width = max(map(len, self._queries))
        return [f"{name:<{width}}  {_row(shown)}" for name, shown in self._queries.items()]

    def _lines(self, report: TickReport) -> list[str]:
        """Everything about the only query."""
        rows_in, rows_out = self._queries[report.query].rates.per_second()
        totals = self._queries[report.query].totals
        tick = "no input" if report.tick is None else f"tick {report.tick}"
        lines = [
            f"{report.query}   {tick}   lag {report.seconds:.2f} s",
            f"  in   {rows_text(rows_in):>9} rows/s   {rows_text(totals.rows_in):>9} rows",
            f"  out  {rows_text(rows_out):>9} rows/s   {rows_text(totals.rows_out):>9} rows",
            f"  held {rows_text(report.held_rows)}   null keys {rows_text(totals.null_key_rows)}"
            f"   late {rows_text(totals.late_rows)}",
        ]
        largest = max((node.memory_bytes for node in report.nodes), default=0)
        lines += [self._node(node, largest) for node in report.nodes[:NODES_SHOWN_MAX]]
        if len(report.nodes) > NODES_SHOWN_MAX:
            lines.append(f"  … {len(report.nodes) - NODES_SHOWN_MAX} more nodes")
        return lines

    def _node(self, node: NodeReport, largest: int) -> str:
        disk = f"   disk {bytes_text(node.disk_bytes)}" if node.disk_bytes else ""
        held = f"   held {rows_text(node.held_rows)}" if node.held_rows else ""
        return (
            f"  node {node.node:<3} {bar(node.memory_bytes, largest)} "
            f"{bytes_text(node.memory_bytes):>8}{disk}{held}"
        )


def _row(shown: _Shown) -> str:
    report = shown.report
    if report is None:
        return "no tick yet"
    rows_in, rows_out = shown.rates.per_second()
    tick = "no input" if report.tick is None else f"tick {report.tick}"
    held = f"   held {rows_text(report.held_rows)}" if report.held_rows else ""
    return (
        f"{tick:<10} {report.seconds:>6.2f} s   in {rows_text(rows_in):>8} rows/s"
        f"   out {rows_text(rows_out):>8} rows/s   state {bytes_text(report.memory_bytes):>8}{held}"
    )


def _nothing(report: TickReport) -> None:
    """What is shown when nothing is to be shown."""
