"""Query files: defaults, values, and every way a file can be wrong, by its message."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import QueryFileError, SourceError, SpillwayError
from engine.query.file import read_query
from engine.query.model import Field, OperatorSpec
from engine.query.paths import Roots
from engine.query.values import duration_s, size_bytes

GOOD = """
name = "tri"
sql = "SELECT a.k FROM a JOIN b ON a.k = b.k"

[streams.a]
format = "parquet"
path = "data/a"
schema = "k long, ts timestamp, va long"
time = "ts"
watermark = "1 second"
options = { maxFilesPerTrigger = 1 }

[streams.b]
format = "csv"
path = "data/b"
schema = "k int, p decimal(10,2)"
options = { Header = true, sep = ";" }

[sink]
format = "parquet"
path = "out/tri"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / "data" / name).mkdir(parents=True)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "tri.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_and_paths(folder: Path) -> None:
    spec = read_query(write(folder, GOOD))
    assert (spec.nodes, spec.groups, spec.window_s, spec.placement) == (2, 256, None, None)
    assert spec.checkpoint == folder / "state" / "tri"
    assert spec.sink.path == str(folder / "out" / "tri")
    a, b = spec.streams["a"], spec.streams["b"]
    assert a.path == str(folder / "data" / "a")
    assert a.fields == (Field("k", "bigint"), Field("ts", "timestamp"), Field("va", "bigint"))
    assert (a.time, a.watermark_s, dict(a.options)) == ("ts", 1.0, {"maxFilesPerTrigger": "1"})
    assert dict(b.options) == {"header": "true", "sep": ";"}
    assert b.fields == (Field("k", "int"), Field("p", "decimal(10,2)"))


def test_name_defaults_to_the_file(folder: Path) -> None:
    spec = read_query(write(folder, GOOD.replace('name = "tri"\n', "")))
    assert spec.name == "tri"


def test_values(folder: Path) -> None:
    top = """
window = "1 minute 30 s"
nodes = 3
groups = 64
memory_per_node = "200MB"
placement = { 0 = 0.67, 1 = 0.165, 2 = 0.165 }
"""
    text = top + GOOD.replace(
        'schema = "k int, p decimal(10,2)"', 'schema = "k int, t timestamp_ntz"\ntime = "T"'
    )
    spec = read_query(write(folder, text))
    assert (spec.window_s, spec.nodes, spec.groups) == (90.0, 3, 64)
    assert spec.memory_per_node_bytes == 200_000_000
    assert spec.placement == {0: 0.67, 1: 0.165, 2: 0.165}
    assert spec.streams["b"].time == "t"
    assert (spec.join_order, dict(spec.operators), spec.streams["a"].idle_after_s) == (
        None,
        {},
        None,
    )


def test_trees_operators_and_idle_streams(folder: Path) -> None:
    text = 'join_order = "(a b)"\n' + GOOD.replace(
        'time = "ts"', 'time = "ts"\nidle_after = "30 seconds"'
    )
    text += "[operators.join-1]\ngroups = 16\nplacement = { 1 = 1.0 }\n"
    spec = read_query(write(folder, text))
    assert (spec.join_order, spec.streams["a"].idle_after_s) == ("(a b)", 30.0)
    assert spec.operators == {"join-1": OperatorSpec(16, {1: 1.0})}


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


BAD = {
    "syntax": (change('name = "tri"', "name = tri"), "is not TOML.*line 2, column"),
    "unknown key": ("node = 2\n" + GOOD, r"tri\.toml: node: is not known\n  did you mean `nodes`"),
    "unknown stream key": (
        change('time = "ts"', 'tme = "ts"'),
        "streams.a.tme: is not known\n  did you mean `time`|watermark: needs `time`",
    ),
    "unknown sink key": (GOOD + 'mode = "x"\n', "sink.mode: is not known"),
    "nodes type": ('nodes = "2"\n' + GOOD, r"nodes: must be a whole number, not a text \('2'\)"),
    "nodes boolean": ("nodes = true\n" + GOOD, "nodes: must be a whole number, not a boolean"),
    "nodes range": ("nodes = 1001\n" + GOOD, "nodes: is 1001; it must be 1 to 1000"),
    "groups range": ("groups = 65537\n" + GOOD, "groups: is 65537; it must be 1 to 65536"),
    "few groups": ("groups = 1\n" + GOOD, "groups: is 1, less than the 2 nodes"),
    "window": ('window = "1 fortnight"\n' + GOOD, 'window: must be a duration.*\n.*"60 seconds"'),
    "memory": ('memory_per_node = "lots"\n' + GOOD, 'memory_per_node: must be a size.*\n.*"200MB"'),
    "window without time": (
        'window = "1 s"\n' + GOOD,
        "streams.b.time: is missing, and the query has a window",
    ),
    "no sql": (
        change('sql = "SELECT a.k FROM a JOIN b ON a.k = b.k"', ""),
        r"sql: is missing\n  write the query",
    ),
    "sql type": (
        change('sql = "SELECT a.k FROM a JOIN b ON a.k = b.k"', "sql = 3"),
        "sql: must be a text",
    ),
    "no sink": (GOOD[: GOOD.index("[sink]")], r"sink: is missing\n  add \[sink\]"),
    "no streams": (
        '[sink]\nformat = "noop"\n',
        r"streams: is missing\n  add a table for each stream",
    ),
    "stream type": (
        'sql = ""\nstreams = 3\n[sink]\nformat = "noop"',
        "streams: must be a table, not a number",
    ),
    "name": (change('name = "tri"', 'name = "../x"'), "name: `../x` is not a name"),
    "stream name": (
        change("[streams.b]", '[streams."b c"]'),
        "streams.b c: is not a stream's name",
    ),
    "stream capitals": (
        change("[streams.b]", "[streams.A]"),
        "streams.A: differs from another stream only in capitals",
    ),
    "format": (
        change('format = "csv"', 'format = "jdbc"'),
        "streams.b.format: format `jdbc` is not allowed\n  allowed are: parquet, orc",
    ),
    "text format": (change('format = "csv"', 'format = "cvs"'), "did you mean `csv`"),
    "sink format": (
        GOOD.replace('[sink]\nformat = "parquet"', '[sink]\nformat = "mongo"'),
        "sink.format: format `mongo` is not allowed",
    ),
    "option": (
        change("maxFilesPerTrigger = 1", 'cleanSource = "delete"'),
        "streams.a.options.cleanSource: is not an allowed option",
    ),
    "option typo": (
        change("maxFilesPerTrigger", "maxFilePerTrigger"),
        "did you mean `maxFilesPerTrigger`",
    ),
    "option type": (
        change("maxFilesPerTrigger = 1", "maxFilesPerTrigger = [1]"),
        "maxFilesPerTrigger: must be a text, a number",
    ),
    "option twice": (
        change("{ Header = true", "{ HEADER = 1, Header = true"),
        "options.Header: is given twice",
    ),
    "sink option": (
        GOOD + 'options = { path = "x" }',
        "sink.options.path: is not an allowed option",
    ),
    "no schema": (
        change('schema = "k int, p decimal(10,2)"\n', ""),
        "streams.b.schema: is missing\n  csv needs one",
    ),
    "schema type": (
        change("p decimal(10,2)", "p number"),
        r"streams.b.schema: unknown type `number`; write decimal\(p,s\)",
    ),
    "schema column": (change("p decimal(10,2)", "p"), "column `p` has no type"),
    "schema decimal": (
        change("decimal(10,2)", "decimal(40,2)"),
        r"decimal\(40,2\) is out of range",
    ),
    "schema twice": (change("p decimal(10,2)", "K int"), "column `K` is there twice"),
    "time column": (
        change('time = "ts"', 'time = "tz"'),
        "streams.a.time: there is no column `tz`\n  columns are: k, ts, va",
    ),
    "time type": (change('time = "ts"', 'time = "va"'), "column `va` is bigint, not a timestamp"),
    "watermark": (change('time = "ts"\n', ""), "streams.a.watermark: needs `time`"),
    "idle without time": (
        change('time = "ts"\nwatermark = "1 second"', 'idle_after = "1 s"'),
        "streams.a.idle_after: needs `time`",
    ),
    "idle": (
        change('time = "ts"', 'time = "ts"\nidle_after = "0 s"'),
        "streams.a.idle_after: must be longer than 0",
    ),
    "idle type": (
        change('time = "ts"', 'time = "ts"\nidle_after = 3'),
        "streams.a.idle_after: must be a duration",
    ),
    "join order": ("join_order = 3\n" + GOOD, "join_order: must be a text in quotes"),
    "empty join order": ('join_order = ""\n' + GOOD, r"join_order: is empty\n  write for example"),
    "operator key": (
        GOOD + "[operators.join-1]\nnodes = 3\n",
        "operators.join-1.nodes: is not known",
    ),
    "operator groups": (
        GOOD + "[operators.join-1]\ngroups = 1\n",
        "operators.join-1.groups: is 1, less than the 2 nodes",
    ),
    "operator type": ("operators = 3\n" + GOOD, "operators: must be a table"),
    "placement sum": (
        "placement = { 0 = 0.5 }\n" + GOOD,
        "placement: the shares sum to 0.5, not 1",
    ),
    "placement node": (
        "placement = { 0 = 0.5, 2 = 0.5 }\n" + GOOD,
        "placement: there is no node 2; nodes are 0 to 1",
    ),
    "placement type": ('placement = { 0 = "x" }\n' + GOOD, "placement: must give shares by node"),
    "remote": (
        change('path = "data/a"', 'path = "s3://x/a"'),
        "`s3://x/a` is not a path on this machine",
    ),
    "pattern": (
        change('path = "data/a"', 'path = "data/*"'),
        "`data/\\*` is a pattern\n  give the folder",
    ),
    "sink in source": (
        change('path = "out/tri"', 'path = "data/a/out"'),
        "sink.path: .* overlaps streams.a.path",
    ),
    "checkpoint in sink": (
        'checkpoint = "out/tri/state"\n' + GOOD,
        "checkpoint: .* overlaps sink.path",
    ),
    "nul in path": (change('path = "out/tri"', 'path = "out\\u0000"'), "sink.path: holds a NUL"),
    "empty path": (change('path = "out/tri"', 'path = ""'), "sink.path: is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_say_what_to_do(folder: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(QueryFileError, match=message):
        read_query(write(folder, text))


def test_missing_path(folder: Path) -> None:
    (folder / "data" / "b").rmdir()
    with pytest.raises(SourceError, match=r"streams\.b\.path: there is no `.*data/b`\n  create it"):
        read_query(write(folder, GOOD))


def test_path_too_long(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot look at .*: File name too long"):
        read_query(write(folder, change('path = "data/a"', f'path = "{"x" * 300}"')))


def test_links_in_a_circle(folder: Path) -> None:
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(SpillwayError, match=r"cannot follow|cannot look at"):
        read_query(write(folder, change('path = "data/a"', 'path = "loop"')))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_no_permission(folder: Path) -> None:
    (folder / "data" / "b").chmod(0)
    with pytest.raises(SourceError, match="no permission to read"):
        read_query(write(folder, GOOD))


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match=r"no.toml: there is no such query file"):
        read_query(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(QueryFileError, match="is not UTF-8"):
        read_query(tmp_path / "bad.toml")


def test_roots(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(folder, GOOD)
    assert read_query(path, roots=Roots([folder], [folder])).name == "tri"
    with pytest.raises(QueryFileError, match=r"is outside the allowed folders\n  allowed are"):
        read_query(path, roots=Roots([folder / "data"], [folder / "data"]))
    with pytest.raises(QueryFileError, match="allowed are: none"):
        read_query(path, roots=Roots([], []))


@pytest.mark.parametrize("target", ["../away", "link"])
def test_roots_see_through_links_and_dots(
    folder: Path, target: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away")
    (folder / "link").symlink_to(away)
    text = change('path = "data/a"', f'path = "{target}"')
    with pytest.raises(QueryFileError, match=r"streams\.a\.path: `.*` is outside"):
        read_query(write(folder, text), roots=Roots([folder], [folder]))


def test_what_a_query_reads_and_what_it_writes_have_roots_of_their_own(folder: Path) -> None:
    path = write(folder, GOOD)
    data = folder / "data"
    assert read_query(path, roots=Roots([data], [folder])).name == "tri"
    for roots in (Roots([folder], [data]), Roots([folder], []), Roots([], [folder])):
        with pytest.raises(QueryFileError, match="outside the allowed folders"):
            read_query(path, roots=roots)


def test_what_is_private_is_open_only_below_a_root_within_it(folder: Path) -> None:
    """Such as the folder of the store: neither it, nor a folder around it, nor what else lies in it."""
    path = write(folder, GOOD)
    for private in (folder / "data", folder / "data" / "a", folder, folder.parent):
        with pytest.raises(QueryFileError, match=r"streams\.a\.path: .* outside the allowed"):
            read_query(
                path,
                roots=Roots(
                    [folder.parent], [folder.parent, folder / "state", folder / "out"], private
                ),
            )
    inside = Roots([folder / "data"], [folder / "state", folder / "out"], private=folder)
    assert read_query(path, roots=inside).name == "tri"


def test_no_link_in_a_source_leads_out_of_the_roots(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, away = write(folder, GOOD), tmp_path_factory.mktemp("away")
    (away / "secret.csv").write_text("1")
    roots = Roots([folder], [folder])
    (folder / "data" / "a" / "deep").mkdir()
    (folder / "data" / "b" / "1.csv").write_text("1")
    (folder / "data" / "a" / "deep" / "inside").symlink_to(folder / "data" / "b" / "1.csv")
    assert read_query(path, roots=roots).name == "tri"
    for target in (away, away / "secret.csv", away / "not yet"):
        link = folder / "data" / "a" / "deep" / "link"
        link.symlink_to(target)
        with pytest.raises(QueryFileError, match=r"streams\.a\.path: `.*/deep/link` is a link out"):
            read_query(path, roots=roots)
        assert read_query(path).name == "tri", "whoever starts it reads what he may read"
        link.unlink()


def parquet(folder: Path, table: pa.Table, **options: object) -> Path:
    pq.write_table(table, folder / "data" / "a" / "1.parquet", **options)
    return write(
        folder,
        change('schema = "k long, ts timestamp, va long"\n', "").replace(
            'time = "ts"\nwatermark = "1 second"\n', ""
        ),
    )


def test_schema_from_parquet(folder: Path) -> None:
    now = dt.datetime(2024, 1, 1)
    table = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "u": pa.array([1], pa.uint32()),
            "s": ["x"],
            "z": pa.array([now], pa.timestamp("us", tz="UTC")),
            "n": pa.array([now], pa.timestamp("us")),
            "m": pa.array([1], pa.decimal128(9, 3)),
            "b": [b"x"],
            "l": [[1]],
            "d": [now.date()],
            "t": pa.array([{"a b": 1}]),
        }
    )
    spec = read_query(parquet(folder, table))
    assert [(f.name, f.type) for f in spec.streams["a"].fields] == [
        ("i", "int"),
        ("u", "bigint"),
        ("s", "string"),
        ("z", "timestamp"),
        ("n", "timestamp_ntz"),
        ("m", "decimal(9,3)"),
        ("b", "binary"),
        ("l", "array<bigint>"),
        ("d", "date"),
        ("t", "struct<`a b`:bigint>"),
    ]


def test_int96_is_a_timestamp(folder: Path) -> None:
    table = pa.table({"n": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))})
    spec = read_query(parquet(folder, table, use_deprecated_int96_timestamps=True))
    assert spec.streams["a"].fields == (Field("n", "timestamp"),)


def test_parquet_of_an_unknown_type(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"column `t` of .*1\.parquet.*no counterpart in Spark"):
        read_query(parquet(folder, pa.table({"t": pa.array([1], pa.time64("us"))})))


def test_no_parquet_file_yet(folder: Path) -> None:
    text = change('schema = "k long, ts timestamp, va long"\n', "")
    (folder / "data" / "a" / "_SUCCESS").write_text("")
    with pytest.raises(
        SourceError, match=r"there is no Parquet file in .* yet.*\n  give it: schema"
    ):
        read_query(write(folder, text))


def test_damaged_parquet(folder: Path) -> None:
    (folder / "data" / "a" / "1.parquet").write_bytes(b"PAR1 no")
    text = change('schema = "k long, ts timestamp, va long"\n', "")
    with pytest.raises(SourceError, match=r"1\.parquet` is not a readable Parquet file"):
        read_query(write(folder, text))


def test_generator(folder: Path) -> None:
    text = change(
        'format = "csv"\npath = "data/b"\nschema = "k int, p decimal(10,2)"\n'
        'options = { Header = true, sep = ";" }',
        'format = "generator"',
    )
    stream = read_query(write(folder, text)).streams["b"]
    assert stream.path == "" and stream.fields
    bad = text.replace('format = "generator"', 'format = "generator"\noptions = { no_such = 1 }')
    with pytest.raises(QueryFileError, match=r"tri\.toml: streams\.b\.options: .*no_such"):
        read_query(write(folder, bad))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60 seconds", 60),
        ("1 second", 1),
        ("2 minutes", 120),
        ("500 ms", 0.5),
        ("1.5h", 5400),
        ("1 day 1 s", 86401),
        ("0 s", 0),
        ("5", None),
        ("", None),
        ("s", None),
        ("-1 s", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("200MB", 200_000_000),
        ("1 GiB", 1 << 30),
        ("1.5kb", 1500),
        ("7 B", 7),
        ("7", None),
        ("1 XB", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert size_bytes(text) == size


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_by_us(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SpillwayError):
        read_query(path)
