"""One filter: the ratio of two chances of a number of set bits (S4 part II, corrected).

A filter of m bits with y_d set, or y_d + 1 set, is flipped with q and y_x set bits are seen.
With ξ₁ ~ Hypergeometric(m, y_d+1, y_x), ξ₂ ~ Hypergeometric(m, y_d, y_x) and z = (p/q)²,

    R(y_x | y_d) = (q/p) · E[z^ξ₁] / E[z^ξ₂].

Two ways: the expectations themselves, which hold everywhere, and Gauss's continued fraction
for the quotient of two ₂F₁, which needs y_d + y_x < m. Beyond it the mirror image
R(y_x | y_d) = 1/R(m − y_x | m − 1 − y_d) serves.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from chaffinch import checks
from chaffinch.privacy.mechanism import Floats

MOST_BITS = 10**7
_NEGLIGIBLE = 1e-30


def one_filter_ratio(
    *,
    bits: int,
    input_ones: int,
    output_ones: int,
    flip_probability: float | str | Fraction,
    by: str = "expectations",
) -> float:
    """Return P[output_ones | input_ones + 1] / P[output_ones | input_ones].

    ``by`` is "expectations" or "continued-fraction"; they agree to about 1e-14.

    >>> one_filter_ratio(bits=1, input_ones=0, output_ones=1, flip_probability="0.25")
    3.0
    """
    size = checks.whole("number of bits", bits, least=1, most=MOST_BITS)
    ones = checks.whole("number of input ones", input_ones, most=size - 1)
    shown = checks.whole("number of output ones", output_ones, most=size)
    flip = checks.flip_probability(flip_probability)
    way = checks.choice("way", by, ("expectations", "continued-fraction"))
    odds = float((1 - flip) / flip)
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
