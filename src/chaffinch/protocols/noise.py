"""How a tally scatters around the count it stands for.

``Noise`` is the law of flips. The tally at one value, when h of n reports hold it, is a sum of
independent bits,

    S = Bin(copies·h, hit) + Bin(copies·(n − h), miss) + Bin(cover_slots·n, cover),

where the last part is what flipped decoys add. Those protocols differ only in these five numbers.

``DecoyNoise`` is the law of clear answers among uniform decoys. How many decoys arrived is seen,
so a tally is judged by ``SeenDecoys``, its law given that number.

``SignedNoise`` is the law of signed decoys: plus minus minus is the count plus a noise that
does not depend on it, the difference of two negative binomials.

``TotalsNoise`` is the law of a total to which one party has added discrete noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.errors.checks import whole
from chaffinch.wire.batches import Counts

Floats = NDArray[np.float64]
Draws = np.random.Generator
"""Randomness of simulations, never of people's answers."""
Places = NDArray[np.intp]

MOST_REPORTS = 10**16
"""Bits of numbers are counted as reports too, so this is above the largest crowd."""


_SMOOTH = 3
"""From this scale on discrete Gaussian noise has the moments of a Gaussian, to all digits."""


class Scatter(ABC):
    """How far estimates scatter, before anything is seen."""

    __slots__ = ()

    @property
    @abstractmethod
    def slope(self) -> Fraction:
        """Return by how much the mean tally grows per report that holds the value."""

    @abstractmethod
    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the variance of the tally when ``held`` of ``reports`` hold the value."""

    @property
    def grain(self) -> float:
        """Return Bernstein's constant c of the tally: P[|S − mean| ≥ t] ≤ 2e^(−t²/2(V + ct)).

        It is 1/3 for a sum of independent terms none of which is further from its mean than 1.
        """
        return 1.0 / 3.0

    @abstractmethod
    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:
        """Return the fourth cumulant of the tally, which says how far its variance scatters."""

    def variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the exact variance of the estimates of the true counts ``held``."""
        reports = whole("reports", reports, least=1, most=MOST_REPORTS)
        return np.asarray(self.tally_variance(held, reports) / float(self.slope) ** 2)

    def standard_error(self, reports: int, estimates: ArrayLike | None = None) -> Floats:
        """Return standard deviations of estimates.

        For flipped or clear reports they are exact: free of the true count. Otherwise
        the estimate, clipped to what is possible, stands in for the count; without
        estimates the largest standard deviation over all counts is returned.
        """
        if estimates is None:
            # The variance is linear in the count, so it is largest at one of the two ends.
            return np.asarray(np.sqrt(self.variance([0, reports], reports).max()))
        held = np.clip(np.asarray(estimates, dtype=np.float64), 0.0, float(reports))
        return np.sqrt(self.variance(held, reports))


class TallyNoise(Scatter):
    """The law of a tally given how many reports hold what it stands for.

    Its mean is ``base`` + ``slope``·held.
    """

    __slots__ = ()

    @abstractmethod
    def base(self, reports: int) -> Fraction | Floats:
        """Return the mean tally of a value that nobody holds."""

    def estimate(self, tallies: ArrayLike, reports: int) -> Floats:
        """Return unbiased estimates of the counts; they may lie below 0 or above ``reports``."""
        reports = whole("reports", reports, least=1, most=MOST_REPORTS)
        seen = np.asarray(tallies, dtype=np.float64)
        base = np.asarray(self.base(reports), dtype=np.float64)
        return np.asarray((seen - base) / float(self.slope))

    def rounding_variance(self, reports: int) -> float:
        """Return the most that rounding adds to the variance of a sum of numbers, in steps.

        By chance, one by one: a quarter of a step squared for each person.
        """
        return reports / 4.0


@dataclass(frozen=True, slots=True)
class Noise(TallyNoise):
    """The chances that turn a true count into a tally.

    Examples
    --------
    >>> noise = Noise.flips(Fraction(1, 10))
    >>> noise.estimate([10, 26], reports=100)
    array([ 0., 20.])
    >>> round(float(noise.standard_error(reports=100)), 6)
    3.75
    """

    copies: int
    hit: Fraction
    """The chance that a copy from a report that holds the value counts for it."""
    miss: Fraction
    """The chance that a copy from any other report counts for it."""
    cover_slots: int = 0
    """Places for decoys per report."""
    cover: Fraction = Fraction(0)
    """The chance that one such place counts for the value."""

    def __post_init__(self) -> None:
        whole("copies", self.copies, least=1)
        whole("cover slots", self.cover_slots)
        if not 0 <= self.miss < self.hit <= 1:
            rule = "above the miss probability, which is at least 0, and at most 1"
            raise InvalidInput("hit probability", rule, self.hit)
        if not 0 <= self.cover <= 1:
            raise InvalidInput("cover probability", "from 0 to 1", self.cover)

    @classmethod
    def flips(cls, flip: Fraction, *, copies: int = 1) -> Noise:
        """Return the noise of bits that are reported wrong with chance ``flip``."""
        return cls(copies, 1 - flip, flip)

    @classmethod
    def flips_with_decoys(
        cls, flip: Fraction, *, decoy_slots: int, rate: Fraction, values: int
    ) -> Noise:
        """Return the noise of flipped one-hot reports among decoys that are flipped alike."""
        share = Fraction(1, values)
        # A decoy holds the value and is shown, or holds another and is flipped into it.
        cover = rate * (share * (1 - flip) + (1 - share) * flip)
        return cls(1, 1 - flip, flip, decoy_slots, cover)

    @property
    def slope(self) -> Fraction:
        """Return by how much the mean tally grows per report that holds the value."""
        return self.copies * (self.hit - self.miss)

    def base(self, reports: int) -> Fraction:
        """Return the mean tally of a value that nobody holds."""
        return reports * (self.copies * self.miss + self.cover_slots * self.cover)

    def largest(self, reports: int) -> int:
        """Return the largest tally that can be."""
        return reports * (self.copies + self.cover_slots)

    def mirrored(self) -> Noise:
        """Return the law of ``largest − S`` as a function of ``reports − h``."""
        cover = 1 - self.cover if self.cover_slots else Fraction(0)
        return Noise(self.copies, 1 - self.miss, 1 - self.hit, self.cover_slots, cover)

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the variance of the tally when ``held`` of ``reports`` hold the value."""
        count = np.asarray(held, dtype=np.float64)
        yes = float(self.copies * self.hit * (1 - self.hit))
        no = float(self.copies * self.miss * (1 - self.miss))
        decoys = float(reports * self.cover_slots * self.cover * (1 - self.cover))
        return np.asarray(count * yes + (reports - count) * no + decoys)

    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:
        """Return Σ v·(1 − 6v) over all bits, v the variance of each."""
        count = np.asarray(held, dtype=np.float64)
        bits = (
            (self.copies * count, float(self.hit)),
            (self.copies * (reports - count), float(self.miss)),
            (reports * float(self.cover_slots), float(self.cover)),
        )
        return np.asarray(sum(bits_fourth_cumulant(*some) for some in bits))


@dataclass(frozen=True, slots=True)
class DecoyNoise(Scatter):
    """Clear answers among uniform decoys, less the share of those that will have arrived.

    The analyzer takes ``arrived/values`` from a tally. What is left is the count and, for each
    of the ``slots`` places of a report, independently: 0 where no decoy was sent (chance
    1 − ``rate``), else 1 − 1/values if it fell on the value and −1/values if not.
    """

    values: int
    slots: int
    rate: Fraction

    @property
    def slope(self) -> Fraction:
        """Return 1: an answer is one message."""
        return Fraction(1)

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the mean number of decoys times (1/d)(1 − 1/d), whatever the count is."""
        decoys = float(reports * self.slots * self.rate)
        return np.full(np.shape(held), decoys * _bit_variance(self.values))

    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:
        """Return E[X⁴] − 3E[X²]² of the term of one place, as often as there are places."""
        spread, rate = _bit_variance(self.values), float(self.rate)
        # Of a centred bit of variance v, E[Y⁴] = v(1 − 3v); it is there with chance ``rate``.
        one = rate * spread * (1.0 - 3.0 * spread) - 3.0 * (rate * spread) ** 2
        return np.full(np.shape(held), reports * self.slots * one)


@dataclass(frozen=True, slots=True, eq=False)
class SeenDecoys(TallyNoise):
    """h + Bin(arrived, 1/values): clear answers among as many uniform decoys as arrived.

    ``arrived`` has a number for each tally, or for each row of them.

    >>> SeenDecoys(2, np.array([6])).estimate([5, 11], reports=10)
    array([2., 8.])
    """

    values: int
    arrived: Counts

    @property
    def slope(self) -> Fraction:
        """Return 1: an answer is one message."""
        return Fraction(1)

    def base(self, reports: int) -> Floats:  # noqa: ARG002 - they are taken from what arrived
        """Return the decoys that each value got on average."""
        return np.asarray(self.arrived / self.values)

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:  # noqa: ARG002
        """Return the variance of Bin(arrived, 1/values)."""
        found = self.arrived * _bit_variance(self.values)
        return np.asarray(found + np.zeros(np.shape(held)))

    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:  # noqa: ARG002
        """Return Σ v·(1 − 6v) over all decoys, v the variance of each."""
        found = bits_fourth_cumulant(self.arrived, 1.0 / self.values)
        return np.asarray(found + np.zeros(np.shape(held)))


@dataclass(frozen=True, slots=True)
class SignedNoise(TallyNoise):
    """Plus minus minus: ``gain`` for each report that holds the value, and noise of both signs.

    The noise is a sum over ``parts``, each a weight and a ratio: the weight times the difference
    of two negative binomials with the ratio and the exponent reports/``cut_for``. Where every
    report says yes or no, a no counts −1, so that ``gain`` is 2 and the tally of nobody is minus
    the number of reports. Single ``units``, each a weight and a rate, add the weight times a
    Poisson number; their mean is part of the tally of nobody.

    >>> noise = SignedNoise(((1, Fraction(1, 2)),), 100, gain=2)
    >>> noise.estimate([-100, 40], reports=100)
    array([ 0., 70.])
    """

    parts: tuple[tuple[int, Fraction], ...]
    cut_for: int
    gain: int = 1
    units: tuple[tuple[int, Fraction], ...] = ()

    @property
    def mirrored(self) -> SignedNoise:
        """Return the law of the noise with the other sign: what differs are the units."""
        if not self.units:
            return self
        return replace(self, units=tuple((-weight, rate) for weight, rate in self.units))

    @property
    def slope(self) -> Fraction:
        """Return what one report that holds the value adds."""
        return Fraction(self.gain)

    @property
    def grain(self) -> float:
        """Return the largest weight/(1 − a), at least the 2/3 of a step that rounding moves.

        A negative binomial is a sum of bursts, of k at the rate g·a^k/k. Its m-th cumulant is
        g·Σk^(m−1)·a^k ≤ (m − 1)!·g·a/(1 − a)^m, which is at most m!/2·V·c^(m−2) with this c.
        Cumulants of a sum add up, and a weight multiplies c.
        """
        # Of w times a Poisson number it is w/3, and the weights of units are smaller.
        return max(weight / float(1 - ratio) for weight, ratio in self.parts)

    def base(self, reports: int) -> Fraction:
        """Return the mean tally of a value that nobody holds."""
        return reports * (1 - self.gain) + self.drift(reports)

    def drift(self, reports: int) -> Fraction:
        """Return the mean of the noise: that of the units."""
        rate = sum((weight * rate for weight, rate in self.units), Fraction(0))
        return self.exponent(reports) * rate

    def exponent(self, reports: int) -> Fraction:
        """Return the exponent of the negative binomials."""
        return Fraction(reports, self.cut_for)

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:
        """Return the sum of weight²·2·g·a/(1 − a)², and of units, whatever the count is."""
        each = [2 * weight**2 * a / (1 - a) ** 2 for weight, a in self.parts]
        each += [weight**2 * rate for weight, rate in self.units]
        return np.full(np.shape(held), float(self.exponent(reports) * sum(each)))

    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:
        """Return the sum of weight⁴·2·g·a·(1 + 4a + a²)/(1 − a)⁴, and of units."""
        each = [2 * w**4 * a * (1 + 4 * a + a * a) / (1 - a) ** 4 for w, a in self.parts]
        each += [weight**4 * rate for weight, rate in self.units]
        return np.full(np.shape(held), float(self.exponent(reports) * sum(each)))


@dataclass(frozen=True, slots=True)
class TotalsNoise(TallyNoise):
    """The true total and the sum of ``terms`` independent numbers of one discrete law.

    Masses of each are like e^(−|z|/scale) ("laplace") or e^(−z²/2scale²) ("gaussian"). ``whole``: a
    sum of numbers was rounded to a step as a whole, and no number by itself.

    >>> noise = TotalsNoise("laplace", Fraction(2))
    >>> round(float(noise.standard_error(reports=100)), 3)
    2.799
    """

    law: str
    scale: Fraction
    terms: int = 1
    whole: bool = False

    @property
    def slope(self) -> Fraction:
        """Return 1: everybody is counted once."""
        return Fraction(1)

    def base(self, reports: int) -> Fraction:  # noqa: ARG002 - noise has mean 0
        """Return 0."""
        return Fraction(0)

    @property
    def ratio(self) -> float:
        """Return e^(−1/scale)."""
        return math.exp(-1.0 / self.scale)

    @property
    def grain(self) -> float:
        """Return that of geometric noise; Gaussian noise needs none, and whole steps have one."""
        return -1.0 / math.expm1(-1.0 / self.scale) if self.law == "laplace" else 1.0

    def rounding_variance(self, reports: int) -> float:
        """Return a quarter of a step squared where only the sum was rounded."""
        return 0.25 if self.whole else reports / 4.0

    def room(self, trials: int) -> float:
        """Return how many steps a sum that was rounded as a whole is off at most.

        Half a step, and 2⁻⁴¹ of a range for each number; twice that covers the floats of numbers.
        """
        return 0.5 + trials * 2.0**-40

    @property
    def one(self) -> float:
        """Return the variance of one number."""
        return _discrete_moments(self.law, self.scale)[0]

    def tally_variance(self, held: ArrayLike, reports: int) -> Floats:  # noqa: ARG002
        """Return the variance of the noise, whatever the total is."""
        return np.full(np.shape(held), self.terms * self.one)

    def fourth_cumulant(self, held: ArrayLike, reports: int) -> Floats:  # noqa: ARG002
        """Return the fourth cumulant of the noise."""
        return np.full(np.shape(held), self.terms * _discrete_moments(self.law, self.scale)[1])

    def draw(self, size: tuple[int, ...], draws: Draws) -> Counts:
        """Draw noise of one term, for simulations."""
        if self.law == "laplace":
            stop = -math.expm1(-1.0 / self.scale)
            return np.asarray(draws.geometric(stop, size) - draws.geometric(stop, size))
        places, masses = _gaussian_masses(self.scale)
        return np.asarray(draws.choice(places, size, p=masses))


@lru_cache(maxsize=256)
def _discrete_moments(law: str, scale: Fraction) -> tuple[float, float]:
    """Return the variance and the fourth cumulant of one number."""
    if law == "laplace":
        # The difference of two geometrics, as in ``SignedNoise``.
        a, stop = math.exp(-1.0 / scale), -math.expm1(-1.0 / scale)
        return 2 * a / stop**2, 2 * a * (1 + 4 * a + a * a) / stop**4
    if scale >= _SMOOTH:
        # By Poisson's formula the sums differ from integrals by e^(−2π²σ²) at most, about.
        return float(scale) ** 2, 0.0
    places, masses = _gaussian_masses(scale)
    square = float(places**2 @ masses)
    return square, float(places**4 @ masses) - 3.0 * square**2


@lru_cache(maxsize=16)
def _gaussian_masses(scale: Fraction) -> tuple[Counts, Floats]:
    """Return places and masses, in doubles: what is left out is below 1e-30."""
    last = math.ceil(12.0 * scale) + 1
    places = np.arange(-last, last + 1)
    masses = np.exp(-0.5 * (places / float(scale)) ** 2)
    return places, masses / masses.sum()


@dataclass(frozen=True, slots=True)
class MessageNoise:
    """How many messages a collection has where that does not depend on the answers."""

    mean: float
    variance: float
    grain: float
    """Bernstein's constant, as that of a tally."""


def _bit_variance(values: int) -> float:
    """Return the variance of whether a decoy falls on one of so many values."""
    return (1.0 - 1.0 / values) / values


def bits_fourth_cumulant(count: Any, chance: Any) -> Any:
    """Return the fourth cumulant of ``count`` independent bits."""
    # κ₄ of one bit is v(1 − 6v), and cumulants of independent bits add up.
    spread = chance * (1.0 - chance)
    return count * spread * (1.0 - 6.0 * spread)


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The true answers of ``people`` to one question: what a tally is drawn around.

    ``counts`` says how many hold each value (no and yes for a bit), each flag, or each of
    ``shares``, the different places between the bounds of a number.
    """

    shape: str
    people: int
    counts: Counts
    shares: Floats | None = None

    def __post_init__(self) -> None:
        whole("number of people", self.people, least=1)
        inside = len(self.counts) > 0 and 0 <= self.counts.min() <= self.counts.max() <= self.people
        if not inside or (self.shape != "flags" and int(self.counts.sum()) != self.people):
            raise InvalidInput(
                "counts", "how many of the people hold each answer", Unquoted("others")
            )
        if (self.shape == "number") != (self.shares is not None):
            raise InvalidInput("shares", "given for numbers and only there", self.shape)
        if self.shares is not None and not _are_rising(self.shares, len(self.counts)):
            raise InvalidInput("shares", "rising from 0 or more to 1 or less", Unquoted("others"))

    def numbers(self) -> NDArray[Any]:
        """Return people with these counts one by one, as the encoder takes them."""
        if self.shape == "flags":
            # Any people with these counts will do: each flag is held by the first ones.
            return (np.arange(self.people)[:, None] < self.counts).astype(np.uint8)
        each = np.arange(len(self.counts)) if self.shares is None else self.shares
        return np.repeat(each, self.counts)

    def held(self, codes: int) -> Counts:
        """Return how many people hold what each code stands for; a lone code of a bit says yes."""
        return self.counts[1:] if codes < len(self.counts) else self.counts

    @property
    def mean(self) -> float:
        """Return the mean share of the way between the bounds of a number."""
        return float(self.counts @ self.numbers_apart) / self.people

    def rounding(self, bits: int) -> tuple[NDArray[np.int64], Floats]:
        """Return, per distinct share, the bits that are surely set and the chance of one more."""
        height = self.numbers_apart * bits
        full = np.minimum(height.astype(np.int64), bits)
        return full, np.where(full < bits, height - full, 0.0)

    @property
    def numbers_apart(self) -> Floats:
        """Return the different places between the bounds of a number."""
        if self.shares is None:
            raise InvalidInput("truth", "one about numbers", self.shape)
        return self.shares


def flip_counts(ones: Counts, records: int, flip: float, draws: Draws) -> Counts:
    """Draw the tallies of ``records`` bits of which ``ones`` are set, each flipped."""
    return draws.binomial(ones, 1.0 - flip) + draws.binomial(records - ones, flip)


def scatter_evenly(trials: int, chance: float, runs: int, draws: Draws, places: Places) -> Counts:
    """Draw how many of ``trials`` fall on each place, where each has the same chance."""
    rest = max(0.0, 1.0 - chance * len(places))
    # Divided by their sum, because rounding may leave that above 1, which NumPy refuses.
    weights = np.append(np.full(len(places), chance), rest)
    return draws.multinomial(trials, weights / weights.sum(), runs)[:, :-1]


def draw_thermometer(bits: int, truth: Truth, runs: int, draws: Draws) -> Counts:
    """Draw how many people set each bit before it is flipped: a row for each run."""
    full, chances = truth.rounding(bits)
    # Everyone whose number reaches the whole step sets its bit; the next bit is a coin.
    steps = np.zeros(bits + 1, np.int64)
    np.add.at(steps, full, truth.counts)
    # For every bit j how many people have at least j whole steps.
    sure = np.cumsum(steps[:0:-1])[::-1]
    loose = np.flatnonzero(chances > 0)
    ones = np.broadcast_to(sure, (runs, bits)).copy()
    if len(loose):
        ups = draws.binomial(truth.counts[loose], chances[loose], (runs, len(loose)))
        # Shares rise, so those that meet at one bit stand side by side: one sum for each bit.
        edges = np.flatnonzero(np.diff(full[loose], prepend=-1))
        ones[:, full[loose][edges]] += np.add.reduceat(ups, edges, axis=1)
    return ones


def _are_rising(shares: Floats, size: int) -> bool:
    ordered = len(shares) == size and bool((np.diff(shares) > 0).all())
    return ordered and bool(0 <= shares[0] <= shares[-1] <= 1)
