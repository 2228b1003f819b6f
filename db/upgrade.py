"""Bringing a data folder's files to this version's tables. Only `run.py up` does it, before its children start.

A file that is missing is made; an older ledger is copied first, and stays as it was if anything fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Engine

from control.errors import StoreError
from db.errors import RAISED, disk, explained
from db.files import Kind, check_version, connect, make, making, version_of
from db.maintenance import copy_whole
from db.open import LEDGER_FILE, METRICS_FILE

SCRIPTS = Path(__file__).parent / "migrations"
BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class Upgraded:
    """File names that were made, those that were migrated, and the copy of the ledger as it was."""

    made: tuple[str, ...]
    migrated: tuple[str, ...]
    backup: Path | None


def upgrade(
    folder: Path, *, kinds: tuple[Kind, ...] = (LEDGER_FILE, METRICS_FILE), scripts: Path = SCRIPTS
) -> Upgraded:
    """Idempotent. Refuses a file that a newer Spillway wrote."""
    made, migrated, backup = [], [], None
    for kind in kinds:
        path = folder / kind.name
        with disk(path):
            if make(path, kind):
                made.append(kind.name)
                continue
        engine = connect(path, kind)
        try:
            copy = _migrated(engine, path, kind, scripts)
        except RAISED as error:
            raise explained(error, str(path)) from error
        finally:
            engine.dispose()
        if copy is not None:
            migrated.append(kind.name)
            backup = copy if copy != path else backup
    return Upgraded(tuple(made), tuple(migrated), backup)


def _migrated(engine: Engine, path: Path, kind: Kind, scripts: Path) -> Path | None:
    """None when there is nothing to do; the copy, or the file itself when it needs none."""
    with making(path):
        found = version_of(engine)
        if found is None or found >= kind.version:
            check_version(engine, path, kind)
            return None
        with disk(path):
            copy = path if kind.disposable else copy_whole(path, _free(path, found))
        try:
            migrate(engine, kind, scripts)
        except (*RAISED, CommandError) as error:
            kept = "" if copy == path else f" A copy is in {BACKUPS}/{copy.name}."
            hint = f"The file is as it was.{kept} Report this: run.py diagnose."
            text = f"it could not be brought from {found} to {kind.version}: {error}"
            raise StoreError(text, where=str(path), hint=hint, again=False) from error
        check_version(engine, path, kind)
        return copy


def migrate(engine: Engine, kind: Kind, scripts: Path = SCRIPTS) -> None:
    """From whatever version a file has to the one of `kind`, in one transaction."""
    config = Config()
    config.set_main_option("script_location", _escaped(scripts))
    config.set_main_option("version_locations", _escaped(scripts / Path(kind.name).stem))
    config.set_main_option("path_separator", "newline")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, kind.version)


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _free(path: Path, version: str) -> Path:
    """A name of its own for each copy."""
    folder = path.parent / BACKUPS
    folder.mkdir(exist_ok=True)
    name, number = f"{path.stem}-before-{version}", 1
    while (folder / f"{name}-{number}.db").exists():
        number += 1
    return folder / f"{name}-{number}.db"
