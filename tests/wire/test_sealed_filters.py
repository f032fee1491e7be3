"""Sealed filters: of one length, signed by their publisher, and for one plan."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidInput
from chaffinch.wire.envelopes import HYBRID, X25519, OpeningKey
from chaffinch.wire.sealed_filters import (
    START_LENGTH,
    FilterLayout,
    is_from,
    is_whole,
    pad,
    seal_filter,
    unpad,
)

PUBLISHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = PUBLISHER.public_key().public_bytes_raw()
STRANGER = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
LAYOUT = FilterLayout("5a" * 32, row_bytes=1024, logos=8, bits=10_000)


@pytest.mark.parametrize("kem", [X25519, HYBRID])
def test_all_filters_of_a_plan_have_one_length_and_open_as_they_were(kem: int) -> None:
    layout, key = replace(LAYOUT, outer_kem=kem), OpeningKey.new(4, kem)
    for content in (b"", b"short", b"\0" * (4096 + 1024)):
        sealed = seal_filter(content, layout, key.sealing, PUBLISHER)
        assert len(sealed) == layout.sealed_length == 96 + layout.envelope_length
        start, envelope = sealed[:START_LENGTH], sealed[START_LENGTH:]
        padded = key.open(envelope, layout.binding(1, 1))
        assert unpad(padded or b"", layout.filter_length) == content
        assert is_from(PUBLIC, layout, start)
        assert is_whole(PUBLIC, layout, start, hashlib.sha256(envelope).digest())
    with pytest.raises(InvalidInput, match="5,120 bytes"):
        seal_filter(bytes(4096 + 1024 + 1), layout, key.sealing, PUBLISHER)


def test_a_signature_is_of_one_publisher_for_one_plan_and_one_envelope() -> None:
    key = OpeningKey.new(4)
    first, second = (seal_filter(b"ids", LAYOUT, key.sealing, PUBLISHER) for _ in range(2))
    start, other = first[:START_LENGTH], second[:START_LENGTH]
    assert is_from(PUBLIC, LAYOUT, start)
    assert not is_from(PUBLIC, LAYOUT, start[:32] + other[32:])
    assert not is_from(STRANGER, LAYOUT, start)
    assert not is_from(PUBLIC, replace(LAYOUT, plan_id="5b" * 32), start)
    digest = hashlib.sha256(first[START_LENGTH:]).digest()
    assert is_whole(PUBLIC, LAYOUT, start, digest)
    assert not is_whole(PUBLIC, LAYOUT, other, digest)
    assert not is_whole(STRANGER, LAYOUT, start, digest)


def test_a_filter_is_no_columns_and_no_report() -> None:
    key = OpeningKey.new(4)
    sealed = seal_filter(b"ids", LAYOUT, key.sealing, PUBLISHER)[START_LENGTH:]
    assert [LAYOUT.binding(hop, 1).layer for hop in (1, 2)] == ["filter", "analyzer"]
    assert (LAYOUT.binding(1, 3).plan_id, LAYOUT.binding(1, 3).round) == ("5a" * 32, 3)
    assert key.open(sealed, LAYOUT.binding(2, 1)) is None
    assert key.open(sealed, LAYOUT.binding(1, 2)) is None


def test_columns_have_one_length_too() -> None:
    """Eight counts of at most five digits, each with what separates them."""
    assert LAYOUT.columns_length == 4 + 1024 + 8 * 6
    assert LAYOUT.item_length(1) == 7 + 32 + LAYOUT.columns_length + 16
    assert (LAYOUT.hops, LAYOUT.most_items(1), LAYOUT.most_items(9)) == (1, 1, 1)
    for hop in (0, 2):
        with pytest.raises(InvalidInput, match="hop"):
            LAYOUT.item_length(hop)


def test_what_is_padded_is_read_in_one_way_only() -> None:
    good = pad(b"abc", 10)
    assert good == b"\0\0\0\3abc\0\0\0"
    assert unpad(good, 10) == b"abc"
    assert unpad(pad(b"abcdef", 10), 10) == b"abcdef"
    assert unpad(pad(b"", 10), 10) == b""
    with pytest.raises(InvalidInput, match="at most 6 bytes"):
        pad(b"abcdefg", 10)
    for bad in (
        good[:-1],
        good + b"\0",
        good[:7] + b"\1\0\0",
        good[:9] + b"\1",
        b"\0\0\0\7abc\0\0\0",
        b"\0\0\0\2abc\0\0\0",
        b"\xff" * 10,
    ):
        assert unpad(bad, 10) is None
