"""Handing over: what the next party is asked, what ends that, and how long it is left alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.plans.parties import Party
from chaffinch.sampling import secure_words
from chaffinch.shuffling import forwarding
from chaffinch.shuffling.batch_outbox import Outbox
from chaffinch.shuffling.forwarding import Forwarder, Patience
from chaffinch.shuffling.state import Sealed, State
from chaffinch.wire import media_types
from chaffinch.wire.exchange import NoReply, Reply
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import sign_receipt

PLAN, BATCH = "5a" * 32, "b0" * 32
NEXT = Ed25519PrivateKey.generate()
PARTY = Party("next", NEXT.public_key().public_bytes_raw().hex(), "http://127.0.0.1:1")
PATIENCE = Patience(connect=3.0, reply=4.0, first_pause=0.5, longest_pause=12.5)
CONTENT = bytes(range(256)) * 5000
"""More than is read at once."""


@pytest.mark.parametrize(
    ("failures", "most"), [(1, 0.5), (2, 1.0), (5, 8.0), (6, 12.5), (10**9, 12.5)]
)
def test_a_pause_is_twice_as_long_each_time_up_to_the_longest(
    monkeypatch: pytest.MonkeyPatch, failures: int, most: float
) -> None:
    """From half of it to all of it, by lot: hops that were cut off together come back apart."""
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    assert PATIENCE.pause(failures) == most / 2
    monkeypatch.setattr(secrets, "randbelow", lambda bound: bound - 1)
    assert PATIENCE.pause(failures) == pytest.approx(most, rel=1e-5)
    assert PATIENCE.pause(failures) < most
    assert Patience(first_pause=1.0, longest_pause=1e300).pause(10**9) <= 2.0**30
    monkeypatch.undo()
    assert len({PATIENCE.pause(failures) for _ in range(20)}) > 10


class Replies:
    """Stands for the network: gives the replies of a list, and notes what was asked."""

    def __init__(self, **said: Any) -> None:
        self.said, self.closed = said, False
        self.asked: list[tuple[str, str, dict[str, str] | None, bytes | None]] = []
        self.given: list[Reply | Exception] = []

    def ask(
        self,
        method: str,
        url: str,
        body: Iterable[bytes] | None = None,
        *,
        headers: dict[str, str] | None = None,
        most: int,
    ) -> Reply:
        assert most <= 1 << 20, "whoever answers could fill memory"
        self.asked.append((method, url, headers, None if body is None else b"".join(body)))
        reply = self.given.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self.closed = True


class AtOnce:
    """Errands that are done before anybody asks for the result."""

    def __init__(self, at_once: int) -> None:
        assert at_once > 1, "one batch that takes long would keep all others"
        self.closed = False

    def submit(self, party: str, function: Any, *given: object) -> Future[bytes]:
        assert party == PARTY.identity
        found: Future[bytes] = Future()
        try:
            found.set_result(function(*given))
        except Exception as fault:  # noqa: BLE001 - for whoever asks for the result
            found.set_exception(fault)
        return found

    def close(self) -> None:
        self.closed = True


class Hop:
    """A forwarder with one batch in its outbox, at a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now, self.knows = 0.0, True
        self.state = State.open(folder / "state.sqlite")
        self.outbox = Outbox(folder, NEXT, secure_words())
        self.file = self.add(BATCH)
        self.forwarder = Forwarder(
            self.state,
            self.outbox,
            lambda _plan: PARTY if self.knows else None,
            patience=PATIENCE,
            trusted=folder / "roots",
        )
        self.network: Any = self.forwarder._exchange  # noqa: SLF001 - put there by this test
        self.errands: Any = self.forwarder._errands  # noqa: SLF001 - put there by this test

    def add(self, batch_id: str) -> Path:
        """Put a batch into the outbox; return its file."""
        file = self.outbox.path(batch_id)
        file.write_bytes(CONTENT)
        with self.state.changing() as change:
            change.add_batch(Sealed(batch_id, PLAN, 1, 5, 7))
        return file

    def offer(self, *replies: Reply | Exception) -> dict[str, int]:
        """Let an offer be answered so; return what came of all offers up to now."""
        self.network.given = list(replies)
        for _ in range(2):
            self.forwarder.step()
        assert not self.network.given
        return dict(self.forwarder.attempts)

    def is_offered(self) -> bool:
        """Return whether the batch is offered now; if so, nobody answers."""
        before = len(self.network.asked)
        self.network.given = [NoReply("no connection", arrived=False)]
        for _ in range(2):
            self.forwarder.step()
        return len(self.network.asked) > before

    @property
    def places(self) -> list[str]:
        return [
            name for name in ("sealed", "acknowledged", "purged") if self.state.batches(name) != []
        ]


@pytest.fixture
def hop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hop]:
    monkeypatch.setattr(forwarding, "Exchange", Replies)
    monkeypatch.setattr(forwarding, "Errands", AtOnce)
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    made = Hop(tmp_path)
    monkeypatch.setattr(forwarding, "time", SimpleNamespace(monotonic=lambda: made.now))
    yield made
    made.state.close()


def test_a_batch_is_sent_whole_and_purged_for_a_receipt(hop: Hop) -> None:
    receipt = sign_receipt(BATCH, NEXT)
    assert hop.offer(Reply(404, b""), Reply(201, receipt)) == {"acknowledged": 1}
    url = f"http://127.0.0.1:1/v1/plans/{PLAN}/batches/{BATCH}"
    headers = {"content-type": media_types.BATCH, "content-length": str(len(CONTENT))}
    assert hop.network.asked == [("GET", url, None, None), ("PUT", url, headers, CONTENT)]
    assert (hop.places, hop.file.exists()) == (["purged"], False)
    assert hop.state.receipt(BATCH) == receipt
    assert not hop.is_offered()


def test_a_receipt_that_was_kept_before_a_crash_purges_its_batch(hop: Hop) -> None:
    with hop.state.changing() as change:
        change.acknowledge(BATCH, sign_receipt(BATCH, NEXT))
    hop.forwarder.step()
    assert (hop.places, hop.file.exists(), hop.network.asked) == (["purged"], False, [])


def test_what_the_next_party_has_is_not_sent_again(hop: Hop) -> None:
    assert hop.offer(Reply(200, sign_receipt(BATCH, NEXT))) == {"acknowledged": 1}
    assert [asked[0] for asked in hop.network.asked] == ["GET"]
    assert (hop.places, hop.file.exists()) == (["purged"], False)
    hop.add("b2" * 32)
    assert hop.offer(Reply(200, sign_receipt("b2" * 32, NEXT))) == {"acknowledged": 2}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(200, sign_receipt(BATCH, Ed25519PrivateKey.generate())), "another signature"),
        (Reply(201, sign_receipt("b1" * 32, NEXT)), "another signature"),
        (Reply(204, sign_receipt(BATCH, NEXT)), "the status 204"),
        (Reply(503, Problem(Kind.OVERLOADED).body()), Kind.OVERLOADED.word),
        (Reply(503, b"anything"), "the status 503"),
        (NoReply("no connection", arrived=False), "no connection"),
    ],
)
def test_without_a_receipt_a_batch_stays_and_it_is_told_why(
    hop: Hop, reply: Reply | Exception, why: str
) -> None:
    assert hop.offer(reply) == {why: 1}
    assert hop.state.refusal(BATCH) == why
    assert (hop.places, hop.file.read_bytes() == CONTENT) == (["sealed"], True)
    hop.now = 3600.0
    assert hop.offer(reply) == {why: 2}
    hop.now = 7200.0
    hop.offer(Reply(200, sign_receipt(BATCH, NEXT)))
    assert (hop.places, hop.state.refusal(BATCH)) == (["purged"], "")


def test_a_batch_that_cannot_be_read_stays_and_it_is_told_why(hop: Hop) -> None:
    hop.file.unlink()
    (why,) = hop.offer(Reply(404, b""))
    assert "batch" in why
    assert hop.places == ["sealed"]


def test_the_next_offer_is_after_a_pause_that_grows(hop: Hop) -> None:
    """Each is a half of the most that it may be, as no lot is drawn here."""
    assert hop.is_offered()
    for due in (0.25, 0.75, 1.75):
        hop.now = due - 0.01
        assert not hop.is_offered()
        hop.now = due
        assert hop.is_offered()


def test_the_next_party_may_ask_for_a_longer_pause(hop: Hop) -> None:
    hop.offer(Reply(503, b"", retry_after=30.0))
    hop.now = 29.9
    assert not hop.is_offered()
    hop.now = 30.0
    hop.offer(Reply(503, b"", retry_after=0.1))
    hop.now = 30.4
    assert not hop.is_offered()
    hop.now = 30.5
    assert hop.is_offered()


def test_a_batch_waits_for_a_party_that_is_not_known(hop: Hop) -> None:
    hop.knows = False
    assert not hop.is_offered()
    hop.knows = True
    assert hop.is_offered()


def test_patience_and_roots_are_those_that_were_given(hop: Hop, tmp_path: Path) -> None:
    trusted = tmp_path / "roots"
    assert hop.network.said == {"connect_seconds": 3.0, "reply_seconds": 4.0, "trusted": trusted}
    hop.forwarder.close()
    assert (hop.network.closed, hop.errands.closed) == (True, True)
