"""The same data again: what was released of them before, and whether one more may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.charts.rounding import promise_text
from chaffinch.cli.output import count_of, spoken_command
from chaffinch.disk.faults import storage_fault
from chaffinch.disk.paid_files import Bill
from chaffinch.disk.staged import staged_folders
from chaffinch.errors import OUTCOME_UNKNOWN, ChaffinchError, DataRepeated, InvalidInput, Unquoted
from chaffinch.ledger.runs import RunRelease, Runs, are_covered, promise_together
from chaffinch.plans.meaning import useless_promise
from chaffinch.release.surveys import Release, Together

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan
    from chaffinch.plans.protected_units import Unit
    from chaffinch.privacy import Guarantee
    from chaffinch.tables.checking import AnswerColumns
    from chaffinch.tables.fingerprint import Fingerprint
    from chaffinch.tables.read import Table
    from chaffinch.wire.messages import Tally

    Seen = Mapping[str, Fingerprint]

_HINT = (
    "nothing was released. Every release of the same data tells more about the same people: {} "
    "they would promise {} together. Use the release that is there; add --again to make another "
    "one, which will say so; or let a budget pay (--ledger)"
)


@dataclass(frozen=True)
class RepeatCheck:
    """The data of a run, as the record of runs knows them."""

    runs: Runs
    names: tuple[str, ...]
    """What they are called; by their rows last."""
    folder: Path
    """Where the results go; a release that is there is of the same people."""
    again: bool
    anyway: bool
    """Whether all releases may be made that protect nobody together."""
    paid: bool
    """Whether a ledger pays, which then decides how often."""

    @classmethod
    def of(
        cls, file_digest: str, folder: Path, *, again: bool, anyway: bool, paid: bool
    ) -> RepeatCheck:
        """Return the data in a file; those in a pipe have no name before they are read."""
        runs = Runs()
        names = (runs.name_of("file", file_digest.encode()),) if file_digest else ()
        return cls(runs, names, folder, again, anyway, paid)

    def watch(self, table: Table, places: Mapping[str, AnswerColumns]) -> tuple[Table, Seen]:
        """Return the same table and what knows its rows and answers once they are read."""
        from chaffinch.tables.fingerprint import Fingerprint, answers_in

        rows = Fingerprint(self.runs.key)
        answers = Fingerprint(self.runs.key, answers_in(places))
        return answers.watch(rows.watch(table)), {"answers": answers, "rows": rows}

    def known_by(self, seen: Seen) -> RepeatCheck:
        """Return the data, which are known by the rows and answers that were read, too."""
        names = [self.runs.name_of(kind, one.value) for kind, one in seen.items()]
        return replace(self, names=(*self.names, *names))

    def check_before_planning(self) -> None:
        """Refuse what no plan would cover; what waits in the folder has to be finished first."""
        if self.again or self.paid or staged_folders(self.folder, None, refuse_strangers=False):
            return
        before = self._releases()
        if any(one.rounds == 1 for one in before):
            raise self._repeated(before, None)

    def check(
        self,
        plan: Plan,
        round: int | None,  # noqa: A002
        unit: Unit,
    ) -> tuple[RunRelease, ...]:
        """Return the releases of the same data so far; refuse another one that nobody allowed.

        Nobody allows one with which all of them protect nobody, unless it is wanted anyway.
        """
        before, new = self._releases(), RunRelease.of(plan, round, unit)
        if plan.rounds > 1 and self.runs.units_of(new.charge.plan_id) - {unit}:
            raise InvalidInput(
                "unit of protection",
                "the same in all rounds of a plan, whose promise covers all of them",
                Unquoted("another one than in an earlier round"),
                hint="say --person or --rows-are-people as before, or plan anew",
            )
        if self.paid and not self.again:
            return before
        standing = self._standing()
        if standing and not self.runs.of_same_data(standing):
            raise DataRepeated(
                "a folder with a release that the record of runs does not know",
                hint="nothing was released, because nobody knows what both would promise "
                "together; name another folder if the people are others, or let a budget pay "
                "(--ledger, without --again)",
            )
        if are_covered((*before, new)):
            return before
        if not self.again:
            raise self._repeated(before, new)
        if not self.anyway and not self.paid:
            _refuse_useless(before, new)
        return before

    def is_released(self, plan: Plan, round: int | None, unit: Unit) -> bool:  # noqa: A002
        """Return whether the folder holds a release of these very rows, by this plan and round."""
        standing = self._standing()
        if not standing:
            return False
        new = RunRelease.of(plan, round, unit)
        made = self.runs.of_all_names([*standing, *self.names[-1:]])
        return any(replace(one, subject="") == new for one in made)

    def _releases(self) -> tuple[RunRelease, ...]:
        return self.runs.of_same_data([*self.names, *self._standing()])

    def _repeated(self, before: tuple[RunRelease, ...], new: RunRelease | None) -> DataRepeated:
        """Return what refuses another release; before there is a plan, nobody knows which one."""
        made = count_of(len(before), "release")
        which = "with another one like the last" if new is None else "with this one"
        total = _shown(_together((*before, before[-1] if new is None else new)))
        known = self.names and self.runs.of_same_data(self.names)
        got = "data" if known else "other data for a folder"
        return DataRepeated(f"{got} with {made} so far", hint=_HINT.format(which, total))

    def _standing(self) -> list[str]:
        """Return what the data of the release in the folder are called, if there is one now."""
        batch = _batch_in(self.folder / "release.json")
        return [] if batch is None else [self._batch_name(batch)]

    def _batch_name(self, batch: str) -> str:
        return self.runs.name_of("batch", batch.encode())

    def say_together(
        self,
        release: Release,
        plan: Plan,
        round: int | None,  # noqa: A002
        before: tuple[RunRelease, ...],
    ) -> Release:
        """Return the release, which says what it adds to, unless its plan covers that."""
        new = RunRelease.of(plan, round, release.unit)
        made = (*before, new)
        if not self.again or are_covered(made):
            return release
        # Of people nothing is known together where one release promised no more than rows.
        unit: Unit = "row" if any(one.unit == "row" for one in made) else "person"
        together = Together(len(made), _together(made), unit)
        return replace(release, together=together)

    def bill(
        self,
        tally: Tally,
        plan: Plan,
        before: tuple[RunRelease, ...],
        request: str,
        paid: Bill | None,
        *,
        unit: Unit,
    ) -> Bill:
        """Return what is written before the release is handed out, and after a ledger has paid."""
        made = replace(RunRelease.of(plan, tally.round, unit), subject=tally.digest)
        names = (*self.names, *self._standing(), self._batch_name(tally.name))
        if paid is None:
            return Bill(
                payer=self.runs.id,
                plan_id=plan.id,
                key=tally.digest,
                subject=tally.digest,
                pay=lambda: self.runs.add(made, names, before),
                paid=lambda: self.runs.is_charged("", tally.digest),
                command=spoken_command(),
                request=request,
            )
        # What a release says of earlier ones holds only if no other run was quicker.
        known = before if self.again else None
        return replace(paid, pay=self._noted(paid.pay, made, names, known))

    def _noted(
        self,
        pay: Callable[[], object],
        made: RunRelease,
        names: tuple[str, ...],
        known: tuple[RunRelease, ...] | None,
    ) -> Callable[[], None]:
        """Return what pays with a ledger, recorded first: a stop in between counts one too many."""

        def charge() -> None:
            self.runs.add(made, names, known)
            try:
                pay()
            except ChaffinchError as error:
                if error.reason not in OUTCOME_UNKNOWN:
                    self.runs.remove(made.subject)
                raise

        return charge


def _shown(promise: Guarantee) -> str:
    return f"({promise_text(promise.epsilon, 3)}, {promise_text(promise.delta, 2)})"


@lru_cache(maxsize=4)
def _together(releases: tuple[RunRelease, ...]) -> Guarantee:
    """Return what releases promise together, which takes a second where they ask much."""
    return promise_together(releases)


def _refuse_useless(before: tuple[RunRelease, ...], new: RunRelease) -> None:
    """Refuse a release with which all of the same data would protect nobody."""
    found = _together((*before, new))
    useless = useless_promise(found.epsilon, found.delta)
    if useless:
        made = count_of(len(before), "release")
        raise DataRepeated(
            f"{made} so far, and with this one a promise of {_shown(found)}: "
            f"{useless[0].removesuffix('.')}",
            hint="nothing was released; use a release that is there, or add --anyway to make "
            "another one still",
        )


def _batch_in(path: Path) -> str | None:
    """Return the name of the batch that a release is of, if there is one."""
    try:
        document: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None
    except (ValueError, RecursionError):
        return None
    found = document.get("batch") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None
