"""Chromium, a console on a stage (stage.py) for quick tests, and the real processes for the story."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.app.made import PASSWORD
from tests.browser.stage import Stage

CHROMIUM = os.environ.get("SPILLWAY_CHROMIUM") or shutil.which("chromium") or ""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def pytest_configure() -> None:
    """Machines that build have two cores, and others on them: what is waited for comes late, not never."""
    expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies here drives a browser."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    more = {"executable_path": CHROMIUM} if CHROMIUM else {}
    return {**browser_type_launch_args, **more, "args": FLAGS}


class Watch:
    """What a page must not do: errors in the console, requests elsewhere, answers that are errors."""

    def __init__(self, page: Page, url: str) -> None:
        self.url, self.expected = url, ()
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(f"page error: {error}"))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def nothing(self, *but: str) -> None:
        """Nothing went wrong, but for lines with one of these texts in them."""
        wrong = [line for line in self.errors if not any(text in line for text in but)]
        assert not wrong, "\n".join(wrong)
        assert not self.elsewhere, self.elsewhere


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage")).prepare().story().serve()
    yield made
    made.close()


Visit = Callable[..., tuple[Page, Watch]]


@pytest.fixture
def visit(browser: Browser, stage: Stage) -> Iterator[Visit]:
    """Signs somebody in and opens a page: `visit("/overview", "olga", width=1280, theme="dark")`."""
    contexts: list[BrowserContext] = []

    def open_page(
        path: str = "/overview",
        user: str = "olga",
        width: int = 1440,
        height: int = 900,
        theme: Any = "dark",
    ) -> tuple[Page, Watch]:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        contexts.append(context)
        page = context.new_page()
        watch = Watch(page, stage.url)
        sign_in(page, stage.url, path, user, PASSWORD)
        return page, watch

    yield open_page
    for context in contexts:
        context.close()


def sign_in(page: Page, url: str, path: str, user: str, password: str) -> None:
    from urllib.parse import quote

    page.goto(f"{url}/sign-in?next={quote(path, safe='/')}")
    page.fill("#user", user)
    page.fill("#password", password)
    page.click("button[type=submit]")
