"""Join orders on Queries & plans: what is listed, looked at, refused with the column, proposed; drawn for any change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import log10
from pathlib import Path
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.components import order_chart, order_tree, order_view, plan_tree
from app.components.order_tree import FATES, Pair
from app.components.units import percent, said, said_size
from app.pages.queries_order import BETTER, ORDER_LENGTH_MAX
from app.pages.queries_order_view import way
from control.actions import Action, to_json
from control.cost.coefficients import Coefficients
from control.dispatch import Dispatcher
from control.ledger import ActionRow
from control.migration.model import Model
from control.migration.propose import price, told
from control.migration.strategies import Change, Pace
from control.migration.trees import show
from control.orders import better_orders, priced_order
from control.people import Actor, Role, Source
from control.plans import Migrate
from tests.app.dashed import call
from tests.app.dashed import said as texts
from tests.app.made import QUERY, START_S, Console, begin, heard, with_query
from tests.control.migration.made import all_trees, joins_of, models
from tests.control.migration.outlooks import OLD, PACE, outlook, skewed

WRONG = (("((a c) b d)", "column 2"), ("((a b) c)", "d missing"), ("(((a b) c) e)", "no stream `e`"),
         ("(((a b) c) d", "not closed"), ("x" * 5_000, "stream"))  # fmt: skip


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A query that runs the worse order of the two, and whose ticks have told so."""
    data = tmp_path / "data"
    data.mkdir()
    made = begin(data)
    sample = with_query(made)
    made.clock.pause(1)
    joined = replace(sample.snapshot, joins=joins_of(skewed(5.0), OLD), time_s=made.clock())
    made.store.metrics.write([replace(sample, snapshot=joined, time_s=made.clock())])
    yield made
    made.store.close()


def drawn(console: Console, asked: str, user: str = "olga") -> dict[str, Any]:
    given_ = {"queries-order.data": asked, "queries-order-again.n_clicks": 0, "view.data": {}}
    return call(
        console.signed_in(user), "queries-order-view.children", "queries-order.data", given_
    )


def all_of(value: Any, kind: str) -> list[Any]:
    """Every component of this kind in what a callback returned."""
    if isinstance(value, list | tuple):
        return [one for part in value for one in all_of(part, kind)]
    if not isinstance(value, dict):
        return []
    mine = [value["props"]] if value.get("type") == kind else []
    return mine + [one for part in value.values() for one in all_of(part, kind)]


def newest(console: Console) -> Any:
    sample = console.store.metrics.newest(QUERY)
    assert sample is not None
    return sample.snapshot


def test_better_orders_are_listed_with_their_figures(console: Console) -> None:
    found = better_orders(newest(console), Coefficients())
    assert found
    listed = texts(drawn(console, BETTER)["queries-order-list"])
    for one in found:
        assert one["join_order"] in listed
        assert said_size(one["after"]["state_bytes"]).split()[0] in listed
    assert show(OLD, "abcd") in listed and "runs" in listed
    assert drawn(console, BETTER)["queries-order-view"]["children"] == []


def test_a_preview_says_what_the_optimiser_says(console: Console) -> None:
    order = "((a b) (c d))"
    one = priced_order(newest(console), Coefficients(), order)
    answer = drawn(console, order)
    text = texts(answer["queries-order-view"])
    for load in (one["before"], one["after"]):
        assert said_size(load["state_bytes"]) in text
        assert said(load["between_per_s"], "/s") in text
    for name, offer in one["strategies"].items():
        assert order_view.written("gain_row_s", offer["gain_row_s"]) in text, name
        assert percent(offer["chance"]) in text
    assert answer["queries-order-box"]["hidden"] is False
    (chart,) = all_of(answer["queries-order-view"], "Graph")
    go.Figure(chart["figure"])


@pytest.mark.parametrize(("order", "told_"), WRONG)
def test_a_wrong_order_is_refused_with_the_column_and_the_list_stays(
    console: Console, order: str, told_: str
) -> None:
    answer = drawn(console, order[:ORDER_LENGTH_MAX])
    assert told_ in texts(answer["queries-order-error"])
    assert answer["queries-order-view"]["children"] == []
    assert show(OLD, "abcd") in texts(answer["queries-order-list"])


def test_nothing_known_is_said(console: Console) -> None:
    console.clock.pause(2)
    heard(console)
    assert "Nothing known yet" in texts(drawn(console, BETTER)["queries-order-list"])


def test_an_old_picture_is_not_proposed(console: Console) -> None:
    console.clock.pause(60)
    view = drawn(console, "((a b) (c d))")["queries-order-view"]
    press = [one for one in all_of(view, "Button") if one["id"]["type"] == "queries-propose"]
    assert press and all(one["disabled"] for one in press) and "too old" in texts(view)


def test_viewers_look_and_operators_propose(console: Console) -> None:
    order = "((a b) (c d))"
    view = drawn(console, order, "vic")["queries-order-view"]
    press = [one for one in all_of(view, "Button") if one["id"]["type"] == "queries-propose"]
    assert press and all(one["disabled"] for one in press)
    assert "Needs the role operator" in texts(view)
    made = proposed(console, order)
    kept = console.store.proposals.find(made.id)
    assert kept is not None and kept.plan["steps"][0]["order"] == order
    assert kept.plan["steps"][0]["strategy"] == "moving"
    panel = call(
        console.signed_in("olga"), "proposal-top.children", "proposal-open.data",
        {"proposal-open.data": {"proposal": kept.id}, "proposal-poll.n_intervals": 0},
        {"proposal-mark.data": None, "view.data": {}},
    )  # fmt: skip
    text = texts(panel["proposal-top"])
    told_ = kept.preview["steps"][0]["migration"]
    assert said_size(told_["after"]["state_bytes"]) in text and order in text
    assert "Both plans side by side" in text


def proposed(console: Console, order: str) -> Any:
    """As the button does it; that it is pressed, tests/browser/test_orders.py sees."""
    body = {"do": "migrate", "order": order, "strategy": "moving"}
    actor = Actor("olga", Role.OPERATOR, Source.CONSOLE)
    return Dispatcher(console.store, console.clock).dispatch("propose", body, actor, QUERY)


def test_the_running_order_cannot_be_proposed_silently(console: Console) -> None:
    """What happens with the order that runs already is the arbiter's or the engine's word, never an error."""
    answer = drawn(console, show(OLD, "abcd"))
    assert texts(answer["queries-order-view"]) or texts(answer["queries-order-error"])


# -- drawings of any change ----------------------------------------------------------------------------


@given(models(6, 3), st.data())
@settings(deadline=None, max_examples=30)
def test_every_change_can_be_drawn(model: Model, data: st.DataObject) -> None:
    every = list(all_trees(model.classes, model.everything))
    old, new = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    made = told(price(outlook(model, old), model, old, new, PACE))
    pair = Pair.of(made["trees"])
    change = Change.of(model, old, new)
    counts = {name: count for name, (count, _, _) in order_tree.fates(pair).items()}
    matched = change.matched
    assert counts == {
        "shared": len(matched.shared),
        "sorted_anew": len(matched.sorted_anew),
        "recomputed": len(matched.recomputed),
        "dropped": len(matched.dropped),
    } and set(counts) == set(FATES)
    heights = set()
    for root in (pair.before, pair.after):
        sizes = order_tree.SMALL.as_high_as(pair.ranks, plan_tree.rank(root))
        placed = plan_tree.placed(root, sizes)
        heights.add(round(placed.height, 3))
        for one, other in combinations(placed.boxes, 2):
            apart_x = abs(one.x - other.x) >= (one.width + other.width) / 2
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y
    assert len(heights) == 1, "side by side they are equally high"
    for theme in ("dark", "light"):
        figure = order_chart.crossover(made, theme)
        assert (figure is None) == (made["window_s"] is None)
        if figure is not None:
            go.Figure(figure)
            low, high = figure["layout"]["yaxis"]["range"]
            markers = [t for t in figure["data"] if t["mode"] == "markers" and len(t["x"]) == 1]
            today = [t for t in markers if t["x"][0] == made["window_s"]]
            assert today and all(low <= log10(t["y"][0]) <= high for t in today)


@given(models(6, 3), st.data())
@settings(deadline=None, max_examples=15)
def test_labels_of_states_lie_over_no_box_and_no_other_label(
    model: Model, data: st.DataObject
) -> None:
    every = list(all_trees(model.classes, model.everything))
    old, new = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
    made = told(price(outlook(model, old), model, old, new, Pace()))
    pair = Pair.of(made["trees"])
    for root in (pair.before, pair.after):
        sizes = order_tree.SMALL.as_high_as(pair.ranks, plan_tree.rank(root))
        placed = plan_tree.placed(root, sizes)
        at = order_tree.labels(placed)
        half, low = order_tree.LABEL_W / 2, order_tree.LABEL_H / 2
        for (ax, ay), (bx, by) in combinations(at.values(), 2):
            assert abs(ax - bx) >= 2 * half or abs(ay - by) >= 2 * low
        for x, y in at.values():
            assert x - half >= -0.01 and x + half <= placed.width + 0.01
            for box in placed.boxes:
                beside = abs(box.x - x) >= box.width / 2 + half
                assert beside or y + low <= box.y or y - low >= box.y + box.height


@pytest.mark.parametrize(("before", "after", "text"), [
    (100.0, 100.0, "±0"), (100.0, 52.0, "−48 %"), (100.0, 10.0, "÷ 10.0"), (100.0, 250.0, "× 2.50"),
    (0.0, 0.0, "±0"), (0.0, 5.0, "—"), (100.0, 99.9999, "±0"), (100.0, 110.0, "+10 %"),
])  # fmt: skip
def test_how_much_less_or_more(before: float, after: float, text: str) -> None:
    assert order_view.by(before, after) == text


# -- what is on its way --------------------------------------------------------------------------------


def row(over: bool, **more: Any) -> ActionRow:
    action = Action.propose("a-1", QUERY, Migrate("((a b) c)", "moving", 1)).accept(START_S)
    action = action.begin(START_S).end(START_S + 1, 0).begin(START_S + 1)
    if over:
        action = action.end(START_S + 2, 0)
        while action.following is not None:
            action = action.begin(START_S + 2).end(START_S + 3, 0)
        action = action.finish(START_S + 4)
    return ActionRow(
        "a-1", QUERY, to_json(action), "ada", action.state.value, START_S,
        START_S + 4 if over else None, 1, None if over else 0.37, **more,
    )  # fmt: skip


def test_what_is_on_its_way_says_how_far_it_is() -> None:
    (found,) = way([row(False, predicted={"duration_s": 8.0})], START_S + 3)
    assert "MatchStates" in text_of(found) and "37 %" in text_of(found)
    assert "3.0 s of about 8.0 s" in text_of(found) and "((a b) c)" in text_of(found)


def test_what_has_been_done_says_predicted_beside_actual_and_goes_away() -> None:
    done = row(True, predicted={"duration_s": 5.0}, actual={"pause_s": 0.25})
    (found,) = way([done], START_S + 10)
    assert "took 4.0 s, predicted 5.0 s" in text_of(found)
    assert "results stood still for 0.25 s" in text_of(found) and "undo" in text_of(found)
    assert way([done], START_S + 3_600) == []


def text_of(component: Any) -> str:
    """All text in a component that was not sent yet."""
    kids = getattr(component, "children", component)
    if isinstance(kids, list | tuple):
        return "".join(text_of(one) for one in kids)
    return kids if isinstance(kids, str) else text_of(kids) if kids is not None else ""
