"""What shuffling adds to any local randomizer: the privacy blanket and the clone bound.

Both are *covered sums*. Let the records of a crowd be covered by a law: every other user's
message is, with chance m(v), an untraceable v (the chances may sum to less than one; the rest is
revealed). Then for a target that holds x₀ or x₁, and n users,

    δ(ε) ≤ (1/n)·E[(Y₁ + … + Y_n)₊] + Σ_{v: m(v)=0} (R₀(v) − e^ε R₁(v))₊,

with Yᵢ independent, Y = (R₀(v) − e^ε R₁(v))/m(v) with chance m(v) and 0 otherwise. It is
exact when nothing is revealed, that is when all others hold the same value. The proof is in
docs/concepts/privacy-blanket.md. The sum is certified by `sums.positive_part_of_sum`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.laws import binomial
from chaffinch.privacy.numerics.precision import Floats, Wide, down, exp_ends, log_of, up, wide
from chaffinch.privacy.numerics.roots import Curve, find_crossing, find_crossing_below
from chaffinch.privacy.numerics.sums import positive_part_of_sum

__all__ = [
    "ShuffledResponse",
    "ShuffledTable",
    "clone_delta",
    "clone_epsilon",
    "clone_epsilon_closed_form",
]

LARGEST_EPSILON = 2.0**9
_TOLERANCE = 1e-9
_LARGEST_LOCAL = 30.0
"""The largest local epsilon that a randomizer is made for."""
_LARGEST_GROWTH = 2.0**12
"""Beyond this epsilon a table with zeros has its delta from here as upper end, and 0 as lower."""
_ALL_COVERS = 8
"""Of tables with more inputs than this only the likeliest worst crowds are tried for each pair."""
_MOST_OUTCOMES = 2_000_000


@dataclass(frozen=True, slots=True)
class CoveredLaw:
    """Outputs as (chance from x₀, chance from x₁, chance of cover), all exact."""

    outputs: tuple[tuple[Fraction, Fraction, Fraction], ...]

    def at(self, growth: Fraction, users: int, width: float) -> Bracket:
        """Return the bracket at e^ε = growth, exactly."""
        # With chance 1 − Σm(v) a message of the crowd is revealed: there Y is 0.
        values, masses = [Fraction(0)], [1 - sum(cover for _, _, cover in self.outputs)]
        bare = Fraction(0)
        for first, second, cover in self.outputs:
            excess = first - growth * second
            if cover == 0:
                # No other message covers this output: whoever sees it learns its whole excess.
                bare += max(excess, Fraction(0))
            else:
                values.append(excess / cover)
                masses.append(cover)
        # δ ≤ (1/n)·E[(ΣY)₊] + bare: the equation at the top of this file.
        part = positive_part_of_sum(values, masses, users, relative_width=width)
        if part.upper == 0 and bare == 0:
            return Bracket(0.0, 0.0)
        # A quotient or a rational too small for a float still is above 0: `up` says so.
        upper = up(up(part.upper / users) + up(bare))
        return Bracket(down(down(part.lower / users) + down(bare)), upper)


def merge_outputs(outputs: Iterable[tuple[Fraction, Fraction, Fraction]]) -> CoveredLaw:
    """Return a law whose outputs differ in their ratios: equal ones say the same of the target.

    Sorting makes laws that differ only in the names of their outputs equal.
    """
    sums: dict[tuple[Fraction, Fraction, bool], list[Fraction]] = {}
    for first, second, cover in outputs:
        # Y depends on R₀/m and R₁/m alone (uncovered, on R₀ : R₁), so outputs that agree in these
        # add up.
        scale = cover if cover > 0 else first + second
        if scale == 0:
            continue
        total = sums.setdefault((first / scale, second / scale, cover > 0), [Fraction(0)] * 3)
        for place, value in enumerate((first, second, cover)):
            total[place] += value
    return CoveredLaw(tuple(sorted((a, b, c) for a, b, c in sums.values())))


class ShuffledRandomizer(Mechanism):
    """One message of each user, shuffled: an upper end from blankets, a lower one from crowds.

    ``blankets`` are covered by what every input sends anyway, one law for each pair of inputs
    (or each kind of pairs); ``crowds`` by what all others send who hold one value.
    """

    view = "records"
    method: Method = "upper-bound"

    def __init__(
        self,
        *,
        users: int,
        relative_width: float,
        local_epsilon: float,
        blankets: Sequence[CoveredLaw],
        crowds: Sequence[CoveredLaw],
    ) -> None:
        self.users = checks.people("users", users)
        self.relative_width = checks.real("relative width", relative_width, least=1e-6, most=0.5)
        self._local = local_epsilon
        self._blankets = blankets
        self._crowds = crowds

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"at least {self.users} honest users, the target included, with any values"

    @property
    def local_epsilon(self) -> float:
        """Return the largest ln of a ratio of two inputs' chances of one output, rounded up."""
        return self._local

    @property
    def blanket(self) -> float:
        """Return γ: the chance that a message carries no information about its sender."""
        return float(sum(cover for _, _, cover in self._blankets[0].outputs))

    @property
    def variation(self) -> float:
        """Return the largest total variation distance of two inputs."""
        return max(
            float(sum((max(a - b, Fraction(0)) for a, b, _ in law.outputs), Fraction(0)))
            for law in self._blankets
        )

    def delta(self, epsilon: float) -> Bracket:
        """Return (worst crowd found, privacy blanket) at ``epsilon``."""
        wanted = checks.epsilon(epsilon)
        upper = self._upper(wanted)
        return Bracket(min(self._lower(wanted), upper), upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        wanted = checks.delta(delta)
        return solve_between(self._lower, self._upper, wanted, self._local)

    def _upper(self, epsilon: float) -> float:
        if epsilon >= self._local:
            return 0.0
        # Rounded down, and capped: δ falls as e^ε rises, so this is an upper end.
        growth = exp_ends(min(epsilon, _LARGEST_GROWTH))[0]
        ends = [law.at(growth, self.users, self.relative_width) for law in self._blankets]
        return min(1.0, max(end.upper for end in ends))

    def _lower(self, epsilon: float) -> float:
        if epsilon >= self._local or epsilon > _LARGEST_GROWTH:
            return 0.0
        # Rounded up: δ falls as e^ε rises, so this is a lower end.
        growth = exp_ends(epsilon)[1]
        ends = [law.at(growth, self.users, self.relative_width) for law in self._crowds]
        return max(end.lower for end in ends)


def solve_between(lower: Curve, upper: Curve, delta: float, most: float) -> Bracket:
    """Return the bracket of the epsilon where a falling curve, known from both sides, is delta.

    The upper end is an epsilon at which ``upper`` was seen to be at most delta, or ``most``,
    the local epsilon, which may be infinite. The lower end is 0 or an epsilon at which
    ``lower`` was seen to be above delta.
    """
    top = most
    if most <= LARGEST_EPSILON or upper(LARGEST_EPSILON) <= delta:
        last = min(most, LARGEST_EPSILON)
        top = find_crossing(upper, delta, top=last, tolerance=_TOLERANCE)[1]
    if top == 0:
        return Bracket(0.0, 0.0)
    high = min(top, LARGEST_EPSILON)
    # Both curves are often close: the lower crossing is looked for just below the upper one.
    low = find_crossing_below(lower, delta, top=high, tolerance=_TOLERANCE, near=1e-3)[0]
    return Bracket(low, top)


def check_local_epsilon(value: object) -> float:
    """Return a local epsilon above 0 and up to 30."""
    asked = checks.real("local epsilon", value, least=0.0, most=_LARGEST_LOCAL)
    if not asked > 0:
        raise InvalidInput("local epsilon", "above 0", value)
    return asked


class ShuffledTable(ShuffledRandomizer):
    """A user's own randomizer: one message each, shuffled.

    ``table[x][v]`` is the chance that input x sends output v. Entries are taken exactly
    (floats as the dyadic numbers they are) and each row is divided by its sum, which has to
    be 1 up to rounding; the guarantee is for that exact table.

    The upper end is the privacy blanket of Balle, Bell, Gascón and Nissim (2019): proven for
    every crowd and every pair of inputs. The lower end is the worst crowd found among those
    in which all others hold the same value; of more than eight values, one of the pair's own or
    the one that covers their difference least.

    >>> answers = [["3/4", "1/4"], ["1/4", "3/4"]]
    >>> ShuffledTable(answers, users=1000).epsilon(1e-6).upper < 0.34
    True
    """

    def __init__(
        self,
        table: Sequence[Sequence[float | Fraction | str]] | Floats,
        *,
        users: int,
        relative_width: float = 1e-3,
    ) -> None:
        self.table = _exact_rows(table)
        # Every input sends v with at least this chance: so much of a message tells nothing.
        lowest = tuple(min(column) for column in zip(*self.table, strict=True))
        super().__init__(
            users=users,
            relative_width=relative_width,
            local_epsilon=_local_epsilon(self.table),
            blankets=_pair_laws(self.table, [lowest]),
            crowds=_pair_laws(self.table, self.table),
        )

    def __repr__(self) -> str:
        size = f"{len(self.table)} inputs, {len(self.table[0])} outputs"
        return f"ShuffledTable(<{size}>, users={self.users})"

    def instance(self) -> tuple[Floats, Floats]:
        """Return the laws of the messages, of three kinds, for a pair and a crowd of equals.

        The pair and the crowd are those that tell most. Which of the outputs that favour one of
        the two values was sent, the other, or neither, is something an observer can look at.
        """
        floats = np.array(self.table, dtype=np.float64)
        told = [
            (float(_signals(first, second, floats).max()), one, two)
            for one, first in enumerate(self.table)
            for two, second in enumerate(self.table[:one])
        ]
        _, one, two = max(told)
        first, second = self.table[one], self.table[two]
        cover = self.table[int(_signals(first, second, floats).argmax())]
        kinds = [[Fraction(0)] * 3 for _ in range(3)]
        for chances in zip(first, second, cover, strict=True):
            # 1: the output favours the first value; −1, the last index: the second; 0: neither.
            kind = (chances[0] > chances[1]) - (chances[0] < chances[1])
            kinds[kind] = [a + b for a, b in zip(kinds[kind], chances, strict=True)]
        return _three_kinds(kinds[1], kinds[-1], self.users - 1)


class ShuffledResponse(ShuffledTable):
    """k-ary randomized response, shuffled: the value itself, or any other, all as likely.

    The value is sent with chance e^ε₀/(e^ε₀ + k − 1), where ε₀ is ``local_epsilon``. All pairs
    of values are alike, and so are all outputs that neither of a pair nor the crowd holds: the
    ``table`` has three inputs and one output for all the rest, which changes no likelihood.

    >>> ShuffledResponse(local_epsilon=1, values=4, users=100).epsilon(1e-6).upper < 0.3985
    True
    """

    def __init__(
        self, *, local_epsilon: float, values: int, users: int, relative_width: float = 1e-3
    ) -> None:
        asked = checks.real("local epsilon", local_epsilon, least=0.0, most=LARGEST_EPSILON)
        self.values = checks.whole("number of values", values, least=2, most=10**9)
        # A smaller local epsilon is more private. So the upper end takes the larger e^ε₀, the lower
        # end the smaller one.
        small, large = (_response_rows(ratio, self.values) for ratio in exp_ends(asked))
        super().__init__(large, users=users, relative_width=relative_width)
        self._asked = asked
        self._crowds = _pair_laws(small, small)

    def __repr__(self) -> str:
        given = f"local_epsilon={self._asked!r}, values={self.values}, users={self.users}"
        return f"ShuffledResponse({given})"

    @property
    def local_epsilon(self) -> float:
        """Return the local epsilon that was asked for."""
        return self._asked


def _response_rows(ratio: Fraction, values: int) -> tuple[tuple[Fraction, ...], ...]:
    told = min(values, 3)
    one = 1 / (ratio + values - 1)
    # The values beyond the third are alike for every pair and crowd: one output stands for them.
    rest = (one * (values - told),) if values > told else ()
    return tuple(
        tuple(one * ratio if output == row else one for output in range(told)) + rest
        for row in range(told)
    )


def clone_delta(*, local_epsilon: float, users: int, epsilon: float) -> Bracket:
    """Return the clone bound of Feldman, McMillan and Talwar (2021), Theorem 3.2.

    It holds for every randomizer with this local epsilon, and every crowd. With
    C ~ Bin(users − 1, e^{−ε₀}), A ~ Bin(C, 1/2) and D ~ Bernoulli(e^{ε₀}/(e^{ε₀}+1)) it is
    the hockey-stick of (A + D, C − A + 1 − D) against (A + 1 − D, C − A + D). The bracket is
    of that bound; its upper end is what to promise.
    """
    size = checks.people("users", users)
    local = checks.real("local epsilon", local_epsilon, least=0.0, most=700.0)
    wanted = checks.epsilon(epsilon)
    if wanted >= local:
        return Bracket(0.0, 0.0)
    # The bound rises with the local epsilon (clones get rarer) and falls with epsilon, so each
    # end takes the exponentials rounded its own way and is exact for those.
    (small, large), (under, over) = exp_ends(local), exp_ends(wanted)
    upper = min(_clone_part(large, under, size).upper, 1.0)
    return Bracket(min(_clone_part(small, over, size).lower, upper), upper)


def clone_epsilon(*, local_epsilon: float, users: int, delta: float) -> Bracket:
    """Return the epsilon at which the clone bound equals ``delta``.

    >>> clone_epsilon(local_epsilon=4, users=10**5, delta=1e-6).upper < 0.172790550755978
    True
    """
    wanted = checks.delta(delta)
    local = checks.real("local epsilon", local_epsilon, least=0.0, most=700.0)

    def at(epsilon: float) -> Bracket:
        return clone_delta(local_epsilon=local, users=users, epsilon=epsilon)

    return solve_between(lambda e: at(e).lower, lambda e: at(e).upper, wanted, local)


def clone_epsilon_closed_form(*, local_epsilon: float, users: int, delta: float) -> float:
    """Return the closed form of Feldman, McMillan and Talwar (2021): proven, several times larger.

    ln(1 + s·(1 − e^{−ε₀})/(1 + e^{−ε₀}/(1+s))) with s = 8√(e^{ε₀} ln(4/δ)/n) + 8e^{ε₀}/n, for
    ε₀ ≤ ln(n / (16 ln(4/δ))). This is the form of the authors' own program; Theorem 3.1 prints
    the slightly smaller s·(e^{ε₀} − 1)/(e^{ε₀} + 1).
    """
    size = checks.people("users", users)
    wanted = checks.delta(delta)
    most = math.log(size / (16.0 * math.log(4.0 / wanted)))
    local = checks.real("local epsilon", local_epsilon, least=0.0)
    if not local <= most:
        rule = f"at most ln(users / (16 ln(4/delta))) = {most:.4g} here"
        raise InvalidInput("local epsilon", rule, local_epsilon, hint="use clone_epsilon")
    ratio = math.exp(local)
    spread = 8.0 * math.sqrt(ratio * math.log(4.0 / wanted) / size) + 8.0 * ratio / size
    return math.log1p(spread * -math.expm1(-local) / (1.0 + 1.0 / (ratio * (1.0 + spread))))


def _clone_part(ratio: Fraction, growth: Fraction, users: int) -> Bracket:
    """Return the clone bound for e^{ε₀} = ratio and e^ε = growth, both exact.

    A message of a clone is one of two, each with chance 1/(2·ratio), and the target sends them
    with chances ratio/(ratio+1) and 1/(ratio+1): the covered sum of two outputs.
    """
    half = 1 / (2 * ratio)
    target = ratio / (ratio + 1)
    return CoveredLaw(((target, 1 - target, half), (1 - target, target, half))).at(
        growth, users, 1e-4
    )


def _pair_laws(
    table: Sequence[tuple[Fraction, ...]], covers: Sequence[tuple[Fraction, ...]]
) -> list[CoveredLaw]:
    found: dict[CoveredLaw, None] = {}
    floats = np.array(covers, dtype=np.float64)
    for one, first in enumerate(table):
        for two, second in enumerate(table):
            if one == two:
                continue
            # Any crowd gives a valid lower end; those on the pair's own values are often bad, and
            # the one that covers their difference least.
            few = len(covers) > _ALL_COVERS
            third = covers[int(_signals(first, second, floats).argmax())] if few else ()
            for cover in (first, second, third) if few else covers:
                found.setdefault(merge_outputs(zip(first, second, cover, strict=True)))
    return list(found)


def _signals(first: Sequence[Fraction], second: Sequence[Fraction], covers: Floats) -> Floats:
    """Return how much a message tells of the pair when one of the covers hides it, about."""
    gap = np.array([float(a - b) ** 2 for a, b in zip(first, second, strict=True)])
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.where(gap > 0, gap / covers, 0.0)
    return np.asarray(shown.sum(axis=1))


def _three_kinds(
    for_one: Sequence[Fraction], for_two: Sequence[Fraction], others: int
) -> tuple[Floats, Floats]:
    """Return the laws of how many messages are of either kind, the rest being of neither.

    Each kind has its chances from the two values and from the others, who are all alike. Where
    there would be too many outcomes only the first kind is counted.
    """
    # A multinomial as two binomials: the second kind among the messages that are not of the first.
    rate, more = for_one[2], for_two[2] / (1 - for_one[2]) if for_one[2] < 1 else Fraction(0)
    some = binomial(others, rate, 1e-20)
    width = len(binomial(others - some.start, more, 1e-20).mass) + len(some.mass)
    if len(some.mass) * width > _MOST_OUTCOMES:
        more = Fraction(0)
    rows = [binomial(others - count, more, 1e-20) for count in range(some.start, some.stop)]
    low, high = min(row.start for row in rows), max(row.stop for row in rows)
    # One more row and column: the target's own message.
    law = np.zeros((len(rows) + 1, high - low + 1), dtype=Wide)
    for place, (mass, row) in enumerate(zip(some.mass, rows, strict=True)):
        law[place, row.start - low : row.stop - low] = mass * row.mass
    found = []
    for value in (0, 1):
        one, two = for_one[value], for_two[value] if more else Fraction(0)
        sent = law * wide(1 - one - two)
        sent[1:] += law[:-1] * wide(one)
        sent[:, 1:] += law[:, :-1] * wide(two)
        found.append(sent.ravel().astype(np.float64))
    return found[0], found[1]


def _exact_rows(
    table: Sequence[Sequence[float | Fraction | str]] | Floats,
) -> tuple[tuple[Fraction, ...], ...]:
    rows = [[_exact_chance(entry) for entry in row] for row in table]
    if len(rows) < 2 or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise InvalidInput("table", "at least two rows of equal length", table)
    for row in rows:
        if not abs(float(sum(row)) - 1.0) <= 1e-12:
            raise InvalidInput("table", "rows that sum to 1", float(sum(row)))
    # Rounded entries add up to nearly 1; divided by their sum they are an exact table again.
    return tuple(tuple(entry / sum(row) for entry in row) for row in rows)


def _exact_chance(value: object) -> Fraction:
    if isinstance(value, (str, Fraction)):
        try:
            exact = Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise InvalidInput("chance in the table", "a number from 0 to 1", value) from None
    else:
        exact = Fraction(checks.real("chance in the table", value, least=0.0, most=1.0))
    if not 0 <= exact <= 1:
        raise InvalidInput("chance in the table", "a number from 0 to 1", value)
    return exact


def _local_epsilon(table: Sequence[tuple[Fraction, ...]]) -> float:
    worst = Fraction(1)
    for column in zip(*table, strict=True):
        low, high = min(column), max(column)
        if high > 0 and low == 0:
            # One input sends what another never sends: no finite ratio holds.
            return math.inf
        if high > 0:
            worst = max(worst, high / low)
    # The upper end of the logarithm: a local guarantee is rounded up.
    return log_of(worst)[1] if worst > 1 else 0.0
