"""Lines from a TCP socket as a PySpark Data Source: at most once, and honest about it.

A socket cannot be asked again. Lines that had come but were not committed when the query stopped, and
those sent while nobody listened, are lost; committed ones are never taken twice. (Spark's own socket
source, started again on its checkpoint, drops as many lines as the last run had read.) An offset is
{"lines"}: how many were taken. Here: connecting, buffering, offsets. Not here: what a line means.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from engine.errors import SourceError
from engine.query.addresses import is_link_local, resolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FORMAT = "spillway_socket"
CONFINED = "confined"  # the option of a stream that may not go to link-local addresses
LINES_MAX = 200_000  # waiting here; more wait in the network, and then at the sender
BYTES_MAX = 32 << 20
LINE_BYTES_MAX = 1 << 20
LINES_PER_TICK = 100_000
CONNECT_S = 10.0
RECONNECT_S = 10.0

Offset = dict[str, Any]
Line = tuple[str, int]  # and when it came, in microseconds


def register(spark: SparkSession) -> None:
    """Make `spillway_socket` a format of this session."""
    spark.dataSource.register(SocketSource)


@dataclass(frozen=True)
class Lines(InputPartition):
    """The lines of one read task."""

    lines: tuple[Line, ...]
    timed: bool


class SocketSource(DataSource):
    """`format("spillway_socket")`; options host, port, includeTimestamp, confined."""

    @classmethod
    def name(cls) -> str:
        return SPARK_FORMAT

    def schema(self) -> str:
        return "value string" + (", timestamp timestamp" if self._timed else "")

    def streamReader(self, schema: StructType) -> SocketReader:
        confined = self.options.get(CONFINED, "false") == "true"
        return SocketReader(self.options["host"], int(self.options["port"]), self._timed, confined)

    @property
    def _timed(self) -> bool:
        return self.options.get("includeTimestamp", "false").lower() == "true"


class SocketReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls: offsets count the lines of a `Listener`."""

    def __init__(self, host: str, port: int, timed: bool, confined: bool = False) -> None:
        self._listener = Listener(host, port, confined=confined)
        self._timed = timed
        self._base: int | None = None  # how many lines were taken before the first that waits here

    def initialOffset(self) -> Offset:
        return {"lines": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(LINES_PER_TICK)

    def prepareForTriggerAvailableNow(self) -> None:
        _fail(
            "a socket has no end to stop at, so it cannot be read with --once",
            self._listener.address,
            "leave --once out, and stop with Ctrl-C",
        )

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        if self._base is None:
            self._base = start["lines"]
        self._listener.check()
        there = self._base + len(self._listener.lines)
        if isinstance(limit, ReadAllAvailable):
            return {"lines": there}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else LINES_PER_TICK
        return {"lines": max(start["lines"], min(there, start["lines"] + most))}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = start["lines"], end["lines"]
        if self._base is None:  # planned by an earlier run, whose lines went with it
            print(f"socket {self._listener.address}: {last - first} lines lost", file=sys.stderr)
            self._base = last
        found = self._listener.peek(first - self._base, last - self._base)
        return [Lines(found, self._timed)]

    def commit(self, end: Offset) -> None:
        if self._base is not None and end["lines"] > self._base:
            self._listener.drop(end["lines"] - self._base)
            self._base = end["lines"]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Lines)
        columns = {"value": pa.array([text for text, _ in partition.lines], pa.string())}
        if partition.timed:
            times = pa.array([time_us for _, time_us in partition.lines], pa.int64())
            columns["timestamp"] = times.cast(pa.timestamp("us", tz="UTC"))
        if partition.lines:
            yield pa.RecordBatch.from_pydict(columns)

    def stop(self) -> None:
        self._listener.close()

    def __reduce__(self) -> tuple[object, ...]:
        # Tasks get a copy of the reader for `read`; the connection stays here.
        listener = self._listener
        return (SocketReader, (listener.host, listener.port, self._timed, listener.confined))


class Listener:
    """A connection that a thread reads line by line into a bounded buffer, once `check` is called."""

    def __init__(self, host: str, port: int, *, confined: bool = False) -> None:
        self.host, self.port, self.confined = host, port, confined
        self.lines: deque[Line] = deque()
        self._bytes = 0
        self._room = threading.Condition()
        self._open: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._wrong: tuple[str, str] | None = None  # what, and the hint
        self._ended_at = 0.0  # since when the other end is gone

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def check(self) -> None:
        """See that the connection is there; SourceError when it cannot be had (again)."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._wrong is not None and not self.lines:
            _fail(self._wrong[0], self.address, self._wrong[1])
        if self._wrong is not None:
            return
        again = self._thread is not None
        try:
            self._open = socket.create_connection((self._place(), self.port), timeout=CONNECT_S)
        except OSError as error:
            if again and (self.lines or time.monotonic() - self._ended_at < RECONNECT_S):
                return
            reason = error.strerror or str(error)
            if again:
                reason = f"the other end closed the connection, and since: {reason}"
            hint = "start what serves the lines there, then start the query"
            _fail(f"no connection to the socket: {reason}", self.address, hint)
        self._open.settimeout(None)
        self._thread = threading.Thread(target=self._listen, args=(self._open,), daemon=True)
        self._thread.start()

    def _place(self) -> str:
        """Where to connect to: for a confined stream the very address that was looked at, as a name may mean another one
        a moment later."""
        if not self.confined:
            return self.host
        found = resolved(self.host)
        if any(is_link_local(str(address)) for address in found):
            hint = "name another host; the command line's queries may go there"
            _fail("the socket's host has a link-local address", self.address, hint)
        return str(found[0]) if found else self.host

    def peek(self, start: int, stop: int) -> tuple[Line, ...]:
        """Lines that wait, by their place in the buffer."""
        with self._room:
            return tuple(self.lines[i] for i in range(max(0, start), min(stop, len(self.lines))))

    def drop(self, count: int) -> None:
        """Forget the first lines."""
        with self._room:
            for _ in range(min(count, len(self.lines))):
                self._bytes -= len(self.lines.popleft()[0])
            self._room.notify_all()

    def close(self) -> None:
        """End the thread and the connection."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        if self._open is not None:
            with contextlib.suppress(OSError):
                self._open.shutdown(socket.SHUT_RDWR)
            self._open.close()

    def _listen(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as file:
                while line := file.readline(LINE_BYTES_MAX + 1):
                    if not self._take(line):
                        return
        except OSError:
            pass  # as when it is closed: the next check connects anew
        finally:
            self._ended_at = time.monotonic()

    def _take(self, line: bytes) -> bool:
        """Put a line into the buffer, waiting for room; False when there is nothing more to do."""
        if len(line) > LINE_BYTES_MAX:
            self._wrong = (
                f"a line is longer than {LINE_BYTES_MAX} bytes",
                "send lines, each ended by a newline",
            )
            return False
        try:
            text = line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError:
            self._wrong = ("a line is not UTF-8 text", "send UTF-8")
            return False
        with self._room:
            while not self._closed and (len(self.lines) >= LINES_MAX or self._bytes >= BYTES_MAX):
                self._room.wait()
            self.lines.append((text, time.time_ns() // 1000))
            self._bytes += len(text)
        return not self._closed


def _fail(what: str, address: str, hint: str) -> NoReturn:
    """Errors reach the driver as text, through the JVM."""
    raise RuntimeError(SourceError(what, where=f"socket {address}", hint=hint).encode())
