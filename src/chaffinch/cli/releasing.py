"""What a release is asked for, which budget pays, where it goes, and what is said of its charge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.ledger import Ledger
    from chaffinch.planning.plan import Plan
    from chaffinch.release.surveys import Release
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
        from chaffinch.rounding import promise_text

        spent = promise_text(self.ledger.spent().epsilon, 4)
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


@Parameter(name="*")
@dataclass(frozen=True)
class Budget:
    """Which budget pays."""

    ledger: Path | None = None
    """The budget that is charged before anything is handed out."""
    mark: Path | None = None
    """The ledger's high-water mark."""

    def opened(self) -> tuple[Ledger | None, str]:
        """Return the ledger, if one was named, and its name."""
        found = paths.opened_ledger(self.ledger, self.mark)
        return found, "" if self.ledger is None else self.ledger.name


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """What a release says, and which budget pays for it."""

    level: str = "95%"
    """How surely an interval holds the truth, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative", "total"] = "none"
    """Move estimates to what is possible, which biases them: at least 0 (non-negative), or
    adding up to the number of reports as well (total)."""
    ledger: Path | None = None
    """The budget that is charged before anything is released."""
    mark: Path | None = None
    """The ledger's high-water mark."""
    key: str | None = None
    """What this release is called in the ledger; without one the name of its batch."""

    def ready(self) -> Releasing:
        """Return what makes the release; a wish that cannot be met is refused right here."""
        from chaffinch.planning.survey_file import share_of

        return Releasing(
            level=share_of(self.level),
            adjustment=self.adjust,
            ledger=paths.opened_ledger(self.ledger, self.mark),
            name="" if self.ledger is None else self.ledger.name,
            key=self.key,
        )


def release_files(out: list[Path]) -> list[Path]:
    """Refuse a file of a format that no release has, before anything is charged or counted."""
    from chaffinch.release.publication import checked_suffix

    for path in map(paths.named, out):
        checked_suffix(path)
        paths.writable(path)
    return out
