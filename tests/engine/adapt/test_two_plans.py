"""Two plans at once: what each of them makes, how much they take, when it ends, what ends it early, what is refused.

Without Spark. That results are the batch join whatever happens is test_parallel.py's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from control import proposals
from control.actions import Action, State
from control.arbiter import Refusal, Why
from control.plans import Migrate, Plan, Reason, Topic, plan_to_json
from control.policies.local_spill import LocalSpill
from control.requests import Request
from engine.adapt import kinds, parallel
from engine.adapt.desk import Desk
from engine.adapt.errands import Wish
from engine.adapt.policy import Policy
from engine.adapt.records import Records
from engine.errors import CheckpointError, SinkError, StateError
from engine.sinks import ParquetDirectory
from engine.state.commits import CommitLog
from engine.state.model import Place
from engine.state.replan import Track
from tests.engine.adapt.dice import consistent
from tests.engine.adapt.migrations import STAR
from tests.engine.adapt.two_plans import seen_rows
from tests.engine.checked import check, in_order, in_order_of_the_lemma, scratch
from tests.engine.local import Local, LocalSide
from tests.engine.made import Life, Query, S, Told, live

W = 6
DEEP, BUSHY, ONE = "(((s0 s1) s2) s3)", "((s0 s2) (s1 s3))", "(s0 s1 s2 s3)"
WINDOWED = replace(
    STAR,
    bounds=tuple((i, j, W * S) for i in range(4) for j in range(4) if i != j),
    window=W,
    delays=(0.0,) * 4,
)
LIFE = Life(seed=5, ticks=16, groups=16, domain=6, disorder=0.0, late=0.0, silent=0.0)
ROWS = 6  # of a stream in a tick, more or less
AT = 4  # the tick before which another order is asked for
Do = Callable[["Asker"], object]


def to(order: str, strategy: str = "parallel") -> Request:
    return Request("migrate", 0, order=order, strategy=strategy)


@dataclass
class Note:
    """How things stand when a tick is about to begin."""

    track: Track | None
    rows: Mapping[Place, int]
    seen: Mapping[str, int]
    visible: int
    shown: float  # how far the action is


@dataclass
class Asker:
    """Asks for something before some ticks; `asked`: what came of it. A crash is for the test to make."""

    asks: Mapping[int, Request | Do]
    hold: bool = False
    spill_percent: float = 40.0
    budgets: dict[int, int] = field(default_factory=dict)
    asked: list[Action | Refusal] = field(default_factory=list)
    known: dict[str, Action] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    ends: bool = True  # the input does, with the last tick
    desk: Desk | None = None

    def boundary(self, local: Local) -> None:
        self.local, desk = local, self.sit(local)
        found = self.asks.get(len(self.notes))
        if isinstance(found, Request):
            self.asked.append(desk.ask(found, "test"))
        elif found is not None:
            found(self)
        desk = self.sit(local)
        desk.between(idle=False)
        consistent(local)
        self.known |= desk.records.actions
        manifest = local.ticker.manifest
        rows = {place: sum(run.rows for run in some) for place, some in manifest.runs.items()}
        shown = max(desk.records.progress.values(), default=0.0)
        about = manifest.seen, seen_rows(local), shown
        self.notes.append(Note(parallel.track_of(desk), rows, *about))

    def sit(self, local: Local) -> Desk:
        if self.desk is None or self.desk.ticker is not local.ticker:
            policy = Policy(LocalSpill(spill_percent=self.spill_percent), interval_s=1e9)
            policy.hold = self.hold
            records = Records(local.root / "cp" / "actions")
            records.restart(local.ticker.carried_out, 0.0, kinds.doing(local.ticker))
            self.desk = Desk(local.ticker, policy, self.budgets, records, local.clock, LocalSide)
            assert isinstance(self.desk._runs.side, LocalSide)
            self.desk._runs.side.eager = True
        return self.desk

    def finish(self, local: Local) -> None:
        desk = self.sit(local)
        while self.ends and (desk.finish_some(cleanup=True) or local.ticker.due()):
            local.drain()
            consistent(local)
        self.known |= desk.records.actions

    @property
    def actions(self) -> list[Action]:
        return list(self.known.values())

    @property
    def both(self) -> list[int]:
        """The ticks that both plans do."""
        return [tick for tick, note in enumerate(self.notes) if note.track is not None]


def lived(
    root: Path, asker: Asker | None, query: Query = WINDOWED, order: str = DEEP, **about: object
) -> tuple[Local, Told]:
    """Four streams within a window, a life long; exact."""
    life = replace(LIFE, **about)  # type: ignore[arg-type]
    local, told = live(root, query, life, order, size=ROWS, meddler=asker)
    if asker is None or asker.ends:
        check(local, told, query)
    return local, told


# -- what each plan makes ----------------------------------------------------------------------------------


def test_each_result_is_one_plan_s_and_nothing_is_made_twice_below_the_top() -> None:
    asker = Asker({AT: to(BUSHY)})
    with scratch() as one, scratch() as other:
        plain, _ = lived(one, None)
        local, told = lived(other, asker)
        in_order(local, told, WINDOWED)
        first, last = asker.both[0], asker.both[-1]
        assert first == AT and asker.actions[0].state is State.DONE
        found, alone = made_by(local, first, last), made_by(plain, first, last)
        out, parts = versions(local, told)
        start, end = version_of(local, first), version_of(local, last)
        fresh = parts[(parts >= start).all(axis=1) & (out <= end)]
        assert found["join-1"] == alone["join-1"] and found["join-2"] == alone["join-2"]
        assert found["join-6"] == len(fresh) > 100, "the new plan's: what has no old part"
        assert found["join-3"] == alone["join-3"] - len(fresh) > 100, "the old plan's: the rest"
        for name, pair in (("join-4", (0, 2)), ("join-5", (1, 3))):
            assert found[name] == pairs(told, pair, first, last) > 50


def made_by(local: Local, first: int, last: int) -> Counter[str]:
    """Rows that each operator made in some ticks."""
    found: Counter[str] = Counter()
    for report in local.reports:
        if report.tick is not None and first <= report.tick <= last:
            for part in report.operators:
                found[part.operator] += part.rows_out
    return found


def versions(local: Local, told: Told) -> tuple[np.ndarray, np.ndarray]:
    """Of each result the version that it came out with, and those that its parts came in with."""
    found = local.results()
    parts = [[told.tick_of[i] for i in found.column(f"i{n}").to_pylist()] for n in range(4)]
    return np.array(found.column("$version").to_pylist()), np.array(parts).T


def version_of(local: Local, tick: int) -> int:
    return next(report.version for report in local.reports if report.tick == tick)


def pairs(told: Told, pair: tuple[int, int], first: int, last: int) -> int:
    """Pairs of two streams' rows of some ticks, one by one."""
    sides = []
    for i in pair:
        tables = [t for n, t in enumerate(told.fed[i]) if first <= n <= last]
        rows = [row for table in tables for row in table.to_pylist()]
        sides.append([r for r in rows if r["id"] not in told.late | told.null])
    return sum(
        a["k0"] == b["k0"] and abs((a["ts"] - b["ts"]).total_seconds()) <= W
        for a in sides[0]
        for b in sides[1]
    )


def test_state_and_memory_of_both_plans_count() -> None:
    """In what nodes have, in the snapshot that decisions are made from, in each tick's report."""
    seen: list[bool] = []

    def look(asker: Asker) -> None:
        desk = asker.desk
        assert desk is not None
        manifest, snapshot = desk.ticker.manifest, desk.snapshot()
        sizes = Counter[str]()
        for place, runs in manifest.runs.items():
            sizes[place.operator] += sum(run.bytes for run in runs)
        assert set(sizes) == {f"join-{n}" for n in range(1, 7)} and all(sizes.values())
        assert {op.name for op in snapshot.operators} == set(sizes)
        assert int(snapshot.nodes.memory_bytes.sum()) == sum(sizes.values())
        report = asker.local.reports[-1]
        assert sum(node.memory_bytes for node in report.nodes) == sum(sizes.values())
        assert {groups.operator for groups in report.groups} == set(sizes)
        seen.append(True)

    with scratch() as root:
        lived(root, Asker({AT: to(BUSHY), AT + 3: look}))
    assert seen


# -- when it ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 3.0])
@pytest.mark.parametrize("old", [ONE, DEEP, "((s0 s1) (s2 s3))", "(s0 (s1 (s2 s3)))"])
def test_it_ends_one_window_later_whatever_the_height(old: str, delay: float) -> None:
    """The paper's bound is W for a plan of height 1 and 2 W for a higher one, because of how it purges rows of several
    parts. Here it is W whatever the height, as no row with an old part is of use to a row that comes later than that:
    the first boundary at which no row to come of any stream can be within the window of any old row."""
    query = replace(WINDOWED, delays=(delay,) * 4)
    asker = Asker({AT: to(BUSHY)})
    with scratch() as root:
        local, told = live(root, query, LIFE, old, size=ROWS, meddler=asker)
        check(local, told, query)
        in_order(local, told, query)
    (action,) = asker.actions
    assert action.state is State.DONE
    ended = asker.both[-1] + 1
    until = asker.notes[AT].seen
    free = [all(mark - delay * S - old > W * S for mark in note.seen.values() for old in until.values())
            for note in asker.notes]  # fmt: skip
    assert ended == free.index(True, AT), "as soon as that is so, and not before"
    ticks = ceil((W + delay) / LIFE.step)
    assert ticks <= len(asker.both) <= ticks + 2, (
        "a window, what rows may be late, a tick, and some chance"
    )
    shown = [asker.notes[tick].shown for tick in asker.both]
    assert shown == sorted(shown) and shown[-1] > 0.6
    assert any(0.2 < share < 0.8 for share in shown), "it is seen on its way"


def test_it_ends_at_once_where_nothing_is_old() -> None:
    asker = Asker({0: to(BUSHY)})
    with scratch() as root:
        lived(root, asker)
    assert asker.actions[0].state is State.DONE and not asker.both


def test_the_end_of_the_input_leaves_the_old_plan() -> None:
    asker = Asker({LIFE.ticks - 2: to(BUSHY)})
    with scratch() as root:
        local, _ = lived(root, asker)
        assert local.ticker.manifest.plan is not None and local.ticker.manifest.plan.track is None
        assert {op.id for op in local.ticker.setup.flow.ops} == {"join-1", "join-2", "join-3"}
    (action,) = asker.actions
    assert action.state is State.FAILED
    assert "the input has ended" in action.note and "the old plan goes on alone" in action.note


def test_cancelled_the_old_plan_has_all_its_rows() -> None:
    """Those that came meanwhile too, as if nothing had been. Within a window so long that none has gone."""
    long = replace(WINDOWED, bounds=tuple((i, j, 99 * S) for i, j, _ in WINDOWED.bounds), window=99)
    asker = Asker({AT: to(BUSHY), AT + 3: lambda one: one.sit(one.local).cancel("last")})
    with scratch() as one, scratch() as other:
        plain = Asker({})
        lived(one, plain, long, ticks=9)
        local, told = lived(other, asker, long, ticks=9)
        in_order(local, told, long)
    assert asker.both == [AT, AT + 1, AT + 2]
    assert asker.actions[0].state is State.CANCELLED
    for mine, theirs in zip(asker.notes[AT + 3 :], plain.notes[AT + 3 :], strict=True):
        assert {p: n for p, n in mine.rows.items() if n} == {
            p: n for p, n in theirs.rows.items() if n
        }


def test_one_after_the_other() -> None:
    """A chain of migrations of both kinds, there and back."""
    asks = {3: to(BUSHY), 9: to(DEEP, "moving"), 13: to(ONE), 20: to("(((s3 s2) s1) s0)")}
    asker = Asker(asks)
    with scratch() as root:
        local, told = lived(root, asker, ticks=26)
        in_order(local, told, WINDOWED)
    assert [action.state for action in asker.actions] == [State.DONE] * 4, asker.actions


# -- no room, no end, no other action ----------------------------------------------------------------------


def test_a_node_that_fills_up_makes_it_give_way() -> None:
    """The old plan goes on, exact, and nobody hears an error: with spilling and without."""
    for spill_percent in (0.0, 40.0):
        asker = Asker({9: to(BUSHY), 12: shrink}, spill_percent=spill_percent)
        with scratch() as root:
            lived(root, asker, domain=40)
        (action,) = [a for a in asker.actions if a.course == "migrate_parallel"]
        assert action.state is State.FAILED
        assert "node 1 has" in action.note and "memory for both plans" in action.note
        assert asker.both == [9, 10, 11]


def shrink(asker: Asker) -> None:
    """A budget that the old plan's state would fit, and both plans' does not."""
    assert asker.desk is not None
    manifest = asker.desk.ticker.manifest
    asker.desk.budgets[1] = manifest.memory_bytes(1)


def test_refused_where_there_is_no_room_on_a_node() -> None:
    found: list[int] = []

    def ask(asker: Asker) -> None:
        desk, manifest = asker.desk, asker.local.ticker.manifest
        assert desk is not None
        desk.budgets |= {n: 2 * manifest.memory_bytes(n) for n in range(2)}
        asker.asked.append(desk.ask(to(BUSHY), "test"))
        found.append(manifest.memory_bytes(0))

    asker = Asker({AT: ask})
    with scratch() as root:
        lived(root, asker)
    (refusal,) = asker.asked
    assert isinstance(refusal, Refusal) and refusal.why is Why.NO_ROOM_FOR_PLAN
    assert "node 0 has no room" in str(refusal)
    assert refusal.limit == int(0.9 * 2 * found[0]) - found[0]
    assert refusal.found is not None and refusal.limit < refusal.found < 2 * found[0]
    assert not asker.both


def test_refused_where_no_window_bounds_it() -> None:
    """s1 may be any time after s0: old rows of s0 would matter for ever."""
    query = Query(
        ((0,), (0,), (0,)),
        ((1, 0, (0,)), (2, 1, (0,))),
        ((1, 0, 0), (1, 2, 2 * S), (2, 1, 2 * S)),
        {},
        ((1, "s1.ts >= s0.ts"), (2, "s2.ts BETWEEN s1.ts - INTERVAL '2' SECOND AND s1.ts + INTERVAL '2' SECOND")),
        None,
        (0.0,) * 3,
        (None,) * 3,
    )  # fmt: skip
    asker = Asker({AT: to("(s0 (s1 s2))")})
    with scratch() as root:
        local, told = live(root, query, LIFE, "((s0 s1) s2)", size=ROWS, meddler=asker)
        check(local, told, query)
    (refusal,) = asker.asked
    assert isinstance(refusal, Refusal) and refusal.why is Why.ENDLESS
    assert "how long rows of s0 wait for rows of s1" in str(refusal)
    kept = sum(n for p, n in asker.notes[AT].rows.items() if (p.operator, p.input) == ("join-1", 0))
    assert (refusal.found, refusal.limit) == (kept, 0) and kept


def test_nothing_else_is_done_meanwhile() -> None:
    others = [
        to(ONE),
        to(DEEP, "moving"),
        Request("move", 0, 1, "join-1", None, 50.0),
        Request("spill", 0, None, "join-6", None, 50.0),
    ]
    asker = Asker({AT: to(BUSHY), **{AT + 1 + n: one for n, one in enumerate(others)}})
    with scratch() as root:
        lived(root, asker, ticks=18)
    started, *refused = asker.asked
    assert isinstance(started, Action) and asker.actions[0].state is State.DONE
    assert len(asker.both) >= len(others)
    assert all(isinstance(one, Refusal) for one in refused)
    whys = [one.why for one in refused if isinstance(one, Refusal)]
    assert whys[:2] == [Why.OVERLAP] * 2 and set(whys[2:]) <= {
        Why.OVERLAP,
        Why.GROUP_IN_FLIGHT,
        Why.NOTHING_IN_MEMORY,
    }


# -- the paper's order: the new plan's results wait --------------------------------------------------------


def withheld(asker: Asker, told: Told, local: Local) -> None:
    """Results are as the paper has them: some wait while both plans run, and none afterwards."""
    in_order_of_the_lemma(local, told, WINDOWED)
    tracks = [note.track for note in asker.notes if note.track is not None]
    files = [len(track.withheld) for track in tracks]
    assert all(track.withholds for track in tracks)
    assert files == sorted(files) and files[0] == 0 < files[-1]
    assert not list((local.root / "out").glob(".part*"))


def test_held_results_come_when_the_old_plan_ends() -> None:
    asker = Asker({AT: to(BUSHY)}, hold=True)
    with scratch() as one, scratch() as other:
        plain = Asker({})
        lived(one, plain)
        local, told = lived(other, asker)
        withheld(asker, told, local)
        out, parts = versions(local, told)
        start, end = version_of(local, AT), version_of(local, asker.both[-1])
    (action,) = asker.actions
    assert (action.course, action.state) == ("migrate_parallel_hold", State.DONE)
    new = (parts >= start).all(axis=1)
    during = (out >= start) & (out <= end)
    assert during.any() and not (during & new).any(), "only what has an old part is seen meanwhile"
    waited = new & (parts.max(axis=1) <= end)
    assert waited.sum() > 100 and set(out[waited]) == {end + 1}, (
        "all at once, in the commit of the end"
    )
    assert asker.desk is not None
    receipt = asker.desk.records.receipts[action.id]
    assert receipt["rows_withheld"] == waited.sum()
    assert [n.visible for n in asker.notes][: AT + 1] == [n.visible for n in plain.notes][: AT + 1]


@pytest.mark.parametrize("crash", [False, True])
def test_held_results_come_out_when_it_is_cancelled(crash: bool) -> None:
    """The old plan has not made them, so they are not thrown away."""

    def cancel(asker: Asker) -> None:
        if crash:
            asker.local.start(2)
        asker.sit(asker.local).cancel("last")

    asker = Asker({AT: to(BUSHY), AT + 3: cancel}, hold=True)
    with scratch() as root:
        local, told = lived(root, asker)
        withheld(asker, told, local)
    assert asker.both == [AT, AT + 1, AT + 2]
    before, after = asker.notes[AT + 2], asker.notes[AT + 3]
    assert before.track is not None and before.track.withheld and after.visible > before.visible


def test_held_results_outlive_the_process() -> None:
    """Hidden while the query is down, and after; with other numbers of nodes."""
    asker = Asker({AT: to(BUSHY)}, hold=True)
    with scratch() as root:
        local, told = lived(root, asker, nodes=(2, 3, 1))
        withheld(asker, told, local)
    assert [action.state for action in asker.actions] == [State.DONE]


def test_held_results_come_out_at_the_end_of_the_input() -> None:
    asker = Asker({LIFE.ticks - 3: to(BUSHY)}, hold=True)
    with scratch() as root:
        local, told = lived(root, asker)
        withheld(asker, told, local)
    assert asker.actions[0].state is State.FAILED


def test_too_many_held_files_make_it_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "FILES_MAX", 5)
    asker = Asker({AT: to(BUSHY)}, hold=True)
    with scratch() as root:
        lived(root, asker)
    (action,) = asker.actions
    assert action.state is State.FAILED and "files of results wait" in action.note


def test_a_held_file_that_is_gone_is_missed_at_the_start() -> None:
    asker = Asker({AT: to(BUSHY)}, hold=True, ends=False)
    with scratch() as root:
        local, _ = lived(root, asker, ticks=AT + 3)
        hidden = next((root / "out").glob(".part*"))
        hidden.unlink()
        with pytest.raises(CheckpointError, match="result file is missing") as found:
            local.start(2)
        assert hidden.name in found.value.where


# -- ends of the process -----------------------------------------------------------------------------------


def test_a_stop_is_not_its_end() -> None:
    """The next start goes on with the same action."""

    def stop(asker: Asker) -> None:
        assert asker.desk is not None
        asker.desk.close()
        asker.local.start(2)

    asker = Asker({AT: to(BUSHY), AT + 2: stop, AT + 3: stop})
    with scratch() as root:
        local, told = lived(root, asker)
        in_order(local, told, WINDOWED)
        assert not list((root / "cp" / "actions").glob("*.json"))
    (action,) = asker.actions
    assert isinstance(asker.asked[0], Action) and action.id == asker.asked[0].id
    assert action.state is State.DONE and len(action.records) == 4


def test_who_has_asked_is_told_that_it_goes_on() -> None:
    told: list[str] = []

    def leave(asker: Asker) -> None:
        desk = asker.sit(asker.local)
        step = Migrate(BUSHY, "parallel", 0)
        plan = Plan((step,), (Reason.of(Topic.CHOSEN, "test"),))
        mark = proposals.to_json(proposals.fingerprint(desk.snapshot(), (step,)))
        desk.errands.leave(Wish("c1", "ann", plan_to_json(plan), mark))

    def stop(asker: Asker) -> None:
        desk = asker.sit(asker.local)
        desk.close()
        told.extend(outcome.body["text"] for outcome in desk.errands.outcomes())
        asker.local.start(2)

    asker = Asker({AT: leave, AT + 2: stop})
    with scratch() as root:
        lived(root, asker)
    assert told == ["the query stops; action c1-1 goes on with the next start"]
    assert [(action.id, action.state) for action in asker.actions] == [("c1-1", State.DONE)]


def test_a_lost_record_is_made_again() -> None:
    def lose(asker: Asker) -> None:
        for path in (asker.local.root / "cp" / "actions").glob("*.json"):
            path.unlink()
        asker.local.start(2)

    asker = Asker({AT: to(BUSHY), AT + 2: lose, AT + 3: lambda one: one.local.start(2)})
    with scratch() as root:
        lived(root, asker)
    (action,) = asker.actions
    assert isinstance(asker.asked[0], Action) and action.id == asker.asked[0].id
    assert action.state is State.DONE


def test_two_plans_are_always_somebody_s_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the new plan's commit nor the one back to the old plan can be written: another action goes on."""
    inner, left = CommitLog.append, [2]

    def append(log: CommitLog, commit: object) -> None:
        if getattr(commit, "plan", None) is not None and commit.plan.track is None and left[0]:  # type: ignore[attr-defined]
            left[0] -= 1
            raise StateError("no space left for state", where="here")
        inner(log, commit)  # type: ignore[arg-type]

    monkeypatch.setattr(CommitLog, "append", append)
    asker = Asker({AT: to(BUSHY)})
    with scratch() as root:
        lived(root, asker)
    assert [action.state for action in asker.actions] == [State.FAILED, State.DONE]
    assert left == [0]


@pytest.mark.parametrize("cancelled", [False, True])
def test_held_results_that_cannot_be_published_end_the_query(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are committed: the next start publishes them."""
    asks: dict[int, Request | Do] = {AT: to(BUSHY)}
    if cancelled:
        asks[AT + 3] = lambda one: one.sit(one.local).cancel("last")
    asker = Asker(asks, hold=True)
    inner, broken = ParquetDirectory._rename, [True]

    def rename(self: ParquetDirectory, file: object) -> bool:
        track = asker.notes[-1].track if asker.notes else None
        if track and broken[0] and file.tmp in {one.tmp for one in track.withheld}:  # type: ignore[attr-defined]
            raise SinkError("cannot write results", where="here")
        return inner(self, file)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetDirectory, "_rename", rename)

    def boundary(local: Local) -> None:
        try:
            whole(local)
        except SinkError:
            assert broken[0]
            broken[0] = False
            assert asker.desk is not None
            asker.desk.close()
            local.start(2)
            whole(local)

    whole, asker.boundary = asker.boundary, boundary  # type: ignore[method-assign]
    with scratch() as root:
        lived(root, asker)
    assert not broken[0]
    assert [action.state for action in asker.actions] == [State.FAILED if cancelled else State.DONE]
