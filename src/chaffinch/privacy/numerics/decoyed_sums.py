"""Two sums among random decoys: flipped one-hot records of which only two values matter.

The target moves a one from the first sum to the second. Each of the ``decoys`` is on the
first value with chance 1/d, on the second with chance 1/d, else on neither, and every bit is
flipped. Where the decoys fell is not seen, but the sums of the other values tell something of
it. Two laws enclose what is seen (S0 §5.3):

* *The two sums alone* are less than the view: a lower end. Given that k decoys are on the first
  value, each other one is on the second with chance 1/(d − 1), so both sums are independent sums
  of bits, and the joint law is Σ_k P(k)·F_k ⊗ G_k: a product of matrices.
* *The two sums and T*, the number of decoys on either value, are more than the view: an upper
  end. Given T the other sums tell nothing more, since their bits are flipped apart. Each of the T
  decoys tosses a coin between both values. A group of numbers T is bounded by the records
  that are there for all of them: adding records never hurts.

All terms are positive, so sums keep their relative accuracy however small a delta is. The honest
others are independent sums of bits, added along one axis each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from chaffinch.privacy.numerics.laws import Law, binomial, convolve
from chaffinch.privacy.numerics.precision import Floats, down, exp_ends, product, up

_ROUNDOFF = 2.0**-53
_UNDERFLOW = 1e-290
"""More than all products that are too small for a double can add up to."""
_ANY_NUMBER = 2**62
_LARGEST = 700.0
"""e to the power of it is still a double."""
_FARTHEST = 4.0
"""Numbers of decoys on the two values are grouped up to so many standard deviations."""
_FEW = 12
"""So many numbers are not grouped."""
_COARSER = 3


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The joint law of both sums (rows: the first), in doubles; errors as those of a ``Law``."""

    mass: Floats
    relative: float
    missing: float


class Group(NamedTuple):
    """Numbers of decoys on the two values: how likely they are, the fewest and the most."""

    chance: float
    fewest: int
    most: int


class Groups(NamedTuple):
    """Groups of numbers, the same a few at a time, and the chance of all numbers in none."""

    fine: list[Group]
    coarse: list[Group]
    missing: float


@dataclass(frozen=True)
class UniformDecoys:
    """``count`` decoys over ``values`` values, each bit flipped with ``flip``."""

    count: int
    values: int
    flip: Fraction

    def groups(self, step: float, tail: Any) -> Groups:
        """Return groups of how many decoys are on either of the two values.

        Each spans ``step`` standard deviations. Any groups are sound, as a group counts with its
        fewest and its most; larger ones lose more.
        """
        return _groups(self.count, self.values, step, tail)

    def coins(self, count: int, tail: Any) -> Table:
        """Return the law of the sums of ``count`` decoys that are on one of the two values."""
        return _coins(count, self.flip, tail)

    def anywhere(self, tail: Any) -> Table:
        """Return the law of the sums of all decoys, wherever they are."""
        return _anywhere(self.count, self.values, self.flip, tail)


@lru_cache(maxsize=64)
def _groups(count: int, values: int, step: float, tail: Any) -> Groups:
    law = binomial(count, Fraction(2, values), tail)
    middle, spread = 2 * count / values, math.sqrt(2 * count * (values - 2)) / values
    cuts = {round(middle + z * spread) for z in np.arange(-_FARTHEST, _FARTHEST, step)}
    begins = sorted({law.start} | {cut for cut in cuts if law.start < cut < law.stop})
    if law.stop - law.start <= _FEW:
        begins = [*range(law.start, law.stop)]

    def made(begins: list[int]) -> list[Group]:
        found = []
        for begin, end in itertools.pairwise([*begins, law.stop]):
            part = law.mass[begin - law.start : end - law.start]
            # Up: the chance of a group is a factor of an upper end.
            chance = up(part.sum() * (1 + law.relative) * (1 + 2.0**-50))
            found.append(Group(chance, begin, end - 1))
        return found

    return Groups(made(begins), made(begins[::_COARSER]), up(law.missing))


@lru_cache(maxsize=64)
def _coins(count: int, flip: Fraction, tail: Any) -> Table:
    halves = binomial(count, Fraction(1, 2), tail)
    places = range(halves.start, halves.stop)
    here = [flips(k, count - k, flip, tail) for k in places]
    # On the second value are those that are not on the first.
    there = [flips(count - k, k, flip, tail) for k in places]
    return _mixture(halves, here, there, tail)


@lru_cache(maxsize=8)
def _anywhere(count: int, values: int, flip: Fraction, tail: Any) -> Table:
    first = binomial(count, Fraction(1, values), tail)
    # The bit of a decoy that is not on the first value.
    chance = flip + (1 - 2 * flip) / (values - 1)
    here, there = [], []
    for k in range(first.start, first.stop):
        here.append(flips(k, count - k, flip, tail))
        there.append(_sum(binomial(k, flip, tail), binomial(count - k, chance, tail)))
    return _mixture(first, here, there, tail)


def flips(ones: int, zeros: int, flip: Fraction, tail: Any) -> Law:
    """Return the sum of flipped bits of so many ones and zeros, summed directly."""
    return _sum(binomial(ones, 1 - flip, tail), binomial(zeros, flip, tail))


def _sum(first: Law, second: Law) -> Law:
    return convolve(first, second, most_products=_ANY_NUMBER)


def _mixture(weights: Law, here: Sequence[Law], there: Sequence[Law], tail: Any) -> Table:
    """Return Σ_k weights(k)·here_k ⊗ there_k, without sums that are rarer than ``tail``."""
    left, right = _rows(here), _rows(there)
    # Σ_k of outer products is one product of matrices: many times as fast as a loop.
    mass = product(np.ascontiguousarray((left * weights.mass.astype(np.float64)[:, None]).T), right)
    relative = (
        float(weights.relative)
        + max(float(law.relative) for law in here)
        + max(float(law.relative) for law in there)
        + (len(here) + 8) * 2 * _ROUNDOFF
    )
    # Weights add up to one: on average no more is missing than in the worst of the laws.
    missing = (
        float(weights.missing)
        + max(float(law.missing) for law in here)
        + max(float(law.missing) for law in there)
    )
    rows, lost_rows = _kept(mass.sum(axis=1), tail)
    columns, lost_columns = _kept(mass.sum(axis=0), tail)
    missing += lost_rows + lost_columns
    kept = np.ascontiguousarray(mass[rows, columns])
    return Table(kept, 1.01 * relative, 1.01 * missing + _UNDERFLOW)


def _kept(sums: Floats, tail: Any) -> tuple[slice, float]:
    """Return where a law is without half of ``tail`` at either end, and what that leaves out."""
    low = int(np.searchsorted(np.cumsum(sums), 0.5 * float(tail)))
    high = len(sums) - int(np.searchsorted(np.cumsum(sums[::-1]), 0.5 * float(tail)))
    return slice(low, high), float(sums[:low].sum() + sums[high:].sum()) * (1 + 1e-9)


def _rows(laws: Sequence[Law]) -> Floats:
    start = min(law.start for law in laws)
    rows = np.zeros((len(laws), max(law.stop for law in laws) - start))
    for row, law in zip(rows, laws, strict=True):
        row[law.start - start : law.stop - start] = law.mass
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class TwoViews:
    """The laws of both sums, the target's record on the first value (stay) or the second (move)."""

    stay: Floats
    move: Floats
    relative: float
    missing: float

    def upper_deltas(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at rising epsilons."""
        return np.array([up(s + self.missing) for s in self._sums(epsilons, 1.0)])

    def lower_deltas(self, epsilons: Floats) -> Floats:
        """Return lower ends of delta at rising epsilons."""
        ends = []
        for epsilon, total in zip(epsilons, self._sums(epsilons, -1.0), strict=True):
            growth = float(exp_ends(min(float(epsilon), _LARGEST))[1]) * (1 + 2.0**-50)
            # What the second law lacks inside the window.
            known = down(total - growth * self.missing)
            ends.append(known if epsilon <= _LARGEST else 0.0)
        return np.array(ends)

    def _sums(self, epsilons: Floats, side: float) -> Iterator[float]:
        """Yield Σ (stay − e^ε·move)₊, rounded up for side 1 and down for −1."""
        wider = side * (self.relative + 16 * _ROUNDOFF)
        # Both laws are taken wider here, and the number of terms counts at worst.
        total = (1 + wider) * (1 + side * (self.stay.size + 8) * _ROUNDOFF)
        stay, move = self.stay.ravel(), self.move.ravel()
        for epsilon in epsilons:
            # Delta falls as epsilon rises: an upper end at a smaller one holds.
            below, above = exp_ends(min(float(epsilon), _LARGEST))
            growth = float(below if side > 0 else above) * (1 - wider) / (1 + wider)
            excess = move * -growth
            excess += stay
            if len(epsilons) > 1:
                # An outcome that gains nothing gains nothing at any larger epsilon either.
                kept = excess > 0
                excess, stay, move = excess[kept], stay[kept], move[kept]
            else:
                np.maximum(excess, 0.0, out=excess)
            yield float(excess.sum()) * total


def two_views(decoys: Table, first: Law, second: Law, flip: Fraction, tail: Any) -> TwoViews:
    """Return the laws of the sums of decoys, of the others at either value, and of the target.

    Sums so rare that all of them together have less chance than ``tail`` are left out.
    """
    wrong, right = float(flip), float(1 - flip)
    down_rows, lost_rows = _added(first, decoys.mass.sum(axis=1), tail)
    down_columns, lost_columns = _added(second, decoys.mass.sum(axis=0), tail)
    rows = product(down_rows, decoys.mass)
    # One row and column more at every edge, for the bits of the target.
    others = np.pad(product(rows, np.ascontiguousarray(down_columns.T)), 1)
    # The target's two bits are (1, 0) or (0, 1), each of them flipped.
    here, there = others[:-1, 1:], others[1:, :-1]
    # Both bits 0, or both 1: p·q in either law, so the outcome tells nothing of the value.
    told = others[1:, 1:] + others[:-1, :-1]
    told *= right * wrong
    stay, move = _mixed(here, right**2, there, wrong**2), _mixed(here, wrong**2, there, right**2)
    stay += told
    move += told
    relative = (
        decoys.relative
        + float(first.relative)
        + float(second.relative)
        + (2 * max(decoys.mass.shape) + 40) * 2 * _ROUNDOFF
    )
    missing = (
        decoys.missing + float(first.missing) + float(second.missing) + lost_rows + lost_columns
    )
    return TwoViews(stay, move, 1.01 * relative, 1.01 * missing + _UNDERFLOW)


def _mixed(one: Floats, share: float, two: Floats, rest: float) -> Floats:
    mixed: Floats = one * share
    mixed += two * rest
    return mixed


def _added(law: Law, marginal: Floats, tail: Any) -> tuple[Floats, float]:
    """Return the matrix that adds a number with this law, and the chance of what it leaves out.

    Column j is the law moved by j. Rows are left out where the sum with a number of the law
    ``marginal`` hardly ever is.
    """
    size = len(marginal)
    mass = law.mass.astype(np.float64)
    sums = np.convolve(mass, marginal)
    rows, lost = _kept(sums, tail)
    moved = np.lib.stride_tricks.sliding_window_view(np.pad(mass, size - 1), size)[rows, ::-1]
    return np.ascontiguousarray(moved), lost
