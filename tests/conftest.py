"""How property tests run: a fixed, small sample in the gate; a large, fresh one at night."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The gate must say the same thing twice, so its examples are fixed.
settings.register_profile("gate", derandomize=True, max_examples=25, deadline=None)
settings.register_profile(
    "long",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gate")

# Whoever starts tests in the background may have let these be ignored, and so would all processes
# that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


_FIRST = {"test_cluster", "test_cuts", "test_day", "test_kills", "test_reach_day", "test_rehearsal"}
"""Files whose tests take longest: begun last, one of them would keep all other cores waiting."""


@pytest.hookimpl(trylast=True)  # after they were put into a random order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests begin early, where several processes share them out."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.path.stem not in _FIRST)


gc.disable()  # while tests are collected: all that is made meanwhile stays


@pytest.hookimpl(tryfirst=True)  # before the tests are run, or shared out
def pytest_runtestloop() -> None:
    """Let nobody look for garbage in what has been collected, again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _state_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the records made by tests out of the user's own folder."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _own_state(_state_of_session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test know what another has recorded: they use copies of the same keys."""
    monkeypatch.setenv("XDG_STATE_HOME", str(_state_of_session / secrets.token_hex(8)))
