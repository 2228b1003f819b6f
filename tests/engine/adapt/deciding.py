"""Policies that decide over a query in this process."""

from __future__ import annotations

from typing import Any

RULE = """
name = "it"
mode = "auto"
query = "*"
every = "1s"
cooldown = "0s"
needs_gain = false
[policy]
name = "{name}"
{parameters}
"""


def text_of(name: str, mode: str = "auto", called: str = "it", **parameters: Any) -> str:
    """A rule as somebody writes it."""
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for key, value in parameters.items()
    ]
    return (
        RULE.format(name=name, parameters="\n".join(lines))
        .replace('"auto"', f'"{mode}"')
        .replace('"it"', f'"{called}"')
    )
