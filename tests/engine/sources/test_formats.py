"""Formats in query files: options and their did-you-mean, columns, guarantees, and secrets unseen."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import run as command_line
from control.redaction import redacted
from engine.errors import QueryFileError
from engine.query.file import read_query
from engine.query.formats import REFUSED, SINKS, SOURCES
from engine.query.model import Field
from engine.query.paths import Roots
from engine.query.secrets import Options

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='hunter2';"
KAFKA = """
format = "kafka"
options = { "kafka.bootstrap.servers" = "broker:9092", subscribe = "orders" }
"""
SINK = 'format = "parquet"\npath = "out"\n'
SQL = "SELECT a.value FROM a JOIN b ON a.value = b.value"


def query(
    folder: Path, a: str, b: str = 'format = "rate"\n', sink: str = SINK, sql: str = SQL
) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    path = folder / "q.toml"
    path.write_text(f'sql = "{sql}"\n[streams.a]\n{a}\n[streams.b]\n{b}\n[sink]\n{sink}')
    return path


def refused(path: Path, message: str, **more: object) -> str:
    with pytest.raises(QueryFileError, match=message) as caught:
        read_query(path, **more)  # type: ignore[arg-type]
    return str(caught.value)


def test_dotted_names_need_no_quotes(tmp_path: Path) -> None:
    plain = KAFKA.replace('"kafka.bootstrap.servers"', "kafka.bootstrap.servers")
    options = read_query(query(tmp_path, plain)).streams["a"].options
    assert options == {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}
    refused(query(tmp_path, plain.replace("servers", "server")), "did you mean `kafka.bootstrap.s")


def test_formats_without_a_path(tmp_path: Path) -> None:
    spec = read_query(query(tmp_path, KAFKA))
    a, b = spec.streams["a"], spec.streams["b"]
    assert (a.path, b.path) == ("", "")
    assert a.fields[:3] == (
        Field("key", "binary"),
        Field("value", "binary"),
        Field("topic", "string"),
    )
    assert b.fields == (Field("timestamp", "timestamp"), Field("value", "bigint"))
    refused(query(tmp_path, KAFKA + 'path = "in"\n'), "streams.a.path: is not for kafka")


def test_messages_have_declared_columns(tmp_path: Path) -> None:
    more = 'value_format = "json"\n'
    declared = more + 'schema = "k long, ts timestamp"\ntime = "ts"\n'
    a = read_query(query(tmp_path, KAFKA + declared)).streams["a"]
    assert (a.value_format, a.fields[0], a.time) == ("json", Field("k", "bigint"), "ts")
    refused(query(tmp_path, KAFKA + more), "schema: is missing\n  value_format = json needs one")
    refused(query(tmp_path, KAFKA + 'value_format = "protobuf"\n'), "allowed are: json, csv")
    files = 'format = "json"\npath = "in"\nschema = "k long"\nvalue_format = "json"\n'
    refused(query(tmp_path, files), "value_format: is not known")


def test_columns_that_a_format_has_not(tmp_path: Path) -> None:
    wrong = 'schema = "value string"\n'
    refused(
        query(tmp_path, KAFKA + wrong), "no column value string\n  it has: key binary.*value_format"
    )
    fewer = read_query(query(tmp_path, KAFKA + 'schema = "timestamp timestamp, value binary"\n'))
    assert [f.name for f in fewer.streams["a"].fields] == ["timestamp", "value"]
    timed = 'format = "socket"\noptions = { host = "h", port = 1, includeTimestamp = true }\ntime = "timestamp"\n'
    assert len(read_query(query(tmp_path, timed)).streams["a"].fields) == 2


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (KAFKA.replace("subscribe", "subscrib"), "did you mean `subscribe`"),
        (KAFKA.replace('subscribe = "orders"', "failOnDataLoss = false"), "needs subscribe or subscribePattern or assign"),
        (KAFKA.replace("subscribe", 'assign = "{}", subscribe'), "has both subscribe and assign"),
        (KAFKA.replace("subscribe", 'endingOffsets = "latest", subscribe'), "query run --once. stops"),
        (KAFKA.replace("subscribe", '"kafka.interceptor.classes" = "x.Y", subscribe'), "would load a class"),
        (KAFKA.replace("subscribe", '"kafka.sasl.jaas.config" = "com.sun.security.auth.module.JndiLoginModule required;", subscribe'),
         "login module that is not allowed"),
        ('format = "socket"\n', "options: needs host"),
        ('format = "socket"\noptions = { host = "x", port = 99999 }\n', "port: must be a port"),
        ('format = "xml"\npath = "in"\nschema = "k long"\n', "needs rowTag"),
        ('format = "orc"\npath = "in"\n', "schema: is missing\n  orc needs one"),
        ('format = "rates"\n', "did you mean `rate`"),
        ('format = "delta"\npath = "in"\n', "format `delta` is not allowed"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, a: str, message: str) -> None:
    refused(query(tmp_path, a), message)


def test_refused_options_are_not_allowed_somewhere_else() -> None:
    for form in (*SOURCES.values(), *SINKS.values()):
        allowed = {name.lower() for name in form.options or ()} - {
            "mergeschema"
        }  # of the delta sink
        assert not allowed & set(REFUSED)


def test_secrets_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_SECRET", "hunter2")
    jaas = JAAS.replace("hunter2", "{env:SPILLWAY_TEST_SECRET}")
    file = query(
        tmp_path, KAFKA.replace("subscribe", f'"kafka.sasl.jaas.config" = "{jaas}", subscribe')
    )
    a = read_query(file).streams["a"]
    assert a.options["kafka.sasl.jaas.config"] == JAAS
    assert "hunter2" not in repr(a) + str(a) + repr(pickle.loads(pickle.dumps(a)))
    refused(file, "may not use {env:…} here", roots=Roots([tmp_path], [tmp_path]))
    monkeypatch.delenv("SPILLWAY_TEST_SECRET")
    refused(file, "the environment variable SPILLWAY_TEST_SECRET is not set")


def test_secrets_in_what_others_say() -> None:
    options = Options({"kafka.sasl.jaas.config": JAAS, "user": "sa", "topic": "t-word"}, ["topic"])
    said = "cannot use hunter2 at jdbc:x://bob:pw@h/db?password=abc&x=1 with t-word; unexpected token: y"
    assert redacted(said, options.known()) == (
        "cannot use *** at jdbc:x://bob:***@h/db?password=***&x=1 with ***; unexpected token: y"
    )
    assert "abc" not in repr(Options({"url": "jdbc:x://h/db?password=abc"}))


def test_with_roots_options_stay_inside(tmp_path: Path) -> None:
    store = '"kafka.ssl.truststore.location" = "certs/trust.jks", subscribe'
    file = query(tmp_path, KAFKA.replace("subscribe", store))
    spec = read_query(file, roots=Roots([tmp_path], [tmp_path]))
    assert (
        spec.streams["a"].options["kafka.ssl.truststore.location"] == f"{tmp_path}/certs/trust.jks"
    )
    refused(query(tmp_path, KAFKA.replace("subscribe", store.replace("certs/", "/etc/"))),
            "truststore.location.*outside the allowed folders|outside the allowed folders", roots=Roots([tmp_path], [tmp_path]))  # fmt: skip
    jdbc = 'format = "jdbc"\noptions = { url = "jdbc:h2:mem", dbtable = "t" }\n'
    refused(
        query(tmp_path, KAFKA, sink=jdbc),
        "its URL can run code",
        roots=Roots([tmp_path], [tmp_path]),
    )


def test_check_says_what_is_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = KAFKA.replace("subscribe", f'"kafka.sasl.jaas.config" = "{JAAS}", subscribe')
    sql = "SELECT a.topic, b.value FROM a JOIN b ON a.topic = b.value"
    socket = 'format = "socket"\noptions = { host = "localhost", port = 9 }\n'
    file = query(tmp_path, secret, socket, 'format = "console"\n', sql)
    assert command_line.main(["query", "check", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "at most once (b is a socket stream), at least once (the sink is console)" in shown
    assert "scan a: kafka orders at broker:9092\n" in shown
    assert "scan b: socket localhost:9\n" in shown
    assert "hunter2" not in shown
    sql = "SELECT a.value FROM a JOIN b ON a.value = b.value"
    assert (
        command_line.main(["query", "check", str(query(tmp_path, 'format = "rate"\n', sql=sql))])
        == 0
    )
    assert ": 2 nodes, exactly once\n" in capsys.readouterr().out


def test_every_format_is_in_the_docs() -> None:
    docs = (Path(command_line.__file__).parent / "docs" / "sources.md").read_text()
    assert not [name for name in (*SOURCES, *SINKS) if f"`{name}`" not in docs]
    needed = {
        name
        for form in (*SOURCES.values(), *SINKS.values())
        for names in form.needs
        for name in names
    }
    assert not [name for name in needed if name not in docs]


@pytest.mark.parametrize(
    "kind", [name for name, form in SINKS.items() if "compression" in (form.options or ())]
)
def test_a_compression_is_one_of_a_list_never_a_class(tmp_path: Path, kind: str) -> None:
    """Of any other name Spark's writers would load a class."""
    row = ', rowTag = "r"' if kind == "xml" else ""

    def sink(compression: str) -> str:
        return (
            f'format = "{kind}"\npath = "out"\noptions = {{ compression = "{compression}"{row} }}\n'
        )

    rate = 'format = "rate"\n'
    for codec in SINKS[kind].compressions:
        found = read_query(query(tmp_path, rate, sink=sink(codec))).sink
        assert found.options["compression"] == codec
    assert len(SINKS[kind].compressions) > 3
    for odd in ("org.apache.hadoop.io.compress.GzipCodec", "java.lang.Runtime", "", "rar"):
        refused(query(tmp_path, rate, sink=sink(odd)), "sink.options.compression: .* is not a known compression\n  allowed are: ")  # fmt: skip


LINK_LOCAL = (
    "169.254.169.254", "169.254.43518", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "fe80::1", "[fe80::1]",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
)  # fmt: skip


@pytest.mark.parametrize("host", LINK_LOCAL)
def test_a_registered_query_names_no_link_local_address(tmp_path: Path, host: str) -> None:
    roots = Roots([tmp_path], [tmp_path])
    lines = f'format = "socket"\noptions = {{ host = "{host}", port = 80 }}\n'
    refused(
        query(tmp_path, lines), "streams.a.options.host: .* is a link-local address", roots=roots
    )
    brokers = KAFKA.replace("broker:9092", f"broker:9092, {host}:80")
    refused(query(tmp_path, brokers), "bootstrap.servers: .* is a link-local address", roots=roots)
    assert read_query(query(tmp_path, lines)).streams["a"].trusted, "whoever starts it may"
    other = read_query(query(tmp_path, lines.replace(host, "10.1.2.3")), roots=roots).streams["a"]
    assert not other.trusted


@pytest.mark.parametrize(
    "more",
    [
        "com.evil.Module required;",
        "/* ' */ com.evil.Module required; /* ' */",
        "// '\\ncom.evil.Module required; // '",
        "' ; com.evil.Module required;",
        "'a\\n'; com.evil.Module required x='\\n';",
    ],
)
def test_every_login_module_of_a_text_is_looked_at(tmp_path: Path, more: str) -> None:
    """Java makes them all, not only the first."""
    options = f'"kafka.sasl.jaas.config" = "{JAAS} {more}", subscribe'
    refused(
        query(tmp_path, KAFKA.replace("subscribe", options)), "login module that is not allowed"
    )
    for fine in (JAAS, JAAS.replace("hunter2", "semi;colon // here"), f"{JAAS} /* ; x */ {JAAS}"):
        options = f'"kafka.sasl.jaas.config" = "{fine}", subscribe'
        assert read_query(query(tmp_path, KAFKA.replace("subscribe", options))).name
