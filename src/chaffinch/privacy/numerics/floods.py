"""The law of what covers signed decoys: bursts of pairs, and pairs of opposite noise.

W = F + G, where F is a sum of bursts (bursts of k pairs come at rate λ_k, k = 1 … K) and G is
geometric with ratio b. The logarithmic derivative of its generating function gives

    u·w(u) = Σ_k (k·λ_k + b^k)·w(u − k),

all terms positive: nothing cancels, and every mass is known to a small share of itself. Where
noise is doubled, W = F + 2G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.precision import (
    TINIEST,
    Floats,
    Wide,
    WideArray,
    gamma,
    wide,
    wide_exp,
    wide_exponential,
    wide_power_of_two_times_exp,
)

_MOST_PLACES = 200_000
"""A law with more masses than that is refused."""
_TILTS = 400
_HALVINGS = 512
_LARGE = Wide(2.0) ** _HALVINGS
_MOST_EXPONENT = -float(np.log(TINIEST))
"""e to minus this is a working float with all its digits."""
_LEAST_LOG = -600.0
"""Below this a chance, and what is worked out from it, leaves the range of doubles."""
_DOUBLINGS, _HARDLY = 4, 0.01
"""How often a window of masses is made longer, and which part of a tail may lie behind it."""
_KEPT_BITS = 256


@dataclass(frozen=True)
class Flood:
    """Rates of bursts of 1, 2, … pairs, and the ratio b of the geometric pairs.

    There are ``times`` as many geometric pairs.
    """

    rates: tuple[Fraction, ...]
    ratio: Fraction
    times: int = 1

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Worked out once: laws are looked up often, and rates may be many.
        return hash((self.rates, self.ratio, self.times))

    def growth(self) -> Fraction:
        """Return a c with w(u) ≤ c·w(u − 1) for every u ≥ 1, rounded up at the 70th digit.

        It is for geometric pairs that come once.

        With θ_k = (k·λ_k + b^k)/c^k the masses v(u) = w(u)/c^u obey u·v(u) = Σ θ_k·v(u − k).
        If θ₁ ≤ 1 and no θ_k is larger than the one before, the line for u minus the line for
        u − 1 gives u·v(u) − (u − 1)·v(u − 1) ≤ v(u − 1): v never rises. The smallest such c
        is the largest of these quotients.
        """
        return _growth(self)

    def window(self, tail: Any) -> int:
        """Return a T with P[W ≥ T] ≤ tail, by Chernoff's bound."""
        return _window(self, tail)

    def _window(self, tail: Any) -> int:
        rates, sizes = self._floats()
        # Near 1 the ratio has no digits left that a float could show; 1 − b has all of them.
        rest = float(1 - self.ratio)
        # E[e^(tW)] = exp(Σ λ_k(e^(tk) − 1))·(1 − b)/(1 − b·e^t) is finite for t below this pole.
        # Without geometric pairs there is no pole; any tilt of a long reach will do.
        pole = -math.log1p(-rest) if rest < 0.5 else -math.log(float(self.ratio) or 5e-324)
        pole /= self.times
        # Any tilt gives a bound; e^(tilt·K) must stay a float.
        most = min(pole, 300.0 / len(sizes)) if len(sizes) else pole
        tilts = np.geomspace(1e-7, 1.0, _TILTS)[:-1] * most
        bursts = np.expm1(np.outer(tilts, sizes)) @ rates
        pairs = math.log(rest) - np.log(-np.expm1(self.times * (tilts - pole)))
        # P[W ≥ T] ≤ E[e^(tW)]·e^(−tT): the T at which that is the tail, for every tilt.
        places = (bursts + pairs - float(np.log(Wide(tail)))) / tilts
        # A millionth more than asked covers the rounding of these logarithms.
        return math.ceil(float(places.min()) * (1 + 1e-6)) + 2

    def law(self, tail: Any, *, beyond: int = 0) -> Law:
        """Return the law of W up to a window of ``tail``, and ``beyond`` masses after it.

        Masses after the window are at the end of the stretch; ``missing`` is P[W ≥ window].
        """
        mass, relative = _masses(self, self.window(tail) + beyond)
        return Law(0, mass, relative, Wide(tail))

    def _floats(self) -> tuple[Floats, Floats]:
        rates = np.array([float(rate) for rate in self.rates])
        return rates, np.arange(1.0, len(rates) + 1)

    def bursts(self, size: int) -> tuple[WideArray, Any]:
        """Return the law of F alone and its relative error."""
        if size > _MOST_PLACES:
            raise GuaranteeNotProven(
                "delta",
                asked=1.0,
                upper=1.0,
                hint=f"the law of the noise has {size} places, and at most {_MOST_PLACES} are "
                f"followed; take ratios farther from 1, or a smaller flood",
            )
        steps = np.array([wide(k * rate) for k, rate in enumerate(self.rates, start=1)], dtype=Wide)
        longest = len(steps)
        # Zeros before the first mass, so that every place looks back equally far.
        mass = np.zeros(longest + size, dtype=Wide)
        total = sum(self.rates, Fraction(0))
        # Where e^−Λ has no right digits the law is begun with 1, and halved as often as it has to
        # be: what is lost by that is 2^-512 times smaller than what stands beside it.
        scaled, halved = float(total) > _MOST_EXPONENT, 0
        mass[longest] = 1 if scaled else _no_burst(self)
        backwards = np.ascontiguousarray(steps[::-1])
        # Panjer: u·f(u) = Σ k·λ_k·f(u − k). All terms are positive, so errors stay relative: a
        # place has those of the places before and the roundings of one dot product and one
        # quotient.
        for place in range(1, size):
            mass[longest + place] = np.dot(backwards, mass[place : longest + place]) / place
            if scaled and mass[longest + place] > _LARGE:
                mass[: longest + place + 1] /= _LARGE
                halved += _HALVINGS
        if scaled:
            mass *= wide_power_of_two_times_exp(halved, -total)
        return mass[longest:], gamma((longest + 6.0) * (size + 1))

    def noise(self, size: int) -> Any:
        """Return how far ``size`` masses together are off because floats have a smallest one.

        A product that underflows is off by at most the smallest float. The line for u has at
        most 2K + 4 of them, and what it is off by reaches all later masses together e^Λ times
        at most, Λ the sum of the rates: the recursion's answer to a 1 at place u is below its
        answer to a 1 at place 0, moved, and that is P[F = ·]·e^Λ. The geometric part passes an
        error on at most ``size`` times.
        """
        lines = Wide(size) * (2 * len(self.rates) + 4 + 2 * size)
        smallest = np.finfo(Wide).smallest_subnormal
        return 2 * lines * smallest / _no_burst(self)


@lru_cache(maxsize=64)
def _no_burst(flood: Flood) -> Any:
    # e^−Λ; kept, because a sum of many fractions takes a while.
    return wide_exp(-sum(flood.rates, Fraction(0)))


@lru_cache(maxsize=64)
def _window(flood: Flood, tail: Any) -> int:
    return flood._window(tail)  # noqa: SLF001 - kept for its own class


@lru_cache(maxsize=64)
def _growth(flood: Flood) -> Fraction:
    """Return the largest quotient of neighbours, their upper end over the lower one before."""
    rates = [k * rate for k, rate in enumerate(flood.rates, start=1)]
    powers = (Fraction(1), Fraction(1))
    # Behind the longest burst θ_k falls by b/c at every step, so c is at least b.
    found, before = flood.ratio, Fraction(1)
    for rate in [*rates, Fraction(0)]:
        # Powers of b are kept between two short numbers: exact ones would get long.
        powers = _cut(powers[0] * flood.ratio), -_cut(-powers[1] * flood.ratio)
        found = max(found, (rate + powers[1]) / before)
        before = rate + powers[0]
    return found


def _cut(value: Fraction) -> Fraction:
    # Rounded down to so many leading bits; of a negative number that is away from 0.
    shift = _KEPT_BITS + value.denominator.bit_length() - abs(value.numerator).bit_length()
    scale = Fraction(2) ** shift
    return math.floor(value * scale) / scale


@lru_cache(maxsize=16)
def _masses(flood: Flood, size: int) -> tuple[WideArray, Any]:
    """Return w(0 … size − 1) and the relative error that each of them has at most."""
    mass, relative = flood.bursts(size)
    ratio, rest = wide(flood.ratio), wide(1 - flood.ratio)
    for place in range(size):
        before = mass[place - flood.times] if place >= flood.times else Wide(0)
        # w(u) = b·w(u−1) + (1−b)·f(u), in place: the mass before is W's, the one here still F's.
        # If pairs come twice, b·w(u−2).
        mass[place] = ratio * before + rest * mass[place]
    mass.setflags(write=False)
    return mass, relative + gamma(8.0 * (size + 1))


def negative_binomial_masses(
    ratio: Fraction, exponent: Fraction, size: int
) -> tuple[WideArray, Any]:
    """Return P[Z = k] = (1 − r)^g·r^k·Π_{i<k}(i + g)/k! and its relative error."""
    places = np.arange(1, size, dtype=Wide)
    # P[Z = k]/P[Z = k−1] = r·(k − 1 + g)/k, all positive: errors stay relative.
    steps = wide(ratio) * ((places - 1) + wide(exponent)) / places
    first = wide_exponential([(exponent, 1 - ratio)])
    mass = first * np.concatenate([np.ones(1, dtype=Wide), np.cumprod(steps)])
    return mass, gamma(8.0 * size + 16.0)


def negative_binomial(ratio: Fraction, exponent: Fraction, tail: Any) -> Law:
    """Return the law of Z up to a window that leaves out at most ``tail``, by Chernoff."""
    most = -math.log(float(ratio))
    tilts = np.geomspace(1e-7, 1.0, _TILTS)[:-1] * most
    # ln E[e^(tZ)] = g·ln((1 − r)/(1 − r·e^t)), finite for t < −ln r. Every such t gives a window,
    # and the shortest is taken; a millionth and 2 more cover the rounding.
    moments = float(exponent) * (math.log1p(-float(ratio)) - np.log(-np.expm1(tilts - most)))
    places = (moments - float(np.log(Wide(tail)))) / tilts
    size = math.ceil(float(places.min()) * (1 + 1e-6)) + 2
    mass, relative = negative_binomial_masses(ratio, exponent, size)
    return Law(0, mass, relative, Wide(tail))


@dataclass(frozen=True)
class NoiseMessages:
    """The law of how many messages of noise there are: bursts of one sign, and bursts of pairs.

    Each of ``parts`` is a ratio and a flood, ``scale`` times over: both signs negative binomial
    with the ratio and the exponent ``scale``, and bursts of k pairs, 2k messages, at the rates
    ``scale``·``flood[k − 1]``. Each message of one sign is sent ``times`` times. Other ``bursts``
    have so many messages and such a rate each. Doubles are enough: all sums are of positive terms,
    and ends are moved by far more than they lose.
    """

    parts: tuple[tuple[float, tuple[float, ...]], ...]
    scale: float
    bursts: tuple[tuple[int, float], ...] = ()
    times: int = 1

    @property
    def mean(self) -> float:
        """Return the expected number."""
        signs = self.times * sum(2.0 * ratio / (1.0 - ratio) for ratio, _ in self.parts)
        pairs = sum(k * rate for _, flood in self.parts for k, rate in enumerate(flood, start=1))
        others = sum(size * rate for size, rate in self.bursts)
        return self.scale * (signs + 2.0 * pairs + others)

    @property
    def variance(self) -> float:
        """Return the variance of the number."""
        signs = self.times**2 * sum(2.0 * a / (1.0 - a) ** 2 for a, _ in self.parts)
        pairs = sum(
            k * k * rate for _, flood in self.parts for k, rate in enumerate(flood, start=1)
        )
        others = sum(size * size * rate for size, rate in self.bursts)
        return self.scale * (signs + 4.0 * pairs + others)

    @property
    def grain(self) -> float:
        """Return Bernstein's constant: bursts of 2K messages, or any that grow rare like r^k."""
        sizes = [max(self.times / (1.0 - a), 2.0 * len(flood) / 3.0) for a, flood in self.parts]
        return max([*sizes, *(size / 3.0 for size, _ in self.bursts)])

    def of_all(self, reports: int) -> NoiseMessages:
        """Return the law of so many reports together."""
        return replace(self, scale=self.scale * reports)

    def tail(self, first: int) -> float:
        """Return an upper end of the chance of ``first`` messages or more."""
        return _tail(self, first)

    def _tail(self, first: int) -> float:
        window, known = max(2 * first, 64), np.zeros(0)
        for _ in range(_DOUBLINGS):
            known = self._masses(window, known)
            found = float(self._tails(first, known)[first])
            # Chernoff's bound is loose: hardly any of what is charged should come from it.
            if not len(known) or self._chernoff(window) <= _HARDLY * found:
                break
            window *= 2
        return found

    def size_within(self, chance: float, *, most: int) -> int:
        """Return the least number that is exceeded with at most this chance, or ``most``."""
        size, known = 64, np.zeros(0)
        while True:
            size = min(size, most + 1)
            known = self._masses(max(2 * size, 64), known)
            tails = self._tails(size, known)
            if tails[size] <= chance:
                return int(np.flatnonzero(tails <= chance)[0]) - 1
            if size > most:
                return most
            size *= 2

    def least(self, chance: float) -> int:
        """Return a number that is not reached with at most this chance (Chernoff)."""
        tilts = -np.geomspace(1e-6, 20.0, _TILTS)
        # P[N ≤ m] ≤ E[z^N]/z^m for z = e^tilt < 1.
        # Every tilt gives such an m, and the largest is the sharpest.
        places = (self._log_moment(tilts) - math.log(chance)) / tilts
        # Down: whoever refuses what has fewer messages must not refuse an honest batch.
        return max(0, math.floor(float(places.max()) * (1 - 1e-9) - 1e-9))

    def _tails(self, size: int, mass: Floats) -> Floats:
        """Return upper ends of P[N ≥ k] for k up to ``size``, from masses beyond it."""
        if not len(mass):
            return np.ones(size + 1)
        # What lies behind the masses is bounded apart.
        tails = np.cumsum(mass[::-1])[::-1][: size + 1] + self._chernoff(len(mass))
        # Of thousands of places, each a sum over the ones before, as many roundings.
        return np.minimum(tails * (1 + 1e-8), 1.0)

    def _masses(self, window: int, known: Floats) -> Floats:
        """Return P[N = n] for n below ``window``, of which some are known, by Panjer's recursion.

        None at all where there is so much noise that they leave the range of doubles.
        """
        # E[z^N] at z = e^−700 is P[N = 0], and e^−700 more at the most.
        none = float(self._log_moment(np.array([-700.0]))[0])
        if none < _LEAST_LOG:
            return np.zeros(0)
        mass = np.concatenate([known, np.zeros(window - len(known))])
        mass[0] = math.exp(none)
        steps = self._steps(window)
        for place in range(max(len(known), 1), window):
            # n·P[N = n] = Σ k·rate_k·P[N = n − k].
            mass[place] = (steps[:place] @ mass[:place][::-1]) / place
        return mass

    def _steps(self, size: int) -> Floats:
        """Return k times the rate of bursts of k messages, from k = 1 on."""
        steps = np.zeros(size - 1)
        for ratio, flood in self.parts:
            # A negative binomial is bursts of k at rate g·r^k/k, here one of either sign.
            signs = 2.0 * self.scale * ratio ** np.arange(1.0, (size - 1) // self.times + 1)
            steps[self.times - 1 :: self.times] += self.times * signs
            for k, rate in enumerate(flood[: (size - 1) // 2], start=1):
                steps[2 * k - 1] += 2.0 * k * self.scale * rate
        for messages, rate in self.bursts:
            if messages < size:
                steps[messages - 1] += messages * self.scale * rate
        return steps

    def _chernoff(self, first: int) -> float:
        # Below the pole of the signs, and such that e^(tilt·2K) of the longest burst stays a float.
        ends = [
            min(-math.log(ratio) / self.times, 150.0 / max(len(flood), 1))
            for ratio, flood in self.parts
        ]
        most = min([*ends, *(300.0 / messages for messages, _ in self.bursts)])
        tilts = np.geomspace(1e-6, 1.0, _TILTS)[:-1] * most
        return float(np.exp(np.min(self._log_moment(tilts) - tilts * first)) * (1 + 1e-9))

    def _log_moment(self, tilts: Floats) -> Floats:
        """Return ln E[e^(tilt·N)] for tilts below −ln(ratio)/times of every part."""
        total = np.zeros(len(tilts))
        for ratio, flood in self.parts:
            total += 2.0 * (math.log1p(-ratio) - np.log1p(-ratio * np.exp(self.times * tilts)))
            sizes = np.arange(1.0, len(flood) + 1)
            total += np.expm1(2.0 * np.outer(tilts, sizes)) @ np.array(flood, dtype=np.float64)
        for messages, rate in self.bursts:
            total += rate * np.expm1(messages * tilts)
        return np.asarray(self.scale * total)


@lru_cache(maxsize=1024)
def _tail(law: NoiseMessages, first: int) -> float:
    # Kept: every question with the same noise asks for it again.
    return law._tail(first)  # noqa: SLF001 - kept for its own class
