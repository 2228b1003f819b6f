"""Kafka's JAAS texts in options: which login modules they may name, and how a secret is written into one.

Any class that is named there is loaded; so only Kafka's own and Kerberos' are allowed.
"""

from __future__ import annotations

import re

OPTION = "kafka.sasl.jaas.config"
MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    "com.sun.security.auth.module.Krb5LoginModule",
)
_MODULE = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b")
_ASIDE = re.compile(  # comments and texts in quotes, which end with their line
    r"/\*.*?\*/|//[^\n\r]*|\"(?:\\[^\n\r]|[^\"\\\n\r])*\"|'(?:\\[^\n\r]|[^'\\\n\r])*'", re.S
)
_QUOTES = re.compile(r"\\.|[\"']", re.S)
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r"})


def is_allowed(text: str) -> bool:
    """Does it name allowed login modules alone? Each entry up to a `;` names one, and Java makes them all."""
    bare = _ASIDE.sub(" ", text)
    if '"' in bare or "'" in bare:
        return False  # a quote without its end: Java may read on where we do not
    found = [_MODULE.match(entry) for entry in bare.split(";") if entry.strip()]
    return bool(found) and all(one is not None and one[1] in MODULES for one in found)


def written(value: str, before: str) -> str:
    """A secret as it stands in a JAAS text after `before`: escaped, and quoted where it is not within quotes."""
    quote = ""
    for mark in _QUOTES.findall(before):
        if mark in ("'", '"') and quote in ("", mark):
            quote = "" if quote else mark
    escaped = value.translate(_ESCAPES)
    return escaped if quote else f'"{escaped}"'
