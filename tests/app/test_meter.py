"""Readings that take long are worked out once for all, and no asker takes the processor from the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.advice import RecordedAdvice
from app.guard import asker
from app.meter import OF_ALL, OF_ONE, Meter
from app.problems import Problem
from app.server import make_app
from control.people import Role
from tests.app.made import QUERY, Clock, Console, begin, heard, with_query

MENU_S = 0.16  # what a menu or a list of orders takes of a core where nodes and groups are many


class Cpu:
    """Each thing that is worked out takes as long as a test says: the meter asks before and after."""

    def __init__(self) -> None:
        self.asked, self.each_s = 0, MENU_S

    def __call__(self) -> float:
        self.asked += 1
        return (self.asked // 2) * self.each_s

    @property
    def worked_out(self) -> int:
        return self.asked // 2


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


@pytest.fixture
def dear(tmp_path: Path, cpu: Cpu) -> Iterator[Console]:
    """A console whose advice takes long, whatever the machine."""
    made = begin(tmp_path)
    advice = RecordedAdvice(made.store, Meter(made.clock, cpu), asker)
    made.app = make_app(
        made.store,
        made.app.extensions["spillway"].dispatcher,
        made.settings,
        made.clock,
        advice=advice,
        passwords=made.passwords,
    )
    with_query(made)
    yield made
    made.store.close()


def asked(console: Console, path: str, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return console.browser().get(f"/api/v1/queries/{QUERY}{path}", headers=headers)


def test_one_asker_meets_the_limit_and_others_do_not(dear: Console) -> None:
    greedy, other = dear.token(Role.VIEWER), dear.token(Role.VIEWER)
    answers = []
    for number in range(100):
        answers.append(asked(dear, f"/orders?order=a{number}", greedy))
        if answers[-1].status_code == 429:
            break
        heard(dear)
        dear.clock.pause(0.01)
        answers[-1] = asked(dear, "/menu", greedy)
    assert answers[-1].status_code == 429
    assert OF_ONE.most_s / MENU_S - 2 < len(answers) * 2 < 2.5 * OF_ONE.most_s / MENU_S + 2
    problem = answers[-1].get_json()
    assert problem["type"] == "/api#busy" and "try again" in problem["detail"]
    heard(dear)
    assert asked(dear, "/menu", other).status_code == 200
    assert asked(dear, "/now", greedy).status_code == 200, "what is only read is not limited"
    dear.clock.pause(float(answers[-1].headers["Retry-After"]))
    heard(dear)
    assert asked(dear, "/menu", greedy).status_code == 200


def test_all_together_meet_the_limit(dear: Console, cpu: Cpu) -> None:
    cpu.each_s = 1.0
    tokens = [dear.token(Role.VIEWER) for _ in range(10)]
    statuses = []
    for _ in range(10):
        for token in tokens:
            dear.clock.pause(0.001)
            heard(dear)
            statuses.append(asked(dear, "/menu", token).status_code)
        if 429 in statuses:
            break
    good = statuses.count(200)
    assert 429 in statuses and OF_ALL.most_s <= good <= OF_ALL.most_s + 1


def test_fifty_watchers_do_not_meet_it(dear: Console, cpu: Cpu) -> None:
    """Each looks at menu, orders, forecast and nodes after every tick."""
    tokens = [dear.token(Role.VIEWER) for _ in range(50)]
    before = cpu.worked_out
    for tick in range(12):
        dear.clock.pause(1.0)
        heard(dear)
        for token in tokens[tick % 5 :: 5]:
            for path in ("/menu", "/orders", "/forecast", "/nodes"):
                assert asked(dear, path, token).status_code == 200
    assert cpu.worked_out - before == 12 * 3, "once for a tick: nodes ask for the forecast, too"
    assert min(OF_ALL.per_s, OF_ONE.per_s) > 3 * MENU_S, "and so it may go on for ever"


def test_another_sample_is_worked_out_anew(dear: Console) -> None:
    token = dear.token(Role.VIEWER)
    first = asked(dear, "/menu", token).get_json()
    assert asked(dear, "/menu", token).get_json() == first
    dear.clock.pause(1.0)
    heard(dear, nodes=2)
    second = asked(dear, "/menu", token).get_json()
    assert second["time_s"] > first["time_s"] and second["items"] != first["items"]


def test_balances_fill_up_and_are_let_go() -> None:
    clock, used = Clock(), [0.0]
    meter = Meter(clock, lambda: used[0])

    def takes(asker: str, seconds: float) -> None:
        with meter.metered(asker):
            used[0] += seconds

    takes("a", OF_ONE.most_s + 5)
    with pytest.raises(Problem) as caught:
        takes("a", 0)
    assert caught.value.status == 429 and caught.value.retry_s == 1 + 5 / OF_ONE.per_s
    clock.pause(-100)
    with pytest.raises(Problem):
        takes("a", 0)
    clock.pause(100 + caught.value.retry_s)
    takes("a", 0)
    for number in range(2_000):
        takes(f"n{number}", 0)
    assert len(meter._balances) < 1_100
