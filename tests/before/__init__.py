"""A data folder, a checkpoint and a backup that version 0.1.0 made before tokens ended and paths were held
to their folders. `unpack` lays them out in a folder of the test's; README.md says what is in them."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ARCHIVE = Path(__file__).with_name("before.tar.gz")
HOME = "/tmp/spillway-before"  # where it was made: paths in it begin like that
PASSWORDS = {"admin": "adminadmin", "vera": "1234567890", "otto": "adminadmin"}


@dataclass(frozen=True, slots=True)
class Before:
    """What was unpacked, and where."""

    top: Path

    @property
    def data(self) -> Path:
        """A folder of `run.py up`, stopped: users, tokens, three queries, a rule, a webhook."""
        return self.top / "data"

    @property
    def root(self) -> Path:
        """The folder that was the setting `source_roots`."""
        return self.top / "mine"

    @property
    def query(self) -> Path:
        """A query file of the command line; its checkpoint and its results lie beside it."""
        return self.root / "run" / "paid.toml"

    @property
    def backup(self) -> Path:
        """From before the token `revoked-after` was revoked and the user `gone` was disabled."""
        return self.top / "backup.db"

    @property
    def tokens(self) -> dict[str, str]:
        """By name: `endless`, `endless-admin`, `revoked-after`, `month` (30 days)."""
        return dict(json.loads((self.top / "tokens.json").read_text()))


def unpack(top: Path) -> Before:
    """Everything, with its paths those below `top`."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(top, filter="data")
    for path in top.rglob("*"):
        if path.is_file() and path.suffix in ("", ".json", ".toml"):
            content = path.read_bytes()
            if HOME.encode() in content:
                stat = path.stat()
                path.write_bytes(content.replace(HOME.encode(), str(top).encode()))
                path.chmod(stat.st_mode)
    for ledger in (top / "data" / "ledger.db", top / "backup.db" / "ledger.db"):
        with closing(sqlite3.connect(ledger)) as db:
            db.execute("UPDATE queries SET text = replace(text, ?, ?)", (HOME, str(top)))
            db.commit()
    return Before(top)
