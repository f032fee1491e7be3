"""Exact rationals for the views with more than one sum: values, numbers, vectors, filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import lcm

from tests.oracles import exact
from tests.oracles.exact import Pair

Weights = dict[tuple[int, ...], int]

# --- flipped values, messages view: one sum per value ---------------------------------------


def sums_weights(truth: Sequence[int], records: int, flip: Fraction) -> Weights:
    """Return the law of all per-value sums when ``truth[v]`` of ``records`` hold value v."""
    columns = [exact.count_weights(held, records - held, flip) for held in truth]
    out: Weights = {}
    for sums in product(range(records + 1), repeat=len(truth)):
        weight = 1
        for column, count in zip(columns, sums, strict=True):
            weight *= column[count]
        out[sums] = weight
    return out


def flipped_values_pair(others: Sequence[int], decoys: int, flip: Fraction) -> Pair:
    """Return the laws of the sums with the target on value 0 (first) or 1 (second).

    The decoys' true values are uniform and unseen: an exact mixture over where they fell.
    """
    values, records = len(others), sum(others) + 1 + decoys
    sides: list[Weights] = [{}, {}]
    for fallen in exact.compositions(decoys, values):
        ways = exact.orders(fallen)
        for side in (0, 1):
            truth = [a + b for a, b in zip(others, fallen, strict=True)]
            truth[side] += 1
            for sums, weight in sums_weights(truth, records, flip).items():
                sides[side][sums] = sides[side].get(sums, 0) + ways * weight
    total = values**decoys * flip.denominator ** (values * records)
    return Pair(tuple(sides[0].values()), tuple(sides[1][key] for key in sides[0]), total)


def flipped_values_pairs(users: int, decoys: int, values: int, flip: Fraction) -> Iterator[Pair]:
    """Yield the pair of every crowd. Values are exchangeable, so 0 -> 1 covers every pair."""
    for others in exact.compositions(users - 1, values):
        yield flipped_values_pair(others, decoys, flip)


def two_sums_pair(first: int, second: int, records: int, flip: Fraction) -> Pair:
    """Return the two affected sums only: ``first``, ``second`` of ``records`` others are set."""
    leaving = exact.bits_pair(first, records - first, flip).reversed()
    joining = exact.bits_pair(second, records - second, flip)
    return exact.product(leaving, joining)


def two_sums_mixture(
    others: tuple[int, int, int], decoys: int, values: int, flip: Fraction
) -> Pair:
    """Return the two affected sums with the decoys mixed in, whatever the other sums show.

    ``others`` counts records on the first, the second and all other values. Looking at two of
    the sums is post-processing, so this is a lower bound of the whole view, for any ``values``.
    """
    records = sum(others) + decoys
    first = [0] * (records + 2) ** 2
    second = list(first)
    for fallen in exact.compositions(decoys, 3):
        ways = exact.orders(fallen) * (values - 2) ** fallen[2]
        pair = two_sums_pair(others[0] + fallen[0], others[1] + fallen[1], records, flip)
        first = [a + ways * b for a, b in zip(first, pair.first, strict=True)]
        second = [a + ways * b for a, b in zip(second, pair.second, strict=True)]
    return Pair(tuple(first), tuple(second), sum(first))


# --- numbers: r thermometer bits ------------------------------------------------------------


def slots_pair(crowd: Sequence[int], users: int, flip: Fraction, low: int, high: int) -> Pair:
    """Return the sums of all slots, target x = low/r (first) or high/r (second).

    ``crowd[j]`` of the other users have a one in slot j.
    """
    answer = Pair((1,), (1,), 1)
    for slot, ones in enumerate(crowd):
        pair = exact.bits_pair(ones, users - 1 - ones, flip)
        if slot < low:
            pair = Pair(pair.second, pair.second, pair.total)
        elif slot >= high:
            pair = Pair(pair.first, pair.first, pair.total)
        answer = exact.product(answer, pair)
    return answer


def thermometer_crowds(others: int, resolution: int) -> Iterator[tuple[int, ...]]:
    """Yield the ones per slot for every crowd on the grid: a_1 >= a_2 >= ... >= a_r.

    A number between grid points is a mixture of two thermometers, and the hockey-stick is
    jointly convex, so the grid holds the worst crowd and the worst target.
    """
    for numbers in combinations_with_replacement(range(resolution + 1), others):
        yield tuple(sum(number > slot for number in numbers) for slot in range(resolution))


def separate_slots_pairs(
    users: int, resolution: int, flip: Fraction, *, every_target: bool = False
) -> Iterator[Pair]:
    """Yield each crowd's pair for x = 0 against 1, or for every pair of targets."""
    for crowd in thermometer_crowds(users - 1, resolution):
        for low in range(resolution if every_target else 1):
            for high in range(low + 1 if every_target else resolution, resolution + 1):
                yield slots_pair(crowd, users, flip, low, high)


def slots_together_pairs(users: int, resolution: int, flip: Fraction) -> Iterator[Pair]:
    """Yield the total's pair, x = 0 against 1, for every number of ones in the crowd."""
    others = resolution * (users - 1)
    for ones in range(others + 1):
        yield exact.loose_bits_pair(ones, others - ones, flip, resolution)


# --- vectors (records view) and filters (columns view): a multiset of L-bit rows -------------


def row_weights(row: int, bits: int, flip: Fraction) -> list[int]:
    """Return the weight of each output row: wrong^distance * right^(bits - distance)."""
    wrong, right = flip.numerator, flip.denominator - flip.numerator
    away = ((row ^ shown).bit_count() for shown in range(1 << bits))
    return [wrong**distance * right ** (bits - distance) for distance in away]


def add_row(law: Weights, row: Sequence[int]) -> Weights:
    """Return the law of the multiset (as counts) after one more randomized row."""
    out: Weights = {}
    for counts, weight in law.items():
        for shown, chance in enumerate(row):
            key = (*counts[:shown], counts[shown] + 1, *counts[shown + 1 :])
            out[key] = out.get(key, 0) + weight * chance
    return out


def crowd_laws(
    others: int, rows: Sequence[Sequence[int]]
) -> Iterator[tuple[tuple[int, ...], Weights]]:
    """Yield every multiset of other inputs with the law of what it shows."""

    def grow(crowd: tuple[int, ...], law: Weights) -> Iterator[tuple[tuple[int, ...], Weights]]:
        if len(crowd) == others:
            yield crowd, law
            return
        for row in range(crowd[-1] if crowd else 0, len(rows)):
            yield from grow((*crowd, row), add_row(law, rows[row]))

    yield from grow((), {(0,) * len(rows[0]): 1})


def vectors_pairs(
    users: int, bits: int, flip: Fraction
) -> Iterator[tuple[tuple[int, ...], int, Pair]]:
    """Yield (crowd, other target, pair) for target row 0 against every other row.

    Flipping the same positions of all rows changes nothing, so target 0 covers all pairs,
    and both orders; renaming positions leaves one target per number of set bits.
    """
    rows = [row_weights(row, bits, flip) for row in range(1 << bits)]
    total = flip.denominator ** (bits * users)
    for crowd, law in crowd_laws(users - 1, rows):
        zero = add_row(law, rows[0])
        for moved in range(1, bits + 1):
            target = (1 << moved) - 1
            other = add_row(law, rows[target])
            yield crowd, target, Pair(tuple(zero.values()), tuple(other[k] for k in zero), total)


def assumed_pair(users: int, bits: int, flip: Fraction) -> Pair:
    """Return the pair the sources call the worst: others all zero, target zero or all ones.

    Only how many shown rows have y set bits matters for the likelihood ratio, but the whole
    multiset is kept here: this is the definition, not the shortcut.
    """
    rows = [row_weights(row, bits, flip) for row in range(1 << bits)]
    law: Weights = {(0,) * (1 << bits): 1}
    for _ in range(users - 1):
        law = add_row(law, rows[0])
    zero, full = add_row(law, rows[0]), add_row(law, rows[-1])
    total = flip.denominator ** (bits * users)
    return Pair(tuple(zero.values()), tuple(full[key] for key in zero), total)


def table_pairs(users: int, table: Sequence[Sequence[Fraction]]) -> Iterator[Pair]:
    """Yield the pair of every crowd and every two inputs of any randomizer, shuffled."""
    bottom = lcm(*(entry.denominator for row in table for entry in row))
    rows = [[int(entry * bottom) for entry in row] for row in table]
    for _, law in crowd_laws(users - 1, rows):
        shown = [add_row(law, row) for row in rows]
        for one, two in combinations(shown, 2):
            yield Pair(tuple(one.values()), tuple(two[key] for key in one), bottom**users)
