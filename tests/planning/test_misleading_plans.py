"""Plan files that would mislead or stall whoever trusts them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.planning.survey_file import survey_from
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, FlippedDecoys, Flips

PART = Part("q", cf.Bit(), Flips(Fraction(1, 4)))
PLAN = Plan("", (PART,), 100, 100, 100, 1, 1.0, 1e-2)


@pytest.mark.parametrize(
    "shares",
    [
        ((Fraction(1, 2), 0.01),),
        ((Fraction(1, 2), 2.0), (Fraction(1, 2), 3.0)),
        ((Fraction(1, 2), 2.0), (Fraction(9, 10), 3.0)),
        ((Fraction(3, 2), 2.0),),
        ((Fraction(0), 2.0),),
        ((Fraction(9, 10), 3.0), (Fraction(1, 2), 2.0)),
    ],
)
def test_shares_that_cannot_be_true_are_refused(shares: tuple[tuple[Fraction, float]]) -> None:
    with pytest.raises(InvalidInput, match="honest shares"):
        replace(PLAN, shares=shares)


@pytest.mark.parametrize(
    "name", ["a\n\nPromise: epsilon 0.001", "\x1b[2J", "\u202egnorw", "", " a", "x" * 201]
)
def test_names_that_forge_or_hide_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Part(name, cf.Bit(), Flips(Fraction(1, 4)))
    if name.strip():
        with pytest.raises(InvalidInput):
            replace(PLAN, title=name + "\n")


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.1}])
def test_promises_that_say_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        replace(PLAN, **wrong)  # type: ignore[arg-type]


def test_a_device_may_ask_for_more_than_the_plan_promises() -> None:
    cf.encode("yes", PLAN, within=cf.Target(1.0, 1e-2))
    for limit in (cf.Target(0.9, 1e-2), cf.Target(1.0, 1e-3)):
        with pytest.raises(InvalidInput, match="promise of a plan"):
            cf.encode("yes", PLAN, within=limit)


def test_plans_beyond_all_measure_are_refused() -> None:
    with pytest.raises(InvalidInput, match="questions"):
        replace(PLAN, parts=tuple(replace(PART, name=f"q{k}") for k in range(101)))
    wide = Part("w", cf.Choice(range(10), missing="count"), Decoys(999_999, Fraction(1, 2)))
    with pytest.raises(InvalidInput, match="slots"):
        replace(PLAN, parts=(wide, PART))


def test_one_user_with_very_many_decoys_is_judged_in_a_moment() -> None:
    part = Part(
        "q", cf.Choice(range(1000), missing="count"), FlippedDecoys(Fraction(1, 4), 1000, 700)
    )
    assert 0 <= part.mechanism(1).delta_bound(0.5) <= 1


def test_a_mean_with_quantiles_composes_bit_by_bit() -> None:
    """Closed, its profile ends too early for two rounds; opened, all is proven in a moment."""
    numbers = cf.privacy.EncodedNumbers(users=20_000, resolution=8, flip_probability="0.05")
    twice = cf.privacy.compose(numbers, times=2)
    assert twice.parts == ((cf.privacy.FlippedBits(users=20_000, flip_probability="0.05"), 16),)
    assert twice.delta_bound(1.0) < 1e-9


@pytest.mark.parametrize(
    "call",
    [
        lambda: cf.encode("yes", "small.plan.json"),  # type: ignore[arg-type]
        lambda: cf.encode(PLAN, "yes"),  # type: ignore[arg-type]
        lambda: cf.encode_many(PLAN, ["yes"]),  # type: ignore[arg-type]
        lambda: cf.encode_many({"q": ["yes"]}, PLAN, columns="q"),  # type: ignore[arg-type]
        lambda: cf.analyze(cf.encode_many(["yes"] * 100, PLAN), PLAN),  # type: ignore[arg-type]
        lambda: cf.analyze(
            cf.shuffle(cf.encode_many(["yes"] * 100, PLAN)),
            PLAN,
            ledger="b.ledger",  # type: ignore[arg-type]
        ),
        lambda: cf.plan(cf.Bit(), users=100, target=cf.Target(1e-6, 1.0)),
        lambda: cf.plan(cf.Bit(), users=1_000, error=cf.Error(0.005), delta=0.5),
        lambda: cf.plan(cf.Bit(), users=1_000, error=cf.Error(0.005), delta=math.nan),
        lambda: survey_from(
            "users = 1000\nerror = '0.5%'\ndelta = 0.5\n[questions.a]\nkind = 'bit'\n"
        ).plan(),
        lambda: cf.plan(cf.Bit(), users=-5, error=cf.Error(0.1)),
    ],
)
def test_likely_mistakes_get_a_helpful_refusal(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        call()


@pytest.mark.parametrize("header", ["yes", "1", "message"])
def test_a_first_line_that_is_an_answer_is_no_name(header: str, tmp_path: Path) -> None:
    """Otherwise the first person's answer would be lost without a word."""
    table = tmp_path / "answers.csv"
    table.write_text(f"{header}\nyes\nno\n")
    with pytest.raises(InvalidTable) as caught:
        cf.encode_many(table, PLAN)
    assert "'yes'" not in str(caught.value)


def test_a_survey_answer_names_every_question() -> None:
    other = replace(PART, name="r", question=cf.Bit(missing="no"))
    survey = replace(PLAN, parts=(PART, other), delta=0.5, epsilon=3.0)
    assert len(cf.encode({"q": "yes", "r": None}, survey).codes) == 2
    for wrong in ({"q": "yes"}, {"q": "yes", "r": "no", "s": "no"}, {"q": "yes", "R": "no"}):
        with pytest.raises(InvalidInput, match="'q', 'r'"):
            cf.encode(wrong, survey)


def test_where_an_error_leads_the_choice_is_among_the_most_private() -> None:
    plan = cf.plan(cf.Bit(), users=20_000, error=cf.Error(0.005), max_messages=2)
    assert all(one.epsilon >= plan.epsilon / 1.15 for one in plan.alternatives)
    assert plan.guarantee.local_epsilon < 100  # flips, not clear answers among decoys
    assert "Why not another protocol:" in plan.explain()


def test_no_promise_is_weaker_than_the_local_one() -> None:
    plan = cf.plan(
        cf.Bit(),
        users=200,
        error=cf.Error(0.0001),
        max_messages=1,
        local_epsilon=100.0,
        anyway=True,
    )
    local = plan.guarantee.local_epsilon
    assert plan.epsilon <= local * 1.001
    assert all(epsilon <= local * 1.001 for _, epsilon in plan.shares)


def test_a_cell_read_as_a_name_is_not_shown(tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("secret-diagnosis\nnonsense\n")
    with pytest.raises(InvalidTable, match="another name") as caught:
        cf.encode_many(table, PLAN)
    assert "secret" not in str(caught.value)


def test_a_name_that_would_only_count_as_unknown_is_a_name(tmp_path: Path) -> None:
    """Whatever is not listed counts as "other" here; a column's name must not."""
    question = cf.Choice(["a", "other"], missing="refuse", unknown="other")
    plan = replace(PLAN, parts=(Part("q", question, Decoys(1, Fraction(1, 2))),), epsilon=3.0)
    table = tmp_path / "answers.csv"
    table.write_text("browser\na\nzzz\n")
    assert cf.encode_many(table, plan, columns={"q": "browser"}).count == 2
    assert cf.encode_many(["a", "zzz"], plan).count == 2
    table.write_text("other\na\nzzz\n")
    with pytest.raises(InvalidTable):
        cf.encode_many(table, plan)
