"""The editor of rules: what there is to begin with can be read, an error names its line; backtests become charts."""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.components.because import by_topic, said_number
from app.pages import rules_plot
from app.pages.rules_text import begun, check
from app.view import View
from control.plans import Topic
from control.policies.registry import KINDS
from control.rules import rule_from, shipped_rules
from control.simulate.backtest import backtest
from tests.control.drifting import MB, drift, even, record

GOOD = (
    'name = "even"\nmode = "propose"\nevery = "30s"\n\n[policy]\nname = "relocate"\nratio = 0.8\n'
)


@pytest.mark.parametrize("policy", KINDS)
def test_what_there_is_to_begin_with_reads_well(policy: str) -> None:
    found = check(begun(policy, "market"))
    assert found.good and found.rule["policy"]["name"] == policy
    assert found.rule["query"] == "market" and found.rule["mode"] == "propose"
    unchanged = {p["name"]: p["value"] == p["default"] for p in found.rule["policy"]["parameters"]}
    assert all(unchanged.values()), unchanged


@pytest.mark.parametrize(
    ("was", "is_", "line"),
    [
        ('mode = "propose"', 'mode = "sometimes"', 2),
        ('every = "30s"', 'every = "soon"', 3),
        ('every = "30s"', 'evry = "30s"', 3),
        ('every = "30s"', 'cron = "61 * * * *"', 3),
        ("[policy]", "[policie]", 5),
        ('name = "relocate"', 'name = "relocat"', 6),
        ("ratio = 0.8", "ratio = 1.8", 7),
        ("ratio = 0.8", "ration = 0.8", 7),
        ("ratio = 0.8", "ratio = ", 7),
        ('name = "even"', "name = 7", 1),
    ],
)
def test_an_error_names_its_line(was: str, is_: str, line: int) -> None:
    found = check(GOOD.replace(was, is_))
    assert not found.good and found.what
    assert found.line == line, found


@given(st.text(max_size=400))
def test_whatever_is_written_is_answered(text: str) -> None:
    found = check(text)
    assert found.good or found.what
    assert found.line is None or 1 <= found.line <= text.count("\n") + 1


@given(st.integers(1, 12), st.text(alphabet='abc=[]"# \n1.', max_size=30))
def test_a_rule_with_something_in_it_is_answered(at: int, more: str) -> None:
    lines = begun("lazy_disk", "q").splitlines()
    lines.insert(min(at, len(lines)), more)
    text = "\n".join(lines)
    found = check(text)
    assert found.line is None or 1 <= found.line <= text.count("\n") + 1


def test_shipped_rules_read_well() -> None:
    assert all(check(rule.text).good for rule in shipped_rules())


def told() -> dict[str, Any]:
    shots = record(drift(1), [0] * 24 + [1] * 8, 24 * MB, 20)
    found = backtest(rule_from(even()), shots)
    return {**json.loads(json.dumps(found)), "ratio": 0.8}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_backtest_is_a_chart_that_plotly_takes(theme: str) -> None:
    found = told()
    assert found["firings"]
    figure = rules_plot.figure(found, View(theme=theme, zone_min=60), 30 * MB)
    assert go.Figure(figure).to_dict()["data"]
    assert "var(" not in json.dumps(figure)
    marks = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    assert len(marks[0]["x"]) == found["firings"]
    carried = next(trace for trace in figure["data"] if trace["yaxis"] == "y3")
    assert carried["y"] == sorted(carried["y"])
    texts = json.dumps(
        [c.to_plotly_json() for c in rules_plot.stats(found, 30 * MB, 60.0)], default=str
    )
    assert "group" in texts


def test_a_backtest_over_nothing_says_so() -> None:
    found = json.loads(json.dumps(backtest(rule_from(even()), [])))
    assert rules_plot.sub(found, 0) == "nothing is recorded of that time"
    assert rules_plot.figure(found, View(), 0.0)["data"]


def test_reasons_are_sentences_with_their_units() -> None:
    reasons = [
        [Topic.INPUT, "least / most", [["ratio", 0.49], ["cap_bytes", 12e6], ["gap_s", 45.0]]],
        [Topic.CHOSEN, "gains most", []],
    ]
    assert by_topic(reasons) == {
        "why": ["least / most (ratio 0.49, cap 12.0 MB, gap 45 s)"],
        "chosen": ["gains most"],
    }
    assert (
        said_number("gain_row_s", 2e6) == "2.00 M row·s" and said_number("chance", 0.98) == "98 %"
    )
