"""What several tests of native need."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

D = decimal.Decimal
AT = dt.datetime(2001, 2, 3, 4, 5, 6, 789012)
OLD = dt.datetime(1901, 2, 3, 4, 5, 6, 789999)
PARIS = dt.timezone(dt.timedelta(hours=1))
# Values as pyarrow writes them, and the declared types with which both readers are to agree.
AGREE: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.bool_(), [True, False, None], "boolean"),
    (pa.int8(), [-128, 127, None], "tinyint"),
    (pa.int8(), [-128, 127, None], "int"),
    (pa.int16(), [-(2**15), None], "smallint"),
    (pa.int16(), [-(2**15), None], "bigint"),
    (pa.int32(), [-(2**31), 2**31 - 1, None], "int"),
    (pa.int32(), [5, -6], "smallint"),
    (pa.int32(), [-(2**31), 2**31 - 1, None], "bigint"),
    (pa.int32(), [-(2**31), 2**31 - 1, None], "double"),
    (pa.int32(), [-(2**31), 2**31 - 1, None], "decimal(12,2)"),
    (pa.int64(), [-(2**63), 2**63 - 1, None], "bigint"),
    (pa.int64(), [-(2**63), 2**63 - 1, None], "decimal(20,0)"),
    (pa.uint8(), [0, 255], "int"),
    (pa.uint16(), [0, 65535], "int"),
    (pa.uint32(), [0, 2**32 - 1], "bigint"),
    (pa.uint64(), [0, 2**64 - 1], "decimal(20,0)"),
    (pa.float32(), [0.1, float("inf"), None], "float"),
    (pa.float32(), [0.1, float("-inf"), None], "double"),
    (pa.float64(), [0.1, None], "double"),
    (pa.decimal128(7, 2), [D("12345.67"), D("-0.01"), None], "decimal(7,2)"),
    (pa.decimal128(7, 2), [D("12345.67"), D("-0.01"), None], "decimal(20,5)"),
    (pa.decimal128(18, 3), [D("-999999999999999.999"), None], "decimal(18,3)"),
    (pa.decimal128(38, 6), [D("99999999999999999999999999999999.999999")], "decimal(38,6)"),
    (pa.string(), ["", "ä€😀", "x" * 1000, None], "string"),
    (pa.large_string(), ["a", None], "string"),
    (pa.string_view(), ["", "ä€😀", "x" * 1000, None], "string"),
    (pa.string_view(), ["abc", None], "binary"),
    (pa.large_binary(), [b"\x00", None], "binary"),
    (pa.binary_view(), [b"", b"\x00\xff" * 20, None], "binary"),
    (pa.binary_view(), [b"abc", None], "string"),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None], "string"),
    (pa.dictionary(pa.uint8(), pa.large_string()), ["a", "b", "a", None], "string"),
    (pa.binary(), [b"", b"\x00\xff", None], "binary"),
    (pa.binary(), [b"abc", None], "string"),
    (pa.string(), ["abc", None], "binary"),
    (pa.binary(3), [b"abc", None], "binary"),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(9999, 12, 31), None], "date"),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(2020, 2, 29), None], "timestamp_ntz"),
    (pa.timestamp("us"), [AT, OLD, None], "timestamp_ntz"),
    (pa.timestamp("ms"), [AT.replace(microsecond=7000), None], "timestamp_ntz"),
    (pa.timestamp("us"), [AT, OLD, None], "timestamp"),
    (pa.timestamp("us", "UTC"), [AT, OLD, None], "timestamp"),
    (pa.timestamp("ms", "UTC"), [AT.replace(microsecond=7000), None], "timestamp"),
    (pa.timestamp("us", "Europe/Paris"), [AT.replace(tzinfo=PARIS), None], "timestamp"),
    (pa.timestamp("us", "Europe/Paris"), [AT.replace(tzinfo=PARIS), None], "timestamp_ntz"),
    (pa.timestamp("ms", "UTC"), [AT.replace(microsecond=7000), None], "timestamp_ntz"),
    (pa.null(), [None], "bigint"),
]
# Declared types that both refuse.
REFUSED: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.int64(), [1], "int"),
    (pa.int64(), [1], "double"),
    (pa.int64(), [1], "string"),
    (pa.string(), ["1"], "bigint"),
    (pa.string_view(), ["1"], "bigint"),
    (pa.uint32(), [1], "int"),
    (pa.float64(), [1.0], "float"),
    (pa.float64(), [1.0], "bigint"),
    (pa.bool_(), [True], "int"),
    (pa.int32(), [1], "boolean"),
    (pa.int32(), [1], "decimal(9,0)"),
    (pa.uint64(), [1], "bigint"),
    (pa.decimal128(7, 2), [D("1.00")], "decimal(7,1)"),
    (pa.decimal128(7, 2), [D("1.00")], "decimal(7,3)"),
    (pa.decimal128(7, 2), [D("1.00")], "double"),
    (pa.date32(), [dt.date(2020, 1, 1)], "timestamp"),
    (pa.timestamp("us"), [AT], "date"),
    (pa.list_(pa.int32()), [[1]], "int"),
    (pa.struct([("a", pa.int32())]), [{"a": 1}], "int"),
]
