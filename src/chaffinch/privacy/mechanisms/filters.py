"""Bloom filters of several publishers, flipped, with their columns shuffled together (S4).

``filters`` publishers insert their audiences into filters of ``bits`` bits with the same hash
functions, flip every bit, and permute the columns with one secret permutation. The analyzer
sees how often each column (a word of as many bits as there are filters) occurs. S4 protects one
column (``FlippedFilters``); what people are promised is one id (``FlippedAudiences``).
``SignalToNoise`` measures how far one moved column stands out, and is no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from chaffinch.errors import InvalidInput, NoParameterFound, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.records import WordMechanism, check_word_flip, least_word_flip
from chaffinch.privacy.numerics.precision import GRAIN, Floats, log_of_power, up
from chaffinch.privacy.numerics.roots import find_crossing

_MOST_FILTERS = 20
_FLIP_TOLERANCE = 1e-7


@dataclass(frozen=True, init=False)
class FlippedFilters(WordMechanism):
    """``filters`` aligned filters of ``bits`` columns, every bit flipped, columns shuffled.

    Neighbours replace one **column**. A user id sets up to as many columns as there are hash
    functions, and twice that when one id replaces another: the guarantee is per column.
    ``bits`` counts the columns that the publishers really flip, the target's among them.

    >>> reach = FlippedFilters(filters=3, bits=10_000, flip_probability="0.2")
    >>> reach.view, reach.epsilon(1e-6).upper < 0.42
    ('columns', True)
    """

    filters: int
    bits: int
    flip_probability: Fraction

    view = "columns"
    neighbours: ClassVar[str] = "replace-one-column"
    document_name = "flipped-filters"
    document_fields = ("filters", "bits", "flip_probability")
    document_fractions = ("flip_probability",)

    def __init__(
        self, *, filters: int, bits: int, flip_probability: float | str | Fraction
    ) -> None:
        length = checks.whole("number of filters", filters, least=1, most=_MOST_FILTERS)
        object.__setattr__(self, "filters", length)
        object.__setattr__(self, "bits", checks.whole("number of bits", bits, least=1))
        object.__setattr__(self, "flip_probability", check_word_flip(flip_probability, length))

    @property
    def records(self) -> int:
        """Return the number of columns released."""
        return self.bits

    @property
    def length(self) -> int:
        """Return the number of bits of a column."""
        return self.filters

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return (
            f"{self.bits} columns of {self.filters} flipped bits, per column "
            "(a user id touches as many columns as there are hash functions)"
        )

    def signal_to_noise(self, logo_counts: object = None) -> SignalToNoise:
        """Return S4's signal to noise of moving one column, for given true logo counts.

        Without counts all columns are on logo 0, where the ratio is largest: between logos 0
        and 2^k − 1 it is then (t^k − 1)/bits with t = p²/q + q²/p. It ranks moves; it is no
        guarantee.

        >>> FlippedFilters(filters=3, bits=141, flip_probability="0.2").signal_to_noise(
        ...     [10, 100, 10, 5, 5, 5, 5, 1]
        ... ).largest()[0]
        (1, 6)
        """
        counts = check_logo_counts(logo_counts, self.filters, self.bits)
        return SignalToNoise(counts, float(self.flip_probability))


def flip_probability_for(
    *, epsilon: float, delta: float, filters: int, bits: int, method: str = "proven"
) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ that meets a target, up to 1e-7 of itself.

    ``method`` is "proven" (the bound over all crowds and columns) or "assumed" (the sources'
    pair, S4 III.2: no guarantee). What is returned was checked to meet the target.

    >>> flip = flip_probability_for(epsilon=1, delta=1e-6, filters=2, bits=10_000)
    >>> FlippedFilters(filters=2, bits=10_000, flip_probability=flip).delta(1).upper <= 1e-6
    True
    """
    wanted, level = checks.epsilon(epsilon), checks.delta(delta)
    proven = checks.choice("method", method, ("proven", "assumed")) == "proven"
    length = checks.whole("number of filters", filters, least=1, most=_MOST_FILTERS)
    checks.whole("number of bits", bits, least=1)

    def reached(numerator: int) -> float:
        flip = Fraction(numerator, GRAIN)
        mechanism = FlippedFilters(filters=length, bits=bits, flip_probability=flip)
        if proven:
            return mechanism.proven_delta(wanted)
        return mechanism.assumed_pair().delta(wanted, relative_width=1e-4).upper

    least, most = -(-least_word_flip(length) * GRAIN // 1), GRAIN // 2 - 1
    if reached(most) > level:
        raise NoParameterFound(
            f"The target must be within reach. Got epsilon {wanted:g} and delta {level:g}, "
            "which no flip probability below one half meets.",
            hint="a delta this small needs a larger epsilon",
        )
    # Below the least probability a word has too small a chance to be counted with.
    span = most - least
    # The search runs over the share of the way from the least to the most.
    place = find_crossing(
        lambda share: reached(least + int(share * span)),
        level,
        top=1.0,
        tolerance=_FLIP_TOLERANCE,
        guess=0.1,
    )[1]
    return Fraction(least + int(place * span), GRAIN)


# ----------------------------------------------------------------------------
# One user id in these filters, counted per id.
#
# S4 protects one column. An id sets a bit in up to ``hashes`` columns, at every publisher that
# has it, so two neighbours differ in up to that many columns, and what protects one column
# protects a group of them: with δ₁ the profile of one replaced column and h columns,
#
#     δ(ε) ≤ δ₁(ε/h) · (1 + e^(ε/h) + … + e^((h−1)ε/h)),
#
# one replacement after the other. That is group privacy, not composition: the columns of one
# view are not released one by one.

_MOST_HASHES = 64
_TOLERANCE, _ROUGH = 1e-7, 1e-4
_LARGEST = 600.0


@dataclass(frozen=True, init=False)
class FlippedAudiences(Mechanism):
    """``filters`` aligned filters of ``bits`` columns in which an id has ``hashes`` columns.

    Neighbours: one id more or less, at all publishers at once. ``bits`` counts the columns
    that are really flipped.

    >>> reach = FlippedAudiences(filters=3, bits=10**6, hashes=2, flip_probability="0.1")
    >>> reach.epsilon(1e-9).upper < 2 * reach.columns.epsilon(1e-10).upper
    True
    """

    filters: int
    bits: int
    hashes: int
    flip_probability: Fraction

    view = "columns"
    neighbours: ClassVar[str] = "add-remove-one-id"
    document_name = "flipped-audiences"
    document_fields = ("filters", "bits", "hashes", "flip_probability")
    document_fractions = ("flip_probability",)

    def __init__(
        self, *, filters: int, bits: int, hashes: int, flip_probability: float | str | Fraction
    ) -> None:
        columns = FlippedFilters(filters=filters, bits=bits, flip_probability=flip_probability)
        count = checks.whole("number of hashes", hashes, least=1, most=_MOST_HASHES)
        object.__setattr__(self, "filters", columns.filters)
        object.__setattr__(self, "bits", columns.bits)
        object.__setattr__(self, "hashes", count)
        object.__setattr__(self, "flip_probability", columns.flip_probability)

    @cached_property
    def columns(self) -> FlippedFilters:
        """Return the mechanism of one replaced column: S4's own guarantee."""
        return FlippedFilters(
            filters=self.filters, bits=self.bits, flip_probability=self.flip_probability
        )

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return how the numbers are found: a bound, whatever is known of one column."""
        return "upper-bound"

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        each = "one column" if self.hashes == 1 else f"up to {self.hashes} columns"
        return f"{self.bits} columns of {self.filters} flipped bits, of which an id has {each}"

    @property
    def local_epsilon(self) -> float:
        """Return hashes · filters · ln(p/q), rounded up: all that is left without the order."""
        odds = (1 - self.flip_probability) / self.flip_probability
        return log_of_power(odds, self.filters * self.hashes)

    def delta(self, epsilon: float) -> Bracket:
        """Return (one id against none at all, proven bound over everything) at ``epsilon``.

        The lower end is S4's pair, the one id's columns falling together, as they may.
        """
        wanted = checks.epsilon(epsilon)
        upper = self.delta_bound(wanted)
        # An id whose columns all fall together is one column: S4's pair is a real pair of ids.
        lower = self.columns.assumed_pair().delta(wanted, relative_width=_ROUGH).lower
        return Bracket(min(lower, upper), upper)

    def delta_bound(self, epsilon: float) -> float:
        """Return the proven bound alone."""
        wanted = checks.epsilon(epsilon)
        if wanted >= self.local_epsilon:
            return 0.0
        step = column_epsilon(wanted, self.hashes)
        return _group_delta(self.columns.proven_delta(step), step, self.hashes)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in np.atleast_1d(epsilons)]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return the proven bound at many epsilons."""
        return np.array([self.delta_bound(float(epsilon)) for epsilon in np.atleast_1d(epsilons)])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        wanted = checks.delta(delta)
        upper = self._upper_epsilon(self.delta_bound, wanted)
        return Bracket(min(self.columns.assumed_pair().epsilon(wanted).lower, upper), upper)

    def assumed_epsilon(self, delta: float) -> float:
        """Return the epsilon of S4's pair, counted per id: ``worst-pair-assumed``, no guarantee.

        The certified upper end for that pair of columns, in a group of ``hashes``.
        """
        pair = self.columns.assumed_pair()

        def assumed(epsilon: float) -> float:
            step = column_epsilon(epsilon, self.hashes)
            return _group_delta(pair.delta(step, relative_width=_ROUGH).upper, step, self.hashes)

        return self._upper_epsilon(assumed, checks.delta(delta))

    def _upper_epsilon(self, curve: Callable[[float], float], delta: float) -> float:
        return solve_epsilon(
            lambda epsilon: Bracket(0.0, curve(epsilon)),
            delta,
            most=self.local_epsilon,
            tolerance=_TOLERANCE,
        ).upper


def column_epsilon(epsilon: float, hashes: int) -> float:
    """Return a float at or below epsilon / hashes: the step of one column."""
    # Rounded down: a smaller step only makes the bound larger.
    return max(0.0, math.nextafter(epsilon / hashes, 0.0)) if hashes > 1 else epsilon


def group_weight(step: float, hashes: int) -> float:
    """Return 1 + e^step + … + e^((hashes − 1)·step), rounded up.

    >>> group_weight(0.5, 1), round(group_weight(0.5, 2), 6)
    (1.0, 2.648721)
    """
    if hashes == 1:
        return 1.0
    # An infinite weight makes the bound 1, which is always right.
    if step * hashes > _LARGEST:
        return math.inf
    # Each exponential is off by a few roundings; 1e-13 of the sum is room for all of them.
    return up(math.fsum(math.exp(place * step) for place in range(hashes)) * (1 + 1e-13))


def _group_delta(delta: float, step: float, hashes: int) -> float:
    return min(1.0, up(delta * group_weight(step, hashes))) if hashes > 1 and delta else delta


def audience_flip_probability(
    *, epsilon: float, delta: float, filters: int, bits: int, hashes: int
) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ proven to protect an id, up to 1e-7 of itself.

    S4's ``estimate_flip_prob`` is the case of one hash, and of the assumed pair.

    >>> flip = audience_flip_probability(epsilon=1, delta=1e-9, filters=3, bits=10**6, hashes=2)
    >>> ids = FlippedAudiences(filters=3, bits=10**6, hashes=2, flip_probability=flip)
    >>> ids.delta_bound(1) <= 1e-9
    True
    """
    wanted = checks.real("epsilon", epsilon, least=1e-9, most=_LARGEST)
    level = checks.delta(delta)
    count = checks.whole("number of hashes", hashes, least=1, most=_MOST_HASHES)
    step = column_epsilon(wanted, count)
    # Lower by more than this division and the product back may round up.
    room = level if count == 1 else level / group_weight(step, count) * (1 - 1e-12)
    return flip_probability_for(epsilon=step, delta=room, filters=filters, bits=bits)


# ----------------------------------------------------------------------------
# Signal to noise of one moved column among the counts of logos (S4 part I, corrected).
#
# k filters over the same columns: the bits of a column are its logo, 0 … 2^k − 1. After flipping,
# logo i is seen as logo j with chance P_ij = q^H(i,j) p^(k−H(i,j)), the k-fold Kronecker power of
# [[p, q], [q, p]] (S4 prints m for k). With d the true counts, the seen counts have covariance
# B = diag(Pᵀd) − Pᵀ diag(d) P, and moving a column from j to i shifts their mean by
# a = Pᵀ(e_i − e_j). The best linear statistic has signal² / variance = aᵀB⁺a (S4 writes the
# standard deviation for the variance).
#
# P is applied bit by bit in O(k·2^k) and never built. One move is solved by conjugate gradients
# on D^(−½) B D^(−½), D = diag(Pᵀd): its eigenvalues lie between 1 − (p−q)² and 1, so a few
# steps suffice. All moves at once are solved densely, up to ten filters.

MOST_DENSE = 10
_MOST_ITERATIONS, _RESIDUAL = 10_000, 1e-15


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
        enough = size * _RESIDUAL**2
        for _ in range(_MOST_ITERATIONS):
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
