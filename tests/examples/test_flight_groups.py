"""Crosses and groups of a real table: every interval for all together holds at 1 − 1e-6.

False alarm: five families of intervals at 1e-6 each.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import chaffinch as cf
from chaffinch.release.crossed import Crossed
from tests.examples import flights

FILES = ("groups.toml", "groups.plan.json")


def crossed(name: str) -> Crossed:
    found = flights.released(*FILES).answer(name).crossed
    assert found is not None
    return found


def test_the_plan_is_that_of_the_survey() -> None:
    survey, plan = flights.planned(*FILES)
    assert survey.survey.is_planned_as(plan.questions)
    assert cf.Target(plan.epsilon, plan.delta) == survey.target


def test_the_share_of_late_flights_of_every_carrier() -> None:
    rows = flights.rows()
    all_of = Counter(row["carrier"] for row in rows)
    late = Counter(row["carrier"] for row in rows if row["delayed"] == "yes")
    found = crossed("carrier × delayed")
    for row in found.of_kind("share"):
        (carrier,) = row.given
        assert row.low_together <= late[carrier] / all_of[carrier] <= row.high_together
    assert {row.given for row in found.of_kind("share")} >= {("UA",), ("B6",), ("EV",), ("AS",)}
    for row in found.of_kind("margin"):
        truth = all_of[row.value] if row.question == "carrier" else None
        if row.question == "delayed":
            truth = sum(late.values()) if row.value == "yes" else len(rows) - sum(late.values())
        assert truth is not None
        assert row.low_together <= truth <= row.high_together
    united = next(row for row in found.of_kind("share") if row.given == ("UA",))
    assert united.high - united.low < 0.01


def test_the_mean_delay_to_every_airport() -> None:
    delays = defaultdict(list)
    for flight in flights.rows():
        delays[flight["dest"]].append(flights.delay_of(flight))
    found = crossed("delay by airport")
    told = [row for row in found.of_kind("mean") if row.given]
    for row in told:
        some = delays[row.given[0]]
        assert row.low_together <= sum(some) / len(some) <= row.high_together
    assert len(told) + len(found.unknown) == 105
    # Nothing is told of airports with a handful of flights, and much of the large ones.
    assert {len(delays[airport]) < 1_000 for (airport,) in found.unknown} <= {True}
    chicago = next(row for row in told if row.given == ("ORD",))
    assert chicago.standard_error < 0.5  # minutes
