"""Source and sink formats: the options each may have, the columns that are always the same, and what
is promised of rows.

Allow-lists. Not in them: what deletes or reorders input, hides damaged files, or names a class to load
(for Kafka: interceptors, metric reporters, callback handlers). Sinks: `parquet` is ours; the others are
handed to Spark's writers. Reading the options of a query file is options.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.query.model import Field, SinkSpec, StreamSpec

EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE = "exactly once", "at least once", "at most once"
VALUE_FORMATS = ("json", "csv")  # of the messages in a column `value`


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `options` None: the format checks its own. `columns`: those it always has.

    Of each group in `needs` exactly one option must be there.
    """

    options: tuple[str, ...] | None
    path: bool = True
    columns: tuple[Field, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    package: bool = False  # Spark needs a connector for it (connectors.py)
    guarantee: str = EXACTLY_ONCE
    strict: Mapping[str, str] = field(default_factory=dict)  # unless the query file says otherwise
    compressions: tuple[
        str, ...
    ] = ()  # all that there are: Spark would load a class of any other name


def _words(*texts: str) -> tuple[str, ...]:
    return tuple(" ".join(texts).split())


def _fields(text: str) -> tuple[Field, ...]:
    words = text.split()
    return tuple(Field(name, kind) for name, kind in zip(words[::2], words[1::2], strict=True))


_FILES = "maxFilesPerTrigger maxBytesPerTrigger pathGlobFilter recursiveFileLookup"
_TIMES = "dateFormat timestampFormat timestampNTZFormat locale timeZone"
_TEXT = f"{_TIMES} mode multiLine lineSep encoding"
_CSV = (
    "header sep delimiter quote escape charToEscapeQuoteEscaping comment nullValue emptyValue "
    "nanValue positiveInf negativeInf ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace "
    "maxColumns maxCharsPerColumn enforceSchema unescapedQuoteHandling"
)
_JSON = (
    "allowComments allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros "
    "allowBackslashEscapingAnyCharacter allowUnquotedControlChars allowNonNumericNumbers"
)
_XML = (
    "rowTag attributePrefix valueTag excludeAttribute treatEmptyValuesAsNulls nullValue "
    "ignoreSurroundingSpaces ignoreNamespace"
)
_WRITTEN = "dateFormat timestampFormat timestampNTZFormat lineSep encoding timeZone compression"
_SSL = " ".join(
    f"kafka.ssl.{name}"
    for name in _words(
        "truststore.location truststore.password truststore.type truststore.certificates",
        "keystore.location keystore.password keystore.type keystore.key",
        "keystore.certificate.chain key.password endpoint.identification.algorithm protocol",
        "enabled.protocols",
    )
)
_KAFKA = (
    "kafka.bootstrap.servers kafka.client.id kafka.security.protocol kafka.sasl.mechanism "
    "kafka.sasl.jaas.config kafka.sasl.kerberos.service.name kafka.request.timeout.ms "
    "kafka.default.api.timeout.ms kafka.metadata.max.age.ms kafka.reconnect.backoff.ms "
    f"kafka.reconnect.backoff.max.ms kafka.retry.backoff.ms kafka.client.dns.lookup {_SSL}"
)
_CONSUMER = (
    "subscribe subscribePattern assign startingOffsets startingTimestamp startingOffsetsByTimestamp "
    "startingOffsetsByTimestampStrategy failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger "
    "maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix kafkaConsumer.pollTimeoutMs "
    "fetchOffset.numRetries fetchOffset.retryIntervalMs kafka.group.id kafka.isolation.level "
    "kafka.session.timeout.ms kafka.heartbeat.interval.ms kafka.max.partition.fetch.bytes "
    "kafka.fetch.max.bytes kafka.fetch.min.bytes kafka.fetch.max.wait.ms kafka.max.poll.records"
)
_PRODUCER = (
    "topic kafka.acks kafka.batch.size kafka.buffer.memory kafka.compression.type kafka.linger.ms "
    "kafka.max.request.size kafka.delivery.timeout.ms kafka.enable.idempotence kafka.retries"
)
_KAFKA_COLUMNS = _fields(
    "key binary value binary topic string partition int offset bigint timestamp timestamp "
    "timestampType int"
)
_CODECS = _words("none uncompressed bzip2 deflate gzip lz4 snappy")
_FAILFAST = {"mode": "FAILFAST"}  # Spark would turn what it cannot read into nulls, without a word
_BROKERS = ("kafka.bootstrap.servers",)

SOURCES: Mapping[str, Format] = {
    "parquet": Format(_words(_FILES, "datetimeRebaseMode int96RebaseMode")),
    "orc": Format(_words(_FILES)),
    "json": Format(_words(_FILES, _TEXT, _JSON), strict=_FAILFAST),
    "csv": Format(_words(_FILES, _TEXT, _CSV), strict={**_FAILFAST, "enforceSchema": "false"}),
    "xml": Format(
        _words(_FILES, _TIMES, "mode encoding", _XML), needs=(("rowTag",),), strict=_FAILFAST
    ),
    "text": Format(_words(_FILES, "wholetext lineSep encoding"), columns=_fields("value string")),
    "binaryFile": Format(
        _words(_FILES),
        columns=_fields("path string modificationTime timestamp length bigint content binary"),
    ),
    "avro": Format(
        _words(_FILES, "mode datetimeRebaseMode positionalFieldMatching"),
        package=True,
        strict=_FAILFAST,
    ),
    "rate": Format(
        _words("rowsPerSecond rampUpTime numPartitions"),
        path=False,
        columns=_fields("timestamp timestamp value bigint"),
    ),
    "rate-micro-batch": Format(
        _words("rowsPerBatch numPartitions startTimestamp advanceMillisPerBatch"),
        path=False,
        columns=_fields("timestamp timestamp value bigint"),
        needs=(("rowsPerBatch",),),
    ),
    "socket": Format(
        _words("host port includeTimestamp"),
        path=False,
        columns=_fields("value string"),
        needs=(("host",), ("port",)),
        guarantee=AT_MOST_ONCE,
    ),
    "kafka": Format(
        _words(_KAFKA, _CONSUMER),
        path=False,
        columns=_KAFKA_COLUMNS,
        needs=(_BROKERS, ("subscribe", "subscribePattern", "assign")),
        package=True,
    ),
    "generator": Format(None, path=False),
}
# of from_json and from_csv
MESSAGES = {
    "json": _words(_TIMES, "mode encoding", _JSON),
    "csv": _words(
        _TIMES, "mode", *(w for w in _CSV.split() if w not in ("header", "enforceSchema"))
    ),
}
SINKS: Mapping[str, Format] = {
    "parquet": Format(("compression",), compressions=_words("none lz4 snappy zstd")),
    "json": Format(_words(_WRITTEN, "ignoreNullFields"), compressions=_CODECS),
    "csv": Format(
        _words(
            _WRITTEN,
            "header sep delimiter quote escape escapeQuotes quoteAll nullValue emptyValue",
            "charToEscapeQuoteEscaping ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace",
        ),
        compressions=_CODECS,
    ),
    "orc": Format(
        ("compression",),
        compressions=_words("none uncompressed snappy zlib lzo zstd lz4 brotli"),
    ),
    "text": Format(_words("compression lineSep encoding"), compressions=_CODECS),
    "xml": Format(
        _words(_TIMES, "rowTag rootTag attributePrefix valueTag nullValue encoding compression"),
        needs=(("rowTag",),),
        compressions=_CODECS,
    ),
    "avro": Format(
        _words("compression recordName recordNamespace"),
        package=True,
        compressions=_words("uncompressed deflate snappy bzip2 xz zstandard"),
    ),
    "delta": Format(("mergeSchema",), package=True, guarantee=AT_LEAST_ONCE),
    "kafka": Format(
        _words(_KAFKA, _PRODUCER),
        path=False,
        needs=(_BROKERS,),
        package=True,
        guarantee=AT_LEAST_ONCE,
    ),
    "jdbc": Format(
        _words("url dbtable user password driver batchsize isolationLevel queryTimeout"),
        path=False,
        needs=(("url",), ("dbtable",)),
        guarantee=AT_LEAST_ONCE,
    ),
    "console": Format(("numRows",), path=False, guarantee=AT_LEAST_ONCE),
    "noop": Format((), path=False, guarantee=AT_LEAST_ONCE),
}
# What users know from Spark, and why it is not here.
REFUSED = {
    "cleansource": "it would take input away that a restart needs",
    "sourcearchivedir": "it would take input away that a restart needs",
    "latestfirst": "files are read in the order in which they came",
    "maxfileage": "it would leave out late files without a word",
    "ignorecorruptfiles": "damaged files are an error, not silence",
    "ignoremissingfiles": "missing files are an error, not silence",
    "badrecordspath": "bad records are an error; or say mode = DROPMALFORMED",
    "columnnameofcorruptrecord": "bad records are an error; or say mode = DROPMALFORMED",
    "inferschema": "a stream's columns are declared: schema = …",
    "mergeschema": "a stream's columns are declared: schema = …",
    "endingoffsets": "a stream has no last offset; `query run --once` stops at what is there",
    "endingtimestamp": "a stream has no last offset; `query run --once` stops at what is there",
    "endingoffsetsbytimestamp": "a stream has no last offset; `query run --once` stops at what is there",
    "includeheaders": "headers are arrays, which state does not keep",
    "kafka.auto.offset.reset": "use startingOffsets: Spark keeps the offsets itself",
    "kafka.enable.auto.commit": "Spark keeps the offsets itself",
    "kafka.key.deserializer": "key and value are binary; or say value_format",
    "kafka.value.deserializer": "key and value are binary; or say value_format",
    "kafka.interceptor.classes": "it would load a class of the query's choice",
    "kafka.metric.reporters": "it would load a class of the query's choice",
}


def columns_of(kind: str, options: Mapping[str, str]) -> tuple[Field, ...]:
    """The columns that every stream of this format has; none where the schema decides."""
    if kind == "socket" and options.get("includeTimestamp", "").lower() == "true":
        return _fields("value string timestamp timestamp")
    return SOURCES[kind].columns


def source_guarantee(stream: StreamSpec) -> str:
    """What is promised of a stream's rows, whatever stops and starts again."""
    lossy = {name.lower(): text.lower() for name, text in stream.options.items()}
    if stream.format == "kafka" and lossy.get("failondataloss") == "false":
        return AT_MOST_ONCE  # what the broker has deleted meanwhile is skipped
    return SOURCES[stream.format].guarantee if stream.format in SOURCES else EXACTLY_ONCE


def place(of: StreamSpec | SinkSpec) -> str:
    """Where it is, for people: a path, an address, topics; never a secret."""
    options = {name.lower(): text for name, text in of.options.items()}
    if of.format == "socket":
        return f"{options.get('host')}:{options.get('port')}"
    if of.format == "kafka":
        names = ("subscribe", "subscribepattern", "assign", "topic")
        topics = next((options[name] for name in names if name in options), "")
        return f"{topics} at {options.get('kafka.bootstrap.servers')}".strip()
    if of.format == "jdbc":
        return options.get("dbtable", "")
    return of.path


def promise(streams: Iterable[StreamSpec], sink: SinkSpec) -> str:
    """What is promised of a whole query, and by whom it is less than exactly once."""
    less = [
        f"{source_guarantee(stream)} ({stream.name} is a {stream.format} stream)"
        for stream in streams
        if source_guarantee(stream) != EXACTLY_ONCE
    ]
    if sink_guarantee(sink) != EXACTLY_ONCE:
        less.append(f"{sink_guarantee(sink)} (the sink is {sink.format})")
    return ", ".join(less) or EXACTLY_ONCE


def sink_guarantee(sink: SinkSpec) -> str:
    """What is promised of results."""
    return SINKS[sink.format].guarantee if sink.format in SINKS else AT_LEAST_ONCE
