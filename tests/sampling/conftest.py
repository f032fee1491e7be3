"""Run a test once with each implementation of the loops."""

from __future__ import annotations

import pytest

from chaffinch.sampling import backends
from tests.sampling.sources import available


@pytest.fixture(params=["native", "numpy"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> backends.Loops:
    """Put one implementation in place and return it."""
    if request.param not in available():
        pytest.skip("the C extension is not built here")
    chosen = backends.choose(request.param)[1]
    monkeypatch.setattr(backends, "LOOPS", chosen)
    return chosen
