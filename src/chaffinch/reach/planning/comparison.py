"""Compare what is known of one set of flipped filters: proofs, assumptions, estimates.

Every row says how its number was found and whether it may be promised. S4 (buffling) gives three: a
pair of inputs it takes for the worst, a Monte Carlo estimate of that pair's point-wise loss, and
for one filter the quantile of a likelihood ratio. None of those is a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from chaffinch.charts import rounding
from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy import FlippedFilters
from chaffinch.privacy.guarantee import Method
from chaffinch.privacy.mechanisms.records import MOST_SAMPLES
from chaffinch.privacy.numerics import laws
from chaffinch.privacy.published.one_filter import exact_one_filter_ratio, one_filter_ratio

_Quantity = Literal["epsilon", "signal to noise"]
_SEEN = 10
"""A quantile is read off a sample when at least so many draws are expected beyond it."""
_AT_ONCE = 1_000_000
"""So many samples are taken without being asked for: a few seconds."""

_POINTWISE = "point-wise, which asks for more than the hockey-stick of the same pair"


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure about the filters: ``lower`` ≤ it ≤ ``upper``; both None where it was skipped."""

    name: str
    quantity: _Quantity
    delta: float
    method: Method
    guarantee: bool
    lower: float | None
    upper: float | None
    note: str
    samples: int | None = None
    seed: int | None = None

    @property
    def skipped(self) -> bool:
        """Return whether there is no number; the note then says why."""
        return self.upper is None

    @property
    def value(self) -> str:
        """Return the number for people; what is promised is rounded up."""
        if self.lower is None or self.upper is None:
            return "skipped"
        if self.guarantee:
            return rounding.promise_text(self.upper, 4)
        low, high = f"{self.lower:.4g}", f"{self.upper:.4g}"
        return low if low == high else f"{low} to {high}"

    def document(self) -> dict[str, Any]:
        """Return the row as it is written to JSON."""
        words: dict[str, Any] = {
            "name": self.name,
            "quantity": self.quantity,
            "delta": self.delta,
            "method": self.method,
            "guarantee": self.guarantee,
            "lower": self.lower,
            "upper": self.upper,
            "note": self.note,
        }
        if self.samples is not None:
            words |= {"samples": self.samples, "seed": self.seed}
        return words


def compare(
    mechanism: FlippedFilters,
    delta: float,
    *,
    samples: int | None = None,
    seed: int = 0,
    input_ones: int = 0,
) -> tuple[ComparedFigure, ...]:
    """Return all figures about ``mechanism`` at ``delta``, what is proven first.

    Without a number of ``samples`` as many are taken as the Monte Carlo figure needs, if a
    million will do. ``input_ones`` are the bits that are set before flipping, for the figure of
    one filter.

    >>> filters = FlippedFilters(filters=2, bits=1000, flip_probability="0.2")
    >>> [(row.method, row.guarantee) for row in compare(filters, 1e-3, samples=20_000)]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('upper-bound', True), ('exact', True), ('worst-pair-assumed', False),
     ('monte-carlo', False), ('exact', False)]
    """
    wanted = checks.delta(delta)
    rows = [
        _proven(mechanism, wanted),
        _local(mechanism),
        _assumed(mechanism, wanted),
        _monte_carlo(mechanism, wanted, samples, seed),
    ]
    if mechanism.filters == 1:
        rows.append(_one_filter(mechanism, wanted, input_ones))
    elif input_ones:
        raise InvalidInput("input ones", "left out for several filters", input_ones)
    return (*rows, _loudest(mechanism))


def _proven(mechanism: FlippedFilters, delta: float) -> ComparedFigure:
    found = mechanism.epsilon(delta)
    return ComparedFigure(
        "proven bound",
        "epsilon",
        delta,
        mechanism.method,
        guarantee=True,
        lower=found.lower,
        upper=found.upper,
        note="for every crowd and every replaced column (an id changes one for each hash "
        f"function); the worst crowd found needs {found.lower:.4g}.",
    )


def _point(
    name: str,
    delta: float,
    method: Method,
    value: float | None,
    note: str,
    *,
    guarantee: bool = False,
    quantity: _Quantity = "epsilon",
) -> ComparedFigure:
    return ComparedFigure(name, quantity, delta, method, guarantee, value, value, note)


def _local(mechanism: FlippedFilters) -> ComparedFigure:
    return _point(
        "local epsilon",
        0.0,
        "exact",
        mechanism.local_epsilon,
        guarantee=True,
        note="filters · ln(p/q), with delta 0: what is left if the order of the columns is known.",
    )


def _assumed(mechanism: FlippedFilters, delta: float) -> ComparedFigure:
    pair = mechanism.assumed_pair()
    found = pair.epsilon(delta)
    return ComparedFigure(
        "buffling's pair, certified",
        "epsilon",
        delta,
        pair.method,
        guarantee=False,
        lower=found.lower,
        upper=found.upper,
        note="all columns empty against one full (part III), the hockey-stick delta; other crowds "
        "can be worse.",
    )


def _monte_carlo(
    mechanism: FlippedFilters, delta: float, samples: int | None, seed: int
) -> ComparedFigure:
    """Return what random samples say of epsilon, or how many of them it would take."""
    tail = min(delta, 1.0 - delta)
    needed = math.ceil(_SEEN / tail) if tail > 0 else 0
    size = min(max(needed, 1), _AT_ONCE) if samples is None else samples
    checks.whole("number of samples", size, least=1)
    value = None
    if tail == 0:
        note = "at delta 1 there is no quantile to look for."
    elif size >= needed:
        value = mechanism.monte_carlo(delta=delta, samples=size, seed=seed).epsilon
        note = (
            "quantiles of the pair's loss in random samples, sign corrected (part III.1): "
            f"{_POINTWISE}."
        )
    else:
        note = _too_few(delta, needed, size)
    found = _point("buffling's Monte Carlo", delta, "monte-carlo", value, note)
    return replace(found, samples=size, seed=seed)


def _too_few(delta: float, needed: int, size: int) -> str:
    most = (
        f"--samples {needed} takes them."
        if needed <= MOST_SAMPLES
        else f"--samples takes {MOST_SAMPLES:,} at most, enough for a delta of "
        f"{_SEEN / MOST_SAMPLES:g} or more; by itself it runs for a delta of "
        f"{_SEEN / _AT_ONCE:g} or more (--delta)."
    )
    return (
        f"a quantile at delta {delta:g} needs {needed:,} samples, and {size:,} are allowed: {most}"
    )


def _one_filter(mechanism: FlippedFilters, delta: float, ones: int) -> ComparedFigure:
    """Return S4 II at y_d = ``ones``, from the exact law of the output instead of samples."""
    # R(y_x | y_d) rises with y_x, so its quantiles are R at the quantiles of y_x.
    size, chance = mechanism.bits, mechanism.flip_probability
    before = checks.whole("input ones", ones, most=size - 1)
    flip = float(chance)
    low, _ = _seen_ones(size, before, chance, delta)
    _, high = _seen_ones(size, before + 1, chance, delta)
    value = max(
        -math.log(_ratio(size, before, low, flip)), math.log(_ratio(size, before, high, flip)), 0.0
    )
    return _point(
        "buffling's one filter",
        delta,
        "published",
        value,
        f"quantiles of the likelihood ratio R(y_x | y_d) at y_d = {before}, sign corrected "
        f"(part II): {_POINTWISE}; other y_d can be worse (--input-ones).",
    )


def _seen_ones(size: int, ones: int, flip: Fraction, delta: float) -> tuple[int, int]:
    """Return the least y with P[y_x ≤ y] ≥ delta, and the least with P[y_x > y] ≤ delta."""
    cut = min(delta, 1e-9) * 1e-9
    law = laws.convolve(laws.binomial(ones, 1 - flip, cut), laws.binomial(size - ones, flip, cut))
    below, above = np.cumsum(law.mass), np.cumsum(law.mass[::-1])[::-1]
    low = int(np.argmax(below >= delta)) if below[-1] >= delta else len(below) - 1
    return law.start + low, max(law.start + int(np.count_nonzero(above > delta)) - 1, 0)


def _loudest(mechanism: FlippedFilters) -> ComparedFigure:
    """Return (t^k − 1)/m, the largest ratio over all counts and moves (S4 I, conclusion)."""
    q = mechanism.flip_probability
    step = (1 - q) ** 2 / q + q**2 / (1 - q)
    value = float((step**mechanism.filters - 1) / mechanism.bits)
    return _point(
        "loudest move",
        0.0,
        "exact",
        value,
        quantity="signal to noise",
        note="squared shift over variance of the best linear statistic, all columns empty "
        "(part I); it ranks moves and bounds nothing.",
    )


def _ratio(size: int, before: int, ones: int, flip: float) -> float:
    """Return R(ones | before): as printed for an empty filter, which needs no arrays."""
    if before == 0 and ones < size:
        return one_filter_ratio(bits=size, input_ones=0, output_ones=ones, flip_probability=flip)
    if before == 0:
        # Its mirror image, as the formula asks.
        return 1.0 / one_filter_ratio(
            bits=size, input_ones=size - 1, output_ones=0, flip_probability=flip
        )
    return exact_one_filter_ratio(
        bits=size, input_ones=before, output_ones=ones, flip_probability=flip
    )
