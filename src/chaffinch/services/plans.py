"""The plans that a service runs: of surveys, and of a reach across publishers."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from chaffinch.planning.audiences import plan as audiences
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.planning.plan import Plan, load_plan
from chaffinch.storage.files import read_small

AnyPlan = Plan | ReachPlan
_LARGEST = 1 << 30


def load_any(path: Path) -> AnyPlan:
    """Return the plan in a file, of whichever kind it says; refuse one with anything amiss."""
    content = read_small(path, most=_LARGEST, must_be="a plan")
    with suppress(ValueError, RecursionError):  # whoever reads it tells what is wrong
        document = json.loads(content)
        if isinstance(document, dict) and document.get("format") == audiences.FORMAT:
            return audiences.load_plan(path)
    return load_plan(path)
