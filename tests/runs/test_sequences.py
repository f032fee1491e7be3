"""Any sequence of runs on the same people: what the last one states is true of all of them.

The judge composes exactly, in whole numbers, what one person is exposed to: the person's group of
each plan is tried out, and each crowd of one other. It shares no code with what is stated.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import chaffinch as cf
from chaffinch.errors import DataRepeated, InvalidInput
from chaffinch.ledger import Charge
from chaffinch.ledger.release_record import ReleaseRecord, RunRelease, are_covered, promise_together
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.plans.protected_units import Unit
from chaffinch.privacy import FlippedBits, compose
from chaffinch.protocols.flips import Flips
from chaffinch.questions import PublicGroup
from chaffinch.runs.known_data import KnownData, SourceState
from chaffinch.runs.repeats import RepeatRules
from tests.oracles import exact
from tests.oracles.exact import Pair
from tests.release.survey_releases import release
from tests.tiers import slower

DELTA = 0.01


def plan_of(flip: Fraction, rounds: int, group: str = "") -> Plan:
    """Return a plan for two people, whose promise is that of its mechanism."""
    mechanism = FlippedBits(users=2, flip_probability=flip)
    epsilon = compose(mechanism, times=rounds).epsilon(DELTA).upper
    places = PublicGroup(group, cf.Choice(["a", "b", "c"])) if group else None
    part = Part("q", cf.Bit(missing="refuse"), Flips(flip))
    return Plan(group, (part,), 2, 2, 2, rounds, epsilon, DELTA, group=places)


TWO_ROUNDS = plan_of(Fraction(3, 8), 2)
PLANS = (
    TWO_ROUNDS,
    plan_of(Fraction(1, 4), 1),
    plan_of(Fraction(3, 8), 2, "shop"),
    plan_of(Fraction(3, 8), 1, "street"),
)


@dataclass(frozen=True)
class Run:
    plan: int
    round: int
    group: str
    unit: Unit = "row"

    @property
    def of_group(self) -> Plan:
        plan = PLANS[self.plan]
        return plan.of_group(self.group) if plan.group else plan

    @property
    def exposed(self) -> RunRelease:
        return RunRelease.of(self.of_group, self.round, self.unit)


@st.composite
def any_run(draw: st.DrawFn) -> Run:
    plan = draw(st.integers(0, len(PLANS) - 1))
    round_ = draw(st.integers(1, PLANS[plan].rounds))
    group = draw(st.sampled_from("ab")) if PLANS[plan].group else ""
    return Run(plan, round_, group, draw(st.sampled_from(["row", "row", "person"])))


# ------------------------------------------------------------------ the judge


def exposures(made: Sequence[Run]) -> Iterator[tuple[int, ...]]:
    """Yield how often each plan asks somebody, for every choice of the person's groups.

    Rounds of a plan that were not released may still be, and are promised already.
    """
    used = sorted({one.plan for one in made})
    for groups in product(*("abc" if PLANS[plan].group else [""] for plan in used)):
        asked = dict.fromkeys(range(len(PLANS)), 0)
        for plan, group in zip(used, groups, strict=True):
            times = Counter(one.round for one in made if (one.plan, one.group) == (plan, group))
            asked[plan] = sum(max(1, times[each]) for each in range(1, PLANS[plan].rounds + 1))
        yield tuple(asked.values())


@cache
def pair_of(asked: tuple[int, ...], others: int) -> Pair:
    """Return what is seen of a person in all these rounds, beside another one with this answer."""
    merged: Counter[Fraction] = Counter({Fraction(1): 1})
    for plan, times in zip(PLANS, asked, strict=True):
        protocol = plan.parts[0].protocol
        assert isinstance(protocol, Flips)
        once = exact.bits_pair(others, 1 - others, protocol.flip_probability)
        for _ in range(times):
            longer: Counter[Fraction] = Counter()
            for ratio, weight in merged.items():
                for one, two in zip(once.first, once.second, strict=True):
                    longer[ratio * Fraction(two, one)] += weight * one
            merged = longer
    seconds = [ratio * weight for ratio, weight in merged.items()]
    assert all(one.denominator == 1 for one in seconds)
    return Pair(tuple(merged.values()), tuple(map(int, seconds)), merged.total())


def true_delta(made: Sequence[Run], epsilon: float) -> Fraction:
    """Return a delta that somebody is exposed to at ``epsilon``, never more than the worst."""
    _, ratio = exact.exp_bounds(epsilon)
    pairs = (pair_of(asked, others) for asked in {*exposures(made)} for others in (0, 1))
    return exact.worst_delta(pairs, ratio)


# ------------------------------------------------------------------ what is stated


def take(
    runs: ReleaseRecord, run: Run, place: int, *, again: bool, files: str = "f"
) -> tuple[float, float] | None:
    """Make a release, and return what it states: an epsilon and a delta; None if it is refused."""
    names = tuple(runs.name_of("file", one.encode()) for one in files)
    data = KnownData(runs, None, SourceState("", ""), names, {})
    plan = run.of_group
    try:
        permit = RepeatRules(again=again, anyway=True).permit(data, plan, run.round, run.unit, None)
    except (DataRepeated, InvalidInput):
        return None
    told = permit.say_together(replace(release(), guarantee=plan.guarantee, unit=run.unit))
    runs.add(replace(run.exposed, subject=f"{place:064x}"), names, permit.before)
    stated = told.guarantee if told.together is None else told.together.guarantee
    return stated.epsilon, stated.delta


ONE, TWO = Run(0, 1, ""), Run(0, 2, "")


@slower
@given(st.lists(st.tuples(any_run(), st.booleans()), min_size=1, max_size=6))
@example([(ONE, False), (ONE, True), (ONE, True), (TWO, False)])
@example([(ONE, False), (ONE, True), (ONE, True), (TWO, True)])
@example([(TWO, False), (ONE, False), (TWO, True), (TWO, True)])
@example([(ONE, True), (ONE, True), (TWO, True), (TWO, True)])
@example([(Run(2, 1, "a"), True), (Run(2, 1, "a"), True), (Run(2, 2, "b"), False)])
@example([(Run(2, round_, "b"), True) for round_ in (1, 2, 2, 1)])
@example([(Run(2, 1, "a"), True), (Run(3, 1, "b"), True), (Run(3, 1, "c"), True)])
def test_no_statement_is_below_what_all_releases_cost(sequence: list[tuple[Run, bool]]) -> None:
    made: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        runs = ReleaseRecord(Path(folder) / "runs.record")
        for place, (run, again) in enumerate(sequence):
            stated = take(runs, run, place, again=again)
            if stated is None:
                continue
            made.append(run)
            epsilon, delta = stated
            assert true_delta(made, epsilon) <= Fraction(delta), made


FILES = ("a", "b", "c", "d", "ab", "cd", "bc", "abc")


def linked(made: Sequence[tuple[Run, str]]) -> list[Run]:
    """Return the runs to which a chain of common files leads from the last one."""
    known: set[str] = set(made[-1][1])
    for _ in made:
        known.update(*(files for _, files in made if known & set(files)))
    return [run for run, files in made if known & set(files)]


@slower
@given(st.lists(st.tuples(any_run(), st.sampled_from(FILES)), max_size=6))
@example([(ONE, "a"), (ONE, "b"), (ONE, "c"), (TWO, "ab"), (TWO, "bc")])
def test_a_run_that_links_two_histories_states_all_of_both(made: list[tuple[Run, str]]) -> None:
    taken: list[tuple[Run, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        runs = ReleaseRecord(Path(folder) / "runs.record")
        for place, (run, files) in enumerate(made):
            for again in (False, True):
                stated = take(runs, run, place, again=again, files=files)
                if stated is not None:
                    break
            else:
                continue
            taken.append((run, files))
            epsilon, delta = stated
            assert true_delta(linked(taken), epsilon) <= Fraction(delta), taken


@slower
@given(st.data(), st.lists(any_run(), min_size=1, max_size=6))
def test_the_order_of_runs_does_not_matter(data: st.DataObject, made: list[Run]) -> None:
    found = [one.exposed for one in made]
    turned = data.draw(st.permutations(found))
    assert are_covered(found) == are_covered(turned)
    assert promise_together(found) == promise_together(turned)


def test_the_judge_notices_a_round_that_was_forgotten() -> None:
    """Round 1 three times and round 2 once are four rounds; three are told too little by far."""
    mechanism = Charge.of(TWO_ROUNDS).mechanism
    made = [ONE, ONE, ONE, TWO]
    for rounds in (2, 3):
        epsilon = compose(mechanism, times=rounds).epsilon(2 * DELTA).upper
        assert true_delta(made, epsilon) > Fraction(2 * DELTA)
    assert true_delta(made, TWO_ROUNDS.epsilon) > Fraction(DELTA)
    together = promise_together(one.exposed for one in made)
    assert together.epsilon == compose(mechanism, times=4).epsilon(2 * DELTA).upper
    assert (together.delta, together.epsilon > TWO_ROUNDS.epsilon) == (2 * DELTA, True)


@pytest.mark.parametrize(
    "order", [[ONE, ONE, ONE, TWO], [TWO, ONE, ONE, ONE], [ONE, TWO, ONE, ONE]]
)
def test_whatever_follows_a_repeated_round_is_repeated(tmp_path: Path, order: list[Run]) -> None:
    runs, told = ReleaseRecord(tmp_path / "runs.record"), []
    for place, run in enumerate(order):
        refused = take(runs, run, place, again=False) is None
        assert refused == (not are_covered(one.exposed for one in order[: place + 1]))
        told.append(take(runs, run, place, again=True) if refused else None)
    assert told[-1] is not None
    assert told[-1][0] == compose(Charge.of(TWO_ROUNDS).mechanism, times=4).epsilon(0.02).upper


def test_a_round_that_links_two_histories_is_no_first_one(tmp_path: Path) -> None:
    """Round 1 of one file and of another are both fine, until round 2 is of the people of both."""
    runs = ReleaseRecord(tmp_path / "runs.record")
    for place, file in enumerate("ab"):
        assert take(runs, ONE, place, again=False, files=file) == (TWO_ROUNDS.epsilon, DELTA)
    assert take(runs, TWO, 2, again=False, files="ab") is None
    three = compose(Charge.of(TWO_ROUNDS).mechanism, times=3).epsilon(2 * DELTA).upper
    assert take(runs, TWO, 2, again=True, files="ab") == (three, 2 * DELTA)
    assert take(runs, TWO, 3, again=False, files="a") is None


def test_of_public_groups_the_one_with_the_most_counts() -> None:
    """Other groupings add up, and so does what rows and people were promised."""
    shops = [Run(2, round_, shop) for shop in "abc" for round_ in (1, 2)]
    assert are_covered(one.exposed for one in shops)
    once = promise_together(one.exposed for one in shops)
    assert (once.epsilon, once.delta) == (PLANS[2].epsilon, DELTA)
    # Every group once more, and one of them a second time: two rounds more at most.
    more = [*shops, Run(2, 1, "a"), Run(2, 1, "b"), Run(2, 1, "b")]
    assert not are_covered(one.exposed for one in more)
    mechanism = FlippedBits(users=2, flip_probability=Fraction(3, 8))

    def of(rounds: int, promises: int) -> tuple[float, float]:
        delta = promises * DELTA
        return compose(mechanism, times=rounds).epsilon(delta).upper, delta

    def stated(made: Sequence[Run]) -> tuple[float, float]:
        found = promise_together(one.exposed for one in made)
        return found.epsilon, found.delta

    assert stated(more) == of(4, 2)
    streets = [Run(3, 1, street) for street in "aabc"]
    assert stated([*more, *streets]) == of(6, 4)
    rows_and_people = [*shops[:-1], Run(2, 2, "c", "person")]
    assert not are_covered(one.exposed for one in rows_and_people)
    assert stated(rows_and_people) == of(4, 2)
