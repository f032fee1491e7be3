"""A collection in which every report is sealed, with all its parties in one process.

The steps are those of the services, on files in one folder: devices seal; a shuffler opens,
drops copies, waits for the crowd and puts all messages into a new order; an analyzer opens and
counts. What is missing is the network, and that nobody holds the keys of two parties.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

from chaffinch.analysis.open_batches import open_batch
from chaffinch.analysis.received import Received
from chaffinch.disk.files import make_folder
from chaffinch.encoding.device import encode_with
from chaffinch.encoding.sealing import seal_many
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.sampling import secure_words
from chaffinch.shuffling.batch_outbox import Outbox
from chaffinch.shuffling.inbox import SegmentWriter, Upload, sealed_segments
from chaffinch.shuffling.open_envelopes import HopKey, HopKeys, SegmentOpener
from chaffinch.shuffling.release_rule import Releaser, ReleaseRule
from chaffinch.shuffling.state import State
from chaffinch.tables.parallel import Processes, Progress
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import Origin, Tally
from chaffinch.wire.sealed_reports import route_of

_UPLOAD = 250
"""Reports that reach the shuffler together."""


@dataclass(frozen=True)
class SealedCollection:
    """A plan with a shuffler and an analyzer who were made for it."""

    asked: Plan
    """The plan as it was given, which names no parties."""
    plan: Plan
    folder: Path
    shuffler: KeyFolder
    analyzer: KeyFolder

    @classmethod
    def make(cls, plan: Plan, folder: Path) -> Self:
        """Make the parties of a plan, each with keys in a folder of its own."""
        keys = {name: KeyFolder.create(folder / name) for name in ("shuffler", "analyzer")}
        shuffler, analyzer = (
            Party(name, one.identity_hex, f"https://{name}.example") for name, one in keys.items()
        )
        named = plan.run_by(Parties((shuffler,), analyzer))
        return cls(plan, named, folder, keys["shuffler"], keys["analyzer"])

    def send(self, answers: Sequence[object], progress: Progress) -> None:
        """Encode and seal each answer on its own, and put it into the inbox of the shuffler."""
        words = secure_words()
        reports = (encode_with(answer, self.plan, words, 1) for answer in answers)
        sealed = seal_many(reports, self.plan, self._key_lists(), workers=1)
        writer, done = SegmentWriter(self._place("inbox")), 0
        while upload := list(islice(sealed, _UPLOAD)):
            writer.append([Upload(self.plan.id, 1, b"".join(upload))])
            done += len(upload)
            progress(done, len(answers))
        writer.seal()

    def shuffle(self, progress: Progress) -> Path:
        """Open all that is in the inbox; return a batch of all messages, if it has its crowd."""
        plan, inbox, words = self.plan, self._place("inbox"), secure_words()
        stored = self.shuffler.opening_keys()
        keys = HopKeys({number: HopKey.of(one) for number, one in stored.items()})
        outbox = Outbox(self._place("outbox"), self.shuffler.identity, words)
        with closing(State.open(self.folder / "shuffler.sqlite")) as state:
            with state.changing() as change:
                # What names other keys than those that the shuffler has given out is rejected.
                change.give_out(plan.id, route_of([self._key_lists()[1].keys[0]]))
            opener = SegmentOpener(state, inbox, {plan.id: plan.layout}, Processes(1))
            for segment in sealed_segments(inbox):
                opener.open_segments([segment], keys)
                progress(state.counts()[plan.id].durable, None)
            opened = state.counts()[plan.id].opened
            Origin.of(plan, 1).check_crowd(opened, 0)
            rule = ReleaseRule(largest_batch=opened)
            (batch,) = Releaser(state, {plan.id: plan}, outbox, words, rule).tick()
        return outbox.path(batch)

    def count(self, batch: Path) -> Tally:
        """Open every message of a batch; return the tally, as one of the plan that was given."""
        opened = open_batch(batch, self.plan, self.analyzer.opening_keys())
        with closing(Received(self.folder / "analyzer.sqlite")) as received:
            received.add(opened)
            return replace(received.tally(opened.id), plan_id=self.asked.id)

    def _key_lists(self) -> list[KeyList]:
        return [
            KeyList.read(
                keys.key_list(self.plan.id),
                plan_id=self.plan.id,
                identity=bytes.fromhex(keys.identity_hex),
            )
            for keys in (self.shuffler, self.analyzer)
        ]

    def _place(self, name: str) -> Path:
        place = self.folder / name
        make_folder(place)
        return place
