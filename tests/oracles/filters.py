"""S4's side quantities with rationals: signal to noise over logo counts, and one filter."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb

from tests.oracles.exact_views import row_weights

Matrix = list[list[Fraction]]


def transition(filters: int, flip: Fraction) -> Matrix:
    """Return P[i][j] = q^H p^(k-H), H the number of differing bits."""
    scale = flip.denominator**filters
    return [
        [Fraction(weight, scale) for weight in row_weights(row, filters, flip)]
        for row in range(1 << filters)
    ]


def signal_to_noise(counts: Sequence[int], flip: Fraction, here: int, there: int) -> Fraction:
    """Return a' B+ a, a = P'(e_here - e_there), B the covariance of the noisy logo counts.

    The counts sum to a constant, so B has the all-ones vector as its kernel and a is
    orthogonal to it: solve without the last coordinate.
    """
    filters = (len(counts) - 1).bit_length()
    matrix = transition(filters, flip)
    size = range(len(counts))
    signal = [matrix[here][j] - matrix[there][j] for j in size]
    cover: Matrix = [
        [
            (sum((counts[r] * matrix[r][i] for r in size), Fraction(0)) if i == j else Fraction(0))
            - sum((counts[r] * matrix[r][i] * matrix[r][j] for r in size), Fraction(0))
            for j in size
        ]
        for i in size
    ]
    inner = [row[:-1] for row in cover[:-1]]
    answer = solve(inner, signal[:-1])
    return sum((a * x for a, x in zip(signal, answer, strict=False)), Fraction(0))


def solve(matrix: Matrix, right: list[Fraction]) -> list[Fraction]:
    """Return the solution of a regular linear system by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for step in range(len(rows)):
        pivot = next(r for r in range(step, len(rows)) if rows[r][step])
        rows[step], rows[pivot] = rows[pivot], rows[step]
        lead = rows[step][step]
        rows[step] = [value / lead for value in rows[step]]
        for other in range(len(rows)):
            if other != step and rows[other][step]:
                factor = rows[other][step]
                pairs = zip(rows[other], rows[step], strict=True)
                rows[other] = [value - factor * base for value, base in pairs]
    return [row[-1] for row in rows]


def one_filter_ratio(columns: int, set_before: int, shown: int, flip: Fraction) -> Fraction:
    """Return P[shown set bits | set_before + 1 true ones] / P[... | set_before true ones]."""
    return shown_chance(columns, set_before + 1, shown, flip) / shown_chance(
        columns, set_before, shown, flip
    )


def shown_chance(columns: int, ones: int, shown: int, flip: Fraction) -> Fraction:
    """Return the chance that ``shown`` of ``columns`` bits are set after flipping."""
    right = 1 - flip
    total = Fraction(0)
    for kept in range(max(0, shown - (columns - ones)), min(ones, shown) + 1):
        joined = shown - kept
        true = comb(ones, kept) * right**kept * flip ** (ones - kept)
        false = comb(columns - ones, joined) * flip**joined * right ** (columns - ones - joined)
        total += true * false
    return total


def hypergeometric_ratio(columns: int, set_before: int, shown: int, flip: Fraction) -> Fraction:
    """Return (q/p) E[(p/q)^(2 xi_1)] / E[(p/q)^(2 xi_2)] (S4, one filter, corrected)."""
    odds = ((1 - flip) / flip) ** 2

    def mean(ones: int) -> Fraction:
        total = Fraction(0)
        for both in range(max(0, ones + shown - columns), min(ones, shown) + 1):
            total += comb(ones, both) * comb(columns - ones, shown - both) * odds**both
        return total / comb(columns, shown)

    return flip / (1 - flip) * mean(set_before + 1) / mean(set_before)
