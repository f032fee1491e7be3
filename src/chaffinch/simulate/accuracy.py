"""Whole collections, thousands of times: whether estimates are as exact as predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.answered import Answerers
from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.analysis.spread import Deviation, standard_deviation
from chaffinch.cards import card, paragraph, table
from chaffinch.errors import InvalidInput, checks
from chaffinch.plans.expansion import COUNT_SHARE, counts_gaps
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.base import Reading, number_question
from chaffinch.protocols.intervals import miss_chance, two_sided
from chaffinch.protocols.noise import Draws, Floats, MessageNoise, Truth, bits_fourth_cumulant
from chaffinch.questions import Number
from chaffinch.release.survey_statement import DEVIATION
from chaffinch.simulate import judging
from chaffinch.simulate.populations import Population, draw_tallies
from chaffinch.simulate.seeded import chosen, generator
from chaffinch.wire.batches import Counts

_FALSE_ALARM = 1e-6
"""How likely a correct pipeline is called wrong, all tests of a simulation together."""
_MOST_RUNS = 10**7
_CELLS = 1 << 21


class _Row(NamedTuple):
    question: str
    value: str
    truth: float
    mean: float
    bias_z: float
    """The bias in standard errors of the mean over all runs."""
    error_predicted: float
    error_observed: float
    coverage: float
    """How often the interval of this value alone held the truth."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What many collections of one plan showed, set against what was predicted."""

    plan_id: str
    seed: int
    runs: int
    people: int
    population: str
    level: float
    values: tuple[_Row, ...]
    together: tuple[tuple[str, float], ...]
    """Per question: how often the simultaneous intervals all held at once."""
    faults: tuple[str, ...]
    """What was further off than chance allows; empty for a correct pipeline."""
    false_alarm: float = _FALSE_ALARM

    @property
    def ok(self) -> bool:
        """Return whether everything is as predicted."""
        return not self.faults

    @property
    def worst(self) -> _Row:
        """Return the value with the smallest coverage."""
        return min(self.values, key=lambda row: row.coverage)

    @property
    def verdict(self) -> str:
        """Return the result in one sentence."""
        tests = f"{self.runs:,} simulated collections of {self.people:,} people"
        rate = f"a correct pipeline fails with chance at most {self.false_alarm:g}"
        if self.ok:
            return f"Bias, standard errors and coverage are as predicted over {tests} ({rate})."
        first = self.faults[0]
        more = f", and {len(self.faults) - 1} more" if len(self.faults) > 1 else ""
        return f"Not as predicted over {tests}: {first}{more} ({rate})."

    def rows(self) -> list[_Row]:
        """Return one row for each value of each question."""
        return list(self.values)

    def _repr_html_(self) -> str:
        # Neither truth nor mean: the people may be those of a table.
        rows = [
            [
                row.question,
                row.value,
                f"{row.bias_z:+.2f}",
                f"{row.error_predicted:,.4g}",
                f"{row.error_observed:,.4g}",
                f"{row.coverage:.1%}",
            ]
            for row in self.values
        ]
        heads = ["question", "value", "bias/se", "error", "seen", "coverage"]
        return card("Simulated collections", paragraph(self.verdict), table(heads, rows))

    def document(self) -> dict[str, Any]:
        """Return everything as JSON-ready data."""
        document = asdict(self)
        document["values"] = [row._asdict() for row in self.values]
        document["together"] = dict(self.together)
        document["faults"] = list(self.faults)
        return {"format": "chaffinch/simulation@1", **document, "verdict": self.verdict}


def simulate(
    plan: Plan,
    population: Population,
    runs: int = 1000,
    *,
    seed: int | None = None,
    level: float = 0.95,
    progress: Callable[[int], None] | None = None,
    devices: Plan | None = None,
) -> Simulation:
    """Return how a plan's estimates and intervals do over many simulated collections.

    ``devices`` is the plan that the senders follow where that is not the one the analyzer
    believes in: a way to see what a wrong parameter does. ``progress`` is told how many
    questions are done. The seed is part of the result.
    """
    runs = checks.whole("number of runs", runs, least=100, most=_MOST_RUNS)
    alpha = miss_chance(level)
    sent = plan if devices is None else devices
    population.fits(plan)
    population.fits(sent)
    root = chosen(seed)
    studies = []
    for place, (part, sender, truth) in enumerate(
        zip(plan.parts, sent.parts, population.truths, strict=True)
    ):
        if (part.labels, part.codes) != (sender.labels, sender.codes):
            raise InvalidInput("devices", "a plan with the same codes", sender.labels)
        measure = _Numbers if part.question.shape == "number" else _Counts
        draw = partial(draw_tallies, sender, truth, draws=generator(root, "tallies", place))
        studies.append(_study(measure(part, truth), draw, runs, level))
        if isinstance(part.question, Number) and part.question.spread:
            deviation = _Deviation(plan, sent, population, place, level)
            draw = partial(deviation.draw, draws=generator(root, "tallies", place, 1))
            studies.append(_study(deviation, draw, runs, level))
        if progress is not None:
            progress(place + 1)
    # Per value: bias, variance, coverage; per question: coverage of all values together, and
    # the number of messages.
    tests = sum(3 * len(study.truth) + 2 for study in studies)
    faults = [fault for study in studies for fault in study.faults(alpha, _FALSE_ALARM / tests)]
    return Simulation(
        plan_id=plan.id,
        seed=root,
        runs=runs,
        people=population.people,
        population=population.words,
        level=level,
        values=tuple(row for study in studies for row in study.rows()),
        together=tuple((study.name, study.together / runs) for study in studies),
        faults=tuple(faults),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """What theory says of the estimates: the truth, and the tally that one unit is worth."""

    name: str
    labels: tuple[str, ...]
    truth: Floats
    unit: float
    """One more in the tally moves the estimate by so much."""
    tally_variance: Floats
    excess: Floats
    """The excess kurtosis of the tally: its fourth cumulant by its variance²."""
    grain: float
    """Bernstein's constant of the tally."""
    messages: MessageNoise | None
    """How many messages a collection has, where the answers do not decide that."""
    exact: bool
    """Whether mean and variance of an estimate are known exactly, from those of its tally."""


@dataclass(frozen=True, slots=True, eq=False)
class _Study(_Expected):
    runs: int
    mean: Floats
    variance: Floats
    covered: Counts
    together: int
    sent: float
    """How many messages a collection had on average."""

    def rows(self) -> list[_Row]:
        predicted = self.unit * np.sqrt(self.tally_variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (self.mean - self.truth) / (predicted / np.sqrt(self.runs))
        columns = (
            self.truth,
            self.mean,
            np.where(predicted > 0, z, 0.0),
            predicted,
            np.sqrt(self.variance),
            self.covered / self.runs,
        )
        listed = zip(self.labels, *(column.tolist() for column in columns), strict=True)
        return [_Row(self.name, *line) for line in listed]

    def faults(self, alpha: float, alarm: float) -> list[str]:
        """Return what is off by more than chance explains, each with a false alarm of ``alarm``."""
        off = np.abs(self.mean - self.truth)
        # The last term is the rounding of the floats, far below anything that matters.
        room = self.unit * judging.mean_room(self.tally_variance, self.runs, alarm, self.grain)
        biased = off > room + 1e-9 * np.abs(self.truth)
        low, high = judging.variance_ratios(self.excess, self.runs, alarm)
        ratio = self.variance / np.maximum(self.unit**2 * self.tally_variance, 1e-300)
        # Below one message of variance the law is too skewed for the chi-square.
        spread = ((ratio < low) | (ratio > high)) & (self.tally_variance >= 1.0)
        limit = judging.miss_limit(alpha, self.runs, alarm)
        missed = self.runs - self.covered > limit
        found = [
            f"the {what} of {label!r} in {self.name!r}"
            for what, wrong in (
                ("mean", biased & self.exact),
                ("standard error", spread & self.exact),
                ("coverage", missed),
            )
            for label, bad in zip(self.labels, wrong.tolist(), strict=True)
            if bad
        ]
        if self.runs - self.together > limit:
            found.append(f"the simultaneous coverage of {self.name!r}")
        if self.messages is not None:
            law = self.messages
            room = judging.mean_room(law.variance, self.runs, alarm, law.grain)
            if abs(self.sent - law.mean) > room + 1e-9 * law.mean:
                found.append(f"the number of messages of {self.name!r}")
        return found


def _study(
    measure: _Counts | _Numbers | _Deviation, draw: Callable[[int], Counts], runs: int, level: float
) -> _Study:
    """Return what became of many drawn collections, a block of them in memory at a time."""
    expected = measure.expected
    size = len(expected.truth)
    sums, squares = np.zeros(size), np.zeros(size)
    covered, together, sent = np.zeros(size, np.int64), 0, 0
    rows = max(1, _CELLS // measure.codes)
    for start in range(0, runs, rows):
        seen = draw(min(rows, runs - start))
        sent += int(seen.sum())
        away = measure.estimates(seen) - expected.truth
        sums += away.sum(axis=0)
        squares += np.square(away).sum(axis=0)
        alone, jointly = measure.covers(seen, level)
        covered += alone.sum(axis=0)
        together += int(jointly.all(axis=1).sum())
    mean = sums / runs
    variance = np.maximum(squares - runs * np.square(mean), 0.0) / (runs - 1)
    fields = {name: getattr(expected, name) for name in _Expected.__slots__}
    return _Study(
        **fields,
        runs=runs,
        mean=expected.truth + mean,
        variance=variance,
        covered=covered,
        together=together,
        sent=sent / runs,
    )


class _Counts:
    def __init__(self, part: Part, truth: Truth) -> None:
        self.part, noise = part, part.protocol.noise(part.question)
        self.people, self.codes = truth.people, part.codes
        self.held = truth.held(len(part.labels))
        variance = noise.tally_variance(self.held, self.people)
        fourth = noise.fourth_cumulant(self.held, self.people)
        self.expected = _Expected(
            name=part.name,
            labels=part.labels,
            truth=self.held.astype(np.float64),
            unit=1.0 / float(noise.slope),
            tally_variance=variance,
            excess=fourth / np.maximum(variance, 1e-300) ** 2,
            grain=noise.grain,
            messages=part.protocol.messages_of_all(part.question, truth.people),
            exact=True,
        )

    def estimates(self, seen: Counts) -> Floats:
        reading = self._read(seen)
        return reading.noise.estimate(reading.tallies, self.people)

    def _read(self, seen: Counts) -> Reading:
        return self.part.protocol.read(self.part.question, seen, self.people)

    def covers(self, seen: Counts, level: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        alpha, reading = miss_chance(level), self._read(seen)
        return tuple(  # type: ignore[return-value]
            (low <= self.held) & (self.held <= high)
            for low, high in (
                two_sided(reading.noise, reading.tallies, self.people, share)
                for share in (alpha, alpha / len(self.held))
            )
        )


class _Numbers:
    def __init__(self, part: Part, truth: Truth) -> None:
        question, steps = number_question(part.question), part.protocol.thermometer
        self.scale = Scale.of(question, steps)
        self.part, self.people = part, truth.people
        self.trials = steps.resolution * truth.people
        self.codes = part.codes
        noise = steps.of_sum
        _, chances = truth.rounding(steps.resolution)
        # The noise of a step is the same whether it holds or not; rounding comes on top of it, and
        # is no chance at all where only the sum is rounded.
        chances = chances * (noise.rounding_variance(2) > noise.rounding_variance(1))
        slope, none = float(noise.slope), np.zeros(1)
        rounding = float(truth.counts @ (chances * (1.0 - chances)))
        variance = noise.tally_variance(none, self.trials) + slope**2 * rounding
        fourth = noise.fourth_cumulant(none, self.trials)
        fourth = fourth + slope**4 * bits_fourth_cumulant(truth.counts, chances).sum()
        mean = truth.mean
        self.expected = _Expected(
            name=part.name,
            labels=("mean, gaps in the middle",) if counts_gaps(question) else ("mean",),
            truth=self.scale.place([mean]),
            unit=(question.high - question.low) / (self.trials * slope),
            tally_variance=variance,
            excess=np.asarray(fourth / variance**2),
            grain=noise.grain,
            messages=part.protocol.messages_of_all(part.question, truth.people),
            exact=True,
        )

    def estimates(self, seen: Counts) -> Floats:
        return self.scale.place(
            self.scale.of_sum.estimate(self._totals(seen), self.trials) / self.trials
        )

    def _totals(self, seen: Counts) -> Counts:
        tallies = self.part.protocol.read(self.part.question, seen, self.people).tallies
        return np.asarray(tallies.sum(axis=-1, keepdims=True))

    def covers(self, seen: Counts, level: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        low, high = mean_ends(self.scale, self._totals(seen), self.people, miss_chance(level))
        inside = (low <= self.expected.truth) & (self.expected.truth <= high)
        return inside, inside


class _Deviation:
    """The standard deviation of a number, which takes all parts that are about it."""

    def __init__(
        self, plan: Plan, sent: Plan, population: Population, place: int, level: float
    ) -> None:
        self.alpha, self.seen = miss_chance(level), np.empty(0, np.int64)
        name, self.people = plan.parts[place].name, population.people
        self.question = number_question(plan.parts[place].question)
        about = [at for at, one in enumerate(plan.parts) if name in (one.name, one.answers_to)]
        self.parts = [plan.parts[at] for at in about]
        self.senders = [(sent.parts[at], population.truths[at]) for at in about]
        self.ends = np.cumsum([part.codes for part in self.parts])
        self.codes = int(self.ends[-1])
        number, *between, squares = (truth for _, truth in self.senders)
        some = int(between[0].counts[1]) if between else self.people
        # Made-up people may have squares without having answered: then it is what is estimated.
        share = self.people / max(some, 1)
        variance = squares.mean * share - ((2.0 * number.mean - 1.0) * share) ** 2
        width = 0.5 * (self.question.high - self.question.low)
        self.expected = _Expected(
            name=name,
            labels=(DEVIATION,),
            truth=width * np.sqrt(np.clip([variance], 0.0, 1.0)),
            unit=1.0,
            tally_variance=self._error_at(number.mean, squares.mean, some) ** 2,
            excess=np.zeros(1),
            grain=0.0,
            messages=None,
            exact=False,
        )

    def _error_at(self, mean: float, square: float, some: int) -> Floats:
        """Return about the standard error, from tallies without noise."""
        tallies = []
        for part, share in ((self.parts[0], mean), (self.parts[-1], square)):
            steps = part.protocol.thermometer
            trials = steps.resolution * self.people
            seen = np.rint(steps.of_sum.base(trials) + float(steps.of_sum.slope) * share * trials)
            tallies.append((steps, np.array([seen], np.int64)))
        people: int | Answerers = self.people
        if counts_gaps(self.question):
            noise = self.parts[1].protocol.noise(self.parts[1].question)
            known = np.array([some])
            error = float(noise.standard_error(self.people))
            people = Answerers(self.people, known.astype(np.float64), error, known, known)
        places, sums = tallies
        return standard_deviation(self.question, places, sums, people, 0.5).standard_error

    def draw(self, runs: int, draws: Draws) -> Counts:
        """Return the counts of all codes of these parts: a row for each collection."""
        seen = [draw_tallies(part, truth, runs, draws) for part, truth in self.senders]
        return np.concatenate(seen, axis=1)

    def estimates(self, seen: Counts) -> Floats:
        return self._told(seen).estimate[:, None]

    def covers(self, seen: Counts, level: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        del level  # known from the beginning
        found = self._told(seen)
        inside = (found.low <= self.expected.truth) & (self.expected.truth <= found.high)
        return inside[:, None], inside[:, None]

    def _told(self, seen: Counts) -> Deviation:
        # Asked twice for every block of collections, and worked out once.
        if seen is not self.seen:
            self.seen, self.found = seen, self._found(seen)
        return self.found

    def _found(self, seen: Counts) -> Deviation:
        alpha, pieces = self.alpha, np.split(seen, self.ends[:-1], axis=1)
        told = [
            part.protocol.read(part.question, counts, self.people)
            for part, counts in zip(self.parts, pieces, strict=True)
        ]
        people: int | Answerers = self.people
        if counts_gaps(self.question):
            own = alpha * COUNT_SHARE
            people = Answerers.of(told[1].noise, told[1].tallies[:, -1], self.people, own)
        number, squares = (
            (self.parts[at].protocol.thermometer, told[at].tallies.sum(axis=-1)) for at in (0, -1)
        )
        return standard_deviation(self.question, number, squares, people, alpha)
