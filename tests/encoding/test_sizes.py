"""Sizes of reports: no answer changes them, and what a view joined with them shows."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys
from chaffinch.questions import Bit, Choice, Question
from tests.encoding.test_transcripts import (
    PAIRS,
    QUARTER,
    Law,
    hockey_stick,
    plan_of,
    report_law,
    together,
)
from tests.meta import repository

HALF = Fraction(1, 2)
PAGE = repository.ROOT / "docs" / "decisions" / "0022-one-length-a-varying-number.md"
# One word in two sends a decoy, one in two says which.
WORDS = [PAIRS[0], PAIRS[1], PAIRS[4], PAIRS[5]]


@pytest.mark.parametrize(
    ("question", "protocol", "answers"),
    [
        (Bit(), Decoys(2, QUARTER), [True, False]),
        (Choice(["a", "b"], missing="refuse"), Decoys(1, HALF), ["a", "b"]),
    ],
)
def test_the_number_of_messages_follows_the_decoys_alone(
    question: Question, protocol: Decoys, answers: list[object]
) -> None:
    plan = plan_of(question, protocol)
    sizes = []
    for answer in answers:
        law: defaultdict[int, Fraction] = defaultdict(Fraction)
        for counts, chance in report_law(plan, answer, PAIRS).items():
            law[sum(counts)] += chance
        sizes.append(dict(law))
    assert sizes[0] == sizes[1]
    assert sorted(sizes[0]) == list(range(1, plan.slots + 1))


def with_sizes(laws: list[Law]) -> Law:
    """Return the law of the tallies and, behind them, the size of every report."""
    seen: Law = {(): Fraction(1)}
    for law in laws:
        seen = {
            (*before, *counts): mass * chance
            for before, mass in seen.items()
            for counts, chance in law.items()
        }
    width = len(next(iter(laws[0])))
    joined: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for counts, mass in seen.items():
        reports = [counts[start : start + width] for start in range(0, len(counts), width)]
        tally = [sum(column) for column in zip(*reports, strict=True)]
        joined[*tally, *(sum(one) for one in reports)] += mass
    return dict(joined)


def leaks(plan: Plan, growth: Fraction) -> tuple[Fraction, Fraction]:
    """Return delta of the tallies of three bits, and of the tallies with all sizes."""
    no, yes = (report_law(plan, answer, WORDS) for answer in (False, True))
    worlds = [[own, no, yes] for own in (no, yes)]
    return tuple(  # type: ignore[return-value]
        hockey_stick(view(worlds[1]), view(worlds[0]), growth) for view in (together, with_sizes)
    )


@pytest.mark.parametrize("growth", [Fraction(5, 4), Fraction(2), Fraction(4)])
def test_sizes_tell_nothing_more_of_uniform_decoys(growth: Fraction) -> None:
    alone, joined = leaks(plan_of(Bit(), Decoys(1, HALF)), growth)
    assert alone == joined > 0


def test_the_page_says_so() -> None:
    alone, joined = leaks(plan_of(Bit(), Decoys(1, HALF)), Fraction(2))
    text = PAGE.read_text("utf-8")
    assert f"| nothing else | {alone} |" in text
    assert f"| how many messages it has | {joined} |" in text


def test_sizes_of_signed_decoys_would_tell() -> None:
    """The same reckoning sees a leak where there is one: a plus, a minus, a pair or nothing."""
    noise = [(0, 0), (1, 0), (0, 1), (1, 1)]
    no, yes = (one_of(noise, own) for own in (0, 1))
    worlds = [[own, no, yes] for own in (no, yes)]
    alone, joined = (
        hockey_stick(view(worlds[1]), view(worlds[0]), Fraction(4))
        for view in (together, with_sizes)
    )
    assert (alone, joined) == (Fraction(5, 16), Fraction(27, 64))


def one_of(noise: list[tuple[int, int]], own: int) -> Law:
    """Return the law of pluses and minuses of one report: a yes is a plus, a no a minus."""
    return {(plus + own, minus + 1 - own): Fraction(1, len(noise)) for plus, minus in noise}
