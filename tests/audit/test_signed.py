"""Signed decoys attacked: the score is the likelihood ratio, and every planted fault is caught."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.plans.parts import Part
from chaffinch.protocols import Signed
from chaffinch.questions import Bit
from chaffinch.simulate import Audit, Pipeline, audit
from chaffinch.simulate.attacks import Attack, worst_attack
from chaffinch.simulate.audits import _claim
from tests.audit import plants
from tests.simulate.settings import SMALL, choice, planned, signed
from tests.tiers import all_but, nightly, some

Masses = NDArray[np.float64]
LONG = 90


def part_of(name: str) -> Part:
    return planned(20, SMALL[name]).parts[0]


def noise_law(part: Part) -> Masses:
    """Return the law of (pluses, minuses) of all 20 users' noise for one value, by its parts."""
    protocol = part.protocol
    ratio, flood = float(protocol.ratio), protocol.flood  # type: ignore[attr-defined]
    geometric, unit = np.zeros(LONG), 2 if protocol.doubled else 1  # type: ignore[attr-defined]
    geometric[::unit] = (1 - ratio) * ratio ** np.arange(LONG // unit)
    pairs = np.zeros(LONG)
    pairs[0] = 1.0
    for size, rate in enumerate(map(float, flood), start=1):
        bursts = np.zeros(LONG)
        times = np.arange(-(-LONG // size))
        bursts[::size] = [math.exp(-rate) * rate**n / math.factorial(n) for n in times.tolist()]
        pairs = np.convolve(pairs, bursts)[:LONG]
    total = np.zeros((LONG, LONG))
    for count in range(LONG):
        rest = geometric[: LONG - count]
        total[count:, count:] += pairs[count] * np.outer(rest, rest)
    return total


def moved(law: Masses, plus: int, minus: int) -> Masses:
    found = np.zeros_like(law)
    found[plus:, minus:] = law[: LONG - plus, : LONG - minus]
    return found


@pytest.mark.parametrize(
    ("name", "steps"), [("bit signed", 1), ("doubled signed", 1), ("number signed", 3)]
)
def test_the_best_attack_leaks_what_is_claimed(name: str, steps: int) -> None:
    """Where the score speaks for one world, the difference of both laws is the accountant's."""
    part = part_of(name)
    attack, noise = Attack(part, 20, 0, 19), noise_law(part)
    # Others all say no; the law is of what the target and the noise send.
    worlds = [moved(noise, 0, steps), moved(noise, steps, 0)]
    seen = np.indices(noise.shape).reshape(2, -1).T + np.array([0, 19 * steps])
    score = attack.score(seen).reshape(noise.shape)
    mechanism = part.protocol.mechanism(part.question, 20)
    for epsilon in (0.5, 1.2, 2.5):
        grown = math.exp(epsilon)
        kept = score > epsilon
        found = float((worlds[1] - grown * worlds[0])[kept].sum())
        best = float(np.maximum(worlds[1] - grown * worlds[0], 0.0).sum())
        assert found == pytest.approx(best, rel=1e-9)
        assert found == pytest.approx(mechanism.delta(epsilon).upper, rel=1e-5)


def test_the_score_of_a_choice_is_that_of_both_values() -> None:
    part = part_of("choice signed")
    attack, law = Attack(part, 20, 5, 4), noise_law(part)
    draws = np.random.default_rng(1)
    noise = draws.integers(1, 12, (200, 4))
    seen = noise + np.array([5, 0, 4, 0])

    def log_of(plus: NDArray[np.int64], minus: NDArray[np.int64]) -> Masses:
        return np.asarray(np.log(law[plus, minus]))

    one = log_of(noise[:, 0] - 1, noise[:, 1]) + log_of(noise[:, 2], noise[:, 3])
    zero = log_of(noise[:, 0], noise[:, 1]) + log_of(noise[:, 2] - 1, noise[:, 3])
    assert attack.score(seen) == pytest.approx(one - zero, abs=1e-9)


def test_the_impossible_is_seen() -> None:
    attack = Attack(part_of("bit signed"), 20, 0, 19)
    # Nineteen others said no. Without any plus the target did, too; with 19 minuses it did not.
    assert attack.score(np.array([[0, 20], [1, 19]])).tolist() == [-60.0, 60.0]
    assert attack.codes.tolist() == [0, 1]


def test_no_crowd_is_worse_than_another() -> None:
    attack = worst_attack(part_of("choice signed"), 20, 1.0)
    assert (attack.joined, attack.opposed) == (19, 0)
    assert attack.codes.tolist() == [0, 1, 2, 3]


def test_nothing_is_claimed_for_a_crowd_that_is_too_small() -> None:
    """A tenth of the flood may all be missing: no epsilon holds, cut reports or not."""
    part = part_of("bit signed")
    assert part.protocol.overflow(part.question) > 0
    assert _claim(part, 2, 0.05) == math.inf
    assert _claim(part, 20, 0.05) < 5


# ------------------------------------------------------------------------------- plants


def audited(name: str, pipeline: Pipeline | None, *, trials: int, crowd: int = 20) -> Audit:
    return audit(
        planned(20, SMALL[name]),
        trials=trials,
        crowd=crowd,
        delta=0.05,
        confidence=0.999 if pipeline else 1 - 1e-6,
        seed=41,
        broken=pipeline,
    )


@pytest.mark.parametrize(
    "name", some((name for name in SMALL if name.endswith("signed")), "number signed")
)
def test_honest_signed_decoys_leak_less_than_is_claimed(name: str) -> None:
    found = audited(name, None, trials=4000)
    assert found.ok, found.verdict
    assert 0 < found.lower_bound <= found.claimed


LEAKS: dict[str, tuple[Pipeline, int]] = {
    "flood missing": (plants.other_noise(flood=()), 1000),
    "cut for twice the crowd": (plants.other_noise(cut_for=40), 12_000),
    "noise dropped": (plants.other_noise(cut_for=10**9), 1000),
}


@pytest.mark.parametrize("name", all_but(LEAKS, "cut for twice the crowd"))
def test_a_leak_is_proven(name: str) -> None:
    pipeline, trials = LEAKS[name]
    found = audited("bit signed", pipeline, trials=trials)
    assert found.lower_bound > found.claimed
    assert found.verdict.startswith("Broken")
    assert found.law < 1e-8


@pytest.mark.parametrize(
    "name", ["choice signed", nightly("flags signed"), nightly("number signed"), "digits signed"]
)
def test_every_question_notices_a_missing_flood(name: str) -> None:
    found = audited(name, plants.other_noise(flood=()), trials=2000)
    assert found.lower_bound > found.claimed
    assert found.law < 1e-8


@pytest.mark.parametrize("make", [plants.swapped_signs, plants.silent_no])
def test_another_law_is_seen(make: type[Pipeline]) -> None:
    found = audited("bit signed", make(), trials=2000)
    assert found.law < 1e-8
    assert not found.ok


@pytest.mark.parametrize("make", [plants.dummy_no, plants.dummies_pass])
def test_dummies_that_reach_the_analyzer_are_seen(make: type[Pipeline]) -> None:
    found = audited("bit signed", make(), trials=1000)
    assert found.dummies > 0
    assert "dummies" in found.verdict
    assert not found.ok


def test_a_size_that_depends_on_the_answer_is_seen() -> None:
    pipeline = plants.size_follows_answer()
    found = audited("bit signed", pipeline, trials=6000, crowd=1)
    assert found.sizes < 1e-8
    assert "number of messages of a report depends on the answer" in found.verdict
    assert not found.ok
    assert audited("bit signed", None, trials=6000, crowd=1).sizes > 1e-6


def test_sizes_that_flips_have_may_depend_on_the_answer() -> None:
    """Their empty slots are sealed like full ones: nobody sees how many there are."""
    found = audited("bit flips", None, trials=1000, crowd=1)
    assert found.sizes == 1.0
    assert signed(5).answer_messages(part_of("bit signed").question) == 1


# ------------------------------------------------------------------------------- as users ask


def usual(pipeline: Pipeline | None = None) -> Audit:
    """Audit a plan of a thousand users as the command does, but for delta."""
    plan = planned(1000, (Bit(), signed(1000, 3.0, 1.5)))
    return audit(plan, trials=4000, delta=0.05, confidence=0.999, seed=5, broken=pipeline)


def test_a_usual_audit_attacks_every_path_and_watches_everything() -> None:
    found = usual()
    assert found.ok, found.verdict
    assert [(one.path, one.crowd) for one in found.findings] == [
        ("one device", 1),
        ("real path", 20),
        ("sampler", 1000),
    ]
    # Noise that was cut for a thousand is next to none on one device: nothing is claimed there.
    device, small, large = (one.claimed for one in found.findings)
    assert device == math.inf
    assert small == pytest.approx(large, rel=0.01)
    assert found.watched == ("order", "repeats", "law", "sizes", "dummies")
    assert found.untested == ()


PLANTED: dict[str, Pipeline] = {
    "flood missing": plants.other_noise(flood=()),
    "noise dropped": plants.other_noise(cut_for=10**9),
    "signs swapped": plants.swapped_signs(),
    "a no that is silence": plants.silent_no(),
    "a no that is a dummy": plants.dummy_no(),
    "dummies": plants.dummies_pass(),
}


@pytest.mark.parametrize("name", some(PLANTED, "signs swapped"))
def test_a_usual_audit_notices_every_plant(name: str) -> None:
    found = usual(PLANTED[name])
    assert not found.ok
    assert found.verdict.startswith("Broken")


@pytest.mark.long
def test_noise_of_many_values_is_attacked_less_often() -> None:
    part = planned(10**6, (choice(40), signed(10**6, 3.0, 1.5))).parts[0]
    small = part.protocol.concentrated(part.question, Fraction(10**6, 20))
    assert isinstance(small, Signed)
    assert small.cut_for == 20
    assert small.overflow(part.question) < 1e-8
    found = audit(
        planned(10**6, (part.question, part.protocol)),
        trials=20_000,
        crowd=20,
        delta=0.05,
        seed=5,
    )
    assert 1000 <= found.findings[0].trials < 20_000
    assert math.isfinite(found.claimed)
    assert found.ok, found.verdict
