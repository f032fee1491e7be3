"""S4 (*Technical details* of "buffling"): the likelihood ratio of one flipped, shuffled filter."""

from __future__ import annotations

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.privacy.published.formula import Formula, flip


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


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="one_filter_ratio",
        source="S4 part II",
        equation="R = (q/p) (m−y−x)/(m−y) ₂F₁(−y−1, −x; m−x−y; p²/q²) / "
        "₂F₁(−y, −x; m−x−y+1; p²/q²)",
        gives="likelihood ratio of x output ones, with y+1 against y input ones",
        domain="x + y < m",
        defect="not valid beyond its domain; its quantile is point-wise, of one pair only",
        compute=one_filter_ratio,
    ),
)
