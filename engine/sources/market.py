"""A made-up market: prices, volumes and reviews of listed symbols, for demos.

A symbol has a character (price level, liquidity, reputation) that all three streams agree on,
because it is drawn from the symbol alone; what happens at one offset is drawn from the stream's seed.
Not here: which symbol a row is about, and when (schedule.py, generator.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from engine.errors import QueryFileError
from engine.hashing import I64
from engine.query.model import Field
from engine.sources.schedule import F64, noise, permute, uniform

LISTED = 26**5
_VENUES = ("XNYS", "XNAS", "XLON", "XPAR", "XETR", "XTKS")
_PRAISE = (
    "Avoid: management gone quiet",
    "Guidance cut again",
    "Mixed quarter, fair price",
    "Margins better than feared",
    "Strong orders, raised outlook",
)
_DAY_US = 86_400_000_000

FIELDS: dict[str, tuple[Field, ...]] = {
    "prices": (
        Field("symbol", "string"),
        Field("ts", "timestamp"),
        Field("price", "decimal(12,2)"),
    ),
    "volumes": (
        Field("symbol", "string"),
        Field("ts", "timestamp"),
        Field("volume", "bigint"),
        Field("venue", "string"),
    ),
    "reviews": (
        Field("symbol", "string"),
        Field("ts", "timestamp"),
        Field("rating", "int"),
        Field("headline", "string"),
    ),
}


def symbols(numbers: I64) -> pa.Array:
    """Five letters for each number below LISTED, a different symbol for each."""
    if numbers.size and int(numbers.max()) >= LISTED:
        raise QueryFileError(
            f"the market lists {LISTED:,} symbols, and more are asked for",
            where="generator option keys",
            hint="lower keys or tuple_range, or use fewer classes",
        )
    code = permute(numbers, LISTED, np.zeros(numbers.size, np.uint64))
    digits = code[:, None] // np.array([26**4, 26**3, 26**2, 26, 1]) % 26
    letters = (digits + ord("A")).astype(np.uint8)
    ends = np.arange(0, 5 * numbers.size + 5, 5, dtype=np.int32)
    return pa.StringArray.from_buffers(numbers.size, pa.py_buffer(ends), pa.py_buffer(letters))


def any_symbols(numbers: I64) -> pa.Array:
    """The same; after the last symbol the first one follows."""
    return symbols(numbers % LISTED)


def facts(preset: str, numbers: I64, offsets: I64, ts: I64, seed: int) -> list[pa.Array]:
    """The columns after symbol and ts."""
    return _FACTS[preset](numbers, offsets, ts, seed)


def _prices(numbers: I64, offsets: I64, ts: I64, seed: int) -> list[pa.Array]:
    level = 5 * np.exp(5 * uniform(1, numbers))  # 5 to 742
    swing = np.sin(2 * np.pi * ((ts % _DAY_US) / _DAY_US * 24 + uniform(2, numbers)))
    jitter = uniform(seed, offsets) - 0.5
    cents = np.rint(100 * level * (1 + 0.04 * swing + 0.01 * jitter)).astype(np.int64)
    halves = np.stack([cents, np.zeros_like(cents)], axis=1)
    kind = pa.decimal128(12, 2)
    return [pa.Array.from_buffers(kind, len(cents), [None, pa.py_buffer(halves)])]


def _volumes(numbers: I64, offsets: I64, ts: I64, seed: int) -> list[pa.Array]:
    lots = np.exp(1 + 5 * uniform(3, numbers) + 2 * uniform(seed, offsets))
    venue = (noise(seed + 1, offsets) % np.uint64(len(_VENUES))).view(np.int64)
    return [pa.array(10 * np.ceil(lots).astype(np.int64)), pa.array(_VENUES).take(pa.array(venue))]


def _reviews(numbers: I64, offsets: I64, ts: I64, seed: int) -> list[pa.Array]:
    mood: F64 = 3.5 * uniform(4, numbers) + 1.5 * uniform(seed, offsets)
    rating = mood.astype(np.int32)
    return [pa.array(rating + np.int32(1)), pa.array(_PRAISE).take(pa.array(rating))]


_FACTS: dict[str, Callable[[I64, I64, I64, int], list[pa.Array]]] = {
    "prices": _prices,
    "volumes": _volumes,
    "reviews": _reviews,
}
