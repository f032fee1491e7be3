"""What a collection of reports costs: sealed and passed on by hops, or as files of messages.

Everything is linear in people: for each report a party does something, and for each message in it
something more. What is stored is the most that a party holds when everybody's reports wait for
the same release: those that are opened wait in the pool, are sorted into buckets, and are written
as a batch, which is three times their length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.errors import checks
from chaffinch.planning.costs.cost import Cost, PartCost, PartyCost, Prices, Work
from chaffinch.planning.costs.units import BYTES, EXCHANGES, SECONDS, Room, Unit
from chaffinch.wire.envelopes import X25519
from chaffinch.wire.sealed_reports import MOST_HOPS, Layout

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part
    from chaffinch.plans.plan import Plan

MOST_USERS = 10**12
LARGEST_BATCH = 1_000_000
"""Reports of a batch, unless twice the crowd of a plan is more (``shuffling.release_rule``)."""
ORDER_MEMORY = 256 << 20
"""Bytes that putting messages into order may take (``shuffling.outbox``)."""
PENDING_MEMORY = 32 << 20
"""Bytes of uploads that a collector holds before they are on its disk (``services.collector``)."""
_UPLOAD_HEAD = 40 + 24
"""Bytes before a report in a segment that came alone: the heads of its upload and of its block."""
_POOLED_SIZE = 4
_SORTED_TIMES = 3
_CODE = 4
_DELTA_HEAD = 9.0 / 128
"""Bytes of a message's share in the head of a block of 128 differences, at the most."""


@dataclass(frozen=True)
class _Role:
    """What a party does for each report, and for each message of it."""

    name: str
    report: Work
    message: Work
    memory: float
    paid: bool = True


@dataclass(frozen=True)
class _Asked:
    """A question of the plan: what its messages are to everybody behind the first party."""

    part: Part
    messages: float
    """For how many of a report there is work."""
    upload: int
    encoding: Work
    """Of the first party, for one report."""


@dataclass(frozen=True)
class _Way:
    """How reports travel, and what that means to everybody."""

    words: str
    upload: int
    roles: tuple[_Role, ...]
    asked: tuple[_Asked, ...]
    notes: tuple[str, ...]


def cost_of(plan: Plan, users: int | None, hops: int | None, prices: Prices | None) -> Cost:
    """Return what one round costs; see ``Plan.cost``."""
    people = plan.users if users is None else checks.people("users", users, most=MOST_USERS)
    named = 1 if plan.parties is None else len(plan.parties.hops)
    number = named if hops is None else checks.whole("number of hops", hops, most=MOST_HOPS)
    reports, paid = people * plan.contributions, prices or Prices()
    way = _sealed_way(plan, number, reports) if number else _file_way(plan)
    return Cost(
        title=plan.title or f"Plan {plan.id[:16]}",
        way=way.words,
        users=people,
        reports=reports,
        sender="person",
        messages=sum(part.expected_messages for part in plan.parts),
        most_messages=plan.slots,
        upload=way.upload,
        parts=tuple(_part_costs(way, reports)),
        rest=_rest_cost(way, reports),
        parties=tuple(_party_costs(way, reports)),
        prices=paid,
        notes=(
            *_crowd_note(reports, plan.reports),
            *way.notes,
            paid.words,
            *_rounds_note(plan.rounds),
        ),
    )


def _part_costs(way: _Way, reports: int) -> Iterator[PartCost]:
    for one in way.asked:
        paid, own = (
            sum((role.message for role in way.roles if role.paid is paid), Work()) * one.messages
            + (one.encoding if way.roles[0].paid is paid else Work())
            for paid in (True, False)
        )
        name, protocol = one.part.name, one.part.protocol.name
        expected, most = one.part.expected_messages, one.part.slots
        each = (paid * reports, own * reports)
        yield PartCost(name, protocol, expected, most, one.upload, *each)


def _rest_cost(way: _Way, reports: int) -> PartCost:
    """Return what a report takes whatever it holds: its envelope, opened and sealed."""
    paid, own = (
        sum((role.report for role in way.roles if role.paid is paid), Work()) * reports
        for paid in (True, False)
    )
    upload = way.upload - sum(one.upload for one in way.asked)
    return PartCost("each report", "envelope", 0.0, 0, upload, paid, own)


def _party_costs(way: _Way, reports: int) -> Iterator[PartyCost]:
    messages = sum(one.messages for one in way.asked)
    encoding = sum((one.encoding for one in way.asked), Work())
    for place, role in enumerate(way.roles):
        work = role.report + role.message * messages + (Work() if place else encoding)
        yield PartyCost(role.name, work * reports, role.memory, role.paid)


def _crowd_note(reports: int, crowd: int) -> list[str]:
    if reports >= crowd:
        return []
    return [f"Nothing would be released: the plan waits for {crowd:,} reports in one batch."]


def _rounds_note(rounds: int) -> list[str]:
    return [f"This is one round; the plan has {rounds:,}."] if rounds > 1 else []


# ----------------------------------------------------------------------------
# Sealed reports.


def _sealed_way(plan: Plan, hops: int, reports: int) -> _Way:
    layout = _layout(plan, hops)
    hybrid = layout.outer_kem != X25519
    asked = tuple(_sealed_question(part, layout) for part in plan.parts)
    batch = _batch_reports(reports, plan.reports)
    items = batch * sum(one.messages for one in asked)
    return _Way(
        words=f"sealed, {hops} hop{'s' * (hops != 1)}",
        upload=layout.report_length,
        roles=(
            _device(layout, hybrid=hybrid),
            _collector(layout),
            _first_hop(layout, batch, items, hybrid=hybrid),
            *(_later_hop(layout, hop, items) for hop in range(2, hops + 1)),
            _analyzer(layout, plan.codes, items),
        ),
        asked=asked,
        notes=(*_SEALED_NOTES, f"Memory: of one process, with a batch of {batch:,} reports."),
    )


def _sealed_question(part: Part, layout: Layout) -> _Asked:
    """Return a question whose empty slots are sealed like full ones, unless they are padding."""
    seconds = part.protocol.seconds
    expected = part.expected_messages
    return _Asked(
        part,
        expected if part.varies else float(part.slots),
        part.slots * layout.item_length(1),
        Work(seconds.device_report + seconds.device_message * expected),
    )


def _layout(plan: Plan, hops: int) -> Layout:
    if plan.parties is None:
        return Layout(plan.id, plan.slots, hops)
    if hops == len(plan.parties.hops):
        return plan.layout
    return Layout(plan.id, plan.slots, hops, plan.layout.outer_kem)


def _device(layout: Layout, *, hybrid: bool) -> _Role:
    outer = SECONDS[Unit.SEAL_HYBRID if hybrid else Unit.SEAL]
    ciphered = layout.payload_length * SECONDS[Unit.CIPHER_BYTE]
    report = Work(
        SECONDS[Unit.SEND_REPORT] + outer + ciphered,
        operations=1,
        sent=layout.report_length,
        stored=layout.report_length + _CODE * layout.slots,
    )
    message = Work(SECONDS[Unit.SEAL], operations=1) * layout.hops
    return _Role("devices", report, message, BYTES[Room.PROCESS], paid=False)


def _collector(layout: Layout) -> _Role:
    length = layout.report_length
    seconds = SECONDS[Unit.COLLECT_REPORT] + length * SECONDS[Unit.COLLECT_BYTE]
    report = Work(seconds, stored=length + _UPLOAD_HEAD)
    return _Role("collector", report, Work(), BYTES[Room.PROCESS] + PENDING_MEMORY)


def _first_hop(layout: Layout, reports: float, items: float, *, hybrid: bool) -> _Role:
    opened = SECONDS[Unit.OPEN_HYBRID if hybrid else Unit.OPEN]
    ciphered = layout.payload_length * SECONDS[Unit.CIPHER_BYTE]
    stored = BYTES[Room.REPLAY_TAG] + _POOLED_SIZE
    report = Work(SECONDS[Unit.POOL_REPORT] + opened + ciphered, operations=1, stored=stored)
    length = layout.item_length(1)
    message = Work(SECONDS[Unit.POOL_ITEM], sent=length, stored=_SORTED_TIMES * length)
    held = reports * BYTES[Room.POOLED_REPORT] + _order_memory(items, length)
    return _Role("hop 1", report, message, BYTES[Room.PROCESS] + held)


def _later_hop(layout: Layout, hop: int, items: float) -> _Role:
    came, length = layout.item_length(hop - 1), layout.item_length(hop)
    message = Work(
        SECONDS[Unit.OPEN] + SECONDS[Unit.RELAY_ITEM],
        operations=1,
        sent=length,
        stored=came + _SORTED_TIMES * length + BYTES[Room.REPLAY_TAG],
    )
    held = _order_memory(items, length)
    return _Role(f"hop {hop}", Work(), message, BYTES[Room.PROCESS] + held)


def _analyzer(layout: Layout, codes: int, items: float) -> _Role:
    message = Work(
        SECONDS[Unit.OPEN] + SECONDS[Unit.COUNT_ITEM],
        operations=1,
        stored=layout.item_length(layout.hops) + BYTES[Room.REPLAY_TAG],
    )
    held = items * BYTES[Room.OPENED_ITEM] + 8.0 * codes
    return _Role("analyzer", Work(), message, BYTES[Room.PROCESS] + held)


def _order_memory(items: float, length: int) -> float:
    # Of each item a key, a place and a sorted key of 8 bytes, and the item twice.
    return min(items * (24 + 2 * length), float(ORDER_MEMORY))


def _batch_reports(reports: int, crowd: int) -> int:
    # The largest batch of the release rule: as few batches as possible, all about alike.
    return math.ceil(reports / math.ceil(reports / max(LARGEST_BATCH, 2 * crowd)))


CORE_NOTE = (
    f"Core-hours: of a core that makes {EXCHANGES:,.0f} X25519 key exchanges a second (openssl "
    "speed ecdhx25519); one that makes twice as many takes about half."
)
_DEVICE_NOTE = (
    "Devices: one report in a request of its own, by this package's client. Not counted: the proof "
    "of the plan that each device checks once, and TLS, which a proxy speaks."
)
_MESSAGES_NOTE = "Messages: what a report holds on average, for the answers that have most."
_SEALED_NOTES = (
    CORE_NOTE,
    _MESSAGES_NOTE,
    "Operations: envelopes sealed or opened, each with one or two key exchanges.",
    _DEVICE_NOTE,
    "Stored: when everybody's reports wait for the same release.",
)


# ----------------------------------------------------------------------------
# Files of messages.


def _file_way(plan: Plan) -> _Way:
    width, memory = _message_bytes(plan.codes), BYTES[Room.FILES]
    asked = tuple(_question_in_files(part, width) for part in plan.parts)
    spilled = np.min_scalar_type(plan.codes - 1).itemsize
    shuffled = Work(SECONDS[Unit.SHUFFLE_MESSAGE], sent=width, stored=2 * width + spilled)
    return _Way(
        words="in files, not sealed",
        upload=sum(one.upload for one in asked),
        roles=(
            _Role("encoder", Work(), Work(sent=width, stored=width), memory),
            _Role("shuffler", Work(), shuffled, memory),
            _Role("analyzer", Work(), Work(SECONDS[Unit.TALLY_MESSAGE], stored=width), memory),
        ),
        asked=asked,
        notes=_FILE_NOTES,
    )


def _question_in_files(part: Part, width: float) -> _Asked:
    seconds, expected = part.protocol.seconds, part.expected_messages
    encoding = Work(seconds.table_answer + seconds.table_message * expected)
    return _Asked(part, expected, math.ceil(expected * width), encoding)


def _message_bytes(codes: int) -> float:
    # At the most: files hold differences of codes, of both signs, packed in bits.
    return math.ceil(math.log2(2 * codes)) / 8 + _DELTA_HEAD


_FILE_NOTES = (
    CORE_NOTE,
    _MESSAGES_NOTE,
    "Nothing is sealed: whoever encodes holds all answers, and files are handed over by people.",
    "Memory: of one process; it does not grow with the crowd.",
    "On a cluster encoding takes about three times the core-hours, and shuffling four times.",
)
