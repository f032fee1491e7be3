"""What the analyzer keeps of batches of one item, and that of a reach one release is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.analysis.batch_analysis import AnalyzerCounts
from chaffinch.analysis.open_batches import OpenedItem
from chaffinch.analysis.received import KnownBatch, KnownBatches, Received
from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Charge, Ledger
from chaffinch.plans.parties import Party
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.column_batches import (
    ReachAnalysis,
    open_columns,
    release_columns,
)
from chaffinch.reach.planning.reach_parties import ReachParties
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.reach.shuffler.hand_over import shuffle_with
from chaffinch.simulate.seeded import SeededWords
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.envelopes import X25519, replay_tag
from chaffinch.wire.filter_files import columns_from
from chaffinch.wire.problems import Problem
from chaffinch.wire.sealed_batches import BatchHead, write_batch
from chaffinch.wire.sealed_filters import pad
from tests.cases import each_case
from tests.reach.publishing import made_up, small_plan

PLAN = small_plan(bits=8192, flip=Fraction(1, 16), shuffled=Fraction(1, 16))
FIRST, SECOND = "aa" * 32, "bb" * 32


@pytest.fixture
def received(tmp_path: Path) -> Iterator[Received]:
    with closing(Received(tmp_path / "state.sqlite")) as made:
        yield made


def columns(seed: int) -> bytes:
    """Return columns of the plan, flipped anew."""
    filters = [made_up(PLAN, name, load=0.1) for name in PLAN.audience.publishers]
    return shuffle_with(filters, PLAN, SeededWords(seed)).content()


def opened(name: str, content: bytes | None, *, tag: int = 0, plan_id: str = PLAN.id) -> OpenedItem:
    head = BatchHead(plan_id, 1, 1, b"\1" * 32, reports=2, items=1, item_length=99)
    return OpenedItem(name, head, 4, content, bytes([tag or ord(name[0])]) * 16)


def fates(known: KnownBatch) -> tuple[int, int, int, int]:
    return known.counted, known.dummies, known.replayed, known.rejected


@each_case("name", [one.name for one in fields(AnalyzerCounts)])
def test_an_item_too_many_or_too_few_is_noticed_wherever_it_is(name: str) -> None:
    items = {"items": 10, "counted": 1, "dummies": 2, "replayed": 3, "rejected": 4}
    whole = AnalyzerCounts(1, 2, 3, 4, 5, 6, 7, **items)
    assert whole.adds_up
    for by in (-1, 1):
        assert replace(whole, **{name: getattr(whole, name) + by}).adds_up is (name not in items)


def test_an_item_is_kept_as_it_is_once(received: Received, tmp_path: Path) -> None:
    received.add_item(opened(FIRST, b"columns", tag=7))
    received.add_item(opened(SECOND, b"columns", tag=7))
    received.add_item(opened("cc" * 32, None))
    received.add_item(opened("dd" * 32, b"others"))
    found = {one.id[:2]: fates(one) for one in received.all()}
    assert found == {
        "aa": (1, 0, 0, 0),
        "bb": (0, 0, 1, 0),
        "cc": (0, 0, 0, 1),
        "dd": (1, 0, 0, 0),
    }
    reader = KnownBatches(tmp_path / "state.sqlite")
    for known in (received, reader):
        contents = [known.content(one * 32) for one in ("aa", "bb", "cc", "dd")]
        assert contents == [b"columns", b"", b"", b"others"]
        assert known.known(FIRST) == known.find(FIRST)
        assert known.find("ee" * 32) is None
    received.forget_tags([1])
    received.add_item(opened("ee" * 32, b"columns", tag=7))
    assert fates(received.known("ee" * 32)) == (1, 0, 0, 0)


def test_a_tag_of_an_item_that_did_not_open_is_not_taken(received: Received) -> None:
    """Or junk with the encapsulated key of somebody else's item would keep that one out."""
    received.add_item(opened(FIRST, None, tag=7))
    received.add_item(opened(SECOND, b"columns", tag=7))
    assert fates(received.known(SECOND)) == (1, 0, 0, 0)


@pytest.mark.parametrize(("state", "release"), [("released", b"release"), ("refused", None)])
def test_what_was_decided_stays(received: Received, state: str, release: bytes | None) -> None:
    received.add_item(opened(FIRST, b"columns"))
    received.decide(FIRST, "unpaid", why="no room")
    assert (received.known(FIRST).state, received.known(FIRST).why) == ("unpaid", "no room")
    received.decide(FIRST, state, release=release)
    assert (received.known(FIRST).state, received.known(FIRST).why) == (state, "")
    for other in ("opened", "unpaid", "refused"):
        with pytest.raises(StorageFault):
            received.decide(FIRST, other)
    assert received.release(FIRST) == release
    assert [one.state for one in received.all()] == [state]


def test_a_release_has_bytes_and_nothing_else_has(received: Received) -> None:
    received.add_item(opened(FIRST, b"columns"))
    for state, release in (("released", None), ("unpaid", b"release"), ("else", None)):
        with pytest.raises(StorageFault):
            received.decide(FIRST, state, release=release)
    assert received.known(FIRST).state == "opened"


# ---------------------------------------------------------------------------- one release


def test_a_reach_is_released_at_its_level_and_paid_for_by_its_batch(
    received: Received, tmp_path: Path
) -> None:
    ledger = Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(100.0, 0.1), mark=tmp_path / "mark"
    )
    received.add_item(opened(FIRST, columns(1)))
    analysis = ReachAnalysis(PLAN)
    analysis.release(received, received.known(FIRST), ledger=ledger, level=0.8)
    release = read_reach_release(received.release(FIRST) or b"")
    assert release.level == 0.8
    (entry,) = ledger.entries()
    assert (entry.key, entry.subject) == (release.key, release.batch)


def states(received: Received, *names: str, ledger: Ledger | None = None) -> list[str]:
    return [
        release_columns(received, received.known(name), PLAN, ledger=ledger).state for name in names
    ]


def test_of_a_reach_one_batch_is_released_and_no_other(received: Received) -> None:
    """The same rows with fresh flips would show more than was promised."""
    received.add_item(opened(SECOND, columns(1)))
    assert states(received, SECOND) == ["released"]
    release = read_reach_release(received.release(SECOND) or b"")
    assert release.plan_id == PLAN.id
    for name in (FIRST, "cc" * 32):
        received.add_item(opened(name, columns(2)))
        assert states(received, name) == ["refused"]
        assert "first one of its plan" in received.known(name).why


@pytest.mark.parametrize("order", [(FIRST, SECOND), (SECOND, FIRST)])
def test_of_two_that_are_opened_together_the_smaller_id_is_first(
    received: Received, order: tuple[str, str]
) -> None:
    for name in order:
        received.add_item(opened(name, columns(1)))
    found = dict(zip(order, states(received, *order), strict=True))
    assert found == {FIRST: "released", SECOND: "refused"}


def test_what_waits_for_another_ledger_is_the_first(received: Received, tmp_path: Path) -> None:
    def ledger(name: str, cap: Target) -> Ledger:
        mark = tmp_path / f"{name}.mark"
        return Ledger.create(tmp_path / name, role="analyzer", cap=cap, mark=mark)

    poor, rich = ledger("poor", Target(0.01, 1e-9)), ledger("rich", Target(100.0, 0.1))
    received.add_item(opened(SECOND, columns(1)))
    assert states(received, SECOND, ledger=poor) == ["unpaid"]
    received.add_item(opened(FIRST, columns(2)))
    assert states(received, FIRST, SECOND, ledger=rich) == ["refused", "released"]
    (entry,) = rich.entries()
    assert rich.content_of(entry) == received.release(SECOND)


def test_what_was_paid_for_is_released_whatever_came_since(
    received: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a reach that was paid for the analyzer was ended, and another came with a smaller id."""
    ledger = Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(100.0, 0.1), mark=tmp_path / "mark"
    )
    received.add_item(opened(SECOND, columns(1)))
    with monkeypatch.context() as patched:
        patched.setattr(Received, "decide", _end)
        with pytest.raises(KeyboardInterrupt):
            states(received, SECOND, ledger=ledger)
    assert len(ledger.entries()) == 1
    received.add_item(opened(FIRST, columns(2)))
    assert states(received, FIRST, SECOND, ledger=ledger) == ["unpaid", "released"]
    (entry,) = ledger.entries()
    assert received.release(SECOND) == ledger.content_of(entry)
    assert states(received, FIRST, ledger=ledger) == ["refused"]


def _end(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_junk_and_copies_keep_no_reach_from_its_release(received: Received) -> None:
    """Nor does a batch of another plan, or one that was refused."""
    received.add_item(opened(FIRST, None))
    received.add_item(opened("a0" * 32, b"no columns", tag=1))
    received.add_item(opened("a1" * 32, b"no columns", tag=1))
    received.add_item(opened("a2" * 32, columns(3), plan_id="5a" * 32))
    assert states(received, FIRST, "a1" * 32, "a0" * 32) == ["refused"] * 3
    received.add_item(opened(SECOND, columns(1)))
    assert states(received, SECOND) == ["released"]


def test_a_key_that_paid_for_other_filters_pays_for_no_more(
    received: Received, tmp_path: Path
) -> None:
    ledger = Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(100.0, 0.1), mark=tmp_path / "mark"
    )
    key = columns_from(columns(1)).key
    ledger.charge(Charge.of(PLAN), key, subject="other filters")
    received.add_item(opened(FIRST, columns(1)))
    assert states(received, FIRST, ledger=ledger) == ["unpaid"]
    assert "key" in received.known(FIRST).why
    assert len(ledger.entries()) == 1


# ---------------------------------------------------------------------------- from the file


def test_columns_are_opened_as_the_shuffler_has_sealed_them(tmp_path: Path) -> None:
    keys, hop = KeyFolder.create(tmp_path / "keys"), Ed25519PrivateKey.generate()
    shuffler = Party("hop", hop.public_key().public_bytes_raw().hex(), "https://h.example")
    analyzer = Party("analyzer", keys.identity_hex, "https://a.example")
    named = tuple((name, f"{place:064x}") for place, name in enumerate(PLAN.audience.publishers))
    plan = PLAN.run_by(ReachParties((shuffler,), analyzer, "x25519", named))
    stored, layout = keys.opening_keys(), plan.layout
    (key,) = stored

    def written(content: bytes, *, spoilt: bool = False, **said: object) -> tuple[Path, bytes]:
        item = stored[key].key.sealing.seal(content, layout.binding(2, 1))
        item = item[:-1] + bytes([item[-1] ^ spoilt])
        head = BatchHead(plan.id, 1, 1, stored[key].key.sealing.name, 2, 1, len(item))
        path = tmp_path / "one.batch"
        with path.open("wb") as file:
            write_batch(file, replace(head, **said), [item], hop)  # type: ignore[arg-type]
        return path, item

    content = columns(1)
    path, item = written(pad(content, layout.columns_length))
    found = open_columns(path, plan, stored)
    # One item is due, and no other number has a place in the state.
    expected, names = Expected.of(plan, 1), {stored[key].key.sealing.name}
    expected.check_head(found.head, names)
    for items in (0, 2):
        with pytest.raises(Problem):
            expected.check_head(replace(found.head, items=items), names)
    assert found.content == content
    assert found.tag == replay_tag(stored[key].tag_secret, item, X25519)
    assert (found.codes, found.head.reports, len(found.id)) == (4, 2, 64)
    # A file is the batch of its name, or it is not taken over.
    with closing(Received(tmp_path / "state.sqlite")) as received:
        analysis = ReachAnalysis(plan)
        assert not analysis.take_over(path, received, stored, None)
        assert received.all() == []
        assert analysis.take_over(
            path.rename(tmp_path / f"{found.id}.batch"), received, stored, None
        )
        assert received.content(found.id) == content
    # Junk of the right length is signed for, and is junk; another round is not due.
    path, _ = written(b"\xff" * layout.columns_length)
    assert open_columns(path, plan, stored).content is None
    path, _ = written(pad(content, layout.columns_length), spoilt=True)
    assert open_columns(path, plan, stored).content is None
    path, _ = written(pad(content, layout.columns_length), round=2)
    with pytest.raises(InvalidInput):
        open_columns(path, plan, stored)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidFile):
        open_columns(path, plan, stored)
    with pytest.raises(StorageFault):
        open_columns(tmp_path / "none", plan, stored)
