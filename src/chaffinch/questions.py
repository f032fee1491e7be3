"""What is asked. Each question checks answers and says how they are numbered.

A missing answer is an answer too: whoever stays silent would stand out, so every question
says what silence counts as. ``missing`` is a value of the question, or ``"count"`` for a value
of its own, or ``"refuse"`` where a gap means that the table is wrong.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from chaffinch import checks
from chaffinch.errors import InvalidAnswer, InvalidInput

_MISSING = "(missing)"
"""The label of a missing answer that is counted as a value of its own."""
COUNT = "count"
REFUSE = "refuse"
_MOST_VALUES = 10**6
_MOST_FLAGS = 64
_MOST_LABEL = 200
LARGEST_VALUE = 10**15
"""How far from 0 a range of values may lie: its labels stay short, and floats hold it."""

_Shape = Literal["bit", "choice", "number", "flags"]
"""What an answer looks like to a protocol: a bit, one of d, a number, or several bits."""

_NUMBERS = (int, float, np.integer, np.float16, np.float32)
"""What answers as a number: what a column can hold too, so that one answer is read alike."""

_UNNAMED = 10**_MOST_LABEL
"""Whole numbers from here on have more digits than a label."""

_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True)
class Bit:
    """Yes or no. A missing answer counts as no unless ``missing`` says otherwise.

    >>> Bit().number(True), Bit().number("no"), Bit().number(None)
    (1, 0, 0)
    """

    missing: str = "no"

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
        return ("no", "yes", _MISSING) if self.missing == COUNT else ("no", "yes")

    def number(self, answer: object) -> int:
        """Return the number of an answer; what is not an answer is refused unseen."""
        if is_missing(answer):
            return _missing(self.missing, {"no": 0, "yes": 1, COUNT: 2})
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
    answer is refused. The list must not be taken from the answers themselves.

    >>> Choice(["tea", "coffee"]).labels
    ('tea', 'coffee', '(missing)')
    >>> Choice(range(1, 1001), missing="refuse").number(7)
    6
    >>> Choice([1, 2, 5], missing="refuse").labels
    ('1', '2', '5')
    """

    values: tuple[str, ...] | range
    missing: str = COUNT
    unknown: str | None = None

    kind: ClassVar[str] = "choice"
    shape: ClassVar[_Shape] = "choice"

    def __init__(
        self,
        values: Iterable[str | int] | range,
        *,
        missing: str | int = COUNT,
        unknown: str | int | None = None,
    ) -> None:
        object.__setattr__(self, "values", _values(values))
        object.__setattr__(self, "missing", _whole_name(missing))
        object.__setattr__(self, "unknown", _whole_name(unknown))
        _size("values", len(self.values) + (missing == COUNT), _MOST_VALUES)
        for parameter, name in (("missing answer", missing), ("unknown answer", unknown)):
            listed = name in (None, COUNT, REFUSE) if parameter[0] == "m" else name is None
            if not (listed or self.place(name) is not None):
                raise InvalidInput(
                    parameter,
                    "one of the values" + (", 'count' or 'refuse'" if parameter[0] == "m" else ""),
                    name,
                )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the values, in the order of their numbers."""
        own = (_MISSING,) if self.missing == COUNT else ()
        return tuple(str(value) for value in self.values) + own

    @property
    def size(self) -> int:
        """Return the number of values, with the missing one where it is counted."""
        return len(self.values) + (self.missing == COUNT)

    def number(self, answer: object) -> int:
        """Return the number of an answer; what is not an answer is refused unseen."""
        if is_missing(answer):
            return self.missing_number
        place = self.place(answer)
        if place is None:
            return self.unknown_number
        return place

    @property
    def missing_number(self) -> int:
        """Return the number that a missing answer has."""
        if self.missing == COUNT:
            return len(self.values)
        place = None if self.missing == REFUSE else self.place(self.missing)
        if place is None:
            raise InvalidAnswer("there", hint="give `missing` a value to count gaps as")
        return place

    @property
    def unknown_number(self) -> int:
        """Return the number that an unlisted answer has."""
        place = None if self.unknown is None else self.place(self.unknown)
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
        if isinstance(answer, str):
            return self.places.get(answer.strip())
        whole = _whole(answer)
        if whole is None or abs(whole) >= _UNNAMED:
            return None
        return self.places.get(str(whole))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the number of each value by its name."""
        return {str(value): place for place, value in enumerate(self.values)}


@dataclass(frozen=True)
class Number:
    """A number between two bounds. A missing answer counts as ``missing`` (the lower bound).

    Answers beyond the bounds are refused, or moved to the nearest bound with ``clip=True``.
    With ``quantiles=True`` the plan must also tell how the numbers are spread, which costs
    accuracy of the mean.

    >>> Number(0, 60, unit="minutes").share(15)
    0.25
    """

    low: float
    high: float
    unit: str = ""
    missing: float | str | None = None
    clip: bool = False
    quantiles: bool = False

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
        if self.missing is None:
            object.__setattr__(self, "missing", low)
        elif self.missing != REFUSE:
            inside = checks.real("missing answer", self.missing, least=low, most=high)
            object.__setattr__(self, "missing", inside)
        for name in ("clip", "quantiles"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(name, "true or false", getattr(self, name))

    def share(self, answer: object) -> float:
        """Return where an answer lies between the bounds, from 0 to 1."""
        if is_missing(answer):
            if self.missing == REFUSE:
                raise InvalidAnswer("there", hint="give `missing` a number to count gaps as")
            answer = self.missing
        elif isinstance(answer, str):
            try:
                answer = float(answer)
            except ValueError:
                raise InvalidAnswer("a number") from None
        if isinstance(answer, bool) or not isinstance(answer, (*_NUMBERS, Decimal)):
            raise InvalidAnswer("a number")
        try:
            value = float(answer)
        except (OverflowError, ValueError):
            raise InvalidAnswer("a number") from None
        if math.isnan(value):
            raise InvalidAnswer("a number")
        if self.clip:
            value = min(max(value, self.low), self.high)
        if not self.low <= value <= self.high:
            raise InvalidAnswer(
                f"from {self.low:g} to {self.high:g}", hint="widen the bounds, or set `clip`"
            )
        return min((value - self.low) / (self.high - self.low), 1.0)


@dataclass(frozen=True)
class Flags:
    """Several yes/no answers at once; an answer is the collection of those that hold.

    A missing answer counts as none of them, or is refused.

    >>> Flags(["dark mode", "large text"]).numbers(["large text"])
    (1,)
    """

    names: tuple[str, ...]
    missing: str = "none"

    kind: ClassVar[str] = "flags"
    shape: ClassVar[_Shape] = "flags"

    def __init__(self, names: Iterable[str], *, missing: str = "none") -> None:
        object.__setattr__(self, "names", _named("flags", names))
        object.__setattr__(
            self, "missing", checks.choice("missing answer", missing, ("none", REFUSE))
        )
        _size("flags", len(self.names), _MOST_FLAGS, least=1)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the flags."""
        return self.names

    def numbers(self, answer: object) -> tuple[int, ...]:
        """Return the numbers of the flags that hold, in order."""
        if is_missing(answer):
            if self.missing == REFUSE:
                raise InvalidAnswer("there", hint="set `missing` to 'none' to count gaps so")
            return ()
        if isinstance(answer, str):
            answer = [part for part in (p.strip() for p in answer.split(";")) if part]
        if isinstance(answer, Mapping):
            answer = [name for name, held in answer.items() if Bit().number(held)]
        try:
            held = set(answer)  # type: ignore[call-overload]
        except TypeError:
            raise InvalidAnswer("a collection of names of flags") from None
        if not held <= self._known:
            raise InvalidAnswer("made of names of the question's flags")
        return tuple(place for place, name in enumerate(self.names) if name in held)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)


Question = Bit | Choice | Number | Flags


@dataclass(frozen=True)
class Survey:
    """Several questions asked of the same people together.

    >>> survey = Survey({"browser": Choice(["a", "b"]), "dark mode": Bit()})
    >>> list(survey.questions)
    ['browser', 'dark mode']
    """

    questions: Mapping[str, Question]
    title: str = field(default="")

    def __post_init__(self) -> None:
        given: object = self.questions
        if not (isinstance(given, Mapping) and given):
            raise InvalidInput("questions", "a mapping from names to questions", self.questions)
        for name, question in self.questions.items():
            label("name of a question", name)
            if not isinstance(question, (Bit, Choice, Number, Flags)):
                raise InvalidInput(f"question {name!r}", "a Bit, Choice, Number or Flags", question)
        _size("questions", len(self.questions), 100, least=1)
        label("title", self.title, empty=True)


def is_missing(answer: object) -> bool:
    """Return whether an answer is a gap: None, NaN, or nothing but white space."""
    if answer is None or (isinstance(answer, str) and not answer.strip()):
        return True
    if isinstance(answer, Decimal):
        return answer.is_nan()
    if isinstance(answer, numbers.Real) and not isinstance(answer, numbers.Rational):
        return math.isnan(answer)
    # What pandas writes for a gap, known by name so that pandas need not be there.
    return type(answer).__name__ in {"NAType", "NaTType"}


def _missing(policy: str, table: Mapping[str, int]) -> int:
    if policy not in table:
        raise InvalidAnswer("there", hint="let `missing` say what gaps count as")
    return table[policy]


def _whole_name(name: Any) -> Any:
    """Return the label of a value: a whole number is called by its digits."""
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
    listed = tuple(map(_whole_name, names)) if parameter == "values" else tuple(names)
    for name in listed:
        label(f"name among the {parameter}", name)
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InvalidInput(parameter, "all different", f"{twice!r} twice")
    return listed


def label(parameter: str, name: object, *, empty: bool = False) -> None:
    """Refuse a name that cannot be shown: too long, empty, or with control characters."""
    rule = f"a text of at most {_MOST_LABEL} characters, without control characters"
    fits = isinstance(name, str) and len(name) <= _MOST_LABEL and name.isprintable()
    if not (fits and (empty or (name and name == name.strip() and name != _MISSING))):  # type: ignore[attr-defined]
        raise InvalidInput(parameter, rule if empty else f"{rule} or spaces around it", name)


def _size(parameter: str, count: int, most: int, *, least: int = 2) -> None:
    checks.whole(f"number of {parameter}", count, least=least, most=most)


def _place_in_range(values: range, answer: object) -> int | None:
    if isinstance(answer, str):
        text = answer.strip()
        digits = text.removeprefix("-")
        if not (digits.isdecimal() and len(digits) <= _MOST_LABEL):
            return None
        answer = int(text)
    whole = _whole(answer)
    if whole is None:
        return None
    place = whole - values.start
    return place if 0 <= place < len(values) else None


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
