"""One bit in clear among a fixed number of users who answer at random (S3, algorithm 5).

A set H of the users is fixed before anyone answers. Who is in H sends a fair coin, all others
send their bit as it is, and the analyzer sees the sum: Σ over the others of their bits, plus
B ~ Bin(|H|, ½).

* A target in H is hidden altogether. For one outside H the bits of all others outside H are the
  same in both cases and cancel, so the view is B against B + 1: there is no crowd to search. As
  B is symmetric both directions are alike.
* This law does not change when the analyzer knows who is in H. Nor does it when H is drawn anew
  in secret: by joint convexity δ is then at most the mean over H, |H|/n of which is 0.
* It is the same pair as one value of two, in clear, among |H| decoys (`DecoyedValues`).

This is the protocol that S3 Figure 2 compares bounds for. It is *not* the one that is run there:
in S3's algorithm 1 everybody answers at random with chance λ/n, which is `FlippedBits`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chaffinch.errors import checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.decoys import DecoyedValues
from chaffinch.privacy.numerics.laws import binomial, target_bits
from chaffinch.privacy.numerics.loss import knots_of_sum
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.tradeoff import TradeOff, check_levels


@dataclass(frozen=True, init=False)
class RandomResponders(Mechanism):
    """Of the users exactly ``responders`` send a fair coin, all others their bit in clear.

    The analyzer sees the sum. The target is not among the responders: who is has nothing to
    fear, and whoever is not has no local guarantee at all.

    >>> RandomResponders(responders=50).delta(1.0).upper.__round__(7)
    5.24e-05
    """

    responders: int

    view = "messages"
    method: Method = "exact"
    document_name = "random-responders"
    document_fields = ("responders",)

    def __init__(self, *, responders: int) -> None:
        object.__setattr__(self, "responders", checks.whole("number of responders", responders))

    @property
    def inner(self) -> DecoyedValues:
        """Return the same pair of laws as a collection of clear values among decoys."""
        return DecoyedValues(values=2, decoys=self.responders)

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"{self.responders} honest users who answer at random, the target not among them"

    @property
    def local_epsilon(self) -> float:
        """Return infinity: a clear bit hides nothing from who sees its sender."""
        return math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta = max over k of P[B ≤ k] − e^ε·P[B ≤ k − 1]."""
        return self.inner.delta(epsilon)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        return self.inner.profile(epsilons)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite for a delta below 2^−responders."""
        return self.inner.epsilon(delta)

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return both ends of the exact trade-off curve at the levels ``alphas``.

        The best tests call "0" for the k smallest sums, so the curve runs straight between the
        points (P[B ≤ k − 1], P[B > k]).
        """
        levels = check_levels(alphas)
        # A target that is never flipped: what it adds to the sum is its bit.
        coins = binomial(self.responders, Fraction(1, 2), 1e-30)
        low, high = knots_of_sum(coins, target_bits(1, Fraction(0)), math.inf).power(levels)
        return TradeOff(levels, np.maximum(1.0 - high, 0.0), np.maximum(1.0 - low, 0.0))

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the two laws of the sum."""
        return self.inner.instance()
