"""Scripts, styles and fonts: compressed once at the start, named by their content, kept by browsers for good.

What is asked for without its content's name is revalidated instead. Answers that are made anew are compressed
when that is worth it.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Response, request

PACKED = frozenset({".js", ".css", ".svg", ".json", ".map", ".html"})
FOR_GOOD = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
ANSWER_BYTES_MIN = 4_096  # of answers made anew; below, packing costs more than it saves
LEVEL, ANSWER_LEVEL = 6, 1
_BY_CONTENT = re.compile(
    r"\.v[\w-]+m[0-9a-fA-F]+\."
)  # Dash's own mark: version and time of the file


@dataclass(frozen=True, slots=True)
class File:
    """One file as it goes out."""

    body: bytes
    packed: bool
    kind: str
    tag: str

    def plain(self) -> bytes:
        return gzip.decompress(self.body) if self.packed else self.body


class Packed:
    """Files by their path in the URL. One for each app."""

    def __init__(self, assets: Path) -> None:
        self._assets = assets
        self._files: dict[str, File] = {}
        self._lock = threading.Lock()

    def url(self, name: str) -> str:
        """An asset's address with the mark of its content."""
        digest = hashlib.sha256((self._assets / name).read_bytes()).hexdigest()[:10]
        return f"/assets/{name}?v={digest}"

    def find(self, path: str) -> File | None:
        return self._files.get(path)

    def put(self, path: str, body: bytes) -> File:
        suffix = Path(path).suffix
        kind = mimetypes.types_map.get(suffix, "application/octet-stream")
        if kind.startswith("text/") and "charset" not in kind:
            kind += "; charset=utf-8"
        tag = hashlib.sha256(body).hexdigest()[:20]
        packed = suffix in PACKED
        file = File(gzip.compress(body, LEVEL, mtime=0) if packed else body, packed, kind, tag)
        with self._lock:
            self._files[path] = file
        return file

    def assets(self) -> Iterable[str]:
        """Everything that is served from the assets folder."""
        return (
            str(path.relative_to(self._assets))
            for path in sorted(self._assets.rglob("*"))
            if path.suffix in (".js", ".css", ".woff2", ".svg")
        )


def install(app: Flask, files: Packed, endpoints: frozenset[str]) -> None:
    """Answers requests for files out of `files`; the first request for each fills it."""

    def before() -> Response | None:
        if request.endpoint not in endpoints or request.method not in ("GET", "HEAD"):
            return None
        file = files.find(request.path)
        return _sent(file) if file is not None else None

    def after(response: Response) -> Response:
        if request.endpoint in endpoints:
            if response.status_code == 200 and files.find(request.path) is None:
                response.direct_passthrough = False
                file = files.put(request.path, response.get_data())
                return _like(response, _sent(file))
            return response
        return _smaller(response)

    app.before_request_funcs[None].insert(1, before)
    app.after_request(after)


def _sent(file: File) -> Response:
    if request.if_none_match.contains(file.tag):
        answer = Response(None, 304)
    elif file.packed and request.accept_encodings.quality("gzip") > 0:
        answer = Response(file.body, content_type=file.kind)
        answer.headers["Content-Encoding"] = "gzip"
    else:
        answer = Response(file.plain(), content_type=file.kind)
    by_content = request.args.get("v") or _BY_CONTENT.search(request.path)
    answer.headers["Cache-Control"] = FOR_GOOD if by_content else ASK_AGAIN
    answer.headers["Vary"] = "Accept-Encoding"
    answer.set_etag(file.tag)
    return answer


def _like(response: Response, answer: Response) -> Response:
    """Headers that were set already stay."""
    for name, value in response.headers:
        if name.lower() not in ("content-length", "content-type", "etag", "cache-control",
                                "last-modified", "date", "content-disposition"):  # fmt: skip
            answer.headers.setdefault(name, value)
    return answer


def _smaller(response: Response) -> Response:
    if (
        response.direct_passthrough
        or response.status_code != 200
        or not request.accept_encodings.quality("gzip")
        or "Content-Encoding" in response.headers
        or (response.content_length or 0) < ANSWER_BYTES_MIN
    ):
        return response
    response.set_data(gzip.compress(response.get_data(), ANSWER_LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    response.headers.add("Vary", "Accept-Encoding")
    return response
