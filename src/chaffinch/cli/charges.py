"""What a release cost: the words and the document about its charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.ledger import Ledger
    from chaffinch.planning.plan import Plan
    from chaffinch.release.release import Release
    from chaffinch.wire.messages import Tally


@dataclass(frozen=True)
class Charged:
    """A charge that is in the ledger."""

    ledger: Ledger
    name: str
    key: str
    before: bool
    """Whether it was there already, so that nothing was charged now."""

    def document(self) -> dict[str, Any]:
        """Return the charge and where it leaves the budget."""
        return {
            "ledger": self.name,
            "key": self.key,
            "charged_before": self.before,
            "spent": self.ledger.spent().epsilon,
            "cap": {"epsilon": self.ledger.cap.epsilon, "delta": self.ledger.cap.delta},
        }

    def show(self, output: Output) -> None:
        """Print the charge and where it leaves the budget."""
        from chaffinch.rounding import at_most

        spent = at_most(self.ledger.spent().epsilon, 4)
        output.words("")
        output.words(
            ("charged before to" if self.before else "charged to")
            + f" {self.name}: epsilon {spent} of {self.ledger.cap.epsilon:g} spent"
            + ("; nothing was charged now" if self.before else "")
        )


@dataclass(frozen=True)
class Releasing:
    """What makes a release, and says what it was charged as."""

    level: float
    adjustment: str
    ledger: Ledger | None
    name: str
    key: str | None

    def __call__(self, tally: Tally, plan: Plan) -> tuple[Release, Charged | None]:
        """Return the release, charged if there is a ledger."""
        from chaffinch import analyze

        key = self.key or tally.batch
        known = self.ledger is not None and key in {one.key for one in self.ledger.entries()}
        release = analyze(
            tally,
            plan,
            level=self.level,
            adjustment=self.adjustment,
            ledger=self.ledger,
            key=self.key,
        )
        if self.ledger is None:
            return release, None
        return release, Charged(self.ledger, self.name, key, known)
