"""What a privacy number is: a two-sided bracket, and the sentence that goes with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Literal, NamedTuple

from chaffinch.cards import card, paragraph, table
from chaffinch.errors import InvalidInput, Unquoted, checks

Method = Literal["exact", "upper-bound", "worst-pair-assumed", "monte-carlo", "published"]
"""How a number was found. Only ``exact`` and ``upper-bound`` may stand in a plan."""

PROVEN: tuple[Method, ...] = ("exact", "upper-bound")

MOST_RECORDS = 1000
"""More records of one person in a collection are refused."""

_FORMAT = re.compile(r"(?:\.([1-9]|1[0-5])g?)?")
_DIGITS = 10
"""Of an end, unless a format asks for another number."""

HOP_APART = " and a first hop that does not work with the analyzer"
"""What a crowd says where the number of messages in a report tells of the noise."""

_TOGETHER = "if shuffler and analyzer collude"
_UNHIDDEN = {
    "columns": "if the order of the columns is known",
    "totals": "against whoever adds up",
}
"""When only the local guarantee is left, for views that another secret protects."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """A number known from both sides: ``lower`` ≤ truth ≤ ``upper``.

    ``upper`` is the safe end: it is the one to promise, and what stands for the bracket as a
    float and beside one. So ``b <= x`` says that the truth is proven to be at most x, and
    ``b > x`` that this is not proven. Two brackets are not ordered: which truth is larger may be
    open. A format such as ``.3g`` rounds both ends outwards.

    >>> b = Bracket(0.9012, 1.0)
    >>> 0.95 in b, float(b), b <= 1, b > 0.95, f"{b:.2g}"
    (True, 1.0, True, True, '[0.9, 1]')
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"a bracket needs lower <= upper, got {self.lower} and {self.upper}")

    @property
    def relative_width(self) -> float:
        """Return (upper − lower) / upper: how much of the safe end is doubt."""
        if self.upper == self.lower:
            return 0.0
        if math.isinf(self.upper):
            return math.inf
        return (self.upper - self.lower) / abs(self.upper)

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __float__(self) -> float:
        return float(self.upper)

    def __lt__(self, other: Any) -> bool:
        return NotImplemented if isinstance(other, Bracket) else self.upper < other

    def __le__(self, other: Any) -> bool:
        return NotImplemented if isinstance(other, Bracket) else self.upper <= other

    def __gt__(self, other: Any) -> bool:
        return NotImplemented if isinstance(other, Bracket) else self.upper > other

    def __ge__(self, other: Any) -> bool:
        return NotImplemented if isinstance(other, Bracket) else self.upper >= other

    def __format__(self, spec: str) -> str:
        found = _FORMAT.fullmatch(spec)
        if found is None:
            raise ValueError(f"a bracket is formatted by '' or such as '.3g', got {spec!r}")
        digits = int(found[1] or _DIGITS)
        low, high = (
            _rounded_text(end, digits, up=up)
            for end, up in ((self.lower, False), (self.upper, True))
        )
        return f"[{low}, {high}]"

    def __str__(self) -> str:
        return format(self)

    def _repr_html_(self) -> str:
        ends = paragraph(f"{self:.6g}")
        return card(
            "Bracket", ends, notes=["The true value lies between the two; the upper end is safe."]
        )


class Odds(NamedTuple):
    """Of 100 people who guess which of two answers was given: how many are right, and why."""

    by_luck: int
    """They would be right without seeing anything: a coin gets 50."""
    by_seeing: int
    """So many more can be right at most because of what is seen, rounded up."""
    wrong: int

    @property
    def right(self) -> int:
        """Return how many can be right at most."""
        return self.by_luck + self.by_seeing


def right_guesses(epsilon: float, delta: float) -> int:
    """Return how many of 100 guessers can be right, rounded up: (e^ε + δ)/(1 + e^ε).

    They toss a coin without the data; prior one half.

    >>> right_guesses(1.0, 1e-6)
    74
    """
    shrink = math.exp(-min(epsilon, 700.0))
    return min(100, math.ceil(100 * (1 + delta * shrink) / (1 + shrink)))


NO_PROTECTION = "no protection"
"""What is said of an infinite epsilon."""


def left_words(epsilon: float) -> str:
    """Return what is left of a protection, rounded up, and whether that is anything.

    Where all of 100 guesses may be right, which is above 4.6, it is no guarantee.

    >>> left_words(3.4761), left_words(227.61), left_words(math.inf)
    ('epsilon 3.477', 'practically no protection (epsilon 227.7)', 'no protection')
    """
    if math.isinf(epsilon):
        return NO_PROTECTION
    said = f"epsilon {promised(epsilon, 4)}"
    return f"practically {NO_PROTECTION} ({said})" if right_guesses(epsilon, 0.0) == 100 else said


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be promised: chances change by a factor e^``epsilon`` and ``delta`` at most.

    For anything that can be seen, P ≤ e^epsilon·P′ + delta, whichever of two neighbours P
    belongs to. That is less than "a loss of at most epsilon except with probability delta".
    """

    epsilon: float
    delta: float = math.nan
    """Needed: nobody knows here how many people there are, as a command does."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.epsilon(self.epsilon))
        if math.isnan(self.delta):
            raise InvalidInput(
                "delta",
                "a number from 1e-300 to 1",
                Unquoted("none"),
                hint="such as 1e-8, and far below one over the number of people",
            )
        object.__setattr__(self, "delta", checks.delta(self.delta))


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A promise with everything it depends on; printing it gives the sentence."""

    epsilon: float
    delta: float
    neighbours: str
    view: str
    crowd: str
    local_epsilon: float
    method: Method

    @property
    def proven(self) -> bool:
        """Return whether the method behind the number is a proof."""
        return self.method in PROVEN

    @property
    def odds(self) -> Odds:
        """Return what it means in guesses.

        >>> Guarantee(1.0, 1e-6, "replace-one", "messages", "9 users", 4.0, "exact").odds
        Odds(by_luck=50, by_seeing=24, wrong=26)
        """
        right = right_guesses(self.epsilon, self.delta)
        return Odds(50, right - 50, 100 - right)

    @property
    def within_local(self) -> Guarantee:
        """Return it with at most the local epsilon, which holds whoever else is honest."""
        if self.epsilon <= self.local_epsilon:
            return self
        return replace(self, epsilon=self.local_epsilon, method="upper-bound")

    @property
    def crowd_shown(self) -> str:
        """Return the crowd, its numbers as people write them."""
        return commas_in(self.crowd)

    def __str__(self) -> str:
        return (
            f"{self._begin}; crowd: {self.crowd_shown}; "
            f"local epsilon {_UNHIDDEN.get(self.view, _TOGETHER)}: {self._local}"
        )

    @property
    def _local(self) -> str:
        number = _rounded_text(self.local_epsilon, 4, up=True)
        number = "infinite" if math.isinf(self.local_epsilon) else number
        said = left_words(self.local_epsilon).partition(NO_PROTECTION)
        return f"{number} ({said[0]}{said[1]})" if said[1] else number

    @property
    def of_one_party(self) -> str:
        """Return the sentence where one party did everything, so that there is nobody to collude.

        The view, the crowd and the method are the same: what is released follows from the view.
        """
        return f"{self._begin}; crowd: {self.crowd_of_one_party}"

    @property
    def crowd_of_one_party(self) -> str:
        """Return the crowd without what it says of parties that are apart."""
        return commas_in(self.crowd.replace(HOP_APART, ""))

    @property
    def _begin(self) -> str:
        kind = "proven" if self.proven else "not proven"
        return (
            f"({promised(self.epsilon, 6)}, {promised(self.delta, 3)})"
            f"-differential privacy, {kind} "
            f"({self.method}); neighbours: {self.neighbours}; view: {self.view}"
        )

    def _repr_html_(self) -> str:
        lead = (
            "Of 100 people who guess which of two answers was given, at most "
            f"{self.odds.right} are right; a coin gets 50."
        )
        rows = [
            ("epsilon", promised(self.epsilon, 6)),
            ("delta", promised(self.delta, 3)),
            ("neighbours", self.neighbours),
            ("view", self.view),
            ("crowd", self.crowd_shown),
            (f"local epsilon {_UNHIDDEN.get(self.view, _TOGETHER)}", self._local),
            ("method", f"{self.method} ({'proven' if self.proven else 'not proven'})"),
        ]
        title = "Differential privacy" + " (not proven)" * (not self.proven)
        return card(title, paragraph(lead), table(["term", "value"], rows, words=2))


def bound_of(methods: Iterable[Method]) -> Method:
    """Return how a bound was found that follows from others: proven only where all of them are.

    >>> bound_of(["exact", "upper-bound"]), bound_of(["exact", "monte-carlo"])
    ('upper-bound', 'monte-carlo')
    """
    return next((one for one in methods if one not in PROVEN), "upper-bound")


def commas_in(words: str) -> str:
    """Return words with the thousands of whole numbers set apart.

    >>> commas_in("336776 honest users, flip probability 0.03125")
    '336,776 honest users, flip probability 0.03125'
    """
    return re.sub(r"(?<![\w.])\d{4,}(?![\w.])", lambda found: f"{int(found[0]):,}", words)


def promised(value: float, digits: int) -> str:
    """Return a promised number: as it was written if it is short, else rounded up.

    The float for 0.1 lies a hair above 0.1, and what was asked for is 0.1.
    """
    if len(Decimal(repr(float(value))).normalize().as_tuple().digits) <= digits:
        return f"{value:.{digits}g}"
    return _rounded_text(value, digits, up=True)


def _rounded_text(value: float, digits: int, *, up: bool) -> str:
    # Rounded from the exact value of the float, so the text never crosses it.
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    return f"{float(rounded):.{digits}g}"
