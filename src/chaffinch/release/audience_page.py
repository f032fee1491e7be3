"""A reach as one page of HTML that needs nothing else: promise, charts, tables, facts."""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch.charts import page as shared
from chaffinch.charts.estimates import DotFigure, estimates_chart
from chaffinch.charts.parts import MOST_SETS, PartsFigure, parts_chart
from chaffinch.charts.svg import escape
from chaffinch.planning.audiences.audience import Group
from chaffinch.release import audience_sentences as words
from chaffinch.release.audience_release import ReachRelease
from chaffinch.rounding import nearest, percent, two_digits

UNIT = "ids"
MOST_ROWS = 200
_HEAD_ROWS = 10


def page(release: ReachRelease) -> str:
    """Return the whole page."""
    sections = [
        f"<section>{''.join(_section(release, section))}</section>\n"
        for section in words.sections(release)
    ]
    notes = shared.notes(release.notes)
    return shared.shell(
        words.title(release),
        head=shared.promise([words.promise(release), words.trust(release)], words.terms(release)),
        main="".join([*sections, notes, shared.reading(words.reading(release))]),
        foot=shared.facts(words.facts(release)),
    )


def summary(release: ReachRelease) -> str:
    """Return a short piece of HTML for notebooks: the promise and the first rows."""
    pieces = [f"<p><strong>{escape(words.title(release))}</strong></p>"]
    pieces.append(f"<p>{escape(str(release.guarantee))}</p>")
    for section in words.sections(release):
        pieces.append(f"<p>{escape(section.heading)}</p>")
        pieces.append(_table(release, section, _HEAD_ROWS))
    return "".join(pieces)


def overlaps(release: ReachRelease) -> PartsFigure | None:
    """Return the picture of who shares what, for a few publishers whose overlaps are all known."""
    names = release.publishers
    if not 2 <= len(names) <= MOST_SETS:
        return None
    known = {row.group: row.estimate for row in release.rows}
    common = {frozenset([name]): known.get(name) for name in names}
    for part in _combinations(names):
        common[frozenset(part)] = known.get(Group(all_of=part).name)
    found = {some: value for some, value in common.items() if value is not None}
    if len(found) < len(common):
        return None
    return parts_chart("Who shares what", names, found, unit=UNIT)


def _combinations(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    from itertools import combinations

    for size in range(2, len(names) + 1):
        yield from combinations(names, size)


def _section(release: ReachRelease, section: words.Section) -> Iterator[str]:
    yield f"<h2>{escape(section.heading)}</h2>\n"
    picture = overlaps(release) if section.name == "overlaps" else None
    if picture is not None:
        yield shared.figure(picture, "parts")
    yield shared.figure(_chart(release, section), section.name)
    yield _table(release, section, MOST_ROWS)


def _chart(release: ReachRelease, section: words.Section) -> DotFigure:
    rows = section.rows
    # An adjusted estimate may lie outside of an interval, and still belongs in the picture.
    return estimates_chart(
        section.heading,
        section.labels,
        [row.estimate for row in rows],
        each=([row.low for row in rows], [row.high for row in rows]),
        together=([row.low_together for row in rows], [row.high_together for row in rows]),
        level=release.level,
        unit=UNIT,
    )


def _table(release: ReachRelease, section: words.Section, most: int) -> str:
    digits = words.places(section.rows)
    rows = [
        [
            label,
            nearest(row.estimate, digits),
            two_digits(row.standard_error),
            shared.between(row.low, row.high, digits),
            shared.between(row.low_together, row.high_together, digits),
        ]
        for label, row in list(zip(section.labels, section.rows, strict=True))[:most]
    ]
    level = percent(release.level)
    head = ["ids of", "estimate", "standard error", f"{level} interval", f"{level}, all together"]
    if section.name == "frequency":
        head[0] = "ids seen"
    left_out = len(section.rows) - len(rows)
    caption = f"{section.heading}, in ids"
    if left_out:
        caption += f"; the first {len(rows)} of {len(section.rows):,} rows"
    return shared.grid(f"{caption}.", head, rows)
