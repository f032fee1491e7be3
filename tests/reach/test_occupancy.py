"""The law of the set bits of one row, against exact rationals; what it leaves misses nobody."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
import pytest

from chaffinch.reach.analyzer.occupancy import SetBits, ids_of_row
from tests.tiers import nightly

Law = tuple[Fraction, ...]


@lru_cache
def held(balls: int, bits: int) -> Law:
    """Return the chances that so many columns have a ball, one ball after the other."""
    law = [Fraction(1), *[Fraction(0)] * bits]
    for _ in range(balls):
        moved = [Fraction(0), *(chance * (bits - k) / bits for k, chance in enumerate(law[:-1]))]
        law = [chance * k / bits + moved[k] for k, chance in enumerate(law)]
    return tuple(law)


def binomial(count: int, chance: Fraction) -> Law:
    return tuple(
        math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(count + 1)
    )


@lru_cache
def exact(balls: int, bits: int, flip: Fraction) -> Law:
    """Return the law of the set bits, in fractions."""
    found = [Fraction(0)] * (bits + 1)
    for full, chance in enumerate(held(balls, bits)):
        if chance:
            kept, wrong = binomial(full, 1 - flip), binomial(bits - full, flip)
            for k, one in enumerate(kept):
                for j, other in enumerate(wrong):
                    found[k + j] += chance * one * other
    return tuple(found)


FLIPS = [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10), Fraction(2, 5)]


@pytest.mark.long
def test_tails_are_those_of_the_exact_law() -> None:
    for bits, balls in ((3, 1), (3, 7), (8, 2), (8, 20), (16, 3), (16, 7)):
        for flip in FLIPS:
            law = exact(balls, bits, flip)
            below = [float(chance) for chance in accumulate(law)]
            above = [float(chance) for chance in accumulate(law[::-1])][::-1]
            row = SetBits(balls, bits, 1, float(flip))
            at_most = [row.at_most(seen) for seen in range(bits + 1)]
            at_least = [row.at_least(seen) for seen in range(bits + 1)]
            assert at_most == pytest.approx(below, rel=5e-7, abs=1e-15), (bits, balls, flip)
            assert at_least == pytest.approx(above, rel=5e-7, abs=1e-15), (bits, balls, flip)
            mean = sum(seen * chance for seen, chance in enumerate(law))
            assert row.mean == pytest.approx(float(mean))


def in_floats(balls: int, bits: int, flip: float) -> tuple[np.ndarray, np.ndarray]:
    """Return both tails for every number of set bits; all terms are positive."""
    from scipy import stats

    full, places = np.zeros(bits + 1), np.arange(bits + 1)
    full[0] = 1.0
    for _ in range(balls):
        moved = full[:-1] * (bits - places[:-1]) / bits
        full = full * places / bits
        full[1:] += moved
    law = np.zeros(bits + 1)
    for k in np.flatnonzero(full > 1e-25).tolist():
        kept = stats.binom.pmf(np.arange(k + 1), k, 1 - flip)
        law += full[k] * np.convolve(kept, stats.binom.pmf(np.arange(bits - k + 1), bits - k, flip))
    return np.cumsum(law), np.cumsum(law[::-1])[::-1]


@pytest.mark.parametrize(
    ("bits", "balls", "flip"),
    [
        (1000, 30, 1e-3),
        nightly(1000, 2500, 0.2),
        *(
            nightly(bits, balls, flip)
            for bits, balls in ((1000, 250), (1000, 300), (4096, 700), (300, 1000), (8000, 300))
            for flip in (1e-6, 1e-3, 0.02, 0.2, 0.45)
        ),
    ],
)
def test_tails_of_larger_rows_are_those_of_the_law(bits: int, balls: int, flip: float) -> None:
    below, above = in_floats(balls, bits, flip)
    row, tried = SetBits(balls, bits, 1, flip), 0
    for seen in range(0, bits + 1, 1 + bits // 4000):
        if min(below[seen], above[seen]) > 1e-12 and max(below[seen], above[seen]) < 1 - 1e-12:
            assert row.at_most(seen) == pytest.approx(below[seen], rel=1e-6)
            assert row.at_least(seen) == pytest.approx(above[seen], rel=1e-6)
            tried += 1
    assert tried > 8


@lru_cache
def ends(seen: int, bits: int, hashes: int, flip: Fraction) -> tuple[int, int]:
    return ids_of_row(seen, 0.025, bits=bits, hashes=hashes, flip=float(flip))


def coverage(bits: int, hashes: int, ids: int, flip: Fraction, *, believed: Fraction) -> Fraction:
    """Return the exact chance that a 95 % interval holds the number of ids, or a little less."""
    inside = Fraction(0)
    for seen, chance in enumerate(exact(hashes * ids, bits, flip)):
        # What is hardly ever seen counts as missed: a nearly full row takes long.
        if chance > Fraction(1, 10**4):
            low, high = ends(seen, bits, hashes, believed)
            inside += chance * (low <= ids <= high)
    return inside


def test_every_number_of_ids_is_covered_for_certain() -> None:
    for bits, hashes, flip in ((40, 1, Fraction(1, 10)), (40, 2, Fraction(1, 100))):
        for ids in (0, 1, 2, 5):
            assert coverage(bits, hashes, ids, flip, believed=flip) >= 0.95, (hashes, flip, ids)


def test_the_enumeration_notices_flips_that_are_wrong() -> None:
    bits, flip = 40, Fraction(1, 10)
    for believed in (flip / 2, flip * 2):
        assert any(coverage(bits, 1, ids, flip, believed=believed) < 0.95 for ids in (0, 5))


def test_ends_are_the_first_that_are_not_rejected() -> None:
    for bits, hashes, flip, seen in (
        (4096, 1, 0.1, 500),
        (4096, 3, 0.01, 120),
        (4096, 1, 0.3, 2000),
    ):
        for tail in (0.025, 1e-4, 1e-9):
            low, high = ids_of_row(seen, tail, bits=bits, hashes=hashes, flip=flip)
            rows = {
                n: SetBits(n, bits, hashes, flip) for n in (low - 1, low, high, high + 1) if n >= 0
            }
            assert rows[low].at_least(seen) > tail * (1 - 1e-5)
            assert low == 0 or rows[low - 1].at_least(seen) <= tail
            assert rows[high].at_most(seen) > tail * (1 - 1e-5)
            assert rows[high + 1].at_most(seen) <= tail


def test_fewer_set_bits_than_flips_make_stand_for_nobody() -> None:
    assert ids_of_row(50, 0.025, bits=1000, hashes=1, flip=0.1) == (0, 0)
    assert ids_of_row(100, 0.025, bits=1000, hashes=1, flip=0.1)[0] == 0


def test_tails_of_millions_are_those_of_the_moments() -> None:
    """Far from few, the law is nearly normal, and its moments are known in closed form."""
    from scipy import special

    bits, ids, flip = 2**24, 10**6, 0.01
    row = SetBits(ids, bits, 3, flip)
    load, empty = 3 * ids / bits, math.exp(-3 * ids / bits)
    hash_variance = bits * empty * (1 - (1 + load) * empty)
    variance = bits * flip * (1 - flip) + (1 - 2 * flip) ** 2 * hash_variance
    for z in (-3.0, -1.0, 1.0, 3.0):
        seen = round(row.mean + z * math.sqrt(variance))
        exactly = (seen - 0.5 - row.mean) / math.sqrt(variance)
        assert row.at_least(seen) == pytest.approx(float(special.ndtr(-exactly)), rel=0.01)
