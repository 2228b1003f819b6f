"""Named NumPy arrays as bytes and back: bytes of the same weight together, then zstd. With a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from control.errors import StoreError

Arrays = dict[str, npt.NDArray[Any]]
_START = struct.Struct("<II")  # checksum of the rest, length of the head


def to_blob(arrays: Mapping[str, npt.NDArray[Any]], **head: Any) -> bytes:
    pieces = [_squeezed(array) for array in arrays.values()]
    about = [
        [name, array.dtype.str, list(array.shape), len(piece)]
        for (name, array), piece in zip(arrays.items(), pieces, strict=True)
    ]
    text = json.dumps({**head, "arrays": about}, separators=(",", ":")).encode()
    rest = b"".join((text, *pieces))
    return _START.pack(zlib.crc32(rest), len(text)) + rest


def from_blob(body: bytes) -> tuple[dict[str, Any], Arrays]:
    """The head, and the arrays."""
    whole = memoryview(body)
    try:
        checksum, length = _START.unpack_from(whole)
        if zlib.crc32(whole[_START.size :]) != checksum:
            raise ValueError("its checksum is wrong")
        at = _START.size + length
        head = json.loads(bytes(whole[_START.size : at]))
        arrays: Arrays = {}
        for name, kind, shape, size in head.pop("arrays"):
            arrays[name] = _spread(whole[at : at + size], np.dtype(kind), tuple(shape))
            at += size
        return head, arrays
    except (struct.error, ValueError, KeyError, pa.ArrowException) as error:
        raise StoreError(f"a damaged blob: {error}", again=False) from error


def _squeezed(array: npt.NDArray[Any]) -> bytes:
    if not array.size:
        return b""
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return bytes(pa.compress(np.ascontiguousarray(flat.T), "zstd", asbytes=True))


def _spread(piece: memoryview, kind: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, kind)
    data = pa.decompress(pa.py_buffer(piece), count * kind.itemsize, "zstd", asbytes=False)
    flat = np.frombuffer(data, np.uint8).reshape(kind.itemsize, count)
    return np.ascontiguousarray(flat.T).view(kind).reshape(shape)
