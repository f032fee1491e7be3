"""How far a difference of two noisy estimates may be from the true one.

Let W₁ and W₂ be the errors of two estimates, independent of one another. With chance ``chance``
at most, W₂ − W₁ is beyond ``up`` or below minus ``down``: the true difference then lies between
the estimated one less ``up`` and that plus ``down``. Each side may miss with half of it. A lone
estimate is the difference to one without an error.

**Exactly**, where the law of the errors does not depend on the answers (signed decoys, totals, and
uniform decoys of which as many arrived as is known): P[W₂ − W₁ ≥ x] is summed over both laws, and
x is moved to where it falls to half the chance. What windows lack is added to the tail.

**By a bound**, where it does: flipped bits lean one way or the other with the answer they hide,
so the law of the sum depends on both true counts, and the bound holds for all of them. With the
cumulants K(t) = ln E[e^(tX)] of X = W₂ − W₁ and X̃ of the law that is tilted by e^(tX),

    P[X ≥ x] = e^(K(t) − tx)·E[e^(−t(X̃ − x)); X̃ ≥ x]
             ≤ e^(K(t) − tx)·∫ t·e^(−tw)·sup_y P[y ≤ X̃ < y + w] dw.

Without more the integral is at most 1 [Chernoff 1952]. The bits in X̃ are independent bits again,
with a variance s² and the largest step b, so that the theorem of Berry and Esseen bounds the
chance of a stretch of length w by w/(s√(2π)) + 2·0.56·b/s, and the integral by

    1/(√(2π)·t·s) + 2·0.56·b/s.

Every answer has the bits lean one of two ways: K takes the larger value of both, s the smaller.
For levels near a half the theorem itself, without a tilt, may be the shorter one.

**From the standard error alone**, where no plan says which noise it is. The cumulants of all noise
of counts are bounded by its variance V, in people: signed decoys, of whose noise at least as much
was sent as it was cut for, have κ_m ≤ (m − 1)!·V·c^(m−2) for even m, with c = 1/(1 − a) at most
(1 + √(1 + 2V))/2, so K(t) ≤ −V·ln(1 − c²t²)/(2c²); flips and decoys are sums of terms no larger
than √(1 + 4V/n) people, so K(t) ≤ V·t²/(2(1 − ct)) with a third of that for c [Bernstein]. The
first follows from 2g·Σ k^(m−1)·a^k ≤ (m − 1)!·2g·a/(1 − a)^m with V = 2g·a/(1 − a)² and g ≥ 1; the
second from V ≥ n·q(1 − q)/(1 − 2q)², the variance of the flips of one bit from each of n people,
of which more copies are smaller terms. V itself bounds the tails of any noise [Chebyshev].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from chaffinch.privacy.numerics import laws, special
from chaffinch.privacy.numerics.precision import Wide, gamma
from chaffinch.privacy.numerics.roots import bisect_real
from chaffinch.protocols.intervals import (
    LYAPUNOV,
    cumulant_of_difference,
    law_of_difference,
    law_of_totals,
)
from chaffinch.protocols.noise import (
    Floats,
    Noise,
    SeenDecoys,
    SignedNoise,
    TallyNoise,
    TotalsNoise,
)

_TILTS = 2_000
_LARGEST_TILT = 60.0
"""e to this power stays a float, and no tail is small enough to ask for more."""
_LONGEST_VARIANCE = 1e6
"""Of more decoys than this the bound for bits is as good as their law."""
_ROUNDING = 1e-12
"""Room for the rounding of the last operations, far more than they lose."""
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the chance to miss that the rounding of numbers may get, beside an exact law."""


class _Bits(NamedTuple):
    """Independent bits of one chance less their mean, each worth ``step``."""

    number: float
    chance: float
    step: float

    def cumulants(self, tilts: Floats) -> Floats:
        """Return ln E[e^(t·step·(B − chance))], ``number`` times."""
        # A bit and its opposite lean alike; the rarer of the two is 0 where there is no noise.
        rare, turned = self.chance, tilts * self.step
        if rare > 0.5:
            rare, turned = 1.0 - rare, -turned
        return np.asarray(self.number * (np.log1p(rare * np.expm1(turned)) - rare * turned))

    def variance(self, tilts: Floats) -> Floats:
        """Return the variance of the tilted bits, a tilt of 0 for the bits themselves."""
        held = self.chance / (self.chance + (1.0 - self.chance) * np.exp(-tilts * self.step))
        return np.asarray(self.number * self.step**2 * held * (1.0 - held))


_Leaning = tuple[_Bits, ...]
"""Bits, once for each way that answers may make them lean."""


class _Law(NamedTuple):
    """Masses of an error at rising places, each at or above where it is, and what they lack."""

    places: Floats
    mass: Any
    relative: Any
    missing: Any


class EstimateError:
    """The error of one estimate, in the unit of what is estimated: a sum of independent parts."""

    __slots__ = ()

    @property
    def bits(self) -> tuple[_Leaning, ...]:
        """Return the bits that it has."""
        return ()

    @property
    def rounding(self) -> float:
        """Return the sum of the squares of the steps to which numbers were rounded by chance."""
        return 0.0

    @property
    def rest(self) -> float:
        """Return the variance of all but bits and rounding."""
        return 0.0

    @property
    def pole(self) -> float:
        """Return the tilt from which on nothing is known of the cumulants."""
        return math.inf

    def rest_cumulants(self, tilts: Floats) -> Floats:
        """Return an upper bound of ln E[e^(t·X)] of all but bits and rounding."""
        return np.zeros_like(tilts)

    def law(self, tail: float, sign: int) -> _Law | None:  # noqa: ARG002
        """Return the law of all but the rounding, times ``sign``, if no answer changes it."""
        return None

    @property
    def variance(self) -> float:
        """Return the variance, or what it is at most."""
        still = np.zeros(1)
        bits = sum(max(float(one.variance(still)[0]) for one in some) for some in self.bits)
        return bits + self.rest + self.rounding / 4.0

    def cumulants(self, tilts: Floats) -> Floats:
        """Return an upper bound of ln E[e^(t·X)], whatever the answers are."""
        total = self.rest_cumulants(tilts) + self.rounding * tilts**2 / 8.0  # [Hoeffding 1963]
        for some in self.bits:
            total = total + np.max([one.cumulants(tilts) for one in some], axis=0)
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class FlipsError(EstimateError):
    """Flips of so many reports, or steps of numbers; one more of the tally is worth ``step``."""

    noise: Noise
    reports: int
    step: float
    rounding: float = 0.0

    @property
    def bits(self) -> tuple[_Leaning, ...]:
        """Return the bits of answers, which hold the value or not, and those of decoys."""
        noise, copies = self.noise, float(self.noise.copies * self.reports)
        answers = [_Bits(copies, float(one), self.step) for one in (noise.hit, noise.miss)]
        cover = _Bits(float(noise.cover_slots * self.reports), float(noise.cover), self.step)
        return tuple(answers), (cover,)


@dataclass(frozen=True, slots=True)
class DecoysError(EstimateError):
    """Bin(arrived, 1/values) less its mean: uniform decoys, of which the number is known."""

    values: int
    arrived: int
    step: float

    @property
    def bits(self) -> tuple[_Leaning, ...]:
        """Return the decoys, each of which falls on the value or not."""
        return ((_Bits(float(self.arrived), 1.0 / self.values, self.step),),)

    def law(self, tail: float, sign: int) -> _Law | None:
        """Return the law of the decoys that fall on one value."""
        if self.variance > _LONGEST_VARIANCE * self.step**2:
            return None
        found = laws.binomial(self.arrived, Fraction(1, self.values), Wide(tail) * Wide(1e-4))
        counts = np.arange(found.start, found.stop, dtype=np.float64)
        places = (counts - self.arrived / self.values) * self.step
        if sign > 0:
            return _Law(places, found.mass, found.relative, found.missing)
        return _Law(-places[::-1], found.mass[::-1], found.relative, found.missing)


@dataclass(frozen=True, slots=True)
class SignedError(EstimateError):
    """Signed noise of so many reports, or steps of numbers."""

    noise: SignedNoise
    reports: int
    step: float
    rounding: float = 0.0

    @property
    def rest(self) -> float:
        """Return the variance of the noise."""
        return float(self.noise.tally_variance(0, self.reports)) * self.step**2

    @property
    def pole(self) -> float:
        """Return −ln(ratio)/weight of the part that reaches farthest."""
        return min(_decay(ratio) / weight for weight, ratio in self.noise.parts) / self.step

    def rest_cumulants(self, tilts: Floats) -> Floats:
        """Return g·ln((1 − a)²/((1 − a·e^(wt))(1 − a·e^(−wt)))) for every part, and of units."""
        exponent, drift = float(self.noise.exponent(self.reports)), self._drift
        return cumulant_of_difference(self.noise, exponent, self.step * tilts) - drift * tilts

    @property
    def _drift(self) -> float:
        return float(self.noise.drift(self.reports)) * self.step

    def law(self, tail: float, sign: int) -> _Law | None:
        """Return the law of the noise, or of its mirror image, rounded up where it is long."""
        noise = self.noise if sign > 0 else self.noise.mirrored
        found = law_of_difference(noise, self.noise.exponent(self.reports), tail)
        if found is None:
            return None
        step, law = found
        places = np.arange(law.start, law.stop, dtype=np.float64) * (step * self.step)
        places -= sign * self._drift
        return _Law(places, law.mass, law.relative, law.missing)


@dataclass(frozen=True, slots=True)
class TotalsError(EstimateError):
    """The noise of one total; a sum that was rounded as a whole is off by ``room`` steps more."""

    noise: TotalsNoise
    step: float
    room: float = 0.0
    rounding: float = 0.0

    @property
    def rest(self) -> float:
        """Return the variance of the noise, and the square of what the whole sum is off."""
        return (float(self.noise.tally_variance(0, 1)) + self.room**2) * self.step**2

    @property
    def pole(self) -> float:
        """Return where the cumulants of Laplace noise end, or what no tail of a Gaussian needs."""
        reach = 1.0 if self.noise.law == "laplace" else _LARGEST_TILT
        return reach / (float(self.noise.scale) * self.step)

    def rest_cumulants(self, tilts: Floats) -> Floats:
        """Return an upper bound of ln E[e^(t·X)]; discrete Gaussian noise has σ²t²/2 at most."""
        turned, scale = tilts * self.step, float(self.noise.scale)
        off = np.abs(turned) * self.room
        if self.noise.law == "gaussian":
            # [Canonne, Kamath and Steinke 2020, proposition 25]
            return np.asarray(off + self.noise.terms * (scale * turned) ** 2 / 2.0)
        # As for signed decoys: 4a/(1 − a)² is 1/sinh²(1/2b).
        fall = (np.sinh(0.5 * turned) / math.sinh(0.5 / scale)) ** 2
        return np.asarray(off - self.noise.terms * np.log1p(-fall))

    def law(self, tail: float, sign: int) -> _Law | None:  # noqa: ARG002 - it is symmetric
        """Return the law of the noise; None where it is long."""
        found = law_of_totals(self.noise, tail)
        if found is None:
            return None
        step, law = found
        # Places at or above where it is, and as much above as rounding may have moved the sum.
        places = np.arange(law.start, law.stop, dtype=np.float64) * step + self.room
        return _Law(places * self.step, law.mass, law.relative, law.missing)


def _decay(ratio: Fraction) -> float:
    """Return −ln(ratio); near 1 a float has no digits left that show it, and 1 − ratio has."""
    rest = float(1 - ratio)
    return -math.log1p(-rest) if rest < 0.5 else -math.log(float(ratio))


@dataclass(frozen=True, slots=True)
class UnknownError(EstimateError):
    """An error of which the standard error is known, and perhaps that it is one of a count."""

    standard_error: float
    reports: int | None = None
    """Of how many reports it is the share of a value; None where it is no count."""
    flipped: bool = False
    """Whether nothing was sent in clear, and so nothing among signed decoys."""

    @property
    def rest(self) -> float:
        """Return the variance."""
        return self.standard_error**2

    @property
    def _people(self) -> float:
        return 0.0 if self.reports is None else self.rest * self.reports**2

    @property
    def _sizes(self) -> tuple[float, float]:
        """Return c of signed decoys and that of flips and uniform decoys, in shares."""
        assert self.reports is not None  # noqa: S101 - asked for counts only
        signed = 0.0 if self.flipped else (1.0 + math.sqrt(1.0 + 2.0 * self._people)) / 2.0
        bits = math.sqrt(1.0 + 4.0 * self._people / self.reports) / 3.0
        return signed / self.reports, bits / self.reports

    @property
    def pole(self) -> float:
        """Return 1/c, and 0 where nothing is known."""
        return 0.0 if self.reports is None else 1.0 / max(self._sizes)

    def rest_cumulants(self, tilts: Floats) -> Floats:
        """Return the larger one of both bounds."""
        signed, bits = self._sizes
        found = tilts**2 / (2.0 * (1.0 - bits * np.abs(tilts)))
        if signed:
            found = np.maximum(found, -np.log1p(-((signed * tilts) ** 2)) / (2.0 * signed**2))
        return np.asarray(self.rest * found)


def error_of(noise: TallyNoise, reports: int, scale: float, rounding: float = 0.0) -> EstimateError:
    """Return the error of an estimated count times ``scale``."""
    step = scale / float(noise.slope)
    if isinstance(noise, SeenDecoys):
        return DecoysError(noise.values, int(noise.arrived.max()), step)
    if isinstance(noise, SignedNoise):
        return SignedError(noise, reports, step, rounding)
    if isinstance(noise, TotalsNoise):
        if noise.whole:
            return TotalsError(noise, step, noise.room(reports))
        return TotalsError(noise, step, rounding=rounding)
    assert isinstance(noise, Noise)  # noqa: S101 - there are no others
    return FlipsError(noise, reports, step, rounding)


_Parts = tuple[tuple[int, EstimateError], ...]
"""Errors that are added, each with its sign."""


@lru_cache(maxsize=256)
def half_widths(
    first: EstimateError | None, last: EstimateError, chance: float
) -> tuple[float, float]:
    """Return how far above and below the true difference the estimated one may be.

    It is farther with a chance of at most ``chance``: half of that on either side.
    """
    # A hair less than half: the chance may have been rounded up by a division.
    tail = 0.5 * chance * (1 - 1e-12)
    parts = ((1, last),) if first is None else ((1, last), (-1, first))
    up, down = (_side(tuple((turn * sign, one) for sign, one in parts), tail) for turn in (1, -1))
    # P[|X| ≥ farthest] ≤ chance [Chebyshev], for both sides together.
    farthest = math.sqrt(sum(one.variance for _, one in parts) / chance) * (1 + 1e-9)
    return (up, down) if up + down < 2.0 * farthest else (farthest, farthest)


def _side(parts: _Parts, tail: float) -> float:
    """Return an x with P[X ≥ x] ≤ ``tail`` for the sum X of these errors."""
    rounding = sum(one.rounding for _, one in parts)
    share, room = _split(parts, rounding, tail)
    # The exact law misses with ``own``, the rounding beside it with the rest of the tail.
    own = tail * (1 - share)
    known = [law for sign, one in parts if (law := one.law(own, sign)) is not None]
    if len(known) < len(parts):
        return _bound(parts, tail)
    return (_exact_end(known, own) + room) * (1 + _ROUNDING)


def _split(parts: _Parts, rounding: float, tail: float) -> tuple[float, float]:
    """Return the share of the tail that rounding gets beside an exact law, and what it takes."""
    if not rounding:
        return 0.0, 0.0
    spread = math.sqrt(sum(one.variance for _, one in parts) - rounding / 4.0)

    def room(share: float) -> float:
        # P[R ≥ t] ≤ e^(−2t²/Σb²) [Hoeffding 1963].
        return math.sqrt(-0.5 * rounding * math.log(share * tail))

    def length(share: float) -> float:
        return -float(special.ndtri(tail * (1 - share))) * spread + room(share)

    # By what the data do not touch: a split that tallies choose would not keep the level.
    share = min(_SHARES, key=length)
    return share, room(share)


def _exact_end(known: Sequence[_Law], tail: float) -> float:
    """Return an x with P[X ≥ x] ≤ ``tail``, just above the last place that is too likely."""
    few, many = sorted([*known, _NOTHING][:2], key=lambda law: len(law.places))
    top = float(few.places[-1] + many.places[-1])
    if top <= 0:
        return 0.0
    # Places are rounded: those this near to x count as beyond it.
    hair = _ROUNDING * (float(np.abs(few.places).max()) + float(np.abs(many.places).max()))
    beyond = np.append(np.cumsum(many.mass[::-1])[::-1], Wide(0))
    relative = few.relative + many.relative + gamma(len(few.mass) + len(many.mass) + 8.0)
    missing = few.missing + many.missing

    def rejected(x: float) -> bool:
        # P[A + B ≥ x] = Σ P[A = a]·P[B ≥ x − a]. A place that rounding brings to x counts as
        # beyond.
        found = few.mass @ beyond[np.searchsorted(many.places, x - hair - few.places)]
        # Upwards: by the relative error of the sums, and by the mass outside of both windows.
        return bool(found * (1 + 2 * relative) + missing <= Wide(tail))

    return bisect_real(rejected, good=top + 2 * hair, bad=0.0, steps=70)


_NOTHING = _Law(np.zeros(1), np.ones(1, dtype=Wide), Wide(0), Wide(0))


def _bound(parts: _Parts, tail: float) -> float:
    """Return an x with P[X ≥ x] ≤ ``tail`` from the cumulants of X, and from its bits."""
    bits = [(sign, some) for sign, one in parts for some in one.bits if some[0].number]
    step = max((some[0].step for _, some in bits), default=0.0)
    spread = math.sqrt(sum(one.variance for _, one in parts))
    most = min(one.pole for _, one in parts) * (1 - 1e-6)
    most = min(most, _LARGEST_TILT / step) if step else most
    if not spread or not most:
        return math.inf if spread else 0.0
    # Every tilt below the pole gives a bound that holds: the best of a grid is one of them, and a
    # finer grid could only make it shorter.
    tilts = np.geomspace(min(1e-2 / spread, 1e-2 * most), most, _TILTS)
    cumulants = sum(one.cumulants(sign * tilts) for sign, one in parts)
    local = np.ones_like(tilts)
    if bits:
        spreads = np.sqrt(_least_variance(bits, tilts))
        # The integral of the module's second formula, with the least variance that answers allow.
        normal = 1.0 / (math.sqrt(2.0 * math.pi) * tilts)
        local = np.minimum(1.0, (normal + 2.0 * LYAPUNOV * step) / np.maximum(spreads, 1e-300))
    # e^(K(t) − tx)·local ≤ tail, solved for x.
    found = float(np.min((cumulants + np.log(local) - math.log(tail)) / tilts))
    if all(not one.rest and not one.rounding for _, one in parts):
        least = math.sqrt(float(_least_variance(bits, np.zeros(1))[0]))
        # Bits alone: P[X ≥ z·s] ≤ Φ(−z) + miss by the theorem itself. The least variance goes into
        # what it misses by, the largest into s: both make x larger.
        miss = LYAPUNOV * step / least if least else math.inf
        if miss < tail:
            found = min(found, -float(special.ndtri((tail - miss) * (1 - 1e-9))) * spread)
    # Outwards, by far more than floats lose in between.
    return max(found, 0.0) * (1 + 1e-9)


def _least_variance(bits: Sequence[tuple[int, _Leaning]], tilts: Floats) -> Floats:
    # Each part leans the way in which its variance is least, whatever the others do.
    each = [np.min([one.variance(sign * tilts) for one in some], axis=0) for sign, some in bits]
    return np.asarray(np.sum(each, axis=0))
