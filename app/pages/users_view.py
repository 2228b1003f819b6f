"""How Users looks: the list with a role for each, tokens, a new token that is shown once, one's sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from app.components import states
from app.components.kit import button, chip, d, dmc, icon, s, table
from app.components.units import duration, moment
from control.people import Role, Session, Token, User

# In this order: each browser says that it is some of those below it, too.
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (("Windows", "Windows"), ("Android", "Android"), ("iPhone", "iOS"), ("iPad", "iOS"), ("Mac OS", "macOS"),
           ("Linux", "Linux"))  # fmt: skip
MAY = {
    Role.VIEWER: "reads everything but users, settings and audit",
    Role.OPERATOR: "also spills, cleans up, moves, drains, pauses, holds, turns demo knobs, edits rules that propose",
    Role.ADMIN: "also registers queries, sets rules to auto, sets budgets, manages users",
}


def roles() -> list[Component]:
    return [d(s(role.value, c="b"), s(f" {text}"), c="k") for role, text in MAY.items()]


def users(found: Sequence[User], me: str, zone_min: int, now_s: float) -> Component:
    heads = [
        ("user", ""),
        ("role", ""),
        ("state", ""),
        ("added", "r"),
        ("last signed in", "r"),
        ("", "r"),
    ]
    rows = [
        _user(one, one.name == me, zone_min, now_s) for one in sorted(found, key=lambda u: u.name)
    ]
    return d(table(heads, rows), c="scroll-x")


def _user(user: User, is_me: bool, zone_min: int, now_s: float) -> list[Any]:
    label: Any = {"aria-label": f"Role of {user.name}"}
    choice = dmc.Select(
        id={"type": "users-role", "name": user.name}, data=[r.value for r in Role], value=user.role.value,
        size="xs", className="ctl us-r", allowDeselect=False, rightSection=icon("chevron-down"), **label,
    )  # fmt: skip
    state = chip("disabled", "mode-off", "ban") if user.disabled else s("can sign in", c="dim")
    return [
        s(s(user.name, c="b"), s(" you", c="k") if is_me else None, c="nowrap"),
        choice,
        state,
        s(moment(user.created_s, zone_min)[:10], c="nowrap"),
        _ago(user.seen_s, now_s, zone_min, "never"),
        d(*_buttons(user), c="td-b"),
    ]


def _buttons(user: User) -> list[Component]:
    kind, word = ("user.enable", "Enable") if user.disabled else ("user.disable", "Disable")
    return [
        _button("user.unlock", "Unlock", user.name, "Forget wrong passwords"),
        _button(kind, word, user.name, None),
    ]


def _button(kind: str, word: str, name: str, title: str | None) -> Component:
    at = {"type": "users-do", "kind": kind, "name": name}
    return button(word, id=at, title=title, aria_label=f"{word} {name}")


def _ago(time_s: float | None, now_s: float, zone_min: int, never: str) -> Component:
    if time_s is None:
        return s(never, c="dim")
    return s(
        f"{duration(max(0.0, now_s - time_s))} ago", c="num nowrap", title=moment(time_s, zone_min)
    )


TOKEN_HEADS = (
    ("token", ""),
    ("may do at most", ""),
    ("made", "r"),
    ("last used", "r"),
    ("good until", "r"),
    ("", "r"),
)


def tokens(found: Sequence[Token], zone_min: int, now_s: float) -> Component:
    """Those that are good first; what is over stays for a look back."""
    if not found:
        return states.empty("You have no token", "Make one for a script.", "fingerprint")
    known = sorted(found, key=lambda t: (not good(t, now_s), -t.created_s))
    rows = [_token(one, "users-revoke", zone_min, now_s) for one in known]
    return d(table(TOKEN_HEADS, rows), c="scroll-x")


def all_tokens(found: Sequence[Token], zone_min: int, now_s: float) -> Component:
    """Of every user, those that are good."""
    known = sorted((t for t in found if good(t, now_s)), key=lambda t: (t.user, -t.created_s))
    if not known:
        return states.empty("There is no token", "Nobody has one that is good now.", "fingerprint")
    rows = [
        [s(one.user, c="nowrap"), *_token(one, "users-revoke-any", zone_min, now_s)]
        for one in known
    ]
    return d(table((("user", ""), *TOKEN_HEADS), rows), c="scroll-x")


def sessions(found: Sequence[Session], here: str, zone_min: int, now_s: float) -> Component:
    """Where one is signed in; `here` is the session that asks."""
    heads = (("browser", ""), ("address", ""), ("since", "r"), ("last used", "r"), ("", "r"))
    first = sorted(found, key=lambda one: (one.id_hash != here, -one.active_s))
    rows = [_session(one, one.id_hash == here, zone_min, now_s) for one in first]
    return d(table(heads, rows), c="scroll-x")


def _session(session: Session, is_here: bool, zone_min: int, now_s: float) -> list[Any]:
    at = {"type": "users-session-end", "session": session.id_hash}
    name = browser(session.agent)
    end = button("End", id=at, aria_label=f"End the session of {name} at {session.address}")
    return [
        s(
            s(name, c="b", title=session.agent),
            s(" this one", c="k") if is_here else None,
            c="nowrap",
        ),
        s(session.address, c="num"),
        s(moment(session.created_s, zone_min), c="nowrap"),
        _ago(session.active_s, now_s, zone_min, "never"),
        d(None if is_here else end, c="td-b"),
    ]


def browser(agent: str) -> str:
    """What it calls itself, in two words."""
    name = next((name for mark, name in BROWSERS if mark in agent), "")
    system = next((name for mark, name in SYSTEMS if mark in agent), "")
    if not name:
        return agent.split("/")[0][:40] or "unknown browser"
    return f"{name} on {system}" if system else name


def good(token: Token, now_s: float) -> bool:
    return token.revoked_s is None and (token.expires_s is None or token.expires_s > now_s)


def _token(token: Token, revoke_type: str, zone_min: int, now_s: float) -> list[Any]:
    if token.revoked_s is not None:
        until: Any = chip("revoked", "mode-off", "ban")
    elif token.expires_s is None:
        until = s("the next start", c="dim", title="A start of the console sets its end.")
    elif token.expires_s <= now_s:
        until = chip("expired", "mode-off", "clock")
    else:
        until = s(
            moment(token.expires_s, zone_min)[:10],
            c="nowrap",
            title=f"in {duration(token.expires_s - now_s)}",
        )
    at = {"type": revoke_type, "token": token.id}
    revoke = (
        button("Revoke", id=at, aria_label=f"Revoke {token.name}") if good(token, now_s) else None
    )
    return [
        s(token.name, c="b"),
        token.scope.value,
        s(moment(token.created_s, zone_min)[:10], c="nowrap"),
        _ago(token.used_s, now_s, zone_min, "never"),
        until,
        d(revoke, c="td-b"),
    ]


def made(plain: str) -> Component:
    """The only time that it is seen."""
    return d(
        d(icon("check"), s("Copy it now: it is shown this once and kept only as a hash."), c="ck"),
        d(
            html.Code(plain, className="us-token mono"),
            dcc.Clipboard(content=plain, className="us-copy", title="Copy the token"),
            c="us-made",
        ),
        d(
            s("For ctl and curl: ", c="k"),
            html.Code("Authorization: Bearer …", className="mono"),
            c="k",
        ),
    )
