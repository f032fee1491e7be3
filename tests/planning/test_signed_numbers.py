"""Numbers among signed decoys: nearly as exact as a trusted centre, in few messages."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.planning.candidates import Candidate, candidate, for_target
from chaffinch.planning.planner import _epsilons_of_shares
from chaffinch.planning.wishes import MOST_MESSAGES, _task
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Signed
from chaffinch.protocols.base import GRAIN
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords

PROMISE = (1.0, 1e-6)
CENTRAL = math.sqrt(2.0)
"""The standard error, in ranges, of the Laplace noise that a trusted centre would add."""
USERS = 5_000


def tuned(way: int, users: int) -> Candidate:
    """Return one way to send a number, tuned by the accountant."""
    task = _task(cf.Number(0, 1), users, 1, MOST_MESSAGES, 1.0, 1)
    variants = Signed.variants(cf.Number(0, 1), MOST_MESSAGES)
    found = for_target(variants[way].name, [variants[way]], PROMISE, task)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def plan() -> Plan:
    survey = cf.Survey({"income": cf.Number(0, 100), "smokes": cf.Bit()})
    target = cf.Target(2.0, 1e-6)
    protocols = {"income": "signed-decoys"}
    return cf.plan(survey, users=USERS, target=target, local_epsilon=math.inf, protocol=protocols)


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "users", "digits"),
    [(2, 1_000, 2), (1, 1_000, 1), (1, 10_000, 1), (2, 10_000, 2), (2, 1_000_000, 2)],
)
def test_a_number_is_nearly_as_exact_as_from_a_centre(way: int, users: int, digits: int) -> None:
    found = tuned(way, users)
    protocol = found.parts[0].protocol
    assert isinstance(protocol, Signed)
    assert len(protocol.digits) == digits
    assert CENTRAL < found.error <= 1.5 * CENTRAL
    assert not found.ruled_out
    assert found.messages <= 55


@pytest.mark.long
def test_questions_of_several_kinds_share_a_survey(plan: Plan, tmp_path: Path) -> None:
    number, bit = plan.parts
    assert isinstance(number.protocol, Signed)
    assert isinstance(bit.protocol, Signed)
    assert len(number.protocol.digits) == 2
    assert plan.guarantee.method == "upper-bound"
    plan.verify()
    plan.save(tmp_path / "survey.plan.json")
    read = cf.load_plan(tmp_path / "survey.plan.json")
    assert read.id == plan.id
    assert read.parts == plan.parts
    assert "digits" in plan.explain()


def test_people_are_asked_and_the_mean_comes_out(plan: Plan) -> None:
    words, draws = SeededWords(3), np.random.default_rng(4)
    shares, yes = draws.random(USERS), (draws.random(USERS) < 0.3).astype(np.uint8)
    reports = encode_numbers(plan, [shares, yes], USERS, words)
    release = cf.analyze(shuffle_with(reports, words), plan, level=1 - 1e-6)
    mean = release.answers[0]
    error = plan.parts[0].standard_error(USERS) / USERS * 100
    assert abs(float(mean.estimates[0]) - 100 * shares.mean()) < 6 * error
    assert float(mean.low[0]) <= 100 * shares.mean() <= float(mean.high[0])


def smaller(ratio: Fraction) -> Fraction:
    return Fraction(math.floor(ratio**2 * GRAIN), GRAIN)


@pytest.mark.long
@pytest.mark.parametrize("less", ["first flood", "first ratio", "last ratio", "last flood"])
def test_less_noise_than_promised_is_not_proven(plan: Plan, less: str) -> None:
    """A smaller ratio, or a smaller flood, of either digit alone."""
    part = plan.parts[0]
    how = part.protocol
    assert isinstance(how, Signed)
    assert how.finer is not None
    (last,) = how.finer
    others = {
        "first ratio": replace(how, ratio=smaller(how.ratio)),
        "first flood": replace(how, flood=how.flood[: len(how.flood) // 2]),
        "last ratio": replace(how, finer=(replace(last, ratio=smaller(last.ratio)),)),
        "last flood": replace(
            how, finer=(replace(last, flood=last.flood[: len(last.flood) // 2]),)
        ),
    }
    forged = replace(plan, parts=(replace(part, protocol=others[less]), plan.parts[1]))
    with pytest.raises(GuaranteeNotProven):
        forged.verify()


def test_what_fewer_honest_users_leave_of_a_number_is_not_claimed() -> None:
    """It moves a two-dimensional law by many steps, which takes minutes."""
    how = Signed(Fraction(1, 2), (Fraction(1),), 1000, 60, 5)
    task = _task(cf.Number(0, 1), 1000, 1, MOST_MESSAGES, 1.0, 1)
    one = candidate("one", [Part("n", cf.Number(0, 1), how)], 1000, PROMISE, task)
    assert all(math.isinf(epsilon) for _, epsilon in _epsilons_of_shares(one, task))


def test_digits_belong_to_numbers(plan: Plan) -> None:
    how = plan.parts[0].protocol
    assert isinstance(how, Signed)
    with pytest.raises(InvalidInput, match="number of steps"):
        how.check(cf.Bit())
    with pytest.raises(InvalidInput, match="finer digits"):
        replace(how, steps=None)
    with pytest.raises(InvalidInput, match="finer digits"):
        replace(how, finer=())
    with pytest.raises(InvalidInput, match="number of steps"):
        replace(how, steps=999)
