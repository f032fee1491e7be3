"""Several releases of a repeated survey: estimates by round, and how far they have moved.

The noise of one round is independent of that of another. The interval of a change follows from the
law of the difference of both noises, where the plans of the releases are given (``differences``
says how); without them the law is not known, and the interval follows from the standard errors.

Intervals that hold together share out the chance α to miss among m of them (Bonferroni), as in a
release: among all values in all rounds, or among all changes of all values.

In each round, counts become shares of the reports. Means of those who answered a number are
quotients of two noisy numbers, and so are means of groups: the law of their difference is not known
even with a plan. While both of two intervals hold, so does the one from the lower end of one to the
upper end of the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np

from chaffinch.analysis.adjust import was_adjusted
from chaffinch.analysis.answered import Answerers, answered_mean
from chaffinch.analysis.cross_margins import derived_ends
from chaffinch.analysis.differences import EstimateError, UnknownError, error_of, half_widths
from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.charts.rounding import add_promises
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.ledger.release_record import RunRelease, are_covered, promise_together
from chaffinch.plans.expansion import COUNT_SHARE, tells_answered
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.plans.protected_units import weakest_unit
from chaffinch.privacy import Guarantee
from chaffinch.protocols.base import number_question
from chaffinch.protocols.intervals import miss_chance, two_sided
from chaffinch.protocols.noise import Floats, TallyNoise
from chaffinch.questions import Cross
from chaffinch.release.crossed import Crossed, Derived, group_label
from chaffinch.release.surveys import Answer, Release
from chaffinch.release.trend_release import Round, Trend, TrendAnswer, TrendRow
from chaffinch.wire.batches import Counts

Ends = tuple[Floats, Floats]


@dataclass(frozen=True)
class RoundAnswer:
    """What one release says about one question, with its plan where that is known."""

    answer: Answer
    reports: int
    in_clear: bool
    """Whether anything was sent in clear, as far as the release tells."""
    plan: Plan | None

    @classmethod
    def of(cls, release: Release, question: str, plan: Plan | None) -> RoundAnswer:
        """Return the answer to a question."""
        in_clear = math.isinf(release.guarantee.local_epsilon)
        return cls(release.answer(question), release.reports, in_clear, plan)

    @property
    def name(self) -> str:
        """Return what it is called here."""
        return self.answer.question

    @property
    def labels(self) -> tuple[str, ...]:
        """Return what there is an estimate of."""
        return self.answer.labels

    @property
    def unit(self) -> str | None:
        """Return that of a number; None for shares."""
        return self.answer.summary.unit if self.answer.summary else None

    @property
    def measured(self) -> bool:
        """Return whether it is a mean, in its own unit, and not shares."""
        return self.answer.summary is not None

    @property
    def of_answers(self) -> bool:
        """Return whether these are shares of those who answered, and not of all reports."""
        return False

    @property
    def size(self) -> float:
        """Return what counts are divided by."""
        return 1.0 if self.measured else float(self.reports)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return between which numbers the truth is, as far as the release tells."""
        return (-math.inf, math.inf) if self.measured else (0.0, 1.0)

    @property
    def estimates(self) -> Floats:
        """Return a share for each value, or a mean."""
        return self.answer.estimates / self.size

    @property
    def standard_errors(self) -> Floats:
        """Return their standard errors."""
        return self.answer.standard_errors / self.size

    @property
    def released(self) -> Ends:
        """Return the intervals of the release, each of which holds by itself."""
        return self.answer.low / self.size, self.answer.high / self.size

    def ends(self, chance: float) -> Ends:
        """Return intervals that each miss with a chance of at most ``chance``."""
        if self.plan is None:
            # Where an estimate is too high by as much as it can be, the truth is so far below it.
            up, down = np.array([half_widths(None, one, chance) for one in self._unknown]).T
            low, high = self.estimates - up, self.estimates + down
        else:
            low, high = self._known_ends(chance)
        return np.clip(low, *self.bounds), np.clip(high, *self.bounds)

    def _known_ends(self, chance: float) -> Ends:
        """Return intervals that follow from the law of the noise, which the plan tells."""
        if not self.measured:
            low, high = two_sided(self._noise, self.answer.tallies, self.reports, chance)
            return low / self.reports, high / self.reports
        if self._answered is None:
            total = self._number_tallies.sum(keepdims=True)
            return mean_ends(self._scale, total, self.reports, chance)
        return self._answered_ends(self._answered, chance)

    @property
    def errors(self) -> Sequence[EstimateError] | None:
        """Return the error of each estimate; None where they are no sums of what is known."""
        if self.plan is None:
            return self._unknown
        if not self.measured:
            each = error_of(self._noise, self.reports, 1.0 / self.reports)
            return [each] * len(self.answer.labels)
        if self._answered is not None:
            return None
        scale = self._scale
        step = (scale.high - scale.low) / (scale.resolution * self.reports)
        trials = scale.resolution * self.reports
        return [error_of(scale.of_sum, trials, step, rounding=self.reports * step**2)]

    @property
    def _unknown(self) -> list[UnknownError]:
        errors = self.standard_errors.tolist()
        return [UnknownError(one, self._people, flipped=not self.in_clear) for one in errors]

    @property
    def _people(self) -> int | None:
        """Return of how many people the counts are; None of what is no count."""
        return None if self.measured else self.reports

    # ------------------------------------------------------------------ from the plan

    @cached_property
    def _part(self) -> Part:
        assert self.plan is not None  # noqa: S101 - asked for with a plan only
        part = self.plan.part(self.answer.question)
        if self.answer.summary is None and len(self.answer.tallies) != len(part.labels):
            raise InvalidInput("release", "one of its plan", Unquoted("another number of tallies"))
        return part

    @cached_property
    def _answered(self) -> Part | None:
        assert self.plan is not None  # noqa: S101 - asked for with a plan only
        name = self.answer.question
        beside = (part for part in self.plan.parts if part.answers_to == name)
        return next((part for part in beside if tells_answered(part)), None)

    @property
    def _number_tallies(self) -> Counts:
        # Behind them stand the tallies of who answered, and those of squares.
        return self.answer.tallies[: len(self._part.labels)]

    @cached_property
    def _noise(self) -> TallyNoise:
        return _noise_given(self._part, self.answer.tallies, self.reports)

    @cached_property
    def _scale(self) -> Scale:
        question, steps = number_question(self._part.question), self._part.protocol.thermometer
        return Scale.of(question, steps)

    def _answered_ends(self, answered: Part, chance: float) -> Ends:
        number = self._number_tallies
        rest = self.answer.tallies[len(number) :][: len(answered.labels)]  # the last is that of yes
        noise = _noise_given(answered, rest, self.reports)
        people = Answerers.of(noise, rest[-1:], self.reports, chance * COUNT_SHARE)
        return answered_mean(self._scale, number.sum(), people, chance).mean_ends


@dataclass(frozen=True)
class DerivedRows(RoundAnswer):
    """Margins, or shares or means of groups, which follow from the cells of a crossed question."""

    rows: tuple[Derived, ...] = ()
    """Of one kind; margins of one question."""

    @classmethod
    def of_rounds(
        cls, rounds: Sequence[RoundAnswer], kind: str, question: str
    ) -> list[RoundAnswer]:
        """Return the rows that every round tells; nothing where there is none of a group."""
        told = [_rows_told(one.answer, kind, question) for one in rounds]
        common = [key for key in told[0] if all(key in one for one in told)]
        # Of one group alone the mean is that of everybody.
        if kind == "mean" and not any(given for given, _ in common):
            return []
        return [
            cls(
                one.answer,
                one.reports,
                one.in_clear,
                one.plan,
                tuple(rows[key] for key in common),
            )
            for one, rows in zip(rounds, told, strict=True)
            if common
        ]

    @property
    def kind(self) -> str:
        """Return what they are: margins, shares or means."""
        return self.rows[0].kind

    @property
    def name(self) -> str:
        """Return what a release calls them: margins as their question."""
        if self.kind == "margin":
            return self.rows[0].question
        crossed = self._crossed
        return crossed.name_of_means if self.kind == "mean" else crossed.name_of_shares

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the groups, with the answer that is counted in them."""
        if self.kind == "margin":
            return tuple(row.value for row in self.rows)
        return tuple(group_label(row) for row in self.rows)

    @property
    def unit(self) -> str | None:
        """Return that of the number; None for shares."""
        return self._crossed.unit if self.measured else None

    @property
    def measured(self) -> bool:
        """Return whether these are means."""
        return self.kind == "mean"

    @property
    def of_answers(self) -> bool:
        """Return whether these are shares of those who answered in a group."""
        return self.kind == "share"

    @property
    def size(self) -> float:
        """Return what the rows are divided by; shares are parts of 1 already."""
        return float(self.reports) if self.kind == "margin" else 1.0

    @property
    def estimates(self) -> Floats:
        """Return a share for each row, or a mean."""
        return np.array([row.estimate for row in self.rows]) / self.size

    @property
    def standard_errors(self) -> Floats:
        """Return their standard errors."""
        return np.array([row.standard_error for row in self.rows]) / self.size

    @property
    def released(self) -> Ends:
        """Return the intervals of the release, each of which holds by itself."""
        low, high = np.array([(row.low, row.high) for row in self.rows]).T / self.size
        return low, high

    @property
    def errors(self) -> Sequence[EstimateError] | None:
        """Return None for quotients with a plan; of sums the standard errors say enough."""
        return self._unknown if self.plan is None or self.kind == "margin" else None

    @property
    def _people(self) -> int | None:
        return self.reports if self.kind == "margin" else None

    @property
    def _crossed(self) -> Crossed:
        assert self.answer.crossed is not None  # noqa: S101 - made of crossed answers only
        return self.answer.crossed

    def _known_ends(self, chance: float) -> Ends:
        question, protocol = self._part.question, self._part.protocol
        assert isinstance(question, Cross)  # noqa: S101 - its answer is crossed
        tallies = self.answer.tallies
        cells = self._noise.estimate(tallies, self.reports)
        joint = protocol.joint(question, tallies, self.reports)
        low, high = derived_ends(question, joint, cells, self.reports, self.rows, miss=chance)
        return low / self.size, high / self.size


_Key = tuple[tuple[str, ...], str]


def _rows_told(answer: Answer, kind: str, question: str) -> dict[_Key, Derived]:
    rows = answer.crossed.of_kind(kind) if answer.crossed else ()
    return {(row.given, row.value): row for row in rows if row.question == question}


def _noise_given(part: Part, tallies: Counts, reports: int) -> TallyNoise:
    law = part.protocol.noise(part.question)
    if isinstance(law, TallyNoise):
        return law
    # That of decoys depends on how many arrived, which the tallies tell.
    return part.protocol.read(part.question, tallies, reports).noise


def change_ends(first: RoundAnswer, last: RoundAnswer, chance: float) -> Ends:
    """Return how the values have changed: intervals that each miss with ``chance`` at most."""
    moved = last.estimates - first.estimates
    errors, others = first.errors, last.errors
    if errors is None or others is None:
        before, after = (one.ends(0.5 * chance) for one in (first, last))
        # While both intervals hold, the change is between these; each misses with half the chance.
        return after[0] - before[1], after[1] - before[0]
    pairs = zip(errors, others, strict=True)
    up, down = np.array([half_widths(*pair, chance) for pair in pairs]).T
    # Shares are in [0, 1], so a change is in [−1, 1]; a mean has no bounds here.
    low, high = first.bounds
    most = (low - high, high - low)
    return np.clip(moved - up, *most), np.clip(moved + down, *most)


_MOST_ROUNDS = 1000


def _compared_rounds(rounds: int) -> list[tuple[int, int]]:
    """Return which rounds are compared: each with the one before, and the last with the first."""
    steps = [(place, place + 1) for place in range(rounds - 1)]
    return steps + [(0, rounds - 1)] * (rounds > 2)


def trend(
    releases: Iterable[Release],
    *,
    names: Sequence[str] | None = None,
    plans: Iterable[Plan] = (),
    cells: bool = False,
) -> Trend:
    """Return several releases of a repeated survey side by side, with what has changed.

    Counts become shares of the reports, numbers stay means, of all and of groups. Of crossed
    questions there are the answers to each question and the shares in groups; with ``cells`` also
    the cells that these follow from. Compared are neighbouring rounds, and the first with the last.
    Every change has a standard error and two
    intervals: one by itself, and one that holds for all changes of the question together. ``names``
    are what the rounds are called. With the ``plans`` of all releases, what they promise somebody
    who took part in all of them is composed exactly, and intervals follow from the laws of the
    noise; without, the promises are added up, and intervals, which follow from standard errors, are
    wider.
    """
    found = list(releases)
    if not 2 <= len(found) <= _MOST_ROUNDS:
        rule, hint = f"from 2 to {_MOST_ROUNDS:,}", "name another release, or its folder, beside it"
        raise InvalidInput("number of releases", rule, len(found), hint=hint)
    called = [f"round {number}" for number in range(1, len(found) + 1)] if names is None else names
    _check_releases(found, list(called))
    rounds = tuple(
        Round(name, one.plan_id, one.batch, one.reports, one.promise)
        for name, one in zip(called, found, strict=True)
    )
    common, left_out = _common_questions(found)
    known = {plan.id: plan for plan in plans}
    asked = [
        [RoundAnswer.of(one, name, known.get(one.plan_id)) for one in found] for name in common
    ]
    compared = list(_compared_answers(asked, cells=checks.truth("cells", cells)))
    return Trend(
        title=found[-1].title,
        guarantee=_promise_of_all(found, known),
        rounds=rounds,
        level=found[0].level,
        version=found[-1].version,
        answers=tuple(_answers(rounds, called, miss_chance(found[0].level)) for rounds in compared),
        left_out=tuple(left_out),
        protects=weakest_unit(one.promised_unit for one in found),
        laws_known=all(one.plan_id in known for one in found),
    )


def _check_releases(found: Sequence[Release], names: Sequence[str]) -> None:
    for one in found:
        if not isinstance(one, Release):
            raise InvalidInput("releases", "those of a survey", type(one).__name__)
        if any(was_adjusted(note) for answer in one.answers for note in answer.notes):
            raise InvalidInput(
                "estimates of a trend",
                "unbiased",
                Unquoted("some that were adjusted"),
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


_Rounds = Sequence[RoundAnswer]


def _compared_answers(asked: Sequence[_Rounds], *, cells: bool) -> Iterator[_Rounds]:
    """Yield what is compared, each in all rounds: what follows from cells, and cells if wanted."""
    counted = {rounds[0].name for rounds in asked}
    for rounds in asked:
        crossed = rounds[0].answer.crossed
        if crossed is None or any(one.answer.crossed is None for one in rounds):
            yield rounds
            continue
        last = crossed.questions[-1]
        derived: list[_Rounds] = [
            DerivedRows.of_rounds(rounds, kind, last) for kind in ("mean", "share")
        ]
        # A question is counted once, however many others it is crossed with.
        for name in crossed.questions:
            best = min(filter(None, _counts_of(name, asked)), key=_largest_error, default=None)
            if name not in counted and best is not None:
                counted.add(name)
                derived.append(best)
        yield from filter(None, derived)
        if cells or not any(derived):
            yield rounds


def _counts_of(name: str, asked: Sequence[_Rounds]) -> Iterator[_Rounds]:
    for rounds in asked:
        yield DerivedRows.of_rounds(rounds, "margin", name)


def _largest_error(rounds: _Rounds) -> float:
    return max(float(one.standard_errors.max()) for one in rounds)


def _answers(rounds: _Rounds, names: Sequence[str], miss: float) -> TrendAnswer:
    """Return what became of a question."""
    return TrendAnswer(
        question=rounds[0].name,
        labels=rounds[0].labels,
        unit=rounds[0].unit,
        estimates=tuple(_estimate_rows(rounds, names, miss)),
        changes=tuple(_change_rows(rounds, names, miss)),
        of_answers=rounds[0].of_answers,
    )


def _estimate_rows(
    rounds: Sequence[RoundAnswer], names: Sequence[str], miss: float
) -> Iterable[TrendRow]:
    """Yield the estimates; together means: of all values in all rounds."""
    labels, question = rounds[0].labels, rounds[0].name
    # Bonferroni: each of these intervals misses with its share, all together with ``miss`` at most.
    share = miss / (len(labels) * len(rounds))
    columns = [
        (one.estimates, one.standard_errors, *one.released, *one.ends(share)) for one in rounds
    ]
    for value, label in enumerate(labels):
        for name, column in zip(names, columns, strict=True):
            yield TrendRow(question, label, name, "", *(float(part[value]) for part in column))


def _change_rows(
    rounds: Sequence[RoundAnswer], names: Sequence[str], miss: float
) -> Iterable[TrendRow]:
    """Yield the changes; together means: of all values between all rounds that are compared."""
    labels, question = rounds[0].labels, rounds[0].name
    pairs = _compared_rounds(len(rounds))
    # Bonferroni again, over all changes of the question.
    share = miss / (len(labels) * len(pairs))
    changes = [_change(rounds[first], rounds[last], miss, share) for first, last in pairs]
    for value, label in enumerate(labels):
        for (first, last), change in zip(pairs, changes, strict=True):
            yield TrendRow(question, label, names[first], names[last], *change[value])


def _change(
    first: RoundAnswer, last: RoundAnswer, miss: float, share: float
) -> list[tuple[float, ...]]:
    moved = last.estimates - first.estimates
    errors = np.hypot(first.standard_errors, last.standard_errors)
    ends = (*change_ends(first, last, miss), *change_ends(first, last, share))
    return list(zip(*(column.tolist() for column in (moved, errors, *ends)), strict=True))


def _promise_of_all(released: Sequence[Release], plans: dict[str, Plan]) -> Guarantee:
    found = _not_counted_by_others(released)
    if len(found) == 1 and found[0].together is not None:
        return found[0].together.guarantee
    first = found[0]
    numbers = _round_numbers(found)
    alone = not any(one.together for one in found)
    if alone and len({one.plan_id for one in found}) == 1 and len({*numbers}) == len(found):
        return first.guarantee
    promises = [one.promise for one in found]
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


def _not_counted_by_others(found: Sequence[Release]) -> list[Release]:
    """Return the releases without those that another one says it adds to.

    What a release promises together with earlier ones covers each of these, and all that they add
    to themselves. A file of before does not name them; then each counts on its own, which is more.
    """
    names = [
        {one.digest, *(one.together.earlier if one.together else ())} if one.digest else {one.batch}
        for one in found
    ]
    return [
        one
        for one, own in zip(found, names, strict=True)
        if not any(own < others for others in names)
    ]


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
