"""Named secrets on their way to Spark: put into options at the last moment, and taken out of what Spark logs.

Spark's words go to spark.log by log4j. What looks like a secret is masked there by the log's own pattern
(session.py); the values of named secrets are known only when a query starts, so the log is told of them then.
Nothing is written to a file for that: the values are in the memory of Python and of the JVM alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from control.redaction import MASK, spellings
from engine.query.secrets import Options

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Java's: what stands before a value that nobody may see, and the value.
_LOOKS_SECRET = (
    r"(?i)((?:passw(?:or)?d|pwd|passphrase|secret|token|credential|jaas\.config"
    r"|(?:api|access|private)[._-]?key|keystore[._-]key)[\w.-]{0,64}[\"']?\s{0,8}(?:->|={1,2})\s{0,8})"
    r"(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^\s;&,)]+)"
    r"|(//[^\s/:@]{0,200}:)\S+(?=@)"
)
_REPLACEMENT = f"$1$2{MASK}"
_PATTERN = r"%d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %replace{%maxLen{%m%n%ex{80}}{8000}}{\\s+$}{}%n"
_SPECIAL = re.compile(r"([\\^$.|?*+()\[\]{}])")
# What each running Spark's log leaves out besides.
_CHANGING = threading.Lock()  # queries start in threads of their own
_HIDDEN: WeakKeyDictionary[SparkContext, frozenset[str]] = WeakKeyDictionary()


def log4j_properties() -> str:
    """How Spark logs from its start: warnings and errors to stderr, without what looks like a secret."""
    return f"""\
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = {_PATTERN}
appender.err.layout.alwaysWriteExceptions = false
appender.err.layout.replace.type = replace
appender.err.layout.replace.regex = {_LOOKS_SECRET.replace(chr(92), chr(92) * 2)}
appender.err.layout.replace.replacement = {_REPLACEMENT}
"""


def for_spark(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Options with the values of named secrets in them. From now on Spark's log does not show these."""
    if not isinstance(options, Options):
        return dict(options)
    found = options.revealed()
    if secrets := options.put_in:
        hide(spark, secrets)
    return found


def hide(spark: SparkSession, secrets: Iterable[str]) -> None:
    """Spark's log shows these secrets no more, however they are written."""
    with _CHANGING:
        before = _HIDDEN.get(spark.sparkContext, frozenset())
        now = before.union(secrets)
        if now != before:
            _leave_out(spark, now)
            _HIDDEN[spark.sparkContext] = now


def _leave_out(spark: SparkSession, secrets: Iterable[str]) -> None:
    """Put an appender in the place of each that writes to the console, which is all that our sessions have."""
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    replacement = log4j.core.pattern.RegexReplacement.createRegexReplacement(
        jvm.java.util.regex.Pattern.compile(f"{_pattern(secrets)}|{_LOOKS_SECRET}"), _REPLACEMENT
    )
    for name, appender in dict(root.getAppenders()).items():
        if appender.getClass().getSimpleName() != "ConsoleAppender":
            continue  # of a session that somebody else has set up
        pattern = appender.getLayout().getConversionPattern()
        layout = log4j.core.layout.PatternLayout.newBuilder().withPattern(pattern)
        layout = layout.withAlwaysWriteExceptions(False)
        fresh = log4j.core.appender.ConsoleAppender.newBuilder().setTarget(appender.getTarget())
        fresh = fresh.setName(name).setLayout(layout.withRegexReplacement(replacement).build())
        fresh = fresh.build()
        fresh.start()
        root.removeAppender(name)
        root.addAppender(fresh, None, None)
    context.updateLoggers()


def _pattern(secrets: Iterable[str]) -> str:
    """A regular expression of Java's for all of them, the longest first."""
    found = {one for secret in secrets for one in spellings(secret)}
    return "|".join(_SPECIAL.sub(r"\\\1", one) for one in sorted(found, key=len, reverse=True))
