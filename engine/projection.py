"""What the store is told of one query's actions and commands, from its desk's records.

The records are the truth and stay in the checkpoint until they are told. What the store cannot take now is
told the next time; to be told the same twice is nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from control import actions
from control.actions import Action
from control.ledger import ActionRow, Command, CommandState
from control.ports import Store
from engine.adapt.desk import Desk
from engine.adapt.errands import Outcome
from engine.plan.tree import Plan

EXPECTED_MAX = 1_000


class Watched:
    """One run of a query. `before`: of its last run, whose last words may not have been told yet."""

    def __init__(self, query: str, desk: Desk, before: Watched | None = None) -> None:
        self.query, self.desk = query, desk
        self._before = before
        self._expected: dict[str, Command] = before._expected if before else {}
        self._pending: dict[str, None] = {}
        self._ended: list[Outcome] = []
        self._budgets = dict(desk.budgets)

    @property
    def plan(self) -> Plan:
        """The one that runs."""
        return self.desk.ticker.setup.plan

    def expect(self, command: Command) -> None:
        """Its actions' names begin with the command's."""
        self._expected[command.id] = command
        while len(self._expected) > EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]

    def tell(self, store: Store, now_s: float) -> None:
        """Actions, commands and budgets that changed; those of the run before first."""
        if self._before is not None:
            self._before.tell(store, now_s)
            self._before = None
        self._tell_actions(store)
        self._ended += self.desk.errands.outcomes()
        while self._ended:
            ended = self._ended[0]
            store.commands.end(ended.command, CommandState(ended.state), ended.body, now_s)
            del self._ended[0]
        now = dict(self.desk.budgets)
        if now != self._budgets:
            named = {str(node): most for node, most in now.items()}
            store.kept.put(budgets_of(self.query), named)
            self._budgets = now

    def _tell_actions(self, store: Store) -> None:
        self._pending |= dict.fromkeys(self.desk.records.changed())
        if not self._pending:
            return
        found = self.desk.records.actions
        rows = [self._row(found[name]) for name in self._pending if name in found]
        ended = [row for row in rows if row.ended_s is not None]
        with store.together():
            store.actions.keep(rows)
            for row in ended:
                if not row.id.startswith("local-"):
                    store.webhooks.post("action.ended", _event(row), row.ended_s or 0.0)
        self._pending.clear()
        self.desk.records.told([row.id for row in ended])

    def _row(self, action: Action) -> ActionRow:
        records = self.desk.records
        command = self._expected.get(action.id.rpartition("-")[0])
        times = [t for r in action.records for t in (r.start_s, r.end_s) if t is not None]
        began = action.history[0].time_s if action.history else 0.0
        return ActionRow(
            action.id,
            self.query,
            actions.to_json(action),
            records.by.get(action.id, ""),
            action.state.value,
            min(times, default=began),
            max([*times, action.history[-1].time_s]) if action.over else None,
            action.bytes,
            records.progress.get(action.id),
            command.id if command else "",
            command.rule if command else "",
            _predicted(command, action.id),
            records.actuals.get(action.id, {}),
            records.receipts.get(action.id, {}),
        )


def budgets_of(query: str) -> str:
    """The name under which its nodes' budgets are kept."""
    return f"budgets:{query}"


def _predicted(command: Command | None, name: str) -> Mapping[str, Any]:
    """What the preview said of this step."""
    if command is None:
        return {}
    preview: Mapping[str, Any] = command.body.get("predicted") or {}
    steps: Sequence[Mapping[str, Any]] = preview.get("steps") or ()
    number = int(name.rpartition("-")[2]) - 1
    return steps[number] if 0 <= number < len(steps) else {}


def _event(row: ActionRow) -> dict[str, Any]:
    return {
        "action": row.id,
        "query": row.query,
        "kind": row.body["course"],
        "state": row.state,
        "by": row.by,
        "bytes": row.bytes,
        "seconds": round((row.ended_s or row.started_s) - row.started_s, 3),
    }
