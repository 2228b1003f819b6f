"""The frame's callbacks: what is looked at, counts in the navigation, processes, hold, who is signed in."""

from __future__ import annotations

from typing import Any

from dash import ALL, Input, Output, State, ctx, html, no_update

from app.callbacks import Callbacks
from app.components import states
from app.components.kit import d, s
from app.components.units import clock, duration
from app.desk import act, feed, may, role
from app.feed import Feed, Hold
from app.guard import who
from app.health import Alive
from app.pages.all import pages
from app.pages.page import Seen, look, mark
from app.problems import Problem
from control.kinds import KINDS
from control.ledger import QueryRow
from control.people import Role
from control.rules import Mode

COUNTS = {"type": "nav-count", "page": ALL}


def register(on: Callbacks) -> None:
    on.in_browser(
        "view",
        Output("view", "data"),
        Output("tb-query", "data"),
        Output("tb-query", "value"),
        Output("tb-range", "value"),
        Output("tb-refresh", "value"),
        Output("tb-zone", "value"),
        Output("poll", "interval"),
        Output("poll", "disabled"),
        Output("tb-pause", "aria-pressed"),
        Output("mantine", "forceColorScheme"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("tb-query", "value"),
        Input("tb-range", "value"),
        Input("tb-refresh", "value"),
        Input("tb-zone", "value"),
        Input("tb-pause", "n_clicks"),
        Input("theme", "data"),
        Input("known", "data"),
        State("view", "data"),
    )
    nav = {"type": "nav", "page": ALL}
    on.in_browser("here", Output(nav, "className"), Input("url", "pathname"), State(nav, "id"))
    on.in_browser(
        "live", Output("live-done", "title"), Input("beat", "data"), Input("view", "data")
    )
    themes = [Input(f"theme-{name}", "n_clicks") for name in ("auto", "light", "dark")]
    on.in_browser("theme", Output("theme", "data"), *themes)
    on.in_browser("keys", Output("keys-on", "checked"), Input("keys-on", "checked"))
    on.in_browser("out", Output("keys-done", "title"), Input("sign-out", "n_clicks"))
    on.in_browser(
        "toggled", Output("help", "opened"), Input("help-open", "n_clicks"), State("help", "opened")
    )
    _register_served(on)


def _register_served(on: Callbacks) -> None:
    """What the server answers."""
    # Not with the rest: what is chosen depends on the names, and the rest on what is chosen.
    on.callback(
        Role.VIEWER,
        Output("known", "data"),
        Input("url", "pathname"),
        Input("names-poll", "n_intervals"),
        polls=True,
    )(_names)
    on.callback(
        Role.VIEWER,
        Output("beat", "data"),
        Output("nav-procs", "children"),
        Output("shell-mark", "data"),
        Output(COUNTS, "children"),
        Output("tb-note", "children"),
        Output("hold", "aria-checked"),
        Output("hold", "disabled"),
        Output("hold", "title"),
        Output("hold-note", "children"),
        Output("hold-note", "className"),
        Output("user-name", "children"),
        Output("user-role", "children"),
        Output("frame", "className"),
        Input("poll", "n_intervals"),
        Input("view", "data"),
        Input("hold-done", "data"),
        State("shell-mark", "data"),
        polls=True,
    )(_shell)
    on.callback(
        Role.OPERATOR,
        Output("hold-done", "data"),
        Input("hold", "n_clicks"),
        State("hold", "aria-checked"),
        prevent_initial_call=True,
    )(_hold)


def _names(_: str, __: int) -> list[str]:
    """Of the queries that can be chosen."""
    return [row.name for row in feed().queries()]


def _shell(_: int, view: Any, __: Any, before: Any) -> list[Any]:
    """Everything that the frame shows; what has not changed since is not sent again."""
    seen, found = look(view), feed()
    beat = {"age_s": seen.fresh.age_s, "mode": _mode(seen)}
    counts = [
        page.count(found, seen.name) if page.count else None for page in _listed(ctx.outputs_list)
    ]
    hold, user = found.hold(), who()
    running = _automatic(found)
    told = [
        counts,
        _note(seen.query),
        "true" if hold else "false",
        not may("hold"),
        _hold_title(hold),
        _hold_note(hold, running, seen),
        "hold-note on" if hold else "hold-note",
        user.user.name,
        str(user.actor.role),
        "app stale" if seen.stale else "app",
    ]
    now = mark(told)
    always = [beat, _processes(found, seen)]
    if now == before:
        return [*always, no_update, [no_update] * len(counts), *[no_update] * 9]
    return [*always, now, *told]


def _listed(outputs: Any) -> list[Any]:
    """Pages in the order in which the browser asks for their counts."""
    known = {page.path: page for page in pages()}
    wanted = next(one for one in outputs if isinstance(one, list))
    return [known[one["id"]["page"]] for one in wanted if one["id"]["page"] in known]


def _mode(seen: Seen) -> str:
    if seen.sample is None:
        return "none"
    if seen.stale:
        return "stale"
    return "live" if seen.query is not None and seen.query.state == "running" else "still"


def _note(row: QueryRow | None) -> str:
    """What the query is made of: 3 streams · 1 operator · 256 groups."""
    if row is None:
        return ""
    about = row.about
    parts = []
    for name, one in (("streams", "stream"), ("operators", "operator")):
        count = len(about.get(name) or ())
        if count:
            parts.append(f"{count} {one}{'' if count == 1 else 's'}")
    if isinstance(about.get("groups"), int):
        parts.append(f"{about['groups']} groups")
    return " · ".join(parts) or row.state


def _processes(found: Feed, seen: Seen) -> list[Any]:
    started = {beat.process: beat.started_s for beat in found.beats()}
    return [_process(alive, started.get(alive.process), seen) for alive in found.processes()]


def _process(alive: Alive, started_s: float | None, seen: Seen) -> Any:
    if alive.stale:
        note, tone = "no answer", " fail"
    elif alive.process == "engine" and seen.sample is not None:
        note, tone = f"tick {seen.sample.version}", ""
    else:
        up_s = seen.now_s - started_s if started_s is not None else None
        note, tone = f"up {_up(up_s)}" if up_s is not None else "up", ""
    dot = html.I(className=f"pdot{tone}")
    return d(dot, s(alive.process), s(note, c=f"pr-n{tone}"), c="pr")


def _up(seconds: float) -> str:
    """In whole minutes: nobody wants to see seconds pass here."""
    return f"{int(seconds // 60)} min" if seconds < 7_200 else duration(seconds)


def _automatic(found: Feed) -> int:
    return sum(1 for row in found.rules() if row.mode == Mode.AUTO)


def _hold_title(hold: Hold | None) -> str:
    if not may("hold"):
        return states.not_allowed(KINDS["hold"].role, role())
    if hold:
        return "Let rules act again"
    return "No new automatic actions for two hours; what runs goes on"


def _hold_note(hold: Hold | None, automatic: int, seen: Seen) -> str:
    if hold:
        return f"by {hold.by} until {clock(hold.until_s, seen.view.zone_min, seconds=False)}"
    return f"{automatic} auto rule{'' if automatic == 1 else 's'}"


def _hold(clicks: int, checked: str) -> Any:
    """What the switch did not show is not taken back: two people may click at once."""
    if not clicks:
        return no_update
    answer = act("release" if checked == "true" else "hold")
    if not answer.accepted:
        raise Problem("refused", answer.text)
    return clicks
