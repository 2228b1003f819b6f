"""A ticker for a run of a query: its flow, its folders, its sinks, made once the checkpoint is ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine import ingest
from engine.cluster import is_cluster
from engine.hashing import FULL_MASK
from engine.plan.matching import current
from engine.plan.tree import Plan
from engine.query.model import JoinQuery, QuerySpec
from engine.reports import ReportPort
from engine.session import tokens
from engine.settings import Settings
from engine.setup import Setup
from engine.sinks import open_sink, side_directory
from engine.stage import SIDE_KINDS
from engine.state import folders
from engine.state.commits import CommitLog
from engine.state.files import Tiers
from engine.tick import Ticker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_ticker(
    spark: SparkSession,
    spec: QuerySpec,
    query: JoinQuery,
    plan: Plan,
    log: CommitLog,
    places: folders.Folders,
    settings: Settings,
    ports: Sequence[ReportPort],
    hash_mask: int,
    slow: Mapping[int, float],
) -> Ticker:
    """For the query file's plan, or the one that a migration has put in its place. Nothing has been recovered yet."""
    replan = log.recover().manifest.plan
    query, plan, flow = current(spec, query, plan, replan, exact=hash_mask == FULL_MASK)
    most, cluster = settings.segment_bytes_max, is_cluster(spark.sparkContext.master or "")
    memory = settings.mem_dir if cluster else str(places.memory)
    owner = str(spec.checkpoint.resolve()) if cluster else ""
    tiers = {
        op.id: Tiers(memory, str(places.durable), op.groups, most, owner=owner) for op in flow.ops
    }
    setup = Setup(
        plan,
        query,
        flow,
        ingest.lay_out(flow),
        tiers,
        tuple(tokens(spark, plan.nodes)),
        spark.sparkContext.defaultParallelism,
        hash_mask,
        str(spec.checkpoint / "side"),
        slow,
        spec,
    )
    sink = open_sink(spec.sink, spec.checkpoint, spark)
    sink.prepare()
    sides = {
        f"{kind}/{given.alias}": side_directory(spec.checkpoint, kind, given.alias)
        for kind in SIDE_KINDS.values()
        for given in query.inputs
    }
    return Ticker(spark, setup, log, sink, sides, ports)
