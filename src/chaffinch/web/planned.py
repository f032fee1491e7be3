"""Plans that this process has found already: whoever goes back to one does not wait again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from chaffinch.errors import ChaffinchError, InvalidFile, NoPlanFound, UselessPlan
from chaffinch.planning.survey_file import SurveyFile, survey_from
from chaffinch.plans.plan import Plan
from chaffinch.protocols.base import MESSAGES

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")
_MOST = 32
_MOST_FAULTS = 10
_FOUND: OrderedDict[tuple[str, str, str], tuple[SurveyFile, Plan]] = OrderedDict()
_TABLES: OrderedDict[str, Plan] = OrderedDict()
"""Plans with every protocol that was weighed, by what they follow from."""


def planned(
    text: str, progress: Callable[[str], None], folder: str = "", view: str = MESSAGES
) -> tuple[SurveyFile, Plan]:
    """Return the survey in a text and its plan for a view.

    Files of values are looked for in ``folder``.
    """
    found = _FOUND.pop((folder, text, view), None)
    if found is None:
        asked = read_survey(text, folder, view)
        found = asked, _plan(asked, progress)
    _keep(_FOUND, (folder, text, view), found)
    return found


def _plan(asked: SurveyFile, progress: Callable[[str], None]) -> Plan:
    """Return the plan of a survey, and beside the protocol that it names all that were weighed.

    A row of the table of all is the plan that its name alone would lead to. A name that is no row,
    such as the beginning of several, is planned by itself.
    """
    free = replace(asked, protocol=None)
    if asked.protocol is None:
        return _keep(_TABLES, free.digest, free.plan(progress))
    if not isinstance(asked.protocol, str):
        return asked.plan(progress)
    try:
        whole = _TABLES.pop(free.digest, None) or free.plan(progress)
    except (NoPlanFound, UselessPlan):
        # What the planner would have chosen is of no use; what was asked for may be.
        return asked.plan(progress)
    _keep(_TABLES, free.digest, whole)
    if asked.protocol not in {one.name for one in (whole.own, *whole.alternatives) if one}:
        return asked.plan(progress)
    return whole.choose(asked.protocol, anyway=asked.anyway)


def _keep(kept: OrderedDict[_Key, _Kept], key: _Key, one: _Kept) -> _Kept:
    """Keep what was used last; forget what was used long ago."""
    kept[key] = one
    while len(kept) > _MOST:
        kept.popitem(last=False)
    return one


def read_survey(text: str, folder: str, view: str) -> SurveyFile:
    """Return the survey in a text; its faults are told as those of fields, not of a file."""
    try:
        return survey_from(text, folder=Path(folder)).in_view(view)
    except InvalidFile as fault:
        told = [one.removeprefix("questions.answer.") for one in fault.faults[:_MOST_FAULTS]]
        more = len(fault.faults) - len(told)
        told += [f"and {more} more"] if more else []
        lines = "".join(f"\n  - {one}" for one in told)
        raise ChaffinchError(f"This cannot be planned yet.{lines}") from None
