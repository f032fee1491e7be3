"""Randomizers by name: their whole tables, enumerated, against the laws they are accounted by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from chaffinch.charts import amplification_bounds, privacy_curve
from chaffinch.errors import InvalidInput
from chaffinch.privacy import compose
from chaffinch.privacy.amplification import ShuffledRandomizer, ShuffledResponse, ShuffledTable
from chaffinch.privacy.randomizers import (
    DiscreteLaplace,
    LocalHashing,
    OptimizedUnary,
    Rappor,
    SubsetSelection,
    SymmetricUnary,
    _filter_outputs,
)
from tests.cases import each_case
from tests.privacy.test_amplification import worst_delta
from tests.tiers import all_but

Row = tuple[Fraction, ...]
Table = tuple[Row, ...]


def bits_table(inputs: list[tuple[int, ...]], keep: Fraction, noise: Fraction) -> Table:
    """Return the table of vectors of which every bit is sent by itself."""
    outputs = list(itertools.product((0, 1), repeat=len(inputs[0])))
    return tuple(
        tuple(
            math.prod(
                (
                    (keep if bit else noise) if sent else 1 - (keep if bit else noise)
                    for bit, sent in zip(held, output, strict=True)
                ),
                start=Fraction(1),
            )
            for output in outputs
        )
        for held in inputs
    )


def one_hot(values: int) -> list[tuple[int, ...]]:
    return [tuple(int(place == value) for place in range(values)) for value in range(values)]


def hashing_table(values: int, buckets: int, ratio: Fraction) -> Table:
    """Return the table of (function, answer) over all functions."""
    functions = list(itertools.product(range(buckets), repeat=values))
    share = 1 / (len(functions) * (ratio + buckets - 1))
    return tuple(
        tuple(
            share * (ratio if function[value] == answer else 1)
            for function in functions
            for answer in range(buckets)
        )
        for value in range(values)
    )


def subset_table(values: int, size: int, ratio: Fraction) -> Table:
    subsets = list(itertools.combinations(range(values), size))
    weights = [
        [ratio if value in one else Fraction(1) for one in subsets] for value in range(values)
    ]
    return tuple(tuple(w / sum(row) for w in row) for row in weights)


def laplace_table(steps: int, ratio: Fraction) -> Table:
    """Return the chances of geometric noise by adding far more tails than anyone needs."""
    reach = 60
    rows = []
    for value in range(steps + 1):
        row = [Fraction(0)] * (steps + 1)
        for noise in range(-reach, reach + 1):
            output = min(max(value + noise, 0), steps)
            row[output] += (1 - ratio) / (1 + ratio) * Fraction(ratio ** abs(noise))
        missing = 1 - sum(row, Fraction(0))
        row[0] += missing / 2
        row[-1] += missing / 2
        rows.append(tuple(row))
    return tuple(rows)


def rounded(log_ratio: float) -> Fraction:
    """Return e^log_ratio as devices draw it, to within a few units of 2⁻⁶⁴."""
    return Fraction(math.exp(log_ratio))


def unary(values: int, local: float, *, coin: bool) -> Table:
    if coin:
        noise = 1 / (1 + rounded(local))
        return bits_table(one_hot(values), Fraction(1, 2), noise)
    flip = 1 / (1 + rounded(local / 2))
    return bits_table(one_hot(values), 1 - flip, flip)


def filters(bits: int, hashes: int, keep: Fraction, noise: Fraction) -> Table:
    held = [
        tuple(int(place in some) for place in range(bits))
        for some in itertools.combinations(range(bits), hashes)
    ]
    return bits_table(held, keep, noise)


F = Fraction


def steps_of(reports: str) -> tuple[Fraction, Fraction]:
    """Return what RAPPOR's two steps make of a 1 and of a 0, by walking through both."""
    found = []
    for held in (1, 0):
        stays = F(1, 2) * held + F(1, 2) * F(1, 2)
        found.append(stays if reports == "all" else stays * F(3, 4) + (1 - stays) * F(1, 4))
    return found[0], found[1]


def rappor(bits: int, hashes: int, reports: str, users: int) -> Rappor:
    return Rappor(
        bits=bits,
        hashes=hashes,
        permanent="1/2",
        one="3/4",
        zero="1/4",
        reports=reports,
        users=users,
    )


_Case = tuple[ShuffledRandomizer, Table]
CASES: dict[str, Callable[[], _Case]] = {
    "symmetric 2": lambda: (
        SymmetricUnary(local_epsilon=1.5, values=2, users=3),
        unary(2, 1.5, coin=False),
    ),
    "symmetric 3": lambda: (
        SymmetricUnary(local_epsilon=1.5, values=3, users=3),
        unary(3, 1.5, coin=False),
    ),
    "optimized 2": lambda: (
        OptimizedUnary(local_epsilon=1.5, values=2, users=3),
        unary(2, 1.5, coin=True),
    ),
    "optimized 3": lambda: (
        OptimizedUnary(local_epsilon=1.5, values=3, users=3),
        unary(3, 1.5, coin=True),
    ),
    "hashing 2 to 2": lambda: (
        LocalHashing(local_epsilon=1, values=2, buckets=2, users=3),
        hashing_table(2, 2, rounded(1)),
    ),
    "hashing 2 to 3": lambda: (
        LocalHashing(local_epsilon=1, values=2, buckets=3, users=2),
        hashing_table(2, 3, rounded(1)),
    ),
    "hashing 3 to 2": lambda: (
        LocalHashing(local_epsilon=1, values=3, buckets=2, users=2),
        hashing_table(3, 2, rounded(1)),
    ),
    "two of four": lambda: (
        SubsetSelection(local_epsilon=1, values=4, size=2, users=3),
        subset_table(4, 2, rounded(1)),
    ),
    "one of three": lambda: (
        SubsetSelection(local_epsilon=1, values=3, size=1, users=3),
        subset_table(3, 1, rounded(1)),
    ),
    "laplace 2": lambda: (
        DiscreteLaplace(local_epsilon=2, steps=2, users=3),
        laplace_table(2, 1 / rounded(1)),
    ),
    "laplace 1": lambda: (
        DiscreteLaplace(local_epsilon=1, steps=1, users=3),
        laplace_table(1, 1 / rounded(1)),
    ),
    "rappor, one": lambda: (rappor(3, 1, "one", 3), filters(3, 1, *steps_of("one"))),
    "rappor, all": lambda: (rappor(3, 1, "all", 3), filters(3, 1, *steps_of("all"))),
    "rappor, two hashes": lambda: (rappor(4, 2, "one", 2), filters(4, 2, *steps_of("one"))),
}
_LOOSER = {
    "hashing 3 to 2": 0.25,
    "rappor, one": 0.25,
    "rappor, all": 0.25,
    "rappor, two hashes": 1.0,
}
"""How much above the blanket of the whole table: messages that suit all values are not used."""


@pytest.mark.parametrize("case", all_but(CASES, "rappor, two hashes"))
def test_the_truth_is_inside(case: str) -> None:
    named, table = CASES[case]()
    assert all(sum(row) == 1 for row in table)
    for epsilon in (0.0, 0.2, 0.7):
        truth = float(worst_delta(table, named.users, Fraction(math.exp(epsilon))))
        found = named.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-9), (named, epsilon)
        assert truth <= found.upper * (1 + 1e-9), (named, epsilon)
        # And the bound is that of the whole table, or a little above it.
        whole = ShuffledTable(table, users=named.users).delta(epsilon)
        slack = _LOOSER.get(case, 2e-3)
        assert whole.upper * (1 - 2e-3) <= found.upper <= whole.upper * (1 + slack), named
        assert found.lower <= whole.lower * (1 + 2e-3)
    # A table that tells a little more is outside: the check would see a wrong law.
    sharper = tuple(
        tuple(entry * F(9, 10) + (F(1, 10) if place == row else 0) for place, entry in enumerate(r))
        for row, r in enumerate(table)
    )
    assert float(worst_delta(sharper, named.users, F(1))) > named.delta(0.0).lower


@each_case("case", CASES)
def test_the_local_epsilon_is_the_largest_ratio(case: str) -> None:
    named, table = CASES[case]()
    worst = max(max(column) / min(column) for column in zip(*table, strict=True))
    assert named.local_epsilon == pytest.approx(math.log(worst), rel=1e-12)
    variation = max(
        sum((max(a - b, F(0)) for a, b in zip(one, two, strict=True)), F(0))
        for one, two in itertools.permutations(table, 2)
    )
    assert named.variation == pytest.approx(float(variation), rel=1e-12)


def test_what_is_asked_is_never_exceeded() -> None:
    for local in (0.1, 0.3, 1.0, 2.0, 7.7):
        for steps in (1, 3):
            assert DiscreteLaplace(local_epsilon=local, steps=steps, users=9).local_epsilon <= local
        for kind in (SymmetricUnary, OptimizedUnary, LocalHashing, SubsetSelection):
            found = kind(local_epsilon=local, values=5, users=9).local_epsilon
            assert found <= local
            assert found == pytest.approx(local, rel=1e-12)


def test_one_value_of_a_subset_is_k_ary_response() -> None:
    subset = SubsetSelection(local_epsilon=1, values=10, size=1, users=1000).epsilon(1e-6)
    response = ShuffledResponse(local_epsilon=1, values=10, users=1000).epsilon(1e-6)
    assert subset.upper == pytest.approx(response.upper, rel=1e-6)
    assert subset.lower == pytest.approx(response.lower, rel=1e-6)


def test_the_bracket_narrows_where_values_are_many() -> None:
    for kind in (OptimizedUnary, LocalHashing):
        found = kind(local_epsilon=4, values=1000, users=100_000).epsilon(1e-6)
        assert found.relative_width < 0.02
    # By the clone bound, which knows the local epsilon alone, twice as much.
    bounds = {
        one.label: one.epsilon(1e-6)
        for one in amplification_bounds(OptimizedUnary(local_epsilon=4, values=9, users=100_000))
    }
    assert (bounds["privacy blanket"] or 9) < 0.5 * (bounds["clones, numerical"] or 0)


def test_rappor_is_as_private_as_its_authors_say() -> None:
    # [Erlingsson et al. 2014], section 5: 2h·ln((1 − f/2)/(f/2)) for ever.
    given = {"bits": 128, "hashes": 2, "permanent": "1/2", "one": "3/4", "zero": "1/2", "users": 50}
    forever = Rappor(**given, reports="all")  # type: ignore[arg-type]
    assert forever.local_epsilon == pytest.approx(4 * math.log(3))
    once = Rappor(**given)  # type: ignore[arg-type]
    one, none = 0.75 * 0.75 + 0.25 * 0.5, 0.25 * 0.75 + 0.75 * 0.5
    ratio = one * (1 - none) / (none * (1 - one))
    assert once.local_epsilon == pytest.approx(2 * math.log(ratio))
    assert once.epsilon(1e-3).upper < forever.epsilon(1e-3).upper


@pytest.mark.long
def test_randomizers_compose_and_are_drawn() -> None:
    named = OptimizedUnary(local_epsilon=1, values=10, users=5000)
    once, four = named.epsilon(1e-6), compose(named, times=4).epsilon(1e-6)
    assert once.upper < four.upper < 4 * once.upper
    figure = privacy_curve(named, least_delta=1e-4)
    assert figure.title == (
        "Optimized unary, at least 5000 honest users, the target included, with any values, "
        "10 values, local epsilon 1"
    ).replace("5000", "5,000")
    assert figure.series[-1].name.startswith("variation ratio")


@each_case(
    "make",
    [
        lambda: SymmetricUnary(local_epsilon=0, values=3, users=9),
        lambda: SymmetricUnary(local_epsilon=math.nan, values=3, users=9),
        lambda: OptimizedUnary(local_epsilon=1, values=1, users=9),
        lambda: LocalHashing(local_epsilon=1, values=3, buckets=1, users=9),
        lambda: SubsetSelection(local_epsilon=1, values=3, size=3, users=9),
        lambda: SubsetSelection(local_epsilon=1, values=3, size=0, users=9),
        lambda: DiscreteLaplace(local_epsilon=1, steps=0, users=9),
        lambda: DiscreteLaplace(local_epsilon=31, steps=2, users=9),
        lambda: Rappor(bits=8, hashes=5, permanent="1/2", users=9),
        lambda: Rappor(bits=8, hashes=1, permanent="1", users=9),
        lambda: Rappor(bits=64, hashes=8, permanent="1e-50", users=9),
        lambda: Rappor(bits=8, hashes=1, permanent="1/2", one="1/4", zero="1/2", users=9),
        lambda: Rappor(bits=8, hashes=1, permanent="1/2", reports="some", users=9),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        make()


def test_bits_that_a_pair_of_filters_shares_are_covered_as_all_others() -> None:
    # Every input sends an output v with at least (what no bit of a value weighs) for each hash.
    table = filters(8, 3, *steps_of("one"))
    keep, noise = steps_of("one")
    for shared in range(3):
        outputs = list(_filter_outputs(keep, noise, 3, shared))
        assert sum(cover for _, _, cover in outputs) == ((1 - keep) / (1 - noise)) ** 3
        first, second = table[0], table[{0: -1, 1: 20, 2: 1}[shared]]
        gap = sum((max(a - b, F(0)) for a, b in zip(first, second, strict=True)), F(0))
        assert sum(max(a - b, F(0)) for a, b, _ in outputs) == gap
