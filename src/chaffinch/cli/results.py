"""A release for the eyes: the promise in plain words, a table, the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chaffinch.cli.output import Output, counted

if TYPE_CHECKING:
    from chaffinch.release.release import Answer, Release, Summary

MOST_ROWS = 30


def show(
    release: Release, output: Output, *, truths: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Print a release; ``truths`` (of made-up people only) stand beside the estimates."""
    from chaffinch.release import sentences as words

    output.words(release.title or f"Release of plan {release.plan_id[:16]}")
    output.words("")
    promise(release, output)
    for answer in release.answers:
        output.words(f"{answer.question}  ({counted(release.reports, 'report')})")
        _table(answer, release.reports, output, (truths or {}).get(answer.question))
        shown = words.leading(answer, MOST_ROWS)
        if len(shown) < len(answer.labels):
            output.words(f"The {len(shown)} largest of {len(answer.labels):,} values.")
        if answer.summary is not None and answer.summary.unit:
            output.words(f"In {answer.summary.unit}.")
        for note in answer.notes:
            output.words(f"note: {note}")
        output.words("")
    output.words(words.columns(release))


def promise(release: Release, output: Output) -> None:
    """Print what is promised, to whom, and what it counts on."""
    from chaffinch.release import sentences as words
    from chaffinch.rounding import at_most

    guarantee = release.guarantee
    kind = "proven" if guarantee.proven else "not proven"
    output.words(
        f"Guarantee: epsilon {at_most(guarantee.epsilon, 6)} with delta "
        f"{at_most(guarantee.delta, 3)} ({kind}, method {guarantee.method}; neighbours: "
        f"{guarantee.neighbours})."
    )
    output.words(words.promise(release))
    output.words(words.trust(release))
    output.words("")


def _table(answer: Answer, reports: int, output: Output, truth: Sequence[float] | None) -> None:
    from chaffinch.charts.terminal import shorten
    from chaffinch.release import sentences as words
    from chaffinch.rounding import downwards, nearest, two_digits, upwards

    digits = words.places(answer)
    room = max(12, output.width - 46 - (10 if truth is not None else 0))
    rows = []
    for spot in words.leading(answer, MOST_ROWS):
        row = [
            shorten(answer.labels[spot], room),
            nearest(float(answer.estimates[spot]), digits),
            two_digits(float(answer.standard_errors[spot])),
            downwards(float(answer.low[spot]), digits),
            upwards(float(answer.high[spot]), digits),
        ]
        if truth is not None:
            row.append(nearest(float(truth[spot]), digits))
        rows.append(row)
    if answer.summary is not None:
        rows.append(list(words.sum_row(answer, reports)))
        rows.extend(_spread(answer.summary))
    heads = ["value", "estimate", "±", "low", "high", *(["truth"] if truth is not None else [])]
    output.table(heads, [row + [""] * (len(heads) - len(row)) for row in rows])


def _spread(summary: Summary) -> list[list[str]]:
    from chaffinch.charts.estimates import quantile_name
    from chaffinch.release import sentences as words
    from chaffinch.rounding import downwards, nearest, upwards

    digits = words.spread_places(summary)
    return [
        [
            quantile_name(chance),
            nearest(middle, digits),
            "",
            downwards(low, digits),
            upwards(high, digits),
        ]
        for chance, low, middle, high in summary.quantiles
    ]
