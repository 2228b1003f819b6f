"""What a place shows while it has nothing to show: empty, loading, failed, not allowed, stale."""

from __future__ import annotations

from typing import Any

from dash.development.base_component import Component

from app.components.kit import d, icon, s
from control.people import Role


def empty(
    title: str, text: Any = "", ic: str = "info", *, action: Any = None, c: str = ""
) -> Component:
    """Nothing there, and what would make something appear."""
    return d(icon(ic), s(title, c="b"), s(text) if text else None, action, c=f"state {c}".strip())


def failed(title: str, text: Any = "", *, action: Any = None) -> Component:
    return d(icon("octagon-x"), s(title, c="b"), s(text) if text else None, action, c="state fail")


def no_permission(needed: Role, role: Role, what: str = "This page") -> Component:
    """Who may not sees why, and who may."""
    text = f"It needs the role {needed}; you are {role}. An admin can change that."
    return d(icon("lock"), s(f"{what} is not for your role", c="b"), s(text), c="state page")


def not_allowed(needed: Role, role: Role) -> str:
    """The reason beside a button that is switched off."""
    return f"Needs the role {needed}; you are {role}."


def loading(height: int, c: str = "") -> Component:
    """A box of the size of what comes, so that nothing jumps."""
    return d(c=f"skel {c}".strip(), style={"height": f"{height}px"}, aria_hidden="true")
