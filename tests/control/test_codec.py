"""Packed snapshots come back: whole numbers, flags and times exactly, rates in single precision."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control import codec
from control.codec import pack, unpack, unpack_columns
from control.errors import SnapshotError
from control.limits import OPEN
from control.policies.registry import KINDS, policy_from
from control.snapshot import NEVER_S, ClusterSnapshot, Groups, History
from tests.control.made import cluster, snapshots
from tests.control.same import assert_same

ROOT = Path(__file__).resolve().parents[2]


@given(snapshots())
def test_a_snapshot_comes_back(snapshot: ClusterSnapshot) -> None:
    found = unpack(pack(snapshot))
    assert_same(found, snapshot)
    assert pack(found) == pack(snapshot), "what single precision takes, it takes once"


@given(
    column=st.sampled_from([f for f in fields(Groups) if f.name not in ("operator", "owner")]),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    doubles=st.lists(
        st.floats() | st.sampled_from([NEVER_S, np.inf, 1e300, 1.8e9]), min_size=3, max_size=3
    ),
)
def test_any_value_comes_back(column: object, numbers: list[int], doubles: list[float]) -> None:
    """Extremes of every column: the smallest and largest whole numbers, infinities, NaN."""
    given_ = cluster([[1, 2, 3]])
    kind = getattr(given_.groups, column.name).dtype  # type: ignore[attr-defined]
    values = np.array({"i": numbers, "f": doubles, "b": [True, False, True]}[kind.kind], kind)
    groups = replace(given_.groups, **{column.name: values})  # type: ignore[attr-defined]
    assert_same(unpack(pack(replace(given_, groups=groups))), replace(given_, groups=groups))


def test_history_and_empty_snapshots_come_back() -> None:
    given_ = replace(cluster([[]]), history=History(1.5, 2.5, 3.5, 4.5, 5))
    assert len(given_.groups) == 0
    assert_same(unpack(pack(given_)), given_)


@given(snapshots())
def test_some_columns_alone(snapshot: ClusterSnapshot) -> None:
    names = ("memory_bytes", "operator", "rows_out_per_s", "in_flight")
    operators, columns = unpack_columns(pack(snapshot), names)
    whole = unpack(pack(snapshot))
    assert operators == snapshot.operators
    assert tuple(columns) == names
    for name in names:
        np.testing.assert_array_equal(columns[name], getattr(whole.groups, name))
        assert columns[name].dtype == getattr(whole.groups, name).dtype


@given(snapshots())
def test_policies_decide_the_same_on_what_comes_back(snapshot: ClusterSnapshot) -> None:
    again = unpack(pack(snapshot))
    for name in KINDS:
        policy = policy_from({"policy": name})
        assert policy.decide(again, OPEN).steps == policy.decide(snapshot, OPEN).steps, name


@pytest.mark.parametrize("body", [b"", b"SPW1", b"PAR1" + bytes(100), bytes(1000)])
def test_what_is_no_snapshot_is_refused(body: bytes) -> None:
    with pytest.raises(SnapshotError, match="not a packed snapshot"):
        unpack(body)
    with pytest.raises(SnapshotError, match="not a packed snapshot"):
        unpack_columns(body, ["owner"])


@given(at=st.integers(0, 10_000), change=st.integers(1, 255), length=st.integers(0, 9_000))
def test_a_damaged_one_is_refused(at: int, change: int, length: int) -> None:
    """One byte is another, or the end is missing."""
    body = bytearray(pack(cluster([[1, 2, 3], [4]])))
    short = bytes(body[: length % len(body)])
    body[at % len(body)] ^= change
    for damaged in (bytes(body), short):
        with pytest.raises(SnapshotError, match="not a packed snapshot"):
            unpack(damaged)


def test_columns_are_as_narrow_as_their_values() -> None:
    small = codec._narrow(np.array([0, 200]), single=False)
    wide = codec._narrow(np.array([0, 1 << 40]), single=False)
    assert (small.dtype, wide.dtype) == (np.uint8, np.int64)
    assert codec._narrow(np.array([0.1]), single=True).dtype == np.float32
    assert codec._narrow(np.array([0.1]), single=False).dtype == np.float64
    assert codec._narrow(np.array([1e300]), single=True).dtype == np.float64
    assert len(pack(cluster([[1] * 10_000]))) < 30_000


def test_reading_does_not_load_pandas(tmp_path: Path) -> None:
    """Arrow would, to hand over columns: 45 MB in every console, and a slow first page."""
    (tmp_path / "packed").write_bytes(pack(cluster([[1, 2, 3]])))
    text = (
        "import sys, pathlib; from control.codec import unpack, unpack_columns;"
        f"body = pathlib.Path({str(tmp_path / 'packed')!r}).read_bytes();"
        "assert len(unpack(body).groups.owner) == 3;"
        "assert len(unpack_columns(body, ['owner'])[1]['owner']) == 3;"
        "sys.exit('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=False, timeout=240)
    assert done.returncode == 0
