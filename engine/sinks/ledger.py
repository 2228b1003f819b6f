"""The hidden note in a sink directory: whose it is, and up to which version it is published.

It tells a restart apart from a stranger's results, and a result file that its reader took away
from one that was lost. It does not list files: names are enough.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.errors import SinkError
from engine.sinks.staged import failure

NAME = ".spillway.json"


@dataclass(frozen=True, slots=True)
class Ledger:
    """`owner`: the checkpoint that writes here; `published`: the last version that is out."""

    owner: str = ""
    published: int = -1


def read(directory: Path) -> Ledger:
    """The note, or an empty one where there is none."""
    try:
        return Ledger(**json.loads((directory / NAME).read_text()))
    except FileNotFoundError:
        return Ledger()
    except (ValueError, TypeError) as error:
        raise SinkError(
            "the sink's note cannot be read",
            where=str(directory / NAME),
            hint="Remove that file and start again.",
        ) from error


def write(directory: Path, ledger: Ledger) -> None:
    replace_text(directory / NAME, json.dumps(asdict(ledger)))


def mark(directory: Path, version: int) -> None:
    """Note that everything up to `version` is published."""
    ledger = read(directory)
    if version > ledger.published:
        write(directory, replace(ledger, published=version))


def claim(directory: Path, owner: str) -> None:
    """Make the directory `owner`'s; refused while another checkpoint's results are in it."""
    ledger = read(directory)
    if ledger.owner == owner:
        return
    if ledger.owner and any(directory.glob("part-*")):
        raise SinkError(
            f"holds the results of the query whose checkpoint is {ledger.owner}",
            where=str(directory),
            hint="Choose another sink path; or, if that checkpoint was moved here, "
            f"remove {directory / NAME}.",
        )
    write(directory, Ledger(owner, ledger.published if not ledger.owner else -1))


def start_over(directory: Path) -> None:
    """For a query without any commit: no results may be there yet."""
    stranger = next(iter(sorted(directory.glob("part-*"))), None)
    if stranger is not None:
        raise SinkError(
            f"holds results already ({stranger.name} …), but the checkpoint is new",
            where=str(directory),
            hint="Move the old results away, choose another sink path, or use the checkpoint "
            "that they belong to.",
        )
    write(directory, replace(read(directory), published=-1))


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old or the new one, never a part."""
    try:
        fresh = path.with_name(f"{path.name}.new" if path.name[0] == "." else f".{path.name}.new")
        fresh.write_text(text)
        os.replace(fresh, path)
    except OSError as error:
        raise failure(error, path) from error
