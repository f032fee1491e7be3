"""The device's encoder, enumerated: every random word it could draw, every small crowd.

Chances are quarters here, so four words stand for all of them, and the law of what the
analyzer sees is an exact fraction. Its hockey-stick must lie in the accountant's bracket.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.analysis.tally import tally
from chaffinch.encoding.device import encode_with
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Protocol
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.shuffling.in_memory import shuffle
from chaffinch.wire.messages import EMPTY
from tests.tiers import all_but

Law = dict[tuple[int, ...], Fraction]
QUARTER = Fraction(1, 4)


class Scripted:
    """Words from a list; running out or leaving some over is an error of the test."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self.left = list(words)

    def take(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def plan_of(question: Question, protocol: Protocol) -> Plan:
    part = Part("q", question, protocol)
    return Plan("", (part,), users=1, reports=1, crowd=1, rounds=1, epsilon=1.0, delta=0.5)


def words_needed(plan: Plan, answer: object) -> int:
    class Counting:
        def __init__(self) -> None:
            self.taken = 0

        def take(self, count: int) -> NDArray[np.uint64]:
            self.taken += count
            return np.zeros(count, dtype=np.uint64)

    source = Counting()
    encode_with(answer, plan, source)
    return source.taken


def report_law(plan: Plan, answer: object, alphabet: list[int]) -> Law:
    """Return the exact law of the codes of one report, as counts per code."""
    found: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for codes, chance in ordered_law(plan, answer, alphabet).items():
        sent = [code for code in codes if code != EMPTY]
        found[tuple(np.bincount(sent, minlength=plan.codes).tolist())] += chance
    return dict(found)


def ordered_law(plan: Plan, answer: object, alphabet: list[int]) -> Law:
    """Return the exact law of the codes of one report, in the order in which they are sent."""
    needed = words_needed(plan, answer)
    found: Counter[tuple[int, ...]] = Counter()
    for words in product(alphabet, repeat=needed):
        source = Scripted(words)
        found[encode_with(answer, plan, source).codes] += 1
        assert not source.left, "the number of words must not depend on chance or answer"
    total = len(alphabet) ** needed
    return {seen: Fraction(count, total) for seen, count in found.items()}


def together(laws: list[Law]) -> Law:
    """Return the law of the sums: what a shuffled batch shows."""
    size = len(next(iter(laws[0])))
    total: Law = {(0,) * size: Fraction(1)}
    for law in laws:
        step: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for seen, mass in total.items():
            for more, chance in law.items():
                key = tuple(a + b for a, b in zip(seen, more, strict=True))
                step[key] += mass * chance
        total = dict(step)
    return total


def hockey_stick(first: Law, second: Law, growth: Fraction) -> Fraction:
    return sum(
        (
            max(mass - growth * second.get(seen, Fraction(0)), Fraction(0))
            for seen, mass in first.items()
        ),
        Fraction(0),
    )


def worst(
    plan: Plan, answers: list[object], alphabet: list[int], users: int
) -> Iterator[tuple[Fraction, Fraction]]:
    laws = [report_law(plan, answer, alphabet) for answer in answers]
    for growth in (Fraction(5, 4), Fraction(2), Fraction(4)):
        best = Fraction(0)
        for others in combinations_with_replacement(range(len(answers)), users - 1):
            crowd = [laws[other] for other in others]
            views = [together([law, *crowd]) for law in laws]
            for first in views:
                for second in views:
                    best = max(best, hockey_stick(first, second, growth))
        yield growth, best


QUARTERS = [k << 62 for k in range(4)]
PAIRS = [(k << 62) + r for k in range(4) for r in range(2)]
FOURS = [(k << 62) + r for k in range(4) for r in range(4)]
CASES: dict[str, tuple[Question, Protocol, list[object], list[int], int]] = {
    "bit": (Bit(), Flips(QUARTER), [True, False], QUARTERS, 4),
    "copies": (Bit(), Flips(QUARTER, 2), [True, False], QUARTERS, 3),
    "choice": (
        Choice(["a", "b", "c"], missing="refuse"),
        Flips(QUARTER, 1, 3),
        ["a", "b", "c"],
        QUARTERS,
        3,
    ),
    "missing": (
        Choice(["a", "b"], missing="count"),
        Flips(QUARTER, 1, 3),
        ["a", "b", None],
        QUARTERS,
        3,
    ),
    "flags": (Flags(["x", "y"]), Flips(QUARTER), [[], ["x"], ["y"], ["x", "y"]], QUARTERS, 2),
    "decoys": (
        Choice(["a", "b"], missing="refuse"),
        Decoys(1, Fraction(1, 2)),
        ["a", "b"],
        PAIRS,
        3,
    ),
    "bit with decoys": (Bit(), Decoys(2, QUARTER), [True, False], PAIRS, 2),
    "flipped decoys": (
        Choice(["a", "b"], missing="refuse"),
        FlippedDecoys(QUARTER, 1, 2),
        ["a", "b"],
        PAIRS,
        2,
    ),
    "cross": (
        Cross({"a": Bit(), "b": Bit()}),
        Flips(QUARTER, 1, 4),
        [{"a": a, "b": b} for a in (False, True) for b in (False, True)],
        QUARTERS,
        2,
    ),
    "number by group": (
        Cross({"group": Bit(), "x": Number(0, 1)}, levels=2),
        Decoys(1, Fraction(1, 2)),
        # A quarter is rounded up with one word of four.
        [{"group": group, "x": x} for group in (False, True) for x in (0, 0.25, 1)],
        FOURS,
        2,
    ),
    "number, total": (
        Number(0, 1),
        Encoded(QUARTER, 2, together=True),
        [0, 0.5, 0.75, 1],
        QUARTERS,
        2,
    ),
    "number, steps": (
        Number(0, 1, quantiles=True),
        Encoded(QUARTER, 2, together=False),
        [0, 0.5, 0.75, 1],
        QUARTERS,
        2,
    ),
}


@pytest.mark.parametrize("case", all_but(CASES, "flipped decoys", "number by group"))
def test_what_the_encoder_shows_lies_within_the_accountants_bracket(case: str) -> None:
    question, protocol, answers, alphabet, users = CASES[case]
    plan = plan_of(question, protocol)
    mechanism = plan.parts[0].mechanism(users)
    for growth, seen in worst(plan, answers, alphabet, users):
        bracket = mechanism.delta(float(np.log(float(growth))))
        assert float(seen) <= bracket.upper * (1 + 1e-9)
        # A composition's bound may lie above; a sum's bracket is tight.
        if mechanism.method == "exact":
            assert float(seen) >= bracket.lower * (1 - 1e-9)


ALONE = ("decoys", "bit with decoys", "flipped decoys")


@pytest.mark.parametrize("case", all_but(ALONE, "flipped decoys"))
def test_one_report_alone_shows_what_a_crowd_of_one_is_promised(case: str) -> None:
    """Nobody else is there to shuffle with: the order of the codes counts, empty slots included.

    An answer that came first, or in any place of its own, would be seen for certain.
    """
    question, protocol, answers, alphabet, _ = CASES[case]
    plan = plan_of(question, protocol)
    views = [ordered_law(plan, answer, alphabet) for answer in answers]
    mechanism = plan.parts[0].mechanism(1)
    for growth in (Fraction(5, 4), Fraction(2), Fraction(4)):
        found = max(hockey_stick(first, second, growth) for first in views for second in views)
        assert float(found) <= mechanism.delta(float(np.log(float(growth)))).upper * (1 + 1e-9)


def test_a_weaker_encoder_breaks_the_bracket() -> None:
    """The enumeration can fail: a bit flipped with 1/4 is not one flipped with 1/2 − 1/8."""
    plan = plan_of(Bit(), Flips(QUARTER))
    claimed = plan_of(Bit(), Flips(Fraction(3, 8))).parts[0].mechanism(3)
    over = [
        float(seen) > claimed.delta(float(np.log(float(growth)))).upper
        for growth, seen in worst(plan, [True, False], QUARTERS, 3)
    ]
    assert any(over)


def test_cutting_a_report_costs_no_more_than_it_was_charged() -> None:
    """A choice whose slots run out often: the charge (1 + e^ε)·n·τ still covers it."""
    question = Choice(["a", "b", "c"], missing="refuse")
    whole, cut = plan_of(question, Flips(QUARTER, 1, 3)), plan_of(question, Flips(QUARTER, 1, 2))
    users = 2
    tau = Fraction(1) - sum(
        (mass for seen, mass in report_law(whole, "a", QUARTERS).items() if sum(seen) <= 2),
        Fraction(0),
    )
    assert float(tau) <= cut.parts[0].protocol.overflow(question)
    full = dict(worst(whole, ["a", "b", "c"], QUARTERS, users))
    for growth, seen in worst(cut, ["a", "b", "c"], QUARTERS, users):
        assert seen <= full[growth] + (1 + growth) * users * tau


def survey_of(users: int, *parts: Part) -> Plan:
    return Plan("", parts, users=users, reports=users, crowd=users, rounds=1, epsilon=9, delta=0.5)


@pytest.mark.parametrize("slots", [3, 2], ids=["whole", "cut"])
def test_two_questions_of_one_report_are_what_their_composition_promises(slots: int) -> None:
    """Both answers travel in one report, and the analyzer sees the counts of both."""
    choice = Choice(["a", "b", "c"], missing="refuse")
    users = 2
    plan = survey_of(
        users,
        Part("late", Bit(), Flips(QUARTER)),
        Part("where", choice, Flips(QUARTER, 1, slots)),
    )
    answers = [{"late": late, "where": where} for late in (True, False) for where in "abc"]
    mechanism = plan.mechanism()
    both = dict(worst(plan, list(answers), QUARTERS, users))
    for growth, seen in both.items():
        bracket = mechanism.delta(float(np.log(float(growth))))
        assert bracket.lower * (1 - 1e-9) <= float(seen) <= bracket.upper * (1 + 1e-9)
    # The choice alone shows less: a law that leaves out a question would be noticed.
    alone = worst(survey_of(users, plan.parts[1]), ["a", "b", "c"], QUARTERS, users)
    assert all(seen < both[growth] for growth, seen in alone)


def test_a_number_and_who_answered_it_are_what_their_composition_promises() -> None:
    """One answer moves both parts: a gap is sent as the middle, and as a no beside it."""
    users = 2
    plan = survey_of(
        users,
        Part("x", Number(0, 1, missing="count"), Encoded(QUARTER, 1, together=True)),
        Part("x (answered)", Bit(), Flips(QUARTER), "x"),
    )
    mechanism = plan.mechanism()
    both = dict(worst(plan, [0, 1, None], QUARTERS, users))
    for growth, seen in both.items():
        upper = mechanism.delta(float(np.log(float(growth)))).upper
        # No answer changes both bits at once: 1/2 lies between 0 and 1.
        assert 0 < float(seen) <= upper * (1 + 1e-9)
    answered = dict(worst(plan, [0, 1], QUARTERS, users))
    assert all(both[growth] >= seen for growth, seen in answered.items())


TALLIED: dict[str, tuple[Question, Protocol, list[object], list[int]]] = {
    "bit": (Bit(), Flips(QUARTER), [True, False], QUARTERS),
    "copies": (Bit(), Flips(QUARTER, 2), [True, False], QUARTERS),
    "choice": (Choice(["a", "b"], missing="refuse"), Flips(QUARTER, 1, 2), ["a", "b"], QUARTERS),
    "decoys": (
        Choice(["a", "b"], missing="refuse"),
        Decoys(1, Fraction(1, 2)),
        ["a", "b"],
        [PAIRS[0], PAIRS[1], PAIRS[4], PAIRS[5]],
    ),
    "number": (Number(0, 1), Encoded(QUARTER, 1, together=True), [0, 1], QUARTERS),
}


@pytest.mark.parametrize("case", TALLIED)
def test_shuffler_and_tally_show_what_was_counted_on(case: str) -> None:
    """Every pair of reports goes through the real shuffler; what is seen is their tally."""
    question, protocol, answers, alphabet = TALLIED[case]
    plan = survey_of(2, Part("q", question, protocol))
    views: dict[tuple[int, int], Law] = {}
    for pair in [(mine, other) for mine in range(2) for other in range(2)]:
        needed = [words_needed(plan, answers[one]) for one in pair]
        seen: Counter[tuple[int, ...]] = Counter()
        for words in product(
            product(alphabet, repeat=needed[0]), product(alphabet, repeat=needed[1])
        ):
            reports = [
                encode_with(answers[one], plan, Scripted(drawn))
                for one, drawn in zip(pair, words, strict=True)
            ]
            seen[tuple(tally(shuffle(reports)).counts.tolist())] += 1
        total = sum(seen.values())
        views[pair] = {counts: Fraction(times, total) for counts, times in seen.items()}
    # Who held what is gone: only how many did is left.
    assert views[0, 1] == views[1, 0]
    mechanism = plan.mechanism()
    for growth in (Fraction(5, 4), Fraction(2)):
        bracket = mechanism.delta(float(np.log(float(growth))))
        found = max(
            hockey_stick(views[mine, other], views[1 - mine, other], growth)
            for mine, other in product(range(2), repeat=2)
        )
        assert bracket.lower * (1 - 1e-9) <= float(found) <= bracket.upper * (1 + 1e-9)
