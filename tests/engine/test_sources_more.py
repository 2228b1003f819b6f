"""Every source format through whole queries and Spark itself: rows once, and errors that help."""

from __future__ import annotations

import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import SparkSession

from engine.connectors import conf, coordinate, jars, packages
from engine.errors import SourceError, decode
from engine.query.file import read_query
from engine.query.model import Field, StreamSpec
from engine.query.secrets import Options
from engine.runner import QueryRun
from engine.settings import Settings
from engine.sources.files import from_messages, open_stream
from engine.sources.socket_stream import Lines, SocketReader

ROOT = Path(__file__).resolve().parents[2]
B = 'format = "parquet"\npath = "b"\nschema = "k long, v string"\n'


def write_query(
    folder: Path, a: str, sql: str, sink: str = 'format = "parquet"\npath = "out"'
) -> Path:
    (folder / "a").mkdir(exist_ok=True)
    (folder / "b").mkdir(exist_ok=True)
    duckdb.sql("SELECT range AS k, 'b' || range AS v FROM range(100)").write_parquet(
        f"{folder}/b/1.parquet"
    )
    file = folder / "q.toml"
    file.write_text(
        f'sql = "{sql}"\ngroups = 8\ncheckpoint = "cp"\n[streams.a]\n{a}\n[streams.b]\n{B}\n[sink]\n{sink}\n'
    )
    return file


def run_once(file: Path) -> None:
    QueryRun(read_query(file), Settings.load({}), (), once=True).run(None)


def results(folder: Path) -> list[tuple[object, ...]]:
    files = list((folder / "out").glob("*.parquet"))
    return sorted(duckdb.sql(f"SELECT * FROM '{folder}/out/*.parquet'").fetchall()) if files else []


def orc_file(path: Path, start: int, stop: int) -> None:
    rows = pa.table({"k": list(range(start, stop)), "v": [f"a{i}" for i in range(start, stop)]})
    orc.write_table(rows, path)


def text_file(line: str) -> Callable[[Path, int, int], None]:
    def write(path: Path, start: int, stop: int) -> None:
        path.write_text("".join(line.format(i) + "\n" for i in range(start, stop)))

    return write


def xml_file(path: Path, start: int, stop: int) -> None:
    rows = "".join(f"<r><k>{i}</k><v>a{i}</v></r>" for i in range(start, stop))
    path.write_text(f"<all>{rows}</all>")


FORMATS = {
    "orc": (orc_file, "", "k"),
    "json": (text_file('{{"k": {0}, "v": "a{0}"}}'), "", "k"),
    "csv": (text_file("{0},a{0}"), "", "k"),
    "xml": (xml_file, 'options = { rowTag = "r" }', "k"),
    "text": (text_file("{0}"), None, "cast(a.value as bigint)"),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_file_formats_arrive_once_over_a_restart(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    write, more, key = FORMATS[kind]
    schema = "" if more is None else f'schema = "k long, v string"\n{more}\n'
    value = "a.value" if more is None else "a.v"
    key = key if more is None else "a.k"
    sql = f"SELECT b.k, {value} AS v FROM a JOIN b ON {key} = b.k"
    file = write_query(tmp_path, f'format = "{kind}"\npath = "a"\n{schema}', sql)
    prefix = "" if more is None else "a"
    for start in (0, 40):
        write(tmp_path / "a" / f"{start}.{kind}", start, start + 40)
        run_once(file)
        assert results(tmp_path) == [(i, f"{prefix}{i}") for i in range(start + 40)]


def test_rates_rows_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    a = 'format = "rate-micro-batch"\noptions = { rowsPerBatch = 20 }\n'
    file = write_query(tmp_path, a, "SELECT b.k, b.v FROM a JOIN b ON a.value = b.k")
    for ticks in (1, 2):
        run_once(file)
        assert results(tmp_path) == sorted((i, f"b{i}") for i in range(20 * ticks))


# -- sockets -----------------------------------------------------------------------------------------


class Server:
    """Sends what it is given to whoever is connected."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._clients: list[socket.socket] = []
        self._come = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._clients.append(client)
            self._come.release()

    def send(self, *lines: str, timeout_s: float = 60) -> None:
        """To the newest client, waiting for the first."""
        if not self._clients:
            assert self._come.acquire(timeout=timeout_s)
        self._clients[-1].sendall("".join(f"{line}\n" for line in lines).encode())

    def hang_up(self) -> None:
        while self._clients:
            client = self._clients.pop()
            with suppress(OSError):  # the reader may have gone first
                client.shutdown(socket.SHUT_RDWR)
            client.close()
        while self._come.acquire(blocking=False):
            pass

    def close(self) -> None:
        self.hang_up()
        self._listening.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def until(there: Callable[[], object], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not there():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


@contextmanager
def reading(port: int) -> Iterator[SocketReader]:
    reader = SocketReader("127.0.0.1", port, False)
    yield reader
    reader.stop()


def lines(reader: SocketReader, start: int, end: int) -> list[str]:
    (part,) = reader.partitions({"lines": start}, {"lines": end})
    assert isinstance(part, Lines)
    return [text for text, _ in part.lines]


def test_a_reader_counts_lines_and_forgets_committed_ones(server: Server) -> None:
    with reading(server.port) as reader:
        limit, start = reader.getDefaultReadLimit(), {"lines": 7}  # an earlier run took seven
        assert reader.latestOffset(start, limit) == start
        server.send("x", "y", "z")
        until(lambda: reader.latestOffset(start, limit) == {"lines": 10})
        assert lines(reader, 7, 9) == ["x", "y"]
        assert lines(reader, 7, 9) == ["x", "y"], "a task may be tried again"
        reader.commit({"lines": 9})
        assert lines(reader, 9, 10) == ["z"]
        assert lines(reader, 7, 9) == []


def test_lines_of_a_batch_planned_before_are_lost_and_not_others(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with reading(server.port) as reader:
        assert lines(reader, 3, 5) == []
        assert "2 lines lost" in capsys.readouterr().err
        limit, start = reader.getDefaultReadLimit(), {"lines": 5}
        reader.latestOffset(start, limit)
        server.send("new")
        until(lambda: reader.latestOffset(start, limit) == {"lines": 6})
        assert lines(reader, 5, 6) == ["new"]


def test_a_reader_connects_again(server: Server) -> None:
    with reading(server.port) as reader:
        limit, start = reader.getDefaultReadLimit(), {"lines": 0}
        reader.latestOffset(start, limit)
        server.send("one")
        until(lambda: reader.latestOffset(start, limit) == {"lines": 1})
        server.hang_up()

        def again() -> bool:
            reader.latestOffset(start, limit)
            return bool(server._clients)

        until(again)
        server.send("two")
        until(lambda: reader.latestOffset(start, limit) == {"lines": 2})


@pytest.mark.parametrize(
    ("sent", "what"), [(b"\xff\n", "not UTF-8"), (b"x" * (1 << 21), "longer than")]
)
def test_lines_that_are_none(server: Server, sent: bytes, what: str) -> None:
    with reading(server.port) as reader:
        limit, start = reader.getDefaultReadLimit(), {"lines": 0}
        reader.latestOffset(start, limit)
        until(lambda: server._clients)
        threading.Thread(target=lambda: server._clients[-1].sendall(sent), daemon=True).start()
        with pytest.raises(RuntimeError) as caught:
            until(lambda: reader.latestOffset(start, limit) is None, timeout_s=10)
        error = decode(str(caught.value))
        assert isinstance(error, SourceError)
        assert what in error.what


@pytest.mark.parametrize("once", [True, False])
def test_a_socket_that_cannot_be_read(spark: SparkSession, tmp_path: Path, once: bool) -> None:
    a = 'format = "socket"\noptions = { host = "127.0.0.1", port = 1 }\n'
    file = write_query(tmp_path, a, "SELECT b.k FROM a JOIN b ON cast(a.value as bigint) = b.k")
    message = (
        "no end to stop at.*--once"
        if once
        else "127.0.0.1:1: no connection to the socket: Connection refused"
    )
    with pytest.raises(SourceError, match=message):
        QueryRun(read_query(file), Settings.load({}), (), once=once).run(None)


def test_a_socket_goes_on_after_a_stop(spark: SparkSession, tmp_path: Path, server: Server) -> None:
    a = f'format = "socket"\noptions = {{ host = "127.0.0.1", port = {server.port} }}\nvalue_format = "json"\nschema = "k long, w string"\n'
    file = write_query(tmp_path, a, "SELECT b.k, a.w FROM a JOIN b ON a.k = b.k")
    for first in (0, 10):
        run = QueryRun(read_query(file), Settings.load({}), (), once=False)
        thread = threading.Thread(target=run.serve, args=(spark.newSession,))
        thread.start()
        try:
            server.send(*(json.dumps({"k": k, "w": f"w{k}"}) for k in range(first, first + 10)))
            until(lambda want=first + 10: len(results(tmp_path)) == want)
        finally:
            run.stop()
            thread.join(120)
            server.hang_up()
        assert not thread.is_alive()
    assert results(tmp_path) == [(k, f"w{k}") for k in range(20)]


# -- Kafka, Avro: as far as it goes without their connectors -------------------------------------------


def stream(kind: str, **more: str) -> StreamSpec:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"} if kind == "kafka" else {}
    return StreamSpec(
        "a",
        kind,
        "" if kind == "kafka" else os.curdir,
        (Field("k", "bigint"),),
        options=options,
        **more,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["kafka", "avro"])
def test_a_missing_connector_says_how_to_give_it(spark: SparkSession, kind: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_stream(spark, stream(kind))
    assert str(caught.value).startswith(f"stream a: Spark has no {kind}: the connector")
    assert f"--set packages={coordinate(kind)}" in caught.value.hint
    assert "--set jars=" in caught.value.hint


def test_connectors_are_settings(tmp_path: Path) -> None:
    jar = tmp_path / "x.jar"
    jar.touch()
    assert packages("g:a_2.13:1.0, g:b:2") == "g:a_2.13:1.0,g:b:2"
    assert conf("", jars(str(jar))) == {"spark.jars": str(jar)}
    with pytest.raises(ValueError, match="GROUP:ARTIFACT:VERSION"):
        packages("kafka")
    with pytest.raises(ValueError, match=r"there is no /no\.jar"):
        jars("/no.jar")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '{"k": 1, "t": "2020-01-01T00:00:00Z", "more": 2}'),
        ("csv", "1,2020-01-01T00:00:00Z"),
    ],
)
def test_messages_become_columns(spark: SparkSession, kind: str, text: str) -> None:
    spec = StreamSpec(
        "a", "kafka", "", (Field("k", "bigint"), Field("t", "timestamp")), value_format=kind
    )
    frame = spark.createDataFrame([(text.encode(),), (None,)], "value binary")
    assert [tuple(map(str, row)) for row in from_messages(frame, spec).collect()] == [
        ("1", "2020-01-01 00:00:00"), ("None", "None")]  # fmt: skip
    broken = spark.createDataFrame(
        [(b'{"k": "one"}' if kind == "json" else b"one,x",)], "value binary"
    )
    with pytest.raises(Exception, match="MALFORMED"):
        from_messages(broken, spec).collect()


def test_a_name_that_means_a_link_local_address_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a name means is looked at when it is used; and what was looked at is what is used."""
    means = {"metadata.example": "169.254.169.254", "fine.example": "127.0.0.1"}
    asked: list[str] = []
    real = socket.getaddrinfo

    def answer(host: str, *more: object, **how: object) -> object:
        asked.append(host)
        return real(means.get(host, host), *more, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    tried: list[object] = []

    def connect(place: object, **_: object) -> None:
        tried.append(place)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    for host, said in (("metadata.example", "link-local"), ("fine.example", "Connection refused")):
        reader = SocketReader(host, 80, timed=False, confined=True)
        with pytest.raises(Exception) as caught:
            pickle.loads(pickle.dumps(reader)).latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())  # fmt: skip
        error = decode(str(caught.value))
        assert error is not None
        assert said in error.what
    assert tried == [("127.0.0.1", 80)]
    assert asked.count("fine.example") == 1


def test_what_spark_says_of_options_has_no_secrets(spark: SparkSession) -> None:
    options = Options({"rowsPerSecond": "hunter2"}, ["rowsPerSecond"])
    spec = StreamSpec("a", "rate", "", (Field("value", "bigint"),), options=options)
    with pytest.raises(SourceError) as caught:
        open_stream(spark, spec)
    assert "hunter2" not in str(caught.value)
    assert "***" in str(caught.value)
