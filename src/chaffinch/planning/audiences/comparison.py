"""What is said about one set of flipped filters, side by side: proofs, assumptions, estimates.

Every row says how its number was found and whether it may be promised. S4 (buffling) gives three: a
pair of inputs it takes for the worst, a Monte Carlo estimate of that pair's point-wise loss, and
for one filter the quantile of a likelihood ratio. None of those is a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from chaffinch import checks, rounding
from chaffinch.privacy import FlippedFilters
from chaffinch.privacy.guarantee import Method
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.privacy.published import one_filter_ratio

_Quantity = Literal["epsilon", "signal to noise"]
_SAMPLES = 100_000
_SEEN = 10
"""A quantile is read off a sample when at least so many draws are expected beyond it."""

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
    mechanism: FlippedFilters, delta: float, *, samples: int = _SAMPLES, seed: int = 0
) -> tuple[ComparedFigure, ...]:
    """Return all figures about ``mechanism`` at ``delta``, what is proven first.

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
        rows.append(_one_filter(mechanism, wanted))
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


def _local(mechanism: FlippedFilters) -> ComparedFigure:
    value = mechanism.local_epsilon
    return ComparedFigure(
        "local epsilon",
        "epsilon",
        0.0,
        "exact",
        guarantee=True,
        lower=value,
        upper=value,
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
    mechanism: FlippedFilters, delta: float, samples: int, seed: int
) -> ComparedFigure:
    """Return what random samples say of epsilon, or how many of them it would take."""
    size = checks.whole("number of samples", samples, least=1)
    tail = min(delta, 1.0 - delta)
    value = None
    if size * tail >= _SEEN:
        value = mechanism.monte_carlo(delta=delta, samples=size, seed=seed).epsilon
        note = (
            "quantiles of the pair's loss in random samples, sign corrected (part III.1): "
            f"{_POINTWISE}."
        )
    elif tail > 0:
        note = (
            f"a quantile at delta {delta:g} needs about {math.ceil(_SEEN / tail):,} samples, and "
            f"{size:,} were allowed."
        )
    else:
        note = "at delta 1 there is no quantile to look for."
    return ComparedFigure(
        "buffling's Monte Carlo",
        "epsilon",
        delta,
        "monte-carlo",
        guarantee=False,
        lower=value,
        upper=value,
        note=note,
        samples=size,
        seed=seed,
    )


def _one_filter(mechanism: FlippedFilters, delta: float) -> ComparedFigure:
    """Return S4 II at y_d = 0, from the exact law of the output instead of samples.

    R(y_x | 0) rises with y_x, so its quantiles are R at the quantiles of y_x, which is Bin(m, q)
    without the bit and Bin(m − 1, q) + Bin(1, p) with it.
    """
    size, flip = mechanism.bits, float(mechanism.flip_probability)

    def kept(ones: int) -> float:
        return _at_most(ones, size, flip)

    def left(ones: int) -> float:
        others = size - 1
        return (1 - flip) * _above(ones - 1, others, flip) + flip * _above(ones, others, flip)

    low = bisect_whole(lambda ones: kept(ones) >= delta, good=size, bad=-1)
    high = bisect_whole(lambda ones: left(ones) <= delta, good=size, bad=-1)
    value = max(-math.log(_ratio(size, low, flip)), math.log(_ratio(size, high, flip)), 0.0)
    return ComparedFigure(
        "buffling's one filter",
        "epsilon",
        delta,
        "published",
        guarantee=False,
        lower=value,
        upper=value,
        note="quantiles of the likelihood ratio R(y_x | y_d) at y_d = 0, sign corrected (part II): "
        f"{_POINTWISE}; other y_d can be worse.",
    )


def _loudest(mechanism: FlippedFilters) -> ComparedFigure:
    """Return (t^k − 1)/m, the largest ratio over all counts and moves (S4 I, conclusion)."""
    q = mechanism.flip_probability
    step = (1 - q) ** 2 / q + q**2 / (1 - q)
    value = float((step**mechanism.filters - 1) / mechanism.bits)
    return ComparedFigure(
        "loudest move",
        "signal to noise",
        0.0,
        "exact",
        guarantee=False,
        lower=value,
        upper=value,
        note="squared shift over variance of the best linear statistic, all columns empty "
        "(part I); it ranks moves and bounds nothing.",
    )


def _ratio(size: int, ones: int, flip: float) -> float:
    """Return R(ones | 0); at ones = m by the mirror image, as the formula asks."""
    if ones < size:
        return one_filter_ratio(bits=size, input_ones=0, output_ones=ones, flip_probability=flip)
    return 1.0 / one_filter_ratio(
        bits=size, input_ones=size - 1, output_ones=0, flip_probability=flip
    )


def _at_most(ones: int, size: int, flip: float) -> float:
    return 1.0 if ones >= size else float(special.bdtr(ones, size, flip))


def _above(ones: int, size: int, flip: float) -> float:
    if ones < 0:
        return 1.0
    return 0.0 if ones >= size else float(special.bdtrc(ones, size, flip))
