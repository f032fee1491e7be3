"""Totals: what is added up, its noise, its intervals, and what a device may not do with them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.planning import price
from chaffinch.plans.plan import Plan
from chaffinch.privacy.numerics.discrete_noise import GaussianSum
from chaffinch.protocols import Totals
from chaffinch.protocols.base import Protocol
from chaffinch.protocols.intervals import farthest_end, two_sided
from chaffinch.protocols.joint import GaussianTogether, SignedTogether
from chaffinch.protocols.noise import TotalsNoise
from chaffinch.questions import Question
from chaffinch.simulate import simulate, uniform
from tests.cases import each_case
from tests.sampling.sources import SeededWords

TARGET = cf.Target(1.0, 1e-6)
CHOICE = cf.Choice(["a", "b", "c"])


def planned(question: Question | cf.Survey, users: int = 1000, **wishes: Any) -> Plan:
    return cf.plan(question, users=users, target=TARGET, view="totals", **wishes)


# ---------------------------------------------------------------- what is planned

GOLDEN: list[tuple[Question, int, str, float]] = [
    (cf.Bit(), 1, "laplace", 1.3570),
    (CHOICE, 1, "laplace", 2.7992),
    (cf.Flags(["a", "b", "c", "d"]), 1, "laplace", 5.6420),
    (cf.Number(0, 60), 1, "laplace", math.sqrt(2)),
    (cf.Bit(), 52, "gaussian", 30.52),
    (CHOICE, 52, "gaussian", 43.16),
]
"""A question, its rounds, which noise is the better, and the standard error at epsilon 1."""


@pytest.mark.parametrize(("question", "rounds", "law", "error"), GOLDEN)
def test_the_better_law_is_taken(question: Question, rounds: int, law: str, error: float) -> None:
    made = planned(question, users=10_000, rounds=rounds)
    made.verify()
    (part,) = made.parts
    assert isinstance(part.protocol, Totals)
    assert part.protocol.law == law
    assert part.standard_error(10_000) == pytest.approx(error, rel=1e-3)
    assert made.guarantee.view == "totals"
    assert made.guarantee.local_epsilon == math.inf
    assert (made.shares, made.slots) == ((), 0)


def test_a_survey_has_one_law() -> None:
    survey = cf.Survey({f"q{place}": cf.Bit() for place in range(40)})
    made = planned(survey)
    laws = {part.protocol.name for part in made.parts}
    assert laws == {"totals, discrete Gaussian"}
    assert [one.name.split("; ")[0] for one in made.alternatives] == ["totals, discrete Laplace"]
    assert made.choice == "Chosen for the smallest error."


def test_an_error_is_met_with_either_law() -> None:
    error = cf.Error(0.01, confidence=0.95)
    made = cf.plan(CHOICE, users=1000, error=error, delta=1e-6, view="totals")
    assert 0.0095 < made.margin() <= 0.01
    made.verify()


def test_devices_never_take_totals() -> None:
    made = cf.plan(cf.Bit(), users=1000, target=TARGET)
    assert not any("totals" in one.name for one in made.alternatives)
    with pytest.raises(InvalidInput, match="protocol"):
        cf.plan(cf.Bit(), users=1000, target=TARGET, protocol="totals, discrete Laplace")
    with pytest.raises(InvalidInput, match="protocol"):
        planned(cf.Bit(), protocol="flips")
    assert (
        planned(cf.Bit(), protocol="totals, discrete Gaussian")
        .part()
        .protocol.name.endswith("Gaussian")
    )


@each_case(
    "wishes",
    [{"honest": 0.9}, {"local_epsilon": 3.0}, {"influence": 2.0}, {"users": 1}, {"view": "counts"}],
)
def test_wishes_about_devices_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        cf.plan(cf.Bit(), **{"users": 1000, "target": TARGET, "view": "totals", **wishes})


def test_plans_are_read_back(tmp_path: Any) -> None:
    for question in (CHOICE, cf.Number(0, 9, quantiles=True), cf.Number(0, 9, missing="count")):
        made = planned(question)
        made.save(tmp_path / "a.plan.json")
        again = cf.load_plan(tmp_path / "a.plan.json")
        assert (again, again.id) == (made, made.id)
        again.verify()
        (tmp_path / "a.plan.json").unlink()


def test_a_device_has_nothing_to_send() -> None:
    made = planned(cf.Bit())
    for send in (lambda: cf.encode("yes", made), lambda: cf.encode_many(["yes"], made)):
        with pytest.raises(InvalidInput, match="one for devices") as refused:
            send()
        assert "chaffinch run" in refused.value.hint
    for method in (made.part().protocol.encode_one, made.part().protocol.encode_many):
        with pytest.raises(InvalidInput, match="one for devices"):
            method(cf.Bit(), np.array([1]), SeededWords(1))


def test_messages_and_totals_make_no_plan() -> None:
    totals, bits = planned(cf.Bit()), cf.plan(cf.Bit(), users=1000, target=TARGET)
    for parts in ((totals.parts[0], bits.parts[0]),):
        named = tuple(
            type(part)(name, part.question, part.protocol)
            for name, part in zip("ab", parts, strict=True)
        )
        with pytest.raises(InvalidInput, match="of one view"):
            Plan("", named, 1000, 1000, 1000, 1, 3.0, 1e-6)


def test_plans_are_explained_without_devices() -> None:
    survey = cf.Survey({"town": CHOICE, "age": cf.Number(0, 99)}, by={"age": "town"})
    said = planned(survey).explain()
    assert "This counts on one party that holds the answers, adds them up" in said
    assert "at an end. The answers are added up, and discrete Laplace noise" in said
    assert "are counted together" in said
    for word in ("shuffler", "device", "slot", "dishonest", "collude", "message"):
        assert word not in said


def test_a_price_is_that_of_the_plan() -> None:
    (one,) = price(cf.Bit(), users=10_000, epsilons=[1.0], delta=1e-6, view="totals")
    made = planned(cf.Bit(), users=10_000)
    assert (one.plan, one.protocol) == (made.margin(), "totals, discrete Laplace")
    assert one.centre is not None
    assert one.plan is not None
    assert one.plan < 1.2 * one.centre


# ---------------------------------------------------------------- what is added up


def quiet(**fields: Any) -> Protocol:
    """Return totals with next to no noise."""
    return Totals("laplace", Fraction(1, 1000), **fields)


@each_case(
    "question, protocol, answers, expected",
    [
        (cf.Bit(), quiet(), [1, 0, 1], [2]),
        (CHOICE, quiet(), [2, 0, 2, 2], [1, 0, 3]),
        (cf.Flags(["x", "y"]), quiet(), [[1, 0], [1, 1]], [2, 1]),
        (cf.Number(0, 1), quiet(resolution=8), [0.5, 0.25, 1.0], [14]),
        (cf.Number(0, 1), quiet(resolution=8), [0.06, 0.06], [1]),
        (
            cf.Number(0, 1, quantiles=True),
            quiet(resolution=4, together=False),
            [0.5, 0.25, 1.0],
            [3, 2, 1, 1],
        ),
    ],
)
def test_what_is_added_up(
    question: Question, protocol: Protocol, answers: list[Any], expected: list[int]
) -> None:
    words = SeededWords(2)
    sums = protocol.add_up(question, np.array(answers), words)
    # In two batches as in one.
    halves = [
        protocol.add_up(question, np.array(some), words) for some in (answers[:1], answers[1:])
    ]
    assert sums.tolist() == (halves[0] + halves[1]).tolist()
    assert protocol.add_noise(question, sums, words).tolist() == expected


def test_one_person_moves_a_sum_by_its_steps_at_most() -> None:
    """The sum is rounded as a whole: that of one range more is as many steps more."""
    question, protocol = cf.Number(0, 1), quiet(resolution=7)
    draws = np.random.default_rng(3)
    for others in draws.random(200) * 1000:
        rest = int(others * 2**40)
        sums = [np.array([rest + extra], dtype=object) for extra in (0, 1 << 40)]
        low, high = (int(protocol.add_noise(question, one, SeededWords(1))[0]) for one in sums)
        assert high - low == 7


def test_sums_of_many_people_have_room() -> None:
    question, protocol = cf.Number(0, 1), quiet(resolution=10)
    million = protocol.add_up(question, np.ones(1 << 20), SeededWords(1))
    whole = sum([million] * 100, np.zeros(1, dtype=object))
    assert protocol.add_noise(question, whole, SeededWords(1)).tolist() == [10 * 100 << 20]


def test_another_protocol_adds_nothing_up() -> None:
    device = cf.plan(cf.Bit(), users=1000, target=TARGET).part().protocol
    with pytest.raises(InvalidInput, match="one for totals"):
        device.add_up(cf.Bit(), np.array([1]), SeededWords(1))
    with pytest.raises(InvalidInput, match="one for totals"):
        device.add_noise(cf.Bit(), np.array([1]), SeededWords(1))


# ---------------------------------------------------------------- its noise


@each_case(
    "noise",
    [
        TotalsNoise("laplace", Fraction(2)),
        TotalsNoise("laplace", Fraction(1, 2), terms=3),
        TotalsNoise("gaussian", Fraction(1, 2)),
        TotalsNoise("gaussian", Fraction(11, 2)),
        TotalsNoise("gaussian", Fraction(4), terms=8),
    ],
)
def test_moments_and_tails_are_those_of_the_law(noise: TotalsNoise) -> None:
    places = np.arange(-400, 401)
    if noise.law == "gaussian":
        mass = np.asarray(GaussianSum(noise.terms, noise.scale).masses(-400, 801)[0], float)
    else:
        one = np.exp(-np.abs(places) / float(noise.scale))
        mass = one = one / one.sum()
        for _ in range(noise.terms - 1):
            mass = np.convolve(mass, one, mode="same")
    square = float(mass @ places**2)
    assert float(noise.tally_variance(0, 10)) == pytest.approx(square, rel=1e-9)
    fourth = float(mass @ places**4) - 3 * square**2
    assert float(noise.fourth_cumulant(0, 10)) == pytest.approx(fourth, rel=1e-6, abs=1e-6)
    for alpha in (0.3, 0.05, 1e-4):
        low, high = two_sided(noise, [500], 1000, alpha)
        reach = 500 - int(low[0])
        assert int(high[0]) - 500 == reach
        # The first end that may be rejected: no narrower interval keeps the level.
        beyond = float(mass[places > reach].sum())
        assert beyond <= alpha / 2
        assert float(mass[places >= reach].sum()) > alpha / 2
        assert reach <= farthest_end(noise, 1000, alpha) + 1


@each_case("scale", [Fraction(1, 3), Fraction(1, 1), Fraction(9, 2)])
def test_the_law_of_several_counts_together(scale: Fraction) -> None:
    places = np.arange(-200, 201)
    mass = np.asarray(GaussianSum(1, scale).masses(-200, 401)[0], float)
    joint = GaussianTogether(float(scale), float(mass @ places**2))
    angles, weights = np.linspace(0, 3, 7), np.array([1.0, -2.0])
    found = joint.characteristic(angles, weights, np.array([3.0, 1.0]))
    wave = [np.cos(np.multiply.outer(angles * w, places)) @ mass for w in weights]
    assert found.real == pytest.approx(wave[0] ** 3 * wave[1], abs=1e-12)
    assert (joint.own, joint.mean(weights, weights)) == (joint.variance, 0.0)


def test_crosses_have_a_joint_law_of_their_own() -> None:
    laplace = Totals("laplace", Fraction(2)).joint(CHOICE, np.zeros(3, int), 10)
    assert isinstance(laplace, SignedTogether)
    assert laplace.own == pytest.approx(2.7992**2, rel=1e-3)
    gaussian = Totals("gaussian", Fraction(2)).joint(CHOICE, np.zeros(3, int), 10)
    assert gaussian.own == pytest.approx(4.0, rel=1e-9)


def test_a_very_long_law_has_a_closed_bound() -> None:
    wide = TotalsNoise("gaussian", Fraction(1 << 15))
    low, high = two_sided(wide, [10**6], 10**9, 0.05)
    assert (high - low)[0] == pytest.approx(2 * 1.95996 * (1 << 15), rel=1e-3)
    assert farthest_end(wide, 10**9, 0.05) == pytest.approx(1.95996 * (1 << 15), rel=1e-3)


# ---------------------------------------------------------------- whole releases

SIMULATED: list[tuple[Question, int]] = [
    (cf.Bit(), 1),
    (CHOICE, 1),
    (CHOICE, 52),
    (cf.Flags(["a", "b"]), 1),
    (cf.Number(0, 60), 1),
    (cf.Number(0, 60), 52),
    (cf.Number(0, 60, quantiles=True), 1),
    (cf.Number(0, 60, missing="count"), 1),
]


@pytest.mark.parametrize(("question", "rounds"), SIMULATED)
def test_estimates_and_intervals_are_as_predicted(question: Question, rounds: int) -> None:
    """Bias, variance and coverage over 20,000 releases; a false alarm in a million."""
    made = planned(question, rounds=rounds)
    found = simulate(made, uniform(made, 1000), runs=20_000, seed=5)
    assert found.ok, found.verdict
    assert all(row.coverage >= 0.945 for row in found.values)


def test_less_noise_than_promised_is_seen() -> None:
    made = planned(CHOICE)
    (part,) = made.parts
    law = part.protocol
    assert isinstance(law, Totals)
    quieter = replace(made, parts=(replace(part, protocol=replace(law, scale=law.scale / 2)),))
    found = simulate(made, uniform(made, 1000), runs=20_000, seed=5, devices=quieter)
    assert not found.ok


def test_sums_of_any_size_are_exact() -> None:
    people = (1 << 23) + 10
    how = Totals("gaussian", Fraction(300), 256)
    (found,) = how.add_up(cf.Number(0, 1), np.ones(people), SeededWords(1)).tolist()
    assert found == people << 40
    with pytest.raises(InvalidInput, match="answers"):
        how.add_up(cf.Number(0, 1), np.array([0.5, np.nan]), SeededWords(1))
