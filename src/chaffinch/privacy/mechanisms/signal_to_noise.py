"""Signal to noise of one moved column among the counts of logos (S4 part I, corrected).

k filters over the same columns: the bits of a column are its logo, 0 … 2^k − 1. After flipping,
logo i is seen as logo j with chance P_ij = q^H(i,j) p^(k−H(i,j)), the k-fold Kronecker power of
[[p, q], [q, p]] (S4 prints m for k). With d the true counts, the seen counts have covariance
B = diag(Pᵀd) − Pᵀ diag(d) P, and moving a column from j to i shifts their mean by
a = Pᵀ(e_i − e_j). The best linear statistic has signal² / variance = aᵀB⁺a (S4 writes the
standard deviation for the variance).

P is applied bit by bit in O(k·2^k) and never built. One move is solved by conjugate gradients
on D^(−½) B D^(−½), D = diag(Pᵀd): its eigenvalues lie between 1 − (p−q)² and 1, so a few
steps suffice. All moves at once are solved densely, up to ten filters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import Floats

MOST_DENSE = 10
_STEPS, _TOLERANCE = 10_000, 1e-15


def _flip_counts(counts: Floats, flip: float) -> Floats:
    """Return P·counts along the first axis (P is symmetric), bit by bit."""
    filters = (len(counts) - 1).bit_length()
    # One axis of length 2 for each filter: flipping its bit reverses the axis.
    shown = counts.reshape((2,) * filters + counts.shape[1:])
    for axis in range(filters):
        shown = (1.0 - flip) * shown + flip * np.flip(shown, axis)
    return shown.reshape(counts.shape)


@dataclass(frozen=True)
class SignalToNoise:
    """Every question about moving one column, for given logo counts."""

    logo_counts: Floats
    flip: float

    @property
    def filters(self) -> int:
        """Return the number of filters."""
        return (len(self.logo_counts) - 1).bit_length()

    def of(self, move: tuple[int, int]) -> float:
        """Return aᵀB⁺a for a column that moves between two logos."""
        signal = self._mean_shift(move)
        return float(signal @ self._solve(signal))

    def coefficients(self, move: tuple[int, int]) -> Floats:
        """Return the best linear statistic: c with Bc = a, mean zero and length one."""
        best = self._solve(self._mean_shift(move))
        best = best - best.mean()
        unit: Floats = best / np.linalg.norm(best)
        return unit

    def matrix(self) -> Floats:
        """Return the ratio of every move (i, j) at once."""
        if self.filters > MOST_DENSE:
            rule = f"at most {MOST_DENSE} for all moves at once"
            raise InvalidInput("number of filters", rule, self.filters, hint="ask for one move")
        size = len(self.logo_counts)
        scale = np.sqrt(self._expected_counts)
        spread = _flip_counts(np.diag(np.sqrt(self.logo_counts)), self.flip) / scale[:, None]
        # B has the vector of ones in its null space (counts sum to bits); adding the projection on
        # it makes the matrix regular and changes no aᵀB⁺a, because every a sums to 0.
        kernel = (
            np.eye(size) - spread @ spread.T + np.outer(scale, scale) / self._expected_counts.sum()
        )
        table = _flip_counts(np.eye(size), self.flip) / scale[:, None]
        inner = table.T @ np.linalg.solve(kernel, table)
        own = np.diag(inner)
        # (e_i − e_j)ᵀM(e_i − e_j) = M_ii + M_jj − M_ij − M_ji.
        ratios = own[:, None] + own[None, :] - inner - inner.T
        np.fill_diagonal(ratios, 0.0)
        return np.maximum(ratios, 0.0)

    def largest(self) -> tuple[tuple[int, int], float]:
        """Return the loudest move (i < j) and its ratio."""
        ratios = np.triu(self.matrix())
        place = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
        return (int(place[0]), int(place[1])), float(ratios[place])

    @property
    def _expected_counts(self) -> Floats:
        return _flip_counts(self.logo_counts, self.flip)

    def _mean_shift(self, move: tuple[int, int]) -> Floats:
        size = len(self.logo_counts)
        here, there = (checks.whole("logo", logo, most=size - 1) for logo in move)
        if here == there:
            raise InvalidInput("move", "between two different logos", move)
        change = np.zeros(size)
        change[here], change[there] = 1.0, -1.0
        return _flip_counts(change, self.flip)

    def _solve(self, signal: Floats) -> Floats:
        """Return a c with Bc = signal, by conjugate gradients on the scaled equation."""
        seen = self._expected_counts
        scale = np.sqrt(seen)

        def apply(vector: Floats) -> Floats:
            inner = _flip_counts(vector / scale, self.flip) * self.logo_counts
            return vector - _flip_counts(inner, self.flip) / scale

        right = signal / scale
        answer, rest = np.zeros_like(right), right
        step, size = rest, float(rest @ rest)
        # Starting at 0 keeps every iterate orthogonal to the null space: it does no harm here.
        enough = size * _TOLERANCE**2
        for _ in range(_STEPS):
            if size <= enough:
                break
            image = apply(step)
            length = size / float(step @ image)
            answer, rest = answer + length * step, rest - length * image
            size, last = float(rest @ rest), size
            step = rest + (size / last) * step
        return answer / scale


def check_logo_counts(value: object, filters: int, bits: int) -> Floats:
    """Return logo counts as an array, after checking that they are what they claim to be."""
    if value is None:
        counts = np.zeros(2**filters)
        counts[0] = bits
        return counts
    rule = f"{2**filters} counts of at least 0 that sum to {bits}"
    try:
        counts = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("logo counts", rule, value) from None
    if counts.shape != (2**filters,) or not np.all(counts >= 0):
        raise InvalidInput("logo counts", rule, value)
    if not math.isclose(float(counts.sum()), bits, rel_tol=1e-12):
        raise InvalidInput("logo counts", rule, value)
    return counts
