"""From a shuffled batch to a release: estimates, errors, intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaffinch.analysis import adjust
from chaffinch.analysis.answered import (
    Answerers,
    answered_mean,
    answered_shares,
    share_ends,
)
from chaffinch.analysis.cross_margins import crossed_answer
from chaffinch.analysis.number_estimates import Scale, mean, survival
from chaffinch.analysis.spread import standard_deviation
from chaffinch.analysis.tally import check_tally, tally
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.plans.expansion import COUNT_SHARE, tells_answered, tells_squares
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, require_plan
from chaffinch.protocols.base import Reading, number_question
from chaffinch.protocols.intervals import intervals, miss_chance, simultaneous
from chaffinch.protocols.noise import Floats
from chaffinch.questions import COUNT, MISSING, REFUSE, Bit, Choice, Cross, Flags, Number, Question
from chaffinch.release.surveys import Answer, Answered, Release, Share, Span, Summary
from chaffinch.wire.batches import Counts
from chaffinch.wire.messages import Shuffled, Tally

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_ADJUSTMENTS = ("none", "non-negative", "total")


def check_wishes(level: float, adjustment: str) -> float:
    """Return a level as a float; refuse a level or an adjustment that there is none of."""
    miss_chance(level)
    checks.choice("adjustment", adjustment, _ADJUSTMENTS)
    return float(level)


def analyze(
    batch: Shuffled | Tally,
    plan: Plan,
    *,
    level: float = 0.95,
    adjustment: str = "none",
    quantiles: Sequence[float] = _QUANTILES,
    ledger: Ledger | None = None,
    key: str | None = None,
) -> Release:
    """Return the release of a batch: estimates with standard errors and intervals.

    Intervals hold with probability ``level``: each by itself, and, as the second pair, all
    values of a question together. ``adjustment`` may move the estimates to what is possible
    (``non-negative``, or ``total``: they also add up to the number of reports), which biases
    them and is said in the release. With a ``ledger`` the release is charged before it is
    handed out. What is charged is the digest of the batch: the same content again is free, and
    other content is not, whatever it is called. ``key`` is a name for people.
    """
    level = check_wishes(level, adjustment)
    require_plan(plan)
    if not isinstance(batch, (Shuffled, Tally)):
        raise InvalidInput(
            "batch", "one that was shuffled", type(batch).__name__, hint="call chaffinch.shuffle"
        )
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidInput("ledger", "a Ledger", type(ledger).__name__, hint="use Ledger.open")
    if isinstance(quantiles, (int, float, str)):
        raise InvalidInput("quantiles", "a list of shares such as [0.25, 0.5]", quantiles)
    found = check_tally(batch if isinstance(batch, Tally) else tally(batch), plan)
    plan.verify()

    asked = _Asked(level, adjustment, tuple(quantiles))
    answers = []
    for index, part in enumerate(plan.parts):
        if part.answers_to is not None:
            continue  # told with its number
        answer = _answer(plan, index, found, asked)
        useless = (f"Warning: {words}" for words in part.warnings(plan.reports))
        answers.append(replace(answer, notes=(*useless, *answer.notes)))
    release = Release.of(plan, found, level, answers)
    if ledger is not None:
        charge_release(ledger, plan, found, key)
    return release


def charge_release(
    ledger: Ledger, plan: Plan, found: Tally, key: str | None = None, *, of_table: bool = False
) -> Entry:
    """Charge the release of a tally durably; only afterwards may it be handed out.

    What is charged is the digest of the batch: the same content is charged once. ``of_table``
    says that one party held all rows (``Charge.of_table``).
    """
    digest = _charged_digest(found)
    charge = Charge.of_table(plan) if of_table else Charge.of(plan)
    with ledger.charging(charge, key or digest, subject=digest, by_subject=True) as entry:
        return entry


def release_occasion(
    ledger: Ledger, plan: Plan, found: Tally, key: str | None = None, *, of_table: bool = False
) -> tuple[str, str]:
    """Return the key and the subject under which the release of a tally is charged, as of now.

    The subject is the digest, worked out from what was counted. What was charged for the same
    content before is charged under the same key again, which costs nothing, whatever it is
    called now: everything in a release follows from the tally. Otherwise the key is the one
    given, or the digest. Another process may charge the same content in the meantime;
    ``charge_release`` looks again.
    """
    digest = _charged_digest(found)
    charge = Charge.of_table(plan) if of_table else Charge.of(plan)
    known = (one.key for one in ledger.entries() if (one.subject, one.charge) == (digest, charge))
    return next(known, key or digest), digest


def _charged_digest(found: Tally) -> str:
    if not found.name:
        raise InvalidInput(
            "batch", "one that was shuffled, to be charged to a ledger", Unquoted("a tally")
        )
    return found.digest


@dataclass(frozen=True, slots=True)
class _Asked:
    level: float
    adjustment: str
    quantiles: tuple[float, ...]


def _answer(plan: Plan, index: int, found: Tally, asked: _Asked) -> Answer:
    part, reading = plan.parts[index], _reading(plan, index, found)
    if isinstance(part.question, Number):
        return _number_with_parts(plan, index, found, asked)
    noise, counts = reading.noise, reading.tallies
    estimates = noise.estimate(counts, found.present)
    errors = np.broadcast_to(noise.standard_error(found.present, estimates), estimates.shape)
    low, high = intervals(noise, counts, found.present, asked.level)
    low_all, high_all = simultaneous(noise, counts, found.present, asked.level)
    estimates, moved = _adjusted(asked.adjustment, part, estimates, found.present)
    notes = _treatment_notes(part.question) + moved
    shares: tuple[Share, ...] = ()
    if part.labels[-1] == MISSING:
        shares = _shares(
            part, reading, estimates, (low_all, high_all), found.present, level=asked.level
        )
        # The gaps may be everybody.
        if high_all[-1] >= found.present:
            notes.append(_NO_SHARES)
    if reading.lowered:
        notes.append("Some codes were sent more often than honest reports can; they were lowered.")
    crossed = None
    if isinstance(part.question, Cross):
        joint = part.protocol.joint(part.question, reading.tallies, found.present)
        raw = noise.estimate(counts, found.present)
        crossed = crossed_answer(part.question, joint, raw, found.present, asked.level)
        notes.extend(crossed.unknown_notes())
    return Answer(
        question=part.name,
        labels=part.labels,
        tallies=counts,
        estimates=estimates,
        standard_errors=np.array(errors, dtype=np.float64),
        low=low.astype(np.float64),
        high=high.astype(np.float64),
        low_together=low_all.astype(np.float64),
        high_together=high_all.astype(np.float64),
        notes=tuple(notes),
        crossed=crossed,
        shares=shares,
    )


def _reading(plan: Plan, index: int, found: Tally) -> Reading:
    part, first = plan.parts[index], plan.offsets[index]
    counts = found.counts[first : first + part.codes]
    return part.protocol.read(part.question, counts, found.present)


def _shares(
    part: Part,
    reading: Reading,
    estimates: Floats,
    together: tuple[Counts, Counts],
    reports: int,
    *,
    level: float,
) -> tuple[Share, ...]:
    alpha = miss_chance(level)
    # An estimate may leave nobody, or fewer; a share is then of one person at least.
    people = max(reports - float(estimates[-1]), 1.0)
    columns = [
        estimates[:-1] / people,
        *answered_shares(reading.noise, reading.tallies, reports, alpha),
        *share_ends(*together, reports),
    ]
    found = [Share(*one) for one in zip(part.labels, *(c.tolist() for c in columns), strict=False)]
    low, high = intervals(reading.noise, reading.tallies[-1:], reports, level)
    ends = (low[0], high[0], together[0][-1], together[1][-1])
    missing = Share(MISSING, *(float(one) / reports for one in (estimates[-1], *ends)))
    return (*found, missing)


def _adjusted(
    adjustment: str, part: Part, estimates: Floats, reports: int
) -> tuple[Floats, list[str]]:
    table: dict[str, Callable[[], tuple[Floats, str]]] = {
        "non-negative": lambda: adjust.non_negative(estimates),
        "total": lambda: adjust.to_total(estimates, reports),
    }
    if adjustment == "none":
        return estimates, []
    if part.question.shape == "flags" or len(part.labels) == 1:
        adjustment = "non-negative"  # These do not exclude one another: no total is known.
    moved, said = table[adjustment]()
    return moved, [said]


def _number_with_parts(plan: Plan, index: int, found: Tally, asked: _Asked) -> Answer:
    """Return what is said of a number, from all parts of the plan that are about it."""
    part, reading, reports = plan.parts[index], _reading(plan, index, found), found.present
    answered = squares = None
    for place, one in enumerate(plan.parts):
        if one.answers_to == part.name and tells_answered(one):
            answered = _reading(plan, place, found)
        elif one.answers_to == part.name and tells_squares(one):
            squares = one, _reading(plan, place, found)
    if answered is None:
        answer = _number(part, reading, reports, asked)
    else:
        answer = _counted_number(part, reading, answered, reports, asked)
    if squares is None:
        return answer
    alpha, people = miss_chance(asked.level), None
    if answered is not None:
        yes = answered.tallies[-1:]
        people = Answerers.of(answered.noise, yes, reports, alpha * COUNT_SHARE)
    sums = [
        (one.protocol.thermometer, seen.tallies.sum(keepdims=True))
        for one, seen in ((part, reading), squares)
    ]
    spread = standard_deviation(
        number_question(part.question), sums[0], sums[1], people or reports, alpha
    )
    columns = (spread.estimate, spread.standard_error, spread.low, spread.high)
    assert answer.summary is not None  # noqa: S101 - numbers have one
    summary = replace(answer.summary, deviation=Span(*(float(column[0]) for column in columns)))
    return replace(
        answer,
        tallies=np.concatenate([answer.tallies, squares[1].tallies]),
        notes=(*answer.notes, _DEVIATION),
        summary=summary,
    )


def _counted_number(
    part: Part, reading: Reading, answered: Reading, reports: int, asked: _Asked
) -> Answer:
    question, steps = number_question(part.question), part.protocol.thermometer
    scale = Scale.of(question, steps)
    alpha = miss_chance(asked.level)
    yes = answered.tallies[-1:]  # where a no has a tally of its own, it stands before
    people = Answerers.of(answered.noise, yes, reports, alpha * COUNT_SHARE)
    totals = reading.tallies.sum(keepdims=True)
    found = answered_mean(scale, totals, people, alpha)
    notes = [*_treatment_notes(question), *_mean_notes(part)]
    if reading.lowered or answered.lowered:
        notes.append("Some codes were sent too often; they were lowered.")
    if found.nobody.any():
        notes.insert(0, _NO_MEAN)
    spread: tuple[tuple[float, float, float, float], ...] = ()
    if not steps.together:
        known = (float(people.some[0]), int(people.low[0]), int(people.high[0]))
        # The count of answers has used its part of the chance to miss.
        within = 1.0 - alpha * (1.0 - COUNT_SHARE)
        shares = survival(scale, reading.tallies, reports, within, known)
        ends = [end.tolist() for end in shares.quantiles(asked.quantiles)]
        spread = tuple(zip(asked.quantiles, *ends, strict=True))
        notes.append(f"Quantiles: {shares.said}")
    low, high = intervals(answered.noise, yes, reports, asked.level)
    estimate = float(people.estimate[0])
    counted = Span(estimate, people.standard_error, float(low[0]), float(high[0]))
    total = Span(
        float(found.total[0]), found.total_error, *(float(end[0]) for end in found.total_ends)
    )
    return Answer(
        question=part.name,
        labels=("mean",),
        tallies=np.concatenate([reading.tallies, answered.tallies]),
        estimates=found.mean,
        standard_errors=found.mean_error,
        low=found.mean_ends[0],
        high=found.mean_ends[1],
        low_together=found.mean_ends[0],
        high_together=found.mean_ends[1],
        notes=tuple(notes),
        summary=Summary(
            question.unit,
            total.estimate,
            spread,
            Answered(counted, total),
            (question.low, question.high),
        ),
    )


def _number(part: Part, reading: Reading, reports: int, asked: _Asked) -> Answer:
    """Return the mean of a number in bits, and its quantiles where the steps are seen."""
    question, steps = number_question(part.question), part.protocol.thermometer
    counts = reading.tallies
    scale = Scale.of(question, steps)
    found = mean(scale, counts, reports, asked.level)
    notes = [*_treatment_notes(question), *_mean_notes(part)]
    if reading.lowered:
        notes.append("Some codes were sent too often; they were lowered.")
    spread: tuple[tuple[float, float, float, float], ...] = ()
    if not steps.together:
        shares = survival(scale, counts, reports, asked.level)
        ends = [end.tolist() for end in shares.quantiles(asked.quantiles)]
        spread = tuple(zip(asked.quantiles, *ends, strict=True))
        notes.append(f"Quantiles: {shares.said}")
    # One number shares its chance to miss with no other: both of its intervals are the same.
    one = np.array([found.estimate])
    return Answer(
        question=part.name,
        labels=("mean",),
        tallies=counts,
        estimates=one,
        standard_errors=np.array([found.standard_error]),
        low=np.array([found.low]),
        high=np.array([found.high]),
        low_together=np.array([found.low]),
        high_together=np.array([found.high]),
        notes=tuple(notes),
        summary=Summary(question.unit, found.total, spread, within=(question.low, question.high)),
    )


# ----------------------------------------------------------------------------
# How missing answers, and answers that do not fit, were treated: the notes of a release.

_CONSERVATIVE_MEAN = (
    "The interval of the mean is conservative: it covers noise exactly and rounding in the worst "
    "case, so it is often much wider than two standard errors to each side."
)


def _mean_notes(part: Part) -> list[str]:
    """Return how the interval of a mean may be off; not where only the whole sum is rounded."""
    rounded = part.protocol.thermometer.of_sum.rounding_variance(2)
    return [_CONSERVATIVE_MEAN] if rounded == 2 / 4 else []


_DEVIATION = (
    "The standard deviation is that of these people, not an estimate for a larger population. Its "
    "interval holds by itself, and the square root makes the estimate a little small on average."
)
_NO_MEAN = (
    "Warning: it may be that nobody answered, so no mean can be given: its interval is the whole "
    "range."
)
_NO_SHARES = (
    "Warning: it may be that nobody answered, so no shares among those who did can be given."
)


def _treatment_notes(question: Question) -> list[str]:
    """Return the sentences about missing answers and those that do not fit, by a question's rules.

    >>> _treatment_notes(Bit(missing="no"))
    ["Missing answers count as 'no'."]
    """
    return list(_NOTES[question.kind](question))


# A release does not tell whether there was any missing answer. Where one would have been refused,
# all that is counted is as it was given, and nothing has to be said.


def _label_notes(question: Bit | Choice) -> Iterator[str]:
    # Missing answers that are counted have a row of their own.
    if question.missing not in (COUNT, REFUSE):
        yield f"Missing answers count as '{question.missing}'."


def _choice_notes(question: Choice) -> Iterator[str]:
    yield from _label_notes(question)
    if question.unknown is not None:
        yield f"Answers that are not listed count as '{question.unknown}'."


def _number_notes(question: Number) -> Iterator[str]:
    unit = f" {question.unit}" if question.unit else ""
    if question.missing == COUNT:
        yield "Missing answers are counted, and mean and sum are those of the others."
    elif question.missing != REFUSE:
        yield f"Missing answers count as {question.missing:.10g}{unit}."
    if question.clip:
        ends = f"{question.low:.10g} to {question.high:.10g}"
        yield f"Numbers beyond {ends} were moved to the nearest bound."


def _flag_notes(question: Flags) -> Iterator[str]:
    if question.missing not in (COUNT, REFUSE):
        yield "Missing answers count as none of them."


def _cross_notes(question: Cross) -> Iterator[str]:
    for name, one in question.questions.items():
        for note in _treatment_notes(one):
            yield f"{name}: {note}"


_NOTES: dict[str, Callable[[Any], Iterator[str]]] = {
    Bit.kind: _label_notes,
    Choice.kind: _choice_notes,
    Number.kind: _number_notes,
    Flags.kind: _flag_notes,
    Cross.kind: _cross_notes,
}
