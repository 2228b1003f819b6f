"""What a version of before has left goes on: a checkpoint with new input, a store with its data, a backup."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest
from pyspark.sql import SparkSession

from db.open import open_store
from db.restore import restore
from db.upgrade import upgrade
from engine.query.file import read_query
from engine.runner import QueryRun
from tests.before import Before, unpack
from tests.engine.oracle import quiet

USERS = {"admin", "vera", "otto", "gone"}
QUERIES = {"inside", "outside", "feed"}


@pytest.fixture
def before(tmp_path: Path) -> Before:
    return unpack(tmp_path / "before")


def test_a_checkpoint_goes_on(spark: SparkSession, before: Before) -> None:
    """Rows of before meet rows that come now; nothing of before comes again."""
    more = before.root / "payments" / "2.parquet"
    duckdb.sql("SELECT range * 2 + 1 AS id, range * 0.5 AS amount FROM range(400)").write_parquet(
        str(more)
    )
    QueryRun(read_query(before.query), quiet(), (), once=True).run(None)
    folder = before.root
    rows, distinct, expected = duckdb.sql(
        f"""WITH want AS (
              SELECT o.id, o.customer, CAST(p.amount AS decimal(22,1)) AS amount
              FROM '{folder}/orders/*.parquet' o JOIN '{folder}/payments/*.parquet' p ON o.id = p.id),
            have AS (SELECT * FROM '{folder}/run/out/part-*.parquet')
            SELECT (SELECT count(*) FROM have),
                   (SELECT count(*) FROM (SELECT * FROM have EXCEPT ALL SELECT * FROM want)),
                   (SELECT count(*) FROM want)"""
    ).fetchall()[0]
    assert (rows, distinct) == (expected, 0)
    assert expected == 900


def test_a_store_opens_with_its_data(before: Before) -> None:
    upgrade(before.data)
    store = open_store(before.data)
    try:
        assert {user.name for user in store.users.all()} == USERS
        assert {query.name for query in store.queries.all()} == QUERIES
        assert store.rules.find("lazy") is not None
        assert len(store.webhooks.all()) == 1
        assert "query.register" in {line.what for line in store.audit.page()}
    finally:
        store.close()


def test_a_backup_goes_back(before: Before) -> None:
    upgrade(before.data)
    restore(before.backup, before.data, now_s=1_795_000_000.0)
    upgrade(before.data)
    store = open_store(before.data)
    try:
        assert {query.name for query in store.queries.all()} == QUERIES
    finally:
        store.close()


def test_series_of_before_go_on(before: Before) -> None:
    """Samples of then did not say how much time their rates were about: they count alike."""
    upgrade(before.data)
    store = open_store(before.data)
    try:
        sample = store.metrics.newest("inside")
        assert sample is not None and sample.snapshot.nodes.alive.all()
        span = (sample.time_s - 600, sample.time_s + 1)
        single = store.metrics.query_series("inside", *span)
        rates = single.values["rows_out_per_s"]
        assert len(rates) > 20 and rates.max() > 0 and np.isnan(single.values["covered_s"]).all()
        mean = store.metrics.query_series("inside", *span, 1)
        assert mean.values["rows_out_per_s"].tolist() == [pytest.approx(rates.mean())]
        nodes = store.metrics.node_series("inside", *span, 1).values["rows_out_per_s"]
        assert nodes.sum() == pytest.approx(rates.mean(), rel=1e-5)
    finally:
        store.close()
