"""What a reader of a reach must know besides the numbers, and what may have gone wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from chaffinch.planning.audiences.audience import Group, overlaps_left_out
from chaffinch.planning.audiences.id_rule import AS_IS
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.release.audiences import ReachRow

_FEW_BALLS = 30
"""Groups with fewer balls than this are too small for a normal law of the hash."""
_FAR = 2.0
"""A list of less than half, or more than twice, its planned size is probably another one."""
_MOST_NAMED = 5


def reach_notes(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> list[str]:
    """Return the notes of a release: surprises first, then how to read what is there."""
    return [
        *_far_from_planned(plan, rows),
        *_shared_too_little(plan, rows),
        *_negative(rows),
        *_small(plan, rows),
        *_left_out(plan),
    ]


def _far_from_planned(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    for group, row in rows:
        if row.kind == "asked" or len(group.any_of) != 1 or group.all_of or group.times > 1:
            continue
        expected = plan.sizes[plan.audience.place(group.any_of[0])]
        if row.high < expected / _FAR or row.low > expected * _FAR:
            found = f"about {max(row.estimate, 0):,.0f}"
            yield (
                f"Warning: {row.group} has {found} ids, and the plan expected {expected:,}. Is it "
                "the right list? The error that the plan foretold is for lists as long as planned."
            )


def _shared_too_little(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    """Yield one warning for all pairs of publishers whose common ids noise alone could make."""
    pairs = [row for group, row in rows if row.kind == "overlap" and len(group.all_of) == 2]
    lost = [row for row in pairs if row.low <= 0]
    if not lost:
        return
    named = [f"{row.group} (at most {math.ceil(row.high):,})" for row in lost[:_MOST_NAMED]]
    more = f", and {len(lost) - _MOST_NAMED} more pairs" if len(lost) > _MOST_NAMED else ""
    asked = (
        "The plan takes ids as they are, so Ann@example.org and ann@example.org are two: a rule "
        "for ids in the plan would make them one."
        if plan.ids == AS_IS
        else f"The plan's rule is {plan.ids.words}: did both use this plan and this kind of id?"
    )
    yield (
        "Warning: no shared ids can be told from noise here: "
        f"{', '.join(named)}{more}. If you expected some: do these publishers spell an id in the "
        f"same way? {asked}"
    )


def _negative(rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    below = [row.group for _, row in rows if row.estimate < 0]
    if below:
        named = "; ".join(below[:_MOST_NAMED]) + ("; …" if len(below) > _MOST_NAMED else "")
        yield (
            f"An estimate below 0 ({named}) stands for few ids or none: noise took away more than "
            "there was to count. Its interval begins at 0."
        )


def _small(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    if any(row.estimate * plan.hashes < _FEW_BALLS for _, row in rows):
        yield f"Intervals of groups of fewer than {_FEW_BALLS} ids or so are rough."


def _left_out(plan: ReachPlan) -> Iterator[str]:
    left = overlaps_left_out(plan.audience)
    if left:
        yield f"{left} overlaps of two publishers are not shown; ask for those you need."
