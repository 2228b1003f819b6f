"""What each command of `run.py` does. Parsing the command line is run.py's; running a query is
runner.py's, imported only when a query runs, so that the other commands answer at once.

Results and tables go to stdout, everything about a run to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import QueryFileError, SettingError, SpillwayError
from engine.progress import TerminalProgress
from engine.query.file import read_query
from engine.query.model import QuerySpec
from engine.settings import Settings
from engine.sinks import tail
from engine.sinks.tail import newer
from engine.table import aligned

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "docs" / "examples" / "market.toml"
DEMO_DIR = ROOT / "data" / "demo"
NODES_MAX = 1000


def check(file: Path) -> int:
    """Say whether the query file is right, and how it would run."""
    from engine.plan.build import build_plan
    from engine.plan.show import render
    from engine.query.sql import analyse

    spec = read_query(file)
    print(render(build_plan(spec, analyse(spec))))
    return 0


def run_query(
    file: Path, *, once: bool, nodes: int | None, master: str | None, settings: Settings
) -> int:
    """Run a query file until its input is done (`once`) or Ctrl-C."""
    return _run(with_nodes(read_query(file), nodes), once=once, master=master, settings=settings)


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


def _run(spec: QuerySpec, *, once: bool, master: str | None, settings: Settings) -> int:
    from engine.runner import run

    _say(f"{spec.name}: starting Spark; results go to {spec.sink.path or spec.sink.format}")
    if not once:
        _say("Ctrl-C stops after the running tick")
    progress = TerminalProgress(sys.stderr, mode=settings.progress)
    with interrupts_end_it():
        summary = run(
            spec, once=once, master=master, settings=settings, ports=[progress], warn=_warn
        )
    if once:
        print(summary.to_json(), flush=True)
    else:
        _say("stopped; start again to resume")
    return 0


@contextmanager
def interrupts_end_it() -> Iterator[None]:
    """Before the first tick and after the last one Ctrl-C ends the process at once: there is nothing
    to finish, and an exception inside a call to the JVM would only garble it. (While ticks run,
    the runner lets the running one finish.) The JVM goes when our end of its pipe closes."""

    def end(number: int, frame: object) -> None:
        sys.stderr.write("\nstopped; start again to resume\n")
        sys.stderr.flush()
        os._exit(128 + number)

    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
