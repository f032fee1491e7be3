"""A publisher's filter on its way to the shuffler: sealed and signed once, sent until it is there.

What is sent is kept beside the filter, and a retry sends the same bytes. The shuffler takes one
filter of each publisher under a plan and knows it again. So nothing is counted twice whatever
fails, and a filter can be sealed anew for a newer key: if a copy has arrived all the same, the
new one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaffinch.disk.files import AnyPath, atomic
from chaffinch.errors import InvalidInput, NotDelivered, PlanMismatch, Unquoted
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import Party
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Exchange, NoReply, Pauses, Reply
from chaffinch.wire.filter_files import Filter, load_filter
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.problems import Kind
from chaffinch.wire.sealed_batches import is_receipt
from chaffinch.wire.sealed_filters import seal_filter

FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LONGEST_REPLY = 1 << 16
_TAKEN = (200, 201)


@dataclass(frozen=True)
class _Sent:
    """A filter that is durable at the shuffler."""

    publisher: str
    new: bool
    """Whether it came there just now; it was there before otherwise."""
    digest: str
    """The SHA-256 of what was sent."""
    receipt: bytes
    """The shuffler's signature that it has it."""


def send_filter(
    path: AnyPath,
    plan: ReachPlan,
    keys: KeyFolder,
    *,
    patience: float = 60.0,
    trusted: Path | None = None,
    tell: Callable[[str], object] | None = None,
) -> _Sent:
    """Seal the filter in a file for the shuffler of its plan, and send it until it is there.

    ``keys`` is the key folder of the publisher, whose identity the plan names. ``patience`` is for
    how many seconds a shuffler that does not answer is asked again; ``trusted`` a file of TLS
    roots; ``tell`` is told what is waited for, when it takes long. The budget was charged when the
    filter was handed out (``hand_out``).
    """
    parties = require_plan(plan).named_parties
    plan.verify()
    found = load_filter(path)
    _check(found, plan, parties.publisher(keys.identity_hex))
    sending = _Sending(Path(path), found, plan, keys, Exchange(trusted=trusted))
    return sending.send(Pauses(patience, FIRST_PAUSE, _LONGEST_PAUSE, tell))


def _check(found: Filter, plan: ReachPlan, publisher: str) -> None:
    """Refuse a filter that the shuffler could not use: there is no second try."""
    if found.plan_id != plan.id:
        raise PlanMismatch("filter", expected=plan.id, found=found.plan_id)
    if found.publisher != publisher:
        raise InvalidInput(
            "filter",
            f"that of {publisher}, whose identity the key folder has",
            Unquoted(f"one of {found.publisher}"),
        )
    if (found.bits, found.frequencies) != (plan.bits, plan.audience.frequencies):
        raise InvalidInput("filter", "of the size that the plan says", Unquoted("another"))


class _Sending:
    def __init__(
        self, path: Path, found: Filter, plan: ReachPlan, keys: KeyFolder, exchange: Exchange
    ) -> None:
        self._filter, self._plan, self._keys = found, plan, keys
        self._exchange = exchange
        self._party: Party = plan.named_parties.hops[0]
        # Another filter under the same name is not taken for this one.
        self._kept = path.with_name(f"{path.name}.{found.digest[:16]}.sealed")

    def send(self, pauses: Pauses) -> _Sent:
        while True:
            reply = self._try()
            if reply.status in _TAKEN:
                return self._sent(reply)
            if reply.problem == Kind.OUTDATED_KEYS.word:
                self._kept.unlink(missing_ok=True)
            what = f"{self._party.name}: {reply.got}"
            if not (reply.passes and pauses.wait(reply.retry_after, what)):
                raise self._refused(reply)

    def _try(self) -> Reply:
        """Return the answer to the sealed filter; status 0 is no answer."""
        url = self._party.url("v1", "plans", self._plan.id)
        try:
            if not self._kept.exists():
                reply = self._exchange.ask("GET", f"{url}/keys", most=LONGEST_LIST)
                if reply.status != 200:
                    return reply
                self._seal(reply.body)
            return self._exchange.ask(
                "PUT",
                f"{url}/filters/{self._keys.identity_hex}",
                self._kept.read_bytes(),
                headers={"content-type": media_types.FILTER},
                most=_LONGEST_REPLY,
            )
        except NoReply as fault:
            return Reply(0, str(fault).encode())

    def _seal(self, content: bytes) -> None:
        listed = KeyList.read(content, plan_id=self._plan.id, identity=self._party.key)
        layout = self._plan.layout
        usable = [key for key in listed.keys if key.kem == layout.outer_kem]
        if not usable:
            raise InvalidInput(
                f"key list of {self._party.name}", "one for this plan", Unquoted("another")
            )
        sealed = seal_filter(self._filter.content(), layout, usable[0], self._keys.identity)
        with atomic(self._kept, permissions=0o600) as file:
            file.write(sealed)

    def _sent(self, reply: Reply) -> _Sent:
        digest = hashlib.sha256(self._kept.read_bytes()).hexdigest()
        if not is_receipt(digest, reply.body, self._party.key):
            raise self._not_delivered("a receipt that it has not signed")
        new = reply.status == 201
        return _Sent(self._filter.publisher, new, digest, reply.body)

    def _refused(self, reply: Reply) -> NotDelivered | InvalidInput:
        if reply.problem == Kind.ANOTHER_FILTER.word:
            return InvalidInput(
                "filter",
                f"the one that {self._party.name} has from this publisher",
                Unquoted("another one"),
                hint="only one filter is accepted for each plan, as another one has fresh noise; "
                "send the sealed file that was stored then, or plan again under another title",
            )
        return self._not_delivered(reply.got)

    def _not_delivered(self, got: str) -> NotDelivered:
        advice = "`chaffinch reach send` with the same filter sends the same bytes again"
        kept = f"the filter of {self._filter.publisher} is still to be sent"
        return NotDelivered(self._party.name, got, waiting=1, advice=advice, kept=kept)
