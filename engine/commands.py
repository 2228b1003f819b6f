"""What each command of `run.py` does. Parsing the command line is run.py's; running a query is
runner.py's and host.py's, imported only when a query runs, so that the other commands answer at once.

Results and tables go to stdout, everything about a run to stderr.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from control.ports import Secrets
from engine.errors import QueryFileError, SettingError, SpillwayError
from engine.interrupts import interrupts_end_it, interrupts_stop
from engine.overlap import refuse_overlap
from engine.progress import TerminalProgress
from engine.query.file import read_query
from engine.query.formats import EXACTLY_ONCE, promise
from engine.query.model import QuerySpec
from engine.settings import Settings
from engine.sinks import tail
from engine.sinks.tail import newer
from engine.table import aligned

if TYPE_CHECKING:
    from engine.host import EngineHost, QueryStatus

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "docs" / "examples" / "market.toml"
DEMO_DIR = ROOT / "data" / "demo"
NODES_MAX = 1000
EXIT_USER = 2
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What the command line says about adaptation."""

    adapt: Path | None = None
    script: Path | None = None
    owed: str = "cleanup"
    report: Path | None = None

    @property
    def asked(self) -> bool:
        return self != Adaptation()


def check(files: Sequence[Path], *, secrets: Secrets | None = None) -> int:
    """Say whether the query files are right, alone and beside each other, and how they would run."""
    specs: list[QuerySpec] = []
    failed = False
    for file in files:
        try:
            spec = read_query(file, secrets=secrets)
            refuse_overlap(spec, specs)
            specs.append(spec)
            _show_plan(spec, more=file != files[-1])
        except SpillwayError as error:
            _say(f"error: {error}")
            failed = True
    return EXIT_USER if failed else 0


def _show_plan(spec: QuerySpec, *, more: bool) -> None:
    from engine.flow import compile_flow
    from engine.footers import check_footers
    from engine.plan.build import build_plan
    from engine.plan.show import render
    from engine.query.sql import analyse

    query = analyse(spec)
    plan = build_plan(spec, query)
    check_footers(compile_flow(plan, query))
    print(render(plan), end="\n\n" if more else "\n", flush=True)


def run_queries(
    files: Sequence[Path],
    *,
    once: bool,
    nodes: int | None,
    master: str | None,
    settings: Settings,
    adaptation: Adaptation | None = None,
    secrets: Secrets | None = None,
) -> int:
    """Run query files, all at once, until their input is done (`once`) or Ctrl-C."""
    specs = [with_nodes(read_query(file, secrets=secrets), nodes) for file in files]
    if len(specs) == 1:
        return _run(specs[0], once=once, master=master, settings=settings, adaptation=adaptation)
    if adaptation is not None and adaptation.asked:
        raise SettingError(
            "--adapt, --script, --owed and --report are for one query",
            hint="Run the query that they are meant for by itself.",
        )
    return _run_many(specs, once=once, master=master, settings=settings)


def demo(*, master: str | None, settings: Settings) -> int:
    """The market example, with its state and results in the git-ignored data folder."""
    if not DEMO.exists():
        raise QueryFileError("the demo's query file is missing", where=str(DEMO))
    spec = read_query(DEMO)
    spec = replace(
        spec,
        checkpoint=DEMO_DIR / "state",
        sink=replace(spec.sink, path=str(DEMO_DIR / "out")),
    )
    return _run(spec, once=False, master=master, settings=settings)


def reproduce(figures: Sequence[str], *, show: bool, long: bool, out: Path | None) -> int:
    """The papers' figures: a list of them, or pages with verdicts."""
    from engine.papers import reproduce as papers

    if show:
        print(papers.show())
        return 0
    return 1 if papers.reproduce(figures, long=long, out=out) else 0


def with_nodes(spec: QuerySpec, nodes: int | None) -> QuerySpec:
    """The query on another number of nodes than its file says."""
    if nodes is None:
        return spec
    if not 1 <= nodes <= NODES_MAX:
        raise SettingError(
            f"--nodes {nodes} is out of range", hint=f"Choose from 1 to {NODES_MAX}."
        )
    if spec.placement and max(spec.placement) >= nodes:
        raise SettingError(
            f"--nodes {nodes} does not fit the query file's placement, which names node "
            f"{max(spec.placement)}",
            hint="Change `placement` in the query file, or leave it out.",
        )
    return replace(spec, nodes=nodes)


def _run(
    spec: QuerySpec,
    *,
    once: bool,
    master: str | None,
    settings: Settings,
    adaptation: Adaptation | None = None,
) -> int:
    from engine.adapt.policy import load
    from engine.runner import run

    asked = adaptation or Adaptation()
    policy = load(asked.adapt, asked.script)

    where = spec.sink.path or spec.sink.format
    _say(f"{spec.name}: starting Spark; results go to {where}, {_promise(spec)}")
    if not once:
        _say("Ctrl-C stops after the running tick")
    progress = TerminalProgress(sys.stderr, mode=settings.progress)
    with interrupts_end_it():
        summary = run(
            spec,
            once=once,
            master=master,
            settings=settings,
            ports=[progress],
            warn=_warn,
            adaptation=policy,
            owed=asked.owed,
            report=asked.report,
        )
    if once:
        print(summary.to_json(), flush=True)
    else:
        _say("stopped; start again to resume")
    return 0


def _run_many(
    specs: Sequence[QuerySpec], *, once: bool, master: str | None, settings: Settings
) -> int:
    from engine.host import EngineHost

    progress = TerminalProgress(sys.stderr, mode=settings.progress, queries=[s.name for s in specs])
    host = EngineHost(settings, master=master, warn=lambda text: progress.note(f"warning: {text}"))
    for spec in specs:
        host.register(spec, [progress])
    _say(f"{len(specs)} queries: starting Spark")
    for spec in specs:
        if (promised := _promise(spec)) != EXACTLY_ONCE:
            _say(f"{spec.name}: {promised}")
    if not once:
        _say("Ctrl-C stops after the running ticks")
    with interrupts_end_it():
        host.begin_session()
        asked = threading.Event()
        with interrupts_stop(asked.set, asked.is_set):
            for spec in specs:
                host.start(spec.name, once=once)
            _watch(host, asked, progress)
    return _account(host.status(), once=once, stopped=asked.is_set())


def _promise(spec: QuerySpec) -> str:
    return promise(spec.streams.values(), spec.sink)


def _watch(host: EngineHost, asked: threading.Event, progress: TerminalProgress) -> None:
    """Until no query is live; a failure is told when it happens."""
    told: set[str] = set()
    ended = False
    while not ended:
        ended = host.wait_ended(POLL_S)
        if asked.is_set():
            host.stop_all()
        for status in host.status():
            if status.error is not None and status.name not in told:
                told.add(status.name)
                progress.note(f"error: query {status.name}: {status.error}")


def _account(found: Sequence[QueryStatus], *, once: bool, stopped: bool) -> int:
    """What came of each query, with `once` as a JSON line; the exit code."""
    if once:
        for status in found:
            if status.summary is not None and status.state == "finished":
                print(status.summary.to_json(), flush=True)
            elif status.error is not None:
                print(json.dumps({"query": status.name, "failed": str(status.error)}), flush=True)
    if any(status.error is not None for status in found):
        return EXIT_USER
    if once and stopped:
        raise KeyboardInterrupt  # stopped in order, but not done
    if not once:
        _say("stopped; start again to resume")
    return 0


def show_tail(file: Path, *, rows: int, follow: bool, poll_s: float = 0.5) -> int:
    """The newest results; with `follow` also those to come, until Ctrl-C."""
    sink = read_query(file).sink
    if sink.format != "parquet":
        raise SpillwayError(
            f"cannot show {sink.format} results", where=str(file), hint="tail reads Parquet sinks."
        )
    directory = Path(sink.path)
    seen: set[str] = set()
    if follow:
        for _ in newer(directory, seen):
            pass
    table = tail(directory, rows)
    if table.num_rows or not follow:
        print(aligned(table) if table.num_columns else f"no results in {directory} yet", flush=True)
    while follow:
        for path in newer(directory, seen):
            print(aligned(_newest(path, rows)), flush=True)
        time.sleep(poll_s)
    return 0


def _newest(path: Path, rows: int) -> pa.Table:
    """The last rows of one file, so that a busy query does not flood the terminal."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        return pa.table({})
    return table.slice(max(0, table.num_rows - rows))


def _warn(text: str) -> None:
    _say(f"warning: {text}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
