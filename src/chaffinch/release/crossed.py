"""What a crossed question tells besides its cells: margins, and shares or means of groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from chaffinch.charts.rounding import decimal_places
from chaffinch.questions import BETWEEN, MISSING
from chaffinch.release.headlines import largest_headline
from chaffinch.release.release_document import Amount, Real, Text
from chaffinch.release.statement import Grid, Headline, Line, Section
from chaffinch.wire.document_forms import Form, Listed, Many

_HAS = ("has", "have")
_MOST_NAMED = 10
_MOST_ROWS, _MOST_COLUMNS = 60, 12
"""A larger cross table is a list of its cells."""


class Derived(NamedTuple):
    """One estimate that follows from the cells, and its intervals."""

    kind: Literal["margin", "share", "mean"]
    question: str
    value: str
    """The answer that is counted; ``mean`` of a number."""
    given: tuple[str, ...]
    """The group: answers to all questions but the last, in their order; none for all people."""
    estimate: float
    standard_error: float
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all rows of this kind and question."""
    high_together: float
    of: Literal["all"] | None = None
    """Of whom a share is: of all in the group, not only those who answered. Releases of before
    do not say it."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the estimate, its standard error and the ends of both intervals."""
        return self[4:-1]

    @property
    def of_all(self) -> bool:
        """Return whether it is a share of the whole group, not only of those who answered."""
        return self.kind == "share" and self.value == MISSING


@dataclass(frozen=True, slots=True)
class Crossed:
    """What follows from the cells of one crossed question."""

    questions: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    """The answers to each question; the cells are in the order of their product."""
    rows: tuple[Derived, ...]
    unknown: tuple[tuple[str, ...], ...] = ()
    """Groups that may be empty, of which nothing can be told."""
    unit: str = ""

    def of_kind(self, kind: str) -> list[Derived]:
        """Return the rows of a kind."""
        return [row for row in self.rows if row.kind == kind]

    @property
    def measured(self) -> bool:
        """Return whether the last question is about a number."""
        return any(row.kind == "mean" for row in self.rows)

    @property
    def name_of_means(self) -> str:
        """Return what the means of groups are called together."""
        return mean_name(f"{self.questions[-1]} by {BETWEEN.join(self.questions[:-1])}")

    @property
    def name_of_shares(self) -> str:
        """Return what the shares of groups are called together."""
        return f"{self.questions[-1]} by {BETWEEN.join(self.questions[:-1])}"

    def row_name(self, row: Derived) -> str:
        """Return what files call a row.

        >>> crossed = Crossed(("carrier", "delayed"), (("AA",), ("no", "yes")), ())
        >>> crossed.row_name(Derived("share", "delayed", "yes", ("AA",), *[0.0] * 6))
        'share of delayed = yes, where carrier = AA'
        >>> crossed.row_name(Derived("share", "delayed", "(missing)", ("AA",), *[0.0] * 6))
        'share of delayed = (missing), of all where carrier = AA'
        """
        where = self.group_name(row.given)
        told = f"{row.question} = {row.value}"
        if row.kind != "margin":
            told = f"mean of {row.question}" if row.kind == "mean" else f"share of {told}"
        return f"{told}, {'of all ' * row.of_all}where {where}" if where else told

    def group_name(self, given: Sequence[str]) -> str:
        """Return what files call a group: answers to the first questions, in their order."""
        named = zip(self.questions, given, strict=False)
        return " and ".join(f"{name} = {value}" for name, value in named)

    @property
    def named_axes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return each question with its answers."""
        return tuple(zip(self.questions, self.axes, strict=True))

    def unknown_notes(self) -> Iterator[str]:
        """Yield the sentence about groups of which nothing can be told."""
        if not self.unknown:
            return
        named = [BETWEEN.join(group) for group in self.unknown[:_MOST_NAMED]]
        more = len(self.unknown) - len(named)
        listed = ", ".join(named) + (f" and {more:,} more" if more else "")
        told = "mean" if self.measured else "share"
        yield f"No {told} can be given for {listed}: nobody may be there, as far as is known."


def mean_name(cells: str) -> str:
    """Return what the means are called that follow from the cells of a question of this name."""
    return f"mean of {cells}"


class DerivedForm(Form):
    """A margin, or a share or a mean of a group, from the cells of a crossed question.

    A share or a mean is that of those who answered, unless it says that it is of all.
    """

    makes = Derived

    kind: Literal["margin", "share", "mean"]
    question: Text
    value: Text
    given: Many[Text]
    estimate: Real
    standard_error: Amount
    low: Real
    high: Real
    low_together: Real
    high_together: Real
    of: Literal["all"] | None = None


class AxisForm(Form):
    """One of the questions that are crossed, and its answers."""

    question: Text
    values: Annotated[tuple[Text, ...], Listed(at_least=1)]


class CrossedForm(Form):
    """What follows from the cells of a crossed question, which are in the order of the product."""

    named_axes: Annotated[
        tuple[Annotated[tuple[str, tuple[str, ...]], AxisForm.as_tuple()], ...],
        Listed(at_least=2),
        Field(alias="questions"),
    ]
    unit: Text
    rows: Annotated[Many[Annotated[Derived, DerivedForm.written()]], Field(alias="derived")]
    unknown: Many[Many[Text]]

    def build(self) -> Crossed:
        """Return what follows."""
        questions, axes = zip(*self.named_axes, strict=True)
        return Crossed(questions, axes, self.rows, self.unknown, self.unit)


# ---------------------------------------------------------------------- what it says


def margin_advice(told: Mapping[str, Crossed]) -> dict[tuple[str, str], str]:
    """Return what to say of each count of a question that several of these crosses count.

    The one with the smallest error is shown; nothing is said of the others, which repeat it.
    """
    errors: dict[str, dict[str, float]] = {}
    for cross, crossed in told.items():
        for row in crossed.of_kind("margin"):
            found = errors.setdefault(row.question, {})
            found[cross] = max(found.get(cross, 0.0), row.standard_error)
    advice = {}
    for name, found in errors.items():
        best = min(found, key=found.__getitem__)
        others = [cross for cross in found if cross != best]
        for cross in others:
            advice[cross, name] = ""
        if others:
            advice[best, name] = (
                f"{name} is also counted in {' and in '.join(others)}, with other noise: use the "
                "count here, as none has a smaller error."
            )
    return advice


def crossed_sections(
    crossed: Crossed, cells: Section, advice: Mapping[tuple[str, str], str]
) -> Iterator[Section]:
    """Yield the cross table, its margins, and the shares of groups; or means, then groups.

    ``cells`` is the section that lists all cells; ``advice`` is that about margins.
    """
    margins, last = list(_margin_sections(crossed, cells, advice)), crossed.questions[-1]
    groups = BETWEEN.join(crossed.questions[:-1])
    if crossed.measured:
        kind, heading, unit = "mean", crossed.name_of_means, crossed.unit
        scale = 1.0
    else:
        kind, heading, unit = "share", f"{last} by {groups}, in percent", "%"
        scale = 100.0
        yield replace(cells, grid=_grid(crossed, cells))
        yield from margins
    rows = crossed.of_kind(kind)
    if rows:
        yield Section(
            name=f"{cells.name}-{kind}s",
            heading=heading,
            caption="; ".join(_of_whom(rows, unit)),
            label=groups,
            rows=tuple(_line(row, group_label(row), scale) for row in rows),
            unit=unit,
            counted=False,
            notes=cells.notes if crossed.measured else (),
            headline=_group_headline(crossed, rows, scale),
        )
    if crossed.measured:
        notes = () if rows else cells.notes
        yield from (replace(one, notes=(*notes, *one.notes)) for one in margins)


def _group_headline(crossed: Crossed, rows: Sequence[Derived], scale: float) -> Headline:
    """Return which group has the largest mean, or the largest share of a yes."""
    last = crossed.questions[-1]
    if crossed.measured:
        told = [_line(row, BETWEEN.join(row.given)) for row in rows if row.given]
        return largest_headline(told, most=f"the largest mean of {last}", verbs=_HAS)
    if not set(crossed.axes[-1]) <= {"no", "yes", MISSING}:
        return ()
    told = [
        _line(row, BETWEEN.join(row.given), scale)
        for row in rows
        if row.value == "yes" and row.given
    ]
    return largest_headline(told, most=f"the largest share of {last}", verbs=_HAS, sign="%")


def group_label(row: Derived) -> str:
    """Return what people call a group, and of a share what it is the share of."""
    group = BETWEEN.join(row.given) or "everybody"
    if row.kind == "mean":
        return group
    return f"{group}: {row.value}{', of all' * row.of_all}"


def _of_whom(rows: Sequence[Derived], unit: str) -> Iterator[str]:
    """Yield the unit and of whom the numbers are, in words."""
    if unit:
        yield f"in {unit}"
    yield "of those who answered"
    if any(row.of_all for row in rows):
        yield f"{MISSING} of all"


def _margin_sections(
    crossed: Crossed, cells: Section, advice: Mapping[tuple[str, str], str]
) -> Iterator[Section]:
    margins = crossed.of_kind("margin")
    for number, name in enumerate(crossed.questions, 1):
        rows = tuple(_line(row, row.value) for row in margins if row.question == name)
        said = advice.get((cells.heading, name))
        if rows:
            yield replace(
                cells,
                name=f"{cells.name}-margin-{number}",
                heading=f"{name}, from {cells.heading}",
                rows=rows,
                notes=(said,) if said else (),
                headline=(),
                repeats=said == "",
            )


def _line(row: Derived, label: str, scale: float = 1.0) -> Line:
    estimate, error, low, high, low_all, high_all = (scale * one for one in row.numbers)
    counted = row.kind == "margin"
    digits = decimal_places(error, counted=counted)
    return Line(label, estimate, error, (low, high), (low_all, high_all), digits)


def _grid(crossed: Crossed, cells: Section) -> Grid | None:
    """Return the cells as a table, where it is small enough."""
    columns = crossed.axes[-1]
    rows = [BETWEEN.join(names) for names in itertools.product(*crossed.axes[:-1])]
    if len(rows) > _MOST_ROWS or len(columns) > _MOST_COLUMNS:
        return None
    numbers = [line.estimate for line in cells.rows]
    values = [
        numbers[start : start + len(columns)] for start in range(0, len(numbers), len(columns))
    ]
    return Grid(
        down=BETWEEN.join(crossed.questions[:-1]),
        across=crossed.questions[-1],
        rows=tuple(rows),
        columns=columns,
        values=tuple(map(tuple, values)),
        decimals=cells.rows[0].decimals,
    )
