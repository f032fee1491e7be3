"""An error that leads a plan is what the release prints, on the real path, at every level."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput, NoPlanFound
from chaffinch.planning.candidates import Candidate, Task, for_error
from chaffinch.planning.wishes import largest_margin
from chaffinch.plans.expansion import expanded
from chaffinch.plans.plan import Plan
from chaffinch.protocols import protocol_variants
from chaffinch.protocols.intervals import farthest_end, two_sided
from chaffinch.protocols.noise import Noise, SeenDecoys, SignedNoise
from chaffinch.questions import Question
from chaffinch.release.surveys import Answer
from tests.analysis import exact
from tests.tiers import some

PEOPLE = 2_000
SHARES = {"bit": 0.01, "choice": 0.015, "flags": 0.008, "number": 0.015, "spread number": 0.03}
"""Errors that take an epsilon well above 0.1: looser ones get a plan that is more exact."""
LEVELS = (0.9, 0.95, 0.99)
DELTA = 1e-6

QUESTIONS: dict[str, Question] = {
    "bit": cf.Bit(missing="refuse"),
    "choice": cf.Choice(list("abcd"), missing="refuse"),
    "flags": cf.Flags(["x", "y", "z"], missing="refuse"),
    "number": cf.Number(0, 10, missing="refuse"),
    "spread number": cf.Number(0, 10, missing="refuse", quantiles=True),
}
ANSWERS = {
    "bit": [True, False] * (PEOPLE // 2),
    "choice": list("abcd") * (PEOPLE // 4),
    "flags": [["x"], ["x", "y"], ["y", "z"], ["z"]] * (PEOPLE // 4),
    "number": [2.0, 6.0] * (PEOPLE // 2),
}


def task_of(question: Question) -> Task:
    return Task(expanded([("q", question)]), PEOPLE, PEOPLE, rounds=1, max_messages=10**6)


def candidates(question: Question, error: cf.Error, *, every: bool) -> list[Candidate]:
    """Return a candidate for each protocol that carries the question, or for every way."""
    variants = protocol_variants(question, 32, clear=True, wished=True)
    if not every:  # the last of each kind
        variants = list({one.name.split(",")[0].split(" in ")[0]: one for one in variants}.values())
    task = task_of(question)
    found = [for_error(one.name, [one], error, DELTA, task) for one in variants]
    return [one for one in found if one is not None]


def released(plan: Plan, answers: object, level: float) -> Answer:
    return cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan, level=level).answers[0]


def half_widths(answer: Answer, *, together: bool) -> np.ndarray:
    pair = (answer.low_together, answer.high_together) if together else (answer.low, answer.high)
    return (pair[1] - pair[0]) / 2


KINDS = {
    "bit": {"flips", "signed-decoys", "decoys"},
    "choice": {"flips", "signed-decoys", "decoys"},
    "flags": {"flips", "signed-decoys"},
    "number": {"encoded", "signed-decoys"},
    "spread number": {"encoded"},
}


def check_releases(
    name: str, error: cf.Error, *, every: bool, kinds: set[str] | None = None
) -> None:
    """Check that half of the widest interval is the error, and not much less than that."""
    question = QUESTIONS[name]
    answers = ANSWERS[name.removeprefix("spread ")]
    whole = 10 if question.shape == "number" else PEOPLE
    found = candidates(question, error, every=every)
    assert {one.parts[0].protocol.kind for one in found} >= (kinds or KINDS[name])
    for one in found:
        if kinds is not None and one.parts[0].protocol.kind not in kinds:
            continue
        plan = Plan("", one.parts, PEOPLE, PEOPLE, PEOPLE, 1, one.epsilon, one.delta)
        answer = released(plan, answers, error.confidence)
        widest = half_widths(answer, together=error.together).max() / whole
        # How many decoys a batch has is left to chance: most have fewer than they may have.
        least = 0.65 if one.parts[0].protocol.kind == "decoys" else 0.8
        assert least * error.share <= widest <= error.share, (one.name, error)


@pytest.mark.parametrize("name", some(QUESTIONS, "bit", "flags"))
def test_a_release_prints_what_was_promised(name: str) -> None:
    asked = list(zip(LEVELS, (False, True, False), strict=True))
    # Plans of other questions take long to find: their other levels are asked at night.
    for level, together in asked if name == "bit" else asked[1:2]:
        check_releases(name, cf.Error(SHARES[name], level, together), every=False)


@pytest.mark.long
def test_decoys_that_are_flipped_too_take_a_larger_error() -> None:
    """A decoy from everybody scatters by itself more than the other protocols need."""
    for level in LEVELS:
        check_releases("choice", cf.Error(0.03, level), every=False, kinds={"flipped-decoys"})


@pytest.mark.long
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_so_it_does_whichever_way_it_is_tuned(name: str, level: float, *, together: bool) -> None:
    check_releases(name, cf.Error(SHARES[name], level, together), every=True)


def test_a_mean_of_those_who_answered_and_their_count() -> None:
    """Where everybody answers, near an end of the range: there the count is felt most.

    Their number is cut at that of the reports, so that less is printed than was promised.
    """
    error = cf.Error(0.05, 0.95)
    plan = cf.plan(cf.Number(0, 10, missing="count"), users=PEOPLE, error=error, max_messages=8)
    found = cf.analyze(cf.shuffle(cf.encode_many([1.0] * PEOPLE, plan)), plan).answers[0]
    (mean,) = half_widths(found, together=False) / 10
    assert 0.65 * error.share <= mean <= error.share
    assert found.summary is not None
    assert found.summary.answered is not None
    people = found.summary.answered.people
    assert people.estimate - people.low <= error.share * PEOPLE


@pytest.mark.long
@pytest.mark.parametrize("measured", [False, True])
def test_cells_of_a_cross(*, measured: bool) -> None:
    error = cf.Error(0.03, 0.95, together=True)
    second = cf.Number(0, 10, missing="refuse") if measured else cf.Bit(missing="refuse")
    questions = {"drink": QUESTIONS["choice"], "other": second}
    survey = (
        cf.Survey(questions, by={"other": "drink"})
        if measured
        else cf.Survey(questions, cross=[["drink", "other"]])
    )
    plan = cf.plan(survey, users=PEOPLE, error=error, max_messages=8, local_epsilon=50)
    table = {"drink": ANSWERS["choice"], "other": [2.0, 6.0] * 1000 if measured else [1, 0] * 1000}
    answer = released(plan, table, 0.95)
    inside = (answer.low_together > 0) & (answer.high_together < PEOPLE)
    widest = half_widths(answer, together=True)[inside].max() / PEOPLE
    assert 0.8 * error.share <= widest <= error.share


def test_the_old_rule_promised_less_than_is_printed() -> None:
    """A number within 1.96 standard errors: its interval is 1.4 times as wide."""
    question = cf.Number(0, 10, missing="refuse")
    plan = cf.plan(question, users=PEOPLE, target=cf.Target(1.0, DELTA), max_messages=8)
    error = plan.parts[0].standard_error(PEOPLE) / PEOPLE
    (printed,) = half_widths(released(plan, ANSWERS["number"], 0.95), together=False) / 10
    margin = cf.Error(1.0).margin(plan.parts, PEOPLE)
    assert 1.3 * 1.96 * error < printed <= margin


def test_the_plan_says_what_it_keeps() -> None:
    for error, words in (
        (cf.Error(0.01), "The 95% intervals of a release, each by itself, are "),
        (cf.Error(0.012, 0.9, together=True), "for all values of a question together"),
    ):
        plan = cf.plan(cf.Bit(), users=PEOPLE, error=error, max_messages=2, local_epsilon=50)
        assert words in plan.explain()
        assert "of the reports to each side at most" in plan.choice
        assert f"{100 * error.share:g}% was asked for" in plan.choice
        assert error.margin(plan.parts, plan.reports) <= error.share
        assert error.margin(plan.parts, plan.reports) >= 0.97 * error.share


@pytest.mark.long
def test_what_holds_together_needs_less_noise() -> None:
    errors = [cf.Error(0.02, together=together) for together in (False, True)]
    each, all_of = (
        cf.plan(QUESTIONS["choice"], users=PEOPLE, error=one, local_epsilon=50) for one in errors
    )
    assert all_of.epsilon > each.epsilon
    # A lone value shares its chance to miss with no other.
    wishes = {"max_messages": 1, "local_epsilon": 50.0}
    bit, both = (cf.plan(cf.Bit(), users=PEOPLE, error=one, **wishes) for one in errors)  # type: ignore[arg-type]
    assert bit.id == both.id


def test_what_rounding_alone_exceeds_is_no_plan() -> None:
    with pytest.raises(NoPlanFound, match="an error of"):
        cf.plan(
            cf.Number(0, 1), users=100, error=cf.Error(0.001), max_messages=2, local_epsilon=700
        )


def test_a_refusal_says_what_was_asked_and_which_error_works() -> None:
    error = cf.Error(0.12, 0.9, together=True)
    with pytest.raises(NoPlanFound, match="of the crowd in 90% intervals that hold together") as no:
        cf.plan(cf.Number(0, 1, missing="count"), users=100, error=error, max_messages=2)
    assert no.value.hint is not None
    assert "an error of 0.48" in no.value.hint
    looser = replace(error, share=0.48)
    made = cf.plan(cf.Number(0, 1, missing="count"), users=100, error=looser, max_messages=2)
    assert looser.margin(made.parts, made.reports) <= looser.share


def test_together_is_yes_or_no() -> None:
    for wrong in (1, "yes", None):
        with pytest.raises(InvalidInput, match="together"):
            cf.Error(0.01, 0.95, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_no_interval_reaches_farther_than_the_farthest_end(alpha: float) -> None:
    """All tallies of some noises: half of the length at most, and seldom much less."""
    for name in ("flips", "copies", "heavy flips", "flips and decoys"):
        noise, people = exact.KINDS[name], 60
        tallies = np.arange(noise.largest(people) + 1)
        low, high = two_sided(noise, tallies, people, alpha)
        inside = (low > 0) & (high < people)
        far = farthest_end(noise, people, alpha)
        if inside.any():
            widest = float((high - low)[inside].max()) / 2
            assert widest <= far <= widest + 1.5 / float(noise.slope) + 0.5
    many = Noise.flips(exact.KINDS["flips"].miss)
    people = 10**13 // 100  # beyond this variance only closed bounds are used
    tally = round(float(many.base(people)) + float(many.slope) * people / 2)
    low, high = two_sided(many, [tally], people, alpha)
    far = farthest_end(many, people, alpha)
    assert float(high[0] - low[0]) / 2 <= far <= 1.05 * float(high[0] - low[0]) / 2


def test_nor_does_one_from_any_tally_of_a_batch_of_any_size() -> None:
    """Means fall between whole tallies in another way at every count and number of reports."""
    signed = [SignedNoise(((1, Fraction(4, 5)),), people, 2) for people in (40, 500)]
    for noise, people, alpha in (
        (Noise.flips(Fraction(3, 10), copies=2), 480, 0.2),
        (Noise.flips(Fraction(1, 5)), 610, 0.001),
        (Noise.flips(Fraction(1, 10)), 151, 0.001),
        (signed[0], 40, 0.05),
        (signed[1], 500, 0.01),
        (SeenDecoys(3, np.array([200])), 100, 0.05),
    ):
        far = farthest_end(noise, people, alpha)
        for reports in (people, people + 1, people + 2, people + people // 10):
            most = noise.largest(reports) if isinstance(noise, Noise) else reports
            tallies = np.arange(most + 1)
            low, high = two_sided(noise, tallies, reports, alpha)
            estimates = noise.estimate(tallies, reports)
            inside = (low > 0) & (high < reports)
            widest = max((estimates - low)[inside].max(), (high - estimates)[inside].max())
            assert widest / reports <= far / people, (noise, reports)
            assert far <= widest + 2.0 / float(noise.slope), (noise, reports)


@pytest.mark.long
def test_a_share_of_few_people_is_kept_to_the_half_person() -> None:
    """Flips of three flags at 80 %: 20.5 people were printed where 20 were promised."""
    error = cf.Error(0.01, 0.8)
    plan = cf.plan(QUESTIONS["flags"], users=PEOPLE, error=error)
    assert plan.parts[0].protocol.kind == "flips"
    (noise,) = {part.protocol.noise(part.question) for part in plan.parts}
    assert isinstance(noise, Noise)
    low, high = two_sided(noise, np.arange(noise.largest(PEOPLE) + 1), PEOPLE, 0.2)
    widest = (high - low)[(low > 0) & (high < PEOPLE)].max() / 2
    assert 0.95 * error.share * PEOPLE <= widest <= error.share * PEOPLE


def test_margins_of_several_questions_are_the_largest_one() -> None:
    survey = cf.Survey({"a": QUESTIONS["bit"], "b": QUESTIONS["number"]})
    target, local = cf.Target(2.0, DELTA), 50.0
    plan = cf.plan(survey, users=PEOPLE, target=target, max_messages=8, local_epsilon=local)
    each = [largest_margin([part], PEOPLE, 0.05) for part in plan.parts]
    assert largest_margin(plan.parts, PEOPLE, 0.05) == max(each)
    assert math.isfinite(max(each))
