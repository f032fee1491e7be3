"""A protocol that was asked for: found by its name, proven, run, and refused only for a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput, NoPlanFound, UselessPlan
from chaffinch.planning.survey_file import EXAMPLE, survey_from
from chaffinch.plans.plan import Plan
from tests.planned_once import plans_are_made_once  # noqa: F401 - the same few surveys
from tests.tiers import some

TARGET = cf.Target(1.0, 1e-6)
USERS = 400
QUESTIONS: dict[str, cf.Bit | cf.Choice | cf.Number | cf.Flags | cf.Survey] = {
    "bit": cf.Bit(),
    "choice": cf.Choice(["tea", "coffee", "none"]),
    "number": cf.Number(0, 60),
    "flags": cf.Flags(["a", "b"]),
    "survey": cf.Survey({"member": cf.Bit(), "age": cf.Number(0, 100)}),
}
ANSWERS: dict[str, Any] = {
    "bit": [True, False] * (USERS // 2),
    "choice": ["tea", "coffee", "tea", "none"] * (USERS // 4),
    "number": np.linspace(0, 60, USERS),
    "flags": [["a"], ["a", "b"], [], ["b"]] * (USERS // 4),
    "survey": {"member": [True, False] * (USERS // 2), "age": np.linspace(0, 100, USERS)},
}


def planned(name: str, **wishes: Any) -> Plan:
    return cf.plan(QUESTIONS[name], users=USERS, target=TARGET, anyway=True, **wishes)


@pytest.mark.parametrize("name", some(QUESTIONS, "choice"))
def test_every_row_is_proven_run_and_saved(name: str, tmp_path: Path) -> None:
    plan = planned(name)
    assert plan.own is not None
    names = [one.name for one in (plan.own, *plan.alternatives)]
    assert len(set(names)) == len(names) >= 2
    assert "local" in names
    for row in (plan.own, *plan.alternatives):
        made = plan.choose(row.name, anyway=True)
        assert made.parts == row.parts
        assert (made.epsilon, made.delta, made.crowd) == (row.epsilon, row.delta, row.crowd)
        made.verify(shares=True)
        made.save(tmp_path / "one.plan.json")
        again = cf.load_plan(tmp_path / "one.plan.json")
        again.verify()
        assert (again.id, again) == (made.id, made)
        release = cf.analyze(cf.shuffle(cf.encode_many(ANSWERS[name], again)), again)
        assert release.table()
        # And back: the rows are the same, whichever of them was taken.
        assert made.own is row
        assert sorted(one.name for one in made.alternatives) == sorted(set(names) - {row.name})


def test_a_name_given_beforehand_leads_to_the_same_plan() -> None:
    plan = planned("bit")
    for name in ("flips, 4 copies", "clear with decoys", "local"):
        assert planned("bit", protocol=name) == plan.choose(name, anyway=True)
    number = planned("number").choose("4 bits, total")  # as the table on the command line says it
    assert number == planned("number", protocol="number in 4 bits, total seen")


def test_a_row_is_chosen_from_another_with_its_own_crowd_and_chances() -> None:
    """The local row counts on nobody; what shares leave follows from the chosen row alone."""
    plan = cf.plan(cf.Bit(), users=USERS, target=TARGET, honest=0.9, anyway=True)
    direct = plan.choose("flips, 2 copies", anyway=True)
    assert plan.choose("local", anyway=True).choose("flips, 2 copies", anyway=True) == direct
    direct.verify(shares=True)


def test_a_protocol_stands_for_all_its_rows() -> None:
    every = planned("bit")
    signed = planned("bit", protocol="signed decoys")
    rows = [one for one in (every.own, *every.alternatives) if one is not None]
    named = {one.name for one in rows if one.name.startswith("signed decoys")}
    assert signed.own is not None
    assert {one.name for one in (signed.own, *signed.alternatives)} == named
    assert signed.choice.startswith("Chosen because it was asked for. Chosen for")
    assert planned("number", protocol="encoded").part().protocol.kind == "encoded"


@pytest.mark.parametrize("unknown", ["flip", "", 3, "flips; flips"])
def test_an_unknown_name_is_answered_with_those_there_are(unknown: Any) -> None:
    plan = planned("choice")
    for ask in (plan.choose, lambda name: planned("choice", protocol=name)):
        with pytest.raises(InvalidInput, match=r"'flips', 'clear with decoys', .*'local'"):
            ask(unknown)


def test_what_does_not_meet_a_wish_is_refused_unless_wanted() -> None:
    wishes: dict[str, Any] = {"users": USERS, "target": TARGET, "local_epsilon": 3.0}
    with pytest.raises(NoPlanFound, match="more than epsilon 3 if they collude") as caught:
        cf.plan(cf.Bit(), protocol="clear with decoys", **wishes)
    assert caught.value.details["ruled_out"] == ["more than epsilon 3 if they collude"]
    with pytest.raises(InvalidInput, match="plan again, with protocol="):
        cf.plan(cf.Bit(), **wishes).choose("clear with decoys")
    taken = cf.plan(cf.Bit(), protocol="clear with decoys", anyway=True, **wishes)
    taken.verify()
    assert "does not meet a wish (more than epsilon 3 if they collude)" in taken.explain()
    limited = cf.plan(cf.Bit(), users=USERS, target=TARGET, max_messages=2)
    ruled_out = [one.name for one in limited.alternatives if one.ruled_out]
    for name in ruled_out:
        with pytest.raises(NoPlanFound, match="ruled out"):
            limited.choose(name)
    with pytest.raises(NoPlanFound, match="more than 2 messages"):
        cf.plan(cf.Bit(), users=USERS, target=TARGET, max_messages=2, protocol="flips, 8 copies")


@pytest.mark.long
def test_a_chosen_plan_of_no_use_is_refused_unless_wanted() -> None:
    """With a crowd the error is half of what it may be, and without one more than that."""
    wishes: dict[str, Any] = {"users": 150, "target": cf.Target(0.1, 1e-3), "influence": 1e6}
    plan = cf.plan(cf.Bit(), max_messages=1, **wishes)
    with pytest.raises(UselessPlan):
        plan.choose("local")
    with pytest.raises(UselessPlan):
        cf.plan(cf.Bit(), protocol="local", **wishes)
    assert plan.choose("local", anyway=True).warnings


def test_no_plan_with_a_protocol_says_what_would_work() -> None:
    wishes: dict[str, Any] = {"target": cf.Target(0.5, 1e-9), "protocol": "signed decoys"}
    with pytest.raises(NoPlanFound, match="Got no way to use the protocol") as caught:
        cf.plan(cf.Bit(), users=3, **wishes)
    ways: Any = caught.value.details["would_work"]
    (way,) = ways
    assert caught.value.hint.startswith("this would work: ")
    cf.plan(cf.Bit(), **wishes, **way).verify()


@pytest.mark.long
def test_every_question_of_a_survey_has_its_own_protocol() -> None:
    survey = cf.Survey({"member": cf.Bit(), "age": cf.Number(0, 100, missing="count")})
    wishes: dict[str, Any] = {"users": USERS, "target": TARGET, "anyway": True}
    plan = cf.plan(
        survey,
        protocol={"member": "flips, 2 copies", "age": "number in 2 bits, total seen"},
        **wishes,
    )
    names = [part.protocol.name for part in plan.parts]
    assert names[:2] == ["flips, 2 copies", "number in 2 bits, total seen"]
    # One name for all: whether somebody answered is a bit, which has no such protocol.
    numbers = cf.Survey({"age": cf.Number(0, 100, missing="count")})
    plan = cf.plan(numbers, protocol="number in 4 bits, total seen", **wishes)
    assert plan.parts[0].protocol.name == "number in 4 bits, total seen"
    # A row of the table of a survey names one for each part.
    assert plan.own is not None
    assert cf.plan(numbers, protocol=plan.own.name, **wishes) == plan
    with pytest.raises(InvalidInput, match="protocol of 'age' must be one of 'number in 1 bits"):
        cf.plan(survey, protocol="flips", **wishes)
    with pytest.raises(InvalidInput, match="one of 'member', 'age'"):
        cf.plan(survey, protocol={"height": "flips"}, **wishes)


def test_local_needs_a_target() -> None:
    with pytest.raises(InvalidInput, match="as an error is given"):
        cf.plan(cf.Bit(), users=USERS, error=cf.Error(0.1), protocol="local")
    plan = cf.plan(cf.Bit(), users=USERS, error=cf.Error(0.1), protocol="flips")
    assert plan.part().protocol.name == "flips"


def test_a_plan_from_a_file_has_no_rows(tmp_path: Path) -> None:
    planned("number", protocol="number in 4 bits, total seen").save(tmp_path / "n.plan.json")
    with pytest.raises(InvalidInput, match="without alternatives") as caught:
        cf.load_plan(tmp_path / "n.plan.json").choose("flips")
    assert "protocol=" in caught.value.hint


# ---------------------------------------------------------------- survey files


SURVEY = """
users = 400
epsilon = 1.0
delta = 1e-6
anyway = true
{above}
[questions.member]
kind = "bit"
{member}
[questions.age]
kind = "number"
low = 0
high = 100
"""


def test_a_survey_file_names_protocols() -> None:
    file = survey_from(SURVEY.format(above="", member='protocol = "flips"'))
    assert file.protocol == {"member": "flips"}
    assert file.plan().parts[0].protocol.name == "flips"
    whole = survey_from(SURVEY.format(above='protocol = "signed decoys"', member=""))
    assert whole.protocol == "signed decoys"
    both = survey_from(SURVEY.format(above='protocol = "encoded"', member='protocol = "flips"'))
    assert both.protocol == {"member": "flips", "age": "encoded"}
    assert {one.digest for one in (file, whole, both)}.isdisjoint(
        {survey_from(SURVEY.format(above="", member="")).digest}
    )


def test_files_without_a_protocol_keep_their_digest() -> None:
    """Folders of earlier runs know a survey by it. Made before there was the field."""
    golden = survey_from(SURVEY.format(above="", member="")).digest
    assert golden == "b800d0bf4fd680bb3bc15737812bc731287f2221b40998e5ef798b022e471481"
    assert survey_from(EXAMPLE).protocol is None


def test_alternatives_are_shown_on_a_line_each() -> None:
    plan = cf.plan(cf.Bit(), users=1000, target=cf.Target(1, 1e-6))
    shown = [repr(one) for one in plan.alternatives]
    assert all(one.count("\n") == 0 and len(one) < 120 for one in shown)
    assert shown[0].startswith("<flips: epsilon 1, standard error ")
