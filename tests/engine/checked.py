"""A query in this process, checked against the definition of its results."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import assume

from engine.errors import SpillwayError
from tests.engine.local import Local
from tests.engine.made import Query, Told


@contextmanager
def scratch() -> Iterator[Path]:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="spillway-trees-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def check(local: Local, told: Told, query: Query) -> Counter[tuple[int, ...]]:
    """Results, side outputs and counts are as the definitions have them."""
    found = local.results()
    names = [f"i{i}" for i in range(query.size)]
    rows = (
        list(zip(*(found.column(n).to_pylist() for n in names), strict=True))
        if found.num_rows
        else []
    )
    expected = query.expected([told.accepted(i) for i in range(query.size)])
    got = Counter(rows)
    assert got == expected, (
        f"missing {list(expected - got)[:3]}, spurious {list(got - expected)[:3]} of {len(rows)}"
    )
    for kind, ids in (("late", told.late), ("null_keys", told.null)):
        aside = [id_ for i in range(query.size) for id_ in _ids(local, kind, f"s{i}")]
        assert sorted(aside) == sorted(ids), kind
    totals = local.ticker.totals
    assert (totals.late_rows, totals.null_key_rows, totals.rows_out) == (
        len(told.late),
        len(told.null),
        len(rows),
    )
    assert totals.rows_in == len(told.tick_of) - len(told.late) - len(told.null)
    return got


def _ids(local: Local, kind: str, alias: str) -> list[int]:
    table = local.aside(kind, alias)
    return table.column("id").to_pylist() if table.num_rows else []


def accepted(query: Query) -> Query:
    """Only queries that the engine takes: no circle of windows that can never hold."""
    with scratch() as root:
        try:
            Local(root, query.sql(), query.streams(), window_s=query.window)
        except SpillwayError as error:
            assert "can never hold" in str(error), str(error)
            assume(False)
    return query


def in_order(local: Local, told: Told, query: Query) -> None:
    """Paper 3, lemma 2.1, in its strong form: a result comes in the very tick of its last part. So for two
    results of different ticks, the last part of the later one is newer than all parts of the earlier one."""
    found = local.results()
    if not found.num_rows:
        return
    last = np.max(
        [[told.tick_of[i] for i in found.column(f"i{n}").to_pylist()] for n in range(query.size)],
        axis=0,
    )
    assert last.tolist() == found.column("$version").to_pylist()


def in_order_of_the_lemma(local: Local, told: Told, query: Query) -> None:
    """Paper 3, lemma 2.1, as it is written: of two results of different ticks, some part of the earlier one is not
    newer than that part of the later one."""
    found = local.results()
    if not found.num_rows:
        return
    parts = [
        [told.tick_of[i] for i in found.column(f"i{n}").to_pylist()] for n in range(query.size)
    ]
    rows = np.unique(np.array([found.column("$version").to_pylist(), *parts]).T, axis=0)
    for version in np.unique(rows[:, 0]):
        earlier, later = rows[rows[:, 0] < version, 1:], rows[rows[:, 0] == version, 1:]
        wrong = (earlier[:, None, :] > later[None, :, :]).all(axis=2)
        assert not wrong.any(), (
            f"a result of version {version} is older in all its parts than one before"
        )
