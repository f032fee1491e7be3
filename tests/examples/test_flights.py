"""A real table, the whole way: every estimate within its simultaneous interval at 1 − 1e-6.

False alarm: five questions at 1e-6 each, so at most 5e-6 per run. The table is fetched by
`make test` and `make flights`.
"""

from __future__ import annotations

import math
import runpy
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Encoded, Flips
from tests.examples import flights
from tests.examples.flights import FOLDER, LEVEL, TABLE

FILES = ("survey.toml", "flights.plan.json")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return flights.rows()


@pytest.fixture(scope="module")
def release() -> cf.Release:
    return flights.released(*FILES)


def test_the_plan_is_that_of_the_survey() -> None:
    survey, plan = flights.planned(*FILES)
    assert {part.name: part.question for part in plan.parts} == dict(survey.survey.questions)
    assert (plan.users, plan.title) == (survey.users, survey.survey.title)
    assert cf.Target(plan.epsilon, plan.delta) == survey.target


def test_every_flight_reported(release: cf.Release, rows: list[dict[str, str]]) -> None:
    assert release.reports == len(rows) == 336_776


@pytest.mark.parametrize(
    ("question", "column", "values"), [("destination", "dest", 105), ("carrier", "carrier", 16)]
)
def test_every_count_lies_in_its_interval(
    release: cf.Release, rows: list[dict[str, str]], question: str, column: str, values: int
) -> None:
    truth = Counter(row[column] for row in rows)
    found = list(release.answer(question).rows())
    assert len(found) == values == len(truth)
    for row in found:
        assert row.low_together <= truth[row.value] <= row.high_together
        assert row.standard_error is not None
        assert row.high_together - row.low_together < 20 * row.standard_error


def test_the_late_ones_are_counted(release: cf.Release, rows: list[dict[str, str]]) -> None:
    (row,) = release.answer("delayed").rows()
    late = sum(row["delayed"] == "yes" for row in rows)
    assert row.low_together <= late <= row.high_together


def test_the_mean_delay_is_found(release: cf.Release, rows: list[dict[str, str]]) -> None:
    (row,) = release.answer("delay").rows()
    delays = [flights.delay_of(one) for one in rows]
    assert row.low <= sum(delays) / len(delays) <= row.high
    assert row.high - row.low < 0.5  # minutes


@pytest.mark.long
def test_the_mean_of_the_flights_that_arrived(rows: list[dict[str, str]]) -> None:
    """9,430 flights have no arrival delay: they count, and the mean is that of the others."""
    table = runpy.run_path(str(FOLDER / "prepare.py"))["flights"](TABLE.parent)
    delays = [row["arr_delay"] for row in table]
    assert len(delays) == len(rows)
    known = [float(one) for one in delays if one not in ("", "NA")]
    assert len(delays) - len(known) == 9_430
    question = cf.Number(-90, 1300, unit="minutes", missing="count")
    parts = (
        Part("arrival", question, Encoded(Fraction(1, 64), 32, together=True)),
        Part("arrival (answered)", cf.Bit(), Flips(Fraction(1, 1024)), "arrival"),
    )
    plan = Plan("", parts, 300_000, 300_000, 300_000, 1, 100.0, 1.0)
    release = cf.analyze(cf.shuffle(cf.encode_many(delays, plan)), plan, level=LEVEL)
    found = {row.value: row for row in release.table()}
    truth = math.fsum(known) / len(known)
    assert truth == pytest.approx(6.9, abs=0.01)
    assert found["mean"].low <= truth <= found["mean"].high
    assert found["mean"].high - found["mean"].low < 1.5
    assert found["sum"].low <= math.fsum(known) <= found["sum"].high
    assert found["answered"].low <= len(known) <= found["answered"].high
    # As the earliest possible, or left in the middle, they would be noticed.
    as_low = (math.fsum(known) - 90 * 9_430) / len(delays)
    as_middle = (math.fsum(known) + 605 * 9_430) / len(delays)
    assert as_low < found["mean"].low
    assert as_middle > found["mean"].high


@pytest.mark.long
def test_another_truth_would_not_fit(release: cf.Release, rows: list[dict[str, str]]) -> None:
    """The intervals can fail: two hundred flights more are noticed."""
    truth = Counter(row["carrier"] for row in rows)
    missed = [
        not row.low_together <= truth[row.value] + 200 <= row.high_together
        for row in release.answer("carrier").rows()
    ]
    assert all(missed)


def test_the_release_is_written(release: cf.Release, tmp_path: Path) -> None:
    for suffix in ("json", "csv", "parquet", "html"):
        release.save(tmp_path / f"flights.{suffix}")
        assert (tmp_path / f"flights.{suffix}").stat().st_size > 1_000
