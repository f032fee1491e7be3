"""Envelopes: opened by their key, for their plan, round and layer, and by nothing else."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

from chaffinch.errors import InvalidInput
from chaffinch.wire.envelopes import (
    HEAD,
    HYBRID,
    X25519,
    Binding,
    OpeningKey,
    SealingKey,
    envelope_length,
    kem_of,
    replay_tag,
)

KEMS = pytest.mark.parametrize("kem", [X25519, HYBRID])
BINDING = Binding("ab" * 32, 3, "hop1")


@KEMS
def test_an_envelope_is_opened_by_its_key_for_what_it_was_made_for(kem: int) -> None:
    key = OpeningKey.new(7, kem)
    envelope = key.sealing.seal(b"a message", BINDING)
    assert key.open(envelope, BINDING) == b"a message"
    assert len(envelope) == envelope_length(9, kem)
    others = [
        Binding("ac" * 32, 3, "hop1"),
        Binding("ab" * 32, 4, "hop1"),
        Binding("ab" * 32, 3, "hop2"),
        Binding("ab" * 32, 3, "analyzer"),
    ]
    assert [key.open(envelope, other) for other in others] == [None] * 4
    assert OpeningKey.new(7, kem).open(envelope, BINDING) is None
    assert OpeningKey(8, kem, key.private).open(envelope, BINDING) is None


@KEMS
def test_every_changed_bit_and_every_cut_is_refused(kem: int) -> None:
    key = OpeningKey.new(0, kem)
    envelope = key.sealing.seal(b"code", BINDING)
    places = range(len(envelope)) if kem == X25519 else range(0, len(envelope), 17)
    for place in places:
        for bit in range(8):
            changed = bytearray(envelope)
            changed[place] ^= 1 << bit
            assert key.open(bytes(changed), BINDING) is None
        assert key.open(envelope[:place], BINDING) is None
    assert key.open(envelope + b"\0", BINDING) is None


@pytest.mark.parametrize("point", [bytes(32), bytes([1, *bytes(31)]), bytes([255] * 32)])
def test_small_and_odd_points_are_refused_like_anything_else(point: bytes) -> None:
    key = OpeningKey.new(0)
    envelope = key.sealing.seal(b"code", BINDING)
    assert key.open(envelope[:HEAD] + point + envelope[HEAD + 32 :], BINDING) is None


def _stranger() -> CipherSuite:
    return CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)


def test_another_library_opens_what_we_seal() -> None:
    key = OpeningKey.new(1)
    envelope = key.sealing.seal(b"from here", BINDING)
    private = KEMKey.from_pyca_cryptography_key(X25519PrivateKey.from_private_bytes(key.private))
    context = _stranger().create_recipient_context(
        envelope[HEAD : HEAD + 32], private, info=BINDING.info(envelope[:HEAD])
    )
    assert context.open(envelope[HEAD + 32 :]) == b"from here"


def test_we_open_what_another_library_seals() -> None:
    key = OpeningKey.new(1)
    public = X25519PrivateKey.from_private_bytes(key.private).public_key()
    enc, context = _stranger().create_sender_context(
        KEMKey.from_pyca_cryptography_key(public), info=BINDING.info(key.head)
    )
    assert key.open(key.head + enc + context.seal(b"from there"), BINDING) == b"from there"


def test_a_tag_is_that_of_the_copy_and_of_no_other() -> None:
    key = OpeningKey.new(1)
    first, second = (key.sealing.seal(b"same", BINDING) for _ in range(2))
    tags = [replay_tag(b"secret", one, X25519) for one in (first, first, second)]
    assert tags[0] == tags[1] != tags[2]
    assert replay_tag(b"other", first, X25519) != tags[0]
    assert {len(tag) for tag in tags} == {16}


def test_keys_of_other_lengths_and_kinds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        SealingKey(1, X25519, bytes(31))
    with pytest.raises(InvalidInput, match="KEM"):
        SealingKey(1, 0x10, bytes(32))
    with pytest.raises(InvalidInput, match="one of its kind"):
        SealingKey(1, HYBRID, bytes([255]) * (1184 + 32))
    assert kem_of(OpeningKey.new(9).head) == X25519
    assert kem_of(bytes([9, 0, 32, 0, 2, 0, 1])) is None
    assert "private" not in repr(OpeningKey.new(9))
