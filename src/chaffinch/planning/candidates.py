"""A candidate: parameters that keep the promise, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from chaffinch.cards import card, table
from chaffinch.errors import InvalidInput
from chaffinch.planning.baselines import local_choice
from chaffinch.planning.explanation import MOST_LOCAL
from chaffinch.planning.fewer_honest import smallest_epsilon
from chaffinch.plans.expansion import Asked, tells_answered
from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.meaning import useless_error, useless_promise
from chaffinch.plans.parts import Part, shortfall_of, total_of
from chaffinch.privacy.composition import Composition
from chaffinch.privacy.guarantee import left_words
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.roots import find_largest
from chaffinch.privacy.shortened_reports import Shortened
from chaffinch.protocols import (
    Protocol,
    Variant,
    local_variant,
    named_variants,
    protocol_variants,
    row_name,
)
from chaffinch.protocols.base import MESSAGES, TOTALS, Setting
from chaffinch.protocols.registry import LOCAL
from chaffinch.protocols.tuning import (
    gaussian_epsilon,
    gaussian_mu,
    gaussian_slope,
    quantile_width,
)
from chaffinch.questions import Number, Question
from chaffinch.wire.sealed_reports import report_length

if TYPE_CHECKING:
    from chaffinch.planning.wishes import Error

_SHARE_FOR_CUTTING = Fraction(1, 100)
"""How much of delta may go to cutting: enough for a few spare slots, too little to matter."""

_WORTH = 1.15
"""An error this much above the best is worth having for better protection or fewer messages."""
_WORTH_LOCAL = 2.0
"""An error this much above the best is worth having for reports that protect by themselves."""
LEAST_EPSILON = 0.1
"""An error so loose that it allows less than this gets a plan near it, and a smaller error."""
_LEAST_MU, _MOST_MU = 1e-6, 1e3
NEAR = 0.02
"""The intervals of a plan that follows from an error are so much narrower than asked, or less."""
_MOST_TRIES = 12
_FARTHEST = 1 / 64
"""A promise that is not kept at such a part of the Gaussian guess is not kept at all: below it
what is left of delta goes to what does not fit into a report, which grows with the noise."""
_FAR_OFF = 1.2
"""Losses may spread so many times as far as those of the Gaussian guess before it is corrected."""
_MORE_NEEDED = 1.25
"""So many times the messages of a first guess are kept for what is found in the end."""
_PATIENCE = 2
"""So many steps to more noise in a row that left more of delta: the noise does not fit."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of a planner, apart from the promise."""

    questions: tuple[Asked, ...]
    """What the plan asks, with everything that its questions need beside them."""
    users: int
    reports: int
    rounds: int
    max_messages: int
    contributions: int = 1
    """How many reports each of the users sends into one batch."""
    local_epsilon: float | None = None
    """The most that may be left if they collude, infinity for anything, or None: no wish."""
    influence: float = math.inf
    """The most that one dishonest report may move a count, in people."""
    most_local: float = MOST_LOCAL
    """Without a wish: a report that leaves no more than this is worth some error."""
    honest: HonestShare | None = None
    """How likely each of the others is to be honest; None where all of them are."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """By the name of a question the protocol that was asked for, where one was."""
    view: str = MESSAGES
    """What is seen: messages of devices, or totals that one party adds up."""

    def variants(self, asked: Asked, most_messages: int, *, clear: bool = True) -> list[Variant]:
        """Return the ways to protect a question that are weighed, without ``clear`` ones if so."""
        if asked.name in self.protocols:
            name = self.protocols[asked.name]
            return named_variants(asked.question, most_messages, name, self.view)
        if self.view == TOTALS:
            return protocol_variants(asked.question, most_messages, clear=True, view=TOTALS)
        clear = clear and (self.local_epsilon is None or math.isinf(self.local_epsilon))
        wished = self.local_epsilon == math.inf
        return protocol_variants(asked.question, most_messages, clear=clear, wished=wished)

    def ruled_out(self, one: Candidate) -> list[str]:
        """Return which wishes a candidate does not meet, in words."""
        local = math.inf if self.local_epsilon is None else self.local_epsilon
        rules = {
            f"more than {self.max_messages} messages": one.analyzer_operations > self.max_messages,
            f"more than epsilon {local:g} if they collude": one.local_epsilon > local,
            f"one report moves more than {self.influence:g}": one.influence > self.influence,
        }
        return [words for words, broken in rules.items() if broken]

    def is_useful(self, one: Candidate) -> bool:
        """Return whether a plan of it would carry no warning."""
        useless = useless_promise(one.epsilon, one.delta)
        return not useless and not useless_error("", one.error, self.reports)

    @property
    def exposures(self) -> int:
        """Return how many answers one person gives in one report of each round."""
        return len(self.questions) * self.rounds

    @property
    def growth(self) -> float:
        """Return how many times the mu of one answer all answers have, were they Gaussian.

        Questions and rounds compose; the reports of one batch all change at once.
        """
        return math.sqrt(self.exposures) * self.contributions

    def total(self, parts: Sequence[Part], crowd: int | None = None) -> Mechanism:
        """Return what one person is exposed to in total, in a crowd of so many or of all."""
        people = self.users if crowd is None else crowd
        short = shortfall_of(self.honest, self.users, self.reports, self.contributions)
        return total_of(parts, people, self.rounds, self.contributions, short)


@dataclass(frozen=True)
class Candidate:
    """Protocols with parameters, the promise they keep, and what they cost."""

    name: str
    parts: tuple[Part, ...]
    """None where something is only compared with."""
    crowd: int
    epsilon: float
    delta: float
    standard_errors: tuple[float, ...]
    """For each question, in people: of the count of a value, or of the sum over the range."""
    local_epsilon: float
    slots: int
    """How many messages a report has room for."""
    messages: float
    """How many the fullest report holds on average."""
    analyzer_operations: int
    """Public-key operations per report at the analyzer: one per sealed message."""
    influence: float
    """The most that one dishonest report can move a count, in people."""
    widest: float = 0.0
    """The error that a protocol is chosen by: that of quantiles where these are asked for."""
    ruled_out: tuple[str, ...] = ()
    """The wishes that it does not meet, in words."""
    beside: str = ""
    """What somebody else does better who has no protocol here, in words."""

    def __repr__(self) -> str:
        """Return what it is chosen by, on one line; its parts are long."""
        left = "infinite" if math.isinf(self.local_epsilon) else f"{self.local_epsilon:.4g}"
        return (
            f"<{self.name}: epsilon {self.epsilon:.4g}, standard error {self.error:.4g}, "
            f"{self.slots:,} slots, local epsilon {left}{', ruled out' * bool(self.ruled_out)}>"
        )

    @property
    def report_bytes(self) -> int:
        """Return what a device uploads: the size of a sealed report that passes one hop."""
        return report_length(self.slots)

    @property
    def shuffler_operations(self) -> int:
        """Return the public-key operations per report at the shuffler: it opens one envelope."""
        return 1

    @property
    def error(self) -> float:
        """Return the largest standard error among the questions."""
        return max(self.standard_errors)


class Weighed(tuple[Candidate, ...]):
    """The other protocols that were weighed for a plan; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        heads = [
            "protocol",
            "epsilon",
            "standard error",
            "messages",
            "bytes",
            "left if they collude",
        ]
        rows = [
            [
                row_name(one.name),
                f"{one.epsilon:.4g}",
                f"{one.error:,.3g}",
                f"{one.messages:,.3g}",
                f"{one.report_bytes:,}",
                left_words(one.local_epsilon),
            ]
            for one in sorted(self, key=lambda one: one.error)
        ]
        notes = [
            "Standard errors are those of a count, in people, or of a sum, in ranges.",
            "Messages and bytes are those of one report.",
            *{f"Without any crowd, {one.beside}." for one in self if one.beside},
        ]
        return card("Other protocols that were weighed", table(heads, rows), notes=notes)


def candidate(
    name: str, parts: Sequence[Part], crowd: int, promise: tuple[float, float], task: Task
) -> Candidate:
    """Return a candidate with its costs worked out."""
    slots = sum(part.slots for part in parts)
    one = Candidate(
        name=name,
        parts=tuple(parts),
        crowd=crowd,
        epsilon=promise[0],
        delta=promise[1],
        standard_errors=tuple(part.standard_error(task.reports) for part in parts),
        local_epsilon=task.total(parts, crowd).local_epsilon,
        slots=slots,
        messages=sum(part.expected_messages for part in parts),
        analyzer_operations=sum(part.sealed_messages for part in parts),
        influence=max(part.influence(slots) for part in parts),
        widest=max(_error_to_choose_by(part, task.reports) for part in parts),
    )
    return replace(one, ruled_out=tuple(task.ruled_out(one)))


def _error_to_choose_by(part: Part, reports: int) -> float:
    """Return the standard error of a count or a sum, or of quantiles what is like one.

    Of numbers whose quantiles are asked for the sum is exact with few steps, and the quantiles are
    not. The width of a bracket is about four standard errors.
    """
    error = part.standard_error(reports)
    if not _asks_for_quantiles(part.question):
        return error
    steps = part.protocol.thermometer
    noise = float(steps.noise.standard_error(reports))
    return max(error, 0.25 * quantile_width(steps.resolution, noise, reports) * reports)


def tuned_parts(
    chosen: Sequence[Variant], strength: float, promise: tuple[float, float], crowd: int, task: Task
) -> tuple[Part, ...]:
    """Return the parts that variants give at one strength."""
    epsilon, delta = promise
    share = delta / task.exposures
    if task.contributions > 1:
        # What is lost of one report counts e^epsilon times after the steps that follow.
        share /= task.contributions * math.exp(min(epsilon, 700.0))
    cutting = share * float(_SHARE_FOR_CUTTING)
    reports = crowd * task.contributions if crowd > 1 else 1
    parts: list[Part] = []
    # Questions that are alike are tuned once: fifty of them cost what one costs.
    made: dict[tuple[str, Question], Protocol] = {}
    for variant, asked in zip(chosen, task.questions, strict=True):
        alike = variant.name, asked.question
        if alike not in made:
            setting = Setting(asked.question, reports, epsilon, cutting, share)
            made[alike] = variant.make(setting, strength)
        parts.append(Part(asked.name, asked.question, made[alike], asked.answers_to))
    return tuple(parts)


def for_target(
    name: str, chosen: Sequence[Variant], promise: tuple[float, float], task: Task
) -> Candidate | None:
    """Return the most accurate parameters of these variants that keep the promise, if any do."""
    epsilon, delta = promise

    @cache
    def parts_at(mu: float) -> tuple[Part, ...]:
        return tuned_parts(chosen, mu, promise, task.users, task)

    @cache
    def total_at(mu: float) -> Mechanism:
        return task.total(parts_at(mu))

    def excess(mu: float) -> float:
        reached = total_at(mu).cutting(epsilon)
        # What is too much already needs no search: that takes long where questions compose.
        if reached <= delta:
            reached = total_at(mu).delta_bound(epsilon)
        return math.log(reached / delta) if reached > 0 else -800.0

    total = gaussian_mu(epsilon, delta)
    guess = total / task.growth
    first = total_at(guess)
    cut = first.cutting(epsilon)
    first = first.inner if isinstance(first, Shortened) else first
    if isinstance(first, Composition) and cut <= delta:
        # Not all protocols are Gaussian: of many questions together only the spread counts.
        guess *= min(_FAR_OFF * total / first.spread, 1.0)
    mu = find_largest(
        excess,
        guess,
        least=_FARTHEST * min(guess, 1.0),
        most=_MOST_MU,
        # What is an upper bound only has no more digits to give.
        tolerance=5e-4 if total_at(guess).method == "exact" else 2e-3,
        slope=gaussian_slope(epsilon, total),
        patience=_PATIENCE,
    )
    if mu is None:
        return None

    most_local = math.inf if task.local_epsilon is None else task.local_epsilon

    def local_excess(strength: float) -> float:
        local = total_at(strength).local_epsilon
        return math.log(local / most_local) if local > 0 else -800.0

    if most_local < total_at(mu).local_epsilon < math.inf:
        # More noise than the promise needs: as much as the wish for the single report does.
        mu = find_largest(local_excess, mu, least=_LEAST_MU, most=mu, tolerance=5e-4) or mu
    return candidate(name, parts_at(mu), task.users, promise, task)


def for_local_target(promise: tuple[float, float], task: Task) -> Candidate:
    """Return what the same epsilon costs without any crowd: plain randomized response.

    Beside a choice it says what k-ary response or hashing would cost, no protocols here.
    """
    chosen = [local_variant(asked.question) for asked in task.questions]
    each = promise[0] / (task.exposures * task.contributions)
    parts = tuned_parts(chosen, each, promise, 1, task)
    found = candidate(LOCAL, parts, 1, promise, task)
    if task.users == 1 or len(parts) > 1 or parts[0].question.shape != "choice":
        return found
    best = local_choice(len(parts[0].labels), each)
    error = math.sqrt(best.variance * task.reports)
    words = f"{best.name}, no protocol here, would have a standard error of {error:,.4g}"
    return replace(found, beside=words)


def for_error(
    name: str, chosen: Sequence[Variant], error: Error, delta: float, task: Task
) -> Candidate | None:
    """Return the most private parameters of these variants with so small an error."""
    needed = error.standard_error(task.reports)

    def parts_at(mu: float, epsilon: float) -> tuple[Part, ...]:
        return tuned_parts(chosen, mu, (epsilon, delta), task.users, task)

    def shortfall(inverse: float) -> float:
        parts = parts_at(1.0 / inverse, 1.0)
        return max(part.standard_error(task.reports) for part in parts) / needed - 1.0

    mu = least = gaussian_mu(LEAST_EPSILON, delta) / task.growth
    if not _LEAST_MU <= mu <= _MOST_MU or shortfall(1.0 / mu) > 0:
        inverse = find_largest(
            shortfall, 1.0, least=1.0 / _MOST_MU, most=1.0 / _LEAST_MU, tolerance=1e-6
        )
        if inverse is None:
            return None
        mu = max(1.0 / inverse, least)

    def relative_error(mu: float) -> float:
        return error.margin(parts_at(mu, 1.0), task.reports) / error.share

    found = _least_within(relative_error, mu, least)
    if found is None:
        return None
    guess = gaussian_epsilon(found * task.growth, delta)
    parts = parts_at(found, 1.5 * guess)
    epsilon = smallest_epsilon(task.total(parts), delta, guess)
    if not math.isfinite(epsilon):
        return None
    return candidate(name, parts, task.users, (epsilon, delta), task)


def _least_within(
    relative_error: Callable[[float], float], guess: float, least: float
) -> float | None:
    """Return about the least mu at which the error is at most the one asked for, or None."""
    # Intervals shrink about as 1/mu does, in steps of whole people; what the rounding of numbers
    # adds to them does not shrink at all.
    kept, short, mu = None, 0.0, guess
    for tried in range(_MOST_TRIES):
        far = relative_error(mu)
        if far <= 1.0:
            kept = mu
            if far >= 1.0 - NEAR or mu <= least:
                break
            mu = max(mu * max(far, 0.1) * (1.0 + NEAR / 4), least)
        else:
            short = mu
            # What is still missing after the first step may be missing from what does not shrink.
            mu *= far ** (1 + (tried > 0)) * (1.0 + NEAR / 4)
        if kept is not None and short:
            if kept < short * (1.0 + NEAR / 4):
                break
            if not short < mu < kept:
                mu = math.sqrt(short * kept)
        if mu > _MOST_MU:
            break
    return kept


def most_exact(candidates: Sequence[Candidate], task: Task) -> tuple[Candidate, str]:
    """Return the choice where a promise led, and the rule: by the smallest error."""
    return _choose(candidates, task, lambda one: one.widest, "error")


def most_private(candidates: Sequence[Candidate], task: Task) -> tuple[Candidate, str]:
    """Return the choice where an error led, and the rule: by the smallest epsilon."""

    def cost(one: Candidate) -> float:
        # A protocol of better quantiles is worth as much as one of less epsilon.
        return one.epsilon * max(one.widest / one.error, 1.0)

    return _choose(candidates, task, cost, "epsilon")


def _choose(
    candidates: Sequence[Candidate], task: Task, cost: Callable[[Candidate], float], of: str
) -> tuple[Candidate, str]:
    least = min(cost(one) for one in candidates)
    if task.view == TOTALS:
        return min(candidates, key=cost), f"Chosen for the smallest {of}."
    alone = [
        one
        for one in candidates
        if one.local_epsilon <= task.most_local and cost(one) <= _WORTH_LOCAL * least
    ]
    if task.local_epsilon is None and alone:
        # Nobody has said what may be left if the parties collude. A report that protects by itself
        # is worth twice the cost: near the smallest such cost, the best protected is taken.
        dearer = min(cost(one) for one in alone)
        near = [one for one in alone if cost(one) <= _WORTH * dearer]
        why = (
            f"Chosen because a report still protects if shuffler and analyzer collude (epsilon at "
            f"most {MOST_LOCAL:g}), for at most twice the smallest {of}."
        )
        return min(near, key=lambda one: (one.local_epsilon, one.slots, one.error)), why
    # Otherwise, near the smallest cost, the fewest sealed messages are taken.
    near = [one for one in candidates if cost(one) <= _WORTH * least]
    why = f"Chosen for the fewest messages within 15 % of the smallest {of}"
    if task.local_epsilon is None:
        why += (
            f"; a protocol that leaves an epsilon of at most {MOST_LOCAL:g} if shuffler and "
            f"analyzer collude would have been taken for up to twice the {of}"
        )
    return min(near, key=lambda one: (one.analyzer_operations, one.slots, one.error)), f"{why}."


def choose_variants(
    task: Task, promise: tuple[float, float], *, clear: bool = True
) -> list[Variant]:
    """Return a variant for each question of a survey, weighed at the Gaussian guess.

    None at all where some question has no variant that can be tuned to it.
    """
    picked: dict[tuple[Question, bool, str | None], tuple[Candidate, Variant] | None] = {}
    each = max(1, task.max_messages // len(task.questions))
    found = []
    shown: dict[str, bool] = {}
    for asked in task.questions:
        # Whether somebody answered is protected no less than what they answered.
        free = not tells_answered(asked) or task.local_epsilon == math.inf
        open_too = clear and (free or shown[str(asked.answers_to)])
        # Questions that are alike are weighed once.
        alike = asked.question, open_too, task.protocols.get(asked.name)
        if alike not in picked:
            picked[alike] = _choose_variant(asked, task, promise, each, clear=open_too)
        one = picked[alike]
        if one is None:
            return []
        found.append(one)
        shown[asked.name] = one[0].parts[0].protocol.clear
    chosen = [variant for _, variant in found]
    # Quantiles are worth the messages that others leave, of which these may need some more.
    places = [at for at, one in enumerate(task.questions) if _asks_for_quantiles(one.question)]
    left = task.max_messages - math.ceil(
        _MORE_NEEDED * sum(one.analyzer_operations for one, _ in found)
    )
    for at in places if left >= len(places) else []:
        most = found[at][0].analyzer_operations + left // len(places)
        more = _choose_variant(task.questions[at], task, promise, most, clear=clear)
        chosen[at] = chosen[at] if more is None else more[1]
    return chosen


def _asks_for_quantiles(question: Question) -> bool:
    return isinstance(question, Number) and question.quantiles


def _choose_variant(
    asked: Asked, task: Task, promise: tuple[float, float], most: int, *, clear: bool
) -> tuple[Candidate, Variant] | None:
    """Return the best way alone; its part tells whether answers are sent in clear."""
    mu = gaussian_mu(*promise) / task.growth
    alone = replace(
        task,
        questions=(asked,),
        rounds=1,
        max_messages=most,
        most_local=task.most_local / task.exposures,
    )
    weighed = {}
    for variant in task.variants(asked, alone.max_messages, clear=clear):
        try:
            parts = tuned_parts([variant], mu, promise, task.users, alone)
            one = candidate(variant.name, parts, task.users, promise, alone)
        except InvalidInput:
            # Parameters beyond what its protocol can have, or decoys beyond what is countable.
            continue
        weighed[variant.name] = one, variant
    if not weighed:
        return None
    within = [one for one, _ in weighed.values() if not one.ruled_out]
    best, _ = most_exact(within or [one for one, _ in weighed.values()], alone)
    return weighed[best.name]
