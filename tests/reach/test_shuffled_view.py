"""Who sees what when a shuffler flips the columns again, counted out over every hash and crowd.

Three readers, three laws:

* the analyzer together with publishers, who know the hash and choose their own rows: all rows
  are flipped by the shuffler, and only how many columns have each logo is left;
* the shuffler, who sees the publishers' rows in their order and does not know the hash: that is
  the view of ``test_view``, at the publishers' own flips;
* the shuffler together with a publisher: the order is known, and the own flips are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from math import lcm

import pytest

from chaffinch import privacy
from tests.oracles import judge
from tests.oracles.exact import Pair
from tests.reach.test_view import WITH, WITHOUT, Lists, View, columns_of
from tests.tiers import chequered

Law = dict[tuple[int, ...], Fraction]
BITS = 3
EPSILONS = (0.0, 0.5, 1.0, 2.0, 3.0)
CLEAR = Fraction(0)
OWN, SHUFFLED = Fraction(1, 50), Fraction(1, 5)
"""What publishers flip, and what the shuffler does."""


def column_law(truth: int, flips: tuple[Fraction, ...]) -> Law:
    """Return the law of one column whose row r is flipped with ``flips[r]``."""
    law: Law = {}
    for seen in range(2 ** len(flips)):
        chance = Fraction(1)
        for row, flip in enumerate(flips):
            chance *= flip if (truth ^ seen) >> row & 1 else 1 - flip
        law[(seen,)] = chance
    return law


def ordered(columns: View, flips: tuple[Fraction, ...]) -> Law:
    """Return the law of all columns in their order."""
    law: Law = {(): Fraction(1)}
    for truth in columns:
        one = column_law(truth, flips)
        law = {(*a, *b): p * q for a, p in law.items() for b, q in one.items()}
    return law


def counted(columns: View, flips: tuple[Fraction, ...]) -> Law:
    """Return the law of how many columns have each logo: all that a uniform order leaves."""
    return gathered(ordered(columns, flips))


def gathered(law: Law) -> Law:
    found: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for seen, chance in law.items():
        found[tuple(sorted(seen))] += chance
    return dict(found)


def both_flips(own: Fraction, shuffled: Fraction) -> Fraction:
    return own + shuffled - 2 * own * shuffled


def pair_of(first: Law, second: Law) -> Pair:
    seen = sorted(first.keys() | second.keys())
    total = lcm(*(chance.denominator for law in (first, second) for chance in law.values()))
    one, two = (tuple(int(law.get(key, CLEAR) * total) for key in seen) for law in (first, second))
    return Pair(one, two, total)


def broken(pair: Pair, promised: privacy.FlippedAudiences) -> list[float]:
    """Return the epsilons at which two neighbours are further apart than promised."""
    both = [pair, pair.reversed()]
    return [
        epsilon
        for epsilon in EPSILONS
        if judge.true_delta(both, epsilon)[0] > Fraction(promised.delta_bound(epsilon))
    ]


def settings(honest: int, hashes: int) -> Iterator[tuple[View, View]]:
    """Yield the true columns with and without an id, for every hash and every crowd.

    The last row is of a publisher who helps the analyzer, and holds anything. The honest ones
    have the id all together, one other id at the first of them, and one at the last.
    """
    everyone: Lists = tuple(
        frozenset({0} | ({1} if row == 0 else set()) | ({2} if row == honest - 1 else set()))
        for row in range(honest)
    )
    without = tuple(ids - {0} for ids in everyone)
    each = list(product(range(BITS), repeat=hashes))
    found: set[tuple[View, View]] = set()
    # Columns may be renamed, so the first column of the id is column 0.
    for hashed in product([one for one in each if one[0] == 0], each, each):
        for chosen in range(2**BITS):
            row = [(chosen >> place & 1) << honest for place in range(BITS)]
            one, two = (
                tuple(a | b for a, b in zip(columns_of(lists, hashed, BITS), row, strict=True))
                for lists in (everyone, without)
            )
            found.add((one, two))
    yield from sorted(found)


def promise(rows: int, hashes: int, flip: Fraction = SHUFFLED) -> privacy.FlippedAudiences:
    return privacy.FlippedAudiences(filters=rows, bits=BITS, hashes=hashes, flip_probability=flip)


# ----------------------------------------------------------------- the analyzer with publishers


@pytest.mark.parametrize(
    ("honest", "hashes", "own"), chequered([(1, 1), (1, 2), (2, 1)], [CLEAR, OWN])
)
def test_the_shuffler_alone_keeps_the_promise_whoever_knows_the_hash(
    honest: int, hashes: int, own: Fraction
) -> None:
    """Even if publishers flip nothing, and one of them marks the columns that it looks for."""
    flips = (*(both_flips(own, SHUFFLED),) * honest, SHUFFLED)
    promised = promise(honest + 1, hashes)
    for first, second in settings(honest, hashes):
        assert broken(pair_of(counted(first, flips), counted(second, flips)), promised) == []


def worst(first: View, second: View, flips: tuple[Fraction, ...]) -> Pair:
    return pair_of(counted(first, flips), counted(second, flips))


MARKED = ((0b11, 0b00, 0b00), (0b10, 0b00, 0b00))
"""The id's column at an honest publisher, marked by one who helps the analyzer."""


def test_a_row_that_the_shuffler_does_not_flip_breaks_it() -> None:
    assert broken(worst(*MARKED, (both_flips(OWN, SHUFFLED), CLEAR)), promise(2, 1))
    assert broken(worst(*MARKED, (OWN, SHUFFLED)), promise(2, 1))
    assert broken(worst(*MARKED, (OWN, OWN)), promise(2, 1))
    assert not broken(worst(*MARKED, (SHUFFLED, SHUFFLED)), promise(2, 1))


def test_an_order_that_is_known_breaks_it() -> None:
    flips = (both_flips(OWN, SHUFFLED), SHUFFLED)
    known = pair_of(*(ordered(columns, flips) for columns in MARKED))
    assert broken(known, promise(2, 1))


def test_a_second_hand_over_of_the_same_rows_breaks_it() -> None:
    """With the same order of the columns, and with another one."""
    flips = (SHUFFLED, SHUFFLED)
    aligned, apart = [], []
    for columns in MARKED:
        twice = ordered(tuple(one | one << 2 for one in columns), flips * 2)
        aligned.append(gathered(twice))
        once = counted(columns, flips)
        apart.append({(*a, *b): p * q for a, p in once.items() for b, q in once.items()})
    assert broken(pair_of(*aligned), promise(2, 1))
    assert broken(pair_of(*apart), promise(2, 1))


def test_a_copied_row_is_no_way_round() -> None:
    """Who hands in an honest publisher's filter as its own sees it twice: the promise has room."""
    flips = (SHUFFLED, SHUFFLED)
    pair = worst((0b11, 0b11, 0b00), (0b00, 0b11, 0b00), flips)
    assert broken(pair, promise(2, 1)) == []


def test_counts_are_all_that_a_uniform_order_leaves() -> None:
    """Given the counts, every order of the columns is equally likely, whatever the filters hold.

    So whoever has the counts can draw the permuted columns, and the other way round.
    """
    flips = (both_flips(OWN, SHUFFLED), SHUFFLED)
    for columns in MARKED:
        law = ordered(columns, flips)
        shuffled: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        orders = list(permutations(range(BITS)))
        for order in orders:
            for seen, chance in law.items():
                shuffled[tuple(seen[place] for place in order)] += chance / len(orders)
        counts = gathered(law)
        for seen, chance in shuffled.items():
            alike = len(set(permutations(seen)))
            assert chance == counts[tuple(sorted(seen))] / alike


# ----------------------------------------------------------------- the shuffler by itself


def seen_by_the_shuffler(lists: Lists, campaigns: int = 1) -> Law:
    """Return the law of all rows in their order, under a uniform hash that is not known.

    Several campaigns, all under that one hash, are what a key for each collection rules out.
    """
    found: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    hashes = list(product(range(BITS), repeat=3))
    for hashed in hashes:
        columns = columns_of(lists, tuple((place,) for place in hashed), BITS)
        once = ordered(columns, (SHUFFLED,) * len(lists))
        law: Law = {(): Fraction(1)}
        for _ in range(campaigns):
            law = {(*a, *b): p * q for a, p in law.items() for b, q in once.items()}
        for seen, chance in law.items():
            found[seen] += chance / len(hashes)
    return dict(found)


def test_the_shuffler_sees_what_the_analyzer_of_the_other_plans_sees() -> None:
    pair = pair_of(seen_by_the_shuffler(WITH), seen_by_the_shuffler(WITHOUT))
    assert broken(pair, promise(2, 1)) == []


def test_together_with_the_analyzer_it_learns_no_more() -> None:
    """What is handed over is made of what the shuffler sees, so it tells nothing on top."""
    laws = [seen_by_the_shuffler(lists) for lists in (WITH, WITHOUT)]
    both = [
        {
            (*seen, *counts): chance * more
            for seen, chance in law.items()
            for counts, more in counted(seen, (OWN, OWN)).items()
        }
        for law in laws
    ]
    for epsilon in EPSILONS:
        assert judge.true_delta([pair_of(*both)], epsilon) == judge.true_delta(
            [pair_of(*laws)], epsilon
        )


def test_two_campaigns_under_one_hash_break_it() -> None:
    """So the hash follows from the key and the plan, and a key makes one filter of a publisher."""
    lists = (frozenset({0, 1}),), (frozenset({1}),)
    alone = [pair_of(*(seen_by_the_shuffler(one, times) for one in lists)) for times in (1, 2)]
    assert broken(alone[0], promise(1, 1)) == []
    assert broken(alone[1], promise(1, 1))


# ----------------------------------------------------------------- the shuffler with a publisher


def test_with_a_publisher_the_shuffler_leaves_the_own_flips_of_the_others() -> None:
    """It sees all rows in their order, knows one of them, and knows whose columns are whose."""
    flips = (OWN, OWN, CLEAR)
    first, second = (0b011, 0b000, 0b100), (0b000, 0b000, 0b100)
    pair = pair_of(ordered(first, flips), ordered(second, flips))
    left = promise(2, 1, OWN).local_epsilon
    assert judge.true_delta([pair, pair.reversed()], left)[0] == 0
    assert judge.true_delta([pair], 0.999 * left)[0] > 0
