"""What is asked. Each question checks answers and says how they are numbered.

A gap is refused unless the question says what it counts as: ``missing`` is ``"refuse"``, or
``"count"`` for an answer like any other, or a value of the question. On devices a refused gap
is a silence that stands out: there, count it.
"""

from __future__ import annotations

import itertools
import math
import numbers
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from chaffinch.errors import InvalidAnswer, InvalidInput, Unquoted, checks
from chaffinch.questions.date_bins import YEAR_MONTH, bin_of, date_part, date_values

MISSING = "(missing)"
"""The label of a missing answer that is counted as a value of its own."""
COUNT = "count"
REFUSE = "refuse"
PARTLY_MISSING = "given for all flags, or missing for all of them"
_MISSING_VALUES = ("NA", "N/A", "#N/A", "<NA>", "NaN", "null", "None", "?", "-")
"""Texts that stand for a missing answer unless a table says otherwise, in any case."""
MOST_VALUES = 10**6
MOST_LEVELS = 1000
BETWEEN = " × "
"""What stands between the names of crossed questions, and of their answers."""
_MOST_FLAGS = 64
_MOST_LABEL = 200
_NARROWEST = 1e-150
"""A range that is no narrower has a width whose square is a float above 0."""
LARGEST_VALUE = 10**15
"""How far from 0 a range of values may lie: its labels stay short, and floats hold it."""

_Shape = Literal["bit", "choice", "number", "flags"]
"""What an answer looks like to a protocol: a bit, one of d, a number, or several bits."""

_NUMBERS = (int, float, np.integer, np.float16, np.float32)
"""What answers as a number: what a column can hold too, so that one answer is read alike."""

_UNNAMED = 10**_MOST_LABEL
"""Whole numbers from here on have more digits than a label."""

_Gaps = frozenset[str]
"""Texts that stand for a gap, trimmed and folded: see ``gap_words``."""

_WHOLE = re.compile("0|-?[1-9][0-9]*")
_WHOLE_FLOAT = re.compile(rf"(?:{_WHOLE.pattern})\.(?!000$)0+")
_PLAIN = re.compile(
    r"(?!-0(?:\.0*)?$|-?[1-9][0-9]{0,2}\.[0-9]{3}$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
)
"""What programs write, without what could be thousands."""
_SPELLED = re.compile(
    r"[-+\N{MINUS SIGN}]?[\d\s.,'\N{RIGHT SINGLE QUOTATION MARK}_]++(?:[eE][-+]?\d+)?%?"
)
"""Numbers in any spelling, besides some texts without digits."""

_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def gap_words(missing_values: Iterable[str]) -> _Gaps:
    """Return texts that stand for a gap, in the form in which they are looked up.

    >>> sorted(gap_words(["NA", " none "]))
    ['na', 'none']
    """
    if isinstance(missing_values, (str, bytes)) or not isinstance(missing_values, Iterable):
        raise InvalidInput("missing values", "a list of texts", missing_values)
    listed = tuple(missing_values)
    if not all(isinstance(one, str) for one in listed):
        raise InvalidInput("missing values", "a list of texts", list(listed))
    return frozenset(_folded(one) for one in listed)


def _folded(text: str) -> str:
    return text.strip().casefold()


GAPS = gap_words(_MISSING_VALUES)


def is_missing(answer: object, gaps: Collection[str] | None = None) -> bool:
    """Return whether an answer is a gap: None, NaN, white space, or a text among ``gaps``.

    Those are by default ``_MISSING_VALUES``. This is the one place that says so. A question looks
    at its own values first: a country that is listed as "NA" is an answer.

    >>> is_missing("n/a"), is_missing("n/a", gaps=()), is_missing(""), is_missing(0)
    (True, False, True, False)
    """
    if isinstance(answer, str):
        text = answer.strip()
        return not text or text.casefold() in (GAPS if gaps is None else gaps)
    if answer is None:
        return True
    if isinstance(answer, Decimal):
        return answer.is_nan()
    if isinstance(answer, numbers.Real) and not isinstance(answer, numbers.Rational):
        return math.isnan(answer)
    # What pandas writes for a gap, known by name so that pandas need not be there.
    return type(answer).__name__ in {"NAType", "NaTType"}


def _refused_gap(values: str) -> InvalidAnswer:
    return InvalidAnswer(
        "given, not missing",
        hint=f'missing = "count" lets a gap be an answer like any other, missing = {values} '
        "counts it as that",
    )


@dataclass(frozen=True)
class Bit:
    """Yes or no. A missing answer is refused unless ``missing`` says what it counts as.

    >>> Bit().number(True), Bit().number("no"), Bit(missing="count").number(None)
    (1, 0, 2)
    """

    missing: str = REFUSE

    kind: ClassVar[str] = "bit"

    def __post_init__(self) -> None:
        checks.choice("missing answer", self.missing, ("no", "yes", COUNT, REFUSE))

    @property
    def shape(self) -> _Shape:
        """Return ``bit``, or ``choice`` where a missing answer is a third value."""
        return "choice" if self.missing == COUNT else "bit"

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the answers, in the order of their numbers."""
        return ("no", "yes", MISSING) if self.missing == COUNT else ("no", "yes")

    def number(self, answer: object, gaps: _Gaps | None = None) -> int:
        """Return the number of an answer; what is not an answer is refused unseen."""
        if is_missing(answer, gaps):
            if self.missing == REFUSE:
                raise _refused_gap('"no" or "yes"')
            return {"no": 0, "yes": 1, COUNT: 2}[self.missing]
        if isinstance(answer, str):
            word = _YES.get(answer.strip().lower())
            if word is not None:
                return int(word)
        elif isinstance(answer, (*_NUMBERS, np.bool_)) and answer in (0, 1):
            return int(answer == 1)
        raise InvalidAnswer("yes or no (true or false, 1 or 0)")


@dataclass(frozen=True)
class Choice:
    """One of several named values, or of a range of whole numbers.

    ``unknown`` names the value that everything unlisted counts as; without it an unlisted
    answer is refused. Among whole numbers, 1.0 is 1, and what may be a number in another spelling,
    as 1,234 or 12%, is refused instead of unknown. A missing answer is refused unless ``missing``
    says what it counts as. The list must not be taken from the answers themselves.

    >>> Choice(["tea", "coffee"], missing="count").labels
    ('tea', 'coffee', '(missing)')
    >>> Choice(range(1, 1001)).number(7)
    6
    >>> Choice([1, 2, 5], missing="refuse").labels
    ('1', '2', '5')
    """

    values: tuple[str, ...] | range
    missing: str = REFUSE
    unknown: str | None = None

    kind: ClassVar[str] = "choice"
    shape: ClassVar[_Shape] = "choice"

    def __init__(
        self,
        values: Iterable[str | int] | range,
        *,
        missing: str | int = REFUSE,
        unknown: str | int | None = None,
    ) -> None:
        object.__setattr__(self, "values", _values(values))
        object.__setattr__(self, "missing", _label_of_value(missing))
        object.__setattr__(self, "unknown", _label_of_value(unknown))
        _size("values", len(self.values) + (missing == COUNT), MOST_VALUES)
        for parameter, name, words, rule in (
            ("missing answer", missing, (None, COUNT, REFUSE), ", 'count' or 'refuse'"),
            ("unknown answer", unknown, (None,), ""),
        ):
            if name not in words and self.place(name) is None:
                raise InvalidInput(parameter, f"one of the values{rule}", name)

    @classmethod
    def of_dates(
        cls,
        part: str,
        *,
        first: str | None = None,
        last: str | None = None,
        missing: str = REFUSE,
        unknown: str | None = None,
    ) -> Choice:
        """Return a choice of months, weekdays, quarters or hours, which dates answer.

        ``year-month`` keeps years apart: it has the months from ``first`` to ``last``.

        >>> Choice.of_dates("weekday", missing="refuse").number("2024-03-05")
        1
        >>> Choice.of_dates("year-month", first="2023-11", last="2024-04").number("2024-03-05")
        4
        """
        return cls(date_values(part, first, last), missing=missing, unknown=unknown)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the values, in the order of their numbers."""
        own = (MISSING,) if self.missing == COUNT else ()
        return tuple(str(value) for value in self.values) + own

    @property
    def size(self) -> int:
        """Return the number of values, with the missing one where it is counted."""
        return len(self.values) + (self.missing == COUNT)

    def number(self, answer: object, gaps: _Gaps | None = None) -> int:
        """Return the number of an answer; what is not an answer is refused unseen."""
        silent = is_missing(answer, gaps)
        # A text that stands for a gap may be a listed value; what pandas calls no time is no time.
        place = self.place(answer) if isinstance(answer, str) or not silent else None
        if place is not None:
            return place
        if silent:
            return self.missing_number
        if self.unknown is not None and self._has_numbers and _is_spelled_number(answer):
            raise InvalidAnswer(
                "a whole number in digits, or no number",
                hint="how numbers are written can be said: decimal, thousands and percent under "
                "[table]",
            )
        return self.unknown_number

    @cached_property
    def _has_numbers(self) -> bool:
        return isinstance(self.values, range) or all(map(_WHOLE.fullmatch, self.values))

    @property
    def missing_number(self) -> int:
        """Return the number that a missing answer has."""
        if self.missing == COUNT:
            return len(self.values)
        place = None if self.missing == REFUSE else self.place(self.missing)
        if place is None:
            raise _refused_gap("one of the values")
        return place

    @property
    def unknown_number(self) -> int:
        """Return the number that an unlisted answer has."""
        place = None if self.unknown is None else self.place(self.unknown)
        if place is None and self.dates is not None:
            shown = "such as 2024-03-05T17:45" if self.dates == "hour" else "such as 2024-03-05"
            if self.dates == YEAR_MONTH:
                shown = f"from {self.values[0]} to {self.values[-1]}, {shown}"
            raise InvalidAnswer(
                f"a date {shown}, or one of the values of the question",
                hint="say how dates are written: date_format under [table]",
            )
        if place is None:
            raise InvalidAnswer(
                "one of the values of the question",
                hint="add the value, or name one in `unknown` that stands for the rest",
            )
        return place

    def place(self, answer: object) -> int | None:
        """Return the place of a listed answer, or None."""
        if isinstance(self.values, range):
            return _place_in_range(self.values, answer)
        if self.dates is not None:
            # A date counts by its bin, and the name of a bin by itself.
            answer = bin_of(self.dates, answer) or answer
        if isinstance(answer, str):
            text = answer.strip()
            # A value that is itself listed as "1.0" comes before the whole number 1.
            return self.places.get(text, self.places.get(_without_fraction(text)))
        whole = _whole(answer)
        if whole is None or abs(whole) >= _UNNAMED:
            return None
        return self.places.get(str(whole))

    @cached_property
    def dates(self) -> str | None:
        """Return which part of a date is asked where the values are those of such a part.

        Such a choice is answered by dates, too.

        >>> Choice(DATE_BINS["quarter"]).number("2024-03-05")
        0
        """
        return date_part(self.values)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the number of each value by its name."""
        return {str(value): place for place, value in enumerate(self.values)}


@dataclass(frozen=True)
class Number:
    """A number between two bounds. A missing answer is refused unless ``missing`` is a number.

    With ``missing="count"`` the plan also counts who answered, and mean, sum and quantiles are
    those of the people who did. Answers beyond the bounds are refused, or moved to the nearest
    bound with ``clip=True``; infinite ones are always refused. With ``quantiles=True`` the plan
    must also tell quantiles, with ``spread=True`` the standard deviation; either costs accuracy of
    the mean.

    >>> Number(0, 60, unit="minutes").share(15)
    0.25
    """

    low: float
    high: float
    unit: str = ""
    missing: float | str = REFUSE
    clip: bool = False
    quantiles: bool = False
    spread: bool = False

    kind: ClassVar[str] = "number"
    shape: ClassVar[_Shape] = "number"

    def __post_init__(self) -> None:
        low = checks.real("lower bound", self.low, least=-1e300, most=1e300)
        high = checks.real("upper bound", self.high, least=-1e300, most=1e300)
        if not low < high:
            raise InvalidInput("upper bound", f"above the lower bound {low:g}", high)
        for name, value in (("low", low), ("high", high)):
            object.__setattr__(self, name, value)
        label("unit", self.unit, empty=True)
        if self.missing not in (COUNT, REFUSE):
            inside = checks.real("missing answer", self.missing, least=low, most=high)
            object.__setattr__(self, "missing", inside)
        for name in ("clip", "quantiles", "spread"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(name, "true or false", getattr(self, name))
        if self.spread and not _NARROWEST <= high - low <= 1 / _NARROWEST:
            rule = f"{_NARROWEST:g} to {1 / _NARROWEST:g} where a standard deviation is asked for"
            raise InvalidInput("width of the range", rule, high - low)

    def __repr__(self) -> str:
        # Texts of questions are a part of digests that are older than the last field.
        shown = [one.name for one in fields(self) if one.name != "spread" or self.spread]
        return f"Number({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def share(self, answer: object, gaps: _Gaps | None = None) -> float:
        """Return where an answer lies between the bounds, from 0 to 1; NaN for a counted gap."""
        if is_missing(answer, gaps):
            return self._gap_share
        if isinstance(answer, str):
            if "_" in answer:  # as Python groups digits, and nobody else
                raise InvalidAnswer("a number")
            try:
                answer = float(answer)
            except ValueError:
                raise InvalidAnswer("a number") from None
        # To Python True is a number, to people it is none.
        if isinstance(answer, bool) or not isinstance(answer, (*_NUMBERS, Decimal)):
            raise InvalidAnswer("a number")
        try:
            value = float(answer)
        except (OverflowError, ValueError):
            raise InvalidAnswer("a number") from None
        if not math.isfinite(value):
            # Clipped it would be an answer at a bound: it is mostly a division by zero.
            raise InvalidAnswer("a finite number", hint="leave the cell empty for a missing answer")
        if self.clip:
            value = min(max(value, self.low), self.high)
        if not self.low <= value <= self.high:
            raise InvalidAnswer(
                f"from {self.low:g} to {self.high:g}", hint="widen the bounds, or set `clip`"
            )
        return self._scaled(value)

    @property
    def _gap_share(self) -> float:
        if self.missing == REFUSE:
            raise _refused_gap("a number")
        return math.nan if self.missing == COUNT else self._scaled(float(self.missing))

    def _scaled(self, value: float) -> float:
        return min((value - self.low) / (self.high - self.low), 1.0)


@dataclass(frozen=True)
class Flags:
    """Several yes/no answers at once; an answer is the collection of those that hold.

    A missing answer is refused, or counted as a flag of its own (``missing="count"``), or
    counts as none of them (``missing="none"``).

    >>> Flags(["dark mode", "large text"]).numbers(["large text"])
    (1,)
    """

    names: tuple[str, ...]
    missing: str = REFUSE

    kind: ClassVar[str] = "flags"
    shape: ClassVar[_Shape] = "flags"

    def __init__(self, names: Iterable[str], *, missing: str = REFUSE) -> None:
        object.__setattr__(self, "names", _named("flags", names))
        object.__setattr__(
            self, "missing", checks.choice("missing answer", missing, ("none", COUNT, REFUSE))
        )
        _size("flags", len(self.labels), _MOST_FLAGS, least=1)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the flags, and that of a missing answer where it is counted."""
        return (*self.names, MISSING) if self.missing == COUNT else self.names

    @property
    def missing_numbers(self) -> tuple[int, ...]:
        """Return the numbers of the flags that a missing answer has."""
        if self.missing == REFUSE:
            raise _refused_gap('"none"')
        return (len(self.names),) if self.missing == COUNT else ()

    def numbers(self, answer: object, gaps: _Gaps | None = None) -> tuple[int, ...]:
        """Return the numbers of the flags that hold, in order."""
        # A listed name comes first, also where it could stand for a gap, as "none" could.
        if isinstance(answer, str) and answer.strip() in self._known:
            answer = [answer.strip()]
        elif is_missing(answer, gaps):
            return self.missing_numbers
        if isinstance(answer, str):
            answer = [part for part in (p.strip() for p in answer.split(";")) if part]
        if isinstance(answer, Mapping):
            answer = self._held(answer, gaps)
            if answer is None:
                return self.missing_numbers
        try:
            held = set(answer)  # type: ignore[call-overload]
        except TypeError:
            raise InvalidAnswer("a collection of names of flags") from None
        if not held <= self._known:
            raise InvalidAnswer("made of names of the question's flags")
        return tuple(place for place, name in enumerate(self.names) if name in held)

    def _held(self, answers: Mapping[Any, object], gaps: _Gaps | None) -> list[Any] | None:
        silent = [is_missing(held, gaps) for held in answers.values()]
        if any(silent) and self.missing != "none":
            if self.missing == REFUSE or all(silent):
                return None
            raise InvalidAnswer(PARTLY_MISSING)
        # A gap comes this far with missing = "none" only: a flag that is not given does not hold.
        bit = Bit(missing="no")
        return [name for name, held in answers.items() if bit.number(held, gaps)]

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)


@dataclass(frozen=True)
class Cross:
    """Several questions as one choice: every way in which they can be answered together.

    Replacing one person may change all their answers at once, so the pairs are protected as one
    answer is. The last question may be a Number: its mean is then told for every group that the
    others make. Devices round it by chance to one of so many ``levels``, which does not move the
    mean; without a number of levels the planner chooses one.

    >>> cross = Cross({"carrier": Choice(["AA", "UA"], missing="refuse"), "delayed": Bit()})
    >>> cross.labels
    ('AA × no', 'AA × yes', 'UA × no', 'UA × yes')
    >>> cross.number({"carrier": "UA", "delayed": True})
    3
    """

    questions: Mapping[str, Bit | Choice | Number]
    levels: int | None = None

    kind: ClassVar[str] = "cross"
    shape: ClassVar[_Shape] = "choice"

    def __post_init__(self) -> None:
        given: object = self.questions
        if not (isinstance(given, Mapping) and len(given) > 1):
            rule = "a mapping from two or more names to questions"
            raise InvalidInput("crossed questions", rule, self.questions)
        object.__setattr__(self, "questions", dict(self.questions))
        *firsts, last = self.questions
        for name, question in self.questions.items():
            label("name of a question", name)
            if not isinstance(question, (Bit, Choice) + (Number,) * (name == last)):
                rule = "a Bit or a Choice, or a Number that stands last"
                raise InvalidInput(f"crossed question {name!r}", rule, question.kind)
        if self.measure is None and self.levels is not None:
            raise InvalidInput("number of levels", "given with a Number only", self.levels)
        for more in ("quantiles", "spread"):
            if getattr(self.measure, more, False):
                rule = "about the mean, without quantiles or spread"
                raise InvalidInput(f"crossed question {last!r}", rule, Unquoted(more))
        if self.levels is not None:
            checks.whole("number of levels", self.levels, least=2, most=MOST_LEVELS)
        self._check_size(firsts)

    def _check_size(self, firsts: Sequence[str]) -> None:
        # A number that has no levels yet takes two of them at least.
        sizes = [len(_labels_of(self.questions[name])) for name in firsts]
        sizes.append(2 if self.measure and not self.levels else len(self.axes[-1]))
        if math.prod(sizes) > MOST_VALUES:
            names = " × ".join(repr(name) for name in self.questions)
            shown = " × ".join(map(str, sizes))
            raise InvalidInput(
                f"number of cells of {names}",
                f"at most {MOST_VALUES:,}",
                Unquoted(f"{shown} = {math.prod(sizes)}"),
                hint="list fewer values, or name one in `unknown` that stands for the rest",
            )

    def __hash__(self) -> int:
        return hash((tuple(self.questions.items()), self.levels))

    @property
    def measure(self) -> Number | None:
        """Return the last question if it is about a number."""
        last = list(self.questions.values())[-1]
        return last if isinstance(last, Number) else None

    @property
    def groups(self) -> int:
        """Return how many groups all questions but the last make."""
        return math.prod(len(_labels_of(one)) for one in list(self.questions.values())[:-1])

    @property
    def scores(self) -> tuple[float, ...]:
        """Return where each level of the number lies between its bounds, from 0 to 1."""
        if self.levels is None:
            raise InvalidInput("number of levels", "chosen before anything is counted", None)
        return tuple(level / (self.levels - 1) for level in range(self.levels))

    @cached_property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the answers to each question."""
        axes = [_labels_of(one) for one in self.questions.values() if not isinstance(one, Number)]
        if self.measure is not None:
            number = self.measure
            width = number.high - number.low
            names = tuple(f"{number.low + score * width:.6g}" for score in self.scores)
            axes.append(names + (MISSING,) * (number.missing == COUNT))
        return tuple(axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return in how many ways each question is answered."""
        return tuple(map(len, self.axes))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return a name for every cell, the answers to the last question side by side."""
        return tuple(BETWEEN.join(names) for names in itertools.product(*self.axes))

    def number(self, answer: object) -> int | float:
        """Return the number of a cell, with a number the place between two of its levels."""
        if not isinstance(answer, Mapping) or set(answer) != set(self.questions):
            listed = ", ".join(map(repr, self.questions))
            raise InvalidAnswer(f"a mapping from {listed} to answers")
        found: int | float = 0
        for (name, question), size in zip(self.questions.items(), self.sizes, strict=True):
            given = answer[name]
            own = self.height(given) if isinstance(question, Number) else question.number(given)
            # Mixed radix: the place of the first question counts most.
            found = found * size + own
        return found

    def answers_in(self, cell: int) -> dict[str, object]:
        """Return answers that fall into a cell for certain.

        >>> Cross({"delayed": Bit(), "late": Number(0, 10)}, levels=3).answers_in(4)
        {'delayed': 'yes', 'late': 5.0}
        """
        found: dict[str, object] = {}
        # From the last question to the first, as digits are taken off the end of a number.
        for (name, question), values in reversed(
            [*zip(self.questions.items(), self.axes, strict=True)]
        ):
            cell, place = divmod(cell, len(values))
            if isinstance(question, Number) and place < len(self.scores):
                found[name] = question.low + self.scores[place] * (question.high - question.low)
            else:
                found[name] = None if values[place] == MISSING else values[place]
        return dict(reversed(found.items()))

    def height(self, answer: object) -> float:
        """Return how many levels a number is above the lowest; a gap that counts is above all."""
        if self.measure is None or self.levels is None:
            raise InvalidInput("number of levels", "chosen before anything is sent", self.levels)
        if self.measure.missing == COUNT and is_missing(answer):
            return float(self.levels)
        return self.measure.share(answer) * (self.levels - 1)


Question = Bit | Choice | Number | Flags | Cross
QUESTIONS = (Bit, Choice, Number, Flags, Cross)


def _labels_of(question: Bit | Choice | Number) -> tuple[str, ...]:
    if isinstance(question, Number):
        raise InvalidInput("question", "one with named answers", question.kind)
    return question.labels


def asked_apart(questions: Mapping[str, Question]) -> dict[str, Bit | Choice | Number | Flags]:
    """Return the questions that people answer, those of a cross one by one."""
    apart: dict[str, Bit | Choice | Number | Flags] = {}
    for name, question in questions.items():
        apart |= question.questions if isinstance(question, Cross) else {name: question}
    return apart


@dataclass(frozen=True)
class PublicGroup:
    """A question whose answer is known of everybody: each is a collection of its own.

    ``value`` is the answer of the group that is collected; None before one is chosen.
    """

    name: str
    question: Bit | Choice
    value: str | None = None

    def __post_init__(self) -> None:
        label("name of a public group", self.name)
        if not isinstance(self.question, (Bit, Choice)):
            raise InvalidInput(f"public group {self.name!r}", "a Bit or a Choice", self.question)
        if self.value is not None:
            checks.choice(f"group of {self.name!r}", self.value, self.question.labels)

    @property
    def number(self) -> int:
        """Return the number of the answer of the group that is collected."""
        return self.question.labels.index(str(self.value))


@dataclass(frozen=True)
class Survey:
    """Several questions asked of the same people together.

    ``cross`` lists names of questions that are planned as one (or several such lists), ``by``
    says by which question another is told: ``by={"delay": "airport"}``. The group is then as
    private as the answer. ``by_public`` names the one question whose answers are public, not
    protected: everything is then asked of each of its groups by itself.

    >>> survey = Survey({"browser": Choice(["a", "b"]), "dark mode": Bit()})
    >>> list(survey.questions)
    ['browser', 'dark mode']
    >>> crossed = Survey(survey.questions, cross=["browser", "dark mode"])
    >>> list(crossed.planned)
    ['browser × dark mode']
    """

    questions: Mapping[str, Question]
    title: str = field(default="")
    cross: Sequence[str] | Sequence[Sequence[str]] = ()
    by: Mapping[str, str] = field(default_factory=dict)
    by_public: str = ""

    def __post_init__(self) -> None:
        given: object = self.questions
        if not (isinstance(given, Mapping) and given):
            raise InvalidInput("questions", "a mapping from names to questions", self.questions)
        for name, question in self.questions.items():
            label("name of a question", name)
            if not isinstance(question, QUESTIONS):
                rule = "a Bit, Choice, Number, Flags or Cross"
                raise InvalidInput(f"question {name!r}", rule, question)
        _size("questions", len(self.questions), 100, least=1)
        label("title", self.title, empty=True)
        if not self.planned:
            raise InvalidInput("questions", "others besides the public one", self.by_public)

    @property
    def group(self) -> PublicGroup | None:
        """Return the question whose answers are public, if there is one."""
        if not self.by_public:
            return None
        question = self.questions.get(self.by_public)
        private = {name for one in self._crossed.values() for name in one.questions}
        if question is None or self.by_public in private:
            rule = "the name of a question that is in no cross and in no private group"
            raise InvalidInput("by_public", rule, self.by_public)
        return PublicGroup(self.by_public, question)  # type: ignore[arg-type]

    @cached_property
    def planned(self) -> Mapping[str, Question]:
        """Return what is planned: each question, or the cross that it is a part of, once."""
        crossed = self._crossed
        within = {name for one in crossed.values() for name in one.questions}
        within |= set() if self.group is None else {self.group.name}
        planned: dict[str, Question] = {}
        for name, question in self.questions.items():
            starting = {
                one for one, cross in crossed.items() if next(iter(cross.questions)) == name
            }
            planned |= {one: cross for one, cross in crossed.items() if one in starting}
            if name not in within:
                planned[name] = question
        return planned

    def is_planned_as(self, questions: Mapping[str, Question]) -> bool:
        """Return whether a plan asks this; levels are a planner's choice unless they were given."""

        def without_levels(name: str, one: Question) -> Question:
            own = self.planned.get(name)
            free = isinstance(own, Cross) and own.levels is None
            return replace(one, levels=None) if isinstance(one, Cross) and free else one

        found = {name: without_levels(name, one) for name, one in questions.items()}
        return found == dict(self.planned)

    @property
    def _crossed(self) -> dict[str, Cross]:
        flat = all(isinstance(one, str) for one in self.cross)
        lists: Sequence[Any] = [self.cross] if self.cross and flat else self.cross
        found = {BETWEEN.join(names): self._cross_of("cross", names) for names in lists}
        for name, group in self.by.items():
            if group not in self.questions:
                raise InvalidInput(
                    f"groups of {name!r} (by)",
                    "another question, with values of its own "
                    f"(there are {', '.join(map(repr, self.questions))})",
                    group,
                    hint="in a survey file: [questions.NAME], with kind and values",
                )
            found[f"{name} by {group}"] = self._cross_of("by", (group, name))
        if taken := set(found) & set(self.questions):
            raise InvalidInput("names of questions", "other than those of a cross", sorted(taken))
        return found

    def _cross_of(self, parameter: str, names: Sequence[object]) -> Cross:
        listed = list(names) if not isinstance(names, str) else [names]
        known = [name for name in listed if name in self.questions]
        if len(listed) < 2 or len(known) < len(listed) or len(set(known)) < len(known):
            rule = "made of names of two or more questions, all different"
            raise InvalidInput(parameter, rule, listed)
        return Cross({str(name): self.questions[str(name)] for name in known})  # type: ignore[misc]


def _label_of_value(name: Any) -> Any:
    whole = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
    return str(name) if whole else name


def _values(values: Iterable[str | int] | range) -> tuple[str, ...] | range:
    if isinstance(values, range):
        if values.step != 1:
            raise InvalidInput("range of values", "one with step 1", values)
        if any(abs(end) > LARGEST_VALUE for end in (values.start, values.stop - 1)):
            rule = f"one from at least -{LARGEST_VALUE} to at most {LARGEST_VALUE}"
            raise InvalidInput("range of values", rule, values)
        return values
    return _named("values", values)


def _named(parameter: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InvalidInput(parameter, "a list of names", names)
    listed = tuple(map(_label_of_value, names)) if parameter == "values" else tuple(names)
    for name in listed:
        label(f"name among the {parameter}", name)
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InvalidInput(parameter, "all different", Unquoted(f"{twice!r} twice"))
    return listed


def label(parameter: str, name: object, *, empty: bool = False) -> None:
    """Refuse a name that cannot be shown: too long, empty, or with control characters."""
    rule = f"a text of at most {_MOST_LABEL} characters, without control characters"
    fits = isinstance(name, str) and len(name) <= _MOST_LABEL and name.isprintable()
    if not (fits and (empty or (name and name == name.strip() and name != MISSING))):  # type: ignore[attr-defined]
        raise InvalidInput(parameter, rule if empty else f"{rule} or spaces around it", name)


def _size(parameter: str, count: int, most: int, *, least: int = 2) -> None:
    checks.whole(f"number of {parameter}", count, least=least, most=most)


def _place_in_range(values: range, answer: object) -> int | None:
    if isinstance(answer, str):
        text = _without_fraction(answer.strip())
        digits = text.removeprefix("-")
        # Longer texts are no labels, and Python refuses to read thousands of digits.
        if not (digits.isdecimal() and len(digits) <= _MOST_LABEL):
            return None
        answer = int(text)
    whole = _whole(answer)
    if whole is None:
        return None
    place = whole - values.start
    return place if 0 <= place < len(values) else None


def _without_fraction(text: str) -> str:
    """Return 1 for 1.0, which is how programs write it in a column with gaps.

    1.000 stays as it is: it may be a thousand.
    """
    return text.partition(".")[0] if _WHOLE_FLOAT.fullmatch(text) else text


def _is_spelled_number(answer: object) -> bool:
    """Return whether an answer is a text with a number that programs would write otherwise."""
    if not isinstance(answer, str):
        return False
    text = answer.strip()
    # Signs of currencies (category Sc) are a part of the spelling.
    bare = "".join(one for one in text if unicodedata.category(one) != "Sc").strip()
    if not (_SPELLED.fullmatch(bare) and any(map(str.isdecimal, bare))):
        return False
    return bare != text or not _PLAIN.fullmatch(bare)


def _whole(answer: object) -> int | None:
    """Return a whole number, kept as an integer or as a float, or None for anything else."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, (int, np.integer)):
        return int(answer)
    if isinstance(answer, _NUMBERS):
        return int(answer) if float(answer).is_integer() else None
    if isinstance(answer, numbers.Number) and not isinstance(answer, Decimal):
        # Refused, not unknown: a column cannot hold it either.
        raise InvalidAnswer("text, or a number as columns hold them")
    return None
