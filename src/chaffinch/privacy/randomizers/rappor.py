"""RAPPOR: a Bloom filter that is flipped twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import log_of_power
from chaffinch.privacy.shuffled_randomizers import CoveredLaw, ShuffledRandomizer, merge_outputs

_Output = tuple[Fraction, Fraction, Fraction]
_MOST_HASHES = 8
_LEAST = Fraction(1, 10**9)
"""Of the chances of single bits: products of many of them must stay floats."""


class Rappor(ShuffledRandomizer):
    """RAPPOR [Erlingsson et al. 2014]: a Bloom filter, flipped for ever, then for each report.

    A value sets ``hashes`` different bits of ``bits``. The permanent step replaces every bit by a
    fair coin with chance ``permanent`` (f), once for all reports; the instantaneous step sends a 1
    with chance ``one`` (q) for a 1 and ``zero`` (p) for a 0, anew for every report.

    ``reports="one"`` is for one report of each user. ``reports="all"`` is for all reports there
    will ever be, even if they can be linked: they are made from the permanent bits, which are
    then taken to be seen themselves. The pair may share bits: all overlaps are accounted for.

    >>> one = Rappor(bits=128, hashes=2, permanent="1/2", one="3/4", zero="1/2", users=10_000)
    >>> round(one.local_epsilon, 4)
    1.0743
    """

    def __init__(
        self,
        *,
        bits: int,
        hashes: int,
        permanent: float | str | Fraction,
        users: int,
        one: float | str | Fraction = 1,
        zero: float | str | Fraction = 0,
        reports: str = "one",
        relative_width: float = 1e-3,
    ) -> None:
        self.bits = checks.whole("number of bits", bits, least=2, most=10**6)
        most = min(_MOST_HASHES, self.bits // 2)
        self.hashes = checks.whole("number of hashes", hashes, least=1, most=most)
        self.reports = checks.choice("reports", reports, ("one", "all"))
        self.permanent = checks.probability("permanent chance", permanent, below=Fraction(1))
        sent, silent = _chance("chance to send a one", one), _chance("chance to send a zero", zero)
        if not silent < sent:
            raise InvalidInput("chance to send a one", "above that to send a zero", one)
        half = self.permanent / 2
        keep, noise = 1 - half, half
        if self.reports == "one":
            keep, noise = keep * sent + half * silent, half * sent + (1 - half) * silent
        if not (noise >= _LEAST and 1 - keep >= _LEAST):
            rule = f"so large that every bit is wrong with a chance of at least {float(_LEAST):g}"
            raise InvalidInput("permanent chance", rule, permanent)
        self.keep_probability, self.noise_probability = keep, noise
        overlaps = range(self.hashes)
        ratio = keep * (1 - noise) / (noise * (1 - keep))
        super().__init__(
            users=users,
            relative_width=relative_width,
            local_epsilon=log_of_power(ratio, self.hashes),
            blankets=[
                merge_outputs(_filter_outputs(keep, noise, self.hashes, shared))
                for shared in overlaps
            ],
            crowds=[self._crowd(keep, noise)],
        )

    def __repr__(self) -> str:
        given = f"bits={self.bits}, hashes={self.hashes}, reports={self.reports!r}"
        return f"Rappor({given}, users={self.users})"

    def _crowd(self, keep: Fraction, noise: Fraction) -> CoveredLaw:
        """Return everybody else at a third value, or at one of the pair in a short filter."""
        third = 3 * self.hashes <= self.bits
        return merge_outputs(_crowd_outputs(keep, noise, self.hashes, third=third))


def _filter_outputs(keep: Fraction, noise: Fraction, hashes: int, shared: int) -> Iterator[_Output]:
    """Yield (R₀, R₁, cover) by the ones among the bits of the two values and of both.

    Over the base law, in which no value is held, a bit of the value weighs keep/noise for a 1 and
    (1 − keep)/(1 − noise) for a 0. Every input has at least the latter for each of its bits.
    """
    own = hashes - shared
    one, other = keep / noise, (1 - keep) / (1 - noise)
    for i, j, both in itertools.product(range(own + 1), range(own + 1), range(shared + 1)):
        mass = _ones(own, i, noise) * _ones(own, j, noise) * _ones(shared, both, noise)
        first = one ** (i + both) * other ** (hashes - i - both)
        second = one ** (j + both) * other ** (hashes - j - both)
        yield mass * first, mass * second, mass * other**hashes


def _crowd_outputs(
    keep: Fraction, noise: Fraction, hashes: int, *, third: bool
) -> Iterator[_Output]:
    """Yield (R₀, R₁, chance from everybody else) for two values without a bit in common."""
    one, other = keep / noise, (1 - keep) / (1 - noise)

    def weight(ones: int) -> Fraction:
        return one**ones * other ** (hashes - ones)

    counts = range(hashes + 1)
    for i, j, rest in itertools.product(counts, counts, counts if third else (0,)):
        mass = _ones(hashes, i, noise) * _ones(hashes, j, noise)
        if third:
            mass *= _ones(hashes, rest, noise)
        yield mass * weight(i), mass * weight(j), mass * weight(rest if third else i)


def _ones(bits: int, ones: int, chance: Fraction) -> Fraction:
    return math.comb(bits, ones) * chance**ones * (1 - chance) ** (bits - ones)


def _chance(parameter: str, value: float | str | Fraction) -> Fraction:
    """Return a probability from 0 to 1, both allowed."""
    if value in (0, 1):
        return Fraction(value)
    return checks.probability(parameter, value, below=Fraction(1))
