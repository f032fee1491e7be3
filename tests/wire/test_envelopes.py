"""Envelopes: opened by their key, for their plan, round and layer, and by nothing else."""

from __future__ import annotations

import pickle

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
from tests.cases import each_case

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


@KEMS
def test_a_tag_is_that_of_the_copy_and_of_no_other(kem: int) -> None:
    key = OpeningKey.new(1, kem)
    first, second = (key.sealing.seal(b"same", BINDING) for _ in range(2))
    tags = [replay_tag(b"secret", one, kem) for one in (first, first, second)]
    assert tags[0] == tags[1] != tags[2]
    assert replay_tag(b"other", first, kem) != tags[0]
    assert {len(tag) for tag in tags} == {16}
    # It is that of the head and of the whole encapsulated key, and of nothing behind them.
    end = len(first) - 4 - 16
    assert replay_tag(b"secret", first[:end] + b"anything", kem) == tags[0]
    assert replay_tag(b"secret", first[: end - 1], kem) != tags[0]
    assert replay_tag(b"secret", b"\2" + first[1:], kem) != tags[0]


@KEMS
def test_keys_travel_to_other_processes_as_bytes(kem: int) -> None:
    key = OpeningKey.new(1, kem)
    envelope = key.sealing.seal(b"code", BINDING)
    assert key.open(envelope, BINDING) == b"code"  # Both halves have been loaded.
    opening, sealing = pickle.loads(pickle.dumps((key, key.sealing)))  # noqa: S301 - our own
    assert (opening, sealing) == (key, key.sealing)
    assert opening.open(sealing.seal(b"more", BINDING), BINDING) == b"more"


def test_keys_of_other_lengths_and_kinds_are_refused() -> None:
    for kem, length in ((X25519, 32), (HYBRID, 1184 + 32)):
        for wrong in (length - 1, length + 1):
            with pytest.raises(InvalidInput, match=f"{length} bytes"):
                SealingKey(1, kem, bytes(wrong))
    for kem, length in ((X25519, 32), (HYBRID, 64 + 32)):
        OpeningKey(1, kem, bytes(length))
        for wrong in (length - 1, length + 1):
            with pytest.raises(InvalidInput, match=f"{length} bytes"):
                OpeningKey(1, kem, bytes(wrong))
    with pytest.raises(InvalidInput, match="KEM"):
        SealingKey(1, 0x10, bytes(32))
    with pytest.raises(InvalidInput, match="one of its kind"):
        SealingKey(1, HYBRID, bytes([255]) * (1184 + 32))
    assert "private" not in repr(OpeningKey.new(9))


# RFC 7748, section 6.1: whoever agrees on a key with one of these agrees on zeros.
POINTS_OF_SMALL_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
]


@each_case("point", POINTS_OF_SMALL_ORDER)
def test_a_key_that_everybody_can_open_is_none(point: str) -> None:
    """A party that lists one would stop every device in the middle of sealing."""
    with pytest.raises(InvalidInput, match="one of its kind"):
        SealingKey(1, X25519, bytes.fromhex(point))
    lattice = OpeningKey.new(1, HYBRID).sealing.public[:1184]
    with pytest.raises(InvalidInput, match="one of its kind"):
        SealingKey(1, HYBRID, lattice + bytes.fromhex(point))


def test_an_id_is_one_byte() -> None:
    key = OpeningKey.new(255)
    assert key.sealing.head[0] == 255
    for wrong in (-1, 256):
        with pytest.raises(InvalidInput, match="id of a key"):
            SealingKey(wrong, X25519, key.sealing.public)
        with pytest.raises(InvalidInput, match="id of a key"):
            OpeningKey(wrong, X25519, key.private)


def test_a_head_names_the_key_and_three_algorithms() -> None:
    assert OpeningKey.new(9).head.hex() == "09002000010001"
    assert OpeningKey.new(9, HYBRID).sealing.head.hex() == "09647a00010001"
    for number in (0, 9, 255):
        assert kem_of(bytes([number]) + bytes.fromhex("002000010001")) == X25519
        assert kem_of(bytes([number]) + bytes.fromhex("647a00010001")) == HYBRID
    for other in ("09001000010001", "09002000020001", "09002000010002", "0900200001", ""):
        assert kem_of(bytes.fromhex(other)) is None
