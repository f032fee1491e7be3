"""Totals with noise: one party that may see the answers adds them up, and adds the noise once.

What is seen is the released numbers alone. Every count has noise of its own on the whole numbers,
with masses like e^(−|z|/b) (discrete Laplace [Ghosh, Roughgarden and Sundararajan 2012]) or like
e^(−z²/2b²) (discrete Gaussian [Canonne, Kamath and Steinke 2020]) for a scale b. One person who is
replaced by another moves some counts, each by up to ``steps``: a bit moves one, a choice two, flags
all of them, and a number its sum. How many people there are is public.

**The largest move is the worst.** Fewer counts that move are a part of what is seen of more. And of
one count with log-concave noise the best tests are thresholds, which a larger move passes more
often: δ = sup P[Z + s ≥ t] − e^ε·P[Z ≥ t] rises with s. All counts here move by the same, in
whatever direction: noise is symmetric.

**Discrete Laplace, m counts by 1.** With t = 1/b the loss of one count is t if Z ≤ 0, which has
the chance 1/(1 + e^−t), and −t otherwise: the counts together are m randomized responses,

    δ(ε) = Σ_j C(m, j)·e^(−tj)·(1 + e^−t)^−m·(1 − e^(ε − t(m − 2j)))₊.

**Discrete Laplace, one count by s.** The best test is Z ≤ k for the largest k with s − 2k > ε/t,
and with a = e^−t and r = t(s − 2k) − ε in (0, 2t]

    δ(ε) = (1 − a^k) + a^k·(1 − e^−r)/(1 + a),

without differences of nearly equal terms; 0 from ε = ts on.

**Discrete Gaussian, m counts by s.** The loss is s(ms + 2S)/2b² at S, the sum of the noise of the
counts that move: one sum over the tail of the law of S (``numerics.discrete_noise``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.totals_mu import mu_of_noise
from chaffinch.privacy.numerics.discrete_noise import GaussianSum
from chaffinch.privacy.numerics.precision import Floats, Wide, WideArray, down, gamma, up, wide

LAWS = ("laplace", "gaussian")
CROWD = "any people, added up by one trusted party"
_LARGEST_SCALE = {"laplace": 1 << 40, "gaussian": 1 << 20}
"""Sums over Gaussian noise take time and memory like its scale."""
_WIDEST = 1 << 22
_LEAST_SCALE = Fraction(1, 1 << 20)
_MOST_COUNTS = 10_000
_MOST_STEPS = 1 << 20
_LEFT_OUT = 1e-25
"""The part of the first term of a sum that is left out behind its window."""
_LONGEST_INSTANCE = 1 << 14
_MOST_KINKS = 256
"""The profile of Laplace noise is straight in e^ε between places of which so many are taken."""


@dataclass(frozen=True, init=False)
class NoisyTotals(Mechanism):
    """Counts with discrete noise of one ``scale``, of which one person moves some.

    ``law`` is "laplace" or "gaussian", ``counts`` how many counts a person moves, ``steps`` by how
    much each. Whoever adds up is trusted: there is no local guarantee.

    >>> counts = NoisyTotals(law="laplace", scale=2, counts=2)
    >>> counts.epsilon(1e-9).upper, counts.delta(1.0)  # doctest: +ELLIPSIS
    (0.9999999974..., Bracket(lower=0.0, upper=0.0))
    """

    law: str
    scale: Fraction
    counts: int
    steps: int

    view = "totals"
    method: ClassVar[Method] = "exact"  # type: ignore[misc]
    document_name = "noisy-totals"
    document_fields = ("law", "scale", "counts", "steps")
    document_fractions = ("scale",)

    def __init__(
        self, *, law: str, scale: float | str | Fraction, counts: int = 1, steps: int = 1
    ) -> None:
        kind = checks.choice("law", law, LAWS)
        exact = checks.probability(
            "scale", scale, below=Fraction(_LARGEST_SCALE[kind]), rule="above 0, and not too large"
        )
        if not exact >= _LEAST_SCALE:
            raise InvalidInput("scale", "at least 2^-20", scale)
        settled = {
            "law": kind,
            "scale": exact,
            "counts": checks.whole("number of counts", counts, least=1, most=_MOST_COUNTS),
            "steps": checks.whole("number of steps", steps, least=1, most=_MOST_STEPS),
        }
        if kind == "laplace" and counts > 1 and steps > 1:
            raise InvalidInput("steps of several counts", "1 for Laplace noise", steps)
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def crowd_words(self) -> str:
        """Return whom the guarantee counts on, in words."""
        return CROWD

    @property
    def local_epsilon(self) -> float:
        """Return infinity: whoever adds up sees the answers."""
        return math.inf

    @property
    def takes_minutes(self) -> bool:
        """Return whether Gaussian noise is so wide that its sums take long."""
        return self.law == "gaussian" and self.counts * self.scale**2 > _WIDEST**2

    @property
    def largest_loss(self) -> float:
        """Return the epsilon from which on delta is 0, rounded up; infinity of Gaussian noise."""
        return math.inf if self.law == "gaussian" else up(wide(self._reach) * (1 + gamma(4.0)))

    @property
    def _reach(self) -> Fraction:
        """Return the largest loss of Laplace noise."""
        return self.counts * self.steps / self.scale

    # -------------------------------------------------------------------- the profile

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta: the same in both directions, and for every change."""
        wish = Fraction(checks.epsilon(epsilon))
        if self.law == "gaussian":
            low, high = self._ends_of_gaussian(wish)
        elif wish >= self._reach:
            return Bracket(0.0, 0.0)
        elif self.counts == 1:
            low, high = self._ends_of_steps(wish)
        else:
            low, high = self._ends_of_counts(wish)
        upper = min(up(high), 1.0)
        return Bracket(min(down(low), upper), upper)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        return solve_epsilon(self.delta, checks.delta(delta), most=self.largest_loss)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def nodes(self) -> Floats:
        """Return epsilons that describe the profile: of Laplace noise where it bends."""
        if self.law == "gaussian":
            return super().nodes()
        # Losses are the reach less an even number of steps of 1/scale; too many are thinned out.
        kinks = self.counts * self.steps // 2
        every = math.ceil((kinks + 1) / _MOST_KINKS)
        losses = (self._reach - 2 * j / self.scale for j in range(0, kinks + 1, every))
        return np.array(sorted({0.0, *(up(wide(loss)) for loss in losses if loss)}))

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP; of Gaussian noise about move/scale.

        Its upper end is infinite where no bound of it is known (very wide noise, and sums of narrow
        one).
        """
        found = None
        if self.law == "gaussian":
            found = mu_of_noise(self._total, self.counts * self.steps)
        return super().gaussian_mu() if found is None else Bracket(*found)

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the two laws of what one person moves."""
        if self.law == "gaussian":
            if self.scale > _LONGEST_INSTANCE:
                return None
            total = self._total
            last = total.reach(0, 1e-24) + self.counts * self.steps
            mass, _ = total.masses(-last, 2 * last + 1)
            moved = self.counts * self.steps
            return mass[moved:].astype(np.float64), mass[: len(mass) - moved].astype(np.float64)
        if self.counts > 1:
            first = self._responses()
            return first.astype(np.float64), first[::-1].astype(np.float64)
        fall = np.exp(-1 / wide(self.scale))
        inner = (1 - fall) / (1 + fall) * fall ** np.arange(1, self.steps, dtype=Wide)
        ends = [1 / (1 + fall), *inner, fall**self.steps / (1 + fall)]
        law = np.array(ends, dtype=np.float64)
        return law, law[::-1].copy()

    def _ends_of_steps(self, epsilon: Fraction) -> tuple[Any, Any]:
        """Return both ends of one count that moves by ``steps``."""
        # The largest k with steps − 2k > ε·scale, in whole numbers.
        rest = self.steps - epsilon * self.scale
        k = math.ceil(rest / 2) - 1
        left = wide((self.steps - 2 * k) / self.scale - epsilon)
        inverse = 1 / wide(self.scale)
        before = -np.expm1(-k * inverse)
        after = np.exp(-k * inverse) * -np.expm1(-left) / (1 + np.exp(-inverse))
        found = before + after
        # An exponent of x is off by a few roundoffs of x, which are no larger a part of e^−x.
        error = gamma(40.0 + 8.0 * float(k * inverse))
        return found * (1 - error), found * (1 + error)

    def _ends_of_counts(self, epsilon: Fraction) -> tuple[Any, Any]:
        """Return both ends of several counts that move by 1."""
        law = self._responses()
        last = math.ceil((self.counts - epsilon * self.scale) / 2)
        # Exact at the largest loss; smaller ones are off by a few roundoffs of it.
        first = wide(self._reach - epsilon)
        left = first - 2 * np.arange(last, dtype=Wide) / wide(self.scale)
        doubt = gamma(8.0) * first
        error = self._error_of_responses + gamma(last + 8.0)
        low = (law[:last] * -np.expm1(-np.maximum(left - doubt, 0))).sum()
        high = (law[:last] * -np.expm1(-np.maximum(left + doubt, 0))).sum()
        return low * (1 - error), high * (1 + error)

    def _responses(self) -> WideArray:
        """Return the chances that 0, 1, … of the counts tell against the truth."""
        return self._binomial[0]

    @property
    def _error_of_responses(self) -> Any:
        return self._binomial[1]

    @cached_property
    def _binomial(self) -> tuple[WideArray, Any]:
        m = self.counts
        places = np.arange(1, m + 1, dtype=Wide)
        # In logarithms, because masses of many counts are out of the range of floats.
        inverse = 1 / wide(self.scale)
        ways = np.concatenate([np.zeros(1, Wide), np.cumsum(np.log((m + 1 - places) / places))])
        logarithms = ways - inverse * np.arange(m + 1, dtype=Wide) - m * np.log1p(np.exp(-inverse))
        # Every term of the sums is off by a few roundoffs of itself, every sum by as many as it
        # has terms of all of them: logarithms of ways rise, and fall again as far.
        sizes = 2 * ways.max() + m * (inverse + 1)
        return np.exp(logarithms), gamma(8.0) + gamma(m + 8.0) * sizes

    @cached_property
    def _total(self) -> GaussianSum:
        return GaussianSum(self.counts, self.scale)

    def _ends_of_gaussian(self, epsilon: Fraction) -> tuple[Any, Any]:
        """Return both ends of the sum over all S whose loss is above epsilon."""
        square, s, m = self.scale**2, self.steps, self.counts
        # s·(ms + 2S)/2b² > ε, in whole numbers.
        start = math.floor((2 * square * epsilon / s - m * s) / 2) + 1
        low = high = Wide(0)
        # What lies before the window counts in full, for the upper end.
        before = -self._total.reach(0, _LEFT_OUT)
        missing = self._total.beyond(-before) if start < before else Wide(0)
        for first, size in _windows(start, self._total):
            mass, error = self._total.masses(first, size)
            # All these losses are above epsilon: the first is exact, and the others add to it.
            here = wide(Fraction(s * (m * s + 2 * first)) / (2 * square) - epsilon)
            left = here + np.arange(size, dtype=Wide) * wide(s / square)
            part = (mass * -np.expm1(-left)).sum()
            error = error + gamma(size + 16.0)
            low, high = low + part * (1 - error), high + part * (1 + error)
            last = first + size - 1
        return low, high * (1 + gamma(64.0)) + self._total.beyond(last) + missing


def _windows(start: int, law: GaussianSum) -> Iterator[tuple[int, int]]:
    """Yield stretches from ``start`` on that hold all but next to nothing of the law behind it."""
    low = max(start, -law.reach(0, _LEFT_OUT))
    stop = law.reach(max(start, 0), _LEFT_OUT) + 1
    for first in range(low, stop, 1 << 16):
        yield first, min(1 << 16, stop - first)
