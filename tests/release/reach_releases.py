"""Releases made by hand: quick, and with everything in them that could go wrong."""

from __future__ import annotations

from collections.abc import Sequence

from chaffinch.privacy import Guarantee
from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.release import ReachRelease, ReachRow

NASTY = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "=HYPERLINK(1)")
GUARANTEE = Guarantee(
    1.0,
    1e-9,
    "add-remove-one-id",
    "columns",
    "1048576 columns of 6 flipped bits, of which an id has up to 2 columns",
    22.6,
    "upper-bound",
)


def row(group: Group, kind: str, estimate: float, error: float = 40.0) -> ReachRow:
    """Return a row whose intervals follow from its error."""
    ends = (max(estimate + factor * error, 0.0) for factor in (-2.0, 2.0, -3.0, 3.0))
    return ReachRow(group.name, kind, estimate, error, *ends)


def kind_of(group: Group, publishers: Sequence[str]) -> str:
    if group.times > 1:
        return "frequency"
    if group.none_of:
        return "only"
    if group.all_of:
        return "overlap"
    return "reach" if len(group.any_of) == len(publishers) else "publisher"


def release(
    publishers: Sequence[str] = ("daily", "radio", "shop"),
    *,
    frequencies: int = 2,
    title: str = "Autumn <campaign>",
    asked: Sequence[Group] = (),
    colluding: float = 15.1,
) -> ReachRelease:
    """Return a release of 40,000 ids, each publisher with half of them, at random."""
    audience = Audience(publishers, frequencies=frequencies)
    people, share = 40_000.0, 0.5
    rows = []
    for group in (*usual_groups(audience), *asked):
        kind = "asked" if group in asked else kind_of(group, audience.publishers)
        found = people * share ** len(group.all_of) * (1 - share) ** len(group.none_of)
        if group.any_of:
            found *= 1 - (1 - share) ** len(group.any_of)
        rows.append(row(group, kind, found / group.times))
    return ReachRelease(
        plan_id="a7" * 32,
        title=title,
        guarantee=GUARANTEE,
        colluding_epsilon=colluding,
        key="0b" * 16,
        batch="c3" * 16,
        publishers=audience.publishers,
        frequencies=frequencies,
        bits=1_048_576,
        hashes=2,
        flip=0.123456789,
        level=0.95,
        version="0.1.0.dev0",
        rows=tuple(rows),
        notes=("Moved by <b>hand</b>.",),
    )
