"""The ledger of actions: what is asked for in the address, which rows that leaves, and how a row is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.components.lanes import LOCAL
from app.components.steps import VERBS, groups_in
from app.components.units import NONE, clock, moment, node_name, percent, said_size
from app.pages.actions_drawer import said_by
from app.pages.actions_steps import brief
from control.actions import FINAL, State
from control.ledger import ActionRow
from control.ports import Actions

ROWS_MAX = 200  # on one page of the ledger
LOOKED_AT_MAX = 4_000  # rows read for one page, where filters leave few of them
BATCH = 500
FIND_LENGTH_MAX = 100
DAY_S = 86_400.0
ALL = "all"
STATES = (
    ALL,
    "running",
    *(state.value for state in (State.DONE, State.FAILED, State.CANCELLED, State.REJECTED)),
)
KINDS = (ALL, "move", "spill", "cleanup", "migrate", "budget")
BY: Mapping[str, str] = {  # what nodes spill by themselves comes many times as often
    ALL: "People and rules",
    "people": "People",
    "rules": "Rules",
    "nodes": "Nodes themselves",
    "every": "Everybody",
}
Page = Callable[[str | None, int], Sequence[ActionRow]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; what is not one of ours is everything."""

    state: str = ALL
    kind: str = ALL
    by: str = ALL
    find: str = ""
    before: str = ""  # older than this action

    @staticmethod
    def of(raw: Any) -> Wanted:
        told: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        return Wanted(
            _one_of(told.get("state"), STATES),
            _one_of(told.get("kind"), KINDS),
            _one_of(told.get("by"), tuple(BY)),
            str(told.get("find") or "")[:FIND_LENGTH_MAX].strip(),
            str(told.get("before") or "")[:FIND_LENGTH_MAX],
        )

    @property
    def everything(self) -> bool:
        return self == Wanted(before=self.before)

    @property
    def in_store(self) -> str:
        """The state that the store itself can look for; "running" is several."""
        return "" if self.state in (ALL, "running") else self.state

    def takes(self, row: ActionRow) -> bool:
        return (
            (self.state != "running" or State(row.state) not in FINAL)
            and self.kind in (ALL, row.body["step"]["do"])
            and (self.by != "nodes" or row.id.startswith(LOCAL))
            and (not self.find or self.find.lower() in text_of(row).lower())
        )


def _one_of(value: Any, known: Sequence[str]) -> str:
    return value if isinstance(value, str) and value in known else ALL


def text_of(row: ActionRow) -> str:
    """Everything of a row that is searched: id, what, nodes, who, state, note."""
    step = row.body["step"]
    return " ".join(
        (row.id, what_of(step), said_by(row), row.by, row.state, str(row.body.get("note", "")))
    )


def pages_of(store: Actions, wanted: Wanted, query: str) -> Page:
    """The store's pages that a filter needs."""
    state = wanted.in_store

    def page(before: str | None, most: int) -> Sequence[ActionRow]:
        if wanted.by in ("every", "nodes"):
            return store.page(before=before, most=most, query=query, state=state)
        ruled = {"people": False, "rules": True}.get(wanted.by)
        return store.asked(before=before, most=most, query=query, state=state, ruled=ruled)

    return page


def chosen(wanted: Wanted, read: Page, most: int = ROWS_MAX) -> tuple[list[ActionRow], bool]:
    """Newest first, and whether there are more. `read(before, most)`: the store's pages."""
    found: list[ActionRow] = []
    rows = _every(read, wanted.before or None)
    for row in rows:
        if wanted.takes(row):
            if len(found) == most:
                return found, True
            found.append(row)
    return found, False


def _every(read: Page, before: str | None) -> Iterator[ActionRow]:
    """A page at a time, the first one as long as what is shown."""
    left, size = LOOKED_AT_MAX, ROWS_MAX + 1
    while left > 0:
        page = read(before, min(size, left))
        yield from page
        left -= len(page)
        if len(page) < size:
            return
        before, size = page[-1].id, BATCH


def what_of(step: Mapping[str, Any]) -> str:
    """8 groups n3 → n4; n6, 11 groups."""
    groups = groups_in(step)
    count = f"{groups} group{'' if groups == 1 else 's'}"
    if step["do"] == "move":
        return f"{count} {node_name(step['source'])} → {node_name(step['target'])}"
    if step["do"] == "migrate":
        return f"join order {step['order']}"
    if step["do"] == "budget":
        return f"{node_name(step['node'])}, {said_size(step['bytes'])}"
    return f"{node_name(step['node'])}, {count}"


def line(row: ActionRow, now_s: float, zone_min: int) -> dict[str, Any]:
    """A row of the grid: plain texts."""
    step = row.body["step"]
    over = State(row.state) in FINAL
    took_s = (row.ended_s if row.ended_s is not None else now_s) - row.started_s
    share = f" {percent(row.progress)}" if not over and row.progress is not None else ""
    recent = now_s - row.started_s < DAY_S / 2
    return {
        "id": row.id,
        "kind": VERBS.get(step["do"], str(step["do"])).lower(),
        "what": what_of(step),
        "bytes": said_size(row.bytes) if row.bytes else NONE,
        "state": f"{row.state}{share}",
        "tone": "held" if not over else row.state,
        "who": said_by(row),
        "at": clock(row.started_s, zone_min) if recent else moment(row.started_s, zone_min),
        "took": brief(took_s) if took_s > 0 else "in its tick",
        "note": str(row.body.get("note") or ""),
    }
