"""Crossed questions and groups: how they are asked, planned, kept and told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.errors import (
    BatchTooSmall,
    InvalidAnswer,
    InvalidCells,
    InvalidFile,
    InvalidInput,
    PlanMismatch,
)
from chaffinch.planning.candidates import Task
from chaffinch.planning.levels import _best_levels, count_error, group_error, with_levels
from chaffinch.planning.survey_file import survey_from
from chaffinch.plans.expansion import Asked
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.protocols import Decoys, Flips
from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import Cross, Question
from chaffinch.release.surveys import read_release
from chaffinch.simulate import SeededWords, audit, from_column

CARRIER = cf.Choice(["AA", "UA"], missing="refuse")
AIRPORT = cf.Choice(["EWR", "JFK", "LGA"], missing="refuse")
DELAY = cf.Number(-30, 120, "minutes", clip=True)
LEVELLED = Cross({"airport": AIRPORT, "delay": DELAY}, levels=4)


def plan_of(*parts: Part) -> Plan:
    return Plan("", parts, users=200, reports=200, crowd=1, rounds=1, epsilon=40.0, delta=0.5)


@pytest.fixture(scope="module")
def crossed() -> Plan:
    questions: dict[str, Question] = {
        "carrier": CARRIER,
        "delayed": cf.Bit(),
        "airport": AIRPORT,
        "delay": DELAY,
    }
    survey = cf.Survey(questions, cross=["carrier", "delayed"], by={"delay": "airport"})
    return cf.plan(survey, users=5_000, target=cf.Target(2, 1e-6), local_epsilon=50)


def test_a_survey_plans_every_cross_once_and_the_rest_alone() -> None:
    questions: dict[str, Question] = {"a": CARRIER, "b": cf.Bit(), "c": cf.Bit(), "d": DELAY}
    survey = cf.Survey(questions, cross=[("a", "b"), ("a", "c")], by={"d": "a"})
    assert list(survey.planned) == ["a × b", "a × c", "d by a"]
    assert list(cf.Survey(questions, cross=["b", "c"]).planned) == ["a", "b × c", "d"]
    assert dict(cf.Survey(questions).planned) == questions


@pytest.mark.parametrize(
    ("cross", "by"),
    [
        (["a"], {}),
        (["a", "a"], {}),
        (["a", "nobody"], {}),
        ([("a", "b"), "a"], {}),
        (["d", "a"], {}),  # a number stands last
        (["a", "f"], {}),  # flags have no one answer
        ([], {"b": "nobody"}),
        ([], {"b": "b"}),
        ([], {"a": "d"}),
    ],
)
def test_what_cannot_be_crossed_is_refused(cross: list[str], by: dict[str, str]) -> None:
    questions: dict[str, Question] = {"a": CARRIER, "b": cf.Bit(), "d": DELAY, "f": cf.Flags(["x"])}
    with pytest.raises(InvalidInput):
        cf.Survey(questions, cross=cross, by=by)


def test_a_cross_that_is_too_large_names_its_sizes() -> None:
    long = cf.Choice(range(1, 2001), missing="refuse")
    with pytest.raises(InvalidInput, match="2000 × 2000 = 4000000") as fault:
        cf.Cross({"here": long, "there": long})
    assert "'here' × 'there'" in str(fault.value)
    assert "at most 1,000,000" in str(fault.value)


def test_a_number_of_unchosen_levels_cannot_be_sent() -> None:
    with pytest.raises(InvalidInput, match="levels"):
        Part("x", replace(LEVELLED, levels=None), Decoys(1, Fraction(1, 2))).labels  # noqa: B018
    with pytest.raises(InvalidInput, match="quantiles"):
        Cross({"a": CARRIER, "d": replace(DELAY, quantiles=True)})
    with pytest.raises(InvalidInput, match="levels"):
        Cross({"a": CARRIER, "b": cf.Bit()}, levels=3)


def test_levels_are_those_of_the_smallest_error() -> None:
    for spread, people in ((8.0, 1e4), (2.0, 300.0), (50.0, 100.0), (0.1, 1e5)):
        chosen = _best_levels(spread, people, 1000)
        errors = [group_error(spread, people, levels) for levels in range(2, 1001)]
        assert group_error(spread, people, chosen) == min(errors)
    assert _best_levels(0.1, 1e9, 7) == 7
    assert _best_levels(1e9, 10, 0) in {2, 3}


@pytest.mark.parametrize(
    ("spread", "reports", "max_messages", "groups", "levels"),
    [
        (4.0, 1_200, 16, 3, 6),  # of 166: there is room for 16 · 1,000 / (2 · 4²) = 500 cells
        (8.0, 10**6, 8, 3, 20),
        (8.0, 10**6, 1, 3, 2),
        (0.01, 10**12, 16, 3, 1000),
        (0.01, 10**12, 16, 2000, 500),  # of a million cells
    ],
)
def test_levels_fit_into_half_of_the_room_that_reports_have(
    spread: float, reports: int, max_messages: int, groups: int, levels: int
) -> None:
    cross = Cross({"group": cf.Choice(range(groups), missing="refuse"), "delay": DELAY})
    asked = (Asked("delay", cross), Asked("carrier", CARRIER), Asked("chosen", LEVELLED))
    task = with_levels(Task(asked, 1_000, reports, 1, max_messages), spread)
    found = [one.question for one in task.questions]
    assert found == [replace(cross, levels=levels), CARRIER, LEVELLED]
    assert [one.name for one in task.questions] == ["delay", "carrier", "chosen"]


def test_the_error_of_a_count_is_about_that_of_two_counts_that_move() -> None:
    task = Task((Asked("a", CARRIER), Asked("b", cf.Bit())), 1_000, 1_000, 3, 8)
    assert count_error(task, (1.0, 1e-6)) == pytest.approx(
        math.sqrt(2 * 6) / gaussian_mu(1.0, 1e-6)
    )


def test_the_error_of_a_group_is_that_of_simulated_ones() -> None:
    """People in the middle between two levels: the largest rounding there is."""
    spread, people, levels, runs = 6.0, 400, 4, 20_000
    draws = np.random.default_rng(1)
    ups = draws.binomial(people, 0.5, runs)
    counts = np.zeros((runs, levels))
    counts[:, 1], counts[:, 2] = people - ups, ups
    noisy = counts + draws.normal(0, spread, counts.shape)
    means = noisy @ (np.arange(levels) / (levels - 1)) / noisy.sum(axis=1)
    assert means.std() == pytest.approx(group_error(spread, people, levels), rel=0.03)


def test_a_plan_with_crosses_is_kept_and_proven(crossed: Plan) -> None:
    again = plan_from(json.dumps(crossed.document()))
    assert again == crossed
    assert again.id == crossed.id
    again.verify()
    levels = crossed.parts[1].question.levels  # type: ignore[union-attr]
    assert levels is not None
    assert levels >= 2
    assert list(crossed.asked) == ["carrier", "delayed", "airport", "delay"]


def test_what_a_plan_says_of_crosses(crossed: Plan) -> None:
    said = crossed.explain()
    assert said.startswith("The promise covers one person's 4 answers together")
    assert "carrier and delayed are sent together, as one of 4 cells" in said
    assert "move from one group to another" in said
    assert "rounded by chance to one of" in said


def test_one_device_and_many_send_the_same_cells() -> None:
    """Without any decoys to speak of, what is sent is the cell itself."""
    part = Part("delay by airport", LEVELLED, Decoys(1, Fraction(1, 1 << 64)))
    plan, words = plan_of(part), SeededWords(1)
    sent = [
        encode_with({"airport": name, "delay": delay}, plan, words).codes[0]
        for name in ("EWR", "JFK", "LGA")
        for delay in (-30, 20, 70, 120, 500)
    ]
    assert sent == [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 11]
    table = {"airport": ["JFK", "LGA"], "delay": [20, "70"]}
    found = from_column(plan, table).truths[0].counts
    assert np.flatnonzero(found).tolist() == [5, 10]


def test_a_gap_that_counts_is_above_all_levels() -> None:
    """Means are of those who answered; a gap is a cell of its own, on a device and in a table."""
    gapped = replace(
        LEVELLED, questions={"airport": AIRPORT, "delay": replace(DELAY, missing="count")}
    )
    assert gapped.sizes == (3, 5)
    plan = plan_of(Part("delay by airport", gapped, Decoys(1, Fraction(1, 1 << 64))))
    answer = {"airport": "JFK", "delay": None}
    assert encode_with(answer, plan, SeededWords(1)).codes[0] == 9
    table = {"airport": ["JFK", "JFK"], "delay": [None, 120]}
    assert np.flatnonzero(from_column(plan, table).truths[0].counts).tolist() == [8, 9]


@pytest.mark.long
def test_a_number_between_two_levels_is_rounded_by_chance_without_bias() -> None:
    part = Part("delay by airport", LEVELLED, Decoys(1, Fraction(1, 1 << 64)))
    runs, words = 40_000, SeededWords(2)
    # 32.5 minutes is a quarter of the way from the second level to the third, of airport JFK.
    place = LEVELLED.number({"airport": "JFK", "delay": 32.5})
    assert place == 4 + 1.25
    sent = encode_numbers(plan_of(part), [np.full(runs, place)], runs, words).messages
    assert set(sent.tolist()) == {5, 6}
    # 5 standard errors: a false alarm has a chance below 1e-6.
    assert abs(sent.mean() - place) < 5 * np.sqrt(0.25 * 0.75 / runs)
    alone = np.array(
        [
            encode_with({"airport": "JFK", "delay": 32.5}, plan_of(part), words).codes[0]
            for _ in range(4_000)
        ]
    )
    assert abs(alone.mean() - place) < 5 * np.sqrt(0.25 * 0.75 / 4_000)


def test_answers_in_a_cell_fall_into_it() -> None:
    for question in (LEVELLED, Cross({"a": cf.Bit("count"), "b": CARRIER, "c": cf.Bit()})):
        cells = [question.number(question.answers_in(one)) for one in range(len(question.labels))]
        assert cells == list(range(len(question.labels)))


def test_an_audit_attacks_a_cross() -> None:
    """The attacker's two answers are cells; one device and the tallies must have one law."""
    part = Part("delay by airport", LEVELLED, Flips(Fraction(1, 8), 1, 12))
    plan = Plan("", (part,), users=3, reports=3, crowd=3, rounds=1, epsilon=4.0, delta=0.5)
    plan = replace(plan, epsilon=plan.mechanism().epsilon(0.01).upper, delta=0.01)
    found = audit(plan, trials=2_000, seed=1)
    assert found.ok


@pytest.mark.parametrize("answer", ["AA", {"carrier": "AA"}, {"carrier": "AA", "delay": 1}, 3])
def test_an_answer_to_a_cross_names_every_question(answer: object) -> None:
    plan = plan_of(
        Part("q", Cross({"carrier": CARRIER, "delayed": cf.Bit()}), Flips(Fraction(1, 4), 1, 4))
    )
    with pytest.raises((InvalidAnswer, InvalidInput)):
        encode_with(answer, plan, SeededWords(1))


def test_faults_in_the_columns_of_a_cross_are_told_together(crossed: Plan) -> None:
    table = {
        "carrier": ["AA", "XX", "UA"],
        "delayed": ["yes", "no", "maybe"],
        "airport": ["EWR"] * 3,
        "delay": [1, 2, 3],
    }
    with pytest.raises(InvalidCells) as fault:
        cf.encode_many(table, crossed)
    assert {one.column for one in fault.value.faults} == {"carrier", "delayed"}
    assert "XX" not in str(fault.value)


def test_a_release_of_crosses(crossed: Plan) -> None:
    draws = np.random.default_rng(3)
    table = {
        "line": draws.choice(["AA", "UA"], 5_000, p=[0.7, 0.3]),
        "delayed": draws.random(5_000) < 0.2,
        "airport": draws.choice(["EWR", "JFK", "LGA"], 5_000),
        "delay": draws.normal(10, 30, 5_000),
    }
    reports = cf.encode_many(table, crossed, columns={"carrier": "line"})
    release = cf.analyze(cf.shuffle(reports), crossed, level=1 - 1e-9)
    rows = {row.value: row for row in release.table()}
    share = rows["share of delayed = yes, where carrier = UA"]
    late = table["delayed"][table["line"] == "UA"]
    assert share.low <= late.mean() <= share.high
    mean = rows["mean of delay, where airport = JFK"]
    exact = np.clip(table["delay"], -30, 120)[table["airport"] == "JFK"].mean()
    assert mean.low <= exact <= mean.high
    margin = rows["carrier = UA"]
    assert margin.low <= len(late) <= margin.high
    assert read_release(json.dumps(release.document())) == release
    text, page = release.text(), release.page()
    assert "carrier \\ delayed" in text
    assert "mean of delay by airport (in minutes; of those who answered)" in text
    assert "one person's 4 answers together" in text
    assert "A table of estimates; the largest is" in page


def test_each_share_says_of_whom_it_is() -> None:
    """Who did not answer is a share of all; the answers are shares of those who did."""
    question = Cross({"carrier": CARRIER, "delayed": cf.Bit(missing="count")})
    plan = plan_of(Part("q", question, Flips(Fraction(1, 64), 1, 4)))
    table = {"carrier": ["AA"] * 200, "delayed": [True] * 90 + [False] * 60 + [None] * 50}
    release = cf.analyze(cf.shuffle(cf.encode_many(table, plan)), plan)
    told = release.document()["questions"][0]["crossed"]["derived"]
    of_all = {(row["kind"], row["value"]) for row in told if row.get("of") == "all"}
    assert of_all == {("share", "(missing)")}
    names = [row.value for row in release.table()]
    assert "share of delayed = yes, where carrier = AA" in names
    assert "share of delayed = (missing), of all where carrier = AA" in names
    for shown in (release.text(), release.page()):
        assert "AA: yes" in shown
        assert "AA: (missing), of all" in shown
        assert "of those who answered; (missing) of all" in shown
    document = json.loads(json.dumps(release.document()))
    assert read_release(json.dumps(document)) == release
    rows = document["questions"][0]["crossed"]["derived"]
    for row in rows:  # files of before do not say it
        row.pop("of", None)
    assert "AA: (missing), of all" in read_release(json.dumps(document)).text()
    next(row for row in rows if row["value"] == "yes")["of"] = "all"
    with pytest.raises(InvalidFile, match="one of those who answered"):
        read_release(json.dumps(document))


def test_counts_of_one_question_from_two_crosses_are_told_apart() -> None:
    """Both count the same people, each with its own noise; one of them has the smaller error."""
    pairs = Cross({"carrier": CARRIER, "delayed": cf.Bit()})
    groups = Cross({"carrier": CARRIER, "airport": AIRPORT})
    plan = plan_of(
        Part("carrier × delayed", pairs, Flips(Fraction(1, 8), 1, 4)),
        Part("airport by carrier", groups, Flips(Fraction(1, 64), 1, 6)),
    )
    table = {
        "carrier": ["AA", "UA"] * 100,
        "delayed": [True, False] * 100,
        "airport": ["EWR", "JFK"] * 100,
    }
    release = cf.analyze(cf.shuffle(cf.encode_many(table, plan)), plan)
    sections = release.statement().sections
    headings = [section.heading for section in sections]
    assert len(set(headings)) == len(headings)
    counted = {one.heading: one for one in sections if one.heading.startswith("carrier, from")}
    assert list(counted) == ["carrier, from carrier × delayed", "carrier, from airport by carrier"]
    errors = [one.rows[0].standard_error or 0.0 for one in counted.values()]
    assert errors[1] < errors[0]
    # Said once, at the one to use.
    (note,) = counted["carrier, from airport by carrier"].notes
    assert "use the count here" in note
    assert " ".join(release.text().split()).count(note) == 1
    (alone,) = (one for one in sections if one.heading == "airport, from airport by carrier")
    assert not alone.notes


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda crossed: crossed["questions"][0]["values"].pop(), "cells for"),
        (lambda crossed: crossed["derived"][0].update(low=9, high=3), "ends before it begins"),
        (lambda crossed: crossed["derived"][-1].update(given=["a", "b", "c"]), "a group that is"),
        (lambda crossed: crossed["derived"][0].update(kind="guess"), "kind"),
    ],
)
def test_a_release_that_contradicts_its_cross_is_refused(
    damage: Callable[[Any], object], said: str
) -> None:
    question = Cross({"carrier": CARRIER, "delayed": cf.Bit()})
    plan = plan_of(Part("q", question, Flips(Fraction(1, 64), 1, 4)))
    table = {"carrier": ["AA", "UA"] * 100, "delayed": [True, False] * 100}
    release = cf.analyze(cf.shuffle(cf.encode_many(table, plan)), plan)
    document = json.loads(json.dumps(release.document()))
    damage(document["questions"][0]["crossed"])
    with pytest.raises(InvalidFile, match=said):
        read_release(json.dumps(document))


SURVEY = """
users = 1000
epsilon = 1
cross = ["carrier", "delayed"]
[questions.carrier]
kind = "choice"
values = ["AA", "UA"]
[questions.delayed]
kind = "bit"
[questions.airport]
kind = "choice"
values = ["EWR", "JFK"]
column = "origin"
[questions.delay]
kind = "number"
low = -30
high = 120
by = "airport"
"""


def test_crosses_in_a_survey_file() -> None:
    found = survey_from(SURVEY)
    assert list(found.survey.planned) == ["carrier × delayed", "delay by airport"]
    assert found.columns == {"airport": "origin"}
    several = SURVEY.replace(
        '["carrier", "delayed"]', '[["carrier", "delayed"], ["airport", "carrier"]]'
    )
    found = survey_from(several)
    assert list(found.survey.planned)[1:] == ["airport × carrier", "delay by airport"]
    with pytest.raises(InvalidFile, match=r"another question, with values .* Got 'aeroport'"):
        survey_from(SURVEY.replace('by = "airport"', 'by = "aeroport"'))
    with pytest.raises(InvalidFile, match="by: is not known here"):
        survey_from(SURVEY + '[questions.f]\nkind = "flags"\nnames = ["x"]\nby = "airport"\n')


# ---------------------------------------------------------------------- public groups


@pytest.fixture(scope="module")
def public() -> Plan:
    questions: dict[str, Question] = {"airport": AIRPORT, "delayed": cf.Bit()}
    survey = cf.Survey(questions, by_public="airport")
    return cf.plan(survey, users=300, target=cf.Target(2, 1e-4), max_messages=1)


def test_a_public_group_is_no_part_of_what_is_sent(public: Plan) -> None:
    assert [part.name for part in public.parts] == ["delayed"]
    assert public.groups == ("EWR", "JFK", "LGA")
    assert "Not protected is airport" in public.explain()
    assert "nothing is released of one with fewer than 300 reports" in public.explain()
    assert "300 honest users with the same airport" in public.guarantee.crowd
    again = plan_from(json.dumps(public.document()))
    assert again == public
    one = public.of_group("JFK")
    assert one.id != public.id != public.of_group("EWR").id
    assert plan_from(json.dumps(one.document())) == one
    assert "This is the plan of 'JFK'." in one.explain()
    one.verify()


def test_nothing_is_sent_before_a_group_is_chosen(public: Plan) -> None:
    table = {"airport": ["EWR"], "delayed": [True]}
    for send in (lambda: cf.encode("yes", public), lambda: cf.encode_many(table, public)):
        with pytest.raises(InvalidInput, match="one group of 'airport'"):
            send()
    with pytest.raises(InvalidInput, match="group of 'airport'"):
        public.of_group("BOS")
    with pytest.raises(InvalidInput, match="public groups"):
        cf.plan(cf.Bit(), users=300, target=cf.Target(2, 1e-4), max_messages=1).of_group("EWR")
    cf.encode("yes", public.of_group("EWR"))


def test_every_group_is_a_collection_of_its_own(public: Plan) -> None:
    table = {
        "place": ["EWR"] * 400 + ["JFK"] * 299 + ["EWR"] * 100,
        "delayed": [True] * 100 + [False] * 699,
    }
    columns = {"airport": "place"}
    here, small = public.of_group("EWR"), public.of_group("JFK")
    batch = cf.shuffle(cf.encode_many(table, here, columns=columns))
    release = cf.analyze(batch, here, level=1 - 1e-6)
    assert release.reports == 500
    (row,) = release.table()
    assert row.low <= 100 <= row.high
    assert release.group == ("airport", "EWR")
    said = release.text()
    assert "(airport: EWR)" in said.splitlines()[0]
    assert "Not protected is airport" in " ".join(said.split())
    assert read_release(json.dumps(release.document())) == release
    with pytest.raises(BatchTooSmall):
        cf.shuffle(cf.encode_many(table, small, columns=columns))
    with pytest.raises(PlanMismatch):
        cf.analyze(batch, small)
    # Somebody with rows in two groups would be in two collections.
    table["id"] = list(range(799))
    with pytest.raises(InvalidInput, match="left out where groups are public"):
        cf.encode_many(table, here, columns=columns, person="id")


@pytest.mark.parametrize("name", ["nobody", "delay", "carrier"])
def test_what_cannot_be_a_public_group_is_refused(name: str) -> None:
    questions: dict[str, Question] = {"carrier": CARRIER, "delayed": cf.Bit(), "delay": DELAY}
    with pytest.raises(InvalidInput):
        cf.Survey(questions, cross=["carrier", "delayed"], by_public=name)
    with pytest.raises(InvalidInput, match="others besides the public one"):
        cf.Survey({"carrier": CARRIER}, by_public="carrier")
