"""The client: from an answer to a report that the first hop has, each step once.

The plan is verified within the device's own limits, the report is made and kept in the outbox,
the ledger is charged, and only then anything leaves the device. Everything after that may fail
and be tried again: what has left is sent as the same bytes, and no other report is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import contains
from typing import cast

from chaffinch import ledger as budgets
from chaffinch.disk.files import AnyPath
from chaffinch.disk.kill_points import kill_point
from chaffinch.encoding.device import encode_with
from chaffinch.encoding.outbox import Occasion, Outbox, Shown, Waiting
from chaffinch.encoding.sealing import Sealer
from chaffinch.errors import (
    BudgetExhausted,
    DataRepeated,
    InvalidAnswer,
    InvalidFile,
    InvalidInput,
    NotDelivered,
    Unquoted,
)
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.privacy.guarantee import Target
from chaffinch.sampling import secure_words
from chaffinch.tables.parallel import Progress
from chaffinch.wire import media_types
from chaffinch.wire.envelopes import HEAD, NAME
from chaffinch.wire.exchange import Exchange, NoReply, Pauses, Reply
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.messages import Origin, Report
from chaffinch.wire.problems import Kind

REPORTS_TOGETHER = 100
_BYTES_TOGETHER = 1 << 20
"""A gateway sends so many reports in one body, and so many bytes."""
_PATIENCE = 300.0
"""Seconds for which a service that does not answer is asked again."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
KEYS_LAST = 6 * 3600.0
"""Seconds after which lists of keys are asked for again: less than a key stays in use."""
_LONGEST_REPLY = 1 << 16
_NOT_FOUND = 404
_ANOTHER_PLAN = (
    "it does not run this plan or round: ask whoever runs it for the plan file that it runs"
)
_NO_KEYS = (
    "nothing can be sealed before the service of {0} runs and {1} has its keys, for which it asks "
    "by itself; then `{2}`"
)
_RESUME = "chaffinch send --resume"


@dataclass(frozen=True)
class Delivery:
    """What became of reports."""

    arrived: int = 0
    """So many are durable at the first hop."""
    given_up: int = 0
    """So many may have arrived, and are not sent again: they could count twice.

    Their reply was lost, or they were refused, and by now a key that they were sealed for is not
    in use any more.
    """
    earlier: bool = False
    """Whether an answer was given before, for the same round: then it is the first that counts."""

    def __add__(self, other: Delivery) -> Delivery:
        earlier = self.earlier or other.earlier
        return Delivery(self.arrived + other.arrived, self.given_up + other.given_up, earlier)


class Client:
    """A device that takes part in one plan, with an outbox that survives everything but its disk.

    ``within`` is the most that this device accepts, whatever the plan promises; ``ledger`` is
    its budget. The plan must name its parties: their signed keys are taken from the first hop,
    which gives everybody the same ones. ``tell`` is told what is waited for, when it takes long;
    ``resume_command`` is what people are advised to type when reports wait.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        outbox: AnyPath,
        within: Target | None = None,
        ledger: budgets.Ledger | None = None,
        patience: float = _PATIENCE,
        tell: Callable[[str], object] | None = None,
        resume_command: str = _RESUME,
    ) -> None:
        require_devices(plan).verify(within=within)
        self._plan = plan
        self._parties = _parties_of(plan)
        self._ledger = None if ledger is None else ledger.of("client")
        self._outbox = Outbox(outbox)
        self._patience = patience
        self._tell = tell
        self._resume_command = resume_command
        self._exchange = Exchange()
        self._given_up = 0

    def __repr__(self) -> str:
        return f"<Client of plan {self._plan.id[:16]}>"

    @property
    def waiting(self) -> int:
        """Return how many reports wait to be sent."""
        return sum(self._outbox.waiting(self._plan.id).values())

    @property
    def given_up(self) -> int:
        """Return how many reports this client gave up so far, also if an error came then."""
        return self._given_up

    @property
    def has_taken(self) -> bool:
        """Return whether the outbox has taken a report for this plan before."""
        return self._outbox.has_taken(self._plan.id)

    def send(
        self,
        answer: object,
        *,
        round: int | None = None,  # noqa: A002
    ) -> Delivery:
        """Make a report of an answer, once, and send it; return what arrived.

        Where everybody sends several reports, ``answer`` is a list of as many answers or fewer;
        the rest are reports without one. A round never has a second report of the same person,
        who would be twice in one batch: what waits of the first is sent. Whoever is asked again
        is asked in another round. NotDelivered says that it waits: try again, or ``resume``.
        """
        plan, origin = self._plan, Origin.of(self._plan, round)
        answers = _answers_of(plan, answer)
        occasion = plan.id if plan.rounds == 1 else f"{plan.id}/{origin.round}"
        words = secure_words()
        is_first = self._outbox.add(
            origin,
            occasion,
            # Read under the outbox's lock, and only for a new occasion.
            (encode_with(one, plan, words, origin.round) for one in answers),
            paid=self._ledger is None,
        )
        kill_point("client.kept")
        return replace(self.resume(), earlier=not is_first)

    def send_many(
        self,
        reports: Iterable[Report],
        *,
        data: bytes,
        round: int | None = None,  # noqa: A002
        progress: Progress | None = None,
    ) -> Delivery:
        """Send the reports of many people for whom a gateway speaks.

        All of them are in the outbox before the first is sent. ``data`` is what they were made
        of: the same data are refused in the same round, because they would count twice.
        """
        if self._ledger is not None:
            raise InvalidInput("ledger", "that of one person", Unquoted("one for many people"))
        origin = Origin.of(self._plan, round)
        key = "data " + self._outbox.keyed_digest(data)
        if not self._outbox.add(origin, key, reports, paid=True):
            raise DataRepeated(
                "data that this outbox has taken before, for the same round",
                hint=f"`{self._resume_command}` sends what waits of them; all else has arrived, or "
                "was given up",
                rule="The data of a round must be sent",
            )
        return self.resume(progress=progress)

    def resume(self, *, progress: Progress | None = None) -> Delivery:
        """Send everything that waits for this plan, as it is; return what arrived."""
        done = Delivery()
        # One process at a time: another one would send the same reports, and could note as refused
        # what this one has on its way.
        with self._outbox.sending_alone(self._patience):
            for occasion in self._outbox.unpaid(self._plan.id):
                self._pay(occasion)
            total = self.waiting
            for number in self._outbox.waiting(self._plan.id):
                origin = Origin.of(self._plan, number)
                while self._outbox.next(origin, 1):
                    done += self._deliver(origin)
                    if progress is not None:
                        progress(done.arrived + done.given_up, total)
        return done

    def _pay(self, occasion: Occasion) -> None:
        """Charge the ledger for reports that are kept; forget them if it does not allow it.

        The charge names them, so after a crash it is found and not made again.
        """
        if self._ledger is None:
            raise InvalidInput(
                "ledger", "given: reports wait that it must pay for first", None, hint="open it"
            )
        try:
            self._ledger.charge(budgets.Charge.of(self._plan), occasion.key, subject=occasion.name)
        except (BudgetExhausted, InvalidInput):
            self._outbox.cancel(occasion)
            raise
        # After a kill here the reports are unpaid in the outbox, and the ledger finds the charge of
        # the same name: it is not made twice.
        kill_point("client.charged")
        self._outbox.mark_paid(occasion)

    # -------------------------------------------------------------------- one upload

    def _deliver(self, origin: Origin) -> Delivery:
        """Send the first reports that wait in one body until the first hop has them.

        What waits is read from the outbox each time: what may have arrived is known there alone.
        """
        first = self._parties.hops[0]
        url = first.url("v1", "plans", origin.plan_id, "rounds", origin.round, "reports")
        pauses = self._pauses()
        most = min(REPORTS_TOGETHER, max(1, _BYTES_TOGETHER // self._plan.layout.report_length))
        while True:
            group = self._outbox.next(origin, most)
            lists = self._key_lists()
            if astray := self._astray(group, lists):
                return self._give_up(astray)
            group = self._sealed(group, lists)
            reply = self._post(url, group)
            if reply.status == 201:
                # A kill before they are forgotten sends them again, as the same bytes.
                kill_point("client.delivered")
                self._outbox.forget(group)
                return Delivery(arrived=len(group))
            if reply.problem == "tooLarge" and most > 1:
                most //= 2
            elif not self._waits(pauses, reply):
                raise self._not_delivered(reply)
            elif reply.problem == "outdatedKeys" and (lost := self._seal_again(group)):
                return lost

    def _post(self, url: str, group: Sequence[Waiting]) -> Reply:
        """Send a body once. What may have arrived is noted before; what has not, afterwards."""
        self._outbox.mark_on_its_way(group)
        kill_point("client.sending")
        body = b"".join(one.sealed or b"" for one in group)
        reply, arrived = self._ask("POST", url, body, media_types.REPORTS, _LONGEST_REPLY)
        # A service of ours takes a body whole or not at all, and says so itself.
        if reply.problem is not None or not arrived:
            self._outbox.mark_refused(group, arrived=arrived)
        return reply

    def _astray(self, group: Sequence[Waiting], lists: Sequence[KeyList]) -> list[Waiting]:
        """Return reports that the first hop would take, and nobody behind it can open any more.

        Sealed anew they could count twice, as somebody has seen them.
        """
        return [one for one in group if one.shown and not self._opens(one.payload, lists)]

    def _sealed(self, group: list[Waiting], lists: Sequence[KeyList]) -> list[Waiting]:
        # Kept before they are sent: a retry after a crash sends the same bytes, which the first hop
        # knows again by their replay tag.
        words, sealer, sealed = secure_words(), Sealer.of(self._plan, lists), {}
        for one in group:
            payload = one.payload if self._opens(one.payload, lists) else None
            if one.sealed is None or payload is None:
                payload = payload or sealer.payload(one.report, words)
                wrapped = sealer.wrap(payload, one.report.origin.round)
                sealed[one.id] = replace(one, payload=payload, sealed=wrapped)
        if sealed:
            self._outbox.keep_sealed(sealed.values())
        kill_point("client.sealed")
        return [sealed.get(one.id, one) for one in group]

    def _opens(self, payload: bytes | None, lists: Sequence[KeyList]) -> bool:
        """Return whether all parties behind the first hop have the keys that items are for."""
        unpacked = None if payload is None else self._plan.layout.unpack(payload)
        route = b"" if unpacked is None else unpacked[0]
        names = [route[at : at + NAME] for at in range(0, len(route), NAME)]
        behind = [{key.name for key in one.keys} for one in lists[1:]]
        return len(names) == len(behind) and all(map(contains, behind, names))

    def _seal_again(self, group: Sequence[Waiting]) -> Delivery | None:
        """Let reports be sealed for newer keys, or give up those of which a copy may have arrived.

        That a key is outdated anybody on the way can say, and keep a copy. So only what is
        sealed for a key that the first hop itself has taken off its list is touched: an honest
        one takes no copy of that any more. One that does has a second outer envelope of the same
        items, which the party behind it knows again. All else is sent again as it is.
        """
        taken = {key.head for key in self._fetch_keys()[0].keys}
        outdated = [one for one in group if (one.sealed or b"")[:HEAD] not in taken]
        lost = [one for one in outdated if one.shown is Shown.ON_ITS_WAY]
        self._outbox.unseal([one for one in outdated if one.shown is not Shown.ON_ITS_WAY])
        return self._give_up(lost) if lost else None

    def _give_up(self, reports: Sequence[Waiting]) -> Delivery:
        self._outbox.forget(reports)
        self._given_up += len(reports)
        return Delivery(given_up=len(reports))

    # -------------------------------------------------------------------- keys of the parties

    @property
    def _everyone(self) -> tuple[Party, ...]:
        return (*self._parties.hops, self._parties.analyzer)

    def _key_lists(self) -> list[KeyList]:
        # All lists of one moment, or none: the first hop accepts only routes that it has given out,
        # and a mixture of an old list and a new one may be none of them.
        kept = [self._outbox.key_list(self._plan.id, party.key) for party in self._everyone]
        fresh = [one[0] for one in kept if one and 0 <= time.time() - one[1] < KEYS_LAST]
        if len(fresh) < len(kept):
            return self._fetch_keys()
        read = zip(fresh, self._everyone, strict=True)
        return [KeyList.read(one, plan_id=self._plan.id, identity=who.key) for one, who in read]

    def _fetch_keys(self) -> list[KeyList]:
        """Return the keys of all parties as the first hop gives them out now.

        Older ones are refused, and other ones of the same serial. A party asked by itself could
        answer with keys for this device alone; the first hop would not let their reports leave.
        """
        first = self._parties.hops[0]
        url = first.url("v1", "plans", self._plan.id, "key-lists")
        pauses = self._pauses()
        most = LONGEST_LIST * len(self._everyone)
        while True:
            reply, _ = self._ask("GET", url, None, media_types.KEYS, most)
            if reply.status == 200:
                break
            if not self._waits(pauses, reply):
                raise self._not_delivered(reply)
        identities = [party.key for party in self._everyone]
        try:
            found = KeyList.read_all(reply.body, plan_id=self._plan.id, identities=identities)
        except InvalidFile as fault:
            rule = "the key lists of all parties, each signed for this plan"
            hint = f"check that it is {first.name} who answers at {first.address}"
            raise InvalidFile(f"answer of {first.name}", rule, fault.faults, hint=hint) from None
        for party, (one, content) in zip(self._everyone, found, strict=True):
            self._check_newer(party, one, content)
        lists = {who: content for who, (_, content) in zip(identities, found, strict=True)}
        self._outbox.keep_key_lists(self._plan.id, lists, time.time())
        return [one for one, _ in found]

    def _check_newer(self, party: Party, found: KeyList, content: bytes) -> None:
        kept = self._outbox.key_list(self._plan.id, party.key)
        if kept is None or kept[0] == content:
            return
        before = KeyList.read(kept[0], plan_id=self._plan.id, identity=party.key)
        if found.serial <= before.serial:
            raise InvalidFile(
                f"key list of {party.name}",
                f"newer than number {before.serial}, which was seen before",
                [f"another list with the number {found.serial}"],
                hint="a party gives everybody the same keys; nothing was sealed for these",
            )

    # -------------------------------------------------------------------- the network

    def _ask(
        self, method: str, url: str, body: bytes | None, kind: str, most: int
    ) -> tuple[Reply, bool]:
        """Return a reply, and whether the request may have arrived; status 0 is no reply."""
        header = "accept" if body is None else "content-type"
        try:
            return self._exchange.ask(method, url, body, headers={header: kind}, most=most), True
        except NoReply as fault:
            return Reply(0, str(fault).encode()), fault.arrived

    def _pauses(self) -> Pauses:
        return Pauses(self._patience, FIRST_PAUSE, LONGEST_PAUSE, self._tell)

    def _waits(self, pauses: Pauses, reply: Reply) -> bool:
        """Wait after a reply that passes; return False if nothing is tried again."""
        service, got, _ = self._cause(reply)
        return reply.passes and pauses.wait(reply.retry_after, f"{service}: {got}")

    def _not_delivered(self, reply: Reply) -> NotDelivered:
        service, got, advice = self._cause(reply)
        return NotDelivered(service, got, waiting=self.waiting, advice=advice)

    def _cause(self, reply: Reply) -> tuple[str, str, str]:
        """Return whose service is missing, what there was instead, and what helps.

        Of what the first hop says only names that the plan has are repeated.
        """
        first, *behind = self._everyone
        missing = " and ".join(one.name for one in behind if one.name in reply.parties)
        if reply.problem == Kind.UNSEEN_KEYS.word and missing:
            advice = _NO_KEYS.format(missing, first.name, self._resume_command)
            return missing, f"no keys at {first.name}", advice
        usual = f"`{self._resume_command}` sends them as they are, and makes no new ones"
        return first.name, reply.got, _ANOTHER_PLAN if reply.status == _NOT_FOUND else usual


def _parties_of(plan: Plan) -> Parties:
    _ = plan.layout  # A plan that names nobody is refused here.
    return cast("Parties", plan.parties)


def _answers_of(plan: Plan, answer: object) -> list[object]:
    if plan.contributions == 1:
        return [answer]
    given = list(answer) if isinstance(answer, (list, tuple)) else None
    if given is None or len(given) > plan.contributions:
        raise InvalidAnswer(f"a list of at most {plan.contributions} answers, one for each report")
    silent = None if len(plan.asked) == 1 else dict.fromkeys(plan.asked)
    return given + [silent] * (plan.contributions - len(given))
