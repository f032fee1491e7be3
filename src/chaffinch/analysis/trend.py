"""Several releases of a repeated survey: estimates by round, and how far they have moved.

The noise of one round is independent of that of another, so the errors of a difference add up in
squares. Its interval is made of those of both ends, which are exact, in the same way: if each
end is within h of its estimate, the difference is within √(h₁² + h₂²) of its own, with the same
probability. That is exact for normal errors. [Zou and Donner 2008, Statistics in Medicine 27,
1693–1702] Noise on whole numbers is another matter: h is the last count that is not excluded, and
with little noise a difference beyond √(h₁² + h₂²) is far more likely than it should be (11% in
place of 5% for signed decoys of ratio 0.165). So each h counts with one person more, the first
count that is excluded. That is not proven; by enumeration it is enough for signed decoys of every
ratio and for flips, at levels from 50% to 99.9%, and a release says "about".

Intervals that hold together share out the chance α to miss among m of them (Bonferroni), as in a
release. Releases have them for their own values, at some chance a. For a smaller one, b, a whisker
of length h becomes one of w·(h + s), with w = ln b / ln a and s one person. Noise on whole numbers
has P[D ≥ 0] ≥ ½ if it is symmetric, and P[D ≥ h + s] ≤ a/2, as h is the last that is not excluded.
If it is log-concave, as that of signed decoys is, the logarithm of its tail lies below the line
through these two points, which falls to b/2 at w·(h + s): everything beyond is excluded. (A whisker
of w·h is too short: P[D > 0] is less than ½, and P[D > h] may be much less than a/2.)

Not proven are two cases. Flips are a little skew; but their tails are those of a normal law, for
which w is much too large (1.83 in place of 1.46 for twelve rounds at 95%). The noise of a number in
two digits has two lattices, and is log-concave on neither; steps of a mean are not known here, and
are small beside its noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from chaffinch import checks
from chaffinch.analysis.adjust import was_adjusted
from chaffinch.analysis.intervals import miss_chance
from chaffinch.errors import InvalidInput
from chaffinch.ledger.runs import RunRelease, are_covered, promise_together
from chaffinch.planning.explanation import weakest_unit
from chaffinch.planning.plan import Plan
from chaffinch.privacy import Guarantee
from chaffinch.privacy.numerics import special
from chaffinch.protocols.noise import Floats
from chaffinch.release.surveys import Answer, Release
from chaffinch.release.trends import Round, Trend, TrendAnswer, TrendRow
from chaffinch.rounding import add_promises

_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class _Measures:
    """Estimates of one question: rounds in the first axis, values in the last."""

    estimates: Floats
    errors: Floats
    each: tuple[Floats, Floats]
    """Ends of intervals that hold one by one, at the level of the releases."""
    together: tuple[Floats, Floats]
    """Ends of those that hold for all values of a round."""
    level: float
    person: Floats | float = 0.0
    """By how much one person more or less moves an estimate, in each round; 0 for means."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Between which numbers the truth is, as far as the release tells."""

    @property
    def chance(self) -> float:
        """Return the chance that one of the intervals by themselves misses."""
        return miss_chance(self.level)

    @property
    def shared_chance(self) -> float:
        """Return the chance that one of the intervals for all values misses."""
        return self.chance / int(self.estimates.shape[-1])

    def reach(self) -> Floats:
        """Return how far from an estimate the truth is excluded, each by itself."""
        return np.asarray(_reach(self, self.each, self.chance) + self.person)

    def reach_together(self, intervals: int) -> Floats:
        """Return the same for so many intervals of each value that must hold together."""
        return self.widened(_reach(self, self.together, self.shared_chance), intervals)

    def widened(self, whiskers: Floats, intervals: int) -> Floats:
        """Return how long whiskers are for so many times fewer misses."""
        times = math.log(self.shared_chance / intervals) / math.log(self.shared_chance)
        return np.asarray(times * (whiskers + self.person))


def _reach(measures: _Measures, ends: tuple[Floats, Floats], chance: float) -> Floats:
    # An end that was cut off at what is possible says less than the other one, or than the error.
    below, above = measures.estimates - ends[0], ends[1] - measures.estimates
    normal = -float(special.ndtri(0.5 * chance)) * measures.errors
    return np.asarray(np.maximum(np.maximum(below, above), normal))


def _differences(first: Floats, last: Floats) -> Floats:
    """Return how far differences reach, from the reach of both ends; or their standard errors."""
    return np.asarray(np.hypot(first, last))


def _compared_rounds(rounds: int) -> list[tuple[int, int]]:
    """Return which rounds are compared: each with the one before, and the last with the first."""
    steps = [(place, place + 1) for place in range(rounds - 1)]
    return steps + [(0, rounds - 1)] * (rounds > 2)


def trend(
    releases: Iterable[Release],
    *,
    names: Sequence[str] | None = None,
    plans: Iterable[Plan] = (),
) -> Trend:
    """Return several releases of a repeated survey side by side, with what has changed.

    Counts become shares of the reports, numbers stay means. Compared are neighbouring rounds,
    and the first with the last. Every change has a standard error and two intervals: one by
    itself, and one that holds for all changes of the question together. ``names`` are what the
    rounds are called. With the ``plans`` of all releases, what they promise somebody who took
    part in all of them is composed exactly; without, the promises are added up.
    """
    found = list(releases)
    checks.whole("number of releases", len(found), least=2, most=_MOST_ROUNDS)
    called = [f"round {number}" for number in range(1, len(found) + 1)] if names is None else names
    _check_releases(found, list(called))
    rounds = tuple(
        Round(name, one.plan_id, one.batch, one.reports, one.guarantee)
        for name, one in zip(called, found, strict=True)
    )
    common, left_out = _common_questions(found)
    return Trend(
        title=found[-1].title,
        guarantee=_promise_of_all(found, {plan.id: plan for plan in plans}),
        rounds=rounds,
        level=found[0].level,
        version=found[-1].version,
        answers=tuple(_answer(name, found, rounds) for name in common),
        left_out=tuple(left_out),
        protects=weakest_unit(one.promised_unit for one in found),
    )


def _check_releases(found: Sequence[Release], names: Sequence[str]) -> None:
    """Refuse releases that cannot be compared: adjusted, the same one twice, or of two kinds."""
    for one in found:
        if not isinstance(one, Release):
            raise InvalidInput("releases", "those of a survey", type(one).__name__)
        if any(was_adjusted(note) for answer in one.answers for note in answer.notes):
            raise InvalidInput(
                "estimates of a trend",
                "unbiased",
                "some that were adjusted",
                hint="analyze again with adjustment='none' (--adjust none)",
            )
    if len(set(names)) < len(found) or len(names) != len(found):
        raise InvalidInput("names of the rounds", "one for each release, all different", names)
    rules = (
        ("batches of the releases", "different ones", {one.batch for one in found}, len(found)),
        ("level of the releases", "the same in all", {one.level for one in found}, 1),
        ("neighbours", "of one kind", {one.guarantee.neighbours for one in found}, 1),
    )
    for thing, rule, values, wanted in rules:
        if len(values) != wanted:
            raise InvalidInput(thing, rule, sorted(map(str, values)))


def _common_questions(found: Sequence[Release]) -> tuple[list[str], list[str]]:
    """Return the questions that all releases ask in the same way, and the others."""
    asked = [{answer.question: _asked(answer) for answer in one.answers} for one in found]
    everywhere = [
        name for name, how in asked[0].items() if all(one.get(name) == how for one in asked)
    ]
    if not everywhere:
        raise InvalidInput(
            "releases",
            "of the same questions",
            [sorted(one) for one in asked],
            hint="a question is the same if its name, values and unit are",
        )
    names = dict.fromkeys(name for one in asked for name in one)
    return everywhere, [name for name in names if name not in everywhere]


def _asked(answer: Answer) -> tuple[object, ...]:
    return answer.labels, None if answer.summary is None else answer.summary.unit


def _answer(name: str, found: Sequence[Release], rounds: Sequence[Round]) -> TrendAnswer:
    answers = [one.answer(name) for one in found]
    measured = answers[0].summary is not None
    # Counts of different crowds cannot be compared: their shares can.
    sizes = [1.0 if measured else float(one.reports) for one in found]
    bounds = (-math.inf, math.inf) if measured else (0.0, 1.0)
    person = 0.0 if measured else 1.0 / np.array(sizes)[:, None]
    measures = replace(_measures(answers, sizes, found[0].level, bounds), person=person)
    labels, names = answers[0].labels, [one.name for one in rounds]
    return TrendAnswer(
        question=name,
        labels=labels,
        unit=answers[0].summary.unit if answers[0].summary else None,
        estimates=tuple(_estimate_rows(name, labels, names, measures)),
        changes=tuple(_change_rows(name, labels, names, measures)),
    )


def _measures(
    answers: Sequence[Answer], sizes: Sequence[float], level: float, bounds: tuple[float, float]
) -> _Measures:
    def column(values: Iterable[Floats]) -> Floats:
        pairs = zip(values, sizes, strict=True)
        return np.array([value / size for value, size in pairs], dtype=np.float64)

    return _Measures(
        estimates=column(one.estimates for one in answers),
        errors=column(one.standard_errors for one in answers),
        each=(column(one.low for one in answers), column(one.high for one in answers)),
        together=(
            column(one.low_together for one in answers),
            column(one.high_together for one in answers),
        ),
        level=level,
        bounds=bounds,
    )


def _estimate_rows(
    question: str, labels: Sequence[str], names: Sequence[str], measures: _Measures
) -> Iterable[TrendRow]:
    """Yield the estimates; together means: of all values in all rounds."""
    # Only what lies beyond the estimate is stretched; the bounds cut off the rest.
    centre, (low, high) = measures.estimates, measures.together
    below, above = np.maximum(centre - low, 0.0), np.maximum(high - centre, 0.0)
    ends = (
        low - (measures.widened(below, len(names)) - below),
        high + (measures.widened(above, len(names)) - above),
    )
    together = [np.clip(end, *measures.bounds) for end in ends]
    columns = (centre, measures.errors, *measures.each, *together)
    for value, label in enumerate(labels):
        for place, name in enumerate(names):
            numbers = (float(column[place, value]) for column in columns)
            yield TrendRow(question, label, name, "", *numbers)


def _change_rows(
    question: str, labels: Sequence[str], names: Sequence[str], measures: _Measures
) -> Iterable[TrendRow]:
    """Yield the changes; together means: of all values between all rounds that are compared."""
    pairs = _compared_rounds(len(names))
    reach, shared = measures.reach(), measures.reach_together(len(pairs))
    low, high = measures.bounds
    most = (low - high, high - low)
    for value, label in enumerate(labels):
        for first, last in pairs:
            moved = float(measures.estimates[last, value] - measures.estimates[first, value])
            error, each, together = (
                float(_differences(one[first, value], one[last, value]))
                for one in (measures.errors, reach, shared)
            )
            ends = np.clip([moved - each, moved + each, moved - together, moved + together], *most)
            yield TrendRow(question, label, names[first], names[last], moved, error, *ends.tolist())


def _promise_of_all(found: Sequence[Release], plans: dict[str, Plan]) -> Guarantee:
    """Return what somebody has who took part in every round."""
    first = found[0]
    numbers = _round_numbers(found)
    # A release that adds to earlier ones says what all of them promise.
    promises = [one.together.guarantee if one.together else one.guarantee for one in found]
    alone = not any(one.together for one in found)
    if alone and len({one.plan_id for one in found}) == 1 and len({*numbers}) == len(found):
        return first.guarantee
    largest = max(promise.epsilon for promise in promises)
    if alone and all(one.plan_id in plans for one in found):
        exposed = [
            RunRelease.of(plans[one.plan_id], number, one.unit)
            for one, number in zip(found, numbers, strict=True)
        ]
        if are_covered(exposed):
            return first.guarantee
        total = promise_together(exposed)
        return replace(total, epsilon=max(total.epsilon, largest))
    return replace(
        first.guarantee,
        epsilon=add_promises(promise.epsilon for promise in promises),
        delta=min(1.0, add_promises(promise.delta for promise in promises)),
        local_epsilon=add_promises(promise.local_epsilon for promise in promises),
        crowd=" and ".join(dict.fromkeys(promise.crowd for promise in promises)),
        method="upper-bound",
    )


def _round_numbers(found: Sequence[Release]) -> list[int]:
    """Return which round of its plan each release is.

    Files of before do not tell: each of these counts as a round that no other release is of,
    while its plan has one left, and as round 1 then. All rounds of a plan have one mechanism.
    """
    taken = {(one.plan_id, one.round) for one in found}
    numbers = []
    for one in found:
        free = (number for number in count(1) if (one.plan_id, number) not in taken)
        number = one.round or next(free)
        taken.add((one.plan_id, number))
        numbers.append(number if number <= one.rounds else 1)
    return numbers
