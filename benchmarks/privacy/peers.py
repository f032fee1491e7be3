"""Other accountants, asked the same questions.

dp-accounting is fed with the exact probabilities of one crowd: it knows no crowds and cannot
look for the worst. It rounds every loss up to a grid (``pessimistic_estimate=True``) and is
given both argument orders (``symmetric=False``; one order alone is half a guarantee). The
first argument is the law with the target at 0, the second with the target at 1.
prv-accountant takes continuous losses, so all it can be asked for is the Gaussian limit of a
large crowd, which is an approximation and no guarantee for the crowd itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray
from prv_accountant import GaussianMechanism, PRVAccountant
from scipy import special, stats

from chaffinch.privacy import Bracket, Mechanism
from chaffinch.privacy.amplification import clone_delta

LogMasses = dict[int, float]
Masses = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """The logarithms of the two laws of the sum for one crowd."""

    zero: LogMasses
    one: LogMasses


@dataclass(frozen=True)
class CloneBound(Mechanism):
    """The clone bound as a mechanism: its pair dominates every crowd, and so composes."""

    users: int
    local: float

    view = "messages"
    method = "upper-bound"

    @property
    def crowd_words(self) -> str:
        """Return the crowd, in words."""
        return f"{self.users} honest users"

    @property
    def local_epsilon(self) -> float:
        """Return the local epsilon of the randomizer."""
        return self.local

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of the bound."""
        return clone_delta(local_epsilon=self.local, users=self.users, epsilon=epsilon)

    def profile(self, epsilons: Masses) -> tuple[Masses, Masses]:
        """Return both ends of the bound at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])


def crowd_pair(users: int, flip: float, *, ones: int = 0) -> Pair:
    """Return the two laws of the sum when ``ones`` of the others hold a one.

    The window leaves out less than 1e-30 of the mass, far below every delta asked for.
    """
    others = _binomial(users - 1 - ones, flip)
    if ones:
        low, high = others, _binomial(ones, 1.0 - flip)
        others = (low[0] + high[0], np.convolve(low[1], high[1]))
    start, mass = others
    zero = (1.0 - flip) * np.append(mass, 0.0) + flip * np.append(0.0, mass)
    one = flip * np.append(mass, 0.0) + (1.0 - flip) * np.append(0.0, mass)
    return Pair(_logarithms(start, zero), _logarithms(start, one))


def _binomial(count: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    mean, deviation = count * chance, math.sqrt(count * chance * (1.0 - chance))
    start = max(0, math.floor(mean - 16.0 * deviation - 60.0))
    stop = min(count, math.ceil(mean + 16.0 * deviation + 60.0))
    return start, stats.binom.pmf(np.arange(start, stop + 1), count, chance)


def _logarithms(start: int, mass: NDArray[np.float64]) -> LogMasses:
    return {start + i: math.log(m) for i, m in enumerate(mass.tolist()) if m > 0}


def dp_accounting(pair: Pair, *, delta: float, grid: float, rounds: int = 1) -> float:
    """Return dp-accounting's epsilon: build, compose, ask."""
    losses = privacy_loss_distribution.from_two_probability_mass_functions(
        pair.zero,
        pair.one,
        pessimistic_estimate=True,
        value_discretization_interval=grid,
        symmetric=False,
    )
    if rounds > 1:
        losses = losses.self_compose(rounds)
    return float(losses.get_epsilon_for_delta(delta))


def limit_mu(users: int, flip: float) -> float:
    """Return (p − q)/√(n·p·q): what a large crowd tends to, never a guarantee."""
    return (1.0 - 2.0 * flip) / math.sqrt(users * flip * (1.0 - flip))


def prv_accountant(users: int, flip: float, *, delta: float, rounds: int = 1) -> float:
    """Return prv-accountant's upper end for the Gaussian limit, asked for to half a percent."""
    error = 0.005 * limit_epsilon(users, flip, delta=delta, rounds=rounds)
    accountant = PRVAccountant(
        prvs=[GaussianMechanism(noise_multiplier=1.0 / limit_mu(users, flip))],
        max_self_compositions=[rounds],
        eps_error=error,
        delta_error=delta * 1e-3,
    )
    return float(accountant.compute_epsilon(delta, [rounds])[2])


def limit_epsilon(users: int, flip: float, *, delta: float, rounds: int = 1) -> float:
    """Return epsilon of the Gaussian limit itself, from its closed form, by halving."""
    mu = math.sqrt(rounds) * limit_mu(users, flip)
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        here = special.ndtr(mu / 2 - middle / mu) - math.exp(middle) * special.ndtr(
            -mu / 2 - middle / mu
        )
        low, high = (middle, high) if here > delta else (low, middle)
    return high
