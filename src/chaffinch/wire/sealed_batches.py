"""A batch of sealed messages on its way from one party to the next, and its receipt.

A batch is a plain file that is written once: a head, the signature of whoever made it, the items
in a uniform order. Its id is the SHA-256 of head and items: two batches of one id are
the same batch, and one that was changed is not the batch of its name. ::

    struct {
        opaque format[8];            // "chafbat3"
        opaque plan_id[32];
        uint32 round;
        uint8  hop;                  // who made it; hops count from 1
        uint8  route_length;         // how many open it from here on
        opaque route[8][32];         // names of their keys, then zeros
        uint64 reports;              // reports whose messages are in it
        uint64 items;
        uint32 item_length;
    } BatchHead;                     // then opaque signature[64], then the items

The signature is Ed25519 by the identity key that the plan names for that hop, over the words
``chaffinch batch`` and a zero byte and the id. It stands in front of the items, so that a
receiver that was told the id knows who sends them before it takes any. A receipt is the
receiver's signature, over ``chaffinch receipt``, a zero byte and the id: whoever has it knows that
the batch is durable there.
"""

from __future__ import annotations

import errno
import hashlib
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidFile, InvalidInput, Reason, checks
from chaffinch.wire.batches import LARGEST_REPORTS
from chaffinch.wire.envelopes import NAME
from chaffinch.wire.signatures import SIGNATURE, is_signed, sign

_FORMAT = b"chafbat3"
_LONGEST_ROUTE = 8
_HEAD = struct.Struct(f">8s32sIBB{_LONGEST_ROUTE * NAME}sQQI")
HEAD_LENGTH = _HEAD.size
START_LENGTH = HEAD_LENGTH + SIGNATURE
"""Bytes before the first item."""
_BLOCK = 1 << 20
_BATCH = b"chaffinch batch"
_RECEIPT = b"chaffinch receipt"


@dataclass(frozen=True)
class BatchHead:
    """What a batch says of itself."""

    plan_id: str
    round: int
    hop: int
    route: bytes
    """Names of the keys of all who open it from here on; the first is that of its receiver."""
    reports: int
    items: int
    item_length: int

    def __post_init__(self) -> None:
        checks.whole("number of reports", self.reports, most=LARGEST_REPORTS)
        checks.whole("number of items", self.items)
        names, rest = divmod(len(self.route), NAME)
        if rest or not 1 <= names <= _LONGEST_ROUTE:
            raise InvalidInput(
                "route", f"1 to {_LONGEST_ROUTE} names of {NAME} bytes", len(self.route)
            )

    @property
    def key_id(self) -> int:
        """Return the id of the key that its items are sealed for."""
        return self.route[0]

    @property
    def key_name(self) -> bytes:
        """Return the name of that key."""
        return self.route[:NAME]

    @property
    def behind(self) -> bytes:
        """Return the route behind whoever opens it."""
        return self.route[NAME:]

    def pack(self) -> bytes:
        """Return the bytes at the start of the file."""
        return _HEAD.pack(
            _FORMAT,
            bytes.fromhex(self.plan_id),
            self.round,
            self.hop,
            len(self.route) // NAME,
            self.route,
            self.reports,
            self.items,
            self.item_length,
        )

    @classmethod
    def unpack(cls, content: bytes) -> BatchHead:
        """Return the head of a file; refuse bytes that are none, or are written in another way."""
        if len(content) != HEAD_LENGTH or not content.startswith(_FORMAT):
            raise _damaged_batch("no head of one")
        _, plan, number, hop, length, route, *sizes = _HEAD.unpack(content)
        try:
            head = cls(plan.hex(), number, hop, route[: length * NAME], *sizes)
        except InvalidInput:
            raise _damaged_batch("a head that breaks its rules") from None
        # Bytes behind the route must be zeros: a batch of two spellings would have two ids.
        if head.pack() != content:
            raise _damaged_batch("a head that breaks its rules")
        return head

    @classmethod
    def read(cls, file: IO[bytes]) -> BatchHead:
        """Return the head of a file that stands at its start."""
        with _given():
            content = file.read(HEAD_LENGTH)
        return cls.unpack(content)

    @property
    def file_length(self) -> int:
        """Return how long the whole file is."""
        return START_LENGTH + self.items * self.item_length


def _damaged_batch(fault: str) -> InvalidFile:
    return InvalidFile("batch", "whole, as its maker signed it", [fault], reason=Reason.DAMAGED)


@contextmanager
def _given() -> Iterator[None]:
    """Let a file be damaged of which the disk does not give all."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise _damaged_batch("one that the disk does not give") from None


def write_batch(
    file: IO[bytes],
    head: BatchHead,
    items: Iterable[bytes | memoryview],
    identity: Ed25519PrivateKey,
) -> str:
    """Write a batch with its signature, and return its id; ``items`` come in blocks.

    What is signed is known at the end, and stands at the start: ``file`` can be gone back in.
    """
    # Room for the signature, which is over all that follows. A file that a kill leaves here has
    # zeros in its place, and is nobody's.
    found = hashlib.sha256(head.pack())
    file.write(head.pack().ljust(START_LENGTH, b"\0"))
    written = 0
    for block in items:
        found.update(block)
        file.write(block)
        written += len(block)
    if written != head.items * head.item_length:
        raise InvalidInput("items", f"{head.items} of {head.item_length} bytes", written)
    file.seek(HEAD_LENGTH)
    file.write(sign(identity, _BATCH, found.digest()))
    return found.hexdigest()


def is_made_by(identity: bytes, batch_id: str, start: bytes) -> bool:
    """Return whether a batch of that id is by its maker, from what stands before its items."""
    return is_signed(identity, _BATCH, bytes.fromhex(batch_id), start[HEAD_LENGTH:])


def check_batch(file: IO[bytes], identity: bytes) -> tuple[BatchHead, str]:
    """Read a batch to its end; return its head and id if all of it is as its maker signed it.

    ``identity`` is the public key of the maker, from the plan. Afterwards the file stands at
    the first item.
    """
    with _given():
        start = file.read(START_LENGTH)
        head = BatchHead.unpack(start[:HEAD_LENGTH])
        found = hashlib.sha256(start[:HEAD_LENGTH])
        for block in blocks_of(file, head.items * head.item_length):
            found.update(block)
        rest = file.read(1)
    # What stands behind the last item is under no signature.
    if rest or not is_made_by(identity, found.hexdigest(), start):
        raise _damaged_batch("another signature")
    file.seek(START_LENGTH)
    return head, found.hexdigest()


def blocks_of(file: IO[bytes], length: int, block: int = _BLOCK) -> Iterator[bytes]:
    """Yield so many bytes of a file, in blocks; refuse a file that ends before."""
    left = length
    while left:
        content = file.read(min(left, block))
        if not content:
            raise _damaged_batch("one that is cut off")
        left -= len(content)
        yield content


def sign_receipt(batch_id: str, identity: Ed25519PrivateKey) -> bytes:
    """Return the receipt for a batch that is durable."""
    return sign(identity, _RECEIPT, bytes.fromhex(batch_id))


def is_receipt(batch_id: str, receipt: bytes, identity: bytes) -> bool:
    """Return whether a receiver has signed that it has a batch."""
    return is_signed(identity, _RECEIPT, bytes.fromhex(batch_id), receipt)
