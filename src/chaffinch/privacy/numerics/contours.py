"""The expected positive part of a sum, as a certified sum along a line in the complex plane.

S = offset + X₁ + … + X_N with independent copies of a finite variable. E[S₊] is read off its
moment generating function M along a vertical line, so the cost does not depend on N and
nothing is rounded to a grid.

1. *Smoothing.* Let U ~ Normal(0, τ²) be independent of S = offset + ΣXᵢ. By Jensen
   E[S₊] ≤ E[(S+U)₊]. Given S = s the excess E[(s+U)₊] − s₊ = τ(φ(y) − |y|Φ(−|y|)) with
   y = s/τ is at most the bump τφ(y). So

       E[(S+U)₊] − E[τφ(S/τ)]  ≤  E[S₊]  ≤  E[(S+U)₊].

2. *Inversion.* With z = t + iω, t > 0, the two-sided Laplace transform of s ↦ E[(s+U)₊] is
   exp(τ²z²/2)/z², and that of the bump is τ² exp(τ²z²/2): z²τ² times the first. So both
   are sums of F(z) = M(z)^N exp(z·offset + τ²z²/2)/z² along the line Re z = t.

3. *Trapezoid rule.* Stepping ω by 2π/W gives, by Poisson summation, the wanted number plus
   Σ_{k≠0} e^{−tkW} E[(S + kW + U)₊]: only positive terms, so the upper end needs no
   correction. With x₊ ≤ e^{ax}/(ea) they are at most
   Λ(t±v) / (e(t±v)(e^{vW} − 1)), any v > 0 (v < t below), Λ(a) = M(a)^N exp(a·offset + τ²a²/2).

4. *Cut.* |F(t+iω)| ≤ Λ(t) e^{−τ²ω²/2}/ω², so the terms beyond Ω add at most
   Λ(t) e^{−τ²Ω²/2}/(πΩ), to the bump as well.

5. *Rounding.* E[S₊] is a polynomial in the probabilities without negative coefficients:
   relative errors of at most ρ in the (tilted) probabilities change it by a factor within
   (1 ± ρ)^N. Errors of the phases are bounded term by term and added (`Line._power`).

The tilt t is chosen where Λ(t)/t² is least, so that a tiny expectation is the scale in front
of a sum of ordinary size and is not lost under the rounding floor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.numerics.precision import Floats, down, product, up
from chaffinch.privacy.numerics.roots import bisect_real

_Complexes = NDArray[np.complex128]

UNIT = 2.0**-52
"""Twice the relative error of one rounded operation: the slack is meant."""
MOST_FREQUENCIES = 2**19
_ERROR = 1.0 + 2.0**-20
"""Covers the rounding of the bounds themselves, which are computed in plain floats."""
_BLOCK = 2**20
_CUT = 8.6
"""τΩ, where the sum along the line is cut: exp(−8.6²/2) < 1e-16."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line Re z = tilt, and the law tilted to it and centred at its own mean.

    S = offset + Σ(value of the i-th variable); ``weights`` are the probabilities times
    exp(tilt·value − log_mass), so that M(tilt) = exp(log_mass) · Σ weights.
    """

    values: Floats
    masses: Floats
    weights: Floats
    count: int
    offset: float
    tilt: float
    log_mass: float

    @classmethod
    def through(
        cls, points: list[Fraction], masses: list[float], count: int, shift: Fraction
    ) -> Line:
        """Choose the tilt where Λ(t)/t² is least; any other would be right but costlier."""
        law = np.array(masses)
        middle = Fraction(math.fsum(float(v) * p for v, p in zip(points, masses, strict=True)))
        centred = np.array([float(v - middle) for v in points])
        tilt = _best_tilt(centred, law, count, float(shift + count * middle))
        # Centred anew, at the tilted mean: there the phases, and their rounding, are smallest.
        growth = law * np.exp(tilt * centred)
        centre = Fraction(float(np.dot(growth, centred) / growth.sum())) + middle
        values = np.array([float(v - centre) for v in points])
        growth = law * np.exp(tilt * values)
        log_mass = math.log(math.fsum(growth))
        weights = growth * math.exp(-log_mass)
        offset = float(shift + count * centre)
        return cls(values, law, weights, count, offset, tilt, log_mass)

    def crude_upper(self) -> float:
        """Return Λ(t)/(et) ≥ E[S₊] without smoothing: enough when it is next to nothing."""
        # x₊ ≤ e^(tx)/(et) for every x, with equality at x = 1/t.
        exponent = self.count * self.log_mass + self.tilt * self.offset
        exponent += self._relative_doubt(exponent) - 1.0 - math.log(self.tilt)
        return up(math.exp(exponent))

    def bracket(self, smoothing: float, width: float) -> tuple[Bracket, int]:
        """Return the bracket with this smoothing τ, and the number of frequencies it took."""
        t, tau, count = self.tilt, smoothing, self.count
        exponent = count * self.log_mass + t * self.offset + 0.5 * (tau * t) ** 2
        spread = math.sqrt(count * float(np.dot(self.weights, self.values**2)))
        # The images may cost a thousandth of the width, measured by a guess of the result.
        goal = exponent + math.log(1e-3 * width / (t * max(1.0, t * spread)))
        window = self._window(goal, tau)
        frequencies = math.ceil(_CUT / tau * window / (2 * math.pi))
        if frequencies > MOST_FREQUENCIES:
            # Too many: more smoothing needs fewer, and the bracket gets wider.
            frequencies = MOST_FREQUENCIES
            tau = _CUT * window / (2 * math.pi * frequencies)
            exponent = count * self.log_mass + t * self.offset + 0.5 * (tau * t) ** 2
        step = 2 * math.pi / window
        smooth, bump, error = self._terms(tau, step, frequencies)
        top = step * frequencies
        cut = math.exp(-0.5 * (tau * top) ** 2) / (math.pi * top) * _ERROR
        alias = self._alias(window, tau, exponent)
        scale = math.exp(exponent)
        doubt = self._relative_doubt(exponent)
        # Images are positive (step 3): only the lower end has to give them back.
        upper = scale * (smooth + error + cut) * math.exp(doubt)
        lower = scale * (smooth - bump - 2 * error - 2 * cut - alias) * math.exp(-doubt)
        upper = up(upper)
        return Bracket(min(upper, down(lower)), upper), frequencies

    def _terms(self, tau: float, step: float, frequencies: int) -> tuple[float, float, float]:
        """Return (1/W)Σ F, (1/W)Σ τ²z²F and a bound of the rounding error of either, over Λ."""
        t, window = self.tilt, 2.0 * math.pi / step
        # How far the rounded weights are from a total of one, exactly.
        excess = math.fsum([*self.weights, -1.0])
        at_tilt = math.exp(self.count * math.log1p(excess))
        # The term at ω = 0 counts once, the others twice: −ω is the conjugate of ω.
        smooth, bump = at_tilt / t**2, at_tilt * tau**2
        omega = step * np.arange(1, frequencies + 1, dtype=np.float64)
        size, phase, loss = self._power(omega, self._less_one(step, frequencies), tau, excess)
        z_square = t * t + omega * omega
        total = smooth + bump + 2.0 * float(np.sum(size * (1.0 / z_square + tau * tau)))
        smooth += 2.0 * float(np.sum(size * np.cos(phase - 2.0 * np.arctan2(omega, t)) / z_square))
        bump += 2.0 * tau**2 * float(np.sum(size * np.cos(phase)))
        error = 2.0 * float(np.sum(loss * np.maximum(1.0 / z_square, tau * tau)))
        # numpy adds in pairs: half a million terms pass through fewer than 40 roundings each.
        error = (error + 48.0 * UNIT * total) * _ERROR
        return smooth / window, bump / window, error / window

    def _less_one(self, step: float, frequencies: int) -> _Complexes:
        """Return Σ weight·(e^{iωv} − 1) at ω = step·k for k = 1 … frequencies.

        With ω = α + β, where α runs in long steps and β in short ones, e^{i(α+β)v} − 1 =
        A + B + A·B for A = e^{iαv} − 1 and B = e^{iβv} − 1: one product of two small tables
        instead of a sine for every frequency and value.
        """
        values, weights = self.values, self.weights
        most = max(1, _BLOCK // len(values))
        rows = min(math.isqrt(frequencies) + 1, most)
        short = _turns(np.multiply.outer(step * np.arange(rows), values))
        alone = (short * weights).sum(axis=1)
        found = np.empty((frequencies // rows + 1, rows), dtype=np.complex128)
        for start in range(0, len(found), most):
            part = found[start : start + most]
            steps = rows * np.arange(start, start + len(part), dtype=np.float64)
            weighed = _turns(np.multiply.outer(step * steps, values)) * weights
            part[:] = product(weighed, short.T) + weighed.sum(axis=1)[:, None] + alone
        # The first entry is ω = 0, which `_terms` counts by itself.
        return found.ravel()[1 : frequencies + 1]

    def _power(
        self, omega: Floats, less_one: _Complexes, tau: float, excess: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return size and phase of z²F(tilt + iω)/Λ(tilt), and a bound of their rounding error."""
        count = self.count
        x, y = excess + less_one.real, less_one.imag
        # |1 + x + iy|² − 1: without the 1, so that log1p keeps the digits of a small one.
        square = 2.0 * x + x * x + y * y
        near = square > -0.5
        log_size = 0.5 * np.log1p(np.where(near, square, 0.0))
        far = np.hypot(1.0 + x, y)
        log_size = np.where(near, log_size, np.log(np.maximum(far, 1e-200)))
        turn = np.arctan2(y, 1.0 + x)
        # τ²(t + iω)²/2 = τ²t²/2 − τ²ω²/2 + i·τ²tω, and the first part is in the scale.
        fall, drift = -0.5 * (tau * omega) ** 2, omega * (self.offset + tau * tau * self.tilt)
        size, phase = np.exp(count * log_size + fall), count * turn + drift
        # The error of φ: rounding of α and β, of their sines, and of three sums and a product,
        # each in proportion to |θ| = |αv| + |βv|, because |AB| ≤ 2·min(|αv|, |βv|) ≤ |θ|.
        mean_size = float(np.dot(self.weights, np.abs(self.values)))
        eta = (40.0 + 2.0 * len(self.values)) * UNIT * (omega * mean_size + abs(excess))
        eta = eta + np.where(near, 0.0, 4.0 * UNIT)
        # |a^N − b^N| ≤ N max(|a|, |b|)^(N−1) |a − b|; then the rounding of log, turn, exp, cos.
        grown = np.exp((count - 1) * np.log(np.exp(log_size) + eta) + fall)
        inner = np.where(near, 2.0 * np.abs(x) + x * x + y * y, 1.0) + np.abs(turn)
        work = count * (inner + np.minimum(np.abs(log_size), 1e3)) + np.abs(drift) + np.abs(fall)
        loss = count * eta * grown + size * (UNIT * (24.0 + 8.0 * work))
        return size, phase, loss

    def _log_growth(self, shift: Floats, tau: float) -> Floats:
        """Return ln Λ(tilt + shift) for many shifts."""
        a = self.tilt + shift
        # The largest power is taken out before the exponential, so that nothing overflows.
        powers = np.multiply.outer(a, self.values)
        top = powers.max(axis=1)
        inner = np.log(np.exp(powers - top[:, None]) @ self.masses) + top
        grown: Floats = self.count * inner + a * self.offset + 0.5 * (tau * a) ** 2
        return grown

    def _shifts(self) -> tuple[Floats, Floats]:
        """Return the v to try in step 3 above the tilt, and below it."""
        above = self.tilt * np.geomspace(1e-3, 1e3, 97)
        reach = (self.tilt + above) * float(np.max(np.abs(self.values)))
        above = above[(reach < 700.0) | (np.arange(97) == 0)]
        below = -self.tilt * np.concatenate([np.linspace(0.02, 0.98, 49), [1e-3, 0.999, 0.9999]])
        return above, below

    def _window(self, goal: float, tau: float) -> float:
        """Return a W whose images k ≠ 0 add less than exp(goal)."""
        wide = 0.0
        for shift in self._shifts():
            bound = self._log_growth(shift, tau) - 1.0 - np.log(self.tilt + shift) - goal
            # e^x − 1 ≥ e^(x−1) for x ≥ 1, so vW = bound + 1 is enough on either side.
            wide = max(wide, float(np.min((np.maximum(bound, 0.0) + 1.0) / np.abs(shift))))
        return wide

    def _alias(self, window: float, tau: float, exponent: float) -> float:
        """Bound the images k ≠ 0 at this window, in units of exp(exponent)."""
        total = 0.0
        for shift in self._shifts():
            rate = np.abs(shift) * window
            log_bound = self._log_growth(shift, tau) - exponent - 1.0
            log_bound -= np.log(self.tilt + shift) + rate + np.log(-np.expm1(-rate))
            total += math.exp(min(700.0, float(np.min(log_bound))))
        return total * (_ERROR + self.count * 2048.0 * UNIT)

    def _relative_doubt(self, exponent: float) -> float:
        """Return the ln of the factor that covers rounded probabilities, tilts and scale."""
        tilting = 4.0 + 2.0 * float(np.max(np.abs(self.tilt * self.values))) + abs(self.log_mass)
        size = abs(self.count * self.log_mass) + abs(self.tilt * self.offset) + abs(exponent)
        return 2.0 * UNIT * (self.count * (tilting + 1.0) + 4.0 * size + 8.0)


def _turns(angles: Floats) -> _Complexes:
    """Return e^{iθ} − 1 = −2 sin²(θ/2) + i sin θ: no cancellation for small θ."""
    return -2.0 * np.sin(0.5 * angles) ** 2 + 1j * np.sin(angles)


def _best_tilt(values: Floats, masses: Floats, count: int, offset: float) -> float:
    """Return the t > 0 with count·(ln M)′(t) + offset = 2/t; any t > 0 would do for the proof."""
    span = float(np.max(np.abs(values)))

    def below(log_tilt: float) -> bool:
        t = math.exp(log_tilt)
        growth = masses * np.exp(t * values)
        # The derivative of ln(Λ(t)/t²) without smoothing, which rises with t.
        slope = count * float(np.dot(growth, values) / growth.sum()) + offset - 2.0 / t
        return slope <= 0

    least, most = math.log(1e-9 / (span * count)), math.log(600.0 / span)
    return math.exp(bisect_real(below, good=least, bad=most, steps=60))
