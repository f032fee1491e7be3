"""Trade-off curves, and mu-GDP: the type II error no test can beat at each type I error.

A curve is the largest convex one below those of all crowds: it is what epsilon and delta say at
every level at once. The best test against any single crowd may have a larger type II error.

The curves are those of S3, corrected. Mu is the smallest parameter whose Gaussian curve is below
the curve.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chaffinch.errors import InvalidInput
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.loss_grids import convex_profiles
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.numerics.roots import bisect_real

_DOUBT = 1e-15
"""Room for the handful of roundings between a proven delta and a point of the curve."""
_FIRST_LINES = 33
_FAR = -30.0
QUANTILE_ERROR = 1e-14
"""Allowance for a normal quantile z at any depth, in units of 1 + |z|: five times what a test
measures."""
_ROUNDED = 1e-15
"""More than what a sum of logarithms is off, as a share of its largest term."""
_RATIO_ERROR = 4e-15
"""More than what scipy's erfcx is off, as a share of itself."""
_MOST_MU = 60.0
_HALF = math.sqrt(0.5)

Ends = tuple[float, float]
"""Logarithms of both ends of delta."""


@dataclass(frozen=True, slots=True, eq=False)
class TradeOff:
    """Both ends of a trade-off curve f at given levels: type II error no test can beat.

    It is the largest convex curve below those of all crowds. That of each single crowd may lie
    above it.
    """

    alphas: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def from_profile(
        cls, alphas: Floats, epsilons: Floats, deltas: Floats, *, upper: Floats
    ) -> TradeOff:
        """Return the envelope of the lines that (epsilon, delta) pairs prove.

        Source     [Dong, Roth, Su 2022, proposition 6]: f(a) = max over epsilon of
                   0, 1 − delta − e^epsilon·a and e^−epsilon·(1 − delta − a).
        """
        # Up: a larger e^ε lowers both lines, and a lower curve promises less.
        growth = np.exp(epsilons)[:, None] * (1 + _DOUBT)
        steep = 1 - deltas[:, None] - growth * alphas
        flat = (1 - deltas[:, None] - alphas) / growth
        flat = np.where(flat > 0, flat, 0.0)
        lower = np.maximum(np.maximum(steep, flat).max(axis=0) - _DOUBT, 0.0)
        upper = np.minimum(upper + _DOUBT, np.nextafter(1 - alphas, 2.0))
        return cls(alphas, np.minimum(lower, upper), upper)


def tradeoff_from_ends(alphas: Floats, epsilons: Floats, lower: Floats, upper: Floats) -> TradeOff:
    """Return both ends of the curve from both ends of a profile that starts at epsilon 0.

    Between two nodes delta is at least its lower end at the next one, which bounds every line
    the true profile could add, and so the curve, from above.
    """
    after = np.concatenate([lower[1:], [0.0]])
    growth = np.exp(epsilons)[:, None]
    steep = 1 - after[:, None] - growth * alphas
    flat = (1 - after[:, None] - alphas) / growth
    above = np.maximum(steep, flat).max(axis=0) + _DOUBT
    return TradeOff.from_profile(alphas, epsilons, upper, upper=np.maximum(above, 0.0))


def mu_from_ends(
    epsilons: Floats, lower: Floats, upper: Floats, local_epsilon: float
) -> tuple[float, float]:
    """Return both ends of mu from both ends of a profile that starts at epsilon 0.

    Upper end: the lines that the convex profile proves meet in corners; a Gaussian curve below
    all corners is below all lines (it is convex). The local guarantee is the last line: left of
    its corner the power is e^local times the level, whose worth falls with the level. Lower end:
    the mu whose own delta reaches a proven lower end.
    """
    nodes, heights = convex_profiles(epsilons, upper, upper)[0]
    # The lines 1 − δ − x·a of two neighbouring nodes meet at this level a.
    corners = -np.diff(heights) / (np.exp(nodes[:-1]) * np.expm1(np.diff(nodes)))
    powers = heights[:-1] + np.exp(nodes[:-1]) * corners
    # 1e-14 covers the rounding of the powers; 1e-9 below that of the normal quantiles.
    gaps = special.ndtri(np.minimum(powers * (1 + 1e-14), 1.0))
    gaps -= special.ndtri(np.clip(corners, 0.0, 0.5))
    edge = _last_corner(float(nodes[-1]), float(heights[-1]), local_epsilon)
    high = float(np.max(np.concatenate([gaps, [edge, 0.0]])))
    low = max((_mu_at(e, d) for e, d in zip(epsilons, lower, strict=True)), default=0.0)
    return max(low - 1e-9, 0.0), high + 1e-9


def _last_corner(epsilon: float, delta: float, local_epsilon: float) -> float:
    """Return what the corner of the last node's line and the local guarantee's is worth."""
    if delta == 0:
        return 0.0
    gap = local_epsilon - epsilon
    if not 0 < gap < math.inf:
        return math.inf
    # Level and power, delta/(e^local − e^epsilon) and e^local times that, as logarithms.
    power = math.log(delta) - math.log(-math.expm1(-gap))
    level = min(power - local_epsilon, 0.0)
    return float(log_gap(np.array(level), np.array(level + local_epsilon), side=1))


def local_mu(local_epsilon: float) -> float:
    """Return a mu that holds by the local guarantee alone: 2·Φ⁻¹(e^ε / (1 + e^ε)), rounded up."""
    if local_epsilon > 700:
        return math.inf
    return float(-2.0 * special.ndtri(1.0 / (1.0 + math.exp(local_epsilon)))) * (1 + 1e-12)


def _mu_at(epsilon: float, delta: float) -> float:
    """Return (from below) the mu at which a Gaussian mechanism has that delta."""
    if not 1e-15 < delta < 1.0:
        return 0.0

    def too_small(mu: float) -> bool:
        # The difference of two normal tails is off by less than 1e-15; the rest is for ndtr.
        reached = special.ndtr(-epsilon / mu + mu / 2)
        reached -= math.exp(epsilon) * special.ndtr(-epsilon / mu - mu / 2)
        return bool(reached < delta * (1 - 1e-9) - 1e-15)

    return bisect_real(too_small, good=0.0, bad=60.0, steps=60)


def check_levels(alphas: object) -> Floats:
    """Return type I errors as floats from 0 to 1, or refuse."""
    try:
        levels = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput("alphas", "one or more numbers from 0 to 1", alphas) from None
    if levels.ndim != 1 or len(levels) == 0 or not np.all((levels >= 0) & (levels <= 1)):
        raise InvalidInput("alphas", "one or more numbers from 0 to 1", alphas)
    return levels


def lower_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the lower convex hull of points from (0, 1) to (1, 0).

    A convex curve that lies below some points lies below every chord between them.
    """
    order = np.lexsort((y, x))
    xs = np.concatenate([[0.0], x[order], [1.0]])
    ys = np.concatenate([[1.0], y[order], [0.0]])
    corners: list[int] = []
    for index in range(len(xs)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            turn = (xs[b] - xs[a]) * (ys[index] - ys[a]) - (ys[b] - ys[a]) * (xs[index] - xs[a])
            if turn > 0:
                break
            corners.pop()
        corners.append(index)
    return xs[corners], ys[corners]


# ----------------------------------------------------------------------------
# Mu from a profile that is known to any depth: of crowds whose rarest outcomes no sum reaches.
#
# Delta at many epsilons is many lines below the trade-off curve, and two neighbouring lines meet in
# a corner. A Gaussian curve is convex: if it is below every corner, then on every line it is below
# the piece between two of them, and these pieces lie at every level. So the largest worth of a
# corner, Φ⁻¹(power) − Φ⁻¹(level), is an upper end of mu. Where that is far above what was seen, one
# more epsilon between the two lines cuts the corner off.
#
# Everything is kept as logarithms: e^−105360 is where the million's mu is decided at q = 0.1.


def search_mu(
    ends: Callable[[float], Ends | None],
    steepest: float,
    *,
    seen: float,
    width: float,
    most: int,
) -> Ends:
    """Return both ends of mu from delta at epsilons below ``steepest``, where it is 0.

    ``ends`` may know nothing of some epsilons. ``seen`` is a lower end of mu that is known. The
    search stops at this relative width, or after about so many epsilons.
    """
    # The local guarantee is the last line: no loss is above it.
    lines = [(steepest, -math.inf)]
    low = seen

    def add_line(epsilon: float) -> bool:
        nonlocal low
        found = ends(epsilon)
        if found is None:
            return False
        low = max(low, mu_with(epsilon, found[0]))
        insort(lines, (epsilon, found[1]))
        return True

    for epsilon in steepest * np.linspace(0.0, 1.0, _FIRST_LINES)[:-1] ** 2:
        add_line(float(epsilon))
    while len(lines) > 1:
        nodes, logs = np.array(lines).T
        worth = corner_worths(nodes, logs)
        place = int(worth.argmax())
        middle = float(nodes[place] + nodes[place + 1]) / 2
        # Any corners are a proof, so the search may stop at any time: at the width that was asked
        # for, after so many lines, or where no epsilon is left between two of them.
        enough = worth[place] <= low * (1 + width) or len(lines) > most
        if enough or not nodes[place] < middle < nodes[place + 1] or not add_line(middle):
            return low, max(float(worth[place]), low) if nodes[0] == 0 else math.inf
    return low, math.inf


def corner_worths(epsilons: Floats, logs: Floats) -> Floats:
    """Return upper ends of what the corners of neighbouring lines are worth.

    ``logs`` are logarithms of upper ends of delta. Two lines 1 − δ − e^ε·a meet at the level
    (δ₁ − δ₂)/(e^ε₂ − e^ε₁).
    """
    falls, steps = np.diff(logs), np.diff(epsilons)
    # A bound that does not fall has no corner with the next one: nothing is proven between them.
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.log(-np.expm1(np.where(falls < 0, falls, 0.0)))
        level = logs[:-1] + shares - epsilons[1:] - np.log(-np.expm1(-steps))
        # Differences of floats are right to a roundoff; what their logarithms add up to, to this.
        slack = _ROUNDED * (8 + np.abs(logs[:-1]) + np.abs(shares) + epsilons[1:])
        power = np.logaddexp(logs[:-1], level + epsilons[:-1])
        worth = log_gap(level - 4 * slack, power + 4 * slack, side=1)
    return np.where(falls < 0, worth, np.inf)


def log_gap(level: Floats, power: Floats, *, side: int) -> Floats:
    """Return an upper (side 1) or lower (−1) end of Φ⁻¹(power) − Φ⁻¹(level), from logarithms."""
    near, far = normal_quantile(np.minimum(power, 0.0)), normal_quantile(level)
    error = QUANTILE_ERROR * (2 + np.abs(near) + np.abs(far))
    return np.asarray(near - far + side * error, dtype=np.float64)


def normal_quantile(logs: Floats) -> Floats:
    """Return Φ⁻¹ of chances given by their logarithms, however far out."""
    found: Floats = special.ndtri_exp(logs)
    # scipy is off by up to 7e-13 of this there. One step of Newton; φ(z)/Φ(z) is its slope.
    far = np.where((found < _FAR) & np.isfinite(found), found, _FAR)
    steps = (special.log_ndtr(far) - logs) * special.erfcx(far * -_HALF) * math.sqrt(math.pi / 2)
    return np.where(far < _FAR, found - steps, found)


def mu_with(epsilon: float, log_delta: float) -> float:
    """Return (from below) the mu at which a Gaussian mechanism has a delta with that logarithm.

    With a = ε/μ − μ/2 and b = a + μ its delta is Φ(−a) − e^ε·Φ(−b), and e^ε·φ(b) = φ(a). So it
    is φ(a) times the difference of two Mills ratios, which keeps its digits however far out.
    """
    if not -math.inf < log_delta < 0:
        return 0.0
    # Less than what the logarithms below may be off.
    target = log_delta - 1e-9 - 1e-13 * abs(log_delta)

    def too_small(mu: float) -> bool:
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        first, second = special.erfcx(np.array([near, far]) * _HALF)
        # A little more than the difference: a delta that is too large makes mu too small.
        ratio = first * (1 + _RATIO_ERROR) - second
        return bool(math.log(ratio / 2) - near * near / 2 < target)

    return bisect_real(too_small, good=0.0, bad=_MOST_MU, steps=60)
