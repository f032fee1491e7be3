"""What a service tells its operator: where everything is, and whether it adds up.

Counters are handed over at ticks, all at once: nobody who watches them sees one report come in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import chaffinch


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
class PlanStatus:
    """What became of everything that was taken for one plan."""

    plan_id: str
    title: str
    counts: Mapping[str, int]
    laws: tuple[Law, ...]
    batches: Mapping[str, int] = field(default_factory=dict)
    """How many batches are in each state."""
    crowd: int | None = None
    """With how many reports a batch leaves; None where nothing waits for a crowd."""

    @property
    def adds_up(self) -> bool:
        """Return whether everything is somewhere, once."""
        return all(law.holds(self.counts) for law in self.laws)


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

    @property
    def adds_up(self) -> bool:
        """Return whether the conservation laws hold for every plan."""
        return all(plan.adds_up for plan in self.plans)

    def document(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "service": self.service,
            "version": chaffinch.__version__,
            "adds_up": self.adds_up,
            "problems": list(self.problems),
            "keys": [{"id": number, "state": state} for number, state in self.keys.items()],
            "gauges": dict(self.gauges),
            "offers": dict(self.offers),
            "plans": [
                {
                    "plan": plan.plan_id,
                    "title": plan.title,
                    "adds_up": plan.adds_up,
                    "laws": {str(law): law.holds(plan.counts) for law in plan.laws},
                    "counts": dict(plan.counts),
                    "batches": dict(plan.batches),
                    "crowd": plan.crowd,
                }
                for plan in self.plans
            ],
        }
