"""Writes assets/icons.css from assets/icons/*.svg: one request instead of one for each icon, coloured by the text."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import quote

ASSETS = Path(__file__).resolve().parent.parent / "assets"
HEAD = "/* Made by tools/icons.py from icons/*.svg (Lucide, ISC: icons/LICENSE-lucide.txt). One mask for each icon. */\n"


def css(folder: Path) -> str:
    lines = [
        f'.ico-{path.stem} {{ --i: url("data:image/svg+xml,{_packed(path.read_text())}"); }}'
        for path in sorted(folder.glob("*.svg"))
    ]
    return HEAD + "\n".join(lines) + "\n"


def _packed(svg: str) -> str:
    """Without comment, class and white space; a mask needs no particular colour."""
    plain = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    plain = re.sub(r'\sclass="[^"]*"', "", plain).replace("currentColor", "#000")
    plain = re.sub(r"\s+", " ", plain).replace("> <", "><").replace('"', "'").strip()
    return quote(plain, safe=" =:/'")


if __name__ == "__main__":
    (ASSETS / "icons.css").write_text(css(ASSETS / "icons"))
    sys.exit(0)
