"""S4 overview and part I line by line, misprints among it. Here q is the flip probability."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from .ledger import CORRECTED, HOLDS, claim
from .reference import FLIPS, ZERO, flip_table
from .test_s4_1_signal import largest, move, noise, signal, solve
from .test_s4_2_one_filter import loss

QUARTER = Fraction(1, 4)


@claim(
    "S4",
    "Overview",
    "Part II, one filter, generalizes to part III, several filters.",
    CORRECTED,
    correction="With one filter part III is part II at y_d = 0 alone: it looks at one input, part "
    "II at any.",
    counter_example="m = 2, q = 1/4, y_x = 1: part III has R = 5/3, part II with y_d = 1 has 3/5.",
)
def test_part_three_holds_part_two_at_one_input() -> None:
    for q, m in product(FLIPS, range(1, 7)):
        odds = (1 - q) / q
        for yx in range(m + 1):
            assert loss(m, 0, yx, q) == ((m - yx) / odds + yx * odds) / m
    assert loss(2, 0, 1, QUARTER) == Fraction(5, 3)
    assert loss(2, 1, 1, QUARTER) == Fraction(3, 5)


@claim(
    "S4",
    "I, A and a",
    "A = aaᵀ with a = Pᵀ(e_i − e_j) above, and a = P(e_i − e_j) below.",
    HOLDS,
    correction="Both are the same because P is symmetric.",
)
def test_symmetry_of_the_table() -> None:
    for q, filters in product(FLIPS, (1, 2, 3)):
        table = flip_table(filters, q)
        assert table == tuple(zip(*table, strict=True))


@claim(
    "S4",
    "I, unit length",
    "As B annihilates the constants, a constant may be added to c so that its length is one.",
    CORRECTED,
    correction="A constant can only lengthen the c whose entries sum to zero; if that one is "
    "longer than one, divide by its length. (Nor may c be constant: the ratio is then 0/0.)",
    counter_example="k = 1, m = 1, q = 1/4: the shortest solution is ±(4/3, −4/3), of length 1.89.",
)
def test_a_constant_does_not_shorten() -> None:
    c = solve(noise((1, 0), 1, QUARTER), move(1, 0, 1, QUARTER))
    mean = sum(c, ZERO) / 2
    centred = [x - mean for x in c]
    assert sorted(centred) == [Fraction(-4, 3), Fraction(4, 3)]
    shortest = sum((x * x for x in centred), ZERO)
    for shift in (Fraction(i, 10) for i in range(-30, 31)):
        length = sum(((x + shift) ** 2 for x in centred), ZERO)
        assert length == shortest + 2 * shift**2 > 1


@claim(
    "S4",
    "I, procedure (1)",
    "For all i, j = 0, …, 2^k − 1 solve Bc = a for c and normalize it.",
    CORRECTED,
    correction="For i ≠ j. B has no inverse: its solutions differ by constants, and after "
    "normalizing they point in different directions, all with the same ratio; take the one whose "
    "entries sum to zero.",
    counter_example="i = j: a = 0 and c = 0 has no direction. k = 1, m = 1, q = 1/4: (8/3, 0) and "
    "(4/3, −4/3) both solve Bc = a.",
)
def test_solutions_are_not_unique() -> None:
    matrix = noise((1, 0), 1, QUARTER)
    assert matrix[0][0] * matrix[1][1] == matrix[0][1] * matrix[1][0]  # no inverse
    assert not any(move(1, 1, 1, QUARTER))
    a = move(0, 1, 1, QUARTER)
    for c in ([Fraction(8, 3), ZERO], [Fraction(4, 3), Fraction(-4, 3)]):
        found = [sum((x * y for x, y in zip(row, c, strict=True)), ZERO) for row in matrix]
        assert found == a
        top = sum((x * y for x, y in zip(a, c, strict=True)), ZERO) ** 2
        noisy = sum((x * y for x, y in zip(found, c, strict=True)), ZERO)
        assert top / noisy == signal((1, 0), (0, 1), 1, QUARTER)


@claim(
    "S4",
    "Observations 2 and 3, order",
    "Observation 2 speaks of the move 0 → 2^k − 1, and observation 3 of i = 0, j = 2^k − 1, which "
    "is the way back.",
    HOLDS,
    correction="The ratio is the same both ways; the coefficients change their sign, so for the "
    "move of observation 2 the large one is positive.",
)
def test_order_of_a_move() -> None:
    for q, counts in product(FLIPS, ((3, 0, 0, 0), (2, 1, 0, 4))):
        matrix = noise(counts, 2, q)
        for i, j in product(range(4), repeat=2):
            if i != j:
                assert signal(counts, (i, j), 2, q) == signal(counts, (j, i), 2, q)
                there, back = (solve(matrix, move(*pair, 2, q)) for pair in ((i, j), (j, i)))
                assert there == [-x for x in back]


def independent(filters: int, base: int) -> tuple[int, ...]:
    """Return base^(k−y) columns with y set bits: independent audiences of one size."""
    return tuple(base ** (filters - v.bit_count()) for v in range(2**filters))


@claim(
    "S4",
    "Observations 1 and 2, a family",
    "For the family of skewed counts behind figures 2 to 4, which the source does not give, the "
    "SNR grows with the skewness and 0 ↔ 2^k − 1 is the loudest move.",
    CORRECTED,
    correction="Read as counts proportional to a^y, y the set bits (independent audiences of one "
    "size, each in a share a/(1 + a) of the columns): the largest ratio, times the number of "
    "columns, grows as a falls on the grid; the loudest move is another one when bits are rarely "
    "flipped.",
    counter_example="k = 3, a = 1/2, counts (8, 4, 4, 2, 4, 2, 2, 1), q = 1/50: 1 ↔ 7 has 7.751, "
    "0 ↔ 7 has 7.660. None for k = 2 on the grid.",
)
def test_independent_audiences() -> None:
    fiftieth = Fraction(1, 50)
    counts = independent(3, 2)
    assert counts == (8, 4, 4, 2, 4, 2, 2, 1)
    assert round(float(signal(counts, (1, 7), 3, fiftieth)), 3) == 7.751
    assert round(float(signal(counts, (0, 7), 3, fiftieth)), 3) == 7.66
    for q in (fiftieth, *FLIPS):
        values = []
        for base in (1, 2, 3, 5, 10):
            here = independent(2, base)
            top = largest(here, 2, q)
            assert signal(here, (0, 3), 2, q) == top
            values.append(top * sum(here))
        assert values == sorted(values)
