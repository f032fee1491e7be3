"""The keys of a party for one plan, signed: what a device needs to seal for it.

By signing a list for a plan a party agrees to the plan: the list is its signature under it. The
list is the same for everybody. ::

    struct {
        uint8  key_id;
        uint16 kem_id, kdf_id, aead_id;
        opaque public_key[32 or 1216];   // by the KEM
    } Key;

    struct {
        opaque format[8];                // "chafkey1"
        opaque plan_id[32];
        uint64 serial;                   // grows with every change; a device takes no older one
        uint8  count;
        Key    keys[count];              // the first is the one to seal for
    } KeyList;                           // then opaque signature[64]

The signature is Ed25519 by the party's identity key, which the plan names, over the words
``chaffinch keys``, a zero byte and the list.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidFile, InvalidInput, Reason, Unquoted, checks
from chaffinch.wire.envelopes import HEAD, PUBLIC_LENGTHS, SealingKey, kem_of
from chaffinch.wire.signatures import SIGNATURE, is_signed, sign

_FORMAT = b"chafkey1"
_HEAD = struct.Struct(">8s32sQB")
_WORDS = b"chaffinch keys"
_MOST_KEYS = 255
LONGEST_LIST = _HEAD.size + _MOST_KEYS * (HEAD + max(PUBLIC_LENGTHS.values())) + SIGNATURE
"""Bytes of a list of as many of the longest keys."""


@dataclass(frozen=True)
class KeyList:
    """Keys to seal for, the one in use first."""

    plan_id: str
    serial: int
    keys: tuple[SealingKey, ...]

    def __post_init__(self) -> None:
        checks.whole("serial of a key list", self.serial, most=(1 << 64) - 1)
        if not 1 <= len({key.id for key in self.keys}) == len(self.keys) <= _MOST_KEYS:
            raise InvalidInput(
                "key list", "one of 1 to 255 keys with ids of their own", Unquoted("another")
            )

    def signed(self, identity: Ed25519PrivateKey) -> bytes:
        """Return the list with the party's signature."""
        head = _HEAD.pack(_FORMAT, bytes.fromhex(self.plan_id), self.serial, len(self.keys))
        content = head + b"".join(key.head + key.public for key in self.keys)
        return content + sign(identity, _WORDS, content)

    @classmethod
    def read_all(
        cls, content: bytes, *, plan_id: str, identities: Sequence[bytes]
    ) -> list[tuple[KeyList, bytes]]:
        """Return the lists of several parties, one behind the other, each with its own bytes."""
        found, place = [], 0
        for identity in identities:
            own = content[place : place + _length(content, place)]
            found.append((cls.read(own, plan_id=plan_id, identity=identity), own))
            place += len(own)
        if place != len(content):
            raise _refused("one of another length")
        return found

    @classmethod
    def read(cls, content: bytes, *, plan_id: str, identity: bytes) -> KeyList:
        """Return a list that the party has signed for this plan; refuse any other, whole."""
        body, signature = content[:-SIGNATURE], content[-SIGNATURE:]
        # Before anything is taken apart: who cannot sign does not get that far.
        if not is_signed(identity, _WORDS, body, signature):
            raise _refused("one that its party has not signed")
        if len(body) < _HEAD.size:
            raise _refused("one that is cut off")
        form, plan, serial, count = _HEAD.unpack_from(body)
        if form != _FORMAT or plan.hex() != plan_id:
            raise _refused("one for another plan")
        keys, place = [], _HEAD.size
        for _ in range(count):
            head = body[place : place + HEAD]
            kem = kem_of(head)
            if kem is None:
                raise _refused("one with a key of another kind")
            end = place + HEAD + PUBLIC_LENGTHS[kem]
            try:
                keys.append(SealingKey(head[0], kem, body[place + HEAD : end]))
            except InvalidInput:
                raise _refused("one with bytes that are no key") from None
            place = end
        if place != len(body):
            raise _refused("one of another length")
        try:
            return cls(plan_id, serial, tuple(keys))
        except InvalidInput as fault:
            raise _refused(fault.must_be) from None


def _length(content: bytes, start: int) -> int:
    """Return how long the list is that starts at a place; whoever reads it checks all else."""
    if len(content) < start + _HEAD.size:
        raise _refused("one that is cut off")
    *_, count = _HEAD.unpack_from(content, start)
    place = start + _HEAD.size
    for _ in range(count):
        kem = kem_of(content[place : place + HEAD])
        if kem is None:
            raise _refused("one with a key of another kind")
        place += HEAD + PUBLIC_LENGTHS[kem]
    return place + SIGNATURE - start


def _refused(fault: str) -> InvalidFile:
    return InvalidFile(
        "key list", "one that its party has signed for this plan", [fault], reason=Reason.DAMAGED
    )
