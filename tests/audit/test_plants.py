"""Every planted fault is caught, and an honest pipeline never is.

An audit here errs with chance 1e-3 on a plant, where an error would only mean that luck
helped to catch it, and with chance 1e-6 on an honest pipeline.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chaffinch.protocols import Decoys, Encoded, Flips, Protocol
from chaffinch.questions import Bit, Number, Question
from chaffinch.simulate import Audit, Pipeline, audit
from tests.audit import plants
from tests.simulate.settings import SMALL, chance, choice, planned
from tests.tiers import nightly, some


class Setting(NamedTuple):
    asked: tuple[Question, Protocol]
    crowd: int
    delta: float
    trials: int


BIT: tuple[Question, Protocol] = (Bit(), Flips(chance(0.2)))
CLEAR: tuple[Question, Protocol] = (Bit(), Decoys(1, chance(0.5)))
MANY_CLEAR: tuple[Question, Protocol] = (Bit(), Decoys(8, chance(0.5)))
VALUES: tuple[Question, Protocol] = (choice(3), Decoys(2, chance(0.6)))

ALONE = Setting(BIT, 1, 1e-3, 6000)
CROWD = Setting(BIT, 20, 1e-3, 20_000)
DECOYS = Setting(CLEAR, 20, 1e-2, 40_000)
PAIR = Setting(MANY_CLEAR, 2, 0.02, 8000)
CHOICE = Setting(VALUES, 20, 1e-2, 20_000)

LEAKS: dict[str, tuple[Setting, Pipeline]] = {
    "never flips": (ALONE, plants.no_noise()),
    "half of q": (ALONE, plants.less_noise(0.5)),
    "never flips in a crowd": (CROWD._replace(trials=4000), plants.no_noise()),
    "target never flips": (CROWD, plants.target_never_flips()),
    "flips one way": (CROWD._replace(trials=4000), plants.one_way_flips()),
    "shared seed": (CROWD._replace(trials=4000), plants.shared_seed()),
    "drop-out of 60 %": (DECOYS._replace(trials=20_000), plants.only(slice(0, 7))),
    "half of the decoys": (DECOYS._replace(trials=10_000), plants.less_noise(0.5)),
    "decoys missing": (CHOICE._replace(trials=4000), plants.no_decoys()),
    "decoys marked": (CHOICE._replace(trials=4000), plants.decoys_in_wrong_range(3)),
    "decoys not uniform": (CHOICE._replace(trials=6000), plants.lopsided_decoys(3)),
    "one person fewer": (PAIR, plants.only(slice(0, 0))),
    "choice never flips": (
        Setting(SMALL["choice flips"], 20, 1e-3, 4000),
        plants.no_noise(),
    ),
    "packed choice with half of q": (
        Setting(SMALL["choice flips packed"], 1, 1e-3, 6000),
        plants.less_noise(0.5),
    ),
    "packed choice never flips in a crowd": (
        Setting(SMALL["choice flips packed"], 20, 1e-3, 4000),
        plants.no_noise(),
    ),
    "number with half of q": (
        Setting((Number(0, 10), Encoded(chance(0.2), 2, together=True)), 1, 1e-3, 6000),
        plants.less_noise(0.5),
    ),
    "flags with half of q": (
        Setting(SMALL["flags"], 1, 1e-3, 6000),
        plants.less_noise(0.5),
    ),
}
"""More is proven to leak than is claimed."""
SLOW: dict[str, tuple[Setting, Pipeline]] = {
    "nine tenths of q": (ALONE._replace(trials=40_000), plants.less_noise(0.9)),
    "drop-out of 30 %": (DECOYS._replace(trials=160_000), plants.only(slice(0, 13))),
}
"""The same, after very many trials."""


def audited(setting: Setting, pipeline: Pipeline | None, *, seed: int, confidence: float) -> Audit:
    plan = planned(max(setting.crowd, 2), setting.asked)
    return audit(
        plan,
        trials=setting.trials,
        crowd=setting.crowd,
        delta=setting.delta,
        confidence=confidence,
        seed=seed,
        broken=pipeline,
    )


@pytest.mark.parametrize(
    "name",
    some(
        LEAKS | SLOW,
        "half of q",
        "target never flips",
        "shared seed",
        "decoys missing",
        "decoys not uniform",
        "one person fewer",
        "flips one way",
        "drop-out of 60 %",
        "decoys marked",
        "packed choice with half of q",
        "number with half of q",
    ),
)
def test_a_leak_is_proven(name: str) -> None:
    found = audited(*(LEAKS | SLOW)[name], seed=31, confidence=0.999)
    assert found.lower_bound > found.claimed
    assert not found.ok
    assert found.verdict.startswith("Broken")
    assert found.law < 1e-8


@pytest.mark.parametrize(
    "setting",
    [
        nightly(ALONE),
        CROWD._replace(trials=8000),
        nightly(CROWD._replace(trials=20_000)),
        DECOYS._replace(trials=4000),
        CHOICE._replace(trials=4000),
        nightly(PAIR),
    ],
    ids=["alone", "crowd", "crowd for long", "decoys", "choice", "pair"],
)
def test_the_same_settings_are_fine_without_the_fault(setting: Setting) -> None:
    found = audited(setting, None, seed=32, confidence=1 - 1e-6)
    assert found.ok
    assert 0 < found.lower_bound <= found.claimed


@pytest.mark.parametrize(
    "pipeline", [plants.identity(), plants.reversed_order(), plants.first_half_kept()]
)
def test_an_order_that_tells_is_seen(pipeline: Pipeline) -> None:
    found = audited(CHOICE._replace(trials=2000), pipeline, seed=33, confidence=0.999)
    assert found.order > 6.5
    assert all(one.ok for one in found.findings), "tallies cannot see it"
    assert "order" in found.verdict


@pytest.mark.parametrize("make", [plants.stale_batch, plants.one_key])
@pytest.mark.parametrize("setting", [CROWD, CHOICE])
def test_noise_that_is_used_twice_is_seen(setting: Setting, make: type[Pipeline]) -> None:
    found = audited(setting._replace(trials=3000), make(), seed=34, confidence=0.999)
    assert found.repeats > 6.5
    assert "noise" in found.verdict


def test_copies_with_one_flip_do_not_have_the_law() -> None:
    # They leak less than is claimed, and are worth less than is promised.
    setting = Setting(SMALL["bit copies"], 20, 1e-3, 2000)
    found = audited(setting, plants.same_flip_for_all_copies(), seed=35, confidence=0.999)
    assert all(one.ok for one in found.findings)
    assert found.law < 1e-8
    assert "law" in found.verdict


def test_a_tenth_less_flips_in_a_crowd_do_not_have_the_law() -> None:
    setting = Setting(SMALL["choice flips"], 20, 1e-3, 6000)
    found = audited(setting, plants.less_noise(0.9), seed=36, confidence=0.999)
    assert found.law < 1e-8


@pytest.mark.parametrize(
    "name",
    some(SMALL, "bit with missing", "choice flipped decoys", "number together", "digits signed"),
)
def test_honest_pipelines_raise_no_alarm(name: str) -> None:
    # Errs with chance 1e-6 for each of the seeds.
    plan = planned(20, SMALL[name])
    for seed in range(2):
        found = audit(plan, trials=1000, seed=seed, crowd=1 + 4 * seed)
        assert found.ok, found.verdict


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_honest_pipelines_raise_no_alarm_over_many_seeds(seed: int) -> None:
    for asked in (BIT, CLEAR, SMALL["choice flips"], SMALL["number separate"], SMALL["flags"]):
        for crowd in (1, 20):
            found = audit(planned(20, asked), trials=1000, seed=seed, crowd=crowd)
            assert found.ok, found.verdict
