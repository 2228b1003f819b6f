"""The parallel track, measured: results a second, CPU and memory of both plans, and how long it takes. A part of
`python -m tests.bench.migrating`.

Three streams within a window on two nodes; ((a b) c) becomes ((a c) b) once the window is full. *Paced*: a tick begins
every second and a second of event time comes with it, as long as the machine keeps up: how the rate of results does
where the CPU allows. *Flat out*: one tick after the other, as `--once` runs; then two plans share what CPU there is, and
the rate must fall. Each beside a run without a migration over the same rows.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from control.migration.strategies import Change, Pace, parallel
from engine.reports import TickReport
from tests.bench.sides import supervised

SQL = "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
OLD, NEW = ((0, 1), 2), ((0, 2), 1)
LEAST = 0.9  # of the rate before
START_US = 1_700_000_000 * 10**6


@dataclass(frozen=True)
class Size:
    """Of a run. `at`: the tick before which the second plan begins; `tick_s`: also of event time."""

    rows: int = 12_000  # of a stream in a tick
    keys: int = 60_000
    window_ticks: int = 10
    at: int = 18
    ticks: int = 45
    tick_s: float = 1.0

    @property
    def window_s(self) -> float:
        return self.window_ticks * self.tick_s


def prepare(folder: Path, size: Size) -> Path:
    """Files, a query over them, and the script."""
    rng = np.random.default_rng(4)
    lines = ['name = "beside"', f'sql = "{SQL}"', "nodes = 2", "groups = 64"]
    lines += [f'window = "{size.window_s:g} seconds"', 'join_order = "((a b) c)"']
    lines += ['checkpoint = "checkpoint"']
    for name in "abc":
        (folder / name).mkdir(parents=True)
        for tick in range(size.ticks):
            within = np.sort(rng.uniform(0, size.tick_s, size.rows))
            stamps = START_US + ((tick * size.tick_s + within) * 1e6).astype(np.int64)
            columns = {
                "k": rng.integers(0, size.keys, size.rows),
                "v": tick * size.rows + np.arange(size.rows),
                "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            }
            file = folder / name / f"{tick:04d}.parquet"
            pq.write_table(pa.table(columns), file)
            os.utime(file, (1_700_000_000 + tick,) * 2)  # Spark takes the oldest first
        lines += [f"[streams.{name}]", f'format = "parquet"\npath = "{name}"']
        lines += ['schema = "k long, v long, ts timestamp"', 'time = "ts"\nwatermark = "0 seconds"']
        lines += ['options = { maxFilesPerTrigger = "1" }']
    lines += ['[sink]\nformat = "parquet"\npath = "out"', ""]
    path = folder / "query.toml"
    path.write_text("\n".join(lines))
    order = f'[[at]]\ntick = {size.at}\ndo = "migrate"\njoin_order = "((a c) b)"\nstrategy = "parallel"\n'
    (folder / "script.toml").write_text(order)
    return path


def inside(path: Path, size: Size, *, migrates: bool, paced: bool) -> dict[str, Any]:
    """Run the query here: its ticks, and what became of the action."""
    from engine.adapt.policy import Policy, load
    from engine.query.file import read_query
    from engine.runner import QueryRun
    from engine.settings import Settings

    ticks: list[dict[str, Any]] = []
    given = {"trigger_seconds": str(size.tick_s)} if paced else {}
    run = QueryRun(read_query(path), Settings.load(given), [], once=not paced)

    class Port:
        def publish(self, report: TickReport) -> None:
            if report.tick is not None:
                ticks.append(_told(report))
            if paced and report.tick == size.ticks - 1:
                run.stop()

    run.ports = [Port()]
    run.adaptation = load(None, path.with_name("script.toml")) if migrates else Policy()
    run.report_path = path.with_name("actions.json")
    run.run(None)
    actions = json.loads(run.report_path.read_text())["actions"]
    kept = ("state", "note", "records")
    return {"ticks": ticks, "actions": [{n: action[n] for n in kept} for action in actions]}


def _told(report: TickReport) -> dict[str, Any]:
    """A tick, as JSON: operators by name."""
    cpu: dict[str, float] = {}
    for part in report.operators:
        cpu[part.operator] = cpu.get(part.operator, 0.0) + part.cpu_s
    memory = {groups.operator: int(groups.memory_bytes.sum()) for groups in report.groups}
    return {
        "time_s": report.time_s,
        "seconds": report.seconds,
        "rows_out": report.rows_out,
        "cpu_s": cpu,
        "bytes": memory,
    }


def run(path: Path, size: Size, *, migrates: bool, paced: bool) -> dict[str, Any]:
    """In a process of its own."""
    for name in ("checkpoint", "out"):
        shutil.rmtree(path.parent / name, ignore_errors=True)
    asked = {"path": str(path), "size": asdict(size), "migrates": migrates, "paced": paced}
    command = [sys.executable, "-m", "tests.bench.beside", json.dumps(asked)]
    found, _ = supervised("spillway", command, path.parent)
    return dict(found)


def measure(folder: Path, runs: int, size: Size | None = None) -> dict[str, list[dict[str, Any]]]:
    """Figures of every run, paced and flat out."""
    size = size or Size()
    path = prepare(folder, size)
    found: dict[str, list[dict[str, Any]]] = {"paced": [], "flat_out": []}
    for number, (name, rows) in itertools.product(range(runs), found.items()):
        both = (run(path, size, migrates=m, paced=name == "paced") for m in (False, True))
        plain, migrated = both
        rows.append(judged(migrated, plain, size))
        print(f"  {name} {number + 1}: {rows[-1]}", flush=True)
    return found


def predicted_s(size: Size, tick_s: float) -> float:
    """By the model, from what the streams are made of."""
    from control.migration.model import Model

    rate = size.rows / size.tick_s
    model = Model.of([rate] * 3, [(0, 1, 2)], [1 / size.keys], size.window_s)
    return parallel(Change.of(model, OLD, NEW), Pace(tick_s=tick_s)).length_s


def judged(found: dict[str, Any], plain: dict[str, Any], size: Size) -> dict[str, Any]:
    """Figures of one migration, against the same rows without it."""
    (action,) = found["actions"]
    if action["state"] != "done":
        raise RuntimeError(f"the migration is {action['state']}: {action['note']}")
    ticks, old = found["ticks"], set(plain["ticks"][0]["bytes"])
    new = {name for tick in ticks for name in tick["bytes"]} - old
    both = [
        n for n, tick in enumerate(ticks) if old & set(tick["bytes"]) and new & set(tick["bytes"])
    ]
    begun, ended = both[0], both[-1] + 1
    steps = {name: (start, end) for name, start, end, _ in action["records"]}
    length_s = steps["BothPlans"][1] - steps["BothPlans"][0]
    phases = {"before": range(size.window_ticks, begun), "during": range(begun, ended),
              "after": range(ended, len(ticks))}  # fmt: skip
    rates = {name: _rate(ticks, some) for name, some in phases.items()}
    gaps = [b["time_s"] - a["time_s"] for a, b in itertools.pairwise(ticks)]
    tick_s = median(gaps[size.window_ticks : begun])
    return {
        **{f"rate_{name}": rate for name, rate in rates.items()},
        "kept": rates["during"] / rates["before"],
        "plain_kept": rates["during"] / _rate(plain["ticks"], phases["during"]),
        **{f"tick_{name}_s": median(ticks[n]["seconds"] for n in some) for name, some in phases.items()},
        "cpu_before_s": _cpu(ticks, phases["before"], old),
        "cpu_old_s": _cpu(ticks, phases["during"], old),
        "cpu_new_s": _cpu(ticks, phases["during"], new),
        "cpu_after_s": _cpu(ticks, phases["after"], new),
        "bytes_before": _bytes(ticks, phases["before"], old),
        "bytes_old": _bytes(ticks, phases["during"], old),
        "bytes_new": _bytes(ticks, phases["during"], new),
        "bytes_after": _bytes(ticks, phases["after"], new),
        "length_s": length_s,
        "predicted_s": predicted_s(size, tick_s),
        "ticks": len(both),
        "exact": sum(tick["rows_out"] for tick in ticks) == sum(t["rows_out"] for t in plain["ticks"]),
    }  # fmt: skip


def _rate(ticks: list[dict[str, Any]], some: range) -> float:
    """Results a second, from the commit before the first of these ticks to that of the last."""
    rows = sum(ticks[n]["rows_out"] for n in some)
    return float(rows / (ticks[some[-1]]["time_s"] - ticks[some[0] - 1]["time_s"]))


def _cpu(ticks: list[dict[str, Any]], some: range, names: set[str]) -> float:
    """CPU seconds of some operators in a tick."""
    return median(sum(ticks[n]["cpu_s"].get(name, 0.0) for name in names) for n in some)


def _bytes(ticks: list[dict[str, Any]], some: range, names: set[str]) -> int:
    """The most that some operators had."""
    return max(sum(ticks[n]["bytes"].get(name, 0) for name in names) for n in some)


def table(rows: dict[str, list[dict[str, Any]]], of: Any) -> list[str]:
    """Paced and flat out, side by side. `of`: a figure of some runs as text."""

    def line(what: str, *names: str, scale: float = 1.0) -> str:
        cells = [", ".join(of(some, name, scale) for name in names) for some in rows.values()]
        return f"| {what} | {' | '.join(cells)} |"

    kept = median([float(row["kept"]) for row in rows["paced"]])
    word = "reached" if kept >= LEAST else "**missed**"
    return [
        "| what | " + " | ".join(name.replace("_", " ") for name in rows) + " |",
        "|---|" + "---|" * len(rows),
        line("results a second before, during, after, thousands", "rate_before", "rate_during", "rate_after", scale=1e-3),
        line(f"during, of before (wanted, paced: ≥ {LEAST:g}: {word})", "kept"),
        line("during, of the same ticks without a migration", "plain_kept"),
        line("a tick before, during, after, s", "tick_before_s", "tick_during_s", "tick_after_s"),
        line("CPU in a tick, s: before; old and new plan during; after", "cpu_before_s", "cpu_old_s", "cpu_new_s", "cpu_after_s"),
        line("memory, MB: before; old and new plan at most during; after", "bytes_before", "bytes_old", "bytes_new", "bytes_after", scale=1e-6),
        line("both ran for, s (ticks)", "length_s", "ticks"),
        line("predicted (where a second is a second of event time), s", "predicted_s"),
    ]  # fmt: skip


def main(asked: dict[str, Any]) -> None:
    found = inside(
        Path(asked["path"]), Size(**asked["size"]), migrates=asked["migrates"], paced=asked["paced"]
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
