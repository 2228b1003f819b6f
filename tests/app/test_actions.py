"""The ledger's page: which rows a filter leaves, where steps lie on the broken time axis, how far predictions were off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.components.steps import said_step
from app.pages.actions_drawer import why_no_cancel, why_no_undo
from app.pages.actions_figures import off, place_of, settled, window_of
from app.pages.actions_ledger import ALL, BY, KINDS, STATES, Wanted, chosen, line
from app.pages.actions_steps import LEFT, RIGHT, axis_of, bars, held_from_to, ticks, timeline
from control.actions import COURSES, Action, to_json
from control.ledger import ActionRow
from control.plans import Cleanup, Migrate, Move, Part, SetBudget, Spill, Step
from tests.app.made import action_row

PARTS = (Part("join", (1, 2, 3)),)
STEPS: tuple[Step, ...] = (
    Move(PARTS, 0, 1, 1_000), Spill(PARTS, 0, 1_000), Cleanup(PARTS, 0, 1_000), SetBudget(0, 1_000),
    Migrate("((a c) b)", "moving", 1_000),
)  # fmt: skip
SECONDS = st.floats(0.0, 500.0, allow_nan=False)
NOW_S = 1_790_000_000.0


def run(step: Step, lengths: Sequence[float], *, hold: bool = False) -> Action:
    """Through as many steps as there are lengths."""
    action, now_s = Action.propose("a", "q", step, hold=hold).accept(NOW_S), NOW_S
    for length in lengths:
        if action.following is None:
            break
        action = action.begin(now_s)
        now_s += length
        action = action.end(now_s, 10)
    return action


@given(st.sampled_from(STEPS), st.booleans(), st.lists(SECONDS, min_size=1, max_size=8), SECONDS)
def test_steps_lie_on_the_track_in_their_order(
    step: Step, hold: bool, lengths: list[float], after_s: float
) -> None:
    action = run(step, lengths, hold=hold)
    until_s = NOW_S + sum(lengths) + after_s
    axis = axis_of(action, until_s)
    found = bars(action, axis, until_s)
    assert [bar.name for bar in found] == list(COURSES[action.course].steps)
    begun = [bar for bar in found if bar.left is not None]
    assert len(begun) == len(action.records)
    lefts = [bar.left for bar in begun if bar.left is not None]
    assert lefts == sorted(lefts) and all(0 <= left <= 100 for left in lefts)
    assert all(bar.seconds is not None and bar.seconds >= 0 for bar in begun)
    assert timeline(action, until_s) is not None


@given(st.sampled_from(STEPS), st.lists(SECONDS, min_size=4, max_size=8))
def test_the_axis_only_grows_and_its_ticks_are_on_it(step: Step, lengths: list[float]) -> None:
    action = run(step, lengths)
    until_s = NOW_S + sum(lengths)
    axis = axis_of(action, until_s)
    times = [NOW_S + n * (until_s - NOW_S) / 50 for n in range(51)]
    places = [axis.at(t) for t in times]
    assert places == sorted(places)
    assert all(0 <= left <= 100.01 for left, _, _ in ticks(axis))


def test_a_long_copy_and_a_short_switch_are_both_readable() -> None:
    """82 s of copy and 0.3 s of switch: each has its half, with the break between them."""
    action = run(STEPS[0], [0.1, 0.1, 80.0, 1.0, 0.1, 0.1, 0.1, 0.1])
    until_s = NOW_S + 81.6
    axis = axis_of(action, until_s)
    assert axis.broken
    by_name = {bar.name: bar for bar in bars(action, axis, until_s)}
    assert by_name["SendPartitions"].kind == "mem" and by_name["SendPartitions"].width > 40
    for name in ("DeactivatePartitions", "Deactivated", "ReactivatePartitions"):
        bar = by_name[name]
        assert bar.kind == "held" and bar.left is not None and bar.left >= RIGHT and bar.width > 5
    held = held_from_to(action, until_s)
    assert held is not None and held[1] - held[0] == pytest.approx(0.3)
    assert not axis_of(run(STEPS[0], [1.0] * 8), NOW_S + 8).broken
    assert LEFT < RIGHT


def test_what_runs_ends_now_and_what_is_to_come_has_no_bar() -> None:
    action = run(STEPS[1], [1.0]).begin(NOW_S + 1.0)
    found = bars(action, axis_of(action, NOW_S + 9), NOW_S + 9)
    assert found[1].running and found[1].seconds == pytest.approx(8.0)
    assert [bar.left for bar in found[2:]] == [None, None]


# -- filters -------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.sampled_from(["state", "kind", "by", "find", "before", "other"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=300), st.lists(st.text())),
    )
)
def test_whatever_an_address_asks_is_made_one_of_ours(raw: dict[str, object]) -> None:
    wanted = Wanted.of(raw)
    assert wanted.state in STATES and wanted.kind in KINDS and wanted.by in BY
    assert len(wanted.find) <= 100
    assert Wanted.of([]) == Wanted() and Wanted().everything


def rows(count: int) -> list[ActionRow]:
    """Newest first; every other one did itself."""
    made = []
    for n in range(count):
        id = f"local-{n:05d}-0" if n % 2 else f"01{n:05d}-1"
        made.append(replace(action_row(id, NOW_S + n), rule="evens" if n % 4 == 0 else ""))
    return made[::-1]


def reader(all_rows: list[ActionRow], asked: list[int]) -> object:
    def read(before: str | None, most: int) -> list[ActionRow]:
        asked.append(most)
        at = next((i + 1 for i, row in enumerate(all_rows) if row.id == before), 0)
        return all_rows[at : at + most]

    return read


@given(
    st.integers(0, 900), st.integers(1, 60), st.sampled_from(["", "evens", "local-0", "nowhere"])
)
def test_a_page_of_the_ledger_is_what_the_filter_takes(count: int, most: int, find: str) -> None:
    kept, asked = rows(count), list[int]()
    wanted = Wanted(find=find, by="every")
    found, more = chosen(wanted, reader(kept, asked), most)  # type: ignore[arg-type]
    taken = [row for row in kept if wanted.takes(row)]
    assert found == taken[:most]
    assert more == (len(taken) > most)
    older, _ = (
        chosen(replace(wanted, before=found[-1].id), reader(kept, asked), most)
        if found
        else ([], False)
    )  # type: ignore[arg-type]
    assert older == taken[most : 2 * most]


def test_a_filter_that_finds_nothing_does_not_read_for_ever() -> None:
    asked: list[int] = []
    found, more = chosen(Wanted(find="nowhere"), reader(rows(9_000), asked))  # type: ignore[arg-type]
    assert found == [] and not more and sum(asked) <= 4_000


def test_a_line_is_words() -> None:
    row = action_row("01a-1", NOW_S - 60)
    told = line(row, NOW_S, 0)
    assert told["id"] == "01a-1" and told["state"] == "done" and told["tone"] == "done"
    assert all(isinstance(value, str) for value in told.values())
    assert Wanted().by == ALL


def test_a_change_of_the_order_is_words_too() -> None:
    action = run(Migrate("((a b) c)", "moving", 1_000_000), [1.0] * 6).finish(NOW_S + 9)
    step = to_json(action)["step"]
    row = replace(action_row("01a-2", NOW_S - 60), body=to_json(action))
    assert line(row, NOW_S, 0)["what"] == "join order ((a b) c)"
    assert said_step(step) == "Change order to ((a b) c)"
    assert not why_no_undo(action)
    assert len(timeline(action, NOW_S + 9).to_plotly_json()["props"]["children"]) > 0


# -- predicted and actual ------------------------------------------------------------------------------

POSITIVE = st.floats(1e-6, 1e9)


@given(POSITIVE, POSITIVE)
def test_the_mark_is_right_of_the_middle_when_it_was_more(predicted: float, actual: float) -> None:
    place = place_of(predicted, actual)
    assert place is not None and 0 <= place <= 100
    assert (place > 50) == (actual > predicted) or place == 50.0
    text = off(predicted, actual)
    sign = "+×" if actual > predicted else "−÷" if actual < predicted else "e"
    assert text[0] in sign


@given(st.floats(0, 5_000), st.floats(0, 10_000))
def test_what_is_shown_around_an_action_comes_to_rest(took_s: float, later_s: float) -> None:
    """Once it is settled its window is the same at every later time."""
    row = replace(action_row("01a-1", NOW_S), ended_s=NOW_S + took_s)
    now_s = NOW_S + took_s + later_s
    since_s, until_s = window_of(row, now_s)
    assert since_s < NOW_S and until_s <= now_s
    if settled(row, now_s):
        assert window_of(row, now_s + 1e6) == (since_s, until_s)
    assert settled(row, now_s + 2_000) and not settled(replace(row, ended_s=None), now_s)


def test_nothing_predicted_has_no_place() -> None:
    assert place_of(0, 1) is None and off(0, 1) == "—"
    assert off(0, 0) == "exact" == off(3.0, 3.0)
    assert off(100.0, 99.1) == "−0.9 %" and off(1.0, 560.0) == "× 560"


def test_why_there_is_no_way_back() -> None:
    done = [run(step, [1.0] * 8).finish(NOW_S + 9) for step in STEPS]
    assert [bool(why_no_undo(action)) for action in done] == [False, False, True, True, False]
    assert all("done" in why_no_cancel(action) for action in done)
    going = run(STEPS[0], [1.0])
    assert why_no_undo(going) == "not while it runs" and not why_no_cancel(going)
    assert "commit" in why_no_cancel(run(STEPS[1], [1.0, 1.0]).begin(NOW_S + 2))
