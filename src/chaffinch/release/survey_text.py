"""A release in plain text: the promise, then a table for each question, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from chaffinch.charts.estimates import quantile_name
from chaffinch.charts.terminal import table
from chaffinch.release import sentences as words
from chaffinch.release.release import Answer, Release, Summary
from chaffinch.rounding import downwards, nearest, two_digits, upwards

WIDTH = 80
MOST_ROWS = 30

Cells = tuple[str, ...]
_HEAD: Cells = ("value", "estimate", "±", "low", "high")


def text(release: Release) -> str:
    """Return the release as plain text."""
    paragraphs = [
        release.title or f"Release of plan {release.plan_id[:16]}",
        words.promise(release),
        words.trust(release),
        str(release.guarantee) + ".",
        f"{release.reports:,} reports. {words.columns(release)}",
    ]
    lines = [line for one in paragraphs for line in [*textwrap.wrap(one, WIDTH), ""]]
    for answer in release.answers:
        lines.extend(_question(answer, release.reports))
    return "\n".join(lines).rstrip()


def _question(answer: Answer, reports: int) -> Iterator[str]:
    yield from textwrap.wrap(answer.question, WIDTH)
    shown = words.leading(answer, MOST_ROWS)
    digits = words.places(answer)
    rows: list[Cells] = [
        (
            answer.labels[place],
            nearest(float(answer.estimates[place]), digits),
            two_digits(float(answer.standard_errors[place])),
            downwards(float(answer.low[place]), digits),
            upwards(float(answer.high[place]), digits),
        )
        for place in shown
    ]
    if answer.summary is not None:
        rows.append(words.sum_row(answer, reports))
        rows.extend(_spread(answer.summary))
    yield from table([_HEAD, *rows], WIDTH)
    if len(shown) < len(answer.labels):
        yield f"  The {len(shown)} largest of {len(answer.labels):,} values."
    if answer.summary is not None and answer.summary.unit:
        yield from textwrap.wrap(f"In {answer.summary.unit}.", WIDTH, initial_indent="  ")
    for note in answer.notes:
        yield from textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield ""


def _spread(summary: Summary) -> Iterator[Cells]:
    digits = words.spread_places(summary)
    for chance, low, estimate, high in summary.quantiles:
        ends = (downwards(low, digits), upwards(high, digits))
        yield (quantile_name(chance), nearest(estimate, digits), "", *ends)
