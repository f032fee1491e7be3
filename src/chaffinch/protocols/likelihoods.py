"""What the codes of one label tell about one person: logs of likelihood ratios, for attacks.

Everybody else is known. In one world the person holds the value, in the other not; the score of
what is seen is the log of its chance in the first world over that in the second. No test of the
view beats a threshold on it [Neyman and Pearson 1933]. Any other score would still give valid
bounds, so doubles are enough, and what is next to never seen may be left out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.mechanisms.weighted import AttackLaws
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.floods import Flood, negative_binomial
from chaffinch.protocols.noise import Floats, Noise
from chaffinch.wire.batches import Counts

LONGEST = 1 << 14
"""Laws over more outcomes than this are close to normal: the score is linear there."""
_REACH = 12.0
_SURE = 60.0
_NEVER_SEEN = 1e-30
_TINIEST = 1e-300
"""Far out in a long law, masses leave the range of floats."""


class Likelihood(ABC):
    """The codes of one label, with one more report that holds it and without."""

    @abstractmethod
    def score(self, counts: Counts) -> Floats:
        """Return the log of the likelihood ratio for each row of counts of the label's codes."""

    @property
    @abstractmethod
    def outcomes(self) -> float:
        """Return how long the laws are; infinity where no crowd is worse than another."""

    def laws(self) -> tuple[Floats, Floats]:
        """Return the law without the person and the law with it, on the same outcomes."""
        raise InvalidInput("attack", "one that crowds make better or worse", type(self).__name__)


@dataclass(frozen=True)
class TallyLikelihood(Likelihood):
    """One code whose tally is a sum of independent bits."""

    noise: Noise
    held: int
    people: int

    @property
    def outcomes(self) -> float:
        """Return about how long the law of the tally is."""
        return 1.0 + sum(
            min(trials, 2 * _REACH * math.sqrt(trials * chance * (1 - chance)) + 60.0)
            for trials, chance in _bits(self.noise, self.held, self.people)
            if 0 < chance < 1
        )

    def laws(self) -> tuple[Floats, Floats]:
        """Return both laws of the tally."""
        return self._aligned[1:]

    @cached_property
    def _aligned(self) -> tuple[int, Floats, Floats]:
        """Return the first outcome, and both laws filled up with zeros to the same outcomes."""
        found = [_law(self.noise, self.held + more, self.people) for more in (0, 1)]
        low = min(start for start, _ in found)
        high = max(start + len(mass) for start, mass in found)
        without, with_one = (
            np.pad(mass, (start - low, high - start - len(mass))) for start, mass in found
        )
        return low, without, with_one

    @cached_property
    def _table(self) -> tuple[int, Floats]:
        start, without, with_one = self._aligned
        with np.errstate(divide="ignore"):
            return start, _log_ratio(np.log(with_one), np.log(without))

    def score(self, counts: Counts) -> Floats:
        """Look the ratio up, or take it to be linear where the law is long."""
        tallies = counts[:, 0]
        if self.outcomes > LONGEST:
            # Two long laws are nearly normal and one step of the mean apart: the log of their ratio
            # is nearly linear in the tally.
            spread = float(self.noise.tally_variance(self.held, self.people))
            mean = float(self.noise.base(self.people) + self.noise.slope * self.held)
            return np.asarray(float(self.noise.slope) * (tallies - mean) / spread)
        start, values = self._table
        return np.asarray(values[np.clip(tallies - start, 0, len(values) - 1)])


@dataclass(frozen=True)
class DecoyLikelihood(Likelihood):
    """A value sent in clear among uniform decoys, which fall on all values alike.

    Write a for the tally without those others who hold the value: decoys, and the person's own
    message if it is there. Of a message that is at this value or at another the chances are as
    a to b: the multinomial law of the decoys has the factor 1/a! where all are decoys and
    1/(a − 1)! where one is not [S0 §5.1].
    """

    held: int

    @property
    def outcomes(self) -> float:
        """Return infinity: decoys do not know what others hold."""
        return math.inf

    def score(self, counts: Counts) -> Floats:
        """Return ln a, the part of this value in ln(a/b)."""
        with np.errstate(divide="ignore"):
            return _log_ratio(np.log(np.maximum(counts[:, 0] - self.held, 0)), np.zeros(1))


@dataclass(frozen=True)
class SignedLikelihood(Likelihood):
    """Pluses and minuses: what the answers send, and signed decoys.

    The chance of x pluses and y minuses of noise is that of the difference x − y times that of
    the cover min(x, y): exact where as many people send as the noise was cut for. With another
    ``share`` of them the two depend on one another, and the product is only nearly right.
    """

    ratio: Fraction
    flood: tuple[Fraction, ...]
    share: Fraction
    answers: tuple[tuple[int, int], tuple[int, int]]
    """The pluses and minuses of all answers, without the person's value and with it."""
    unit: int = 1
    """How often each plus and each minus of noise is sent."""

    @property
    def outcomes(self) -> float:
        """Return infinity: the noise does not know what others hold."""
        return math.inf

    def score(self, counts: Counts) -> Floats:
        """Return the difference of two logs of the chance of the noise that must have been."""
        without, with_one = (self._log_chance(counts - np.array(sent)) for sent in self.answers)
        return _log_ratio(with_one, without)

    def _log_chance(self, noise: Counts) -> Floats:
        """Return the log of the chance of so much noise; −∞ where it would be less than none."""
        plus, minus = noise[:, 0], noise[:, 1]
        difference, cover = self._difference, self._cover
        middle, both = len(difference) // 2, np.minimum(plus, minus)
        place = (plus - minus) // self.unit + middle
        found = difference[np.clip(place, 0, len(difference) - 1)]
        found = found + cover[np.clip(both, 0, len(cover) - 1)]
        return np.where(both < 0, -np.inf, found)

    @cached_property
    def _difference(self) -> Floats:
        """Return the log of the law of plus − minus in units, from −window to window."""
        mass = negative_binomial(self.ratio, self.share, _NEVER_SEEN).mass.astype(np.float64)
        # One law against its mirror image: a difference of 0 stands in the middle.
        return np.asarray(np.log(np.maximum(np.convolve(mass, mass[::-1]), _TINIEST)))

    @cached_property
    def _cover(self) -> Floats:
        rates = tuple(self.share * rate for rate in self.flood)
        try:
            mass = Flood(rates, self.ratio**2, self.unit).law(_NEVER_SEEN).mass
        except GuaranteeNotProven:
            # Of a crowd many times larger than the noise was cut for the law is too long to follow,
            # and one message in it tells next to nothing.
            return np.zeros(1)
        return np.asarray(np.log(np.maximum(mass, _TINIEST)), np.float64)


@dataclass(frozen=True)
class DigitsLikelihood(Likelihood):
    """Pluses and minuses of several digits, side by side, whose noise is independent."""

    digits: tuple[SignedLikelihood, ...]

    @property
    def outcomes(self) -> float:
        """Return infinity: the noise does not know what others hold."""
        return math.inf

    def score(self, counts: Counts) -> Floats:
        """Return the sum of what the digits tell."""
        each = (digit.score(counts[:, 2 * i : 2 * i + 2]) for i, digit in enumerate(self.digits))
        return np.asarray(sum(each))


@dataclass(frozen=True, eq=False)
class WeightedLikelihood(Likelihood):
    """The attack that the lower end of delta is proven by: two codes, and the sum of everything."""

    weights: tuple[int, ...]
    ends: tuple[int, int]
    """The codes in which the smallest and the largest number differ."""
    tops: int
    grain: int
    seen: AttackLaws
    held: int
    people: int

    @property
    def outcomes(self) -> float:
        """Return infinity: the noise does not know what others hold."""
        return math.inf

    def score(self, counts: Counts) -> Floats:
        """Return the sum of three logs of likelihood ratios, of independent numbers."""
        low, high = (counts[:, end] for end in self.ends)
        flood, total = self.seen.flood, self.seen.total
        # With the person one more code of the upper end is an answer, and one less of the lower.
        others = self.people - self.held - 1
        found = _log_ratio(_log_of(flood, high - self.held - 1), _log_of(flood, high - self.held))
        found += _log_ratio(_log_of(flood, low - others), _log_of(flood, low - others - 1))
        middle = self.tops * self.grain // 2
        moved = counts @ np.array(self.weights) + middle * (others + 1 - self.held)
        place = moved // self.grain - self.seen.start
        found += _log_ratio(_log_of(total, place - self.tops), _log_of(total, place))
        return np.clip(found, -_SURE, _SURE)


def _log_of(law: Floats, places: Counts) -> Floats:
    """Return logs of masses; those that lie outside of a law are next to never seen."""
    inside = (places >= 0) & (places < len(law))
    mass = np.where(inside, law[np.clip(places, 0, len(law) - 1)], 0.0)
    return np.where(places < 0, -np.inf, np.log(np.maximum(mass, _TINIEST)))


def _log_ratio(with_one: Floats, without: Floats) -> Floats:
    """Return the difference of two logs; what only one world allows is sure enough."""
    with np.errstate(invalid="ignore"):
        # −∞ − (−∞), an outcome of neither world, tells nothing: it becomes 0. Infinite ones are
        # clipped.
        ratio = np.nan_to_num(with_one - without)
    return np.clip(ratio, -_SURE, _SURE)


def _law(noise: Noise, held: int, people: int) -> tuple[int, Floats]:
    """Return the first outcome and the masses of a tally, but for what is never seen.

    >>> start, mass = _law(Noise.flips(Fraction(1, 4)), 1, 2)
    >>> start, mass.round(4).tolist()
    (0, [0.1875, 0.625, 0.1875])
    """
    start, mass = 0, np.ones(1)
    for trials, chance in _bits(noise, held, people):
        first, part = _binomial(trials, chance)
        start, mass = start + first, np.convolve(mass, part)
    return start, mass


def _bits(noise: Noise, held: int, people: int) -> Sequence[tuple[int, float]]:
    """Return how many bits a tally adds up, and their chances: held, not held, decoys."""
    return [
        (noise.copies * held, float(noise.hit)),
        (noise.copies * (people - held), float(noise.miss)),
        (noise.cover_slots * people, float(noise.cover)),
    ]


def _binomial(trials: int, chance: float) -> tuple[int, Floats]:
    """Return the first outcome and the masses of a window around the mean, in doubles."""
    if trials == 0 or chance in {0.0, 1.0}:
        return round(trials * chance), np.ones(1)
    # The 30 are for rare successes, whose law has a longer right tail than its variance tells.
    reach = _REACH * math.sqrt(trials * chance * (1 - chance)) + 30.0
    low = max(0, math.floor(trials * chance - reach))
    high = min(trials, math.ceil(trials * chance + reach))
    k = np.arange(low, high + 1, dtype=np.float64)
    # ln C(n, k) + k·ln p + (n − k)·ln(1 − p): no coefficient overflows.
    logs = special.gammaln(trials + 1.0) - special.gammaln(k + 1.0)
    logs -= special.gammaln(trials - k + 1.0)
    logs += special.xlogy(k, chance) + special.xlog1py(trials - k, -chance)
    return low, np.exp(logs)
