"""Named secrets: each a file that its owner alone may read, in a folder that its owner alone may enter.

They are not in the store, and so in no backup of it. What a name and a value must be, control/handling/secrets.py says.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from control.errors import SecretError
from control.ledger import SECRET_NAME, NamedSecret

FOLDER = "secrets"  # in the data folder
BYTES_MAX = 1 << 16


class SecretFolder:
    """control.ports.Secrets over one folder, which is made when the first secret is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[NamedSecret]:
        """Every secret with the time of its last change."""
        try:
            found = [(path.name, path.stat()) for path in self.folder.iterdir() if _is_name(path)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(error, self.folder) from None
        return sorted(
            (NamedSecret(name, about.st_mtime) for name, about in found if stat.S_ISREG(about.st_mode)),
            key=lambda secret: secret.name,
        )  # fmt: skip

    def value(self, name: str) -> str:
        """The value. A file that others may read is refused, as ssh does."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                raw = file.read(BYTES_MAX + 3)
        except FileNotFoundError:
            hint = (
                f"An admin keeps it: run.py ctl secret set {name}, or the console's Settings page."
            )
            raise SecretError(
                f"there is no secret `{name}`", where=str(self.folder), hint=hint
            ) from None
        except OSError as error:
            raise self._error(error, path) from None
        if mode & 0o077:
            hint = f"Say chmod 600 {path}, and think of another value: it may have been read."
            raise SecretError(f"others may read the secret `{name}`", where=str(path), hint=hint)
        if (text := _text(raw)) is None:
            hint = f"It is UTF-8 text of at most {BYTES_MAX} bytes."
            raise SecretError(f"the secret `{name}` is not one", where=str(path), hint=hint)
        return text

    def values(self) -> list[str]:
        """Every value that can be read at all, so that it can be taken out of what is shown."""
        found = list[str]()
        with suppress(SecretError):
            for secret in self.names():
                with suppress(OSError):
                    text = _text(self._path(secret.name).read_bytes())
                    found += [text] if text else []
        return found

    def put(self, name: str, value: str) -> None:
        """Keep a value, whole or not at all."""
        path = self._path(name)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)
            handle, part = tempfile.mkstemp(prefix=".", dir=self.folder)  # made with mode 0600
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(value.encode())
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, path)
            except BaseException:
                os.unlink(part)
                raise
        except OSError as error:
            raise self._error(error, path) from None

    def drop(self, name: str) -> bool:
        """Forget it; whether it was there."""
        path = self._path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._error(error, path) from None
        return True

    def _path(self, name: str) -> Path:
        if not SECRET_NAME.fullmatch(name):
            raise SecretError(f"`{name}` is not the name of a secret")
        return self.folder / name

    @staticmethod
    def _error(error: OSError, path: Path) -> SecretError:
        what = f"the secret's file cannot be used: {error.strerror}"
        return SecretError(what, where=str(path), hint="Mend the folder's permissions or the disk.")


def _is_name(path: Path) -> bool:
    return SECRET_NAME.fullmatch(path.name) is not None


def _text(raw: bytes) -> str | None:
    """A file's text without the newline that editors leave at its end; None for what is no secret."""
    try:
        text = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        return None
    return text if 0 < len(raw) <= BYTES_MAX + 2 and text and "\0" not in text else None
