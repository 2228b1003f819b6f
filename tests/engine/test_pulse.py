"""Which nodes are alive: an executor that goes, silence, probes that are answered and that are not; and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control import proposals
from control.arbiter import Why
from control.plans import Move, Part, Plan, Reason, Topic, plan_to_json
from control.policies.none import Nothing
from control.snapshot import ClusterSnapshot
from engine.adapt.desk import Desk
from engine.adapt.errands import Wish
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.pulse import SILENT_S, Homes, Pulse
from engine.reports import NodeReport
from tests.engine.adapt.refused import SQL
from tests.engine.checked import scratch
from tests.engine.local import Clock, Local, LocalSide, stream
from tests.engine.telling import made_report


@dataclass
class Cluster:
    """Executors and probes as a test has them."""

    up: frozenset[str] | None = None
    clock: Clock = field(default_factory=Clock)
    asked: list[Future[Homes]] = field(default_factory=list)

    def pulse(self, nodes: int) -> Pulse:
        return Pulse(nodes, lambda: self.up, self.ask, self.clock)

    def ask(self) -> Future[Homes]:
        self.asked.append(Future())
        return self.asked[-1]

    def look(self, pulse: Pulse, later_s: float = 0.0) -> list[bool]:
        self.clock.now += later_s
        pulse.look()
        found: list[bool] = pulse.alive.tolist()
        return found


def report(pulse: Pulse, homes: dict[int, str], seconds: float = 0.1) -> None:
    """A tick in which these nodes had something to do; the others tell nothing."""
    nodes = tuple(
        NodeReport(
            n, 1, 1, 0.1, 0.1, 0, 0, 0, 0, f"h/{homes[n]}" if n in homes else "", homes.get(n, "")
        )
        for n in range(3)
    )
    pulse.publish(replace(made_report(), nodes=nodes, seconds=seconds))


def test_a_node_whose_executor_goes_is_not_alive_until_it_is_heard_of_elsewhere() -> None:
    cluster = Cluster(frozenset("01"))
    pulse = cluster.pulse(3)
    report(pulse, {0: "0", 1: "1", 2: "1"})
    assert cluster.look(pulse) == [True, True, True] and not cluster.asked
    cluster.up = frozenset("0")
    assert cluster.look(pulse) == [True, False, False]
    assert cluster.look(pulse) == [True, False, False] and len(cluster.asked) == 1, "once"
    report(pulse, {1: "0"})  # a tick comes first
    assert cluster.look(pulse) == [True, True, False]
    cluster.up = frozenset("02")
    cluster.asked[0].set_result({0: "0", 1: "0", 2: "2"})
    assert cluster.look(pulse) == [True, True, True] and len(cluster.asked) == 1


def test_silence_is_probed_and_only_a_probe_without_an_answer_is_death() -> None:
    cluster = Cluster()
    pulse = cluster.pulse(3)
    report(pulse, {0: "", 1: "", 2: ""})
    assert cluster.look(pulse, SILENT_S) == [True] * 3 and not cluster.asked
    assert cluster.look(pulse, 0.1) == [True] * 3 and len(cluster.asked) == 1
    cluster.asked[0].set_result(dict.fromkeys(range(3), ""))
    assert cluster.look(pulse, 0.1) == [True] * 3
    report(pulse, {0: ""})
    assert cluster.look(pulse, SILENT_S + 0.1) == [True] * 3 and len(cluster.asked) == 2
    report(pulse, {0: ""})
    assert cluster.look(pulse, SILENT_S + 0.1) == [True, False, False]
    cluster.asked[1].set_exception(RuntimeError("no executor"))
    assert cluster.look(pulse) == [True, False, False] and len(cluster.asked) == 3, "asked again"
    cluster.asked[2].set_result(dict.fromkeys(range(3), ""))
    assert cluster.look(pulse) == [True] * 3


def test_with_long_ticks_two_of_them_are_waited_for() -> None:
    cluster = Cluster()
    pulse = cluster.pulse(3)
    report(pulse, {0: "", 1: "", 2: ""}, seconds=60.0)
    assert cluster.look(pulse, 119) == [True] * 3 and not cluster.asked
    assert cluster.look(pulse, 2) == [True] * 3 and len(cluster.asked) == 1
    assert cluster.look(pulse, 119) == [True] * 3
    assert cluster.look(pulse, 2) == [False] * 3


STEPS = st.lists(
    st.tuples(st.floats(0.1, 9.9), st.sampled_from(["rest", "tick", "answer", "fail"])), max_size=60
)


@given(STEPS)
def test_who_is_heard_of_in_time_is_alive_and_who_never_is_is_not(
    steps: list[tuple[float, str]],
) -> None:
    """Without a cluster: never dead within twice the limit of a sign of life, always after three times, if looked at."""
    cluster = Cluster()
    pulse = cluster.pulse(1)
    heard_s = 0.0
    for later_s, what in steps:
        cluster.clock.now += later_s
        waiting = cluster.asked[-1] if cluster.asked and not cluster.asked[-1].done() else None
        if what == "tick":
            node = NodeReport(0, 1, 1, 0.1, 0.1, 0, 0, 0, 0, "h/1")
            pulse.publish(replace(made_report(), nodes=(node,)))
            heard_s = cluster.clock.now
        elif what == "answer" and waiting:
            waiting.set_result({0: ""})
            heard_s = cluster.clock.now
        elif what == "fail" and waiting:
            waiting.set_exception(OSError())
        (alive,) = cluster.look(pulse)
        silent_s = cluster.clock.now - heard_s
        assert alive or silent_s > 2 * SILENT_S
        assert not alive or silent_s <= 3 * SILENT_S


@pytest.fixture
def local() -> Iterator[tuple[Local, Desk]]:
    with scratch() as root:
        ddl = "k bigint, v bigint"
        made = Local(root, SQL, [stream("a", ddl), stream("b", ddl)])
        policy = Policy(Nothing(), interval_s=1e9)
        desk = Desk(made.ticker, policy, {}, Records(root / "a"), made.clock, LocalSide)
        rng = np.random.default_rng(1)
        made.tick(
            {n: pa.table({"k": rng.integers(0, 50, 80), "v": rng.integers(0, 9, 80)}) for n in "ab"}
        )
        yield made, desk


def move(desk: Desk, seen: ClusterSnapshot, target: int) -> Wish:
    row = next(r for r in seen.on(1 - target) if seen.groups.memory_bytes[r] > 0)
    name = seen.operators[seen.groups.operator[row]].name
    step = Move((Part(name, (int(seen.groups.group[row]),)),), 1 - target, target, 1)
    plan = Plan((step,), (Reason.of(Topic.CHOSEN, "test"),))
    return Wish(
        "c1", "ann", plan_to_json(plan), proposals.to_json(proposals.fingerprint(seen, [step]))
    )


def test_nothing_is_moved_to_a_node_that_is_not_alive(local: tuple[Local, Desk]) -> None:
    """The desk's own picture says so, whoever asks: here a command that was proposed on a picture alike."""
    _, desk = local
    cluster = Cluster(frozenset("0"))
    desk.pulse = cluster.pulse(2)
    report_of_two = tuple(
        NodeReport(n, 1, 1, 0.1, 0.1, 0, 0, 0, 0, f"h/{n}", str(n)) for n in range(2)
    )
    desk.pulse.publish(replace(made_report(), nodes=report_of_two))
    desk.pulse.look()
    seen = desk.snapshot()
    assert seen.nodes.alive.tolist() == [True, False]
    desk.errands.leave(move(desk, seen, 1))
    desk.between(idle=False)
    (told,) = desk.errands.outcomes()
    assert told.state == "refused"
    assert told.body["refusals"][0]["why"] == Why.NODE_NOT_ALIVE
    cluster.asked[-1].set_result({0: "0", 1: "0"})
    desk.between(idle=False)
    assert desk.snapshot().nodes.alive.tolist() == [True, True]


def test_a_query_without_input_is_probed_and_answers(local: tuple[Local, Desk]) -> None:
    """The real probe, without Spark: a node that has nothing to do stays alive."""
    _, desk = local
    clock = Clock()
    desk.pulse = Pulse(2, desk.ticker.executors_up, desk._probe, clock)
    for _ in range(6):
        clock.now += SILENT_S + 1
        desk.between(idle=True)
        assert desk.pulse._answer is not None
        assert set(desk.pulse._answer.result(60)) == {0, 1}
        desk.between(idle=True)
        assert desk.snapshot().nodes.alive.all()
