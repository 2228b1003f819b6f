"""The house rules of style as tests: who imports whom, how long functions are, what must not be in the tree."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 70

# What each layer must not know about. run.py is the only place where they meet.
BANNED = {
    "control": {"dash", "pyspark", "sqlalchemy", "flask"},
    "app": {"pyspark", "sqlalchemy"},
    "engine": {"dash", "sqlalchemy", "flask"},
    "db": {"dash", "pyspark", "flask"},
}

# Put together from pieces, so that this file does not hold what it looks for.
MACHINE_PATH = re.compile(r"(?<![\w.])/(" + "|".join(("work", "farm", "root", r"home/\w+")) + ")/")
REGISTRY_HOST = re.compile(
    r"(?i)\b("
    + "|".join(
        host + r"\." + domain
        for host, domain in (
            ("pypi", "org"),
            ("files", "pythonhosted"),
            ("registry", "npmjs"),
            ("deb", "debian"),
        )
    )
    + ")"
)
LEFTOVER = re.compile(r"\b(" + "|".join(("FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".cfg", ".json", ".lock", ".svg", ""}


@functools.cache
def tracked() -> tuple[str, ...]:
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(f"git ls-files failed in {ROOT}: {done.stderr.strip()}")
    return tuple(name for name in done.stdout.splitlines() if (ROOT / name).is_file())


def texts() -> list[str]:
    return [name for name in tracked() if Path(name).suffix in TEXT]


def modules() -> list[str]:
    return [name for name in tracked() if name.endswith(".py")]


def production() -> list[str]:
    return [name for name in modules() if not name.startswith("tests/")]


@functools.cache
def source(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(source(name), filename=name)


def imported(name: str) -> list[tuple[int, str]]:
    """Every imported package, wherever in the file: (line, top-level name)."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.lineno, (node.module or "").split(".")[0]))
    return found


def functions(name: str) -> list[tuple[str, int, int]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree(name))
        if isinstance(node, kinds)
    ]


def nothing(departures: list[str]) -> None:
    assert not departures, "\n".join(departures)


def test_layers_import_only_what_they_may() -> None:
    nothing(
        [
            f"{name}:{line} imports {package}, not in {layer}/"
            for name in production()
            if (layer := name.split("/")[0]) in BANNED
            for line, package in imported(name)
            if package in BANNED[layer]
        ]
    )


def test_nothing_but_tests_imports_tests() -> None:
    nothing(
        [
            f"{name}:{line} imports tests"
            for name in production()
            for line, package in imported(name)
            if package == "tests"
        ]
    )


def test_one_function_reads_toml_for_everybody() -> None:
    found = {name for name in production() for _, package in imported(name) if package == "tomllib"}
    assert found == {"control/toml.py"}


def test_no_pandas_on_the_data_path() -> None:
    nothing(
        [
            f"{name}:{line} imports pandas: operators are pure over Arrow"
            for name in production()
            for line, package in imported(name)
            if package == "pandas"
        ]
    )


def test_functions_are_small() -> None:
    nothing(
        [
            f"{name}:{line} {function}: {lines} lines (over {FUNCTION_LINES_MAX})"
            for name in modules()
            for function, line, lines in functions(name)
            if lines > FUNCTION_LINES_MAX
        ]
    )


def test_modules_say_what_lives_in_them() -> None:
    nothing(
        [
            f"{name}: no docstring saying what lives here"
            for name in modules()
            if source(name).strip() and not ast.get_docstring(tree(name))
        ]
    )


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (MACHINE_PATH, "an absolute path of a machine"),
        (REGISTRY_HOST, "names a package registry host"),
        (LEFTOVER, "a leftover"),
    ],
    ids=["machine-path", "registry-host", "leftover"],
)
def test_tree_is_free_of(pattern: re.Pattern[str], what: str) -> None:
    departures = []
    for name in texts():
        for number, line in enumerate(source(name).splitlines(), 1):
            if match := pattern.search(line):
                departures.append(f"{name}:{number}: {what}: {match.group()}")
    nothing(departures)


def test_house_patterns_catch_what_they_should() -> None:
    assert MACHINE_PATH.search("see /" + "work/main")
    assert not MACHINE_PATH.search("state/" + "work/main")
    assert REGISTRY_HOST.search("https://py" + "pi.org/simple")
    assert LEFTOVER.search("# " + "FIX" + "ME later")


def test_every_make_target_is_in_make_help() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", source("Makefile"), re.M)
    assert phony
    targets = set(re.findall(r"^([a-z-]+):", source("Makefile"), re.M))
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    documented = set(re.findall(r"^  make ([a-z-]+) +\S", printed.stdout, re.M))
    assert documented == targets == set(phony.group(1).split())


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_lock_pins_every_package_with_hashes(lock: str) -> None:
    blocks = re.split(r"^(?=[a-z0-9])", source(lock), flags=re.M)[1:]
    nothing(
        [
            f"{lock}: {block.splitlines()[0]} is not pinned with hashes"
            for block in blocks
            if not re.match(r"[a-z0-9._-]+==\S+ \\\n +--hash=sha256:", block)
        ]
    )
    pinned = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", source(lock), re.M))
    project = tomllib.loads(source("pyproject.toml"))["project"]
    wanted = list(project["dependencies"])
    if lock == "requirements-dev.lock":
        wanted += project["optional-dependencies"]["dev"]
    names = {re.split(r"[^a-z0-9._-]", need)[0] for need in wanted}
    assert names <= set(pinned)


def test_both_locks_agree() -> None:
    read = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.M)
    runtime = dict(read.findall(source("requirements.lock")))
    assert runtime.items() <= dict(read.findall(source("requirements-dev.lock"))).items()


def test_helpers_of_tests_are_no_tests() -> None:
    """What several tests need is in a module of its own: importing it collects and imports nothing else."""
    wrong = []
    for name in modules():
        if name.startswith("tests/"):
            for node in ast.walk(ast.parse((ROOT / name).read_text())):
                found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found += (
                    [a.name for a in node.names]
                    if isinstance(node, ast.Import | ast.ImportFrom)
                    else []
                )
                if any(part.startswith("test_") for one in found for part in one.split(".")):
                    wrong.append(f"{name}:{node.lineno}")
    assert not wrong, wrong


def test_what_runs_is_in_its_lock() -> None:
    """Every package that production code imports is a dependency, not only one of the developers'."""
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", source("requirements.lock"), re.M))
    owners = packages_distributions()
    own = {"app", "control", "db", "engine", "run"}
    missing = {
        (name, package)
        for name in production()
        for _, package in imported(name)
        if package not in own and package not in sys.stdlib_module_names
        if not {canonical(one) for one in owners.get(package, [])} & pinned
    }
    assert not missing


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
