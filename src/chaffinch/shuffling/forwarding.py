"""Handing over: a batch is offered to the next party until it has signed a receipt.

The next party is asked first whether it has the batch: after a lost reply, or a restart, nobody
here knows. Only then it is sent, the same bytes every time. Whatever goes wrong, the batch stays
and is offered again, later each time. Only a receipt that the party of the plan has signed ends
that; then the batch is purged.

One thread per batch talks to the network; the state belongs to whoever asks for the results.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import urllib3

from chaffinch.errors import ChaffinchError
from chaffinch.planning.parties import Party
from chaffinch.shuffling.opening import remove_file
from chaffinch.shuffling.outbox import Outbox
from chaffinch.shuffling.state import Sealed, State
from chaffinch.storage.failpoints import reach
from chaffinch.wire.problems import problem_word
from chaffinch.wire.sealed_batches import is_receipt
from chaffinch.wire.signatures import SIGNATURE

BATCH_TYPE = "application/vnd.chaffinch.batch"
_LONGEST_REPLY = 1 << 16
_BLOCK = 1 << 20
_AT_ONCE = 4
_STORED = (200, 201)


@dataclass(frozen=True)
class Patience:
    """How long the next party is waited for, in seconds."""

    connect: float = 10.0
    reply: float = 60.0
    first_pause: float = 1.0
    longest_pause: float = 300.0

    def pause(self, failures: int) -> float:
        """Return how long to wait after so many failures: twice as long each time, jittered."""
        most = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))
        return most * (0.5 + secrets.randbelow(1 << 20) / (1 << 21))


class NoReceipt(ChaffinchError):
    """The next party has not signed for a batch, which stays and is offered again."""

    code = "no-receipt"


@dataclass
class _Offer:
    """How far a batch has come on its way to the next party."""

    due: float = 0.0
    failures: int = 0
    under_way: Future[bytes] | None = None


class Forwarder:
    """Offers the batches of the outbox to the next party of their plan, each on its own."""

    def __init__(
        self,
        state: State,
        outbox: Outbox,
        receiver: Callable[[str], Party | None],
        *,
        patience: Patience | None = None,
        trusted: Path | None = None,
    ) -> None:
        """``receiver`` knows the next party of a plan; ``trusted`` is a file of TLS roots."""
        self._state, self._outbox, self._receiver = state, outbox, receiver
        self._patience = patience or Patience()
        self._network = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=self._patience.connect, read=self._patience.reply),
            retries=False,
            ca_certs=None if trusted is None else str(trusted),
        )
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="forward")
        self._offers: dict[str, _Offer] = {}
        self.attempts: Counter[str] = Counter()
        """How often batches were offered, by what came of it."""

    def step(self) -> None:
        """Keep the receipts that have come, purge their batches, offer what is due."""
        self._purge()
        for batch in self._state.batches("sealed"):
            offer = self._offers.setdefault(batch.id, _Offer())
            if offer.under_way is not None and offer.under_way.done():
                self._settle(batch, offer)
            elif offer.under_way is None and offer.due <= time.monotonic():
                party = self._receiver(batch.plan_id)
                if party is not None:
                    offer.under_way = self._threads.submit(self._offer, batch, party)

    def close(self) -> None:
        """Begin nothing more; what is under way ends within its patience, and is offered again."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._network.clear()

    def _settle(self, batch: Sealed, offer: _Offer) -> None:
        assert offer.under_way is not None  # noqa: S101 - for the type checker
        try:
            receipt = offer.under_way.result()
        except NoReceipt as fault:
            self.attempts[str(fault.details["why"])] += 1
            offer.failures += 1
            offer.due = time.monotonic() + self._patience.pause(offer.failures)
            offer.under_way = None
            return
        reach("forwarding.replied")
        with self._state.changing() as change:
            change.acknowledge(batch.id, receipt)
        self.attempts["acknowledged"] += 1
        del self._offers[batch.id]
        reach("forwarding.acknowledged")
        self._purge()

    def _purge(self) -> None:
        for batch in self._state.batches("acknowledged"):
            remove_file(self._outbox.path(batch.id))
            reach("forwarding.removed")
            with self._state.changing() as change:
                change.mark_purged(batch.id)

    def _offer(self, batch: Sealed, party: Party) -> bytes:
        """Return the receipt for a batch. Runs in a thread, and leaves the state alone."""
        url = party.url("v1", "plans", batch.plan_id, "batches", batch.id)
        try:
            known = self._ask("GET", url, None)
            if known is None:
                path = self._outbox.path(batch.id)
                with path.open("rb") as file:
                    known = self._ask("PUT", url, file, path.stat().st_size)
        except (urllib3.exceptions.HTTPError, OSError):
            raise _no_receipt("unreachable") from None
        if known is None or not is_receipt(batch.id, known, party.key):
            raise _no_receipt("other-signature")
        return known

    def _ask(self, method: str, url: str, file: IO[bytes] | None, length: int = 0) -> bytes | None:
        """Return the body of an answer that says a batch is stored; None if it is not there."""
        headers = {"content-type": BATCH_TYPE, "content-length": str(length)} if file else {}
        reply = self._network.request(
            method,
            url,
            body=_blocks(file) if file else None,
            headers=headers,
            preload_content=False,
            redirect=False,
            decode_content=False,
        )
        try:
            content = reply.read(_LONGEST_REPLY)
        finally:
            # What is left of an answer that is too long is not read.
            reply.close()
        if reply.status in _STORED:
            return content[: SIGNATURE + 1]
        if reply.status == 404 and file is None:
            return None
        raise _no_receipt(problem_word(content) or f"status-{reply.status}")


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _no_receipt(why: str) -> NoReceipt:
    return NoReceipt(
        f"The next party must sign for a batch. Got {why}.",
        hint="the batch stays in the outbox and is offered again",
        details={"why": why},
    )
