"""The command line of run.py: every command and option. What they do is wired in run.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from app import ctl, users_cli


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
    papers.add_argument(
        "--long", action="store_true", help="budgets of 50 MB a node and more: hours"
    )
    papers.add_argument("--out", type=Path, metavar="DIR", help="instead of docs/papers")
    actions.add_parser("settings", help="every setting, its value and what it is")
    _processes(actions)
    for action in (ctl.add_parser(actions), users_cli.add_parser(actions)):
        action.add_argument("--data", type=Path, metavar="DIR", help="instead of the setting's")
    return top


def _processes(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = actions.add_parser("up", help="console, control and engine, watched over, until Ctrl-C")
    up.add_argument("--no-demo", action="store_true", help="begin without the demo query")
    engine = actions.add_parser("engine", help="the engine alone")
    console = actions.add_parser("console", help="the console alone")
    parts = [up, engine, console, actions.add_parser("control", help="rules and upkeep alone")]
    for action in (up, engine):
        _master(action)
    for action in (up, console):
        action.add_argument("--port", type=int, metavar="N", help="instead of the setting's")
    for action in parts[1:]:
        action.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    saved = actions.add_parser("backup", help="a copy of the ledger, taken while everything runs")
    saved.add_argument("file", type=Path, metavar="FILE")
    back = actions.add_parser("restore", help="put a backup back; everything must have stopped")
    back.add_argument("file", type=Path, metavar="FILE")
    told = actions.add_parser("diagnose", help="an archive for a bug report, without secrets")
    told.add_argument("--out", type=Path, metavar="FILE", default=Path("spillway-diagnose.tar.gz"))
    for action in (*parts, saved, back, told):
        action.add_argument("--data", type=Path, metavar="DIR", help="instead of the setting's")


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
