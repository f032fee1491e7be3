"""Estimates, standard errors and intervals do what the plan says, and the tests can tell.

The false-alarm rate of one simulation is 1e-6, shared out over its tests (bias, standard
error and coverage of every value, and the simultaneous coverage): see `simulate.judging`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from chaffinch.protocols import Decoys, Signed
from chaffinch.protocols.noise import Draws, Places
from chaffinch.questions import Bit, Question
from chaffinch.simulate import Simulation, Truth, simulate, zipf
from chaffinch.wire.batches import Counts
from tests.simulate.settings import LARGE, chance, changed, planned, reflooded
from tests.tiers import chequered, nightly, some

SIGNED = tuple(
    f"{kind} signed" for kind in ("bit", "doubled", "choice", "flags", "number", "digits")
)
CENTRED = (*SIGNED, "number weighted")
"""Whose estimates are unbiased whatever their ratio is."""
CLEAR = ("bit decoys", "choice decoys")
QUICK = [name for name in LARGE if name not in (*CENTRED, *CLEAR, "choice flipped decoys")]
SLOW = ("bit copies", "choice flipped decoys")
RUNS = 20_000
PEOPLE = 20_000


def simulated(name: str, *, factor: float = 1.0, runs: int = RUNS) -> Simulation:
    plan = planned(PEOPLE, LARGE[name])
    people = zipf(plan, PEOPLE, seed=11, exponent=1.3)
    return simulate(plan, people, runs, seed=12, devices=changed(plan, factor))


@pytest.mark.parametrize(
    "name",
    some(
        LARGE,
        "bit flips",
        "bit decoys",
        "choice decoys",
        "flags",
        "number together",
        "bit signed",
        "choice signed",
        "digits signed",
    ),
)
def test_estimates_are_as_exact_as_predicted(name: str) -> None:
    found = simulated(name)
    assert found.faults == ()
    assert found.worst.coverage >= 0.94
    assert all(coverage >= 0.94 for _, coverage in found.together)
    # A variance is off by √((2 + excess kurtosis)/runs) = 1 % for bits, 1.7 % for signed noise:
    # these are 5.6 standard deviations.
    for row in found.rows():
        room = 0.047 if name in CENTRED else 0.028
        assert row.error_observed == pytest.approx(row.error_predicted, rel=room)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        *chequered(((name,) for name in QUICK if name not in SLOW), (0.9, 1.1)),
        *(nightly(name, factor) for name in SLOW for factor in (0.9, 1.1)),
    ],
)
def test_a_tenth_more_or_less_noise_fails_every_test(name: str, factor: float) -> None:
    found = simulated(name, factor=factor)
    for what in ("the mean", "the standard error", "the coverage", "the simultaneous"):
        assert any(fault.startswith(what) for fault in found.faults), what
    assert found.worst.coverage < 0.94
    assert not found.ok
    assert "Not as predicted" in found.verdict


@pytest.mark.parametrize(("name", "factor"), chequered(((name,) for name in CENTRED), (0.9, 1.1)))
def test_a_ratio_off_by_a_tenth_is_noticed(name: str, factor: float) -> None:
    """The mean cannot tell: signed noise is unbiased whatever its ratio is."""
    found = simulated(name, factor=factor)
    what = ["the standard error", "the number of messages"]
    if factor > 1 and not name.startswith(("number", "digits")):
        # More noise than was promised; the interval of a mean leaves room for any rounding.
        what += ["the coverage", "the simultaneous"]
    for each in what:
        assert any(fault.startswith(each) for fault in found.faults), each
    assert not any(fault.startswith("the mean") for fault in found.faults)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        *chequered(((name,) for name in SIGNED[:-1]), (0.9, 1.1)),
        *(nightly(SIGNED[-1], factor) for factor in (0.9, 1.1)),
    ],
)
def test_a_flood_off_by_a_tenth_is_noticed_by_the_number_of_messages(
    name: str, factor: float
) -> None:
    plan = planned(PEOPLE, LARGE[name])
    people = zipf(plan, PEOPLE, seed=11, exponent=1.3)
    found = simulate(plan, people, RUNS, seed=12, devices=reflooded(plan, factor))
    assert found.faults == ("the number of messages of 'q0'",), "the estimates do not see it"


@dataclass(frozen=True)
class Lopsided(Signed):
    """A tenth more pluses of noise than minuses."""

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Add pluses only."""
        counts = super().draw_tallies(question, truth, runs, draws, places)
        extra = 0.1 * float(self.ratio / (1 - self.ratio))
        size = runs, len(places) * len(self.digits)
        counts[:, ::2] += (2 if self.doubled else 1) * draws.poisson(extra, size)
        return counts


@pytest.mark.parametrize("name", some(SIGNED, *SIGNED[:-1]))
def test_more_pluses_than_minuses_are_a_bias(name: str) -> None:
    plan = planned(PEOPLE, LARGE[name])
    part, how = plan.parts[0], plan.parts[0].protocol
    lopsided = Lopsided(**{field.name: getattr(how, field.name) for field in fields(how)})
    other = replace(plan, parts=(replace(part, protocol=lopsided),))
    people = zipf(plan, PEOPLE, seed=11, exponent=1.3)
    found = simulate(plan, people, RUNS, seed=12, devices=other)
    assert any(fault.startswith("the mean") for fault in found.faults)


@pytest.mark.parametrize("name", CLEAR)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_decoy_rate_off_by_a_tenth_is_noticed(name: str, factor: float) -> None:
    """By how many arrived, and how far estimates scatter; intervals go by what arrived."""
    found = simulated(name, factor=factor)
    assert "the number of messages of 'q0'" in found.faults
    assert any(fault.startswith("the standard error") for fault in found.faults)
    for what in ("the mean", "the coverage", "the simultaneous"):
        assert not any(fault.startswith(what) for fault in found.faults), what


def test_a_bit_of_the_first_source_is_as_exact_as_foretold() -> None:
    """S0 §5.1 at epsilon 1 and delta 1e-6: 86 decoys among 1000 people, √(86/4) people off."""
    plan = planned(1000, (Bit(), Decoys(1, chance(0.086))))
    found = simulate(plan, zipf(plan, 1000, seed=11), RUNS, seed=12)
    assert found.faults == ()
    assert all(row.error_observed == pytest.approx(4.637, rel=0.028) for row in found.rows())


@dataclass(frozen=True)
class Leaning(Decoys):
    """One decoy in fifty that should fall on the second value falls on the first."""

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Move some decoys, none of the answers."""
        counts = super().draw_tallies(question, truth, runs, draws, places)
        moved = draws.binomial(counts[:, 1] - truth.counts[1], 0.02)
        counts[:, 0] += moved
        counts[:, 1] -= moved
        return counts


@pytest.mark.parametrize("name", CLEAR)
def test_decoys_that_are_not_uniform_are_a_bias(name: str) -> None:
    plan = planned(PEOPLE, LARGE[name])
    part, how = plan.parts[0], plan.parts[0].protocol
    leaning = Leaning(**{field.name: getattr(how, field.name) for field in fields(how)})
    other = replace(plan, parts=(replace(part, protocol=leaning),))
    people = zipf(plan, PEOPLE, seed=11, exponent=1.3)
    found = simulate(plan, people, RUNS, seed=12, devices=other)
    assert any(fault.startswith("the mean") for fault in found.faults)
    assert "the number of messages of 'q0'" not in found.faults


def test_decoys_are_noticed_by_the_number_of_messages() -> None:
    found = simulated("choice decoys", factor=0.99)
    assert "the number of messages of 'q0'" in found.faults
    assert "the number of messages of 'q0'" not in simulated("choice decoys").faults


def test_surveys_are_judged_question_by_question() -> None:
    plan = planned(PEOPLE, LARGE["bit flips"], LARGE["choice decoys"], LARGE["number separate"])
    people = zipf(plan, PEOPLE, seed=1)
    found = simulate(plan, people, 1000, seed=2)
    assert found.ok
    assert [name for name, _ in found.together] == ["q0", "q1", "q2"]
    assert len(found.rows()) == 1 + 6 + 1


@pytest.mark.parametrize("seeds", [8, nightly(60)])
def test_no_false_alarms_over_many_seeds(seeds: int) -> None:
    # 60 simulations at 1e-6 each: a false alarm among them has a chance below 1e-4.
    plan = planned(400, LARGE["bit flips"], LARGE["choice decoys"], LARGE["number together"])
    people = zipf(plan, 400, seed=3)
    assert all(simulate(plan, people, 200, seed=seed).ok for seed in range(seeds))


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_estimates_over_a_million_collections(name: str) -> None:
    assert simulated(name, runs=1_000_000).ok
    assert not simulated(name, factor=0.98, runs=1_000_000).ok


def test_a_notebook_shows_no_truth() -> None:
    found = simulated(QUICK[0], runs=200)
    shown = found._repr_html_()
    assert shown.startswith('<div class="cf-card"')
    assert "coverage" in shown
    assert f"{found.values[0].truth:,.6g}" not in shown
