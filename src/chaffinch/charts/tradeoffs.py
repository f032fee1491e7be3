"""The trade-off curve: how well any test can tell two neighbours apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch import privacy
from chaffinch.charts import figure
from chaffinch.charts.figure import Axis, Figure, Series
from chaffinch.errors import InvalidInput
from chaffinch.privacy import published as claims
from chaffinch.privacy.mechanism import Mechanism

Floats = NDArray[np.float64]

_POINTS = 51
_CLAIMED_POINTS = 401
_LARGEST_CLAIM = 10**6


def tradeoff(
    mechanism: Mechanism, *, alphas: ArrayLike | None = None, published: bool = True
) -> Figure:
    """Return type II against type I error: no test against the mechanism does better.

    With the exact lower envelope stand the line of perfect privacy and, for a single flipped
    bit, what S3 Theorem 2 claims.
    """
    levels = _dense_at_the_ends(_POINTS) if alphas is None else _levels(alphas)
    curve = mechanism.tradeoff(levels)
    name, style = figure.line(mechanism)
    own = Series(name, _plain(levels), _plain(curve.lower), style, _plain(curve.upper))
    series = [own]
    if published:
        series += _claimed(mechanism)
    series.append(Series("perfect privacy", (0.0, 1.0), (1.0, 0.0), "reference"))
    return Figure(
        title=figure.called(mechanism),
        x=Axis("type I error", 0.0, 1.0),
        y=Axis("type II error", 0.0, 1.0),
        series=tuple(series),
        alternative=_alternative(mechanism, series),
        terms=figure.terms(mechanism),
    )


def _dense_at_the_ends(points: int) -> Floats:
    """Return levels from 0 to 1, closer together where trade-off curves bend the most.

    A straight line between two points of a convex curve runs above it, so bends need points.
    """
    return np.asarray(0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, points)))


def _levels(alphas: ArrayLike) -> Floats:
    levels = np.unique(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))
    if levels.size == 0 or not (np.all(levels >= 0) and np.all(levels <= 1)):
        raise InvalidInput("alphas", "numbers from 0 to 1", alphas)
    return levels


def _claimed(mechanism: Mechanism) -> list[Series]:
    """Return S3 Theorem 2 where it speaks about the mechanism: one bit, sent once, no decoys."""
    if not isinstance(mechanism, privacy.FlippedBits):
        return []
    if mechanism.copies > 1 or mechanism.decoys or mechanism.users > _LARGEST_CLAIM:
        return []
    levels = np.linspace(0.0, 1.0, _CLAIMED_POINTS)
    claimed = claims.shifted_binomial_tradeoff(
        levels, users=mechanism.users, flip_probability=float(mechanism.flip_probability)
    )
    return [Series("S3 Theorem 2", _plain(levels), _plain(claimed), "published")]


def _alternative(mechanism: Mechanism, series: list[Series]) -> str:
    """Return what the picture shows, in sentences."""
    own = series[0]
    errors = np.add(own.x, own.y)
    best = int(np.argmin(errors))
    parts = [
        f"Type II error against type I error for {figure.called(mechanism)}.",
        f"On the line '{own.name}' the two errors add up to {errors[best]:.3g} or more,",
        f"reached at type I error {own.x[best]:.3g}; on the line of perfect privacy to 1.",
    ]
    for line in series[1:-1]:
        above = np.interp(own.x, line.x, line.y) - np.asarray(own.other_end)
        worst = int(np.argmax(above))
        if above[worst] > 1e-3:
            parts.append(
                f"The published line '{line.name}' is above what a test attains, so it claims "
                f"too much, by up to {above[worst]:.2g} at type I error {own.x[worst]:.3g}."
            )
        else:
            parts.append(f"The published line '{line.name}' lies below it or on it.")
    return " ".join(parts)


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
