"""Several batches that are used as one: of one plan, stage and round, and none of them twice."""

from __future__ import annotations

from chaffinch.errors import BatchRepeated, InvalidFile, PlanMismatch
from chaffinch.wire.batches import BatchFacts, join_names
from chaffinch.wire.message_pages import damaged_messages
from chaffinch.wire.messages import Origin, Planned

_HINTS = {
    "encoded": "shuffle the files that encoding wrote",
    "shuffled": "shuffle the messages first",
}


class BatchSet:
    """What is known of batches that were read one after the other."""

    def __init__(self, plan: Planned, stage: str) -> None:
        self._plan, self._stage = plan, stage
        self.digests: dict[str, str] = {}
        self.reports = 0
        self.round = 0

    @property
    def origin(self) -> Origin:
        """Return the origin of all messages together."""
        return Origin.of(self._plan, self.round)

    @property
    def name(self) -> str:
        """Return the name of all batches together."""
        return join_names(list(self.digests))

    def check_start(self, label: str, start: BatchFacts, rows: int | None) -> None:
        """Refuse what is not of this plan, stage or round before anything of it is used."""
        plan, title = self._plan, f"message file {label!r}"
        if start.plan_id != plan.id:
            raise PlanMismatch(title, expected=plan.id, found=start.plan_id)
        if start.stage != self._stage:
            must_be = f"of {self._stage} messages"
            raise InvalidFile(title, must_be, [start.stage], hint=_HINTS[self._stage])
        if start.space != plan.codes:
            raise InvalidFile(title, f"of {plan.codes} possible messages", [str(start.space)])
        if not (start.round == (self.round or start.round) and start.round <= plan.rounds):
            must_be = f"of round {self.round}" if self.round else f"of at most {plan.rounds} rounds"
            raise InvalidFile(title, must_be, [f"one of round {start.round}"])
        if rows is not None and rows > start.reports * plan.slots:
            must_be = f"of at most {plan.slots} messages for each report"
            raise InvalidFile(title, must_be, [f"{rows} messages in {start.reports} reports"])
        self.round = start.round

    def take(self, label: str, facts: BatchFacts, digest: str) -> None:
        """Count a batch that was read to its end, unless it was here before."""
        before = self.digests.get(facts.name)
        if before == digest:
            raise BatchRepeated(f"message file {label!r}", "a batch that is there twice")
        if before is not None:
            raise damaged_messages(label)
        self.digests[facts.name] = digest
        self.reports += facts.reports
