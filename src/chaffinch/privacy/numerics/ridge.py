"""The worst crowd of one sum of flipped bits, at a cost that does not grow with the crowd.

M bits of others are summed, A of them ones; the target adds ``copies`` more, all 0 or all 1.
With u(z) = q + p·z, v(z) = p + q·z and e = e^ε, the best test of "0 against 1" that accepts
sums up to t gains

    D(A, t) = P₀[S ≤ t] − e·P₁[S ≤ t] = [z^t] T(z)/(1 − z) · u^A · v^(M−A),  T = v^k − e·u^k,

and δ is its largest value over crowds A and thresholds t (the ratio P₀/P₁ falls, so no other
tests matter; the mirrored direction has ones and zeros exchanged).

*The ridge.* Let ρ be the root of T between 0 and 1, and w₁ = pρ/(q + pρ), w₀ = qρ/(p + qρ).
The best threshold of every crowd lies near the straight line μ(A) = A·w₁ + (M − A)·w₀. For
one copy this is a theorem: D(A, t) − D(A, t−1) has the sign of f̃(t) − f̃(t−1), where f̃ is the
law of Bin(A, w₁) + Bin(M−A, w₀), and a sum of independent bits rises up to its mean and
falls beyond it (Darroch 1964, Samuels 1965): t is ⌊μ⌋ or ⌈μ⌉. For several copies the strip
around the line is certified by the sign of the difference on both of its edges, which is
enough because that sign changes once.

*All crowds at once.* On a circle |z| = r = e^−κ with N points z = r·e^(iθ), and A = c + b,
t = μ(A) + y,

    D(A, t) = (1/N)·Σ K(z)·exp(log φ_c + b·(g₀ + X) + y·(κ − iθ)) − alias,   K = T/(1 − z),

where g₀ is real, X = O(θ²) comes from crowds that differ, and φ_c is the characteristic
function of the tilted sum. b and y enter an exponential, so a box of crowds and a strip of
thresholds are bounded by a grid and second derivatives, and many single crowds by one
polynomial in b and y. The exponent b·X stays small over *all* crowds when the sum is wide,
so that one box is often enough.

Everything is computed in units of the local scale u(r)^A·v(r)^(M−A)·r^−t, with an explicit
bound for what is left out (aliases, cut points, remainders) and for rounding; the scale itself
is worked out with 70 digits.
"""

from __future__ import annotations

import decimal
import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics.precision import (
    ROUNDOFF,
    Floats,
    Wide,
    WideArray,
    product,
    wide,
)
from chaffinch.privacy.numerics.roots import bisect_whole

_DIGITS = decimal.Context(prec=70)
_UNIT = 2.0**-52
"""A generous unit for what is computed in doubles; the rest is in units of ``ROUNDOFF``."""
_NEAR = 1e-4
"""A line value this close to a whole number has a floor that rounding could have moved."""
_EDGE = 1.01
"""Half the height of the strip for one copy: 1 by the theorem, and room for rounding."""
_STEPS = 129
"""Points along each side of the grid that bounds a box, at most."""
_MOST_LISTED = 1 << 15
"""Boxes of so many crowds are enumerated by a polynomial."""
_MOST_BOXES = 100
_MOST_POINTS = 2_000
"""Beyond so many boxes, or points of the contour, the search by crowds is the faster way."""
_MOST_DEGREE = 48
_AROUND = 24
"""How many crowds on each side of a box's peak are looked at for a lower end."""
_TURN = 2 * np.arccos(Wide(-1))
_EXP_OF_TINY = 1e-320
"""A floor for logarithms of bounds that underflow."""


@dataclass(frozen=True, slots=True)
class RidgeCrowds:
    """The crowds of one direction: ``first`` + ``step``·a one-bits among ``bits``, a = 0 … last."""

    flip: Fraction
    bits: int
    copies: int
    first: int
    step: int
    last: int


@dataclass(frozen=True, slots=True)
class _Found:
    lower: float
    upper: float
    crowd: int
    boxes: int


class OffTheRidge(ArithmeticError):
    """The ridge could not be certified, or not with little work: ask another search."""


def is_placeable(bits: int) -> bool:
    """Return whether the line of thresholds of so many bits can be placed to within ``_NEAR``."""
    return 64 * bits * float(ROUNDOFF) < _NEAR


def worst_on_ridge(crowds: RidgeCrowds, epsilon: float, *, width: float) -> _Found:
    """Return both ends of ln δ over all crowds of one direction, about ``width`` apart.

    Promises   lower ≤ truth ≤ upper. Raises OffTheRidge where several copies leave the strip.
    Needs      0 ≤ epsilon < copies·ln(p/q).
    """
    search = _Search(crowds, _Ridge(crowds, epsilon, width), width)
    return search.run()


class _Ridge:
    """One direction at one epsilon: the points of the contour, and what they are worth."""

    def __init__(self, crowds: RidgeCrowds, epsilon: float, width: float) -> None:
        self.crowds = crowds
        self._place_line(epsilon)
        self._choose_circle(width)
        self._place_nodes()

    def _place_line(self, epsilon: float) -> None:
        with decimal.localcontext(_DIGITS):
            q, p = _decimal(self.crowds.flip), _decimal(1 - self.crowds.flip)
            self.q, self.p = q, p
            # T vanishes where v/u = e^(ε/k): ρ = (p − e^(ε/k)·q)/(e^(ε/k)·p − q).
            each = (decimal.Decimal(epsilon) / self.crowds.copies).exp()
            self.growth = decimal.Decimal(epsilon).exp()
            rho = self.rho = (p - each * q) / (each * p - q)
            if not rho > 0:
                # The float below the local epsilon may lie above the true one: delta is 0 there.
                raise OffTheRidge
            # Rounded once; from here on these floats are the line: the strip has room for that.
            self.w1 = _wide(p * rho / (q + p * rho))
            self.w0 = _wide(q * rho / (p + q * rho))
        if self.crowds.copies == 1:
            self.strip = (-_EDGE, _EDGE)
        else:
            # D rises while t is below the middle of what the target adds.
            # Only a guess of where the best thresholds lie: `holds_the_ridge` has to prove it.
            middle = self.crowds.copies * float(self.w1 + self.w0) / 2 - 0.5
            self.strip = (middle - 2.0, middle + 2.0)

    def _choose_circle(self, width: float) -> None:
        bits, copies = self.crowds.bits, self.crowds.copies
        spread = math.sqrt(bits * max(float(w * (1 - w)) for w in (self.w1, self.w0)) + 0.3)
        # On the circle through ρ the sum has its own scale; the pole at 1 must not be too near.
        with decimal.localcontext(_DIGITS):
            tilt = max(-float(self.rho.ln()), 0.7 / spread)
            r = self.r = np.exp(-Wide(tilt))
            exact = _decimal(r)
            self.log_u = (self.q + self.p * exact).ln()
            self.log_v = (self.p + self.q * exact).ln()
            self.depth_digits = -exact.ln()
            self.kappa = _wide(self.depth_digits)
            slope = _decimal(self.w1) - _decimal(self.w0)
            # What one more one-bit adds to the log scale: ln(u/v)(r) + (w₁ − w₀)·κ.
            self.g0 = _wide(self.log_u - self.log_v + slope * self.depth_digits)
            # The second part of T over v(r)^k: e·(u/v)^k.
            self.ratio = _wide(self.growth * (copies * (self.log_u - self.log_v)).exp())
            # T over v(r), of one copy: flips near ½ make it far smaller than either of its parts.
            start, rise = self.p - self.growth * self.q, (self.growth * self.p - self.q) * exact
            self.rise = _wide(rise / self.log_v.exp())
            self.gap = _wide((start - rise) / self.log_v.exp())
        q, p = wide(self.crowds.flip), wide(1 - self.crowds.flip)
        # Chances of a set bit in the sum tilted by r; on the circle through ρ these are w₁ and w₀.
        self.c1, self.c0 = p * r / (q + p * r), q * r / (p + q * r)

        variance = bits * max(float(c * (1 - c)) for c in (self.c1, self.c0)) * (1 + 1e-9)
        # |u(z)| ≤ u(r) and |v(z)| ≤ v(r) on the circle, so |T| is at most this over v(r)^k.
        self.size = 1.0 + float(self.ratio)
        if copies == 1:
            # |T(z)| ≤ |T(r)| + (e·p − q)·|r − z|, and |r − z| ≤ 2r.
            self.size = float(abs(self.gap) + 2 * self.rise) * (1 + 1e-9)
        # How far a threshold in the strip may be from the mean of the tilted sum: affine in A.
        away = max(abs(self.strip[0]), abs(self.strip[1])) + 0.01 + copies
        away += bits * max(abs(float(self.c1 - self.w1)), abs(float(self.c0 - self.w0)))
        # Errors of e^−depth are far below the width of what is asked for.
        depth = 22.0 - math.log(min(width, 1e-2)) + 2.0 * math.log(spread + 1.0)
        reach = depth / 3 + math.sqrt((depth / 3) ** 2 + 2 * depth * variance) + away
        # An odd N: every point but θ = 0 has a conjugate, and none stands alone at θ = π.
        self.points = int(reach + depth / float(self.kappa)) + 3 | 1

        def tail(distance: float) -> float:
            """Bound P[|X − t| ≥ distance] (Bernstein)."""
            x = distance - away
            if x <= 0:
                return 1.0
            return min(1.0, 2.0 * math.exp(-x * x / (2.0 * (variance + x / 3.0)) * (1 - 1e-12)))

        # Aliases stand N apart. r^s·P[S ≤ s] is a sum of tilted masses, each with a power of r.
        far = math.exp(-float(self.kappa) * (self.points - reach) * (1 - 1e-9))
        below = 1.0 - math.exp(-float(self.kappa) * self.points * (1 - 1e-9))
        self.alias = 1.01 * self.size * (tail(reach) + far) / below
        self.alias_of_steps = 1.01 * self.size * tail(self.points)
        self._cut_points(depth)

    def _cut_points(self, depth: float) -> None:
        """Keep the points up to where |φ| falls below e^−depth, and bound what the rest adds."""
        half = (self.points - 1) // 2
        rates = [float(4 * c * (1 - c)) for c in (self.c1, self.c0)]

        def log_phi(point: int) -> float:
            """Return the largest ln|φ| of any crowd at one point."""
            # |1 − c + c·e^(iθ)|² = 1 − 4c(1 − c)·sin²(θ/2): log-affine in A, falling in θ.
            sine = math.sin(math.pi * point / self.points) ** 2
            return 0.5 * self.crowds.bits * max(math.log1p(-rate * sine) for rate in rates)

        self.kept = half + 1
        self.cut = self.cut_of_steps = 0.0
        if log_phi(half) >= -depth:
            return
        self.kept = bisect_whole(lambda point: log_phi(point) < -depth, good=half, bad=0)
        theta, r = 2.0 * math.pi * self.kept / self.points, float(self.r)
        # |1 − z| at the first point left out; it is larger at all the others.
        apart = math.hypot(1.0 - r + 2.0 * r * math.sin(theta / 2) ** 2, r * math.sin(theta))
        self.cut_of_steps = 1.01 * self.size * math.exp(log_phi(self.kept) * (1 - 1e-9))
        self.cut = self.cut_of_steps / apart

    def _place_nodes(self) -> None:
        """Work out modulus and argument of u, v and the kernel at every point kept (θ ≥ 0)."""
        if self.kept > _MOST_POINTS:
            raise OffTheRidge
        points = np.arange(self.kept)
        theta = _TURN * points.astype(Wide) / Wide(self.points)
        half, sine = np.sin(theta / 2) ** 2, np.sin(theta)
        self.theta = theta
        self.modulus_u = np.log1p(-4 * self.c1 * (1 - self.c1) * half) / 2
        self.modulus_v = np.log1p(-4 * self.c0 * (1 - self.c0) * half) / 2
        self.argument_u = np.arctan2(self.c1 * sine, 1 - 2 * self.c1 * half)
        self.argument_v = np.arctan2(self.c0 * sine, 1 - 2 * self.c0 * half)
        # X = g − g₀ at every point; the arguments lose their linear parts to the line.
        line = (self.c1 - self.w1) - (self.c0 - self.w0)
        self.x_real = self.modulus_u - self.modulus_v
        self.x_imaginary = (
            (self.argument_u - self.c1 * theta) - (self.argument_v - self.c0 * theta) + line * theta
        )
        # A point θ > 0 stands for its conjugate, too: only real parts are added up.
        self.weight = np.where(points == 0, Wide(1), Wide(2)) / Wide(self.points)
        # 1 − z, without the cancellation of 1 − r·cos θ at small angles.
        apart = (1 - self.r) + 2 * self.r * half - 1j * (self.r * sine)
        self.steps, self.steps_slack = self._steps(half, sine)
        self.kernel = self.steps / apart
        self.kernel_slack = self.steps_slack / np.abs(apart)

    def _steps(self, half: WideArray, sine: WideArray) -> tuple[WideArray, WideArray]:
        """Return T over v(r)^k at every point, and how far rounding may have moved it."""
        k = self.crowds.copies
        if k == 1:
            # T(z) = T(r) + (e·p − q)·(r − z): nothing cancels, however close u and v are.
            steps = self.gap + self.rise * (2 * half - 1j * sine)
            parts = np.abs(self.gap) + self.rise * (2 * half + self.theta)
            return steps, 32 * ROUNDOFF * parts
        zero = _polar(k * self.modulus_v, k * self.argument_v)
        one = _polar(k * self.modulus_u, k * self.argument_u)
        # Both parts have modulus about 1: their rounding is charged as such.
        slack = (1 + self.ratio) * (32 + 8 * k) * ROUNDOFF * np.ones_like(self.theta)
        return zero - self.ratio * one, slack

    def log_scale(self, ones: int) -> Any:
        """Return the logarithm of u(r)^A·v(r)^(M−A+k)·r^−μ(A), which the sums are in units of."""
        zeros = self.crowds.bits - ones
        with decimal.localcontext(_DIGITS):
            line = ones * _decimal(self.w1) + zeros * _decimal(self.w0)
            total = ones * self.log_u + (zeros + self.crowds.copies) * self.log_v
            return _wide(total + self.depth_digits * line)

    def line(self, ones: NDArray[np.int64]) -> WideArray:
        zeros = self.crowds.bits - ones
        line: WideArray = ones.astype(Wide) * self.w1 + zeros.astype(Wide) * self.w0
        return line

    def centre(self, ones: int) -> tuple[WideArray, WideArray, WideArray]:
        """Return log|φ|, its phase along the line, and the size of the parts it is made of."""
        held, rest = Wide(ones), Wide(self.crowds.bits - ones)
        modulus = held * self.modulus_u + rest * self.modulus_v
        # The phase of φ less μ·θ: linear parts are taken off before the large counts multiply them.
        line = held * (self.c1 - self.w1) + rest * (self.c0 - self.w0)
        phase = (
            held * (self.argument_u - self.c1 * self.theta)
            + rest * (self.argument_v - self.c0 * self.theta)
            + line * self.theta
        )
        parts = held * (self.argument_u + np.abs(self.modulus_u) + self.theta)
        parts += rest * (self.argument_v + np.abs(self.modulus_v) + self.theta)
        return modulus, phase, parts

    def log_heights(self, low: int, high: int) -> WideArray:
        """Return the larger log|φ| of two crowds: no crowd between them has a larger one."""
        ends = [
            Wide(ones) * self.modulus_u + Wide(self.crowds.bits - ones) * self.modulus_v
            for ones in (low, high)
        ]
        highest: WideArray = np.maximum(*ends)
        return highest


def _decimal(value: Any) -> decimal.Decimal:
    numerator, denominator = value.as_integer_ratio()
    return _DIGITS.divide(decimal.Decimal(int(numerator)), decimal.Decimal(int(denominator)))


def _polar(modulus: Any, argument: Any) -> Any:
    """Return exp(modulus + i·argument), from the real functions that are relied on anyway."""
    size = np.exp(modulus)
    real, imaginary = size * np.cos(argument), size * np.sin(argument)
    # Side by side: products of complex numbers would take as long again.
    found = np.empty(real.shape, dtype=np.result_type(real, np.complex64))
    found.real, found.imag = real, imaginary
    return found


def _wide(value: decimal.Decimal) -> Any:
    found = wide(abs(value))
    return -found if value < 0 else found


@dataclass(slots=True)
class _Search:
    crowds: RidgeCrowds
    ridge: _Ridge
    width: float
    best: float = -math.inf
    """The logarithm of the largest delta that a crowd was seen to have, at least."""
    crowd: int = 0
    settled: float = -math.inf
    boxes: int = 0
    heap: list[tuple[float, int, int, float]] = field(default_factory=list)

    def run(self) -> _Found:
        self.add(0, self.crowds.last)
        while self.heap:
            top, low, high, height = heapq.heappop(self.heap)
            # All are logarithms: no box that is left is worse than what was seen by more than half
            # the width.
            if -top <= self.best + self.width / 2:
                self.settled = max(self.settled, -top)
                break
            if high - low < _MOST_LISTED and self.enumerate(low, high, height):
                continue
            middle = (low + high) // 2
            self.add(low, middle)
            self.add(middle + 1, high)
        # Boxes that were not opened count with the upper ends they have.
        for top, *_ in self.heap:
            self.settled = max(self.settled, -top)
        return _Found(self.best, max(self.best, self.settled), self.crowd, self.boxes)

    def ones(self, crowd: int) -> int:
        return self.crowds.first + self.crowds.step * crowd

    def add(self, low: int, high: int) -> None:
        self.boxes += 1
        if self.boxes > _MOST_BOXES:
            raise OffTheRidge
        box = _Box(self.ridge, self.ones(low), self.ones(high))
        # One copy needs no certificate: there the strip is a theorem (see the top of this file).
        if self.crowds.copies > 1 and not box.holds_the_ridge():
            if low == high:
                raise OffTheRidge
            middle = (low + high) // 2
            self.add(low, middle)
            self.add(middle + 1, high)
            return
        if high - low <= _AROUND:
            every = np.arange(low, high + 1)
            lower, upper = box.ends(self.crowds.first + self.crowds.step * every)
            self.keep(every, lower)
            self.settled = max(self.settled, float(upper.max()))
            return
        top, peak, height = box.upper_end(self.width / 6)
        near = (peak - self.crowds.first) // self.crowds.step
        some = np.arange(max(low, near - _AROUND), min(high, near + _AROUND) + 1)
        self.keep(some, box.ends(self.crowds.first + self.crowds.step * some)[0])
        heapq.heappush(self.heap, (-top, low, high, height))

    def enumerate(self, low: int, high: int, height: float) -> bool:
        box = _Box(self.ridge, self.ones(low), self.ones(high))
        listed = np.arange(low, high + 1)
        ones = self.crowds.first + self.crowds.step * listed
        # Near q = 1/2 delta is small beside its terms, and rounding takes more than a hundredth.
        found = None
        for share in (100, 10):
            found = box.listed_ends(ones, height * self.width / share) if found is None else found
        if found is None:
            return False
        self.keep(listed, found[0])
        self.settled = max(self.settled, float(found[1].max()))
        return True

    def keep(self, listed: NDArray[np.int64], lower: Floats) -> None:
        place = int(lower.argmax())
        if lower[place] > self.best:
            self.best, self.crowd = float(lower[place]), int(listed[place])


class _Box:
    """The crowds with ``low`` to ``high`` one-bits, seen from the one in the middle."""

    def __init__(self, ridge: _Ridge, low: int, high: int) -> None:
        self.ridge, self.low, self.high = ridge, low, high
        self.middle = (low + high) // 2
        self.half = max(high - self.middle, self.middle - low)
        self.modulus, self.phase, self.parts = ridge.centre(self.middle)
        # No crowd of the box has a larger |φ| anywhere than one of its two ends.
        self.heights = ridge.weight * np.exp(ridge.log_heights(low, high))

    @cached_property
    def scale(self) -> float:
        return float(self.ridge.log_scale(self.middle))

    @cached_property
    def kernel_rounding(self) -> float:
        return self.rounding(self.ridge.kernel, self.ridge.kernel_slack)

    def rounding(self, kernel: WideArray, slack: WideArray) -> float:
        """Bound the rounding of a sum over the points, for any crowd of the box.

        Every part of an exponent is off by a few roundings of its own size. The parts of other
        crowds are at most twice those of the middle, because low ≥ 0 and high ≤ M.
        """
        exponents = np.abs(kernel) * ROUNDOFF * (64 + 64 * self.parts)
        turned = 4 * (1 + max(map(abs, self.ridge.strip))) * self.ridge.theta
        doubles = _UNIT * (64 + len(self.heights) + turned) * np.abs(kernel)
        return float((self.heights * (exponents + doubles + slack)).sum() * 1.01)

    def terms(self, kernel: WideArray, moves: Floats) -> NDArray[np.complex128]:
        """Return kernel·φ·e^(bX)/N at every point, a row for each b in ``moves``."""
        ridge, wide_moves = self.ridge, moves.astype(Wide)[:, None]
        modulus = (self.modulus + wide_moves * ridge.x_real).astype(np.float64)
        # Turns are taken off in the wide float; what is left may be rounded to a double.
        phase = self.phase + wide_moves * ridge.x_imaginary
        phase = (phase - _TURN * np.rint(phase / _TURN)).astype(np.float64)
        found = (ridge.weight * kernel).astype(np.complex128) * _polar(modulus, phase)
        return np.asarray(found, dtype=np.complex128)

    def sums(self, kernel: WideArray, moves: Floats, rises: Floats) -> Floats:
        """Return Re Σ kernel·φ·e^(bX − iyθ)/N for all b in ``moves`` and y in ``rises``."""
        return self.turned(self.terms(kernel, moves), rises)

    def turned(self, terms: NDArray[np.complex128], rises: Floats) -> Floats:
        """Return Re Σ term·e^(−iyθ) for every row of terms and all y in ``rises``."""
        turns = np.outer(rises, self.ridge.theta.astype(np.float64))
        turned = product(terms.real, np.cos(turns).T) + product(terms.imag, np.sin(turns).T)
        return np.asarray(turned, dtype=np.float64)

    def upper_end(self, aim: float) -> tuple[float, int, float]:
        """Return ln of a bound on D over box and strip, where it peaks, and the height there.

        Over a grid that contains the edges, sup D is at most its largest value there plus
        (h²·D_bb + 2·h·h′·D_by + h′²·D_yy)/8: moving a maximiser to the next grid line costs
        no first-order term, because the derivative vanishes there or it lies on an edge.
        """
        ridge = self.ridge
        g0, kappa = float(ridge.g0), float(ridge.kappa)
        low, high = float(self.low - self.middle), float(self.high - self.middle)
        bottom, top = ridge.strip
        # Along the box the scale grows like e^(b·g₀), so it is largest at one of the two ends.
        most = max(low * g0, high * g0)
        heights = (self.heights * np.abs(ridge.kernel)).astype(np.float64)
        theta = ridge.theta.astype(np.float64)
        by_crowd = np.hypot(
            (ridge.x_real + ridge.g0).astype(np.float64), ridge.x_imaginary.astype(np.float64)
        )
        by_threshold = np.hypot(kappa, theta)
        bends = (
            float((heights * by_crowd**2).sum()),
            float((heights * by_crowd * by_threshold).sum()),
            float((heights * by_threshold**2).sum()),
        )

        def grid(across: int, along: int) -> tuple[Floats, Floats]:
            moves = np.linspace(low, high, across)
            rises = np.linspace(bottom, top, along)
            # In units of the largest scale of box and strip, so that errors are at most 1:1.
            factor = np.exp(moves * g0 - most)[:, None] * np.exp((rises - top) * kappa)
            return moves, self.sums(ridge.kernel, moves, rises) * factor

        few = 1 if low == high else 5
        height = max(float(grid(few, 5)[1].max()), 1e-300)
        # Steps h with h²·bend/8 about the share ``aim`` of the height.
        across = (
            1 if low == high else _steps((high - low) * math.sqrt(bends[0] / (8 * aim * height)))
        )
        along = _steps((top - bottom) * math.sqrt(bends[2] / (8 * aim * height)))
        moves, values = grid(across, along)
        side = (high - low) / max(across - 1, 1)
        rise = (top - bottom) / (along - 1)
        bend = (side**2 * bends[0] + 2 * side * rise * bends[1] + rise**2 * bends[2]) / 8
        error = bend * 1.01 + ridge.alias + ridge.cut
        error += self.kernel_rounding
        place = np.unravel_index(int(values.argmax()), values.shape)
        bound = max(float(values[place]) + error, _EXP_OF_TINY)
        upper = self.scale + most + top * kappa + math.log(bound)
        peak = self.middle + round(float(moves[place[0]]))
        local = float(values[place]) / max(math.exp(moves[place[0]] * g0 - most), 1e-300)
        return _outward(upper, 1), peak, max(local, 1e-300)

    def holds_the_ridge(self) -> bool:
        """Return whether D rises below the strip and falls above it, for every crowd.

        D(A, t) − D(A, t−1) = [z^t] T·u^A·v^(M−A) is P₀(t) − e·P₁(t), whose sign changes once
        (the ratio of the two laws falls). Positive on the lowest unit of thresholds inside the
        strip, it makes every threshold below the strip worse than one inside; negative on the
        unit above the strip, it makes every threshold above worse than one inside.
        """
        ridge = self.ridge
        low, high = float(self.low - self.middle), float(self.high - self.middle)
        heights = (self.heights * np.abs(ridge.steps)).astype(np.float64)
        # The factor e^(b·g₀ + y·κ) is positive and left out: only the sign counts here.
        by_crowd = np.hypot(ridge.x_real.astype(np.float64), ridge.x_imaginary.astype(np.float64))
        theta = ridge.theta.astype(np.float64)
        bends = (heights * by_crowd**2).sum(), (heights * by_crowd * theta).sum()
        bend_along = (heights * theta**2).sum()
        error = ridge.alias_of_steps + ridge.cut_of_steps
        error += self.rounding(ridge.steps, ridge.steps_slack)
        across, along = 1 if low == high else 33, 17
        side, rise = (high - low) / max(across - 1, 1), 1.0 / (along - 1)
        bend = (side**2 * bends[0] + 2 * side * rise * bends[1] + rise**2 * bend_along) / 8
        room = float(bend) * 1.01 + error
        moves = np.linspace(low, high, across)
        bottom, top = ridge.strip
        # The best threshold is the last one at which D rises: it must be known to lie inside.
        terms = self.terms(ridge.steps, moves)
        below = self.turned(terms, np.linspace(bottom, bottom + 1.0, along))
        above = self.turned(terms, np.linspace(top, top + 1.0, along))
        return bool(below.min() > room and above.max() < -room)

    def ends(self, ones: NDArray[np.int64]) -> tuple[Floats, Floats]:
        ridge = self.ridge
        # In doubles from here on, like the grid of a box: ``rounding`` counts them.
        terms = self.terms(ridge.kernel, (ones - self.middle).astype(np.float64))
        theta = ridge.theta.astype(np.float64)

        def value(rises: Floats, rows: Any) -> Floats:
            turns, chosen = rises[:, None] * theta, terms[rows]
            turned = chosen.real * np.cos(turns) + chosen.imag * np.sin(turns)
            return np.asarray(turned.sum(axis=1))

        error = ridge.alias + ridge.cut + self.kernel_rounding
        return self.best_thresholds(ones, value, error)

    def listed_ends(self, ones: NDArray[np.int64], goal: float) -> tuple[Floats, Floats] | None:
        """Return ln of both ends of delta for many crowds, or None if that is not accurate."""
        ridge = self.ridge
        half, reach = max(self.half, 1), max(map(abs, ridge.strip)) + 2 * _NEAR
        x = half * np.hypot(ridge.x_real.astype(np.float64), ridge.x_imaginary.astype(np.float64))
        y = reach * ridge.theta.astype(np.float64)
        terms = ridge.weight * ridge.kernel * _polar(self.modulus, self.phase)
        # |e^X·e^Y − T_K(X)·T_J(Y)|, with Y imaginary: both remainders, and 1 ≥ |e^Y|.
        # In one exponent: |φ| and its growth over the box may lie far apart.
        grown = np.exp(self.modulus + half * np.abs(ridge.x_real))
        larger = (ridge.weight * np.abs(ridge.kernel) * grown).astype(np.float64)
        along = _degree(larger, y, goal / 4)
        # |T_J(Y)| is at most 1 plus its own remainder.
        rest = np.ones_like(y) if along is None else 1.0 + _taylor_term(y, along + 1)
        across = _degree(rest * larger, x, goal / 4)
        if across is None or along is None:
            return None
        powers_x = _taylor_terms((ridge.x_real + 1j * ridge.x_imaginary) * half, across)
        powers_y = _taylor_terms(-1j * ridge.theta, along)
        coefficients = ((powers_x * terms) @ powers_y.T).real.astype(np.float64)
        spread = float((larger * np.exp(np.minimum(x + y, 700.0))).sum())
        error = goal / 2 + _UNIT * (len(x) + 16 * (across + along) + 64) * spread
        error += ridge.alias + ridge.cut + self.kernel_rounding
        if not error <= 4 * goal:
            return None
        # In units of the half width, as the powers are: from −1 to 1, so that no power grows.
        moves = (ones - self.middle) / half
        columns = np.polynomial.polynomial.polyval(moves, coefficients)

        def value(rises: Floats, rows: Any) -> Floats:
            # Horner: the columns are the coefficients of powers of a rise, the highest one last.
            total = np.array(columns[-1][rows])
            for column in columns[-2::-1]:
                total *= rises
                total += column[rows]
            return total

        return self.best_thresholds(ones, value, error)

    def best_thresholds(
        self,
        ones: NDArray[np.int64],
        value: Callable[[Floats, Any], Floats],
        error: float,
    ) -> tuple[Floats, Floats]:
        ridge = self.ridge
        line = ridge.line(ones)
        floors = np.floor(line)
        above = (line - floors).astype(np.float64)
        kappa = float(ridge.kappa)
        slope = (ones - self.middle) * float(ridge.g0)
        # In units of the largest scale among these crowds; what underflows is not the largest.
        most = float(slope.max())
        scales = np.exp(slope - most)
        lower, upper = np.zeros(len(ones)), np.full(len(ones), _EXP_OF_TINY)
        # One copy: floor and ceiling of the line, and a third where rounding may have moved them.
        edges = (-1.0, 1.0) if ridge.crowds.copies == 1 else ridge.strip
        for step in range(math.floor(edges[0]) - 1, math.ceil(edges[1]) + 2):
            rises = step - above
            inside = (rises >= edges[0] - _NEAR) & (rises <= edges[1] + _NEAR)
            if not inside.any():
                continue
            rows: Any = slice(None) if inside.all() else np.flatnonzero(inside)
            rises = rises[rows]
            found = value(rises, rows)
            local = scales[rows] * np.exp(rises * kappa)
            upper[rows] = np.maximum(upper[rows], (found + error) * local)
            lower[rows] = np.maximum(lower[rows], (found - error) * local)
        with np.errstate(divide="ignore"):
            low, high = np.log(lower), np.log(upper)
        # The line is placed to within a few roundings of the number of bits.
        drift = 16 * ridge.crowds.bits * float(ROUNDOFF) * kappa
        drift = drift + 1e-14 * (4 + np.abs(slope) + abs(most))
        place = self.scale + most
        return _outward(low + place, -1) - drift, _outward(high + place, 1) + drift


def _steps(wanted: float) -> int:
    return int(min(max(math.ceil(wanted) + 1, 5), _STEPS))


def _degree(sizes: Floats, values: Floats, goal: float) -> int | None:
    """Return the degree at which Σ sizes·values^(K+1)/(K+1)! is below the goal."""
    term = sizes.copy()
    for degree in range(_MOST_DEGREE):
        term = term * values / (degree + 1)
        if float(term.sum()) <= goal:
            return degree
    return None


def _taylor_term(values: Floats, power: int) -> Floats:
    found = np.ones_like(values)
    for k in range(1, power + 1):
        found = found * values / k
    return found


def _taylor_terms(values: WideArray, degree: int) -> WideArray:
    rows = [np.ones_like(values)]
    for k in range(1, degree + 1):
        rows.append(rows[-1] * values / k)
    return np.array(rows)


def _outward(logarithm: Any, side: int) -> Any:
    """Return a logarithm moved to one side by more than its rounding."""
    return logarithm + side * 1e-14 * (4.0 + np.abs(np.where(np.isfinite(logarithm), logarithm, 0)))
