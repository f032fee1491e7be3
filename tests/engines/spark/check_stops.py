"""A job that is stopped: its tasks are told so before anybody clears up behind them."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.tasks import Keyring

if TYPE_CHECKING:
    from pyspark import SparkContext

SECONDS = 60


def test_a_job_that_is_stopped_ends_at_once_without_a_word(
    context: SparkContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen, gate = tmp_path / "seen", tmp_path / "gate"

    def held(_ring: Keyring, _piece: int) -> None:
        seen.touch()
        while not gate.exists():
            time.sleep(0.02)

    def stop() -> None:
        while not seen.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    running, end = context.statusTracker(), time.monotonic() + SECONDS
    threading.Thread(target=stop).start()
    with Job(context) as job:
        with pytest.raises(KeyboardInterrupt):
            job.map(held, [0])
        while running.getActiveJobsIds() and time.monotonic() < end:
            time.sleep(0.05)
        left = running.getActiveJobsIds()
    gate.touch()
    assert not left
    assert not caplog.records


def test_a_job_that_is_stopped_before_it_has_begun_ends_too(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, true = tmp_path / "gate", context.setJobGroup
    asked = threading.Event()

    def late(*given: Any, **options: Any) -> None:
        asked.wait(SECONDS)
        time.sleep(0.5)  # by now whoever stops it has said so
        true(*given, **options)

    def held(_ring: Keyring, _piece: int) -> None:
        end = time.monotonic() + SECONDS
        while not gate.exists() and time.monotonic() < end:
            time.sleep(0.02)

    def stop(_done: int, _total: int | None) -> None:
        asked.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(context, "setJobGroup", late)
    start = time.monotonic()
    with Job(context) as job, pytest.raises(KeyboardInterrupt):
        job.map(held, [0], progress=stop)
    taken = time.monotonic() - start
    gate.touch()
    assert taken < SECONDS / 2
