"""Arrow rows as a plain text table, for terminals. Nothing is read or chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pyarrow as pa

CELL_WIDTH_MAX = 40


def aligned(table: pa.Table) -> str:
    """A plain table: numbers to the right, the rest to the left, nulls as NULL."""
    names: Sequence[str] = table.column_names
    texts = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    widths = [max(map(len, [name, *cells])) for name, cells in zip(names, texts, strict=True)]
    right = [
        pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
        for t in table.schema.types
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(
        [line(names), line(["-" * w for w in widths]), *map(line, zip(*texts, strict=True))]
    )


def _cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    text = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in islice(text, CELL_WIDTH_MAX + 1)
    )
    return text if len(text) <= CELL_WIDTH_MAX else text[: CELL_WIDTH_MAX - 1] + "…"
