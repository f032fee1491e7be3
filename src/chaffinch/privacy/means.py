"""E[(X₁+…+X_N)₊]/N for laws whose values lie orders of magnitude apart.

Ratios of chances of whole words reach (p/q)^L, so one word may decide the sign of a sum of
millions. Such values are taken out first, exactly, and the rest is of ordinary size:

* *heavy*: v ≥ N·|least value|. One occurrence makes the sum positive, whatever else happens.
  With m their chance and kept the others,
  E[S₊] = (1−m)^N E[S₊ | none] + E[S; some], and the last term is
  N·Σ m(v)·v + N·(1−m)·E[X | kept]·(1 − (1−m)^(N−1)).
* *ruinous*: v ≤ −N·(largest kept value). One occurrence makes the sum negative, so all of
  them may be set to −N·(largest kept value) and nothing changes.
"""

from __future__ import annotations

import math
from fractions import Fraction

from chaffinch.privacy.counted import counted
from chaffinch.privacy.guarantee import Bracket
from chaffinch.privacy.precision import down, up
from chaffinch.privacy.sums import positive_part_of_sum
from chaffinch.privacy.words import Law

_UNIT = 2.0**-50


def mean_positive_part(law: Law, count: int, *, relative_width: float) -> Bracket:
    """Return the bracket of E[(X₁+…+X_N)₊]/N."""
    merged: dict[Fraction, Fraction] = {}
    for value, chance in zip(*law, strict=True):
        merged[value] = merged.get(value, Fraction(0)) + chance
    least = min(merged)
    heavy = {v: c for v, c in merged.items() if v > 0 and v >= -count * least}
    kept = {v: c for v, c in merged.items() if v not in heavy}
    part = _ordinary(kept, count, relative_width) if kept else Bracket(0.0, 0.0)
    if heavy:
        part = _with_heavy(part, kept, heavy, count)
    return Bracket(down(part.lower / count), up(part.upper / count))


def _ordinary(kept: dict[Fraction, Fraction], count: int, width: float) -> Bracket:
    """Return the bracket given that no heavy value occurs."""
    top = max(kept)
    if top <= 0:
        return Bracket(0.0, 0.0)
    total, floor = sum(kept.values()), -count * top
    law: dict[Fraction, Fraction] = {}
    for value, chance in kept.items():
        raised = max(value, floor)
        law[raised] = law.get(raised, Fraction(0)) + chance / total
    listed = list(law), list(law.values())
    part = counted(listed, count)
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
    doubt = _UNIT * (4.0 + count * abs(rate))
    share = math.exp(count * rate)
    gain = float(count * sum(v * c for v, c in heavy.items()))
    loss = float(count * sum(v * c for v, c in kept.items())) * -math.expm1((count - 1) * rate)
    low = share * part.lower * (1.0 - doubt) + gain - abs(gain) * _UNIT
    high = share * part.upper * (1.0 + doubt) + gain + abs(gain) * _UNIT
    slack = abs(loss) * (_UNIT + doubt)
    return Bracket(down(low + loss - slack), up(high + loss + slack))
