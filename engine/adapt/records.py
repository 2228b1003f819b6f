"""What became of every adaptation: actions with their steps, decisions with their reasons, refusals.

Kept in the checkpoint, so that a restart can tell how each action ended; written out as the report that
`--report` asks for. Bounded: a decision that says the same as the one before is counted, not kept.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from control import actions
from control.actions import Action
from control.arbiter import Refusal, Why
from control.plans import Part, Plan, Spill, Topic, plan_to_json, step_to_json
from control.requests import Request
from engine.adapt.past import FILE, Past
from engine.flow import Flow
from engine.replaced import replaced
from engine.state.model import Place, Runs

DECISIONS_MAX = 2_000
ACTIONS_MAX = 10_000
RECEIPTS_MAX = 500  # they are long, and told to the store soon
LOCAL = "local-"  # what the names of nodes' own spills begin with
Sizes = np.ndarray[Any, Any]


class Records:
    """One query's. `folder` is in its checkpoint; `report` where the report goes, if anywhere."""

    def __init__(self, folder: Path, report: Path | None = None) -> None:
        self.folder, self.report = folder, report
        self.past = Past(folder.with_name(FILE))  # of all lives
        self.actions: dict[str, Action] = {}
        self.by: dict[str, str] = {}
        self.progress: dict[str, float] = {}
        self.cpu_s: dict[str, float] = {}  # of joining what was owed, by action
        # What an action did, counted before and after; what it took, for whoever predicted it (accounts.py).
        self.receipts: dict[str, dict[str, Any]] = {}
        self.actuals: dict[str, dict[str, Any]] = {}
        self.predicted: dict[str, dict[str, Any]] = {}  # by a preview, where there is a report
        self._changed: dict[str, None] = {}
        self._noting = threading.Lock()
        self.decisions: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.last_refusals: Sequence[Refusal] = (Refusal(Why.NO_STEPS, "nothing was asked for"),)
        self.count = 0
        self.somebody_asks = False  # the ends of actions stay on disk until `told`

    def keep(self, action: Action, by: str = "", now_s: float = 0.0) -> None:
        """Note an action as it is now. `now_s`: where it has ended, when, by the clock of decisions."""
        if action.id not in self.actions:
            self.count += 1
            self.by[action.id] = by
            if len(self.actions) >= ACTIONS_MAX:
                gone = next(iter(self.actions))
                del self.actions[gone], self.by[gone]
                for some in (
                    self.progress,
                    self.cpu_s,
                    self.receipts,
                    self.actuals,
                    self.predicted,
                ):
                    some.pop(gone, None)
        self.actions[action.id] = action
        if action.over and not action.id.startswith(LOCAL):
            self.past.ended(
                action, now_s
            )  # before it is stored as over: a restart would count it otherwise
        self._store(action)
        with self._noting:
            self._changed[action.id] = None

    def changed(self) -> list[str]:
        """From any thread: the actions that changed since this was last asked."""
        with self._noting:
            found, self._changed = list(self._changed), {}
        return found

    def settle(self, action: str, receipt: dict[str, Any], actual: dict[str, Any]) -> None:
        """What an action did and took, before it is kept as over: who is told of its end finds it."""
        self.receipts[action], self.actuals[action] = receipt, actual
        while len(self.receipts) > RECEIPTS_MAX:
            del self.receipts[next(iter(self.receipts))]

    def cost(self, action: str, cpu_s: float) -> None:
        if cpu_s:
            self.cpu_s[action] = self.cpu_s.get(action, 0.0) + cpu_s

    def local(self, version: int, node: int, sizes: Mapping[str, Sizes], now_s: float) -> None:
        """A node's own spill, done by the time that it is heard of."""
        parts = tuple(Part(op, tuple(np.flatnonzero(s).tolist())) for op, s in sizes.items())
        size = int(sum(int(s.sum()) for s in sizes.values()))
        action = Action.propose(local_name(version, node), "", Spill(parts, node, size))
        action = action.accept(now_s)
        for name in actions.COURSES["spill"].steps:
            action = action.begin(now_s, name).end(now_s, size)
        self.keep(action.finish(now_s), f"node {node}")

    def spilled(self, disk: Mapping[Place, Runs], version: int, flow: Flow, now_s: float) -> None:
        """What nodes spilled by themselves in a tick."""
        groups = {op.id: op.groups for op in flow.ops}
        by_node: dict[int, dict[str, Sizes]] = {}
        for place, runs in disk.items():
            mine = by_node.setdefault(place.node, {})
            size = sum(run.bytes_of(groups[place.operator]) for run in runs)
            mine[place.operator] = mine.get(place.operator, np.zeros(1, np.int64)) + size
        for node, sizes in by_node.items():
            self.local(version, node, sizes, now_s)

    def decided(self, by: str, plan: Plan, now_s: float) -> None:
        """A decision, also one for nothing."""
        body = {"by": by, **plan_to_json(plan)}
        nothing = [r.text for r in plan.reasons if r.topic is Topic.NOTHING]
        last = self.decisions[-1] if self.decisions else None
        if (
            last is not None
            and not plan.steps
            and last.get("nothing") == nothing
            and last["by"] == by
        ):
            last["times"] += 1
            last["until_s"] = now_s
            return
        self.decisions.append(
            {"time_s": now_s, "times": 1, "until_s": now_s, "nothing": nothing, **body}
        )
        del self.decisions[:-DECISIONS_MAX]

    def refused(self, by: str, what: Plan | Request, why: Sequence[Refusal], now_s: float) -> None:
        asked = (
            [step_to_json(step) for step in what.steps]
            if isinstance(what, Plan)
            else [_plain(what)]
        )
        said = [
            {"why": r.why.value, "text": str(r), "found": r.found, "limit": r.limit} for r in why
        ]
        self.last_refusals = tuple(why)
        self.refusals.append({"time_s": now_s, "by": by, "asked": asked, "refusals": said})
        del self.refusals[:-DECISIONS_MAX]

    def note(self, by: str, text: str, now_s: float) -> None:
        self.decisions.append({"time_s": now_s, "by": by, "note": text, "times": 1})
        del self.decisions[:-DECISIONS_MAX]

    def restart(self, committed: Sequence[str], now_s: float, going_on: str = "") -> None:
        """Say of the actions of an earlier life how they ended; one may be going on."""
        for path in sorted(self.folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                raw = json.loads(path.read_text())
                action = actions.from_json(raw["action"])
                if action.id == going_on:
                    self.keep(action, raw.get("by", ""))
                    continue
                ended = actions.rolled(action, action.id in committed, now_s)
                if not ended.over:
                    ended = ended.cancel(now_s, "the query was started again")
                self.keep(ended, raw.get("by", ""), now_s)

    def told(self, ids: Sequence[str]) -> None:
        """Somebody else has noted how these ended: they need not stay on disk."""
        for name in ids:
            action = self.actions.get(name)
            if action is not None and action.over:
                (self.folder / f"{name}.json").unlink(missing_ok=True)

    def write(self) -> None:
        """The report."""
        if self.report is not None:
            replaced(self.report, json.dumps(self.as_json(), indent=1) + "\n")

    def as_json(self) -> dict[str, Any]:
        return {
            "actions": [
                {
                    **actions.to_json(a),
                    "by": self.by[a.id],
                    "bytes": a.bytes,
                    "seconds": _seconds(a),
                    "cpu_s": self.cpu_s.get(a.id, 0.0),
                    "progress": self.progress.get(a.id),
                    "predicted": self.predicted.get(a.id, {}),
                    "actual": self.actuals.get(a.id, {}),
                    "receipt": self.receipts.get(a.id, {}),
                }
                for a in self.actions.values()
            ],
            "refusals": self.refusals,
            "decisions": self.decisions,
        }

    def _store(self, action: Action) -> None:
        """Local spills are in the commits that they came with; only what can be cut off is stored."""
        if action.id.startswith(LOCAL):
            return
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{action.id}.json"
        if action.over and not self.somebody_asks:
            path.unlink(missing_ok=True)
        else:
            body = {"action": actions.to_json(action), "by": self.by.get(action.id, "")}
            replaced(path, json.dumps(body))


def local_name(version: int, node: int) -> str:
    """Of a node's own spill."""
    return f"{LOCAL}{version}-{node}"


def _seconds(action: Action) -> float:
    times = [t for r in action.records for t in (r.start_s, r.end_s) if t is not None]
    return round(max(times) - min(times), 6) if times else 0.0


def _plain(what: Any) -> dict[str, Any]:
    return asdict(what) if is_dataclass(what) and not isinstance(what, type) else {}
