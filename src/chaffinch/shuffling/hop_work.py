"""What a hop does with what arrives for its plans: an interface with a class for each kind of plan.

All kinds share one state and one outbox, from which batches are handed over in the same way; how
something comes in, when it may leave and what keeps a key in use stands with the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chaffinch.keys import KeyFolder
from chaffinch.plans.kinds import Kind, RunPlan
from chaffinch.sampling import Words
from chaffinch.shuffling.batch_outbox import Outbox
from chaffinch.shuffling.release_rule import ReleaseRule
from chaffinch.shuffling.state import State
from chaffinch.tables.parallel import Pool
from chaffinch.wire.envelopes import SealingKey


@dataclass(frozen=True)
class Hop:
    """What all work of a hop shares."""

    folder: Path
    keys: KeyFolder
    hops: Mapping[str, int]
    """Which hop of each plan this is, from 1."""
    state: State
    outbox: Outbox
    words: Words
    pool: Pool
    rule: ReleaseRule
    next_key: Callable[[str], SealingKey | None]
    """Knows the key of the party behind this hop in a plan, if it has shown any."""


class HopWork(ABC):
    """What a hop does for all plans of one kind."""

    kind: ClassVar[Kind[Any]]

    @abstractmethod
    def __init__(self, hop: Hop, plans: Iterable[RunPlan]) -> None:
        """Start on the plans of this kind among those that the hop runs."""

    def keys_changed(self) -> None:  # noqa: B027 - not all work keeps anything of keys
        """Note that keys have come or gone; what follows from it may wait."""

    def follow_keys(self) -> None:  # noqa: B027 - the same
        """Take over keys that were noted to have changed, if there are any."""

    @abstractmethod
    def take(self) -> None:
        """Take over what has arrived, with the keys as they are now."""

    def tick(self) -> None:  # noqa: B027 - not all work waits for ticks
        """Release what has its crowd, where ticks decide that."""

    @abstractmethod
    def needs_key(self, key: int) -> bool:
        """Return whether something that was acknowledged may have to be opened with a key.

        It is asked of keys for which nothing is taken any more.
        """

    @property
    def held(self) -> Mapping[str, str]:
        """Return why nothing can be made of what came for a plan, by its id."""
        return {}

    @property
    def short(self) -> tuple[str, ...]:
        """Return what does not leave although enough has come."""
        return ()

    @classmethod
    def senders(cls, folder: Path, plan: RunPlan) -> Mapping[str, bool]:  # noqa: ARG003
        """Return of all whom a plan names as its senders whether they have sent; else nobody."""
        return {}
