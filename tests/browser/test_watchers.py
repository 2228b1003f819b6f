"""The watchers' benchmark in small: real polls recorded and asked again by five sessions; no time is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.made import PASSWORD
from tests.bench.replay import Account, Poll, Recording, Session, record, replay
from tests.bench.watchers import PATHS, RSS_MB_MOST, SMALL, bars, over_a_full_store, write
from tests.browser.stage import Stage

ABOUT = {"cores": 1, "memory_gib": 1, "commit": "", "load": 0.0}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_five_watchers_in_small(tmp_path: Path) -> None:
    scale = replace(SMALL, nodes=4, groups=120)
    one = over_a_full_store(tmp_path / "store", scale, 5, 6.0, record_s=6.0, idle_s=1.0)
    assert not one.errors
    assert [page.path for page in one.pages] == list(PATHS)
    assert all(page.polls_per_s >= 0.5 for page in one.pages), (
        "the shell's and the page's, every 2 s"
    )
    assert one.requests >= 5 * 2
    assert 0 < one.p50_ms <= one.p95_ms <= one.p99_ms <= one.most_ms
    assert 0 < one.rss_first_mb <= one.under.rss_mb < RSS_MB_MOST
    assert len(one.charts_s) == len(PATHS)
    path = write("in small", one, tmp_path / "watchers.md", ABOUT, "a test")
    for name, measured, wanted, _ in bars(one):
        assert f"| {name} | {measured} | {wanted} |" in path.read_text()
    assert json.loads(path.with_suffix(".json").read_text())["run"]["watchers"] == 5


def test_what_answers_tell_a_page_to_remember_is_sent_back(stage: Stage) -> None:
    """Without its cursor a page would be sent its charts as a whole each time."""
    poll = _overview(stage)
    session = Session(stage.url, Account("olga", PASSWORD))
    whole = _asked(session, poll)
    stage.tick(5.0)
    more = _asked(session, poll)
    assert 0 < more < whole / 2


def test_a_session_that_is_refused_says_so(stage: Stage) -> None:
    session = Session(stage.url, Account("olga", PASSWORD))
    odd = Poll(0.0, {"output": "nothing.children", "inputs": [], "changedPropIds": []})
    tally = replay([session], [Recording("/overview", 1.0, (odd,))], 1.5)
    assert tally.errors
    assert tally.errors[0].startswith("403 for nothing.children")


def _overview(stage: Stage) -> Poll:
    """The page's own poll, as a browser that has just been opened sends it."""
    (recording,) = record(stage.url, Account("olga", PASSWORD), ["/overview"], 5.0)
    found = next(p for p in recording.polls if "overview-strip.children" in p.body["output"])
    return Poll(
        0.0, {**found.body, "state": [{**one, "value": None} for one in found.body["state"]]}
    )


def _asked(session: Session, poll: Poll) -> int:
    """How many bytes the answer has."""
    before = session.tally.bytes
    session._poll(poll.body, 0.0)
    assert not session.tally.errors
    return session.tally.bytes - before
