r"""Mu of discrete Gaussian noise: both ends of it, for all tests, also those of the far tail.

Let S have masses p_z = e^(−z²/2V)/N on the whole numbers, a_t = P[S ≥ t], and let the worst change
move S by M. The loss rises with S, so the best tests are thresholds, and the corners of the
trade-off curve have the levels a_t and the powers a_(t−M). A Gaussian curve is convex, so

    mu = max over t of g(t) − g(t − M),    g(t) = −Φ⁻¹(a_t).

As a_(1−t) = 1 − a_t, g(1 − t) = −g(t), and t ≥ (1 + M)/2 is enough. Up to some T these are summed.

**Behind T.** Let τ = t − M, x = g(τ), Δ = g(t) − x, and let h be the hazard φ/(1 − Φ) of a normal
variable, which rises and is convex, and above u + w(u), w(u) = 2/(u + √(u² + 8)) ≥ u/(u² + 2)
[Sampford 1953].

1. *What is seen falls by little.* a_t = p_t·E_t, E_t = Σ_j e^(−(2tj + j²)/2V) over j ≥ 0. The
   logarithm of E falls at t by the mean of j over V, with masses like these terms; that mean falls
   with t and is below 1/(e^(t/V) − 1) ≤ V/t, for a ratio of neighbours is at most e^(−t/V). So
   D = ln(a_τ/a_t) ≤ M(τ + M/2)/V + M/τ.
2. *A normal tail falls by more.* D = ∫ h from x to x + Δ, at least Δ·h(x + Δ/2), as h is convex.
3. *Where it starts.* N ≥ √(2πV) (Poisson's formula; all terms are positive), and e^(−z²/2V) is
   convex behind √V: so a_τ ≤ 1 − Φ((τ − ½)/√V), and x ≥ (τ − ½)/√V if τ − ½ ≥ √V.

Suppose Δ > (1 + ρ)M/√V with ρ ≤ 1, and let W = τ − ½ + (1 + ρ)M/2, which is τ at least. As h rises,
2 and 3 give D > (M/V)(1 + ρ)(W + VW/(W² + 2V)), and with 1, where τ + M/2 = W + ½ − ρM/2,

    ρW < ½ + V/τ − VW/(W² + 2V) = ½ + V(W(W − τ) + 2V)/(τ(W² + 2V)) ≤ ½ + VM/τ² + 2V²/τ³.

So Δ ≤ (1 + ρ)M/√V for ρ = (½ + VM/τ² + 2V²/τ³)/τ, if that is at most 1; and it falls with τ.

**Sums** of m such numbers have masses like these up to a factor e^(±η) (``discrete_noise``), with
V = mσ². In 1 this adds 2η to D, which is 2ηV/M in units of M/V; in 3 it takes η from x at most, as
h is above 1 there, and so no more than 3η√V from the other side. Four times their sum, for all that
is rounded besides, is added to what ρτ must be.
"""

from __future__ import annotations

import math

import numpy as np

from chaffinch.privacy.numerics.discrete_noise import GaussianSum
from chaffinch.privacy.numerics.precision import Floats, up
from chaffinch.privacy.tradeoff import QUANTILE_ERROR, normal_quantile

_LONGEST = 1 << 14
"""Standard deviations up to this are followed so far that the end is sharp."""
_MOST_TESTS = 1 << 18
_FAR = 40
"""Standard deviations that are summed at least."""
_ROUNDOFF = 2.0**-52


def mu_of_noise(law: GaussianSum, move: int) -> tuple[float, float] | None:
    """Return both ends of mu where the sum is moved by ``move``; None where too wide to follow."""
    spread = math.sqrt(law.variance)
    # An allowance of 1e-9 for rounding in these few operations on floats is far too large.
    if spread > _LONGEST or move > _MOST_TESTS or law.relative > 1e-9:
        return None
    variance = float(law.variance)
    # The first corner is above 1/σ by 1/24σ² of it: behind 12σ² the tail is below the corner.
    last = max(_FAR * spread, min(16.0 * variance, _MOST_TESTS), 2.0 * move, 64.0)
    behind = math.ceil(last)
    low, high = _quantiles(law, variance, move + behind)
    least = (2 + move) // 2
    tests = np.arange(least, move + behind + 1)
    before = tests - move
    # g(u) of u ≤ 0 is −g(1 − u).
    mirrored = before <= 0
    place = np.where(mirrored, -before, before - 1)
    seen_low = np.where(mirrored, -high[place], low[place])
    seen_high = np.where(mirrored, -low[place], high[place])
    found = float(np.max(low[tests - 1] - seen_high))
    most = float(np.max(high[tests - 1] - seen_low))
    doubt = 4 * float(law.relative) * (2 * variance / move + 3 * spread)
    rest = (0.5 + variance * move / behind**2 + 2 * variance**2 / behind**3 + doubt) / behind
    if rest > 1:
        return None
    tail = (1 + rest) * move / spread * (1 + 1e-12)
    return max(found, 0.0), up(max(most, tail))


def _quantiles(law: GaussianSum, variance: float, last: int) -> tuple[Floats, Floats]:
    """Return both ends of g(1), …, g(last)."""
    # So far behind the last that what is left out there is below e^−50 of it.
    start = last + math.ceil(10 * math.sqrt(variance)) + 2
    ratios = np.exp(-np.arange(1, start + 1) / variance - 0.5 / variance)[::-1].tolist()
    sums = np.empty(start)
    total = 1.0
    for at, ratio in enumerate(ratios):
        total = 1.0 + ratio * total
        sums[start - 1 - at] = total
    sums = sums[:last]
    places = np.arange(1, last + 1, dtype=np.float64)
    exponents = places * places / (2 * variance)
    scale = math.log(float(law.normaliser))
    logs = np.log(sums) - exponents - scale
    # Every sum is 1 and a part of the next one, so errors of a few roundoffs add up to at most as
    # many as the largest sum says; exponents are off by a few roundoffs of themselves.
    slack = _ROUNDOFF * (16 * float(sums[0]) + 8 * (2 + exponents + abs(scale)))
    slack = slack + float(law.relative)
    near, far = -normal_quantile(logs + slack), -normal_quantile(logs - slack)
    room = 2 * QUANTILE_ERROR * (1 + np.abs(far))
    return near - room, far + room
