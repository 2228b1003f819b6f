"""Spark SQL types as we use them: to and from Arrow, to DuckDB, and which may be keys.

Types are Spark's simple strings (`bigint`, `decimal(10,2)`). Not here: their grammar (ddl.py)
and the types of expressions (infer.py).
"""

from __future__ import annotations

from functools import lru_cache, reduce

import pyarrow as pa

from engine.query.ddl import DataType, DdlError, parse_type

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_KEYS = (*INTEGERS, "string", "date", "timestamp", "timestamp_ntz", "decimal", "binary", "boolean")
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_FROM_ARROW: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "timestamp_ntz",
    pa.null(): "void",
}
_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)
_DUCK = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}


class NoSuchType(ValueError):
    """A type that has no counterpart on the other side; the message names it."""


@lru_cache(maxsize=4096)
def arrow_type(spark: str) -> pa.DataType:
    """The Arrow type in which a column of this Spark type travels."""
    try:
        return _to_arrow(parse_type(spark))
    except DdlError:
        raise NoSuchType(f"type {spark} is not supported") from None


def _to_arrow(kind: DataType) -> pa.DataType:
    if kind.name == "decimal":
        return pa.decimal128(*kind.params)
    if kind.name == "array":
        return pa.list_(_to_arrow(kind.children[0]))
    if kind.name == "map":
        return pa.map_(*map(_to_arrow, kind.children))
    if kind.name == "struct":
        pairs = zip(kind.names, kind.children, strict=True)
        return pa.struct([pa.field(name, _to_arrow(child)) for name, child in pairs])
    if kind.name not in _ARROW:
        raise NoSuchType(f"type {kind} is not supported")
    return _ARROW[kind.name]


def spark_type(arrow: pa.DataType) -> str:
    """The Spark type that Spark's Parquet reader gives a column of this Arrow type."""
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and arrow.scale >= 0:
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow) and arrow.unit != "ns":
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_fixed_size_binary(arrow):
        return "binary"
    if pa.types.is_dictionary(arrow):
        return spark_type(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return spark_type(arrow.storage_type)
    return _nested_spark_type(arrow)


def _nested_spark_type(arrow: pa.DataType) -> str:
    if any(is_one(arrow) for is_one in _LISTS):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        children = tuple(parse_type(spark_type(field.type)) for field in arrow)
        return str(DataType("struct", children=children, names=tuple(f.name for f in arrow)))
    raise NoSuchType(f"Arrow type {arrow} has no counterpart in Spark")


def duck_type(spark: str) -> str | None:
    """The DuckDB spelling of a flat Spark type; None for nested and other types."""
    if spark.startswith("decimal("):
        return spark.upper()
    return _DUCK.get(spark)


def decimal_of(spark: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal, or of the decimal that holds every value of an integer."""
    if spark in _DIGITS:
        return _DIGITS[spark], 0
    if not spark.startswith("decimal("):
        return None
    precision, scale = parse_type(spark).params
    return precision, scale


def key_refusal(spark: str) -> str | None:
    """Why a value of this type cannot be a join key, with what to do; None if it can."""
    kind = parse_type(spark)
    if kind.collation:
        return f"a string collated {kind.collation} cannot be a join key; CAST it to STRING"
    if kind.name in ("float", "double"):
        return (
            f"{spark} cannot be a join key (equal but for rounding is not equal); cast to decimal"
        )
    if kind.name not in _KEYS:
        return f"{spark} cannot be a join key; join on a number, string, date or time in it"
    return None


def common_key_type(types: tuple[str, ...]) -> str:
    """The type to which all inputs' key values are cast before they are hashed."""
    return reduce(_common, types)


def _common(left: str, right: str) -> str:
    if left == right:
        return left
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    one, two = decimal_of(left), decimal_of(right)
    if one and two:
        return _common_decimal(left, one, right, two)
    raise NoSuchType(f"{left} and {right} have no common type; CAST one of them")


def _common_decimal(left: str, one: tuple[int, int], right: str, two: tuple[int, int]) -> str:
    scale = max(one[1], two[1])
    precision = max(one[0] - one[1], two[0] - two[1]) + scale
    if precision > 38:
        raise NoSuchType(
            f"{left} and {right} need decimal({precision},{scale}), and 38 digits "
            "are the limit; CAST one of them"
        )
    return f"decimal({precision},{scale})"
