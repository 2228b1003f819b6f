"""Spillway's command line: the only place where settings, commands and processes are wired together.

What a command does is in engine/commands.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import commands
from engine.errors import SettingError, SpillwayError
from engine.settings import Settings, show

EXIT_USER = commands.EXIT_USER
EXIT_INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(prog="run.py", description="Stateful stream joins on PySpark.")
    top.add_argument(
        "--settings", type=Path, metavar="FILE", help="settings file (default: spillway.toml)"
    )
    top.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting for this run; see `run.py settings`",
    )
    actions = top.add_subparsers(dest="command", required=True)
    _query(actions.add_parser("query", help="check, run or look at a query file"))
    demo = actions.add_parser("demo", help="a join of three market streams, until Ctrl-C")
    _master(demo)
    papers = actions.add_parser("reproduce", help="the papers' figures on this engine")
    papers.add_argument("figures", nargs="*", metavar="FIGURE", help="which; all without any")
    papers.add_argument("--list", action="store_true", help="the figures there are")
    papers.add_argument("--long", action="store_true", help="as long as in the papers")
    papers.add_argument("--out", type=Path, metavar="DIR", help="instead of docs/papers")
    actions.add_parser("settings", help="every setting, its value and what it is")
    return top


def _query(query: argparse.ArgumentParser) -> None:
    actions = query.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="check query files and show their plans")
    run = actions.add_parser("run", help="run query files, all at once in one engine")
    run.add_argument(
        "--once",
        action="store_true",
        help="process what is there, print one JSON line for each query, end",
    )
    run.add_argument("--nodes", type=int, metavar="N", help="instead of the query file's nodes")
    run.add_argument("--adapt", type=Path, metavar="FILE", help="a policy that adapts it (TOML)")
    run.add_argument("--script", type=Path, metavar="FILE", help="commands at certain ticks (TOML)")
    run.add_argument(
        "--owed",
        choices=("cleanup", "keep"),
        default="cleanup",
        help="results still owed at the end of the input: let them come out (default), or keep "
        "them owed",
    )
    run.add_argument("--report", type=Path, metavar="FILE", help="what adaptation did, as JSON")
    _master(run)
    tail = actions.add_parser("tail", help="show the newest results")
    tail.add_argument(
        "-n", dest="rows", type=_positive, default=20, metavar="N", help="rows (default 20)"
    )
    tail.add_argument("--follow", action="store_true", help="go on with new results until Ctrl-C")
    tail.add_argument("file", type=Path, metavar="FILE", help="the query file (TOML)")
    for action in (check, run):
        action.add_argument(
            "files", type=Path, metavar="FILE", nargs="+", help="a query file (TOML)"
        )


def _master(action: argparse.ArgumentParser) -> None:
    action.add_argument("--master", metavar="URL", help="Spark master (default: local)")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("a number from 1 on is needed")
    return int(text)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Settings from file, environment and --set."""
    overrides: dict[str, str] = {}
    for item in arguments.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingError(f"--set {item}: NAME=VALUE is needed")
        overrides[name.strip()] = value
    return Settings.load(overrides, file=arguments.settings)


def dispatch(arguments: argparse.Namespace) -> int:
    """Run the command; its exit code."""
    settings = settings_of(arguments)
    if arguments.command == "settings":
        print(show(settings))
        return 0
    if arguments.command == "reproduce":
        return commands.reproduce(
            arguments.figures, show=arguments.list, long=arguments.long, out=arguments.out
        )
    if arguments.command == "demo":
        return commands.demo(master=arguments.master, settings=settings)
    if arguments.action == "check":
        return commands.check(arguments.files)
    if arguments.action == "tail":
        return commands.show_tail(arguments.file, rows=arguments.rows, follow=arguments.follow)
    return commands.run_queries(
        arguments.files,
        once=arguments.once,
        nodes=arguments.nodes,
        master=arguments.master,
        settings=settings,
        adaptation=commands.Adaptation(
            arguments.adapt, arguments.script, arguments.owed, arguments.report
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return dispatch(arguments)
    except SpillwayError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USER
    except KeyboardInterrupt:
        if getattr(arguments, "action", "") != "tail":
            print("\nstopped; start again to resume", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of stdout went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
