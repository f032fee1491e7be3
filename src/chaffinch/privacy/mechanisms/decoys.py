"""One value out of d, sent in clear among uniform decoys (S0 §5.1).

The other users' clear reports cancel, so there is no crowd to search: of the decoys,
T ~ Bin(decoys, 2/d) fall on the two values that the target may hold, and given T the view
is 1 + Bin(T, ½) against Bin(T, ½).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.laws import Law, binomial
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    LEAST_TAIL,
    ROUNDOFF,
    Floats,
    Wide,
    WideArray,
    down,
    exp_ends,
    exp_minus_one,
    gamma,
    up,
    wide,
    wide_exponential,
)
from chaffinch.privacy.numerics.sums import positive_part_of_sum
from chaffinch.privacy.progress import count_step

_MOST_TERMS = 20_000_000
_CHUNK = 1_000_000
_EXACT_COUNT = 5_000
_FEW_SENDERS = 64


@dataclass(frozen=True, init=False)
class DecoyedValues(Mechanism):
    """Users send their value in clear; ``decoys`` uniform values are mixed in.

    Either a guaranteed minimum of ``decoys``, or each of ``users`` honest users sends one
    more with probability ``decoy_rate``. There is no local guarantee at all.

    >>> DecoyedValues(decoys=50, values=5).delta(1.0).upper.__round__(9)
    0.005466144
    """

    values: int
    senders: int
    """How many may send a decoy."""
    rate: Fraction
    """How likely each of them does."""

    view = "messages"
    method: Method = "exact"
    document_name = "decoyed-values"
    document_fractions = ("decoy_rate",)

    def __init__(
        self,
        *,
        values: int,
        decoys: int | None = None,
        users: int | None = None,
        decoy_rate: float | str | Fraction | None = None,
    ) -> None:
        if (decoys is None) == (users is None or decoy_rate is None):
            raise InvalidInput(
                "decoys",
                "given either as decoys= or as users= with decoy_rate=",
                {"decoys": decoys, "users": users, "decoy_rate": decoy_rate},
            )
        object.__setattr__(
            self, "values", checks.whole("number of values", values, least=2, most=10**6)
        )
        if decoys is not None:
            if users is not None or decoy_rate is not None:
                raise InvalidInput("decoys", "given in one way only", decoys)
            object.__setattr__(self, "senders", checks.whole("number of decoys", decoys))
            object.__setattr__(self, "rate", Fraction(1))
        else:
            object.__setattr__(self, "senders", checks.people("number of users", users))
            rate = checks.probability(
                "decoy rate",
                decoy_rate,
                below=Fraction(1),
                certain=True,
                rule="above 0 and at most 1",
            )
            object.__setattr__(self, "rate", rate)

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        """Return a number of decoys where each is surely sent, else who sends them and how often.

        Users who all send a decoy and a guaranteed number of decoys are the same mechanism.
        """
        if self.rate == 1:
            return {"values": self.values, "decoys": self.senders}
        rate = forms.fraction_text("decoy_rate", self.rate)
        return {"values": self.values, "users": self.senders, "decoy_rate": rate}

    @classmethod
    def from_written(
        cls,
        fields: dict[str, Any],
        mechanism_of: Callable[[object], Mechanism],  # noqa: ARG003
    ) -> DecoyedValues:
        """Return the mechanism with these parameters."""
        names = ("values", "decoys") if "decoys" in fields else ("values", "users", "decoy_rate")
        forms.check_fields(cls.__name__, fields, names)
        return cls(**forms.read_fields(fields, cls.document_fractions))

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        if self.rate == 1:
            return f"{self.senders} honest decoys over {self.values} values"
        return (
            f"{self.senders} honest users, each sending a decoy with probability "
            f"{float(self.rate):.6g}, over {self.values} values"
        )

    @property
    def local_epsilon(self) -> float:
        """Return infinity: a clear report hides nothing from who sees its sender."""
        return math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta = E_T[max over j of C(T, j)/2^T − (e^ε − 1)·P(Bin > j)].

        Source     S0 §5.1, exact instead of its bound (5.10); both directions are alike.
        Promises   relative width 1e-9, or 1e-5 where epsilon is so small and the decoys are
                   so many that the sum over T is replaced by ``positive_part_of_sum``.
        """
        epsilon = checks.epsilon(epsilon)
        tail = Wide(1e-30)
        while True:
            count_step("sums over decoys")
            law = binomial(self.senders, self.rate * 2 / self.values, tail)
            if len(law.mass) * _terms(epsilon) > _MOST_TERMS:
                return self._by_contour(epsilon)
            bracket = _mix_counts(law, epsilon)
            # What the window leaves out is part of the upper end and must not show beside delta.
            # Delta is not known before, so the tail follows it down.
            settled = float(tail) < bracket.lower * 1e-11 or bracket.upper < 1e-306
            if settled or tail <= LEAST_TAIL:
                return bracket
            tail = max(Wide(bracket.lower) * 1e-12 if bracket.lower else tail**2, LEAST_TAIL)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite below what always leaks.

        With no decoy on the value that the target does not hold the view gives it away:
        delta cannot be less than (1 − rate/values)^senders, whatever epsilon is.
        """
        target = checks.delta(delta)
        # delta is flat from some epsilon on, or from 0 on: a target just there is met exactly.
        if self.senders <= _FEW_SENDERS and self._least_exact <= target:
            return Bracket(0.0, 0.0)
        always = wide_exponential([(self.senders, 1 - self.rate / self.values)])
        # Infinite only where that is sure: the power is off by at most four roundoffs.
        if always * (1 - 1e-15) >= target:
            return Bracket(math.inf, math.inf)
        try:
            return solve_epsilon(self.delta, target, most=math.inf)
        except GuaranteeNotProven as wide_open:
            return Bracket(wide_open.lower, wide_open.upper)

    @property
    def _least_exact(self) -> Fraction:
        """Return delta(0): given T decoys on the two values it is C(T, ⌊T/2⌋)/2^T."""
        share = self.rate * 2 / self.values
        return sum(
            (
                math.comb(self.senders, t)
                * share**t
                * (1 - share) ** (self.senders - t)
                * Fraction(math.comb(t, t // 2), 2**t)
                for t in range(self.senders + 1)
            ),
            Fraction(0),
        )

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the laws of the two counts (T decoys on them, j of those on the first)."""
        law = binomial(self.senders, self.rate * 2 / self.values, 1e-19)
        if len(law.mass) * (law.stop + 1) > _CHUNK:
            return None
        here, there = [], []
        for trials, mass in enumerate(law.mass, start=law.start):
            half = binomial(trials, Fraction(1, 2), LEAST_TAIL).mass * mass
            none = np.zeros(1, dtype=Wide)
            # Over the counts 0 … T + 1: with the target's own report each count is one higher.
            here.append(np.concatenate([none, half]))
            there.append(np.concatenate([half, none]))
        return (
            np.concatenate(here).astype(np.float64),
            np.concatenate(there).astype(np.float64),
        )

    def _by_contour(self, epsilon: float) -> Bracket:
        """Return delta as (values / expected decoys and one) · E[(N₀ − e^ε·N₁)₊].

        The likelihood ratio to a collection of one more decoy is N₀·values/(decoys + 1), a
        mean of independent terms; with a rate, P[Bin(n, r) = m]/(m + 1) is
        P[Bin(n + 1, r) = m + 1]/((n + 1)·r).
        """
        share = self.rate / self.values
        count = self.senders + 1
        factor = Fraction(1) / (share * count)
        # delta falls as e^ε rises: the smaller rational gives the upper end, the larger the lower.
        ends = []
        for growth in exp_ends(epsilon):
            part = positive_part_of_sum(
                [Fraction(1), -growth, Fraction(0)],
                [share, share, 1 - 2 * share],
                count,
                relative_width=1e-5,
            )
            ends.append(
                (down(wide(factor) * Wide(part.lower)), up(wide(factor) * Wide(part.upper)))
            )
        return Bracket(min(ends[1][0], 1.0), min(ends[0][1], 1.0))


def _terms(epsilon: float) -> int:
    """Return how many tail terms are worth adding: they fall at least like e^−epsilon."""
    # e^−46 is about 1e-20. What is not added up is bounded by the caller: this is a matter of time.
    return 1 if epsilon == 0 else math.ceil(46.0 / max(epsilon, 1e-12)) + 2


def _mix_counts(law: Law, epsilon: float) -> Bracket:
    """Return E over T of the delta given T, from a window of T."""
    counts = np.arange(law.start, law.stop, dtype=np.int64)
    # C(T, j−1) > e^ε·C(T, j) just where j > (T + 1)·e^ε/(1 + e^ε): the best test is that tail.
    share = 1.0 / (1.0 + math.exp(-min(epsilon, 700.0)))
    place = (counts + 1) * share
    threshold = np.floor(place).astype(np.int64)
    threshold = np.minimum(threshold, counts)
    mass, error = _half_masses(counts, threshold)
    low, high = _ends_given_counts(counts, threshold, mass, error, epsilon)
    # Where the threshold is too close to call its neighbours may be the better test.
    close = np.flatnonzero(np.abs(place - np.round(place)) < 1e-5 + 1e-12 * counts)
    for shift in (-1, 1) if epsilon > 0 else ():
        trials, at = counts[close], threshold[close]
        moved = np.clip(at + shift, 0, trials)
        # C(T, j ± 1)/C(T, j), so that no binomial coefficient is worked out again.
        step = (trials - at) / (at + Wide(1)) if shift > 0 else at / (trials - at + Wide(1))
        beside = np.where(moved == at, mass[close], mass[close] * step)
        other_low, other_high = _ends_given_counts(
            trials, moved, beside, error + 4 * ROUNDOFF, epsilon
        )
        low[close] = np.maximum(low[close], other_low)
        high[close] = np.maximum(high[close], other_high)
    wider = law.relative + gamma(len(counts) + 2.0)
    lower = (law.mass * np.maximum(low, 0)).sum() * (1 - wider)
    # A T outside the window adds at most its chance to delta.
    upper = (law.mass * np.maximum(high, 0)).sum() * (1 + wider) + law.missing
    return Bracket(min(down(lower), 1.0), min(up(upper), 1.0))


def _ends_given_counts(
    counts: NDArray[np.int64],
    threshold: NDArray[np.int64],
    mass: WideArray,
    error: float,
    epsilon: float,
) -> tuple[WideArray, WideArray]:
    """Return both ends of pmf(j) − (e^ε − 1)·P[Bin(T, ½) > j] for each T and its threshold j.

    The tail is pmf(j) times a sum of falling products; what is left out of it is below a
    geometric series. At epsilon 0 the middle of the law is the best test.
    """
    if len(counts) == 0:
        return mass, mass
    terms = min(_terms(epsilon), int((counts - threshold).max()) + 1)
    rows = max(1, _CHUNK // terms)
    sums, rest = np.zeros(len(counts), dtype=Wide), np.zeros(len(counts), dtype=Wide)
    if epsilon > 0:
        step = np.arange(terms)
        for begin in range(0, len(counts), rows):
            part = slice(begin, begin + rows)
            up_to = (counts - threshold)[part, None] - step
            # C(T, j+1+s)/C(T, j+s), which falls with s: a row for each T, a column for each term.
            ratio = np.maximum(up_to, 0).astype(Wide) / (threshold[part, None] + 1 + step)
            product = np.cumprod(ratio, axis=1)
            sums[part] = product.sum(axis=1)
            last = ratio[:, -1]
            # Behind the threshold ratios are about e^−ε or less, so 1 − last is never so small as
            # the floor, which only keeps a rounded 0 from dividing.
            rest[part] = product[:, -1] * last / np.maximum(1 - last, Wide(1e-3) * epsilon)
    growth = exp_minus_one(min(epsilon, LARGEST_EXPONENT))
    wider = gamma(3.0 * terms + 12.0)
    low = mass * (1 - error) * (1 - growth * (sums * (1 + wider) + rest * (1 + wider)))
    # e^ε is capped where it leaves the floats, which is right for upper ends only.
    if epsilon > LARGEST_EXPONENT:
        low = np.where(sums > 0, 0, low)
    # Without the rest of the tail, which would be taken away: the upper end is the larger for it.
    high = mass * (1 + error) * (1 - growth * sums * (1 - wider))
    return low, high


def _half_masses(
    counts: NDArray[np.int64], threshold: NDArray[np.int64]
) -> tuple[WideArray, float]:
    """Return C(T, j)/2^T for consecutive T whose j rises by 0 or 1, and its relative error."""
    rises = np.diff(threshold)
    before, after = counts[:-1].astype(Wide), threshold[1:].astype(Wide)
    # To T + 1 at the same j, or at j + 1.
    stay = (before + 1) / (2 * np.maximum(before + 1 - after, 1))
    climb = (before + 1) / (2 * np.maximum(after, 1))
    steps = np.where(rises == 0, stay, climb)
    first, error = _half_mass(int(counts[0]), int(threshold[0]))
    products = np.concatenate([np.ones(1, dtype=Wide), np.cumprod(steps)])
    return first * products, error + gamma(4.0 * len(counts) + 8.0)


def _half_mass(count: int, successes: int) -> tuple[Any, float]:
    """Return C(count, successes)/2^count and its relative error (1 where only a cap is known)."""
    if count <= _EXACT_COUNT:
        return wide(Fraction(math.comb(count, successes), 1 << count)), 4.0 * ROUNDOFF
    law = binomial(count, Fraction(1, 2), LEAST_TAIL)
    if law.start <= successes < law.stop:
        return law.mass[successes - law.start], law.relative
    # Outside the window the mass is below this, and an error of 1 makes its lower end 0.
    return 2 * LEAST_TAIL, 1.0
