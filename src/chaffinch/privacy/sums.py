"""E[max(0, offset + X₁ + … + X_N)] for independent copies of a finite variable, certified.

The cost does not depend on N, and expectations down to 1e-300 keep their relative accuracy.
How it is computed and why the ends hold is told in `contours`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.privacy.contours import MOST_FREQUENCIES, UNIT, Line
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.precision import down, up

Number = float | Fraction

_FEW, _MANY = 60, 3000
"""Up to so many variables with so many outcomes in all, the outcomes are simply counted."""


def positive_part_of_sum(
    values: Sequence[Number],
    probabilities: Sequence[Number],
    count: int,
    *,
    offset: Number = 0.0,
    relative_width: float = 1e-3,
) -> Bracket:
    """Return the bracket of E[max(0, offset + sum of ``count`` iid variables)].

    ``values`` and ``offset`` are taken exactly. ``probabilities`` may be the nearest floats
    to the true ones (the bracket covers a relative error of 2⁻⁵² in each) or Fractions.
    The bracket is as narrow as ``relative_width`` unless half a million frequencies do not
    suffice; its ends hold in any case.

    >>> positive_part_of_sum([1, -1], [0.5, 0.5], 2).upper < 0.501
    True
    """
    size = checks.whole("count", count, least=0, most=2 * checks.LARGEST_CROWD)
    width = checks.real("relative width", relative_width, least=1e-9, most=0.5)
    shift = _exact("offset", offset)
    points, masses = _law(values, probabilities)
    # A power of two in front changes nothing but keeps every float in its range.
    power = _exponent(max(abs(points[0]), abs(points[-1])))
    unit = Fraction(2) ** power
    scaled = _scaled([point / unit for point in points], masses, size, shift / unit, width)
    return Bracket(_times(scaled.lower, power, -math.inf), _times(scaled.upper, power, math.inf))


def _scaled(
    points: list[Fraction], masses: list[float], count: int, shift: Fraction, width: float
) -> Bracket:
    """Return the bracket when the values are of ordinary size; choose the side to work on."""
    low, high = shift + count * points[0], shift + count * points[-1]
    if high <= 0:
        return Bracket(0.0, 0.0)
    if count <= _FEW and math.comb(count + len(points) - 1, count) <= _MANY:
        return _counted(points, masses, count, shift)
    mean, doubt = _mean(points, masses, count, shift)
    if low >= 0:
        low, high = max(low, mean - Fraction(doubt)), min(high, mean + Fraction(doubt))
        return Bracket(down(float(low)), up(float(high)))
    if mean <= 0:
        return _search(points, masses, count, shift, width=width)
    # E[S₊] = E[S] + E[(−S)₊]: the far side is the small one, and small is what tilting is for.
    mirrored = [-v for v in reversed(points)]
    middle = float(mean)
    other = _search(mirrored, masses[::-1], count, -shift, width=width, beside=middle)
    return Bracket(down(middle - doubt + other.lower), up(middle + doubt + other.upper))


def _counted(points: list[Fraction], masses: list[float], count: int, shift: Fraction) -> Bracket:
    """Add up all ways in which the variables can fall; every term is positive.

    A term is off by at most 4·count + 8 roundings, and by an underflow of less than 1e-300
    times its multinomial coefficient, which is below 1e57 (at most 3000 terms of 60 variables).
    """
    terms = []
    for ways in _compositions(count, len(points)):
        total = shift + sum((k * point for k, point in zip(ways, points, strict=True)))
        if total > 0:
            arrangements, chance, left = 1, 1.0, count
            for k, mass in zip(ways, masses, strict=True):
                arrangements *= math.comb(left, k)
                chance *= mass**k
                left -= k
            terms.append(arrangements * chance * float(total))
    middle, doubt = math.fsum(terms), (4.0 * count + 16.0) * UNIT
    lost = 1e-240 * abs(float(shift + count * points[-1]))
    return Bracket(down(middle * (1.0 - doubt)), up(middle * (1.0 + doubt) + lost))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of ``parts`` counts that add up to ``total``."""
    for bars in itertools.combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *bars, total + parts - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def _search(
    points: list[Fraction],
    masses: list[float],
    count: int,
    shift: Fraction,
    *,
    width: float,
    beside: float = 0.0,
) -> Bracket:
    """Refine the smoothing until the bracket is narrow enough, and keep the best ends.

    ``beside`` is a number the result is added to: the width is relative to both together.
    """
    line = Line.through(points, masses, count, shift)
    # S₊ ≤ offset₊ + ΣX₊ is the better start when one rare and huge value carries everything.
    parts = math.fsum(float(v) * m for v, m in zip(points, masses, strict=True) if v > 0)
    plain = up((max(0.0, float(shift)) + count * parts) * (1.0 + 16.0 * UNIT))
    lower, upper = 0.0, min(plain, line.crude_upper())
    smoothing = 0.7 * math.sqrt(width) / line.tilt
    while upper > 1e-300 and upper - lower > width * (upper + beside):
        bracket, frequencies = line.bracket(smoothing, width)
        lower, upper = max(lower, bracket.lower), min(upper, bracket.upper)
        if frequencies >= MOST_FREQUENCIES:
            break
        doubt = (upper - lower) / (upper + beside)
        smoothing *= min(0.5, max(0.1, 0.9 * math.sqrt(width / doubt))) if doubt > 0 else 0.5
    return Bracket(lower, upper)


def _law(
    values: Sequence[Number], probabilities: Sequence[Number]
) -> tuple[list[Fraction], list[float]]:
    """Merge equal values, drop impossible ones, and sort."""
    if len(values) != len(probabilities) or not values:
        raise InvalidInput("probabilities", "as many as the values, at least one", probabilities)
    merged: dict[Fraction, list[float]] = {}
    for value, probability in zip(values, probabilities, strict=True):
        mass = checks.real("probability", probability, least=0.0, most=1.0)
        if probability > 0 and mass < 1e-300:
            raise InvalidInput("probability", "0 or at least 1e-300", probability)
        if mass > 0:
            merged.setdefault(_exact("value", value), []).append(mass)
    points = sorted(merged)
    masses = [math.fsum(merged[point]) for point in points]
    if not abs(math.fsum(masses) - 1.0) <= 1e-12:
        raise InvalidInput("probabilities", "numbers that sum to 1", list(probabilities))
    return points, masses


def _exact(parameter: str, value: Number) -> Fraction:
    """Return a finite number as the rational that it is."""
    if not isinstance(value, Fraction):
        value = checks.real(parameter, value, least=-math.inf)
    return Fraction(value)


def _mean(
    points: list[Fraction], masses: list[float], count: int, shift: Fraction
) -> tuple[Fraction, float]:
    """Return E[S] and how far it may be off when each probability is off by 2⁻⁵⁰ of itself.

    The values are measured from the likeliest one: the true masses sum to one, so the
    error is carried by the others only.
    """
    centre = points[max(range(len(masses)), key=masses.__getitem__)]
    steps = [(p - centre) * Fraction(m) for p, m in zip(points, masses, strict=True)]
    mean = shift + count * (centre + sum(steps))
    size = math.fsum(abs(float(step)) for step in steps)
    return mean, 4.0 * UNIT * (count * size + abs(float(mean)))


def _exponent(value: Fraction) -> int:
    """Return the power of two next to a rational (0 for 0)."""
    return value.numerator.bit_length() - value.denominator.bit_length() if value else 0


def _times(value: float, power: int, side: float) -> float:
    """Return value·2^power, rounded towards ``side`` where the result leaves the normal floats."""
    if value == 0:
        return 0.0
    try:
        product = math.ldexp(value, power)
    except OverflowError:
        return math.inf if side > 0 else math.nextafter(math.inf, 0.0)
    return product if product > 1e-300 else max(0.0, math.nextafter(product, side))
