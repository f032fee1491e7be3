"""What a promise costs: the error of the plan that would be chosen, against epsilon.

A plan is found by proving every protocol and taking the best. A curve has many promises, and most
protocols are far from the best: here each is weighed at the Gaussian guess of its strength, and
only what is chosen among these guesses is proven, until the choice is one that was proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from chaffinch.errors import InvalidInput
from chaffinch.planning.baselines import central_margin
from chaffinch.planning.candidates import (
    Candidate,
    Task,
    candidate,
    for_local_target,
    for_target,
    most_exact,
    tuned_parts,
)
from chaffinch.planning.hints import silent
from chaffinch.planning.wishes import (
    MOST_MESSAGES,
    Wishes,
    choices,
    default_delta,
    largest_margin,
)
from chaffinch.plans.meaning import useless_promise
from chaffinch.privacy import Target
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.protocols import Variant
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.protocols.intervals import miss_chance
from chaffinch.protocols.registry import LOCAL
from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import Question, Survey

_NEAR = 0.95
"""A guess is proven before the choice where it promises an error below this part of the best."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one promise costs: half-widths of intervals, as shares of the reports or of a range."""

    epsilon: float
    plan: float | None
    """Of the plan that would be chosen; None where there is none, or none of use."""
    centre: float | None
    """Of a centre whom everybody trusts with the answers.

    None where one person gives several: then a centre could part its noise in many ways.
    """
    local: float | None
    """Of devices that trust nobody; None where that is of no use."""
    protocol: str
    """What the plan would use, as the table of alternatives calls it; empty without a plan."""
    right_guesses: int
    """How many of 100 guessers can be right at the most."""


def price(  # noqa: PLR0913 - the wishes of a plan, one by one
    question: Question | Survey,
    *,
    users: int,
    epsilons: Iterable[float],
    delta: float | None = None,
    confidence: float = 0.95,
    rounds: int = 1,
    contributions: int = 1,
    max_messages: int = MOST_MESSAGES,
    honest: float = 1.0,
    local_epsilon: float | None = None,
    influence: float | None = None,
    protocol: str | Mapping[str, str] | None = None,
    view: str = MESSAGES,
) -> Iterator[Price]:
    """Yield for every epsilon how wide the intervals of a release will be, the largest one first.

    A point is there as soon as it is found, so that a chart can be drawn meanwhile.

    The wishes are those of ``chaffinch.plan``, and so is the choice: what is printed at an epsilon
    is ``chaffinch.plan(…, target=Target(epsilon, delta)).margin(confidence)``, but for protocols
    that are nearly as good as one another. Wishes are checked at once; nothing is refused later.

    >>> from chaffinch.questions import Bit
    >>> for one in price(Bit(), users=10_000, epsilons=[0.5, 1.0]):
    ...     print(one.epsilon, f"{one.centre:.2%} {one.plan:.2%} {one.local:.2%}")
    1.0 0.03% 0.04% 1.92%
    0.5 0.06% 0.08% 3.94%
    """
    promised = default_delta(users) if delta is None else delta
    alpha = miss_chance(confidence)
    asked = []
    for epsilon in epsilons:
        wishes = Wishes(
            question, users, Target(epsilon, promised), None, None, rounds, contributions,
            max_messages, honest, local_epsilon, influence, protocol, view,
        )  # fmt: skip
        asked.append(_Search(wishes, wishes.task(), (float(epsilon), promised)))
    asked.sort(key=lambda search: search.promise, reverse=True)
    return _prices(asked, alpha)


def _prices(asked: Iterable[_Search], alpha: float) -> Iterator[Price]:
    hopeless: set[str] = set()
    for search in asked:
        yield search.price(alpha, hopeless)


@dataclass(frozen=True)
class _Search:
    """The search for the plan of one promise."""

    wishes: Wishes
    task: Task
    promise: tuple[float, float]

    def price(self, alpha: float, hopeless: set[str]) -> Price:
        """Return what the promise costs; ``hopeless`` is kept from it to the next smaller one."""
        task, promise = self.task, self.promise
        local = for_local_target(promise, task)
        chosen = self._chosen(local, hopeless)

        def margin(one: Candidate | None) -> float | None:
            return None if one is None else largest_margin(one.parts, task.reports, alpha)

        # One answer to one question: see `Price.centre`.
        alone = task.exposures * task.contributions == 1
        centre = central_margin(task.questions[0].question, *promise, alpha) if alone else None
        return Price(
            promise[0],
            margin(chosen),
            None if centre is None else centre / task.reports,
            margin(local if task.is_useful(local) else None),
            "" if chosen is None else chosen.name,
            right_guesses(*promise),
        )

    def _chosen(self, local: Candidate, hopeless: set[str]) -> Candidate | None:
        """Return what ``chaffinch.plan`` would take, or None where it would refuse."""
        task, promise, only = self.task, self.promise, self.wishes.protocol == LOCAL
        if useless_promise(*promise):
            return None
        weighed = {local.name: local} if only or task.users == 1 else {}
        guessed: dict[str, Candidate] = {}
        variants = {}
        if len(task.questions) > 1 and not only:
            # Of a survey the variants are chosen by their guesses already.
            weighed |= {one.name: one for one in self.wishes.in_crowd(task, silent)}
        elif task.view == TOTALS:
            # Of two laws, of which the guess says nothing, both are soon proven.
            weighed = {one.name: one for one in self.wishes.in_crowd(task, silent)}
        elif not only:
            offered = choices(task, promise)
            variants = {name: chosen for name, chosen in offered if name not in hopeless}
            guessed = _guesses(variants, promise, task)
        while True:
            left = [*weighed.values(), *guessed.values()]
            useful = [one for one in left if not one.ruled_out and task.is_useful(one)]
            if not useful:
                return None
            best, _ = most_exact(useful, task)
            least = min(useful, key=lambda one: one.error)
            # How far the best is from the smallest error must be known, too, but not to the last
            # digit.
            known = min((one.error for one in weighed.values()), default=math.inf)
            if least.error < _NEAR * known and least.name in guessed:
                best = least
            if best.name not in guessed:
                return best
            del guessed[best.name]
            proven = _proven(best.name, variants[best.name], promise, task)
            if proven is not None:
                weighed[best.name] = proven
            else:
                # What cannot keep a promise keeps no stronger one.
                hopeless.add(best.name)


def _guesses(
    variants: Mapping[str, list[Variant]], promise: tuple[float, float], task: Task
) -> dict[str, Candidate]:
    """Return candidates at the Gaussian guess of their strength: mostly a little too exact."""
    found, strength = {}, gaussian_mu(*promise) / task.growth
    # What a single report leaves is no reason to give up: with more noise it may leave less.
    task = replace(task, local_epsilon=None)
    for name, chosen in variants.items():
        try:
            parts = tuned_parts(chosen, strength, promise, task.users, task)
            found[name] = candidate(name, parts, task.users, promise, task)
        except InvalidInput:
            # Parameters beyond what its protocol can have.
            continue
    return found


def _proven(
    name: str, chosen: list[Variant], promise: tuple[float, float], task: Task
) -> Candidate | None:
    try:
        return for_target(name, chosen, promise, task)
    except InvalidInput:
        return None
