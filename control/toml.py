"""The one reader of TOML: of rules, query files, policies, scripts and settings.

Python's reader takes what no person writes: brackets and dotted keys nested until it runs out of stack (or out of
time: its work grows with the square of a key's parts), and whole numbers that nothing can calculate with. Here all
of that is a TomlError, as any other mistake in a text is. Nothing else in production code imports tomllib, which
a test holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from control.errors import TomlError

DEPTH_MAX = 32  # tables and lists within each other, and parts of a dotted key
WHOLE_MAX = 2**63 - 1  # what TOML itself promises to carry
BYTES_MAX = 1 << 20
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEPTH_MAX}}}")
_DEEP = f"more than {DEPTH_MAX} levels within each other"


def read_toml(text: str) -> dict[str, Any]:
    """The table that a text says; TomlError says what is wrong, and in which line where that is known."""
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise _not_toml(f"a key of more than {DEPTH_MAX} parts (at line {line})")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(str(error)) from None
    except RecursionError:
        raise _not_toml(_DEEP) from None
    except ValueError:  # digits without end are the only other thing that it raises
        raise _not_toml("a whole number is too long") from None
    for key, value, depth in _values(table):
        if depth > DEPTH_MAX:
            raise _not_toml(_DEEP)
        if isinstance(value, int) and not -WHOLE_MAX <= value <= WHOLE_MAX:
            raise _not_toml(f"the whole number of {key[:40]!r} is too large, at most {WHOLE_MAX:,}")
    return table


def read_toml_file(path: Path) -> dict[str, Any]:
    """The same, of a file of at most 1 MiB. Errors leave out the path: whoever asks says where."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise TomlError(f"is larger than {BYTES_MAX:,} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TomlError(f"cannot be read: {error.strerror}", hint="Check the path.") from None
    except UnicodeDecodeError as error:
        raise TomlError(f"is not UTF-8 text (byte {error.start})") from None
    return read_toml(text)


def _not_toml(why: str) -> TomlError:
    return TomlError(f"is not TOML: {why}")


def _values(table: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Everything in it with the key that it stands under and its depth, without recursion."""
    left: list[tuple[str, Any, int]] = [("", table, 0)]
    while left:
        key, value, depth = left.pop()
        yield key, value, depth
        if isinstance(value, dict):
            left += [(name, inner, depth + 1) for name, inner in value.items()]
        elif isinstance(value, list):
            left += [(key, inner, depth + 1) for inner in value]
