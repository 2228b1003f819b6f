"""Settings: one table of name, default, help and check; file < environment < flag.

What belongs to one query is in its query file. Everything here has an effect in the engine or the console;
`run.py settings` prints the table, and a test holds the README to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from control.errors import TomlError
from control.toml import read_toml_file
from engine.connectors import jars, packages
from engine.errors import SettingError
from engine.query.values import size_bytes

Value = str | int | float
FILE = "spillway.toml"
FILE_VARIABLE = "SPILLWAY_SETTINGS"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `parse` makes a value of a text, or raises ValueError saying why."""

    name: str
    default: str
    help: str
    parse: Callable[[str], Value]

    @property
    def variable(self) -> str:
        return f"SPILLWAY_{self.name.upper()}"


def _directory(text: str) -> str:
    if not text:
        raise ValueError("a folder is needed")
    return str(Path(text).expanduser().absolute())


def _optional_directory(text: str) -> str:
    return _directory(text) if text else ""


def _bytes(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        size = int(text) if text.isdigit() else size_bytes(text)
        if size is None:
            raise ValueError('a size is needed, for example "8MB" or "1GiB"')
        if size < least:
            raise ValueError(f"must be at least {least} bytes")
        return size

    return parse


def _count(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a number from {least} to {most}")
        return int(text)

    return parse


def _ports(text: str) -> str:
    for part in filter(None, text.split(",")):
        _count(1, 65_535)(part.strip())
    return text


def ports_of(text: str) -> frozenset[int]:
    """The ports in a setting that is a list of them."""
    return frozenset(int(part) for part in text.split(",") if part.strip())


def _seconds(text: str) -> float:
    seconds = float(text)  # its ValueError would do, were it in our words
    if not 0 <= seconds < 86_400:
        raise ValueError("must be from 0 to 86400 seconds")
    return seconds


def _jvm_memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[mg]", text):
        raise ValueError('must be like "512m" or "2g"')
    return text


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return text

    return parse


TABLE = (
    Setting("mem_dir", "/dev/shm", "folder on tmpfs that holds state in memory", _directory),
    Setting("driver_memory", "2g", "heap of Spark's driver JVM", _jvm_memory),
    Setting(
        "log_dir", "", "folder of spark.log (empty: logs/ in the checkpoint)", _optional_directory
    ),
    Setting("trigger_seconds", "0", "least time between two ticks", _seconds),
    Setting("segment_bytes_max", "8MiB", "largest piece of a run of state", _bytes(64 << 10)),
    Setting("hold_bytes_max", "512MiB", "rows that may wait before sources do", _bytes(1 << 20)),
    Setting("packages", "", "connectors that Spark fetches: GROUP:ARTIFACT:VERSION, …", packages),
    Setting("jars", "", "connectors as jar files here, for machines without a network", jars),
    Setting(
        "source_roots",
        "",
        "folders that queries registered in the console may read, with : between (empty: inputs in the data folder)",
        str,
    ),
    Setting(
        "sink_roots",
        "",
        "further folders that queries registered in the console may write to, with : between (empty: none but their own)",
        str,
    ),
    Setting("queries_max", "64", "most queries in one engine", _count(1, 1000)),
    Setting("data_dir", "data/spillway", "folder of `run.py up`: store, queries, logs", _directory),
    Setting(
        "secrets_dir",
        "",
        "folder of named secrets (empty: secrets/ in the data folder)",
        _optional_directory,
    ),
    Setting("port", "8050", "port of the console, on this machine only", _count(0, 65_535)),
    Setting(
        "hosts", "", "further names that browsers may call the console by, with , between", str
    ),
    Setting(
        "webhook_ports", "", "ports of this machine that webhooks may go to, with , between", _ports
    ),
    Setting("https", "no", "a proxy in front speaks https: yes or no", _choice("no", "yes")),
    Setting("proxies", "0", "proxies in front whose X-Forwarded headers count", _count(0, 5)),
    Setting("idle_minutes", "60", "a sign-in ends so long after its last use", _count(1, 10_080)),
    Setting("signin_hours", "12", "a sign-in ends so long after it began", _count(1, 720)),
    Setting(
        "token_days", "90", "an API token ends at most so long after it was made", _count(1, 3_650)
    ),
    Setting(
        "progress",
        "auto",
        "terminal progress: auto, block, lines, off",
        _choice("auto", "block", "lines", "off"),
    ),
)
_BY_NAME = {setting.name: setting for setting in TABLE}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, checked."""

    mem_dir: str
    driver_memory: str
    log_dir: str
    trigger_seconds: float
    segment_bytes_max: int
    hold_bytes_max: int
    packages: str
    jars: str
    source_roots: str
    sink_roots: str
    queries_max: int
    data_dir: str
    secrets_dir: str
    port: int
    hosts: str
    webhook_ports: str
    https: str
    proxies: int
    idle_minutes: int
    signin_hours: int
    token_days: int
    progress: str

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, Value] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> Settings:
        """Defaults, then the settings file, then the environment, then `overrides` (flags)."""
        env = os.environ if environment is None else environment
        source = file or (Path(env[FILE_VARIABLE]) if FILE_VARIABLE in env else None)
        texts = {s.name: (s.default, "default") for s in TABLE}
        texts |= _from_file(source)
        texts |= {s.name: (env[s.variable], s.variable) for s in TABLE if s.variable in env}
        texts |= {name: (str(value), f"--set {name}") for name, value in (overrides or {}).items()}
        values: Any = {name: _parse(name, *given) for name, given in texts.items()}
        return cls(**values)


def _from_file(path: Path | None) -> dict[str, tuple[str, str]]:
    """The named settings file, or spillway.toml in the working folder if there is one."""
    if path is None:
        path = Path(FILE)
        if not path.exists():
            return {}
    try:
        table = read_toml_file(path)
    except TomlError as error:
        raise SettingError(
            f"the settings file {error.what}",
            where=str(path),
            hint='It has lines such as  driver_memory = "4g".',
        ) from None
    return {name: (str(value), str(path)) for name, value in table.items()}


def _parse(name: str, text: str, where: str) -> Value:
    setting = _BY_NAME.get(name)
    if setting is None:
        raise SettingError(
            f"unknown setting {name!r}",
            where=where,
            hint=f"Settings are {', '.join(_BY_NAME)}; `run.py settings` explains them.",
        )
    try:
        return setting.parse(text.strip())
    except ValueError as error:
        reason = "a number is needed" if "convert" in str(error) else str(error)
        raise SettingError(
            f"{name} = {text!r}: {reason}", where=where, hint=f"{name}: {setting.help}."
        ) from error


def show(settings: Settings) -> str:
    """The table for people: name, value, default, environment variable, help."""
    rows = [("setting", "value", "default", "environment", "what it is")]
    rows += [
        (
            s.name,
            str(cast("Value", getattr(settings, s.name))) or "-",
            s.default or "-",
            s.variable,
            s.help,
        )
        for s in TABLE
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[4]]) for r in rows
    ]
    return "\n".join(lines)


assert [f.name for f in fields(Settings)] == [s.name for s in TABLE]
