"""Source and sink formats, and the options each may have.

Allow-lists: an option that deletes input, hides damaged files, reorders input or opens the
network is not here. Sinks: `parquet` is ours; json, csv, orc, avro and delta are handed to Spark's
writers (avro and delta need their packages on Spark's path), `noop` and `console` keep nothing.
jdbc, kafka and the like are refused: they would need credentials in query files.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.query.scope import closest
from engine.query.values import Table

_FILES = "maxFilesPerTrigger maxBytesPerTrigger pathGlobFilter recursiveFileLookup"
_TEXT = (
    "dateFormat timestampFormat timestampNTZFormat mode multiLine lineSep encoding locale timeZone"
)
_CSV = (
    "header sep delimiter quote escape charToEscapeQuoteEscaping comment nullValue emptyValue "
    "nanValue positiveInf negativeInf ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace "
    "maxColumns maxCharsPerColumn enforceSchema unescapedQuoteHandling"
)
_JSON = (
    "allowComments allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros "
    "allowBackslashEscapingAnyCharacter allowUnquotedControlChars allowNonNumericNumbers"
)
_FORMATS = "dateFormat timestampFormat timestampNTZFormat lineSep encoding timeZone compression"

SOURCES: dict[str, tuple[str, ...] | None] = {
    "parquet": tuple(f"{_FILES} datetimeRebaseMode int96RebaseMode".split()),
    "json": tuple(f"{_FILES} {_TEXT} {_JSON}".split()),
    "csv": tuple(f"{_FILES} {_TEXT} {_CSV}".split()),
    "generator": None,  # checks its own
}
SINKS: dict[str, tuple[str, ...]] = {
    "parquet": ("compression",),
    "json": tuple(f"{_FORMATS} ignoreNullFields".split()),
    "csv": tuple(
        f"{_FORMATS} header sep delimiter quote escape escapeQuotes quoteAll nullValue "
        "emptyValue charToEscapeQuoteEscaping ignoreLeadingWhiteSpace "
        "ignoreTrailingWhiteSpace".split()
    ),
    "orc": ("compression",),
    "avro": ("compression", "recordName", "recordNamespace"),
    "delta": ("mergeSchema",),
    "console": ("numRows", "truncate"),
    "noop": (),
}
PATHLESS_SINKS = ("console", "noop")


def read_format(table: Table, formats: Mapping[str, tuple[str, ...] | None]) -> str:
    """The `format` key, if it is one of the allowed."""
    names = list(formats)
    name = table.text("format", hint=f"allowed are: {', '.join(names)}").lower()
    if name not in formats:
        hint = closest(name, names) or f"allowed are: {', '.join(names)}"
        raise table.error(f"format `{name}` is not allowed", "format", hint)
    return name


def read_options(table: Table, allowed: tuple[str, ...] | None) -> dict[str, str]:
    """The `options` table as Spark wants it: texts, and names as Spark spells them."""
    if not table.has("options"):
        table.allow("options")
        return {}
    found: dict[str, str] = {}
    options = table.table("options")
    for name, value in options.values.items():
        spelled = name if allowed is None else _spelled(options, name, allowed)
        if spelled in found:
            raise options.error("is given twice", name)
        found[spelled] = _text(options, name, value)
    return found


def _spelled(options: Table, name: str, allowed: tuple[str, ...]) -> str:
    spelled = next((known for known in allowed if known.lower() == name.lower()), None)
    if spelled is None:
        hint = closest(name, list(allowed)) or f"allowed are: {', '.join(allowed) or 'none'}"
        raise options.error("is not an allowed option", name, hint)
    return spelled


def _text(options: Table, name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise options.error("must be a text, a number or a boolean", name)
