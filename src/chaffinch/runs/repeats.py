"""Repeated releases of the same data: which exist, and whether another one is permitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import count_of, promise_text
from chaffinch.disk.paid_files import Bill
from chaffinch.errors import OUTCOME_UNKNOWN, ChaffinchError, DataRepeated, InvalidInput, Unquoted
from chaffinch.ledger.release_record import RunRelease, are_covered, promise_together
from chaffinch.plans.meaning import useless_promise
from chaffinch.release.surveys import Release, Together

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan
    from chaffinch.plans.protected_units import Unit
    from chaffinch.privacy import Guarantee
    from chaffinch.runs.known_data import KnownData
    from chaffinch.wire.messages import Tally

_HINT = (
    "nothing was released. Every release of the same data tells more about the same people: {} "
    "they would promise {} together. Use the release that is there; add --again (again=True) to "
    "make another one, which will say so; or charge a ledger (--ledger, ledger=...)"
)


@dataclass(frozen=True)
class RepeatRules:
    """What the caller permits about other releases of the same data."""

    again: bool = False
    """Whether another release is wanted."""
    anyway: bool = False
    """Whether another release is wanted even if all together protect nobody."""
    paid: bool = False
    """Whether a ledger pays; its budget then limits the number of releases."""

    def check_before_planning(self, data: KnownData, standing: str | None) -> None:
        """Refuse a repeated release that no plan could cover, before time is spent on planning.

        ``standing`` is the batch of the release that is in the output folder now.
        """
        if self.again or self.paid:
            return
        before = data.record.of_same_data([*data.names, *_batch_names(data, standing)])
        if any(one.rounds == 1 for one in before):
            raise _repeated_error(data, before, None)

    def permit(
        self,
        data: KnownData,
        plan: Plan,
        round: int | None,  # noqa: A002
        unit: Unit,
        standing: str | None,
    ) -> Permit:
        """Return the permit for another release of the data, or refuse it.

        Also refused is a release with which all together protect nobody, unless it is wanted
        ``anyway``.
        """
        names = _batch_names(data, standing)
        before = data.record.of_same_data([*data.names, *names])
        new = RunRelease.of(plan, round, unit)
        rounds = data.record.of_plan(new.charge.plan_id) if plan.rounds > 1 else ()
        if {one.unit for one in rounds} - {unit}:
            raise InvalidInput(
                "unit of protection",
                "the same in all rounds of a plan, whose promise covers all of them",
                Unquoted("another one than in an earlier round"),
                hint="say --person (person=...) or --rows-are-people (rows_are_people=True) as "
                "before, or plan anew",
            )
        # The same data again have rules of their own.
        other = any(one.round == new.round for one in rounds if one not in before)
        permit = Permit(self, data, plan, before, new, other)
        if self.paid and not self.again:
            return permit
        if names and not data.record.of_same_data(names):
            raise DataRepeated(
                "a folder with a release that the record of runs does not know",
                hint="nothing was released, because nobody knows what both would promise "
                "together; name another folder if the people are others, or charge a ledger "
                "(--ledger, ledger=...) without asking for another release",
            )
        if are_covered((*before, new)):
            return permit
        if not self.again:
            raise _repeated_error(data, before, new)
        if not self.anyway and not self.paid:
            _refuse_without_protection(before, new)
        return permit


@dataclass(frozen=True)
class Permit:
    """A permitted release of some data, and the earlier releases of the same data."""

    rules: RepeatRules
    data: KnownData
    plan: Plan
    before: tuple[RunRelease, ...]
    new: RunRelease
    of_other_data: bool = False
    """Whether the record knows a release of this round of the plan, of other data."""

    def say_together(self, release: Release) -> Release:
        """Return the release with the joint guarantee of all, unless its plan covers them."""
        made = (*self.before, self.new)
        if not self.rules.again or are_covered(made):
            return release
        # Of people nothing is known together where one release promised no more than rows.
        unit: Unit = "row" if any(one.unit == "row" for one in made) else "person"
        earlier = tuple(one.subject for one in self.before)
        together = Together(len(made), _joint_guarantee(made), unit, earlier)
        return replace(release, together=together)

    @property
    def same_round(self) -> str:
        """Return what to know where the same round was released of other data, of other people."""
        if not self.of_other_data:
            return ""
        return (
            f"note: a release of round {self.plan_round} of this plan was made before, of other "
            f"data. The promise for all {self.plan.rounds:,} rounds covers each round of a person "
            "once: go on only if these are other people, and otherwise give this round a number "
            "of its own (--round, round=...)"
        )

    @property
    def plan_round(self) -> int:
        """Return the round as the plan numbers it, in whatever group."""
        return (self.new.round - 1) % self.plan.rounds + 1

    @property
    def note(self) -> str:
        """Return what a release that only a ledger permits does not say of earlier ones."""
        untold = not self.rules.again and not are_covered((*self.before, self.new))
        if not self.before or not untold:
            return ""
        made = count_of(len(self.before), "release")
        return (
            f"note: the record knows {made} of this data. The ledger counts what it has paid for; "
            "with --again (again=True) the release says what all of them promise together"
        )

    def bill(
        self, tally: Tally, standing: str | None, paid: Bill | None, *, command: str, request: str
    ) -> Bill:
        """Return the bill: the release is recorded, and then the ledger charged if there is one."""
        record, before = self.data.record, self.before
        made = replace(self.new, subject=tally.digest)
        batches = (*_batch_names(self.data, standing), *_batch_names(self.data, tally.name))
        names = (*self.data.names, *batches)
        if paid is None:
            return Bill(
                payer=record.id,
                plan_id=self.plan.id,
                key=tally.digest,
                subject=tally.digest,
                pay=lambda: record.add(made, names, before),
                paid=lambda: record.is_charged("", tally.digest),
                command=command,
                request=request,
            )
        # What a release says of earlier ones holds only if no other run was quicker.
        known = before if self.rules.again else None
        return replace(paid, pay=self._recorded_first(paid.pay, made, names, known))

    def _recorded_first(
        self,
        pay: Callable[[], object],
        made: RunRelease,
        names: tuple[str, ...],
        known: tuple[RunRelease, ...] | None,
    ) -> Callable[[], None]:
        record = self.data.record

        def charge() -> None:
            # The record comes first: a crash between the two leaves a release in it that nobody
            # has seen, which overcounts. The other order could leave out one that was charged.
            record.add(made, names, known)
            try:
                pay()
            except ChaffinchError as error:
                # Where the ledger may have been charged after all, the entry stays.
                if error.reason not in OUTCOME_UNKNOWN:
                    record.remove(made.subject)
                raise

        return charge


def is_released(
    data: KnownData,
    plan: Plan,
    round: int | None,  # noqa: A002
    unit: Unit,
    standing: str | None,
) -> bool:
    """Return whether the release in the folder is of these very rows, this plan and round."""
    if standing is None:
        return False
    new = RunRelease.of(plan, round, unit)
    made = data.record.of_all_names([*_batch_names(data, standing), *data.names[-1:]])
    return any(replace(one, subject="") == new for one in made)


def _batch_names(data: KnownData, batch: str | None) -> list[str]:
    return [] if batch is None else [data.record.name_of("batch", batch.encode())]


def _repeated_error(
    data: KnownData, before: tuple[RunRelease, ...], new: RunRelease | None
) -> DataRepeated:
    """Return the error for a repeated release; ``new`` is None before there is a plan."""
    made = count_of(len(before), "release")
    which = "with one more like the last" if new is None else "with this one"
    total = _shown(_joint_guarantee((*before, before[-1] if new is None else new)))
    known = data.names and data.record.of_same_data(data.names)
    got = "data" if known else "other data for a folder"
    return DataRepeated(f"{got} with {made} so far", hint=_HINT.format(which, total))


def _shown(promise: Guarantee) -> str:
    return f"({promise_text(promise.epsilon, 3)}, {promise_text(promise.delta, 2)})"


@lru_cache(maxsize=4)
def _joint_guarantee(releases: tuple[RunRelease, ...]) -> Guarantee:
    return promise_together(releases)


def _refuse_without_protection(before: tuple[RunRelease, ...], new: RunRelease) -> None:
    found = _joint_guarantee((*before, new))
    useless = useless_promise(found.epsilon, found.delta)
    if useless:
        made = count_of(len(before), "release")
        raise DataRepeated(
            f"{made} so far, and with this one a promise of {_shown(found)}: "
            f"{useless[0].removesuffix('.')}",
            hint="nothing was released; use a release that is there, or add --anyway "
            "(anyway=True) to make another one anyway",
        )
