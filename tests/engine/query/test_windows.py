"""Windows in their three forms, brought to closed bounds; and what is refused, by message and place."""

from __future__ import annotations

import operator
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import QueryFileError, SqlError
from engine.query.bounds import close, contradiction
from engine.query.ddl import parse_schema
from engine.query.model import Bound, Field, JoinQuery, QuerySpec, SinkSpec, StreamSpec
from engine.query.sql import analyse

TIMES = {"a": "ts", "b": "ts", "c": "ts", "n": "ts", "d": None}
SCHEMAS = {
    "a": "k bigint, ts timestamp, other timestamp, v int",
    "b": "k bigint, ts timestamp, other timestamp, w int",
    "c": "k bigint, ts timestamp",
    "n": "k bigint, ts timestamp_ntz",
    "d": "k bigint, ts timestamp",
}
MINUTE = 60_000_000
ON = " FROM a JOIN b ON a.k = b.k "


def query(sql: str, window_s: float | None = None) -> JoinQuery:
    streams = {
        name: StreamSpec(name, "parquet", "", parse_schema(text), TIMES[name])
        for name, text in SCHEMAS.items()
    }
    sink = SinkSpec("noop", "")
    spec = QuerySpec("q", sql, streams, sink, Path("c"), Path("q.toml"), window_s=window_s)
    return analyse(spec)


def bounds(found: JoinQuery) -> dict[tuple[int, int], int]:
    return {(b.early, b.late): b.us for b in found.bounds}


def both(us: int) -> dict[tuple[int, int], int]:
    return {(0, 1): us, (1, 0): us}


def test_one_window_in_the_file() -> None:
    found = query("SELECT a.ts, b.other, v FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k", 60.0)
    assert bounds(found) == dict.fromkeys(permutations(range(3), 2), MINUTE)
    assert [i.time for i in found.inputs] == ["ts"] * 3
    assert [o.source for o in found.outputs] == ["@a", "b.other", "a.v"]
    assert found.inputs[0].payload == (Field("v", "int"),)
    assert found.order is None and found.where is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a [RANGE 2 MINUTES], b [RANGE 2 MINUTES]", both(2 * MINUTE)),
        ("a [range 2min] AS a, b [Range 120 SECONDS] b", both(2 * MINUTE)),
        ("a AS a [RANGE 1 minute 30 s], b [RANGE 500 ms]", {(0, 1): 90_000_000, (1, 0): 500_000}),
        ("a [RANGE INTERVAL '1' MINUTE], b", {(0, 1): MINUTE}),
        ("a [RANGE UNBOUNDED], b [NOW]", {(1, 0): 0}),
        ("a [Unbounded], b [range now]", {(1, 0): 0}),
        ("a [RANGE\n 1 minute\n], b", {(0, 1): MINUTE}),
        (
            "(SELECT * FROM a) a [RANGE 1 min], (SELECT * FROM b) [RANGE 2 min] AS b",
            {(0, 1): MINUTE, (1, 0): 2 * MINUTE},
        ),
    ],
)
def test_cql_windows(text: str, expected: dict[tuple[int, int], int]) -> None:
    assert bounds(query(f"SELECT v FROM {text} WHERE a.k = b.k")) == expected


def test_a_range_bounds_all_later_streams() -> None:
    found = query("SELECT v FROM a, b [RANGE 1 min], c WHERE a.k = b.k AND b.k = c.k")
    assert bounds(found) == {(1, 0): MINUTE, (1, 2): MINUTE}
    assert [i.time for i in found.inputs] == ["ts", "ts", "ts"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts + INTERVAL 2 MINUTES",
            {(0, 1): 2 * MINUTE, (1, 0): MINUTE},
        ),
        ("(a.ts BETWEEN b.ts AND INTERVAL '3' SECONDS + b.ts)", {(1, 0): 3_000_000, (0, 1): 0}),
        ("b.ts <= a.ts + INTERVAL 1 MINUTE", {(0, 1): MINUTE}),
        ("b.ts < a.ts + INTERVAL 1 MINUTE", {(0, 1): MINUTE - 1}),
        ("a.ts + INTERVAL 1 MINUTE >= b.ts", {(0, 1): MINUTE}),
        ("a.ts > b.ts", {(0, 1): -1}),
        ("b.ts - a.ts < INTERVAL 1 HOUR + INTERVAL 1 DAY", {(0, 1): 90_000 * 1_000_000 - 1}),
        ("a.ts = b.ts - INTERVAL 5 SECONDS", {(0, 1): 5_000_000, (1, 0): -5_000_000}),
        (
            "b.ts <= a.ts + INTERVAL 1 MINUTE AND b.ts < a.ts + INTERVAL 10 SECONDS AND a.ts <= b.ts",
            {(0, 1): 9_999_999, (1, 0): 0},
        ),
    ],
)
def test_conditions_between_event_times(text: str, expected: dict[tuple[int, int], int]) -> None:
    for clause in ("AND", "WHERE"):
        found = query(f"SELECT v{ON}{clause} {text}")
        assert bounds(found) == expected and found.where is None
        assert [i.time for i in found.inputs] == ["ts", "ts"]


def test_equal_times_are_a_key_too() -> None:
    found = query(f"SELECT a.ts{ON}AND a.ts = b.ts")
    assert [key.type for key in found.inputs[0].keys] == ["bigint", "timestamp"] and bounds(
        found
    ) == both(0)
    assert found.outputs[0].source == "$1"


@pytest.mark.parametrize(
    "text",
    [
        "b.other <= a.ts + INTERVAL 1 MINUTE",
        "b.other BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE",
        "(b.ts <= a.ts OR v = w)",
        "NOT b.ts <= a.ts",
        "b.ts <> a.ts",
        "a.ts <= coalesce(b.ts, b.other)",
    ],
)
def test_other_comparisons_stay_filters(text: str) -> None:
    found = query(f"SELECT v{ON}AND {text}")
    assert found.bounds == () and found.where is not None
    assert [i.time for i in found.inputs] == [None, None]


def test_one_half_of_between_may_be_a_bound() -> None:
    found = query(f"SELECT v{ON}AND b.ts BETWEEN a.ts AND a.other")
    assert bounds(found) == {(1, 0): 0}
    assert found.where == '("@b" <= "a.other")'


def test_forms_combine_to_the_tightest() -> None:
    found = query(
        "SELECT v FROM a JOIN b [RANGE 10 s] ON a.k = b.k AND b.ts <= a.ts + INTERVAL 5 SECONDS "
        "JOIN c ON c.k = a.k",
        60.0,
    )
    second = 1_000_000
    assert bounds(found) == {
        (0, 1): 5 * second,
        (1, 0): 10 * second,
        (0, 2): 15 * second,
        (2, 0): 60 * second,
        (1, 2): 10 * second,
        (2, 1): 60 * second,
    }


def test_streams_without_a_window_keep_all() -> None:
    found = query("SELECT v FROM a JOIN b ON a.k = b.k AND a.ts <= b.ts JOIN d ON d.k = a.k")
    assert bounds(found) == {(1, 0): 0}
    assert [i.time for i in found.inputs] == ["ts", "ts", None]


REFUSED = [
    (
        "SELECT v FROM a [ROWS 10], b WHERE a.k = b.k",
        r"line 1 column 17: \[ROWS …\] is not supported",
    ),
    (
        "SELECT v FROM a [PARTITION BY k ROWS 3], b WHERE a.k = b.k",
        r"\[PARTITION BY …\] is not supported",
    ),
    (
        "SELECT v FROM a [RANGE 2 MIN SLIDE 1 MIN], b WHERE a.k = b.k",
        "SLIDE in a window is not supported",
    ),
    (
        "SELECT v FROM\n a [RANGE soon], b WHERE a.k = b.k",
        r"line 2 column 4: `\[RANGE soon\]` is not a window\n  write for example \[RANGE 2 MINUTES\]",
    ),
    (
        "SELECT v [RANGE 2 MIN] FROM a, b WHERE a.k = b.k",
        r"line 1 column 10: `\[RANGE 2 MIN\]` does not stand behind a stream in FROM",
    ),
    ("SELECT v FROM a, b WHERE a.k = b.k [NOW]", r"`\[NOW\]` does not stand behind a stream"),
    (
        "SELECT v FROM a [NOW] x [NOW], b WHERE x.k = b.k",
        r"column 25: `\[NOW\]` is a second window",
    ),
    ("SELECT v FROM a [RANGE 99999999 days], b WHERE a.k = b.k", "longer than 10000 years"),
    (f"SELECT v{ON}AND b.ts <= a.ts + INTERVAL 99999999 DAYS", "longer than 10000 years"),
    (
        "SELECT v FROM a [RANGE 1 min], d WHERE a.k = d.k",
        r"column 17: stream d needs `time = …` in the query file for its window\n"
        r"  name its event time column under \[streams.d\]",
    ),
    (
        "SELECT v FROM a [RANGE 1 min], n WHERE a.k = n.k",
        r"the times of a \(timestamp\) and n \(timestamp_ntz\) do not mix in a window",
    ),
    (
        "SELECT v FROM a JOIN n ON a.k = n.k AND a.ts <= n.ts",
        "column 41: the times of n .* and a .* do not mix",
    ),
    (
        f"SELECT v{ON}AND a.ts < b.ts AND b.ts <= a.ts",
        r"line 1 column 57: this bound can never hold: `a.ts < b.ts` \(line 1 column 41\) with "
        r"`b.ts <= a.ts` \(line 1 column 57\)\n  no rows could ever join; widen one of them",
    ),
    (
        "SELECT v FROM a [RANGE 1 min], b WHERE a.k = b.k AND b.ts >= a.ts + INTERVAL 2 MINUTES",
        r"this bound can never hold: .*`b.ts >= a.ts \+ INTERVAL 2 MINUTES` \(line 1 column 54\)",
    ),
    (
        f"SELECT v{ON}AND b.ts BETWEEN a.ts + INTERVAL 5 SECONDS AND a.ts",
        "this bound can never hold: `b.ts BETWEEN a.ts .* INTERVAL 5 SECONDS AND a.ts`",
    ),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_refused(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        query(sql)
    assert caught.value.where.startswith("q.toml: sql line ")


def test_a_bound_against_the_file_window() -> None:
    with pytest.raises(SqlError, match=r'never hold: .*`window = "60 seconds"`'):
        query(f"SELECT v{ON}AND b.ts > a.ts + INTERVAL 1 MINUTE", 60.0)
    assert bounds(query(f"SELECT v{ON}AND b.ts >= a.ts + INTERVAL 1 MINUTE", 60.0)) == {
        (0, 1): MINUTE,
        (1, 0): -MINUTE,
    }


def test_a_file_window_needs_times() -> None:
    with pytest.raises(QueryFileError, match=r"q\.toml: window: stream d needs `time = …`"):
        query("SELECT v FROM a JOIN d ON a.k = d.k", 60.0)


def test_brackets_in_texts_are_left_alone() -> None:
    found = query(f"SELECT v, '[NOW]' AS x{ON}-- [RANGE 1 min]\n AND a.v < 3 /* [NOW] */")
    assert found.bounds == () and found.outputs[1].expr == "'[NOW]'"


def test_the_traffic_query_of_the_thesis() -> None:
    sql = (
        "SELECT R1.carID, R1.MPH\nFROM Sensor2 as R2 [Range 2min], Sensor1 as R1 [Range 2min]\n"
        'WHERE R1.carID = R2.carID AND R1.type = "Car";\n'
    )
    fields = parse_schema("Time timestamp, carID string, type string, MPH int")
    streams = {name: StreamSpec(name, "csv", "", fields, "Time") for name in ("Sensor1", "Sensor2")}
    found = analyse(QuerySpec("q", sql, streams, SinkSpec("noop", ""), Path("c"), Path("q.toml")))
    assert [(i.alias, i.stream, i.time, i.where) for i in found.inputs] == [
        ("R2", "Sensor2", "Time", None),
        ("R1", "Sensor1", "Time", "(`type` = 'Car')"),
    ]
    assert [(o.name, o.type, o.source) for o in found.outputs] == [
        ("carID", "string", "$0"),
        ("MPH", "int", "R1.MPH"),
    ]
    assert bounds(found) == both(2 * MINUTE)


SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
shifts = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 5)), max_size=2)


@given(st.sampled_from("ab"), st.sampled_from(sorted(SIGNS)), shifts, shifts)
def test_a_bound_holds_when_its_condition_does(
    first: str, sign: str, left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    second = "b" if first == "a" else "a"
    sides = [
        f"{name}.ts" + "".join(f" {s} INTERVAL {n} SECONDS" for s, n in shift)
        for name, shift in ((first, left), (second, right))
    ]
    found = query(f"SELECT v{ON}AND {sides[0]} {sign} {sides[1]}")
    moved = [sum(n if s == "+" else -n for s, n in shift) * 1_000_000 for shift in (left, right)]
    for apart in range(-12_000_000, 12_000_001, 500_000):
        for us in (apart - 1, apart, apart + 1):  # time of `second` less that of `first`
            times = {first: 0, second: us}
            meant = SIGNS[sign](moved[0], us + moved[1])
            held = all(times["ab"[b.late]] - times["ab"[b.early]] <= b.us for b in found.bounds)
            assert held == meant


graphs = st.integers(2, 8).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(-4, 20)).filter(
                lambda e: e[0] != e[1]
            ),
            max_size=14,
        ),
    )
)


@given(graphs)
def test_closure_is_all_shortest_paths(graph: tuple[int, list[tuple[int, int, int]]]) -> None:
    inputs, edges = graph
    given_bounds = [Bound(*edge) for edge in edges]
    circle = contradiction(inputs, given_bounds)
    walked = _walks(inputs, edges)
    negative = any(walked.get((n, n), 0) < 0 for n in range(inputs))
    assert bool(circle) == negative
    if circle:
        parts = [given_bounds[place] for place in circle]
        assert sum(part.us for part in parts) < 0
        assert all(
            one.late == other.early
            for one, other in zip(parts, [*parts[1:], parts[0]], strict=True)
        )
    else:
        expected = {pair: us for pair, us in walked.items() if pair[0] != pair[1]}
        assert {(b.early, b.late): b.us for b in close(inputs, given_bounds)} == expected


def _walks(inputs: int, edges: list[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    """The shortest walk of up to `inputs` steps between every two inputs, step by step."""
    best: dict[tuple[int, int], int] = {}
    last = {(n, n): 0 for n in range(inputs)}
    for _ in range(inputs):
        step: dict[tuple[int, int], int] = {}
        for (start, end), us in last.items():
            for early, late, more in edges:
                if early == end:
                    step[start, late] = min(step.get((start, late), 1 << 60), us + more)
        for pair, us in step.items():
            best[pair] = min(best.get(pair, us), us)
        last = step
    return best


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "b",
                "[RANGE",
                "[NOW]",
                "]",
                "[",
                "1",
                "min",
                "x",
                ",",
                "(",
                ")",
                "'",
                "AS",
                "SELECT",
                "v",
                "FROM",
                "WHERE",
                "a.k = b.k",
                "UNION ALL",
                "a.ts <= b.ts",
            ]
        ),
        max_size=20,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused_by_us(sql: str) -> None:
    try:
        assert query(f"SELECT v FROM {sql}").outputs
    except SqlError as error:
        assert error.where.startswith("q.toml: sql line ")
