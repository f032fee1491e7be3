"""Envelopes: bytes that one party alone can open, for one plan, round and layer.

An envelope has the shape of RFC 9458, section 4.1: seven bytes that name the key and the three
algorithms, the encapsulated key, the sealed bytes with their tag. It is HPKE of RFC 9180 in its
base mode with an empty aad. Plan, round and layer are in the ``info``, so an envelope that was
made for another one does not open. Nothing is negotiated: the algorithms are those below.

A key has a *name*: its id, and a digest of it as it stands in a key list. The names of the keys of
all who open what is inside of an envelope, one behind the other, are in its ``info``, too. Whoever
opens many envelopes with one ``info`` knows that their contents are sealed for the same keys.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from chaffinch.errors import InvalidInput, Unquoted, checks

X25519 = 0x0020
"""The number of the usual KEM, DHKEM(X25519, HKDF-SHA256)."""
HYBRID = 0x647A
"""The number of the KEM that also withstands a quantum computer, X25519 with ML-KEM-768."""
_KDF, _AEAD = 0x0001, 0x0001  # HKDF-SHA256, AES-128-GCM
_ALGORITHMS = (KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_SUITES = {
    X25519: Suite(KEM.X25519, *_ALGORITHMS),
    HYBRID: Suite(KEM.MLKEM768_X25519, *_ALGORITHMS),
}
# Of the hybrid KEM, ML-KEM's part stands first and X25519's 32 bytes behind it, in keys as in what
# is encapsulated.
_ENCAPSULATED = {X25519: 32, HYBRID: 1120}
PUBLIC_LENGTHS = {X25519: 32, HYBRID: 1184 + 32}
_PRIVATE = {X25519: 32, HYBRID: 64 + 32}
_ANY_KEY = X25519PrivateKey.from_private_bytes(bytes(32))
"""One that is no secret, to try public keys with."""
HEAD = 7
NAME = 32
"""Bytes of the name of a key."""
_SEAL = 16
TAG = 16
"""Bytes of the head, of the seal of AES-GCM, and of the tag by which a replay is known."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What an envelope is for: it opens for nothing else."""

    plan_id: str
    round: int
    layer: str
    """``hop1``, ``hop2`` … or ``analyzer``: who opens it, and how many have opened before."""
    behind: bytes = b""
    """The names of the keys of all who open after that."""

    def info(self, head: bytes) -> bytes:
        """Return what both ends of an envelope must agree on."""
        return _info(self.plan_id, self.round, self.layer, head, self.behind)


@lru_cache(maxsize=4096)
def _info(plan_id: str, number: int, layer: str, head: bytes, behind: bytes) -> bytes:
    label = f"application/vnd.chaffinch;layer={layer};plan={plan_id};round={number} request"
    # It can be taken apart in one way only: no zero is in the label, and a head has one length.
    return label.encode() + b"\0" + head + behind


def hop_layer(number: int) -> str:
    """Return the name of the layer that a hop opens; hops count from 1."""
    return f"hop{number}"


ANALYZER_LAYER = "analyzer"


@dataclass(frozen=True)
class SealingKey:
    """The public half of a key: whoever has it can seal for its owner."""

    id: int
    kem: int
    public: bytes

    def __post_init__(self) -> None:
        checks.whole("id of a key", self.id, most=255)
        _check_length("public key", self.kem, self.public, PUBLIC_LENGTHS)
        _ = self._loaded  # Bytes that are no key are refused here, not when something is sealed.

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as bytes: what is loaded from them cannot."""
        return SealingKey, (self.id, self.kem, self.public)

    @cached_property
    def head(self) -> bytes:
        """Return how every envelope for this key starts."""
        return _head(self.id, self.kem)

    @cached_property
    def name(self) -> bytes:
        """Return by what others name this very key: its id, and as much of a digest as fits."""
        digest = hashlib.sha256(self.head + self.public).digest()
        return bytes([self.id]) + digest[: NAME - 1]

    @cached_property
    def _loaded(self) -> Any:
        curve = X25519PublicKey.from_public_bytes(self.public[-32:])
        try:
            # With a point of small order everybody agrees on zeros: refused here, not by ``seal``.
            _ANY_KEY.exchange(curve)
            if self.kem == X25519:
                return curve
            lattice = MLKEM768PublicKey.from_public_bytes(self.public[:1184])
        except ValueError:
            raise InvalidInput("public key", "one of its kind", Unquoted("other bytes")) from None
        return MLKEM768X25519PublicKey(lattice, curve)

    def seal(self, content: bytes, binding: Binding) -> bytes:
        """Return an envelope that only the owner of the key opens."""
        # HPKE binds an envelope to the info: plan, round, layer, head, and the keys of all who open
        # later. An envelope that is moved to another plan or round, or given other keys, does not
        # open.
        head = self.head
        return head + _SUITES[self.kem].encrypt(content, self._loaded, binding.info(head))


@dataclass(frozen=True)
class OpeningKey:
    """The private half of a key. ``repr`` does not show it."""

    id: int
    kem: int
    private: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checks.whole("id of a key", self.id, most=255)
        _check_length("private key", self.kem, self.private, _PRIVATE)

    @classmethod
    def new(cls, number: int, kem: int = X25519) -> OpeningKey:
        """Return a fresh key."""
        private = X25519PrivateKey.generate().private_bytes_raw()
        if kem == HYBRID:
            private = MLKEM768PrivateKey.generate().private_bytes_raw() + private
        return cls(number, kem, private)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as bytes: what is loaded from them cannot."""
        return OpeningKey, (self.id, self.kem, self.private)

    @cached_property
    def head(self) -> bytes:
        """Return how every envelope for this key starts."""
        return _head(self.id, self.kem)

    @cached_property
    def _loaded(self) -> Any:
        curve = X25519PrivateKey.from_private_bytes(self.private[-32:])
        if self.kem == X25519:
            return curve
        return MLKEM768X25519PrivateKey(
            MLKEM768PrivateKey.from_seed_bytes(self.private[:64]), curve
        )

    @cached_property
    def sealing(self) -> SealingKey:
        """Return the public half."""
        curve = X25519PrivateKey.from_private_bytes(self.private[-32:])
        public = curve.public_key().public_bytes_raw()
        if self.kem == HYBRID:
            lattice = MLKEM768PrivateKey.from_seed_bytes(self.private[:64])
            public = lattice.public_key().public_bytes_raw() + public
        return SealingKey(self.id, self.kem, public)

    def open(self, envelope: bytes, binding: Binding) -> bytes | None:
        """Return what is in an envelope; None if it is damaged, forged or for something else.

        There is one answer to all of these: a reason would tell a forger how far it got.
        """
        head = self.head
        # The info holds the head of this key, not that of the envelope: only this ties the two.
        if envelope[:HEAD] != head:
            return None
        try:
            content: bytes = _SUITES[self.kem].decrypt(
                envelope[HEAD:], self._loaded, binding.info(head)
            )
        except InvalidTag:
            return None
        return content


def envelope_length(content: int, kem: int) -> int:
    """Return the length of an envelope of so many bytes."""
    return HEAD + _ENCAPSULATED[kem] + content + _SEAL


def replay_tag(secret: bytes, envelope: bytes, kem: int) -> bytes:
    """Return by what an envelope is known when it comes again; it tells nobody else anything.

    The encapsulated key is part of what is sealed, so two envelopes that open have the same tag
    only if they are copies (but for a chance of 2⁻¹²⁸). The secret lives and dies with the key.
    """
    return hmac.digest(secret, envelope[: HEAD + _ENCAPSULATED[kem]], "sha256")[:TAG]


def kem_of(head: bytes) -> int | None:
    """Return the KEM of an envelope by its head; None where an algorithm is not one of ours."""
    kem = int.from_bytes(head[1:3], "big")
    return kem if kem in _SUITES and head[1:HEAD] == _head(0, kem)[1:] else None


def _head(number: int, kem: int) -> bytes:
    return b"".join((bytes([number]), *(one.to_bytes(2, "big") for one in (kem, _KDF, _AEAD))))


def _check_length(what: str, kem: int, content: bytes, lengths: dict[int, int]) -> None:
    if kem not in lengths:
        raise InvalidInput("KEM", "one of " + ", ".join(map(hex, lengths)), kem)
    if len(content) != lengths[kem]:
        raise InvalidInput(what, f"{lengths[kem]} bytes", len(content))
