"""Payloads, key lists, batches and receipts: whole, signed, and of one length."""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidFile, InvalidInput, Reason
from chaffinch.wire.batches import LARGEST_REPORTS
from chaffinch.wire.envelopes import HYBRID, X25519, OpeningKey
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.problems import Kind, Problem, problem_word
from chaffinch.wire.sealed_batches import (
    HEAD_LENGTH,
    START_LENGTH,
    BatchHead,
    blocks_of,
    check_batch,
    is_receipt,
    sign_receipt,
    write_batch,
)
from chaffinch.wire.sealed_reports import Layout, pack_code, route_of
from chaffinch.wire.signatures import SIGNATURE, is_signed, sign
from tests.cases import each_case

PLAN = "5a" * 32
IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = IDENTITY.public_key().public_bytes_raw()
STRANGER = Ed25519PrivateKey.generate().public_key().public_bytes_raw()


@each_case("hops", [1, 2, 3])
@each_case("kem", [X25519, HYBRID])
def test_reports_have_one_length_however_many_messages_there_are(hops: int, kem: int) -> None:
    layout = Layout(PLAN, 5, hops, kem)
    key = OpeningKey.new(1, kem)
    for count in range(6):
        items = [bytes([number]) * layout.item_length(1) for number in range(count)]
        payload = layout.pack(bytes(32 * hops), items)
        assert layout.unpack(payload) == (bytes(32 * hops), b"".join(items))
        assert len(key.sealing.seal(payload, layout.binding(1, 1))) == layout.report_length
    assert layout.item_length(1) - layout.item_length(hops) == 55 * (hops - 1)
    assert layout.binding(hops + 1, 1).layer == "analyzer"


def test_a_payload_that_breaks_a_rule_is_none() -> None:
    layout = Layout(PLAN, 2)
    good = layout.pack(bytes(32), [bytes([1]) * layout.item_length(1)])
    another_version = bytes([1]) + good[1:]
    more = good[:33] + (3).to_bytes(4, "big") + good[37:]
    padded = good[:-1] + b"\1"
    for bad in (another_version, more, padded, good[:-1], good + b"\0", b""):
        assert layout.unpack(bad) is None
    assert layout.unpack(good) is not None


def test_a_payload_of_another_route_or_of_too_many_items_is_not_packed() -> None:
    layout = Layout(PLAN, 2, 2)
    item = bytes(layout.item_length(1))
    assert len(layout.pack(bytes(64), [item] * 2)) == layout.payload_length
    for route, items in ((63, 1), (65, 1), (64, 3)):
        with pytest.raises(InvalidInput, match="payload"):
            layout.pack(bytes(route), [item] * items)


def test_every_byte_behind_the_items_is_zero() -> None:
    layout = Layout(PLAN, 3)
    length = layout.item_length(1)
    items = [bytes([255]) * length] * 2
    good = layout.pack(bytes([7]) * 32, items)
    assert good[:38] == bytes([2, *[7] * 32, 0, 0, 0, 2, 255])
    assert len(good) == 37 + 3 * length
    for place in (37 + 2 * length, len(good) - 1):
        changed = bytearray(good)
        changed[place] = 1
        assert layout.unpack(bytes(changed)) is None


def test_a_report_has_all_of_its_fixed_slots() -> None:
    layout = Layout(PLAN, 3, fixed_slots=2)
    item, route = bytes(layout.item_length(1)), bytes(32)
    for count in (2, 3):
        assert layout.unpack(layout.pack(route, [item] * count)) == (route, item * count)
    for count in (0, 1, 4):
        with pytest.raises(InvalidInput, match="payload"):
            layout.pack(route, [item] * count)
    loose = Layout(PLAN, 3)
    for count in (0, 1):
        payload = loose.pack(route, [item] * count)
        assert loose.unpack(payload) is not None
        assert layout.unpack(payload) is None


def test_a_route_is_the_names_of_its_keys() -> None:
    keys = [OpeningKey.new(3).sealing, OpeningKey.new(1).sealing]
    listed = KeyList(PLAN, 9, tuple(keys)).signed(IDENTITY)[49:-SIGNATURE]
    names = [hashlib.sha256(listed[at : at + 39]).digest()[:31] for at in (0, 39)]
    assert route_of(keys) == b"\3" + names[0] + b"\1" + names[1]
    assert pack_code(258) == b"\0\0\1\2"


def test_a_binding_has_the_route_behind_its_hop_and_no_other() -> None:
    for hops in range(1, 5):
        layout = Layout(PLAN, 1, hops)
        for hop in range(1, hops + 2):
            names = 0 if hop == 1 else hops + 1 - hop
            assert layout.binding(hop, 1, bytes(32 * names)).behind == bytes(32 * names)
            for wrong in {0, 31, 32, 33, 32 * (names + 1), 32 * (names - 1)} - {32 * names, -32}:
                with pytest.raises(InvalidInput, match="route"):
                    layout.binding(hop, 1, bytes(wrong))


def test_a_plan_of_too_many_messages_cannot_be_sealed() -> None:
    # 7 + 32 + 16 bytes of an envelope, 37 of a payload, and 59 of each message.
    most = ((1 << 20) - 55 - 37) // 59
    assert (1 << 20) - 59 < Layout(PLAN, most).report_length <= 1 << 20
    with pytest.raises(InvalidInput, match="bytes"):
        Layout(PLAN, most + 1)
    with pytest.raises(InvalidInput, match="slots"):
        Layout(PLAN, 0)
    Layout(PLAN, 1, 8)
    for hops in (0, 9):
        with pytest.raises(InvalidInput, match="hops"):
            Layout(PLAN, 1, hops)


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


@each_case(
    "body",
    {
        "nothing": lambda _: b"",
        "a head that is cut off": lambda body: body[:48],
        "another format": lambda body: b"chafkey2" + body[8:],
        "another plan": lambda body: body[:8] + bytes(32) + body[40:],
        "no key": lambda body: body[:48] + b"\0",
        "fewer keys than there are": lambda body: body[:48] + b"\1" + body[49:],
        "more keys than there are": lambda body: body[:48] + b"\3" + body[49:],
        "half a key": lambda body: body[:-1],
        "more bytes": lambda body: body + b"\0",
        "one key twice": lambda body: body[:88] + body[49:88],
        "a key of another kind": lambda body: body[:53] + b"\2" + body[54:],
        "bytes that are no key": lambda body: body[:88] + b"\1\x64\x7a\0\1\0\1" + b"\xff" * 1216,
    }.values(),
)
def test_nothing_else_is_a_key_list_though_its_party_has_signed_it(
    body: Callable[[bytes], bytes],
) -> None:
    keys = tuple(OpeningKey.new(number).sealing for number in (3, 1))
    good = KeyList(PLAN, 9, keys).signed(IDENTITY)[:-SIGNATURE]
    read = partial(KeyList.read, plan_id=PLAN, identity=PUBLIC)
    assert read(good + sign(IDENTITY, b"chaffinch keys", good)).keys == keys
    bad = body(good)
    with pytest.raises(InvalidFile) as caught:
        read(bad + sign(IDENTITY, b"chaffinch keys", bad))
    assert caught.value.reason is Reason.DAMAGED


def test_lists_of_several_parties_are_read_one_behind_the_other() -> None:
    parties = [Ed25519PrivateKey.generate() for _ in range(3)]
    identities = [one.public_key().public_bytes_raw() for one in parties]
    kems = [(X25519,), (HYBRID, X25519), (X25519, X25519)]
    lists = [
        KeyList(PLAN, serial, tuple(OpeningKey.new(at, kem).sealing for at, kem in enumerate(some)))
        for serial, some in enumerate(kems)
    ]
    signed = [found.signed(one) for found, one in zip(lists, parties, strict=True)]
    read = partial(KeyList.read_all, plan_id=PLAN)
    assert read(b"".join(signed), identities=identities) == list(zip(lists, signed, strict=True))
    assert read(b"", identities=[]) == []
    another_kind = bytearray(signed[0])
    another_kind[53] = 2
    bad = {
        "another order": [signed[1], signed[0], signed[2]],
        "one too few": signed[:2],
        "one too many": [*signed, signed[2]],
        "a byte too many": [*signed, b"\0"],
        "cut off in a head": [*signed[:2], signed[2][:48]],
        "cut off in a key": [*signed[:2], signed[2][:60]],
        "cut off in a signature": [*signed[:2], signed[2][:-1]],
        "a key of another kind": [bytes(another_kind), *signed[1:]],
        "nothing": [],
    }
    for parts in bad.values():
        with pytest.raises(InvalidFile):
            read(b"".join(parts), identities=identities)


def test_a_key_list_has_a_key_and_a_serial_of_eight_bytes() -> None:
    keys = tuple(OpeningKey.new(number).sealing for number in range(2))
    for serial in (0, (1 << 64) - 1):
        content = KeyList(PLAN, serial, keys).signed(IDENTITY)
        assert KeyList.read(content, plan_id=PLAN, identity=PUBLIC).serial == serial
    for serial in (-1, 1 << 64):
        with pytest.raises(InvalidInput, match="serial"):
            KeyList(PLAN, serial, keys)
    with pytest.raises(InvalidInput, match="key list"):
        KeyList(PLAN, 1, ())


def test_a_list_may_have_as_many_keys_as_a_byte_counts() -> None:
    key = OpeningKey.new(0, HYBRID).sealing
    keys = tuple(replace(key, id=number) for number in range(256))
    content = KeyList(PLAN, 1, keys[:255]).signed(IDENTITY)
    assert len(content) == LONGEST_LIST
    assert KeyList.read(content, plan_id=PLAN, identity=PUBLIC).keys == keys[:255]
    with pytest.raises(InvalidInput, match="key list"):
        KeyList(PLAN, 1, keys)


def _batch() -> tuple[BatchHead, bytes, str]:
    file = io.BytesIO()
    head = BatchHead(PLAN, 2, 1, b"\7" * 32, reports=4, items=6, item_length=5)
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


class _BadDisk(io.BytesIO):
    """A file of which the disk gives no more than the first bytes."""

    def __init__(self, content: bytes, given: int, fault: int) -> None:
        super().__init__(content)
        self.given, self.fault = given, fault

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() + (size or 0) > self.given:
            raise OSError(self.fault, "")
        return super().read(size)


def test_a_batch_that_the_disk_does_not_give_is_a_damaged_one() -> None:
    _, content, _ = _batch()
    readers: list[tuple[Callable[[io.BytesIO], object], tuple[int, ...]]] = [
        (BatchHead.read, (0, HEAD_LENGTH - 1)),
        (partial(check_batch, identity=PUBLIC), (0, START_LENGTH, len(content))),
    ]
    for read, places in readers:
        for given in places:
            with pytest.raises(InvalidFile, match="the disk does not give") as caught:
                read(_BadDisk(content, given, errno.EIO))
            assert caught.value.reason is Reason.DAMAGED
            # Of any other fault the batch knows nothing.
            with pytest.raises(OSError, match=str(errno.ESTALE)):
                read(_BadDisk(content, given, errno.ESTALE))


def test_a_batch_is_for_the_first_key_of_its_route() -> None:
    head = BatchHead(PLAN, 1, 1, bytes(range(7, 7 + 64)), 0, 0, 1)
    assert (head.key_id, head.key_name) == (7, bytes(range(7, 7 + 32)))
    assert head.behind == bytes(range(7 + 32, 7 + 64))


def test_a_head_is_written_in_one_way_only() -> None:
    head = BatchHead(PLAN, 2, 1, b"\7" * 32 + b"\5" * 32, reports=4, items=6, item_length=5)
    packed = head.pack()
    assert BatchHead.unpack(packed) == head
    # Another format, a route that goes on behind its length, one that is longer than any.
    for place, byte in ((7, 0), (45, 1), (45, 9), (46 + 64, 1), (46 + 255, 1)):
        changed = bytearray(packed)
        changed[place] = byte
        with pytest.raises(InvalidFile):
            BatchHead.unpack(bytes(changed))
    for bad in (packed[:-1], packed + b"\0"):
        with pytest.raises(InvalidFile):
            BatchHead.unpack(bad)


def test_a_head_has_a_route_and_counts_that_can_be() -> None:
    head = BatchHead(PLAN, 2, 1, b"\7" * 32, reports=4, items=6, item_length=5)
    assert BatchHead.unpack(replace(head, route=bytes(256)).pack()).route == bytes(256)
    for wrong in (
        {"route": b""},
        {"route": bytes(31)},
        {"route": bytes(33)},
        {"route": bytes(288)},
        {"reports": -1},
        {"reports": LARGEST_REPORTS + 1},
        {"items": -1},
    ):
        with pytest.raises(InvalidInput):
            replace(head, **wrong)
    # What no head may say is a damaged batch where somebody sends it.
    many = (LARGEST_REPORTS + 1).to_bytes(8, "big")
    for bad in (head.pack()[:45] + b"\0" + head.pack()[46:], head.pack()[:302] + many + bytes(12)):
        with pytest.raises(InvalidFile):
            BatchHead.unpack(bad)


def test_blocks_are_no_longer_than_is_asked_for() -> None:
    for behind in (0, 10):
        file = io.BytesIO(bytes(30 + behind))
        assert [len(block) for block in blocks_of(file, 30, 7)] == [7, 7, 7, 7, 2]
        assert file.tell() == 30
    with pytest.raises(InvalidFile):
        list(blocks_of(io.BytesIO(bytes(29)), 30, 7))


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
    made = content[HEAD_LENGTH:START_LENGTH]
    assert not is_receipt(name, made, PUBLIC), "the maker's own signature is no receipt"


def test_a_problem_is_told_by_its_word() -> None:
    problem = Problem(Kind.OUTDATED_KEYS, places=(3, 5))
    assert problem_word(problem.body()) == "outdatedKeys"
    assert b'"reports": [3, 5]' in problem.body()
    for other in (b"", b"[]", b'{"type": 3}', b'{"type": "about:blank"}', b"\xff"):
        assert problem_word(other) is None


def test_a_signature_is_for_its_words_its_content_and_its_signer() -> None:
    signature = sign(IDENTITY, b"words", b"content")
    assert is_signed(PUBLIC, b"words", b"content", signature)
    for words, content in ((b"other", b"content"), (b"words", b"other"), (b"words\0con", b"tent")):
        assert not is_signed(PUBLIC, words, content, signature)
    assert not is_signed(STRANGER, b"words", b"content", signature)
    assert not is_signed(b"no key", b"words", b"content", signature)
    assert not is_signed(PUBLIC, b"words", b"content", signature[:-1])
