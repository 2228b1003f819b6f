"""Spark's ports: who has no secret is not read from; the secret is nowhere to be seen; the user may switch it off."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from engine import authentication, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RPC_REQUEST = 3


def utf(text: str) -> bytes:
    """A text as Java's DataInput reads it."""
    return struct.pack(">H", len(text)) + text.encode()


def answer_to(port: int, body: bytes) -> str:
    """What a port of Spark's says to a request of somebody who has shown no secret."""
    head = struct.pack(">bqi", RPC_REQUEST, 7, len(body))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(struct.pack(">q", 8 + len(head) + len(body)) + head + body)
        told = b""
        while len(told) < 8 or len(told) < struct.unpack(">q", told[:8])[0]:
            part = raw.recv(65536)
            if not part:
                break
            told += part
    return told.decode("latin1")


def ports(spark: SparkSession) -> set[int]:
    """Where Spark's JVM speaks with others of its kind: the driver, and its blocks. What else it listens to are PySpark's
    ports, each of which wants a token of its own first."""
    inner: Any = spark.sparkContext
    blocks = re.findall(r":(\d+) -> ", inner._jsc.sc().getExecutorMemoryStatus().toString())
    found = {int(inner.getConf().get("spark.driver.port")), *map(int, blocks)}
    listening = {
        c.laddr.port for c in jvm(spark).net_connections("tcp") if c.status == psutil.CONN_LISTEN
    }
    assert found <= listening
    return found


def jvm(spark: SparkSession) -> psutil.Process:
    inner: Any = spark.sparkContext
    return psutil.Process(inner._gateway.proc.pid)


def test_nothing_is_read_from_who_has_no_secret(spark: SparkSession) -> None:
    """A message to an endpoint whose content is no Java object: to say so, Spark must have tried to read one."""
    body = b"\x00\x01" + utf("127.0.0.1") + struct.pack(">i", 1) + utf("nobody") + b"not Java"
    assert len(ports(spark)) == 2
    for port in ports(spark):
        told = answer_to(port, body)
        assert "StreamCorrupted" not in told
        assert "ObjectInputStream" not in told
        assert "Unknown message type" not in told
        assert "SaslRpcHandler" in told, told


def test_the_secret_is_in_no_setting_and_on_no_command_line(spark: SparkSession) -> None:
    inner: Any = spark.sparkContext
    user = inner._jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    cookie = inner._jvm.org.apache.hadoop.io.Text("sparkCookie")
    secret = bytes(user.getCredentials().getSecretKey(cookie)).decode()
    assert len(secret) >= 32
    settings = str(inner.getConf().getAll()) + str(inner._conf.getAll())
    assert "authenticate.secret" not in settings
    assert secret not in settings
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.ZombieProcess):  # of one that has ended, nothing is left to be seen
            assert secret not in " ".join(process.cmdline())
            assert secret not in " ".join(process.environ().values())
    assert secret not in str(dict(os.environ))


def test_any_master_is_told_to_authenticate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    for master in ("local[3,4]", "local-cluster[2,1,512]", "spark://host:7077", "yarn"):
        assert session.spark_conf(master, 2, "2g")["spark.authenticate"] == "true"
    assert authentication.warning() == ""


@pytest.mark.parametrize(
    "line", ["spark.authenticate false", "spark.authenticate=False", "spark.authenticate : false"]
)
def test_the_user_may_switch_it_off_and_is_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"# a comment\n\n  {line}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for master in ("local[3,4]", "local-cluster[2,1,512]", "spark://host:7077"):
        assert "spark.authenticate" not in session.spark_conf(master, 2, "2g")
    assert str(tmp_path / "spark-defaults.conf") in authentication.warning()
    with authentication.secret("local-cluster[2,1,512]"):
        assert "properties-file" not in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def test_a_warning_is_heard_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the way that the engine takes: its own words of warning, whatever becomes of the start."""
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate false\n")
    code = (
        "from engine.session import start_session\n"
        "try: start_session(master='local[1]', nodes=1, app_name='x', log_dir=None, driver_memory='1m', warn=print)\n"
        "except Exception: pass\n"
    )
    env = os.environ | {"PYTHONPATH": str(session.ROOT), "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout.startswith("Spark runs without authentication")


def test_a_cluster_without_a_secret_is_refused_with_advice(tmp_path: Path) -> None:
    """A standalone master that nobody listens at: Spark is to refuse before it looks for it."""
    code = (
        "from engine.errors import SetupError\n"
        "from engine.session import start_session\n"
        "try: start_session(master='spark://127.0.0.1:9', nodes=1, app_name='x', log_dir=None)\n"
        "except SetupError as error: print(error)\n"
    )
    env = os.environ | {"PYTHONPATH": str(session.ROOT)}
    env.pop("SPARK_CONF_DIR", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)  # fmt: skip
    assert "Spark does not start" in done.stdout
    assert "spark.authenticate.secret ..." in done.stdout
    assert "mode 0600" in done.stdout


def test_a_secret_is_in_no_command_line_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name x pyspark-shell")
    with authentication.secret("local-cluster[2,1,512]"):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(words[1])
        (secret,) = [line.split()[1] for line in file.read_text().splitlines()]
        assert words[3:] == ["--name", "x", "pyspark-shell"] and secret not in " ".join(words)
        assert file.stat().st_mode & 0o077 == 0
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--name x pyspark-shell" and not file.exists()
