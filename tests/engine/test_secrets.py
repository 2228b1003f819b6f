"""Named secrets on their way to Spark: where they are put in, and where they never are."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import run as command_line
from db.secrets import SecretFolder
from engine.errors import QueryFileError, SinkError, SpillwayError
from engine.explain import explain
from engine.query.file import read_query
from engine.query.secrets import Options
from engine.runner import QueryRun
from engine.settings import Settings
from engine.spark_log import hide
from tests.engine.sinks_handover_shared import write_query

VALUE = 'pass "word" \\ with; everything=1'
URL_PART = "hunter2hunter2"
KAFKA = """
sql = "SELECT a.topic, b.topic AS other FROM a JOIN b ON a.topic = b.topic"
[streams.a]
format = "kafka"
[streams.a.options]
kafka.bootstrap.servers = "h:1"
subscribe = "a"
{option}
[streams.b]
format = "kafka"
options = {{ kafka.bootstrap.servers = "h:1", subscribe = "b" }}
[sink]
format = "parquet"
path = "out"
"""


@pytest.fixture
def secrets(tmp_path: Path) -> SecretFolder:
    kept = SecretFolder(tmp_path / "secrets")
    kept.put("db", VALUE)
    kept.put("url", URL_PART)
    return kept


def kafka(folder: Path, option: str) -> Path:
    path = folder / "q.toml"
    path.write_text(KAFKA.format(option=option))
    return path


def options_of(folder: Path, option: str, secrets: SecretFolder) -> Options:
    found = read_query(kafka(folder, option), secrets=secrets).streams["a"].options
    assert isinstance(found, Options)
    return found


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username='me' "


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("password={secret:db};", r"""password="pass \"word\" \\ with; everything=1";"""),
        ('password="{secret:db}";', r"""password="pass \"word\" \\ with; everything=1";"""),
        ("password='x{secret:db}';", r"""password='xpass \"word\" \\ with; everything=1';"""),
    ],
)
def test_in_a_jaas_text_a_value_stays_one_value(
    tmp_path: Path, secrets: SecretFolder, written: str, meant: str
) -> None:
    """Else a password with a quote in it could name another login module."""
    options = options_of(
        tmp_path, f"kafka.sasl.jaas.config = {json.dumps(PLAIN + written)}", secrets
    )
    assert options.revealed()["kafka.sasl.jaas.config"] == PLAIN + meant
    assert VALUE not in repr(options) + repr(dict(options))
    assert VALUE.encode() not in pickle.dumps(options)
    assert "pass " not in str(explain(ValueError(f"no: {VALUE}"), tmp_path, [options]))


def test_a_whole_jaas_text_may_be_a_secret_of_an_allowed_module(
    tmp_path: Path, secrets: SecretFolder
) -> None:
    option = 'kafka.sasl.jaas.config = "{secret:jaas}"'
    secrets.put("jaas", f"{PLAIN} password='hunter2';")
    options = options_of(tmp_path, option, secrets)
    assert options.revealed()["kafka.sasl.jaas.config"].endswith("password='hunter2';")
    secrets.put("jaas", "com.sun.security.auth.module.JndiLoginModule required hunter2='x';")
    with pytest.raises(QueryFileError, match="login module that is not allowed") as caught:
        options_of(tmp_path, option, secrets)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(QueryFileError, match="login module that is not allowed"):
        options.revealed()  # replaced after the check


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ('kafka.ssl.key.password = "{secret:nothing}"', "there is no secret `nothing`.*\n.*ctl secret set nothing"),
        ('kafka.ssl.key.password = "{secret:../ledger.db}"', "is not the name of a secret"),
        ('kafka.ssl.truststore.location = "{secret:db}"', "may not be the secret `db`: its value is checked and shown"),
        ('kafka.client.id = "{secret:db}"', "may not be the secret `db`"),
    ],
)  # fmt: skip
def test_what_is_refused_when_the_file_is_read(
    tmp_path: Path, secrets: SecretFolder, option: str, message: str
) -> None:
    with pytest.raises(QueryFileError, match=message) as caught:
        read_query(kafka(tmp_path, option), secrets=secrets)
    assert "streams.a.options.kafka" in str(caught.value)


def test_query_check_names_what_is_missing(
    tmp_path: Path, secrets: SecretFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kafka(tmp_path, 'kafka.ssl.key.password = "{secret:later}"')
    words = ["--set", f"secrets_dir={tmp_path / 'secrets'}", "query", "check", str(file)]
    assert command_line.main(words) == 2
    assert "there is no secret `later`" in capsys.readouterr().err
    secrets.put("later", VALUE)
    assert command_line.main(words) == 0
    (tmp_path / "secrets" / "later").chmod(0o644)
    assert command_line.main(words) == 2
    said = capsys.readouterr()
    assert "others may read the secret `later`" in said.err
    assert VALUE not in said.out + said.err


def files_with(folder: Path, *texts: str) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "secrets"
        and any(text.encode() in path.read_bytes() for text in texts)
    ]  # fmt: skip


def test_a_database_gets_the_secret_and_nothing_else_does(
    spark: SparkSession, tmp_path: Path, secrets: SecretFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    """Derby comes with PySpark. Its user is made with the password of the first connection."""
    place = tmp_path / "db"
    sink = (
        f'format = "jdbc"\noptions = {{ url = "jdbc:derby:{place};create=true;user=me;password={{secret:url}}", '
        'dbtable = "results" }'
    )
    file = write_query(tmp_path, sink)
    spec = read_query(file, secrets=secrets)
    assert URL_PART not in repr(spec)
    QueryRun(spec, Settings.load({}), (), once=True).run(None)
    url = f"jdbc:derby:{place};user=me;password={URL_PART}"
    rows = spark.read.format("jdbc").options(url=url, dbtable="results").load().collect()
    assert Counter(row[0] for row in rows) == Counter(range(60))
    made = [path for path in files_with(tmp_path, URL_PART) if place not in path.parents]
    assert made == []
    said = capfd.readouterr()
    assert URL_PART not in said.out + said.err


def test_what_a_database_says_has_no_named_secret(
    spark: SparkSession, tmp_path: Path, secrets: SecretFolder
) -> None:
    sink = 'format = "jdbc"\noptions = { url = "jdbc:nosuch:{secret:url}:x", dbtable = "r", password = "{secret:db}" }'
    with pytest.raises(SinkError) as caught:
        run = QueryRun(
            read_query(write_query(tmp_path, sink), secrets=secrets),
            Settings.load({}),
            (),
            once=True,
        )
        run.run(None)
    assert URL_PART not in str(caught.value) and VALUE not in str(caught.value)


def test_a_secret_that_goes_away_ends_the_start_and_is_taken_when_it_is_back(
    spark: SparkSession, tmp_path: Path, secrets: SecretFolder
) -> None:
    sink = f'format = "jdbc"\noptions = {{ url = "jdbc:derby:{tmp_path}/db;create=true", user = "me", password = "{{secret:db}}", dbtable = "r" }}'
    spec = read_query(write_query(tmp_path, sink), secrets=secrets)
    secrets.drop("db")
    with pytest.raises(SpillwayError, match="there is no secret `db`"):
        QueryRun(spec, Settings.load({}), (), once=True).run(None)
    secrets.put("db", "another value")
    assert QueryRun(spec, Settings.load({}), (), once=True).run(None).rows_out == 60


def test_sparks_log_and_plans_do_not_show_secrets(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    gateway: Any = spark.sparkContext._gateway
    log = Path(f"/proc/{gateway.proc.pid}/fd/2").readlink()
    before = log.stat().st_size
    hide(spark, [VALUE, URL_PART])
    jvm: Any = spark.sparkContext._jvm
    java_log = jvm.org.apache.logging.log4j.LogManager.getLogger("test")
    failure = jvm.java.lang.IllegalStateException(f"it is {URL_PART}")
    java_log.error(f"said {VALUE} and {json.dumps(VALUE)} and $1")
    java_log.error("failed", failure)
    java_log.error(
        'options password="two words" pwd=mine, at jdbc:x://me:of-url@h/db; all the rest'
    )
    text = log.read_bytes()[before:].decode()
    assert "said *** and " in text and "and $1" in text
    assert "IllegalStateException: it is ***" in text
    assert "//me:***@h/db; all the rest" in text
    for secret in (VALUE, json.dumps(VALUE)[1:-1], URL_PART, "two words", "mine", "of-url"):
        assert secret not in text
    options = {
        "kafka.sasl.jaas.config": URL_PART,
        "kafka.ssl.key.password": URL_PART,
        "url": URL_PART,
    }
    frame = spark.readStream.format("rate").options(**options).load()
    frame.explain(True)
    plan: Any = frame._jdf
    assert URL_PART not in capfd.readouterr().out + plan.queryExecution().toString()
