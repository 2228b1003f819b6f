"""/proposals: a plan with its preview, made, read, carried out exactly as previewed, or dropped."""

from __future__ import annotations

from typing import Any

from app.api.schema import BOOL, array, both, number, obj, one_of, page, text, whole
from app.api.shapes import schema_of, shown
from app.api.table import DONE, PAGED, Call, Route, paged
from app.problems import Problem
from control.ledger import Proposal, ProposalState
from control.people import Role
from control.plans import AUTO, KINDS, STRATEGIES

GROUPS_MAX = 100_000
STEPS_MAX = 1_000
PROPOSAL = schema_of(Proposal)
SHORT = schema_of(Proposal, ("fingerprint",))


def listed(call: Call) -> dict[str, Any]:
    params, limit = call.params, call.limit
    rows = call.store.proposals.page(
        before=params.get("cursor"),
        most=limit + 1,
        query=params.get("query", ""),
        state=params.get("state", ""),
    )
    return paged(rows, limit, "id", lambda row: shown(row, ("fingerprint",)))


def one(call: Call) -> dict[str, Any]:
    found = call.store.proposals.find(call.path["id"])
    if found is None:
        raise Problem("missing", f"There is no proposal {call.path['id']!r}.")
    return shown(found)


def made(call: Call) -> dict[str, Any]:
    return call.do("propose", call.body, call.path["query"])


def made_of_steps(call: Call) -> dict[str, Any]:
    return call.do("propose.steps", call.body, call.path["query"])


def drain(call: Call) -> dict[str, Any]:
    return call.do("drain", call.body, call.path["query"])


def applied(call: Call) -> dict[str, Any]:
    return call.do("apply", {"proposal": call.path["id"], **call.body})


def dismissed(call: Call) -> dict[str, Any]:
    return call.do("dismiss", {"proposal": call.path["id"]})


REQUEST = obj(
    {"do": one_of(list(KINDS))},
    {
        "node": whole(0, 1_000_000, "a move's sender; of a migrate: none"),
        "order": text(
            2_000, 1, help="of a migrate: as join_order in a query file; without: the best there is"
        ),
        "strategy": one_of(
            [AUTO, *STRATEGIES], help="of a migrate: without: auto, the recommended one"
        ),
        "to": whole(0, 1_000_000, "a move's receiver"),
        "operator": text(200, 1),
        "groups": array(whole(0, 10_000_000), GROUPS_MAX, 1),
        "percent": number(0, 100, "of the node's state"),
        "bytes": whole(0),
    },
)
PART = both(text(200, 1), array(whole(0, 10_000_000), GROUPS_MAX, 1))  # [operator, [groups]]
STEP = obj(
    {"do": one_of(list(KINDS))},
    {
        "order": text(2_000),
        "strategy": one_of([AUTO, *STRATEGIES]),
        "node": whole(0, 1_000_000),
        "source": whole(0, 1_000_000),
        "target": whole(0, 1_000_000),
        "bytes": whole(0),
        "parts": array(PART, 1_000, 1),
    },
)
ROUTES = (
    Route(
        "GET", "/proposals", "proposals", Role.VIEWER, "proposals, newest first", listed,
        page(SHORT), params={"query": text(64, 1), "state": one_of(ProposalState), **PAGED},
    ),
    Route("GET", "/proposals/{id}", "proposal", Role.VIEWER, "one with its preview", one, PROPOSAL),
    Route(
        "POST", "/queries/{query}/proposals", "propose", Role.OPERATOR,
        "propose a spill, clean-up, move or budget: by groups, percent or bytes; or another join order", made, DONE,
        body=REQUEST,
    ),
    Route(
        "POST", "/queries/{query}/proposals/steps", "propose_steps", Role.OPERATOR,
        "propose several steps as one", made_of_steps, DONE,
        body=obj({"steps": array(STEP, STEPS_MAX, 1)}),
    ),
    Route(
        "POST", "/queries/{query}/drain", "drain", Role.OPERATOR,
        "propose to move everything off a node", drain, DONE,
        body=obj({"node": whole(0, 1_000_000)}),
    ),
    Route(
        "POST", "/proposals/{id}/apply", "apply", Role.OPERATOR,
        "carry it out exactly as previewed; stale ones are refused with the drift", applied, DONE,
        body=obj({}, {"override": {**BOOL, "description": "of the day's budget; admins"}}),
        status=202, confirm=True,
    ),
    Route(
        "POST", "/proposals/{id}/dismiss", "dismiss", Role.OPERATOR, "drop it", dismissed, DONE
    ),
)  # fmt: skip
