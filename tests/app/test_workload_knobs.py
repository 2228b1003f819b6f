"""Sliders of generated streams: whatever is turned, the engine takes it; what is not turned is not asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.pages import workload_knobs as knobs
from engine.query.model import StreamSpec
from engine.sources import workload

DEMO = {
    "prices": {"preset": "prices", "rate": "3200", "tuple_range": "32000", "join_ratio": "4",
               "fresh_keys": "true", "start": "now"},
    "volumes": {"preset": "volumes", "rate": "1600", "tuple_range": "16000", "join_ratio": "2",
                "fresh_keys": "true", "start": "now"},
    "drawn": {"rate": "500", "keys": "9000", "zipf": "1.1"},
    "ranged": {"rate": "50", "tuple_range": "1000", "join_ratio": "5"},
}  # fmt: skip


def begun(folder: Path) -> None:
    """As the engine has it before the streams start."""
    streams = [
        StreamSpec(name, "generator", "", (), "ts", 1.0, options=given)
        for name, given in DEMO.items()
    ]
    workload.prepare_all(folder, streams, 1)


def about(folder: Path) -> dict[str, Any]:
    """As the engine tells it."""
    told: dict[str, Any] = {}
    for name, file in DEMO.items():
        now = workload.current(folder, name)
        assert now is not None
        told[name] = {"format": "generator", "options": dict(now.values), "file": file}
    return {"streams": told}


@st.composite
def turned(draw: st.DrawFn, stream: knobs.Stream) -> dict[str, float]:
    """Sliders stop at steps from their least on, or at their end."""
    found = {}
    for knob in stream.knobs:
        steps = int((knob.most - knob.least) / knob.step)
        at = draw(st.integers(0, max(steps, 0)))
        found[knob.name] = min(knob.most, knob.least + at * knob.step)
    return found


@given(st.data())
def test_the_engine_takes_whatever_sliders_give(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        begun(folder)
        for round in range(3):
            for stream in knobs.streams_of(about(folder)):
                options = knobs.asked(stream, data.draw(turned(stream)))
                workload.change(folder, stream.name, options, now_us=10 + round)
        for stream in knobs.streams_of(about(folder)):
            assert knobs.asked(stream, {knob.name: knob.now for knob in stream.knobs}) == {}


def test_what_is_not_turned_is_not_asked_for(tmp_path: Path) -> None:
    begun(tmp_path)
    for stream in knobs.streams_of(about(tmp_path)):
        as_it_is = {knob.name: knob.now for knob in stream.knobs}
        assert knobs.asked(stream, as_it_is) == {}
        assert knobs.asked(stream, {**as_it_is, "rate": "fast"}) == {}
        rate = stream.knob("rate")
        assert rate is not None
        assert set(knobs.asked(stream, {**as_it_is, "rate": rate.most})) == {"rate"}


def test_knobs_are_those_that_the_stream_may_change(tmp_path: Path) -> None:
    begun(tmp_path)
    found: Mapping[str, list[str]] = {
        one.name: [knob.name for knob in one.knobs] for one in knobs.streams_of(about(tmp_path))
    }
    assert found == {
        "prices": ["rate", "zipf", "join_ratio"],
        "volumes": ["rate", "zipf", "join_ratio"],
        "drawn": ["rate", "zipf"],
        "ranged": ["rate", "join_ratio"],
    }


def test_all_rates_go_back_to_the_file(tmp_path: Path) -> None:
    begun(tmp_path)
    for factor in (0.5, 2.0, 2.0, 0.0):
        for stream in knobs.streams_of(about(tmp_path)):
            workload.change(tmp_path, stream.name, knobs.scaled(stream, factor), now_us=9)
    rates = {
        name: float(one["options"]["rate"]) for name, one in about(tmp_path)["streams"].items()
    }
    assert rates == {name: float(file["rate"]) for name, file in DEMO.items()}


def test_hot_keys_are_shifted_together(tmp_path: Path) -> None:
    begun(tmp_path)
    for name in ("prices", "volumes"):
        workload.change(tmp_path, name, {"zipf": "1"}, now_us=5)
    for turn in (1, 2):
        wanted = knobs.shifted(knobs.streams_of(about(tmp_path)))
        assert set(wanted) == {"prices", "volumes", "drawn"}
        assert len({options["shift"] for options in wanted.values()}) == 1
        for name, options in wanted.items():
            workload.change(tmp_path, name, options, now_us=5 + turn)
    assert {one.shift for one in knobs.streams_of(about(tmp_path)) if one.skewed} == {2 * 2666}


def test_nothing_is_shifted_where_no_key_is_hot(tmp_path: Path) -> None:
    begun(tmp_path)
    workload.change(tmp_path, "drawn", {"zipf": "0"}, now_us=5)
    assert knobs.shifted(knobs.streams_of(about(tmp_path))) == {}
