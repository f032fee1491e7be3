"""S4 part I: signal-to-noise ratio of one moved column. Here q is the flip probability."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from .ledger import CORRECTED, HOLDS, claim
from .reference import FLIPS, ZERO, flip_table, multiset_law

Matrix = list[list[Fraction]]


def noise(counts: tuple[int, ...], filters: int, q: Fraction) -> Matrix:
    """B = diag(Pᵀd) − Pᵀ diag(d) P."""
    table = flip_table(filters, q)
    size = len(table)
    mean = [
        sum((d * row[i] for d, row in zip(counts, table, strict=True)), ZERO) for i in range(size)
    ]
    cross = [
        [
            sum((d * row[i] * row[j] for d, row in zip(counts, table, strict=True)), ZERO)
            for j in range(size)
        ]
        for i in range(size)
    ]
    return [[(mean[i] if i == j else ZERO) - cross[i][j] for j in range(size)] for i in range(size)]


def solve(matrix: Matrix, right: list[Fraction]) -> list[Fraction]:
    """Solve Bc = a with the last coefficient 0: B has the constants as its null space."""
    size = len(right) - 1
    rows = [[*matrix[i][:size], right[i]] for i in range(size)]
    for i in range(size):
        pivot = next(r for r in range(i, size) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(size):
            if r != i and rows[r][i]:
                factor = rows[r][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [*(row[size] for row in rows), ZERO]


def move(i: int, j: int, filters: int, q: Fraction) -> list[Fraction]:
    table = flip_table(filters, q)
    return [x - y for x, y in zip(table[i], table[j], strict=True)]


def signal(counts: tuple[int, ...], pair: tuple[int, int], filters: int, q: Fraction) -> Fraction:
    """The exact SNR aᵀB⁺a of moving one column from logo j to logo i."""
    a = move(*pair, filters, q)
    c = solve(noise(counts, filters, q), a)
    return sum((x * y for x, y in zip(a, c, strict=True)), ZERO)


def largest(counts: tuple[int, ...], filters: int, q: Fraction) -> Fraction:
    size = 2**filters
    return max(signal(counts, (i, j), filters, q) for i in range(size) for j in range(i))


def spreads(total: int, kinds: int) -> list[tuple[int, ...]]:
    return [d for d in product(range(total + 1), repeat=kinds) if sum(d) == total]


@claim(
    "S4",
    "I, transition matrix",
    "The chance that logo i is reported as logo j is q^H·p^(m−H), H being the Hamming distance and "
    "m the length of the filters.",
    CORRECTED,
    correction="q^H·p^(k−H), k being the number of filters: the k-fold Kronecker power of "
    "[[p, q], [q, p]].",
    counter_example="k = 1, m = 2, q = 1/4: the row sums to 9/16 + 3/16 = 3/4.",
)
def test_transition_matrix() -> None:
    for q, filters in product(FLIPS, (1, 2, 3)):
        power = np.array([[Fraction(1)]], dtype=object)
        step = np.array([[1 - q, q], [q, 1 - q]], dtype=object)
        for _ in range(filters):
            power = np.kron(power, step)
        assert tuple(tuple(row) for row in power) == flip_table(filters, q)
    quarter, m = Fraction(1, 4), 2
    assert sum(quarter**h * (1 - quarter) ** (m - h) for h in (0, 1)) == Fraction(3, 4)


@claim(
    "S4",
    "I, covariance",
    "The reported logo counts have covariance B = diag(Pᵀd) − Pᵀ diag(d) P, and moving a column "
    "shifts their mean by Pᵀ(e_i − e_j).",
    HOLDS,
)
def test_covariance() -> None:
    for q, records in product(FLIPS, ((0,), (0, 1), (0, 3, 3))):
        table = flip_table(2, q)
        law = multiset_law(records, table)
        mean = [sum((w * x[i] for x, w in law.items()), ZERO) for i in range(4)]
        counts = tuple(records.count(v) for v in range(4))
        matrix = noise(counts, 2, q)
        for i, j in product(range(4), repeat=2):
            second = sum((w * x[i] * x[j] for x, w in law.items()), ZERO)
            assert second - mean[i] * mean[j] == matrix[i][j]
        moved = multiset_law((3, *records[1:]), table)
        for i in range(4):
            after = sum((w * x[i] for x, w in moved.items()), ZERO)
            assert after - mean[i] == move(3, 0, 2, q)[i]


@claim(
    "S4",
    "I, definition of SNR",
    "The ratio is the squared mean shift over the standard deviation, equal to cᵀAc/cᵀBc.",
    CORRECTED,
    correction="Over the variance.",
    counter_example="k = 1, m = 1, q = 1/4: variance form 4/3, printed form 0.816.",
)
def test_definition() -> None:
    q = Fraction(1, 4)
    assert signal((1, 0), (1, 0), 1, q) == Fraction(4, 3)
    shift, variance = 2 * (1 - 2 * q) ** 2, 2 * q * (1 - q)  # along (1, −1)/√2
    assert shift / variance == Fraction(4, 3)
    assert round(float(shift) / math.sqrt(variance), 3) == 0.816


@claim(
    "S4",
    "I, best coefficients and procedure",
    "B annihilates the constants, and the c with Bc = a maximises cᵀAc/cᵀBc, so looping over all "
    "pairs finds the largest SNR.",
    HOLDS,
    correction="The value does not change with the length of c or a constant added to it. Proof: "
    "Cauchy–Schwarz in the inner product of B; the maximum is aᵀB⁺a.",
)
def test_best_coefficients() -> None:
    rng = np.random.default_rng(5)
    for q, counts in product(FLIPS, ((3, 0, 0, 0), (2, 1, 0, 4))):
        matrix = noise(counts, 2, q)
        assert all(sum(row) == 0 for row in matrix)
        a = move(3, 0, 2, q)
        best = signal(counts, (3, 0), 2, q)
        c = solve(matrix, a)
        assert all(
            sum((x * y for x, y in zip(row, c, strict=True)), ZERO) == a[i]
            for i, row in enumerate(matrix)
        )
        for weights in rng.integers(-9, 10, size=(20, 4)).tolist():
            top = sum((w * x for w, x in zip(weights, a, strict=True)), ZERO) ** 2
            bottom = sum(
                (u * v * matrix[i][j] for (i, u), (j, v) in product(enumerate(weights), repeat=2)),
                ZERO,
            )
            assert top <= best * bottom


@claim(
    "S4",
    "Observation 1, Figure 2",
    "The largest SNR grows with the skewness of the logo counts.",
    CORRECTED,
    correction="It does not fall on the way from equal counts to all columns on one logo (proof: "
    "aᵀB⁺a is convex in d, and the maximum over pairs has the symmetries of the cube, so equal "
    "counts minimise it). For k = 1 it is constant, and between other counts it can fall.",
    counter_example="k = 2, q = 1/10: (2, 0, 0, 2) has 3.556, the less skewed (2, 0, 1, 1) has "
    "3.748.",
)
def test_skewness() -> None:
    tenth = Fraction(1, 10)
    assert largest((2, 0, 0, 2), 2, tenth) == Fraction(32, 9)
    assert largest((2, 0, 1, 1), 2, tenth) > Fraction(3747, 1000)
    for q in FLIPS[1:]:
        path = [(4 + 3 * t, 4 - t, 4 - t, 4 - t) for t in range(5)]
        values = [largest(counts, 2, q) for counts in path]
        assert values == sorted(values)
        assert len({largest(counts, 1, q) for counts in spreads(4, 2)}) == 1


@claim(
    "S4",
    "Observation 2, Figure 3",
    "For the skewed counts considered, the SNR is largest for the move between logos 0 and 2^k − "
    "1.",
    CORRECTED,
    correction="If all columns are on logo 0 (see the conclusion); not for skewed counts in "
    "general.",
    counter_example="k = 2, counts (2, 0, 1, 0), q = 1/50: 1 ↔ 3 has 80.04, 0 ↔ 3 has 59.96. None "
    "with fewer columns when logo 0 is the most frequent.",
)
def test_largest_move() -> None:
    for q in (Fraction(1, 50), *FLIPS[1:]):
        for total in (1, 2):
            counts = (total, 0, 0, 0)
            assert signal(counts, (3, 0), 2, q) == largest(counts, 2, q)
    q = Fraction(1, 50)
    assert round(float(signal((2, 0, 1, 0), (3, 1), 2, q)), 2) == 80.04
    assert round(float(signal((2, 0, 1, 0), (3, 0), 2, q)), 2) == 59.96


@claim(
    "S4",
    "Observation 3, Figure 4",
    "The best coefficients for that move are close to a multiple of (s, …, s, −1) with a small s > "
    "0.",
    CORRECTED,
    correction="With all columns on logo 0 they are exactly constant − (p/q)^(2y−k), y the number "
    "of set bits: the entries next to the last are (q/p)² of it, so the form is right only as q → "
    "0.",
    counter_example="k = 2, q = 2/5: −(4/9, 1, 1, 9/4) up to a constant; shifted so that the first "
    "is 0 the others are −4/13, −4/13 and −1 times 65/36.",
)
def test_shape_of_the_coefficients() -> None:
    for q, filters in product(FLIPS, (1, 2, 3)):
        size = 2**filters
        counts = (5, *[0] * (size - 1))
        c = solve(noise(counts, filters, q), move(0, size - 1, filters, q))
        odds = (1 - q) / q
        shape = [-(odds ** (2 * v.bit_count() - filters)) for v in range(size)]
        offsets = {5 * x - y for x, y in zip(c, shape, strict=True)}
        assert len(offsets) == 1
    odds = Fraction(3, 2)
    shape = [odds ** (2 * y - 2) for y in (0, 1, 2)]
    assert shape == [Fraction(4, 9), 1, Fraction(9, 4)]
    assert [x - shape[0] for x in shape[1:]] == [Fraction(5, 9), Fraction(65, 36)]
    assert Fraction(5, 9) / Fraction(65, 36) == Fraction(4, 13)


@claim(
    "S4",
    "I, conclusion",
    "Over all inputs and all moves the SNR is largest when all m columns are on logo 0 and one "
    "moves to logo 2^k − 1.",
    HOLDS,
    correction="Up to relabelling, with value (t^k − 1)/m, t = p²/q + q²/p. Proof: convex in d, so "
    "a corner d = m·e_v; there it is (t^|i| + t^|j| − 2t^|i∧j|)/m after relabelling v to 0, at "
    "most (t^k − 1)/m. It says nothing about which pair has the largest δ: see part III.",
)
def test_largest_signal() -> None:
    for q, (filters, total) in product(FLIPS[1::2], ((1, 3), (2, 3), (3, 1))):
        size = 2**filters
        corner = (total, *[0] * (size - 1))
        t = (1 - q) ** 2 / q + q**2 / (1 - q)
        top = (t**filters - 1) / total
        assert signal(corner, (size - 1, 0), filters, q) == top
        assert all(largest(counts, filters, q) <= top for counts in spreads(total, size))
