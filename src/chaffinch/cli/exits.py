"""Exit codes: what each means, and which error leads to which."""

from __future__ import annotations

from chaffinch.errors import ChaffinchError

OK, USAGE, NO_PLAN, REFUSED, STORAGE, UNEXPECTED, INTERRUPTED, PIPE = 0, 2, 3, 4, 5, 70, 130, 141

MEANINGS = {
    OK: "all went well",
    USAGE: "the command, a file or a table is not as it must be",
    NO_PLAN: "nothing meets what was asked for",
    REFUSED: "refused, because the guarantee or the budget would not hold",
    STORAGE: "a file, a disk or the machine did not do what it should",
    UNEXPECTED: "a fault in chaffinch itself",
    INTERRUPTED: "stopped with Ctrl-C",
    PIPE: "the reader of a pipe went away; nothing is said",
}
"""Every code the command can end with."""

BY_ERROR = {
    "usage": USAGE,
    "invalid-input": USAGE,
    "invalid-answer": USAGE,
    "invalid-table": USAGE,
    "invalid-file": USAGE,
    "missing-extra": USAGE,
    "filter-full": USAGE,
    "no-plan-found": NO_PLAN,
    "no-parameter-found": NO_PLAN,
    "plan-mismatch": REFUSED,
    "batch-too-small": REFUSED,
    "budget-exhausted": REFUSED,
    "guarantee-not-proven": REFUSED,
    "ledger-rolled-back": REFUSED,
    "storage-fault": STORAGE,
    "randomness-unavailable": STORAGE,
    "unexpected": UNEXPECTED,
}
"""The code of an error, by the error's own word."""


class Usage(ChaffinchError):
    """Words on the command line that mean nothing."""

    code = "usage"


class Unexpected(ChaffinchError):
    """A fault in chaffinch itself; what it says of its cause is only the kind."""

    code = "unexpected"


def exit_code(error: ChaffinchError) -> int:
    """Return the exit code of an error, by its own code or by that of the class it refines.

    >>> from chaffinch.errors import BatchTooSmall
    >>> exit_code(BatchTooSmall(have=1, need=2))
    4
    """
    for kind in type(error).__mro__:
        found = BY_ERROR.get(getattr(kind, "code", ""))
        if found is not None:
            return found
    return UNEXPECTED
