"""Curves of a mechanism: delta against epsilon, and the two errors of a test.

Beside the mechanism's own bracket stand the published formulas that speak about it, where
there are any: claims, not guarantees.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from chaffinch import privacy
from chaffinch.charts.amplification import Bound, amplification_bounds, exact_form
from chaffinch.charts.axis import Axis
from chaffinch.charts.figure import Figure, Series, Style, Terms
from chaffinch.charts.rounding import count_of
from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy import published as formulas
from chaffinch.privacy.amplification import ShuffledRandomizer, ShuffledResponse, ShuffledTable
from chaffinch.privacy.guarantee import PROVEN, commas_in
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.totals import NoisyTotals
from chaffinch.privacy.numerics.precision import Floats

_CURVE_POINTS = 81
"""Enough for a line to be smooth where it is steep: about seven for each power of ten."""
_ROOM = 1.8
"""The axis goes on beyond the exact curve, for the published ones to be seen."""
_LEVELS = 51
_CLAIMED_LEVELS = 401
_LARGEST_CLAIM = 10**6
_NO_DELTA = ", no delta"

_BY_NAME = {formula.name: formula for formula in formulas.FORMULAS}


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
    found = _claims_about(mechanism) if published else ()
    own_form = exact_form(mechanism)
    nodes, right = _nodes(own_form, epsilons, least, room=_ROOM if found else 1.0)
    low, high = own_form.profile(nodes)
    name, style = _own_line(own_form)
    own = Series(name, tuple(nodes.tolist()), tuple(high.tolist()), style, tuple(low.tolist()))
    series = [own, *_claimed_curves(found, right, _bottom(own, least))]
    return Figure(
        title=mechanism_name(mechanism),
        x=Axis("epsilon", 0.0, right),
        y=Axis("delta", _bottom(own, least), 1.0, scale="log"),
        series=tuple(series),
        alternative=_curve_in_words(mechanism, series),
        terms=mechanism_terms(own_form),
    )


def _nodes(
    mechanism: Mechanism, epsilons: ArrayLike | None, least: float, *, room: float
) -> tuple[Floats, float]:
    if epsilons is not None:
        nodes = np.unique(np.atleast_1d(np.asarray(epsilons, dtype=np.float64)))
        if not (np.all(nodes >= 0) and np.all(np.isfinite(nodes)) and nodes.max(initial=0.0) > 0):
            raise InvalidInput("epsilons", "finite, at least 0, and not only 0", epsilons)
        return nodes, float(nodes[-1])
    reach = _reach(mechanism, least)
    return np.linspace(0.0, reach, _CURVE_POINTS), reach * room


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
    lowest = min((delta for delta in own.y if delta > 0), default=least)
    return max(least, 10.0 ** math.floor(min(math.log10(lowest) + 1e-3, -1.0)))


def _claimed_curves(found: tuple[_Claim | Bound, ...], right: float, bottom: float) -> list[Series]:
    lines = []
    for claim in found:
        points = np.linspace(0.0, _last_seen(claim, right, bottom), claim.points + 1)[1:]
        alone = claim.epsilon_alone
        if alone <= right:
            lines.append(Series(claim.label, (alone, alone), (bottom, 1.0), "published"))
        pairs = [(float(e), d) for e in points if (d := claim.delta(float(e))) < 1.0]
        if pairs:
            x, y = zip(*pairs, strict=True)
            proven = isinstance(claim, Bound) and claim.kind == "proven"
            lines.append(Series(claim.label, x, y, "bound" if proven else "published"))
    return lines


def _last_seen(claim: _Claim | Bound, right: float, bottom: float) -> float:
    # A formula costs nothing. A bound takes a search, so only points that can be seen are asked.
    if isinstance(claim, _Claim):
        return right
    below = claim.epsilon(bottom)
    return min(right, below) if below else right


def _curve_in_words(mechanism: Mechanism, series: list[Series]) -> str:
    own = series[0]
    ends = [f"at delta {own.y[end]:.3g} for epsilon {own.x[end]:.3g}" for end in (0, -1)]
    parts = [
        f"Delta on a logarithmic axis against epsilon for {mechanism_name(mechanism)}.",
        f"The line '{own.name}' starts {ends[0]} and ends {ends[1]}.",
    ]
    for line in series:
        if line.name.endswith(_NO_DELTA):
            name = line.name.removesuffix(_NO_DELTA)
            parts.append(f"The published {name} has no delta: epsilon {line.x[0]:.3g}.")
            continue
        at = _level_place(line, 1e-6)
        kind = "published " if line.style == "published" else ""
        reached = "does not reach" if math.isnan(at) else f"at epsilon about {at:.3g} reaches"
        parts.append(f"The {kind}line '{line.name}' {reached} delta 1e-6.")
    return " ".join(parts)


def _level_place(line: Series, level: float) -> float:
    for index in range(1, len(line.y)):
        before, after = line.y[index - 1], line.y[index]
        if before > level >= after > 0:
            # The axis is logarithmic, so the line is straight in the logarithm of delta.
            share = math.log(before / level) / math.log(before / after)
            return line.x[index - 1] + share * (line.x[index] - line.x[index - 1])
    return math.nan


def tradeoff(
    mechanism: Mechanism, *, alphas: ArrayLike | None = None, published: bool = True
) -> Figure:
    """Return type II against type I error: no test against the mechanism does better.

    With the exact lower envelope stand the line of perfect privacy and, for a single flipped
    bit, what Chen and Long (2021) claim.
    """
    levels = _dense_at_the_ends(_LEVELS) if alphas is None else _check_levels(alphas)
    curve = mechanism.tradeoff(levels)
    name, style = _own_line(mechanism)
    own = Series(name, _plain(levels), _plain(curve.lower), style, _plain(curve.upper))
    series = [own]
    if published:
        series += _claimed_tradeoff(mechanism)
    series.append(Series("perfect privacy", (0.0, 1.0), (1.0, 0.0), "reference"))
    return Figure(
        title=mechanism_name(mechanism),
        x=Axis("type I error", 0.0, 1.0),
        y=Axis("type II error", 0.0, 1.0),
        series=tuple(series),
        alternative=_tradeoff_in_words(mechanism, series),
        terms=mechanism_terms(mechanism),
    )


def _dense_at_the_ends(points: int) -> Floats:
    """Return levels from 0 to 1, closer together where trade-off curves bend the most.

    A straight line between two points of a convex curve runs above it, so bends need points.
    """
    return np.asarray(0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, points)))


def _check_levels(alphas: ArrayLike) -> Floats:
    levels = np.unique(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))
    if levels.size == 0 or not (np.all(levels >= 0) and np.all(levels <= 1)):
        raise InvalidInput("alphas", "numbers from 0 to 1", alphas)
    return levels


def _claimed_tradeoff(mechanism: Mechanism) -> list[Series]:
    """Return S3 Theorem 2 where it speaks about the mechanism: one bit, sent once, no decoys."""
    if not isinstance(mechanism, privacy.FlippedBits):
        return []
    if mechanism.copies > 1 or mechanism.decoys or mechanism.users > _LARGEST_CLAIM:
        return []
    levels = np.linspace(0.0, 1.0, _CLAIMED_LEVELS)
    claimed = formulas.shifted_binomial_tradeoff(
        levels, users=mechanism.users, flip_probability=float(mechanism.flip_probability)
    )
    formula = _BY_NAME["shifted_binomial_tradeoff"]
    return [Series(formula.label, _plain(levels), _plain(claimed), "published")]


def _tradeoff_in_words(mechanism: Mechanism, series: list[Series]) -> str:
    own = series[0]
    errors = np.add(own.x, own.y)
    best = int(np.argmin(errors))
    parts = [
        f"Type II error against type I error for {mechanism_name(mechanism)}.",
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


def mechanism_name(mechanism: Mechanism) -> str:
    """Return the mechanism in words: its kind, its crowd and its parameters."""
    parameters = vars(mechanism)
    if "parts" in parameters:
        return " + ".join(
            f"{count} × ({mechanism_name(part)})" for part, count in parameters["parts"]
        )
    kind = re.sub(r"(?<=[a-z])([A-Z])", lambda m: " " + m[1].lower(), type(mechanism).__name__)
    # Names of people and of systems keep their capitals.
    kind = kind.replace(" laplace", " Laplace").replace("Rappor", "RAPPOR")
    words = f"{kind}, {commas_in(mechanism.crowd_words)}"
    if parameters.get("copies", 1) > 1:
        words += f", {parameters['copies']} copies"
    if isinstance(mechanism, NoisyTotals):
        law = mechanism.law.capitalize()
        words += f", {law} noise of scale {float(mechanism.scale):.6g}, "
        words += f"{count_of(mechanism.counts, 'count')} by {mechanism.steps:,}"
    if "flip_probability" in parameters:
        words += f", flip probability {float(parameters['flip_probability']):.4g}"
    if isinstance(mechanism, ShuffledResponse):
        return words + f", {mechanism.values:,}-ary, local epsilon {mechanism.local_epsilon:.4g}"
    if isinstance(mechanism, ShuffledRandomizer) and type(mechanism) is not ShuffledTable:
        for name in ("values", "bits", "hashes", "buckets", "steps"):
            if name in parameters:
                words += f", {parameters[name]:,} {name}"
        if "size" in parameters:
            words += f", subsets of {parameters['size']:,}"
        words += f", local epsilon {mechanism.local_epsilon:.4g}"
    return words


def mechanism_terms(mechanism: Mechanism) -> Terms:
    """Return what a proven line of this mechanism depends on."""
    return Terms(
        neighbours=mechanism.neighbours,
        view=mechanism.view,
        crowd=mechanism.crowd_words,
        method=mechanism.method,
    )


def _own_line(mechanism: Mechanism) -> tuple[str, Style]:
    if mechanism.method == "exact":
        return "exact, worst crowd", "proven"
    if mechanism.method in PROVEN:
        return "proven bound, every crowd", "proven"
    return mechanism.method.replace("-", " "), "assumed"


@dataclass(frozen=True, slots=True)
class _Claim:
    formula: formulas.Formula
    parameters: dict[str, Any]

    points: ClassVar[int] = 200

    @property
    def label(self) -> str:
        return self.formula.label + ("" if self.formula.claimed_delta else _NO_DELTA)

    def delta(self, epsilon: float) -> float:
        if self.formula.claimed_delta is None:
            return 1.0
        try:
            return self.formula.claimed_delta(epsilon=epsilon, **self.parameters)
        except InvalidInput:
            return 1.0

    @property
    def epsilon_alone(self) -> float:
        """Return the epsilon of a formula that knows no delta; NaN for any other formula."""
        if self.formula.claimed_delta is not None or self.formula.claimed_epsilon is None:
            return math.nan
        return self.formula.claimed_epsilon(**self.parameters)


def _claims_about(mechanism: Mechanism) -> tuple[_Claim | Bound, ...]:
    found = next((_FINDERS[kind] for kind in type(mechanism).__mro__ if kind in _FINDERS), None)
    return tuple(found(mechanism)) if found else ()


def _about_bits(mechanism: Any) -> Iterator[_Claim]:
    if mechanism.decoys:
        return
    here = {"users": mechanism.users, "flip_probability": mechanism.flip_probability}
    if mechanism.copies > 1:
        formula = _BY_NAME["three_sigma_copies_flip_probability"]
        yield _Claim(formula, here | {"copies": mechanism.copies})
        return
    # S0 (4.36) is left out: it speaks of one crowd, and these lines of all crowds.
    yield _Claim(_BY_NAME["any_crowd_flip_probability"], here)
    yield _Claim(_BY_NAME["binary_sum_flip_probability"], here)
    yield _Claim(_BY_NAME["three_sigma_flip_probability"], here)


def _about_responders(mechanism: Any) -> Iterator[_Claim]:
    if mechanism.responders:
        here = {"responders": mechanism.responders}
        yield _Claim(_BY_NAME["random_responders_epsilon"], here)


def _about_sample(mechanism: Any) -> Iterator[_Claim]:
    here = {"sampling_rate": mechanism.sampling_rate, "threshold": mechanism.threshold}
    yield _Claim(_BY_NAME["sample_and_threshold_least"], here)


def _about_decoyed(mechanism: Any) -> Iterator[_Claim]:
    if mechanism.rate == 1:
        here = {"decoys": mechanism.senders, "values": mechanism.values}
        yield _Claim(_BY_NAME["clear_decoys"], here)


def _about_values(mechanism: Any) -> Iterator[_Claim]:
    flip = {"flip_probability": mechanism.flip_probability}
    here = flip | {"users": mechanism.users, "decoys": mechanism.decoys}
    yield _Claim(_BY_NAME["flipped_values_flip_probability"], here)
    if mechanism.decoys:
        here = flip | {"decoys": mechanism.decoys}
        yield _Claim(_BY_NAME["decoy_cover_flip_probability"], here)


def _about_table(mechanism: Any) -> Iterator[Bound]:
    exact = exact_form(mechanism) is not mechanism
    for one in amplification_bounds(mechanism):
        # Its own line in the figure is the exact one, or else the bracket of the blanket.
        own = one.kind in ("exact", "at least") or (one.label == "privacy blanket" and not exact)
        if not own:
            yield replace(one, label=f"{one.label}, {one.source}")


_FINDERS: dict[type, Callable[[Any], Iterator[_Claim] | Iterator[Bound]]] = {
    ShuffledRandomizer: _about_table,
    privacy.DecoyedValues: _about_decoyed,
    privacy.FlippedBits: _about_bits,
    privacy.FlippedValues: _about_values,
    privacy.RandomResponders: _about_responders,
    privacy.SampleAndThreshold: _about_sample,
}
