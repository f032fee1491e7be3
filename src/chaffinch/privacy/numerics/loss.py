"""From a pair of laws to privacy numbers: delta, epsilon, trade-off, mu.

All of them are read off one curve. Let test k call "value 0" for the k smallest outcomes.
Its ``level`` is the chance of that under value 1 and its power the chance under value 0;
``gain`` is power − level. Where the likelihood ratio falls with the outcome (it does for
every pair made here: adding independent bits keeps the order, see docs/concepts) these
tests are the best there are [Neyman and Pearson], so

    delta(epsilon)      = max over k of  gain − (e^epsilon − 1)·level
    e^epsilon(delta)− 1 = max over k of (gain − delta) / level
    mu                  = max over k of  Φ⁻¹(level + gain) − Φ⁻¹(level)

The order of the ratios is S0 Lemma 4.1; delta is S0 eq. 4.10 without its misprint (it prints
2p·e^ε − 1 for p·e^ε − q). Both arrays are sums of positive terms: the one subtraction is the
one you see.

An upper end may also be asked for the same sum with more independent bits in it whose kind
is not known, only their variance, ``spread``: that is how a whole box of crowds is bounded
more tightly than by leaving those bits out (`_highest_spread`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.laws import Law, TargetBits
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    ROUNDOFF,
    Floats,
    Wide,
    WideArray,
    down,
    exp_minus_one,
    gamma,
    power_gap,
    up,
)

_NEAR_STEEPEST = 0.01
_LARGEST_DOUBLE = 700.0
_NORMAL_QUANTILE_ERROR = 1e-13
"""Allowance for scipy's normal quantile z, in units of 1 + |z|: five times what a test measures."""


@dataclass(frozen=True, slots=True)
class _Doubles:
    """Knots in double precision, rounded to no side: what rounding costs is in ``wider``."""

    gain: Floats
    level: Floats
    gain_noise: float
    level_noise: float
    missing: float
    wider: float

    def noise(self, ratio: Floats) -> Floats:
        """Return how far gain − ratio·level is off beside its share of both."""
        return self.gain_noise + ratio * self.level_noise

    def blocks(self, count: int) -> list[slice]:
        # So many rows at a time as fit into a cache together.
        block = max(1, 30_000 // max(1, len(self.gain)))
        return [slice(begin, begin + block) for begin in range(0, count, block)]


@dataclass(frozen=True, slots=True, eq=False)
class Knots:
    """The best tests between two laws, with the proven error of their level and gain.

    Errors as in ``Law``: each sum is within ``relative``, may lack ``missing`` and may be
    off by its noise either way.
    """

    level: WideArray
    gain: WideArray
    miss: WideArray
    """1 − power, summed from the other end so that it keeps its digits (empty unless asked for)."""
    relative: Any
    missing: Any
    level_noise: Any
    gain_noise: Any
    miss_noise: Any
    steepest: float
    """A float at or above the largest log likelihood ratio of any outcome."""
    beyond: float = -math.inf
    """A float at or above the log ratio of every outcome behind a window that was cut."""
    origin: tuple[Any, TargetBits] | None = None
    """The others' mass at 0 and the target's target_bits, where the window reaches that far."""

    def delta(self, epsilon: float, *, spread: float = 0.0) -> tuple[float, float]:
        """Return both ends of delta for this pair, in this direction.

        With ``spread`` the upper end is for the sum of this pair and further independent
        bits of unknown kind whose variances add up to ``spread`` (see `_highest_spread`). That
        is a box of crowds, of which nobody needs a lower end: it is 0.
        """
        # No outcome has a larger ratio, so P₀ ≤ e^ε·P₁ everywhere.
        if epsilon >= self.steepest:
            return 0.0, 0.0
        # Delta falls with epsilon: an upper end at a smaller one holds here.
        if epsilon > LARGEST_EXPONENT:
            return 0.0, self.delta(LARGEST_EXPONENT)[1]
        ratio = exp_minus_one(epsilon)
        if self.steepest - epsilon < _NEAR_STEEPEST and self._only_outcome_0_gains(ratio):
            return self._first_test(epsilon)
        wider = self.relative + 6.0 * ROUNDOFF
        high = self._upper_values(ratio)
        # Behind a cut the values fall, because there the ratio is below e^epsilon.
        outside = self.missing if self.beyond == -math.inf else max(self.missing, high[-1])
        above = max(up(_highest_spread(high, spread, outside)), up(self.missing))
        # Tests behind the cut may still gain, and nothing is known of them.
        if self.beyond > epsilon:
            above = 1.0
        if spread:
            return 0.0, min(above, 1.0)
        # The lower end takes the gain as small and the level as large as their errors allow.
        low = ((1 - wider) * self.gain - ((1 + wider) * ratio) * self.level) - (
            ratio * self.missing + self.gain_noise + ratio * self.level_noise
        )
        return min(down(low.max()), 1.0), min(above, 1.0)

    def _only_outcome_0_gains(self, ratio: Any) -> bool:
        if self.origin is None or len(self.level) < 2:
            return self.origin is not None
        # Outcome 1 has the masses P₁ = run and P₀ = run + rise, and ratios fall from there on.
        run, rise = self.level[1] - self.level[0], self.gain[1] - self.gain[0]
        return bool(rise < ratio * run * (1 - 1e-6))

    def _first_test(self, epsilon: float) -> tuple[float, float]:
        """Return delta where only outcome 0 counts: A(0)·(p^copies − e^ε·q^copies).

        The difference is taken with many digits, because near the largest loss it is all
        that is left of two nearly equal terms.
        """
        if self.origin is None:
            return 0.0, 1.0
        mass, target = self.origin
        gap = power_gap(1 - target.flip, target.flip, target.copies, epsilon)
        wider = self.relative + 6.0 * ROUNDOFF
        low, high = mass * (1 - wider) * gap, (mass * (1 + wider) + self.missing) * gap
        return min(down(low), 1.0), min(up(high), 1.0)

    def _upper_values(self, ratio: Any) -> WideArray:
        """Return an upper end of gain − ratio·level for every knot."""
        wider = self.relative + 6.0 * ROUNDOFF
        values: WideArray = (1 + wider) * self.gain - ((1 - wider) * ratio) * self.level
        return np.asarray(values + (self.missing + self.gain_noise + ratio * self.level_noise))

    def deltas(self, epsilons: Floats, *, spread: float = 0.0) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons, in double precision.

        With ``spread`` the lower end is 0, as that of ``delta`` is.
        """
        high = self.upper_deltas(epsilons, spread=spread)
        if spread:
            return np.zeros_like(high), high
        plain = self._doubles
        ratios = np.expm1(np.minimum(epsilons, _LARGEST_DOUBLE))
        low = np.empty(len(epsilons))
        for part in plain.blocks(len(epsilons)):
            ratio = ratios[part, None]
            weighted = (1 + plain.wider) * (ratio * plain.level)
            low[part] = ((1 - plain.wider) * plain.gain - weighted - plain.noise(ratio)).max(axis=1)
        # What the level may lack would cost a test ``ratio`` times as much.
        low = low * (1 - 2.0**-50) - ratios * plain.missing
        gone = (epsilons > _LARGEST_DOUBLE) | (epsilons >= self.steepest)
        return np.where(gone, 0.0, np.clip(low, 0, 1)), high

    def upper_deltas(self, epsilons: Floats, *, spread: float = 0.0) -> Floats:
        """Return upper ends of delta at many epsilons, in double precision."""
        # Only for laws that were not cut: this does not look at ``beyond``.
        plain = self._doubles
        ratios = np.expm1(np.minimum(epsilons, _LARGEST_DOUBLE))
        high = np.empty(len(epsilons))
        for part in plain.blocks(len(epsilons)):
            ratio = ratios[part, None]
            # (1 − wider)·(ratio·level), taken from the gain: in one place, because memory is slow.
            values = ratio * plain.level
            values *= 1 - plain.wider
            np.subtract((1 + plain.wider) * plain.gain, values, out=values)
            values += plain.noise(ratio)
            high[part] = _highest_spread_rows(values, spread, np.maximum(values[:, -1], 0.0))
        high = np.maximum(high * (1 + 2.0**-50) + plain.missing, plain.missing)
        return np.where(epsilons >= self.steepest, 0.0, np.clip(high, 0, 1))

    @property
    def _doubles(self) -> _Doubles:
        # Behind the largest gain the level only rises: no test there is better at any epsilon.
        stop = int(self.gain.argmax()) + 1
        return _Doubles(
            gain=self.gain[:stop].astype(np.float64),
            level=self.level[:stop].astype(np.float64),
            gain_noise=float(np.max(self.gain_noise)),
            level_noise=float(np.max(self.level_noise)),
            # Up: a missing mass too small for a double is still above 0.
            missing=float(self.missing) * (1 + 2.0**-50) + 5e-324,
            # Every product and difference rounds relative to gain or to ratio·level.
            wider=float(self.relative) + 2.0**-49,
        )

    def epsilon(self, delta: float, *, spread: float = 0.0) -> tuple[float, float]:
        """Return both ends of the smallest epsilon that holds with ``delta``.

        With ``spread`` the lower one is 0, as that of ``delta`` is.
        """
        if spread:
            return 0.0, self._highest_epsilon(delta, spread)
        wider = self.relative + 6.0 * ROUNDOFF
        target = Wide(delta)
        # The least gain over the largest level is a lower end of every quotient.
        surest = (1 - wider) * self.gain - self.gain_noise - target
        low = (surest / ((1 + wider) * self.level + self.missing + self.level_noise)).max()
        return down(np.log1p(max(low, Wide(0)))), self._highest_epsilon(delta, spread)

    def _highest_epsilon(self, delta: float, spread: float) -> float:
        wider = self.relative + 6.0 * ROUNDOFF
        # What lies outside the window may have any ratio; only its chance bounds it.
        if not self.missing < delta:
            return self.steepest
        worst = (1 + wider) * self.gain + (self.missing + self.gain_noise) - Wide(delta)
        floor = (1 - wider) * self.level - self.level_noise
        inside = worst > 0
        if not inside.any():
            return min(max(self.beyond, 0.0), self.steepest)
        # A level that is not surely positive bounds no quotient.
        if not (np.broadcast_to(floor, worst.shape)[inside] > 0).all():
            return self.steepest
        ratio = np.where(inside, worst, 0) / np.where(inside, floor, 1)
        best = int(ratio.argmax())
        safe = min(max(up(np.log1p(ratio[best])), self.beyond), self.steepest)
        return self._spread_epsilon(delta, spread, safe, float(floor[best])) if spread else safe

    def _spread_epsilon(self, delta: float, spread: float, safe: float, level: float) -> float:
        """Lower a safe epsilon by Newton steps on the spread delta; keep only what is proven."""
        reached = self.delta(safe, spread=spread)[1]
        for _ in range(3):
            # A slope that is too small makes the step too long, and what it finds is refused.
            slope = level * math.exp(min(safe, 700.0))
            if not (reached < delta and slope > 0):
                break
            # Convexity makes the full step land short of the root; stop when it is small.
            step = 0.98 * (delta - reached) / slope
            trial = max(safe - step, 0.0)
            if step <= 1e-6 * safe:
                break
            found = self.delta(trial, spread=spread)[1]
            if found > delta:
                break
            safe, reached = trial, found
        return safe

    def power(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return both ends of the best power at the given levels (randomized tests allowed)."""
        slack = float(self.missing + np.max(self.level_noise + self.gain_noise)) * (1 + 2.0**-50)
        wider = float(self.relative) + 2.0**-50
        level, gain = self.level.astype(np.float64), self.gain.astype(np.float64)
        zero = np.zeros(1)
        # Optimistic for the tester: a smaller level buys a larger power.
        cheap = np.concatenate([zero, np.maximum(level * (1 - wider) - slack, 0), [1.0]])
        rich = np.concatenate([zero, (level + gain) * (1 + wider) + 2 * slack, [1.0]])
        dear = np.concatenate([zero, level * (1 + wider) + slack, [1.0]])
        poor = np.concatenate([zero, (level + gain) * (1 - wider) - slack, [1.0]])
        dear = np.maximum.accumulate(np.minimum(dear, 1.0))
        cheap = np.maximum.accumulate(np.minimum(cheap, 1.0))
        # 1e-15 is room for the rounding of the interpolation.
        high = np.interp(levels, cheap, np.minimum(rich, 1.0)) + 1e-15
        low = np.interp(levels, dear, np.clip(poor, 0.0, 1.0)) - 1e-15
        return np.clip(low, levels, 1.0), np.clip(high, levels, 1.0)

    def vertices(self) -> tuple[Floats, Floats]:
        """Return upper ends of the corners (type I, type II error) of this pair's curve."""
        slack = float(self.missing + np.max(self.level_noise + self.gain_noise)) * (1 + 2.0**-50)
        wider = float(self.relative) + 2.0**-50
        # Both errors are rounded up: a curve through higher corners promises less.
        level = (self.level * (1 + wider) + slack).astype(np.float64)
        power = ((self.level + self.gain) * (1 - wider) - slack).astype(np.float64)
        return np.minimum(level, 1.0), np.clip(1.0 - power + 2.0**-52, 0.0, 1.0)

    def mu(self) -> tuple[float, float]:
        """Return both ends of the smallest mu with Φ⁻¹(power) − Φ⁻¹(level) ≤ mu everywhere.

        Knots are enough: the Gaussian trade-off curve is convex, so it stays below the
        chord between two points that it stays below. With c = e^steepest, power ≤ c·level,
        and a ↦ Φ⁻¹(c·a) − Φ⁻¹(a) is non-decreasing because the Gaussian isoperimetric
        function φ(Φ⁻¹(a)) is concave and 0 at 0. That bounds every knot by its level alone,
        and by 1 − power alone (mirror image), so knots outside the window stay below the
        bound at the window's edge.
        """
        wider = self.relative + 6.0 * ROUNDOFF
        pairs = [
            (
                side * (1 - wider) - self.missing - noise,
                side * (1 + wider) + self.missing + noise,
            )
            for side, noise in ((self.level, self.level_noise), (self.miss, self.miss_noise))
        ]
        (low_level, high_level), (low_miss, high_miss) = pairs
        gain = self.gain * (1 + wider) + self.gain_noise + self.missing
        sure_gain = self.gain * (1 - wider) - self.gain_noise
        # Φ⁻¹(power) − Φ⁻¹(level), from the smaller tail of either: 1 − miss = power = level + gain,
        # and 1 − level = miss + gain.
        direct = _quantile(low_miss, high_level + gain, 1) + _quantile(
            low_level, high_miss + gain, 1
        )
        # Another bound of every knot, by its level or its miss alone: power ≤ e^steepest·level.
        by_ratio = np.minimum(
            _ratio_gap(high_level, self.steepest), _ratio_gap(high_miss, self.steepest)
        )
        # Knots outside the window have a level, or a miss, of at most what the window is missing.
        edge = _ratio_gap(np.array([self.missing], dtype=Wide), self.steepest)
        high = max(float(np.minimum(direct, by_ratio).max()), float(edge[0]))
        seen = _quantile(high_miss, low_level + sure_gain, -1) + _quantile(
            high_level, low_miss + sure_gain, -1
        )
        low = float(np.where(np.isfinite(seen), seen, 0.0).max())
        return down(low), up(high)


def _logs(values: WideArray) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(np.clip(values, 0, 1)).astype(np.float64)
    return logs


def _quantile(tail: WideArray, rest: WideArray, side: int) -> Floats:
    """Return −Φ⁻¹(tail) from ``tail`` or, where that is above one half, from 1 − tail = ``rest``.

    With a lower end of the tail, an upper end of the rest and ``side`` 1 this is an upper end
    (infinite where the tail is not surely positive); with the ends swapped and −1 a lower end.
    """
    # Φ⁻¹ of a logarithm keeps its digits for chances far below the smallest double.
    from_tail: Floats = -special.ndtri_exp(_logs(tail))
    from_rest: Floats = special.ndtri_exp(_logs(rest))
    found = np.where(np.asarray(tail, dtype=np.float64) <= 0.5, from_tail, from_rest)
    return np.asarray(found + side * _NORMAL_QUANTILE_ERROR * (1 + np.abs(found)))


def _ratio_gap(level: WideArray, steepest: float) -> Floats:
    """Return an upper end of Φ⁻¹(min(1, level·e^steepest)) − Φ⁻¹(level)."""
    logs = _logs(level)
    # At a level of 0 or of 1 both quantiles are infinite, and their difference is no number.
    with np.errstate(invalid="ignore"):
        near, far = special.ndtri_exp(np.minimum(logs + steepest, 0.0)), special.ndtri_exp(logs)
        gap: Floats = near - far + _NORMAL_QUANTILE_ERROR * (2 + np.abs(near) + np.abs(far))
    # It tends to 0 at the one end; towards the other nothing is known from the ratio.
    return np.where(logs == -np.inf, 0.0, np.where(logs + steepest >= 0, np.inf, gap))


def knots_of_sum(
    others: Law, target: TargetBits, steepest: float, *, with_miss: bool = False
) -> Knots:
    """Return the knots of "others + Bin(copies, q)" against "others + Bin(copies, p)".

    Symbols    A = ``others``, lead = F₀ − F₁, behind = F₁ of the target's target_bits.
    Formula    gain(k) = Σ_j lead(j)·A(k−j);
               level(k) = Σ_j behind(j)·A(k−j) + Σ_{i ≤ k−copies} A(i).
    """
    relative = others.relative + target.relative + gamma(len(others.mass) + target.copies + 3.0)
    # Behind a cut the sums would lack what was cut off.
    size = len(others.mass) if others.cut else len(others.mass) + target.copies - 1
    gain, level, miss = (part[:size] for part in _linear(others.mass, target, with_miss=with_miss))
    noises: tuple[Any, ...] = (Wide(0), Wide(0), Wide(0))
    if others.noise is not None:
        noise = others.noise * (1 + 2 * relative)
        noises = tuple(part[:size] for part in _linear(noise, target, with_miss=with_miss))
    return Knots(
        level=level,
        gain=gain,
        miss=miss,
        # A hundredth more covers the products of two errors.
        relative=relative * 1.01,
        missing=others.missing,
        level_noise=noises[1],
        gain_noise=noises[0],
        miss_noise=noises[2],
        steepest=steepest,
        beyond=_last_ratio(others, target, relative) if others.cut else -math.inf,
        origin=(others.mass[0], target) if others.start == 0 and others.noise is None else None,
    )


def _linear(
    mass: WideArray, target: TargetBits, *, with_miss: bool
) -> tuple[WideArray, WideArray, WideArray]:
    """Return gain, level and miss for the masses of the others.

    The miss of test k is P₀[outcome > k]: in the mirror image a level like any other.
    """
    miss = _level(mass[::-1], target)[::-1] if with_miss else np.empty(0, dtype=Wide)
    return _product(mass, target.lead), _level(mass, target), miss


def _level(mass: WideArray, target: TargetBits) -> WideArray:
    level = _product(mass, target.behind)
    level[target.copies :] += np.cumsum(mass)[: len(mass) - 1]
    return level


def _product(mass: WideArray, short: WideArray) -> WideArray:
    return mass * short[0] if len(short) == 1 else np.convolve(mass, short)


def _last_ratio(others: Law, target: TargetBits, relative: float) -> float:
    """Return an upper end of the log ratio at the last outcome that lies whole in the window."""
    size = target.copies + 1
    if others.noise is None or len(others.mass) < size:
        return math.inf
    # Outcome s is Σ_j A(s − j)·target(j): the last masses, read backwards.
    mass, noise = others.mass[-size:][::-1], others.noise[-size:].max()
    above = (mass * target.zero).sum() * (1 + relative) + noise + others.missing
    below = (mass * target.one).sum() * (1 - relative) - noise
    return up(np.log(max(above / below, Wide(1)))) if below > 0 else math.inf


def loss_tail(others: Law, target: TargetBits, epsilon: float) -> tuple[float, float]:
    """Return both ends of P₀[log likelihood ratio > epsilon], the point-wise quantity.

    An outcome whose ratio is too close to e^epsilon to call counts for the upper end only.
    """
    zero, one = np.convolve(others.mass, target.zero), np.convolve(others.mass, target.one)
    ratio = exp_minus_one(min(epsilon, LARGEST_EXPONENT)) + 1
    wider = others.relative + target.relative + gamma(target.copies + 6.0)
    noise = Wide(0) if others.noise is None else others.noise.max()
    # At the ends of the window an outcome lacks what its neighbours outside would add.
    lacking = noise + others.missing
    surely = zero * (1 - wider) - noise > ratio * (one * (1 + wider) + lacking)
    maybe = zero * (1 + wider) + lacking > ratio * (one * (1 - wider) - noise)
    total = wider + gamma(len(zero) + 1.0)
    low = down(zero[surely].sum() * (1 - total) - noise * surely.sum())
    high = up(zero[maybe].sum() * (1 + total) + noise * maybe.sum() + others.missing)
    return min(low, 1.0), min(high, 1.0)


def _highest_spread(values: WideArray, spread: float, outside: Any) -> Any:
    """Return an upper end of max over k of E[values at k − J] for any J that is spread enough.

    J is a sum of independent bits whose variances add up to V = ``spread`` (their means are
    not known). Say v(j) ≤ roof − c·min((j − m)², R²) for all j, with R² = rho·V. Because
    min(y², R²) ≥ y² − y⁴/(4R²), and E[X⁴] ≤ 3V² + V, |E[X³]| ≤ V for the centred sum X,
    E[min((X + s)², R²)] ≥ V(1 − 1/rho − 1/(2 rho²)) for every shift s when V ≥ 1 and
    rho ≥ 12 (for s² ≥ 16 V by Chebyshev, else by those moments). So the expectation stays
    below roof − c·V·(1 − 1/rho − 1/(2 rho²)), whatever k is. ``outside`` bounds v where the
    window does not reach.
    """
    return _highest_spread_rows(np.asarray(values)[None, :], spread, outside)[0]


def _highest_spread_rows(values: WideArray, spread: float, outside: Any) -> WideArray:
    top: WideArray = values.max(axis=1)
    best: WideArray = np.maximum(top, outside)
    if spread < 1.0:
        return best
    for rho in (12.0, 60.0):
        radius_squared = rho * spread
        reach = math.ceil(math.sqrt(radius_squared))
        if 4 * reach > values.shape[1]:
            break
        curvature, middle = _parabola(values, top, reach)
        places = np.arange(values.shape[1], dtype=values.dtype)
        # v + c·min((j − m)², R²), in one place as well.
        lifted = places - middle[:, None]
        lifted *= lifted
        np.minimum(lifted, radius_squared, out=lifted)
        lifted *= curvature[:, None]
        lifted += values
        roof = lifted.max(axis=1)
        roof = np.maximum(roof, outside + curvature * radius_squared)
        kept = spread * (1.0 - 1.0 / rho - 0.5 / rho**2)
        # Roof and fall are rounded a few times each, in double precision at worst.
        bound = roof * (1 + 2.0**-48) - curvature * (kept * (1 - 2.0**-40))
        best = np.minimum(best, bound)
    return best


def _parabola(values: WideArray, top: WideArray, reach: int) -> tuple[WideArray, WideArray]:
    """Return curvature and vertex of the parabola through the top and two points ``reach`` away.

    Only a guess: any curvature from 0 up and any vertex give a valid bound.
    """
    rows = np.arange(len(values))
    size = values.shape[1]
    centre = values.argmax(axis=1)
    left = values[rows, np.maximum(centre - reach, 0)]
    right = values[rows, np.minimum(centre + reach, size - 1)]
    bend = np.maximum(2 * top - left - right, np.finfo(values.dtype).tiny)
    return 0.5 * bend / reach**2, centre + 0.5 * reach * (right - left) / bend
