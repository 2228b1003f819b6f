"""Actions: the ledger of what was and is done, one action opened beside it, and the proposals that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import ALL, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from app.callbacks import Callbacks
from app.components import states
from app.components.charts import Ink
from app.components.kit import button, d, icon, panel, s
from app.components.reasons import refused
from app.components.steps import said_plan
from app.components.units import duration
from app.desk import act, feed, may, role
from app.feed import TICK_S, Feed
from app.pages import actions_drawer as drawer
from app.pages import actions_figures
from app.pages.actions_drawer import Opened
from app.pages.actions_ledger import Wanted, chosen, line, pages_of
from app.pages.actions_view import ledger, opened_drawer, tools
from app.pages.page import POLLED, Page, Seen, look, mark
from app.parts import parts
from control.kinds import KINDS as COMMANDS
from control.ledger import ActionRow, CommandState, Proposal
from control.people import Role

ID_LENGTH_MAX = 100
PROPOSALS_MAX = 20
WAITING_MAX = 20
EFFECT_POINTS = 160
LESSONS_MAX = 12
PAGE = Page(
    "actions",
    "Actions",
    "list-checks",
    "a",
    order=50,
    count=lambda found, query: _running(found, query),
)


def _running(found: Feed, query: str) -> Any:
    count = len(found.running(query))
    return s(str(count), c="held", aria_label=f"{count} running") if count else None


def layout(action: str = "", **asked: Any) -> Component:
    wanted = Wanted.of(asked)
    opened = str(action)[:ID_LENGTH_MAX]
    return d(
        html.H1("Actions", className="sr"),
        d(
            d(tools(wanted), ledger(), c="ac-left"),
            d(
                panel(
                    "Waits for the engine",
                    d(id="actions-waiting"),
                    id="actions-waiting-box",
                    hidden=True,
                ),
                panel(
                    "Open proposals",
                    d(states.loading(64), id="actions-proposals"),
                    sub="nothing has happened yet",
                ),
                c="ac-right",
            ),
            c="ac",
        ),
        opened_drawer(opened),
        d(data_kept="actions-action actions-drawer action", hidden=True),
        dcc.Store(id="actions-asked"),
        dcc.Store(id="actions-action", data=opened),
        dcc.Store(id="actions-mark"),
        dcc.Store(id="actions-open-mark"),
        dcc.Store(id="actions-told"),
        dcc.Store(id={"type": "propose", "page": "actions"}),
        dcc.Store(id={"type": "propose", "page": "actions-open"}),
    )


def register(on: Callbacks) -> None:
    filters = [Input(f"actions-{name}", "value") for name in ("state", "kind", "by", "find")]
    on.in_browser("asked", Output("actions-asked", "data"), *filters)
    on.in_browser(
        "opened",
        Output("actions-action", "data"),
        Output("actions-drawer", "opened"),
        Output("actions-grid", "selectedRows"),
        Input("actions-grid", "cellClicked"),
        Input("actions-grid", "selectedRows"),
        Input("actions-drawer", "opened"),
        State("actions-action", "data"),
        prevent_initial_call=True,
    )
    on.callback(
        Role.VIEWER,
        Output("actions-grid", "rowData"),
        Output("actions-count", "children"),
        Output("actions-older", "hidden"),
        Output("actions-newest", "hidden"),
        Output("actions-csv", "href"),
        Output("actions-proposals", "children"),
        Output("actions-waiting", "children"),
        Output("actions-waiting-box", "hidden"),
        Output("actions-mark", "data"),
        *POLLED,
        Input("actions-asked", "data"),
        Input("actions-older", "n_clicks"),
        Input("actions-newest", "n_clicks"),
        Input("actions-told", "data"),
        State("actions-grid", "rowData"),
        State("actions-mark", "data"),
        polls=True,
    )(_page)
    on.callback(
        Role.VIEWER,
        Output("actions-top", "children"),
        Output("actions-effect", "figure"),
        Output("actions-effect-box", "hidden"),
        Output("actions-history", "children"),
        Output("actions-foot", "children"),
        Output("actions-open-mark", "data"),
        *POLLED,
        Input("actions-action", "data"),
        Input("actions-told", "data"),
        State("actions-open-mark", "data"),
        polls=True,
    )(_opened)
    on.callback(
        Role.OPERATOR,
        Output({"type": "propose", "page": "actions"}, "data"),
        Output("actions-told", "data"),
        Input({"type": "actions-do", "do": ALL}, "n_clicks"),
        Input({"type": "actions-dismiss", "id": ALL}, "n_clicks"),
        State("actions-action", "data"),
        prevent_initial_call=True,
    )(_do)
    on.callback(
        Role.VIEWER,
        Output({"type": "propose", "page": "actions-open"}, "data"),
        Input({"type": "actions-proposal", "id": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )(_show)


# -- ledger --------------------------------------------------------------------------------------------


def _page(
    _: int, view: Any, asked: Any, __: int, ___: int, told: Any, shown: Any, before: Any
) -> list[Any]:
    """A poll redraws nothing that is as it was; older pages stay where they are."""
    seen = look(view)
    kept = before if isinstance(before, dict) else {}
    cursor = _cursor(shown, kept)
    wanted = Wanted.of({**(asked if isinstance(asked, dict) else {}), "before": cursor})
    rows, more = _rows(seen, wanted)
    lines = [line(row, seen.now_s, seen.view.zone_min) for row in rows]
    proposals, waiting = _proposals(seen), _waiting(seen)
    csv = (
        f"/api/v1/export/actions.csv?query={seen.name}"
        if seen.name
        else "/api/v1/export/actions.csv"
    )
    drawn = [
        mark(lines, wanted.everything),
        mark(proposals_mark(proposals, seen), may("dismiss")),
        mark(waiting),
    ]
    same = [a == b for a, b in zip(drawn, kept.get("drawn", [None] * 3), strict=True)]
    now = {"before": cursor, "drawn": drawn}
    return [
        no_update if same[0] else lines,
        _count(len(lines), more, wanted, seen),
        not more,
        not cursor,
        csv,
        no_update if same[1] else _proposal_lines(proposals, seen),
        no_update if same[2] else [_waiting_line(*one) for one in waiting],
        not waiting,
        no_update if now == kept else now,
    ]


def _cursor(shown: Any, kept: dict[str, Any]) -> str:
    """Older: than the last row that is shown. Another filter begins at the newest."""
    if ctx.triggered_id == "actions-older" and isinstance(shown, list) and shown:
        return str(shown[-1].get("id", ""))[:ID_LENGTH_MAX]
    if ctx.triggered_id in ("actions-newest", "actions-asked"):
        return ""
    return str(kept.get("before", ""))[:ID_LENGTH_MAX]


def _rows(seen: Seen, wanted: Wanted) -> tuple[list[ActionRow], bool]:
    def read() -> tuple[list[ActionRow], bool]:
        return chosen(wanted, pages_of(parts().store.actions, wanted, seen.name))

    return feed().kept(("ledger", seen.name, wanted), TICK_S, read)


def _count(count: int, more: bool, wanted: Wanted, seen: Seen) -> str:
    what = f"{count}{'+' if more else ''} of {seen.name}" if seen.name else "no query"
    if wanted.before:
        what += ", older ones"
    if wanted.by not in ("nodes", "every"):
        what += "; nodes' own spills are left out"
    return what if wanted.everything else f"{what}; filtered"


def _waiting(seen: Seen) -> list[tuple[str, str, str, float]]:
    """Commands that the engine has not ended: they queue while it is gone."""
    rows = feed().kept(
        ("waiting", seen.name), TICK_S,
        lambda: parts().store.commands.page(query=seen.name, most=WAITING_MAX),
    )  # fmt: skip
    queued = (CommandState.QUEUED, CommandState.TAKEN)
    return [
        (row.kind, row.user, str(row.state), row.expires_s) for row in rows
        if row.state in queued and (row.state is CommandState.TAKEN or row.expires_s > seen.now_s)
    ]  # fmt: skip


def _waiting_line(kind: str, user: str, state: str, expires_s: float) -> Component:
    left = max(0.0, expires_s - feed().now_s())
    word = (
        "taken by the engine"
        if state == "taken"
        else f"lapses in {duration(left)} if no engine takes it"
    )
    return d(icon("clock"), s(kind, c="b"), s(f" by {user}, {word}"), c="p-row")


# -- proposals -----------------------------------------------------------------------------------------


def _proposals(seen: Seen) -> list[Proposal]:
    rows = feed().kept(
        ("proposals", seen.name), TICK_S,
        lambda: parts().store.proposals.page(query=seen.name, state="open", most=PROPOSALS_MAX),
    )  # fmt: skip
    return [row for row in rows if row.expires_s > seen.now_s]


def proposals_mark(rows: Sequence[Proposal], seen: Seen) -> Any:
    """They are drawn anew every ten seconds: how long they still hold is in them."""
    return [(row.id, round((row.expires_s - seen.now_s) / 10)) for row in rows]


def _proposal_lines(rows: Sequence[Proposal], seen: Seen) -> list[Component]:
    if not rows:
        return [
            states.empty(
                "None is open", "Rules that propose, and people, put them here.", "list-checks"
            )
        ]
    return [_proposal(row, seen) for row in rows]


def _proposal(row: Proposal, seen: Seen) -> Component:
    why = "" if may("dismiss") else states.not_allowed(COMMANDS["dismiss"].role, role())
    by = f"rule {row.rule}" if row.rule else row.user
    ago, left = duration(seen.now_s - row.created_s), duration(row.expires_s - seen.now_s)
    chance = row.preview.get("whole", {}).get("chance")
    sure = f" · {round(100 * chance)} % sure it gains" if isinstance(chance, int | float) else ""
    return d(
        html.Div(said_plan(row.plan), className="ac-pr-t"),
        d(f"{by}, {ago} ago · lapses in {left}{sure}", c="k"),
        d(
            button("Preview", "", "eye", id={"type": "actions-proposal", "id": row.id}),
            button("Dismiss", "bare", "x", id={"type": "actions-dismiss", "id": row.id},
                   disabled=bool(why), title=why),
            s(why, c="k") if why else None,
            c="ac-pr-b",
        ),
        c="ac-pr",
    )  # fmt: skip


def _show(_: list[Any]) -> Any:
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not ctx.triggered[0]["value"]:
        return no_update
    return {"proposal": str(pressed["id"])}


# -- one action ----------------------------------------------------------------------------------------


def _opened(_: int, view: Any, name: Any, told: Any, before: Any) -> list[Any]:
    if not isinstance(name, str) or not name:
        return [no_update] * 6
    seen = look(view)
    opened = _read(name[:ID_LENGTH_MAX], seen, told)
    if opened is None:
        return [drawer.missing(name), no_update, True, None, None, name]
    row = opened.row
    settled = actions_figures.settled(row, seen.now_s)
    now = mark(
        row, opened.told, opened.lessons, seen.view.theme, seen.view.zone_min, settled or seen.now_s
    )
    if now == before:
        return [no_update] * 6
    still = mark(row, opened.told, opened.lessons, seen.view.zone_min, row.ended_s or seen.now_s)
    kept = before.split(" ") if isinstance(before, str) else []
    same = len(kept) == 2 and kept[1] == still
    figure = _effect(row, seen)
    drawn = [no_update] * 3 if same else [
        drawer.top(opened), drawer.history(opened.action, seen.view.zone_min), drawer.foot(opened),
    ]  # fmt: skip
    return [drawn[0], figure, False, drawn[1], drawn[2], f"{now} {still}"]


def _read(name: str, seen: Seen, told: Any) -> Opened | None:
    store = parts().store
    row = store.actions.find(name)
    if row is None:
        return None
    command = store.commands.find(row.command) if row.command else None
    proposal = store.proposals.find(command.proposal) if command and command.proposal else None
    lessons = store.learning.page(action=name, most=LESSONS_MAX)
    said = told.get("text", "") if isinstance(told, dict) and told.get("action") == name else ""
    return Opened(row, command, proposal, lessons, seen.view, seen.now_s, role(), str(said))


def _effect(row: ActionRow, seen: Seen) -> dict[str, Any]:
    since_s, until_s = actions_figures.window_of(row, seen.now_s)
    metrics = parts().store.metrics

    def read() -> Any:
        span = row.query, since_s, until_s, EFFECT_POINTS
        return metrics.node_series(*span), metrics.query_series(*span)

    nodes, query = feed().kept(("effect", row.id, row.ended_s, round(until_s)), 60.0, read)
    return actions_figures.effect(
        row,
        nodes,
        query,
        seen.now_s,
        Ink(seen.view.theme, seen.stale and row.ended_s is None),  # what is over is not old
    )


def _do(_: list[Any], __: list[Any], name: Any) -> tuple[Any, Any]:
    pressed = ctx.triggered_id
    if not isinstance(pressed, dict) or not ctx.triggered[0]["value"]:
        return no_update, no_update
    if pressed["type"] == "actions-dismiss":
        answer = act("dismiss", {"proposal": str(pressed["id"])})
        return (no_update if answer.accepted else refused(answer)), {"text": answer.text}
    if pressed["do"] == "undo":
        answer = act("undo", {"action": str(name)})
        return ({"proposal": answer.id} if answer.accepted else refused(answer)), no_update
    answer = act("cancel", {"action": str(name)})
    return no_update, {"action": str(name), "text": answer.text, "at": feed().now_s()}
