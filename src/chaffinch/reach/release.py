"""The release of a reach: its data, its document, and what it says."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from chaffinch.charts.rounding import (
    count_of,
    decimal_places,
    percent_text,
    promise_text,
)
from chaffinch.errors import InvalidInput
from chaffinch.privacy import Guarantee
from chaffinch.privacy.guarantee import left_words
from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.planning.reach_explanation import GUESS, protected_ids
from chaffinch.release.headlines import overlap_headline, reach_headline
from chaffinch.release.publication import Publication
from chaffinch.release.release_document import (
    Amount,
    Count,
    Epsilon,
    GuaranteeForm,
    Real,
    ReleaseFormat,
    Text,
)
from chaffinch.release.statement import (
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
from chaffinch.wire.document_forms import Form, Hex32, Hex64, Listed, Many
from chaffinch.wire.filter_files import LEAST_BITS, MOST_BITS

_UNIT = "ids"
_MOST_SHARED = 4
"""More overlaps than those of three publishers make no sentence."""
_WARNING = "Warning: "
_BETWEEN_NAMES = re.compile(r"^only |,? (?:and|or|not) |, |[()]|\b\d+ times or more$|seen ")
"""What stands between the publishers in the name of a group."""


class _Kind(NamedTuple):
    """What a section is about."""

    name: str
    heading: str
    label: str
    rows: tuple[str, ...]
    """The kinds of rows that belong to it."""


_SECTIONS = (
    _Kind("reach", "Reach", "ids of", ("reach", "publisher")),
    _Kind("overlaps", "Shared and unshared", "ids of", ("only", "overlap")),
    _Kind("frequency", "How often", "ids seen", ("frequency",)),
    _Kind("asked", "Asked for", "ids of", ("asked",)),
)


class ReachRow(NamedTuple):
    """How many ids are in one group."""

    group: str
    kind: str
    """reach, publisher, only, overlap, frequency, or asked."""
    estimate: float
    standard_error: float
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all rows of the release at once."""
    high_together: float


@dataclass(frozen=True, repr=False)
class ReachRelease(Publication):
    """The public result of one collection of filters."""

    _row: ClassVar = ReachRow
    _part: ClassVar = "name of a chart"
    _detail: ClassVar = "groups"

    plan_id: str
    title: str
    guarantee: Guarantee
    colluding_epsilon: float
    """What is left of it against a publisher who helps the analyzer, or the shuffler if there is
    one."""
    key: str
    """The fingerprint of the campaign key."""
    batch: str
    """A name made of the random names of all filters."""
    publishers: tuple[str, ...]
    frequencies: int
    bits: int
    hashes: int
    flip: float
    level: float
    version: str
    rows: tuple[ReachRow, ...]
    notes: tuple[str, ...] = ()
    shuffler_guarantee: Guarantee | None = None
    """What is promised against the shuffler, where one stands between publishers and analyzer."""

    @property
    def reach(self) -> ReachRow:
        """Return the number of ids that any publisher has."""
        return self.rows[0]

    def row(self, group: str | Group) -> ReachRow:
        """Return the row of a group, by its name in words or by what tables call it."""
        if isinstance(group, Group):
            group = group.name
        known = {label: row for _, rows in _labelled_rows(self) for label, row in rows}
        # A publisher may be called what tables call a group: its own name comes first.
        known |= {row.group: row for row in self.rows}
        if group in known:
            return known[group]
        listed = ", ".join(repr(row.group) for row in self.rows[:20])
        raise InvalidInput("group", f"one of {listed}", group, hint=self._meant(str(group), known))

    def _meant(self, group: str, known: Iterable[str]) -> str:
        """Return what helps whoever asked for a group that is not there."""
        slip = difflib.get_close_matches(group, known, n=1, cutoff=0.85)
        for name in filter(None, () if slip else _BETWEEN_NAMES.split(group)):
            if not difflib.get_close_matches(name, self.publishers, n=1):
                return f"there is no publisher {name!r}"
        near = difflib.get_close_matches(group, known, n=1)
        return f"did you mean {near[0]!r}?" if near else "count it with groups=[…] (--any, --all)"

    def table(self) -> list[ReachRow]:
        """Return all rows: group, kind, estimate, standard error and both intervals."""
        return list(self.rows)

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data."""
        return ReachReleaseDocument.document(self)

    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""
        return _release_statement(self)

    def _charted(self, statement: Statement) -> Mapping[str, Section]:
        return {section.name: section for section in statement.sections}


# ---------------------------------------------------------------------- what a release says


def _release_statement(release: ReachRelease) -> Statement:
    unit = protected_ids(len(release.publishers))
    # What may have gone wrong is read before the numbers.
    surprises = tuple(note for note in release.notes if note.startswith(_WARNING))
    return Statement(
        title=release.title or f"Reach of plan {release.plan_id[:16]}",
        byline=("Release", count_of(len(release.publishers), "publisher")),
        warnings=(*promise_warnings(release.guarantee, guess=GUESS), *surprises),
        odds=release.guarantee.odds,
        promise=promise_sentence(release.guarantee, guess=GUESS, seen=_seen(release)),
        covers=f"The promise covers {unit}.",
        trust=_trust_sentence(release),
        guarantee=str(release.guarantee),
        terms=(
            *guarantee_terms(release.guarantee, unit=unit + _unit_tail(release)),
            *_colluding_terms(release),
        ),
        level=release.level,
        legend=(
            "s.e. is one standard error; low and high are the ends of an interval that holds with "
            f"probability {percent_text(release.level)}, each row by itself."
        ),
        sections=tuple(_statement_sections(release)),
        notes=tuple(note for note in release.notes if note not in surprises),
        reading=tuple(_reading_advice(release)),
        facts=(
            ("Plan", release.plan_id),
            ("Guarantee", str(release.guarantee)),
            ("Publishers", ", ".join(release.publishers)),
            ("Filters", f"{release.bits:,} bits, {_filter_count(release)}"),
            ("Hashes", f"{release.hashes} for each id (SipHash-2-4, keyed)"),
            ("Flips", f"{release.flip:.6%} of all bits"),
            ("Key", f"{release.key} (a fingerprint; it tells nothing of the key)"),
            *closing_facts(batch=release.batch, level=release.level, version=release.version),
        ),
    )


def _unit_tail(release: ReachRelease) -> str:
    """Return what else belongs to the one id that is protected."""
    columns = f", in all its {release.hashes} columns" if release.hashes > 1 else ""
    return columns + (", however often it was seen" if release.frequencies > 1 else "")


def _seen(release: ReachRelease) -> str:
    if release.shuffler_guarantee is None:
        return "all filters"
    return "all that the shuffler handed over, also if other publishers help"


def _trust_sentence(release: ReachRelease) -> str:
    """Return what the promise counts on, and what is left without it."""
    if release.shuffler_guarantee is not None:
        return _shuffler_sentence(release, release.shuffler_guarantee)
    if len(release.publishers) == 1:
        return (
            "It counts on the publisher flipping its bits and keeping the campaign key from the "
            f"analyzer; with the key, an id has {left_words(release.guarantee.local_epsilon)} left."
        )
    return (
        "It counts on every publisher flipping its bits, and on none of them giving the campaign "
        "key to the analyzer; if one does, an id at the other publishers has "
        f"{left_words(release.colluding_epsilon)} left."
    )


def _shuffler_sentence(release: ReachRelease, promise: Guarantee) -> str:
    """Return what the shuffler is trusted for, and what is left if it helps others."""
    alone = (
        "It counts on the shuffler, who flips every bit itself and hands over no order, and not on "
        "any publisher. Against the shuffler itself, without the key, the publishers' own flips "
        f"promise epsilon {promise_text(promise.epsilon, 6)} and delta "
        f"{promise_text(promise.delta, 3)}"
    )
    if len(release.publishers) == 1:
        return f"{alone}; if it has the campaign key, {left_words(promise.local_epsilon)}."
    left = left_words(release.colluding_epsilon)
    return f"{alone}; if a publisher helps it, an id at the other publishers has {left}."


def _colluding_terms(release: ReachRelease) -> Iterator[Pair]:
    local = left_words(release.guarantee.local_epsilon)
    left = left_words(release.colluding_epsilon)
    promise, several = release.shuffler_guarantee, len(release.publishers) > 1
    if promise is None:
        yield "Against the key", f"{local} for an id at all publishers, if the analyzer has the key"
        if several:
            said = f"{left} for an id at the other publishers, if one helps the analyzer"
            yield "Against a colluder", said
        return
    yield (
        "Against analyzer and publishers",
        "the epsilon and delta above, for an id at the others, by the shuffler's flips alone",
    )
    alone = f"epsilon {promise_text(promise.epsilon, 6)} and delta {promise_text(promise.delta, 3)}"
    by = f"by the publishers' own flips ({promise.method}), with or without the analyzer"
    yield "Against the shuffler", f"{alone}, {by}"
    helped = f"{left} for an id at the other publishers" if several else f"{local} for an id"
    yield "Against shuffler and key", f"{helped}, if a publisher tells it the campaign key"


def _filter_count(release: ReachRelease) -> str:
    if release.frequencies == 1:
        return "one for each publisher"
    return f"{release.frequencies} for each publisher: seen at least 1 to {release.frequencies} ×"


def _reading_advice(release: ReachRelease) -> list[str]:
    level = percent_text(release.level)
    again = "" if release.shuffler_guarantee is None else " and again by the shuffler"
    lines = [
        (
            "Every number is an estimate of how many ids there are. Bits were flipped by chance at "
            f"each publisher{again}, and ids share columns; nobody knows the exact numbers."
        ),
        (
            "An id is what the publishers agreed to count: a device, an account or an address is "
            "not always one person. Ids that are spelled differently at two publishers count twice."
        ),
        (
            "The standard error is how far an estimate typically is from the truth by flips and "
            "hashes alone. It does not cover a list that was incomplete or wrong."
        ),
        (
            f"The {level} interval holds the truth with that probability or more, each by itself, "
            "also where few ids are or none: for the ids of one publisher that is proven, for "
            "those of several together it was measured in simulations. For rows picked out because "
            "they are large, small or a surprise use the interval for all together: with that "
            "probability all rows of this release lie in theirs at once."
        ),
        (
            "An estimate can be negative where few ids are, and sums of estimates need not agree "
            "with other rows. Intervals stop at 0."
        ),
    ]
    if len(release.publishers) > 1:
        first, second, *_ = release.publishers
        lines.append(
            f"“{first} and {second}” counts ids that both have, whoever else has them too; “only "
            f"{first}” counts ids that no other publisher has."
        )
    if release.frequencies > 1:
        lines.append(
            f"Views are counted up to {release.frequencies} at each publisher, and added up over "
            "all of them."
        )
    return lines


def _statement_sections(release: ReachRelease) -> Iterator[Section]:
    for kind, rows in _labelled_rows(release):
        digits = decimal_places(min(row.standard_error for _, row in rows), counted=True)
        yield Section(
            name=kind.name,
            heading=kind.heading,
            caption=f"in {_UNIT}",
            label=kind.label,
            rows=tuple(_row_line(label, row, digits) for label, row in rows),
            unit=_UNIT,
            shared=_shared_ids(release) if kind.name == "overlaps" else None,
            headline=_HEADLINES.get(kind.name, _no_headline)(release),
        )


def _headline(release: ReachRelease) -> Headline:
    digits = decimal_places(release.reach.standard_error, counted=True)
    return reach_headline(_row_line("", release.reach, digits), release.publishers)


def _shared_headline(release: ReachRelease) -> Headline:
    """Return how many ids some publishers share, in words that need no picture."""
    shared = [row for row in release.rows if row.kind == "overlap"]
    if not 1 <= len(shared) <= _MOST_SHARED:
        return ()
    return overlap_headline([_row_line(row.group, row, 0) for row in shared])


def _no_headline(_: ReachRelease) -> Headline:
    return ()


_HEADLINES = {"reach": _headline, "overlaps": _shared_headline}


def _row_line(label: str, row: ReachRow, digits: int) -> Line:
    alone, together = (row.low, row.high), (row.low_together, row.high_together)
    return Line(label, row.estimate, row.standard_error, alone, together, digits, name=row.group)


def _labelled_rows(release: ReachRelease) -> Iterator[tuple[_Kind, list[tuple[str, ReachRow]]]]:
    """Yield the rows of each section that has any, each with what it is called there.

    That is shorter than the name of its group.
    """
    groups = _usual_by_name(release)
    for kind in _SECTIONS:
        rows = [
            (_row_label(row, groups.get(row.group), release), row)
            for row in release.rows
            if row.kind in kind.rows
        ]
        if kind.name == "frequency" and rows:
            # Those seen at all belong to the picture of how often.
            rows.insert(0, ("once or more", release.reach))
        if rows:
            yield kind, rows


def _row_label(row: ReachRow, group: Group | None, release: ReachRelease) -> str:
    if row.kind == "reach" and len(release.publishers) > 1:
        return "all publishers"
    if group is not None and row.kind == "only":
        return f"only {' and '.join(group.all_of)}"
    if group is not None and row.kind == "frequency":
        return f"{group.times} times or more"
    return row.group


def _shared_ids(release: ReachRelease) -> dict[frozenset[str], float]:
    """Return how many ids some publishers have in common, for one publisher all of its own."""
    groups = _usual_by_name(release)
    found = {}
    for row in release.rows:
        group = groups.get(row.group)
        if group is not None and row.kind in ("publisher", "overlap"):
            found[frozenset(group.all_of or group.any_of)] = row.estimate
    return found


def _usual_by_name(release: ReachRelease) -> dict[str, Group]:
    audience = Audience(release.publishers, frequencies=release.frequencies)
    return {group.name: group for group in usual_groups(audience)}


# ---------------------------------------------------------------------- releases as files


class GroupForm(Form):
    """How many ids are in one group."""

    makes = ReachRow

    group: Text
    kind: Literal["reach", "publisher", "only", "overlap", "frequency", "asked"]
    estimate: Real
    standard_error: Amount
    low: Amount
    high: Amount
    low_together: Amount
    high_together: Amount


class FilterForm(Form):
    """What all filters had in common."""

    bits: Annotated[int, Field(ge=LEAST_BITS, le=MOST_BITS)]
    hashes: Count
    frequencies: Count
    flip: Annotated[float, Field(gt=0, lt=0.5, alias="flip_probability")]


class ReachReleaseDocument(Form):
    """A release file."""

    makes = ReachRelease

    format: Literal["chaffinch/reach-release@1"]
    plan_id: Annotated[Hex64, Field(alias="plan")]
    title: Text
    version: Text
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]
    colluding_epsilon: Epsilon
    shuffler_guarantee: Annotated[Guarantee, GuaranteeForm.written()] | None = None
    key: Hex32
    batch: Hex32
    publishers: Annotated[tuple[Text, ...], Listed(at_least=1)]
    filters: FilterForm
    level: Annotated[float, Field(gt=0, lt=1)]
    rows: Annotated[
        tuple[Annotated[ReachRow, GroupForm.written()], ...],
        Listed(at_least=1),
        Field(alias="groups"),
    ]
    notes: Many[Text]


def load_release(path: str | Path) -> ReachRelease:
    """Return the release of a reach in a JSON file; refuse another format or any fault.

    That it is the release of a plan cannot be seen from the file: compare ``plan_id``.
    """
    return _FORMAT.load(path)


def read_release(text: str | bytes, *, name: str = "release") -> ReachRelease:
    """Return the release of a reach in a text."""
    return _FORMAT.read(text, name=name)


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release files of a reach."""
    return ReachReleaseDocument.model_json_schema()


def _reach_faults(release: ReachRelease) -> Iterator[str]:
    """Yield what no release of a reach can say."""
    try:
        Audience(release.publishers, frequencies=release.frequencies)
    except InvalidInput as fault:
        yield fault.message
    if any(row.low > row.high or row.low_together > row.high_together for row in release.rows):
        yield "an interval that ends before it begins"
    kinds = [row.kind for row in release.rows]
    if kinds[0] != "reach" or kinds.count("reach") != 1:
        yield "groups that do not begin with one reach"


_FORMAT: ReleaseFormat[ReachRelease] = ReleaseFormat(
    "chaffinch/reach-release@1",
    lambda document: ReachReleaseDocument.model_validate(document).build(),
    _reach_faults,
)
