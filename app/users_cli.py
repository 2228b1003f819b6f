"""`run.py user …`: users on the machine itself, when the console is down or nobody can sign in.

It goes through the dispatcher like everything else, so it is in the audit. Passwords come from the terminal or
from stdin, never from the command line, where every process could read them.
"""

from __future__ import annotations

import argparse
import getpass
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from app import tokens
from app.auth import Passwords
from app.ctl_show import clock as shown_time
from app.ctl_show import table
from app.errors import AppError, ClientError
from app.parts import Dispatch
from app.password_rules import password_fault
from control.people import Actor, Role, Source
from control.ports import Store

EXIT_REFUSED = 1
EXIT_USER = 2
ME = Actor("(command line)", Role.ADMIN, Source.CLI)
ACTIONS = {
    "list": "every user",
    "add": "a new user; asks for the password",
    "password": "a new password; ends the user's sessions and API tokens",
    "token": "an API token for the user, printed once",
    "role": "another role",
    "disable": "end sessions, refuse sign-in",
    "enable": "let sign in again",
    "unlock": "forget wrong passwords",
}


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    top: argparse.ArgumentParser = subparsers.add_parser("user", help="users of the console")
    actions = top.add_subparsers(dest="action", required=True, metavar="WHAT")
    for action, help in ACTIONS.items():
        parser = actions.add_parser(action, help=help)
        if action != "list":
            parser.add_argument("name", metavar="NAME")
        if action in ("add", "role"):
            roles = [role.value for role in Role]
            kept = {} if action == "role" else {"nargs": "?", "default": Role.VIEWER.value}
            parser.add_argument("role", choices=roles, **kept)  # type: ignore[arg-type]
        if action == "token":
            _token_options(parser)
        if action in ("add", "password"):
            parser.add_argument(
                "--password-stdin", action="store_true", help="read it from stdin, one line"
            )
    return top


def _token_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("label", metavar="LABEL", help="what it is for")
    parser.add_argument(
        "--scope",
        choices=[role.value for role in Role],
        default=Role.VIEWER.value,
        help="what it may do at most (viewer)",
    )
    parser.add_argument(
        "--days", type=int, metavar="N", help="it ends then (setting token_days, the most)"
    )


def run(
    arguments: argparse.Namespace,
    store: Store,
    dispatcher: Dispatch,
    *,
    passwords: Passwords | None = None,
    ask: Callable[[str], str] = getpass.getpass,
    stdin: TextIO | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Carry it out on this store; the exit code."""
    to, told = out or sys.stdout, err or sys.stderr
    try:
        if arguments.action == "list":
            print(_listed(store), file=to)
            return 0
        body = _body(arguments, passwords or Passwords(), ask, stdin or sys.stdin)
    except AppError as error:
        print(f"error: {error}", file=told)
        return EXIT_USER
    plain = ""
    if arguments.action == "token":
        plain, digest = tokens.made()
        body = {**body, "sha256": digest}
    answer = dispatcher.dispatch(f"user.{arguments.action}", body, ME)
    if plain and answer.accepted:
        print(plain, file=to)
        print(f"not shown again; to end it: run.py ctl token revoke {answer.id}", file=told)
        return 0
    print(answer.text, file=to if answer.accepted else told)
    return 0 if answer.accepted else EXIT_REFUSED


def _listed(store: Store) -> str:
    rows = [
        (u.name, u.role, "disabled" if u.disabled else "", shown_time(u.seen_s))
        for u in store.users.all()
    ]
    return table(("user", "role", "", "last seen"), rows, "no users")


def _body(
    arguments: argparse.Namespace, passwords: Passwords, ask: Callable[[str], str], stdin: TextIO
) -> Mapping[str, Any]:
    body: dict[str, Any] = {"name": arguments.name}
    if arguments.action in ("add", "role"):
        body["role"] = arguments.role
    if arguments.action == "token":
        body |= {"label": arguments.label, "scope": arguments.scope}
        if arguments.days is not None:
            body["expires_s"] = time.time() + arguments.days * 86_400.0
    if arguments.action in ("add", "password"):
        given = _given(arguments, ask, stdin)
        if fault := password_fault(given, arguments.name):
            raise ClientError(fault)
        body["password_hash"] = passwords.hash(given)
    return body


def _given(arguments: argparse.Namespace, ask: Callable[[str], str], stdin: TextIO) -> str:
    if arguments.password_stdin:
        return stdin.readline().rstrip("\r\n")
    first = ask(f"Password for {arguments.name}: ")
    if ask("Again: ") != first:
        raise ClientError("the two passwords differ")
    return first
