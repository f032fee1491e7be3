"""Randomizers that treat all values alike: unary encodings, local hashing, subset selection.

A message v *supports* a value or does not, and

    P[v sent by x] = base(v)·heavy if v supports x, else base(v)·light,

with a base law of messages that knows no value. What can be told of a pair of values lies in
which of the two v supports. Every input sends v with at least base(v)·light, which is the
privacy blanket. Everybody else at a third value (or at one of the pair) is a crowd that can exist.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from chaffinch.errors import checks
from chaffinch.privacy.numerics.precision import exp_ends, grain_above, grain_below, log_of
from chaffinch.privacy.shuffled_randomizers import (
    ShuffledRandomizer,
    check_local_epsilon,
    merge_outputs,
)

_Output = tuple[Fraction, Fraction, Fraction]
_MOST_VALUES = 10**9
_WORTH = Fraction(1, 2**200)
"""A message that supports every value is told apart where it is at least so likely."""


class _Alike(ShuffledRandomizer):
    """A randomizer that treats all values alike, from who supports what."""

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
    """Return the law of three supports that are independent."""
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
    """Return base^power, or 0 where it is below what is worth telling apart."""
    if power * math.log2(base) < math.log2(_WORTH):
        return Fraction(0)
    return base**power


def _values(value: object) -> int:
    return checks.whole("number of values", value, least=2, most=_MOST_VALUES)
