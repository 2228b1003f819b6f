"""Pictures of a page in both themes and three widths, for looking at: `python -m tests.browser.shots out [path]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.app.made import PASSWORD
from tests.browser.conftest import CHROMIUM, FLAGS, sign_in
from tests.browser.stage import Stage

SIZES = ((1280, 800), (1920, 1080), (390, 844))


def main(out: Path, path: str = "/overview", nodes: str = "6", groups: str = "240") -> None:
    out.mkdir(parents=True, exist_ok=True)
    stage = Stage(Path(tempfile.mkdtemp()), int(nodes), int(groups)).prepare().story().serve()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM or None, args=FLAGS)
        for theme in ("dark", "light"):
            for width, height in SIZES:
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=theme,  # type: ignore[arg-type]
                )
                page = context.new_page()
                sign_in(page, stage.url, path, "olga", PASSWORD)
                page.wait_for_selector("#content > *")
                for _ in range(2):
                    stage.tick()
                    page.wait_for_timeout(2_500)
                name = f"{path.strip('/').split('?')[0]}-{theme}-{width}.png"
                page.screenshot(path=str(out / name), full_page=width < 1000)
                context.close()
        browser.close()
    stage.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
