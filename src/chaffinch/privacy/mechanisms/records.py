"""Mechanisms that release the multiset of whole words, each bit flipped (S1 §6, S2 §2, S4).

Neighbours replace one word. The released multiset is worst for a crowd nobody knows, so:

* the upper end of every number is proven for all crowds and all pairs of words (the privacy
  blanket of the flip table, and the word sent without any crowd);
* the lower end is the worst crowd found: the sources' pair, crowds of the complement of a
  word, and small crowds counted out;
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
from typing import ClassVar

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bits import FlippedBits
from chaffinch.privacy.numerics.bit_words import BitWords, SmallCrowds
from chaffinch.privacy.numerics.precision import Floats, down, exp_ends, up
from chaffinch.privacy.numerics.roots import find_crossing, find_crossing_below
from chaffinch.privacy.numerics.sums import FiniteLaw, mean_positive_part

_LEAST_CHANCE = Fraction(1, 10**290)
_COARSE, _RUGGED, _FINE = 0.1, 0.02, 1e-3
"""Relative widths of a mean: to rank the laws, to bound a rugged one, and to bound the rest."""
_MANY_HIDDEN = 30
_MOSTLY_UNCOVERED = 0.9
"""Where the blanket covers nobody with this chance, it cannot beat the word alone by much."""
_CLOSE = 1e-3
_DISTANCES = 7
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

    def delta_bound(self, epsilon: float) -> float:
        """Return the upper end alone: the lower one takes longer."""
        return self.proven_delta(epsilon)

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at many epsilons."""
        return np.array([self.proven_delta(float(epsilon)) for epsilon in epsilons])

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

        It is not always the worst (not at L = 2, N = 7, q = .15, ε = 2), so its numbers are
        labelled ``worst-pair-assumed`` and may not stand in a plan.
        """
        return AssumedPair(self.records, self.words)

    def monte_carlo(self, *, delta: float, samples: int, seed: int) -> Estimate:
        """Return S4's estimate of the point-wise epsilon of the assumed pair, sign corrected."""
        return _estimate_epsilon(self.records, self.words, delta=delta, samples=samples, seed=seed)

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
        return (
            alone
            if self._uncovered_chance > _MOSTLY_UNCOVERED
            else min(alone, self._blanket(below))
        )

    def proof(self, epsilon: float) -> str:
        """Return the name of what proves the upper end at ``epsilon``."""
        wanted = checks.epsilon(epsilon)
        if self._bits is not None:
            return "search over all crowds"
        alone = min(1.0, up(self.words.alone(exp_ends(wanted)[0])))
        return "privacy blanket" if self.proven_delta(wanted) < alone else "one word alone"

    @property
    def hidden_words(self) -> float:
        """Return how many words the privacy blanket hides on average: those redrawn in all bits.

        No hidden part that is the same for every word can be larger: a word is sent, whatever
        was held, with chance q^L and no more.
        """
        return self.records * (2.0 * float(self.flip_probability)) ** self.length

    def found_delta(self, epsilon: float) -> float:
        """Return the lower end alone: the largest delta of the crowds that were looked at."""
        wanted = checks.epsilon(epsilon)
        if self._bits is not None:
            return _ends(self._bits.delta, wanted).lower
        if wanted >= self.local_epsilon:
            return 0.0
        # All are deltas of crowds that can exist: the largest one is still a lower end.
        pair = self.assumed_pair().delta(wanted, relative_width=_FINE)
        above = exp_ends(wanted)[1]
        return max(
            pair.lower, self._small_crowds.delta(above), self._complements(above, pair.lower)
        )

    def _complements(self, above: Fraction, known: float) -> float:
        """Return the largest delta of crowds of the complement of a word, or less than is known.

        Of crowds that hold one word these were the worst, or the assumed pair was, where all
        words and pairs were tried. All distances of a pair are tried for short words.
        """
        distances = np.linspace(1, self.length - 1, min(self.length - 1, _DISTANCES)).round()
        laws = [self.words.complements(int(distance), above) for distance in distances]
        rough = [self._mean(law, _COARSE) for law in laws]
        best = known
        for place in sorted(range(len(laws)), key=lambda i: -rough[i].upper):
            if rough[place].upper <= best:
                break
            best = max(best, self._mean(laws[place], _FINE).lower)
        return best

    def _proven_epsilon(self, delta: float) -> float:
        def alone(epsilon: float) -> float:
            return up(self.words.alone(exp_ends(epsilon)[0]))

        local, fine = self.local_epsilon, _EPSILON_TOLERANCE
        top = find_crossing(alone, delta, top=local, tolerance=fine)[1]
        start = find_crossing(
            lambda e: alone(e) * self._uncovered_chance, delta, top=top, tolerance=fine
        )[0]
        # The two cheap curves already agree: there is nothing left to search.
        if start >= top * (1 - _CLOSE):
            return top
        guess = max(start, min(1.0, 0.5 * top))
        return find_crossing(self.proven_delta, delta, top=top, tolerance=fine, guess=guess)[1]

    def _blanket(self, below: Fraction) -> float:
        laws = [self.words.blanket(h, below) for h in range(1, self.length + 1)]
        rough = [self._mean(law, _COARSE).upper for law in laws]
        # The narrow mean is asked only of laws whose wide one could still be the largest.
        best = 0.0
        for place in sorted(range(len(laws)), key=lambda i: -rough[i]):
            if rough[place] <= best:
                break
            best = max(best, min(rough[place], self._mean(laws[place], self._blanket_width).upper))
        return best

    def _mean(self, law: FiniteLaw, width: float) -> Bracket:
        return mean_positive_part(law, self.records, relative_width=width)

    @property
    def _blanket_width(self) -> float:
        return _FINE if self.hidden_words > _MANY_HIDDEN else _RUGGED

    @property
    def _uncovered_chance(self) -> float:
        """Return the chance that the blanket covers none of the others, about.

        Times δ of the word alone it is the least that the blanket can give.
        """
        # Each of the others is covered with chance (2q)^L.
        bare = 1 - (2 * self.flip_probability) ** self.length
        return math.exp((self.records - 1) * math.log(float(bare)))

    @cached_property
    def _small_crowds(self) -> SmallCrowds:
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
    document_name = "flipped-vectors"
    document_fields = ("users", "bits", "flip_probability")
    document_fractions = ("flip_probability",)

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


# ----------------------------------------------------------------------------
# The sources' worst pair: all others hold one word, the target holds it or its complement.
#
# The loss depends only on how many of the released words have y flipped bits (S1 6.10 = S4 III):
# R = (1/N) Σ_y (p/q)^(2y−L) g_y with g ~ Multinomial(N, Bin(L, q)), a mean of N independent
# variables with L + 1 values. So δ = E[(R − e^ε)₊] one way and E[(1 − e^ε R)₊] the other, both
# certified. That this pair is the worst is an assumption, and false in places.

_WIDTHS = ((1000, 1e-9), (10**7, 1e-5), (checks.LARGEST_CROWD, 1e-4))
_ENOUGH, _ROUGH = 1e-5, 1e-3
_BLOCK = 2**16
MOST_SAMPLES = 10**8


@dataclass(frozen=True)
class AssumedPair:
    """The pair the sources call the worst, among ``records`` words. Never a guarantee."""

    records: int
    words: BitWords

    method: ClassVar[Method] = "worst-pair-assumed"

    def delta(self, epsilon: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of this pair's delta, the larger of both directions.

        The relative width asked for by default is 1e-9 up to 1000 words, 1e-5 up to ten
        million and 1e-4 beyond; where it is not reached the bracket is wider and still holds.
        """
        wanted = checks.epsilon(epsilon)
        width = self._width
        if relative_width is not None:
            width = checks.real("relative width", relative_width, least=1e-9, most=0.5)
        if wanted >= self.words.local_epsilon:
            return Bracket(0.0, 0.0)
        below, above = exp_ends(wanted)
        ends = self._ends(below, width)
        lower, upper = max(end.lower for end in ends), min(1.0, max(end.upper for end in ends))
        # Both means move by at most the change of e^ε, since E[R] = 1: next to nothing, as a rule.
        moved = float(above - below)
        if moved <= 1e-13 * lower:
            lower = down(lower - moved)
        else:
            lower = max(end.lower for end in self._ends(above, width))
        return Bracket(min(lower, upper), upper)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon of this pair.

        A first search is content with rough deltas; the last steps are asked precisely. The
        relative width is about 1e-6, and 1e-5 above ten million words.
        """
        wanted = checks.delta(delta)
        local = self.words.local_epsilon
        near = find_crossing(self._rough, wanted, top=local, tolerance=1e-5)[1]
        if near == 0:
            return Bracket(0.0, 0.0)
        cache: dict[float, Bracket] = {}

        def at(epsilon: float) -> Bracket:
            if epsilon not in cache:
                width = _ROUGH if epsilon < 0.5 * near else max(self._width, _ENOUGH)
                cache[epsilon] = self.delta(epsilon, relative_width=width)
            return cache[epsilon]

        def last(curve: Callable[[Bracket], float], top: float) -> tuple[float, float]:
            return find_crossing_below(
                lambda e: curve(at(e)), wanted, top=top, tolerance=1e-7, near=2e-4
            )

        upper = last(lambda bracket: bracket.upper, near)[1]
        return Bracket(last(lambda bracket: bracket.lower, upper)[0], upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons, to a relative width of 1e-3."""
        ends = [self.delta(float(e), relative_width=_ROUGH) for e in np.atleast_1d(epsilons)]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    @property
    def _width(self) -> float:
        return next(width for most, width in _WIDTHS if self.records <= most)

    def _ends(self, ratio: Fraction, width: float) -> list[Bracket]:
        laws, count = self.words.assumed(ratio), self.records
        # A coarse look at both directions first: as a rule one of them is plainly smaller.
        ends = [mean_positive_part(law, count, relative_width=max(width, 0.05)) for law in laws]
        least = max(end.lower for end in ends)
        return [
            mean_positive_part(law, count, relative_width=width) if end.upper >= least else end
            for law, end in zip(laws, ends, strict=True)
        ]

    def _rough(self, epsilon: float) -> float:
        return self.delta(epsilon, relative_width=_ROUGH).upper


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure from random samples, with all that is needed to draw them again."""

    epsilon: float
    delta: float
    samples: int
    seed: int
    method: Method = "monte-carlo"


def _estimate_epsilon(
    records: int, words: BitWords, *, delta: float, samples: int, seed: int
) -> Estimate:
    """Return S4's estimate of the epsilon whose point-wise failure is delta, sign corrected.

    The larger of minus the δ-quantile of ln R(g) and the (1 − δ)-quantile of ln R(g′), where g
    counts N words of the crowd and g′ has the complement in place of one. It estimates the
    point-wise quantity of the assumed pair: neither a bound nor the hockey-stick delta.
    """
    wanted = checks.delta(delta)
    size = checks.whole("number of samples", samples, least=1, most=MOST_SAMPLES)
    start = checks.whole("seed", seed, most=2**63)
    if size * min(wanted, 1 - wanted) < 1:
        rule = f"at least 1/delta and 1/(1 − delta) to see a quantile at delta = {wanted:g}"
        hint = "assumed_pair().epsilon(delta) is certified and needs no samples"
        raise InvalidInput("number of samples", rule, samples, hint=hint)
    random = np.random.default_rng(start)
    chances = np.array([float(chance) for chance in words.flipped_bits])
    chances /= chances.sum()
    values = np.array([float(ratio) for ratio in words.ratios]) / records
    plain, moved = np.empty(size), np.empty(size)
    for first in range(0, size, _BLOCK):
        block = slice(first, min(first + _BLOCK, size))
        number = block.stop - block.start
        plain[block] = random.multinomial(records, chances, size=number) @ values
        # g′ has the complement in one place: its number of flips, seen from the word, is mirrored.
        target = values[random.choice(len(values), p=chances[::-1], size=number)]
        moved[block] = random.multinomial(records - 1, chances, size=number) @ values + target
    # S4 omits the minus sign of the first quantile.
    low = float(np.quantile(plain, wanted, method="inverted_cdf"))
    high = float(np.quantile(moved, 1.0 - wanted, method="inverted_cdf"))
    return Estimate(max(-float(np.log(low)), float(np.log(high)), 0.0), wanted, size, start)
