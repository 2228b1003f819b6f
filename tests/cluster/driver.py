"""A process that runs a query on a cluster and tells of every tick on stdout: `driver.py QUERY MASTER [SCRIPT]`, with
the policy file `adapt.toml` beside the script, if there is one.

A line per commit: `{"version": …, "nodes": [[executor, fetched], …]}`; at the end `{"done": summary}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.adapt.policy import Policy, load
from engine.query.file import read_query
from engine.reports import TickReport
from engine.runner import run
from engine.settings import Settings


class Tell:
    """A port that prints."""

    def publish(self, report: TickReport) -> None:
        nodes = [[n.executor, n.fetched] for n in report.nodes]
        print(
            json.dumps({"version": report.version, "seconds": report.seconds, "nodes": nodes}),
            flush=True,
        )


if __name__ == "__main__":
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
