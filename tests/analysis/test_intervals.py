"""Coverage of every true count, by enumeration of all outcomes with their exact chances."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy.numerics import laws
from chaffinch.privacy.numerics.precision import wide
from chaffinch.protocols import intervals as module
from chaffinch.protocols.intervals import _STEPS, intervals, simultaneous
from chaffinch.protocols.noise import Noise
from tests.analysis import exact
from tests.cases import each_case
from tests.tiers import chequered, nightly

LEVELS = [0.5, 0.8, 0.95, 0.999, 1 - 1e-12]
every_kind = pytest.mark.parametrize("noise", exact.KINDS.values(), ids=list(exact.KINDS))


def every_tally(noise: Noise, reports: int) -> np.ndarray:
    return np.arange(noise.largest(reports) + 1)


def coverage(masses: exact.Masses, held: int, ends: tuple[np.ndarray, np.ndarray]) -> Fraction:
    low, high = ends
    return sum((masses[s] for s in np.flatnonzero((low <= held) & (held <= high))), Fraction(0))


@every_kind
@pytest.mark.parametrize("reports", [1, 2, 9])
def test_every_count_is_covered(noise: Noise, reports: int) -> None:
    truths = [exact.law(noise, held, reports) for held in range(reports + 1)]
    for level in LEVELS:
        ends = intervals(noise, every_tally(noise, reports), reports, level)
        assert all(
            coverage(truth, held, ends) >= Fraction(level) for held, truth in enumerate(truths)
        )


def brute_force(noise: Noise, reports: int, level: float) -> tuple[list[int], list[int]]:
    """Return ends by trying every count with exact tails."""
    truths = [exact.law(noise, held, reports) for held in range(reports + 1)]
    tail = (1 - Fraction(level)) / 2
    lows, highs = [], []
    for seen in every_tally(noise, reports):
        low = next((h for h, t in enumerate(truths) if sum(t[seen:]) > tail), reports)
        last = (h for h in range(reports, -1, -1) if sum(truths[h][: seen + 1]) > tail)
        high = next(last, 0)
        lows.append(min(low, high))
        highs.append(max(low, high))
    return lows, highs


@every_kind
@pytest.mark.parametrize("reports", [1, 2, 9])
def test_small_crowds_get_the_exact_inversion(noise: Noise, reports: int) -> None:
    for level in (0.8, 0.95, 1 - 1e-12):
        low, high = intervals(noise, every_tally(noise, reports), reports, level)
        assert (low.tolist(), high.tolist()) == brute_force(noise, reports, level)


def test_the_enumeration_notices_a_wrong_miss_probability() -> None:
    reports, held, level = 250, 3, 0.95
    right = Noise(1, Fraction(4, 5), Fraction(1, 5))
    wrong = Noise(1, Fraction(4, 5), Fraction(1, 5) * Fraction(11, 10))
    truth = exact.law(right, held, reports)
    tallies = every_tally(right, reports)
    assert coverage(truth, held, intervals(right, tallies, reports, level)) >= level
    assert coverage(truth, held, intervals(wrong, tallies, reports, level)) < level


# Larger crowds: the same enumeration with certified windows, through every way to an answer.

WAYS: dict[str, dict[str, float]] = {
    "exact": {},
    "lattice": {"_PRODUCTS": 1, "_STEPS": 4},
    "little work": {"_WORK": 1.0, "_ROUGH_WORK": 1.0},
    "closed bounds": {"_LONGEST_VARIANCE": 0.0},
}
LARGE = {
    "flips": (Noise.flips(Fraction(3, 10)), 1_500),
    "rare flips": (Noise.flips(Fraction(1, 1_000)), 9_000),
    "copies": (Noise.flips(Fraction(1, 20), copies=4), 1_000),
    "clear": (Noise(1, Fraction(1), Fraction(0), 1, Fraction(1, 10)), 1_500),
    "flips and decoys": (
        Noise.flips_with_decoys(Fraction(1, 10), decoy_slots=1, rate=Fraction(1, 2), values=9),
        1_500,
    ),
    "response": (Noise(1, Fraction(1, 3), Fraction(2, 15)), 1_500),
}


def window(noise: Noise, held: int, reports: int, cut: Fraction = Fraction(1, 10**16)) -> laws.Law:
    """Return the certified law of the tally but for a few times ``cut``."""
    tail = wide(cut)
    parts = (
        laws.binomial(noise.copies * held, noise.hit, tail),
        laws.binomial(noise.copies * (reports - held), noise.miss, tail),
        laws.binomial(noise.cover_slots * reports, noise.cover, tail),
    )
    return laws.convolve(laws.convolve(parts[0], parts[1]), parts[2])


def missed(noise: Noise, reports: int, held: int, level: float) -> tuple[float, float]:
    """Return the chances that the interval lies above and below the true count."""
    law = window(noise, held, reports)
    tallies = np.arange(law.start, law.stop)
    inside = (tallies >= 0) & (tallies <= noise.largest(reports))
    low, high = intervals(noise, tallies[inside], reports, level)
    masses = law.mass[inside]
    return float(masses[low > held].sum()), float(masses[high < held].sum())


def use(way: str, patch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[way].items():
        patch.setattr(module, name, value)


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        # The slow ones: flips and decoys stay with an exact law, and rare flips with a lattice.
        nightly(*one) if one in (("flips", "exact"), ("response", "lattice")) else one
        for one in chequered(((kind,) for kind in LARGE), list(WAYS))
    ],
)
def test_large_crowds_are_covered(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise, reports = LARGE[kind]
    use(way, monkeypatch)
    for held in (1, reports // 3, reports):
        for level in (0.9, 0.999):
            above, below = missed(noise, reports, held, level)
            assert max(above, below) <= (1 - level) / 2 + 1e-13


@each_case("kind", LARGE)
def test_large_crowds_are_hardly_wider_than_they_must_be(kind: str) -> None:
    noise, reports = LARGE[kind]
    tallies = np.array([int(noise.base(reports) + noise.slope * h) for h in (400, reports // 2)])
    ends = intervals(noise, tallies, reports, 0.95)
    spread = noise.standard_error(reports, noise.estimate(tallies, reports))
    room = module.SHARPNESS * spread + 3 / _STEPS * spread
    for seen, low, high, slack in zip(tallies, *ends, room, strict=True):
        # At the exact ends the tails are just above 0.025; beyond the slack they are not.
        inner = window(noise, int(low + slack) + 1, reports)
        assert inner.mass[max(seen - inner.start, 0) :].sum() > 0.025
        inner = window(noise, int(high - slack) - 1, reports)
        assert inner.mass[: max(seen - inner.start + 1, 0)].sum() > 0.025


@each_case("way", ["lattice", "closed bounds"])
@each_case("kind", ["flips", "clear", "response"])
def test_other_ways_never_give_narrower_intervals(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, reports = LARGE[kind]
    tallies = np.linspace(0, noise.largest(reports), 40).astype(np.int64)
    # The exact inversion itself: no room for distance between tried counts.
    monkeypatch.setattr(module, "SHARPNESS", 1e-9)
    monkeypatch.setattr(module, "_PRODUCTS", 1 << 60)
    low, high = intervals(noise, tallies, reports, 0.95)
    use(way, monkeypatch)
    wide_low, wide_high = intervals(noise, tallies, reports, 0.95)
    assert (wide_low <= low).all()
    assert (wide_high >= high).all()
    assert (wide_high - wide_low > high - low).any()


@pytest.mark.parametrize(
    "noise", [Noise.flips(Fraction(1, 4)), Noise(1, Fraction(1, 2), Fraction(1, 10))], ids=str
)
def test_closed_bounds_lose_little_in_huge_crowds(noise: Noise) -> None:
    reports = 64 * 10**10
    tallies = [int(noise.base(reports) + noise.slope * h) for h in (10**9, 10**11)]
    low, high = intervals(noise, tallies, reports, 0.95)
    spread = noise.standard_error(reports, noise.estimate(tallies, reports))
    normal = 2 * 1.959964 * spread
    assert ((high - low >= normal) & (high - low <= 1.001 * normal)).all()


crowds = st.tuples(
    st.sampled_from(sorted(exact.KINDS)),
    st.integers(1, 200),
    st.sampled_from(LEVELS),
    st.sampled_from(LEVELS),
)


@given(crowds)
def test_laws_of_intervals(crowd: tuple[str, int, float, float]) -> None:
    kind, reports, *levels = crowd
    noise = exact.KINDS[kind]
    tallies = np.unique(np.linspace(0, noise.largest(reports), 60).astype(np.int64))
    (low, high), (wide_low, wide_high) = (
        intervals(noise, tallies, reports, level) for level in sorted(levels)
    )
    assert ((low >= 0) & (low <= high) & (high <= reports)).all()
    # Monotone in the tally, up to impossible tallies, which reject every count.
    if kind != "no noise":
        assert (np.diff(low) >= 0).all()
        assert (np.diff(high) >= 0).all()
        step = 1 + module.SHARPNESS * noise.standard_error(reports)
        assert (wide_low <= low + step).all()
        assert (wide_high >= high - step).all()
    mirrored = noise.largest(reports) - tallies
    mirror_low, mirror_high = intervals(noise.mirrored(), mirrored, reports, min(levels))
    np.testing.assert_array_equal(mirror_low, reports - high)
    np.testing.assert_array_equal(mirror_high, reports - low)


def test_together_all_values_are_covered_and_one_by_one_they_are_not() -> None:
    # Given the data, flips of different values are independent: chances multiply.
    noise, reports, values, level = Noise.flips(Fraction(1, 5)), 12, 20, 0.9
    tallies = every_tally(noise, reports)
    truth = exact.law(noise, 0, reports)
    joint = simultaneous(noise, tallies, reports, level, comparisons=values)
    alone = intervals(noise, tallies, reports, level)
    assert coverage(truth, 0, joint) ** values >= Fraction(level)
    assert coverage(truth, 0, alone) ** values < Fraction(level)


def test_together_shares_the_chance_to_miss_among_the_tallies() -> None:
    noise = Noise.flips(Fraction(1, 10))
    together = simultaneous(noise, [30, 40, 50, 60], 100, 0.96)
    np.testing.assert_array_equal(together, intervals(noise, [30, 40, 50, 60], 100, 0.99))
    none = np.zeros(0, dtype=np.int64)
    assert [len(end) for end in simultaneous(noise, none, 100, 0.96)] == [0, 0]


def test_a_million_values_at_an_extreme_level() -> None:
    noise, reports = Noise.flips(Fraction(5, 10**6)), 10**7
    tallies = np.arange(10**6) % 700
    low, high = simultaneous(noise, tallies, reports, 1 - 1e-12)
    assert low.shape == high.shape == tallies.shape
    tail = (1 - (1 - 1e-12)) / 2e6
    for seen in (90, 350, 699):
        for held, small in ((low[seen] - 1, True), (low[seen] + 1, False)):
            assert (tails_of(noise, held, reports, seen)[0] <= tail) == small
        for held, small in ((high[seen] + 1, True), (high[seen] - 1, False)):
            assert (tails_of(noise, held, reports, seen)[1] <= tail) == small


def tails_of(noise: Noise, held: int, reports: int, seen: int) -> tuple[float, float]:
    """Return P[S ≥ seen] and P[S ≤ seen], good to 1e-28."""
    if not 0 <= held <= reports:
        return 0.0, 0.0
    law = window(noise, int(held), reports, Fraction(1, 10**30))
    at = seen - law.start
    return float(law.mass[max(at, 0) :].sum()), float(law.mass[: max(at + 1, 0)].sum())


@pytest.mark.parametrize("copies", [1, 3])
def test_shapes_are_kept(copies: int) -> None:
    noise = Noise.flips(Fraction(1, 10), copies=copies)
    assert intervals(noise, 5, 10, 0.9)[0].shape == ()
    assert intervals(noise, [[1, 2], [3, 4]], 10, 0.9)[1].shape == (2, 2)
    assert intervals(noise, [], 10, 0.9)[0].shape == (0,)


@each_case(
    ("tallies", "level"),
    [([11], 0.9), ([-1], 0.9), ([1.0], 0.9), ([1], 1.0), ([1], 0.2), ([1], float("nan"))],
)
def test_bad_input_is_refused_without_showing_tallies(tallies: list[int], level: float) -> None:
    with pytest.raises(InvalidInput) as refusal:
        intervals(Noise.flips(Fraction(1, 10)), tallies, 10, level)
    assert "11" not in str(refusal.value)


def test_fewer_comparisons_than_tallies_are_refused() -> None:
    with pytest.raises(InvalidInput):
        simultaneous(Noise.flips(Fraction(1, 10)), [1, 2], 10, 0.9, comparisons=1)
