"""The targets of the fuzzer, on bytes that a seed gives: a few in the gate, and planted faults."""

from __future__ import annotations

import random

import pytest

from chaffinch.wire import key_lists, sealed_batches, sealed_filters
from chaffinch.wire.envelopes import Binding, OpeningKey
from chaffinch.wire.sealed_reports import Layout
from tests.cases import each_case
from tests.wire import fuzz


def changed(content: bytes, source: random.Random) -> bytes:
    """Return bytes with a few changes: other ones, cut, grown, or repeated."""
    found = bytearray(content)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(found) + 1)
        how = source.randrange(4)
        if how == 0 and at < len(found):
            found[at] = source.randrange(256)
        elif how == 1:
            del found[at : at + source.randint(1, 8)]
        elif how == 2:
            found[at:at] = source.randbytes(source.randint(1, 8))
        elif at < len(found):
            found[at] ^= 1 << source.randrange(8)
    return bytes(found)


def run(target: str, count: int = 1500) -> int:
    source = random.Random(target)
    start = fuzz.seeds()[target]
    return sum(fuzz.TARGETS[target](changed(source.choice(start), source)) for _ in range(count))


@each_case("target", fuzz.TARGETS)
def test_nothing_malformed_is_taken(target: str) -> None:
    assert run(target) > 1000


@each_case("target", fuzz.TARGETS)
def test_the_fuzzer_starts_from_what_is_read(target: str) -> None:
    for content in fuzz.seeds()[target]:
        fuzz.TARGETS[target](content)


def test_json_of_another_kind_is_malformed() -> None:
    """The fuzzer found it, and ended: a list has no facts."""
    assert fuzz.filters(b"[8888888]")


def _cut_open(key: OpeningKey, envelope: bytes, binding: Binding) -> bytes | None:
    """Forget that an envelope has one length."""
    return _OPEN(key, envelope[: len(fuzz.REPORT)], binding)


def _lax_unpack(layout: Layout, payload: bytes) -> tuple[bytes, bytes] | None:
    """Forget to look at version and padding."""
    at = 1 + layout.route_length
    count = int.from_bytes(payload[at : at + 4], "big")
    items = payload[at + 4 : at + 4 + count * layout.item_length(1)]
    return (payload[1:at], items) if count <= 2 else None


_OPEN = OpeningKey.open
PLANTED: dict[str, tuple[object, str, object]] = {
    "envelopes": (OpeningKey, "open", _cut_open),
    "payloads": (Layout, "unpack", _lax_unpack),
    "key_lists": (key_lists, "is_signed", lambda *_: True),
    "batches": (sealed_batches, "is_signed", lambda *_: True),
    "filters": (sealed_filters, "is_signed", lambda *_: True),
}


@pytest.mark.parametrize("target", PLANTED)
def test_a_reader_that_forgets_to_look_is_found(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*PLANTED[target])
    with pytest.raises(AssertionError):
        run(target)
