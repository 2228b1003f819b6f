"""axe on the console's pages: nothing serious. Charts have a label, figures are text.

In one theme: the other differs in the values of tokens alone, whose contrast is checked in tests/app/test_contrast.py. The long
tests look at it, too."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from app.pages.all import pages
from tests.browser.accessible import SERIOUS
from tests.browser.conftest import Visit


@pytest.mark.parametrize("theme", ["dark", pytest.param("light", marks=pytest.mark.long)])
@pytest.mark.parametrize("path", [page.href for page in pages()])
def test_axe_finds_nothing_serious(visit: Visit, path: str, theme: str) -> None:
    page, _ = visit(path, user="ada", theme=theme)
    page.wait_for_selector("#content > *")
    expect(page.locator("#live")).to_contain_text("Live")
    page.wait_for_load_state("networkidle")  # what is polled is there, between two polls
    found = Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {one['help']}: {node['html'][:400]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"][:4]
    ]
    assert not serious, "\n".join(serious)
