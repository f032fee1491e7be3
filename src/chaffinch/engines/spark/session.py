"""A Spark application: the one that runs already, or one of our own for a single command.

Spark writes what its tasks exchange, and what is broadcast to them, to the disks of all machines.
So an application must have ``spark.io.encryption.enabled``, or nothing is done in it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.engines.spark.java import java_home
from chaffinch.errors import ClusterFault, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_ENCRYPTION = "spark.io.encryption.enabled"
_CIPHER = "spark.network.crypto.enabled"
_MODE = "spark.submit.deployMode"
_NAME, _UNNAMED = "chaffinch", "pyspark-shell"
_LOCAL = "local[*]"
_QUIET = """status = off
appenders = none
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
_USUAL = {
    _ENCRYPTION: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
}
"""What our own applications have, unless Spark's own configuration says otherwise."""
_USUAL_ON_NETWORKS = {
    "spark.authenticate": "true",
    _CIPHER: "true",
}
"""What they have besides where there are several machines."""
_PARTIES: dict[str, str] = {}
"""Which party's data an application has worked on, by the application's id."""


@contextmanager
def running(master: str | None = None) -> Iterator[SparkContext]:
    """Give the application that is active, or start one and stop it at the end.

    An own one runs on ``master``; by default where Spark's configuration says (``spark-submit``),
    or on all cores of this machine.
    """
    with _missing_extra(), _no_warnings():
        from pyspark import SparkContext
    active: SparkContext | None = SparkContext._active_spark_context  # noqa: SLF001 - the one way to ask
    if active is not None:
        if master is not None and master != active.master:
            raise InvalidInput("master", f"that of the session that runs, {active.master}", master)
        check_settings(active.getConf())
        yield active
        return
    context = _started(master)
    try:
        check_settings(context.getConf())
        yield context
    finally:
        with suppress(Exception):  # a driver that died has nothing to stop
            context.stop()


def take_part(context: SparkContext, party: str) -> None:
    """Refuse an application that has worked for another party: the two must not trust it both."""
    before = _PARTIES.setdefault(context.applicationId, party)
    if before != party:
        raise InvalidInput(
            "Spark application",
            f"one of the {party}'s own",
            f"one that has worked for the {before}",
            hint="shuffle and analyze in two applications, as two operators do: whoever runs both "
            "sees which messages came together",
        )


def check_settings(settings: SparkConf) -> None:
    """Refuse an application that would show secrets as they are, or forget what was done."""
    alone = settings.get("spark.master", _LOCAL).startswith("local")
    for name in (_ENCRYPTION,) if alone else (_ENCRYPTION, *_USUAL_ON_NETWORKS):
        if settings.get(name, "false") != "true" and not _sealed_otherwise(settings, name):
            raise InvalidInput(
                "Spark session",
                f"one with {name}=true",
                "one without",
                hint="messages and the secret of a job would lie on the disks of the cluster, or "
                "cross its network, as they are; set it when the session is made",
            )
    if settings.get(_MODE, "client") == "cluster":
        raise InvalidInput(
            "Spark session",
            f"one with {_MODE}=client",
            "cluster",
            hint="records of what was shuffled and published are kept where the command runs; in "
            "the mode cluster that is another machine every time, and people would count twice",
        )


def _sealed_otherwise(settings: SparkConf, name: str) -> bool:
    """Return whether TLS between the machines stands for Spark's own cipher."""
    return name == _CIPHER and settings.get("spark.ssl.rpc.enabled", "false") == "true"


def _started(master: str | None) -> SparkContext:
    """Start Java, unless it runs, and an application in it; neither says a word here."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    with tempfile.TemporaryFile() as said, _environment(), _own_interrupt(), _no_warnings():
        try:
            _launch(said.fileno())
            context = SparkContext(conf=_configured(master))
        except (Py4JError, PySparkException, OSError) as error:
            said.seek(0)
            raise _not_started(error, said.read().decode(errors="replace")) from None
    context.setLogLevel("OFF")
    return context


def _launch(errors: int) -> None:
    """Start Java with its words going to a file; ``spark-submit`` has started it already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001 - as Spark asks itself
        return
    quiet = _files() / "log4j2.properties"
    quiet.write_text(_QUIET, encoding="utf-8")
    settings = SparkConf(loadDefaults=False)
    settings.set("spark.driver.defaultJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
    words = {"stdout": errors, "stderr": errors}
    gateway = launch_gateway(settings, popen_kwargs=words)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)  # noqa: SLF001


def _configured(master: str | None) -> SparkConf:
    """Return what Spark's own configuration says, and ours where it says nothing."""
    from pyspark import SparkConf

    settings = SparkConf()
    if master is not None:
        settings.setMaster(master)
    settings.setIfMissing("spark.master", _LOCAL)
    if settings.get("spark.app.name", _UNNAMED) == _UNNAMED:
        settings.setAppName(_NAME)
    alone = settings.get("spark.master", "").startswith("local")
    for name, value in (_USUAL if alone else _USUAL | _USUAL_ON_NETWORKS).items():
        settings.setIfMissing(name, value)
    return settings


def _not_started(error: Exception, said: str) -> ClusterFault:
    """Return the fault of an application that did not start; no data was near it yet."""
    cause = getattr(error, "java_exception", None)
    told = str(cause.getMessage()) if cause is not None else ""
    lines = [line.strip() for line in (told or said or str(error)).splitlines() if line.strip()]
    return ClusterFault(
        f"The Spark application must start. Got {lines[0][:300] if lines else 'no answer'}",
        hint="check the master's address, its Java and its secret (spark.authenticate.secret)",
    )


@contextmanager
def _missing_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingExtra('engine "spark"', "spark") from None


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Keep to itself what Spark thinks of the versions of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _environment() -> Iterator[None]:
    """Say, while an application starts, which Java and which Python it is to run."""
    added = {}
    if "PYSPARK_PYTHON" not in os.environ:
        added["PYSPARK_PYTHON"] = sys.executable
    home = java_home(_files())
    if home is not None:
        added["JAVA_HOME"] = str(home)
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep what Ctrl-C does here: Spark puts its own in the place, and jobs are ended by us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Files:
    """A folder for what Java reads when it starts; it goes with this process."""

    folder: tempfile.TemporaryDirectory[str] | None = None


def _files() -> Path:
    if _Files.folder is None:
        _Files.folder = tempfile.TemporaryDirectory(prefix="chaffinch-spark-")
    return Path(_Files.folder.name)
