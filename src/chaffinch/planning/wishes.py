"""The wishes for a plan, the candidates that meet them, and how wide the intervals become."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.planning.candidates import (
    Candidate,
    Task,
    choose_variants,
    for_error,
    for_local_target,
    for_target,
    tuned_parts,
)
from chaffinch.planning.choosing import one_of
from chaffinch.planning.levels import count_error, with_levels
from chaffinch.plans.expansion import COUNT_SHARE, Asked, counts_gaps, expanded
from chaffinch.plans.honest_share import honest_share, needed_reports
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, require_missing_rule
from chaffinch.privacy import Target
from chaffinch.privacy.guarantee import MOST_RECORDS
from chaffinch.privacy.numerics import special
from chaffinch.protocols import Variant, named_variants, variant_names
from chaffinch.protocols.base import MESSAGES, TOTALS, VIEWS
from chaffinch.protocols.intervals import farthest_end, miss_chance, rounding_share
from chaffinch.protocols.noise import DecoyNoise, SeenDecoys, TallyNoise
from chaffinch.protocols.registry import LOCAL
from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import QUESTIONS, Question, Survey

MOST_MESSAGES = 64
"""By default a report has at most so many sealed messages: what a small device does in a blink."""
_LARGEST_DELTA = 0.01
"""A larger delta would let one answer in a hundred stand open; it is mostly a swapped epsilon."""


@dataclass(frozen=True, slots=True)
class Error:
    """The error to stay within: a share of the crowd (of the range, for numbers).

    ``Error(0.005, confidence=0.95)``: the 95 % interval that a release prints for a count is half
    a percent of the crowd to each side, or less; that of a mean, half a percent of the range. With
    ``together`` it is the interval that holds for all values of a question at once. What follows
    from the cells of crossed questions (margins, shares and means of groups) is not meant, nor are
    standard deviations, quantiles, sums, and shares of those who answered.
    """

    share: float
    confidence: float = 0.95
    together: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", checks.share("error", self.share, least=1e-12, most=1.0))
        confidence = checks.share("confidence", self.confidence, least=0.5, most=1 - 1e-12)
        object.__setattr__(self, "confidence", confidence)
        if not isinstance(self.together, bool):
            raise InvalidInput("together", "True or False", self.together)

    def standard_error(self, reports: int) -> float:
        """Return the standard error, in people, that this would allow if noise were normal."""
        return self.share * reports / float(special.ndtri(0.5 + self.confidence / 2))

    def margin(self, parts: Sequence[Part], reports: int) -> float:
        """Return how wide, to each side, the intervals of a release of such a plan are at most."""
        alpha = miss_chance(self.confidence)
        return largest_margin(parts, reports, alpha, together=self.together)


@dataclass(frozen=True)
class Wishes:
    """All that a plan is asked for, so that the same can be asked again with one wish changed."""

    question: Question | Survey
    users: int
    target: Target | None
    error: Error | None
    delta: float | None
    rounds: int
    contributions: int
    max_messages: int
    honest: float
    local_epsilon: float | None
    influence: float | None
    protocol: str | Mapping[str, str] | None
    view: str = MESSAGES

    def task(self) -> Task:
        """Return what is to be planned, with every wish checked.

        Where one party adds up, no device sends anything that a wish could be about.
        """
        checks.choice("view", self.view, VIEWS)
        asked = _task(
            self.question,
            self.users,
            self.rounds,
            self.max_messages,
            self.honest,
            self.contributions,
            charged_delta(self.users, self.target, self.delta),
        )
        local, influence = self.local_epsilon, self.influence
        task = replace(
            asked,
            local_epsilon=None if local is None else _wish("local epsilon", local),
            influence=(
                _default_influence(asked) if influence is None else _wish("influence", influence)
            ),
            protocols=_protocols(asked.questions, self.protocol, self.view),
            view=self.view,
        )
        if self.view == TOTALS:
            _refuse_wishes_about_devices(self)
            task = replace(task, influence=math.inf, max_messages=checks.LARGEST_CROWD)
        if (self.target is None) == (self.error is None):
            raise InvalidInput("target", "given, or an error, but not both", self.target)
        if self.target is None:
            if self.protocol == LOCAL:
                raise InvalidInput("protocol", "one with a crowd, as an error is given", LOCAL)
            return with_levels(task, _error(self.error).standard_error(task.reports))
        if _target(self.target).epsilon == 0:
            raise InvalidInput("epsilon", "above 0", 0.0, hint="0 leaves no answer at all")
        return with_levels(task, count_error(task, self.promise(self.target)))

    def candidates(self, task: Task, tell: Callable[[str], None]) -> list[Candidate]:
        """Return every candidate that was asked for, the local one with a target."""
        found = [] if self.protocol == LOCAL else [*self.in_crowd(task, tell)]
        alone = self.view == MESSAGES and (self.protocol is None or self.protocol == LOCAL)
        if self.target is not None and alone:
            tell(LOCAL)
            found.append(for_local_target(self.promise(self.target), task))
        return found

    def in_crowd(
        self, task: Task, tell: Callable[[str], None], *, likely: bool = False
    ) -> Iterator[Candidate]:
        """Return the candidates that count on a crowd one by one, or only the likely ones."""
        if self.target is not None:
            return _meeting_target(task, self.promise(self.target), tell, likely=likely)
        delta = charged_delta(task.users, None, self.delta)
        return _meeting_error(task, _error(self.error), delta, tell)

    @staticmethod
    def promise(target: Target) -> tuple[float, float]:
        """Return epsilon and delta."""
        return target.epsilon, target.delta


def _refuse_wishes_about_devices(wishes: Wishes) -> None:
    given = {
        "users": ("at least 2", wishes.users == 1),
        "honest share": ("1", wishes.honest != 1),
        "local epsilon": ("left out", wishes.local_epsilon not in {None, math.inf}),
        "influence": ("left out", wishes.influence is not None),
    }
    for name, (rule, broken) in given.items():
        if broken:
            raise InvalidInput(
                name,
                f"{rule} where one party adds up",
                Unquoted("another value"),
                hint="it is about devices: plan without the view 'totals'",
            )


def _protocols(
    questions: Sequence[Asked], protocol: str | Mapping[str, str] | None, view: str
) -> dict[str, str]:
    """Return by the name of a question the protocol that was asked for; refuse unknown names.

    One name is for all questions, or, as a table tells a row of a survey, one after the other.
    Whether somebody answered is asked in its own way where that name is not one of a bit's.
    """
    if protocol is None or (protocol == LOCAL and view == MESSAGES):
        return {}
    names = [one.name for one in questions]
    wanted: dict[str, Any]
    if isinstance(protocol, Mapping):
        wanted = dict(protocol)
    else:
        row = str(protocol).split("; ")
        each = row if len(row) == len(names) else [protocol] * len(names)
        wanted = dict(zip(names, each, strict=True))
    for name in wanted:
        if name not in names:
            raise InvalidInput("question with a protocol", one_of(names), name)
    for one in questions:
        if one.name not in wanted or _is_named(one.question, wanted[one.name], view):
            continue
        if one.answers_to is not None and not isinstance(protocol, Mapping):
            del wanted[one.name]
            continue
        known = variant_names(one.question, view)
        if len(questions) == 1:
            local = [LOCAL] if view == MESSAGES else []
            raise InvalidInput("protocol", one_of([*known, *local]), wanted[one.name])
        raise InvalidInput(f"protocol of {one.name!r}", one_of(known), wanted[one.name])
    return wanted


def _is_named(question: Question, protocol: object, view: str) -> bool:
    return isinstance(protocol, str) and bool(named_variants(question, 1, protocol, view))


def _default_influence(task: Task) -> float:
    # Half of the crowd; protocols of very few people move a count by a few more whatever they do.
    return max(task.reports / 2, 10.0)


def default_delta(users: int) -> float:
    """Return min(1e-8, 1/(100·users)): the delta that is promised unless another is asked for."""
    users = checks.people("number of users", users)
    return min(1e-8, 1.0 / (100 * users))


def charged_delta(users: int, target: Target | None, delta: float | None) -> float:
    """Return the delta to keep, of which a part may go to batches with too few honest people."""
    if isinstance(target, Target):
        delta = target.delta
    promised = default_delta(users) if delta is None else delta
    return checks.real("delta", promised, least=1e-300, most=_LARGEST_DELTA)


def _task(  # noqa: PLR0917 - what is asked for, one by one
    question: Question | Survey,
    users: int,
    rounds: int,
    max_messages: int,
    honest: float,
    contributions: int,
    delta: float | None = None,
) -> Task:
    if isinstance(question, Survey):
        questions = expanded(question.planned.items())
    elif isinstance(question, QUESTIONS):
        questions = expanded([("answer", question)])
    else:
        raise InvalidInput("question", "a Bit, Choice, Number, Flags, Cross or Survey", question)
    crowd = checks.people("number of users", users)
    share = honest_share(honest)
    each = checks.whole("contributions", contributions, least=1, most=MOST_RECORDS)
    # What follows from an answer is never missing without it.
    asked = {one.name: one.question for one in questions if one.answers_to is None}
    require_missing_rule(asked, each)
    times = checks.whole("number of rounds", rounds, least=1, most=10**6)
    charged = charged_delta(crowd, None, delta)
    reports = needed_reports(crowd, share, contributions=each, rounds=times, delta=charged)
    return Task(
        questions=questions,
        users=crowd,
        reports=checks.whole("number of reports", reports, least=1),
        rounds=times,
        honest=share,
        max_messages=checks.whole("number of messages", max_messages, least=1, most=10**6),
        contributions=each,
    )


def _meeting_target(
    task: Task, promise: tuple[float, float], tell: Callable[[str], None], *, likely: bool = False
) -> Iterator[Candidate]:
    def calibrate(name: str, chosen: Sequence[Variant]) -> Candidate | None:
        if likely and not fits(chosen, promise, task):
            return None
        return for_target(name, chosen, promise, task)

    return _weigh(task, promise, calibrate, tell)


def fits(chosen: Sequence[Variant], promise: tuple[float, float], task: Task) -> bool:
    """Return whether variants have few enough messages at the Gaussian guess."""
    mu = gaussian_mu(*promise) / task.growth
    try:
        parts = tuned_parts(chosen, mu, promise, task.users, task)
    except InvalidInput:
        return False
    return sum(part.sealed_messages for part in parts) <= task.max_messages


def _meeting_error(
    task: Task, error: Error, delta: float, tell: Callable[[str], None]
) -> Iterator[Candidate]:
    def calibrate(name: str, chosen: Sequence[Variant]) -> Candidate | None:
        return for_error(name, chosen, error, delta, task)

    return _weigh(task, (1.0, delta), calibrate, tell)


def _weigh(
    task: Task,
    promise: tuple[float, float],
    calibrate: Callable[[str, Sequence[Variant]], Candidate | None],
    tell: Callable[[str], None],
) -> Iterator[Candidate]:
    """Yield all candidates of one question; of a survey up to the first that meets all wishes."""
    for name, chosen in choices(task, promise):
        tell(name)
        try:
            one = calibrate(name, chosen)
        except InvalidInput:
            # Parameters beyond what its protocol can have: no candidate.
            continue
        if one is not None:
            yield one
            if len(task.questions) > 1 and not one.ruled_out and task.view == MESSAGES:
                return


def choices(task: Task, promise: tuple[float, float]) -> Iterator[tuple[str, list[Variant]]]:
    """Yield what is calibrated: every variant of one question, one for each of a survey.

    Where signed decoys were chosen for a survey and do not fit after all, one without is sought.
    """
    if len(task.questions) == 1:
        for one in task.variants(task.questions[0], task.max_messages):
            yield one.name, [one]
        return
    if task.view == TOTALS and not task.protocols:
        # One law for all: what is best alone need not be best in a composition.
        offered = [task.variants(one, task.max_messages) for one in task.questions]
        for alike in zip(*offered, strict=True):
            yield "; ".join(variant.name for variant in alike), [*alike]
        return
    before = ""
    for clear in (True, False):
        chosen = choose_variants(task, promise, clear=clear)
        name = "; ".join(variant.name for variant in chosen)
        if chosen and name != before:
            yield name, chosen
        before = name


def _target(target: object) -> Target:
    if not isinstance(target, Target):
        raise InvalidInput("target", "a Target(epsilon, delta)", target)
    return target


def _error(error: object) -> Error:
    if not isinstance(error, Error):
        raise InvalidInput("error", "an Error(share, confidence)", error)
    return error


def _wish(parameter: str, value: object) -> float:
    if value == math.inf:
        return math.inf
    try:
        return checks.real(parameter, value, least=1e-9)
    except InvalidInput:
        raise InvalidInput(parameter, "a number above 0, or math.inf", value) from None


# ----------------------------------------------------------------------------
# How far the intervals of a release reach from its estimates.
#
# A margin is the larger distance from an estimate to an end of its interval, as a release prints
# it, before the interval is cut at what is possible; of all counts and means, the largest one. The
# batch that arrives changes it in two ways. Of uniform decoys as many are counted as an honest
# batch has at the most. And the mean of those who answered a number is more exact the more of them
# there are: its margin is that of a collection in which everybody answered.


def largest_margin(
    parts: Sequence[Part], reports: int, alpha: float, *, together: bool = False
) -> float:
    """Return the largest margin of all questions, as a share of the reports or of a range.

    Intervals miss with a chance of at most ``alpha``: each by itself, or all of a question
    ``together``.
    """
    return max(margins(parts, reports, alpha, together=together).values())


def margin_of(
    plan: Plan, confidence: float, question: str | None, *, together: bool, answered: float
) -> float:
    """Return how wide the intervals of a release will be; see ``Plan.margin``."""
    share, alpha = checks.share("share of answers", answered, least=1e-3), miss_chance(confidence)
    found = margins(plan.parts, plan.reports, alpha, together=together, answered=share)
    return max(found.values()) if question is None else found[plan.part(question).name]


def margins(
    parts: Sequence[Part], reports: int, alpha: float, *, together: bool, answered: float = 1.0
) -> dict[str, float]:
    """Return the margin of every question by its name.

    Of a number whose missing answers are counted it depends on the share who ``answered``.
    """
    found = {}
    for place, part in enumerate(parts):
        if counts_gaps(part.question):
            found[part.name] = _margin_of_answered(part, parts[place + 1], reports, alpha, answered)
        elif part.question.shape == "number":
            found[part.name] = _margin_of_mean(part, reports, alpha)
        else:
            sharing = len(part.labels) if together else 1
            found[part.name] = _margin_of_count(part, reports, alpha / sharing)
    return found


def _margin_of_count(part: Part, reports: int, alpha: float) -> float:
    law = part.protocol.noise(part.question)
    if isinstance(law, DecoyNoise):
        # A batch with more messages than this is no honest one.
        most = part.protocol.most_messages(part.question, reports)
        assert most is not None  # noqa: S101 - known wherever decoys are counted
        law = SeenDecoys(law.values, np.array([most - reports]))
    assert isinstance(law, TallyNoise)  # noqa: S101 - there are no others
    return farthest_end(law, reports, alpha) / reports


def _margin_of_mean(part: Part, reports: int, alpha: float) -> float:
    steps = part.protocol.thermometer
    trials = steps.resolution * reports
    share, room = rounding_share(steps.of_sum, trials, reports, alpha)
    return (farthest_end(steps.of_sum, trials, alpha * (1.0 - share)) + room) / trials


def _margin_of_answered(
    number: Part, answered: Part, reports: int, alpha: float, share: float
) -> float:
    """Return the margin of c + W/C, where C is estimated to be a ``share`` s of n people."""
    # With the margins w of W/n and v of C/n, both ends of W/C are within (w + |W/C|·v)/(s − v) of
    # it, and W/C is half a range at the most. The two may miss with alpha together.
    own = _margin_of_mean(number, reports, alpha * (1.0 - COUNT_SHARE))
    people = _margin_of_count(answered, reports, alpha * COUNT_SHARE)
    return min((own + 0.5 * people) / (share - people), 1.0) if people < share else 1.0
