"""Intervals around signed tallies: their coverage is summed over the exact law of the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chaffinch.analysis import intervals as module
from chaffinch.analysis.intervals import intervals
from chaffinch.errors import InvalidInput
from chaffinch.protocols.noise import SignedNoise

LONG = 400


def difference_law(
    noise: SignedNoise, reports: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return P[D = k] for k from −LONG to LONG."""
    share = float(noise.exponent(reports))
    one = stats.nbinom.pmf(np.arange(LONG + 1), share, 1 - float(noise.ratio))
    return np.asarray(np.convolve(one, one[::-1]))


@pytest.mark.parametrize("gain", [1, 2])
@pytest.mark.parametrize(("ratio", "reports"), [("1/2", 100), ("4/5", 100), ("2/3", 170)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_every_count_is_covered_and_none_much_too_often(
    ratio: str, reports: int, gain: int, level: float
) -> None:
    noise = SignedNoise(Fraction(ratio), 100, gain)
    law, moves = difference_law(noise, reports), np.arange(-LONG, LONG + 1)
    for held in (0, 1, reports // 2, reports):
        tallies = moves + int(noise.base(reports)) + gain * held
        low, high = intervals(noise, tallies, reports, level)
        inside = (low <= held) & (held <= high)
        assert float(law[inside].sum()) >= level - 1e-12
        # One step less on either side would miss too often.
        reach = np.abs(moves[inside]).max() if 0 < held < reports else None
        if reach is not None:
            assert float(law[np.abs(moves) < reach - gain].sum()) < level


def test_long_laws_are_rounded_outwards(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, tallies = SignedNoise(Fraction(99, 100), 100, 1), np.array([100, 5000])
    low, high = intervals(noise, tallies, 10_000, 0.99)
    module._critical_difference.cache_clear()  # noqa: SLF001 - another lattice is tried
    monkeypatch.setattr(module, "_MOST_POINTS", 100)
    rough_low, rough_high = intervals(noise, tallies, 10_000, 0.99)
    module._critical_difference.cache_clear()  # noqa: SLF001 - nobody else gets it
    assert (rough_low <= low).all()
    assert (rough_high >= high).all()
    assert (rough_high - rough_low > high - low).any()


def test_a_tally_is_a_whole_number() -> None:
    with pytest.raises(InvalidInput):
        intervals(SignedNoise(Fraction(1, 2), 100, 2), [0.5], 100, 0.9)
