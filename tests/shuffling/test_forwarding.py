"""How long the next party is left alone after a failure."""

from __future__ import annotations

import secrets

import pytest

from chaffinch.shuffling.forwarding import Patience


@pytest.mark.parametrize(
    ("failures", "most"), [(1, 2.0), (2, 4.0), (5, 32.0), (6, 50.0), (10**9, 50.0)]
)
def test_a_pause_is_twice_as_long_each_time_up_to_the_longest(
    monkeypatch: pytest.MonkeyPatch, failures: int, most: float
) -> None:
    """From half of it to all of it, by lot: hops that were cut off together come back apart."""
    patience = Patience(first_pause=2.0, longest_pause=50.0)
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    assert patience.pause(failures) == most / 2
    monkeypatch.setattr(secrets, "randbelow", lambda bound: bound - 1)
    assert patience.pause(failures) == pytest.approx(most, rel=1e-5)
    assert patience.pause(failures) < most
    monkeypatch.undo()
    assert len({patience.pause(failures) for _ in range(20)}) > 10
