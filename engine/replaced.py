"""A small text file replaced as a whole: whoever reads it finds the old text or the new one, never a part of either."""

from __future__ import annotations

import os
from pathlib import Path


def replaced(path: Path, text: str) -> None:
    """Write the text beside the file, then put it in its place."""
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(text)
    os.replace(part, path)
