"""Pieces of the pages: figures as people read them, tokens, charts that grow, lanes, the headline, help."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from dash import Patch
from hypothesis import given
from hypothesis import strategies as st

from app.components import charts, help, lanes, live, memory_chart, node_card, output_chart, units
from app.components.headline import headline
from app.components.live import Cursor
from app.components.metrics_help import HELP
from app.components.tokens import THEMES, colour, tokens
from app.desk import desk_of
from app.errors import AppError
from app.pages.all import pages
from app.pages.page import Seen
from app.view import View
from control.samples import Series
from tests.app.made import Clock
from tests.browser.stage import QUERY, Stage
from tools.icons import css

ROOT = Path(__file__).resolve().parents[2]
VALUES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)


# -- figures -------------------------------------------------------------------------------------------------


@given(value=VALUES)
def test_figures_keep_their_size_and_use_a_true_minus(value: float) -> None:
    for text in (
        units.figure(value),
        units.whole(value),
        units.said(value),
        units.said_size(value),
    ):
        assert "-" not in text
        assert not re.search(r"\de[+\d]", text)
    told = units.figure(value).replace("\u202f", "").replace(units.MINUS, "-")
    assert math.isclose(float(told), value, rel_tol=0.006, abs_tol=0.006)


@given(value=st.floats(min_value=1e-6, max_value=1e14))
def test_a_prefix_leaves_a_number_of_three_digits(value: float) -> None:
    number, prefix = units.prefixed(value)
    factor = dict(units.PREFIXES)[prefix]
    told = float(number.replace("\u202f", ""))
    assert math.isclose(told * factor, value, rel_tol=0.006, abs_tol=0.006)
    assert told < 1_000 or prefix == "T"


@given(seconds=st.floats(min_value=0, max_value=1e8))
def test_a_duration_can_be_read_back(seconds: float) -> None:
    text = units.duration(seconds)
    sizes = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
    parts = re.findall(r"([\d.]+) (s|min|h|d)", text)
    told = sum(float(number) * sizes[unit] for number, unit in parts)
    assert math.isclose(told, seconds, rel_tol=0.05, abs_tol=0.05), text
    assert len(parts) <= 2


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_not_known_is_a_dash(value: Any) -> None:
    for say in (units.figure, units.whole, units.duration, units.clock, units.percent, units.ahead):
        assert say(value) == units.NONE
    assert units.rate(value)[0] == units.size(value)[0] == units.NONE


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (units.said_size(402_000_000), "402 MB"), (units.said_size(999_700), "1.00 MB"),
        (units.said_size(12), "12 B"), (units.said(1_310_000), "1.31 M"), (units.percent(0.923), "92 %"),
        (units.signed_size(-604_000_000), "−604 MB"), (units.signed_size(0), "±0"),
        (units.duration(0.42), "0.42 s"), (units.duration(300), "5 min"), (units.duration(843), "14 min"),
        (units.duration(11_340), "3 h 09 min"), (units.ahead(0.2), "1 s"), (units.ahead(9.2), "10 s"),
        (units.clock(1_790_000_000), "14:13:20"), (units.clock(1_790_000_000, 120), "16:13:20"),
        (units.whole(24_913_402), "24\u202f913\u202f402"), (units.counted(1, "group"), "1 group"),
        (units.counted(12, "group"), "12 groups"), (units.node_name(None), units.NONE),
    ],
)  # fmt: skip
def test_figures_as_people_read_them(made: str, wanted: str) -> None:
    assert made == wanted


# -- tokens, icons, help --------------------------------------------------------------------------------------


def luminance(value: str) -> float:
    parts = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    line = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2]


def contrast(theme: str, one: str, other: str) -> float:
    a, b = sorted((luminance(colour(theme, one)), luminance(colour(theme, other))), reverse=True)
    return (a + 0.05) / (b + 0.05)


TEXTS = [
    *[("text", ground) for ground in ("bg-surface", "bg-page", "bg-raised", "accent-soft")],
    *[(text, ground) for text in ("text-2", "text-3") for ground in ("bg-surface", "bg-page", "bg-sunken", "n-3")],
    ("on-accent", "accent"), ("accent", "bg-surface"), ("accent", "accent-soft"), ("text-2", "accent-soft"),
    *[(f"{state}-t", ground) for state in ("mem", "near", "disk", "held", "fail") for ground in ("bg-surface", f"{state}-s")],
]  # fmt: skip
SHAPES = [
    (name, "bg-surface")
    for name in ("mem", "near", "disk", "held", "fail", "ink-1", "ink-2", "line-ctl")
]


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_shapes_can_be_seen(theme: str) -> None:
    low = [(a, b, contrast(theme, a, b)) for a, b in TEXTS if contrast(theme, a, b) < 4.5]
    low += [(a, b, contrast(theme, a, b)) for a, b in SHAPES if contrast(theme, a, b) < 3.0]
    assert not low


@pytest.mark.parametrize("theme", THEMES)
def test_every_token_leads_to_a_value(theme: str) -> None:
    found = tokens(theme)
    assert len(found) > 80
    assert not [name for name, value in found.items() if "var(" in value or "light-dark" in value]
    with pytest.raises(AppError):
        colour(theme, "no-such-token")


def test_styles_name_no_colour_of_their_own_and_only_known_tokens() -> None:
    known = {*tokens("light"), "i"}
    wrong = []
    for path in sorted((ROOT / "assets").glob("*.css")):
        if path.name in ("tokens.css", "icons.css"):
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        wrong += [
            f"{path.name}: {found}"
            for found in re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)])|\brgba?\([^)]*\)", text)
        ]
        used = set(re.findall(r"var\(--([\w-]+)", text))
        local = set(re.findall(r"--([\w-]+)\s*:", text))
        wrong += [
            f"{path.name}: --{name}"
            for name in sorted(used - known - local)
            if not name.startswith(("mantine", "ag-"))
        ]
    assert not wrong


def test_icons_are_as_their_files_and_every_icon_that_is_used_is_there() -> None:
    assert (ROOT / "assets" / "icons.css").read_text() == css(ROOT / "assets" / "icons")
    there = {path.stem for path in (ROOT / "assets" / "icons").glob("*.svg")}
    assert {page.icon for page in pages()} <= there
    source = "\n".join(p.read_text() for p in (ROOT / "app").rglob("*.py"))
    named = set(re.findall(r"""\bicon\("([\w-]+)"\)|icon_button\(\s*"([\w-]+)\"""", source))
    assert {name for pair in named for name in pair if name} <= there


def test_every_metric_says_what_how_and_what_to_do() -> None:
    for name, told in HELP.items():
        for text in (told.what, told.how, told.do):
            assert text.endswith("."), name
            assert 20 < len(text) < 160, name
        assert json.dumps(help.mark(name).to_plotly_json(), default=lambda c: c.to_plotly_json())


# -- series that grow -----------------------------------------------------------------------------------------


def series_of(times: Any, step_s: float = 0.0) -> Series:
    times = np.asarray(times, dtype=np.float64)
    names = ("rows_out_per_s", "rows_in_per_s")
    return Series(times, dict.fromkeys(names, times % 100), step_s)


def applied(figure: dict[str, Any], patch: Patch) -> dict[str, Any]:
    """What a browser makes of a Patch."""
    made = json.loads(json.dumps(figure))
    for one in patch.to_plotly_json()["operations"]:
        place = made
        for key in one["location"][:-1]:
            place = place[key]
        last = one["location"][-1]
        if one["operation"] == "Extend":
            place[last].extend(one["params"]["value"])
        elif one["operation"] == "Delete":
            del place[last]
        elif one["operation"] == "Assign":
            place[last] = one["params"]["value"]
        else:
            raise AssertionError(one)
    return made


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    step=st.sampled_from([0.0, 5.0]),
    first=st.integers(2, 40),
)
def test_a_chart_that_grows_is_the_chart_as_a_whole(
    counts: list[int], step: float, first: int
) -> None:
    """Whatever comes between two looks: the points of the last looks, in order, none twice, none left out."""
    every = step or 1.0
    times = np.arange(first, dtype=np.float64) * every
    cursor, drawn = None, []
    for count in [0, *counts]:
        begin = times[-1] + every
        times = np.append(times, begin + every * np.arange(count))
        series = live.with_gaps(series_of(times[-60:], step))
        fresh = live.new_rows(cursor, "p", series)
        if fresh is None or cursor is None:
            cursor, drawn = live.begin("p", series), series.time_s.tolist()
            continue
        cursor, drop = live.after(cursor, series, fresh, 75)
        patch: Any = Patch()
        live.grow(patch, {0: (series.time_s[fresh], series.time_s[fresh])}, drop, charts.numbers)
        drawn = applied({"data": [{"x": drawn, "y": drawn}]}, patch)["data"][0]["x"]
        assert len(drawn) == cursor.points <= 75 + 1
        assert drawn[-len(series.time_s) :] == series.time_s.tolist()[-len(drawn) :]
    assert drawn == sorted(set(drawn))
    assert drawn[-1] == times[-1]
    assert Cursor.of(cursor.to_json() if cursor else None) == cursor


@pytest.mark.parametrize("raw", [None, 3, [], ["p"], [1, 2, 3, 4], ["p", "x", 1, 1], {"a": 1}])
def test_a_cursor_that_is_none_means_the_whole(raw: Any) -> None:
    assert Cursor.of(raw) is None
    assert live.new_rows(None, "p", series_of(range(5))) is None


def test_another_picture_or_step_is_sent_whole() -> None:
    series = series_of(range(10))
    cursor = live.begin("p", series)
    assert live.new_rows(cursor, "q", series) is None
    assert live.new_rows(cursor, "p", series_of(range(10), 5.0)) is None
    assert live.new_rows(cursor, "p", series).tolist() == []


def test_what_can_still_change_is_not_drawn_and_gaps_are_not_bridged() -> None:
    series = live.complete(series_of([0, 5, 10, 15], 5.0), 18.0)
    assert series.time_s.tolist() == [0, 5, 10]
    holed = live.with_gaps(series_of([0, 1, 2, 30, 31]))
    assert holed.time_s.tolist() == [0, 1, 2, 3, 30, 31]
    assert np.isnan(holed.values["rows_out_per_s"]).tolist() == [False] * 3 + [True] + [False] * 2


# -- pictures of a stage -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Stage(tmp_path_factory.mktemp("stage")).prepare().story()
    yield made
    made.store.close()


def seen_of(stage: Stage, **more: Any) -> tuple[Any, Seen, Any]:
    """The feed, a look at the query, and the cards of its nodes."""
    from app.server import make_app
    from app.settings import ConsoleSettings
    from control.dispatch import Dispatcher

    app = make_app(
        stage.store, Dispatcher(stage.store, stage.clock), ConsoleSettings(), stage.clock
    )
    feed, view = desk_of(app).feed, View(**more)
    row, sample = feed.query(""), feed.newest(QUERY)
    seen = Seen(view, row, sample, feed.fresh(row, sample, 2.0), stage.clock())
    return feed, seen, node_card.cards_of(sample, feed.full_in(sample))


@pytest.mark.parametrize("theme", THEMES)
def test_figures_are_what_plotly_knows(stage: Stage, theme: str) -> None:
    feed, seen, cards = seen_of(stage, theme=theme)
    series = feed.query_series(QUERY, 1_800.0, output_chart.POINTS)
    nodes = feed.node_series(QUERY, 1_800.0, memory_chart.POINTS)
    output = output_chart.whole(seen, series, feed.actions(QUERY, 1_800.0))
    memory = memory_chart.whole(memory_chart.picture(seen, nodes, cards))
    for figure in (output, memory):
        go.Figure(figure)  # raises for what it does not know
        text = json.dumps(figure)
        assert "var(" not in text
        assert "bdata" not in text
        assert all(isinstance(trace["x"], list) for trace in figure["data"])
    labels = " ".join(one["text"] for one in output["layout"]["annotations"])
    for word in (
        "move · 8 groups n4 → n0",
        "clean up · n5",
        "move failed",
        "spilled by own rule 9×",
    ):
        assert word in labels
    titles = " ".join(one["text"] for one in memory["layout"]["annotations"])
    assert "<b>n2</b>" in titles
    assert "full " in titles


@pytest.mark.parametrize(("nodes", "shown"), [(1, 1), (6, 6), (12, 12), (13, 11), (100, 11)])
def test_of_many_nodes_those_in_trouble_have_a_card(tmp_path: Path, nodes: int, shown: int) -> None:
    stage = Stage(tmp_path, nodes, 4 * nodes).prepare(600.0, 20.0)
    feed, seen, cards = seen_of(stage)
    chosen = node_card.worst(cards)
    assert len(chosen) == shown
    full = [s if s is not None else math.inf for s in cards.full_s]
    assert int(np.argmin(full)) in chosen or min(full) == math.inf
    assert int(np.argmax(cards.fill)) in chosen
    series = feed.node_series(QUERY, 600.0, memory_chart.POINTS)
    drawn = memory_chart.picture(seen, series, cards)
    figure = memory_chart.whole(drawn)
    go.Figure(figure)
    assert len(figure["data"]) <= 12 * memory_chart.PER_NODE
    assert len(node_card.strip(seen, cards, series)) == min(nodes, 12)
    stage.store.close()


@given(
    spans=st.lists(st.tuples(st.floats(0, 1_700), st.floats(0, 400), st.booleans()), max_size=25),
    wide=st.floats(200, 1_600),
)
def test_labels_in_lanes_never_cross(spans: list[tuple[float, float, bool]], wide: float) -> None:
    found = [
        lanes.Range(start, start + long if long else None, "held", "x" * 20, quiet)
        for start, long, quiet in spans
    ]
    placed = lanes.place(found, 0.0, 1_800.0, 1_800.0, wide)
    assert len(placed) == len(found)
    by_lane: dict[int, list[tuple[float, float]]] = {}
    letters = (lanes.LETTER_PX * 20 + lanes.PAD_PX) / wide
    for one in placed:
        assert 0 <= one.lane < lanes.LANES_MAX
        if one.side not in ("left", "right") or one.range.quiet:
            continue
        x0, x1 = lanes._extent(one.range, 0.0, 1_800.0, 1_800.0)
        low, high = (x0, x1 + letters) if one.side == "right" else (x0 - letters, x1)
        assert low >= -0.01
        assert high <= 1.01
        by_lane.setdefault(one.lane, []).append((low, high))
    for taken in by_lane.values():
        taken.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(taken))
    for one in placed:  # and no bar lies under another's label
        if one.range.quiet:
            continue
        x0, x1 = lanes._extent(one.range, 0.0, 1_800.0, 1_800.0)
        for other in placed:
            if other is one or other.lane != one.lane or other.side not in ("left", "right"):
                continue
            y0, y1 = lanes._extent(other.range, 0.0, 1_800.0, 1_800.0)
            low, high = (y1, y1 + letters) if other.side == "right" else (y0 - letters, y0)
            assert not (low < x1 - 1e-9 and x0 + 1e-9 < high)


def test_names_from_outside_are_text_in_charts() -> None:
    assert charts.safe("<a href='x'>&") == "&lt;a href='x'&gt;&amp;"
    stage_rule = "<b>rule</b>"
    one = lanes.Range(0.0, 10.0, "held", f"move · {stage_rule}")
    placed = lanes.place([one], 0.0, 100.0, 100.0, 900.0)
    ink = charts.Ink("dark")
    _, notes = lanes.drawn(placed, ink, 0.0, 100.0, 100.0, 0)
    assert notes[0]["text"] == "move · &lt;b&gt;rule&lt;/b&gt;"


# -- the headline ------------------------------------------------------------------------------------------------


def test_the_headline_says_who_when_what_and_what_would_help(stage: Stage) -> None:
    feed, seen, cards = seen_of(stage)
    menu = [
        {
            "do": "move",
            "pays": True,
            "step": {"do": "move", "source": 2, "target": 0, "parts": [["j", [1, 2]]]},
        }
    ]
    said = headline(seen, cards.full_s, feed.running(QUERY), menu)
    assert said.tone == "near"
    assert said.strong.startswith("n2 is full in ")
    assert "Move 8 groups n2 → n3 is under way." in said.rest
    assert said.rest.endswith("Move 2 groups n2 → n0 would help most.")
    quiet = headline(seen, [None] * 6, [], [{"do": "nothing", "step": None}])
    assert (quiet.tone, quiet.strong) == ("", "All is well.")
    assert "none fills within a day" in quiet.rest


def test_the_headline_says_when_nothing_is_known_any_more(stage: Stage) -> None:
    later = Clock(stage.clock() + 192.0)
    _, seen, _ = seen_of(Played(stage, later))  # type: ignore[arg-type]
    assert seen.stale
    said = headline(seen, [], [], [])
    assert said.tone == "fail"
    assert said.strong == "The engine has not answered for 3 min 12 s."
    assert "no input is lost" in said.rest


class Played:
    """The same store at another time."""

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self.store, self.clock = stage.store, clock
