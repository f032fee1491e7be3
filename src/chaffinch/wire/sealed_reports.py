"""What is inside the outer envelope of a report, and how long everything is.

A device seals each message on its own to the analyzer, then to every later hop, the last one
first, and puts all of them into one envelope for the first hop. All reports of a plan have one
length: an upload is any number of them, one behind the other, and needs no lengths of its own.

The payload of the outer envelope::

    struct {
        uint8  version;              // 2
        opaque route[hops][32];      // names of the keys of hop 2, …, the last hop, the analyzer
        uint32 count;                // how many items there are: all fixed slots at least
        opaque items[count][item_length];
        opaque padding[(slots - count) * item_length];   // zeros
    } Payload;

A *route* is the names of the keys of all who open from some place on, one behind the other. The
first hop finds it in the payload: it puts reports of one route only into a batch, and rejects those
whose keys it has not given out itself. A later hop finds it in the head of a batch. An item opens
there only if the route behind that hop is the one that the device has sealed it for. So a party
that gives one person keys of their own, to know their messages again, finds none of them in a
batch of any hop that keeps to this, whatever the hops before it do.

Where a plan has fixed slots, every slot is an item: an empty one holds the code ``EMPTY``,
sealed like any other. Where the number of messages follows the noise, the rest is padding, and
no dummy reaches the analyzer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.wire.envelopes import (
    ANALYZER_LAYER,
    NAME,
    X25519,
    Binding,
    SealingKey,
    envelope_length,
    hop_layer,
)

_VERSION = 2
MOST_HOPS = 8
_LONGEST_REPORT = 1 << 20
"""Bytes of a sealed report: a plan of more messages than fit cannot be run with sealed reports."""
_COUNT = struct.Struct(">I")
_CODE = struct.Struct(">I")


def report_length(slots: int, hops: int = 1, outer_kem: int = X25519) -> int:
    """Return the length of a sealed report with so many slots that passes so many hops."""
    return envelope_length(_payload_length(slots, hops), outer_kem)


def _payload_length(slots: int, hops: int) -> int:
    return 1 + hops * NAME + _COUNT.size + slots * _item_length(hops, 1)


def _item_length(hops: int, hop: int) -> int:
    length = envelope_length(_CODE.size, X25519)
    for _ in range(hops - hop):
        length = envelope_length(length, X25519)
    return length


@dataclass(frozen=True)
class Layout:
    """The lengths of everything that travels for one plan."""

    plan_id: str
    slots: int
    hops: int = 1
    outer_kem: int = X25519
    fixed_slots: int = 0
    """Items that every report has, with dummies among them; more follow the noise."""

    def __post_init__(self) -> None:
        checks.whole("number of hops", self.hops, least=1, most=MOST_HOPS)
        checks.whole("number of slots", self.slots, least=1)
        if self.report_length > _LONGEST_REPORT:
            raise InvalidInput(
                "sealed report",
                f"at most {_LONGEST_REPORT:,} bytes",
                self.report_length,
                hint="plan with fewer messages per report (most_messages)",
            )

    def most_items(self, reports: int) -> int:
        """Return how many items so many reports have at most."""
        return reports * self.slots

    def item_length(self, hop: int) -> int:
        """Return the length of what leaves a hop: an envelope for the next one."""
        return _item_length(self.hops, hop)

    @cached_property
    def _first_length(self) -> int:
        return self.item_length(1)

    @cached_property
    def payload_length(self) -> int:
        """Return the length of what is in the outer envelope."""
        return _payload_length(self.slots, self.hops)

    @property
    def route_length(self) -> int:
        """Return the length of the route from the first hop: a name for each who opens after it."""
        return self.hops * NAME

    @cached_property
    def report_length(self) -> int:
        """Return the one length of a sealed report."""
        return report_length(self.slots, self.hops, self.outer_kem)

    def binding(self, hop: int, round: int, behind: bytes = b"") -> Binding:  # noqa: A002
        """Return the binding of the layer that a hop opens; behind the last it is the analyzer.

        ``behind`` is the route from there on. The first hop reads it in what it opens.
        """
        length = 0 if hop == 1 else (self.hops + 1 - hop) * NAME
        if len(behind) != length:
            raise InvalidInput("route", f"{length} bytes behind hop {hop}", len(behind))
        layer = hop_layer(hop) if hop <= self.hops else ANALYZER_LAYER
        return Binding(self.plan_id, round, layer, behind)

    def pack(self, route: bytes, items: Sequence[bytes]) -> bytes:
        """Return a payload."""
        fits = self.fixed_slots <= len(items) <= self.slots
        if len(route) != self.route_length or not fits:
            raise InvalidInput("payload", "one of this plan", Unquoted(f"{len(items)} items"))
        packed = bytes([_VERSION]) + route + _COUNT.pack(len(items)) + b"".join(items)
        return packed.ljust(self.payload_length, b"\0")

    def unpack(self, payload: bytes) -> tuple[bytes, bytes] | None:
        """Return route and items, one behind the other; None for a payload that breaks a rule."""
        at = 1 + self.route_length
        start = at + _COUNT.size
        if len(payload) != self.payload_length or payload[0] != _VERSION:
            return None
        (count,) = _COUNT.unpack_from(payload, at)
        end = start + count * self._first_length
        # Padding of anything but zeros would be a second way to write a report, and room for a
        # mark.
        # One with fewer items would count for the crowd, and the analyzer refuse the batch for it.
        if not self.fixed_slots <= count <= self.slots:
            return None
        if payload.count(0, end) != len(payload) - end:
            return None
        return payload[1:at], payload[start:end]


def route_of(keys: Sequence[SealingKey]) -> bytes:
    """Return the route through these keys: those of who opens first stand first."""
    return b"".join(key.name for key in keys)


def pack_code(code: int) -> bytes:
    """Return a message as it is sealed to the analyzer."""
    return _CODE.pack(code)
