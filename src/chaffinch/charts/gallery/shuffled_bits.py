"""Shuffled bits in f-DP: S3 (Chen and Long, 2021), figures 1(a) to 1(d), 2(a) and 2(b).

S3 does not say for which δ its curves of Cheu et al. are drawn. That bound holds for all δ at
once, so here it is the best it claims: the envelope over δ. Nor does S3 say where its maximum over
α is taken, which over the whole interval is infinite (Corollary 3.2); here α runs from 0.01 to
0.99, and the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from chaffinch import privacy
from chaffinch.charts.axis import Axis
from chaffinch.charts.figure import Figure, Series, Style, Terms
from chaffinch.charts.gallery.section import Section
from chaffinch.privacy import published
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.laws import binomial
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.tradeoff import TradeOff

USERS, EXPECTED, ROUNDS = 100, 58, 10
"""n, λ and r of figure 1."""
RESPONDERS = 50
"""|H| of figure 2."""
FLIP = Fraction(EXPECTED, 2 * USERS)

_LEAST = 1e-12
"""The low end of the delta axes."""
_LOSS_STEP = 2e-4
"""The grid on which the losses of several rounds are added."""
_POINTS, _FEW = 241, 61
_LEVELS = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 201))
"""Type I errors, closer together where the curves bend the most."""
_BESIDE_STEP = 1e-9
_SEEN = np.linspace(0.01, 0.99, 99)
"""Where a Gaussian parameter is read off the theorem."""
_CLAIMED_AT = np.linspace(0.005, 1.2, 240)
"""Where the bound of Cheu et al. is asked: from ε = ln 3 on it claims nothing better."""

_CHEU = "Cheu et al. 2019, all δ together"
_THEOREM = "Chen and Long 2021, theorem 2"
_SHORT = "read off for α from 0.01 to 0.99"


@lru_cache(maxsize=1)
def _bit() -> privacy.FlippedBits:
    return privacy.FlippedBits(users=USERS, flip_probability=FLIP)


@lru_cache(maxsize=1)
def _ten() -> Mechanism:
    numbers = privacy.EncodedNumbers(
        users=USERS, resolution=ROUNDS, flip_probability=FLIP, slots="separate"
    )
    return numbers.inner


@lru_cache(maxsize=1)
def _mu() -> float:
    return _bit().gaussian_mu().upper


@lru_cache(maxsize=1)
def _claimed_mu() -> float:
    """Return what S3 Corollary 3.2 gives where the two ends of the interval are left out."""
    return published.shifted_binomial_mu(users=USERS, flip_probability=float(FLIP), alphas=_SEEN)


def _cheu_deltas(delta: Callable[[float], float], *, times: int = 1) -> tuple[Floats, Floats]:
    deltas = np.array([delta(float(epsilon)) for epsilon in _CLAIMED_AT])
    # Basic composition: both epsilons and deltas add up.
    return times * _CLAIMED_AT, np.minimum(times * deltas, 1.0)


def _one_bit_by_cheu(epsilon: float) -> float:
    return published.binary_sum_delta(users=USERS, flip_probability=float(FLIP), epsilon=epsilon)


def _responders_by_cheu(epsilon: float) -> float:
    return published.random_responders_delta(responders=RESPONDERS, epsilon=epsilon)


# ---------------------------------------------------------------- the two errors of a test


def _errors(mechanism: Mechanism, name: str, style: Style = "proven") -> Series:
    found = mechanism.tradeoff(_LEVELS)
    return Series(name, _plain(_LEVELS), _plain(found.lower), style, _plain(found.upper))


def _errors_of(epsilons: Floats, deltas: Floats, name: str, style: Style) -> Series:
    curve = TradeOff.from_profile(_LEVELS, epsilons, deltas, upper=1.0 - _LEVELS)
    return Series(name, _plain(_LEVELS), _plain(curve.lower), style)


def _tradeoff(title: str, series: list[Series], terms: Terms | str) -> Figure:
    perfect = Series("perfect privacy", (0.0, 1.0), (1.0, 0.0), "reference")
    lines = (*series, perfect)
    return Figure(
        title=title,
        x=Axis("type I error", 0.0, 1.0),
        y=Axis("type II error", 0.0, 1.0),
        series=lines,
        alternative="Type II error against type I error. " + " ".join(map(_half_in_words, series)),
        terms=terms,
    )


def _half_in_words(line: Series) -> str:
    return f"'{line.name}' has {np.interp(0.5, line.x, line.y):.3g} at type I error 0.5."


def _one_bit_tradeoff() -> Figure:
    steps = _steps(USERS, FLIP)
    theorem = published.shifted_binomial_tradeoff(steps, users=USERS, flip_probability=float(FLIP))
    gaussian = gaussian_tradeoff(_mu(), _LEVELS)
    return _tradeoff(
        f"One flipped bit: {USERS} users, of whom {EXPECTED} answer at random on average",
        [
            _errors(_bit(), "exact, worst crowd"),
            Series(f"Gaussian, least μ = {_mu():.4f}", _plain(_LEVELS), _plain(gaussian), "bound"),
            Series(_THEOREM, _plain(steps), _plain(theorem), "published"),
            _errors_of(*_cheu_deltas(_one_bit_by_cheu), _CHEU, "published"),
        ],
        _terms(_bit()),
    )


def _steps(trials: int, chance: Fraction) -> Floats:
    """Return the levels on both sides of every step of 1 − F(F⁻¹(α) + 1), F binomial."""
    below = np.cumsum(binomial(trials, chance, 1e-30).mass).astype(np.float64)
    sides = np.concatenate([[0.0], below * (1 - _BESIDE_STEP), below * (1 + _BESIDE_STEP), [1.0]])
    return np.unique(np.clip(sides, 0.0, 1.0))


def _ten_bits_tradeoff() -> Figure:
    once = _bit().nodes()
    deltas = _bit().profile(once)[1]
    tensor = ShiftedTensor.of(users=USERS, flip_probability=FLIP, times=ROUNDS)
    root = math.sqrt(ROUNDS)
    levels = _plain(_LEVELS)
    return _tradeoff(
        f"A number in {ROUNDS} flipped bits: {USERS} users, {EXPECTED} random answers per bit",
        [
            _errors(_ten(), "composition of the exact losses, every crowd"),
            Series(
                f"√{ROUNDS} × least μ = {root * _mu():.4f}",
                levels,
                _plain(gaussian_tradeoff(root * _mu(), _LEVELS)),
                "bound",
            ),
            _errors_of(
                ROUNDS * once,
                np.minimum(ROUNDS * deltas, 1.0),
                "basic composition of the exact (ε, δ)",
                "bound",
            ),
            Series(
                "Chen and Long 2021, theorem 3",
                levels,
                _plain(tensor.tradeoff(_LEVELS)),
                "published",
            ),
            Series(
                f"Chen and Long 2021, √{ROUNDS} × μ = {root * _claimed_mu():.3f}",
                levels,
                _plain(gaussian_tradeoff(root * _claimed_mu(), _LEVELS)),
                "published",
            ),
            _errors_of(
                *_cheu_deltas(_one_bit_by_cheu, times=ROUNDS),
                "Cheu et al. 2019, basic composition",
                "published",
            ),
        ],
        _terms(_ten()),
    )


def _responders_tradeoff() -> Figure:
    mechanism = privacy.RandomResponders(responders=RESPONDERS)
    steps = _steps(RESPONDERS, Fraction(1, 2))
    claimed = published.random_responders_tradeoff(steps, responders=RESPONDERS)
    return _tradeoff(
        f"{RESPONDERS} of {USERS} users answer at random, the others tell the truth",
        [
            _errors(mechanism, "exact, every crowd"),
            Series("Chen and Long 2021, claim B.4", _plain(steps), _plain(claimed), "published"),
            _errors_of(*_cheu_deltas(_responders_by_cheu), _CHEU, "published"),
        ],
        _terms(mechanism),
    )


# ---------------------------------------------------------------- delta against epsilon


def _profile(mechanism: Mechanism, name: str) -> Series:
    last = mechanism.epsilon(_LEAST).upper
    nodes = np.linspace(0.0, last, _POINTS)
    low, high = mechanism.profile(nodes)
    return Series(name, _plain(nodes), _plain(high), "proven", _plain(low))


def _line(name: str, style: Style, right: float, deltas: Callable[[Floats], Floats]) -> Series:
    # A few points tell where the line leaves the axis; the others are spent before that.
    roughly = np.linspace(0.0, right, _FEW)[1:]
    below = np.flatnonzero(deltas(roughly) < _LEAST)
    last = float(roughly[below[0]]) if len(below) else right
    epsilons = np.linspace(0.0, last, _POINTS)[1:]
    found = deltas(epsilons)
    stays = found < 1.0
    return Series(name, _plain(epsilons[stays]), _plain(found[stays]), style)


def _claims(name: str, epsilons: Floats, deltas: Floats, right: float) -> Series:
    """Return the line of claimed (ε, δ), level on to the right end: more ε does no harm."""
    says = deltas < 1.0
    x = np.append(epsilons[says], max(right, float(epsilons[-1])))
    return Series(name, _plain(x), _plain(np.append(deltas[says], deltas[-1])), "published")


def _curve(title: str, series: list[Series], right: float, terms: Terms | str) -> Figure:
    return Figure(
        title=title,
        x=Axis("epsilon", 0.0, right),
        y=Axis("delta", _LEAST, 1.0, scale="log"),
        series=tuple(series),
        alternative=(
            "Delta on a logarithmic axis against epsilon. "
            + " ".join(map(_millionth_in_words, series))
        ),
        terms=terms,
    )


def _millionth_in_words(line: Series) -> str:
    below = [x for x, y in zip(line.x, line.y, strict=True) if y <= 1e-6]
    if not below:
        return f"'{line.name}' does not reach delta 1e-6 here."
    return f"'{line.name}' is below delta 1e-6 from epsilon {below[0]:.3g} on."


def _one_bit_curve() -> Figure:
    right = 3.5
    claimed = _claimed_mu()
    return _curve(
        f"One flipped bit: {USERS} users, of whom {EXPECTED} answer at random on average",
        [
            _profile(_bit(), "exact, worst crowd"),
            _line(
                f"Gaussian, least μ = {_mu():.4f}",
                "bound",
                right,
                lambda e: gaussian_deltas(_mu(), e),
            ),
            _line(
                f"Chen and Long 2021, μ = {claimed:.3f}, {_SHORT}",
                "published",
                right,
                lambda e: gaussian_deltas(claimed, e),
            ),
            _claims("Cheu et al. 2019", *_cheu_deltas(_one_bit_by_cheu), right),
        ],
        right,
        _terms(_bit()),
    )


def _ten_bits_curve() -> Figure:
    right = 12.0
    root = math.sqrt(ROUNDS)
    claimed = _claimed_mu()
    tensor = ShiftedTensor.of(users=USERS, flip_probability=FLIP, times=ROUNDS)
    return _curve(
        f"A number in {ROUNDS} flipped bits: {USERS} users, {EXPECTED} random answers per bit",
        [
            _profile(_ten(), "composition of the exact losses, every crowd"),
            _line(
                f"√{ROUNDS} × least μ = {root * _mu():.4f}",
                "bound",
                right,
                lambda e: gaussian_deltas(root * _mu(), e),
            ),
            _line(
                "basic composition of the exact (ε, δ)",
                "bound",
                right,
                lambda e: np.minimum(ROUNDS * _bit().profile(e / ROUNDS)[1], 1.0),
            ),
            _line("Chen and Long 2021, theorem 3", "published", right, tensor.deltas),
            _line(
                f"Chen and Long 2021, √{ROUNDS} × μ = {root * claimed:.3f}",
                "published",
                right,
                lambda e: gaussian_deltas(root * claimed, e),
            ),
            _claims(
                "Cheu et al. 2019, basic composition",
                *_cheu_deltas(_one_bit_by_cheu, times=ROUNDS),
                right,
            ),
        ],
        right,
        _terms(_ten()),
    )


def _responders_mu() -> float:
    """Return what S3 Claim B.5 gives where the two ends of the interval are left out."""
    return published.random_responders_mu(responders=RESPONDERS, alphas=_SEEN)


def _responders_curve() -> Figure:
    mechanism = privacy.RandomResponders(responders=RESPONDERS)
    right = 3.0
    claimed = _responders_mu()
    return _curve(
        f"{RESPONDERS} of {USERS} users answer at random, the others tell the truth",
        [
            _profile(mechanism, "exact, every crowd"),
            _line(
                f"Chen and Long 2021, μ = {claimed:.3f}, {_SHORT}",
                "published",
                right,
                lambda e: gaussian_deltas(claimed, e),
            ),
            _claims("Cheu et al. 2019", *_cheu_deltas(_responders_by_cheu), right),
        ],
        right,
        _terms(mechanism),
    )


def _terms(mechanism: Mechanism) -> Terms:
    return Terms(
        neighbours=mechanism.neighbours,
        view=mechanism.view,
        crowd=mechanism.crowd_words,
        method=mechanism.method,
    )


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())


# ---------------------------------------------------------------- what the page says


def one_bit_tradeoff() -> Section:
    """Return S3 Figure 1(a)."""
    return Section(
        "One shuffled bit: the errors of a test",
        "one-bit-errors",
        (_one_bit_tradeoff(),),
        "With 100 users of whom 58 answer at random, theorem 2 is much closer to perfect privacy "
        "than what follows from Cheu et al. (Chen and Long 2021, figure 1a).",
        "At these settings theorem 2 is too careful: the exact curve of the worst crowd is above "
        "it by up to 0.14, and close to a Gaussian one. It is no guarantee, though: it claims too "
        "much where fewer answer at random (by 0.088 with one of 100).",
    )


def one_bit_curve() -> Section:
    """Return S3 Figure 1(b)."""
    return Section(
        "One shuffled bit: delta against epsilon",
        "one-bit-delta",
        (_one_bit_curve(),),
        "Converted to (ε, δ) through a Gaussian parameter μ, the result is far below the bound of "
        "Cheu et al. (figure 1b).",
        "As printed that μ is infinite, because the theorem's two laws do not have the same "
        "outcomes; the line here leaves out the ends of the interval, where a figure does not "
        "look. The bit itself has a least μ, 0.1114, four times smaller, and its own δ(ε) is "
        "below that Gaussian curve. Cheu et al. say nothing below δ = 0.04 for so few users.",
    )


def ten_bits_tradeoff() -> Section:
    """Return S3 Figure 1(c)."""
    return Section(
        "A number in ten shuffled bits: the errors of a test",
        "ten-bits-errors",
        (_ten_bits_tradeoff(),),
        "For a number in ten bits, √10·μ is tight while basic composition of (ε, δ) loses nearly "
        "everything (figure 1c).",
        "Composing the exact losses is better than √10 times the least μ, and both are far better "
        "than any published line. Basic composition of Cheu et al. says nothing; basic composition "
        "of the exact (ε, δ) is better than √10 times the published μ. The crowd of every bit may "
        "be another one, which the exact line allows for.",
    )


def ten_bits_curve() -> Section:
    """Return S3 Figure 1(d)."""
    return Section(
        "A number in ten shuffled bits: delta against epsilon",
        "ten-bits-delta",
        (_ten_bits_curve(),),
        "The same comparison as (ε, δ) (figure 1d).",
        "At δ = 1e-6 the ten bits have ε = 1.33, √10 times the least μ promises 1.55, theorem 3 "
        "claims 3.5, basic composition of the exact bit 4.8, and √10 times the published μ 7.1.",
    )


def responders_tradeoff() -> Section:
    """Return S3 Figure 2(a)."""
    return Section(
        "A fixed set of random responders: the errors of a test",
        "random-responders-errors",
        (_responders_tradeoff(),),
        "When a fixed set of 50 of 100 users answers at random and all others tell the truth, the "
        "new curve is above that of Cheu et al. (figure 2a).",
        "It is, and it is right: claim B.4 touches the exact curve at its corners and is too "
        "careful between them. Nobody else's answer matters here, so there is no worst crowd to "
        "look for; and who answers at random may be known to the analyzer.",
    )


def responders_curve() -> Section:
    """Return S3 Figure 2(b)."""
    return Section(
        "A fixed set of random responders: delta against epsilon",
        "random-responders-delta",
        (_responders_curve(),),
        "Converted to (ε, δ), the result is far below that of Cheu et al. (figure 2b).",
        "The exact δ(ε) is. Through a Gaussian parameter there is no result at all: as printed μ "
        "is infinite, and no finite one is true, since with chance 2⁻⁵⁰ the sum gives a target "
        "away. The line leaves out the ends of the interval; far enough to the right it promises "
        "less than 2⁻⁵⁰, which is false.",
    )


# ----------------------------------------------------------------------------
# Gaussian curves, and tensor powers of a shifted binomial.


def gaussian_deltas(mu: float, epsilons: Floats) -> Floats:
    """Return δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) [Balle and Wang 2018] at each epsilon."""
    # As logarithms: both terms are far below the smallest double where the curve still has a place.
    first = special.log_ndtr(-epsilons / mu + mu / 2)
    second = epsilons + special.log_ndtr(-epsilons / mu - mu / 2)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


def gaussian_tradeoff(mu: float, alphas: Floats) -> Floats:
    """Return G_μ(α) = Φ(Φ⁻¹(1 − α) − μ)."""
    return np.asarray(special.ndtr(-special.ndtri(alphas) - mu))


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedTensor:
    """S3 Theorem 3 before its curve is drawn: the losses of several rounds, and their masses.

    One round is C against C + 1, C ~ Bin(n, q); independent rounds add their losses. These are
    rounded to a grid and added by a Fourier transform, whose error of about 1e-16 is in every
    mass: good for a picture of a claim, and not for a guarantee.
    """

    losses: Floats
    first: Floats
    """Masses under C, in which a loss is infinite with chance ``infinite``."""
    second: Floats
    """Masses under C + 1."""
    infinite: float

    @classmethod
    def of(cls, *, users: int, flip_probability: Fraction, times: int) -> ShiftedTensor:
        """Return that of ``times`` rounds."""
        law = binomial(users, flip_probability, 1e-40)
        q = float(flip_probability)
        sums = np.arange(max(law.start, 1), law.stop, dtype=np.float64)
        # ln P[C = s]/P[C = s − 1]; the sum 0 has an infinite loss and is counted apart.
        losses = np.log((users - sums + 1) / sums * q / (1 - q))
        mass = law.mass.astype(np.float64)[-len(sums) :]
        places = np.round(losses / _LOSS_STEP).astype(np.int64)
        lowest = int(places.min())
        grid = np.bincount(places - lowest, weights=mass).astype(np.float64)
        length = times * (len(grid) - 1) + 1
        size = 1 << (length - 1).bit_length()
        power = np.fft.irfft(np.fft.rfft(grid, size) ** times, size)[:length]
        # What the transform leaves where nothing is must not be blown up by e^−loss.
        seen = np.flatnonzero(power > 1e-15 * power.max())
        total = np.asarray((seen + times * lowest) * _LOSS_STEP, dtype=np.float64)
        never = (1.0 - q) ** users
        infinite = -math.expm1(times * math.log1p(-never))
        first = np.asarray(power[seen], dtype=np.float64)
        return cls(total, first, np.asarray(first * np.exp(-total)), infinite)

    def tradeoff(self, alphas: Floats) -> Floats:
        """Return the type II error at each level: large losses are called for the first law."""
        level = np.concatenate([[0.0], np.cumsum(self.second[::-1])])
        power = np.concatenate([[0.0], np.cumsum(self.first[::-1])]) + self.infinite
        return np.asarray(np.clip(1.0 - np.interp(alphas, level, power), 0.0, 1.0))

    def deltas(self, epsilons: Floats) -> Floats:
        """Return E[(1 − e^(ε − loss))₊] at each epsilon, infinite losses included."""
        found = []
        for epsilon in epsilons:
            above = self.losses > epsilon
            parts = self.first[above] * -np.expm1(epsilon - self.losses[above])
            found.append(float(parts.sum()) + self.infinite)
        return np.array(found)
