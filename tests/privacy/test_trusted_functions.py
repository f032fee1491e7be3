"""The functions of libm, numpy and scipy that brackets trust, measured on this platform.

Error bounds count every call as a few roundings of its result; SECURITY.md lists the functions
and how far each may be off. They are called here as the core calls them, on arrays, so that the
vectorised versions are the ones that are measured. A rounding is half a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from chaffinch.privacy.numerics.precision import Wide
from tests.cases import each_case

MOST_UNITS = 4.0
"""What SECURITY.md says of the elementary functions, in units in the last place."""
POINTS = 400

RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-700.0, 700.0), (-1.0, 1.0), (-1e-9, 1e-9)],
    "expm1": [(-40.0, 700.0), (-1.0, 1.0), (-1e-9, 1e-9)],
    "log": [(1e-300, 1e-290), (1e-9, 2.0), (0.99, 1.01), (1.0, 1e300)],
    "log1p": [(-0.999, 1.0), (-1e-9, 1e-9), (1.0, 1e9)],
    "sin": [(-4.0, 4.0), (-1e-6, 1e-6), (-1e9, 1e9)],
    "cos": [(-4.0, 4.0), (-1e-6, 1e-6), (-1e9, 1e9)],
}


def exact(value: Any) -> mpmath.mpf:
    """Return a working float as a number of many digits, exactly."""
    mantissa, exponent = np.frexp(value)
    # Two halves of at most 64 bits each hold all digits of every working float.
    high = np.floor(np.ldexp(mantissa, 32))
    low = np.ldexp(np.ldexp(mantissa, 32) - high, 96)
    whole = mpmath.ldexp(int(high), -32) + mpmath.ldexp(int(low), -128)
    return mpmath.ldexp(whole, int(exponent))


def units(found: Any, truth: mpmath.mpf, kind: Any) -> float:
    """Return how far a result is off, in units in its last place."""
    spacing = exact(np.spacing(np.abs(kind(float(truth)) if found == 0 else found)))
    return float(abs(exact(found) - truth) / spacing)


def points(low: float, high: float, kind: Any) -> Any:
    draw = np.random.default_rng(20)
    # Two draws: the second fills the digits that only a wider float has.
    middle = (high - low) * (draw.random(POINTS) + 2.0**-54 * draw.random(POINTS).astype(kind))
    return (kind(low) + middle.astype(kind)).astype(kind)


@each_case("kind", [np.float64, Wide], ids=["double", "wide"])
@each_case("name", RANGES)
def test_elementary_functions_are_as_good_as_trusted(name: str, kind: Any) -> None:
    function, judge = getattr(np, name), getattr(mpmath, name)
    with mpmath.workdps(80):
        for low, high in RANGES[name]:
            given = points(low, high, kind)
            results = zip(given, function(given), strict=True)
            worst = max(units(found, judge(exact(value)), kind) for value, found in results)
            assert worst <= MOST_UNITS, (low, high, worst)


@pytest.mark.parametrize("kind", [np.float64, Wide], ids=["double", "wide"])
@pytest.mark.parametrize(
    ("name", "judge"),
    [("arctan2", mpmath.atan2), ("hypot", mpmath.hypot)],
    ids=["arctan2", "hypot"],
)
def test_functions_of_two_are_as_good_as_trusted(name: str, judge: Any, kind: Any) -> None:
    with mpmath.workdps(80):
        for low, high in [(-1.0, 1.0), (1e-12, 1e-9), (-1e9, 1e9)]:
            one, two = points(low, high, kind), points(0.5, 2.0, kind)
            found = getattr(np, name)(one, two)
            worst = max(
                units(c, judge(exact(a), exact(b)), kind)
                for a, b, c in zip(one, two, found, strict=True)
            )
            assert worst <= MOST_UNITS, (low, high, worst)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p"])
def test_functions_of_one_number_are_as_good_as_trusted(name: str) -> None:
    function: Callable[[float], float] = getattr(math, name)
    judge = getattr(mpmath, name)
    with mpmath.workdps(80):
        for low, high in RANGES[name]:
            given = points(low, high, np.float64)
            found = [function(float(value)) for value in given]
            worst = max(
                units(np.float64(b), judge(exact(a)), np.float64)
                for a, b in zip(given, found, strict=True)
            )
            assert worst <= MOST_UNITS, (low, high, worst)


def test_powers_are_as_good_as_trusted() -> None:
    with mpmath.workdps(80):
        for base in points(0.5, 1.0, np.float64):
            for power in (2, 7, 60):
                truth = exact(base) ** power
                assert units(np.float64(float(base) ** power), truth, np.float64) <= MOST_UNITS


def test_the_normal_law_and_its_quantile_are_as_good_as_trusted() -> None:
    """`tradeoff` allows 1e-9 in mu; `loss` 1e-13 (see test_quantile.py)."""
    with mpmath.workdps(60):
        for place in points(-37.0, 8.0, np.float64):
            truth = mpmath.ncdf(exact(place))
            assert abs(exact(special.ndtr(place)) - truth) <= 1e-12 * truth
        for level in points(1e-12, 0.5, np.float64):
            truth = mpmath.sqrt(2) * mpmath.erfinv(2 * exact(level) - 1)
            assert abs(exact(special.ndtri(level)) - truth) <= 1e-12 * (1 + abs(truth))


@pytest.mark.parametrize("size", [2**6, 2**13])
def test_fourier_transforms_are_as_good_as_trusted(size: int) -> None:
    """A law's transform is off by at most 8·log2(size) roundings of the law's total, 1."""
    draw = np.random.default_rng(21)
    law = draw.dirichlet(np.full(size, 0.05))
    found = np.fft.rfft(law)
    trusted = 8 * 2.0**-53 * (math.log2(size) + 2)
    with mpmath.workdps(40):
        for place in draw.integers(0, size // 2 + 1, 4):
            turns = [mpmath.expjpi(mpmath.mpf(-2 * int(place) * k) / size) for k in range(size)]
            truth = mpmath.fdot((mpmath.mpf(float(m)), t) for m, t in zip(law, turns, strict=True))
            value = mpmath.mpc(float(found[place].real), float(found[place].imag))
            assert abs(value - truth) <= trusted
