"""`python -m tests.bench.better_order`: what a better join order is worth to W4 with uneven selectivities.

The query begins with the order that makes most rows in between. At a third of its input it is migrated, by every
strategy in turn, to the order that the optimiser proposes from what ticks told until then. Beside it: runs that keep
the bad order, and runs that have the good one from the start. All on the same files; every output is compared with
DuckDB's as a multiset.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from engine.papers.plot import svg
from tests.bench.better_order_runs import BAD, BEGUN, KEPT, Round, exact, measure
from tests.bench.data import BENCH_DIR, ROOT
from tests.bench.figures import spread
from tests.bench.report import machine
from tests.bench.workloads import UNEVEN, UNEVEN_CHAIN, Workload

RUNS, RUNS_FOR_RECORD = 3, 3
TITLES = {
    KEPT: "the bad order kept",
    "moving": "migrated, moving state",
    "parallel": "migrated, parallel track",
    "delta": "migrated, delta",
    BEGUN: "the good order from the start",
}
FEWER_LEAST, FASTER_LEAST = 5.0, 2.0


def verdicts(rounds: Sequence[Round]) -> list[tuple[str, str, str, bool]]:
    """Name, measured, wanted, reached."""
    out = []
    for way in rounds[0].migrated:
        about = TITLES.get(way, way)
        for text, of, least in (
            ("rows in between per tick, before against after", Round.fewer, FEWER_LEAST),
            ("rows in per second, after against before", Round.faster, FASTER_LEAST),
            ("rows in per second against the bad order kept", Round.faster_than_kept, FASTER_LEAST),
        ):
            values = [of(one, way) for one in rounds]
            found = f"{median(values):,.1f} ({min(values):,.1f}–{max(values):,.1f}) ×"
            out.append((f"{about}: {text}", found, f"≥ {least:g} ×", median(values) >= least))
    return out


def page(workload: Workload, rounds: Sequence[Round]) -> str:
    about = machine()
    first = rounds[0]
    orders = sorted({ran.order for one in rounds for ran in one.runs.values() if ran.order})
    lines = [
        "# A better join order for W4",
        "",
        f"Written by `python -m tests.bench.better_order`; {about['cores']} cores, {about['memory_gib']} GiB, commit "
        f"{about['commit']}. Medians (range) of {len(rounds)} rounds. {len(workload.streams)} × {workload.rows:,} rows in "
        f"{workload.files} files per stream, a file of each a tick; partners of a row within the window on both sides: "
        f"{', '.join(f'{n:g} on {key}' for key, n in UNEVEN.items())}.",
        "",
        f"```sql\n{workload.sql}\n```",
        "",
        f"Begun as `{BAD}`, migrated before tick {first.at + 1} to what the optimiser proposes from what ticks told: "
        f"{', '.join(f'`{order}`' for order in orders)}.",
        "",
        "| | measured | wanted | |",
        "|---|---|---|---|",
        *(
            f"| {name} | {found} | {wanted} | {'reached' if good else '**missed**'} |"
            for name, found, wanted, good in verdicts(rounds)
        ),
        "",
        *_ways(rounds),
        "",
        *_migrations(rounds),
        "",
        f"Every output was compared with DuckDB's as a multiset: {'all exact' if exact(rounds) else '**WRONG**'}, "
        f"{first.runs[KEPT].check.rows:,} rows.",
        "",
        "![Seconds of each tick](reorder.svg)",
        "",
    ]
    return "\n".join(lines)


def _ways(rounds: Sequence[Round]) -> list[str]:
    """A line for each way: before and after."""
    head = "| way | rows in between a tick | of several inputs in state | rows/s in | CPU µs a row | tick s | CPU s of all processes |"
    out = [head, "|---|---|---|---|---|---|---|"]
    for way in rounds[0].runs:
        before, after = [one.before(way) for one in rounds], [one.after(way) for one in rounds]

        def both(name: str, scale: float, digits: int, b: Any = before, a: Any = after) -> str:
            values = [median(scale * getattr(phase, name) for phase in some) for some in (b, a)]
            return " → ".join(f"{value:,.{digits}f}" for value in values)

        cpu = spread([one.runs[way].cpu_s for one in rounds])
        cells = [
            both("between_per_tick", 1, 0),
            both("kept_rows", 1, 0),
            both("rows_per_s", 1, 0),
            both("cpu_s_per_row", 1e6, 2),
            both("tick_s", 1, 2),
            str(cpu),
        ]
        out.append(f"| {TITLES.get(way, way)} | " + " | ".join(cells) + " |")
    return out


def _migrations(rounds: Sequence[Round]) -> list[str]:
    """What the migrations themselves took, and what came of them."""
    out = [
        "| strategy | length s | results stand still s | less CPU a row | share of the speed of the good order from the start |",
        "|---|---|---|---|---|",
    ]
    for way in rounds[0].migrated:
        actions = [one.runs[way].action or {} for one in rounds]
        cells = [
            spread([float(action["actual"]["seconds"]) for action in actions]),
            spread([float(action["actual"]["pause_s"]) for action in actions]),
            spread([one.less_cpu(way) for one in rounds]),
            spread([one.of_begun(way) for one in rounds]),
        ]
        out.append(f"| {TITLES.get(way, way)} | " + " | ".join(map(str, cells)) + " |")
    return out


def plot(round_: Round) -> str:
    series = {}
    for way, ran in round_.runs.items():
        ends = [tick["end_s"] for tick in ran.ticks]
        series[TITLES.get(way, way)] = [b - a for a, b in pairwise(ends)]
    return svg("W4, another order at a third", series, "tick", "seconds of a tick", first=2)


def write(workload: Workload, rounds: Sequence[Round], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "reorder.md"
    path.write_text(page(workload, rounds))
    (folder / "reorder.svg").write_text(plot(rounds[0]))
    raw = [
        {
            way: {**ran.found, "cpu_s": ran.cpu_s, "exact": ran.check.exact}
            for way, ran in one.runs.items()
        }
        for one in rounds
    ]
    about = {"workload": workload.key, "machine": machine(), "rounds": raw}
    (folder / "reorder.json").write_text(json.dumps(about, indent=1) + "\n")
    return path


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.better_order")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rows", type=int, help="of a stream, instead of W4's; not for the record")
    options = parser.parse_args(arguments)
    workload = UNEVEN_CHAIN
    if options.rows:
        # The same keys a window, in fewer and fewer rows: windows would else be all of it.
        spacing = UNEVEN_CHAIN.spacing_us * UNEVEN_CHAIN.rows // options.rows
        workload = replace(UNEVEN_CHAIN, rows=options.rows, spacing_us=spacing)
    rounds = measure(workload, options.runs, lambda text: print(text, flush=True))
    record = options.runs >= RUNS_FOR_RECORD and not options.rows and exact(rounds)
    folder = ROOT / "docs" / "benchmarks" if record else BENCH_DIR / "reports"
    print(write(workload, rounds, folder).read_text())
    return 0 if exact(rounds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
