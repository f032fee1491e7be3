"""The release of a survey: its data, its document, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import chaffinch
from chaffinch.charts.rounding import decimal_places, percent_text, promise_text, quantile_name
from chaffinch.errors import InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.plans.protected_units import (
    ROWS_OF_GROUPS_ONLY,
    ROWS_ONLY,
    Unit,
    protected_answers,
    weakest_unit,
)
from chaffinch.privacy import Guarantee
from chaffinch.protocols.noise import Floats
from chaffinch.questions import MISSING
from chaffinch.release.crossed import Crossed, crossed_sections, margin_advice
from chaffinch.release.export import TableColumns
from chaffinch.release.publication import Publication, guarantee_document
from chaffinch.release.statement import (
    Line,
    Section,
    Statement,
    closing_facts,
    guarantee_terms,
    promise_sentence,
    promise_warnings,
)
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.wire.messages import Tally

FORMAT = "chaffinch/release@1"
_ALONE = "one report"
"""The view of somebody who counts on nobody else."""
_GUESS = "which of two answers someone gave"


_ANSWERED = "answered"
"""The name of the count of those who answered a number."""


class _Row(NamedTuple):
    """One line of a release: an estimate and its interval."""

    question: str
    value: str
    estimate: float
    standard_error: float | None
    """None for a quantile or a share, which have a bracket only."""
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all values of the question at once."""
    high_together: float


class Share(NamedTuple):
    """Which share of those who answered holds a value; of all, for those who did not answer."""

    value: str
    estimate: float
    low: float
    high: float
    low_together: float
    high_together: float


class Span(NamedTuple):
    """An estimate with its error and an interval."""

    estimate: float
    standard_error: float
    low: float
    high: float


class Answered(NamedTuple):
    """What is known of those who answered a number, where missing answers are counted."""

    people: Span
    """How many they are."""
    total: Span
    """The sum of their numbers."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a number besides its mean."""

    unit: str
    total: float
    quantiles: tuple[tuple[float, float, float, float], ...]
    """(probability, lower end, estimate, upper end), all brackets holding together."""
    answered: Answered | None = None
    """Mean, sum and quantiles are those of these people, if there are any."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a release says about one question."""

    question: str
    labels: tuple[str, ...]
    tallies: Counts
    estimates: Floats
    standard_errors: Floats
    low: Floats
    high: Floats
    low_together: Floats
    high_together: Floats
    notes: tuple[str, ...] = ()
    summary: Summary | None = None
    crossed: Crossed | None = None
    """What follows from the cells of a crossed question."""
    shares: tuple[Share, ...] = ()
    """Where missing answers are counted: shares of those who answered, and of those who did not."""

    def rows(self) -> Iterator[_Row]:
        """Yield one row for each value."""
        columns = (self.estimates, *self._spans)
        for label, *numbers in zip(self.labels, *(c.tolist() for c in columns), strict=True):
            yield _Row(self.question, label, *numbers)

    def summary_rows(self, reports: int) -> Iterator[_Row]:
        """Yield the sum of a number and its quantiles, or the shares of those who answered.

        The sum is the mean times all, or times those who answered: then their count is there too.
        """
        for share in self.shares:
            _, estimate, *ends = share
            yield _Row(self.question, _share_name(share), estimate, None, *ends)
        if self.summary is None:
            return
        if self.summary.answered is None:
            spans = (reports * float(column[0]) for column in self._spans)
            yield _Row(self.question, "sum", self.summary.total, *spans)
        else:
            for name, span in zip((_ANSWERED, "sum"), self.summary.answered, strict=True):
                yield _Row(self.question, name, *span, *span[2:])
        for chance, low, middle, high in self.summary.quantiles:
            yield _Row(self.question, quantile_name(chance), middle, None, low, high, low, high)

    def derived_rows(self) -> Iterator[_Row]:
        """Yield what follows from the cells of a crossed question: margins, shares, means."""
        if self.crossed is not None:
            for one in self.crossed.rows:
                yield _Row(self.question, self.crossed.row_name(one), *one.numbers)

    @property
    def _spans(self) -> tuple[Floats, ...]:
        """Return the columns of a row after the estimate."""
        ends = (self.low, self.high, self.low_together, self.high_together)
        return (self.standard_errors, *ends)


@dataclass(frozen=True, slots=True)
class Together:
    """What a release and earlier ones of the same data promise together."""

    releases: int
    """How many they are, this one among them."""
    guarantee: Guarantee
    unit: Unit = "person"
    """What all of them protect: rows, where one of them promised no more."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Publication):
    """The public result of one collection."""

    _columns: ClassVar = TableColumns(
        _Row._fields, texts=2, gaps=("standard_error",), repeated=("question",)
    )
    _detail: ClassVar = "questions"

    plan_id: str
    title: str
    guarantee: Guarantee
    rounds: int
    reports: int
    batch: str
    """The random name of the batch: two collections never share it, even with equal counts."""
    level: float
    version: str
    answers: tuple[Answer, ...]
    together: Together | None = None
    """Where the same data were released before: what is promised for all of it."""
    one_party: bool = False
    """Whether one party held all answers, added the noise and counted, as in ``chaffinch run``."""
    contributions: int = 1
    """How many reports each person sent."""
    unit: Unit = "report"
    """What is protected: a report, a person, or a row of a table of which one may have several."""
    trust: str = ""
    """What is counted on of the parties that the plan names, as a sentence."""
    rows_were_drawn: bool = False
    """Whether a person's reports are rows drawn from all that the person has in a table."""
    group: tuple[str, str] | None = None
    """The public group whose answers these are, by question and value; it is not protected."""
    round: int | None = None
    """Which round of its plan it is; None where there is only one, and in files of before."""

    @classmethod
    def of(cls, plan: Plan, tally: Tally, level: float, answers: Sequence[Answer]) -> Release:
        """Return the release of a tally under its plan."""
        return cls(
            plan_id=plan.id,
            title=plan.title,
            guarantee=plan.guarantee,
            rounds=plan.rounds,
            reports=tally.present,
            batch=tally.name,
            level=level,
            version=chaffinch.__version__,
            answers=tuple(answers),
            contributions=plan.contributions,
            trust=plan.trust,
            group=None if plan.group is None else (plan.group.name, str(plan.group.value)),
            round=tally.round if plan.rounds > 1 else None,
        )

    def answer(self, question: str | None = None) -> Answer:
        """Return the answer to the question of that name, or to the only one."""
        for answer in self.answers:
            if question == answer.question or (question is None and len(self.answers) == 1):
                return answer
        names = ", ".join(repr(answer.question) for answer in self.answers)
        raise InvalidInput("name of a question", f"one of {names}", question)

    def table(self) -> list[_Row]:
        """Return all rows: question, value, estimate, standard error and both intervals.

        A number has a row for its mean, one for its sum, and one for each quantile. Where missing
        answers are counted, there are also shares of those who answered, and a count of them. A
        crossed question has its cells first, then margins, then shares or means of groups.
        """
        return [
            row
            for answer in self.answers
            for row in (
                *answer.rows(),
                *answer.summary_rows(self.reports),
                *answer.derived_rows(),
            )
        ]

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data; an infinite local epsilon is ``"infinite"``."""
        return {
            "format": FORMAT,
            "plan": self.plan_id,
            "title": self.title,
            "version": self.version,
            "guarantee": guarantee_document(self.guarantee),
            **_together_document(self.together),
            **({"contributions": self.contributions} if self.contributions > 1 else {}),
            **({"unit": self.unit} if self.unit != "report" else {}),
            **({} if self.group is None else {"public_group": list(self.group)}),
            "rounds": self.rounds,
            **({} if self.round is None else {"round": self.round}),
            "reports": self.reports,
            "batch": self.batch,
            "level": self.level,
            **({"trust": self.trust} if self.trust else {}),
            **({"one_party": True} if self.one_party else {}),
            **({"rows_were_drawn": True} if self.rows_were_drawn else {}),
            "questions": [_answer_document(answer) for answer in self.answers],
        }

    @property
    def promised_unit(self) -> Unit:
        """Return what is protected, by this release and the earlier ones of the same data."""
        return self.unit if self.together is None else weakest_unit([self.unit, self.together.unit])

    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""
        return _release_statement(self)

    def __eq__(self, other: object) -> bool:
        # Arrays have no equality of their own; the document holds everything.
        if not isinstance(other, Release):
            return NotImplemented
        return self.document() == other.document()

    __hash__ = None  # type: ignore[assignment]


def _together_document(together: Together | None) -> dict[str, Any]:
    if together is None:
        return {}
    promise = guarantee_document(together.guarantee)
    unit = {"unit": "row"} if together.unit == "row" else {}
    return {"together": {"releases": together.releases, "guarantee": promise, **unit}}


def _answer_document(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "question": answer.question,
        "tallies": answer.tallies.tolist(),
        "values": [
            {name: value for name, value in row._asdict().items() if name != "question"}
            for row in answer.rows()
        ],
        "notes": list(answer.notes),
    }
    if answer.summary is not None:
        document["unit"] = answer.summary.unit
        document["sum"] = answer.summary.total
        document["quantiles"] = [
            dict(zip(("probability", "low", "estimate", "high"), one, strict=True))
            for one in answer.summary.quantiles
        ]
        if answer.summary.answered is not None:
            document["answered"] = {
                name: span._asdict() for name, span in answer.summary.answered._asdict().items()
            }
    if answer.shares:
        document["shares"] = [share._asdict() for share in answer.shares]
    if answer.crossed is not None:
        document["crossed"] = answer.crossed.document()
    return document


def _share_name(share: Share) -> str:
    """Return what files call a share."""
    return f"{share.value}, share of {'all' if share.value == MISSING else 'answers'}"


# ---------------------------------------------------------------------- what a release says


def _release_statement(release: Release) -> Statement:
    unit, promise = _protection_unit(release), _whole_promise(release)
    return Statement(
        title=(release.title or f"Release of plan {release.plan_id[:16]}") + _group_title(release),
        warnings=promise_warnings(promise, guess=_GUESS),
        promise=promise_sentence(
            promise,
            unit=unit,
            guess=_GUESS,
            seen="all that is released" if release.one_party else "everything that was collected",
        )
        + _group_sentence(release),
        trust=_trust_sentence(release),
        guarantee=_guarantee_sentence(release),
        terms=(
            *guarantee_terms(promise, unit=unit),
            ("Local epsilon", _local_term(promise.local_epsilon)),
            ("Reports", f"{release.reports:,}"),
        ),
        level=release.level,
        legend=(
            "± is one standard error; low and high are the ends of an interval that holds with "
            f"probability {percent_text(release.level)} for each value by itself."
        ),
        sections=tuple(
            section
            for number, answer in enumerate(release.answers, 1)
            for section in _answer_sections(answer, release, number)
        ),
        notes=_unit_notes(release),
        reading=_reading_advice(release),
        facts=(
            ("Plan", release.plan_id),
            ("Guarantee", _guarantee_sentence(release)),
            ("Rounds", f"{release.rounds:,}"),
            *closing_facts(batch=release.batch, level=release.level, version=release.version),
        ),
    )


def _group_title(release: Release) -> str:
    return "" if release.group is None else f" ({release.group[0]}: {release.group[1]})"


def _group_sentence(release: Release) -> str:
    """Return what is not protected: the public group that everybody here belongs to."""
    if release.group is None:
        return ""
    name, value = release.group
    return (
        f" Not protected is {name}: everybody here is known to belong to {value!r}, and the number "
        "of reports is exact."
    )


def _protection_unit(release: Release) -> str:
    crossed = [one.crossed.questions if one.crossed else (one.question,) for one in release.answers]
    asked = len({name for names in crossed for name in names})
    releases = 1 if release.together is None else release.together.releases
    return protected_answers(
        asked,
        release.rounds,
        releases,
        contributions=release.contributions,
        unit=release.promised_unit,
    )


def _unit_notes(release: Release) -> tuple[str, ...]:
    if release.unit == "row":
        return (ROWS_ONLY if release.group is None else ROWS_OF_GROUPS_ONLY,)
    return (*_drawing_notes(release), *_earlier_notes(release))


def _drawing_notes(release: Release) -> tuple[str, ...]:
    """Return what no error of the release covers: another draw gives other numbers."""
    if not release.rows_were_drawn:
        return ()
    one = release.contributions == 1
    some = "One row of each person was" if one else f"{release.contributions} rows of each were"
    fewer = "" if one else " Who has fewer counts with empty ones, which are missing answers."
    note = (
        f"{some} drawn at random, and the numbers are those of the rows that were drawn. Standard "
        f"errors and intervals cover the noise, not the drawing.{fewer}"
    )
    return (note,)


def _earlier_notes(release: Release) -> tuple[str, ...]:
    earlier = "An earlier release of the same data protects rows only, so both together do."
    return (earlier,) if release.promised_unit == "row" else ()


def _counted(release: Release) -> str:
    """Return what a count counts."""
    if release.unit == "row":
        return "rows"
    return "people" if release.contributions == 1 else "reports"


def _whole_promise(release: Release) -> Guarantee:
    """Return what holds for a person: of all releases of the same data, if there are several."""
    return release.guarantee if release.together is None else release.together.guarantee


def _guarantee_sentence(release: Release) -> str:
    if release.together is None:
        return str(release.guarantee)
    alone = release.guarantee
    earlier = release.together.releases - 1
    return (
        f"{release.together.guarantee}. This release adds to {earlier} earlier "
        f"release{'s' * (earlier != 1)} of the same data, and this is what all of them promise "
        f"together; alone it would be ({promise_text(alone.epsilon, 6)}, "
        f"{promise_text(alone.delta, 3)})"
    )


def _trust_sentence(release: Release) -> str:
    """Return what the promise counts on, and what is left without it."""
    if release.one_party:
        return (
            "Noise was added here, by whoever ran this: they hold the table and know the exact "
            "numbers, and the promise holds against everybody else, who sees only what is released."
        ) + _parties_sentence(release)
    promise = _whole_promise(release)
    if promise.view == _ALONE:
        return "It counts on nobody else: it holds even if all others collude."
    local = promise.local_epsilon
    left = (
        "nothing protects a single answer"
        if math.isinf(local)
        else f"an epsilon of {promise_text(local, 4)} is left"
    )
    if release.trust:
        return f"It counts on {promise.crowd_shown}. {release.trust} If they work together, {left}."
    return (
        f"It counts on {promise.crowd_shown}, and on a shuffler that does not collude "
        f"with the analyzer; if they work together, {left}."
    )


def _parties_sentence(release: Release) -> str:
    """Return what becomes of parties that the guarantee names, where one was all of them."""
    if release.guarantee.view == _ALONE:
        return ""
    return (
        " What the guarantee says of a hop, a shuffler or an analyzer is for parties that are "
        "apart; here one was all of them."
    )


def _crossed_advice(release: Release) -> tuple[str, ...]:
    """Return what is not proven of shares and means of groups.

    Their noise is weighted by the ratio that is asked for, and its law is worked out at some
    ratios (``analysis.crossed``). With little noise, one between them can be missed a little more
    often: by enumeration, in up to 5.4% of collections in place of 5%.
    """
    if not any(answer.crossed for answer in release.answers):
        return ()
    level = percent_text(release.level)
    return (f"Shares and means of groups lie in their intervals with about {level}, or more.",)


def _local_term(local: float) -> str:
    if math.isinf(local):
        return "infinite (no protection if shuffler and analyzer collude)"
    return f"{promise_text(local, 4)} (what is left if shuffler and analyzer collude)"


def _reading_advice(release: Release) -> tuple[str, ...]:
    level = percent_text(release.level)
    who = (
        "here, by whoever ran this, who holds the table and knows the exact numbers"
        if release.one_party
        else "before it was sent, and whoever counted does not know the exact numbers"
    )
    return (
        f"Every number is an estimate. Noise was added to each answer on purpose, {who}.",
        (
            "The standard error is how far an estimate typically is from the truth, by that "
            "noise alone. It does not cover who took part, or whether people answered truthfully."
        ),
        (
            f"The {level} interval of a value holds the truth with at least that probability, if "
            "you had the value in mind before looking. For values picked out because they are "
            "the largest, the smallest or a surprise, use the interval for all together: with "
            f"a probability of at least {level}, all values of the question lie in theirs at once."
        ),
        *_crossed_advice(release),
        (
            "An estimate can be negative, or lie outside of its interval, because intervals hold "
            "only what is possible. Estimates need not add up to the number of reports."
        ),
    )


def _answer_sections(answer: Answer, release: Release, number: int) -> Iterator[Section]:
    whole = _answer_section(answer, release, number)
    if answer.crossed is None:
        yield whole
        if answer.shares:
            yield _share_section(answer, number)
    else:
        crosses = {one.question: one.crossed for one in release.answers if one.crossed}
        yield from crossed_sections(answer.crossed, whole, margin_advice(crosses))


def _answer_section(answer: Answer, release: Release, number: int) -> Section:
    reports = f"{release.reports:,} report" + "s" * (release.reports != 1)
    unit, notes = _counted(release), answer.notes
    rows = _count_lines(answer)
    if answer.summary is not None:
        rows = _number_lines(answer, answer.summary, release.reports, unit)
        unit = answer.summary.unit
        if answer.summary.quantiles:
            together = (
                "The intervals of the quantiles hold all together, with a probability of at "
                f"least {percent_text(release.level)}."
            )
            notes = (together, *notes)
    return Section(
        name=f"question-{number}",
        heading=answer.question,
        caption=f"in {unit}; {reports}" if unit else reports,
        label="value",
        rows=tuple(rows),
        unit=unit,
        counted=answer.summary is None,
        notes=notes,
    )


def _share_section(answer: Answer, number: int) -> Section:
    """Return the shares of those who answered, and of those who did not, in percent."""
    narrowest = min(100.0 * (one.high - one.low) for one in answer.shares)
    # The narrowest interval decides; it stands for about four standard errors.
    digits = decimal_places(narrowest / 4)
    rows = []
    for value, estimate, *ends in answer.shares:
        low, high, low_all, high_all = (100.0 * end for end in ends)
        line = Line(value, 100.0 * estimate, None, (low, high), (low_all, high_all), digits)
        rows.append(line)
    return Section(
        name=f"question-{number}-answered",
        heading=f"{answer.question}: shares of those who answered",
        caption=f"in % of those who answered; {MISSING} in % of all",
        label="value",
        rows=tuple(rows),
        unit="%",
        counted=False,
    )


def _count_lines(answer: Answer) -> Iterator[Line]:
    errors = answer.standard_errors[answer.standard_errors > 0]
    digits = decimal_places(float(errors.min()) if len(errors) else 0.0, counted=True)
    for _, label, estimate, error, low, high, low_all, high_all in answer.rows():
        yield Line(label, estimate, error, (low, high), (low_all, high_all), digits)


def _number_lines(answer: Answer, summary: Summary, reports: int, counted: str) -> Iterator[Line]:
    """Yield the mean and the sum, each with its own interval, and quantiles, which share theirs."""
    widths = [high - low for _, low, _, high in summary.quantiles if high > low]
    # The narrowest bracket decides; it stands for about four standard errors.
    quantile_digits = decimal_places(min(widths, default=0.0) / 4)
    mean = next(answer.rows())
    for row in (mean, *answer.summary_rows(reports)):
        ends, error = (row.low, row.high), row.standard_error
        if error is None:
            yield Line(row.value, row.estimate, None, None, ends, quantile_digits)
        else:
            # Sums and counts of people are far off the scale of everything else.
            label = f"{row.value} ({counted})" if row.value == _ANSWERED else row.value
            digits = decimal_places(error, counted=row.value == _ANSWERED)
            line = Line(label, row.estimate, error, ends, None, digits, name=row.value)
            yield line._replace(drawn=row is mean)
