"""A flat directory of Parquet results, readable at any moment with a plain glob.

Tasks stage hidden files; after the commit the driver publishes them by rename; a restart rolls
the last commit forward. Small files are merged in compact.py. What is in a result, and when a
tick commits, is not known here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence, Set
from pathlib import Path

from engine.errors import SinkError
from engine.sinks import compact, ledger
from engine.sinks.staged import StagedFile, failure


class ParquetDirectory:
    """The protocol of one directory: prepare, publish, sweep, compact; every call is idempotent."""

    def __init__(
        self,
        path: Path | str,
        *,
        small_files: int = compact.SMALL_FILES,
        umask: int | None = None,
    ) -> None:
        self.path, self.umask = Path(path), umask
        self._small_files = small_files
        self._unseen = small_files  # small files published since we last looked for them

    def prepare(self) -> None:
        """Make the directory and try that it can be written."""
        try:
            self._make()
            probe = self.path / f".probe-{os.getpid()}.tmp"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise failure(error, self.path) from error

    def _make(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        if self.umask is not None:
            for path in missing:
                path.chmod(0o777 & ~self.umask)

    def publish(self, files: Sequence[StagedFile]) -> None:
        """Rename staged files into view. Repeating it is harmless; a lost file is an error."""
        done: int | None = None
        for file in files:
            if self._rename(file):
                continue
            done = ledger.read(self.path).published if done is None else done
            if file.version > done:
                raise SinkError(
                    f"result file vanished: neither {file.tmp} nor {file.final} is there",
                    where=str(self.path),
                    hint="Put it back from a copy; without it, rows of the last commit are lost: "
                    "start again with a new checkpoint and an empty sink.",
                )
        if files:
            ledger.mark(self.path, max(file.version for file in files))
            self._unseen += sum(file.bytes < compact.SMALL_BYTES for file in files)

    def recover(
        self, commits: Sequence[tuple[int, Sequence[StagedFile]]], withheld: Set[str] = frozenset()
    ) -> None:
        """Roll compaction and the last commits forward, then clear what no commit names."""
        compact.recover(self.path)
        for _, files in commits:
            self.publish(files)
        self.sweep(withheld)

    def sweep(self, keep: Set[str]) -> int:
        """Delete staged files that are not in `keep`; call it while no task runs."""
        stale = [entry for entry in self.path.glob(".part-*.tmp") if entry.name not in keep]
        for entry in stale:
            entry.unlink(missing_ok=True)
        return len(stale)

    def maybe_compact(self) -> int:
        """Merge one run of small published files, if there are many; how many were replaced."""
        if self._unseen < self._small_files:
            return 0
        replaced = compact.maybe_compact(self.path, small_files=self._small_files)
        self._unseen = self._small_files if replaced else 0
        return replaced

    def _rename(self, file: StagedFile) -> bool:
        """Whether the file is in view now; False when it is nowhere."""
        tmp, final = self.path / file.tmp, self.path / file.final
        try:
            if final.exists() and tmp.exists():
                raise SinkError(
                    f"{file.final} is there already, with other results",
                    where=str(self.path),
                    hint="Another query writes here: give each its own sink path.",
                )
            show(tmp, self.umask)
            os.rename(tmp, final)
        except FileNotFoundError:
            return final.exists()
        except OSError as error:
            raise failure(error, final) from error
        return True


def show(path: Path, umask: int | None) -> None:
    """Give a result file the permissions that it is to have in view. Whoever reads results may be another user than who
    runs the engine; a task on another host may even have written it as another one, and then it stays as it is."""
    if umask is not None:
        with contextlib.suppress(PermissionError):
            path.chmod(0o666 & ~umask)
