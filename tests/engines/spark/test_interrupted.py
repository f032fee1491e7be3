"""A command that is stopped while it starts Java says one word, and leaves no Java behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from chaffinch.engines.spark import session
from chaffinch.engines.spark.open_on_cluster import SparkPool
from chaffinch.tables.parallel import Stopped
from tests.engines import plans

PATIENCE = 60.0
MARK = "CHAFFINCH_TEST_MARK"


def _marked(mark: str) -> list[str]:
    """Return the processes that have inherited a mark, by their number."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            inherited = place.read_bytes()
        except OSError:
            continue  # it has ended, or is somebody else's
        if f"{MARK}={mark}".encode() in inherited:
            found.append(place.parent.name)
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("after", [0.0, 0.6, 1.2])
@pytest.mark.parametrize("asked", ["starting Java", "starting an application"])
def test_no_java_is_left(tmp_path: Path, asked: str, after: float) -> None:
    plan, mark = plans.clear(60, 4), secrets.token_hex(8)
    plan.save(tmp_path / "plan.json")
    plans.written(tmp_path / "a.parquet", plan, plans.answers(60, 4))
    words = ["shuffle", "a.parquet", "--plan", "plan.json", "-o", "out", "--engine", "spark"]
    with subprocess.Popen(
        [sys.executable, "-m", "chaffinch", *words, "--master", "local[1]"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {MARK: mark, "XDG_STATE_HOME": str(tmp_path / "state")},
    ) as command:
        assert command.stderr is not None
        while asked not in command.stderr.readline():
            assert command.poll() is None
        time.sleep(after)
        command.send_signal(signal.SIGINT)
        said = command.stderr.read()
    assert command.returncode == 130
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
    end = time.monotonic() + PATIENCE
    while left := _marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.2)


def test_a_java_that_never_starts_does_not_hold_up_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'version "99"\' >&2 || exec sleep 20\n',
        encoding="utf-8",
    )
    program.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(session, "_LAST", 0.1)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    started: list[subprocess.Popen[bytes]] = []

    def start_java(*words: Any, **settings: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*words, **settings))
        return started[-1]

    monkeypatch.setattr("pyspark.java_gateway.Popen", start_java)
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    pool, start = SparkPool("shuffler", "local[1]", stop=stop), time.monotonic()
    with pytest.raises(Stopped):
        list(pool.mapped(max, 1, [2]))
    assert time.monotonic() - start < 10
    (java,) = started
    java.kill()
    with java:  # its pipe is closed, and nothing of it is left to another test
        pass
