"""Rules as text: what is read from it, what is refused and how, what ships."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cost.coefficients import Coefficients
from control.errors import RuleError
from control.limits import Limits
from control.policies.best_gain import BestGain
from control.policies.registry import KINDS, with_numbers
from control.policies.relocate import Relocate
from control.rules import (
    KEYS,
    MODES,
    Mode,
    node_rule,
    rule_from,
    rule_to_json,
    shipped_rules,
)
from control.schedule import Quiet, Schedule
from control.units import said, seconds, size_bytes

FULL = """
name = "relocate"
mode = "auto"
query = "trades"
every = "15s"
zone = "Europe/Berlin"
cooldown = "45s"
quiet = ["22:00-06:00", "12:00-12:30"]
needs_gain = false
least_gain = 3
least_confidence = 0.9

[policy]
name = "relocate"
ratio = 0.7
span_s = 20

[limits]
action_bytes_max = "50MB"
receiver_fill_max = 0.8
"""
SHORT = 'name = "a"\nevery = 15\n[policy]\nname = "none"\n'


def test_everything_that_a_rule_says_is_read() -> None:
    rule = rule_from(FULL)
    assert (rule.name, rule.mode, rule.query) == ("relocate", Mode.AUTO, "trades")
    assert rule.schedule == Schedule(15.0, None, "Europe/Berlin")
    assert rule.policy == Relocate(0.7, 20.0)
    assert rule.limits == Limits(50_000_000, receiver_fill_max=0.8)
    assert rule.cooldown_s == 45 and len(rule.quiet) == 2
    assert (rule.needs_gain, rule.least_gain, rule.least_confidence) == (False, 3.0, 0.9)
    assert rule.covers("trades") and not rule.covers("other")
    assert rule.text == FULL


def test_what_is_left_out_is_careful() -> None:
    rule = rule_from(SHORT)
    assert rule.mode is Mode.PROPOSE and rule.needs_gain
    assert (rule.least_gain, rule.least_confidence, rule.cooldown_s) == (2.0, 0.8, 60.0)
    assert rule.covers("anything") and rule.zone == "UTC" and rule.limits == Limits()


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("name = ", "is not TOML", ""),
        (SHORT.replace("every", "evry"), "no key 'evry'", "did you mean every?"),
        (SHORT.replace('"a"', '"A b"'), "`name` cannot be", "small letters"),
        (SHORT.replace("every = 15\n", ""), "needs `every` or `cron`", "every = "),
        (SHORT.replace("every = 15", 'every = 15\ncron = "0 3 * * *"'), "one of them", ""),
        (SHORT.replace("15", '"soon"'), "'soon' is not a time", "15s"),
        (SHORT.replace("15", "true"), "True is not a time", ""),
        (SHORT.replace("15", "-1"), "-1 is not a time", ""),
        (SHORT.replace("15", "0.2"), "out of range", "1s to 366d"),
        (SHORT.replace('"none"', '"relocat"'), "is none", "did you mean 'relocate'"),
        (SHORT.replace('name = "none"', 'nam = "none"'), "needs a table \\[policy\\]", "known"),
        (SHORT + "ratio = 3\n", "no parameter 'ratio'", ""),
        (SHORT.replace('"none"', '"relocate"') + "ratio = 3\n", "3 is out of range", "0 to 1"),
        ('mode = "atuo"\n' + SHORT, "`mode` cannot be", "did you mean auto?"),
        ("mode = 3\n" + SHORT, "`mode` cannot be", "off, propose, auto"),
        ('query = ""\n' + SHORT, "`query` cannot be", "for all"),
        ('zone = "Europe/Berln"\n' + SHORT, "no zone", "Europe/Berlin"),
        ('cooldown = "1 week"\n' + SHORT, "is not a time", ""),
        ('quiet = "22:00-06:00"\n' + SHORT, "is not a list", "quiet = \\["),
        ('quiet = ["22-6"]\n' + SHORT, "is not a span", "22:00-06:00"),
        ("needs_gain = 1\n" + SHORT, "is not true or false", ""),
        ("least_confidence = 80\n" + SHORT, "out of range", "0 to 1"),
        (SHORT + '[limits]\naction_bytes = "5MB"\n', "no limit", "action_bytes_max"),
        (SHORT + '[limits]\naction_bytes_max = "5 parsecs"\n', "is not a size", "50MB"),
        (SHORT + "#" * 30_000, "too long", "20,000"),
    ],
)
def test_errors_say_what_and_what_would_be_right(text: str, what: str, hint: str) -> None:
    with pytest.raises(RuleError, match=what) as caught:
        rule_from(text)
    assert caught.value.where.startswith("rule")
    if hint:
        assert caught.match(hint)


@given(st.text(max_size=200))
def test_any_text_is_a_rule_or_a_rule_error(text: str) -> None:
    try:
        rule_from(text)
    except RuleError as error:
        assert error.what


@given(
    st.sampled_from(KEYS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)  # fmt: skip
def test_any_value_anywhere_is_taken_or_refused(key: str, value: object) -> None:
    table = {**tomllib.loads(FULL), key: value}
    try:
        rule_from(_toml(table))
    except RuleError as error:
        assert error.what and error.where


def _toml(table: dict[str, object]) -> str:
    """Enough of TOML for the test above: inline values only."""

    def value(one: object) -> str:
        if isinstance(one, bool):
            return str(one).lower()
        if isinstance(one, str):
            return json.dumps(one, ensure_ascii=True)
        if isinstance(one, list):
            return "[" + ", ".join(value(item) for item in one if item is not None) + "]"
        if isinstance(one, dict):
            inner = (f"{json.dumps(k)} = {value(v)}" for k, v in one.items() if v is not None)
            return "{" + ", ".join(inner) + "}"
        return repr(one)

    return "\n".join(f"{name} = {value(one)}" for name, one in table.items() if one is not None)


@pytest.mark.parametrize("text", [FULL, SHORT, *(rule.text for rule in shipped_rules())])
def test_as_json_it_says_everything(text: str) -> None:
    told = rule_to_json(rule_from(text))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    names = {one["name"] for one in told["policy"]["parameters"]}
    given_ = set(tomllib.loads(text)["policy"]) - {"name"}
    assert given_ <= names
    for one in told["policy"]["parameters"]:
        if one["name"] in given_:
            assert one["value"] == tomllib.loads(text)["policy"][one["name"]]


def test_what_ships_acts_on_nothing_but_the_demo() -> None:
    shipped = shipped_rules()
    assert len({rule.name for rule in shipped}) == len(shipped)
    rules = [rule for rule in shipped if rule.query != "demo"]
    assert len(rules) >= 4
    assert all(rule.mode in (Mode.OFF, Mode.PROPOSE) for rule in rules)
    assert any(rule.mode is Mode.PROPOSE for rule in rules)
    assert {rule.policy.name for rule in rules} <= set(KINDS)
    assert all(rule.limits.receiver_fill_max < 0.9 for rule in rules if rule.policy.name != "none")


def test_modes_are_what_the_dispatcher_takes() -> None:
    assert MODES == ("off", "propose", "auto")


def test_only_policies_that_price_take_what_was_learned() -> None:
    numbers = replace(Coefficients(), write_s_per_byte=7e-9)
    learned = with_numbers(BestGain(), numbers)
    assert isinstance(learned, BestGain) and learned.numbers == numbers
    assert with_numbers(Relocate(), numbers) == Relocate()


def test_the_nodes_own_rule_is_the_policys() -> None:
    rule = rule_from(
        SHORT.replace('"none"', '"lazy_disk"') + "threshold = 0.7\nspill_percent = 20\n"
    )
    assert (node_rule(rule).threshold, node_rule(rule).percent) == (0.7, 20.0)


@given(st.integers(0, 10**15))
def test_sizes_read_as_they_are_written(size: int) -> None:
    assert size_bytes(size, "test") == size
    assert size_bytes(f"{size} B", "test") == size
    assert size_bytes("1.5MiB", "test") == 3 * 2**19


@given(st.integers(1, 10**7))
def test_times_read_as_they_are_written(whole: int) -> None:
    assert seconds(f"{whole}s", "test") == seconds(whole, "test") == whole
    assert seconds(f"{whole}min", "test") == 60 * whole
    assert said(whole)


def test_times_are_said_with_two_units() -> None:
    assert [said(s) for s in (0, 59, 61, 3600, 90_061)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h",
        "1 d 1 h",
    ]


def test_quiet_hours_print_as_they_are_read() -> None:
    assert str(Quiet.parse("6:05-24:00", "test")) == "06:05-00:00"
