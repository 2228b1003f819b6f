"""Makes before.tar.gz. It drives an older checkout, so it runs with that one on the path and works in an empty folder:

mkdir /tmp/spillway-before && cd /tmp/spillway-before
PYTHONPATH=CHECKOUT CHECKOUT/.venv/bin/python …/tests/before/make.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import duckdb

from tests.up import ROOT, Up

TOP = Path.cwd()
SQL = "SELECT o.id, o.customer, {value} FROM orders o JOIN payments p ON o.id = p.{key}"
ORDERS = f"""
[streams.orders]
format = "parquet"
path = "{TOP}/mine/orders"
schema = "id long, customer long"
"""
PAYMENTS = f"""
[streams.payments]
format = "parquet"
path = "{TOP}/mine/payments"
schema = "id long, amount decimal(22,1)"
"""
KAFKA = """
[streams.payments]
format = "kafka"
schema = "value binary, partition int"
options = { subscribe = "payments", "kafka.bootstrap.servers" = "127.0.0.1:1", "kafka.sasl.jaas.config" = '\
org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="two words of before";' }
"""
RULE = """name = "lazy"
mode = "auto"
query = "*"
every = "15s"

[policy]
name = "lazy_disk"
"""


def paid(name: str, checkpoint: str, sink: str) -> str:
    sql = SQL.format(value="p.amount", key="id")
    head = f'name = "{name}"\nsql = "{sql}"\nnodes = 2\ngroups = 16\ncheckpoint = "{checkpoint}"\n'
    return head + ORDERS + PAYMENTS + f'\n[sink]\nformat = "parquet"\npath = "{sink}"\n'


def feed() -> str:
    sql = SQL.format(value="p.value", key="partition")
    head = f'name = "feed"\nsql = "{sql}"\ncheckpoint = "state"\n'
    return head + ORDERS + KAFKA + '\n[sink]\nformat = "parquet"\npath = "out"\n'


def run(*arguments: str, typed: str = "", folder: Path = TOP) -> str:
    """A command of the older checkout."""
    command = [sys.executable, str(ROOT / "run.py"), *arguments]
    done = subprocess.run(
        command, input=typed, cwd=folder, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


def sources() -> None:
    for name in ("orders", "payments", "run"):
        (TOP / "mine" / name).mkdir(parents=True)
    orders = duckdb.sql("SELECT range AS id, range % 100 AS customer FROM range(1000)")
    orders.write_parquet(str(TOP / "mine/orders/1.parquet"))
    payments = duckdb.sql("SELECT range * 2 AS id, range * 1.5 AS amount FROM range(1000)")
    payments.write_parquet(str(TOP / "mine/payments/1.parquet"))


def checkpoint() -> None:
    (TOP / "mine/run/paid.toml").write_text(paid("paid", "state", "out"))
    run("query", "run", "paid.toml", "--once", folder=TOP / "mine/run")


def data_folder() -> None:
    up = Up(TOP / "data", "--no-demo", settings=(f"source_roots={TOP / 'mine'}",)).start()
    data = ("--data", str(up.data))
    for name, role, password in (
        ("vera", "viewer", "1234567890"),
        ("otto", "operator", "adminadmin"),
        ("gone", "operator", "gone-by-the-backup"),
    ):
        run("user", *data, "add", name, role, "--password-stdin", typed=password + "\n")
    run("user", *data, "password", "admin", "--password-stdin", typed="adminadmin\n")
    plain = {
        name: up.json("token", "add", name, "--scope", scope, *more)["token"]
        for name, scope, *more in (
            ("endless", "viewer"),
            ("endless-admin", "admin"),
            ("revoked-after", "operator"),
            ("month", "viewer", "--for", "30d"),
        )
    }
    (TOP / "tokens.json").write_text(json.dumps(plain, indent=1) + "\n")
    texts = {
        "inside.toml": paid("inside", "state", "out"),
        "outside.toml": paid("outside", f"{TOP}/mine/outside/state", f"{TOP}/mine/outside/out"),
        "feed.toml": feed(),
        "rule.toml": RULE,
    }
    for name, text in texts.items():
        (TOP / name).write_text(text)
    up.ctl("query", "register", "inside.toml")
    up.ctl("query", "register", "outside.toml")
    up.ctl("query", "register", "feed.toml", "--no-start")
    up.ctl("rule", "save", "rule.toml")
    up.ctl("webhook", "add", "http://127.0.0.1:18099/hook", "alert.raised")
    up.running("inside")
    up.running("outside")
    time.sleep(5)  # some samples
    run("backup", *data, str(TOP / "backup.db"))
    tokens = up.json("token", "list")["items"]
    up.ctl("token", "revoke", next(t["id"] for t in tokens if t["name"] == "revoked-after"))
    run("user", *data, "disable", "gone")
    up.stop()


def archive() -> None:
    parts = ("data", "mine", "backup.db", "tokens.json")
    left_out = ("*.lock", "*.crc", "mine/run/state/logs/*")
    options = ["--sort=name", "--owner=0", "--group=0", *(f"--exclude={name}" for name in left_out)]
    subprocess.run(["tar", *options, "-czf", "before.tar.gz", *parts], cwd=TOP, check=True)


if __name__ == "__main__":
    sources()
    checkpoint()
    data_folder()
    archive()
