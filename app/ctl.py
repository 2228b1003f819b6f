"""`run.py ctl …`: the console's client. Everything over HTTP; what it can do is the table of verbs.

Exit codes: 0 done, 1 refused (or the action did not succeed), 2 a mistake, or no console answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from app import ctl_act, ctl_orders, ctl_read, ctl_rule, ctl_secret
from app.ctl_base import Ctl, Verb
from app.ctl_http import Client, RefusedError, find_place, read_token
from app.errors import AppError

SEEN = (
    "every process on this machine can read a token on the command line (ps): use --token-file FILE or the "
    "environment's SPILLWAY_TOKEN"
)
EXIT_REFUSED = 1
EXIT_USER = 2
VERBS: tuple[Verb, ...] = (
    *ctl_read.VERBS,
    *ctl_orders.VERBS,
    *ctl_act.VERBS,
    *ctl_rule.VERBS,
    *ctl_secret.VERBS,
)


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """`ctl` and all its verbs below run.py's own."""
    top: argparse.ArgumentParser = subparsers.add_parser(
        # Options in short would be options of this parser first: a verb's --to is no --token.
        "ctl",
        help="look at and steer a running Spillway",
        allow_abbrev=False,
    )
    top.add_argument("--url", dest="at_url", metavar="URL", help="the console's address")
    given = top.add_mutually_exclusive_group()
    given.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a file with the token to use instead of the one that `up` left; - is stdin",
    )
    given.add_argument("--token", dest="with_token", metavar="TOKEN", help=argparse.SUPPRESS)
    _json(top, default=False)
    _verbs(top, VERBS)
    return top


def _verbs(top: argparse.ArgumentParser, verbs: Sequence[Verb]) -> None:
    """One word, or two: the first is then a command of its own, with the second below it."""
    places = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    groups: dict[str, Any] = {}
    for verb in verbs:
        first, _, second = verb.name.partition(" ")
        if second and first not in groups:
            inner = places.add_parser(first, help=_of_group(first, verbs))
            groups[first] = inner.add_subparsers(dest="second", required=True, metavar="WHAT")
        place = groups[first] if second else places
        parser = place.add_parser(second or first, help=verb.help)
        _json(parser, default=argparse.SUPPRESS)
        for names, how in verb.options:
            parser.add_argument(*names, **how)
        parser.set_defaults(act=verb.act)


def _json(parser: argparse.ArgumentParser, *, default: Any) -> None:
    """Before the verb or after it."""
    parser.add_argument(
        "--json", action="store_true", default=default, help="the API's answer as it is"
    )


def _of_group(first: str, verbs: Sequence[Verb]) -> str:
    names = [verb.name.split()[1] for verb in verbs if verb.name.startswith(first + " ")]
    return ", ".join(names)


def run(
    arguments: argparse.Namespace,
    folder: Path,
    *,
    out: TextIO | None = None,
    err: TextIO | None = None,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Carry out what `add_parser` read; its exit code. `folder`: the data directory, with ctl.json."""
    told = err or sys.stderr
    try:
        token = arguments.with_token
        if arguments.token_file is not None:
            token = read_token(arguments.token_file)
        elif token:
            print(f"warning: {SEEN}", file=told)
        client = Client(find_place(folder, arguments.at_url, token))
        ctl = Ctl(client, arguments, out or sys.stdout, arguments.json, clock, pause)
        code: int = arguments.act(ctl)
        return code
    except RefusedError as error:
        print(f"refused: {error}", file=told)
        return EXIT_REFUSED
    except AppError as error:
        print(f"error: {error}", file=told)
        return EXIT_USER
