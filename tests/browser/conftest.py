"""Chromium, a console on a stage (stage.py) for quick tests, and the real processes for the story."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.app.made import PASSWORD
from tests.browser.stage import Stage

CHROMIUM = os.environ.get("SPILLWAY_CHROMIUM") or shutil.which("chromium") or ""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    # One process for all pages of a console: the next page finds the scripts compiled. Half the CPU of a visit.
    "--process-per-site",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
]


def pytest_configure() -> None:
    """Machines that build have two cores, and others on them: what is waited for comes late, not never."""
    expect.set_options(timeout=60_000)


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


@dataclass(frozen=True)
class Profile:
    """A browser's profile, kept for the tests of one console: a new one reads, and compiles, all scripts anew, which takes
    seconds. Its first page stays open beside each test's own, so that their process stays, too."""

    context: BrowserContext
    first: Page

    @classmethod
    def of(cls, browser: Browser, url: str) -> Profile:
        context = browser.new_context()
        first = context.new_page()
        first.goto(f"{url}/health")
        return cls(context, first)

    def forget(self) -> None:
        """Whoever was here leaves nothing behind."""
        for page in self.context.pages:
            if page is not self.first:
                page.close()
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.first.evaluate("localStorage.clear()")


@pytest.fixture(scope="module")
def profiles(browser: Browser) -> Iterator[list[Profile]]:
    """Those that no test uses at the moment."""
    free: list[Profile] = []
    yield free
    for profile in free:
        profile.context.close()


@pytest.fixture
def visit(browser: Browser, profiles: list[Profile], stage: Stage) -> Iterator[Visit]:
    """Signs somebody in, with nothing left of other visits but the browser's cache, and opens a page:
    `visit("/overview", "olga", width=1280, theme="dark")`."""
    taken: list[Profile] = []

    def open_page(
        path: str = "/overview",
        user: str = "olga",
        width: int = 1440,
        height: int = 900,
        theme: Any = "dark",
    ) -> tuple[Page, Watch]:
        profile = profiles.pop() if profiles else Profile.of(browser, stage.url)
        taken.append(profile)
        page = profile.context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        watch = Watch(page, stage.url)
        sign_in(page, stage.url, path, user, PASSWORD)
        return page, watch

    yield open_page
    for profile in taken:
        profile.forget()
    profiles.extend(taken)


def sign_in(page: Page, url: str, path: str, user: str, password: str) -> None:
    from urllib.parse import quote

    page.goto(f"{url}/sign-in?next={quote(path, safe='/')}")
    page.fill("#user", user)
    page.fill("#password", password)
    page.click("button[type=submit]")
