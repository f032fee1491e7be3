"""Crosses and groups of a real table: every interval for all together holds at 1 − 1e-6.

False alarm: five families of intervals at 1e-6 each.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict

import pytest

import chaffinch as cf
from chaffinch.planning.plan import Plan
from chaffinch.planning.survey_file import load_survey
from chaffinch.release.crossed import Crossed
from tests.meta import repository

FOLDER = repository.ROOT / "examples" / "flights"
TABLE = repository.ROOT / ".data" / "flights.csv"
LEVEL = 1 - 1e-6


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.load_plan(FOLDER / "groups.plan.json")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    assert TABLE.exists(), "run `make test`, which fetches the table of flights"
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def release(plan: Plan) -> cf.Release:
    columns = load_survey(FOLDER / "groups.toml").columns
    reports = cf.encode_many(TABLE, plan, columns=columns)
    return cf.analyze(cf.shuffle(reports), plan, level=LEVEL)


def crossed(release: cf.Release, name: str) -> Crossed:
    found = release.answer(name).crossed
    assert found is not None
    return found


def test_the_plan_is_that_of_the_survey(plan: Plan) -> None:
    survey = load_survey(FOLDER / "groups.toml")
    assert survey.survey.is_planned_as(plan.questions)
    assert cf.Target(plan.epsilon, plan.delta) == survey.target


def test_the_share_of_late_flights_of_every_carrier(
    release: cf.Release, rows: list[dict[str, str]]
) -> None:
    flights = Counter(row["carrier"] for row in rows)
    late = Counter(row["carrier"] for row in rows if row["delayed"] == "yes")
    found = crossed(release, "carrier × delayed")
    for row in found.of_kind("share"):
        (carrier,) = row.given
        assert row.low_together <= late[carrier] / flights[carrier] <= row.high_together
    assert {row.given for row in found.of_kind("share")} >= {("UA",), ("B6",), ("EV",), ("AS",)}
    for row in found.of_kind("margin"):
        truth = flights[row.value] if row.question == "carrier" else None
        if row.question == "delayed":
            truth = sum(late.values()) if row.value == "yes" else len(rows) - sum(late.values())
        assert truth is not None
        assert row.low_together <= truth <= row.high_together
    united = next(row for row in found.of_kind("share") if row.given == ("UA",))
    assert united.high - united.low < 0.01


def test_the_mean_delay_to_every_airport(release: cf.Release, rows: list[dict[str, str]]) -> None:
    delays = defaultdict(list)
    for flight in rows:
        delays[flight["dest"]].append(min(max(float(flight["dep_delay"] or 0), -30.0), 120.0))
    found = crossed(release, "delay by airport")
    told = [row for row in found.of_kind("mean") if row.given]
    for row in told:
        some = delays[row.given[0]]
        assert row.low_together <= sum(some) / len(some) <= row.high_together
    assert len(told) + len(found.unknown) == 105
    # Nothing is told of airports with a handful of flights, and much of the large ones.
    assert {len(delays[airport]) < 1_000 for (airport,) in found.unknown} <= {True}
    chicago = next(row for row in told if row.given == ("ORD",))
    assert chicago.standard_error < 0.5  # minutes
