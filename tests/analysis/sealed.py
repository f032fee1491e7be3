"""Sealed batches for tests: what a last hop, honest or not, can send to an analyzer."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.keys import KeyFolder, StoredKey
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips
from chaffinch.questions import Choice
from chaffinch.wire.messages import EMPTY
from chaffinch.wire.sealed_batches import BatchHead, write_batch
from chaffinch.wire.sealed_reports import pack_code
from tests.engines import plans

PEOPLE = 12
LABELS = [f"value {number}" for number in range(PEOPLE)]


def flips() -> Plan:
    """Return a plan of fixed slots: of as many as there are codes."""
    protocol = Flips(Fraction(1, 4), 1, PEOPLE)
    return replace(plans.plan_of(("value", Choice(LABELS), protocol), users=PEOPLE), rounds=2)


def decoys() -> Plan:
    """Return a plan in which the number of messages follows the noise."""
    return plans.plan_of(("value", Choice(LABELS), Decoys(3, Fraction(1, 2))), users=PEOPLE)


@dataclass(frozen=True)
class Batch:
    """A batch as it travels."""

    id: str
    content: bytes


@dataclass(frozen=True)
class LastHop:
    """Who sends batches to the analyzer whose keys are in a folder."""

    plan: Plan
    identity: Ed25519PrivateKey
    keys: KeyFolder

    @classmethod
    def of(cls, plan: Plan, folder: Path, *, analyzer: str = "https://a.example") -> LastHop:
        folder.mkdir(exist_ok=True)
        identity, keys = Ed25519PrivateKey.generate(), KeyFolder.create(folder / "keys")
        hop = Party("hop", identity.public_key().public_bytes_raw().hex(), "https://h.example")
        parties = Parties((hop,), Party("analyzer", keys.identity_hex, analyzer))
        return cls(plan.run_by(parties), identity, keys)

    @property
    def key_id(self) -> int:
        return self.key.key.id

    @property
    def key(self) -> StoredKey:
        return next(iter(self.keys.opening_keys().values()))

    @property
    def key_name(self) -> bytes:
        return self.key.key.sealing.name

    def item(self, code: int, number: int = 1) -> bytes:
        """Return a message as a device seals it."""
        layout = self.plan.layout
        return self.key.key.sealing.seal(pack_code(code), layout.binding(layout.hops + 1, number))

    def items(self, codes: Iterable[int], number: int = 1) -> list[bytes]:
        return [self.item(code, number) for code in codes]

    def reports(self, codes: Sequence[Sequence[int]], number: int = 1) -> list[bytes]:
        """Return the messages of reports, with dummies for slots that are left."""
        slots = self.plan.slots
        filled = ([*report, *[EMPTY] * (slots - len(report))] for report in codes)
        return self.items([code for report in filled for code in report], number)

    def crowd(self, number: int = 1) -> list[bytes]:
        """Return one report of each person, each with a code of its own."""
        return self.reports([[code] for code in range(PEOPLE)], number)

    def batch(self, items: Iterable[bytes], **said: object) -> Batch:
        """Return a batch; ``said`` is what its head claims besides the truth."""
        shuffled = sorted(items, key=lambda _: secrets.token_bytes(8))
        layout = self.plan.layout
        head = BatchHead(
            plan_id=self.plan.id,
            round=1,
            hop=layout.hops,
            route=self.key_name,
            reports=PEOPLE,
            items=len(shuffled),
            item_length=layout.item_length(layout.hops),
        )
        file = io.BytesIO()
        found = write_batch(file, replace(head, **said), shuffled, self.identity)  # type: ignore[arg-type]
        return Batch(found, file.getvalue())

    def put(self, folder: Path, batch: Batch) -> Path:
        """Put a batch where the analyzer finds it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{batch.id}.batch"
        path.write_bytes(batch.content)
        return path
