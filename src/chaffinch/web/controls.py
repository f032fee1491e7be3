"""What options of commands are called on the pages: who reads a fault here has no command line."""

from __future__ import annotations

import re

CONTROLS = {
    "rows-are-people": "each row is a person",
    "person": "column of people",
    "round": "round",
    "ledger": "a ledger pays",
    "mark": "its mark",
    "again": "again",
    "replace": "replace",
    "as-devices": "as devices would send it",
    "shuffled": "a shuffler stands between",
}
"""The labels of controls, by the options that they stand for."""
_OPTION = re.compile(r"`?--([a-z-]+)`?(?: [A-Z]+)?(?:, [a-z_]+=[^\s)]*| \([a-z_]+=[^)]*\))")
"""An option beside its argument in Python, as all faults name both."""


def named_as_here(words: str) -> str:
    """Return what is said of options, in words for somebody who sees their controls.

    >>> named_as_here("add --again (again=True) to make another one")
    'add ‘again’ to make another one'
    >>> named_as_here("charge a ledger (--ledger, ledger=...), or take `--anyway` (anyway=True)")
    'charge a ledger (‘a ledger pays’), or take `--anyway` on the command line'
    """
    return _OPTION.sub(_control, words)


def _control(option: re.Match[str]) -> str:
    name = option.group(1)
    label = CONTROLS.get(name)
    return f"`--{name}` on the command line" if label is None else f"‘{label}’"
