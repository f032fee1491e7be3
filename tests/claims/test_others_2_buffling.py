"""What the program behind S4 computes, where it is not what S4 says."""

from __future__ import annotations

from fractions import Fraction

from .ledger import CORRECTED, FALSE, claim
from .test_s4_2_one_filter import CASES, gauss, power_mean


def quotient(a: int, b: int, c: int, z: Fraction) -> Fraction:
    """₂F₁(a, b; c; z)/₂F₁(a + 1, b; c + 1; z), which end by themselves here."""
    above, below = gauss(a, b, c, z), gauss(a + 1, b, c + 1, z)
    assert above is not None
    assert below is not None
    return above / below


def computed(m: int, yd: int, yx: int, z: Fraction) -> Fraction:
    """What ratio_of_hypergeometric_mgf returns, beyond the rounding of its fraction."""
    if yd + yx > m:
        yd, yx = m - yd, m - yx
    c = m - yx - yd
    return Fraction(max(c, 1), m - yx) * quotient(-yd - 1, -yx, c, z)


def truth(m: int, yd: int, yx: int, z: Fraction) -> Fraction:
    return power_mean(m, yd + 1, yx, z) / power_mean(m, yd, yx, z)


@claim(
    "others",
    "buffling, ratio_of_hypergeometric_mgf",
    "The ratio of E[z^ξ₁] to E[z^ξ₂] is (m − y_d − y_x)/(m − y_x) times ₂F₁(a, b; c; z)/"
    "₂F₁(a + 1, b; c + 1; z).",
    CORRECTED,
    correction="Divide by m − y_d, as S4 II.2 has it: the program (googleinterns/amt-xpub, commit "
    "59afe29) divides by the wrong count. For y_d + y_x < m the two agree where y_d = y_x only.",
    counter_example="m = 2, y_d = 0, y_x = 1, q = 1/4 (z = 9): 10 by the program, 5 in truth. "
    "None with m = 1.",
)
def test_ratio_divides_by_the_wrong_count() -> None:
    wrong = []
    for q, m, yd in CASES:
        z = ((1 - q) / q) ** 2
        for yx in range(m - yd):
            ratio = quotient(-yd - 1, -yx, m - yx - yd, z)
            assert truth(m, yd, yx, z) == Fraction(m - yd - yx, m - yd) * ratio
            assert (computed(m, yd, yx, z) == truth(m, yd, yx, z)) is (yd == yx)
            if yd != yx:
                wrong.append(m)
    assert min(wrong) == 2
    assert computed(2, 0, 1, Fraction(9)) == 10
    assert truth(2, 0, 1, Fraction(9)) == 5


@claim(
    "others",
    "buffling, its mirror image",
    "For y_d + y_x > m the ratio is that of m − y_d input ones and m − y_x output ones.",
    FALSE,
    correction="It is the reciprocal, with m − 1 − y_d: R(y_x | y_d) = 1/R(m − y_x | m − 1 − y_d), "
    "where R = (q/p)·ratio.",
    counter_example="m = 2, y_d = 1, y_x = 2, q = 1/4 (z = 9): 1/2 by the program, 9 in truth.",
)
def test_the_mirror_is_no_mirror() -> None:
    for q, m, yd in CASES:
        z = ((1 - q) / q) ** 2
        for yx in range(m - yd + 1, m + 1):
            assert computed(m, yd, yx, z) != truth(m, yd, yx, z)
            mirrored = truth(m, m - 1 - yd, m - yx, z)
            assert truth(m, yd, yx, z) == z / mirrored
    assert computed(2, 1, 2, Fraction(9)) == Fraction(1, 2)
    assert truth(2, 1, 2, Fraction(9)) == 9
