"""The parts of an audit, each against an exact law or an enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.analysis.tally import tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.errors import InvalidInput
from chaffinch.plans.parts import Part
from chaffinch.protocols import Decoys, Flips
from chaffinch.protocols.likelihoods import _law
from chaffinch.protocols.noise import Noise
from chaffinch.questions import Bit
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords, audit
from chaffinch.simulate.attacks import Attack, _crowds, worst_attack
from chaffinch.simulate.audits import Audit, Finding, _claim, lower_bound
from chaffinch.simulate.small_collections import Pipeline, _disorder, _likeness, _survey, collect
from tests.cases import each_case
from tests.simulate.settings import SMALL, chance, choice, planned
from tests.tiers import some

BIT = Part("bit", Bit(), Flips(chance(0.2)))
NOISE = Noise.flips(chance(0.2))


def part_of(name: str) -> Part:
    return planned(20, SMALL[name]).parts[0]


# ------------------------------------------------------------------------------- laws


@each_case(
    "noise",
    [
        Noise.flips(Fraction(1, 5), copies=2),
        Noise(1, Fraction(1), Fraction(0), 2, Fraction(1, 6)),
        Noise.flips_with_decoys(Fraction(1, 5), decoy_slots=1, rate=Fraction(1), values=3),
    ],
)
@each_case("held", [0, 2, 5])
def test_laws_have_the_moments_of_the_noise(noise: Noise, held: int) -> None:
    start, mass = _law(noise, held, 5)
    outcomes = start + np.arange(len(mass))
    mean = float(noise.base(5) + noise.slope * held)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    assert mass @ outcomes == pytest.approx(mean)
    assert mass @ np.square(outcomes - mean) == pytest.approx(float(noise.tally_variance(held, 5)))


@each_case("name", SMALL)
@each_case("world", [0, 1])
def test_people_and_their_counts_agree(name: str, world: int) -> None:
    part = part_of(name)
    for attack in itertools.islice(_crowds(part, 20), 0, None, 3):
        numbers, truth = attack.numbers(world), attack.truth(world)
        assert sorted(numbers.ravel().tolist()) == sorted(truth.numbers().ravel().tolist())
        assert len(numbers) == 20
        # What the target says on its own device is the first of them, but for the noise.
        quiet = planned(1, (part.question, part.protocol))
        report = encode_with(attack.answer(world), quiet, SeededWords(1))
        assert len(report.codes) == quiet.slots


@each_case("name", some(SMALL, *list(SMALL)[::2]))
def test_the_target_says_on_its_device_what_the_batch_says(name: str) -> None:
    attack = Attack(part_of(name), 1, 0, 0)
    plan = _survey(attack.part, 1, 1)
    draws = 600
    for world in (0, 1):
        words = SeededWords(2)
        alone = [encode_with(attack.answer(world), plan, words) for _ in range(draws)]
        numbers = [attack.numbers(world)]
        batches = [encode_numbers(plan, numbers, 1, words) for _ in range(draws)]
        means = [
            np.mean([tally(shuffle_with(one, words)).counts for one in found], axis=0)
            for found in ([[report] for report in alone], batches)
        ]
        # Six standard deviations of a difference of means of at most 5 bits of variance 1/4.
        assert np.abs(means[0] - means[1]).max() < 6 * math.sqrt(2 * 5 / 4 / draws)


# ------------------------------------------------------------------------------- attacks


@pytest.mark.parametrize("users", [2, 7, 20])
def test_the_worst_crowd_of_a_bit_leaks_what_is_claimed(users: int) -> None:
    epsilon = _claim(BIT, users, 1e-2)
    worst = worst_attack(BIT, users, epsilon)
    assert worst.leak(epsilon) == pytest.approx(1e-2, rel=1e-6)
    assert all(attack.leak(epsilon) <= 1e-2 * (1 + 1e-6) for attack in _crowds(BIT, users))


def test_the_worst_crowd_of_a_choice_leaks_what_is_claimed() -> None:
    part = part_of("choice flips")
    mechanism = privacy.FlippedValues(users=6, values=5, flip_probability=chance(0.2))
    for attack in _crowds(part, 6):
        one_way = mechanism.crowd_delta(first=attack.joined, second=attack.opposed, epsilon=0.7)
        back = mechanism.crowd_delta(first=attack.opposed, second=attack.joined, epsilon=0.7)
        assert attack.leak(0.7) == pytest.approx(max(one_way.upper, back.upper), rel=1e-6)
    epsilon = _claim(part, 6, 1e-2)
    assert 0.99e-2 < worst_attack(part, 6, epsilon).leak(epsilon) <= 1e-2


def test_scores_are_likelihood_ratios() -> None:
    attack = Attack(BIT, 3, 1, 1)
    worlds = [_law(NOISE, 1 + world, 3)[1] for world in (0, 1)]
    scores = attack.score(np.arange(4)[:, None])
    assert scores.tolist() == pytest.approx(np.log(worlds[1] / worlds[0]).tolist())


def test_scores_of_clear_values_see_the_impossible() -> None:
    attack = Attack(Part("bit", Bit(), Decoys(1, chance(0.5))), 4, 2, 1)
    # With fewer than three yes (two others and the target) the target said no.
    assert attack.score(np.array([[2, 3]]))[0] < -50
    assert attack.score(np.array([[5, 1]]))[0] > 50


@pytest.mark.parametrize("values", [2, 4])
@pytest.mark.parametrize("growth", [Fraction(3, 2), Fraction(3)])
def test_the_best_attack_on_clear_values_leaks_what_is_claimed(
    values: int, growth: Fraction
) -> None:
    """Every place where the few decoys may fall, in fractions; others hold the third value."""
    slots, rate = 5, Fraction(3, 4)
    question, protocol = choice(values), Decoys(1, rate)
    attack = Attack(Part("q", question, protocol), slots, 1, 2)
    worlds: list[dict[tuple[int, int], Fraction]] = [{}, {}]
    for fell in itertools.product(range(values + 1), repeat=slots):
        chances = [1 - rate if place == values else rate / values for place in fell]
        for world, law_of in enumerate(worlds):
            seen = (1 + world + fell.count(0), 2 + 1 - world + fell.count(1))
            law_of[seen] = law_of.get(seen, Fraction(0)) + math.prod(chances)
    zero, one = worlds
    places = sorted(zero.keys() | one.keys())
    scores = attack.score(np.array(places))
    kept = [place for place, score in zip(places, scores, strict=True) if score > math.log(growth)]
    found = sum(one.get(place, Fraction(0)) - growth * zero.get(place, 0) for place in kept)
    bracket = protocol.mechanism(question, slots).delta(math.log(growth))
    assert bracket.lower * (1 - 1e-9) <= float(found) <= bracket.upper * (1 + 1e-9)


def test_scores_of_large_crowds_are_linear_and_rise() -> None:
    attack = worst_attack(Part("bit", Bit(), Flips(chance(0.4))), 10**8, 0.1)
    scores = attack.score(np.array([[10**7], [10**7 + 1], [10**7 + 2]]))
    assert np.diff(scores) == pytest.approx([scores[1] - scores[0]] * 2, rel=1e-6)
    assert scores[1] > scores[0]


# ------------------------------------------------------------------------------- bounds


def test_bounds_stay_below_the_truth() -> None:
    # Randomized response with epsilon ln 4; each bound errs with chance at most 0.02.
    draws = np.random.default_rng(1)
    wrong, close = 0, 0
    for _ in range(500):
        zero, one = draws.random((2, 2000)) < np.array([[0.2], [0.8]])
        found = lower_bound(one.astype(float), zero.astype(float), 1e-9, 0.005)
        wrong += found > math.log(4)
        close += found > 0.7 * math.log(4)
    assert wrong <= 30, "500 at 0.02 is 10, and 30 is more than six standard deviations above"
    assert close == 500


def test_disjoint_worlds_prove_as_much_as_so_many_trials_can() -> None:
    found = lower_bound(np.ones(4000), np.zeros(4000), 1e-3, 1e-6)
    assert found == pytest.approx(math.log(2000 / -math.log(1e-6)), abs=0.02)
    assert lower_bound(np.zeros(4000), np.ones(4000), 1e-3, 1e-6) == 0.0


def test_equal_worlds_prove_nothing() -> None:
    draws = np.random.default_rng(2)
    one, zero = draws.normal(size=(2, 20_000))
    assert lower_bound(one, zero, 1e-3, 1e-6) == 0.0


def test_many_different_scores_are_thinned() -> None:
    draws = np.random.default_rng(3)
    found = lower_bound(draws.normal(1.0, 1.0, 40_000), draws.normal(size=40_000), 0.05, 1e-4)
    # The hockey-stick of two Gaussians one apart is 0.05 at epsilon 1.55.
    assert 1.2 < found < 1.55


# ------------------------------------------------------------------------------- order, freshness


@pytest.mark.parametrize("codes", [[0, 1, 2, 3], [0, 0, 1, 2, 2], [5, 5, 5, 1]])
def test_order_scores_have_mean_zero_and_variance_one(codes: list[int]) -> None:
    arrived = np.array(codes, np.uint32)
    scores = np.array([_disorder(arrived, np.array(p)) for p in itertools.permutations(arrived)])
    assert scores.mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert np.square(scores).mean(axis=0) == pytest.approx([1, 1])


def test_order_of_nothing_to_order() -> None:
    none, same = np.empty(0, np.uint32), np.zeros(4, np.uint32)
    assert _disorder(none, none) == _disorder(same, same) == (0.0, 0.0)
    assert _disorder(same, none) == (math.inf, math.inf), "a message was lost"


def test_likeness_of_fresh_and_of_repeated_noise() -> None:
    draws = np.random.default_rng(4).integers(0, 10, (4000, 2))
    assert _likeness(draws, 1) < 5
    assert _likeness(np.repeat(draws, 2, axis=0), 1) > 20
    assert _likeness(np.concatenate([draws, draws]), 4000) > 20
    assert _likeness(np.zeros((10, 1), np.int64), 1) == 0.0


# ------------------------------------------------------------------------------- the whole


def test_an_audit_is_a_document_and_repeats_from_its_seed() -> None:
    plan = planned(20, SMALL["bit flips"], SMALL["choice decoys"])
    told: list[int] = []
    found = audit(plan, trials=1000, delta=0.01, progress=told.append)
    assert audit(plan, trials=1000, delta=0.01, seed=found.seed) == found
    assert told == [1, 2, 3, 4]
    paths = [(one.question, one.path, one.crowd) for one in found.findings]
    alone, crowd = ("one device", 1), ("real path", 20)
    assert paths == [("q0", *alone), ("q0", *crowd), ("q1", *alone), ("q1", *crowd)]
    # A clear value alone has no epsilon at all: there is no claim to test.
    assert [math.isfinite(one.claimed) for one in found.findings] == [True, True, False, True]
    document = found.document()
    assert document["seed"] == found.seed
    assert document["verdict"].startswith("No violation found")
    assert len(document["findings"]) == len(found.rows()) == 4
    assert found.trials == 8000


def test_the_verdict_leads_with_the_promise_of_the_plan() -> None:
    one = Finding("q", "one device", 1, 20_000, 7.431, 5.967)
    many = Finding("q", "sampler", 1000, 400_000, 0.25, 0.1)
    found = Audit("id", 1, 1e-3, 1 - 1e-6, (one, many), 0.0, 0.0, 1.0, "epsilon 0.5")
    assert found.verdict.startswith("No violation found: the plan promises epsilon 0.5. The sharp")
    for words in ("one device alone", "7.431", "5.967", "20,000 collections", "840,000 in all"):
        assert words in found.verdict
    broken = replace(found, findings=(one, replace(many, lower_bound=1.0)))
    assert broken.verdict.startswith("Broken, though the plan promises epsilon 0.5. ")
    assert "on a crowd of 1,000 (sampler)" in broken.verdict


def test_the_verdict_of_an_audit_names_the_crowd_of_the_plan() -> None:
    found = audit(planned(20, SMALL["bit flips"]), trials=1000, crowd=1, seed=1)
    assert "in a crowd of 20." in found.verdict


def test_nothing_claimed_is_nothing_tested() -> None:
    plan = planned(1, (choice(3), Decoys(1, chance(0.5))))
    found = audit(plan, trials=1000, seed=1)
    assert found.ok
    assert found.untested == ("q0",)
    assert [one.claimed for one in found.findings] == [math.inf]
    assert (found.lower_bound, found.claimed) == (0.0, math.inf)
    assert found.verdict.startswith("Nothing was tested")
    assert found.watched == ("repeats", "law", "sizes")


def test_a_question_that_is_not_tested_is_named() -> None:
    plan = planned(20, SMALL["bit flips"], (choice(3), Decoys(1, chance(0.01))))
    found = audit(plan, trials=1000, seed=1)
    assert found.ok
    assert found.untested == ("q1",)
    assert "Not tested, because no attacked crowd is promised anything: 'q1'." in found.verdict
    assert found.document()["untested"] == ["q1"]


def test_what_was_not_looked_at_is_said() -> None:
    plan = planned(1000, (Bit(), Flips(chance(0.02))))
    sampled = audit(plan, trials=1000, crowd=1000, seed=1)
    assert sampled.watched == ()
    assert sampled.ok
    assert {seen for _, seen, _ in sampled.checks()} == {"not looked at"}
    small = audit(plan, trials=1000, crowd=20, seed=1)
    assert small.watched == ("order", "repeats", "law", "dummies")
    assert dict(row[:2] for row in small.checks())["sizes and answers"] == "not looked at"


def test_a_small_crowd_sends_the_decoys_of_a_large_one() -> None:
    protocol = Decoys(1, chance(0.3))
    found = audit(planned(1000, (choice(3), protocol)), trials=2000, seed=1)
    assert [(one.path, one.crowd) for one in found.findings] == [
        ("one device", 1),
        ("real path", 20),
        ("sampler", 1000),
    ]
    device, small, large = (one.claimed for one in found.findings)
    assert device == math.inf
    assert small == pytest.approx(large, rel=0.05)
    assert found.ok
    assert found.untested == ()
    other = protocol.concentrated(choice(3), Fraction(50))
    assert other.decoy_slots * other.decoy_rate == pytest.approx(float(50 * protocol.decoy_rate))


def test_the_plans_own_crowd_is_attacked_through_the_sampler() -> None:
    plan = planned(1000, (Bit(), Flips(chance(0.02))))
    found = audit(plan, trials=20_000, crowd=1000, seed=1, confidence=0.999)
    assert found.findings[0].path == "sampler"
    assert found.findings[0].trials == 400_000
    assert 0.6 * found.claimed < found.lower_bound <= found.claimed


def test_batches_make_collections_of_their_own() -> None:
    attack = Attack(BIT, 5, 2, 2)
    seen = collect(attack, 1, 3000, Pipeline(), 1)
    assert seen.tallies.shape == (3000, 1)
    start, mass = _law(NOISE, 3, 5)
    expected = 3000 * mass
    counts = np.bincount(seen.tallies[:, 0] - start, minlength=6)
    # Six standard deviations in each cell.
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected) + 1).all()


@pytest.mark.parametrize(
    "wrong", [{"trials": 10}, {"delta": 2.0}, {"confidence": 1.0}, {"crowd": 0}]
)
def test_what_cannot_be_audited_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        audit(planned(20, SMALL["bit flips"]), **{"trials": 1000, **wrong})  # type: ignore[arg-type]


# ------------------------------------------------------------------------------- the nightly tier


@pytest.mark.long
@pytest.mark.parametrize(("users", "flip", "share"), [(1000, 0.02, 0.92), (400, 0.05, 0.85)])
def test_ten_million_trials_come_close_to_the_claim(users: int, flip: float, share: float) -> None:
    # The second event is rarer, so its chance is known less well.
    plan = planned(users, (Bit(), Flips(chance(flip))))
    found = audit(plan, trials=500_000, crowd=users, seed=1)
    assert found.findings[0].trials == 10_000_000
    assert share * found.claimed < found.lower_bound <= found.claimed


@pytest.mark.long
@pytest.mark.parametrize("name", ["bit flips", "choice flips", "choice decoys", "flags"])
def test_many_real_collections_stay_below_the_claim(name: str) -> None:
    found = audit(planned(20, SMALL[name]), trials=300_000, crowd=20, delta=0.01, seed=2)
    assert found.ok
    assert found.lower_bound > 0.6 * found.claimed


@pytest.mark.long
def test_many_reports_of_one_device_come_close_to_the_claim() -> None:
    found = audit(planned(1, SMALL["bit flips"]), trials=300_000, crowd=1, seed=3)
    assert 0.96 * found.claimed < found.lower_bound <= found.claimed
