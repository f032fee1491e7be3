"""Payment for releases: who pays, in which order, and how an interrupted release is finished.

The order is: all files of a release are staged on disk, the payment is made durable, and then the
files are put in place (``disk.paid_files``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chaffinch.disk.paid_files import Bill, commit_paid_files, finish_staged
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.disk.staged import StagedFiles, Writer
    from chaffinch.ledger import Ledger
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release
    from chaffinch.wire.messages import Tally


class Payer(Protocol):
    """Whoever pays and knows what has been paid: a ledger, or the record of releases."""

    @property
    def id(self) -> str:
        """Return the identifier that is stored with staged files."""
        ...

    def is_charged(self, key: str, subject: str, /) -> bool:
        """Return whether a payment is durable."""
        ...


@dataclass(frozen=True)
class Account:
    """A ledger that pays, and the name of its file."""

    ledger: Ledger
    name: str

    def bill(  # noqa: PLR0917 - what is written on it
        self,
        plan_id: str,
        key: str,
        subject: str,
        pay: Callable[[], object],
        command: str,
        request: str = "",
    ) -> Bill:
        """Return the bill of a release for the ledger; ``pay`` charges it.

        ``command`` is what finishes the release after an interruption.
        """
        return Bill(
            payer=self.ledger.id,
            plan_id=plan_id,
            key=key,
            subject=subject,
            pay=pay,
            paid=lambda: self.ledger.is_charged(key, subject),
            command=command,
            request=request,
        )


@dataclass(frozen=True)
class Charged:
    """A charge in the ledger."""

    account: Account
    key: str
    before: bool
    """Whether it was charged before, so that nothing was charged now."""

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


@dataclass(frozen=True)
class ReleaseTerms:
    """Options of a release: confidence level, adjustment, and the ledger that pays."""

    level: float = 0.95
    adjustment: str = "none"
    account: Account | None = None
    key: str | None = None
    """The name of the release in the ledger; by default the digest of its batch."""

    def __post_init__(self) -> None:
        from chaffinch.analysis.analyze import check_wishes

        object.__setattr__(self, "level", check_wishes(self.level, self.adjustment))
        if not (self.key is None or isinstance(self.key, str)):
            raise InvalidInput("key", "a text", type(self.key).__name__)

    @property
    def payer(self) -> Payer | None:
        """Return the ledger that pays, if there is one."""
        return None if self.account is None else self.account.ledger

    def release(self, tally: Tally, plan: Plan, *, one_party: bool = False) -> Release:
        """Return the release, which is not paid for yet.

        With ``one_party`` it states that one party held all answers and added the noise.
        """
        from chaffinch.analysis.analyze import analyze

        made = analyze(tally, plan, level=self.level, adjustment=self.adjustment)
        # The parties that a plan names have no part in what one party does.
        return replace(made, one_party=one_party, trust="" if one_party else made.trust)

    def bill(
        self, tally: Tally, plan: Plan, *, command: str, request: str = "", one_party: bool = False
    ) -> Bill | None:
        """Return the bill of the release if a ledger pays; ``request`` names what was asked for."""
        from chaffinch.analysis.analyze import charge_release, release_occasion

        account = self.account
        if account is None:
            return None
        asked = account.ledger, plan, tally, self.key
        key, subject = release_occasion(*asked, of_table=one_party)
        pay = partial(charge_release, *asked, of_table=one_party)
        return account.bill(plan.id, key, subject, pay, command, request)


def hand_out_release(
    files: Mapping[Path, Writer],
    account: Account | None,
    bill: Bill | None,
    check: Callable[[], object],
    tell: Callable[[str], object],
) -> Charged | None:
    """Stage the files of a release, pay the bill if there is one, and put the files in place.

    ``check`` refuses to replace a protected file. Returns the charge if a ledger has paid.
    """
    # Asked before the commit, which pays: afterwards every bill is paid.
    before = bill is not None and bill.paid()
    commit_paid_files(files, bill, check=check, tell=tell)
    return None if account is None or bill is None else Charged(account, bill.key, before)


def finish_release(
    targets: Iterable[Path],
    payer: Payer | None,
    tell: Callable[[str], None],
    *,
    inputs: Sequence[str | Path],
    request: str | None = None,
) -> list[StagedFiles]:
    """Put in place the staged files of an earlier command that has paid and was interrupted.

    Only the payer knows whether it has paid, so files staged for another payer stay.
    With a ``request``, files that were paid for another request also stay, and the command is
    refused; it is also refused if another user has left staged files and somebody pays.
    """

    def paid(waiting: StagedFiles) -> bool | None:
        """Return whether it is paid for; None if only another payer knows."""
        if payer is None or waiting.payer != payer.id:
            # Removing files that another ledger has paid for would lose their release.
            return None
        charged = payer.is_charged(waiting.key, waiting.subject)
        if charged and request is not None and waiting.request != request:
            raise InvalidInput(
                "output",
                "one without a paid release that is still to be finished",
                Unquoted(
                    "a release that was paid for with other data, another plan or other options"
                ),
                hint=f"{waiting.finish}; if its data is gone or was changed since, add --finish "
                "(chaffinch.finish_run) to take the release as it was paid for",
            )
        return charged

    # Another request for the same batch costs nothing, but every run makes a batch of its own.
    pays_anew = payer is not None and request is not None
    return finish_staged(targets, paid, tell, inputs=inputs, refuse_strangers=pays_anew)


def refuse_to_replace(
    finished: Iterable[StagedFiles], subject: str, *, how: str = "the same command again"
) -> None:
    """Refuse to replace a release that was put in place just now: nobody has seen it yet."""
    for one in finished:
        if one.subject != subject:
            raise InvalidInput(
                "output",
                "a new file, or that of the same release",
                Unquoted("a release that an earlier, interrupted command has paid for"),
                hint=f"that release is in place now; {how} replaces it",
            )
