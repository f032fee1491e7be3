"""Payloads, key lists, batches and receipts: whole, signed, and of one length."""

from __future__ import annotations

import io
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.wire.envelopes import HYBRID, X25519, OpeningKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.problems import Kind, Problem, problem_word
from chaffinch.wire.sealed_batches import (
    BatchHead,
    blocks_of,
    check_batch,
    is_receipt,
    sign_receipt,
    write_batch,
)
from chaffinch.wire.sealed_reports import Layout

PLAN = "5a" * 32
IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = IDENTITY.public_key().public_bytes_raw()
STRANGER = Ed25519PrivateKey.generate().public_key().public_bytes_raw()


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("kem", [X25519, HYBRID])
def test_reports_have_one_length_however_many_messages_there_are(hops: int, kem: int) -> None:
    layout = Layout(PLAN, 5, hops, kem)
    key = OpeningKey.new(1, kem)
    for count in range(6):
        items = [bytes([number]) * layout.item_length(1) for number in range(count)]
        payload = layout.pack(bytes(hops + 32), items)
        assert layout.unpack(payload) == (bytes(hops + 32), b"".join(items))
        assert len(key.sealing.seal(payload, layout.binding(1, 1))) == layout.report_length
    assert layout.item_length(1) - layout.item_length(hops) == 55 * (hops - 1)
    assert layout.binding(hops + 1, 1).layer == "analyzer"


def test_a_payload_that_breaks_a_rule_is_none() -> None:
    layout = Layout(PLAN, 2)
    good = layout.pack(bytes(33), [bytes([1]) * layout.item_length(1)])
    another_version = bytes([2]) + good[1:]
    more = good[:34] + (3).to_bytes(4, "big") + good[38:]
    padded = good[:-1] + b"\1"
    for bad in (another_version, more, padded, good[:-1], good + b"\0", b""):
        assert layout.unpack(bad) is None
    assert layout.unpack(good) is not None


def test_a_plan_of_too_many_messages_cannot_be_sealed() -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        Layout(PLAN, 20_000)


def test_a_key_list_is_read_as_it_was_signed_and_in_no_other_way() -> None:
    keys = tuple(OpeningKey.new(place, kem).sealing for place, kem in [(3, X25519), (1, HYBRID)])
    content = KeyList(PLAN, 9, keys).signed(IDENTITY)
    read = partial(KeyList.read, plan_id=PLAN, identity=PUBLIC)
    assert read(content) == KeyList(PLAN, 9, keys)
    for place in range(0, len(content), 13):
        changed = bytearray(content)
        changed[place] ^= 1
        for bad in (bytes(changed), content[:place]):
            with pytest.raises(InvalidFile):
                read(bad)
    with pytest.raises(InvalidFile):
        KeyList.read(content, plan_id=PLAN, identity=STRANGER)
    with pytest.raises(InvalidFile, match="another plan"):
        KeyList.read(content, plan_id="00" * 32, identity=PUBLIC)
    with pytest.raises(InvalidInput):
        KeyList(PLAN, 9, (keys[0], keys[0]))


def _batch() -> tuple[BatchHead, bytes, str]:
    file = io.BytesIO()
    head = BatchHead(PLAN, 2, 1, b"\7", reports=4, items=6, item_length=5)
    name = write_batch(file, head, [bytes(range(20)), bytes(range(10))], IDENTITY)
    return head, file.getvalue(), name


def test_a_batch_is_read_as_it_was_written() -> None:
    head, content, name = _batch()
    file = io.BytesIO(content)
    assert check_batch(file, PUBLIC) == (head, name)
    assert b"".join(blocks_of(file, 30, 7)) == bytes(range(20)) + bytes(range(10))
    assert len(content) == head.file_length


def test_every_changed_bit_and_every_cut_of_a_batch_is_refused() -> None:
    _, content, _ = _batch()
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            with pytest.raises(InvalidFile):
                check_batch(io.BytesIO(bytes(changed)), PUBLIC)
        with pytest.raises(InvalidFile):
            check_batch(io.BytesIO(content[:place]), PUBLIC)
    for bad, who in ((content + b"\0", PUBLIC), (content, STRANGER)):
        with pytest.raises(InvalidFile):
            check_batch(io.BytesIO(bad), who)


def test_items_of_another_number_are_not_written() -> None:
    head, _, _ = _batch()
    with pytest.raises(InvalidInput, match="6 of 5 bytes"):
        write_batch(io.BytesIO(), head, [bytes(29)], IDENTITY)


def test_a_receipt_is_for_one_batch_and_of_one_receiver() -> None:
    _, content, name = _batch()
    receipt = sign_receipt(name, IDENTITY)
    assert is_receipt(name, receipt, PUBLIC)
    assert not is_receipt("00" * 32, receipt, PUBLIC)
    assert not is_receipt(name, receipt, STRANGER)
    assert not is_receipt(name, content[-64:], PUBLIC), "the maker's own signature is no receipt"


def test_a_problem_is_told_by_its_word() -> None:
    problem = Problem(Kind.OUTDATED_KEYS, places=(3, 5))
    assert problem_word(problem.body()) == "outdatedKeys"
    assert b'"reports": [3, 5]' in problem.body()
    for other in (b"", b"[]", b'{"type": 3}', b'{"type": "about:blank"}', b"\xff"):
        assert problem_word(other) is None
