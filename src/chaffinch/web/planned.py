"""Plans that this process has found already: whoever goes back to one does not wait again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from chaffinch.planning.survey_file import SurveyFile, survey_from
from chaffinch.plans.plan import Plan

_MOST = 32
_FOUND: OrderedDict[tuple[str, str], tuple[SurveyFile, Plan]] = OrderedDict()


def planned(
    text: str, progress: Callable[[str], None], folder: str = ""
) -> tuple[SurveyFile, Plan]:
    """Return the survey in a text and its plan; files of values are looked for in ``folder``."""
    found = _FOUND.pop((folder, text), None)
    if found is None:
        asked = survey_from(text, folder=Path(folder))
        found = asked, asked.plan(progress)
    _FOUND[folder, text] = found
    while len(_FOUND) > _MOST:
        _FOUND.popitem(last=False)
    return found
