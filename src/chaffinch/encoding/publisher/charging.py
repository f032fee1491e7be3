"""A publisher's budget: one charge for each campaign key, and never a second filter of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from chaffinch.encoding.publisher.campaign_key import CampaignKey
from chaffinch.errors import ChaffinchError, InvalidInput, StorageFault
from chaffinch.ledger import Charge, Ledger
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.wire.filter_files import Filter


def fresh(ledger: Ledger, plan: ReachPlan, key: CampaignKey, publisher: str) -> None:
    """Refuse a key that has made a filter of this publisher before, as a ledger remembers it."""
    occasion = _occasion(key.fingerprint(plan.id), publisher)
    for entry in ledger.of("client").entries():
        if entry.key == occasion:
            raise InvalidInput(
                "campaign key",
                f"one that has made no filter of {publisher!r} yet",
                "one that was charged for it before",
                hint=f"send the filter made then (batch {entry.subject[:8]}…), or start anew: all "
                "publishers need a new key",
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
    cannot be moved into place stays under a name that an error, or ``tell``, gives.
    """
    place = Path(target)
    waiting = place.with_name(f"{place.name}.{made.batch[:8]}")
    made.save(waiting)
    try:
        occasion = _charged(ledger, plan, made)
    except BaseException:
        # Whatever stopped it, Ctrl-C included: a charge may be written all the same.
        if not _may_be_charged(ledger, made):
            waiting.unlink(missing_ok=True)
        elif tell is not None:
            tell(f"the filter is whole, in {waiting}; it may be charged: keep it, and send it")
        raise
    try:
        waiting.replace(place)
    except OSError:
        raise StorageFault(
            f"The file {place.name!r} must be possible to write. Got a failure.",
            hint=f"the filter is charged and whole, in {waiting.name}: send that one",
        ) from None
    return occasion


def _charged(ledger: Ledger, plan: ReachPlan, made: Filter) -> str:
    """Charge a filter; its batch is new, so an occasion that was charged before is refused.

    After a fault of the disk it is not known whether the charge is written; the same one again
    settles that.
    """
    occasion = _occasion(made.key, made.publisher)
    try:
        ledger.of("client").charge(Charge.of(plan), occasion, subject=made.batch)
    except StorageFault:
        ledger.charge(Charge.of(plan), occasion, subject=made.batch)
    return occasion


def _may_be_charged(ledger: Ledger, made: Filter) -> bool:
    """Return whether a ledger holds the charge of this very filter, or cannot tell."""
    try:
        return made.batch in {entry.subject for entry in ledger.entries()}
    except ChaffinchError:
        return True


def _occasion(key: str, publisher: str) -> str:
    # A long name leaves its digest: a ledger's keys are not longer than names.
    short = publisher if len(publisher) <= 100 else hashlib.sha256(publisher.encode()).hexdigest()
    return f"{key}/{short}"
