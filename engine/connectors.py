"""What Spark lacks for a format, and how to give it: connectors are not part of PySpark.

`look_up` asks Spark for a format before anything runs; `conf` turns the settings `packages` and `jars`
into Spark's. Which options a format has is not known here (query/formats.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from control.redaction import redacted
from engine.errors import SpillwayError
from engine.query.secrets import known_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALA = "2.13"
# by Spark's format: group, artifact, and the version where it is not Spark's own
_ARTIFACTS = {
    "kafka": ("org.apache.spark", "spark-sql-kafka-0-10", ""),
    "avro": ("org.apache.spark", "spark-avro", ""),
    "delta": ("io.delta", "delta-spark", "VERSION"),
}
_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+\Z")
_MISSING = re.compile(
    r"DATA_SOURCE_NOT_(?:FOUND|ENABLED)|Failed to find (?:the )?data source|ClassNotFound"
    r"|NoClassDefFound|No suitable driver"
)


def coordinate(kind: str) -> str:
    """The Maven coordinate of a format's connector for this Spark."""
    import pyspark

    group, artifact, version = _ARTIFACTS[kind]
    return f"{group}:{artifact}_{SCALA}:{version or pyspark.__version__}"


def advice(kind: str) -> str:
    """How to give Spark what a format needs."""
    offline = "without a network copy its jars here and say --set jars=FILE.jar,FILE.jar"
    if kind in _ARTIFACTS:
        return f"Give it with --set packages={coordinate(kind)} (Spark fetches it); {offline}."
    if kind == "jdbc":
        return "Give the database's driver with --set packages=GROUP:ARTIFACT:VERSION, or --set jars=FILE.jar."
    return "Check format, path and options."


def look_up(spark: SparkSession, kind: str, error: type[SpillwayError], where: str) -> None:
    """Ask Spark for the format; the error says how to add what is missing."""
    session: Any = spark
    finder = session._jvm.org.apache.spark.sql.execution.datasources.DataSource
    with naming(kind, f"Spark has no {kind}", error, where):
        finder.lookupDataSourceV2(kind, session._jsparkSession.sessionState().conf())


@contextmanager
def naming(
    kind: str,
    doing: str,
    error: type[SpillwayError],
    where: str,
    options: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Errors of Spark become ours: what could not be done, in its words without secrets, and what
    to do."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as failed:
        text = redacted(_words(failed), known_in(options or {}))  # before anything is cut
        if _MISSING.search(text + str(failed)):
            what = f"{doing}: the connector or driver is not on its class path"
            if kind not in _ARTIFACTS and kind != "jdbc":
                what = f"{doing}: {_first(text)}"
            raise error(what, where=where, hint=advice(kind)) from None
        hint = "Check its options in the query file; state is as it was at the last commit."
        raise error(f"{doing}: {_first(text)}", where=where, hint=hint) from None


def _words(failed: Exception) -> str:
    java = getattr(failed, "java_exception", None)
    if java is None:
        return str(failed).strip()
    texts: list[str] = []
    while java is not None and len(texts) < 5:
        texts.append(f"{java.getClass().getSimpleName()}: {java.getMessage()}")
        java = java.getCause()
    return "\n".join(texts)


def _first(text: str) -> str:
    return text.splitlines()[0][:500] if text else "it does not say why"


def packages(text: str) -> str:
    """Maven coordinates, as the setting has them; ValueError if they are none."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    for part in found:
        if not _COORDINATE.match(part):
            raise ValueError(f"{part!r} is not GROUP:ARTIFACT:VERSION")
    return ",".join(found)


def jars(text: str) -> str:
    """Paths of jar files, as the setting has them; ValueError if one is not there."""
    found = [Path(part.strip()).expanduser().absolute() for part in text.split(",") if part.strip()]
    for path in found:
        if not path.is_file():
            raise ValueError(f"there is no {path}")
    return ",".join(map(str, found))


def conf(packages: str, jars: str) -> dict[str, str]:
    """Spark's settings for the two."""
    given = {"spark.jars.packages": packages, "spark.jars": jars}
    return {name: text for name, text in given.items() if text}
