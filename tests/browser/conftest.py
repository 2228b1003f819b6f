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


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Iterator[list[BrowserContext]]:
    """Kept for the tests of one console: a page of a new one reads, and compiles, all scripts anew, which takes a second."""
    made: list[BrowserContext] = []
    yield made
    for context in made:
        context.close()


@pytest.fixture
def visit(browser: Browser, contexts: list[BrowserContext], stage: Stage) -> Iterator[Visit]:
    """Signs somebody in, with nothing left of other visits but the browser's cache, and opens a page:
    `visit("/overview", "olga", width=1280, theme="dark")`."""
    taken: list[BrowserContext] = []

    def open_page(
        path: str = "/overview",
        user: str = "olga",
        width: int = 1440,
        height: int = 900,
        theme: Any = "dark",
    ) -> tuple[Page, Watch]:
        context = contexts.pop() if contexts else browser.new_context()
        taken.append(context)
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        watch = Watch(page, stage.url)
        sign_in(page, stage.url, path, user, PASSWORD)
        return page, watch

    yield open_page
    for context in taken:
        _forget(context, stage.url)
    contexts.extend(taken)


def _forget(context: BrowserContext, url: str) -> None:
    """Whoever was here leaves nothing behind."""
    for page in context.pages:
        page.close()
    context.clear_cookies()
    context.clear_permissions()
    page = context.new_page()
    page.goto(f"{url}/health")
    page.evaluate("localStorage.clear()")
    page.close()


def sign_in(page: Page, url: str, path: str, user: str, password: str) -> None:
    from urllib.parse import quote

    page.goto(f"{url}/sign-in?next={quote(path, safe='/')}")
    page.fill("#user", user)
    page.fill("#password", password)
    page.click("button[type=submit]")
