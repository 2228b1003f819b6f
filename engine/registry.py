"""Registered queries: their files in the data folder, and what a new one must pass before it is kept.

A registered query reads only below the folders that the setting `source_roots` names, and writes only below
its own and those of `sink_roots`; its functions, formats and options are those of the allow-lists of engine/query.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from control.errors import ControlError, TomlError
from control.ledger import QueryRow
from control.ports import Secrets
from control.redaction import secrets_in_file, without
from control.toml import read_toml
from engine.commands import with_nodes
from engine.errors import QueryFileError, SpillwayError
from engine.flow import compile_flow
from engine.footers import check_footers
from engine.plan.build import build_plan
from engine.plan.outline import outline
from engine.plan.show import render
from engine.plan.tree import Plan
from engine.query.file import own_paths, read_query
from engine.query.model import QuerySpec
from engine.query.paths import Roots, outside
from engine.query.sql import analyse
from engine.settings import Settings

FILE = "query.toml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class NotAQuery(ControlError):
    """The text that was to be registered is not a query that may run here."""


def roots_of(settings: Settings, data: Path) -> Roots:
    """The folders that registered queries may read below (as set, or `inputs` in the data folder) and write below,
    besides their own. The rest of the data folder is nobody's: the store and the token of `ctl` are in it."""
    read = _folders(settings.source_roots) or [data / "inputs"]
    return Roots(read, _folders(settings.sink_roots), private=data)


def _folders(setting: str) -> list[Path]:
    return [Path(part).expanduser().absolute() for part in setting.split(os.pathsep) if part]


def folder_of(data: Path, name: str) -> Path:
    return data / "queries" / name


def spec_of(
    row: QueryRow, data: Path, roots: Roots, *, secrets: Secrets | None = None
) -> QuerySpec:
    """A registered query as the engine runs it: its text is put where its paths start from. Queries that were
    registered when they could still write below `source_roots` go on; `notes_on` says which these are."""
    if not NAME.fullmatch(row.name):
        raise QueryFileError(f"a query cannot be called {row.name!r}")
    folder = folder_of(data, row.name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    part = path.with_name(f".{FILE}.new")
    part.unlink(missing_ok=True)
    # Passwords may stand in it: readable by its owner alone, from the moment that it exists.
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(row.text)
    os.replace(part, path)
    allowed = replace(roots, write=[*roots.write, *roots.read], private=None).beside(folder)
    return with_nodes(read_query(path, roots=allowed, secrets=secrets), row.nodes)


def notes_on(spec: QuerySpec, data: Path, roots: Roots) -> list[str]:
    """What whoever keeps the queries should know about one that runs all the same."""
    own = own_paths(spec.checkpoint, spec.sink)
    strays = outside(own, [folder_of(data, spec.name), *roots.write])
    return [
        f"{key} `{path}` lies below source_roots, where a query registered today may not write: move it, or name "
        "its folder in the setting sink_roots"
        for key, path in strays.items()
    ]


def with_umask(spec: QuerySpec, data: Path, umask: int | None) -> QuerySpec:
    """The data folder is its owner's alone, and so is what the engine writes; results elsewhere are made with the umask
    of whoever started it, so that others can read them as before."""
    path = spec.sink.path
    if not path or Path(path).resolve().is_relative_to(data.resolve()):
        return spec
    return replace(spec, sink=replace(spec.sink, umask=umask))


def plan_of(spec: QuerySpec) -> dict[str, Any]:
    """Its plan as it is shown: as text, and as what the console draws."""
    return {**shown(build_plan(spec, analyse(spec))), "groups": spec.groups}


def shown(plan: Plan) -> dict[str, Any]:
    """A plan, which may be another than the query file's by now."""
    return {
        "tree": render(plan),
        "plan": outline(plan),
        "operators": [operator.id for operator in plan.operators],
    }


def check(
    text: str, data: Path, roots: Roots, *, secrets: Secrets | None = None
) -> tuple[str, Mapping[str, Any]]:
    """Its name and what is to be known about it; NotAQuery says what is wrong, without the text's secrets."""
    name = _name(text)
    home = data / "queries"
    home.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".check-", dir=home))
    try:
        path = scratch / name / FILE
        path.parent.mkdir()
        path.write_text(text)
        allowed = roots.beside(folder_of(data, name)).beside(path.parent)
        spec = read_query(path, roots=allowed, secrets=secrets)
        about = {"nodes": spec.nodes, "streams": sorted(spec.streams), **plan_of(spec)}
        query = analyse(spec)
        check_footers(compile_flow(build_plan(spec, query), query))
        about["tree"] = str(about["tree"]).replace(str(path.parent) + os.sep, "")
    except SpillwayError as error:
        said = without(str(error), secrets_in_file(text))
        raise NotAQuery(said.replace(str(scratch) + os.sep, "")) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return name, about


def _name(text: str) -> str:
    try:
        raw = read_toml(text)
    except TomlError as error:
        raise NotAQuery(f"the text {error.what}", hint="See docs/queries.md.") from None
    name = raw.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise NotAQuery(
            "the query needs a name", hint='For example  name = "orders"; letters, digits, _ and -.'
        )
    return name
