"""The table of flights, its true rows, and what is released of it at a level of 1 − 1e-6."""

from __future__ import annotations

import csv
from functools import cache

import chaffinch as cf
from chaffinch.planning.survey_file import SurveyFile, load_survey
from chaffinch.plans.plan import Plan
from tests.meta import repository

FOLDER = repository.ROOT / "examples" / "flights"
TABLE = repository.ROOT / ".data" / "flights.csv"
LEVEL = 1 - 1e-6


@cache
def rows() -> list[dict[str, str]]:
    """Return all flights."""
    assert TABLE.exists(), "run `make test`, which fetches the table of flights"
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def delay_of(flight: dict[str, str]) -> float:
    """Return the delay of a departure as the surveys count it."""
    return min(max(float(flight["dep_delay"] or 0), -30.0), 120.0)


def planned(survey: str, plan: str) -> tuple[SurveyFile, Plan]:
    """Return a survey of the example and the plan that is kept beside it."""
    return load_survey(FOLDER / survey), cf.load_plan(FOLDER / plan)


@cache
def released(survey: str, plan: str) -> cf.Release:
    """Return what a survey releases of the table."""
    file, used = planned(survey, plan)
    reports = cf.encode_many(TABLE, used, columns=file.columns)
    return cf.analyze(cf.shuffle(reports), used, level=LEVEL)
