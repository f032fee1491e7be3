"""S1 sections 6 to 8: whole vectors of bits."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import factorial, prod

from .ledger import CORRECTED, FALSE, HOLDS, claim
from .reference import FLIPS, ZERO, MultisetLaw, add_record, flip_table, multiset_law

CASES = tuple(product(FLIPS, ((1, 4), (2, 4), (3, 2))))


def laws(length: int, records: int, q: Fraction) -> tuple[MultisetLaw, MultisetLaw, MultisetLaw]:
    """The crowd of ones alone, with the target zero, and with the target one."""
    table = flip_table(length, q)
    full = 2**length - 1
    crowd = multiset_law([full] * (records - 1), table)
    return crowd, add_record(crowd, table[0]), add_record(crowd, table[full])


@claim(
    "S1",
    "(6.1)–(6.3)",
    "The law of the histogram with one more vector is the mixture over that vector's output, and "
    "the ratio may be divided through by the first term.",
    CORRECTED,
    correction="Dividing through needs at least one copy of the first vector, s_1 ≥ 1; the result "
    "(6.10) does not.",
    counter_example="L = 1, N = 1, output 1: s_1 = 0, and (6.3) divides by P(s_1 − 1, …) = 0.",
)
def test_mixture_over_the_target() -> None:
    for q, (length, records) in CASES:
        table = flip_table(length, q)
        crowd, zero, _ = laws(length, records, q)
        for key, weight in zero.items():
            terms = [
                crowd.get(tuple(s - (j == i) for j, s in enumerate(key)), ZERO) * table[0][i]
                for i in range(2**length)
            ]
            assert sum(terms, ZERO) == weight
    crowd, zero, _ = laws(1, 1, Fraction(1, 4))
    assert (0, 1) in zero
    assert (-1, 1) not in crowd


@claim(
    "S1",
    "(6.4), (6.5)",
    "The ratio of neighbouring multinomial terms is (s_i/s_1)·P(v_1 | 1)/P(v_i | 1), with "
    "multinomial coefficients (2^L)!/Π s_j!.",
    CORRECTED,
    correction="The coefficient is (N − 1)!/Π s_j!; it cancels. v_1 is the zero vector.",
    counter_example="L = 1, N = 2: the law of one record, coefficient 1! = 1, printed 2! = 2.",
)
def test_multinomial_ratio() -> None:
    for q, (length, records) in CASES:
        row = flip_table(length, q)[-1]
        crowd, _, _ = laws(length, records, q)
        for key, weight in crowd.items():
            coefficient = Fraction(factorial(records - 1), prod(map(factorial, key)))
            assert weight == coefficient * prod(w**s for w, s in zip(row, key, strict=True))
            for i in range(1, 2**length):
                # One record moves from v_i to v_1, as between the two terms of (6.5).
                if key[i]:
                    moved = (key[0] + 1, *(s - (j == i) for j, s in enumerate(key) if j))
                    expected = Fraction(key[i], key[0] + 1) * row[0] / row[i]
                    assert crowd[moved] / weight == expected


@claim(
    "S1",
    "(6.6)–(6.11)",
    "If all others are ones, the ratio of target 0 over target 1 is (1/N)Σ_l s_l(p/q)^(L−2l), s_l "
    "counting the reported vectors with l set bits, so those counts tell all there is to tell.",
    HOLDS,
    correction="For this crowd and this pair. That the pair is the worst is not shown and is "
    "false: see S4, part III.",
)
def test_vector_ratio() -> None:
    for q, (length, records) in CASES:
        odds = (1 - q) / q
        _, zero, one = laws(length, records, q)
        for key, weight in zero.items():
            exponents = [length - 2 * v.bit_count() for v in range(2**length)]
            mean = sum((s * odds**e for s, e in zip(key, exponents, strict=True)), ZERO) / records
            assert weight / one[key] == mean


@claim(
    "S1",
    "(7.1)–(7.8)",
    "For two vectors, P(l_2 | 1)/P(l_1 | 1) is p^(l_2−l_1)·q^(L−(l_2−l_1)), which leads to (7.8).",
    FALSE,
    correction="It is (p/q)^(l_2−l_1), without the factor q^L. (Under a heading that says to "
    "ignore it.)",
    counter_example="L = 1, l_1 = l_2 = 0, q = 1/4: 1 against 1/4.",
)
def test_two_vectors() -> None:
    for q, length in product(FLIPS, (1, 2, 3)):
        row = flip_table(length, q)[-1]
        for first, second in product(range(2**length), repeat=2):
            step = second.bit_count() - first.bit_count()
            assert row[second] / row[first] == ((1 - q) / q) ** step
            assert row[second] / row[first] != (1 - q) ** step * q ** (length - step)


@claim(
    "S1",
    "(7.10)–(7.16)",
    "The ratio of the laws of an ordered output, summed over who sent what, is the mean of "
    "P(s_i | 0)/P(s_i | 1).",
    HOLDS,
    correction="The same as (6.10), which `test_vector_ratio` checks for the multiset. "
    "(7.13) prints N! without the repeats; it cancels. (7.17) and (7.21) are unfinished.",
)
def test_ordered_outputs() -> None:
    for q, (length, records) in CASES:
        table = flip_table(length, q)
        zero, one = table[0], table[-1]
        for outputs in product(range(2**length), repeat=min(records, 3)):
            n = len(outputs)
            top = sum(
                (zero[outputs[i]] * prod(one[s] for j, s in enumerate(outputs) if j != i))
                for i in range(n)
            )
            bottom = n * prod(one[s] for s in outputs)
            assert Fraction(top) / bottom == sum((zero[s] / one[s] for s in outputs), ZERO) / n


@claim(
    "S1",
    "(8.1)–(8.8)",
    "If the output is one zero vector and N − 1 equal vectors with s set bits, the ratio is "
    "(1/N)(p/q)^L + ((N − 1)/N)(p/q)^(L−2s).",
    HOLDS,
    correction="For a vector other than zero; at s = 0 formula (8.8) stays right while (8.1) "
    "counts N times too much.",
)
def test_one_zero_vector() -> None:
    for q, (length, records) in CASES:
        odds = (1 - q) / q
        _, zero, one = laws(length, records, q)
        row = flip_table(length, q)[-1]
        for v in range(1, 2**length):
            key = tuple(
                (1 if j == 0 else 0) + (records - 1 if j == v else 0) for j in range(len(row))
            )
            assert one[key] == records * q**length * row[v] ** (records - 1)
            expected = odds**length + (records - 1) * odds ** (length - 2 * v.bit_count())
            assert zero[key] / one[key] == expected / records
