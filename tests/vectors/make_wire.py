"""Vectors of everything that travels: ``python -m tests.vectors.make_wire`` writes ``wire.json``.

All keys are digests of words, ephemeral ones too, and X25519 envelopes are made by the oracle, so
whoever can set the ephemeral key of their HPKE makes the same bytes. What the hybrid KEM seals is
random: of it the stored bytes are kept.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from chaffinch.wire.envelopes import HYBRID, X25519, Binding, OpeningKey, replay_tag
from chaffinch.wire.filter_files import Filter, ShuffledColumns
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY
from chaffinch.wire.sealed_batches import BatchHead, sign_receipt, write_batch
from tests.oracles import hpke

FILE = Path(__file__).with_name("wire.json")
SOURCE = "made by tests/vectors/make_wire.py from the wire specification, docs/reference/wire.md"
ROUND = 3
PUBLISHER = "daily"
HOPS = {"hop1": 7, "hop2": 9, "analyzer": 200}
"""The id of each party's key."""


def secret(words: str) -> bytes:
    """Return the key that belongs to some words."""
    return hashlib.sha256(words.encode()).digest()


PLAN = secret("chaffinch wire vectors").hex()


def opening_key(party: str, kem: int = X25519) -> OpeningKey:
    """Return the private key of a party."""
    lattice = secret(f"{party} d") + secret(f"{party} z") if kem == HYBRID else b""
    return OpeningKey(HOPS[party], kem, lattice + secret(party))


def identity(party: str) -> Ed25519PrivateKey:
    """Return the key that a party signs with."""
    return Ed25519PrivateKey.from_private_bytes(secret(f"{party} identity"))


def route_of(parties: list[str]) -> bytes:
    """Return the names of the keys of these parties: an id, and 31 bytes of a digest."""
    keys = (opening_key(party).sealing for party in parties)
    return b"".join(
        bytes([key.id]) + hashlib.sha256(key.head + key.public).digest()[:31] for key in keys
    )


class Ephemeral:
    """One ephemeral key after another, of a name."""

    def __init__(self, name: str, number: int = ROUND) -> None:
        self.name, self.round, self.keys = name, number, list[str]()

    def seal(self, party: str, content: bytes, layer: str = "", behind: bytes = b"") -> bytes:
        """Return an envelope for a party; the name of a layer is mostly that of who opens it."""
        key = opening_key(party)
        own = secret(f"{self.name} ephemeral {len(self.keys)}")
        self.keys.append(own.hex())
        info = Binding(PLAN, self.round, layer or party, behind).info(key.head)
        return key.head + hpke.seal(own, key.sealing.public, content, info)


def report(name: str, slots: int, parties: list[str], codes: list[int]) -> dict[str, Any]:
    """Return a report of some messages, in the order of its items."""
    drawn = Ephemeral(name)
    items = []
    for code in codes:
        item = code.to_bytes(4, "big")
        for place in range(len(parties) - 1, 0, -1):
            item = drawn.seal(parties[place], item, behind=route_of(parties[place + 1 :]))
        items.append(item)
    count = len(codes).to_bytes(4, "big")
    payload = b"\2" + route_of(parties[1:]) + count + b"".join(items)
    length = len(items[0])
    payload += bytes((slots - len(codes)) * length)
    sealed = drawn.seal(parties[0], payload)
    return {
        "name": name,
        "slots": slots,
        "parties": parties,
        "codes": codes,
        "items": [item.hex() for item in items],
        "payload": payload.hex(),
        "sealed": sealed.hex(),
        "ephemeral": drawn.keys,
        "replay_secret": secret("replay").hex(),
        "replay_tag": replay_tag(secret("replay"), sealed, X25519).hex(),
    }


def batch(items: list[str]) -> dict[str, Any]:
    """Return a batch that the first of two hops hands to the second."""
    content = [bytes.fromhex(item) for item in items]
    route, length = route_of(["hop2", "analyzer"]), len(content[0])
    head = BatchHead(PLAN, ROUND, 1, route, 2, len(content), length)
    file = io.BytesIO()
    name = write_batch(file, head, content, identity("hop1"))
    return {
        "maker": "hop1",
        "route": head.route.hex(),
        "reports": head.reports,
        "items": items,
        "id": name,
        "content": file.getvalue().hex(),
        "receiver": "hop2",
        "receipt": sign_receipt(name, identity("hop2")).hex(),
    }


def sealed_filter() -> dict[str, Any]:
    """Return the filter of a publisher on its way to the shuffler, who is ``hop1``."""
    rows = tuple(np.frombuffer(secret(f"row {number}"), "<u8")[:2] for number in (1, 2))
    made = Filter(PLAN, PUBLISHER, "0a" * 16, "0b" * 16, 100, tuple(map(_cut, rows)))
    drawn, content = Ephemeral("filter", 1), made.content()
    padded = len(content).to_bytes(4, "big") + content
    envelope = drawn.seal("hop1", padded.ljust(4 + 4096 + 32, b"\0"), "filter")
    signed = bytes.fromhex(PLAN) + hashlib.sha256(envelope).digest()
    sealed = signed[32:] + identity(PUBLISHER).sign(b"chaffinch filter\0" + signed) + envelope
    return {
        "publisher": PUBLISHER,
        "identity_private": identity(PUBLISHER).private_bytes_raw().hex(),
        "identity": identity(PUBLISHER).public_key().public_bytes_raw().hex(),
        "bits": made.bits,
        "rows": [row.tobytes().hex() for row in made.rows],
        "file": content.hex(),
        "ephemeral": drawn.keys,
        "sealed": sealed.hex(),
        "receipt": sign_receipt(hashlib.sha256(sealed).hexdigest(), identity("hop1")).hex(),
    }


def _cut(row: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a row of 100 bits: nothing is set behind them."""
    return row & np.array([2**64 - 1, 2**36 - 1], np.uint64)


def columns() -> dict[str, Any]:
    """Return what the shuffler hands to the analyzer: the columns of one publisher's two rows."""
    counts = np.array([40, 30, 20, 10], np.int64)
    made = ShuffledColumns(PLAN, "0a" * 16, "0c" * 16, 100, 2, counts)
    drawn, content = Ephemeral("columns", 1), made.content()
    padded = len(content).to_bytes(4, "big") + content
    item = drawn.seal("analyzer", padded.ljust(4 + 1024 + 4 * 4, b"\0"))
    head = BatchHead(PLAN, 1, 1, route_of(["analyzer"]), 1, 1, len(item))
    file = io.BytesIO()
    name = write_batch(file, head, [item], identity("hop1"))
    return {
        "counts": counts.tolist(),
        "file": content.hex(),
        "ephemeral": drawn.keys,
        "item": item.hex(),
        "id": name,
        "batch": file.getvalue().hex(),
    }


def key_list(party: str, serial: int, kems: list[int]) -> dict[str, Any]:
    """Return the signed keys of a party; of several, ids go up from its first."""
    keys = [
        OpeningKey((HOPS[party] + place) % 256, kem, opening_key(party, kem).private).sealing
        for place, kem in enumerate(kems)
    ]
    return {
        "party": party,
        "serial": serial,
        "keys": [{"id": key.id, "kem": key.kem, "public": key.public.hex()} for key in keys],
        "content": KeyList(PLAN, serial, tuple(keys)).signed(identity(party)).hex(),
    }


def made() -> dict[str, Any]:
    """Return all vectors that are the same each time."""
    one = report("one hop", 2, ["hop1", "analyzer"], [1, EMPTY])
    two = report("two hops, one slot empty", 3, ["hop1", "hop2", "analyzer"], [5, 70_000])
    return {
        "source": SOURCE,
        "plan": PLAN,
        "round": ROUND,
        "parties": {
            party: {
                "key_id": number,
                "key_name": route_of([party]).hex(),
                "private": opening_key(party).private.hex(),
                "public": opening_key(party).sealing.public.hex(),
                "identity_private": identity(party).private_bytes_raw().hex(),
                "identity": identity(party).public_key().public_bytes_raw().hex(),
            }
            for party, number in HOPS.items()
        },
        "reports": [one, two],
        "key_lists": [
            key_list("hop1", 1, [X25519]),
            key_list("analyzer", 2**40, [X25519, HYBRID, X25519]),
        ],
        "batch": batch(two["items"]),
        "filter": sealed_filter(),
        "columns": columns(),
    }


def hybrid() -> dict[str, Any]:
    """Return an envelope of the hybrid KEM: another one each time."""
    key = opening_key("hop1", HYBRID)
    sealed = key.sealing.seal(b"hybrid", Binding(PLAN, ROUND, "hop1"))
    return {
        "layer": "hop1",
        "private": key.private.hex(),
        "public": key.sealing.public.hex(),
        "content": b"hybrid".hex(),
        "sealed": sealed.hex(),
    }


if __name__ == "__main__":
    kept = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {"hybrid": hybrid()}
    text = json.dumps(made() | {"hybrid": kept["hybrid"]}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")
