"""A release as one page of HTML that needs nothing else: the promise, charts, tables, facts."""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch.charts import page as shared
from chaffinch.charts.estimates import DotFigure, estimates_chart, number_chart, quantile_name
from chaffinch.charts.svg import escape
from chaffinch.release import sentences as words
from chaffinch.release.release import Answer, Release, Summary
from chaffinch.rounding import nearest, percent, two_digits

MOST_ROWS = 200
_HEAD_ROWS = 10


def page(release: Release) -> str:
    """Return the whole page."""
    sections = [
        f"<section>{''.join(_question(release, answer, number))}</section>\n"
        for number, answer in enumerate(release.answers, 1)
    ]
    return shared.shell(
        _title(release),
        head=shared.promise([words.promise(release), words.trust(release)], words.terms(release)),
        main="".join([*sections, shared.reading(words.reading(release))]),
        foot=_facts(release),
    )


def summary(release: Release) -> str:
    """Return a short piece of HTML for notebooks: the promise and the first rows."""
    pieces = [f"<p><strong>{escape(_title(release))}</strong></p>"]
    pieces.append(f"<p>{escape(str(release.guarantee))}</p>")
    for answer in release.answers:
        pieces.append(f"<p>{escape(answer.question)}</p>")
        pieces.extend(_table(release, answer, _HEAD_ROWS))
    return "".join(pieces)


def _title(release: Release) -> str:
    return release.title or f"Release of plan {release.plan_id[:16]}"


def _question(release: Release, answer: Answer, number: int) -> Iterator[str]:
    yield f"<h2>{escape(answer.question)}</h2>\n"
    yield shared.figure(_chart(release, answer), f"chart-{number}")
    yield from _table(release, answer, MOST_ROWS)
    if answer.summary is not None and answer.summary.quantiles:
        yield _quantiles(release, answer.summary)
    yield shared.notes(answer.notes)


def _chart(release: Release, answer: Answer) -> DotFigure:
    if answer.summary is not None:
        return number_chart(
            answer.question,
            (float(answer.estimates[0]), float(answer.low[0]), float(answer.high[0])),
            answer.summary.quantiles,
            level=release.level,
            unit=answer.summary.unit,
        )
    return estimates_chart(
        answer.question,
        answer.labels,
        answer.estimates,
        each=(answer.low, answer.high),
        together=(answer.low_together, answer.high_together),
        level=release.level,
    )


def _table(release: Release, answer: Answer, most: int) -> Iterator[str]:
    digits, shown = words.places(answer), words.leading(answer, most)
    columns = (answer.low, answer.high, answer.low_together, answer.high_together)
    rows = []
    for place in shown:
        low, high, low_all, high_all = (float(column[place]) for column in columns)
        estimate = float(answer.estimates[place])
        rows.append(
            [
                answer.labels[place],
                nearest(estimate, digits),
                two_digits(float(answer.standard_errors[place])),
                shared.between(low, high, digits),
                shared.between(low_all, high_all, digits),
            ]
        )
    level = percent(release.level)
    head = ["value", "estimate", "standard error", f"{level} interval", f"{level}, all together"]
    if answer.summary is not None:
        # One number: its interval is that of all together.
        name, total, error, low_end, high_end = words.sum_row(answer, release.reports)
        rows.append([name, total, error, f"{low_end} to {high_end}"])
        head, rows = head[:4], [row[:4] for row in rows]
    unit = answer.summary.unit if answer.summary else "people"
    yield shared.grid(f"{f'In {unit}; ' if unit else ''}{release.reports:,} reports.", head, rows)
    if len(shown) < len(answer.labels):
        yield (
            f'<p class="soft">The {len(shown)} largest of {len(answer.labels):,} values. '
            "All of them are in the release's JSON, CSV and Parquet files.</p>\n"
        )


def _quantiles(release: Release, spread: Summary) -> str:
    digits = words.spread_places(spread)
    rows = [
        [quantile_name(chance), nearest(middle, digits), shared.between(low, high, digits)]
        for chance, low, middle, high in spread.quantiles
    ]
    caption = (
        "Quantiles; all brackets hold together with a probability of at least "
        f"{percent(release.level)}."
    )
    return shared.grid(caption, ["quantile", "estimate", "bracket"], rows)


def _facts(release: Release) -> str:
    return shared.facts(
        [
            ("Plan", release.plan_id),
            ("Guarantee", str(release.guarantee)),
            ("Method", release.guarantee.method),
            ("Level", percent(release.level)),
            ("Rounds", f"{release.rounds:,}"),
            ("Batch", release.batch),
            ("Made with", f"chaffinch {release.version}"),
        ]
    )
