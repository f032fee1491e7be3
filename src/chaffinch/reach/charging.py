"""A publisher's budget: one charge for each campaign key, and never a second filter of one."""

from __future__ import annotations

import hashlib

from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.ledger import Charge, Ledger
from chaffinch.reach.filter_file import Filter
from chaffinch.reach.keys import CampaignKey
from chaffinch.reach.plans import ReachPlan


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


def charge(ledger: Ledger, plan: ReachPlan, made: Filter) -> str:
    """Charge a filter and return what the ledger calls it.

    Its batch is new, so an occasion that was charged before is refused. After a fault of the
    disk it is not known whether the charge is written; the same one again settles that.
    """
    occasion = _occasion(made.key, made.publisher)
    try:
        ledger.charge(Charge.of(plan), occasion, subject=made.batch)
    except StorageFault:
        ledger.charge(Charge.of(plan), occasion, subject=made.batch)
    return occasion


def _occasion(key: str, publisher: str) -> str:
    # A long name leaves its digest: a ledger's keys are not longer than names.
    short = publisher if len(publisher) <= 100 else hashlib.sha256(publisher.encode()).hexdigest()
    return f"{key}/{short}"
