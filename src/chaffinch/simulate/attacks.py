"""The best attack on one person: everybody else is known, and the likelihood ratio decides.

The target holds one of two answers and the attacker knows both, and what all others hold. By
Neyman and Pearson no test of the view beats a threshold on the likelihood ratio, and the laws
of the tallies are known, so nothing has to be learned. Any other score would still give valid
bounds: it would only make them weaker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from chaffinch.errors import InvalidInput
from chaffinch.planning.plan import Part
from chaffinch.protocols.noise import Floats, Noise, Truth
from chaffinch.questions import Flags, Number
from chaffinch.wire.batches import Counts

_LONGEST = 1 << 14
"""Laws over more outcomes than this are close to normal: the score is linear there."""
_LONGEST_PAIR = 1 << 10
_REACH = 12.0
_SURE = 60.0
_GRID = 21
"""How many crowds are tried along each axis."""


@dataclass(frozen=True)
class Attack:
    """Two worlds that differ in the target's answer, and a score that tells them apart.

    In world 1 the target holds ``codes`` of sign +1, in world 0 those of sign −1. Of the
    others, ``joined`` hold the same as the target in world 1 and ``opposed`` as in world 0.
    """

    part: Part
    crowd: int
    joined: int
    opposed: int

    @property
    def codes(self) -> NDArray[np.intp]:
        """Return the codes whose tallies depend on the target's answer."""
        labels = len(self.part.labels)
        if not self.is_pair:
            return np.arange(labels)
        # For a bit that is sent in clear, world 1 is yes, which is the second value.
        return np.array([1, 0] if self.part.question.shape == "bit" else [0, 1])

    @property
    def is_pair(self) -> bool:
        """Return whether the answers exclude one another, so that one tally falls."""
        return self.part.question.shape in {"bit", "choice"} and len(self.part.labels) > 1

    @cached_property
    def noise(self) -> Noise:
        """Return the law of one tally."""
        noise = self.part.protocol.noise(self.part.question)
        if not isinstance(noise, Noise):
            raise InvalidInput("protocol", "one whose codes are counted one by one", self.part.name)
        return noise

    def numbers(self, world: int) -> NDArray[Any]:
        """Return everybody's answer as the encoder takes it, the target first."""
        rest = self.crowd - 1 - self.joined - self.opposed
        sides = np.repeat([1, 0, 2], [self.joined, self.opposed, rest])
        sides = np.concatenate([[world], sides])
        shape = self.part.question.shape
        if shape == "choice":
            return np.where(sides < 2, 1 - sides, 2).astype(np.uint32)
        held = np.equal(sides, 1)
        if shape == "flags":
            return np.repeat(held[:, None], len(self.part.labels), axis=1).astype(np.uint8)
        return np.asarray(held, np.float64 if shape == "number" else np.uint8)

    def truth(self, world: int) -> Truth:
        """Return the same people for the sampler of tallies."""
        yes, n = self.joined + world, self.crowd
        no = self.opposed + 1 - world
        question = self.part.question
        if question.shape == "choice":
            counts = np.zeros(len(self.part.labels), np.int64)
            counts[:2] = yes, no
            counts[2:3] = n - yes - no
            return Truth("choice", n, counts)
        if question.shape == "flags":
            return Truth("flags", n, np.full(len(self.part.labels), yes))
        shares = np.array([0.0, 1.0]) if question.shape == "number" else None
        return Truth(question.shape, n, np.array([n - yes, yes]), shares)

    def answer(self, world: int) -> object:
        """Return the target's answer as a person would say it."""
        question = self.part.question
        if isinstance(question, Number):
            return question.high if world else question.low
        if isinstance(question, Flags):
            return list(question.names) if world else []
        if question.shape == "bit":
            return bool(world)
        return question.labels[1 - world]

    def score(self, tallies: Counts) -> Floats:
        """Return the log of the likelihood ratio, world 1 over world 0, for each row."""
        total = np.zeros(len(tallies))
        for column, table in zip(tallies.T, self._tables, strict=True):
            total += table.of(column)
        return total

    @cached_property
    def _tables(self) -> tuple[_Table, ...]:
        if not self.is_pair:
            return (_Table.made(self.noise, self.joined, self.crowd),) * len(self.part.labels)
        falling = _Table.made(self.noise, self.opposed, self.crowd)
        rising = _Table.made(self.noise, self.joined, self.crowd)
        return rising, _Table(falling.start, -falling.values, -falling.slope)

    def leak(self, epsilon: float) -> float:
        """Return delta at ``epsilon`` for this crowd, the worse direction, near enough to rank."""
        worlds = [self._laws(self.joined + held) for held in (0, 1)]
        zero, one = (_aligned(worlds, place) for place in (0, 1))
        if self.is_pair:
            others = [self._laws(self.opposed + held) for held in (0, 1)]
            away, there = (_aligned(others, place) for place in (0, 1))
            zero, one = np.outer(zero, there), np.outer(one, away)
        grown = math.exp(min(epsilon, 300.0))
        return max(
            float(np.maximum(one - grown * zero, 0.0).sum()),
            float(np.maximum(zero - grown * one, 0.0).sum()),
        )

    def _laws(self, held: int) -> tuple[int, Floats]:
        return law(self.noise, held, self.crowd)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What a tally adds to the score: looked up, and linear where there is no table."""

    start: int
    values: Floats
    slope: float

    @classmethod
    def made(cls, noise: Noise, held: int, people: int) -> _Table:
        """Return log P[S | held + 1] − log P[S | held]."""
        spread = float(noise.tally_variance(held, people))
        if _outcomes(noise, held, people) > _LONGEST:
            mean = float(noise.base(people) + noise.slope * held)
            return cls(0, np.array([-float(noise.slope) * mean / spread]), 1.0 / spread)
        laws = [law(noise, held + more, people) for more in (0, 1)]
        without, with_one = (_aligned(laws, place) for place in (0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(with_one) - np.log(without)
        ratio = np.clip(np.nan_to_num(ratio, nan=0.0, posinf=_SURE, neginf=-_SURE), -_SURE, _SURE)
        return cls(min(start for start, _ in laws), ratio, 0.0)

    def of(self, tallies: Counts) -> Floats:
        """Return what each tally adds."""
        if self.slope:
            return np.asarray(self.values[0] + self.slope * tallies)
        places = np.clip(tallies - self.start, 0, len(self.values) - 1)
        return np.asarray(self.values[places])


def law(noise: Noise, held: int, people: int) -> tuple[int, Floats]:
    """Return the first outcome and the masses of a tally, but for what is never seen.

    >>> from fractions import Fraction
    >>> start, mass = law(Noise.flips(Fraction(1, 4)), 1, 2)
    >>> start, mass.round(4).tolist()
    (0, [0.1875, 0.625, 0.1875])
    """
    start, mass = 0, np.ones(1)
    for trials, chance in _bits(noise, held, people):
        first, part = _binomial(trials, chance)
        start, mass = start + first, np.convolve(mass, part)
    return start, mass


def crowds(part: Part, crowd: int) -> Iterator[Attack]:
    """Yield attacks among different crowds: on the target's values, or away from them."""
    others = crowd - 1
    places = sorted({round(others * step / (_GRID - 1)) for step in range(_GRID)})
    if not Attack(part, crowd, 0, 0).is_pair or len(part.labels) == 2:
        yield from (Attack(part, crowd, place, others - place) for place in places)
    else:
        few = places if others < _GRID else sorted({0, others // 4, others // 2, others})
        yield from (Attack(part, crowd, a, b) for a in few for b in few if a + b <= others)


def worst_attack(part: Part, crowd: int, epsilon: float) -> Attack:
    """Return the attack that leaks most at ``epsilon``, or the usual worst in a large crowd."""
    found = list(crowds(part, crowd))
    most = _LONGEST_PAIR if found[0].is_pair else _LONGEST
    if max(_outcomes(attack.noise, attack.joined, crowd) for attack in found) > most:
        # All others where the target is in world 1; in a large crowd it hardly matters.
        return max(found, key=lambda attack: attack.joined)
    return max(found, key=lambda attack: attack.leak(epsilon))


def _bits(noise: Noise, held: int, people: int) -> list[tuple[int, float]]:
    return [
        (noise.copies * held, float(noise.hit)),
        (noise.copies * (people - held), float(noise.miss)),
        (noise.cover_slots * people, float(noise.cover)),
    ]


def _outcomes(noise: Noise, held: int, people: int) -> float:
    reach = sum(
        min(trials, 2 * _REACH * math.sqrt(trials * chance * (1 - chance)) + 60.0)
        for trials, chance in _bits(noise, held, people)
        if 0 < chance < 1
    )
    return reach + 1.0


def _binomial(trials: int, chance: float) -> tuple[int, Floats]:
    if trials == 0 or chance in {0.0, 1.0}:
        return round(trials * chance), np.ones(1)
    reach = _REACH * math.sqrt(trials * chance * (1 - chance)) + 30.0
    low = max(0, math.floor(trials * chance - reach))
    high = min(trials, math.ceil(trials * chance + reach))
    k = np.arange(low, high + 1, dtype=np.float64)
    logs = special.gammaln(trials + 1.0) - special.gammaln(k + 1.0)
    logs -= special.gammaln(trials - k + 1.0)
    logs += special.xlogy(k, chance) + special.xlog1py(trials - k, -chance)
    return low, np.exp(logs)


def _aligned(laws: list[tuple[int, Floats]], place: int) -> Floats:
    """Return one of several laws on the outcomes of all of them."""
    low = min(start for start, _ in laws)
    high = max(start + len(mass) for start, mass in laws)
    start, mass = laws[place]
    found = np.zeros(high - low)
    found[start - low : start - low + len(mass)] = mass
    return found
