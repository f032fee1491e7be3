"""Signed decoys against every outcome in balls: 760 settings, ten times more at night.

No bracket may lie beside the truth, and none may be wider than promised. Planted faults in the
accountant show that this comparison would notice them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from flint import arb

from chaffinch import privacy
from chaffinch.privacy.mechanisms import signed as accountant
from chaffinch.privacy.numerics import floods
from tests.oracles import balls, judge, signed
from tests.tiers import nightly

Draw = Callable[[random.Random], "Setting"]
NIGHTS = 10
LOOSE = 1e-9
FAR = 20.0
"""Beyond this epsilon the lower end of a share of the users is only promised to be one."""
BITS = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """A mechanism that is small enough for all its outcomes, and an epsilon."""

    question: str
    plus: Fraction
    minus: Fraction
    flood: tuple[Fraction, ...]
    share: Fraction
    steps: int
    size: int
    epsilon: float = 0.0
    doubled: bool = False

    def build(self) -> privacy.Mechanism:
        if self.question == "value":
            # What a choice among fewer users is composed of.
            ((value, times),) = replace(self, question="choice").build().rounds
            assert times == 2
            return value
        return privacy.SignedDecoys(
            question=self.question,
            plus_ratio=self.plus,
            minus_ratio=self.minus,
            flood=self.flood,
            share=self.share,
            steps=self.steps,
            doubled=self.doubled,
        )

    def truth(self) -> arb:
        with balls.precision(BITS):
            both, times = (self.plus, self.minus), 2 if self.doubled else 1
            law = signed.noise(*both, self.flood, self.share, self.size, times=times)
            ratio = balls.ball(self.epsilon).exp()
            if self.question == "choice":
                return signed.choice_delta(law, ratio)
            if self.question == "value":
                return signed.value_delta(law, ratio)
            return signed.steps_delta(law, self.steps, ratio)


def draw_ratio(source: random.Random, most: float) -> Fraction:
    """Return a ratio, now and then a tiny one."""
    return Fraction(source.choice([1.0, 1.0, 1.0, 1e-3, 1e-9]) * source.uniform(0.02, most))


def draw_flood(source: random.Random, most: float, longest: int) -> tuple[Fraction, ...]:
    """Return rates of bursts: none, one kind only, some of them 0, or any."""
    rates = [source.uniform(0, most / k) for k in range(1, source.randint(0, longest) + 1)]
    kind = source.choice(["any", "any", "one", "holes"])
    if kind == "one":
        rates = [0.0] * (len(rates) - 1) + rates[-1:]
    if kind == "holes":
        rates = [rate * source.choice([0, 1]) for rate in rates]
    return tuple(Fraction(rate) for rate in rates)


def draw_epsilon(source: random.Random, setting: Setting) -> float:
    """Return an epsilon: 0, usual, large, or where a ratio of two laws meets e^epsilon."""
    edges = [s * abs(math.log(setting.plus / setting.minus)) for s in range(1, setting.steps + 1)]
    cover = floods.Flood(
        tuple(rate * setting.share for rate in setting.flood), setting.plus * setting.minus
    )
    growth, moved = float(cover.growth()), source.randint(1, setting.steps)
    for ratio in (setting.plus, setting.minus):
        edges.append(moved * (math.log(growth) - 2 * math.log(ratio)))
        edges.append(math.log(growth) - math.log(setting.plus * setting.minus))
    edge = max(source.choice(edges), 0.0)
    near = source.choice([edge, math.nextafter(edge, 0), math.nextafter(edge, 99), edge * 0.999])
    return source.choice([0.0, source.uniform(0, 3), source.uniform(0, 3), near, near, 20.0, 700.0])


def steps_setting(source: random.Random) -> Setting:
    steps = source.choice([1, 1, 2, 3, 5])
    question = "bit" if steps == 1 else "number"
    ratios = draw_ratio(source, 0.35), draw_ratio(source, 0.35)
    plus, minus = source.choice([ratios, (ratios[0], ratios[0])])
    found = Setting(question, plus, minus, draw_flood(source, 1.2, 3), Fraction(1), steps, 28)
    return replace(found, epsilon=draw_epsilon(source, found))


def share_setting(source: random.Random) -> Setting:
    return replace(steps_setting(source), share=Fraction(source.uniform(0.05, 0.999)))


def doubled_setting(source: random.Random) -> Setting:
    """Return a bit whose noise of either sign comes in twos, among all users or a share of them."""
    ratios = draw_ratio(source, 0.12), draw_ratio(source, 0.12)
    plus, minus = source.choice([ratios, (ratios[0], ratios[0])])
    share = source.choice([Fraction(1), Fraction(1), Fraction(source.uniform(0.05, 0.999))])
    found = Setting("bit", plus, minus, draw_flood(source, 1.2, 3), share, 1, 28, doubled=True)
    return replace(found, epsilon=draw_epsilon(source, found))


def choice_setting(source: random.Random) -> Setting:
    plus, minus = draw_ratio(source, 0.1), draw_ratio(source, 0.1)
    share = source.choice([Fraction(1), Fraction(source.uniform(0.1, 0.999))])
    found = Setting("choice", plus, minus, draw_flood(source, 0.15, 2), share, 1, 10)
    return replace(found, epsilon=draw_epsilon(source, found))


def value_setting(source: random.Random) -> Setting:
    found = replace(steps_setting(source), question="value", steps=1)
    found = replace(found, share=Fraction(source.uniform(0.05, 0.999)))
    return replace(found, epsilon=draw_epsilon(source, found))


def complaint(setting: Setting, mechanism: privacy.Mechanism) -> str:
    """Return what is wrong with the bracket: beside the truth, or wider than promised."""
    truth, bracket = setting.truth(), mechanism.delta(setting.epsilon)
    found = judge.ball_complaint(bracket, truth)
    if not found and bracket.upper > float(truth.upper()) * (1 + LOOSE):
        found = f"too large: {bracket!r} but the truth is {truth.str(25)}"
    promised = setting.share == 1 or setting.epsilon < FAR
    if not found and promised and bracket.lower < float(truth.lower()) * (1 - LOOSE):
        found = f"too small: {bracket!r} but the truth is {truth.str(25)}"
    return found and f"{setting}: {found}"


SHARES: dict[Draw, int] = {
    steps_setting: 260,
    share_setting: 160,
    choice_setting: 120,
    value_setting: 60,
    doubled_setting: 160,
}


def settings(draw: Draw, tier: str, count: int) -> Iterator[Setting]:
    for number in range(count):
        yield draw(random.Random(f"{draw.__name__} {tier} {number}"))


def complaints(draw: Draw, tier: str, count: int) -> Iterator[str]:
    both = ((setting, setting.build()) for setting in settings(draw, tier, count))
    return (found for pair in both if (found := complaint(*pair)))


@pytest.mark.parametrize("share", [5, nightly(1)])
@pytest.mark.parametrize("draw", SHARES)
def test_no_bracket_lies_beside_the_truth(draw: Draw, share: int) -> None:
    assert sum(SHARES.values()) >= 500
    assert list(complaints(draw, "gate", SHARES[draw] // share)) == []


@pytest.mark.long
@pytest.mark.parametrize("draw", SHARES)
def test_no_bracket_lies_beside_the_truth_at_night(draw: Draw) -> None:
    assert list(complaints(draw, "night", NIGHTS * SHARES[draw])) == []


# ---------------------------------------------------------------- planted faults


@pytest.fixture
def _fresh_laws() -> Iterator[None]:
    """Let no law that a fault has changed be used later, and none from before be used now."""
    kept = [
        getattr(module, name)
        for module in (accountant, floods)
        for name in vars(module)
        if hasattr(getattr(module, name), "cache_clear")
    ]
    for law in kept:
        law.cache_clear()
    yield
    for law in kept:
        law.cache_clear()


def forget_geometric_pairs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(floods, "_masses", lambda flood, size: flood.bursts(size))


def forget_the_shift(patch: pytest.MonkeyPatch) -> None:
    parts = vars(accountant)["_parts"]
    patch.setattr(accountant, "_parts", lambda *given: parts(*given[:2], 0, given[3]))


def forget_one_direction(patch: pytest.MonkeyPatch) -> None:
    side = vars(accountant)["_side"]
    patch.setattr(accountant, "_side", lambda *both: side(min(both[:2]), max(both[:2]), *both[2:]))


def forget_one_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accountant, "_both_ways", lambda changes: changes)


def forget_the_spread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accountant.SignedDecoys, "_cover", property(_once))


def _once(mechanism: Any) -> floods.Flood:
    """Return the cover of a bit whose noise of either sign comes once."""
    rates = tuple(rate * min(mechanism.share, 1) for rate in mechanism.flood)
    return floods.Flood(rates, mechanism.plus_ratio * mechanism.minus_ratio)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Draw]] = [
    (forget_geometric_pairs, steps_setting),
    (forget_geometric_pairs, choice_setting),
    (forget_geometric_pairs, doubled_setting),
    (forget_the_spread, doubled_setting),
    (forget_the_shift, steps_setting),
    (forget_one_direction, steps_setting),
    (forget_one_order, value_setting),
]


@pytest.mark.usefixtures("_fresh_laws")
@pytest.mark.parametrize(("fault", "draw"), FAULTS)
def test_a_planted_fault_is_noticed(
    fault: Any, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    said = (one for one in complaints(draw, "gate", 40) if "-report" in one)
    assert len(list(itertools.islice(said, 3))) == 3


def test_an_ignored_share_is_noticed() -> None:
    drawn = list(settings(share_setting, "gate", 20))
    said = [complaint(one, replace(one, share=Fraction(1)).build()) for one in drawn]
    assert sum("under-report" in one for one in said) >= 5


def test_noise_that_is_not_doubled_is_noticed() -> None:
    drawn = list(settings(doubled_setting, "gate", 20))
    said = [complaint(one, replace(one, doubled=False).build()) for one in drawn]
    assert sum("report" in one for one in said) >= 5


def test_a_choice_among_fewer_users_composes_to_no_less_than_it_is() -> None:
    """Two values, each in its worse order: a little more than the pair itself."""
    choice = privacy.SignedDecoys(
        question="choice", plus_ratio="2/3", minus_ratio="2/3", flood=[4, 3, 3, 6], share="4/5"
    )
    ((value, times),) = choice.rounds
    alone, composed = choice.epsilon(1e-4), privacy.compose(value, times=times).epsilon(1e-4)
    assert alone.lower <= composed.upper <= 1.1 * alone.upper
