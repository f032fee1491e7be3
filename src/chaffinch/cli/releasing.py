"""What a release is asked for, which budget pays, where it goes, and what is said of its charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import promise_text
from chaffinch.cli import paths
from chaffinch.cli.output import Output, spoken_command
from chaffinch.disk.kinds import Kind
from chaffinch.disk.paid_files import Bill, commit_paid_files, finish_staged
from chaffinch.disk.protected import refuse_all_but
from chaffinch.disk.staged import StagedFiles, Writer
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.ledger import Ledger
    from chaffinch.plans.plan import Plan
    from chaffinch.reach.release import ReachRelease
    from chaffinch.release.surveys import Release
    from chaffinch.wire.messages import Tally


class _Payer(Protocol):
    """Who knows what was paid for: a ledger, or the record of runs."""

    @property
    def id(self) -> str:
        """Return the name that is noted with what waits for it."""
        ...

    def is_charged(self, key: str, subject: str, /) -> bool:
        """Return whether something was paid for, durably."""
        ...


@dataclass(frozen=True)
class Account:
    """A ledger that pays, and what its file is called."""

    ledger: Ledger
    name: str

    def bill(
        self, plan_id: str, key: str, subject: str, pay: Callable[[], object], request: str = ""
    ) -> Bill:
        """Return what the ledger pays for a release; ``pay`` charges it."""
        return Bill(
            payer=self.ledger.id,
            plan_id=plan_id,
            key=key,
            subject=subject,
            pay=pay,
            paid=lambda: self.ledger.is_charged(key, subject),
            command=spoken_command(),
            request=request,
        )


@dataclass(frozen=True)
class Charged:
    """A charge that is in the ledger."""

    account: Account
    key: str
    before: bool
    """Whether it was there already, so that nothing was charged now."""

    def document(self) -> dict[str, Any]:
        """Return the charge and where it leaves the budget."""
        ledger = self.account.ledger
        return {
            "ledger": self.account.name,
            "key": self.key,
            "charged_before": self.before,
            "spent": ledger.spent().epsilon,
            "cap": {"epsilon": ledger.cap.epsilon, "delta": ledger.cap.delta},
        }

    def show(self, output: Output) -> None:
        """Print the charge and where it leaves the budget."""
        ledger = self.account.ledger
        spent = promise_text(ledger.spent().epsilon, 4)
        output.words("")
        output.words(
            ("charged before to" if self.before else "charged to")
            + f" {self.account.name}: epsilon {spent} of {ledger.cap.epsilon:g} spent"
            + ("; nothing was charged now" if self.before else "")
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
        charge.show(output)


def hand_out_release(
    files: Mapping[Path, Writer],
    account: Account | None,
    bill: Bill | None,
    check: Callable[[], object],
    output: Output,
) -> Charged | None:
    """Put the files of a release in place, paid for first if there is a bill.

    ``check`` refuses a file that must not be replaced. Returns the charge, if it is a ledger's.
    """
    before = bill is not None and bill.paid()
    commit_paid_files(files, bill, check=check, tell=output.say)
    return None if account is None or bill is None else Charged(account, bill.key, before)


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
        output=output,
    )
    for path in targets:
        output.say(f"wrote {path}")
    show_release(release, charge, output)


def finish_release(
    targets: Iterable[Path],
    payer: _Payer | None,
    output: Output,
    *,
    inputs: Sequence[str | Path],
    request: str | None = None,
) -> list[StagedFiles]:
    """Put in place what an earlier command has paid for and could not hand out any more.

    Only who was to pay knows whether it has, so what waits for another one stays.
    With a ``request``, what was paid for another request stays, too, and the command is refused;
    so is what another user left, if somebody pays.
    """

    def paid(waiting: StagedFiles) -> bool | None:
        """Return whether it is paid for; None where only another payer can say."""
        if payer is None or waiting.payer != payer.id:
            return None
        charged = payer.is_charged(waiting.key, waiting.subject)
        if charged and request is not None and waiting.request != request:
            raise InvalidInput(
                "output",
                "another one than that of a paid release that waits to be finished",
                Unquoted("one that other data, another plan or other options have paid for"),
                hint=f"{waiting.finish}; if its data is gone or was changed since, add --finish to "
                "take the release as it was paid for",
            )
        return charged

    # Another request for the same batch costs nothing, but every run makes a batch of its own.
    pays_anew = payer is not None and request is not None
    return finish_staged(targets, paid, output.say, inputs=inputs, refuse_strangers=pays_anew)


def refuse_to_replace(finished: Iterable[StagedFiles], subject: str) -> None:
    """Refuse to replace a release that nobody could see before: it came into place just now."""
    for one in finished:
        if one.subject != subject:
            raise InvalidInput(
                "output",
                "another file than that of another release",
                Unquoted("one that an earlier, stopped command has paid for"),
                hint="it is in its place now; the same command again replaces it",
            )


@dataclass(frozen=True)
class Releasing:
    """What makes a release of a tally, and pays for it."""

    level: float
    adjustment: str
    account: Account | None
    key: str | None

    @property
    def payer(self) -> _Payer | None:
        """Return the ledger that pays, if there is one."""
        return None if self.account is None else self.account.ledger

    def release(self, tally: Tally, plan: Plan, *, one_party: bool = False) -> Release:
        """Return the release, which is not paid for yet.

        It says so where ``one_party`` held all answers and added the noise.
        """
        made = cf.analyze(tally, plan, level=self.level, adjustment=self.adjustment)
        # The parties that a plan names have no part in what one party does.
        return replace(made, one_party=one_party, trust="" if one_party else made.trust)

    def bill(
        self, tally: Tally, plan: Plan, request: str = "", *, one_party: bool = False
    ) -> Bill | None:
        """Return what a ledger pays for the release; ``request`` is what was asked for."""
        from chaffinch.analysis.analyze import charge_release, release_occasion

        account = self.account
        if account is None:
            return None
        asked = account.ledger, plan, tally, self.key
        key, subject = release_occasion(*asked, of_table=one_party)
        pay = partial(charge_release, *asked, of_table=one_party)
        return account.bill(plan.id, key, subject, pay, request)


@Parameter(name="*")
@dataclass(frozen=True)
class Budget:
    """Which budget pays."""

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
    """How surely an interval holds the truth, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative", "total"] = "none"
    """Move estimates to what is possible, which biases them: at least 0 (non-negative), or
    adding up to the number of reports as well (total)."""
    ledger: Path | None = None
    """The budget that is charged before anything is released."""
    mark: Path | None = None
    """The ledger's high-water mark."""
    key: str | None = None
    """What this release is called in the ledger; without one the digest of its batch."""

    def prepare(self) -> Releasing:
        """Return what makes the release; a wish that cannot be met is refused right here."""
        from chaffinch.planning.survey_file import share_of

        return Releasing(
            level=share_of(self.level),
            adjustment=self.adjust,
            account=_open_account(self.ledger, self.mark),
            key=self.key,
        )


def _open_account(path: Path | None, mark: Path | None) -> Account | None:
    """Return the ledger that pays, if one was named; ledger and mark go together."""
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
