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

from chaffinch.plans.parts import Part
from chaffinch.protocols.likelihoods import LONGEST, Likelihood
from chaffinch.protocols.noise import Floats, Truth
from chaffinch.questions import Cross, Flags, Number
from chaffinch.wire.batches import Counts

_LONGEST_PAIR = 1 << 10
_GRID = 21
"""How many crowds are tried along each axis."""


@dataclass(frozen=True)
class Attack:
    """Two worlds that differ in the target's answer, and a score that tells them apart.

    In world 1 the target holds the first of ``places``, or all of them; in world 0 the second,
    or none. Of the others, ``joined`` hold the same as the target in world 1 and ``opposed`` as
    in world 0.
    """

    part: Part
    crowd: int
    joined: int
    opposed: int

    @property
    def codes(self) -> NDArray[np.intp]:
        """Return the codes whose tallies depend on the target's answer, label by label."""
        each = self.part.codes // len(self.part.labels)
        return (self.places[:, None] * each + np.arange(each)).ravel()

    @property
    def places(self) -> NDArray[np.intp]:
        """Return the labels whose counts depend on the target's answer."""
        if not self.is_pair:
            return np.arange(self._held)
        # For a bit that is sent in clear, world 1 is yes, which is the second value.
        return np.array([1, 0] if self.part.question.shape == "bit" else [0, 1])

    @property
    def _held(self) -> int:
        """Return how many labels the target holds in world 1; nobody's answer is missing."""
        question = self.part.question
        return len(question.names) if isinstance(question, Flags) else len(self.part.labels)

    @property
    def is_pair(self) -> bool:
        """Return whether the answers exclude one another, so that one tally falls."""
        return self.part.question.shape in {"bit", "choice"} and len(self.part.labels) > 1

    @cached_property
    def _likelihoods(self) -> tuple[tuple[int, Likelihood], ...]:
        """Return what each place tells, and on which side a rising count is."""
        protocol, question = self.part.protocol, self.part.question
        rising = protocol.likelihood(question, self.joined, self.crowd)
        if not self.is_pair:
            return ((1, rising),) * self._held
        return (1, rising), (-1, protocol.likelihood(question, self.opposed, self.crowd))

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
            found = np.zeros((self.crowd, len(self.part.labels)), np.uint8)
            found[:, : self._held] = held[:, None]
            return found
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
            flags = np.arange(len(self.part.labels))
            return Truth("flags", n, np.where(flags < self._held, yes, 0))
        shares = np.array([0.0, 1.0]) if question.shape == "number" else None
        return Truth(question.shape, n, np.array([n - yes, yes]), shares)

    def answer(self, world: int) -> object:
        """Return the target's answer as a person would say it."""
        question = self.part.question
        if isinstance(question, Number):
            return question.high if world else question.low
        if isinstance(question, Flags):
            return list(question.names) if world else []
        if isinstance(question, Cross):
            return question.answers_in(1 - world)
        if question.shape == "bit":
            return bool(world)
        return question.labels[1 - world]

    def score(self, tallies: Counts) -> Floats:
        """Return the log of the likelihood ratio, world 1 over world 0, for each row."""
        columns = np.split(tallies, len(self.places), axis=1)
        scores = [
            sign * likelihood.score(some)
            for some, (sign, likelihood) in zip(columns, self._likelihoods, strict=True)
        ]
        return np.asarray(np.sum(scores, axis=0))

    @property
    def outcomes(self) -> float:
        """Return how long the laws of a tally are."""
        return self._likelihoods[0][1].outcomes

    def leak(self, epsilon: float) -> float:
        """Return delta at ``epsilon`` for this crowd, the worse direction, near enough to rank."""
        # The hockey-stick Σ max(0, P₁ − e^ε·P₀) over the outcomes of the attacked tallies.
        zero, one = self._likelihoods[0][1].laws()
        if self.is_pair:
            away, there = self._likelihoods[1][1].laws()
            zero, one = np.outer(zero, there), np.outer(one, away)
        grown = math.exp(min(epsilon, 300.0))
        return max(
            float(np.maximum(one - grown * zero, 0.0).sum()),
            float(np.maximum(zero - grown * one, 0.0).sum()),
        )


def _crowds(part: Part, crowd: int) -> Iterator[Attack]:
    others = crowd - 1
    places = sorted({round(others * step / (_GRID - 1)) for step in range(_GRID)})
    if not Attack(part, crowd, 0, 0).is_pair or len(part.labels) == 2:
        yield from (Attack(part, crowd, place, others - place) for place in places)
    else:
        few = places if others < _GRID else sorted({0, others // 4, others // 2, others})
        yield from (Attack(part, crowd, a, b) for a in few for b in few if a + b <= others)


def worst_attack(part: Part, crowd: int, epsilon: float) -> Attack:
    """Return the attack that leaks most at ``epsilon``, or the usual worst in a large crowd."""
    found = list(_crowds(part, crowd))
    most = _LONGEST_PAIR if found[0].is_pair else LONGEST
    if max(attack.outcomes for attack in found) > most:
        # All others where the target is in world 1; in a large crowd it hardly matters, and
        # noise that does not depend on the answers makes all crowds alike.
        return max(found, key=lambda attack: attack.joined)
    return max(found, key=lambda attack: attack.leak(epsilon))
