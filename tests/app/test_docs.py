"""docs/api.md names every verb, error, metric, event and header there is, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from app.auth import DELAY_S_MAX, FREE_TRIES
from app.ctl import VERBS
from app.problems import KINDS
from app.sessions import CSRF_HEADER
from app.settings import ConsoleSettings
from app.users_cli import ACTIONS
from app.webhooks import DELAYS_S
from control.handling.upkeep import EVENTS
from control.people import Role
from tests.app.made import Console, action_row

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_verb_of_ctl() -> None:
    named = set(re.findall(r"`ctl ([a-z]+(?: [a-z]+)?)(?: [A-Z]+)?`", TEXT))
    assert named == {verb.name for verb in VERBS}


def test_every_error_with_its_status() -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| `/api#")]
    told = {kind: row[2] for row in rows for kind in re.findall(r"`/api#([a-z-]+)`", row[1])}
    assert set(told) == set(KINDS)
    for kind, statuses in told.items():
        assert str(KINDS[kind][0]) in statuses, kind


def test_every_metric(running: Console) -> None:
    running.store.actions.keep([action_row("a", running.clock(), over=False)])
    shown = running.call("GET", "/metrics", Role.VIEWER).text
    served = set(re.findall(r"^# TYPE (\w+) ", shown, re.M))
    assert set(re.findall(r"`(spillway_(?!csrf)\w+)`", TEXT)) == served


def test_events_users_and_figures() -> None:
    section = TEXT.partition("## Webhooks")[2]
    assert set(re.findall(r"`([a-z]+\.[a-z]+)`", section)) == set(EVENTS)
    for action in ACTIONS:
        assert f"`{action}`" in TEXT or f"user {action} " in TEXT, action
    assert CSRF_HEADER in TEXT
    settings = ConsoleSettings()
    assert (settings.idle_s, settings.absolute_s, settings.confirm_s) == (3_600, 43_200, 900)
    assert "an hour after" in TEXT
    assert "twelve hours after" in TEXT
    assert "within 15 minutes" in TEXT
    assert (FREE_TRIES, DELAY_S_MAX) == (5, 900)
    assert list(DELAYS_S) == [10, 60, 300, 1_800, 7_200, 21_600]
    assert "10 s, 1 min, 5 min, 30 min,\n2 h and 6 h" in TEXT
