"""The status of a service: how many reports and batches are in which state, and what is wrong.

Counters are handed over at ticks, all at once: nobody who watches them sees one report come in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chaffinch

_UNTRIED = "not tried yet"


OUTCOMES = {
    "durable": "taken, and on the disk",
    "opened": "opened by the shuffler",
    "duplicate": "copies of reports that were taken before",
    "rejected": "never counted, for one of the reasons below",
    "waiting": "not opened yet",
    "damaged": "in segments that are not whole",
    "undecryptable": "cannot be decrypted",
    "malformed": "no reports of this plan",
    "destroyed_key": "sealed for a key that is destroyed",
    "not_given_out": "sealed for keys that this hop gave to nobody",
    "refused": "of a batch that lost too much",
    "pooled": "wait until their crowd is there",
    "batched": "went on in a batch",
    "expired": "waited too long for a crowd",
    "items": "messages that came",
    "counted": "answers that were counted",
    "dummies": "sent to look like answers",
    "replayed": "came before, and are not counted again",
}
"""What each count means, for people; an analyzer has no reasons for what it has rejected."""
_REJECTED = "never counted: not to be opened, or no messages of this plan"


def outcome_words(name: str, law: Law) -> str:
    """Return what a count means in a law."""
    return _REJECTED if (law.whole, name) == ("items", "rejected") else OUTCOMES.get(name, "")


@dataclass(frozen=True)
class Law:
    """A conservation law: one count is the sum of others, whatever happens."""

    whole: str
    parts: tuple[str, ...]

    def holds(self, counts: Mapping[str, int]) -> bool:
        """Return whether counts obey it."""
        return counts[self.whole] == sum(counts[part] for part in self.parts)

    def __str__(self) -> str:
        """Return the law as people write it."""
        return f"{self.whole} = {' + '.join(self.parts)}"


@dataclass(frozen=True)
class StuckBatch:
    """A batch that does not get on, although it is its turn."""

    id: str
    since: str
    """In words: no finer than an hour, so that nobody learns when people sent."""
    why: str
    """What came of the last try; empty if there was none yet."""
    party: str = ""
    """Who is to take it; empty if it is where it belongs."""

    @classmethod
    def of(cls, path: Path, why: str, party: str = "") -> StuckBatch:
        """Return the batch in a file, which is as old as its wait."""
        return cls(path.stem, _age_of(path), why, party)

    def __str__(self) -> str:
        """Return it as one sentence for operators."""
        why = f"{self.party} has not signed for it ({self.why})" if self.party else self.why
        return f"batch {self.id[:16]} has waited for {self.since}: {why if self.why else _UNTRIED}"


def _age_of(path: Path) -> str:
    try:
        seconds = time.time() - path.stat().st_mtime
    except OSError:
        return "a time that its file does not tell"
    hours = int(seconds // 3600)
    if hours < 1:
        return "less than an hour"
    if hours < 48:
        return f"{hours} hour" + "s" * (hours > 1)
    return f"{hours // 24} days"


@dataclass(frozen=True)
class PlanStatus:
    """What became of everything that was taken for one plan."""

    plan_id: str
    title: str
    counts: Mapping[str, int]
    laws: tuple[Law, ...]
    batches: Mapping[str, int] = field(default_factory=dict)
    """How many batches are in each state."""
    crowd: int | None = None
    """With how many reports a batch leaves; None at a later hop and the analyzer."""
    releases: tuple[str, ...] = ()
    """Where people read what was released: the address of each page."""
    stuck: tuple[StuckBatch, ...] = ()
    """Batches that cannot leave a hop, or of which an analyzer cannot release anything."""
    filters: Mapping[str, bool] = field(default_factory=dict)
    """Whether the filter of each publisher has come, for a plan of a reach."""
    has_data: bool = True
    """Whether the data of its keys is there: without it, what was taken is nowhere."""

    @property
    def verdicts(self) -> dict[Law, bool]:
        """Return for every law whether it holds."""
        return {law: self.has_data and law.holds(self.counts) for law in self.laws}

    @property
    def adds_up(self) -> bool:
        """Return whether everything is somewhere, once."""
        return all(self.verdicts.values())


@dataclass(frozen=True)
class Status:
    """What a service knew at its last tick."""

    service: str
    plans: tuple[PlanStatus, ...] = ()
    keys: Mapping[int, str] = field(default_factory=dict)
    """The state of each key, by its id."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """Other figures, such as the free bytes of the disk."""
    offers: Mapping[str, int] = field(default_factory=dict)
    """How often batches were offered to the next party, by what came of it."""
    problems: tuple[str, ...] = ()
    """Why it is not ready, in words that hold nothing private."""
    held: tuple[str, ...] = ()
    """What somebody must see to, while the service goes on with everything else."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Services that did not answer whoever looked, with the address of each."""

    @property
    def complaints(self) -> tuple[str, ...]:
        """Return all that an operator must see to: what was tried and failed, and problems."""
        stuck = (str(one) for plan in self.plans for one in plan.stuck if one.why)
        return (*self.problems, *self.held, *stuck)

    @property
    def adds_up(self) -> bool:
        """Return whether the conservation laws hold for every plan, over the data of these keys."""
        return all(plan.adds_up for plan in self.plans)

    @property
    def is_well(self) -> bool:
        """Return whether an operator has nothing to see to.

        That is more than to be ready: a service may take what comes although something it has taken
        cannot get on.
        """
        return self.adds_up and not self.complaints and not self.silent

    def document(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "service": self.service,
            "version": chaffinch.__version__,
            "adds_up": self.adds_up,
            "ready": not self.problems,
            "problems": list(self.complaints),
            "silent": dict(self.silent),
            "keys": [{"id": number, "state": state} for number, state in self.keys.items()],
            "gauges": dict(self.gauges),
            "offers": dict(self.offers),
            "plans": [
                {
                    "plan": plan.plan_id,
                    "title": plan.title,
                    "adds_up": plan.adds_up,
                    "laws": {str(law): holds for law, holds in plan.verdicts.items()},
                    "counts": dict(plan.counts),
                    "batches": dict(plan.batches),
                    "crowd": plan.crowd,
                    "releases": list(plan.releases),
                    "stuck": [
                        {"batch": one.id, "since": one.since, "why": one.why, "party": one.party}
                        for one in plan.stuck
                    ],
                    "filters": dict(plan.filters),
                }
                for plan in self.plans
            ],
        }
