"""S4 (*Technical details* of "buffling"): the likelihood ratio of one flipped, shuffled filter.

A filter of m bits with y_d of them set, or y_d + 1, is flipped with q, and y_x set bits are
seen. ``one_filter_ratio`` is the claim as printed; ``exact_one_filter_ratio`` is right for all
y_d and y_x, and is what the claim is judged by.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import Floats
from chaffinch.privacy.published.formula import Formula, flip

_MOST_BITS = 10**7
_NEGLIGIBLE = 1e-30
"""A weight this far below the largest changes no digit of a double, in sums of so many."""


def one_filter_ratio(
    *, bits: int, input_ones: int, output_ones: int, flip_probability: float
) -> float:
    """Return S4 part II, the chance of the output with one more input bit set, over without.

    R = (q/p)·(m−y−x)/(m−y)·₂F₁(−y−1, −x; m−x−y; z)/₂F₁(−y, −x; m−x−y+1; z), z = (p/q)², by
    Gauss's continued fraction, for m bits of which y are set before and x after flipping.

    Domain: x + y < m. Defect: beyond it the derivation is not valid (the mirror image
    R(x|y) = 1/R(m−x | m−1−y) serves there); and what S4 reads off it, a quantile of ln R, is
    the point-wise quantity of one pair of inputs, not a guarantee.
    """
    size = checks.whole("bits", bits, least=1)
    before = checks.whole("input ones", input_ones, most=size - 1)
    after = checks.whole("output ones", output_ones, most=size)
    if not before + after < size:
        raise InvalidInput(
            "input ones and output ones together",
            f"below the number of bits, {size}",
            before + after,
            hint="R(x|y) = 1/R(m−x | m−1−y)",
        )
    q = flip(flip_probability)
    z = ((1.0 - q) / q) ** 2
    a, b, c = -before - 1, -after, size - after - before
    # The numerators become zero at i = 2·min(y+1, x) or so: the fraction is finite.
    fraction = 1.0
    for i in range(2 * min(before + 1, after), -1, -1):
        if i % 2:
            factor = (b - c - (i + 1) // 2) * (a + (i + 1) // 2)
        else:
            factor = (a - c - i // 2) * (b + i // 2)
        fraction = 1.0 + factor * z / ((c + i) * (c + i + 1.0) * fraction)
    return q / (1.0 - q) * (size - before - after) / (size - before) * fraction


def exact_one_filter_ratio(
    *,
    bits: int,
    input_ones: int,
    output_ones: int,
    flip_probability: float | str | Fraction,
    by: str = "expectations",
) -> float:
    """Return P[output_ones | input_ones + 1] / P[output_ones | input_ones].

    With ξ₁ ~ Hypergeometric(m, y_d+1, y_x), ξ₂ ~ Hypergeometric(m, y_d, y_x) and z = (p/q)² it
    is (q/p)·E[z^ξ₁]/E[z^ξ₂], which holds everywhere. Gauss's continued fraction for the
    quotient of two ₂F₁ needs y_d + y_x < m; beyond it the mirror image
    R(y_x | y_d) = 1/R(m − y_x | m − 1 − y_d) serves.

    ``by`` is "expectations" or "continued-fraction"; they agree to about 1e-14.

    >>> exact_one_filter_ratio(bits=1, input_ones=0, output_ones=1, flip_probability="0.25")
    3.0
    """
    size = checks.whole("number of bits", bits, least=1, most=_MOST_BITS)
    ones = checks.whole("number of input ones", input_ones, most=size - 1)
    shown = checks.whole("number of output ones", output_ones, most=size)
    chance = checks.flip_probability(flip_probability)
    way = checks.choice("way", by, ("expectations", "continued-fraction"))
    odds = float((1 - chance) / chance)
    if way == "expectations":
        return _by_expectations(size, ones, shown, odds)
    if ones + shown >= size:
        return 1.0 / _by_fraction(size, size - 1 - ones, size - shown, odds)
    return _by_fraction(size, ones, shown, odds)


def _by_expectations(bits: int, ones: int, shown: int, odds: float) -> float:
    """Return (1/odds)·E[z^ξ₁]/E[z^ξ₂] as one mean over the terms of the second expectation.

    Term i of the first is term i of the second times
    (K+1)(m−K−n+i) / ((K+1−i)(m−K)); besides, the first has a term i = K + 1 when n > K. All
    terms are positive, and errors of the common weights cancel.
    """
    first, last = max(0, ones + shown - bits), min(ones, shown)
    i = np.arange(first, last + 1, dtype=np.float64)
    weights = _tilted(bits, ones, shown, odds * odds, i)
    links = (ones + 1) * (bits - ones - shown + i) / ((ones + 1 - i) * (bits - ones))
    total = float(weights @ links)
    if shown > ones:
        total += float(weights[-1]) * odds * odds * (shown - ones) / (bits - ones)
    return total / float(weights.sum()) / odds


def _tilted(bits: int, ones: int, shown: int, z: float, i: Floats) -> Floats:
    """Return C(K, i)·C(m−K, n−i)·zⁱ over its largest value, by ratios of neighbours."""
    ratios = (ones - i[:-1]) * (shown - i[:-1]) * z
    ratios = ratios / ((i[:-1] + 1) * (bits - ones - shown + i[:-1] + 1))
    # The ratios fall, so the mode is where they pass one.
    mode = int(np.searchsorted(-ratios, -1.0))
    weights = np.ones(len(i))
    weights[mode + 1 :] = np.cumprod(ratios[mode:])
    weights[:mode] = np.cumprod(1.0 / ratios[:mode][::-1])[::-1]
    weights[weights < _NEGLIGIBLE] = 0.0
    return weights


def _by_fraction(bits: int, ones: int, shown: int, odds: float) -> float:
    """Return the ratio by Gauss's continued fraction, for ones + shown < bits.

    a = −y_d − 1, b = −y_x, c = m − y_x − y_d; the fraction ends by itself after
    min(2·y_d + 1, 2·y_x) terms, all of them positive, so the backward recursion is stable.
    """
    a, b, c, z = -ones - 1, -shown, bits - shown - ones, odds * odds
    i = np.arange(min(2 * ones + 2, 2 * shown + 1), dtype=np.float64)
    half = np.ceil(i / 2)
    odd = (b - c - half) * (a + half)
    even = (a - c - half) * (b + half)
    terms = np.where(i % 2 == 1, odd, even) / ((c + i) * (c + i + 1)) * z
    value = 1.0
    for term in terms[::-1].tolist():
        value = 1.0 + term / value
    return (bits - ones - shown) / (bits - ones) * value / odds


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="one_filter_ratio",
        label="Technical details of buffling 2020, part II",
        source="S4 part II",
        equation="R = (q/p) (m−y−x)/(m−y) ₂F₁(−y−1, −x; m−x−y; p²/q²) / "
        "₂F₁(−y, −x; m−x−y+1; p²/q²)",
        gives="likelihood ratio of x output ones, with y+1 against y input ones",
        domain="x + y < m",
        defect="not valid beyond its domain; its quantile is point-wise, of one pair only",
        compute=one_filter_ratio,
    ),
)
