"""docs/guide.md explains everything that an operator can meet, in the console's own words and figures.

A page, alert, blocker, refusal, shipped rule, figure, command or limit that is new, renamed or gone fails here.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from app.components.alert_texts import ADVICE
from app.components.metrics_help import HELP
from app.pages.all import pages
from app.pages.page import Page
from control.alerts import KINDS as ALERTS
from control.arbiter import Why
from control.handling.base import COMMAND_LIFE_S, FRESH_S
from control.handling.plans import DAILY_BYTES, DAILY_PAUSE_S, HOLD_S, PROPOSAL_LIFE_S
from control.interlock import STOPPED_S, Block
from control.limits import ON_REQUEST
from control.proposals import DRIFT_BYTES, DRIFT_SHARE
from control.rules import Rule, shipped_rules

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
WORDS = {2: "two", 10: "ten"}
# What a table row's first cell may be besides the arbiter's own reasons.
NOT_THE_ARBITERS = {"stale"}


@functools.cache
def section(title: str, level: int = 2) -> str:
    """The text below a heading, up to the next of its level or above."""
    heads = list(re.finditer(r"^(#+) (.+)$", GUIDE, re.M))
    at = next((m for m in heads if m[2] == title and len(m[1]) == level), None)
    assert at is not None, f"docs/guide.md has no heading {'#' * level} {title}"
    ends = (m.start() for m in heads if m.start() > at.start() and len(m[1]) <= level)
    return GUIDE[at.end() : next(ends, len(GUIDE))]


def titles(within: str) -> list[str]:
    return re.findall(r"^### (.+)$", section(within), re.M)


def kinds(within: str) -> list[str]:
    """First cells of a table that are code."""
    return re.findall(r"^\| `(\w+)` \|", section(within), re.M)


@functools.cache
def shown() -> str:
    """Every text that the console may show, as its sources have it."""
    sources = [*sorted((ROOT / "app").rglob("*.py")), *sorted((ROOT / "assets").glob("*.js"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in sources)


def test_every_page_has_its_part_and_no_page_has_two() -> None:
    assert titles("Pages") == [page.name for page in pages() if page.listed]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_a_page_is_found_where_the_guide_says(page: Page) -> None:
    begin = f"`{page.href}`, keys `g` `{page.key}`"
    assert section(page.name, 3).strip().startswith(begin), begin


def test_every_alert_has_its_part() -> None:
    assert set(ADVICE) == set(ALERTS)
    assert sorted(titles("Alerts")) == sorted(told.name for told in ADVICE.values())


@pytest.mark.parametrize("kind", ALERTS)
def test_an_alert_is_raised_and_ends_when_the_guide_says(kind: str) -> None:
    text, told = section(ADVICE[kind].name, 3), ALERTS[kind]
    assert text.strip().startswith(f"`{kind}`: ")
    assert f"Raised after {told.hold_s:g} s, ends after {told.clear_s:g} s." in _joined(text)
    assert "\nDo: " in text


def test_every_blocker_of_a_rule_is_told_once() -> None:
    assert sorted(kinds("What holds a rule")) == sorted(block.value for block in Block)


def test_every_refusal_is_told_once() -> None:
    assert sorted(kinds("Refusals")) == sorted({why.value for why in Why} | NOT_THE_ARBITERS)


def test_every_shipped_rule_is_told_with_its_mode() -> None:
    assert sorted(titles("Rules")) == sorted(rule.name for rule in shipped_rules())
    for shipped in shipped_rules():
        text = section(shipped.name, 3).strip()
        begin = {"off": "Off.", "propose": "On propose.", "auto": "On auto,"}[shipped.mode]
        assert text.startswith(begin), f"{shipped.name}: {text[:40]!r}"


def test_the_shipped_rules_do_what_the_guide_says() -> None:
    said = {rule.name: _joined(section(rule.name, 3)) for rule in shipped_rules()}
    assert f"Every {_every('best_gain'):g} s" in said["best_gain"]
    best = _rule("best_gain")
    assert (best.least_gain, best.least_confidence) == (2.0, 0.8)
    assert "twice its cost and 80 % sure" in said["best_gain"]
    assert f"every {_every('relocate'):g} s" in said["relocate"]
    even = _rule("demo_even")
    assert even.query == "demo" and f"`{even.query}` only" in said["demo_even"]
    assert f"every {even.cooldown_s:g} s" in said["demo_even"]
    assert _rule("night_cleanup").schedule.cron == "*/15 1-4 * * *"
    assert "Between 01:00 and 05:00 UTC, every quarter of an hour" in said["night_cleanup"]


def test_every_figure_is_told_once() -> None:
    told = re.findall(r"^\| ([^|]+?) \|", section("Figures"), re.M)[1:]
    found = [name for name in told if not name.startswith("-")]
    assert sorted(found) == sorted({one.name for one in HELP.values()})


def test_words_in_bold_are_the_consoles() -> None:
    """Names of buttons, panels and states, as they are on the screen."""
    bold = {re.sub(r"\s+", " ", text) for text in re.findall(r"\*\*([^*]+)\*\*", GUIDE)}
    assert len(bold) > 60
    prose = {"No row is lost by waiting", "all"}
    quoted = "[\"'`][^\"'`\\n]*"  # inside a literal, not in a comment or a name
    assert not {text for text in bold - prose if not re.search(quoted + re.escape(text), shown())}


def test_limits_are_those_of_the_code() -> None:
    text = _joined(GUIDE)
    assert f"may carry {DAILY_BYTES / 1e9:g} GB and hold input for {DAILY_PAUSE_S:g} s" in text
    assert f"rule for {WORDS[int(HOLD_S // 3600)]} hours" in text
    assert f"lapses {WORDS[int(PROPOSAL_LIFE_S // 60)]} minutes after" in text
    assert f"alone for {WORDS[int(STOPPED_S // 60)]} minutes" in text
    assert f"more than {FRESH_S:g} s ago" in text and f"older than {FRESH_S:g} s" in text
    assert COMMAND_LIFE_S == 60 and "within a minute is not carried out" in text
    assert (DRIFT_SHARE, DRIFT_BYTES) == (0.25, 16_000_000)
    assert "by more than a quarter and more than 16 MB" in text
    assert f"over {ON_REQUEST.receiver_fill_max:.0%} of its budget".replace("%", " %") in text


def test_links_lead_somewhere() -> None:
    heads = [re.sub(r"[^\w\- ]", "", h).replace(" ", "-").lower() for h in _heads()]
    twice = {f"{head}-{heads.count(head) - 1}" for head in heads if heads.count(head) > 1}
    wanted = re.findall(r"\]\(#([^)]+)\)", GUIDE)
    assert wanted and not [link for link in wanted if link not in {*heads, *twice}]
    files = re.findall(r"\]\(([\w./]+\.md)\)", GUIDE)
    assert files and not [name for name in files if not (ROOT / "docs" / name).is_file()]


def _heads() -> list[str]:
    return re.findall(r"^#+ (.+)$", GUIDE, re.M)


def _joined(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@functools.cache
def _rule(name: str) -> Rule:
    return next(rule for rule in shipped_rules() if rule.name == name)


def _every(name: str) -> float:
    every = _rule(name).schedule.every_s
    assert every is not None
    return every
