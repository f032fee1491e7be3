"""Many rounds, each with one of several losses, nobody knows which: the worst sequence of them.

The profile of a positive measure m of losses y (some of them infinite) is

    δ_m(x) = ∫ (1 − x/y)₊ dm(e^y)      for x = e^ε ≥ 0,

which is convex, falls, starts at the whole mass and ends at the mass of infinite losses.

* Of two independent rounds it is ∫ δ_m(x/y) dm′(y). So it grows with either profile: where
  δ_m ≤ δ_n for all x, m may be replaced by n in any composition. No measure need add up to 1.
* The largest of several profiles is convex, and belongs to a measure: its `envelope`. On a grid
  profiles are linear between the points, and the chords of the largest lie above it.

The envelope of all losses in every round is a bound on every sequence of choices, and a loose
one: it has the worse half of each. The envelope of all *pairs* of choices is less loose for two
rounds, that of all fours for four, because sums of losses differ less from one another than
losses do, in units of their spread. Of n choices there would be n² pairs; but it matters little
which two were chosen, only about where their mean lies among all. So with the choices in order,
pairs whose places have the same sum share an envelope, neighbouring sums share one again, and
there are n choices of two rounds as there were of one. Doubling goes on to the last round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.privacy.numerics.loss_grids import GridLoss, TooFineGrid
from chaffinch.privacy.numerics.precision import Floats, Wide, WideArray, gamma
from chaffinch.progress import count_step

_CUT = 1e-16
"""So much mass at either end of a round is not followed: it counts as a larger loss."""
_LARGER = 1 + 4e-12
"""Covers what masses on a grid may be off, and the rounding of sums of products."""
_DIRECT = 2**21
"""So many products are added up one by one, beyond by transforms."""
_ROUNDOFF = 2.0**-53
_FEW, _MANY, _LEAST = 16, 128, 4
"""Half as many sums are told apart from so many rounds on, and a quarter from so many; so few."""
_FARTHEST = 600.0
"""A larger loss would leave the floats as a ratio."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Masses of the losses step·low, step·(low + 1), …, and that of infinite ones."""

    step: float
    low: int
    mass: Floats
    infinite: float

    @classmethod
    def of_grid(cls, loss: GridLoss) -> Losses:
        """Return the same masses with zeros between them."""
        low = int(loss.places[0])
        mass = np.zeros(int(loss.places[-1]) - low + 1)
        mass[loss.places - low] = loss.mass * _LARGER
        return cls(loss.step, low, mass, loss.infinite * _LARGER)

    def plus(self, other: Losses) -> Losses:
        """Return losses whose profile is at or above that of both together."""
        one, two = self.mass, other.mass
        finite = float(one.sum()), float(two.sum())
        infinite = self.infinite * (finite[1] + other.infinite) + finite[0] * other.infinite
        if len(one) * len(two) <= _DIRECT:
            mass = np.convolve(one, two) * _LARGER
        else:
            mass, doubt = _transformed(one, two)
            infinite += doubt
        whole = Losses(self.step, self.low + other.low, mass, infinite * _LARGER)
        return whole.shortened()

    def shortened(self) -> Losses:
        """Return fewer losses: the rarest large ones infinite, the rarest small ones larger."""
        rising, falling = np.cumsum(self.mass), np.cumsum(self.mass[::-1])
        first = min(int(np.searchsorted(rising, _CUT)), len(self.mass) - 1)
        end = max(len(self.mass) - int(np.searchsorted(falling, _CUT)), first + 1)
        mass = self.mass[first:end].copy()
        mass[0] += float(self.mass[:first].sum()) * _LARGER
        infinite = self.infinite + float(self.mass[end:].sum()) * _LARGER
        return Losses(self.step, self.low + first, mass, infinite)

    def delta(self, epsilon: float) -> float:
        """Return an upper end of the profile."""
        losses = self.step * np.arange(self.low, self.low + len(self.mass))
        gains = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return (float((self.mass * gains).sum()) + self.infinite) * _LARGER


def _transformed(one: Floats, two: Floats) -> tuple[Floats, float]:
    """Return the masses of a sum by FFT, and how much any sum over them is too small at most.

    The error, as a vector, is no longer than 26·u·log2(N)·‖x‖·‖y‖ (see `laws`), and a sum over
    weights from 0 to 1 is off by at most √N times that.
    """
    length = len(one) + len(two) - 1
    size = 1 << (length - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(two, size), size)[:length]
    norms = float(np.linalg.norm(one) * np.linalg.norm(two))
    error = (26.0 * math.log2(size) + 4.0) * _ROUNDOFF * norms
    return np.maximum(product, 0.0), error * math.sqrt(length) * _LARGER


def envelope(choices: Sequence[Losses]) -> Losses:
    """Return losses whose profile is at or above those of all choices.

    It is made from the largest profile, rounded somehow, and then compared with it at every
    point of the grid and at x = 0: what it lacks anywhere is added to the infinite losses.
    """
    if len(choices) == 1:
        return choices[0]
    step, low = choices[0].step, min(one.low for one in choices)
    end = max(one.low + len(one.mass) for one in choices)
    if step * max(-low, end) > _FARTHEST:
        raise TooFineGrid
    ratios = np.exp(Wide(step) * np.arange(low, end))
    # The distance of each point from the one before it, and of the first from 0.
    widths = np.append(ratios[0], ratios[:-1] * np.expm1(Wide(step)))
    # Four roundings for each point, and e^y is off by as many as |y| ≤ 600 is large, twice.
    doubt = gamma(4.0 * len(ratios) + 4000.0)
    largest = np.zeros(len(ratios) + 1, dtype=Wide)
    for one in choices:
        mass = np.zeros(len(ratios), dtype=np.float64)
        mass[one.low - low : one.low - low + len(one.mass)] = one.mass
        heights = _heights(mass / ratios, widths, one.infinite) * (1 + doubt)
        largest = np.maximum(largest, heights)
    slopes = np.append((largest[:-1] - largest[1:]) / widths, 0)
    jumps = np.maximum(slopes[:-1] - slopes[1:], 0)
    mass = (jumps * ratios).astype(np.float64)
    found = _heights(mass / ratios, widths, largest[-1]) * (1 - doubt)
    lacking = max(float((largest - found).max()), 0.0)
    infinite = (float(largest[-1]) + lacking) * _LARGER
    return Losses(step, low, mass, infinite).shortened()


def _heights(second: WideArray, widths: WideArray, infinite: float) -> WideArray:
    """Return the profile at 0 and at every point, from the masses of the second law.

    Its slope between two points is the mass of the second law beyond. Nothing but positive
    numbers are added up, so each height is off by a few roundings for every point.
    """
    slopes = np.cumsum(second[::-1])
    rises = np.cumsum(slopes * widths[::-1])[::-1]
    heights: WideArray = np.append(rises, Wide(0)) + Wide(infinite)
    return heights


def worst_rounds(choices: Sequence[Losses], count: int) -> list[Losses]:
    """Return losses of so many rounds: each sequence of choices is below one of them.

    Neighbours among the choices should be alike: only the width of the result depends on it.
    """
    power, total = list(choices), list(choices)
    size, done, left = 1, 0, count
    while left:
        # Sums of many rounds differ so little that fewer of them need be told apart.
        kept = max(len(choices) // (1 if size < _FEW else 2 if size < _MANY else 4), _LEAST)
        if left & 1:
            total = _all_sums(total, power, (done, size), kept) if done else power
            done += size
        left >>= 1
        if left:
            power = _all_sums(power, power, (size, size), kept)
            size *= 2
    return total


def _all_sums(
    first: list[Losses], second: list[Losses], rounds: tuple[int, int], kept: int
) -> list[Losses]:
    """Return envelopes of one choice of each: those together whose mean place is about the same.

    ``rounds`` is of how many rounds they are, and ``kept`` how many envelopes there shall be.
    """
    groups = defaultdict(list)
    here, there = rounds[0] / sum(rounds) / len(first), rounds[1] / sum(rounds) / len(second)
    for place, one in enumerate(first):
        for other, two in enumerate(second):
            if first is not second or other >= place:
                count_step("sums over rounds")
                mean = (place + 0.5) * here + (other + 0.5) * there
                groups[int(mean * kept)].append(one.plus(two))
    return [envelope(groups[place]) for place in sorted(groups)]
