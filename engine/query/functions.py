"""The allow-lists of functions: what may run in Spark before the exchange, and in DuckDB after it.

`POST` functions are those whose DuckDB form is tested against Spark, value by value and type by
type. `PRE` are deterministic scalar functions of Spark that touch nothing but their arguments.
Neither will ever hold java_method, reflect, read_text, anything random, the clock or the session.
"""

from __future__ import annotations

import difflib


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALIASES = {
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "dayofmonth": "day",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "date_diff": "datediff",
    "dateadd": "date_add",
}

POST = _names("""
    abs coalesce concat date_add date_sub datediff day dayofweek dayofyear greatest hour if least
    left length ltrim minute month negative nullif nvl2 quarter right rtrim second
    substring trim weekday year
""")

PRE = POST | _names("""
    acos acosh add_months ascii asin asinh atan atan2 atanh base64 bin bit_count bit_length bround
    btrim cbrt ceil ceiling char chr concat_ws contains conv cos cosh cot crc32 csc
    date_format date_from_unix_date date_trunc decode degrees e encode endswith
    exp expm1 factorial find_in_set floor format_number from_unixtime get_json_object hash
    hex initcap instr isnan isnotnull isnull last_day levenshtein ln locate log log10 log1p
    log2 lower lpad make_date make_timestamp mask md5 months_between nanvl next_day octet_length
    overlay parse_url pi pmod position positive pow power radians regexp_count regexp_extract
    regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse rint round rpad
    sec sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh soundex
    split_part sqrt startswith substring_index tan tanh timestamp_micros timestamp_millis
    timestamp_seconds to_char to_date to_number to_timestamp to_timestamp_ntz translate trunc
    try_add try_divide try_multiply try_subtract try_to_number try_to_timestamp unbase64 unhex
    unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode weekofyear
    width_bucket xxhash64
""")

_CHANGING = _names("""
    now current_timestamp current_date current_time localtimestamp unix_timestamp rand randn random uuid
    monotonically_increasing_id shuffle getdate sysdate today
""")
_ARRAYS = _names(
    "explode explode_outer posexplode inline unnest flatten array struct map named_struct"
)

_AGGREGATES = _names("""
    any any_value approx_count_distinct array_agg avg bool_and bool_or collect_list collect_set
    corr count count_if first kurtosis last listagg max max_by mean median min min_by mode
    percentile percentile_approx some std stddev string_agg sum var_pop var_samp variance every
""")


OVER = _names("avg count max min stddev stddev_pop stddev_samp sum var_pop var_samp")


def refused_function(name: str) -> str:
    """Why a function is not to be had."""
    if name in _AGGREGATES:
        return f"aggregate function {name} is not supported yet"
    return f"function {name} is not allowed"


def advice(name: str) -> str:
    """What there is instead."""
    if name in _AGGREGATES:
        over = f"over a window it is: {name}(v) OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING)"
        return over if name in OVER else f"over a window there are: {', '.join(sorted(OVER))}"
    if name in _CHANGING:
        return "it would be another at a restart; use a column of a stream"
    if name in _ARRAYS:
        return "take arrays apart before they enter the stream, or when you read the results"
    close = difflib.get_close_matches(name, PRE | set(ALIASES), n=3)
    own = "functions of your own are not; " if not close else ""
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{meant}{own}allowed in SELECT are: {', '.join(sorted(POST))}"
