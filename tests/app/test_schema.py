"""Bodies against schemas, frozen values as JSON, and cells of CSV: properties."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import schema
from app.api.all import ROUTES
from app.api.proposals import REQUEST, STEP
from app.api.schema import checked, from_text
from app.api.shapes import numbers, plain, schema_of, shown
from app.export import FORMULA, csv_text
from control.ledger import Command, CommandState, QueryRow, Wanted
from control.people import Source

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMED = st.sampled_from(
    ["do", "node", "to", "operator", "groups", "percent", "bytes", "parts", "x"]
)
BODIES = st.dictionaries(
    NAMED,
    VALUES | st.sampled_from(["spill", "move", 1, 0, 2.0, [["join", [1]]], [1, 2]]),
    max_size=6,
)
SCHEMAS = st.sampled_from([REQUEST, STEP, *(route.body for route in ROUTES if route.body)])


@given(BODIES | VALUES, SCHEMAS)
def test_what_we_refuse_is_what_another_validator_refuses(value: Any, body: Any) -> None:
    """Against an independent implementation of JSON Schema 2020-12."""
    _, faults = checked(value, body)
    assert bool(faults) != jsonschema_rs.is_valid(body, value), faults


@given(st.integers(-5, 5) | st.floats(-5, 5), st.integers(-3, 0), st.integers(0, 3))
def test_whole_numbers_come_out_as_ints(value: Any, low: int, high: int) -> None:
    found, faults = checked(value, schema.whole(low, high))
    assert (not faults) == (value == int(value) and low <= value <= high)
    if not faults:
        assert type(found) is int


@given(st.text(max_size=30))
def test_parameters_from_text_never_raise(raw: str) -> None:
    for wanted in (
        schema.whole(),
        schema.number(),
        schema.BOOL,
        schema.text(5),
        schema.array(schema.whole()),
    ):
        found, faults = from_text(raw, wanted, "x")
        if not faults:
            assert not checked(found, wanted)[1]


@given(st.floats(0, 1e9))
def test_numbers_as_clients_write_them_are_read(value: float) -> None:
    found, faults = from_text(str(value), schema.number(), "x")
    assert not faults
    assert found == value


@pytest.mark.parametrize("value", [1e308, 10**400, float("inf"), -1e308])
def test_numbers_that_are_too_large_are_refused(value: Any) -> None:
    assert checked(value, schema.whole())[1]
    assert checked(value, schema.number())[1]


def test_a_pattern_is_for_the_whole_text() -> None:
    assert checked("abc\n", schema.name())[1]
    assert not checked("abc", schema.name())[1]


# -- values as JSON ----------------------------------------------------------------------------------


def test_a_frozen_value_and_its_schema_agree() -> None:
    command = Command("c", "hold", "q", {"a": (1, 2)}, "ada", Source.API, "", 1.0, 2.0)
    found = shown(command)
    assert found["state"] == CommandState.QUEUED.value
    assert found["body"] == {"a": [1, 2]}
    assert jsonschema_rs.is_valid(schema_of(Command), found)
    row = QueryRow("q", "text", "", None, Wanted.RUNNING, True, 1.0)
    short = shown(row, ("text",))
    assert "text" not in short
    assert jsonschema_rs.is_valid(schema_of(QueryRow, ("text",)), short)


@dataclass(frozen=True)
class Odd:
    column: Any
    number: Any


@given(st.lists(st.floats(width=32), max_size=20))
def test_anything_numeric_becomes_json(values: list[float]) -> None:
    told = plain(Odd(np.array(values), [np.float64(v) for v in values]))
    text = json.dumps(told, allow_nan=False)
    back = json.loads(text)
    for value, shown_value in zip(values, back["number"], strict=True):
        assert (
            shown_value is None if not math.isfinite(value) else shown_value == pytest.approx(value)
        )


@given(st.lists(st.floats(1e9, 2e9), min_size=1))
def test_times_keep_their_milliseconds(times: list[float]) -> None:
    assert numbers(np.array(times)) == pytest.approx(times, abs=6e-4, rel=0)


# -- CSV ---------------------------------------------------------------------------------------------

CELLS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@given(st.lists(st.lists(CELLS | st.integers() | st.floats(), min_size=2, max_size=2), max_size=5))
def test_no_cell_starts_a_formula_and_nothing_is_lost(rows: list[list[Any]]) -> None:
    text = csv_text(["=a", "b"], rows)
    back = list(csv.reader(io.StringIO(text, newline="")))
    assert len(back) == len(rows) + 1
    assert back[0] == ["'=a", "b"]
    for row, told in zip(rows, back[1:], strict=True):
        for value, cell in zip(row, told, strict=True):
            if isinstance(value, str):
                assert not cell.lstrip(" ").startswith(FORMULA)
                assert cell in (value, f"'{value}")
            elif isinstance(value, int):
                assert int(cell) == value
