"""A publisher's filter on its way to the shuffler, and the columns on theirs to the analyzer.

A filter file travels in one envelope for the shuffler, which its publisher has signed from the
outside. The signature stands in front: whoever takes a filter in knows before it takes any of the
envelope that nobody else sends it, and without opening it that it is whole. ::

    struct {
        uint32 length;
        opaque content[length];      // a filter file; for the analyzer, a file of columns
        opaque zeros[];              // up to the one length of the plan
    } Padded;

    struct {
        opaque digest[32];           // SHA-256 of the envelope
        opaque signature[64];
        opaque envelope[];           // a Padded filter, sealed; the layer is "filter", the round 1
    } SealedFilter;

The signature is Ed25519 by the identity key that the plan names for the publisher, over the words
``chaffinch filter``, a zero byte, the id of the plan and the digest. Columns are
the one item of a batch (``wire.sealed_batches``), sealed in the layer "analyzer".
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidInput
from chaffinch.wire.envelopes import (
    ANALYZER_LAYER,
    X25519,
    Binding,
    SealingKey,
    envelope_length,
)
from chaffinch.wire.filter_files import LONGEST_HEAD
from chaffinch.wire.signatures import SIGNATURE, is_signed, sign

_DIGEST = 32
START_LENGTH = _DIGEST + SIGNATURE
"""Bytes before the envelope of a filter."""
_LENGTH = struct.Struct(">I")
_WORDS = b"chaffinch filter"
_FILTER_LAYER = "filter"
_COLUMN_FACTS = 1024
"""Bytes that a file of columns has at most besides its counts: some 300."""


@dataclass(frozen=True)
class FilterLayout:
    """The lengths of everything that travels for one reach."""

    plan_id: str
    row_bytes: int
    """Of all rows of one filter."""
    logos: int
    bits: int
    outer_kem: int = X25519
    hops: ClassVar[int] = 1

    @property
    def filter_length(self) -> int:
        """Return the length of what is in the envelope of a filter."""
        return _LENGTH.size + LONGEST_HEAD + self.row_bytes

    @property
    def envelope_length(self) -> int:
        """Return the length of that envelope."""
        return envelope_length(self.filter_length, self.outer_kem)

    @property
    def sealed_length(self) -> int:
        """Return the one length of a sealed filter."""
        return START_LENGTH + self.envelope_length

    @property
    def columns_length(self) -> int:
        """Return the length of what is in the envelope of the columns."""
        return _LENGTH.size + _COLUMN_FACTS + self.logos * (len(str(self.bits)) + 1)

    def most_items(self, reports: int) -> int:  # noqa: ARG002 - however many filters there are
        """Return how many items the columns of all filters are."""
        return 1

    def item_length(self, hop: int) -> int:
        """Return the length of what leaves the shuffler, which is the only hop."""
        if hop != self.hops:
            raise InvalidInput("hop", "1", hop)
        return envelope_length(self.columns_length, X25519)

    def binding(self, hop: int, round: int) -> Binding:  # noqa: A002
        """Return the binding of the layer that the shuffler opens, or behind it the analyzer."""
        return Binding(self.plan_id, round, _FILTER_LAYER if hop == 1 else ANALYZER_LAYER)


def seal_filter(
    content: bytes, layout: FilterLayout, key: SealingKey, identity: Ed25519PrivateKey
) -> bytes:
    """Return the file of a filter, sealed for the shuffler and signed by its publisher."""
    envelope = key.seal(pad(content, layout.filter_length), layout.binding(1, 1))
    digest = hashlib.sha256(envelope).digest()
    return digest + sign(identity, _WORDS, _signed(layout, digest)) + envelope


def is_from(publisher: bytes, layout: FilterLayout, start: bytes) -> bool:
    """Return whether a publisher has signed what a sealed filter says before its envelope."""
    return is_signed(publisher, _WORDS, _signed(layout, start[:_DIGEST]), start[_DIGEST:])


def is_whole(publisher: bytes, layout: FilterLayout, start: bytes, envelope: bytes) -> bool:
    """Return whether a publisher has signed for the envelope that has this SHA-256."""
    return envelope == start[:_DIGEST] and is_from(publisher, layout, start)


def pad(content: bytes, length: int) -> bytes:
    """Return a content with its length in front and zeros behind it."""
    if _LENGTH.size + len(content) > length:
        most = length - _LENGTH.size
        raise InvalidInput("content to seal", f"at most {most:,} bytes", len(content))
    return (_LENGTH.pack(len(content)) + content).ljust(length, b"\0")


def unpad(padded: bytes, length: int) -> bytes | None:
    """Return what is in a padded content of a length; None if it breaks a rule."""
    if len(padded) != length:
        return None
    (size,) = _LENGTH.unpack_from(padded)
    end = _LENGTH.size + size
    # As in a report: one content is written in one way.
    if end > length or padded.count(0, end) != length - end:
        return None
    return padded[_LENGTH.size : end]


def _signed(layout: FilterLayout, digest: bytes) -> bytes:
    return bytes.fromhex(layout.plan_id) + digest
