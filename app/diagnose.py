"""`run.py diagnose`: one archive for a bug report. Secrets are left out: no hashes, tokens, webhooks or results."""

from __future__ import annotations

import dataclasses
import io
import json
import platform
import re
import sys
import tarfile
from collections.abc import Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from control.errors import StoreError
from control.ports import Store

LOG_BYTES = 400_000
ROWS = 200
SECRET = re.compile(r"(?i)(password|token|secret|key)(\W{1,3})\S+")


def bundle(store: Store | None, data: Path, settings: Mapping[str, Any], target: Path) -> list[str]:
    """Write the archive; the names of what is in it."""
    parts: dict[str, str] = {
        "machine.json": _json(_machine()),
        "settings.json": _json(settings),
        "files.json": _json(_files(data)),
    }
    if store is not None:
        for name, read in _READ.items():
            try:
                parts[f"store/{name}.json"] = _json(read(store))
            except StoreError as error:
                parts[f"store/{name}.txt"] = str(error)
    for log in sorted((data / "logs").glob("*.log")):
        parts[f"logs/{log.name}"] = SECRET.sub(r"\1\2(left out)", _tail(log))
    with tarfile.open(target, "w:gz") as archive:
        for name, text in parts.items():
            body = text.encode()
            about = tarfile.TarInfo(f"spillway-diagnose/{name}")
            about.size = len(body)
            archive.addfile(about, io.BytesIO(body))
    return sorted(parts)


_READ: Mapping[str, Callable[[Store], Any]] = {
    "heartbeats": lambda store: store.metrics.heartbeats(),
    "queries": lambda store: store.queries.all(),
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
    with path.open("rb") as file:
        file.seek(0, io.SEEK_END)
        file.seek(max(0, file.tell() - LOG_BYTES))
        return file.read().decode(errors="replace")


def _json(value: Any) -> str:
    def plain(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return dataclasses.asdict(item)
        return str(item)

    return SECRET.sub(r"\1\2(left out)", json.dumps(value, default=plain, indent=1)) + "\n"
