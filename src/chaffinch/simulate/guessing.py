"""The guessing game: somebody guesses which of two answers one made-up person gave.

Everybody else is known. A fair coin decides which answer the person holds, and the guesser sees
the tallies of the collection: all that the analyzer sees, and more than a release tells. The best
guesser takes the answer under which they are likelier (Neyman and Pearson; see ``attacks``). No
guesser is right more often than the plan promises, for that is what the promise says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.number_estimates import Scale
from chaffinch.encoding.device import prepare_answer
from chaffinch.errors import InvalidInput, checks
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.protocols.likelihoods import Likelihood
from chaffinch.protocols.noise import Draws, Floats, Truth
from chaffinch.questions import Cross, Flags, Number, Question
from chaffinch.simulate.populations import Population, draw_tallies, uniform
from chaffinch.simulate.seeded import chosen, generator
from chaffinch.simulate.views import answer_text
from chaffinch.wire.batches import Counts

_MOST_ROUNDS = 10**6


@dataclass(frozen=True, slots=True)
class Guess:
    """One round: what is seen, what the best guesser says, and what is true."""

    differences: tuple[tuple[str, float], ...]
    """By value the estimate less what the others hold: of a number the sum, else people."""
    best: str
    holds: str
    """The answer that the coin has chosen: not to be shown before somebody has guessed."""

    @property
    def is_right(self) -> bool:
        """Return whether the best guesser was right."""
        return self.best == self.holds


@dataclass(frozen=True, slots=True)
class Score:
    """How often the best guesser was right."""

    rounds: int
    right: int
    promise: int
    """Of 100 guessers so many can be right at the most."""
    seed: int

    @property
    def of_hundred(self) -> float:
        """Return how many of 100 guesses were right."""
        return 100.0 * self.right / self.rounds


class _Told(NamedTuple):
    """A label whose tally depends on the answer, and who else holds it."""

    place: int
    sign: int
    """Whether it speaks for the first answer or for the second."""
    held: int


@dataclass(frozen=True, eq=False)
class GuessingGame:
    """One person of a collection, who holds the ``first`` answer or the ``second``."""

    plan: Plan
    part: Part
    """The question and its protocol, as the devices follow it."""
    first: str
    second: str
    people: int
    """How many report, the person among them."""
    promise: int
    """Of 100 guessers so many can be right at the most, says the plan."""
    _told: tuple[_Told, ...]
    _truths: tuple[Truth, Truth]

    def score(self, rounds: int = 1000, *, seed: int | None = None) -> Score:
        """Return how often the best guesser is right in so many rounds."""
        rounds, root = checks.whole("rounds", rounds, least=1, most=_MOST_ROUNDS), chosen(seed)
        draws = generator(root, "guesses")
        holds_first, scores = self._rounds(rounds, draws, self._places)
        right = int(np.count_nonzero(_decided(scores, draws) == holds_first))
        return Score(rounds, right, self.promise, root)

    def play(self, rounds: int = 1, *, seed: int | None = None) -> tuple[Guess, ...]:
        """Return some rounds, with what a guesser sees in each of them."""
        rounds, root = checks.whole("rounds", rounds, least=1, most=1000), chosen(seed)
        draws = generator(root, "guesses", 1)
        every = np.arange(len(self.part.labels))
        holds_first = draws.integers(0, 2, rounds).astype(bool)
        seen = self._draw(holds_first, draws, every)
        each = seen.reshape(rounds, len(every), -1)[:, self._places].reshape(rounds, -1)
        best = _decided(self._scores(each), draws)
        names = (self.second, self.first)
        return tuple(
            Guess(tuple(zip(self._shown, line, strict=True)), names[guess], names[truth])
            for line, guess, truth in zip(
                self._differences(seen).tolist(), best.tolist(), holds_first.tolist(), strict=True
            )
        )

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return np.array([one.place for one in self._told], np.intp)

    @cached_property
    def _likelihoods(self) -> tuple[Likelihood, ...]:
        protocol, question = self.part.protocol, self.part.question
        return tuple(protocol.likelihood(question, one.held, self.people) for one in self._told)

    def _rounds(
        self, rounds: int, draws: Draws, places: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], Floats]:
        holds_first = draws.integers(0, 2, rounds).astype(bool)
        return holds_first, self._scores(self._draw(holds_first, draws, places))

    def _draw(
        self, holds_first: NDArray[np.bool_], draws: Draws, places: NDArray[np.intp]
    ) -> Counts:
        """Return the tallies of the codes of some labels, a row for each round."""
        ones = int(holds_first.sum())
        first, second = (
            draw_tallies(self.part, truth, runs, draws, places)
            for truth, runs in zip(self._truths, (ones, len(holds_first) - ones), strict=True)
        )
        width = len(places) * (self.part.codes // len(self.part.labels))
        seen = np.empty((len(holds_first), width), np.int64)
        if ones:
            seen[holds_first] = first
        if ones < len(holds_first):
            seen[~holds_first] = second
        return seen

    def _scores(self, seen: Counts) -> Floats:
        """Return the log of the likelihood ratio of each row, the first answer over the second."""
        columns = np.split(seen, len(self._told), axis=1)
        scores = [
            one.sign * likelihood.score(some)
            for one, likelihood, some in zip(self._told, self._likelihoods, columns, strict=True)
        ]
        return np.asarray(np.sum(scores, axis=0))

    @property
    def _shown(self) -> tuple[str, ...]:
        if self.part.question.shape == "number":
            return ("sum",)
        return tuple(self.part.labels[one.place] for one in self._told)

    def _differences(self, seen: Counts) -> Floats:
        """Return what is released less what the others hold, a column for each shown value."""
        reading = self.part.protocol.read(self.part.question, seen, self.people)
        if isinstance(question := self.part.question, Number):
            steps = self.part.protocol.thermometer
            trials = steps.resolution * self.people
            totals = reading.tallies.sum(axis=-1, keepdims=True)
            scale = Scale.of(question, steps)
            means = scale.place(scale.noise.estimate(totals, trials) / trials)
            high = self._told[0].held
            others = high * question.high + (self.people - 1 - high) * question.low
            return np.asarray(means * self.people - others)
        estimates = reading.noise.estimate(reading.tallies, self.people)
        held = np.array([one.held for one in self._told])
        return np.asarray(estimates[:, self._places] - held)


def guessing_game(
    plan: Plan,
    first: object = None,
    second: object = None,
    *,
    question: str | None = None,
    others: Population | None = None,
    devices: Plan | None = None,
) -> GuessingGame:
    """Return the game about one person who answers ``first`` or ``second`` to a question.

    By default these are yes and no, the first two values, all flags and none, or the bounds of a
    number: of a number there are no others, and everybody else is taken for one who holds a bound,
    as likely as the number is near it. ``others`` are all other people; by default as many
    as make the plan's least number of reports, with uniform answers. It is one report of one
    round: what is promised for several is more than enough for one. ``devices`` is the plan that
    the devices follow, and the guesser knows, where it is not this one: to see a broken promise.

    >>> import chaffinch as cf
    >>> plan = cf.plan(cf.Bit(), users=1000, target=cf.Target(1, 1e-6), protocol="flips")
    >>> game = guessing_game(plan, "yes", "no")
    >>> game.promise, 50 < game.score(10_000, seed=1).of_hundred < 74
    (74, True)
    >>> game.play(seed=2)[0].best in {"yes", "no"}
    True
    """
    plan = require_devices(plan)
    part = plan.part(question)
    index = plan.parts.index(part)
    if others is None:
        others = uniform(plan, max(1, plan.reports - 1))
    known = others.truths[index]
    if others.people + 1 < plan.reports or known.shape != part.question.shape:
        rule = f"at least {plan.reports - 1:,} who answered the plan's questions"
        raise InvalidInput("other people", rule, others.people)
    if part.question.shape == "number":
        known = _at_bounds(known)
    pair = _pair(part.question, first, second)
    sent = part if devices is None else devices.part(part.name)
    truths = tuple(_joined(known, answer) for answer in pair)
    labels = len(sent.labels)
    held = [truth.held(labels) for truth in (known, *truths)]
    if part.question.shape == "number":
        # Every step is counted for who holds the upper bound.
        held = [np.full(labels, truth.counts[1]) for truth in (known, *truths)]
    told = tuple(
        _Told(place, sign, int(held[0][place]))
        for place, sign in enumerate((held[1] - held[2]).tolist())
        if sign
    )
    return GuessingGame(
        plan=plan,
        part=sent,
        first=_text(part.question, pair[0]),
        second=_text(part.question, pair[1]),
        people=others.people + 1,
        promise=right_guesses(plan.guarantee.epsilon, plan.delta),
        _told=told,
        _truths=(truths[0], truths[1]),
    )


def _decided(scores: Floats, draws: Draws) -> NDArray[np.bool_]:
    """Return whether each guess is the first answer; where nothing speaks for one, by a coin."""
    coin = draws.integers(0, 2, len(scores)).astype(bool)
    return np.where(scores == 0, coin, scores > 0)


def _pair(question: Question, first: object, second: object) -> tuple[Any, Any]:
    """Return both answers as numbers; refuse equal ones."""
    if first is None and second is None:
        first, second = _usual(question)
    pair = prepare_answer(question, first), prepare_answer(question, second)
    if pair[0] == pair[1]:
        raise InvalidInput("answers of a guessing game", "two that differ", second)
    if isinstance(question, Number) and set(pair) != {0.0, 1.0}:
        raise InvalidInput("answers of a guessing game", "the bounds of a number", (first, second))
    if isinstance(question, Cross) and any(one != int(one) for one in pair):
        raise InvalidInput("answers of a guessing game", "at levels of the number", "others")
    return pair


def _usual(question: Question) -> tuple[object, object]:
    if isinstance(question, Number):
        return question.high, question.low
    if isinstance(question, Flags):
        return question.names, ()
    if isinstance(question, Cross):
        return question.answers_in(0), question.answers_in(1)
    return ("yes", "no") if question.kind == "bit" else (question.labels[0], question.labels[1])


def _at_bounds(known: Truth) -> Truth:
    """Return as many people who all hold a bound, with about the same mean."""
    high = round(known.mean * known.people)
    return Truth(
        "number", known.people, np.array([known.people - high, high]), np.array([0.0, 1.0])
    )


def _joined(known: Truth, answer: Any) -> Truth:
    """Return the others and one person more."""
    counts = known.counts.copy()
    counts[list(answer) if known.shape == "flags" else int(answer)] += 1
    return replace(known, people=known.people + 1, counts=counts)


def _text(question: Question, answer: Any) -> str:
    if isinstance(question, Flags):
        return answer_text(question, np.isin(np.arange(len(question.labels)), answer))
    return answer_text(question, answer)
