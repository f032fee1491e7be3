"""What a release promises and how it is to be read, in plain sentences for every medium."""

from __future__ import annotations

import math

import numpy as np

from chaffinch.planning.explanation import right_guesses
from chaffinch.release.release import Answer, Release, Summary
from chaffinch.rounding import at_most, decimals, downwards, nearest, percent, two_digits, upwards

_NEIGHBOURS = {
    "replace-one": "everything that one person sent, replaced by anything else",
    "replace-one-column": "one column, replaced by any other",
}
_VIEWS = {
    "messages": "all messages, in an order that says nothing",
    "one report": "all that one person sent",
    "records": "all records, in an order that says nothing",
}
_METHODS = {
    "exact": "computed exactly",
    "upper-bound": "a proven upper bound",
}
ALONE = "one report"
"""The view of somebody who counts on nobody else."""


def promise(release: Release) -> str:
    """Return who is protected and how well, in odds."""
    right = right_guesses(release.guarantee.epsilon, release.guarantee.delta)
    return (
        f"Protected is {unit(release)}. Of 100 guessers who try to tell which of two answers "
        f"someone gave, 50 are right by tossing a coin; after seeing everything that was "
        f"collected, at most {right} of 100 are right."
    )


def unit(release: Release) -> str:
    """Return the unit of protection."""
    asked = len(release.answers)
    answers = {1: "the one answer", 2: "both answers"}.get(asked, f"all {asked} answers")
    rounds = f", in all {release.rounds} rounds together" if release.rounds > 1 else ""
    return f"one person: {answers} they gave{rounds}"


def trust(release: Release) -> str:
    """Return what the promise counts on, and what is left without it."""
    if release.guarantee.view == ALONE:
        return "This counts on nobody else: it holds even if all others collude."
    local = release.guarantee.local_epsilon
    left = (
        "nothing protects a single answer"
        if math.isinf(local)
        else f"an epsilon of {at_most(local, 4)} is left"
    )
    return (
        f"This counts on {release.guarantee.crowd}, and on a shuffler that does not collude "
        f"with the analyzer. If the two collude, {left}."
    )


def terms(release: Release) -> list[tuple[str, str]]:
    """Return the parts of the guarantee, each with its name; promises are rounded up."""
    promised = release.guarantee
    local = promised.local_epsilon
    proven = "" if promised.proven else " (not proven)"
    return [
        ("Unit of protection", unit(release)),
        ("Epsilon", at_most(promised.epsilon, 6)),
        ("Delta", at_most(promised.delta, 3)),
        ("Neighbours", _named(_NEIGHBOURS, promised.neighbours)),
        ("View", _named(_VIEWS, promised.view)),
        ("Crowd", promised.crowd),
        ("Method", _named(_METHODS, promised.method) + proven),
        (
            "Local epsilon",
            "infinite (no protection if shuffler and analyzer collude)"
            if math.isinf(local)
            else f"{at_most(local, 4)} (what is left if shuffler and analyzer collude)",
        ),
        ("Reports", f"{release.reports:,}"),
    ]


def reading(release: Release) -> list[str]:
    """Return how to read the numbers."""
    level = percent(release.level)
    return [
        (
            "Every number is an estimate. Chance was added on purpose, on each person's device, "
            "and the exact numbers are known to nobody."
        ),
        (
            "The standard error is how far an estimate typically is from the truth, by that "
            "chance alone. It does not cover who took part, or whether people answered truthfully."
        ),
        (
            f"The {level} interval of a value holds the truth with at least that probability, if "
            "you had the value in mind before looking. For values picked out because they are "
            "the largest, the smallest or a surprise, use the interval for all together: with "
            f"a probability of at least {level}, all values of the question lie in theirs at once."
        ),
        (
            "An estimate can be negative, or lie outside of its interval, because intervals hold "
            "only what is possible. Estimates need not add up to the number of reports."
        ),
    ]


def columns(release: Release) -> str:
    """Return what stands in the columns of a table of plain text."""
    level = percent(release.level)
    said = (
        "± is one standard error; low and high are the ends of an interval that holds with "
        f"probability {level} for each value by itself"
    )
    if any(answer.summary and answer.summary.quantiles for answer in release.answers):
        said += "; those of the quantiles of one question hold with that probability all together"
    return f"{said}."


def leading(answer: Answer, most: int) -> list[int]:
    """Return which values to show: all in their order, or the largest where there are more."""
    count = len(answer.labels)
    if count <= most:
        return list(range(count))
    order: list[int] = np.argsort(-answer.estimates, kind="stable")[:most].tolist()
    return order


def places(answer: Answer) -> int:
    """Return how many decimals the numbers of an answer deserve."""
    errors = answer.standard_errors[answer.standard_errors > 0]
    smallest = float(errors.min()) if len(errors) else 0.0
    return decimals(smallest, counted=answer.summary is None)


def spread_places(summary: Summary) -> int:
    """Return how many decimals the quantiles of a number deserve, by the narrowest bracket."""
    widths = [high - low for _, low, _, high in summary.quantiles if high > low]
    return decimals(min(widths, default=0.0) / 4)


def sum_row(answer: Answer, reports: int) -> tuple[str, ...]:
    """Return the sum of a number, written: it is the mean, its error and interval, times all."""
    error, low, high = (
        float(column[0]) * reports for column in (answer.standard_errors, answer.low, answer.high)
    )
    total = answer.summary.total if answer.summary else float(answer.estimates[0]) * reports
    digits = decimals(error)
    return (
        "sum",
        nearest(total, digits),
        two_digits(error),
        downwards(low, digits),
        upwards(high, digits),
    )


def _named(table: dict[str, str], word: str) -> str:
    return f"{table[word]} ({word})" if word in table else word
