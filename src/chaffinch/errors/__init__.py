"""Every error chaffinch raises on purpose.

ChaffinchError                 .code (a stable word), .hint, .details (safe to log), .reason
├── InvalidInput (ValueError)  a parameter breaks its rule
├── InvalidAnswer (ValueError) an answer does not fit its question; never shows it
├── InvalidTable               a column or a row cannot be used; names place, never content
│   └── InvalidCells           cells that are no answers: all of them, counted by column
├── InvalidFile                a plan, survey or message file is wrong; lists its faults
├── PlanMismatch               two things that must belong to one plan do not
├── NoPlanFound                no protocol meets what was asked; says what would
│   └── UselessPlan            one does, and it protects nobody or says nothing
├── NoParameterFound           a calibration target that no parameter in range meets
├── GuaranteeNotProven         the width asked for was not reached; holds what was
├── BatchTooSmall              fewer reports than the plan waits for
├── BatchRepeated              a batch that is there twice, or was shuffled before
├── FilterFull                 a filter, or several together, with too few empty columns
├── BudgetExhausted            the charge does not fit into what is left
├── DataRepeated               a second release of the same data that nobody has allowed
├── NotDelivered               a service that has not taken reports; they wait
├── ClusterFault               a cluster has not done what it was asked; nothing counts
├── StorageFault               a file or disk did not do what it should
│   └── LedgerRolledBack       a ledger that has forgotten charges it once acknowledged
├── RandomnessUnavailable      no secure random bytes; raised instead of using weaker ones
└── MissingExtra               a feature that needs an optional install

Answers are private: an error about one says what is allowed and where, not what was found.
One sentence form everywhere: "The {thing} must be {rule}. Got {value}." and, when
there is something to do about it, a second line that starts with ``hint:``.
Messages are for people and may change; code that tells cases apart looks at the class, and
at ``reason`` where one class covers several cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Self

_MOST_FAULTS = 10
_MOST_CELL_FAULTS = 20
_PRIVATE = "something else, not shown because it is private"
_LONGEST_FAULT = 400
"""So many faults of a file, or kinds of faults in a table, are told, each of a file in so many
characters; of the rest, how many."""
DIFFERS = "differs from "
"""How the hint begins about an answer that is a listed value but for its spelling."""
_RESPELL = "; 'One spelling for each value' in the guide 'A table of people' has a recipe"


class Reason(Enum):
    """Which of several cases an error is about, for code that treats them differently."""

    DAMAGED = "damaged"
    """A file that is cut off, was changed, or is of another format."""
    UNKNOWN_COLUMN = "unknown-column"
    """A table has no column of the name asked for."""
    UNCERTAIN = "uncertain"
    """The storage failed while something was written: it may be there or not."""
    READER_GONE = "reader-gone"
    """Nobody reads the pipe that is written to."""
    NO_SPACE = "no-space"
    """The disk is full; what was there before is as it was."""
    BUSY = "busy"
    """Somebody else holds it; what was there before is as it was."""


RETRYABLE = (Reason.NO_SPACE, Reason.BUSY)
"""After which the same may go well later: a service waits for that, and does not end."""
OUTCOME_UNKNOWN = (Reason.UNCERTAIN, Reason.BUSY)
"""After which a charge may be in a ledger or not: asked for again, it is made once."""


class ChaffinchError(Exception):
    """The root: catch this to catch everything chaffinch raises on purpose."""

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: Mapping[str, object] | None = None,
        reason: Reason | None = None,
    ) -> None:
        self._say(message, hint)
        self.reason = reason
        self.details: Mapping[str, object] = dict(details or {})

    def _say(self, message: str, hint: str) -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint

    def add_to_hint(self, words: str) -> None:
        """Say more about what there is to do."""
        self._say(self.message, self.hint + words)

    def __reduce__(self) -> tuple[Callable[..., ChaffinchError], tuple[object, ...]]:
        # An error travels between processes as it is: what it was made from is not kept.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    kind: type[ChaffinchError], words: tuple[object, ...], facts: Mapping[str, object]
) -> ChaffinchError:
    error = kind.__new__(kind, *words)
    error.__dict__.update(facts)
    return error


class Unquoted(str):
    """What was found, in words of ours: shown without the quotes of something typed.

    >>> print(InvalidInput("plan", "given", Unquoted("none")))
    The plan must be given. Got none.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the words themselves."""
        return str(self)


class InvalidInput(ChaffinchError, ValueError):
    """A parameter breaks its rule; names the parameter, the rule and what was given."""

    code = "invalid-input"

    def __init__(self, parameter: str, must_be: str, got: object, *, hint: str = "") -> None:
        shown = _show_value(got)
        super().__init__(
            f"The {parameter} must be {must_be}. Got {shown}.",
            hint=hint,
            details={"parameter": parameter, "must_be": must_be, "got": shown},
        )
        self.parameter = parameter
        self.must_be = must_be
        self.got = got


class InvalidAnswer(ChaffinchError, ValueError):
    """An answer that the question does not allow; the message does not repeat it."""

    code = "invalid-answer"

    def __init__(self, must_be: str, *, hint: str = "") -> None:
        super().__init__(
            f"The answer must be {must_be}. Got {_PRIVATE}.",
            hint=hint,
            details={"must_be": must_be},
        )
        self.must_be = must_be


class InvalidTable(ChaffinchError):
    """A table that cannot be used: names the column and the row, never the cell's content."""

    code = "invalid-table"

    def __init__(
        self,
        must_be: str,
        got: str,
        *,
        column: str | None = None,
        row: int | None = None,
        counted: str = "",
        hint: str = "",
        reason: Reason | None = None,
    ) -> None:
        """Say how rows are counted in ``counted``."""
        place = "table" if column is None else f"column {column!r}"
        if row is not None:
            place = f"answer in {place}, row {row}{counted and f', {counted}'},"
        super().__init__(
            f"The {place} must be {must_be}. Got {got}.",
            hint=hint,
            details={"column": column, "row": row, "counted": counted, "must_be": must_be},
            reason=reason,
        )
        self.got = got
        self.column = column
        self.row = row

    def in_file(self, name: str) -> Self:
        """Return this error with the name of one of several files in its hint."""
        self._say(self.message, "; ".join(filter(None, [f"file {name!r}", self.hint])))
        return self


@dataclass(frozen=True)
class CellFaults:
    """How many cells of a column break one rule, and the first rows where; not what they hold."""

    column: str
    must_be: str
    count: int
    rows: tuple[int, ...]
    hint: str = ""
    counted: str = ""
    """How rows are counted: as a spreadsheet counts, or from 0."""

    def __str__(self) -> str:
        """Return the count, the rule and the rows in one line."""
        listed = ", ".join(f"{row:,}" for row in self.rows)
        more = ", …" if self.count > len(self.rows) else ""
        cells, rows = (f"{self.count:,} cells", "rows") if self.count > 1 else ("1 cell", "row")
        advice = f" ({self.hint})" if self.hint else ""
        rule = f"{cells} of column {self.column!r} must be {self.must_be}"
        return f"{rule}: {rows} {listed}{more}{advice}"


class InvalidCells(InvalidTable):
    """All cells of a table that are no answers, counted by column and rule; never their content.

    ``stopped`` is what ended the reading before all rows were seen, if anything did.
    """

    def __init__(
        self, faults: Sequence[CellFaults], *, stopped: InvalidTable | None = None
    ) -> None:
        first = min(faults, key=lambda one: one.rows[0])
        count, more = sum(one.count for one in faults), len(faults) - _MOST_CELL_FAULTS
        super().__init__(
            first.must_be,
            _PRIVATE,
            column=first.column,
            row=first.rows[0],
            counted=first.counted,
            hint=first.hint,
        )
        if count > 1 or stopped is not None:
            self._say(
                f"The cells of the table must be answers to the questions. Got {count:,} that "
                + ("are not" if count > 1 else "is not")
                + (f" (rows {first.counted})" if first.counted else "")
                + "\n  - ".join([":", *map(str, faults[:_MOST_CELL_FAULTS])])
                + (f"\n  - and {more} more kinds of faults" if more > 0 else "")
                + (f"\n  - then reading stopped: {stopped.message}" if stopped else ""),
                "what the cells hold is private and not shown; whoever holds the table can look at "
                "them with `chaffinch check --show`",
            )
        if any(DIFFERS in one.hint for one in faults):
            self.add_to_hint(_RESPELL)
        self.details = {**self.details, "faults": [asdict(one) for one in faults]}
        self.faults = tuple(faults)
        self.stopped = stopped

    def in_file(self, name: str) -> Self:
        """Return these faults, each with the name of one of several files in its hint."""
        hints = ["; ".join(filter(None, [f"file {name!r}", one.hint])) for one in self.faults]
        told = [replace(one, hint=hint) for one, hint in zip(self.faults, hints, strict=True)]
        return type(self)(told, stopped=self.stopped and self.stopped.in_file(name))


class InvalidFile(ChaffinchError, ValueError):
    """A plan, survey or message file that is wrong; lists its faults, the first ones of many."""

    code = "invalid-file"

    def __init__(
        self,
        file: str,
        must_be: str,
        faults: Sequence[str],
        *,
        hint: str = "",
        reason: Reason | None = None,
    ) -> None:
        found, shown = list(faults), [_shorten(fault) for fault in faults[:_MOST_FAULTS]]
        if len(found) > _MOST_FAULTS:
            shown.append(f"and {len(found) - _MOST_FAULTS} more")
        got = shown[0] if len(found) == 1 else f"{len(found)} faults:"
        tail = "" if len(found) == 1 else "".join(f"\n  - {fault}" for fault in shown)
        super().__init__(
            f"The {file} must be {must_be}. Got {got}{tail}",
            hint=hint,
            details={"file": file, "faults": shown},
            reason=reason,
        )
        self.faults = found


class PlanMismatch(ChaffinchError):
    """Messages, a tally or a release of one plan were given together with another plan."""

    code = "plan-mismatch"

    def __init__(self, thing: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"The {thing} must belong to plan {expected[:16]}. Got plan {found[:16]}.",
            hint="use the plan file that the messages were encoded with",
            details={"expected": expected, "found": found},
        )


class NoPlanFound(ChaffinchError):
    """No protocol meets the target within the limits; the hint names the nearest that do."""

    code = "no-plan-found"


class UselessPlan(NoPlanFound):
    """The plan that was asked for protects nobody, or says nothing; it can be had anyway."""

    code = "useless-plan"

    def __init__(self, warnings: Sequence[str], *, wish: str) -> None:
        super().__init__(
            f"The plan must be of use. Got one with a warning: {' '.join(warnings)}",
            hint=f"ask {wish}; `--anyway` (anyway=True) makes the plan all the same",
            details={"warnings": list(warnings)},
        )


class BatchTooSmall(ChaffinchError):
    """Fewer reports than the plan's guarantee counts on; nothing is released."""

    code = "batch-too-small"

    def __init__(self, *, have: int, need: int, counted: str = "") -> None:
        """Of a table, ``counted`` says what there is too little of: rows, or people."""
        of = f"must have {need:,} {counted}" if counted else f"must be of {need:,} reports"
        wait = "is another table meant? Otherwise" if counted else "wait for more reports, or"
        super().__init__(
            f"The {'table' if counted else 'batch'} {of} or more. Got {have:,}.",
            hint=f"{wait} plan anew with fewer users",
            details={"have": have, "need": need},
        )


class BatchRepeated(ChaffinchError):
    """A batch that is there twice, or that went into an earlier shuffle; nothing was released."""

    code = "batch-repeated"

    def __init__(self, thing: str, got: str, *, hint: str = "") -> None:
        super().__init__(
            f"The {thing} must be counted once. Got {got}.", hint=hint, details={"thing": thing}
        )


class FilterFull(ChaffinchError):
    """So many ids in so few bits that hardly a column is left empty: nothing can be counted."""

    code = "filter-full"

    def __init__(self, thing: str) -> None:
        super().__init__(
            f"The {thing} must leave enough columns empty to count by. "
            "Got hardly any, flips taken into account.",
            hint="plan again with the true sizes, or with more bits",
            details={"thing": thing},
        )


class BudgetExhausted(ChaffinchError):
    """A charge that does not fit into what is left; nothing was charged."""

    code = "budget-exhausted"

    def __init__(
        self, *, cap: float, delta: float, asked: float, spent: float, remaining: float
    ) -> None:
        super().__init__(
            f"The total of all charges must be at most epsilon {cap:.6g} at delta {delta:.3g}. "
            f"Got {asked:.6g} with this charge, of which {spent:.6g} is spent already "
            f"and {remaining:.6g} remains.",
            hint="nothing was charged; a spent budget does not come back",
            details={"cap": cap, "delta": delta, "asked": asked, "spent": spent},
        )
        self.asked = asked
        self.spent = spent
        self.remaining = remaining


class DataRepeated(ChaffinchError):
    """Data that were released, or sent, before; nothing was released or sent."""

    code = "data-repeated"

    def __init__(
        self, got: str, *, hint: str, rule: str = "The data of a run must be released"
    ) -> None:
        super().__init__(f"{rule} at most once. Got {got}.", hint=hint)


class NotDelivered(ChaffinchError):
    """A service took no reports or no filter, or gave no keys to seal for; what is made is kept."""

    code = "not-delivered"

    def __init__(
        self, service: str, got: str, *, waiting: int, advice: str = "", kept: str = ""
    ) -> None:
        usual = "`chaffinch send --resume` sends them as they are, and makes no new ones"
        super().__init__(
            f"The service of {service} must take part. Got {got}.",
            hint=f"{kept or f'reports that wait in the outbox: {waiting:,}'}; {advice or usual}",
            details={"service": service, "got": got, "waiting": waiting},
        )
        self.waiting = waiting


class ClusterFault(ChaffinchError):
    """A cluster could not be reached, or has not finished its work; nothing was acknowledged."""

    code = "cluster-fault"


class StorageFault(ChaffinchError):
    """A file or disk did not do what it should; nothing was acknowledged."""

    code = "storage-fault"


class LedgerRolledBack(StorageFault):
    """A ledger that lacks charges which its high-water mark has seen; it is not used."""

    code = "ledger-rolled-back"


class GuaranteeNotProven(ChaffinchError):
    """The bracket is wider than asked; raised instead of a guess, and says what was reached."""

    code = "guarantee-not-proven"

    def __init__(
        self,
        quantity: str,
        *,
        asked: float = 0.0,
        lower: float = 0.0,
        upper: float,
        most: float | None = None,
        hint: str = "",
    ) -> None:
        said = (
            f"The {quantity} must be proven to a relative width of {asked:g}. "
            f"Got the bracket [{lower!r}, {upper!r}]."
        )
        if most is not None:
            said = f"The {quantity} must be at most {most:g}. Got {upper:.6g}, as far as is proven."
        super().__init__(
            said,
            hint=hint,
            details={"quantity": quantity, "asked": asked, "lower": lower, "upper": upper},
        )
        self.asked = asked
        self.lower = lower
        self.upper = upper


class NoParameterFound(ChaffinchError):
    """No value of the free parameter in its range meets the target."""

    code = "no-parameter-found"


class RandomnessUnavailable(ChaffinchError):
    """There are no secure random bytes; nothing weaker is ever used instead."""

    code = "randomness-unavailable"

    def __init__(self, source: str, must: str) -> None:
        super().__init__(
            f"The {source} must {must}. Got a failure.",
            details={"source": source},
        )


class MissingExtra(ChaffinchError):
    """A feature needs a part that is not installed; names the line that installs it."""

    code = "missing-extra"

    def __init__(self, feature: str, extra: str = "", *, library: str = "") -> None:
        """Name an extra of chaffinch, or a ``library`` that is no part of it."""
        ours = (
            f"pip install '.[{extra}]' in the folder of its sources, or 'chaffinch[{extra}]' "
            "from an index that has it"
        )
        super().__init__(
            f"The {feature} must be installed first.",
            hint=f"pip install {library}" if library else ours,
            details={"feature": feature, "extra": extra},
        )


def _holds_cells(value: object) -> bool:
    """Return whether a value may be a table or a column of one; a number of numpy is none."""
    marks = ("__dataframe__", "__arrow_c_stream__", "__array__")
    marked = any(hasattr(type(value), name) for name in marks)
    return isinstance(value, Mapping) or (marked and getattr(value, "ndim", 1) != 0)


def _shorten(fault: str) -> str:
    # A file may name its things at any length.
    return fault if len(fault) <= _LONGEST_FAULT else f"{fault[: _LONGEST_FAULT - 3]}..."


def _show_value(value: object) -> str:
    if _holds_cells(value):
        return type(value).__name__  # a table in the place of something else shows no cell
    try:
        text = repr(value)
    except ValueError:  # Python shows no number of more than a few thousand digits.
        text = f"something without end ({type(value).__name__})"
    return text if len(text) <= 80 else f"{text[:77]}..."
