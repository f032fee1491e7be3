"""Opening the survey argument of the Python functions: a survey file, a plan file, or a plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.planning.survey_file import SurveyFile, load_survey
from chaffinch.plans.plan import Plan, load_plan, require_plan
from chaffinch.questions import Question, Survey
from chaffinch.runs.asked import Collection, collection_of

if TYPE_CHECKING:
    from chaffinch.disk.files import AnyPath
    from chaffinch.runs.listener import Listener


class Readers(NamedTuple):
    """What reads a plan file and a survey file; the command has its own, which also read pipes."""

    plan: Callable[[Path], Plan] = load_plan
    survey: Callable[[Path], SurveyFile] = load_survey


def open_collection(
    survey: AnyPath | Plan,
    plan: AnyPath | Plan | None,
    listener: Listener,
    readers: Readers = Readers(),  # noqa: B008 - a constant
    *,
    as_devices: bool = False,
) -> Collection:
    """Return the collection of a survey or a plan, with the plan of a survey if there is one."""
    found: object = survey
    if isinstance(survey, (str, os.PathLike)):
        place = Path(survey)
        read = readers.plan if place.suffix.lower() == ".json" else readers.survey
        found = read(place)
    made = readers.plan(Path(plan)) if isinstance(plan, (str, os.PathLike)) else plan
    for one in (found, made):
        for words in one.warnings if isinstance(one, Plan) else ():
            listener.say(f"warning: {words}")
    if not isinstance(found, (Plan, SurveyFile)):
        planned = "plan it first: chaffinch.plan(survey, users=..., target=...)"
        raise InvalidInput(
            "survey",
            "the path of a survey or a plan, or a plan",
            Unquoted(f"a {type(found).__name__}"),
            hint=planned if isinstance(found, (Survey, Question)) else "",
        )
    return collection_of(found, None if made is None else require_plan(made), as_devices=as_devices)
