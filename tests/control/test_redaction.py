"""Whatever a secret looks like, and however a program writes it, it is not in what is left."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from control import redaction
from control.redaction import redacted, redacted_file, redacted_json

ALPHABET = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
SECRETS = st.text(ALPHABET, min_size=4, max_size=40).filter(lambda text: text.strip() == text)
MANY_LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=4, max_size=80
)
OTHER = "0123456789abcdef"


def jaas(secret: str) -> str:
    inner = secret.replace("\\", "\\\\").replace('"', '\\"')
    return f'x.PlainLoginModule required username="me" password="{inner}";'


# How programs write a secret that nobody has told us of: something says that it is one.
UNKNOWN: dict[str, Callable[[str], str]] = {
    "json": lambda secret: json.dumps({"user": "me", "password": secret, "x": 1}),
    "json in json": lambda secret: json.dumps({"log": json.dumps({"kafka.ssl.key.password": secret})}),
    "json in json in json": lambda s: json.dumps(json.dumps({"log": json.dumps({"token": s})})),
    "toml": lambda secret: f'user = "me"\n"kafka.ssl.key.password" = {json.dumps(secret)}\nx = 1\n',
    "toml, inline": lambda secret: f'options = {{ password = {json.dumps(secret)}, user = "me" }}',
    "python": lambda secret: "Options(" + repr({"password": secret, "user": "me"}) + ")",
    "jaas": jaas,
    "jaas in toml": lambda secret: f'"kafka.sasl.jaas.config" = {json.dumps(jaas(secret))}',
    "jaas in a log": lambda secret: f"cannot sign in with {json.dumps(jaas(secret))} at broker:9092",
    "url": lambda secret: f"see //me:{secret}@host:9092/db for more",
    "url, quoted": lambda secret: f"amqps://me:{quote(secret, safe='')}@host/?x=1",
    "yaml": lambda secret: f"user: me\npassword: {secret}\nx: 1",
    "sql": lambda secret: "SET PASSWORD = '" + secret.replace("'", "''") + "' FOR me",
    "a map of Scala's": lambda secret: f"Map(user -> me, password -> {secret})",
}  # fmt: skip


@pytest.mark.parametrize("shape", UNKNOWN)
@settings(max_examples=50)
@given(secret=SECRETS)
@example(secret="two words")
@example(secret='"}; \\')
@example(secret="a\\")
@example(secret="p@ss/w:rd@x")
@example(secret='it\'s "it"')
def test_a_secret_that_nobody_told_of_is_not_left(shape: str, secret: str) -> None:
    write = UNKNOWN[shape]
    assume(secret not in redacted(write(OTHER)))
    left = redacted(write(secret))
    assert secret not in left
    assert json.dumps(secret)[1:-1] not in left
    assert OTHER not in redacted(write(OTHER))


@given(
    secret=SECRETS.filter(
        lambda text: not set(text) & set(" ;&\t\xa0\u3000") and text[0] not in "\"'\\{"
    )
)
def test_a_secret_in_a_url_or_a_connection_string(secret: str) -> None:
    assume(not any(character.isspace() for character in secret))
    for write in (
        "jdbc:x://h/db?pwd={}&x=1",
        "Server=h;Pwd={};x=1",
        "PGPASSWORD={} run",
        "--token {} run",
    ):
        assume(secret not in write)
        assert secret not in redacted(write.format(secret))


KNOWN: dict[str, Callable[[str], str]] = {
    "bare": str,
    "json": json.dumps,
    "json in json": lambda secret: json.dumps(json.dumps([secret])),
    "python": repr,
    "jaas": jaas,
    "jaas in json": lambda secret: json.dumps(jaas(secret)),
    "url": lambda secret: f"http://h/{quote(secret)}?q={quote(secret, safe='')}",
}


@pytest.mark.parametrize("shape", KNOWN)
@settings(max_examples=50)
@given(secret=MANY_LINES)
def test_a_known_secret_is_nowhere_left(shape: str, secret: str) -> None:
    assume(len(secret.strip()) >= redaction.KNOWN_LENGTH_MIN and secret not in "***")
    frame = f"it said {OTHER} and {{}} and that was all"
    assume(secret not in frame)
    assert secret not in redacted(frame.replace("{}", KNOWN[shape](secret)), [secret])


def toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


FILE = """# connects as me, password = {comment}
name = "q"
sql = '''SELECT a.token FROM a WHERE a.token = 5'''
[streams.a]
format = "kafka"
[streams.a.options]
"kafka.bootstrap.servers" = "broker:9092"
"kafka.ssl.key.password" = {value}
"kafka.ssl.truststore.password" = {number}
kafka.sasl.jaas.config = {jaas}
[sink]
format = "jdbc"
options = {{ url = {url}, user = "sa" }}
"""


@given(secret=SECRETS, number=st.integers(10_000, 2**63 - 1), upper=st.booleans())
def test_a_query_file_keeps_everything_but_its_secrets(
    secret: str, number: int, upper: bool
) -> None:
    written = toml(secret)
    if upper:  # as TOML may write any character
        written = '"' + "".join(f"\\U{ord(character):08x}" for character in secret) + '"'

    def filled(value: str, its: str, count: int) -> str:
        return FILE.format(
            comment=toml(value), value=its, number=count, jaas=toml(jaas(value)),
            url=toml(f"jdbc:x://me:{value}@h/db"),
        )  # fmt: skip

    assume(secret not in redacted_file(filled(OTHER, f'"{OTHER}"', 123_456_789_012)))
    assume(secret not in redaction.MASK)
    text = filled(secret, written, number)
    left = redacted_file(text)
    assert secret not in left and written not in left
    table = tomllib.loads(left)
    assert table["sql"] == "SELECT a.token FROM a WHERE a.token = 5"
    assert table["streams"]["a"]["options"]["kafka.ssl.truststore.password"] == "***"
    assert table["streams"]["a"]["options"]["kafka.bootstrap.servers"] == "broker:9092"
    assert set(redaction.places_in_file(text)) == {
        "streams.a.options.kafka.ssl.key.password",
        "streams.a.options.kafka.ssl.truststore.password",
        "streams.a.options.kafka.sasl.jaas.config",
        "sink.options.url",
    }


def test_what_is_no_secret_stays() -> None:
    for text in (
        "unexpected token: y",
        "password={secret:db} is a reference",
        'a = { "kafka.ssl.key.password" = "{secret:db}" }',
        "see http://127.0.0.1:8050/queries and http://h:80",
        "the key of the join is a.k = b.k",
    ):
        assert redacted(text) == text
    file = '[sink.options]\npassword = "{secret:db}" # as agreed\nx = 1\n'
    assert redacted_file(file) == file
    assert redaction.references(file) == {"db"}
    assert redaction.secrets_in_file(file) == redaction.places_in_file(file) == []


def test_json_by_names_and_by_values() -> None:
    found = redacted_json(
        {"password": 12_345, "x": ["//me:pw@h", "all good"], "secret": "{secret:a}", "tokens": None},
    )  # fmt: skip
    assert found == {
        "password": "***",
        "x": ["//me:***@h", "all good"],
        "secret": "{secret:a}",
        "tokens": None,
    }


def test_text_without_structure_does_no_harm() -> None:
    deep = ".".join("a" * 5_000) + " = 1"
    for text in (deep, "x = [" * 3_000, "[" * 100_000, 'password = "' * 20_000, "//a:" * 20_000):
        assert isinstance(redacted_file(text), str)
