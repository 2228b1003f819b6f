"""/actions: what the engine did and does, with steps, predicted and actual figures, receipts; /commands: what
it was told."""

from __future__ import annotations

from typing import Any

from app.api.schema import BOOL, NUMBER_OR_NULL, array, number, obj, one_of, page, text, whole
from app.api.shapes import schema_of, shown
from app.api.table import DONE, PAGED, Call, Route, paged
from app.problems import Problem
from app.waiting import wait_for
from control import actions
from control.ledger import ActionRow, Command
from control.people import Role
from control.plans import name_of, nodes_of, pairs_of

SHORT_WITHOUT = ("body", "receipt", "predicted", "actual")
STEP = obj(
    {
        "name": text(),
        "state": one_of(("done", "running", "to come")),
        "start_s": NUMBER_OR_NULL,
        "end_s": NUMBER_OR_NULL,
        "bytes": whole(),
    }
)
MORE = {
    "do": text(),
    "nodes": array(whole(-1)),
    "note": text(),
    "groups": whole(),
    "cancellable": BOOL,
    "order": text(help="of a migrate: the join order that is changed to"),
    "strategy": text(),
}
SHORT = schema_of(ActionRow, SHORT_WITHOUT, **MORE)
HAPPENED = obj({"time_s": number(), "event": text(), "state": text(), "note": text()})
ACTION = schema_of(ActionRow, (), **MORE, steps=array(STEP), history=array(HAPPENED))
COMMAND = schema_of(Command, (), over=BOOL)


def listed(call: Call) -> dict[str, Any]:
    params, limit = call.params, call.limit
    rows = call.store.actions.page(
        before=params.get("cursor"),
        most=limit + 1,
        query=params.get("query", ""),
        state=params.get("state", ""),
        since_s=float(params.get("since_s", 0.0)),
    )
    return paged(rows, limit, "id", short)


def short(row: ActionRow) -> dict[str, Any]:
    return {**shown(row, SHORT_WITHOUT), **_told(actions.from_json(row.body))}


def _told(action: actions.Action) -> dict[str, Any]:
    return {
        "do": name_of(action.step),
        "nodes": list(nodes_of(action.step)),
        "note": action.note,
        "groups": len(pairs_of(action.step)),
        "cancellable": action.cancellable,
        "order": getattr(action.step, "order", ""),
        "strategy": getattr(action.step, "strategy", ""),
    }


def one(call: Call) -> dict[str, Any]:
    row = call.store.actions.find(call.path["id"])
    if row is None:
        raise Problem("missing", f"There is no action {call.path['id']!r}.")
    action = actions.from_json(row.body)
    history = [
        {"time_s": h.time_s, "event": h.event.value, "state": h.state.value, "note": h.note}
        for h in action.history
    ]
    return {**shown(row), **_told(action), "steps": steps(action), "history": history}


def steps(action: actions.Action) -> list[dict[str, Any]]:
    """Those that were, that is, and, unless it is over, those to come."""
    found = [
        {
            "name": record.name,
            "state": "running" if record.end_s is None else "done",
            "start_s": record.start_s,
            "end_s": record.end_s,
            "bytes": record.bytes,
        }
        for record in action.records
    ]
    later = () if action.over else actions.COURSES[action.course].steps[len(found) :]
    nothing = {"state": "to come", "start_s": None, "end_s": None, "bytes": 0}
    return found + [{"name": name, **nothing} for name in later]


def cancelled(call: Call) -> dict[str, Any]:
    return call.do("cancel", {"action": call.path["id"]})


def undone(call: Call) -> dict[str, Any]:
    return call.do("undo", {"action": call.path["id"]})


def commands(call: Call) -> dict[str, Any]:
    params, limit = call.params, call.limit
    rows = call.store.commands.page(
        before=params.get("cursor"), most=limit + 1, query=params.get("query", "")
    )
    return paged(rows, limit, "id", _command)


def command(call: Call) -> dict[str, Any]:
    """As it is; with `wait`, as soon as it is over, or after so many seconds."""
    name = call.path["id"]

    def look() -> Command:
        found = call.store.commands.find(name)
        if found is None:
            raise Problem("missing", f"There is no command {name!r}.")
        return found

    wait_s = float(call.params.get("wait", 0.0))
    return _command(wait_for(call.parts, look, lambda found: found.state.over, wait_s))


def _command(row: Command) -> dict[str, Any]:
    return {**shown(row), "over": row.state.over}


STATES = one_of(actions.State)
ROUTES = (
    Route(
        "GET", "/actions", "actions", Role.VIEWER, "what was and is done, newest first", listed,
        page(SHORT),
        params={
            "query": text(64, 1), "state": STATES, "since_s": number(0, 1e11), **PAGED,
        },
    ),
    Route(
        "GET", "/actions/{id}", "action", Role.VIEWER,
        "one with its steps, history, predicted and actual figures, receipt", one, ACTION,
    ),
    Route(
        "POST", "/actions/{id}/cancel", "cancel", Role.OPERATOR, "end it before its commit",
        cancelled, DONE, status=202,
    ),
    Route(
        "POST", "/actions/{id}/undo", "undo", Role.OPERATOR, "a proposal that takes it back",
        undone, DONE,
    ),
    Route(
        "GET", "/commands", "commands", Role.VIEWER, "what the engine was told, newest first",
        commands, page(COMMAND), params={"query": text(64, 1), **PAGED},
    ),
    Route(
        "GET", "/commands/{id}", "command", Role.VIEWER,
        "what became of a command; wait for its end, 20 s at most", command, COMMAND,
        params={"wait": number(0, 20, "seconds")},
    ),
)  # fmt: skip
