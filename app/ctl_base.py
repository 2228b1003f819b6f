"""What every command of the client works with: its verb as a value, the client, where to write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from app.ctl_http import Client, quoted
from app.ctl_show import table
from app.errors import ClientError

Option = tuple[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True)
class Ctl:
    """One call of `ctl`. `json`: answers go out as they came."""

    client: Client
    arguments: argparse.Namespace
    out: TextIO
    json: bool
    clock: Callable[[], float]
    pause: Callable[[float], None]

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def put(self, answer: Any, text: str | Callable[[], str]) -> int:
        """The answer: as JSON, or as a text."""
        if self.json:
            self.say(json.dumps(answer, ensure_ascii=False))
        else:
            self.say(text if isinstance(text, str) else text())
        return 0

    def table(self, answer: Any, header: Sequence[str], rows: Any, none: str = "nothing") -> int:
        return self.put(answer, lambda: table(header, list(rows), none))

    def done(self, answer: Any) -> int:
        """What the dispatcher said: its text, and the id to go on with."""
        return self.put(answer, f"{answer['text']}  {answer['id']}".rstrip())

    @property
    def query(self) -> str:
        """The query that is meant: the one that was named, or the only one there is."""
        named = getattr(self.arguments, "query", None)
        if named:
            return quoted(named)
        names = [item["name"] for item in self.client.get("/queries")["items"]]
        if len(names) == 1:
            return quoted(names[0])
        if not names:
            raise ClientError("no query is registered", hint="ctl query register FILE")
        raise ClientError("which query?", hint=f"--query with one of: {', '.join(names)}")

    @property
    def now_s(self) -> float:
        return self.clock()


@dataclass(frozen=True, slots=True)
class Verb:
    """One command. `name` may have two words: `rule mode`."""

    name: str
    help: str
    act: Callable[[Ctl], int]
    options: tuple[Option, ...] = field(default=())


def option(*names: str, **how: Any) -> Option:
    return names, how


QUERY = option("--query", "-q", metavar="NAME", help="the query; not needed when there is one")
