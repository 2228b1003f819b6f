"""`run.py diagnose`: one archive for a bug report. Secrets are left out: no hashes, tokens, webhooks or results."""

from __future__ import annotations

import io
import json
import platform
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from app.api.shapes import plain
from app.redacted import seen_by
from control.errors import StoreError
from control.people import Role
from control.ports import Store
from control.redaction import redacted, redacted_json, secrets_in_file

LOG_BYTES = 400_000
ROWS = 200


def bundle(
    store: Store | None,
    data: Path,
    settings: Mapping[str, Any],
    target: Path,
    *,
    secrets: Sequence[str] = (),
) -> list[str]:
    """Write the archive; the names of what is in it. `secrets`: the values of named ones, which are left out
    as are those that stand in query files, and whatever looks like a secret."""
    known = [*secrets, *_in_query_files(store, data)]
    parts: dict[str, str] = {
        "machine.json": _json(_machine(), known),
        "settings.json": _json(settings, known),
        "files.json": _json(_files(data), known),
    }
    if store is not None:
        for name, read in _READ.items():
            try:
                parts[f"store/{name}.json"] = _json(read(store), known)
            except StoreError as error:
                parts[f"store/{name}.txt"] = redacted(str(error), known)
    for log in sorted((data / "logs").glob("*.log")):
        parts[f"logs/{log.name}"] = redacted(_tail(log), known)
    with tarfile.open(target, "w:gz") as archive:
        for name, text in parts.items():
            body = text.encode()
            about = tarfile.TarInfo(f"spillway-diagnose/{name}")
            about.size = len(body)
            archive.addfile(about, io.BytesIO(body))
    return sorted(parts)


def _in_query_files(store: Store | None, data: Path) -> list[str]:
    """The passwords that stand in query files, as registered and as the engine has them."""
    texts = [path.read_text(errors="replace") for path in (data / "queries").glob("*/*.toml")]
    if store is not None:
        with suppress(StoreError):
            texts += [row.text for row in store.queries.all()]
    return [secret for text in texts for secret in secrets_in_file(text)]


_READ: Mapping[str, Callable[[Store], Any]] = {
    "heartbeats": lambda store: store.metrics.heartbeats(),
    "queries": lambda store: [seen_by(row, Role.VIEWER) for row in store.queries.all()],
    "rules": lambda store: store.rules.all(),
    "evaluations": lambda store: store.rules.evaluations(most=ROWS),
    "actions": lambda store: store.actions.page(most=ROWS),
    "commands": lambda store: store.commands.page(most=ROWS),
    "alerts": lambda store: store.alerts.page(most=ROWS),
}


def _machine() -> dict[str, Any]:
    return {
        "python": sys.version,
        "system": platform.platform(),
        "packages": {d.metadata["Name"]: d.version for d in distributions()},
    }


def _files(data: Path) -> dict[str, int]:
    """Sizes of what is in the data folder, two levels deep."""
    return {
        str(path.relative_to(data)): path.stat().st_size
        for pattern in ("*", "*/*")
        for path in sorted(data.glob(pattern))
        if path.is_file()
    }


def _tail(path: Path) -> str:
    """The end of a log, from the beginning of a line: half a secret would not be known as one."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        text = file.read().decode(errors="replace")
    return text if size <= LOG_BYTES else text.partition("\n")[2]


def _json(value: Any, known: Sequence[str]) -> str:
    return json.dumps(redacted_json(plain(value), known), indent=1) + "\n"
