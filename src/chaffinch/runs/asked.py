"""What a run asks of a table, and of how many people: from a survey, or from an existing plan."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.disk.files import atomic, read_small
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted
from chaffinch.plans.honest_share import honest_share
from chaffinch.plans.plan import Plan, load_plan
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.questions import asked_apart
from chaffinch.runs.privacy_unit import PrivacyUnit
from chaffinch.runs.results import PLAN

if TYPE_CHECKING:
    from chaffinch.planning.survey_file import SurveyFile
    from chaffinch.questions import PublicGroup, Question
    from chaffinch.runs.listener import Listener
    from chaffinch.tables.dialect import Settings

_NOTE = ".chaffinch-survey.json"
"""Beside a plan that was made for a survey: which survey, so that the same one has it again."""
_LONGEST_NOTE = 1 << 10


@dataclass(frozen=True)
class Collection(ABC):
    """The questions of a run, and how many reports they need."""

    questions: Mapping[str, Question]
    reports: int
    """How many rows there must be."""
    columns: Mapping[str, str]
    """The columns that the survey names."""
    settings: Settings | None
    """How the survey says that the table is written."""
    privacy_unit: PrivacyUnit
    """What the survey says about people and rows."""
    group: PublicGroup | None
    """The question whose answers are public."""

    def unit_of(self, person: str | None, *, rows_are_people: bool) -> PrivacyUnit:
        """Return whose rows a table holds; these arguments come before what the survey says."""
        found = self.privacy_unit
        if person is not None or rows_are_people:
            found = replace(found, person=person, rows_are_people=rows_are_people)
        found.check(self.group)
        return found

    @property
    def is_of_all_groups(self) -> bool:
        """Return whether there are public groups and none of them was chosen."""
        return self.group is not None and self.group.value is None

    def of_group(self, value: str) -> Collection:
        """Return the collection of one public group."""
        if self.group is None:
            raise InvalidInput("group", "given for a survey with public groups only", value)
        return replace(self, group=replace(self.group, value=value))

    def planned_by(self, plan: Plan) -> Collection:
        """Return the same collection with a plan that was made for it."""
        return PlannedCollection(
            self.questions,
            self.reports,
            self.columns,
            self.settings,
            self.privacy_unit,
            self.group,
            plan,
        )

    def _for_chosen_group(self, plan: Plan) -> Plan:
        value = None if self.group is None else self.group.value
        return plan if value is None else plan.of_group(value)

    @abstractmethod
    def may_have(self, plan: Plan) -> bool:
        """Return whether a plan may be that of this collection, as far as is known by now."""

    @abstractmethod
    def kept_plan(self, folder: Path, listener: Listener, *, anyway: bool) -> Plan | None:
        """Return the plan that was made for this collection and is kept in a folder."""

    @abstractmethod
    def make_plan(self, listener: Listener, *, anyway: bool) -> Plan:
        """Return the plan: the given one, or a new one."""

    @abstractmethod
    def keep_plan(self, folder: Path, plan: Plan) -> None:
        """Save a new plan where the same survey finds it, even if its first run fails."""


@dataclass(frozen=True)
class PlannedCollection(Collection):
    """The collection of a plan that exists already; its file stays where it is."""

    plan: Plan

    def may_have(self, plan: Plan) -> bool:
        """Return whether a plan is the given one."""
        return plan.id == self._for_chosen_group(self.plan).id

    def kept_plan(self, folder: Path, listener: Listener, *, anyway: bool) -> None:
        """Return none: the given plan is the one."""
        del folder, listener, anyway

    def make_plan(self, listener: Listener, *, anyway: bool) -> Plan:
        """Return the plan that was given."""
        del listener, anyway
        return self._for_chosen_group(self.plan)

    def keep_plan(self, folder: Path, plan: Plan) -> None:
        """Do nothing: it is kept where it was."""


@dataclass(frozen=True)
class _UnplannedCollection(Collection):
    survey: SurveyFile
    left_out: Sequence[str] = ()
    """Wishes of the file that say nothing of its view."""

    def may_have(self, plan: Plan) -> bool:
        return fits_survey(plan, self.survey)

    def make_plan(self, listener: Listener, *, anyway: bool) -> Plan:
        for words in self.left_out:
            listener.say(
                f"note: {words} is about devices, and is not used for a table that one party adds "
                "up; --as-devices (as_devices=True) uses it"
            )
        with listener.thinking("planning") as tell:
            return self._for_chosen_group(self.survey.plan(tell, anyway=anyway))

    def kept_plan(self, folder: Path, listener: Listener, *, anyway: bool) -> Plan | None:
        kept = _kept_plan(folder, self.survey, anyway=anyway or self.survey.anyway)
        if kept is None:
            return None
        listener.say(f"using the plan that was made for this survey before: {folder / PLAN}")
        for words in kept.warnings:
            listener.say(f"warning: {words}")
        return self._for_chosen_group(kept)

    def keep_plan(self, folder: Path, plan: Plan) -> None:
        if _kept_plan(folder, self.survey, anyway=True) is None:
            plan.save(folder / PLAN)
            note = json.dumps({"survey": self.survey.digest, "plan": plan.id})
            with atomic(folder / _NOTE) as file:
                file.write(note.encode() + b"\n")


def planned_collection(plan: Plan) -> PlannedCollection:
    """Return the collection of a plan."""
    unit = PrivacyUnit(contributions=plan.contributions)
    return PlannedCollection(
        _questions_with_group(plan), plan.reports, {}, None, unit, plan.group, plan
    )


def collection_of(
    found: SurveyFile | Plan, plan: Plan | None, *, as_devices: bool = False
) -> Collection:
    """Return the collection of a survey, with its plan if there is one, or that of a plan.

    A survey without a plan is planned for whoever holds the table, or ``as_devices`` would answer
    it. A plan is run as what it is.
    """
    for given in (found, plan):
        if as_devices and isinstance(given, Plan) and given.view == TOTALS:
            raise InvalidInput(
                "plan",
                "one for devices, to be run as they would",
                Unquoted("one for totals"),
                hint="run it without --as-devices (as_devices=True), or plan the survey again",
            )
    if not isinstance(found, Plan):
        view = plan.view if plan is not None else MESSAGES if as_devices else TOTALS
        left_out = found.wishes_about_devices if view == TOTALS else ()
        return _surveyed_collection(found.in_view(view), plan, left_out)
    if plan is not None:
        raise InvalidInput("plan", "given once", Unquoted("two plan files"))
    return planned_collection(found)


def _surveyed_collection(
    survey: SurveyFile, plan: Plan | None, left_out: Sequence[str]
) -> Collection:
    unit = PrivacyUnit(survey.person, survey.contributions, survey.rows_are_people)
    if plan is None:
        apart, group = asked_apart(survey.survey.questions), survey.survey.group
        return _UnplannedCollection(
            apart, survey.reports, survey.columns, survey.table, unit, group, survey, left_out
        )
    if not fits_survey(plan, survey):
        raise InvalidInput(
            "plan",
            "one that asks and promises what the survey does",
            Unquoted("one for something else"),
            hint="plan the survey again with `chaffinch plan`, or leave out --plan (plan=...)",
        )
    asked = _questions_with_group(plan)
    return PlannedCollection(
        asked, plan.reports, survey.columns, survey.table, unit, plan.group, plan
    )


def _questions_with_group(plan: Plan) -> dict[str, Question]:
    group = {} if plan.group is None else {plan.group.name: plan.group.question}
    return {**group, **plan.asked}


def _kept_plan(folder: Path, survey: SurveyFile, *, anyway: bool) -> Plan | None:
    with suppress(ChaffinchError, ValueError):
        note = json.loads(read_small(folder / _NOTE, most=_LONGEST_NOTE, must_be="a note"))
        plan = load_plan(folder / PLAN)
        same = note == {"survey": survey.digest, "plan": plan.id} and fits_survey(plan, survey)
        if same and (anyway or not plan.warnings):
            return plan
    return None


def _public(group: PublicGroup | None) -> tuple[str, Question] | None:
    return None if group is None else (group.name, group.question)


def fits_survey(plan: object, survey: SurveyFile) -> bool:
    """Return whether a plan asks what a survey does, of as many, and promises no less."""
    target = survey.target
    return (
        isinstance(plan, Plan)
        and plan.view == survey.view
        and survey.survey.is_planned_as(plan.questions)
        and _public(plan.group) == _public(survey.survey.group)
        and (plan.users, plan.rounds) == (survey.users, survey.rounds)
        and plan.contributions == survey.contributions
        and plan.honest == honest_share(survey.honest)
        and (target is None or (plan.epsilon <= target.epsilon and plan.delta <= target.delta))
    )
