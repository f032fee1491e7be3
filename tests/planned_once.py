"""Plans made once: for tests of what is done with plans, which is not how they are found.

A plan follows from what was asked for and from nothing else. To find it takes longer than most
things that are then done with it, and the same few surveys are asked for again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

from chaffinch.planning import planner, survey_file
from chaffinch.reach.planning import reach_planner


def made_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a planner that finds each plan once, and tells how it is found each time."""
    made: dict[str, tuple[Any, list[str]]] = {}

    @wraps(make)
    def plan(*asked: Any, progress: Callable[[str], None] | None = None, **wishes: Any) -> Any:
        key = repr((asked, sorted(wishes.items())))
        if key not in made:
            told: list[str] = []
            made[key] = make(*asked, progress=told.append, **wishes), told
        found, told = made[key]
        if progress is not None:
            for word in told:
                progress(word)
        return found

    return plan


_SURVEYS = made_once(planner.plan)
_AUDIENCES = made_once(reach_planner.plan)


# For a module and not longer: the next one may be about the planner.
@pytest.fixture(autouse=True, scope="module")
def plans_are_made_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "plan", _SURVEYS)
        patch.setattr(survey_file, "plan", _SURVEYS)
        patch.setattr(reach_planner, "plan", _AUDIENCES)
        yield
