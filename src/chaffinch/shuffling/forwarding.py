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
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.plans.parties import Party
from chaffinch.shuffling.batch_outbox import Outbox
from chaffinch.shuffling.open_envelopes import remove_file
from chaffinch.shuffling.state import Sealed, State
from chaffinch.tables.parallel import Errands
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Exchange, NoReply
from chaffinch.wire.problems import Kind
from chaffinch.wire.sealed_batches import is_receipt

_BLOCK = 1 << 20
_AT_ONCE = 4
"""Batches that are offered to a party together."""
_LONGEST_REPLY = 1 << 16
_WORDS = {kind.word for kind in Kind}


@dataclass(frozen=True)
class Patience:
    """How long the next party is waited for, in seconds."""

    connect: Annotated[float, "seconds in which the next party must take a connection"] = 10.0
    reply: Annotated[float, "and answer"] = 60.0
    first_pause: Annotated[float, "seconds before it is asked again; twice as many each time"] = 1.0
    longest_pause: Annotated[float, ""] = 300.0

    def pause(self, failures: int) -> float:
        """Return how long to wait after so many failures: twice as long each time, jittered."""
        # The power is bounded before it is taken: no number of failures makes it overflow.
        most = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))
        # From half of it to all: hops that were cut off together do not come back together.
        return most * (0.5 + secrets.randbelow(1 << 20) / (1 << 21))


class _NoReceipt(Exception):
    """The next party has not signed for a batch, which stays; says why, and when to come again."""

    def __init__(self, why: str, retry_after: float = 0.0) -> None:
        super().__init__(why)
        self.retry_after = retry_after


@dataclass
class _Offer:
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
        self._exchange = Exchange(
            connect_seconds=self._patience.connect,
            reply_seconds=self._patience.reply,
            trusted=trusted,
        )
        self._errands = Errands(_AT_ONCE)
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
                    offer.under_way = self._errands.submit(
                        party.identity, self._offer, batch, party
                    )

    def close(self) -> None:
        """Begin nothing more; what is under way is left, and offered again by the next process."""
        # Not joined: a thread may wait for a reply for as long as patience lasts.
        self._errands.close()
        self._exchange.close()

    def _settle(self, batch: Sealed, offer: _Offer) -> None:
        assert offer.under_way is not None  # noqa: S101 - for the type checker
        try:
            receipt = offer.under_way.result()
        except _NoReceipt as fault:
            self.attempts[str(fault)] += 1
            self._note(batch.id, str(fault))
            offer.failures += 1
            pause = max(fault.retry_after, self._patience.pause(offer.failures))
            offer.due = time.monotonic() + pause
            offer.under_way = None
            return
        # The receipt is durable before the batch goes: from then on nobody asks for it again. A
        # kill before that only means that the receipt is asked for once more.
        kill_point("forwarding.replied")
        with self._state.changing() as change:
            change.acknowledge(batch.id, receipt)
        self.attempts["acknowledged"] += 1
        del self._offers[batch.id]
        kill_point("forwarding.acknowledged")
        self._purge()

    def _note(self, batch_id: str, why: str) -> None:
        """Keep why a batch stays, for whoever looks; the same reason is written once."""
        if self._state.refusal(batch_id) != why:
            with self._state.changing() as change:
                change.note_refusal(batch_id, why)

    def _purge(self) -> None:
        for batch in self._state.batches("acknowledged"):
            # The file first: a crash in between leaves a batch that is purged again, and not a file
            # that nobody knows of.
            remove_file(self._outbox.path(batch.id))
            kill_point("forwarding.removed")
            with self._state.changing() as change:
                change.mark_purged(batch.id)

    def _offer(self, batch: Sealed, party: Party) -> bytes:
        """Return the receipt for a batch. Runs in a thread, and leaves the state alone."""
        url = party.url("v1", "plans", batch.plan_id, "batches", batch.id)
        try:
            # Asked first: where an answer was lost the receipt is there, and nothing is sent again.
            reply = self._exchange.ask("GET", url, most=_LONGEST_REPLY)
            if reply.status == HTTPStatus.NOT_FOUND:
                path = self._outbox.path(batch.id)
                length = str(path.stat().st_size)
                headers = {"content-type": media_types.BATCH, "content-length": length}
                with path.open("rb") as file:
                    blocks = iter(partial(file.read, _BLOCK), b"")
                    reply = self._exchange.ask(
                        "PUT", url, blocks, headers=headers, most=_LONGEST_REPLY
                    )
        except NoReply as fault:
            raise _NoReceipt(str(fault)) from None
        except OSError as error:
            raise _NoReceipt(storage_fault("batch", error, verb="read").message) from None
        if reply.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            # A stranger's own words are neither counted nor shown.
            why = reply.problem if reply.problem in _WORDS else None
            why = why or f"the status {reply.status}"
            raise _NoReceipt(why, reply.retry_after or 0.0)
        if not is_receipt(batch.id, reply.body, party.key):
            raise _NoReceipt("another signature")
        return reply.body
