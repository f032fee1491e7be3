"""E[max(0, offset + X₁ + … + X_N)] for independent copies of a finite variable, certified.

Three ways, each for the sums it is quick for; all three keep their relative accuracy down to
expectations of 1e-300:

* ``positive_part_of_sum``: along a line in the complex plane (told and proven in `contours`).
  The cost does not depend on N, but a sum that is positive on a handful of isolated outcomes
  takes many frequencies.
* ``_count_outcomes``: for those. The outcomes are listed (how often each value occurs) from
  the dearest value to the cheapest, as long as the sum stays positive.
* ``mean_positive_part``: for values that lie orders of magnitude apart. Ratios of chances of
  whole words reach (p/q)^L, so that one word may decide the sign of a sum of millions. Such
  values are taken out first, exactly, and one of the other two does the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.numerics.contours import MOST_FREQUENCIES, UNIT, Line
from chaffinch.privacy.numerics.precision import ROUNDOFF, Wide, WideArray, down, up, wide
from chaffinch.privacy.progress import count_step

_Number = float | Fraction

FiniteLaw = tuple[list[Fraction], list[Fraction]]
"""Values and their probabilities, exact."""

_FEW, _MANY = 60, 3000
"""Up to so many variables with so many outcomes in all, all ways they fall are added up."""

_MOST_OUTCOMES = 60_000
_MOST_COUNT = 100_000
"""Up to so many positive outcomes, of so many variables, are listed."""

_SLACK = 2.0**-50
"""Room for a few roundings of doubles in a row."""


def positive_part_of_sum(
    values: Sequence[_Number],
    probabilities: Sequence[_Number],
    count: int,
    *,
    offset: _Number = 0.0,
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
    low, high = shift + count * points[0], shift + count * points[-1]
    if high <= 0:
        return Bracket(0.0, 0.0)
    if count <= _FEW and math.comb(count + len(points) - 1, count) <= _MANY:
        return _add_ways(points, masses, count, shift)
    mean, doubt = _mean(points, masses, count, shift)
    # The sum is never negative, so its positive part is the sum itself.
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


def _add_ways(points: list[Fraction], masses: list[float], count: int, shift: Fraction) -> Bracket:
    """Add up all ways in which the variables can fall; every term is positive.

    A term is off by at most 4·count + 8 roundings. Powers of two are counted apart, so that no
    product of chances underflows: 60 fractions from 1/2 up are above 1e-19, and a multinomial
    coefficient is below 1e57 (at most 3000 terms of 60 variables).
    """
    fractions, powers = zip(*(math.frexp(mass) for mass in masses), strict=True)
    terms: list[tuple[float, int]] = []
    for ways in _compositions(count, len(points)):
        total = shift + sum((k * point for k, point in zip(ways, points, strict=True)))
        if total > 0:
            arrangements, chance, left = 1, 1.0, count
            for k, fraction in zip(ways, fractions, strict=True):
                arrangements *= math.comb(left, k)
                chance *= fraction**k
                left -= k
            power = sum(k * exponent for k, exponent in zip(ways, powers, strict=True))
            terms.append((arrangements * chance * float(total), power))
    # The caller has seen that the largest sum is positive, so there is at least one term.
    top = max(power for _, power in terms)
    # fsum rounds once, whatever the number of terms; what underflows beside the largest of them
    # is less than the last digit of it.
    middle = math.fsum(math.ldexp(term, power - top) for term, power in terms)
    doubt = (4.0 * count + 16.0) * UNIT
    lower, upper = down(middle * (1.0 - doubt)), up(middle * (1.0 + doubt))
    return Bracket(_times(lower, top, -math.inf), _times(upper, top, math.inf))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    for bars in itertools.combinations(range(total + parts - 1), parts - 1):
        # Stars and bars: what lies between two bars is one of the counts.
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
    # The bump is about (τ·tilt)² of the result (step 2 of `contours`): here half of the width.
    smoothing = 0.7 * math.sqrt(width) / line.tilt
    while upper > 1e-300 and upper - lower > width * (upper + beside):
        bracket, frequencies = line.bracket(smoothing, width)
        lower, upper = max(lower, bracket.lower), min(upper, bracket.upper)
        # No more frequencies are affordable: both ends hold, as far apart as they are.
        if frequencies >= MOST_FREQUENCIES:
            break
        doubt = (upper - lower) / (upper + beside)
        # That doubt falls like τ², so τ falls by its root, to between a tenth and a half.
        smoothing *= min(0.5, max(0.1, 0.9 * math.sqrt(width / doubt))) if doubt > 0 else 0.5
    return Bracket(lower, upper)


def _law(
    values: Sequence[_Number], probabilities: Sequence[_Number]
) -> tuple[list[Fraction], list[float]]:
    if len(values) != len(probabilities) or not values:
        raise InvalidInput("probabilities", "as many as the values, at least one", probabilities)
    merged: dict[Fraction, list[float]] = {}
    for value, probability in zip(values, probabilities, strict=True):
        mass = checks.real("probability", probability, least=0.0, most=1.0)
        # A smaller one would lose digits in every product it enters.
        if probability > 0 and mass < 1e-300:
            raise InvalidInput("probability", "0 or at least 1e-300", probability)
        if mass > 0:
            merged.setdefault(_exact("value", value), []).append(mass)
    points = sorted(merged)
    masses = [math.fsum(merged[point]) for point in points]
    if not abs(math.fsum(masses) - 1.0) <= 1e-12:
        raise InvalidInput("probabilities", "numbers that sum to 1", list(probabilities))
    return points, masses


def _exact(parameter: str, value: _Number) -> Fraction:
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


def _count_outcomes(law: FiniteLaw, count: int) -> Bracket | None:
    """Return the bracket of E[(X₁+…+X_N)₊], or None when too many outcomes are positive.

    The values have to differ.
    """
    pairs = sorted(zip(*law, strict=True), reverse=True)
    top = pairs[0][0]
    if top <= 0:
        return Bracket(0.0, 0.0)
    if count > _MOST_COUNT or 0.5 * len(pairs) > math.log2(_MOST_OUTCOMES) + 4:
        return None
    # The sum is N·top less a cost for every value that is not the top; positive while cost < N.
    costs = [float((top - value) / top) for value, _ in pairs[1:]]
    table = _affordable(costs, count)
    if table is None:
        return None
    return _expectation([value / top for value, _ in pairs], [c for _, c in pairs], table, top)


def _affordable(costs: list[float], count: int) -> WideArray | None:
    rows = np.zeros((1, 0), dtype=np.int64)
    # For each row: how many variables have no value yet, and how much the sum may still lose.
    left, budget = np.array([count]), np.array([float(count)])
    for cost in reversed(costs):
        # Rounded up: an outcome too many has no positive part, one too few would be missed.
        most = np.floor(np.minimum(left, budget / cost * (1 + 1e-9) + 1e-6)).astype(np.int64)
        repeats = most + 1
        total = int(repeats.sum())
        if total > _MOST_OUTCOMES:
            return None
        place = np.repeat(np.arange(len(rows)), repeats)
        # 0, 1, … up to the most, for every row so far.
        times = np.arange(total) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        rows = np.column_stack([times, rows[place]])
        left = left[place] - times
        budget = np.maximum(budget[place] - cost * times, 0.0)
    return np.column_stack([left, rows])


def _expectation(
    values: list[Fraction], chances: list[Fraction], table: WideArray, top: Fraction
) -> Bracket:
    """Add up chance times positive part over the outcomes listed, in units of ``top``.

    A sum of k terms of at most the size s is off by at most k·s roundings; where it is positive
    its terms add up to less than twice its positive ones, at most N in these units.
    """
    count = int(table[0].sum())
    logs = np.array([_log(chance) for chance in chances], dtype=Wide)
    factorials = _log_factorials(count)
    # ln of the multinomial chance N!/Πk_i!·Πchance_i^k_i, a row for each outcome.
    exponents = factorials[count] - factorials[table].sum(axis=1) + table @ logs
    sums = table @ np.array([wide(value) for value in values], dtype=Wide)
    size = float(factorials[count]) + count * (4.0 + float(np.max(np.abs(logs))))
    doubt = 8.0 * (len(values) + 4) * ROUNDOFF * (2.0 * size + len(table) + 16.0)
    # An error of the exponent is a relative error of the chance: `doubt` covers it.
    weights = np.exp(exponents)
    slack = 8.0 * (len(values) + 4) * ROUNDOFF * count
    low = np.sum(weights * np.maximum(sums - slack, 0.0)) * (1.0 - doubt)
    high = np.sum(weights * np.maximum(sums + slack, 0.0)) * (1.0 + doubt)
    # In the last units of the scale an outcome's chance may have underflowed, or been rounded up.
    lost = Wide(count) * len(table) * np.finfo(Wide).tiny
    scale = wide(top)
    rounding = 1.0 + 8.0 * ROUNDOFF
    return Bracket(down((low - lost) * scale / rounding), up((high + lost) * scale * rounding))


@lru_cache(maxsize=8)
def _log_factorials(count: int) -> WideArray:
    """Return ln 0!, …, ln count!, off by at most ``count`` roundings of the last."""
    table = np.zeros(count + 1, dtype=Wide)
    table[1:] = np.cumsum(np.log(np.arange(1, count + 1, dtype=Wide)))
    return table


def _log(chance: Fraction) -> Any:
    return np.log(wide(chance))


def mean_positive_part(law: FiniteLaw, count: int, *, relative_width: float) -> Bracket:
    """Return the bracket of E[(X₁+…+X_N)₊]/N.

    A value v ≥ N·|least value| is *heavy*: one occurrence makes the sum positive, whatever
    else happens. With m the chance of the heavy ones and kept the others,

        E[S₊] = (1−m)^N E[S₊ | none] + E[S; some],
        E[S; some] = N·Σ m(v)·v + N·(1−m)·E[X | kept]·(1 − (1−m)^(N−1)).
    """
    count_step("bounds of a mean")
    merged: dict[Fraction, Fraction] = {}
    for value, chance in zip(*law, strict=True):
        merged[value] = merged.get(value, Fraction(0)) + chance
    least = min(merged)
    # One heavy value outweighs N − 1 times the least one.
    heavy = {v: c for v, c in merged.items() if v > 0 and v >= -count * least}
    kept = {v: c for v, c in merged.items() if v not in heavy}
    part = _ordinary(kept, count, relative_width) if kept else Bracket(0.0, 0.0)
    if heavy:
        part = _with_heavy(part, kept, heavy, count)
    return Bracket(down(part.lower / count), up(part.upper / count))


def _ordinary(kept: dict[Fraction, Fraction], count: int, width: float) -> Bracket:
    """Return the bracket given that no heavy value occurs.

    One occurrence of a value v ≤ −N·(largest kept value) makes the sum negative, so all such
    values may be raised to that floor and nothing changes.
    """
    top = max(kept)
    if top <= 0:
        return Bracket(0.0, 0.0)
    total, floor = sum(kept.values()), -count * top
    law: dict[Fraction, Fraction] = {}
    for value, chance in kept.items():
        raised = max(value, floor)
        law[raised] = law.get(raised, Fraction(0)) + chance / total
    # Listing gives up where too many outcomes are positive: that is what lines are quick for.
    listed = list(law), list(law.values())
    part = _count_outcomes(listed, count)
    if part is None or part.relative_width > width:
        part = positive_part_of_sum(*listed, count, relative_width=width)
    return part


def _with_heavy(
    part: Bracket, kept: dict[Fraction, Fraction], heavy: dict[Fraction, Fraction], count: int
) -> Bracket:
    """Add what the heavy values bring; (1−m)^N is off by at most the relative ``doubt``."""
    chance = float(sum(heavy.values()))
    if chance == 1.0:
        mean = float(count * sum(v * c for v, c in heavy.items()))
        return Bracket(down(mean), up(mean))
    rate = math.log1p(-chance)
    doubt = _SLACK * (4.0 + count * abs(rate))
    share = math.exp(count * rate)
    gain = float(count * sum(v * c for v, c in heavy.items()))
    # expm1 keeps the digits of 1 − (1−m)^(N−1) where heavy values are rare.
    loss = float(count * sum(v * c for v, c in kept.items())) * -math.expm1((count - 1) * rate)
    low = share * part.lower * (1.0 - doubt) + gain - abs(gain) * _SLACK
    high = share * part.upper * (1.0 + doubt) + gain + abs(gain) * _SLACK
    slack = abs(loss) * (_SLACK + doubt)
    return Bracket(down(low + loss - slack), up(high + loss + slack))
