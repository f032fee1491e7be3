"""Plans that this process has found already: whoever goes back to one does not wait again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from chaffinch.errors import ChaffinchError, InvalidFile
from chaffinch.planning.survey_file import SurveyFile, survey_from
from chaffinch.plans.plan import Plan

_MOST = 32
_MOST_FAULTS = 10
_FOUND: OrderedDict[tuple[str, str], tuple[SurveyFile, Plan]] = OrderedDict()


def planned(
    text: str, progress: Callable[[str], None], folder: str = ""
) -> tuple[SurveyFile, Plan]:
    """Return the survey in a text and its plan; files of values are looked for in ``folder``."""
    found = _FOUND.pop((folder, text), None)
    if found is None:
        asked = _read(text, folder)
        found = asked, asked.plan(progress)
    _FOUND[folder, text] = found
    while len(_FOUND) > _MOST:
        _FOUND.popitem(last=False)
    return found


def _read(text: str, folder: str) -> SurveyFile:
    """Return the survey in a text; its faults are told as those of fields, not of a file."""
    try:
        return survey_from(text, folder=Path(folder))
    except InvalidFile as fault:
        told = [one.removeprefix("questions.answer.") for one in fault.faults[:_MOST_FAULTS]]
        more = len(fault.faults) - len(told)
        told += [f"and {more} more"] if more else []
        lines = "".join(f"\n  - {one}" for one in told)
        raise ChaffinchError(f"This cannot be planned yet.{lines}") from None
