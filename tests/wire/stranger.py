"""A second implementation of docs/reference/wire.md, from its words alone.

It imports nothing of chaffinch: HPKE is that of pyhpke, Ed25519 that of pyca.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
DUMMY = 0xFFFF_FFFF
LENGTHS = {0x0020: 32, 0x647A: 1216}


def info(layer: str, plan: str, number: int, head: bytes, behind: bytes) -> bytes:
    words = f"application/vnd.chaffinch;layer={layer};plan={plan};round={number} request"
    return words.encode("ascii") + b"\0" + head + behind


def route_of(keys: list[tuple[int, bytes]]) -> bytes:
    heads = (struct.pack(">BHHH", number, 0x20, 1, 1) + key for number, key in keys)
    return b"".join(head[:1] + hashlib.sha256(head).digest()[:31] for head in heads)


@dataclass(frozen=True)
class Plan:
    """What a client needs to know of a plan to seal for it."""

    id: str
    round: int
    slots: int
    layers: tuple[str, ...]
    """hop1, …, analyzer."""

    def seal(
        self, layer: str, key: tuple[int, bytes], content: bytes, behind: bytes = b""
    ) -> bytes:
        number, public = key
        head = struct.pack(">BHHH", number, 0x0020, 0x0001, 0x0001)
        loaded = KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(public))
        enc, context = SUITE.create_sender_context(
            loaded, info=info(layer, self.id, self.round, head, behind)
        )
        return head + enc + context.seal(content)

    def open(self, layer: str, private: bytes, envelope: bytes, behind: bytes = b"") -> bytes:
        head, enc, sealed = envelope[:7], envelope[7:39], envelope[39:]
        own = KEMKey.from_pyca_cryptography_key(X25519PrivateKey.from_private_bytes(private))
        context = SUITE.create_recipient_context(
            enc, own, info=info(layer, self.id, self.round, head, behind)
        )
        return context.open(sealed)

    def seal_report(self, keys: list[tuple[int, bytes]], codes: list[int]) -> bytes:
        """Return a report; ``keys`` are those of the layers, dummies are among the codes."""
        items = []
        for code in codes:
            item = struct.pack(">I", code)
            for place in range(len(keys) - 1, 0, -1):
                behind = route_of(keys[place + 1 :])
                item = self.seal(self.layers[place], keys[place], item, behind)
            items.append(item)
        payload = b"\2" + route_of(keys[1:]) + struct.pack(">I", len(items)) + b"".join(items)
        length = 4 + 55 * (len(self.layers) - 1)
        payload += bytes(length * (self.slots - len(items)))
        return self.seal(self.layers[0], keys[0], payload)

    def open_report(self, privates: list[bytes], sealed: bytes) -> list[int]:
        payload = self.open(self.layers[0], privates[0], sealed)
        route = payload[1 : 1 + 32 * (len(self.layers) - 1)]
        start = 1 + len(route) + 4
        (count,) = struct.unpack_from(">I", payload, start - 4)
        length = 4 + 55 * (len(self.layers) - 1)
        codes = []
        for place in range(count):
            item = payload[start + place * length :][:length]
            for hop, layer in enumerate(self.layers[1:], 1):
                item = self.open(layer, privates[hop], item, route[32 * hop :])
            codes.append(struct.unpack(">I", item)[0])
        return codes


def check_signature(identity: bytes, words: bytes, content: bytes, signature: bytes) -> None:
    key = Ed25519PublicKey.from_public_bytes(identity)
    key.verify(signature, words + b"\0" + content)


def read_keys(content: bytes, plan: str, identity: bytes) -> tuple[int, list[tuple[int, bytes]]]:
    """Return the serial and the keys of a list; the first is the one to seal for."""
    body, signature = content[:-64], content[-64:]
    check_signature(identity, b"chaffinch keys", body, signature)
    form, of_plan, serial, count = struct.unpack_from(">8s32sQB", body)
    if form != b"chafkey1" or of_plan.hex() != plan:
        raise ValueError("another list")
    place, keys = 49, []
    for _ in range(count):
        number, kem, kdf, aead = struct.unpack_from(">BHHH", body, place)
        if (kdf, aead) != (1, 1):
            raise ValueError("another suite")
        keys.append((number, body[place + 7 : place + 7 + LENGTHS[kem]]))
        place += 7 + LENGTHS[kem]
    if place != len(body):
        raise ValueError("another length")
    return serial, keys


def read_batch(content: bytes, identity: bytes) -> tuple[str, tuple[int, bytes, int], list[bytes]]:
    """Return the id, then round, route and reports, then the items of a batch."""
    signed, signature = content[:322] + content[386:], content[322:386]
    name = hashlib.sha256(signed).digest()
    check_signature(identity, b"chaffinch batch", name, signature)
    form, _, number, _, names, route, reports, count, length = struct.unpack_from(
        ">8s32sIBB256sQQI", signed
    )
    if form != b"chafbat3" or len(signed) != 322 + count * length:
        raise ValueError("another batch")
    items = [signed[322 + place * length :][:length] for place in range(count)]
    return name.hex(), (number, route[: 32 * names], reports), items


# ----------------------------------------------------------------------------
# Filters of publishers.


def filter_file(facts: dict[str, object], rows: list[bytes]) -> bytes:
    """Return a filter file; the facts lack the number of rows and the digest."""
    known = {**facts, "rows": len(rows)}
    known["sha256"] = hashlib.sha256(_canonical(known) + b"".join(rows)).hexdigest()
    head = b"chaffinch/filter@1\n" + _canonical(known) + b"\n"
    return head + bytes(-len(head) % 64) + b"".join(rows)


def _canonical(facts: dict[str, object]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def seal_filter(
    plan: str, key: tuple[int, bytes], identity: bytes, file: bytes, rows: int
) -> bytes:
    """Return a sealed filter; ``rows`` is how many bytes all rows have."""
    padded = (struct.pack(">I", len(file)) + file).ljust(4 + 4096 + rows, b"\0")
    envelope = Plan(plan, 1, 1, ()).seal("filter", key, padded)
    signed = bytes.fromhex(plan) + hashlib.sha256(envelope).digest()
    own = Ed25519PrivateKey.from_private_bytes(identity)
    return signed[32:] + own.sign(b"chaffinch filter\0" + signed) + envelope


def open_filter(plan: str, private: bytes, identity: bytes, sealed: bytes) -> bytes:
    """Return the filter file in a sealed filter of a publisher."""
    digest, signature, envelope = sealed[:32], sealed[32:96], sealed[96:]
    if digest != hashlib.sha256(envelope).digest():
        raise ValueError("another envelope")
    signed = bytes.fromhex(plan) + digest
    check_signature(identity, b"chaffinch filter", signed, signature)
    return unpadded(Plan(plan, 1, 1, ()).open("filter", private, envelope))


def unpadded(content: bytes) -> bytes:
    (length,) = struct.unpack_from(">I", content)
    if any(content[4 + length :]):
        raise ValueError("another padding")
    return content[4 : 4 + length]
