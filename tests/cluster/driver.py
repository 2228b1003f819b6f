"""A process that runs a query on a cluster and tells of every tick on stdout: `driver.py QUERY MASTER [SCRIPT]`, with
the policy file `adapt.toml` beside the script, if there is one.

A line per commit: `{"version": …, "rows_in": …, "nodes": [[executor, fetched], …]}`; at the end `{"done": summary}`. With `--watch`
it goes on until it is interrupted, and a line `{"alive": […], "refused": […]}` says which nodes are alive whenever that
changes, and why a move to one that is not was refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from control.arbiter import Refusal
from control.requests import Request
from engine.adapt.desk import Desk
from engine.adapt.policy import Policy, load
from engine.progress import RunSummary
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import QueryRun, run
from engine.settings import Settings


class Tell:
    """A port that prints."""

    def publish(self, report: TickReport) -> None:
        nodes = [[n.executor, n.fetched] for n in report.nodes]
        print(
            json.dumps(
                {
                    "version": report.version,
                    "seconds": report.seconds,
                    "rows_in": report.rows_in,
                    "nodes": nodes,
                }
            ),
            flush=True,
        )


class Watch:
    """Tells which nodes are alive, at each boundary between ticks at which that has changed."""

    def __init__(self, file: Path, master: str) -> None:
        self.query = QueryRun(read_query(file), Settings.load({}), [Tell()], once=False)
        self.query.seated = self.sit
        self.master, self.last = master, list[bool]()

    def run(self) -> RunSummary:
        return self.query.run(self.master)

    def sit(self, desk: Desk) -> None:
        desk.watch = self.look

    def look(self, desk: Desk) -> None:
        alive: list[bool] = desk.snapshot().nodes.alive.tolist()
        if alive == self.last:
            return
        self.last, whys = alive, list[str]()
        if True in alive and False in alive:
            request = Request("move", alive.index(True), alive.index(False), percent=50)
            if isinstance(desk.ask(request, "test"), Refusal):
                whys = [str(refusal.why) for refusal in desk.records.last_refusals]
        print(json.dumps({"alive": alive, "refused": whys}), flush=True)


if __name__ == "__main__" and sys.argv[3:] == ["--watch"]:
    summary = Watch(Path(sys.argv[1]), sys.argv[2]).run()
    print(json.dumps({"done": json.loads(summary.to_json())}), flush=True)
elif __name__ == "__main__":
    file, master = Path(sys.argv[1]), sys.argv[2]
    script = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    adapt = script.with_name("adapt.toml") if script else None
    summary = run(
        read_query(file),
        once=True,
        master=master,
        settings=Settings.load({}),
        ports=[Tell()],
        adaptation=load(adapt if adapt and adapt.exists() else None, script)
        if script
        else Policy(),
        report=script.with_suffix(".json") if script else None,
    )
    print(json.dumps({"done": json.loads(summary.to_json())}), flush=True)
