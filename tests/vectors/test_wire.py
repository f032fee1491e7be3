"""Vectors of what travels, of standards and ours: opened by us, a stranger, and nobody else."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from pyhpke import KEMKey

from chaffinch.errors import InvalidFile
from chaffinch.wire.envelopes import HYBRID, X25519, Binding, OpeningKey, SealingKey, replay_tag
from chaffinch.wire.filter_files import columns_from, filter_from
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.problems import Kind
from chaffinch.wire.sealed_batches import check_batch, is_receipt
from chaffinch.wire.sealed_filters import FilterLayout, is_whole, unpad
from chaffinch.wire.sealed_reports import Layout, route_of
from tests.cases import each_case
from tests.meta import repository
from tests.oracles import hpke
from tests.tiers import nightly
from tests.vectors import make_wire
from tests.wire import stranger

STORED: dict[str, Any] = json.loads(make_wire.FILE.read_text("utf-8"))
PARTIES = STORED["parties"]
NAMES = [one["name"] for one in STORED["reports"]]
LISTS = [one["party"] for one in STORED["key_lists"]]
ROUND: int = STORED["round"]


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text)


def published(name: str) -> dict[str, bytes]:
    """Return the vector of a standard."""
    found = json.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return {name: from_hex(text) for name, text in found.items() if name != "source"}


RFC, DRAFT = published("rfc9180.json"), published("hpke_pq.json")

# -------------------------------------------------------------------- standards


def test_the_oracle_has_every_step_of_the_standard() -> None:
    secrets = hpke.receive(RFC["private"], RFC["enc"], RFC["info"])
    assert secrets == hpke.offer(RFC["ephemeral_private"], RFC["public"], RFC["info"])
    assert secrets == hpke.Secrets(RFC["shared_secret"], RFC["key"], RFC["base_nonce"])
    sealed = hpke.seal(
        RFC["ephemeral_private"], RFC["public"], RFC["content"], RFC["info"], RFC["aad"]
    )
    assert sealed == RFC["enc"] + RFC["sealed"]
    assert hpke.unseal(RFC["private"], sealed, RFC["info"], RFC["aad"]) == RFC["content"]


def test_both_libraries_open_the_vector_of_the_standard() -> None:
    private = X25519PrivateKey.from_private_bytes(RFC["private"])
    context = stranger.SUITE.create_recipient_context(
        RFC["enc"], KEMKey.from_pyca_cryptography_key(private), info=RFC["info"]
    )
    assert context.open(RFC["sealed"], aad=RFC["aad"]) == RFC["content"]
    # The standard's vectors have an aad, which the public function does not take.
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    opened = openssl.hpke._decrypt_with_aad(  # noqa: SLF001
        suite, RFC["enc"] + RFC["sealed"], private, RFC["info"], RFC["aad"]
    )
    assert opened == RFC["content"]


def test_the_oracle_opens_what_we_seal_and_we_what_it_seals() -> None:
    key, binding = OpeningKey(5, X25519, RFC["private"]), Binding("ab" * 32, 2, "hop1")
    envelope = key.sealing.seal(b"content", binding)
    info = binding.info(key.head)
    assert hpke.unseal(RFC["private"], envelope[7:], info) == b"content"
    sealed = hpke.seal(RFC["ephemeral_private"], RFC["public"], b"content", info)
    assert key.open(key.head + sealed, binding) == b"content"


def draft_key() -> OpeningKey:
    """Return the key of the draft, which is made of a seed of 32 bytes there."""
    return OpeningKey(7, HYBRID, hashlib.shake_256(DRAFT["private"]).digest(96))


def test_the_hybrid_vector_of_the_draft_is_opened() -> None:
    assert draft_key().sealing.public == DRAFT["public"]
    suite = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    private = draft_key()._loaded  # noqa: SLF001 - as the library has it
    opened = openssl.hpke._decrypt_with_aad(  # noqa: SLF001
        suite, DRAFT["enc"] + DRAFT["sealed"], private, DRAFT["info"], DRAFT["aad"]
    )
    assert opened == DRAFT["content"]
    secrets = hpke.schedule(DRAFT["shared_secret"], DRAFT["info"], "647a 0001 0003")
    assert secrets == hpke.Secrets(DRAFT["shared_secret"], DRAFT["key"], DRAFT["base_nonce"])


def test_our_hybrid_envelopes_have_the_shared_secret_of_the_draft() -> None:
    """The draft has no vector with our cipher: the oracle makes one of its shared secret."""
    key, binding = draft_key(), Binding("ab" * 32, 2, "hop1")
    secrets = hpke.schedule(DRAFT["shared_secret"], binding.info(key.head), "647a 0001 0001")
    sealed = AESGCM(secrets.key).encrypt(secrets.base_nonce, b"content", b"")
    assert key.open(key.head + DRAFT["enc"] + sealed, binding) == b"content"


# -------------------------------------------------------------------- ours


def test_the_vectors_are_what_the_oracle_makes() -> None:
    made = make_wire.made()
    assert {name: STORED[name] for name in made} == made
    assert set(STORED) == {*made, "hybrid"}


def key_of(party: str) -> OpeningKey:
    return OpeningKey(PARTIES[party]["key_id"], X25519, from_hex(PARTIES[party]["private"]))


def layout_of(report: dict[str, Any]) -> Layout:
    return Layout(STORED["plan"], report["slots"], len(report["parties"]) - 1)


def codes_in(report: dict[str, Any], sealed: bytes) -> list[int] | None:
    """Return the codes of a report as its parties open it; None where one of them refuses."""
    layout, keys = layout_of(report), [key_of(party) for party in report["parties"]]
    later = [key.sealing for key in keys]
    if len(sealed) != layout.report_length:
        return None
    payload = keys[0].open(sealed, layout.binding(1, ROUND))
    unpacked = None if payload is None else layout.unpack(payload)
    if unpacked is None:
        return None
    length, codes = layout.item_length(1), []
    for at in range(0, len(unpacked[1]), length):
        item = unpacked[1][at : at + length]
        for hop, key in enumerate(keys[1:], 2):
            opened = key.open(item, layout.binding(hop, ROUND, route_of(later[hop:])))
            assert opened is not None
            item = opened
        codes.append(int.from_bytes(item, "big"))
    return codes


@pytest.mark.parametrize("report", STORED["reports"], ids=NAMES)
def test_reports_are_opened(report: dict[str, Any]) -> None:
    sealed = from_hex(report["sealed"])
    assert codes_in(report, sealed) == report["codes"]
    tag = replay_tag(from_hex(report["replay_secret"]), sealed, X25519)
    assert tag.hex() == report["replay_tag"]
    unpacked = layout_of(report).unpack(from_hex(report["payload"]))
    assert unpacked is not None
    assert unpacked[1].hex() == "".join(report["items"])
    named = [PARTIES[party]["key_name"] for party in report["parties"][1:]]
    assert unpacked[0].hex() == "".join(named)


def stranger_of(report: dict[str, Any]) -> stranger.Plan:
    return stranger.Plan(STORED["plan"], ROUND, report["slots"], tuple(report["parties"]))


@pytest.mark.parametrize("report", STORED["reports"], ids=NAMES)
def test_a_stranger_opens_them_too(report: dict[str, Any]) -> None:
    privates = [from_hex(PARTIES[party]["private"]) for party in report["parties"]]
    found = stranger_of(report).open_report(privates, from_hex(report["sealed"]))
    assert found == report["codes"]


@pytest.mark.parametrize("report", STORED["reports"], ids=NAMES)
def test_we_open_what_a_stranger_makes(report: dict[str, Any]) -> None:
    keys = [
        (PARTIES[party]["key_id"], from_hex(PARTIES[party]["public"]))
        for party in report["parties"]
    ]
    for codes in ([], [0], report["codes"], [stranger.DUMMY] * report["slots"]):
        sealed = stranger_of(report).seal_report(keys, codes)
        assert len(sealed) == layout_of(report).report_length
        assert codes_in(report, sealed) == codes


@pytest.mark.parametrize("stored", STORED["key_lists"], ids=LISTS)
def test_key_lists_are_read_by_us_and_by_a_stranger(stored: dict[str, Any]) -> None:
    identity = from_hex(PARTIES[stored["party"]]["identity"])
    found = KeyList.read(from_hex(stored["content"]), plan_id=STORED["plan"], identity=identity)
    keys = [SealingKey(one["id"], one["kem"], from_hex(one["public"])) for one in stored["keys"]]
    assert found == KeyList(STORED["plan"], stored["serial"], tuple(keys))
    serial, theirs = stranger.read_keys(from_hex(stored["content"]), STORED["plan"], identity)
    assert serial == stored["serial"]
    assert theirs == [(key.id, key.public) for key in keys]


def test_the_batch_and_its_receipt_are_read() -> None:
    stored = STORED["batch"]
    content = from_hex(stored["content"])
    maker, receiver = (from_hex(PARTIES[stored[who]]["identity"]) for who in ("maker", "receiver"))
    head, name = check_batch(io.BytesIO(content), maker)
    assert (name, head.reports, head.round) == (stored["id"], stored["reports"], ROUND)
    assert is_receipt(name, from_hex(stored["receipt"]), receiver)
    theirs, facts, items = stranger.read_batch(content, maker)
    assert (theirs, facts) == (name, (ROUND, head.route, head.reports))
    assert [item.hex() for item in items] == stored["items"]
    stranger.check_signature(
        receiver, b"chaffinch receipt", from_hex(theirs), from_hex(stored["receipt"])
    )


def test_the_hybrid_envelope_is_opened() -> None:
    stored = STORED["hybrid"]
    key = OpeningKey(7, HYBRID, from_hex(stored["private"]))
    assert key.sealing.public.hex() == stored["public"]
    opened = key.open(from_hex(stored["sealed"]), Binding(STORED["plan"], ROUND, stored["layer"]))
    assert opened == from_hex(stored["content"])


# -------------------------------------------------------------------- filters

FILTER, COLUMNS = STORED["filter"], STORED["columns"]
LAYOUT = FilterLayout(STORED["plan"], 32, 4, FILTER["bits"])
PUBLISHER = from_hex(FILTER["identity"])


def filter_in(sealed: bytes) -> bytes | None:
    """Return the filter file that the shuffler finds; None where it refuses what was sent."""
    start, envelope = sealed[:96], sealed[96:]
    if not is_whole(PUBLISHER, LAYOUT, start, hashlib.sha256(envelope).digest()):
        return None
    opened = key_of("hop1").open(envelope, LAYOUT.binding(1, 1))
    return None if opened is None else unpad(opened, LAYOUT.filter_length)


def test_the_sealed_filter_is_opened() -> None:
    sealed = from_hex(FILTER["sealed"])
    assert len(sealed) == LAYOUT.sealed_length
    content = filter_in(sealed)
    assert content is not None
    assert content.hex() == FILTER["file"]
    found = filter_from(content)
    assert (found.publisher, found.bits) == (FILTER["publisher"], FILTER["bits"])
    assert [row.tobytes().hex() for row in found.rows] == FILTER["rows"]
    name = hashlib.sha256(sealed).hexdigest()
    assert is_receipt(name, from_hex(FILTER["receipt"]), from_hex(PARTIES["hop1"]["identity"]))


def test_a_stranger_makes_and_opens_filters() -> None:
    private = from_hex(PARTIES["hop1"]["private"])
    opened = stranger.open_filter(STORED["plan"], private, PUBLISHER, from_hex(FILTER["sealed"]))
    assert opened.hex() == FILTER["file"]
    names = ("plan_id", "publisher", "key", "batch", "bits")
    facts = {name: getattr(filter_from(opened), name) for name in names}
    assert stranger.filter_file(facts, list(map(from_hex, FILTER["rows"]))) == opened
    key = (PARTIES["hop1"]["key_id"], from_hex(PARTIES["hop1"]["public"]))
    own = from_hex(FILTER["identity_private"])
    assert filter_in(stranger.seal_filter(STORED["plan"], key, own, opened, 32)) == opened


def test_the_columns_are_opened() -> None:
    item = from_hex(COLUMNS["item"])
    assert len(item) == LAYOUT.item_length(1)
    opened = key_of("analyzer").open(item, LAYOUT.binding(2, 1))
    assert opened is not None
    content = unpad(opened, LAYOUT.columns_length)
    assert content == stranger.unpadded(opened) == from_hex(COLUMNS["file"])
    assert columns_from(content).counts.tolist() == COLUMNS["counts"]
    maker = from_hex(PARTIES["hop1"]["identity"])
    name, (number, route, reports), items = stranger.read_batch(from_hex(COLUMNS["batch"]), maker)
    assert (name, number, reports, items) == (COLUMNS["id"], 1, 1, [item])
    assert route.hex() == PARTIES["analyzer"]["key_name"]


# -------------------------------------------------------------------- and nothing else


def accepts_list(stored: dict[str, Any], content: bytes) -> bool:
    identity = from_hex(PARTIES[stored["party"]]["identity"])
    with suppress(InvalidFile):
        KeyList.read(content, plan_id=STORED["plan"], identity=identity)
        return True
    return False


def accepts_batch(content: bytes) -> bool:
    with suppress(InvalidFile):
        check_batch(io.BytesIO(content), from_hex(PARTIES["hop1"]["identity"]))
        return True
    return False


def accepts_receipt(content: bytes) -> bool:
    identity = from_hex(PARTIES["hop2"]["identity"])
    return is_receipt(STORED["batch"]["id"], content, identity)


def accepts_hybrid(content: bytes) -> bool:
    key = OpeningKey(7, HYBRID, from_hex(STORED["hybrid"]["private"]))
    return key.open(content, Binding(STORED["plan"], ROUND, "hop1")) is not None


def accepts_report(report: dict[str, Any], content: bytes) -> bool:
    return codes_in(report, content) is not None


LONG = 2000
READERS: dict[str, tuple[Callable[[bytes], bool], str]] = {
    **{one["name"]: (partial(accepts_report, one), one["sealed"]) for one in STORED["reports"]},
    **{
        f"keys of {one['party']}": (partial(accepts_list, one), one["content"])
        for one in STORED["key_lists"]
    },
    "batch": (accepts_batch, STORED["batch"]["content"]),
    "receipt": (accepts_receipt, STORED["batch"]["receipt"]),
    "filter": (lambda content: filter_in(content) is not None, FILTER["sealed"]),
    "columns": (accepts_batch, COLUMNS["batch"]),
    "hybrid": (accepts_hybrid, STORED["hybrid"]["sealed"]),
}


def flipped(content: bytes, every: int) -> Iterator[bytes]:
    """Yield the content with every so-many-th bit flipped; of a long one a seventh of them."""
    for place in range(0, 8 * len(content), every if len(content) < LONG else 7 * every):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


@each_case("every", [5, nightly(1)])
@each_case("name", READERS)
def test_every_flipped_bit_and_every_cut_is_refused(name: str, every: int) -> None:
    accepts, stored = READERS[name]
    content = from_hex(stored)
    assert accepts(content)
    assert not any(map(accepts, flipped(content, every)))
    assert not any(accepts(content[:length]) for length in range(0, len(content), every))
    assert not accepts(content + b"\0")


def test_the_page_shows_a_vector() -> None:
    page = (repository.ROOT / "docs" / "reference" / "wire.md").read_text("utf-8")
    shown = "".join(page.split("```hex\n")[1].split("```")[0].split())
    assert shown == STORED["reports"][0]["sealed"]
    assert STORED["plan"] in page
    for party in ("hop1", "analyzer"):
        assert PARTIES[party]["private"] in page


@each_case("kind", Kind)
def test_the_page_lists_every_problem(kind: Kind) -> None:
    page = (repository.ROOT / "docs" / "reference" / "wire.md").read_text("utf-8")
    assert f"| `{kind.word}` | {kind.status} | {kind.title} |" in page


@each_case("hops", range(1, 9))
def test_the_lengths_on_the_page_are_those_of_layouts(hops: int) -> None:
    for slots in (1, 2, 50):
        layout = Layout(STORED["plan"], slots, hops)
        assert layout.item_length(1) == 4 + 55 * hops
        assert layout.report_length == 55 + 1 + 32 * hops + 4 + slots * (4 + 55 * hops)
        longer = Layout(STORED["plan"], slots, hops, HYBRID)
        assert longer.report_length - layout.report_length == 1088
        for hop in range(1, hops + 1):
            assert layout.item_length(hop) == 4 + 55 * (hops - hop + 1)
