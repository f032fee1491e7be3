"""What the release of a survey says, in sentences and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import decimal_places, percent_text, promise_text
from chaffinch.plans.protected_units import ROWS_OF_GROUPS_ONLY, ROWS_ONLY, protected_answers
from chaffinch.privacy import Guarantee
from chaffinch.privacy.guarantee import left_words
from chaffinch.questions import MISSING
from chaffinch.release.crossed import crossed_sections, margin_advice
from chaffinch.release.headlines import (
    headline_advice,
    largest_headline,
    mean_headline,
    share_headline,
)
from chaffinch.release.statement import (
    PARTS,
    Headline,
    Line,
    Pair,
    Section,
    Statement,
    closing_facts,
    guarantee_terms,
    promise_sentence,
    promise_warnings,
)

if TYPE_CHECKING:
    from chaffinch.release.surveys import Answer, Release, Summary

ANSWERED = "answered"
"""The name of the count of those who answered a number."""
DEVIATION = "standard deviation"
"""The name of the standard deviation of a number."""
_MOST_IN_TITLE = 3
"""So many questions are named in the title of a release without one."""
_ALONE = "one report"
"""The view of somebody who counts on nobody else."""
_GUESS = "which of two answers someone gave"


def release_statement(release: Release) -> Statement:
    """Return what a release says."""
    unit, promise = _protection_unit(release), release.promise
    return Statement(
        title=(release.title or _title_of_questions(release)) + _group_title(release),
        byline=_byline(release),
        warnings=promise_warnings(promise, guess=_GUESS),
        odds=promise.odds,
        promise=promise_sentence(promise, guess=_GUESS, seen=_seen(release)),
        covers=f"The promise covers {unit}.{_group_sentence(release)}",
        trust=_trust_sentence(release),
        guarantee=_guarantee_sentence(release),
        terms=(
            *guarantee_terms(promise, unit=unit, one_party=_held_here(release)),
            *_local_terms(release),
            ("Reports", f"{release.reports:,}"),
        ),
        level=release.level,
        legend=(
            "s.e. is one standard error; low and high are the ends of an interval that holds with "
            f"probability {percent_text(release.level)} for each value by itself. {PARTS}"
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


def _title_of_questions(release: Release) -> str:
    names = [answer.question for answer in release.answers]
    more = len(names) - _MOST_IN_TITLE
    return f"Release of {', '.join(names[:_MOST_IN_TITLE])}" + f" and {more} more" * (more > 0)


def _byline(release: Release) -> tuple[str, ...]:
    """Return of how many it is, when it was made and by whom, as far as the release says so."""
    day = release.made_on
    made = () if day is None else (f"{day.day} {day:%B %Y}",)
    by = (f"published by {release.published_by}",) if release.published_by else ()
    often = () if release.round is None else (f"round {release.round} of {release.rounds:,}",)
    return ("Release", f"{release.reports:,} {counted_unit(release)}", *often, *made, *by)


def _seen(release: Release) -> str:
    """Return what the promise counts as seen; earlier releases only where it covers them."""
    if not _held_here(release):
        return "everything that was collected"
    return "this release" if release.together is None else "all of these releases"


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
    # Whether anybody has more is not told: that would be a fact about one person.
    some = "several rows, one was" if one else f"more rows, {release.contributions} were"
    fewer = "" if one else " Who has fewer counts with empty ones, which are missing answers."
    note = (
        f"Where somebody has {some} drawn at random, and the numbers are those of the rows that "
        f"were drawn. Standard errors and intervals cover the noise, not the drawing.{fewer}"
    )
    return (note,)


def _earlier_notes(release: Release) -> tuple[str, ...]:
    earlier = "An earlier release of the same data protects rows only, so both together do."
    return (earlier,) if release.promised_unit == "row" else ()


def counted_unit(release: Release) -> str:
    """Return what a count counts."""
    if release.unit == "row":
        return "rows"
    return "people" if release.contributions == 1 else "reports"


def _guarantee_sentence(release: Release) -> str:
    if release.together is None:
        return _sentence(release, release.guarantee)
    alone = release.guarantee
    earlier = release.together.releases - 1
    return (
        f"{_sentence(release, release.together.guarantee)}. This release adds to {earlier} earlier "
        f"release{'s' * (earlier != 1)} of the same data, and this is what all of them promise "
        f"together; alone it would be ({promise_text(alone.epsilon, 6)}, "
        f"{promise_text(alone.delta, 3)})"
    )


def _sentence(release: Release, guarantee: Guarantee) -> str:
    return guarantee.of_one_party if _held_here(release) else str(guarantee)


def _held_here(release: Release) -> bool:
    """Return whether one party held the answers and added the noise."""
    return release.one_party or release.of_totals


def _trust_sentence(release: Release) -> str:
    """Return what the promise counts on, and what is left without it."""
    if release.of_totals:
        return (
            "Trusted was whoever ran this: they hold the table and know the exact numbers, and "
            "added noise to the totals, once; the promise holds against everybody else, who sees "
            "only what is released."
        )
    if release.one_party:
        return (
            "Noise was added to each answer, as on devices, but by whoever ran this: they hold the "
            "table and know the exact numbers, and the promise holds against everybody else, who "
            "sees only what is released."
        )
    promise = release.promise
    if promise.view == _ALONE:
        return "It counts on nobody else: it holds even if all others collude."
    local = promise.local_epsilon
    left = f"{left_words(local)} is left"
    if release.trust:
        return f"It counts on {promise.crowd_shown}. {release.trust} If they work together, {left}."
    return (
        f"It counts on {promise.crowd_shown}, and on a shuffler that does not collude "
        f"with the analyzer; if they work together, {left}."
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


def _local_terms(release: Release) -> Iterator[Pair]:
    """Yield what is left if parties collude, where there is more than one."""
    if _held_here(release):
        return
    local, what = release.promise.local_epsilon, "if shuffler and analyzer collude"
    yield "Local epsilon", f"{left_words(local)} is left {what}"


def _reading_advice(release: Release) -> tuple[str, ...]:
    level = percent_text(release.level)
    who = (
        "here, by whoever ran this, who holds the table and knows the exact numbers"
        if _held_here(release)
        else "before it was sent, and whoever counted does not know the exact numbers"
    )
    what = "the totals" if release.of_totals else "each answer"
    return (
        f"Every number is an estimate. Noise was added to {what} on purpose, {who}.",
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
        headline_advice(release.level),
        *_crossed_advice(release),
        (
            "An estimate can be negative, or lie outside of its interval, because intervals hold "
            f"only what is possible. {PARTS}"
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
    unit, notes = counted_unit(release), answer.notes
    rows = tuple(_count_lines(answer))
    if answer.summary is not None:
        rows = tuple(_number_lines(answer, answer.summary, release.reports, unit))
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
        rows=rows,
        unit=unit,
        counted=answer.summary is None,
        notes=notes,
        headline=_headline(answer, rows, release),
        crowd=None if answer.summary is not None or answer.shares else release.reports,
        within=None if answer.summary is None else answer.summary.within,
    )


def _headline(answer: Answer, rows: Sequence[Line], release: Release) -> Headline:
    """Return what was found of a question, by what was asked."""
    if answer.summary is not None:
        who = " of those who answered" if answer.summary.answered else ""
        deviation = next((row for row in rows if row.label == DEVIATION), None)
        return mean_headline(
            rows[0], answer.summary.unit, who, answer.summary.within, deviation=deviation
        )
    unit, crowd = counted_unit(release), release.reports
    # Where gaps are counted, shares are of those who answered, here as everywhere.
    if answer.shares:
        rows, crowd, whose = _share_lines(answer), 100, "of those who answered"
        said = (
            f"{whose} said yes" if unit == "people" else f"of the {unit} with an answer are a yes"
        )
    else:
        whose = f"of all {crowd:,} {unit}"
        said = f"{whose} {'answered' if unit == 'people' else 'are a'} yes"
    told = [row for row in rows if row.label != MISSING]
    yes = [row for row in told if row.label == "yes"]
    if yes and {row.label for row in told} <= {"yes", "no"}:
        return share_headline(yes[0], crowd, said)
    return largest_headline(told, sign="%", crowd=crowd, whose=whose)


def _share_section(answer: Answer, number: int) -> Section:
    """Return the shares of those who answered, and of those who did not, in percent."""
    return Section(
        name=f"question-{number}-answered",
        heading=shares_heading(answer.question),
        caption=f"in % of those who answered; {MISSING} in % of all",
        label="value",
        rows=_share_lines(answer),
        unit="%",
        counted=False,
    )


def _share_lines(answer: Answer) -> tuple[Line, ...]:
    narrowest = min(100.0 * (one.high - one.low) for one in answer.shares)
    # The narrowest interval decides; it stands for about four standard errors.
    digits = decimal_places(narrowest / 4)
    rows = []
    for value, estimate, *ends in answer.shares:
        low, high, low_all, high_all = (100.0 * end for end in ends)
        line = Line(value, 100.0 * estimate, None, (low, high), (low_all, high_all), digits)
        rows.append(line)
    return tuple(rows)


def shares_heading(question: str) -> str:
    """Return what stands above the shares of those who answered."""
    return f"{question}: shares of those who answered"


def _count_lines(answer: Answer) -> Iterator[Line]:
    errors = answer.standard_errors[answer.standard_errors > 0]
    digits = decimal_places(float(errors.min()) if len(errors) else 0.0, counted=True)
    for label, estimate, error, low, high, low_all, high_all in answer.columns():
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
            label = f"{row.value} ({counted})" if row.value == ANSWERED else row.value
            digits = decimal_places(error, counted=row.value == ANSWERED)
            line = Line(label, row.estimate, error, ends, None, digits, name=row.value)
            yield line._replace(drawn=row is mean)
