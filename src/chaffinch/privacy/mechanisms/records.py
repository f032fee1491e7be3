"""Mechanisms that release the multiset of whole words, each bit flipped (S1 §6, S2 §2, S4).

Neighbours replace one word. The released multiset is worst for a crowd nobody knows, so:

* the upper end of every number is proven for all crowds and all pairs of words (the privacy
  blanket of the flip table, and the word sent without any crowd);
* the lower end is the worst crowd found: the sources' pair, and small crowds counted out;
* what the sources take for the worst is offered apart, under its own name: `assumed_pair`.

With one bit per word it is a plain sum of bits, and the exact worst crowd is searched.
``FlippedVectors`` sends one word per user; `filters` makes its words of the columns of filters.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from chaffinch import checks
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.assumed_pair import AssumedPair, Estimate, estimate_epsilon
from chaffinch.privacy.mechanisms.bits import FlippedBits
from chaffinch.privacy.numerics.bit_words import BitWords, SmallCrowds
from chaffinch.privacy.numerics.precision import Floats, exp_ends, up
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.numerics.sums import FiniteLaw, mean_positive_part

_LEAST_CHANCE = Fraction(1, 10**290)
_COARSE, _RUGGED, _FINE = 0.1, 0.02, 1e-3
"""Relative widths of a mean: to rank the laws, to bound a rugged one, and to bound the rest."""
_MANY_HIDDEN = 30
_MOSTLY_BARE = 0.9
"""Where the blanket covers nobody with this chance, it cannot beat the word alone by much."""
_CLOSE = 1e-3
_EPSILON_TOLERANCE = 1e-7
_MOST_BITS = 20


def check_word_flip(value: object, length: int) -> Fraction:
    """Return a flip probability with which every word of ``length`` bits keeps a chance."""
    flip = checks.flip_probability(value)
    if flip**length < _LEAST_CHANCE:
        rule = f"so large that q^{length} is at least 1e-290"
        raise InvalidInput("flip probability", rule, value)
    return flip


def least_word_flip(length: int) -> Fraction:
    """Return a flip probability that `check_word_flip` just accepts, or a little above."""
    return Fraction(math.exp(math.log(float(_LEAST_CHANCE)) / length) * (1 + 1e-9))


class WordMechanism(Mechanism):
    """The multiset of ``records`` words of ``length`` bits, each bit flipped."""

    method: Method = "upper-bound"
    flip_probability: Fraction

    @property
    @abstractmethod
    def records(self) -> int:
        """Return how many words are released, the target's among them."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Return the number of bits of a word."""

    @cached_property
    def words(self) -> BitWords:
        """Return the laws of one flipped word."""
        return BitWords(self.length, self.flip_probability)

    @property
    def local_epsilon(self) -> float:
        """Return length · ln(p/q), rounded up."""
        return self.words.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Return (worst crowd found, proven bound over all crowds and pairs) at ``epsilon``."""
        wanted = checks.epsilon(epsilon)
        if self._bits is not None:
            return _ends(self._bits.delta, wanted)
        upper = self.proven_delta(wanted)
        return Bracket(min(self.found_delta(wanted), upper), upper)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``.

        The upper end is an epsilon at which the proven delta was seen to be small enough.
        """
        wanted = checks.delta(delta)
        if self._bits is not None:
            return _ends(self._bits.epsilon, wanted)
        upper = self._proven_epsilon(wanted)
        if upper == 0:
            return Bracket(0.0, 0.0)
        lower = find_crossing(
            self.found_delta, wanted, top=upper, tolerance=_EPSILON_TOLERANCE, guess=0.7 * upper
        )[0]
        return Bracket(lower, upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in np.atleast_1d(epsilons)]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    def assumed_pair(self) -> AssumedPair:
        """Return the sources' worst pair: all others equal, the target that or its complement.

        It is not always the worst (math: L = 2, N = 7, q = .15, ε = 2), so its numbers are
        labelled ``worst-pair-assumed`` and may not stand in a plan.
        """
        return AssumedPair(self.records, self.words)

    def monte_carlo(self, *, delta: float, samples: int, seed: int) -> Estimate:
        """Return S4's estimate of the point-wise epsilon of the assumed pair, sign corrected."""
        return estimate_epsilon(self.records, self.words, delta=delta, samples=samples, seed=seed)

    def proven_delta(self, epsilon: float) -> float:
        """Return the upper end alone: a bound for every crowd and every pair of words."""
        wanted = checks.epsilon(epsilon)
        if self._bits is not None:
            return _ends(self._bits.delta, wanted).upper
        if wanted >= self.local_epsilon:
            return 0.0
        # delta falls as e^ε rises: the smaller rational keeps the upper end safe.
        below = exp_ends(wanted)[0]
        alone = min(1.0, up(self.words.alone(below)))
        return alone if self._bare > _MOSTLY_BARE else min(alone, self._blanket(below))

    def found_delta(self, epsilon: float) -> float:
        """Return the lower end alone: the largest delta of the crowds that were looked at."""
        wanted = checks.epsilon(epsilon)
        if self._bits is not None:
            return _ends(self._bits.delta, wanted).lower
        if wanted >= self.local_epsilon:
            return 0.0
        # Both are deltas of crowds that can exist: the larger one is still a lower end.
        pair = self.assumed_pair().delta(wanted, relative_width=_FINE)
        return max(pair.lower, self._few.delta(exp_ends(wanted)[1]))

    def _proven_epsilon(self, delta: float) -> float:
        """Return an epsilon at which the proven delta was seen to be at most ``delta``.

        The word alone, and its share in the blanket, are cheap and enclose the answer.
        """

        def alone(epsilon: float) -> float:
            return up(self.words.alone(exp_ends(epsilon)[0]))

        local, fine = self.local_epsilon, _EPSILON_TOLERANCE
        top = find_crossing(alone, delta, top=local, tolerance=fine)[1]
        start = find_crossing(lambda e: alone(e) * self._bare, delta, top=top, tolerance=fine)[0]
        # The two cheap curves already agree: there is nothing left to search.
        if start >= top * (1 - _CLOSE):
            return top
        guess = max(start, min(1.0, 0.5 * top))
        return find_crossing(self.proven_delta, delta, top=top, tolerance=fine, guess=guess)[1]

    def _blanket(self, below: Fraction) -> float:
        """Return the privacy blanket's bound, the largest over the distances of a pair."""
        laws = [self.words.blanket(h, below) for h in range(1, self.length + 1)]
        rough = [self._mean(law, _COARSE) for law in laws]
        # The narrow mean is asked only of laws whose wide one could still be the largest.
        best = 0.0
        for place in sorted(range(len(laws)), key=lambda i: -rough[i]):
            if rough[place] <= best:
                break
            best = max(best, min(rough[place], self._mean(laws[place], self._fine)))
        return best

    def _mean(self, law: FiniteLaw, width: float) -> float:
        return mean_positive_part(law, self.records, relative_width=width).upper

    @property
    def _fine(self) -> float:
        """Return a width worth its price: few hidden words make a rugged and a loose bound."""
        return _FINE if self._hidden > _MANY_HIDDEN else _RUGGED

    @property
    def _bare(self) -> float:
        """Return the chance that the blanket covers none of the others, about.

        Times δ of the word alone it is the least that the blanket can give.
        """
        # Each of the others is covered with chance (2q)^L.
        bare = 1 - (2 * self.flip_probability) ** self.length
        return math.exp((self.records - 1) * math.log(float(bare)))

    @property
    def _hidden(self) -> float:
        """Return how many words the blanket hides on average."""
        return self.records * (2.0 * float(self.flip_probability)) ** self.length

    @cached_property
    def _few(self) -> SmallCrowds:
        return SmallCrowds(self.records, self.length, self.flip_probability)

    @cached_property
    def _bits(self) -> FlippedBits | None:
        if self.length > 1:
            return None
        return FlippedBits(users=self.records, flip_probability=self.flip_probability)


def _ends(ask: Callable[[float], Bracket], value: float) -> Bracket:
    """Return the bracket even where it is wider than single bits promise: here none is."""
    try:
        return ask(value)
    except GuaranteeNotProven as wide:
        return Bracket(wide.lower, wide.upper)


@dataclass(frozen=True, init=False)
class FlippedVectors(WordMechanism):
    """Each user flips every bit of a vector with ``flip_probability`` and sends it whole.

    The analyzer sees the multiset of flipped vectors. ``users`` are the honest ones a
    guarantee counts on, the target among them. The bracket is (worst crowd found, proven
    bound over all crowds and pairs).

    >>> answers = FlippedVectors(users=10_000, bits=3, flip_probability="0.2")
    >>> answers.assumed_pair().epsilon(1e-6).upper < answers.epsilon(1e-6).upper < 0.42
    True
    """

    users: int
    bits: int
    flip_probability: Fraction

    view = "records"

    def __init__(self, *, users: int, bits: int, flip_probability: float | str | Fraction) -> None:
        object.__setattr__(self, "users", checks.people("number of users", users))
        length = checks.whole("number of bits", bits, least=1, most=_MOST_BITS)
        object.__setattr__(self, "bits", length)
        object.__setattr__(self, "flip_probability", check_word_flip(flip_probability, length))

    @property
    def records(self) -> int:
        """Return the number of vectors released."""
        return self.users

    @property
    def length(self) -> int:
        """Return the number of bits of a vector."""
        return self.bits

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"{self.users} honest users, each with {self.bits} bits of any value"
