"""What a reach costs: ids are hashed once; everything after that depends on the bits alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaffinch.errors import InvalidInput, checks
from chaffinch.planning.costs.collection import CORE_NOTE, MOST_USERS
from chaffinch.planning.costs.cost import Cost, PartCost, PartyCost, Prices, Work
from chaffinch.planning.costs.units import BYTES, SECONDS, Room, Unit
from chaffinch.wire.envelopes import X25519
from chaffinch.wire.filter_files import LONGEST_HEAD
from chaffinch.wire.sealed_filters import FilterLayout

if TYPE_CHECKING:
    from chaffinch.reach.planning.reach_plan import ReachPlan

_IDS_NOTE = (
    "People: the ids in the lists of all publishers together, shared out as the plan expects; who "
    "is in several lists counts in each."
)
_COUNT = 8
"""Bytes of the number of columns that have one logo."""


def cost_of(plan: ReachPlan, users: int | None, hops: int | None, prices: Prices | None) -> Cost:
    """Return what a reach costs; see ``ReachPlan.cost``."""
    ids = sum(plan.sizes) if users is None else checks.people("users", users, most=MOST_USERS)
    paid, publishers = prices or Prices(), plan.audience.publishers
    layout = _layout(plan, hops)
    upload = LONGEST_HEAD + plan.filter_bytes if layout is None else layout.sealed_length
    shares = [size / sum(plan.sizes) for size in plan.sizes]
    own = [_publisher(plan, layout, ids * share, upload) for share in shares]
    others = _others(plan, layout, upload)
    kind = f"filter of {plan.bits:,} bits"
    return Cost(
        title=plan.title or f"Plan {plan.id[:16]}",
        way=_way(plan, layout),
        users=ids,
        reports=len(publishers),
        sender="publisher",
        messages=1.0,
        most_messages=1,
        upload=upload,
        parts=tuple(
            PartCost(name, kind, 1.0, 1, upload, work)
            for name, work in zip(publishers, own, strict=True)
        ),
        rest=PartCost(
            "all filters", "together", 0.0, 0, 0, sum((one.work for one in others), Work())
        ),
        parties=(
            PartyCost("publishers", sum(own, Work()), _publisher_memory(plan)),
            *others,
        ),
        prices=paid,
        notes=(
            CORE_NOTE,
            _IDS_NOTE,
            "Memory: of one process, at each publisher.",
            paid.words,
        ),
    )


def _layout(plan: ReachPlan, hops: int | None) -> FilterLayout | None:
    """Return the layout of sealed filters, as it is or would be; None where people carry files."""
    named = 0 if plan.parties is None else FilterLayout.hops
    if not (named if hops is None else checks.whole("number of hops", hops, most=1)):
        return None
    if plan.shuffler is None:
        raise InvalidInput(
            "number of hops",
            "0 for a reach without a shuffler",
            hops,
            hint="plan it with a shuffler (reach plan --shuffled), or leave --hops out",
        )
    if plan.parties is not None:
        return plan.layout
    return FilterLayout(plan.id, plan.filter_bytes, 1 << plan.audience.rows, plan.bits)


def _way(plan: ReachPlan, layout: FilterLayout | None) -> str:
    if layout is not None:
        return f"sealed, {layout.hops} hop"
    return "in files, not sealed" + ("" if plan.shuffler is None else ", through a shuffler")


def _publisher(plan: ReachPlan, layout: FilterLayout | None, ids: float, upload: int) -> Work:
    frequencies = plan.audience.frequencies
    hashed = SECONDS[Unit.HASH_ID] + (plan.hashes - 1) * SECONDS[Unit.HASH_AGAIN]
    if frequencies > 1:
        hashed += SECONDS[Unit.REPEAT_ID]
    flipped = frequencies * plan.bits * SECONDS[Unit.FLIP_BIT]
    made = Work(ids * hashed + flipped, sent=upload, stored=upload)
    return made if layout is None else made + _envelope(layout, Unit.SEAL, Unit.SEAL_HYBRID)


def _envelope(layout: FilterLayout, usual: Unit, hybrid: Unit) -> Work:
    key = SECONDS[usual if layout.outer_kem == X25519 else hybrid]
    return Work(key + layout.filter_length * SECONDS[Unit.CIPHER_BYTE], operations=1)


def _others(plan: ReachPlan, layout: FilterLayout | None, upload: int) -> list[PartyCost]:
    bits, publishers = plan.audience.rows * plan.bits, len(plan.audience.publishers)
    filters = Work(stored=upload) * publishers
    memory = BYTES[Room.PROCESS] + bits / 8 + _COUNT * (1 << plan.audience.rows)
    if plan.shuffler is None:
        counted = Work(bits * SECONDS[Unit.COUNT_BIT]) + filters
        return [PartyCost("analyzer", counted, memory)]
    known = layout or FilterLayout(plan.id, plan.filter_bytes, 1 << plan.audience.rows, plan.bits)
    columns = known.columns_length if layout is None else known.item_length(1)
    shuffled = Work(bits * SECONDS[Unit.SHUFFLE_BIT], sent=columns, stored=columns) + filters
    counted = Work(stored=columns)
    if layout is not None:
        shuffled += _envelope(layout, Unit.OPEN, Unit.OPEN_HYBRID) * publishers
        shuffled += Work(SECONDS[Unit.SEAL], operations=1)
        counted += Work(SECONDS[Unit.OPEN], operations=1)
    held = BYTES[Room.PROCESS] + _COUNT * (1 << plan.audience.rows)
    return [PartyCost("shuffler", shuffled, memory), PartyCost("analyzer", counted, held)]


def _publisher_memory(plan: ReachPlan) -> float:
    return BYTES[Room.PROCESS] + plan.audience.frequencies * plan.bits / 8
