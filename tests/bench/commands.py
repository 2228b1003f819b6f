"""From a command to its first step, over the real processes: `python -m tests.bench.commands`.

A move goes to and fro in the demo. Time runs from the request to apply it until the engine begins its first step;
the bar is one tick and half a second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.report import machine
from tests.up import Up, until

QUERY = "demo"
MOST_S = 0.5  # beside a tick
SETTLE_S = 20.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Of each move: seconds until its first step, until its end; and what a tick took meanwhile."""

    first_s: tuple[float, ...]
    whole_s: tuple[float, ...]
    tick_s: float

    @property
    def p95_s(self) -> float:
        return float(np.percentile(self.first_s, 95))

    @property
    def most_s(self) -> float:
        return self.tick_s + MOST_S


def measure(up: Up, count: int) -> Waits:
    first, whole, since = [], [], time.time()
    for number in range(count):
        source, target = (0, 1) if number % 2 == 0 else (1, 0)
        body = {"do": "move", "node": source, "to": target, "percent": 10}
        made = up.api("POST", f"/queries/{QUERY}/proposals", body)["id"]
        asked_s = time.time()
        command = up.api("POST", f"/proposals/{made}/apply", {})["id"]
        action = until(lambda c=command: _over(up, c), 60, "the end of a move")
        first.append(action["steps"][0]["start_s"] - asked_s)
        whole.append(action["steps"][-1]["end_s"] - asked_s)
        time.sleep(0.37)  # not always at the same time of a tick
    return Waits(tuple(first), tuple(whole), _tick_s(up, since))


def _over(up: Up, command: str) -> dict | None:
    """The command's action, once it is done."""
    state = up.api("GET", f"/commands/{command}")
    assert state["state"] not in ("refused", "failed"), state
    if state["state"] != "done":
        return None
    (id_,) = state["outcome"]["actions"]
    return up.api("GET", f"/actions/{id_}")


def _tick_s(up: Up, since_s: float) -> float:
    """The median of the ticks since then, with the wait for the next trigger."""
    found = up.api("GET", f"/queries/{QUERY}/series?since_s={since_s}&points=2000")
    gaps = np.diff(found["time_s"])
    return float(np.median(gaps)) if len(gaps) else 0.0


def page(waits: Waits, about: dict) -> str:
    good = "reached" if waits.p95_s <= waits.most_s else "**missed**"
    rows: Sequence[tuple[str, Sequence[float]]] = (
        ("first step", waits.first_s),
        ("done", waits.whole_s),
    )
    lines = [
        "# From a command to its first step",
        "",
        f"Written by `python -m tests.bench.commands`; {about['cores']} cores, {about['memory_gib']} GiB, commit "
        f"{about['commit']}. {len(waits.first_s)} moves of 10 % of a node in the running demo, through the API.",
        "",
        f"Bar: first step within a tick and {MOST_S:g} s, that is {waits.most_s:.2f} s; p95 {waits.p95_s:.2f} s: {good}.",
        "",
        "| after the request | p50 s | p95 s | most s |",
        "|---|---|---|---|",
    ]
    for name, some in rows:
        p50, p95 = np.percentile(some, [50, 95])
        lines.append(f"| {name} | {p50:.2f} | {p95:.2f} | {max(some):.2f} |")
    lines.append(f"| a tick, from one to the next (median) | {waits.tick_s:.2f} | | |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commands")
    parser.add_argument("--moves", type=int, default=30)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        up = Up(Path(folder) / "data").start()
        try:
            up.running()
            time.sleep(SETTLE_S)
            for rule in up.api("GET", "/rules")["items"]:
                up.api("POST", f"/rules/{rule['name']}/mode", {"mode": "off"})
            waits = measure(up, options.moves)
        finally:
            up.stop()
    recorded = options.moves >= 30
    target = ROOT / "docs" / "benchmarks" if recorded else BENCH_DIR / "reports"
    target.mkdir(parents=True, exist_ok=True)
    about = machine()
    (target / "commands.md").write_text(page(waits, about))
    raw = {
        "machine": about,
        "first_s": waits.first_s,
        "whole_s": waits.whole_s,
        "tick_s": waits.tick_s,
    }
    (target / "commands.json").write_text(json.dumps(raw, indent=1) + "\n")
    print(page(waits, about))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
