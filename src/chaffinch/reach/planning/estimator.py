"""Estimate how many ids are in a group, and the standard error, for all groups in one way.

h balls for each id fall into m columns. With Z_v the number of columns without anybody seen
more than v (times, at each publisher), the number of ids seen more than v somewhere is

    L_v = −(m/h) · ln(Z_v / m)

(linear counting [Whang, Vander-Zanden and Taylor 1990], on every union of rows), and the ids
of any group are a fixed combination Σ c_v L_v of these: differences of "at most v" give
"exactly v", and the group adds some of them up. So there is one formula for unions, overlaps,
what one publisher adds, and frequencies.

The delta method gives the standard error: to first order the estimate moves by a weight w for each
column, so with columns that fall independently its variance is m·Var(w). They nearly do: the
number of balls is fixed, which takes N/h off again (N ids in the group), because the estimate
follows every ball of the group by 1/h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.protocols.noise import Floats
from chaffinch.reach.planning.audience import Audience, Group

_ENOUGH = 6.0
"""A share of empty columns is counted by when it is at least so many standard errors."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of all columns: the share of each logo, seen or expected.

    ``shares`` are counts divided by ``bits``. Nothing here checks them: ``analyze`` does.
    """

    audience: Audience
    bits: int
    hashes: int
    flip: float
    shares: Floats

    @cached_property
    def empty(self) -> Floats:
        """Return the share of columns that are truly empty, for every v on the grid."""
        return _empty_columns(self.shares, self.audience, self.flip)

    def countable(self, group: Group) -> bool:
        """Return whether enough columns are empty for the logarithms of this group to mean much.

        The least share of empty columns that it uses must stand well above its own error.
        """
        used = self.combination(group) != 0
        place = np.unravel_index(np.argmin(np.where(used, self.empty, np.inf)), used.shape)
        chosen = np.zeros(self.audience.grid)
        chosen[place] = 1.0
        return bool(self.empty[place] > _ENOUGH * self._spread(chosen))

    def estimate(self, group: Group) -> tuple[float, float]:
        """Return the number of ids in a group and its standard error."""
        combination = self.combination(group)
        used = combination != 0
        scale = self.bits / self.hashes
        logarithms = np.zeros_like(self.empty)
        np.log(self.empty, out=logarithms, where=used)
        found = -scale * float(np.sum(combination * logarithms))
        gradient = np.zeros_like(self.empty)
        np.divide(-combination, self.empty, out=gradient, where=used)
        # Columns would be independent if the number of balls were Poisson. It is h·n exactly, so
        # the variance of those balls, h·n/h², is taken off.
        variance = (scale * self._spread(gradient)) ** 2 - max(found, 0.0) / self.hashes
        return found, math.sqrt(max(variance, 0.0))

    def combination(self, group: Group) -> Floats:
        """Return the factors c_v of the logarithms that make up a group."""
        members = group.members(self.audience).astype(np.float64)
        factors = -_transposed_differences(members)
        # Nothing is asked of a column that may hold anything: its logarithm is 0.
        factors[(-1,) * factors.ndim] = 0.0
        return factors

    def _spread(self, gradient: Floats) -> float:
        """Return the standard deviation of a combination of shares of empty columns."""
        weights = column_weights(gradient, self.audience, self.flip)
        weights = weights - float(weights @ self.shares)
        return math.sqrt(float(weights**2 @ self.shares) / self.bits)


# ----------------------------------------------------------------------------
# From logo counts to zero columns and back, row by row: O(R·2^R), nothing is ever built.
#
# Flipping sends logo i to logo j with chance q^H p^(R−H), the R-fold Kronecker power of
# [[p, q], [q, p]] (S4 part I). Its inverse acts on each row alone. Here the one question asked of
# the true counts is how many columns are empty at several publishers at once, so undoing the
# flips and adding up are one pass: a row that must be empty gives a column the weight
# p/(p − q) if its bit is 0 and −q/(p − q) if it is 1; a row that may hold anything gives 1.
#
# ``frequencies`` F: the rows of one publisher are nested (who was seen three times was seen
# twice), so "seen at most v times" asks for row v (of F, from 0 on) to be empty, and nothing
# for v = F. A grid of shape (F + 1,)^k holds one number for each such question.


def _empty_columns(counts: NDArray[np.float64], audience: Audience, flip: float) -> Floats:
    """Return, for every v on the grid, how many columns truly hold nobody seen more than v.

    ``counts`` are the seen counts of the 2^R logos. Unbiased.

    >>> two = Audience(["a", "b"])
    >>> _empty_columns(np.array([5.0, 3.0, 2.0, 0.0]), two, 0.0).tolist()
    [[5.0, 7.0], [8.0, 10.0]]
    """
    return _apply_along_axes(_shaped(counts, audience), _weights(audience.frequencies, flip))


def column_weights(gradient: Floats, audience: Audience, flip: float) -> Floats:
    """Return what each logo adds to a combination of the numbers of empty columns.

    The transposed pass: if the combination is Σ_v gradient_v · empty_v it is also
    Σ_logo weight_logo · count_logo.
    """
    shaped = _apply_along_axes(gradient, _weights(audience.frequencies, flip).T)
    return shaped.reshape(-1, order="F")


def seen_law(empty: Floats, audience: Audience, flip: float) -> Floats:
    """Return the chances of the 2^R seen logos, given those of being empty on the grid.

    What a plan predicts: differences turn "at most v" into "exactly v", each of which is one
    logo before flipping.
    """
    exactly = _differences(empty)
    spread = _apply_along_axes(exactly, _sent(audience.frequencies, flip))
    return spread.reshape(-1, order="F")


def _differences(at_most: Floats) -> Floats:
    """Return what belongs to exactly v, from what belongs to at most v, along every axis."""
    found = at_most
    for axis in range(at_most.ndim):
        found = np.diff(found, axis=axis, prepend=0.0)
    return found


def _transposed_differences(values: Floats) -> Floats:
    """Return the transpose of ``_differences`` applied to values on the grid."""
    found = values
    for axis in range(values.ndim):
        found = -np.diff(found, axis=axis, append=0.0)
    return found


def _weights(frequencies: int, flip: float) -> Floats:
    """Return the weight of each logo of one publisher for "seen at most v times", v = 0 … F."""
    logos = np.arange(2**frequencies)
    table = np.ones((frequencies + 1, len(logos)))
    for row in range(frequencies):
        bit = (logos >> row) & 1
        table[row] = np.where(bit == 0, 1.0 - flip, -flip) / (1.0 - 2.0 * flip)
    return table


def _sent(frequencies: int, flip: float) -> Floats:
    """Return the chance of each logo of one publisher when its ids were seen exactly v times."""
    logos = np.arange(2**frequencies)
    table = np.empty((len(logos), frequencies + 1))
    for times in range(frequencies + 1):
        wrong = np.bitwise_count(logos ^ (2**times - 1)).astype(np.int64)
        table[:, times] = flip**wrong * (1.0 - flip) ** (frequencies - wrong)
    return table


def _shaped(counts: NDArray[np.float64], audience: Audience) -> Floats:
    """Return the counts with one axis for each publisher; the lowest bits are the first's."""
    shape = (2**audience.frequencies,) * len(audience.publishers)
    return np.asarray(counts, dtype=np.float64).reshape(shape, order="F")


def _apply_along_axes(values: Floats, table: Floats) -> Floats:
    found = values
    for axis in range(values.ndim):
        found = np.moveaxis(np.tensordot(table, found, axes=(1, axis)), 0, axis)
    return found


# ----------------------------------------------------------------------------
# How exact a reach will be, before anything is collected.
#
# Expected sizes say nothing about overlaps. Publishers without a common id make the largest
# reach, and the fullest and noisiest columns, so that case is what a plan predicts.

Crowd = Mapping[tuple[int, ...], int]
"""How many ids were seen so often at each publisher."""


def expected(audience: Audience, crowd: Crowd, *, bits: int, hashes: int, flip: float) -> Columns:
    """Return what all columns will look like, for a crowd that is known (as in a simulation).

    A column is empty of those seen more than v with chance e^(−h·N/m), N being their number.
    """
    held = np.zeros(audience.grid)
    for seen, ids in crowd.items():
        held[seen] += ids
    at_most = held
    for axis in range(held.ndim):
        at_most = np.cumsum(at_most, axis=axis)
    empty = np.exp(-(hashes / bits) * (held.sum() - at_most))
    shares = seen_law(empty, audience, flip)
    return Columns(audience, bits, hashes, flip, shares)


def apart(sizes: Sequence[int], *, bits: int, hashes: int, flip: float) -> float:
    """Return the standard error of the reach of publishers without a common id, each seen once.

    The same as ``expected`` gives, in closed form: the rows of independent publishers are
    independent, so the moments of a column's weight are products.

    >>> round(apart([1000, 1000], bits=100_000, hashes=1, flip=0.01))
    46
    """
    right = 1.0 - flip
    loads = (hashes / bits) * np.asarray(sizes, dtype=np.float64)
    if loads.max() > 300:
        return math.inf
    empty = np.exp(-loads)
    # The weight w of one row has E[w] = e and E[w²] = ((p³ + q³)·e + pq·(1 − e))/(p − q)², where e
    # is the share of empty columns. Rows are independent, so that the relative variance of a
    # column's weight is ΠE[w²]/E[w]² − 1.
    square = (right**3 + flip**3) * empty + right * flip * (1.0 - empty)
    logarithms = np.log(square) - 2.0 * math.log(right - flip) + 2.0 * loads
    if logarithms.sum() > 600:
        return math.inf
    ratio = math.expm1(float(logarithms.sum()))
    return math.sqrt(max(bits * ratio / hashes**2 - sum(sizes) / hashes, 0.0))


def without_noise(sizes: Sequence[int], *, bits: int, hashes: int) -> float:
    """Return the part of the error that the hash makes: the limit of filters of this size."""
    return apart(sizes, bits=bits, hashes=hashes, flip=0.0)


def disjoint(audience: Audience, sizes: Sequence[int]) -> Crowd:
    """Return publishers without a common id, everybody seen once."""
    count = len(audience.publishers)
    return {
        tuple(int(place == own) for place in range(count)): size for own, size in enumerate(sizes)
    }
