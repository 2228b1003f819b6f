"""Which rule is in charge of a query's nodes, and telling the engine so.

A rule in mode auto whose policy has parameters for nodes (their own spill rule, the length of rounds) brings them to the
queries that it covers; one rule a query. The engine tells with each query what its nodes go by; where that is not what the
rule in charge says, it gets a command, and finds the same in the store whenever it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from control.conduct import conduct_name, conduct_of, to_json
from control.errors import ControlError
from control.handling.base import COMMAND_LIFE_S
from control.ledger import Command, QueryRow, RuleRow, Wanted
from control.people import Role, Source, User
from control.ports import Store
from control.rules import Mode, Rule, rule_from

SYSTEM = "system"  # the user of what nobody asked for


def rival(rows: Sequence[RuleRow], rule: Rule) -> str:
    """The rule in mode auto that is in charge of the nodes of a query that this rule covers too; empty where none is."""
    if conduct_of(rule.policy) is None:
        return ""
    for row in rows:
        if row.mode != Mode.AUTO or row.name == rule.name:
            continue
        try:
            other = rule_from(row.text)
        except ControlError:  # a text of before that is no rule any more: it does nothing
            continue
        if conduct_of(other.policy) is None:
            continue
        if other.covers(rule.query) or rule.covers(other.query):
            return other.name
    return ""


def in_charge(rows: Sequence[RuleRow], users: Mapping[str, User], query: str) -> RuleRow | None:
    """The rule in mode auto that a query's nodes go by: of several, which an earlier version let be, the one that was
    changed least lately. Only in the name of somebody who may have it in auto."""
    found = []
    for row in rows:
        editor = users.get(row.editor)
        if row.mode != Mode.AUTO or editor is None or editor.disabled:
            continue
        if not editor.role.covers(Role.ADMIN):
            continue
        try:
            rule = rule_from(row.text)
        except ControlError:  # it does nothing, and the loop says why
            continue
        if rule.covers(query) and conduct_of(rule.policy) is not None:
            found.append(row)
    return min(found, key=lambda row: (row.changed_s, row.name), default=None)


class Conducting:
    """Made once by the control process. It remembers what it has told the engine lately, and nothing else."""

    def __init__(self, store: Store, new_id: Callable[[float], str]) -> None:
        self.store, self._new_id = store, new_id
        self._told: dict[str, tuple[Mapping[str, Any] | None, float]] = {}

    def run_once(self, now_s: float) -> None:
        """Tell the engine of every query whose nodes go by other parameters than those of the rule in charge."""
        rows = [row for row in self.store.rules.all() if row.mode == Mode.AUTO]
        users = {user.name: user for user in self.store.users.all()} if rows else {}
        for query in self.store.queries.all():
            if query.wanted is Wanted.STOPPED:
                continue
            self._lead(query, in_charge(rows, users, query.name), now_s)

    def _lead(self, query: QueryRow, row: RuleRow | None, now_s: float) -> None:
        conduct = conduct_of(rule_from(row.text).policy, row.name) if row is not None else None
        wanted = to_json(conduct) if conduct is not None else None
        if wanted == (query.about.get("conduct") or None):
            self._told.pop(query.name, None)
            return
        last = self._told.get(query.name)
        if last is not None and last[0] == wanted and 0 <= now_s - last[1] < COMMAND_LIFE_S:
            return  # it is on its way
        self._told[query.name] = (wanted, now_s)
        with self.store.together():
            self.store.kept.put(conduct_name(query.name), wanted)
            self.store.commands.add(
                Command(
                    self._new_id(now_s),
                    "conduct",
                    query.name,
                    {"conduct": wanted},
                    row.editor if row is not None else SYSTEM,
                    Source.RULE if row is not None else Source.SYSTEM,
                    row.name if row is not None else "",
                    now_s,
                    now_s + COMMAND_LIFE_S,
                )
            )
