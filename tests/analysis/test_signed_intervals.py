"""Intervals around signed tallies: their coverage is summed over the exact law of the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.protocols import intervals as module
from chaffinch.protocols.intervals import intervals
from chaffinch.protocols.noise import SignedNoise
from tests.cases import each_case

LONG = 400


def difference_law(
    noise: SignedNoise, reports: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return P[D = k] for k from −LONG to LONG."""
    share, law = float(noise.exponent(reports)), np.ones(1)
    for weight, ratio in noise.parts:
        one = stats.nbinom.pmf(np.arange(LONG // weight + 1), share, 1 - float(ratio))
        part = np.zeros(2 * weight * (LONG // weight) + 1)
        part[::weight] = np.convolve(one, one[::-1])
        law = np.convolve(law, part)
    middle = len(law) // 2
    return np.asarray(np.pad(law, LONG)[middle : middle + 2 * LONG + 1])


@each_case("gain", [1, 2])
@each_case(
    ("parts", "reports"),
    [
        (((1, "1/2"),), 100),
        (((1, "4/5"),), 100),
        (((1, "2/3"),), 170),
        (((4, "1/2"), (1, "4/5")), 100),
        (((3, "2/3"), (1, "1/2")), 170),
        (((6, "1/3"), (2, "1/2"), (1, "3/4")), 100),
    ],
)
@each_case("level", [0.5, 0.95, 0.999])
def test_every_count_is_covered_and_none_much_too_often(
    parts: tuple[tuple[int, str], ...], reports: int, gain: int, level: float
) -> None:
    exact = tuple((weight, Fraction(ratio)) for weight, ratio in parts)
    noise = SignedNoise(exact, 100, gain)
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


@pytest.mark.parametrize("parts", [((1, "99/100"),), ((16, "9/10"), (1, "99/100"))])
def test_long_laws_are_rounded_outwards(
    parts: tuple[tuple[int, str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = tuple((weight, Fraction(ratio)) for weight, ratio in parts)
    noise, tallies = SignedNoise(exact, 100, 1), np.array([100, 5000])
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
        intervals(SignedNoise(((1, Fraction(1, 2)),), 100, 2), [0.5], 100, 0.9)
