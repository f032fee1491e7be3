"""Mu from a profile that is known to any depth: of crowds whose rarest outcomes no sum reaches.

Delta at many epsilons is many lines below the trade-off curve, and two neighbouring lines meet in
a corner. A Gaussian curve is convex: if it is below every corner, then on every line it is below
the piece between two of them, and these pieces lie at every level. So the largest worth of a
corner, Φ⁻¹(power) − Φ⁻¹(level), is an upper end of mu. Where that is far above what was seen, one
more epsilon between the two lines cuts the corner off.

Everything is kept as logarithms: e^−105360 is where the million's mu is decided at q = 0.1.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable

import numpy as np

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.numerics.roots import bisect_real

_FIRST_LINES = 33
_FAR = -30.0
_QUANTILE_ERROR = 1e-14
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

    def look(epsilon: float) -> bool:
        """Add a line, unless nothing is known of it."""
        nonlocal low
        found = ends(epsilon)
        if found is None:
            return False
        low = max(low, mu_with(epsilon, found[0]))
        insort(lines, (epsilon, found[1]))
        return True

    for epsilon in steepest * np.linspace(0.0, 1.0, _FIRST_LINES)[:-1] ** 2:
        look(float(epsilon))
    while len(lines) > 1:
        nodes, logs = np.array(lines).T
        worth = corner_worths(nodes, logs)
        place = int(worth.argmax())
        middle = float(nodes[place] + nodes[place + 1]) / 2
        enough = worth[place] <= low * (1 + width) or len(lines) > most
        if enough or not nodes[place] < middle < nodes[place + 1] or not look(middle):
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
    error = _QUANTILE_ERROR * (2 + np.abs(near) + np.abs(far))
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
