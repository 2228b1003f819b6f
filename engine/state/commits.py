"""The commit log: one atomic file for every manifest version, and now and then a snapshot of it all.

A version exists once its file is in place; nothing before that counts. Each file begins with the
checksum of what follows. Only the driver that holds the checkpoint's lock writes here.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from engine.errors import CheckpointError
from engine.state import ranges
from engine.state.files import write_error
from engine.state.model import (
    FORMAT_VERSION,
    Change,
    Hold,
    Manifest,
    Place,
    Run,
    Runs,
    pack_runs,
    unpack_runs,
)
from engine.state.ranges import Ranges
from engine.state.replan import Replan, Withheld

SNAPSHOT_EVERY = 32
RESULTS, WITHHELD = (
    "results",
    "withheld",
)  # files for the sink: to be published now, or once one plan runs alone
_DAMAGED = "Restore the checkpoint from a copy, or start with a new one."


@dataclass(frozen=True, slots=True)
class Commit:
    """What one version changed, and what it must still do: publish the staged result files."""

    version: int
    tick: int
    changes: Mapping[Place, Change]
    holds: tuple[Hold, ...]
    staged: Mapping[str, list[Any]]  # sink name -> staged files
    stats: Mapping[str, Any] = field(default_factory=dict)
    placement: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # where it changed
    nodes: int = 0
    # Before the changes: runs of which nothing is left but these groups.
    expired: Mapping[Place, Mapping[str, Ranges]] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)
    fronts: Mapping[str, int] = field(
        default_factory=dict
    )  # where operators wait for the watermark
    disk: Mapping[Place, Runs] = field(
        default_factory=dict
    )  # all that is spilled, where it changed
    actions: tuple[str, ...] = ()  # adaptations that this version carries out
    plan: Replan | None = None  # from this version on, where it changed

    def pack(self) -> dict[str, Any]:
        changes = {str(p): [c.kept, [r.pack() for r in c.added]] for p, c in self.changes.items()}
        holds = [hold.pack() for hold in self.holds]
        return {
            "version": self.version,
            "tick": self.tick,
            "changes": changes,
            "holds": holds,
            "staged": dict(self.staged),
            "stats": dict(self.stats),
            "placement": {operator: list(owner) for operator, owner in self.placement.items()},
            "nodes": self.nodes,
            "seen": dict(self.seen),
            "fronts": dict(self.fronts),
            "expired": {str(place): dict(kept) for place, kept in self.expired.items()},
            "disk": pack_runs(self.disk),
            "actions": list(self.actions),
            "plan": self.plan.pack() if self.plan is not None else None,
        }

    @staticmethod
    def unpack(raw: dict[str, Any]) -> Commit:
        changes = {
            Place.parse(p): Change(kept, tuple(Run.unpack(r) for r in added))
            for p, (kept, added) in raw["changes"].items()
        }
        holds = tuple(Hold.unpack(h) for h in raw["holds"])
        placement = {operator: tuple(owner) for operator, owner in raw["placement"].items()}
        return Commit(
            raw["version"],
            raw["tick"],
            changes,
            holds,
            raw["staged"],
            raw["stats"],
            placement,
            raw["nodes"],
            {
                Place.parse(p): {id_: ranges.unpack(r) or () for id_, r in kept.items()}
                for p, kept in raw["expired"].items()
            },
            raw["seen"],
            raw.get("fronts", {}),
            unpack_runs(raw["disk"]),
            tuple(raw["actions"]),
            Replan.unpack(raw.get("plan")),
        )

    def apply(self, manifest: Manifest) -> Manifest:
        after = manifest.without(self.expired).after(
            tick=self.tick,
            changes=self.changes,
            holds=self.holds,
            placement=self.placement,
            nodes=self.nodes,
            seen=self.seen,
            fronts=self.fronts,
            disk=self.disk,
        )
        if self.plan is not None:
            return planned(after, self.plan)
        if files := self.staged.get(WITHHELD):
            assert after.plan is not None
            more = (Withheld(tmp, rows, size) for tmp, _, rows, size in files)
            return replace(after, plan=after.plan.withholding(more))
        return after


def planned(manifest: Manifest, plan: Replan) -> Manifest:
    """The same version under another plan: what its operators do not have is gone."""
    stay = plan.names
    return replace(
        manifest,
        runs={p: runs for p, runs in manifest.runs.items() if p.operator in stay and runs},
        disk={place: runs for place, runs in manifest.disk.items() if place.operator in stay},
        holds=tuple(hold for hold in manifest.holds if hold.operator in stay),
        placement={op: owner for op, owner in manifest.placement.items() if op in stay},
        fronts={op: until for op, until in manifest.fronts.items() if op in stay},
        plan=plan,
    )


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the log holds: the manifest, the statistics to go on from, and the last commit."""

    manifest: Manifest
    stats: Any
    tail: tuple[Commit, ...]  # commits since the snapshot, oldest first


class CommitLog:
    """The files `meta.json`, `snapshot-N.json` and `commit-N.json` of one checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, description: Mapping[str, str]) -> dict[str, str] | None:
        """Claim the folder for a query; None when new, else the description it was made with."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_error(str(self.folder), error) from error
        path = self.folder / "meta.json"
        if not path.exists():
            if self._files():  # whose they are is not known
                raise CheckpointError(
                    "meta.json is missing, commits are there", where=str(self.folder), hint=_DAMAGED
                )
            _write(path, {"format": FORMAT_VERSION, "query": dict(description)})
            return None
        meta = _read(path)
        if meta.get("format") != FORMAT_VERSION:
            what = (
                f"checkpoint has format {meta.get('format')}, this version reads {FORMAT_VERSION}"
            )
            raise CheckpointError(
                what,
                where=str(path),
                hint="Use the version that wrote it, or start a new checkpoint.",
            )
        return dict(meta["query"])

    def append(self, commit: Commit) -> None:
        """Make a version durable. Returning means that it happened."""
        _write(self.folder / f"commit-{commit.version:010d}.json", commit.pack())

    def snapshot(self, manifest: Manifest, stats: Any) -> None:
        """Replace all that came before by one file."""
        version = manifest.version
        _write(
            self.folder / f"snapshot-{version:010d}.json",
            {"manifest": manifest.pack(), "stats": stats},
        )
        for _, number, path in self._files():
            if number < version:
                path.unlink()

    def recover(self) -> Recovered:
        """The state after the last commit."""
        files = sorted(self._files())
        snapshots = [(n, p) for kind, n, p in files if kind == "snapshot"]
        manifest, stats = Manifest(), None
        if snapshots:
            raw = _read(snapshots[-1][1])
            manifest, stats = Manifest.unpack(raw["manifest"]), raw["stats"]
        tail = []
        for kind, number, path in files:
            if kind != "commit" or number < manifest.version:
                continue
            commit = Commit.unpack(_read(path))
            tail.append(commit)
            if number == manifest.version:
                continue  # already in the snapshot; kept for what it has to publish
            if number != manifest.version + 1:
                what = f"commit {manifest.version + 1} is missing, {number} is there"
                raise CheckpointError(what, where=str(self.folder), hint=_DAMAGED)
            manifest = commit.apply(manifest)
        return Recovered(manifest, stats, tuple(tail))

    def _files(self) -> list[tuple[str, int, Path]]:
        found = []
        for path in self.folder.glob("*-*.json"):
            kind, _, number = path.stem.partition("-")
            if kind in ("commit", "snapshot") and number.isdigit():
                found.append((kind, int(number), path))
        return found


def _write(path: Path, body: Any) -> None:
    text = json.dumps(body, separators=(",", ":")).encode()
    part = path.with_name(f".{path.name}.tmp")
    try:
        with open(part, "wb") as file:
            file.write(xxhash.xxh3_64_hexdigest(text).encode() + b"\n" + text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise write_error(str(path), error) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        head, _, text = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise CheckpointError(
            f"cannot be read ({error.strerror})", where=str(path), hint=_DAMAGED
        ) from error
    if xxhash.xxh3_64_hexdigest(text).encode() != head:
        raise CheckpointError("does not match its checksum", where=str(path), hint=_DAMAGED)
    body: dict[str, Any] = json.loads(text)
    return body
