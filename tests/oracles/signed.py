"""Signed decoys by brute force, in balls: every (plus, minus) that can be seen, one by one.

Nothing here knows that the difference of the two kinds of noise and the smaller of them are
independent. The laws of the noise are power series, the law of (plus, minus) is their direct
sum over the number of pairs, and an answer moves it by whole messages. What lies outside a
square of outcomes is 1 minus what lies inside, and can only make delta larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, arb_poly, arb_series, ctx

from tests.oracles.balls import ball, positive_part

Cells = dict[tuple[int, int], arb]
NOTHING = arb(0)


@dataclass(frozen=True, slots=True)
class Noise:
    """P[so many pluses, so many minuses] of all honest users, each below ``size``."""

    cells: Cells
    size: int
    missing: arb

    def moved(self, plus: int, minus: int) -> Cells:
        """Return what is seen with so many messages of an answer, inside the same square."""
        return {
            (u + plus, v + minus): chance
            for (u, v), chance in self.cells.items()
            if u + plus < self.size and v + minus < self.size
        }


def power_series(logarithm: list[arb], start: arb, size: int) -> list[arb]:
    """Return the coefficients of start·exp(Σ logarithm[k]·x^k), of x^0 to x^(size − 1)."""
    before, ctx.cap = ctx.cap, size
    try:
        found: list[arb] = arb_series([NOTHING, *logarithm[1:size]], size).exp().coeffs()
    finally:
        ctx.cap = before
    return [start * one for one in found] + [NOTHING] * (size - len(found))


def one_sign(ratio: Fraction, share: Fraction, size: int, times: int) -> list[arb]:
    """Return NB(share, ratio): (1 − r)^g·(1 − r·x)^−g = (1 − r)^g·exp(g·Σ r^k·x^k/k).

    Each message of it is sent so many times.
    """
    r, g = ball(ratio), ball(share)
    series = [NOTHING] * size
    for k in range(1, -(-size // times)):
        series[times * k] = g * r**k / k
    return power_series(series, (g * (1 - r).log()).exp(), size)


def bursts(flood: Sequence[Fraction], share: Fraction, size: int) -> list[arb]:
    """Return the number of pairs, whose generating function is exp(Σ g·λ_k·(x^k − 1))."""
    rates = [ball(share * rate) for rate in flood]
    return power_series([NOTHING, *rates], (-sum(rates, NOTHING)).exp(), size)


def noise(
    plus: Fraction,
    minus: Fraction,
    flood: Sequence[Fraction],
    share: Fraction,
    size: int,
    *,
    times: int = 1,
) -> Noise:
    """Return the law of (plus, minus): Σ_f P[F = f]·P[Z⁺ = u − f]·P[Z⁻ = v − f]."""
    pairs = arb_poly(bursts(flood, share, size))
    ahead, behind = (one_sign(ratio, share, size, times) for ratio in (plus, minus))
    cells: Cells = {}
    for gap in range(1 - size, size):
        up, down = max(gap, 0), max(-gap, 0)
        # Along one diagonal u − v stays the same, and the sum over f is a product of series.
        length = size - abs(gap)
        line = arb_poly([ahead[up + j] * behind[down + j] for j in range(length)]) * pairs
        chances = line.coeffs()[:length]
        chances += [NOTHING] * (length - len(chances))
        for j, chance in enumerate(chances):
            cells[up + j, down + j] = chance
    return Noise(cells, size, 1 - sum(cells.values(), NOTHING))


def stick(first: Cells, second: Cells, ratio: arb, missing: arb) -> arb:
    """Return the hockey-stick over all outcomes: those in sight, and at most what is missing."""
    total = NOTHING
    for seen, chance in first.items():
        total += positive_part(chance - ratio * second.get(seen, NOTHING))
    half = missing.upper() / 2
    return total + half + arb(0, half)


def outside(view: Cells) -> arb:
    """Return what a view lacks of 1."""
    return 1 - sum(view.values(), NOTHING)


def moved_delta(law: Noise, moved: int, ratio: arb) -> arb:
    """Return the larger delta of both directions where the answer moves by so many steps."""
    higher, lower = law.moved(moved, 0), law.moved(0, moved)
    up = stick(higher, lower, ratio, outside(higher))
    return up.max(stick(lower, higher, ratio, outside(lower)))


def steps_delta(law: Noise, steps: int, ratio: arb) -> arb:
    """Return the largest delta of a number: every change of the answer, in both directions."""
    worst = NOTHING
    for moved in range(1, steps + 1):
        worst = worst.max(moved_delta(law, moved, ratio))
    return worst


def value_delta(law: Noise, ratio: arb) -> arb:
    """Return the larger delta of one value that gains or loses a plus."""
    held, free = law.moved(1, 0), law.cells
    gain = stick(held, free, ratio, outside(held))
    return gain.max(stick(free, held, ratio, outside(free)))


def choice_delta(law: Noise, ratio: arb) -> arb:
    """Return the delta of (one more plus here, none there) against the other way round."""
    held, free = law.moved(1, 0), law.cells
    places = [(held.get(seen, NOTHING), chance) for seen, chance in free.items()]
    total = NOTHING
    for here, other in places:
        # Both values are seen: four numbers, of which these two are the first value's.
        scaled = ratio * other
        for there, gone in places:
            if (gain := here * gone - scaled * there) > 0:
                total += gain
            elif not gain <= 0:
                total += positive_part(gain)
    inside = sum(held.values(), NOTHING) * sum(free.values(), NOTHING)
    half = (1 - inside).upper() / 2
    return total + half + arb(0, half)
