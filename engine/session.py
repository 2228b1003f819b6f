"""Starting Spark: what the machine must have, the settings that our ticks need, and where the JVM's
words go (a file; the terminal is the user's). What runs on the session is not known here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from control.logs import rotate
from engine import authentication, class_archive, cluster
from engine.errors import SetupError
from engine.spark_log import log4j_properties
from engine.state.folders import private_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
ROOT = Path(__file__).resolve().parent.parent
LOG_LOOK_S = 5.0
_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
NO_SUBSTITUTION = {"spark.sql.variable.substitute": "false"}
SECRET_OPTIONS = (
    "passw|pwd|secret|token|credential|jaas|access[.]?key|private[.]?key|keystore[.]key"
)
SHARED_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.daemon.module": "engine.worker_daemon",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A text in SQL is that text: Spark would put the engine's environment in for '${env:HOME}'.
    **NO_SUBSTITUTION,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    # Spark's own default knows neither JAAS texts nor URLs; it shows options in plans and in its UI.
    "spark.redaction.regex": f"(?i){SECRET_OPTIONS}",
    "spark.sql.redaction.options.regex": f"(?i)url|{SECRET_OPTIONS}",
    # Ticks come by the thousand: what Spark remembers of them must not grow.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    # Shuffle files go when the JVM collects garbage, which ticks alone give it little reason to.
    "spark.cleaner.periodicGC.interval": "5min",
}
# Where no row passes through the JVM's own code, compiling it a second time costs more than it gives: the
# compiler's threads take the cores from the tick (docs/decisions/0007).
LIGHT_JAVA = "-XX:TieredStopAtLevel=1"
LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0s",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
}


def check_java() -> str:
    """The java that Spark will use; SetupError with advice when it is missing or too old."""
    advice = (
        f"Install a Java runtime {JAVA_MIN} or newer (Debian, Ubuntu: sudo apt install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17), or point JAVA_HOME to one."
    )
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        place = f"JAVA_HOME={home}" if home else "PATH"
        raise SetupError("Java is missing: Spark runs on it", where=place, hint=advice)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = java_version(said.stderr + said.stdout)
    if version is None:
        raise SetupError("cannot tell which Java this is", where=java, hint=advice)
    if version < JAVA_MIN:
        raise SetupError(
            f"Java {version} is too old: Spark needs {JAVA_MIN} or newer", where=java, hint=advice
        )
    return java


def java_version(said: str) -> int | None:
    """The major version in what `java -version` prints: `1.8.0_292` is 8, `17.0.15` is 17."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def cores() -> int:
    """Of this machine, for this process."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return found or 1


def default_master(nodes: int) -> str:
    """One slot per node as far as there are cores, one spare for side jobs, 4 task attempts."""
    return f"local[{min(nodes, cores()) + 1},4]"


def start_session(
    *,
    master: str | None,
    nodes: int,
    app_name: str,
    log_dir: Path | None,
    driver_memory: str = "2g",
    extra: Mapping[str, str] = MappingProxyType({}),
    light: bool = False,
    java: str | None = None,
    warn: Callable[[str], None] = lambda text: None,
    scratch: Path | None = None,
) -> SparkSession:
    """A session for our ticks. `light`: the JVM only plans and shuffles, it touches no row. Spark's words ≥ WARN go to `<log_dir>/spark.log`; without
    `log_dir` to stderr. `java`: options instead of those of the class archive. An active session of this process is used as it is, save that
    texts of its SQL stay as they are. `warn` hears of what the user's own configuration leaves open;
    `scratch`: where Spark keeps its own files, which hold rows, instead of a private folder below the system's for such."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.conf import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        for name, value in NO_SUBSTITUTION.items():
            active.conf.set(name, value)
        return active
    check_java()
    if text := authentication.warning():
        warn(text)
    master = master or default_master(nodes)
    _set_environment(master)
    conf = SparkConf().setMaster(master).setAppName(app_name)
    # Hadoop gives files that it makes permissions of its own, whatever the process's umask.
    own = {
        "spark.local.dir": str(_scratch(scratch)),
        "spark.hadoop.fs.permissions.umask-mode": _umask(),
    }
    conf.setAll(list((spark_conf(master, nodes, driver_memory) | own | dict(extra)).items()))
    with (
        _log(log_dir) as log,
        _log_settings() as java_options,
        _own_interrupts(),
        authentication.secret(master),
    ):
        if light and not cluster.is_cluster(master):
            java_options = f"{java_options} {LIGHT_JAVA}"
        java_options = f"{java_options} {class_archive.java_options() if java is None else java}"
        conf.set("spark.driver.extraJavaOptions", java_options)
        try:
            _launch(conf, log)
            session = SparkSession.builder.config(conf=conf).getOrCreate()
        except (PySparkException, Py4JError, ValueError) as error:
            raise _no_start(error, log, extra) from error
    if cluster.is_cluster(master):
        cluster.ship_engine(session.sparkContext)
    assert isinstance(session.sparkContext, SparkContext)
    return session


def spark_conf(master: str, nodes: int, driver_memory: str) -> dict[str, str]:
    """Every setting that differs from Spark's own."""
    warehouse = tempfile.gettempdir() + "/spillway-warehouse"
    mine = {
        "spark.driver.memory": driver_memory,
        "spark.sql.shuffle.partitions": str(nodes),
        "spark.sql.warehouse.dir": warehouse,
    }
    ours = SHARED_CONF | mine | authentication.conf()
    return ours | (cluster.conf() if cluster.is_cluster(master) else LOCAL_CONF)


def _scratch(folder: Path | None) -> Path:
    """The folder that Spark makes its own in, open to this user alone."""
    return private_folder(folder or Path(tempfile.gettempdir(), f"spillway-spark-{os.getuid()}"))


def _umask() -> str:
    """The process's umask in octal, without changing it for other threads; the usual one where the system does not say."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(), re.M)
        if found:
            return found[1][-3:]
    return "022"


def _set_environment(master: str) -> None:
    """What the JVM and the Python workers inherit."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):  # local-cluster too
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _launch(conf: Any, log: IO[bytes] | None) -> None:
    """Start the JVM with its output, and its workers', in the log; PySpark reuses the gateway.
    (The gateway ignores SIGINT by itself: Ctrl-C is ours.)"""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    inner: Any = SparkContext
    if inner._gateway is None and log is not None:
        start: Any = launch_gateway
        gateway = start(conf, {"stdout": log, "stderr": log})
        inner._ensure_initialized(gateway=gateway)
        jvm: subprocess.Popen[bytes] = gateway.proc
        watch = threading.Thread(
            target=_keep_short, args=(Path(log.name), jvm), name="spark.log", daemon=True
        )
        watch.start()


def _keep_short(log: Path, jvm: subprocess.Popen[bytes]) -> None:
    """Rotates a JVM's log for as long as the JVM writes it."""
    while jvm.poll() is None:
        rotate(log)
        time.sleep(LOG_LOOK_S)


@contextmanager
def _log(log_dir: Path | None) -> Iterator[IO[bytes] | None]:
    if log_dir is None:
        yield None
        return
    path = log_dir / "spark.log"
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
        rotate(path)
        file = path.open("ab")
    except OSError as error:
        raise SetupError(
            f"cannot write Spark's log: {error.strerror}",
            where=str(path),
            hint="Choose another folder with the setting log_dir.",
        ) from error
    with file:
        yield file


@contextmanager
def _log_settings() -> Iterator[str]:
    """JVM options that name a log4j file; the file is read at start and can go afterwards."""
    with tempfile.TemporaryDirectory(prefix="spillway-") as folder:
        path = Path(folder) / "log4j2.properties"
        path.write_text(log4j_properties())
        yield f"-Dlog4j2.configurationFile={path.as_uri()} -XX:+ExplicitGCInvokesConcurrent"


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark installs a SIGINT handler that cancels running jobs; a tick must be let finish."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _no_start(error: Exception, log: IO[bytes] | None, extra: Mapping[str, str]) -> SetupError:
    hint = "Check the master URL and the setting driver_memory."
    if authentication.SECRET in str(error):
        hint = authentication.SECRET_HINT
    elif extra:
        hint = "Look at the settings packages and jars; without a network, jars is the one to use."
    if log is not None:
        last = Path(log.name).read_text(errors="replace").strip().splitlines()[-3:]
        hint += f" Spark's log {log.name} ends with:\n  " + "\n  ".join(last)
    return SetupError(f"Spark does not start: {str(error).splitlines()[0]}", hint=hint)


def use_pool(spark: SparkSession, pool: str) -> None:
    """Jobs started by this thread, and by streaming queries that it starts, share slots fairly with those
    of other pools; within a pool the first come is served first. A pool comes into being by its use."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def make_ready_for_threads(spark: SparkSession) -> None:
    """Before several threads use one session: PySpark starts its callback server on first use, without a
    lock; and a thread's local properties are its own only where each has a thread in the JVM."""
    from py4j.clientserver import ClientServer
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    if not isinstance(gateway, ClientServer):
        raise SetupError(
            "PySpark does not pin threads, so queries would see each other's jobs",
            where="PYSPARK_PIN_THREAD",
            hint="Unset this environment variable.",
        )
    start: Any = ensure_callback_server_started
    start(gateway)


def tokens(spark: SparkSession, nodes: int) -> list[int]:
    """For each node the least int ≥ 0 that Spark's hash partitioning sends to that partition.

    Computed here (asking Spark costs 1.6 s of a cold start); a test compares it with Spark."""
    found: dict[int, int] = {}
    start, step = 0, max(1024, 8 * nodes)
    while len(found) < nodes:
        values = np.arange(start, start + step, dtype=np.uint32)
        targets, first = np.unique(spark_hash(values).astype(np.int64) % nodes, return_index=True)
        for node, index in zip(targets.tolist(), first.tolist(), strict=True):
            found.setdefault(node, start + index)
        start += step
    return [found[node] for node in range(nodes)]


def spark_hash(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Spark SQL's hash() of ints: Murmur3 (x86, 32 bit) with seed 42."""
    h = _rotate(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _rotate(h ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h = h ^ np.uint32(4)  # the length of an int
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def _rotate(x: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
