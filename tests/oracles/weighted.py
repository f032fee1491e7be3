"""Weighted numbers by their whole view: every code counted, every outcome of the noise.

A second implementation, from the definition alone. All codes of answers are counted in clear, so
every flood of a code is seen but for the one answer; what is left are the units and tops, whose
noise is laid out as one array. Nothing here knows of carries, parities or paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rates(longest: int, growth: float, strength: float) -> list[float]:
    """Return the rates of bursts that this table of floods stands for."""
    return [strength * growth**k / k for k in range(1, longest + 1)]


def in_groups(smoothing: Sequence[float], groups: Sequence[int]) -> list[list[float]]:
    """Return the rates of all levels by the codes that carry them."""
    rest = iter(smoothing)
    return [list(islice(rest, size)) for size in groups]


@dataclass(frozen=True)
class Layout:
    """How the numbers 0 … C·2^D are written in codes, and codes in units and tops."""

    tops: int
    groups: tuple[int, ...]

    @property
    def levels(self) -> int:
        return sum(self.groups)

    @property
    def steps(self) -> int:
        return self.tops << self.levels

    @cached_property
    def codes(self) -> list[list[int]]:
        """Return the weights of the codes of each group, found by trying all sums."""
        found, level = [], 0
        for size in self.groups[:-1]:
            digits = product((0, 1), repeat=size)
            found.append(
                sorted(
                    {-sum(b * (-2) ** (level + k) for k, b in enumerate(bits)) for bits in digits}
                )
            )
            level += size
        middle, grain = self.steps // 2, 2**level
        rest = set()
        for number in range(self.steps + 1):
            fitting = [
                number - middle - sum(some)
                for some in product(*found)
                if (number - middle - sum(some)) % grain == 0
            ]
            assert len(fitting) == 1
            rest.add(fitting[0])
        return [*found, sorted(rest)]

    def answer(self, number: int) -> list[int]:
        """Return the weight of the code in each group for a number."""
        (found,) = [some for some in product(*self.codes) if sum(some) == number - self.steps // 2]
        return list(found)

    def units(self, weight: int) -> tuple[int, ...]:
        """Return how many units of each level and tops t⁺ and t⁻ make up a weight."""
        found = []
        for _ in range(self.levels):
            digit = weight % 2
            found.append(digit)
            weight = (weight - digit) // -2
        return (*found, max(weight, 0), max(-weight, 0))


@dataclass(frozen=True)
class Noise:
    """The noise of a setting: floods as (longest burst, growth, strength)."""

    layout: Layout
    ratio: float
    smoothing: tuple[float, ...]
    codes: tuple[int, float, float]
    links: tuple[int, float, float]
    pairs: tuple[int, float, float]
    whole: tuple[int, float, float] | None = None
    """The flood of each whole code, where an answer is one of them."""
    size: int = 60
    """How many values of each count are followed."""

    @cached_property
    def of_codes(self) -> Floats:
        """Return the law of the flood of one code."""
        return flood(rates(*self.codes), 3 * self.size)

    @cached_property
    def of_units(self) -> Floats:
        """Return the joint law of the units of all levels and the tops, without codes' atoms."""
        levels, size = self.layout.levels, self.size
        joint = np.zeros((size,) * (levels + 2))
        links = flood(rates(*self.links), size)
        singles = [flood([rate], size) for rate in self.smoothing]
        pairs = flood(rates(*self.pairs), size)
        geometric = (1 - self.ratio) * self.ratio ** np.arange(size)
        # Tops first: Z⁺ + F and Z⁻ + F.
        both = np.zeros((size, size))
        for f in range(size):
            rest = geometric[: size - f]
            both[f:, f:] += pairs[f] * np.outer(rest, rest)
        joint[(0,) * levels] = both
        for level in range(levels):
            joint = added(joint, level, singles[level])
        for level in range(levels):
            shift = [0] * (levels + 2)
            shift[level], shift[level + 1] = 2, 1
            joint = bursts(joint, shift, links)
        return joint


def flood(rates: list[float], size: int) -> Floats:
    """Return the law of a sum of bursts, by adding one kind after the other."""
    law = np.zeros(size)
    law[0] = 1.0
    for k, rate in enumerate(rates, start=1):
        one = np.zeros(size)
        for n in range((size - 1) // k + 1):
            one[n * k] = math.exp(-rate + n * math.log(rate) - math.lgamma(n + 1))
        law = np.convolve(law, one)[:size]
    return law


def added(joint: Floats, axis: int, law: Floats) -> Floats:
    shift = [0] * joint.ndim
    shift[axis] = 1
    return bursts(joint, shift, law)


def bursts(joint: Floats, shift: list[int], law: Floats) -> Floats:
    """Return the joint law with n times ``shift`` more, n of this law."""
    found = np.zeros_like(joint)
    for n, chance in enumerate(law):
        if any(n * one >= joint.shape[0] for one in shift):
            break
        to = tuple(slice(n * one, None) for one in shift)
        of = tuple(slice(None, joint.shape[0] - n * one) for one in shift)
        found[to] += chance * joint[of]
    return found


def deltas(
    noise: Noise, number: int, other: int, epsilons: list[float]
) -> tuple[list[float], float]:
    """Return deltas of one number against another, and how much more they may be.

    They leave out what lies beyond ``size``.
    """
    groups, moved = _group_codes(noise, number, other)
    weights, ratios = np.ones(1), np.ones(1)
    pairs = [(noise.of_codes, one) for one in groups]
    if noise.whole is not None:
        pairs.append((flood(rates(*noise.whole), 3 * noise.size), True))
    for law, differ in pairs:
        if not differ:
            continue
        # Counted by codes: with the answer the flood is one smaller than without it.
        before, after = np.concatenate([[0.0], law]), np.concatenate([law, [0.0]])
        for first, second in ((before, after), (after, before)):
            # The last place of the window has a neighbour that is not followed.
            seen = (first > 1e-11) & (np.arange(len(first)) < len(law) - 1)
            weights = np.outer(weights, first[seen]).ravel()
            ratios = np.outer(ratios, second[seen] / first[seen]).ravel()
    one, two, quotients = _units_by_ratio(noise, moved)
    missing = 1 - float(weights.sum()) * float(one[-1])
    found = []
    for epsilon in epsilons:
        factors = math.exp(epsilon) * ratios
        # first > factor·second where the quotient is below 1/factor.
        with np.errstate(divide="ignore"):
            count = np.searchsorted(quotients, 1 / factors, side="left")
        found.append(float((weights * (one[count] - factors * two[count])).sum()))
    return found, max(missing, 0.0) + 1e-12


def _group_codes(noise: Noise, number: int, other: int) -> tuple[list[bool], NDArray[np.int64]]:
    """Return in which groups the codes differ, and how many more units the noise has to explain."""
    layout, sign = noise.layout, 1
    if noise.whole is not None:
        # The codes of an atom cancel the answer, and come with it: all moves the other way.
        number, other, sign = layout.steps - number, layout.steps - other, -1
    moved = np.zeros(layout.levels + 2, dtype=int)
    differ = []
    for old, new in zip(layout.answer(number), layout.answer(other), strict=True):
        differ.append(old != new)
        # Of what is seen, atoms explain one old code's units more in the second world, and one new
        # code's less: there the noise is larger by what moved.
        moved += np.array(layout.units(-new)) - np.array(layout.units(-old))
    return differ, sign * moved


def _units_by_ratio(noise: Noise, moved: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return sums of both laws of units and tops up to each quotient, and the quotients."""
    units = noise.of_units
    first = shifted(units, np.maximum(moved, 0), np.maximum(-moved, 0))
    second = shifted(units, np.maximum(-moved, 0), np.maximum(moved, 0))
    # Where the second law has left its window its mass is not known.
    kept = tuple(slice(None, units.shape[0]) for _ in moved)
    first, second = first[kept], second[kept]
    shown = first > 0
    first, quotients = first[shown], second[shown] / first[shown]
    order = np.argsort(quotients)
    one = np.concatenate([[0.0], np.cumsum(first[order])])
    two = np.concatenate([[0.0], np.cumsum((first * quotients)[order])])
    return one, two, quotients[order]


def shifted(law: Floats, back: NDArray[np.int64], on: NDArray[np.int64]) -> Floats:
    """Return the law with room for shifts on both sides, moved by ``back`` places."""
    room = back + on
    found = np.zeros(tuple(np.array(law.shape) + room))
    found[tuple(slice(b, b + n) for b, n in zip(back, law.shape, strict=True))] = law
    return found
