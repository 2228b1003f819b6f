"""A snapshot as bytes and back: columns as Arrow, compressed, each as narrow as its values allow.

Whole numbers, flags and times come back exactly; rates and estimates as single precision (RATES).

    magic · checksum of the rest · lengths of head and nodes · head (JSON) · nodes (Arrow) · groups (Arrow)

Arrow's reader trusts what it reads; hence the checksum.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from control.cost.coefficients import LocalRule
from control.errors import SnapshotError
from control.migration.joins import Joins
from control.snapshot import ClusterSnapshot, Groups, History, Nodes, Operator

RATES = frozenset(
    {"rows_in_per_s", "rows_out_per_s", "bytes_per_s", "owed_rows", "owed_rows_per_s"}
)
_MAGIC = b"SPW1"
_START = struct.Struct("<4sI")
_LENGTHS = struct.Struct("<II")
_NARROW = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)
_TYPES: dict[str, npt.DTypeLike] = {"Longs": np.int64, "Doubles": np.float64, "Bools": np.bool_}


def pack(snapshot: ClusterSnapshot) -> bytes:
    head = {
        "query": snapshot.query,
        "version": snapshot.version,
        "time_s": snapshot.time_s,
        "operators": [[o.name, o.streams, o.groups, o.window_s] for o in snapshot.operators],
        "history": asdict(snapshot.history),
        "columns": [column.name for column in fields(Groups)],
        "joins": snapshot.joins.pack() if snapshot.joins is not None else None,
        "spill_rule": asdict(snapshot.spill_rule) if snapshot.spill_rule is not None else None,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    nodes = _columns_out(snapshot.nodes, frozenset())
    groups = _columns_out(snapshot.groups, RATES)
    lengths = _LENGTHS.pack(len(text), nodes.size)
    rest = b"".join((lengths, text, memoryview(nodes), memoryview(groups)))
    return _START.pack(_MAGIC, zlib.crc32(rest)) + rest


def unpack(body: bytes) -> ClusterSnapshot:
    head, nodes, groups = _parts(body)
    try:
        return ClusterSnapshot(
            head["query"],
            head["version"],
            head["time_s"],
            Nodes(**_columns_in(Nodes, nodes)),
            tuple(Operator(*operator) for operator in head["operators"]),
            Groups(**_columns_in(Groups, groups)),
            History(**head["history"]),
            Joins.unpack(head.get("joins")),
            LocalRule(**rule) if (rule := head.get("spill_rule")) else None,
        )
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise _damaged(error) from error


def unpack_columns(
    body: bytes, names: Sequence[str]
) -> tuple[tuple[Operator, ...], dict[str, npt.NDArray[Any]]]:
    """Operators and some columns of the groups: the others are not even decompressed."""
    head, _, groups = _parts(body)
    try:
        wanted = [head["columns"].index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        with pa.ipc.open_stream(pa.py_buffer(groups), options=options) as reader:
            batch = reader.read_next_batch()
        kinds = {c.name: str(c.type) for c in fields(Groups)}
        columns = {name: _wide(batch.column(name), kinds[name]) for name in names}
        return tuple(Operator(*operator) for operator in head["operators"]), columns
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise _damaged(error) from error


def _parts(body: bytes) -> tuple[dict[str, Any], memoryview, memoryview]:
    whole = memoryview(body)
    try:
        magic, checksum = _START.unpack_from(whole)
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic!r}")
        if zlib.crc32(whole[_START.size :]) != checksum:
            raise ValueError("its checksum is wrong")
        head_size, nodes_size = _LENGTHS.unpack_from(whole, _START.size)
        rest = whole[_START.size + _LENGTHS.size :]
        head = json.loads(bytes(rest[:head_size]))
        end = head_size + nodes_size
        return head, rest[head_size:end], rest[end:]
    except (struct.error, ValueError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> SnapshotError:
    return SnapshotError(
        f"not a packed snapshot: {error}", hint="It was written by something else."
    )


def _columns_out(columns: Nodes | Groups, single: frozenset[str]) -> pa.Buffer:
    arrays = {c.name: _narrow(getattr(columns, c.name), c.name in single) for c in fields(columns)}
    batch = pa.RecordBatch.from_arrays(
        [pa.array(array) for array in arrays.values()], names=list(arrays)
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _narrow(column: npt.NDArray[Any], single: bool) -> npt.NDArray[Any]:
    if not len(column) or column.dtype == np.bool_:
        return column
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = column.astype(np.float32)
        same = np.array_equal(short, column, equal_nan=True)
        fits = single and np.array_equal(np.isinf(short), np.isinf(column))
        return short if same or fits else column
    low, high = int(column.min()), int(column.max())
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return column.astype(kind)
    return column


def _columns_in(kind: type[Nodes | Groups], data: memoryview) -> dict[str, npt.NDArray[Any]]:
    options = pa.ipc.IpcReadOptions(
        use_threads=False
    )  # handing columns over costs more than it saves
    with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
        batch = reader.read_next_batch()
    return {c.name: _wide(batch.column(c.name), str(c.type)) for c in fields(kind)}


def _wide(column: pa.Array, kind: str) -> npt.NDArray[Any]:
    """A copy of its own. Straight from the buffer: Arrow's to_numpy loads pandas, 45 MB that nobody here uses."""
    if column.null_count:
        raise ValueError("a column has gaps")
    data = column.buffers()[1]
    if pa.types.is_boolean(column.type):
        bits = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        bits = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
        return bits.astype(_TYPES[kind])
    held = np.dtype(column.type.to_pandas_dtype())
    if data is None or not len(column):
        return np.zeros(0, _TYPES[kind])
    found = np.frombuffer(data, held, len(column), column.offset * held.itemsize)
    return found.astype(_TYPES[kind])
