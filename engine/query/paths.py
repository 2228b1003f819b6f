"""Paths in query files: made absolute, kept under the allowed roots, and apart from each other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import QueryFileError, SourceError
from engine.query.values import Table

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATTERN = re.compile(r"[*?\[\]{}]")


@dataclass(frozen=True, slots=True)
class Roots:
    """Below which folders a query that was registered over the network may read, and below which it may write (its
    results and its checkpoint). What lies in `private` is nobody's to read or write, unless a root lies in it, too."""

    read: Sequence[Path]
    write: Sequence[Path]
    private: Path | None = None

    def beside(self, folder: Path) -> Roots:
        """For a query whose own folder this is, which it may both read and write."""
        return replace(self, read=[folder, *self.read], write=[folder, *self.write])


def local_path(table: Table, key: str, default: str | None = None, *, folder: Path) -> Path:
    """A path on this machine, absolute; relative ones start at the query file's folder."""
    given = table.text(key, default, hint="give a path; relative ones start at the query file")
    if _SCHEME.match(given):
        raise table.error(
            f"`{given}` is not a path on this machine", key, "remote paths are not supported yet"
        )
    if _PATTERN.search(given):
        raise table.error(
            f"`{given}` is a pattern",
            key,
            "give the folder, and choose files by the option pathGlobFilter",
        )
    if "\0" in given:
        raise table.error("holds a NUL character", key)
    if given.startswith("~/"):
        given = os.path.expanduser(given)
    return Path(os.path.normpath(folder / given))


def check_source(table: Table, path: Path) -> None:
    """A source's path must be there and readable."""
    where = f"{table.file}: {table.name}.path"
    try:
        there = path.exists()
    except OSError as error:
        raise SourceError(
            f"cannot look at `{path}`: {error.strerror}",
            where=where,
            hint="check the path, and access to the folders above it",
        ) from None
    if not there:
        raise SourceError(
            f"there is no `{path}`",
            where=where,
            hint=f"create it, or correct the path (nearest that exists: {_nearest(path)})",
        )
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise SourceError(
            f"no permission to read `{path}`",
            where=where,
            hint="grant read access to the user that runs the query",
        )


def check_roots(
    file: str,
    paths: Mapping[str, Path],
    roots: Sequence[Path],
    private: Path | None = None,
    hint: str = "",
) -> None:
    """Every path must lie under one of the roots, links and `..` resolved, and neither in `private` nor around it."""
    resolved = [root.resolve() for root in roots]
    apart = private.resolve() if private else None
    for key, path in paths.items():
        real = _real(file, key, path)
        over = [root for root in resolved if real.is_relative_to(root)]
        if apart is not None and (real.is_relative_to(apart) or apart.is_relative_to(real)):
            over = [root for root in over if root.is_relative_to(apart) and root != apart]
        if not over:
            allowed = ", ".join(map(str, resolved)) or "none"
            raise QueryFileError(
                f"`{real}` is outside the allowed folders",
                where=f"{file}: {key}",
                hint=f"allowed are: {allowed}{hint}",
            )


def outside(paths: Mapping[str, Path], roots: Sequence[Path]) -> dict[str, Path]:
    """Those of the paths that lie under none of the roots."""
    resolved = [root.resolve() for root in roots]
    return {
        key: path
        for key, path in paths.items()
        if not any(path.resolve().is_relative_to(root) for root in resolved)
    }


def check_links(file: str, key: str, path: Path, roots: Sequence[Path]) -> None:
    """No link below a source leads out of the roots: Spark would follow it. Links that stay inside are fine."""
    resolved = [root.resolve() for root in roots]
    for link in _links(path):
        real = _real(file, key, link)
        if not any(real.is_relative_to(root) for root in resolved):
            raise QueryFileError(
                f"`{link}` is a link out of the allowed folders",
                where=f"{file}: {key}",
                hint="remove it, or put the file itself there",
            )


def _links(folder: Path) -> Iterator[Path]:
    """Symbolic links in a folder and in the folders below it."""
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except (NotADirectoryError, FileNotFoundError, PermissionError):
            continue  # a single file, or what Spark cannot read either
        yield from (Path(entry.path) for entry in entries if entry.is_symlink())
        pending += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def check_apart(file: str, own: Mapping[str, Path], sources: Mapping[str, Path]) -> None:
    """What we write must not lie in what we read, nor sink and checkpoint in one another."""
    for key, path in own.items():
        others = {**sources, **{k: p for k, p in own.items() if k != key}}
        for other, taken in others.items():
            mine, theirs = _real(file, key, path), _real(file, other, taken)
            if mine.is_relative_to(theirs) or theirs.is_relative_to(mine):
                raise QueryFileError(
                    f"`{path}` overlaps {other} (`{taken}`)",
                    where=f"{file}: {key}",
                    hint="give each a folder of its own",
                )


def _real(file: str, key: str, path: Path) -> Path:
    """The path with links followed."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise QueryFileError(
            f"cannot follow `{path}`: {error}",
            where=f"{file}: {key}",
            hint="look for links in a circle",
        ) from None


def _nearest(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.exists())
