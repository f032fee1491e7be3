"""S0 section 4, exact part: the sum of flipped bits and its loss ratio."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import floor

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    FLIPS,
    RATIOS,
    ZERO,
    at,
    binomial,
    bit_sums,
    ceiling,
    hockey_stick,
    neighbours,
    step_ratio,
    worst_deltas,
)


def loss_ratios(ones: int, zeros: int, flip: Fraction) -> list[Fraction]:
    """R(s): target 0 over target 1, for s = 0..n+1 with n others."""
    low, high = neighbours(ones, zeros, flip)
    return [x / y for x, y in zip(low, high, strict=True)]


@claim(
    "S0",
    "(4.5)–(4.8), (4.9)",
    "The sum over a crowd and one more bit follows by conditioning on that bit, and the loss "
    "ratio is (q + pρ)/(p + qρ) with ρ the ratio of consecutive probabilities of the crowd.",
    HOLDS,
)
def test_conditioning_on_the_target() -> None:
    for flip in FLIPS:
        for bits in product((0, 1), repeat=4):
            # Independent of the recursion: enumerate all reports of the four others.
            crowd = [ZERO] * 5
            for reports in product((0, 1), repeat=4):
                wrong = sum(b != r for b, r in zip(bits, reports, strict=True))
                crowd[sum(reports)] += flip**wrong * (1 - flip) ** (4 - wrong)
            ones = sum(bits)
            assert tuple(crowd) == bit_sums(ones, 4 - ones, flip)
            ratios = loss_ratios(ones, 4 - ones, flip)
            for s in range(1, 5):
                rho = crowd[s] / crowd[s - 1]
                assert ratios[s] == (flip + (1 - flip) * rho) / (1 - flip + flip * rho)


@claim(
    "S0",
    "Cor. 4.1",
    "The loss ratio is an increasing function of the probability ratio, for q < 1/2.",
    HOLDS,
    correction="Proof: the derivative is (p² − q²)/(p + qx)², and p + q = 1.",
)
def test_loss_ratio_increases_with_probability_ratio() -> None:
    for flip in FLIPS:
        keep = 1 - flip
        points = [Fraction(i, 7) for i in range(60)]
        values = [(flip + keep * x) / (keep + flip * x) for x in points]
        assert all(a < b for a, b in pairwise(values))


@claim(
    "S0",
    "Lemma 4.1",
    "The loss ratio falls strictly in s, from its maximum at s = 0 to its minimum at s = n, where "
    "n counts the others.",
    CORRECTED,
    correction="The sum runs to n + 1, and the minimum q/p is at s = n + 1.",
    counter_example="no others (n = 0), q = 1/4: R(0) = 3 and R(1) = 1/3, so s = n is the maximum.",
)
def test_loss_ratio_falls() -> None:
    for flip in FLIPS:
        for others in range(13):
            for ones in range(others + 1):
                law = bit_sums(ones, others - ones, flip)
                for s in range(others + 1):
                    assert law[s] ** 2 > at(law, s - 1) * at(law, s + 1)
                ratios = loss_ratios(ones, others - ones, flip)
                assert all(a > b for a, b in pairwise(ratios))
                assert ratios[0] == (1 - flip) / flip
                assert ratios[others + 1] == flip / (1 - flip) < ratios[others]


def left_tail_delta(ones: int, zeros: int, flip: Fraction, ratio: Fraction, form: str) -> Fraction:
    law = bit_sums(ones, zeros, flip)
    best = ZERO
    for k in range(len(law)):
        head = sum(law[: k + 1], ZERO)
        factor = {"printed": 2 * (1 - flip) * ratio - 1, "right": (1 - flip) * ratio - flip}[form]
        best = max(best, factor * law[k] - (ratio - 1) * head)
    return best


@claim(
    "S0",
    "Lemma 4.2, (4.10) = (4.14)",
    "Privacy holds exactly when (2p e^ε − 1)P(k) − (e^ε − 1)·F(k) ≤ δ for every k.",
    CORRECTED,
    correction="The factor is p e^ε − q; (4.13) is right. One crowd gives one direction; the other "
    "is the mirrored crowd, so all crowds are needed. (The proof prints D ∪ 0 twice.)",
    counter_example="no others, q = 1/4, E = 2: printed 1, true δ = 1/4.",
)
def test_left_tail_formula() -> None:
    for flip in FLIPS:
        for ratio in RATIOS:
            for others in range(8):
                for ones in range(others + 1):
                    zeros = others - ones
                    low, high = neighbours(ones, zeros, flip)
                    exact = hockey_stick(low, high, ratio)
                    assert left_tail_delta(ones, zeros, flip, ratio, "right") == exact
                    mirrored = left_tail_delta(zeros, ones, flip, ratio, "right")
                    assert mirrored == hockey_stick(high, low, ratio)
                    assert left_tail_delta(ones, zeros, flip, ratio, "printed") > exact
    assert left_tail_delta(0, 0, Fraction(1, 4), Fraction(2), "printed") == 1


@claim(
    "S0",
    "Sections 1 and 4, all-zero crowd",
    "The privacy of any collection of bits is bounded by that of the collection of zeros.",
    FALSE,
    correction="The δ of the worst crowd can exceed that of the zeros. Prop. 4.5 survives because "
    "its bound is far from tight.",
    counter_example="n = 3 users, q = 1/4, E = 11/10: one 1 among the two others gives 89/320 = "
    "0.278125, all zeros 171/640 = 0.2671875. No counter-example with n ≤ 2.",
)
def test_zero_crowd_is_not_the_worst() -> None:
    for users in (1, 2):
        for flip in FLIPS:
            for ratio in RATIOS:
                deltas = worst_deltas(users, flip, ratio)
                assert max(deltas) == deltas[0]
    deltas = worst_deltas(3, Fraction(1, 4), Fraction(11, 10))
    assert (deltas[0], max(deltas)) == (Fraction(171, 640), Fraction(89, 320))


def left_ratio(records: int, ones: int, flip: Fraction, distance: Fraction) -> Fraction | None:
    """ρ at the least integer not below the mean minus the distance; None stands for ∞."""
    mean = ones * (1 - flip) + (records - ones) * flip
    return step_ratio(records, ones, flip, max(0, ceiling(mean - distance)))


TAIL_FLIPS = (*tuple(Fraction(i, 20) for i in (2, 4, 6, 8, 9)), Fraction(49, 100))


@claim(
    "S0",
    "Prop. 4.1",
    "At a left deviation l ≥ npq the probability ratio of any crowd is at most that of the zeros "
    "at deviation l + 2.",
    HOLDS,
    correction="With μ − l rounded up to an integer, and D_r read as D_m; on the grid no condition "
    "on l is needed. The bound compares equal deviations; it does not make the zeros the worst "
    "crowd.",
)
def test_probability_ratio_bounded_by_zeros() -> None:
    compared = 0
    for records in (9, 10, 14, 20, 27):
        for flip in TAIL_FLIPS:
            for quarter in range(1, 4 * records):
                distance = Fraction(quarter, 4)
                bound = left_ratio(records, 0, flip, distance + 2)
                if bound is None:
                    continue
                for ones in range(records + 1):
                    ratio = left_ratio(records, ones, flip, distance)
                    assert ratio is not None
                    assert ratio <= bound
                    compared += 1
    assert compared > 5000


def deviations(records: int, flip: Fraction) -> list[tuple[Fraction, int]]:
    """Distances l ≥ npq in quarters, with the index of the zeros at l + 2."""
    quarters = (Fraction(i, 4) for i in range(4 * records))
    far = [x for x in quarters if x >= records * flip * (1 - flip)]
    indices = [(x, ceiling(records * flip - x - 2)) for x in far]
    return [(x, index) for x, index in indices if index >= 1]


@claim(
    "S0",
    "Cor. 4.2",
    "The same holds for the loss ratio: R at deviation l ≥ npq is at most R of the zeros at l + 2.",
    HOLDS,
    correction="With deviations rounded as in Prop. 4.1.",
)
def test_loss_ratio_bounded_by_zeros() -> None:
    compared = 0
    for records, flip in product((9, 14, 20), TAIL_FLIPS):
        zeros = loss_ratios(0, records, flip)
        for distance, index in deviations(records, flip):
            for ones in range(records + 1):
                mean = records * flip + ones * (1 - 2 * flip)
                ratio = loss_ratios(ones, records - ones, flip)[ceiling(mean - distance)]
                assert ratio <= zeros[index]
                compared += 1
    assert compared > 500


@claim(
    "S0",
    "Cor. 4.5",
    "The reciprocal ratio at right deviation l ≥ npq is at most that of the ones at l + 2.",
    HOLDS,
    correction="The mirror image of Cor. 4.2, with μ + l rounded down to an integer.",
)
def test_right_tail_is_the_mirror() -> None:
    compared = 0
    for records, flip in product((9, 14, 20), TAIL_FLIPS):
        full = loss_ratios(records, 0, flip)
        for quarter in range(4 * records):
            distance = Fraction(quarter, 4)
            index = floor(records * (1 - flip) + distance + 2)
            if distance < records * flip * (1 - flip) or index > records:
                continue
            for ones in range(records + 1):
                mean = records * flip + ones * (1 - 2 * flip)
                ratio = loss_ratios(ones, records - ones, flip)[floor(mean + distance)]
                assert 1 / ratio <= 1 / full[index]
                compared += 1
    assert compared > 500


@claim(
    "S0",
    "(4.15)–(4.19)",
    "For zeros only: mean nq, binomial law, and R(i) = 1/[((n − i)/n)(q/p) + (i/n)(p/q)].",
    HOLDS,
)
def test_zero_collection_formulas() -> None:
    for flip in FLIPS:
        keep = 1 - flip
        for n in range(1, 12):
            low, high = neighbours(0, n - 1, flip)
            assert low == binomial(n, flip)
            assert sum((i * x for i, x in enumerate(low)), ZERO) == n * flip
            for i in range(n + 1):
                share = Fraction(i, n)
                reciprocal = (1 - share) * flip / keep + share * keep / flip
                assert low[i] / high[i] == 1 / reciprocal


@claim(
    "S0",
    "Cor. 4.3",
    "Bin(n, q) and Bin(n, 1 − q) are mirror images.",
    HOLDS,
)
def test_binomials_are_mirror_images() -> None:
    for flip in FLIPS:
        for n in range(12):
            assert binomial(n, flip) == binomial(n, 1 - flip)[::-1]


@claim(
    "S0",
    "Cor. 4.4",
    "The law of a crowd with m ones is the mirror image of the law with n − m ones.",
    HOLDS,
    correction="For every m; the condition m ≤ n/2 is not needed.",
)
def test_crowds_are_mirror_images() -> None:
    for flip in FLIPS:
        for n in range(12):
            for m in range(n + 1):
                assert bit_sums(m, n - m, flip) == bit_sums(n - m, m, flip)[::-1]


@claim(
    "S0",
    "Prop. 4.5, symmetry step",
    "The loss ratio of the zeros at i equals the reciprocal ratio of the mirrored crowd at n − i.",
    CORRECTED,
    correction="At n + 1 − i, for n others; the printed line also writes ρ for R and D_m for D_n.",
    counter_example="n = 1, q = 1/4, i = 1: R(1|D_0) = 3/5, 1/R(0|D_1) = 1/3.",
)
def test_symmetry_step() -> None:
    quarter = Fraction(1, 4)
    assert loss_ratios(0, 1, quarter)[1] == Fraction(3, 5)
    assert 1 / loss_ratios(1, 0, quarter)[0] == Fraction(1, 3)
    for flip in FLIPS:
        for n in range(8):
            zeros, ones = loss_ratios(0, n, flip), loss_ratios(n, 0, flip)
            assert all(zeros[i] == 1 / ones[n + 1 - i] for i in range(n + 2))
