"""What intervals are made of, each piece against a calculation of its own."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats

from chaffinch.errors import InvalidInput
from chaffinch.privacy.numerics import laws
from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.precision import ROUNDOFF, Wide
from chaffinch.protocols import intervals as module
from chaffinch.protocols.intervals import (
    LYAPUNOV,
    SHARPNESS,
    _among_decoys,
    _arrival_step,
    _bounded_tail,
    _by_chernoff,
    _by_normal,
    _chernoff_difference,
    _difference,
    _lower_ends,
    _on_lattice,
    _rejected,
    _rounded_up,
    _sum,
    _Tail,
    _tail_of_tally,
    _Tried,
    farthest_end,
    intervals,
    law_of_difference,
    rounding_share,
    simultaneous,
    two_sided,
)
from chaffinch.protocols.noise import DecoyNoise, Noise, SeenDecoys, SignedNoise, TallyNoise
from chaffinch.wire.batches import Counts
from tests.analysis import exact
from tests.cases import each_case

RESPONSE = Noise(1, Fraction(1, 3), Fraction(2, 15))
"""Reports that hold the value scatter more than others."""
LIVELY = {
    "flips": Noise.flips(Fraction(3, 10)),
    "response": RESPONSE,
    "mirrored": RESPONSE.mirrored(),
    "copies": Noise.flips(Fraction(1, 20), copies=4),
    "flips and decoys": exact.KINDS["flips and decoys"],
}


def law_from(start: int, masses: list[float], relative: float = 0.0, missing: float = 0.0) -> Law:
    return Law(start, np.array(masses, dtype=Wide), Wide(relative), Wide(missing))


# ------------------------------------------------------------------ what is refused, and the shares


@each_case("tallies", [[-1, 5], [5, 26], [0.5], [True], ["5"]])
def test_tallies_that_cannot_be_are_refused(tallies: list[object]) -> None:
    for noise in (Noise.flips(Fraction(1, 10)), SeenDecoys(2, np.array([15]))):
        with pytest.raises(InvalidInput):
            two_sided(noise, tallies, 10, 0.1)  # type: ignore[arg-type]


def test_no_tally_is_larger_than_all_reports_and_decoys() -> None:
    for arrived in (0, 7):
        noise = SeenDecoys(2, np.array([arrived]))
        two_sided(noise, [10 + arrived], 10, 0.1)
        with pytest.raises(InvalidInput):
            two_sided(noise, [11 + arrived], 10, 0.1)
    none = np.zeros(0, dtype=np.int64)
    assert two_sided(SeenDecoys(2, none), none, 10, 0.1)[0].shape == (0,)


def test_other_noise_and_no_reports_are_refused() -> None:
    other: TallyNoise = DecoyNoise(2, 1, Fraction(1, 2))  # type: ignore[assignment]
    with pytest.raises(InvalidInput):
        two_sided(other, [1], 10, 0.1)
    with pytest.raises(InvalidInput):
        farthest_end(other, 10, 0.1)
    with pytest.raises(InvalidInput):
        two_sided(Noise.flips(Fraction(1, 10)), [0], 0, 0.1)


def test_a_single_tally_alone_is_all_of_them_together() -> None:
    noise, reports = Noise.flips(Fraction(1, 4)), 400
    for seen in range(150, 250):
        assert simultaneous(noise, [seen], reports, 0.9) == intervals(noise, [seen], reports, 0.9)


def test_a_side_gets_no_more_than_half_of_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    """A division may have rounded alpha up, by a roundoff that the hair covers."""
    tails: list[float] = []
    monkeypatch.setattr(module, "_among_decoys", lambda *given: tails.append(given[3]))
    for alpha in (0.5, 0.05, 1e-12 / 3):
        two_sided(SeenDecoys(2, np.array([1])), [1], 10, alpha)
        assert (1 - 2e-12) * alpha / 2 < tails.pop() < (1 - 1e-15) * alpha / 2


@each_case("alpha", [0.5, 0.05, 1e-6])
@each_case("trials", [1, 40, 10**6])
def test_rounding_gets_the_share_that_makes_the_shortest_interval(
    alpha: float, trials: int
) -> None:
    noise = Noise.flips(Fraction(1, 10))
    for reports in (1, 30, 10**4, 10**7):
        spread = math.sqrt(trials * 0.1 * 0.9) / 0.8
        shares = np.array([0, 0.01, 0.02, 0.05, *np.arange(0.1, 0.95, 0.1)])
        with np.errstate(divide="ignore"):
            rooms = np.minimum(np.sqrt(reports * np.log(2 / (alpha * shares)) / 2), reports)
        lengths = stats.norm.isf(alpha * (1 - shares) / 2) * spread + rooms
        share, room = rounding_share(noise, trials, reports, alpha)
        assert share == pytest.approx(shares[np.argmin(lengths)])
        assert room == pytest.approx(rooms[np.argmin(lengths)], rel=1e-9)
        # Hoeffding: off by more with a chance of 2·e^(−2·room²/n), which is proven, not near.
        if room < reports:
            with mpmath.workdps(40):
                off = 2 * mpmath.exp(-2 * mpmath.mpf(room) ** 2 / reports)
                assert off <= mpmath.mpf(alpha) * mpmath.mpf(share)


# ------------------------------------------------------------------ tails, and where they are met


def test_a_tail_is_rejected_from_behind_the_last_point_that_is_too_likely() -> None:
    tail = _Tail(5, 3, np.array([1, 0.5, 0.125, 0.03125], dtype=Wide))
    found = [tail.critical(chance) for chance in (1.0, 0.75, 0.5, 0.49, 0.125, 0.1, 0.03125, 0.01)]
    assert found == [3, 6, 6, 9, 9, 12, 12, 15]


def test_between_points_a_tail_falls_by_the_same_factor() -> None:
    tail = _Tail(5, 3, np.array([1, 0.5, 0.125, 0.03125], dtype=Wide))
    # ln 0.25 is half way from ln 0.5, at 8, to ln 0.125, at 11.
    assert tail.met(0.25) == pytest.approx(9.5)
    assert tail.met(0.25, 2.25) == pytest.approx(7.25)
    # At a point, from both sides of it.
    assert tail.met(0.125) == pytest.approx(11)
    assert tail.met(0.125 - 1e-12) == pytest.approx(11)
    # A whole tally away is near enough for a point to count, and less is not.
    assert tail.met(0.25, 7.0) == pytest.approx(2.5)
    assert tail.met(0.25, 7.25) == 0.75
    # Nothing is known behind the last point.
    assert tail.met(0.01) == 14
    assert tail.met(0.05) == pytest.approx(11 + 3 * math.log(0.125 / 0.05) / math.log(4))


def test_what_is_not_known_of_a_law_is_added_to_its_tail() -> None:
    law = law_from(3, [0.5, 0.25, 0.25], relative=0.125, missing=0.0625)
    tail = _Tail.of(7, 2, law)
    assert (tail.start, tail.step) == (7, 2)
    assert tail.above == pytest.approx(1.25 * np.array([1, 0.5, 0.25]) + 0.0625)
    # Each of these is lost when it is added to 1, but not all of them together.
    many = law_from(0, [float(ROUNDOFF) / 2] * 4000 + [1.0])
    assert _Tail.of(0, 1, many).above[0] - 1 >= 2000 * ROUNDOFF


@each_case("kind", ["flips", "response", "copies", "flips and decoys"])
@each_case("reports", [6, 13])
def test_the_farthest_end_is_where_tails_are_met(
    kind: str, reports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARPNESS", 3.0)
    for noise, alpha in ((LIVELY[kind], 0.05), (LIVELY[kind].mirrored(), 0.01)):
        far = 0.0
        for part in range(5):
            held = reports * part // 4
            masses = np.array([float(one) for one in exact.law(noise, held, reports)])
            mean = float(masses @ np.arange(len(masses)))
            far = max(
                far,
                place_met(masses, alpha / 2) - mean,
                place_met(masses[::-1], alpha / 2) - (len(masses) - 1 - mean),
            )
        spread = math.sqrt(max(noise.tally_variance([0, reports], reports)))
        expected = (far + 3.0 * spread) / float(noise.slope)
        assert farthest_end(noise, reports, alpha) == pytest.approx(expected, rel=3e-4)


def place_met(masses: np.ndarray, tail: float) -> float:
    """Return where P[S ≥ s] is the tail, on straight lines of its logarithm."""
    above = np.cumsum(masses[::-1])[::-1]
    last = int(np.flatnonzero(above > tail)[-1])
    if last + 1 == len(masses):
        return last
    return last + math.log(above[last] / tail) / math.log(above[last] / above[last + 1])


@each_case("noise", [RESPONSE, RESPONSE.mirrored()], ids=str)
def test_the_farthest_end_of_a_huge_crowd_is_that_of_its_most_scattered_count(noise: Noise) -> None:
    """At the middle count the tally scatters less, and an end elsewhere would reach farther."""
    reports = 10**12
    spread = math.sqrt(max(noise.tally_variance([0, reports], reports)))
    expected = (stats.norm.isf(0.025) + SHARPNESS) * spread / float(noise.slope)
    assert farthest_end(noise, reports, 0.05) == pytest.approx(expected, rel=1e-4)
    held = reports // 50 if noise.miss > Fraction(1, 2) else reports - reports // 50
    seen = int(noise.base(reports) + noise.slope * held)
    low, high = two_sided(noise, [seen], reports, 0.05)
    assert max(held - low[0], high[0] - held) <= farthest_end(noise, reports, 0.05)


def test_laws_are_summed_up_to_a_variance_and_not_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    for noise in (RESPONSE, RESPONSE.mirrored()):
        reports = 1200
        variance = float(max(noise.tally_variance([0, reports], reports)))
        held = int(np.argmax(noise.tally_variance([0, reports], reports))) * reports
        tallies = np.arange(noise.largest(reports) + 1)
        found = []
        for longest in (math.inf, variance, math.nextafter(variance, 0)):
            monkeypatch.setattr(module, "_LONGEST_VARIANCE", longest)
            tail = _tail_of_tally(noise, held, reports, 0.025)
            found.append(
                (
                    farthest_end(noise, reports, 0.05),
                    len(tail.above) > 1,
                    _lower_ends(noise, tallies, reports, 0.025).tolist(),
                )
            )
        assert found[0] == found[1]
        assert found[2][0] > found[1][0]
        assert not found[2][1]
        assert found[2][2] != found[1][2]
        # Closed bounds alone: a count more is not rejected by them, and none is below 0.
        expected = np.maximum.accumulate(_rejected(noise, tallies, reports, 0.025) + 1)
        assert found[2][2] == expected.clip(0, reports).tolist()


@each_case(("arrived", "values"), [(m, d) for m in (0, 1, 7, 40, 41, 42, 300) for d in (2, 3, 5)])
def test_the_farthest_end_among_decoys_is_that_of_their_law(arrived: int, values: int) -> None:
    for alpha in (0.5, 0.05, 1e-4):
        distances = []
        for share in (1 / values, 1 - 1 / values):
            law = stats.binom(arrived, share)
            critical = next(c for c in range(arrived + 2) if law.sf(c - 1) <= alpha / 2)
            distances.append(critical - 1 - arrived * share)
        for seen in ([arrived], [0, arrived]):
            found = farthest_end(SeenDecoys(values, np.array(seen)), 100, alpha)
            assert found == pytest.approx(max(distances))


# ------------------------------------------------------------------ lattices


def test_a_long_law_is_rounded_up_to_the_tops_of_blocks() -> None:
    law = law_from(4, [0.5, 0.25, 0.125, 0.0625, 0.0625], relative=0.25, missing=0.125)
    rounded = _rounded_up(law, 2)
    assert rounded.start == 5
    assert rounded.mass.tolist() == [0.75, 0.1875, 0.0625]
    assert rounded.mass.dtype == Wide
    assert rounded.missing == 0.125
    assert 0.25 < rounded.relative < 0.25 + 1e-12
    two = _rounded_up(law_from(4, [0.5, 0.5]), 3)
    assert (two.start, two.mass.tolist()) == (6, [1.0])
    # A number that is always the same stays where it is.
    assert _rounded_up(law_from(4, [1.0]), 5).start == 4
    assert _rounded_up(law, 1) is law


def test_places_are_moved_up_to_a_lattice() -> None:
    law = law_from(0, [0.5, 0.25, 0.125, 0.125], relative=0.25, missing=0.125)
    moved = _on_lattice(np.array([-4, -2, 0, 2]), law, 3)
    assert moved.start == -1
    assert moved.mass.tolist() == [0.5, 0.375, 0.125]
    assert moved.mass.dtype == Wide
    assert 0.25 < moved.relative < 0.25 + 1e-12
    assert moved.missing == 0.125


def test_sums_are_never_made_by_fourier() -> None:
    long = Law(0, np.full(2100, Wide(1) / 2100), Wide(0), Wide(0))
    assert laws.convolve(long, long).noise is not None
    assert _sum(long, long).noise is None


@each_case(
    ("noise", "held"),
    [(Noise(1, Fraction(2, 3), Fraction(1, 4), 1, Fraction(1, 3)), h) for h in (50, 300, 550)]
    + [(Noise.flips(Fraction(1, 4)), 200)],
)
def test_a_tally_is_rounded_where_its_two_longest_parts_are_too_long(
    noise: Noise, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, tail = 600, 0.01
    cut = Wide(tail) * Wide(1e-4)
    lengths = sorted(
        len(laws.binomial(count, chance, cut).mass)
        for count, chance in (
            (held, noise.hit),
            (reports - held, noise.miss),
            (noise.cover_slots * reports, noise.cover),
        )
    )
    monkeypatch.setattr(module, "_STEPS", 3)
    monkeypatch.setattr(module, "_PRODUCTS", lengths[1] * lengths[2])
    whole = _tail_of_tally(noise, held, reports, tail)
    assert whole.step == 1
    monkeypatch.setattr(module, "_PRODUCTS", lengths[1] * lengths[2] - 1)
    rounded = _tail_of_tally(noise, held, reports, tail)
    spread = math.sqrt(float(noise.tally_variance(held, reports)))
    assert rounded.step == math.ceil(spread / 3)
    # Parts are moved up by less than a step each.
    moved = rounded.critical(tail) - whole.critical(tail)
    assert 0 <= moved <= 3 * (rounded.step - 1)


@each_case("weight", [1, 3])
@each_case("ratio", ["1/2", "9/10"])
def test_a_difference_is_rounded_up_and_by_less_than_two_steps(
    weight: int, ratio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exponent, cut = Fraction(3, 2), Wide(1e-8)
    one = stats.nbinom.pmf(np.arange(2000), 1.5, 1 - float(Fraction(ratio)))
    truth = np.cumsum(np.convolve(one, one[::-1])[::-1])[::-1]

    def chance(least: int) -> float:
        """Return P[weight·(Z − Z′) ≥ least]."""
        return float(truth[np.clip(-(-least // weight) + 1999, 0, 3998)])

    lengths = []
    for most in (10**6, 20):
        monkeypatch.setattr(module, "_MOST_POINTS", most)
        places, law = _difference(weight, Fraction(ratio), exponent, cut)
        assert len(places) == len(law.mass)
        assert law.missing == pytest.approx(2e-8, rel=1e-6)
        lengths.append(len(law.mass))
        step = int(places[1] - places[0]) // weight
        assert (np.diff(places) == step * weight).all()
        above = np.cumsum(law.mass[::-1])[::-1].astype(float)
        for place, found in zip(places, above, strict=True):
            assert found >= chance(int(place)) * (1 - 1e-12) - float(law.missing)
            assert found <= chance(int(place) - 2 * (step - 1) * weight) + 1e-9
    # So few points that each block is needed, and no fewer.
    size = (lengths[0] + 1) // 2
    blocks = math.ceil(size / math.ceil(size / 20))
    assert lengths[1] == 2 * blocks - 1


PARTS = ((4, Fraction(1, 2)), (1, Fraction(4, 5)), (7, Fraction(1, 3)))


def found_law(
    parts: tuple[tuple[int, Fraction], ...], exponent: Fraction, tail: float
) -> tuple[int, Law]:
    found = law_of_difference(SignedNoise(parts, 1), exponent, tail)
    assert found is not None
    return found


def test_the_law_of_a_difference_has_as_few_points_as_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exponent, tail = Fraction(3, 2), 1e-6
    step, law = found_law(PARTS, exponent, tail)
    span = len(law.mass) - 1
    assert (step, law.start) == (1, -span // 2)
    # Of each part that is twice a third of a ten-thousandth.
    assert float(law.missing) == pytest.approx(2e-10, rel=1e-6)
    assert 0 < 1 - law.mass.sum() < 2e-10
    for most in (span // 2 + 1, span // 2, span // 4, span // 6):
        monkeypatch.setattr(module, "_MOST_POINTS", most)
        step, coarse = found_law(PARTS, exponent, tail)
        assert step == 1 + span // (2 * most)
        # Rounded up only, by less than a step for each part.
        for back in range(1, len(coarse.mass) + 1):
            above, least = coarse.mass[-back:].sum(), step * (coarse.stop - back) - law.start
            assert above >= law.mass[max(least, 0) :].sum() * (1 - 1e-15)
            least -= 3 * (step - 1)
            assert above <= law.mass[max(least, 0) :].sum() * (1 + 1e-15)


def test_a_law_is_given_up_where_its_first_mass_leaves_the_floats() -> None:
    # (1 − a)^g against e^−600.
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    assert law_of_difference(SignedNoise(((1, half),), 1), Fraction(865), 0.01) is not None
    assert law_of_difference(SignedNoise(((1, half),), 1), Fraction(866), 0.01) is None
    assert law_of_difference(SignedNoise(((1, tenth), (1, half)), 1), Fraction(866), 0.01) is None
    assert law_of_difference(SignedNoise(((1, tenth),), 1), Fraction(5690), 0.01) is not None


# ------------------------------------------------------------------ closed bounds


@each_case(
    ("parts", "exponent"),
    [
        (((1, "1/2"),), 900),
        (((1, "4/5"), (3, "1/3")), 2000),
        (((1, "99/100"), (40, "1/2")), 1000),
        (((2, "1/10"),), 10**6),
    ],
)
def test_chernoff_bounds_a_difference(
    parts: tuple[tuple[int, str], ...], exponent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed = tuple((weight, Fraction(ratio)) for weight, ratio in parts)
    for tail in (0.025, 1e-3, 1e-9):
        best = chernoff_place(weighed, exponent, tail)
        found = _chernoff_difference(SignedNoise(weighed, 1), float(exponent), tail)
        # The next whole number and one more, from one of many tilts.
        assert best + 1 <= found <= best * (1 + 2e-5) + 2
        noise = SignedNoise(weighed, 100, 2)
        low, high = two_sided(noise, [0], 100 * exponent, 2 * tail)
        assert high - 50 * exponent == 50 * exponent - low == (found - 1) // 2
        assert farthest_end(noise, 100 * exponent, 2 * tail) == (found - 1) / 2
    # Where there is a law, it rejects no less.
    monkeypatch.setattr(module, "_MOST_EXPONENT", math.inf)
    if exponent == 900:
        step, law = found_law(weighed, Fraction(exponent), 0.025)
        exactly = _Tail.of(step * law.start, step, law).critical(0.025)
        assert exactly < found


def chernoff_place(parts: tuple[tuple[int, Fraction], ...], exponent: int, tail: float) -> float:
    """Return the least (ln E[e^(t·D)] − ln tail)/t, from the generating function as it stands."""
    most = min(-math.log(ratio) / weight for weight, ratio in parts)

    def place(share: float) -> float:
        with mpmath.workdps(30):
            tilt, total = mpmath.mpf(share) * most, mpmath.mpf(0)
            for weight, ratio in parts:
                a, growth = (
                    mpmath.mpf(ratio.numerator) / ratio.denominator,
                    mpmath.exp(weight * tilt),
                )
                total += mpmath.log((1 - a) ** 2 / ((1 - a * growth) * (1 - a / growth)))
            return float((exponent * total - mpmath.log(tail)) / tilt)

    found = optimize.minimize_scalar(
        lambda log: place(math.exp(log)),
        bounds=(-14, -1e-6),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.fun)


@each_case("kind", LIVELY)
@each_case("tail", [0.25, 0.005, 1e-12])
def test_chernoff_finds_the_best_tilt_for_every_tally(kind: str, tail: float) -> None:
    noise = LIVELY[kind]
    for reports in (20, 5000, 10**11):
        seen = np.floor(np.linspace(0.0, noise.largest(reports), 12)[1:])
        found = _by_chernoff(noise, seen, reports, tail)
        for tally, held in zip(seen, found, strict=True):
            best = best_chernoff(noise, tally, reports, tail)
            away = abs(tally - float(noise.base(reports))) / float(noise.slope) + 1
            assert best - 1e-6 * away <= held <= best + 1e-9 * away


def best_chernoff(noise: Noise, tally: float, reports: int, tail: float) -> float:
    """Return the largest h with E[e^(t·S)] ≤ tail·e^(t·tally) for some t."""
    chances = (float(noise.hit), float(noise.miss), float(noise.cover))

    def held(log: float) -> float:
        tilt = math.exp(log)
        yes, no, cover = (math.log1p(chance * math.expm1(tilt)) for chance in chances)
        everybody = reports * (noise.copies * no + noise.cover_slots * cover)
        return (tilt * tally + math.log(tail) - everybody) / (noise.copies * (yes - no))

    logs = np.linspace(-19.9, 3.9, 300)
    start = logs[np.argmax([held(log) for log in logs])]
    found = optimize.minimize_scalar(
        lambda log: -held(log),
        bounds=(start - 0.1, start + 0.1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return -float(found.fun)


@each_case("kind", ["flips", "response", "mirrored", "copies"])
def test_the_normal_bound_rejects_what_its_quantile_does(kind: str) -> None:
    noise, reports = LIVELY[kind], 1500
    least, _ = sorted(np.sqrt(noise.tally_variance([0, reports], reports)))
    held = np.arange(reports + 1)
    means = float(noise.base(reports)) + float(noise.slope) * held
    spreads = np.sqrt(noise.tally_variance(held, reports))
    # Where the first count is rejected, and everywhere else.
    first = math.floor(means[0]) + np.arange(0.0, 4 * spreads[0])
    seen = np.concatenate([first, np.arange(0.0, noise.largest(reports) + 1, 17)])
    away = (seen[:, None] - means) / spreads
    for tail in (0.25, 0.1):
        enough = away >= special.ndtri(1 - (tail - LYAPUNOV / least))
        expected = np.where(enough.any(axis=1), enough.cumprod(axis=1).sum(axis=1) - 1.0, -np.inf)
        np.testing.assert_array_equal(_by_normal(noise, seen, reports, tail), expected)
    # Where its error takes nine tenths of the tail, it is not asked.
    error = LYAPUNOV / least
    assert (_by_normal(noise, seen, reports, error / 0.9001) == -np.inf).all()
    assert (_by_normal(noise, seen, reports, error / 0.8999) >= 0).any()
    clear = Noise(1, Fraction(1), Fraction(0))
    assert (_by_normal(clear, seen, reports, 0.25) == -np.inf).all()


def test_the_normal_bound_is_proven_where_its_search_has_not_ended() -> None:
    noise, tail = Noise(1, Fraction(1, 4), Fraction(1, 1000)), 0.45
    for reports in (1990, 1991):
        seen = np.arange(0.0, 200)
        found = _by_normal(noise, seen, reports, tail)
        held = np.maximum(found, 0.0)
        spread = np.sqrt(noise.tally_variance(held, reports))
        away = seen - float(noise.base(reports)) - float(noise.slope) * held
        error = LYAPUNOV / math.sqrt(noise.tally_variance(0, reports))
        assert (special.ndtr(-away / spread)[found >= 0] <= (tail - error) * (1 + 1e-9)).all()
        assert (found >= 0).sum() > 150


def test_closed_bounds_leave_room_for_their_own_rounding() -> None:
    noise = Noise.flips(Fraction(1, 4))
    # The second has only Chernoff's bound, and rounds more the larger its numbers are.
    for reports, tail, room in ((3000, 0.25, 1e-6), (10**12, 1e-6, 0.2)):
        seen = reports * 2 // 5 + np.arange(100) * (reports // 2999)
        tallies = seen.astype(np.float64)
        best = np.maximum(
            _by_chernoff(noise, tallies, reports, tail), _by_normal(noise, tallies, reports, tail)
        )
        expected = np.floor(best - room)
        np.testing.assert_array_equal(_rejected(noise, seen, reports, tail), expected)
    few = _rejected(noise, np.array([0, 100]), 100, 0.01)
    assert few[0] == -1
    assert 0 < few[1] <= 100


def test_a_tally_is_bounded_right_behind_the_last_that_closed_bounds_keep() -> None:
    noise, reports = LIVELY["response"], 5000
    for held in (0, 1, 700, 701, 702, 703, 4000):
        critical = _bounded_tail(noise, held, reports, 0.01).critical(0.01)
        before, there = _rejected(noise, np.array([critical - 1, critical]), reports, 0.01)
        assert before < held <= there
    # The largest tally is kept, and there is none behind it.
    assert _bounded_tail(noise, 5, 5, 1e-9).critical(1e-9) == 6


# ------------------------------------------------------------------ which counts are tried


def tried(noise: Noise, reports: int = 5000, tail: float = 0.01) -> _Tried:
    return _Tried(noise, reports, tail)


def test_counts_are_tried_as_far_apart_as_sharpness_allows() -> None:
    for noise in LIVELY.values():
        reports = 10**8
        held = np.array([0, 3, reports // 3, reports])
        loss = float(noise.copies - noise.slope)
        room = SHARPNESS * np.sqrt(noise.tally_variance(held, reports)) / loss
        steps = tried(noise, reports)._steps(held)  # noqa: SLF001
        assert (steps <= room).all()
        assert (2 * steps > room).all()
        assert (np.log2(steps) % 1 == 0).all()
    assert tried(LIVELY["flips"], 10)._steps(np.array([0])) == [1]  # noqa: SLF001
    # Nothing is lost between counts that are sent in clear: the first stands for all.
    clear = tried(Noise(1, Fraction(1), Fraction(0), 1, Fraction(1, 10)))
    assert clear.near(np.arange(5001), 1e9)
    assert clear.counts.tolist() == [0]


def test_ends_and_guesses_follow_from_the_counts_that_were_tried() -> None:
    noise = Noise.flips(Fraction(1, 4), copies=3)
    known = tried(noise, 60)
    known.counts, known.critical = np.array([0, 8, 20]), np.array([10, 25, 70])
    tallies = np.arange(100)
    ends, guesses = known.lower_ends(tallies), known.guesses(tallies)
    for seen, end, guess in zip(tallies, ends, guesses, strict=True):
        below = [pair for pair in zip((0, 8, 20), (10, 25, 70), strict=True) if pair[1] <= seen]
        count, critical = max(below, default=(0, 10))
        assert end == (count + (seen - critical) // 3 + 1 if below else 0)
        # The mean grows by 3/2 per count.
        assert guess == min(max(math.floor(count + (seen - critical) / 1.5), 0), 60)


def test_work_is_counted_and_never_more_than_allowed() -> None:
    noise = LIVELY["flips"]
    known, every = tried(noise), np.arange(0, 5001)
    one = float(known._cost(np.array([2500]))[0])  # noqa: SLF001
    # The first count is tried at any price: without it nothing is known.
    assert known.near(every, 0.0)
    assert known.counts.tolist() == [0]
    first = known.work
    assert first == pytest.approx(float(known._cost(np.array([0]))[0]))  # noqa: SLF001
    assert not known.near(every, 0.0)
    assert not known.near(np.array([2500]), 0.0)
    assert not known.near(np.array([2500]), math.nextafter(first + one, 0))
    assert known.near(np.array([2500]), first + one)
    assert known.work == pytest.approx(first + one)
    assert not known.near(np.array([2500]), math.inf)
    assert known.near(every, 40 * one)
    assert known.work <= 40 * one
    # As many as are paid for, by halves: their distance is the least power of two.
    assert 18 <= len(known.counts) <= 40
    distances = set(np.diff(np.setdiff1d(known.counts, [2500])).tolist())
    assert all(distance & (distance - 1) == 0 for distance in distances if distance < 2048)
    assert (np.diff(known.counts) > 0).all()
    for held, critical in zip(known.counts, known.critical, strict=True):
        assert critical == _tail_of_tally(noise, int(held), 5000, 0.01).critical(0.01)
    assert known.critical.dtype == known.counts.dtype == np.int64
    # Any count may be the first, and no other is tried in place of one that is too dear.
    other = tried(noise)
    assert other.near(np.array([2500]), 0.0)
    assert not other.near(np.array([1000]), 0.0)
    assert other.counts.tolist() == [2500]


def test_few_rounds_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    guesses = _Tried.guesses

    def counted(self: _Tried, tallies: Counts) -> Counts:
        rounds.append(len(self.counts))
        return guesses(self, tallies)

    monkeypatch.setattr(_Tried, "guesses", counted)
    for noise in LIVELY.values():
        rounds.clear()
        _lower_ends(noise, np.arange(0, 5000, 50), 5000, 0.01)
        assert 1 < len(rounds) < 10


@each_case(("reports", "tail"), [(1000, 0.01), (4 * 10**5, 0.01), (4 * 10**5, 1e-9), (10**9, 0.01)])
def test_the_cost_of_a_law_is_about_the_masses_that_it_takes(reports: int, tail: float) -> None:
    noise = LIVELY["flips"]
    held = reports // 2
    cut = Wide(tail) * Wide(1e-4)
    parts = [laws.binomial(held, chance, cut) for chance in (noise.hit, noise.miss)]
    lattice = math.ceil(math.sqrt(reports * 0.21) / 150)
    lengths = [len(part.mass) for part in parts]
    products = math.prod(lengths) / lattice**2
    cost = tried(noise, reports, tail)._cost(np.array([held]))[0]  # noqa: SLF001
    # A multiplication of a convolution is a sixteenth of a mass of a binomial.
    taken = 15_000 + sum(lengths) + products / 16
    assert taken <= cost <= 2 * taken


def test_laws_never_undo_what_closed_bounds_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, reports = LIVELY["flips"], 100_000
    tallies = np.arange(0, reports, 499)
    closed = _rejected(noise, tallies, reports, 0.01) + 1
    monkeypatch.setattr(module, "_WORK", 1.0)
    monkeypatch.setattr(module, "_ROUGH_WORK", 1.0)
    assert (_lower_ends(noise, tallies, reports, 0.01) >= closed.clip(0, reports)).all()


# ------------------------------------------------------------------ decoys that arrived


@each_case(("values", "least"), [(2, 100_000), (3, 50_000), (1000, 20_000)])
def test_numbers_of_decoys_are_rounded_no_further_than_sharpness_allows(
    values: int, least: int
) -> None:
    many = np.arange(least, least + 65 * 100, 100)
    # In tallies, a step of decoys is step/d, and the deviation is √(m·(1 − 1/d)/d).
    square = Fraction(SHARPNESS) ** 2 * least * (values - 1)
    assert _arrival_step(SeenDecoys(values, many)) == math.isqrt(math.floor(square))
    assert _arrival_step(SeenDecoys(values, many[:64])) == 1
    assert _arrival_step(SeenDecoys(values, np.arange(1, 99))) == max(
        1, math.isqrt(math.floor(Fraction(SHARPNESS) ** 2 * (values - 1)))
    )


def test_decoys_in_one_step_share_their_laws() -> None:
    noise = SeenDecoys(2, np.arange(100_000, 120_000, 5))
    reports = 10**6
    low, high = _among_decoys(noise, noise.arrived // 2 + reports // 2, reports, 0.025)
    step = _arrival_step(noise)
    assert step == 6
    seen = noise.arrived // 2 + reports // 2
    for end in (seen - low, high - seen):
        laws_of: dict[int, set[int]] = {}
        for arrived, away in zip(noise.arrived, end, strict=True):
            laws_of.setdefault(int(arrived) // step, set()).add(int(away))
        assert all(len(found) == 1 for found in laws_of.values())
