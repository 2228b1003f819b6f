"""CSV for spreadsheets: numbers as they are, and no text that a spreadsheet would take for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.api.shapes import plain

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def cell(value: Any) -> Any:
    """A text that could start a formula gets an apostrophe before it, as spreadsheets themselves do."""
    found = plain(value)
    if isinstance(found, str):
        return "'" + found if found.lstrip(" ").startswith(FORMULA) else found
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, list | dict):
        return cell("; ".join(str(item) for item in found))
    return "" if found is None else found


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """RFC 4180, with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([cell(name) for name in header])
    for row in rows:
        writer.writerow([cell(value) for value in row])
    return out.getvalue()


def of_mappings(lines: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> str:
    """Lines that need not all have the same fields: every field is a column."""
    names = list(dict.fromkeys([*first, *(name for line in lines for name in line)]))
    return csv_text(names, ([line.get(name) for name in names] for line in lines))
