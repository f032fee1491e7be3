"""How a publisher hands out its filter: recorded and charged once, and never a second one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from chaffinch.disk.paid_files import Bill, commit_paid_files, finish_staged
from chaffinch.disk.protected import refuse_to_overwrite
from chaffinch.disk.staged import StagedFiles
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted
from chaffinch.ledger import Charge, Ledger
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.wire.filter_files import Filter, load_filter


def refuse_second(
    plan: ReachPlan, key: CampaignKey, publisher: str, ledger: Ledger | None = None
) -> None:
    """Refuse a key that has made a filter of this publisher, or for another plan.

    Its record, or a ledger, knows.
    """
    if ledger is not None:
        ledger.of("client")
    key.refuse_second(publisher, plan.id)
    occasion = _occasion(key.fingerprint(plan.id), publisher)
    for entry in () if ledger is None else ledger.entries():
        if entry.key == occasion:
            raise InvalidInput(
                "campaign key",
                f"one that has made no filter of {publisher!r} yet",
                Unquoted("a key whose filter was charged before"),
                hint=f"send the filter made then (SHA-256 {entry.subject[:8]}…), or start anew: "
                "all publishers need a new key",
            )


def hand_out(
    made: Filter,
    plan: ReachPlan,
    target: str | Path,
    ledger: Ledger,
    *,
    tell: Callable[[str], None] | None = None,
) -> str:
    """Save a filter that is charged, and return what the ledger calls it.

    It is in full on disk, then charged, then in its place. So a full disk costs nothing,
    nothing is handed out that was not charged, and nothing that was charged is lost: what
    could not be put in place is kept beside it, and `chaffinch reach encode` with the same
    files finishes it. ``tell`` is told so. Another filter is not replaced, nor a key or a plan.
    """

    def check() -> None:
        if not _holds_filter(target, made):
            refuse_to_overwrite(target)

    check()
    bill = _bill(made, plan, ledger, None, ledger.id)
    try:
        commit_paid_files({Path(target): made.save}, bill, check=check)
    except BaseException:
        if tell is not None and ledger.is_charged(bill.key, bill.subject):
            tell("the filter is charged and kept: the same command again puts it in its place")
        raise
    return bill.key


def _holds_filter(target: str | Path, made: Filter) -> bool:
    try:
        return load_filter(target).digest == made.digest
    except ChaffinchError:
        return False


def publish(
    made: Filter,
    plan: ReachPlan,
    key: CampaignKey,
    target: Path,
    ledger: Ledger | None,
    *,
    command: str = "",
) -> str:
    """Save a filter that is charged, if there is a ledger, and recorded for its key.

    Returns what a ledger calls it. The file must not exist yet. ``command`` is what people run
    to finish this when it was stopped.
    """
    bill = replace(_bill(made, plan, ledger, key, _payer(ledger, key)), command=command)
    commit_paid_files({target: made.save}, bill, new=True)
    return bill.key


def finish_publishing(
    plan: ReachPlan,
    key: CampaignKey,
    publisher: str,
    target: Path,
    ledger: Ledger | None,
    *,
    tell: Callable[[str], None] | None = None,
) -> Filter | None:
    """Put a filter in its place that an earlier, stopped command has charged or recorded.

    Returns None if there is none. What was neither charged nor recorded is removed: nobody
    has seen it, and the key is as good as new. Where only another ledger knows whether it was
    charged, the key makes nothing before that ledger was asked. ``tell`` is told of what waits
    for others.
    """

    def paid(waiting: StagedFiles) -> bool | None:
        """Return whether the filter may be seen; None for one of another plan or key."""
        if (waiting.plan_id, waiting.key) != (plan.id, occasion):
            return None
        before = key.made_for(publisher)
        if before is not None and before["sha256"] != waiting.subject:
            return False  # the key has made another one, so this one must never be seen
        charged = ledger is not None and ledger.is_charged(waiting.key, waiting.subject)
        if before is not None or charged:
            # Before it has its name: whoever finds it there finds it recorded.
            with key.taking(publisher, plan.id, waiting.subject):
                if ledger is not None and not charged:
                    # It was recorded by a command without this ledger, and is charged now.
                    ledger.of("client").charge(Charge.of(plan), occasion, subject=waiting.subject)
            return True
        if waiting.payer not in {_payer(one, key) for one in (None, ledger)}:
            raise InvalidInput(
                "staged filter of an interrupted command",
                "finished with the ledger that was to pay for it",
                Unquoted("another ledger, or none"),
                hint=str(waiting),
            )
        return False

    occasion = _occasion(key.fingerprint(plan.id), publisher)
    return load_filter(target) if finish_staged([target], paid, tell) else None


def _payer(ledger: Ledger | None, key: CampaignKey) -> str:
    return key.payer if ledger is None else ledger.id


def _bill(
    made: Filter, plan: ReachPlan, ledger: Ledger | None, key: CampaignKey | None, payer: str
) -> Bill:
    """Return what is paid for a filter: a charge, and a line in the record of its key."""
    occasion = occasion_of(made)

    def pay() -> None:
        # A filter's batch is new, so an occasion that was charged before is refused. A charge
        # that is refused must leave the key unused, and a key that cannot be recorded must cost
        # nothing: the record is written first, and has its name after the charge.
        facts = (made.publisher, made.plan_id, made.digest, made.batch)
        with nullcontext() if key is None else key.taking(*facts):
            if ledger is not None:
                ledger.of("client").charge(Charge.of(plan), occasion, subject=made.digest)

    def paid() -> bool:
        before = None if key is None else key.made_for(made.publisher)
        recorded = before is not None and before["sha256"] == made.digest
        return recorded or (ledger is not None and ledger.is_charged(occasion, made.digest))

    return Bill(payer=payer, plan_id=plan.id, key=occasion, subject=made.digest, pay=pay, paid=paid)


def occasion_of(made: Filter) -> str:
    """Return what a ledger calls a filter."""
    return _occasion(made.key, made.publisher)


def _occasion(key: str, publisher: str) -> str:
    # A long name leaves its digest: a ledger's keys are not longer than names.
    short = publisher if len(publisher) <= 100 else hashlib.sha256(publisher.encode()).hexdigest()
    return f"{key}/{short}"
