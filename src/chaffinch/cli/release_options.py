"""Options of a release and its budget; writing and printing a release and its charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from chaffinch.charts.rounding import promise_text
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import refuse_all_but
from chaffinch.errors import InvalidInput
from chaffinch.runs.payment import Account, Charged, ReleaseTerms, hand_out_release

if TYPE_CHECKING:
    from chaffinch.disk.paid_files import Bill
    from chaffinch.reach.release import ReachRelease
    from chaffinch.release.surveys import Release


def show_charge(charge: Charged, output: Output) -> None:
    """Print a charge and where it leaves the budget."""
    ledger = charge.account.ledger
    spent = promise_text(ledger.spent().epsilon, 4)
    output.words("")
    output.words(
        ("charged before to" if charge.before else "charged to")
        + f" {charge.account.name}: epsilon {spent} of {ledger.cap.epsilon:g} spent"
        + ("; nothing was charged now" if charge.before else "")
    )


def show_release(
    release: Release | ReachRelease,
    charge: Charged | None,
    output: Output,
    *,
    files: Sequence[str] = (),
) -> None:
    """Print a release and its charge; a document tells of its files, too, if there are any."""
    if output.json:
        told = release.document()
        told = {"release": told, "files": list(files)} if files else told
        output.document(told | ({} if charge is None else {"charge": charge.document()}))
        return
    output.drawing(release.text(width=output.width))
    if charge is not None:
        show_charge(charge, output)


def write_release(
    release: Release | ReachRelease,
    targets: Sequence[Path],
    account: Account | None,
    bill: Bill | None,
    *,
    inputs: Sequence[str | Path],
    output: Output,
) -> None:
    """Write a release to files, paid for first if there is a bill, and print it."""
    charge = hand_out_release(
        dict.fromkeys(targets, release.save),
        account,
        bill,
        check=lambda: release_files(targets, inputs),
        tell=output.say,
    )
    for path in targets:
        output.say(f"wrote {path}")
    show_release(release, charge, output)


@Parameter(name="*")
@dataclass(frozen=True)
class Budget:
    """The budget that pays."""

    ledger: Path | None = None
    """The budget that is charged before anything is handed out."""
    mark: Path | None = None
    """The ledger's high-water mark."""

    def open(self) -> Account | None:
        """Return the ledger that pays, if one was named."""
        return _open_account(self.ledger, self.mark)


@Parameter(name="*")
@dataclass(frozen=True)
class ReleaseOptions:
    """What a release says, and which budget pays for it."""

    level: str = "95%"
    """The confidence level of the intervals, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative", "total"] = "none"
    """Move estimates to possible values, which biases them: to at least 0 (non-negative), or also
    so that they add up to the number of reports (total)."""
    ledger: Path | None = None
    """The budget that is charged before anything is released."""
    mark: Path | None = None
    """The ledger's high-water mark."""
    key: str | None = None
    """The name of this release in the ledger; by default the digest of its batch."""

    def prepare(self) -> ReleaseTerms:
        """Return what makes the release; a wish that cannot be met is refused right here."""
        from chaffinch.planning.survey_file import share_of

        return ReleaseTerms(
            level=share_of(self.level),
            adjustment=self.adjust,
            account=_open_account(self.ledger, self.mark),
            key=self.key,
        )


def _open_account(path: Path | None, mark: Path | None) -> Account | None:
    if (path is None) != (mark is None):
        raise InvalidInput(
            "ledger", "named together with its mark", str(path or mark), hint="add --mark FILE"
        )
    if path is None or mark is None:
        return None
    return Account(paths.open_ledger(path, mark), path.name)


def release_files(out: Sequence[Path], inputs: Sequence[str | Path]) -> Sequence[Path]:
    """Refuse files that no release can be written to, before anything is charged or counted."""
    from chaffinch.release.publication import check_suffix

    for path in map(paths.require_name, out):
        check_suffix(path)
        paths.require_writable(path, inputs, replaceable=Kind.RELEASE)
        refuse_all_but(Kind.RELEASE, path)
    return out
