"""Column kernels: gather, concatenate and measure Arrow record batches, through NumPy where it is faster.

Nothing here knows about keys, joins or state; everything works on whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]
_VIEWS = {1: "i1", 2: "i2", 4: "i4", 8: "i8", 16: "V16"}


def _width(kind: pa.DataType) -> int:
    """Bytes per value of a fixed-width type that NumPy can gather; 0 for all others."""
    if pa.types.is_boolean(kind) or pa.types.is_dictionary(kind):
        return 0
    try:
        bits = int(kind.bit_width)
    except ValueError:
        return 0
    return bits // 8 if bits // 8 in _VIEWS else 0


def take(column: pa.Array, rows: Longs) -> pa.Array:
    """The column's values at `rows`."""
    width = _width(column.type)
    if not width or column.null_count:
        return column.take(pa.array(rows))
    flat = np.frombuffer(column.buffers()[1] or b"", dtype=np.dtype(_VIEWS[width]))
    values = flat[column.offset : column.offset + len(column)].take(rows)
    return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(values)])


def take_rows(batch: pa.RecordBatch, rows: Longs) -> pa.RecordBatch:
    """The batch's rows at `rows`, in that order."""
    if not batch.num_columns:
        return bare(len(rows))
    return pa.RecordBatch.from_arrays([take(c, rows) for c in batch.columns], schema=batch.schema)


def bare(rows: int) -> pa.RecordBatch:
    """A batch with a number of rows and no column."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, which share a schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def longs(column: pa.Array) -> Longs:
    """A null-free 64-bit column as NumPy, without a copy."""
    flat = np.frombuffer(column.buffers()[1] or b"", dtype=np.int64)
    return flat[column.offset : column.offset + len(column)]


def row_bytes(batch: pa.RecordBatch, starts: Longs) -> Longs:
    """Bytes of the values in each slice [starts[i], starts[i + 1]); validity bits are left out."""
    counts = np.diff(starts)
    total = np.zeros(len(counts), dtype=np.int64)
    for column in batch.columns:
        total += _column_bytes(column, starts, counts)
    return total


def _column_bytes(column: pa.Array, starts: Longs, counts: Longs) -> Longs:
    width = _width(column.type)
    if width:
        return counts * width
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        offsets = np.frombuffer(column.buffers()[1], dtype="i4")[column.offset :]
        wide: Longs = offsets[starts].astype(np.int64)
        return wide[1:] - wide[:-1] + 4 * counts if len(column) else 0 * counts
    if pa.types.is_boolean(column.type):
        return (counts + 7) // 8
    return np.array(
        [column.slice(a, n).nbytes for a, n in zip(starts[:-1], counts, strict=True)],
        dtype=np.int64,
    )
