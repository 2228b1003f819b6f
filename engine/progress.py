"""What a person or a script sees of a run: live progress on the terminal, and the `--once` summary.

Consumers of tick reports only; nothing here touches the engine, and nothing may hold up a tick.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TextIO

from engine.reports import NodeReport, TickReport

RATE_WINDOW_S = 5.0
LINE_EVERY_S = 1.0
NODES_SHOWN_MAX = 16
BAR_WIDTH = 24


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
class Totals:
    """Sums over the reports of this run."""

    rows_in: int = 0
    rows_out: int = 0
    null_key_rows: int = 0
    late_rows: int = 0

    def add(self, report: TickReport) -> None:
        self.rows_in += report.rows_in
        self.rows_out += report.rows_out
        self.null_key_rows += report.null_key_rows
        self.late_rows += report.late_rows


class TerminalProgress:
    """One live block on a terminal; plain lines, at most one a second, anywhere else.

    `mode`: auto, block, lines or off. A terminal that goes away ends the display, not the query.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        mode: str = "auto",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = sys.stderr if out is None else out
        block = mode == "block" or (mode == "auto" and self._out.isatty())
        self._show: Callable[[TickReport], None] = self._block if block else self._line
        if mode == "off":
            self._show = _nothing
        self._clock = clock
        self._rates, self._totals = Rates(), Totals()
        self._drawn = 0  # lines of the block on the screen
        self._last = float("-inf")

    def publish(self, report: TickReport) -> None:
        self._rates.add(report)
        self._totals.add(report)
        try:
            self._show(report)
        except (OSError, ValueError):
            self._show = _nothing

    def _line(self, report: TickReport) -> None:
        now = self._clock()
        if now - self._last < LINE_EVERY_S:
            return
        self._last = now
        self._out.write(self._headline(report) + "\n")
        self._out.flush()

    def _block(self, report: TickReport) -> None:
        columns, height = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in self._lines(report)][: height - 1]
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._out.write(up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[0J")
        self._out.flush()
        self._drawn = len(lines)

    def _headline(self, report: TickReport) -> str:
        rows_in, rows_out = self._rates.per_second()
        tick = "-" if report.tick is None else str(report.tick)
        return (
            f"{report.query}: tick {tick} in {report.seconds:.2f} s"
            f" | in {rows_text(rows_in)} rows/s | out {rows_text(rows_out)} rows/s"
            f" | state {bytes_text(report.memory_bytes)}"
            + (f" | held {rows_text(report.held_rows)} rows" if report.held_rows else "")
        )

    def _lines(self, report: TickReport) -> list[str]:
        rows_in, rows_out = self._rates.per_second()
        totals = self._totals
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


def _nothing(report: TickReport) -> None:
    """What is shown when nothing is to be shown."""
