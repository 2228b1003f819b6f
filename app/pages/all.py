"""Every page there is, in the navigation's order: each module of this package that has a PAGE."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import app.pages
from app.errors import RegistryError
from app.pages.page import Page

LETTERS_TAKEN = "a page's letter is taken"


@cache
def modules() -> tuple[ModuleType, ...]:
    found = [import_module(f"app.pages.{info.name}") for info in iter_modules(app.pages.__path__)]
    with_page = sorted(
        (m for m in found if isinstance(getattr(m, "PAGE", None), Page)), key=lambda m: m.PAGE.order
    )
    letters = [m.PAGE.key for m in with_page if m.PAGE.key]
    if len(letters) != len(set(letters)):
        raise RegistryError(f"{LETTERS_TAKEN}: {' '.join(letters)}")
    return tuple(with_page)


def pages() -> tuple[Page, ...]:
    return tuple(module.PAGE for module in modules())
