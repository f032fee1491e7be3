"""Two figures that are quick to compute, made once."""

from __future__ import annotations

import pytest

from chaffinch import charts, privacy


@pytest.fixture(scope="session")
def curve() -> charts.Figure:
    return charts.privacy_curve(privacy.FlippedBits(users=1000, flip_probability="0.03"))


@pytest.fixture(scope="session")
def tradeoff() -> charts.Figure:
    return charts.tradeoff(privacy.FlippedBits(users=100, flip_probability="0.005"))
