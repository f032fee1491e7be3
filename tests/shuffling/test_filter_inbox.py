"""Sealed filters at the shuffler: one of each publisher, as it was signed, and never another."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Container
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import StorageFault
from chaffinch.reach.shuffler.filter_inbox import FilterArrival, FilterInbox, check_start
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_filters import START_LENGTH, FilterLayout, seal_filter

PLAN = "5a" * 32
LAYOUT = FilterLayout(PLAN, row_bytes=256, logos=4, bits=2048)
KEY = OpeningKey.new(4)
PUBLISHER = Ed25519PrivateKey.generate()
NAME = PUBLISHER.public_key().public_bytes_raw().hex()


def heads() -> Container[bytes]:
    return {KEY.head}


def sealed(signer: Ed25519PrivateKey = PUBLISHER, key: OpeningKey = KEY) -> bytes:
    """Return a filter as it is sent; every time another one."""
    return seal_filter(b"rows", LAYOUT, key.sealing, signer)


def arrive(
    inbox: FilterInbox,
    content: bytes,
    *,
    length: int = 1 << 16,
    taken: Callable[[], Container[bytes]] = heads,
    name: str = NAME,
) -> tuple[bytes, bool]:
    with FilterArrival(inbox, LAYOUT, name, taken) as arrival:
        for at in range(0, len(content), length):
            arrival.write(content[at : at + length])
        return arrival.finish()


@pytest.fixture
def inbox(tmp_path: Path) -> FilterInbox:
    return FilterInbox(tmp_path / "filters")


def files(inbox: FilterInbox) -> list[bytes]:
    return [path.read_bytes() for path in inbox.path(PLAN, NAME).parent.iterdir()]


def refusal(inbox: FilterInbox, content: bytes, **more: object) -> Kind:
    with pytest.raises(Problem) as caught:
        arrive(inbox, content, **more)  # type: ignore[arg-type]
    return caught.value.kind


def test_a_filter_may_come_in_pieces_of_any_length(tmp_path: Path) -> None:
    content = sealed()
    for length in (1, 3, 7, 95, 96, 97, 103, len(content) - 1, len(content)):
        inbox = FilterInbox(tmp_path / str(length))
        assert arrive(inbox, content, length=length) == (hashlib.sha256(content).digest(), True)
        assert inbox.read(PLAN, NAME) == content
        assert inbox.is_there(PLAN, NAME)
        assert inbox.key_ids() == {4}
        assert stat.S_IMODE(inbox.path(PLAN, NAME).stat().st_mode) == 0o600


def test_a_filter_on_its_way_keeps_its_key(inbox: FilterInbox) -> None:
    """A disk may take minutes to give it its name, when its key was checked already."""
    content = sealed()
    with FilterArrival(inbox, LAYOUT, NAME, heads) as arrival:
        arrival.write(content[:START_LENGTH])
        assert inbox.key_ids() == set()
        arrival.write(content[START_LENGTH : START_LENGTH + 1])
        assert inbox.key_ids() == {4}
    assert inbox.key_ids() == set(), "it did not come"


def test_where_nothing_came_nothing_is_known(inbox: FilterInbox) -> None:
    assert inbox.digest(PLAN, NAME) is None
    assert inbox.read(PLAN, NAME) is None
    assert not inbox.is_there(PLAN, NAME)
    assert inbox.key_ids() == set()
    inbox.purge(PLAN, NAME)
    assert files(inbox) == []


def test_what_cannot_be_read_is_not_taken_for_nothing(inbox: FilterInbox) -> None:
    """Whoever took it for nothing would take another filter, or let a key go that it needs."""
    inbox.path(PLAN, NAME).mkdir()
    with pytest.raises(StorageFault):
        inbox.digest(PLAN, NAME)
    with pytest.raises(StorageFault):
        inbox.read(PLAN, NAME)
    assert inbox.key_ids() == set(range(256)), "it may be for any of them"
    with pytest.raises(StorageFault):
        inbox.is_there(PLAN, "no name can be so long" * 20)


def test_the_same_filter_is_known_again_and_no_other_is_taken(inbox: FilterInbox) -> None:
    first, other = sealed(), sealed()
    digest, new = arrive(inbox, first)
    assert new
    # Also if its key is out of use meanwhile, and when it has been shuffled.
    for _ in range(2):
        assert arrive(inbox, first, taken=set) == (digest, False)
        assert inbox.digest(PLAN, NAME) == digest
        assert refusal(inbox, other) is Kind.ANOTHER_FILTER
        assert len(files(inbox)) == 1
        inbox.purge(PLAN, NAME)


def test_of_a_shuffled_filter_its_digest_is_left(inbox: FilterInbox) -> None:
    digest, _ = arrive(inbox, sealed())
    for _ in range(2):
        inbox.purge(PLAN, NAME)
        assert files(inbox) == [digest]
        assert stat.S_IMODE(inbox.path(PLAN, NAME).stat().st_mode) == 0o600
        assert inbox.digest(PLAN, NAME) == digest
        assert inbox.read(PLAN, NAME) is None
        assert not inbox.is_there(PLAN, NAME)
        assert inbox.key_ids() == set()


@pytest.mark.parametrize("turned", [False, True])
def test_a_key_is_needed_behind_filters_that_were_shuffled(
    inbox: FilterInbox, monkeypatch: pytest.MonkeyPatch, *, turned: bool
) -> None:
    """In whatever order the disk lists them."""
    real = Path.glob

    def glob(folder: Path, pattern: str) -> list[Path]:
        return sorted(real(folder, pattern), reverse=turned)

    stranger, later = Ed25519PrivateKey.generate(), OpeningKey.new(5)
    name = stranger.public_key().public_bytes_raw().hex()
    arrive(inbox, sealed())
    arrive(inbox, sealed(stranger, later), name=name, taken=lambda: {later.head})
    monkeypatch.setattr(Path, "glob", glob)
    first, last = sorted([NAME, name], reverse=turned)
    inbox.purge(PLAN, first)
    assert inbox.key_ids() == ({5} if last == name else {4})


def test_filters_of_others_stand_in_nobodys_way(inbox: FilterInbox) -> None:
    stranger, later = Ed25519PrivateKey.generate(), OpeningKey.new(5)
    name = stranger.public_key().public_bytes_raw().hex()
    arrive(inbox, sealed())
    digest, new = arrive(inbox, sealed(stranger, later), name=name, taken=lambda: {later.head})
    assert new
    assert inbox.digest(PLAN, name) == digest != inbox.digest(PLAN, NAME)
    assert inbox.digest("5b" * 32, name) is None
    assert inbox.key_ids() == {4, 5}


def test_a_filter_of_another_length_is_refused_when_it_is_too_long(inbox: FilterInbox) -> None:
    content = sealed()
    for bad in (b"", content[:-1], content + b"\0", content[:-96], content[96:]):
        assert refusal(inbox, bad) is Kind.INVALID_MESSAGE
    with FilterArrival(inbox, LAYOUT, NAME, heads) as arrival:
        arrival.write(content)
        with pytest.raises(Problem):
            arrival.write(b"\0")
    assert files(inbox) == []


def test_a_filter_whose_key_is_closed_while_it_is_synced_is_refused(
    inbox: FilterInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {KEY.head}
    with FilterArrival(inbox, LAYOUT, NAME, lambda: taken) as arrival:
        arrival.write(sealed())
        monkeypatch.setattr(os, "fsync", lambda _: taken.clear())
        with pytest.raises(Problem) as caught:
            arrival.finish()
    assert caught.value.kind is Kind.OUTDATED_KEYS
    assert files(inbox) == []


def test_what_the_publisher_has_not_signed_is_refused(inbox: FilterInbox) -> None:
    content = sealed()
    for place in (0, 31, 32, 95, 96, 103, 1000, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        assert refusal(inbox, bytes(changed)) is Kind.DAMAGED_FILTER
    assert refusal(inbox, sealed(Ed25519PrivateKey.generate())) is Kind.DAMAGED_FILTER
    assert files(inbox) == []


def test_what_stands_before_the_envelope_tells_who_signed() -> None:
    """A stranger is refused by it, before any of the rest is taken."""
    start = sealed()[:START_LENGTH]
    check_start(NAME, LAYOUT, start)
    check_start(NAME, LAYOUT, start + b"what follows")
    for bad, kind in (
        (start[:-1], Kind.INVALID_MESSAGE),
        (b"", Kind.INVALID_MESSAGE),
        (b"\0" + start[1:], Kind.DAMAGED_FILTER),
        (sealed(Ed25519PrivateKey.generate())[:START_LENGTH], Kind.DAMAGED_FILTER),
    ):
        with pytest.raises(Problem) as caught:
            check_start(NAME, LAYOUT, bad)
        assert caught.value.kind is kind


def test_a_filter_for_a_key_that_is_not_in_use_is_refused(inbox: FilterInbox) -> None:
    other = OpeningKey.new(5)
    assert refusal(inbox, sealed(key=other)) is Kind.OUTDATED_KEYS
    assert refusal(inbox, sealed(), length=1, taken=set) is Kind.OUTDATED_KEYS
    assert files(inbox) == []


def test_of_two_that_come_at_once_one_is_taken(inbox: FilterInbox) -> None:
    """Both find the place empty; the second finds it taken when its file is to have its name."""
    content, other = sealed(), sealed()

    def meanwhile() -> Container[bytes]:
        arrive(inbox, content)
        return heads()

    assert refusal(inbox, other, taken=meanwhile) is Kind.ANOTHER_FILTER
    assert files(inbox) == [content]
    inbox.path(PLAN, NAME).unlink()
    digest = hashlib.sha256(content).digest()
    assert arrive(inbox, content, taken=meanwhile) == (digest, False)
    assert files(inbox) == [content]
