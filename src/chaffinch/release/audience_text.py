"""A reach in plain text: the promise, then one table under its headings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from chaffinch.charts.terminal import table
from chaffinch.release import audience_sentences as words
from chaffinch.release.audience_release import ReachRelease
from chaffinch.rounding import downwards, nearest, two_digits, upwards

WIDTH = 80
MOST_ROWS = 40


def text(
    release: ReachRelease, *, width: int = WIDTH, truths: Mapping[str, float] | None = None
) -> str:
    """Return the release as plain text.

    ``truths``, by the names of groups, stand beside the estimates: of made-up ids only.
    """
    paragraphs = [
        words.title(release),
        words.promise(release),
        words.trust(release),
        f"{release.guarantee}.",
        words.columns(release),
    ]
    lines = [line for one in paragraphs for line in [*textwrap.wrap(one, width), ""]]
    for section in words.sections(release):
        lines.extend(_section(section, width, truths))
    for note in release.notes:
        lines.extend([*textwrap.wrap(f"note: {note}", width), ""])
    return "\n".join(lines).rstrip()


def _section(
    section: words.Section, width: int, truths: Mapping[str, float] | None
) -> Iterator[str]:
    digits = words.places(section.rows)
    rows = [(section.heading, "estimate", "±", "low", "high")]
    rows += [
        (
            label,
            nearest(row.estimate, digits),
            two_digits(row.standard_error),
            downwards(row.low, digits),
            upwards(row.high, digits),
        )
        for label, row in zip(section.labels, section.rows, strict=True)
    ][:MOST_ROWS]
    shown: list[tuple[str, ...]] = list(rows)
    if truths is not None:
        known = [truths.get(row.group) for row in section.rows[:MOST_ROWS]]
        cells = ["truth", *("" if one is None else nearest(one, digits) for one in known)]
        shown = [(*row, cell) for row, cell in zip(rows, cells, strict=True)]
    yield from table(shown, width)
    if len(section.rows) > MOST_ROWS:
        yield f"  The first {MOST_ROWS} of {len(section.rows):,} rows."
    yield ""
