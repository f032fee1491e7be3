"""The privacy curve: which delta goes with which epsilon, exactly and as published."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch import checks
from chaffinch.charts import claims, figure
from chaffinch.charts.figure import Axis, Figure, Series
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.mechanism import Mechanism

Floats = NDArray[np.float64]

_POINTS = 41
_CLAIMED_POINTS = 201
_ROOM = 1.8
"""The axis goes on beyond the exact curve, for the published ones to be seen."""


def privacy_curve(
    mechanism: Mechanism,
    *,
    epsilons: ArrayLike | None = None,
    least_delta: float = 1e-12,
    published: bool = True,
) -> Figure:
    """Return delta against epsilon: the mechanism's own bracket and the published claims.

    ``epsilons`` are the points to ask for; without them the curve runs from 0 to where delta
    is ``least_delta``, the low end of the axis.
    """
    least = checks.delta(least_delta)
    if not least < 1:
        raise InvalidInput("least delta", "below 1", least_delta)
    found = claims.about(mechanism) if published else ()
    nodes, right = _nodes(mechanism, epsilons, least, room=_ROOM if found else 1.0)
    low, high = mechanism.profile(nodes)
    name, style = figure.line(mechanism)
    own = Series(name, tuple(nodes.tolist()), tuple(high.tolist()), style, tuple(low.tolist()))
    series = [own, *_claimed(found, right, _bottom(own, least))]
    return Figure(
        title=figure.called(mechanism),
        x=Axis("epsilon", 0.0, right),
        y=Axis("delta", _bottom(own, least), 1.0, scale="log"),
        series=tuple(series),
        alternative=_alternative(mechanism, series),
        terms=figure.terms(mechanism),
    )


def _nodes(
    mechanism: Mechanism, epsilons: ArrayLike | None, least: float, *, room: float
) -> tuple[Floats, float]:
    """Return the epsilons to ask for, and the right end of the axis."""
    if epsilons is not None:
        nodes = np.unique(np.atleast_1d(np.asarray(epsilons, dtype=np.float64)))
        if not (np.all(nodes >= 0) and np.all(np.isfinite(nodes)) and nodes.max(initial=0.0) > 0):
            raise InvalidInput("epsilons", "finite, at least 0, and not only 0", epsilons)
        return nodes, float(nodes[-1])
    reach = _reach(mechanism, least)
    return np.linspace(0.0, reach, _POINTS), reach * room


def _reach(mechanism: Mechanism, least: float) -> float:
    """Return the epsilon at which delta has fallen to ``least``, or as far as it ever falls.

    Clear reports among decoys never get below some delta, and compositions are not proven
    below theirs.
    """
    wanted = least
    while wanted < 0.1:
        try:
            epsilon = mechanism.epsilon(wanted).upper
        except GuaranteeNotProven:
            epsilon = math.inf
        if 0 < epsilon < math.inf:
            return epsilon
        wanted *= 2.0
    return min(mechanism.local_epsilon, 5.0) or 1.0


def _bottom(own: Series, least: float) -> float:
    """Return the low end of the delta axis: the power of ten under the mechanism's own curve."""
    lowest = min((delta for delta in own.y if delta > 0), default=least)
    return max(least, 10.0 ** math.floor(min(math.log10(lowest) + 1e-3, -1.0)))


def _claimed(found: tuple[claims.Claim, ...], right: float, bottom: float) -> list[Series]:
    lines = []
    points = np.linspace(0.0, right, _CLAIMED_POINTS)[1:]
    for claim in found:
        alone = claim.epsilon_alone
        if alone <= right:
            lines.append(Series(claim.label, (alone, alone), (bottom, 1.0), "published"))
        pairs = [(float(e), d) for e in points if (d := claim.delta(float(e))) < 1.0]
        if pairs:
            x, y = zip(*pairs, strict=True)
            lines.append(Series(claim.label, x, y, "published"))
    return lines


def _alternative(mechanism: Mechanism, series: list[Series]) -> str:
    """Return what the picture shows, in sentences."""
    own = series[0]
    ends = [f"at delta {own.y[end]:.3g} for epsilon {own.x[end]:.3g}" for end in (0, -1)]
    parts = [
        f"Delta on a logarithmic axis against epsilon for {figure.called(mechanism)}.",
        f"The line '{own.name}' starts {ends[0]} and ends {ends[1]}.",
    ]
    for line in series:
        if "no delta" in line.name:
            parts.append(
                f"The published {line.name.replace(',', ' has')}: epsilon {line.x[0]:.3g}."
            )
            continue
        at = _crossing(line, 1e-6)
        kind = "published " if line.style == "published" else ""
        reached = "does not reach" if math.isnan(at) else f"at epsilon about {at:.3g} reaches"
        parts.append(f"The {kind}line '{line.name}' {reached} delta 1e-6.")
    return " ".join(parts)


def _crossing(line: Series, level: float) -> float:
    """Return where a falling line passes ``level``, straight between its logarithms."""
    for index in range(1, len(line.y)):
        before, after = line.y[index - 1], line.y[index]
        if before > level >= after > 0:
            share = math.log(before / level) / math.log(before / after)
            return line.x[index - 1] + share * (line.x[index] - line.x[index - 1])
    return math.nan
