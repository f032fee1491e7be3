"""How a service ends that must not go on."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from chaffinch.errors import ChaffinchError

FAILED = 5
"""The exit code of a process whose disk has failed."""


def end_process(what: str, fault: BaseException) -> NoReturn:
    """End the process at once: what is not acknowledged by now never is.

    Of a fault that is none of ours only the kind is told: its words may hold what was sent.
    """
    said = str(fault) if isinstance(fault, ChaffinchError) else type(fault).__name__
    sys.stderr.write(f"{what} has failed, and this process ends. {said}\n")
    sys.stderr.flush()
    os._exit(FAILED)
