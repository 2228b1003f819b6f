"""Named secrets in their folder: modes, names that are paths, damage, and what a backup has of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from control.errors import SecretError
from db.maintenance import backup
from db.open import open_store
from db.secrets import FOLDER, SecretFolder


def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    folder = SecretFolder(tmp_path / FOLDER)
    assert folder.names() == []
    before = os.umask(0)
    try:
        folder.put("db", "hunter2")
        folder.put("db", "two words\nand a line")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.folder.iterdir()] == [0o600]
    assert [one.name for one in folder.names()] == ["db"]
    assert folder.value("db") == "two words\nand a line"
    assert folder.drop("db")
    assert not folder.drop("db")
    with pytest.raises(SecretError, match=r"there is no secret `db`\n.*ctl secret set db"):
        folder.value("db")


@pytest.mark.parametrize(
    "name", ["../ledger.db", "a/b", "", ".", "..", ".hidden", "a\0b", "x" * 65]
)
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    folder = SecretFolder(tmp_path / FOLDER)
    (tmp_path / "ledger.db").write_text("secret")
    for act in (folder.value, folder.drop, lambda name: folder.put(name, "hunter2")):
        with pytest.raises(SecretError, match="is not the name of a secret"):
            act(name)
    assert (tmp_path / "ledger.db").read_text() == "secret"


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    folder = SecretFolder(tmp_path)
    (tmp_path / "mine").write_text("hunter2\n")
    with pytest.raises(SecretError, match=r"others may read the secret `mine`\n.*chmod 600"):
        folder.value("mine") if os.chmod(tmp_path / "mine", 0o640) is None else None
    os.chmod(tmp_path / "mine", 0o400)
    assert folder.value("mine") == "hunter2"
    for raw in (b"", b"\n", b"\xff\xfe", b"a\0b", b"x" * 70_000):
        os.chmod(tmp_path / "mine", 0o600)
        (tmp_path / "mine").write_bytes(raw)
        with pytest.raises(SecretError, match="the secret `mine` is not one"):
            folder.value("mine")
    assert folder.values() == []


def test_a_backup_has_none(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = open_store(data, create=True)
    SecretFolder(data / FOLDER).put("db", "hunter2-hunter2")
    backup(data, tmp_path / "backup", metrics=False)
    store.close()
    for path in (*(tmp_path / "backup").rglob("*"), *data.glob("*.db*")):
        assert b"hunter2-hunter2" not in path.read_bytes()
