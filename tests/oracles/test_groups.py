"""People with several records: every crowd, every change of all their records, every outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from flint import arb
from scipy import stats

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import groups
from chaffinch.privacy.composition import Composition
from chaffinch.privacy.guarantee import MOST_RECORDS
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from tests.cases import each_case
from tests.oracles import balls, exact, exact_views, judge, signed
from tests.oracles.exact import Pair
from tests.tiers import chequered, nightly

EPSILONS = [0.0, 0.05, 0.3, 1.0, 2.0, 5.0, 12.0]


def bit_pairs(records: int, each: int, flip: Fraction, copies: int) -> Iterator[Pair]:
    """Yield the sums of any two crowds of which one has up to ``each`` ones more."""
    total = flip.denominator ** (records * copies)
    laws = [
        tuple(exact.count_weights(copies * ones, copies * (records - ones), flip))
        for ones in range(records + 1)
    ]
    for one, two in combinations(range(records + 1), 2):
        if two - one <= each:
            yield Pair(laws[one], laws[two], total)


def value_pairs(records: int, each: int, values: int, flip: Fraction) -> Iterator[Pair]:
    """Yield the sums of any two crowds that differ in up to ``each`` records."""
    laws = {
        truth: exact_views.sums_weights(truth, records, flip)
        for truth in exact.compositions(records, values)
    }
    total = flip.denominator ** (records * values)
    for one, two in combinations(laws, 2):
        if sum(max(a - b, 0) for a, b in zip(one, two, strict=True)) <= each:
            yield Pair(tuple(laws[one].values()), tuple(laws[two][key] for key in laws[one]), total)


def decoy_pairs(each: int, values: int, decoys: int) -> Iterator[Pair]:
    """Yield the counts of a person's records, whatever they are, among decoys."""
    falls = [(fallen, exact.orders(fallen)) for fallen in exact.compositions(decoys, values)]
    for one, two in combinations(exact.compositions(each, values), 2):
        laws = [
            {tuple(map(sum, zip(held, fallen, strict=True))): ways for fallen, ways in falls}
            for held in (one, two)
        ]
        seen = sorted({*laws[0], *laws[1]})
        first, second = (tuple(law.get(key, 0) for key in seen) for law in laws)
        yield Pair(first, second, values**decoys)


def judge_all(mechanism: privacy.Mechanism, each: int, pairs: list[Pair]) -> list[str]:
    grouped = privacy.Grouped(mechanism, each)
    found = []
    for epsilon in EPSILONS:
        truth = judge.true_delta(pairs, epsilon)
        found.append(judge.complaint(grouped.delta(epsilon), truth))
        quick = grouped.delta_bound(epsilon)
        if Fraction(quick) < truth[0]:
            found.append(f"{quick} is below {float(truth[0])} at {epsilon}")
    return [words for words in found if words]


COPIES = {"0.02": 1, "0.1": 2, "0.25": 1, "0.45": 1}
"""How often each bit is sent, by the chance of a flip."""


@each_case(
    ("records", "each", "flip"),
    chequered([(2, 2), (4, 2), (6, 3), (9, 3), (10, 5)], list(COPIES)),
)
def test_no_change_of_all_bits_of_a_person_is_seen_more(records: int, each: int, flip: str) -> None:
    copies = COPIES[flip]
    mechanism = privacy.FlippedBits(users=records, flip_probability=flip, copies=copies)
    pairs = list(bit_pairs(records, each, Fraction(flip), copies))
    assert not judge_all(mechanism, each, pairs)


@pytest.mark.parametrize(
    ("records", "each", "values", "flip"),
    chequered([(3, 2, 2), (4, 2, 3), (6, 3, 2)], ["0.05", "0.25"]),
)
def test_no_change_of_all_values_of_a_person_is_seen_more(
    records: int, each: int, values: int, flip: str
) -> None:
    mechanism = privacy.FlippedValues(users=records, values=values, flip_probability=flip)
    assert not judge_all(mechanism, each, list(value_pairs(records, each, values, Fraction(flip))))


@pytest.mark.parametrize(("each", "values", "decoys"), [(2, 2, 6), (3, 2, 20), (2, 3, 8)])
def test_no_change_of_all_values_among_decoys_is_seen_more(
    each: int, values: int, decoys: int
) -> None:
    mechanism = privacy.DecoyedValues(values=values, decoys=decoys)
    assert not judge_all(mechanism, each, list(decoy_pairs(each, values, decoys)))


def test_several_questions_in_several_records() -> None:
    """Two bits of each record, seen apart: the pair of a group is a product of two."""
    flip, records, each = Fraction(1, 5), 4, 2
    pairs = list(bit_pairs(records, each, flip, 1))
    both = [exact.product(a, b) for a in pairs for b in [*pairs, *(p.reversed() for p in pairs)]]
    bit = privacy.FlippedBits(users=records, flip_probability=flip)
    assert not judge_all(privacy.compose(bit, times=2), each, both)


@pytest.mark.parametrize("each", [2, 3])
def test_no_change_of_all_signed_bits_of_a_person_is_seen_more(each: int) -> None:
    ratio, flood, share = Fraction(3, 5), (Fraction(2, 5), Fraction(1, 10)), Fraction(1)
    mechanism = privacy.SignedDecoys(
        question="bit", plus_ratio=ratio, minus_ratio=ratio, flood=flood, share=share, steps=1
    )
    grouped = privacy.Grouped(mechanism, each)
    with balls.precision(200):
        law = signed.noise(ratio, ratio, flood, share, 70)
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            truth = signed.steps_delta(law, each, arb(epsilon).exp())
            assert not judge.ball_complaint(grouped.delta(epsilon), truth), epsilon


def one_crowd_delta(records: int, flip: float, each: int, epsilon: float) -> float:
    """Return the delta of ``each`` bits that are all 0 or all 1, among zeros, by plain sums."""
    others = stats.binom.pmf(np.arange(records - each + 1), records - each, flip)
    held = np.convolve(others, stats.binom.pmf(np.arange(each + 1), each, 1 - flip))
    free = np.convolve(others, stats.binom.pmf(np.arange(each + 1), each, flip))
    ratio = math.exp(epsilon)
    both = np.maximum(held - ratio * free, 0), np.maximum(free - ratio * held, 0)
    return float(max(one.sum() for one in both))


@pytest.mark.parametrize(
    ("records", "flip", "each", "within"),
    [
        nightly(10_000, "0.003", 2, 1.002),
        nightly(10_000, "0.03", 5, 1.002),
        (1_000, "0.25", 3, 1.003),
    ],
)
def test_the_bound_is_close_to_a_crowd_that_exists(
    records: int, flip: str, each: int, within: float
) -> None:
    grouped = privacy.Grouped(privacy.FlippedBits(users=records, flip_probability=flip), each)
    epsilon = grouped.epsilon(1e-6).upper
    assert one_crowd_delta(records, float(flip), each, epsilon) <= 1e-6
    assert one_crowd_delta(records, float(flip), each, epsilon / within) > 1e-6


def test_steps_of_equal_shares_are_taken_where_lines_lie_too_far_apart() -> None:
    """P ≤ e^(ε/2)·(e^(ε/2)·Q + δ) + δ: far less between the nodes of a steep profile."""
    one = privacy.FlippedBits(users=1_000, flip_probability="0.1")
    two = privacy.Grouped(one, 2)
    # At each of two places, whatever is asked beside it.
    half = np.array([1.17, 1.19])
    shares = one.profile(half)[1] * (1 + np.exp(half))
    truths = [one_crowd_delta(1_000, 0.1, 2, 2 * float(each)) for each in half]
    assert (truths <= shares).all()
    assert (shares < 1e-17).all()
    assert two.profile(2 * half)[1] == pytest.approx(shares, rel=1e-9, abs=0.0)


@each_case("ratio", [1.0, 1.5, 4.0, 9.0, 40.0, 80.0])
def test_two_answers_by_chance_are_as_far_apart_as_by_hand(ratio: float) -> None:
    """An answer that is flipped once in ten times: T(α) = min(9α, 8/9 + α/9).

    T∘T is 81α up to α = 1/90, and rises by α from there: T∘T(α) − r·α is largest at 1/90.
    """
    two = privacy.Grouped(privacy.FlippedBits(users=1, flip_probability="0.1"), 2)
    truth = (81 - ratio) / 90
    assert two.delta(math.log(ratio)).upper == pytest.approx(truth, rel=1e-9)
    assert truth <= two.delta_bound(math.log(ratio)) <= 1.01 * truth
    assert two.delta(two.local_epsilon).upper == two.delta_bound(two.local_epsilon) == 0


def test_composition_over_the_records_of_a_batch_would_be_no_bound() -> None:
    """The figure behind the mechanism: n = 10,000, q = .003, two records, delta 1e-6."""
    one = privacy.FlippedBits(users=10_000, flip_probability="0.003")
    composed = privacy.compose(one, times=2).epsilon(1e-6).upper
    assert one_crowd_delta(10_000, 0.003, 2, 2.43) > 1e-6
    assert composed < 1.5
    assert privacy.Grouped(one, 2).epsilon(1e-6).upper > 2.43


NOTHING = privacy.compose([])
NEARLY_HALF = Fraction(2**63 - 1, 2**64)


@pytest.mark.parametrize(
    "mechanism",
    [
        privacy.Grouped(NOTHING, 2),
        Composition(((NOTHING, 2),)),
        privacy.compose(privacy.Grouped(NOTHING, 2), times=3),
    ],
    ids=["records of nothing", "rounds of nothing", "rounds of records of nothing"],
)
def test_whoever_is_asked_nothing_tells_nothing(mechanism: privacy.Mechanism) -> None:
    for epsilon in (0.0, 0.5):
        assert mechanism.delta(epsilon).upper <= 1e-300
        assert mechanism.delta_bound(epsilon) <= 1e-300
    assert mechanism.epsilon(1e-6).upper <= 1e-300


@pytest.mark.parametrize("flip", [NEARLY_HALF, Fraction("0.4999999999999")])
@pytest.mark.parametrize(("records", "each"), [(2, 2), (4, 3)])
def test_records_that_tell_next_to_nothing(records: int, each: int, flip: Fraction) -> None:
    """Slopes of neighbouring lines are the same number here."""
    mechanism = privacy.FlippedBits(users=records, flip_probability=flip)
    assert not judge_all(mechanism, each, list(bit_pairs(records, each, flip, 1)))


@pytest.mark.parametrize(
    "mechanism",
    [
        privacy.DecoyedValues(decoys=3, values=5),
        privacy.FlippedBits(users=1, flip_probability=Fraction(1, 2**64)),
        privacy.FlippedBits(users=10, flip_probability=Fraction(1, 2**64), copies=40),
    ],
)
def test_no_delta_is_above_one(mechanism: privacy.Mechanism) -> None:
    grouped = privacy.Grouped(mechanism, 1000)
    for epsilon in (0.0, 0.5, 30.0, 2000.0):
        assert grouped.delta(epsilon).lower <= grouped.delta(epsilon).upper <= 1
        assert grouped.delta_bound(epsilon) <= 1


def test_lines_that_lie_a_little_too_low_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = privacy.FlippedBits(users=10_000, flip_probability="0.03")
    truth = one_crowd_delta(10_000, 0.03, 2, 0.4)
    assert truth <= privacy.Grouped(mechanism, 2).delta(0.4).upper < 1.01 * truth
    lines = groups._power_lines  # noqa: SLF001 - to break it

    def lowered(*given: object) -> object:
        heights, logarithms = lines(*given)  # type: ignore[arg-type]
        return heights * 0.98, logarithms

    monkeypatch.setattr(groups, "_power_lines", lowered)
    assert privacy.Grouped(mechanism, 2).delta(0.4).upper < truth


@pytest.mark.parametrize(
    ("local", "records"), [(0.1265, 1000), (0.1325, 1000), (0.125, 1000), (3.0, 30), (3.0, 1)]
)
def test_slopes_of_many_records_are_no_flatter_than_their_product(
    local: float, records: int
) -> None:
    """A sum of a thousand logarithms is off by much more than a thousand roundoffs of one."""
    profile = np.array([0.0, local]), np.array([math.tanh(local / 2), 0.0])
    slopes, heights = groups._chained_lines(profile, local, records)  # noqa: SLF001 - what the proof rests on
    # Without any delta a record multiplies every chance by e^local, and all of them by this.
    product = (records * Decimal(local)).exp()
    assert heights[-1] == 0.0
    assert product <= Decimal(float(slopes[-1])) <= product * (1 + Decimal("1e-9"))
    # From the line that always holds on, each steeper than the one before.
    assert (slopes[0], heights[0]) == (0.0, 1.0)
    assert (np.diff(slopes) > 0).all()


def test_the_slope_of_a_single_record_is_no_flatter_than_its_exponential() -> None:
    """Near 0, where a roundoff of the logarithm is less than one of the slope."""
    for local in np.linspace(0.001, 0.3, 100).tolist():
        profile = np.array([0.0, local]), np.array([math.tanh(local / 2), 0.0])
        slopes = groups._chained_lines(profile, local, 1)[0]  # noqa: SLF001 - what the proof rests on
        assert Decimal(local).exp() <= Decimal(float(slopes[-1]))


@pytest.mark.parametrize(("last", "records"), [(0.1, 1000), (0.07, 500), (1.3, 2)])
def test_heights_of_many_records_are_no_lower_than_their_sum(last: float, records: int) -> None:
    """Behind its last node a profile is flat, and what is left there is lost with every record."""
    left = 1e-50
    profile = np.array([0.0, last]), np.array([math.tanh(last / 2), left])
    slopes, heights = groups._chained_lines(profile, math.inf, records)  # noqa: SLF001 - what the proof rests on
    once, all_of_them = Decimal(last).exp(), (records * Decimal(last)).exp()
    # c + s·c + … for c = 1e-50 and s = e^last: the steepest line of all.
    exact = Decimal(left) * (all_of_them - 1) / (once - 1)
    assert all_of_them <= Decimal(float(slopes[-1])) <= all_of_them * (1 + Decimal("1e-9"))
    assert exact <= Decimal(float(heights[-1])) <= exact * (1 + Decimal("1e-9"))


def test_a_single_record_is_the_mechanism_itself() -> None:
    one = privacy.FlippedBits(users=30, flip_probability="0.1")
    alone = privacy.Grouped(one, 1)
    for epsilon in (0.0, 0.5, 1.0):
        assert alone.delta(epsilon).upper == pytest.approx(one.delta(epsilon).upper, rel=1e-8)


@pytest.mark.parametrize("each", [0, MOST_RECORDS + 1, 1.5])
def test_a_person_has_a_record_and_not_too_many(each: int) -> None:
    with pytest.raises(InvalidInput, match="records of a person"):
        privacy.Grouped(privacy.FlippedBits(users=10, flip_probability="0.1"), each)


def test_groups_are_made_of_single_records() -> None:
    single = privacy.FlippedBits(users=10, flip_probability="0.1")
    grouped = privacy.Grouped(single, 2)
    assert grouped.method == "upper-bound"
    for inner in (grouped, "bits"):
        with pytest.raises(InvalidInput, match="inner mechanism"):
            privacy.Grouped(inner, 2)  # type: ignore[arg-type]


def test_a_group_is_written_with_its_records() -> None:
    single = privacy.FlippedBits(users=10, flip_probability="0.1")
    grouped = privacy.Grouped(single, 3)
    document = mechanism_document(grouped)
    inner = mechanism_document(single)
    assert document == {"mechanism": "grouped", "records": 3, "inner": inner}
    assert mechanism_from(document) == grouped
    for wrong in ({"mechanism": "grouped", "records": 3}, document | {"more": 1}):
        with pytest.raises(InvalidInput, match="fields of Grouped must be exactly records, inner"):
            mechanism_from(wrong)
