"""What a release of a reach promises and how it is to be read, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from chaffinch.planning.audiences.audience import Audience, Group, usual_groups
from chaffinch.planning.explanation import right_guesses
from chaffinch.release.audience_release import ReachRelease, ReachRow
from chaffinch.rounding import at_most, decimals, percent

_METHODS = {
    "exact": "computed exactly",
    "upper-bound": "a proven upper bound, for all audiences",
}


HARDLY_ANY = 10.0
"""Above this epsilon all but one in twenty thousand guesses may be right."""


class Section(NamedTuple):
    """Rows that belong together, under one heading."""

    name: str
    """A word for places in a page."""
    heading: str
    rows: tuple[ReachRow, ...]
    labels: tuple[str, ...]
    """What each row is called under this heading: shorter than the name of its group."""


_SECTIONS = (
    ("reach", "Reach", ("reach", "publisher")),
    ("overlaps", "Shared and unshared", ("only", "overlap")),
    ("frequency", "How often", ("frequency",)),
    ("asked", "Asked for", ("asked",)),
)


def title(release: ReachRelease) -> str:
    """Return what the release is called."""
    return release.title or f"Reach of plan {release.plan_id[:16]}"


def promise(release: ReachRelease) -> str:
    """Return who is protected and how well, in odds."""
    right = right_guesses(release.guarantee.epsilon, release.guarantee.delta)
    return (
        f"Protected is {unit(release)}. Of 100 guessers who try to tell whether an id is in these "
        "audiences or in none of them, 50 are right by tossing a coin; after seeing all filters, "
        f"at most {right} of 100 are right."
    )


def unit(release: ReachRelease) -> str:
    """Return the unit of protection."""
    count = len(release.publishers)
    where = {1: "at its publisher", 2: "at both publishers together"}.get(
        count, f"at all {count} publishers together"
    )
    columns = {1: "its one column", 2: "both its columns"}.get(
        release.hashes, f"all its {release.hashes} columns"
    )
    often = ", however often it was seen" if release.frequencies > 1 else ""
    return f"one id, {where} and in {columns}{often}"


def trust(release: ReachRelease) -> str:
    """Return what the promise counts on, and what is left without it."""
    left = _left(release.guarantee.local_epsilon)
    said = (
        "This counts on every publisher flipping its bits, and on the analyzer not having the "
        f"campaign key. With the key it could look an id's columns up: then {left}"
    )
    if len(release.publishers) == 1:
        return f"{said.rstrip(',')}."
    return (
        f"{said} for an id at all publishers. A publisher who colludes with the analyzer brings "
        "the key with it: for an id at the other publishers "
        f"{_left(release.colluding_epsilon).rstrip(',')}."
    )


def terms(release: ReachRelease) -> list[tuple[str, str]]:
    """Return the parts of the guarantee, each with its name; promises are rounded up."""
    promised = release.guarantee
    proven = "" if promised.proven else " (not proven)"
    pairs = [
        ("Unit of protection", unit(release)),
        ("Epsilon", at_most(promised.epsilon, 6)),
        ("Delta", at_most(promised.delta, 3)),
        ("Neighbours", f"one id more or less, at all publishers at once ({promised.neighbours})"),
        ("View", f"all columns of all filters, in an order that says nothing ({promised.view})"),
        ("Crowd", promised.crowd),
        ("Method", f"{_METHODS.get(promised.method, promised.method)} ({promised.method}){proven}"),
        (
            "Left with the key",
            f"{_epsilon(promised.local_epsilon)} for an id at all publishers, to whoever has it",
        ),
    ]
    if len(release.publishers) > 1:
        left = _epsilon(release.colluding_epsilon)
        said = f"{left} for an id at the other publishers, if one helps the analyzer"
        pairs.append(("Left with a colluder", said))
    return pairs


def sections(release: ReachRelease) -> list[Section]:
    """Return the rows under their headings; none that would be empty."""
    audience = Audience(release.publishers, frequencies=release.frequencies)
    known = {group.name: group for group in usual_groups(audience)}
    found = []
    for name, heading, kinds in _SECTIONS:
        rows = tuple(row for row in release.rows if row.kind in kinds)
        labels = tuple(_label(row, known.get(row.group), release) for row in rows)
        if name == "frequency" and rows:
            # Those seen at all belong to the picture of how often.
            rows, labels = (release.reach, *rows), ("once or more", *labels)
        if rows:
            found.append(Section(name, heading, rows, labels))
    return found


def _label(row: ReachRow, group: Group | None, release: ReachRelease) -> str:
    if row.kind == "reach" and len(release.publishers) > 1:
        return "all publishers"
    if group is not None and row.kind == "only":
        return f"only {group.all_of[0]}"
    if group is not None and row.kind == "frequency":
        return f"{group.times} times or more"
    return row.group


def reading(release: ReachRelease) -> list[str]:
    """Return how to read the numbers."""
    level = percent(release.level)
    lines = [
        (
            "Every number is an estimate of how many ids there are. Bits were flipped by chance at "
            "each publisher, and ids share columns; nobody knows the exact numbers."
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
            f"The {level} interval holds the truth with about that probability, each by itself; "
            "it is found by the delta method, for large counts. For rows picked out because they "
            "are large, small or a surprise use the interval for all together: with about that "
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


def columns(release: ReachRelease) -> str:
    """Return what stands in the columns of a table of plain text."""
    return (
        "± is one standard error; low and high are the ends of an interval that holds with "
        f"probability {percent(release.level)} (for large counts), each row by itself."
    )


def facts(release: ReachRelease) -> list[tuple[str, str]]:
    """Return names and numbers by which a release can be checked."""
    return [
        ("Plan", release.plan_id),
        ("Guarantee", str(release.guarantee)),
        ("Publishers", ", ".join(release.publishers)),
        ("Filters", f"{release.bits:,} bits, {_times(release)}"),
        ("Hashes", f"{release.hashes} for each id (SipHash-2-4, keyed)"),
        ("Flips", f"{release.flip:.6%} of all bits"),
        ("Key", f"{release.key} (a fingerprint; it tells nothing of the key)"),
        ("Batch", release.batch),
        ("Level", percent(release.level)),
        ("Made with", f"chaffinch {release.version}"),
    ]


def places(rows: Sequence[ReachRow]) -> int:
    """Return how many decimals the numbers of these rows deserve."""
    return decimals(min((row.standard_error for row in rows), default=0.0), counted=True)


def _times(release: ReachRelease) -> str:
    if release.frequencies == 1:
        return "one for each publisher"
    return f"{release.frequencies} for each publisher: seen at least 1 to {release.frequencies} ×"


def _left(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "nothing is left"
    weak = ", as good as nothing," if epsilon > HARDLY_ANY else ""
    return f"only the flips are left, an epsilon of {at_most(epsilon, 4)}{weak}"


def _epsilon(value: float) -> str:
    return "no protection" if math.isinf(value) else f"epsilon {at_most(value, 4)}"
