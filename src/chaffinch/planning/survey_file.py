"""Surveys as files: what is asked, of how many people, and what is promised. In TOML.

All faults of a file are reported at once, each with its place; unknown keys are refused.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from chaffinch.disk.files import read_small
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput
from chaffinch.planning.planner import plan
from chaffinch.planning.price_curve import Price, price
from chaffinch.planning.wishes import MOST_MESSAGES, Error, charged_delta, default_delta
from chaffinch.plans.honest_share import honest_share, needed_reports
from chaffinch.plans.plan import Plan
from chaffinch.plans.plan_document import BitForm, ChoiceForm, FlagsForm, NumberForm, Values
from chaffinch.privacy import Target
from chaffinch.privacy.guarantee import MOST_RECORDS
from chaffinch.protocols.base import MESSAGES
from chaffinch.questions import Question, Survey
from chaffinch.questions.date_bins import date_values
from chaffinch.tables.dialect import Settings
from chaffinch.wire.document_forms import Strict
from chaffinch.wire.documents import guess_of, message_of

_LARGEST_FILE = 64 << 20
_RULE = "a survey"
_HINT = "`chaffinch plan --example` prints a survey to start from"
_TO_FILL_IN = "# FILL IN:"
"""How a line of a draft begins that somebody has to complete."""
_Share = Annotated[float, Field(gt=0, le=1)] | Annotated[str, Field(pattern=r"^[0-9.]+ ?%$")]
"""A share such as 0.005 or "0.5%"."""

EXAMPLE = """\
# A survey: what is asked, of how many people, and what is promised to them.
title = "Browsers and reading time"

# How many honest people are sure to answer. Nothing is released before they have.
users = 20000

# The promise to each of them, for all questions and rounds together. Small is private.
epsilon = 1.0
delta = 1e-8

# Or the other way round: the error you can live with; the best promise is then found.
# error = "0.5%"        # of the crowd
# confidence = "95%"      # the level of the intervals that are to be so narrow
# together = true       # those that hold for all values of a question at once

# rounds = 1            # how often the same people are asked
# person = "user_id"    # the column that tells people apart, where one person may have many rows
# contributions = 1     # how many rows of each person count; they are drawn at random
# rows_are_people = true  # every row is another person; without this and `person`, only single
                        # rows are promised to be protected
# honest = 1.0          # with 0.9 each of the others may lie with a chance of one in ten: more
                        # reports are waited for, so that nearly surely `users` are honest
# max_messages = 64     # how many messages of one report may be sealed, on average
# local_epsilon = 4     # the most that may be left if shuffler and analyzer collude; "none":
                        # nothing need be left
# influence = 2         # the most that one dishonest report may move a count, in people; without
                        # the wish half of all reports, and at least 10
# protocol = "flips"    # take this one of the table of protocols; also in a question, for that one
# anyway = true         # also plan what is of no use: no protection, or an error like the crowd

# [table]                  # how it is written, where that is not certain from its first lines
# separator = "semicolon"  # or comma, tab, bar
# encoding = "cp1252"      # or utf-8, utf-16, latin-1
# line_breaks = true       # quoted cells go on in the next line
# decimal = ","            # numbers such as 1.234,50
# thousands = "."          # or a comma, a space, an apostrophe, "none"
# percent = "number"       # what 12% is: the number 12, or the "share" 0.12
# date_format = "%d.%m.%Y" # unless dates are written as 2024-03-05, with or without a time
# missing_values = ["NA", "?"]  # what stands for a gap, in any case, besides empty cells

[questions.browser]
kind = "choice"
# Fixed beforehand, never taken from the answers. A long list may be in a file of its own,
# one value per line: values_file = "browsers.txt". Whole numbers: {first = 1, last = 100}.
values = ["chrome", "firefox", "safari", "other"]
unknown = "other"       # what an unlisted answer counts as; without this it is refused
missing = "other"       # what a gap counts as: a value, or "count": an answer like any other.
                        # Without this a table with gaps is refused
# column = "Browser"    # the column of the table, where it has another name

[questions.reading]
kind = "number"
low = 0
high = 60
unit = "minutes"
clip = true             # move numbers beyond the bounds to the nearest bound
# missing = "count"     # also count who answered; the mean is then theirs, and less exact
# spread = true         # also tell their standard deviation; the mean gets less exact
# quantiles = true      # also tell their quantiles; the mean gets less exact

# Other kinds:
# [questions.visited]
# kind = "choice"
# dates = "weekday"     # a date counts as its weekday; or month, quarter, hour; or year-month,
#                       # with first = "2024-01" and last = "2025-12", which keeps years apart
#
# [questions.member]
# kind = "bit"          # yes or no
# missing = "no"        # or "yes", or "count"
#
# [questions.settings]
# kind = "flags"        # several yes/no answers: one cell, joined by ";", or a column for each
# names = ["dark mode", "large text"]
# missing = "none"      # none of them; or "count"

# Questions together: in [questions.reading], by = "browser" tells the mean for every browser, as
# private as the answer itself. Above all questions, cross = ["browser", "member"] tells the pairs.
# by_public = "browser" asks every browser's people by themselves, and protects nobody's browser.
"""


class _Bit(BitForm):
    column: str | None = None
    by: str | None = None
    protocol: str | None = None


class _Choice(ChoiceForm):
    values: Values = Field(default_factory=list)
    values_file: str | None = None
    dates: Literal["month", "weekday", "quarter", "hour", "year-month"] | None = None
    first: str | None = None
    last: str | None = None
    column: str | None = None
    by: str | None = None
    protocol: str | None = None


class _Number(NumberForm):
    column: str | None = None
    by: str | None = None
    protocol: str | None = None


class _Flags(FlagsForm):
    column: str | None = None
    protocol: str | None = None


_Entry = _Bit | _Choice | _Number | _Flags
_ENTRIES: dict[str, type[BaseModel]] = {
    "bit": _Bit,
    "choice": _Choice,
    "number": _Number,
    "flags": _Flags,
}
_QUESTION: TypeAdapter[_Entry] = TypeAdapter(Annotated[_Entry, Field(discriminator="kind")])


class _File(Strict):
    """What stands in a survey file besides the questions themselves."""

    title: str = ""
    users: Annotated[int, Field(ge=1)]
    epsilon: Annotated[float, Field(gt=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    error: _Share | None = None
    confidence: _Share | None = None
    together: bool = False
    rounds: Annotated[int, Field(ge=1)] = 1
    person: Annotated[str, Field(min_length=1)] | None = None
    contributions: Annotated[int, Field(ge=1, le=MOST_RECORDS)] = 1
    rows_are_people: bool = False
    honest: _Share = 1.0
    max_messages: Annotated[int, Field(ge=1)] = MOST_MESSAGES
    local_epsilon: Annotated[float, Field(gt=0)] | Literal["none"] | None = None
    influence: Annotated[float, Field(gt=0)] | None = None
    protocol: Annotated[str, Field(min_length=1)] | None = None
    anyway: bool = False
    table: dict[str, Any] = Field(default_factory=dict)
    cross: list[str] | list[list[str]] = Field(default_factory=list)
    by_public: str = ""
    questions: Annotated[dict[str, Any], Field(min_length=1)]


ABOUT_DEVICES: tuple[tuple[str, Any], ...] = (
    ("honest", 1.0),
    ("max_messages", MOST_MESSAGES),
    ("local_epsilon", None),
    ("influence", None),
    ("protocol", None),
)
"""Wishes about what devices send and who may lie, with their defaults."""


@dataclass(frozen=True)
class SurveyFile:
    """A survey with everything that a plan needs."""

    survey: Survey
    users: int
    target: Target | None
    error: Error | None
    delta: float | None = None
    rounds: int = 1
    honest: float = 1.0
    person: str | None = None
    """The column that tells people apart."""
    contributions: int = 1
    rows_are_people: bool = False
    """Whether every row of a table is another person."""
    max_messages: int = MOST_MESSAGES
    local_epsilon: float | None = None
    influence: float | None = None
    protocol: str | Mapping[str, str] | None = field(default=None, repr=False)
    """The protocol that is to be taken, for all questions or by the name of each."""
    anyway: bool = False
    """Whether a plan of no use is wanted too."""
    columns: dict[str, str] = field(default_factory=dict)
    """The column that answers a question, where it has another name."""
    table: Settings = field(default_factory=Settings)
    """How the table of answers is written."""
    view: str = field(default=MESSAGES, repr=False)
    """What is planned: messages of devices, or totals that one party adds up."""

    def in_view(self, view: str) -> SurveyFile:
        """Return the survey for a view; of totals without the wishes that are about devices."""
        if view in {self.view, MESSAGES}:
            return self
        return replace(self, view=view, **dict(ABOUT_DEVICES))

    @property
    def wishes_about_devices(self) -> list[str]:
        """Return the keys of wishes that the file has, and that say nothing of totals."""
        return [name for name, default in ABOUT_DEVICES if getattr(self, name) != default]

    @property
    def reports(self) -> int:
        """Return for how many reports a release waits."""
        return needed_reports(
            self.users,
            honest_share(self.honest),
            contributions=self.contributions,
            rounds=self.rounds,
            delta=charged_delta(self.users, self.target, self.delta),
        )

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that a plan follows from."""
        followed = repr(replace(self, columns={}, table=Settings()))
        # Only where one is given: folders of runs that knew no such field go on.
        followed += "" if self.protocol is None else repr(self.protocol)
        followed += "" if self.view == MESSAGES else self.view
        return hashlib.sha256(followed.encode()).hexdigest()

    def plan(
        self,
        progress: Callable[[str], None] | None = None,
        *,
        protocol: str | None = None,
        anyway: bool = False,
    ) -> Plan:
        """Return the plan that fits best; with ``anyway`` also one of no use.

        A ``protocol`` that is given here replaces those of the file.
        """
        return plan(
            self.survey,
            users=self.users,
            target=self.target,
            error=self.error,
            delta=self.delta,
            rounds=self.rounds,
            contributions=self.contributions,
            honest=self.honest,
            max_messages=self.max_messages,
            local_epsilon=self.local_epsilon,
            influence=self.influence,
            protocol=self.protocol if protocol is None else protocol,
            view=self.view,
            anyway=anyway or self.anyway,
            progress=progress,
        )

    def price(self, epsilons: Iterable[float], *, delta: float) -> Iterator[Price]:
        """Yield what other promises would cost; the wishes are those of the file."""
        return price(
            self.survey,
            users=self.users,
            epsilons=epsilons,
            delta=delta,
            rounds=self.rounds,
            contributions=self.contributions,
            max_messages=self.max_messages,
            honest=self.honest,
            local_epsilon=self.local_epsilon,
            influence=self.influence,
            protocol=self.protocol,
            view=self.view,
        )


def load_survey(path: str | Path) -> SurveyFile:
    """Return the survey in a file, or raise InvalidFile with all its faults."""
    place = Path(path)
    text = read_small(place, most=_LARGEST_FILE, must_be=_RULE)
    return survey_from(text, name=place.name, folder=place.parent)


def survey_from(
    text: str | bytes, *, name: str = "survey", folder: Path | None = None
) -> SurveyFile:
    """Return the survey in a text; files of values are looked for in ``folder``.

    >>> survey_from(EXAMPLE).users
    20000
    """
    decoded = _decoded(text, f"file {name}", _RULE)
    try:
        document = tomllib.loads(decoded)
    except (ValueError, RecursionError) as fault:
        raise InvalidFile(f"file {name}", "TOML", [str(fault)], hint=_hint(decoded)) from None
    faults: list[str] = []
    questions, entries = _questions(document.get("questions"), folder or Path(), faults)
    try:
        head = _File.model_validate(document)
    except ValidationError as fault:
        faults[:0] = _told(fault, _File)
        raise InvalidFile(f"file {name}", _RULE, faults, hint=_hint(decoded)) from None
    faults.extend(_settings_faults(head.table))
    found = None
    if not faults:
        try:
            found = _built(head, questions, entries)
        except ChaffinchError as fault:
            faults.append(fault.message)
    faults.extend(_wishes(head))
    if faults or found is None:
        raise InvalidFile(f"file {name}", _RULE, faults, hint=_hint(decoded))
    return found


def quoted(text: str) -> str:
    """Return a text as TOML writes it, which is as JSON does, but for one letter.

    >>> quoted("tea")
    '"tea"'
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def share_of(value: float | str) -> float:
    """Return a share given as a number or in percent.

    >>> share_of("0.5%"), share_of(0.25), share_of("0.25")
    (0.005, 0.25, 0.25)
    """
    if not isinstance(value, str):
        return value
    number, percent, _ = value.partition("%")
    try:
        return float(number) / (100.0 if percent else 1.0)
    except ValueError:
        raise InvalidInput("share", "a number such as 0.005, or 0.5%", value) from None


def _questions(
    given: Any, folder: Path, faults: list[str]
) -> tuple[dict[str, Question], dict[str, _Entry]]:
    questions: dict[str, Question] = {}
    entries: dict[str, _Entry] = {}
    for name, entry in given.items() if isinstance(given, dict) else ():
        place = f"questions.{name}"
        kind = entry.get("kind") if isinstance(entry, dict) else None
        try:
            model = _QUESTION.validate_python(entry)
            entries[name] = model
            questions[name] = _filled(model, folder).build()
        except ValidationError as fault:
            known = _ENTRIES.get(kind) if isinstance(kind, str) else None
            faults.extend(_told(fault, known, place=place, tag=kind))
        except ChaffinchError as fault:
            faults.append(f"{place}: {fault.message}")
    return questions, entries


def _filled(model: _Entry, folder: Path) -> _Entry:
    """Return a question whose values have been read from their file, if that is where they are."""
    if not isinstance(model, _Choice):
        return model
    given = [model.values_file is not None, model.values != [], model.dates is not None]
    if sum(given) != 1:
        raise InvalidInput("values", "given, or a values_file, or dates: one of them", sum(given))
    if model.dates is not None:
        values = list(date_values(model.dates, model.first, model.last))
        return model.model_copy(update={"values": values})
    if model.first is not None or model.last is not None:
        raise InvalidInput(
            "first and last", 'given with dates = "year-month" alone', [model.first, model.last]
        )
    if model.values_file is None:
        return model
    path = folder / model.values_file
    rule = "a list of values"
    text = read_small(path, most=_LARGEST_FILE, must_be=rule)
    lines = _decoded(text, f"file {path.name}", rule).splitlines()
    listed = [line.strip() for line in lines if line.strip()]
    return model.model_copy(update={"values": listed})


def _decoded(text: str | bytes, file: str, must_be: str) -> str:
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError:
        raise InvalidFile(file, must_be, ["bytes that are not UTF-8"]) from None


def _settings_faults(said: dict[str, Any]) -> list[str]:
    """Return what is wrong with each setting of the table by itself."""
    faults = []
    known = [one.name for one in fields(Settings)]
    for name, value in said.items():
        if name not in known:
            faults.append(f"table.{name}: is not known here{guess_of(name, known)}")
            continue
        try:
            Settings(**{name: value})
        except ChaffinchError as fault:
            faults.append(f"table.{name}: {fault.message}")
    return faults


def _wishes(head: _File) -> list[str]:
    """Return what is wrong with the promise and the error taken together."""
    faults = []
    if (head.epsilon is None) == (head.error is None):
        got = "neither" if head.epsilon is None else "both"
        faults.append(f"epsilon: give epsilon or error, one of the two (got {got})")
    if head.confidence is not None and head.error is None:
        faults.append("confidence: belongs to an error, and there is none")
    if head.together and head.error is None:
        faults.append("together: belongs to an error, and there is none")
    return faults


def _built(head: _File, questions: dict[str, Question], entries: dict[str, _Entry]) -> SurveyFile:
    by = {name: one.by for name, one in entries.items() if not isinstance(one, _Flags) and one.by}
    target = error = None
    if head.epsilon is not None:
        target = Target(head.epsilon, head.delta or default_delta(head.users))
    elif head.error is not None:
        confidence = share_of(head.confidence or 0.95)
        error = Error(share_of(head.error), confidence, head.together)
    survey = Survey(questions, head.title, head.cross, by, head.by_public)
    return SurveyFile(
        survey=survey,
        users=head.users,
        target=target,
        error=error,
        delta=head.delta if error is not None else None,
        rounds=head.rounds,
        honest=share_of(head.honest),
        person=head.person,
        contributions=head.contributions,
        rows_are_people=head.rows_are_people,
        max_messages=head.max_messages,
        local_epsilon=math.inf if head.local_epsilon == "none" else head.local_epsilon,
        influence=head.influence,
        protocol=_protocol(head.protocol, survey, entries),
        anyway=head.anyway,
        columns={name: one.column for name, one in entries.items() if one.column is not None},
        table=Settings(**head.table),
    )


def _protocol(
    for_all: str | None, survey: Survey, entries: dict[str, _Entry]
) -> str | dict[str, str] | None:
    """Return the protocol of the file, or that of each question where some have their own."""
    own = {name: one.protocol for name, one in entries.items() if one.protocol is not None}
    if not own:
        return for_all
    rest = {} if for_all is None else dict.fromkeys(survey.planned, for_all)
    return rest | own


_MESSAGES = {
    "string_pattern_mismatch": "must be a number",
    "union_tag_not_found": "needs a kind: bit, choice, number or flags",
    "union_tag_invalid": "kind must be bit, choice, number or flags",
}


def _told(
    fault: ValidationError,
    model: type[BaseModel] | None,
    *,
    place: str = "",
    tag: object = None,
) -> list[str]:
    """Return every fault as "place: what is wrong", with a guess for a misspelled key."""
    told: dict[str, str] = {}
    for one in fault.errors(include_url=False, include_input=True):
        known = one["type"] != "extra_forbidden"
        steps = [str(step) for step in one["loc"] if _is_key(step, branches=known)]
        steps = [step for step in steps if step != tag]
        path = ".".join([*([place] if place else []), *steps]) or "file"
        words = _MESSAGES.get(one["type"]) or message_of(one) or one["msg"]
        if isinstance(one["input"], float) and math.isnan(one["input"]):
            words = "must be a number"  # which the bounds of no number say of it
        guess = ""
        if one["type"] == "extra_forbidden" and model is not None:
            guess = guess_of(str(one["loc"][-1]), list(model.model_fields))
        elif one["type"] == "union_tag_invalid" and isinstance(tag, str):
            near = difflib.get_close_matches(tag, list(_ENTRIES), n=1)  # the rule lists them all
            guess = f", not {tag!r:.40}" + (f"; did you mean {near[0]!r}?" if near else "")
        elif isinstance(one["input"], (str, int, float)):
            guess = f", not {one['input']!r:.40}"
        told.setdefault(path, f"{path}: {words}{guess}")
    # Where an entry is wrong, nothing is told of the list that it stands in.
    return [
        words
        for path, words in told.items()
        if not any(other.startswith(f"{path}.") for other in told)
    ]


def _is_key(step: int | str, *, branches: bool) -> bool:
    """Return whether a step is a key of the file and not, if there are any, a branch of a type."""
    if isinstance(step, int):
        return True
    named = branches and step in {"float", "int", "str", "Range"}
    return not named and not step.startswith(("constrained-", "list[", "literal"))


def _hint(text: str) -> str:
    """Return what helps: of a draft, which lines are still to be completed."""
    lines = enumerate(text.splitlines(), 1)
    left = [str(number) for number, line in lines if line.startswith(_TO_FILL_IN)]
    if not left:
        return _HINT
    return (
        f"this is a draft: complete line{'s' * (len(left) > 1)} {', '.join(left)}, "
        f"and take away the `{_TO_FILL_IN}` before it"
    )


__all__ = ["EXAMPLE", "SurveyFile", "load_survey", "quoted", "share_of", "survey_from"]
