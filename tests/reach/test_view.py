"""What the analyzer sees, column by column and in their order, counted out over every hash.

With a secret hash the places of the columns carry nothing: this is what stands in for a
secret permutation. Every function from ids to columns is enumerated, and every flip.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import pytest

from chaffinch import privacy
from tests.oracles import judge
from tests.oracles.exact import Pair

Lists = tuple[frozenset[int], ...]
"""The ids of each publisher."""
View = tuple[int, ...]
"""One logo for each column, in order."""


def columns_of(lists: Lists, hashed: tuple[tuple[int, ...], ...], bits: int) -> View:
    """Return the columns before flipping; id i has the columns ``hashed[i]``."""
    columns = [0] * bits
    for row, ids in enumerate(lists):
        for one in ids:
            for place in hashed[one]:
                columns[place] |= 1 << row
    return tuple(columns)


@cache
def flipped_law(truth: View, filters: int, flip: Fraction) -> dict[View, int]:
    """Return the law of the flipped columns in their order, as whole weights."""
    wrong, total = flip.numerator, flip.denominator
    law = {}
    for seen in product(range(2**filters), repeat=len(truth)):
        changed = sum((a ^ b).bit_count() for a, b in zip(truth, seen, strict=True))
        law[seen] = wrong**changed * (total - wrong) ** (filters * len(truth) - changed)
    return law


def secret_law(lists: Lists, ids: int, bits: int, hashes: int, flip: Fraction) -> Counter[View]:
    """Return the law of what is seen when the hash is a uniform function that nobody knows."""
    each = list(product(range(bits), repeat=hashes))
    law: Counter[View] = Counter()
    for truth, times in Counter(
        columns_of(lists, hashed, bits) for hashed in product(each, repeat=ids)
    ).items():
        for seen, weight in flipped_law(truth, len(lists), flip).items():
            law[seen] += times * weight
    return law


WITH = (frozenset({0, 1}), frozenset({0, 2}))
WITHOUT = (frozenset({1}), frozenset({2}))
"""Id 0 is at both publishers, or nowhere."""


@pytest.mark.parametrize("hashes", [1, 2])
def test_the_order_of_the_columns_tells_nothing(hashes: int) -> None:
    law = secret_law(WITH, 3, 3, hashes, Fraction(1, 5))
    for order in permutations(range(3)):
        for seen, weight in law.items():
            assert law[tuple(seen[place] for place in order)] == weight


@pytest.mark.parametrize("flip", [Fraction(1, 10), Fraction(3, 10)])
@pytest.mark.parametrize("hashes", [1, 2])
def test_one_id_is_protected_as_promised(hashes: int, flip: Fraction) -> None:
    first = secret_law(WITH, 3, 3, hashes, flip)
    second = secret_law(WITHOUT, 3, 3, hashes, flip)
    total = sum(first.values())
    pair = Pair(tuple(first.values()), tuple(second[seen] for seen in first), total)
    promised = privacy.FlippedAudiences(filters=2, bits=3, hashes=hashes, flip_probability=flip)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        truth = judge.true_delta([pair, pair.reversed()], epsilon)
        assert truth[1] <= Fraction(promised.delta_bound(epsilon))


def test_with_a_known_hash_only_the_flips_are_left() -> None:
    """The promise breaks where the key is known, so the test above can fail."""
    flip, hashed = Fraction(1, 10), ((0,), (1,), (2,))
    laws = [flipped_law(columns_of(lists, hashed, 3), 2, flip) for lists in (WITH, WITHOUT)]
    pair = Pair(tuple(laws[0].values()), tuple(laws[1].values()), 10**6)
    promised = privacy.FlippedAudiences(filters=2, bits=3, hashes=1, flip_probability=flip)
    epsilon = 0.99 * promised.local_epsilon
    assert judge.true_delta([pair], epsilon)[0] > 0
    assert judge.true_delta([pair], promised.local_epsilon)[0] == 0
    secret = [secret_law(lists, 3, 3, 1, flip) for lists in (WITH, WITHOUT)]
    hidden = Pair(
        tuple(secret[0].values()),
        tuple(secret[1][seen] for seen in secret[0]),
        sum(secret[0].values()),
    )
    assert judge.true_delta([hidden], 1.0)[1] < judge.true_delta([pair], 1.0)[0]
