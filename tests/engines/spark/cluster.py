"""A real cluster on this machine: a master, workers and executors, each a process, on loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from chaffinch.engines.spark.session import java_home
from tests.disk.object_store import SETTINGS
from tests.engines.spark.work import WORKERS

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[3]
# Executors on one machine would read what a killed one has left on the disk they share; here they
# do as on two machines, where it is gone.
DEFAULTS = """
spark.shuffle.readHostLocalDisk false
spark.shuffle.io.maxRetries 1
spark.shuffle.io.retryWait 200ms
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.executor.memory 512m
spark.executor.cores 1
spark.driver.memory 512m
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.eventLog.enabled true
spark.eventLog.dir file://{events}
spark.eventLog.compress false
spark.driver.extraJavaOptions {java}
spark.executor.extraJavaOptions {java}
spark.executorEnv.PYTHONPATH {root}
spark.local.dir {local}
{store}
"""
JAVA = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Less work to start, for what runs seconds only."""
PRELOADED = """
spark.python.daemon.module tests.engines.spark.daemon
spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled false
"""
"""For many tests: Python workers start in a third of the time, and frames have the same ones."""
START_SECONDS = 60


@dataclass(frozen=True)
class Cluster:
    """Where the master listens, and where its processes leave what they write."""

    url: str
    folder: Path

    @property
    def settings(self) -> dict[str, str]:
        """Return what a driver's environment must say to take part."""
        return {"SPARK_CONF_DIR": str(self.folder / "conf"), "PYSPARK_PYTHON": sys.executable}

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """Yield what its processes have written; what they remove meanwhile is left out."""
        for place, _, names in os.walk(self.folder):
            for path in (Path(place, name) for name in names):
                with suppress(FileNotFoundError):
                    if path.is_file():
                        yield path, path.read_bytes()

    def executors(self) -> list[int]:
        """Return the processes of the executors that run now."""
        return [
            int(place.name)
            for place in Path("/proc").iterdir()
            if place.name.isdigit() and self._is_executor(place)
        ]

    def _is_executor(self, place: Path) -> bool:
        with suppress(OSError):
            words = (place / "cmdline").read_bytes()
            own = str(self.folder).encode() in (place / "environ").read_bytes()
            return own and b"CoarseGrainedExecutorBackend" in words
        return False


@contextmanager
def started(
    folder: Path,
    hosts: Sequence[str] = ("127.0.0.1",) * WORKERS,
    settings: str = "",
    executors: int = 1,
) -> Iterator[Cluster]:
    """Start a cluster; at the end, however it comes, none of its processes is left.

    Each worker is on one of the ``hosts``, which may be other addresses of loopback, and has room
    for so many ``executors``.
    """
    for name in ("conf", "events", "logs", "work", "local"):
        (folder / name).mkdir()
    text = DEFAULTS.format(
        secret=secrets.token_hex(16),
        events=folder / "events",
        local=folder / "local",
        java=JAVA,
        root=ROOT,
        store="\n".join(f"spark.executorEnv.{name} {value}" for name, value in SETTINGS.items()),
    )
    (folder / "conf" / "spark-defaults.conf").write_text(text + settings, encoding="utf-8")
    port = _free_port()
    cluster = Cluster(f"spark://127.0.0.1:{port}", folder)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_launch(cluster, "master", "master.Master", "--port", str(port)))
        _wait(lambda: _listens(port))
        room = ("-c", str(executors), "-m", f"{executors}g")
        worker = (*room, "-d", str(folder / "work"), cluster.url)
        processes += [
            _launch(cluster, f"worker{number}", "worker.Worker", *worker, host=host)
            for number, host in enumerate(hosts)
        ]
        yield cluster
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for number in cluster.executors():  # they outlive a worker that is killed
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _launch(
    cluster: Cluster, name: str, kind: str, *words: str, host: str = "127.0.0.1"
) -> subprocess.Popen[bytes]:
    environment = (
        os.environ
        | cluster.settings
        | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(cluster.folder / "local"),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
        }
    )
    home = java_home(cluster.folder / "java")
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    command = [shutil.which("nice") or "nice", str(HOME / "bin" / "spark-class")]
    command += [f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]
    with (cluster.folder / "logs" / name).open("wb") as log:
        return subprocess.Popen(
            [*command, *words],
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not ready():
        assert time.monotonic() < end, "the master does not start"
        time.sleep(0.05)
