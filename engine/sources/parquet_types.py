"""Which types of Parquet files may be read as which declared types: by our own reader, and by Spark's.

Arrow's own types (string_view, large lists, dictionaries), which writers note beside Parquet's, say how values
were kept in memory, not what they are. Here: types in, yes or no out. Reading is native.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from engine.errors import SourceError
from engine.query.ddl import DataType, parse_type
from engine.query.model import Field
from engine.query.types import NoSuchType, arrow_type, spark_type

_T = pa.types
_BYTES = (
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
)


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values: without extension and dictionary."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if _T.is_dictionary(kind) else kind


def is_bytes(kind: pa.DataType) -> bool:
    """A text or a row of bytes, however it is kept in memory."""
    return kind in _BYTES


def fits(have: pa.DataType, declared: str) -> bool:
    """May a column of this type in a file be read by us as the declared flat type? Values may still be too
    large for it, which reading finds."""
    return _fits(plain(have), parse_type(declared))


def fits_spark(have: pa.DataType, declared: str) -> bool:
    """May Spark read it as the declared type, with the values that the file has? (Spark reads uint32 as double
    too, and cuts it.)"""
    return _fits_spark(plain(have), parse_type(declared))


def mismatch(path: str, column: str, have: pa.DataType, field: Field) -> SourceError:
    """A column of a file that cannot be read as it is declared, and what to declare instead."""
    return SourceError(
        f"column {column} is {have} in the file, and {field.type} is declared",
        where=path,
        hint=advice(field.name, have),
    )


def advice(name: str, have: pa.DataType) -> str:
    """What to write in the stream's `schema` for a column of this type."""
    try:
        kind = spark_type(have)
    except NoSuchType:
        if _T.is_timestamp(plain(have)):
            kind = "timestamp" if plain(have).tz else "timestamp_ntz"
            return (
                f"write `{name} {kind}` in its schema, which cuts nanoseconds; a stream that is filtered or "
                "computed before the join needs a file with microseconds"
            )
        return "leave it out of the stream's schema, or write the file with another type"
    if kind == "void":
        return "the file has no value in it: leave it out of the stream's schema, or write the file again"
    return f"write `{name} {kind}` in the stream's schema, or rewrite the file"


# -- our reader --------------------------------------------------------------------------------------


def _is_int32(kind: pa.DataType) -> bool:
    """Stored by Parquet in 32 signed bits."""
    return kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())


def _fits(have: pa.DataType, want: DataType) -> bool:
    return bool(_T.is_null(have) or _FITS[want.name](have, arrow_type(str(want))))


def _fits_decimal(have: pa.DataType, want: pa.DataType) -> bool:
    whole = want.precision - want.scale
    if _T.is_integer(have):
        return bool(whole >= (10 if _is_int32(have) else 20))
    if not _T.is_decimal(have):
        return False
    return bool(want.scale >= have.scale and whole >= have.precision - have.scale)


_FITS: Mapping[str, Callable[[pa.DataType, pa.DataType], bool]] = {
    "boolean": lambda have, _: bool(_T.is_boolean(have)),
    "tinyint": lambda have, _: _is_int32(have),
    "smallint": lambda have, _: _is_int32(have),
    "int": lambda have, _: _is_int32(have),
    "bigint": lambda have, _: _is_int32(have) or have in (pa.uint32(), pa.int64()),
    "float": lambda have, _: bool(have == pa.float32()),
    "double": lambda have, _: have in (pa.float32(), pa.float64()) or _is_int32(have),
    "decimal": _fits_decimal,
    "string": lambda have, _: is_bytes(have),
    "binary": lambda have, _: is_bytes(have) or bool(_T.is_fixed_size_binary(have)),
    "date": lambda have, _: bool(have == pa.date32()),
    "timestamp": lambda have, _: bool(_T.is_timestamp(have)),
    "timestamp_ntz": lambda have, _: bool(_T.is_timestamp(have) or have == pa.date32()),
}


# -- Spark's reader ----------------------------------------------------------------------------------

_WHOLE = ("tinyint", "smallint", "int", "bigint", "double")


def _fits_spark(have: pa.DataType, want: DataType) -> bool:
    have = plain(have)
    if want.name == "array":
        return _is_list(have) and _fits_spark(have.value_type, want.children[0])
    if want.name == "map":
        parts = (
            zip((have.key_type, have.item_type), want.children, strict=True)
            if _T.is_map(have)
            else ()
        )
        return bool(_T.is_map(have)) and all(_fits_spark(one, kind) for one, kind in parts)
    if want.name == "struct":
        return bool(_T.is_struct(have)) and _members_fit(have, want)
    if want.name not in _FITS:
        return True  # as variant: Spark itself says what it thinks of it
    if _T.is_null(have):
        return want.name in (*_WHOLE, "date")
    if _T.is_timestamp(have) and have.unit == "ns":
        return want.name == "bigint"
    if want.name == "decimal" and _T.is_unsigned_integer(have):
        return bool(have == pa.uint64() and want.params == (20, 0))
    return _fits(have, want) or _same_bits(have, want.name)


def _is_list(kind: pa.DataType) -> bool:
    return any(
        look(kind)
        for look in (
            _T.is_list,
            _T.is_large_list,
            _T.is_fixed_size_list,
            _T.is_list_view,
            _T.is_large_list_view,
        )
    )


def _members_fit(have: pa.StructType, want: DataType) -> bool:
    """A member that the file does not have is null."""
    kinds = {field.name.lower(): field.type for field in have}
    pairs = zip(want.names, want.children, strict=True)
    return all(_fits_spark(kinds[n.lower()], kind) for n, kind in pairs if n.lower() in kinds)


def _same_bits(have: pa.DataType, want: str) -> bool:
    """What Spark reads by the bits that Parquet stores, whatever they mean; queries may rely on it."""
    if _T.is_date(have) or _T.is_time32(have):
        return want in _WHOLE
    if _T.is_timestamp(have) or _T.is_time64(have) or _T.is_duration(have):
        return want == "bigint" or (bool(_T.is_duration(have)) and want == "decimal")
    if want == "date":
        return _is_int32(have)
    return want == "binary" and bool(_T.is_decimal(have) or have == pa.float16())
