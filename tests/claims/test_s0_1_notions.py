"""S0 sections 2 and 3: two notions of privacy, and adding records."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import thorough

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import (
    FLIPS,
    RATIOS,
    ZERO,
    Law,
    add_record,
    crowds,
    hockey_stick,
    multiset_delta,
    multiset_law,
    neighbours,
    pointwise,
)


def normalised(weights: list[int]) -> Law:
    return tuple(Fraction(w, sum(weights)) for w in weights)


def laws(size: int) -> st.SearchStrategy[Law]:
    weight = st.integers(min_value=0, max_value=9)
    return st.lists(weight, min_size=size, max_size=size).filter(any).map(normalised)


def law_pairs() -> st.SearchStrategy[tuple[Law, Law]]:
    return st.integers(1, 6).flatmap(lambda size: st.tuples(laws(size), laws(size)))


ratios = st.fractions(min_value=1, max_value=9, max_denominator=8)


@claim(
    "S0",
    "(2.3), two-sided note",
    "If the ratio stays below e^ε with probability 1 − δ for both orders of the neighbours, "
    "then it stays within e^±ε with the same probability 1 − δ.",
    CORRECTED,
    correction="The two-sided probability is only at least 1 − (1 + e^−ε)δ (proof: the set "
    "where the ratio is below e^−ε has probability at most e^−ε times its probability under "
    "the neighbour, which is at most δ).",
    counter_example="one user, q = 1/4, E = 2: δ = 3/4 in each order, yet both outcomes leave "
    "the two-sided interval (probability 1).",
)
@given(law_pairs(), ratios)
@thorough
def test_two_sided_bound(pair: tuple[Law, Law], ratio: Fraction) -> None:
    first, second = pair
    delta = max(pointwise(first, second, ratio), pointwise(second, first, ratio))
    below = sum((x for x, y in zip(first, second, strict=True) if ratio * x < y), ZERO)
    assert pointwise(first, second, ratio) + below <= (1 + 1 / ratio) * delta
    low, high = neighbours(0, 0, Fraction(1, 4))
    assert pointwise(low, high, Fraction(2)) == Fraction(3, 4)
    assert all(x > 2 * y or 2 * x < y for x, y in zip(low, high, strict=True))


@claim(
    "S0",
    "Prop. 2.1",
    "Point-wise indistinguishability of every neighbouring pair implies differential privacy.",
    HOLDS,
    correction="Proof: P − e^ε Q is at most P, and is positive only where the loss exceeds ε. It "
    "needs no finite domain; the sentence after (2.4) that it can fail in general is wrong.",
)
@given(law_pairs(), ratios)
@thorough
def test_pointwise_implies_privacy(pair: tuple[Law, Law], ratio: Fraction) -> None:
    first, second = pair
    assert hockey_stick(first, second, ratio) <= pointwise(first, second, ratio)


def difference(outcomes: tuple[int, ...], pair: tuple[Law, Law], ratio: Fraction) -> Fraction:
    return sum((pair[0][i] - ratio * pair[1][i] for i in outcomes), ZERO)


@claim(
    "S0",
    "Prop. 2.2",
    "Among all sets of outcomes, the set of all point-wise distinguishable ones has the largest "
    "difference P − e^ε Q.",
    HOLDS,
)
@given(law_pairs(), ratios)
@thorough
def test_distinguishable_set_is_maximal(pair: tuple[Law, Law], ratio: Fraction) -> None:
    size = len(pair[0])
    every = [s for r in range(size + 1) for s in combinations(range(size), r)]
    best = max(difference(s, pair, ratio) for s in every)
    assert best == hockey_stick(*pair, ratio)


@claim(
    "S0",
    "Prop. 2.2, proof",
    "Every other set of outcomes has a strictly smaller difference.",
    CORRECTED,
    correction="Not larger; outcomes with P = e^ε Q may be added or left out freely.",
    counter_example="one outcome, P = Q, E = 1: the empty set and the full set both give 0.",
)
def test_maximal_set_is_not_unique() -> None:
    certain: Law = (Fraction(1),)
    assert difference((), (certain, certain), Fraction(1)) == 0
    assert difference((0,), (certain, certain), Fraction(1)) == 0
    pair = (Fraction(2, 3), Fraction(1, 3)), (Fraction(1, 3), Fraction(2, 3))
    assert difference((0,), pair, Fraction(2)) == difference((), pair, Fraction(2)) == 0


@claim(
    "S0",
    "Prop. 2.3",
    "On finite domains point-wise indistinguishability and differential privacy with the same "
    "(ε, δ) are equivalent.",
    FALSE,
    correction="Only point-wise ⇒ private. δ-privacy gives the point-wise property at a larger ε "
    "with a larger δ only.",
    counter_example="one user, q = 1/4, E = 2: private with δ = 1/4, point-wise 3/4.",
)
def test_notions_are_not_equivalent() -> None:
    low, high = neighbours(0, 0, Fraction(1, 4))
    assert hockey_stick(low, high, Fraction(2)) == Fraction(1, 4)
    assert pointwise(low, high, Fraction(2)) == Fraction(3, 4)


@claim(
    "S0",
    "(4.3)",
    "For flipped and shuffled bits, (ε, δ)-privacy is the same as the ratio staying within e^±ε "
    "with probability 1 − δ.",
    FALSE,
    correction="The point-wise condition is sufficient, not necessary (Prop. 2.3).",
    counter_example="one user beside the target holding 0, q = 1/4, E = 2: δ = 3/16, point-wise "
    "9/16 one-sided.",
)
def test_bit_privacy_is_weaker_than_pointwise() -> None:
    low, high = neighbours(0, 1, Fraction(1, 4))
    assert hockey_stick(low, high, Fraction(2)) == Fraction(3, 16)
    assert pointwise(low, high, Fraction(2)) == Fraction(9, 16)
    for flip in FLIPS:
        for ones in range(5):
            low, high = neighbours(ones, 4 - ones, flip)
            for ratio in RATIOS:
                assert hockey_stick(low, high, ratio) <= pointwise(low, high, ratio)


@claim(
    "S0",
    "Prop. 3.1",
    "If shuffled reports of n records from a finite domain are (ε, δ)-private, those of n + 1 "
    "records are, with the same randomizer.",
    HOLDS,
    correction="Proof: the extra record is drawn independently of the pair, so adding it is "
    "post-processing; this holds pair by pair.",
)
@given(st.lists(laws(3), min_size=3, max_size=3), ratios)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_adding_records_never_hurts(table: list[Law], ratio: Fraction) -> None:
    rows = tuple(table)
    for size in range(3):
        for crowd in crowds(size, 3):
            base = multiset_law(crowd, rows)
            first, second = add_record(base, rows[0]), add_record(base, rows[1])
            delta = multiset_delta(first, second, ratio)
            for row in rows:
                more = multiset_delta(add_record(first, row), add_record(second, row), ratio)
                assert more <= delta


@claim(
    "S0",
    "(3.3), (3.4)",
    "The histogram law of n + 1 records is the mixture, over the output of the last record, of "
    "shifted histogram laws of the first n.",
    HOLDS,
)
@given(st.lists(laws(3), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_histogram_recursion(table: list[Law]) -> None:
    rows = tuple(table)
    small = multiset_law((0, 1), rows)
    # An independent count: enumerate the ordered outputs of the three records.
    for histogram, weight in multiset_law((0, 1, 2), rows).items():
        shifted = sum(
            (
                rows[2][i] * small.get(tuple(h - (j == i) for j, h in enumerate(histogram)), ZERO)
                for i in range(3)
            ),
            ZERO,
        )
        ordered = sum(
            (
                rows[0][a] * rows[1][b] * rows[2][c]
                for a in range(3)
                for b in range(3)
                for c in range(3)
                if tuple((a, b, c).count(v) for v in range(3)) == histogram
            ),
            ZERO,
        )
        assert shifted == ordered == weight
