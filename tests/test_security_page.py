"""docs/security.md names what holds each chapter: every test that it names exists, and every chapter names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CHAPTERS = {f"V{number}" for number in range(1, 15)}


def test_every_test_that_the_page_names_exists() -> None:
    missing = [f"{file}::{name}" for file, name in NAMED.findall(PAGE) if name not in _tests(file)]
    assert not missing, "\n".join(missing)


def test_every_chapter_has_a_row_with_a_test() -> None:
    rows = re.findall(r"^\| (V\d+) [^|]*\|[^|]*\|([^|]*)\|$", PAGE, re.M)
    assert {chapter for chapter, tests in rows if NAMED.search(tests)} == CHAPTERS


def _tests(file: str) -> set[str]:
    path = ROOT / file
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
