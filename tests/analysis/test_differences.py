"""Intervals of changes, enumerated: no pair of true counts is missed more often than is said.

The laws of both rounds are worked out here by themselves: binomials from binomial coefficients,
signed noise from its closed form, with 60 digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

import chaffinch as cf
from chaffinch.analysis.differences import (
    DecoysError,
    EstimateError,
    FlipsError,
    SignedError,
    UnknownError,
    error_of,
    half_widths,
)
from chaffinch.analysis.trend import RoundAnswer, change_ends
from chaffinch.errors import InvalidInput
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, Flips, Signed
from chaffinch.protocols.noise import Noise, SeenDecoys, SignedNoise, TotalsNoise
from chaffinch.questions import Bit, Choice, Question
from chaffinch.release.surveys import Answer
from tests.analysis import exact
from tests.cases import each_case
from tests.oracles import totals as referee
from tests.tiers import nightly

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.9975, 0.999, 0.9999)
RATIOS = (0.02, 0.165, 0.288, 0.431, 0.5, 0.658, 0.829, 0.95)
ROUNDOFF = 1e-12


class Law:
    """An error in the unit of its estimate: places, chances, and what lies further out."""

    def __init__(self, places: ArrayLike, mass: ArrayLike, rest: float = 0.0) -> None:
        self.places, self.mass, self.rest = np.array(places), np.array(mass), rest

    def missed_by(self, other: Law, up: float, down: float) -> float:
        """Return how often this error less the other is beyond one of two ends."""
        # Places are floats: one that is on an end is inside.
        hair = ROUNDOFF * (1 + np.abs(self.places).max() + np.abs(other.places).max())
        upper = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)
        lower = np.append(0.0, np.cumsum(self.mass))
        above = upper[np.searchsorted(self.places, other.places + up + hair)]
        below = lower[np.searchsorted(self.places, other.places - down - hair)]
        return float(other.mass @ (above + below)) + self.rest + other.rest


def signed_law(ratio: float, unit: float, *, times: int = 1) -> Law:
    """Return the difference of two negative binomials of a whole exponent: so many geometric."""
    with mpmath.workdps(60):
        a = mpmath.mpf(ratio)
        most = math.ceil(50 / -math.log(ratio)) + 1
        one = [(1 - a) / (1 + a) * a ** abs(k) for k in range(-most, most + 1)]
        mass = np.array([float(m) for m in one])
        rest = float(2 * a ** (most + 1) / (1 + a))
    total = mass
    for _ in range(times - 1):
        total = np.convolve(total, mass)
    return Law((np.arange(len(total)) - len(total) // 2) * unit, total, times * rest)


def bits_law(noise: Noise, held: int, reports: int) -> Law:
    """Return the error of the share of a value that so many of the reports hold."""
    mass = [float(one) for one in exact.law(noise, held, reports)]
    mean = noise.base(reports) + noise.slope * held
    steps = [(tally - mean) / noise.slope / reports for tally in range(len(mass))]
    return Law([float(one) for one in steps], mass)


def decoys_law(values: int, arrived: int, reports: int) -> Law:
    share = Fraction(1, values)
    mass = [float(one) for one in exact.binomial(arrived, share)]
    return Law([float((k - arrived * share) / reports) for k in range(arrived + 1)], mass)


Case = tuple[list[tuple[Law, Law]], EstimateError, EstimateError]


def signed_cases() -> Iterator[Case]:
    """Signed noise cut for all reports of choices and bits, and for half of them."""
    kinds = (((40, 31), 1, 1), ((40, 40), 2, 1), ((2, 9), 1, 2))
    for ratio, (sizes, gain, times) in itertools.product(RATIOS, kinds):
        laws = [signed_law(ratio, 1 / (gain * size), times=times) for size in sizes]
        errors = [
            error_of(SignedNoise(((1, Fraction(ratio)),), size, gain), times * size, 1 / size)
            for size in sizes
        ]
        yield [(laws[0], laws[1])], errors[0], errors[1]


def flipped_cases() -> Iterator[Case]:
    kinds = (
        "flips",
        "copies",
        "flips and decoys",
        "heavy flips",
        "rare flips",
        "clear",
        "response",
    )
    for name, sizes in (("flips", (40, 31)), *((name, (12, 11)) for name in kinds)):
        noise = exact.KINDS[name]
        first, last = ([bits_law(noise, h, n) for h in range(n + 1)] for n in sizes)
        errors = [error_of(noise, n, 1 / n) for n in sizes]
        yield list(itertools.product(first, last)), errors[0], errors[1]


def decoyed_cases() -> Iterator[Case]:
    kinds = (((0, 3), (2, 9)), ((40, 31), (40, 40)), ((200, 90), (40, 31)))
    for values, (arrived, sizes) in itertools.product((2, 5), kinds):
        found = [decoys_law(values, m, n) for m, n in zip(arrived, sizes, strict=True)]
        errors = [
            error_of(SeenDecoys(values, np.array([m])), n, 1 / n)
            for m, n in zip(arrived, sizes, strict=True)
        ]
        yield [(found[0], found[1])], errors[0], errors[1]


def worst_misses(case: Case, level: float) -> float:
    laws, first, last = case
    up, down = half_widths(first, last, 1 - level)
    return max(second.missed_by(one, up, down) for one, second in laws)


@pytest.mark.parametrize("cases", [nightly(signed_cases), flipped_cases, decoyed_cases])
def test_no_change_is_missed_more_often_than_said(cases: object) -> None:
    """Of all pairs of true counts, at levels from 50% to 99.99%."""
    for case in cases():  # type: ignore[operator]
        for level in LEVELS:
            assert worst_misses(case, level) <= (1 - level) * (1 + 1e-9), (case[1:], level)


@pytest.mark.long
@pytest.mark.parametrize("cases", [signed_cases, flipped_cases, decoyed_cases])
def test_nor_by_what_the_standard_error_alone_tells(cases: object) -> None:
    for laws, first, last in cases():  # type: ignore[operator]
        flipped = isinstance(first, FlipsError)
        unknown = [
            UnknownError(math.sqrt(one.variance), round(1 / step_of(one)), flipped=kind)
            for one in (first, last)
            for kind in {flipped, False}
        ]
        for one, other in itertools.product(unknown[: len(unknown) // 2], unknown[-1:]):
            for level in LEVELS:
                assert worst_misses((laws, one, other), level) <= (1 - level) * (1 + 1e-9)


def step_of(error: EstimateError) -> float:
    """Return what a person is worth, in shares."""
    assert isinstance(error, (FlipsError, DecoysError, SignedError))
    gain = 1 if isinstance(error, DecoysError) else float(error.noise.slope)
    return error.step * gain


def test_ends_of_known_laws_are_not_wider_than_they_need_be() -> None:
    """A hair less, and one side would miss more often than half of what both may."""
    for case in itertools.chain(signed_cases(), decoyed_cases()):
        ((one, second),), first, last = case
        for level in (0.5, 0.8, 0.95, 0.999):
            up, down = half_widths(first, last, 1 - level)
            for ends in ((up * (1 - 1e-9), math.inf), (math.inf, down * (1 - 1e-9))):
                if min(ends) > 1e-9:
                    assert second.missed_by(one, *ends) >= (1 - level) / 2 * (1 - 2e-3)


def old_reach(ratio: float, level: float) -> float:
    """Return how far changes reached where both intervals are cut at 0 and n: a normal quantile."""
    error = math.sqrt(2 * ratio) / (1 - ratio)
    return math.sqrt(2) * (float(stats.norm.isf((1 - level) / 2)) * error + 1)


@pytest.mark.parametrize(
    ("level", "times"), [(0.9975, 1.6), (0.9999, 11.0)], ids=["99.75%", "99.99%"]
)
def test_a_normal_quantile_does_not_stand_in_for_geometric_tails(
    level: float, times: float
) -> None:
    ratio = 0.829
    law = signed_law(ratio, 1.0)
    far = old_reach(ratio, level)
    assert law.missed_by(law, far, far) / (1 - level) > times
    one = SignedError(SignedNoise(((1, Fraction(ratio)),), 40), 40, 1.0)
    assert law.missed_by(law, *half_widths(one, one, 1 - level)) <= 1 - level


# ----------------------------------------------------------------------------
# From the tallies of two releases to the interval of a change.


def plan_of(question: Question, protocol: Flips | Decoys | Signed, users: int) -> Plan:
    """Return a plan that nobody verifies: only the law of its noise is asked for."""
    return Plan("", (Part("q", question, protocol),), users, users, users, 1, 1.0, 1e-6)


def round_answer(plan: Plan, tallies: Sequence[int], *, known: bool) -> RoundAnswer:
    """Return what a release with these tallies says; its own intervals have no part in changes."""
    part, seen, people = plan.parts[0], np.array(tallies), plan.users
    law = part.protocol.noise(part.question)
    noise = law if isinstance(law, (Noise, SignedNoise)) else None
    if noise is None:
        read = part.protocol.read(part.question, seen, people).noise
        estimates, error = read.estimate(seen, people), read.standard_error(people)
    else:
        estimates, error = noise.estimate(seen, people), noise.standard_error(people)
    none = np.zeros(len(seen))
    errors = np.broadcast_to(error, estimates.shape)
    answer = Answer("q", part.labels, seen, estimates, errors, none, none, none, none)
    return RoundAnswer(answer, people, in_clear=True, plan=plan if known else None)


def drawn(plan: Plan, held: int) -> list[tuple[list[int], float]]:
    """Return all tallies of a value that so many hold, and how likely they are."""
    protocol, people = plan.parts[0].protocol, plan.users
    if isinstance(protocol, Flips):
        found = exact.law(Noise.flips(protocol.flip_probability), held, people)
        return [([tally], float(mass)) for tally, mass in enumerate(found)]
    if isinstance(protocol, Decoys):  # as many as there are people
        found = exact.binomial(people, Fraction(1, 2))
        return [([held + k, 2 * people - held - k], float(m)) for k, m in enumerate(found)]
    assert isinstance(protocol, Signed)
    law = signed_law(float(protocol.ratio), 1.0)
    base = 2 * held - people
    return [([base + int(k)], float(m)) for k, m in zip(law.places, law.mass, strict=True)]


PLANS: dict[str, tuple[Question, Flips | Decoys | Signed]] = {
    "flips": (Bit(missing="refuse"), Flips(Fraction(1, 4))),
    "decoys": (Choice(["a", "b"], missing="refuse"), Decoys(4, Fraction(1, 2))),
    "signed": (Bit(missing="refuse"), Signed(Fraction(1, 8), (Fraction(1),), 4, 10)),
}


@pytest.mark.parametrize("known", [True, False], ids=["with plans", "without"])
@pytest.mark.parametrize("name", PLANS)
def test_all_pairs_of_tallies_and_of_true_counts(name: str, *, known: bool) -> None:
    question, protocol = PLANS[name]
    if isinstance(protocol, Signed):
        plans = [plan_of(question, replace(protocol, cut_for=users), users) for users in (4, 3)]
    else:
        plans = [plan_of(question, protocol, users) for users in (6, 5)]
    seen = [
        {tuple(tally) for held in range(plan.users + 1) for tally, _ in drawn(plan, held)}
        for plan in plans
    ]
    answers = [
        {tally: round_answer(plan, tally, known=known) for tally in some}
        for plan, some in zip(plans, seen, strict=True)
    ]
    for level in (0.5, 0.9, 0.99) if name != "signed" else (0.8, 0.99):
        ends = {
            pair: [float(end[0]) for end in change_ends(one, other, 1 - level)]
            for (pair, one, other) in (
                ((before, after), answers[0][before], answers[1][after])
                for before, after in itertools.product(*seen)
            )
        }
        assert all(-1 <= low <= 1 and -1 <= high <= 1 for low, high in ends.values())
        for first in range(plans[0].users + 1):
            for last in range(plans[1].users + 1):
                truth = last / plans[1].users - first / plans[0].users
                missed = 0.0
                for before, one in drawn(plans[0], first):
                    for after, other in drawn(plans[1], last):
                        low, high = ends[tuple(before), tuple(after)]
                        missed += one * other * (not low - 1e-12 <= truth <= high + 1e-12)
                assert missed <= (1 - level) * (1 + 1e-9), (level, first, last)


def test_a_release_of_another_plan_is_refused() -> None:
    question, protocol = PLANS["flips"]
    one = round_answer(plan_of(question, protocol, 6), [3], known=True)
    wrong = replace(one, answer=replace(one.answer, tallies=np.array([1, 2])))
    with pytest.raises(InvalidInput, match="one of its plan"):
        change_ends(one, wrong, 0.05)


def test_means_of_those_who_answered_take_both_intervals() -> None:
    asked = cf.Number(0, 10, missing="count")
    plan = cf.plan(asked, users=2000, target=cf.Target(2.0, 1e-6), max_messages=2)
    releases = [
        cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
        for answers in ([3.0] * 1800 + [None] * 200, [7.0] * 1500 + [None] * 500)
    ]
    told = cf.trend(releases, plans=[plan]).answers[0]
    (change,) = told.changes
    before, after = (RoundAnswer.of(one, "answer", plan).ends(0.025) for one in releases)
    ends = (float(after[0][0] - before[1][0]), float(after[1][0] - before[0][0]))
    assert (change.low, change.high) == pytest.approx(ends)
    assert change.low < 4 < change.high
    assert change.low_together == pytest.approx(change.low)
    estimate = told.estimates[0]
    assert estimate.low_together < estimate.low < 3 < estimate.high < estimate.high_together
    # Without the plan only the standard errors are known.
    (wider,) = cf.trend(releases).answers[0].changes
    assert wider.low == pytest.approx(wider.estimate - wider.standard_error / math.sqrt(0.05))


@pytest.fixture(scope="module")
def counted() -> tuple[Plan, list[cf.Release]]:
    """Two releases of numbers with and without gaps, by a plan that nobody verifies.

    Of the first number each step is seen, of the others the total; of who answered it the tally
    of yes alone, or that of no as well.
    """
    asked, flips = cf.Number(2, 10, missing="count"), Fraction(1, 8)
    signed, decoys = Signed(Fraction(1, 8), (Fraction(1),), 4, 100, 3), Decoys(4, Fraction(1, 2))
    parts = (
        Part("steps", asked, Encoded(flips, 3, together=False)),
        Part("steps (answered)", Bit(), Flips(flips), "steps"),
        Part("total", asked, Encoded(flips, 3, together=True)),
        Part("total (answered)", Bit(), decoys, "total"),
        Part("signed", asked, signed),
        Part("signed (answered)", Bit(), replace(signed, steps=None), "signed"),
        Part("full", cf.Number(2, 10, missing="refuse"), Encoded(flips, 3, together=True)),
    )
    plan = Plan("", parts, 100, 100, 100, 1, 1.0, 1e-6)
    table: dict[str, list[float | None]]
    table = {name: [9.0] * 60 + [3.0] * 30 + [None] * 10 for name in ("steps", "total", "signed")}
    table["full"] = [4.0] * 100
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Plan, "verify", lambda _: None)
        made = [cf.analyze(cf.shuffle(cf.encode_many(table, plan)), plan) for _ in range(2)]
    return plan, made


@each_case("question", ["steps", "total", "signed", "full"])
def test_an_interval_of_one_round_is_that_of_its_release(
    question: str, counted: tuple[Plan, list[cf.Release]]
) -> None:
    plan, releases = counted
    for release in releases:
        one = RoundAnswer.of(release, question, plan)
        assert np.array_equal(one.ends(1 - release.level), one.released)


def test_the_error_of_a_mean_is_that_of_its_bits_and_of_rounding(
    counted: tuple[Plan, list[cf.Release]],
) -> None:
    plan, (release, _) = counted
    step = 8 / 300  # of a range of 8, in three bits of each of a hundred reports
    error = error_of(Noise.flips(Fraction(1, 8)), 300, step, rounding=100 * step**2)
    assert RoundAnswer.of(release, "full", plan).errors == [error]


def test_a_mean_is_compared_by_both_intervals_if_one_round_needs_its_own(
    counted: tuple[Plan, list[cf.Release]],
) -> None:
    plan, releases = counted
    for plans in ([plan, None], [None, plan], [plan, plan]):
        first, last = map(RoundAnswer.of, releases, ["steps"] * 2, plans)
        (before, after), (low, high) = (
            (one.ends(0.05) for one in (first, last)),
            change_ends(first, last, 0.1),
        )
        assert np.allclose([low, high], [after[0] - before[1], after[1] - before[0]])


@each_case("in_clear", [True, False])
def test_without_a_plan_shares_are_known_by_what_was_sent(*, in_clear: bool) -> None:
    """A share of reports has no tails as long as an unknown mean, and least if all is flipped."""
    plan = plan_of(*PLANS["flips"], 6)
    one = replace(round_answer(plan, [3], known=False), in_clear=in_clear)
    error = float(one.standard_errors[0])
    assert one.errors == [UnknownError(error, 6, flipped=not in_clear)]


def test_a_normal_quantile_would_miss_flips_too() -> None:
    """So the enumeration above can fail: without a bound many pairs are missed too often."""
    for laws, first, last in itertools.islice(flipped_cases(), 1):
        spread = math.sqrt(first.variance + last.variance)
        for level in (0.5, 0.9, 0.95, 0.99):
            far = spread * float(stats.norm.isf((1 - level) / 2))
            missed = [second.missed_by(one, far, far) for one, second in laws]
            assert max(missed) > 1 - level


# ----------------------------------------------------------------------------
# Totals that one party adds up.


def totals_law(noise: TotalsNoise, step: float) -> Law:
    """Return the noise of one total, worked out by the referee of the accountant."""
    one = {place: float(mass) for place, mass in referee.masses(noise.law, noise.scale).items()}
    most = max(one)
    mass = np.array([one.get(place, 0.0) for place in range(-most, most + 1)])
    total = mass
    for _ in range(noise.terms - 1):
        total = np.convolve(total, mass)
    return Law((np.arange(len(total)) - len(total) // 2) * step, total, 1e-18)


@each_case("law", ["laplace", "gaussian"])
def test_no_change_of_totals_is_missed_more_often(law: str) -> None:
    noises = [TotalsNoise(law, Fraction(5)), TotalsNoise(law, Fraction(3, 2), terms=2)]
    laws = [totals_law(noise, 1 / 100) for noise in noises]
    first, last = (error_of(noise, 100, 1 / 100) for noise in noises)
    for level in LEVELS:
        up, down = half_widths(first, last, 1 - level)
        missed = laws[1].missed_by(laws[0], up, down)
        assert missed <= 1 - level
        # Not a place narrower on both sides.
        narrower = laws[1].missed_by(laws[0], up - 0.0101, down - 0.0101)
        assert narrower > 0.99 * (1 - level) or up < 0.011


def test_a_sum_that_is_rounded_as_a_whole_is_off_by_half_a_step_more() -> None:
    plain = error_of(TotalsNoise("gaussian", Fraction(20)), 1000, 1.0)
    whole = error_of(TotalsNoise("gaussian", Fraction(20), whole=True), 1000, 1.0)
    widths = [half_widths(None, one, 0.05) for one in (plain, whole)]
    assert [after - before for before, after in zip(*widths, strict=True)] == pytest.approx(
        [0.5] * 2
    )
    assert half_widths(plain, whole, 0.05)[0] == pytest.approx(1.96 * 20 * math.sqrt(2) + 1, abs=1)


def test_noise_too_long_to_follow_has_a_bound() -> None:
    wide = error_of(TotalsNoise("gaussian", Fraction(1 << 15)), 1000, 1.0)
    up, down = half_widths(wide, wide, 0.05)
    assert up == down
    spread = math.sqrt(2) * (1 << 15)
    assert 1.96 * spread < up < 2.8 * spread
    long = error_of(TotalsNoise("laplace", Fraction(1 << 30)), 1000, 1.0)
    assert half_widths(long, long, 0.05)[0] < 4.5 * 2 * (1 << 30)
