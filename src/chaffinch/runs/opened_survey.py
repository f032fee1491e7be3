"""What is asked, as somebody names it in Python: a survey file, a plan file, or a plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.planning.survey_file import SurveyFile, load_survey
from chaffinch.plans.plan import Plan, load_plan
from chaffinch.runs.asked import Collection, planned_collection, surveyed_collection

if TYPE_CHECKING:
    from chaffinch.disk.files import AnyPath
    from chaffinch.runs.listener import Listener


def open_collection(
    survey: AnyPath | Plan, plan: AnyPath | Plan | None, listener: Listener
) -> Collection:
    """Return what a survey or a plan asks, with the plan of a survey if there is one."""
    found: object = survey
    if isinstance(survey, (str, os.PathLike)):
        place = Path(survey)
        found = load_plan(place) if place.suffix.lower() == ".json" else load_survey(place)
    made = load_plan(Path(plan)) if isinstance(plan, (str, os.PathLike)) else plan
    for one in (found, made):
        for words in one.warnings if isinstance(one, Plan) else ():
            listener.say(f"warning: {words}")
    if isinstance(found, SurveyFile):
        return surveyed_collection(found, made)
    if not isinstance(found, Plan):
        raise InvalidInput("survey", "the path of a survey or a plan, or a plan", type(survey))
    if made is not None:
        raise InvalidInput("plan", "given once", Unquoted("two plans"))
    return planned_collection(found)
