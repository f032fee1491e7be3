"""Local randomizers by their names, shuffled: exact chances, a certified bound on both sides.

Each user sends one message; the analyzer sees the multiset of whole messages. The upper end is
the privacy blanket, for every pair of values and every crowd; the lower end a crowd that can exist.
They are often within a percent. A local epsilon that is asked for is met from below: chances are
rationals rounded to the private side, and the numbers are for these.

Unary encodings whose bits travel as messages of their own are another view, with an exact worst
crowd: `FlippedValues`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import ClassVar

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.amplification import (
    CoveredLaw,
    ShuffledRandomizer,
    ShuffledResponse,
    ShuffledTable,
    check_local_epsilon,
    merge_outputs,
)
from chaffinch.privacy.numerics.precision import (
    exp_ends,
    grain_above,
    grain_below,
    log_of,
    log_of_power,
)

__all__ = [
    "DiscreteLaplace",
    "LocalHashing",
    "OptimizedUnary",
    "Rappor",
    "ShuffledResponse",
    "SubsetSelection",
    "SymmetricUnary",
]

_Output = tuple[Fraction, Fraction, Fraction]
_MOST_VALUES = 10**9
_WORTH = Fraction(1, 2**200)
"""A message that supports every value is told apart where it is at least so likely."""
_MOST_HASHES = 8
_LEAST_NOISE = Fraction(1, 10**9)
"""Of the chances of single bits: products of many of them must stay floats."""

# ----------------------------------------------------------------------------
# Randomizers that treat all values alike: unary encodings, local hashing, subset selection.
#
# A message v *supports* a value or does not, and
#
#     P[v sent by x] = base(v)·heavy if v supports x, else base(v)·light,
#
# with a base law of messages that knows no value. What can be told of a pair of values lies in
# which of the two v supports. Every input sends v with at least base(v)·light, which is the
# privacy blanket. Everybody else at a third value (or at one of the pair) is a crowd that can
# exist.


class _Alike(ShuffledRandomizer):
    values: int

    def _account(
        self,
        *,
        asked: float,
        users: int,
        relative_width: float,
        heavy: Fraction,
        light: Fraction,
        supports: dict[tuple[int, ...], Fraction],
        every: Fraction,
    ) -> None:
        """Take the base law of the supports of three values, and of all values at once.

        The ratio of the weights is at most e^asked, which its logarithm rounded up may hide.
        """
        weight = (light, heavy)
        blanket: list[_Output] = []
        for pair in itertools.product((0, 1), repeat=2):
            mass = supports[(*pair, 0)] + supports[(*pair, 1)]
            first, second = weight[pair[0]], weight[pair[1]]
            if pair == (1, 1) and every > _WORTH:
                # Whoever it is from, a message that supports all values is sent with the weight.
                blanket.append((every * heavy, every * heavy, every * heavy))
                mass -= every
            blanket.append((mass * first, mass * second, mass * light))
        holders = range(3 if self.values > 2 else 2)
        crowds = [
            merge_outputs(
                (mass * weight[who[0]], mass * weight[who[1]], mass * weight[who[holder]])
                for who, mass in supports.items()
            )
            for holder in holders
        ]
        super().__init__(
            users=users,
            relative_width=relative_width,
            local_epsilon=min(log_of(heavy / light)[1], asked),
            blankets=[merge_outputs(blanket)],
            crowds=list(dict.fromkeys(crowds)),
        )


class _Unary(_Alike):
    """A one-hot vector, sent whole: a 1 stays with one chance, a 0 becomes 1 with another."""

    def _account_bits(
        self,
        keep: Fraction,
        noise: Fraction,
        *,
        asked: float,
        users: int,
        relative_width: float,
    ) -> None:
        self.keep_probability, self.noise_probability = keep, noise
        self._account(
            asked=asked,
            users=users,
            relative_width=relative_width,
            heavy=keep / noise,
            light=(1 - keep) / (1 - noise),
            supports=_independent(noise),
            every=_small_power(noise, self.values),
        )


class SymmetricUnary(_Unary):
    """A one-hot vector of which every bit is flipped alike, sent whole (basic RAPPOR).

    Bits are flipped with 1/(1 + e^(ε₀/2)).

    >>> SymmetricUnary(local_epsilon=2, values=10, users=10_000).epsilon(1e-6).upper < 0.095
    True
    """

    def __init__(
        self, *, local_epsilon: float, values: int, users: int, relative_width: float = 1e-3
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.values = _values(values)
        # Up: more flips are more private than what was asked for.
        flip = grain_above(1 / (1 + exp_ends(asked / 2)[0]))
        self._account_bits(1 - flip, flip, asked=asked, users=users, relative_width=relative_width)

    def __repr__(self) -> str:
        return f"SymmetricUnary(<{self.values} values>, users={self.users})"


class OptimizedUnary(_Unary):
    """A one-hot vector, sent whole: the set bit is a coin, the others are set with 1/(1 + e^ε₀).

    [Wang, Blocki, Li and Jha 2017], where it has the least variance of all unary encodings.

    >>> OptimizedUnary(local_epsilon=2, values=10, users=10_000).epsilon(1e-6).upper < 0.115
    True
    """

    def __init__(
        self, *, local_epsilon: float, values: int, users: int, relative_width: float = 1e-3
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.values = _values(values)
        noise = grain_above(1 / (1 + exp_ends(asked)[0]))
        self._account_bits(
            Fraction(1, 2), noise, asked=asked, users=users, relative_width=relative_width
        )

    def __repr__(self) -> str:
        return f"OptimizedUnary(<{self.values} values>, users={self.users})"


class LocalHashing(_Alike):
    """A hash function drawn by the user, and the hashed value by response among its ``buckets``.

    [Wang, Blocki, Li and Jha 2017]; without ``buckets`` the number nearest to e^ε₀ + 1. The message
    is the function and the answer; it supports the values that the function sends to the
    answer. The functions are taken to be drawn from all functions. For the upper end any two
    values need to be hashed independently and uniformly; the lower end asks it of any three.

    >>> LocalHashing(local_epsilon=2, values=1000, users=10_000).buckets
    8
    """

    def __init__(
        self,
        *,
        local_epsilon: float,
        values: int,
        users: int,
        buckets: int | None = None,
        relative_width: float = 1e-3,
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.values = _values(values)
        best = round(math.exp(asked)) + 1 if buckets is None else buckets
        self.buckets = checks.whole("number of buckets", best, least=2, most=2**62)
        # Down, from the lower end of e^ε₀: a smaller ratio is more private than what was asked for.
        ratio = grain_below(exp_ends(asked)[0])
        scale = (ratio + self.buckets - 1) / self.buckets
        hit = Fraction(1, self.buckets)
        self._account(
            asked=asked,
            users=users,
            relative_width=relative_width,
            heavy=ratio / scale,
            light=1 / scale,
            supports=_independent(hit),
            # Of more than two values nothing is asked of all at once.
            every=hit**2 if self.values == 2 else Fraction(0),
        )

    def __repr__(self) -> str:
        given = f"<{self.values} values>, buckets={self.buckets}, users={self.users}"
        return f"LocalHashing({given})"


class SubsetSelection(_Alike):
    """A subset of ``size`` values, in which the true one is e^ε₀ times as likely as any other.

    [Ye and Barg 2018]; without ``size`` the number nearest to values/(e^ε₀ + 1). One value is k-ary
    response.

    >>> SubsetSelection(local_epsilon=1, values=10, users=1000).size
    3
    """

    def __init__(
        self,
        *,
        local_epsilon: float,
        values: int,
        users: int,
        size: int | None = None,
        relative_width: float = 1e-3,
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.values = _values(values)
        best = max(1, round(self.values / (math.exp(asked) + 1))) if size is None else size
        self.size = checks.whole("size of the subset", best, least=1, most=self.values - 1)
        ratio = grain_below(exp_ends(asked)[0])
        share = Fraction(self.size, self.values)
        scale = share * ratio + 1 - share
        self._account(
            asked=asked,
            users=users,
            relative_width=relative_width,
            heavy=ratio / scale,
            light=1 / scale,
            supports=_of_subsets(self.values, self.size),
            every=Fraction(0),
        )

    def __repr__(self) -> str:
        return f"SubsetSelection(<{self.values} values>, size={self.size}, users={self.users})"


def _independent(hit: Fraction) -> dict[tuple[int, ...], Fraction]:
    return {
        who: math.prod((hit if one else 1 - hit for one in who), start=Fraction(1))
        for who in itertools.product((0, 1), repeat=3)
    }


def _of_subsets(values: int, size: int) -> dict[tuple[int, ...], Fraction]:
    """Return the law of three members of a uniform subset; of two values the third is nobody."""
    found = {}
    for who in itertools.product((0, 1), repeat=3):
        mass, inside, left = Fraction(1), size, values
        for one in who:
            if left == 0:
                mass = mass if one == 0 else Fraction(0)
                continue
            mass *= Fraction(inside if one else left - inside, left)
            inside, left = inside - one, left - 1
        found[who] = mass
    return found


def _small_power(base: Fraction, power: int) -> Fraction:
    # With 0 the message is not told apart: a bound that is a hair looser, and as true.
    if power * math.log2(base) < math.log2(_WORTH):
        return Fraction(0)
    return base**power


def _values(value: object) -> int:
    return checks.whole("number of values", value, least=2, most=_MOST_VALUES)


# ----------------------------------------------------------------------------
# A number on a grid, with two-sided geometric noise.


class DiscreteLaplace(ShuffledTable):
    """A number on a grid of ``steps`` steps, with two-sided geometric noise, cut off at both ends.

    The noise z has chance (1 − a)/(1 + a)·a^|z|, a = e^(−ε₀/steps): the Laplace law on a grid. What
    falls outside 0…steps is sent as the nearest end [Ghosh, Roughgarden and Sundararajan 2009].

    >>> DiscreteLaplace(local_epsilon=1, steps=4, users=1000).epsilon(1e-6).upper < 0.132
    True
    """

    most_steps: ClassVar[int] = 32

    def __init__(
        self, *, local_epsilon: float, steps: int, users: int, relative_width: float = 1e-3
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.steps = checks.whole("number of steps", steps, least=1, most=self.most_steps)
        # Down: a quotient that was rounded up would be more than was asked for, steps times over.
        step = math.nextafter(asked / self.steps, 0.0)
        self.ratio = grain_above(1 / exp_ends(step)[0])
        if not self.ratio < 1:
            raise InvalidInput("local epsilon", "above 0", local_epsilon)
        rows = [self._row(value) for value in range(self.steps + 1)]
        super().__init__(rows, users=users, relative_width=relative_width)
        self._local = min(self._local, asked)

    def __repr__(self) -> str:
        return f"DiscreteLaplace(steps={self.steps}, users={self.users})"

    def _row(self, value: int) -> list[Fraction]:
        ratio, steps = self.ratio, self.steps
        ends = ratio**value / (1 + ratio), ratio ** (steps - value) / (1 + ratio)
        middle = [
            (1 - ratio) / (1 + ratio) * ratio ** abs(output - value) for output in range(1, steps)
        ]
        return [ends[0], *middle, ends[1]]


# ----------------------------------------------------------------------------
# A Bloom filter that is flipped twice.


class Rappor(ShuffledRandomizer):
    """RAPPOR [Erlingsson et al. 2014]: a Bloom filter, flipped for ever, then for each report.

    A value sets ``hashes`` different bits of ``bits``. The permanent step replaces every bit by a
    fair coin with chance ``permanent`` (f), once for all reports; the instantaneous step sends a 1
    with chance ``one`` (q) for a 1 and ``zero`` (p) for a 0, anew for every report.

    ``reports="one"`` is for one report of each user. ``reports="all"`` is for all reports there
    will ever be, even if they can be linked: they are made from the permanent bits, which are
    then taken to be seen themselves. The pair may share bits: all overlaps are accounted for.

    >>> one = Rappor(bits=128, hashes=2, permanent="1/2", one="3/4", zero="1/2", users=10_000)
    >>> round(one.local_epsilon, 4)
    1.0743
    """

    def __init__(
        self,
        *,
        bits: int,
        hashes: int,
        permanent: float | str | Fraction,
        users: int,
        one: float | str | Fraction = 1,
        zero: float | str | Fraction = 0,
        reports: str = "one",
        relative_width: float = 1e-3,
    ) -> None:
        self.bits = checks.whole("number of bits", bits, least=2, most=10**6)
        most = min(_MOST_HASHES, self.bits // 2)
        self.hashes = checks.whole("number of hashes", hashes, least=1, most=most)
        self.reports = checks.choice("reports", reports, ("one", "all"))
        self.permanent = checks.probability("permanent chance", permanent, below=Fraction(1))
        sent, silent = (
            _chance_or_certain("chance to send a one", one),
            _chance_or_certain("chance to send a zero", zero),
        )
        if not silent < sent:
            raise InvalidInput("chance to send a one", "above that to send a zero", one)
        half = self.permanent / 2
        keep, noise = 1 - half, half
        if self.reports == "one":
            keep, noise = keep * sent + half * silent, half * sent + (1 - half) * silent
        if not (noise >= _LEAST_NOISE and 1 - keep >= _LEAST_NOISE):
            least = f"{float(_LEAST_NOISE):g}"
            rule = f"so large that every bit is wrong with a chance of at least {least}"
            raise InvalidInput("permanent chance", rule, permanent)
        self.keep_probability, self.noise_probability = keep, noise
        overlaps = range(self.hashes)
        ratio = keep * (1 - noise) / (noise * (1 - keep))
        super().__init__(
            users=users,
            relative_width=relative_width,
            local_epsilon=log_of_power(ratio, self.hashes),
            blankets=[
                merge_outputs(_filter_outputs(keep, noise, self.hashes, shared))
                for shared in overlaps
            ],
            crowds=[self._crowd(keep, noise)],
        )

    def __repr__(self) -> str:
        given = f"bits={self.bits}, hashes={self.hashes}, reports={self.reports!r}"
        return f"Rappor({given}, users={self.users})"

    def _crowd(self, keep: Fraction, noise: Fraction) -> CoveredLaw:
        # Filters of three values without a bit in common need so many bits.
        third = 3 * self.hashes <= self.bits
        return merge_outputs(_crowd_outputs(keep, noise, self.hashes, third=third))


def _filter_outputs(keep: Fraction, noise: Fraction, hashes: int, shared: int) -> Iterator[_Output]:
    """Yield (R₀, R₁, cover) by the ones among the bits of the two values and of both.

    Over the base law, in which no value is held, a bit of the value weighs keep/noise for a 1 and
    (1 − keep)/(1 − noise) for a 0. Every input has at least the latter for each of its bits.
    """
    own = hashes - shared
    one, other = keep / noise, (1 - keep) / (1 - noise)
    for i, j, both in itertools.product(range(own + 1), range(own + 1), range(shared + 1)):
        mass = _ones(own, i, noise) * _ones(own, j, noise) * _ones(shared, both, noise)
        first = one ** (i + both) * other ** (hashes - i - both)
        second = one ** (j + both) * other ** (hashes - j - both)
        yield mass * first, mass * second, mass * other**hashes


def _crowd_outputs(
    keep: Fraction, noise: Fraction, hashes: int, *, third: bool
) -> Iterator[_Output]:
    """Yield (R₀, R₁, chance from everybody else) for two values without a bit in common."""
    one, other = keep / noise, (1 - keep) / (1 - noise)

    def weight(ones: int) -> Fraction:
        return one**ones * other ** (hashes - ones)

    counts = range(hashes + 1)
    for i, j, rest in itertools.product(counts, counts, counts if third else (0,)):
        mass = _ones(hashes, i, noise) * _ones(hashes, j, noise)
        if third:
            mass *= _ones(hashes, rest, noise)
        yield mass * weight(i), mass * weight(j), mass * weight(rest if third else i)


def _ones(bits: int, ones: int, chance: Fraction) -> Fraction:
    return math.comb(bits, ones) * chance**ones * (1 - chance) ** (bits - ones)


def _chance_or_certain(parameter: str, value: float | str | Fraction) -> Fraction:
    # A step may send a bit for certain; `checks.probability` refuses both ends.
    if value in (0, 1):
        return Fraction(value)
    return checks.probability(parameter, value, below=Fraction(1))
