"""Choose and compare protocols: from a promise to an error, or from an error to a promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from chaffinch.charts.rounding import percent_text, rounded_up
from chaffinch.errors import InvalidInput, NoPlanFound, checks
from chaffinch.planning.candidates import (
    Candidate,
    Task,
    choose_variants,
    for_error,
    for_local_target,
    for_target,
    most_exact,
    most_private,
    tuned_parts,
)
from chaffinch.planning.choosing import (
    LOCAL,
    asked_for,
    one_of,
    refuse_broken_wishes,
    refuse_useless,
)
from chaffinch.planning.fewer_honest import epsilons_of_shares
from chaffinch.planning.levels import count_error, with_levels
from chaffinch.planning.margins import largest_margin
from chaffinch.plans.expansion import Asked, expanded
from chaffinch.plans.honest_share import honest_share, needed_reports
from chaffinch.plans.meaning import useless_promise
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, require_missing_rule
from chaffinch.privacy import Target
from chaffinch.privacy.guarantee import MOST_RECORDS
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.protocols import Variant, named_variants, variant_names
from chaffinch.protocols.intervals import miss_chance
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
    quantiles, sums, and shares of those who answered.
    """

    share: float
    confidence: float = 0.95
    together: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", checks.real("error", self.share, least=1e-12, most=1.0))
        confidence = checks.real("confidence", self.confidence, least=0.5, most=1 - 1e-12)
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


def plan(  # noqa: PLR0913 - one keyword for each thing that can be asked for
    question: Question | Survey,
    *,
    users: int,
    target: Target | None = None,
    error: Error | None = None,
    delta: float | None = None,
    rounds: int = 1,
    contributions: int = 1,
    max_messages: int = MOST_MESSAGES,
    honest: float = 1.0,
    local_epsilon: float | None = None,
    influence: float | None = None,
    protocol: str | Mapping[str, str] | None = None,
    anyway: bool = False,
    title: str = "",
    progress: Callable[[str], None] | None = None,
) -> Plan:
    """Return the plan that fits best: give ``target`` to get its error, or ``error`` for privacy.

    ``users`` is the number of honest people who are sure to answer. With ``honest`` below 1 each
    of the others may lie with the chance that is left, independently: the release then waits for
    so many reports that the chance of fewer honest people among them, which is charged, is at
    most a thousandth of delta. The target covers everything one person sends: all questions of a
    survey, in all ``rounds``. Where people have several records, each sends ``contributions``
    reports into one batch, and all of them may change at once. An ``error`` so loose that it
    allows an epsilon below 0.1 gets a plan near 0.1, which is more exact than asked for.
    ``local_epsilon`` is the most that may be left if shuffler and analyzer collude: protocols
    that send answers in clear are then no candidates. With ``math.inf`` nothing need be left.
    Without the wish up to twice the error is accepted for reports that then leave at most 4.
    ``influence`` is the most that one dishonest report may move a count, in people (unasked: half
    of the crowd). ``max_messages`` bounds the messages of a report that must be sealed, on
    average; room for more, which is padding, is not counted. ``protocol`` takes one by its name
    in the table of alternatives, such as "flips, 4 copies" or "local", or the best of those whose
    names begin so, such as "signed decoys"; of a survey for all questions, or a name for each in
    a mapping. A plan of no use (a promise that lets everybody guess right, an error as large as
    the crowd), or with a protocol that was asked for and does not meet a wish, is refused unless
    it is wanted ``anyway``. ``progress`` is told the name of each protocol before it is
    calibrated.

    >>> from chaffinch.questions import Bit
    >>> one = plan(Bit(), users=10_000, target=Target(1.0, 1e-6), max_messages=1)
    >>> one.guarantee.epsilon, one.guarantee.neighbours
    (1.0, 'replace-one')
    """
    wishes = _Wishes(
        question, users, target, error, delta, rounds, contributions, max_messages, honest,
        local_epsilon, influence, protocol,
    )  # fmt: skip
    task = wishes.task()
    if target is not None:
        refuse_useless(useless_promise(target.epsilon, target.delta), anyway=anyway)
    tell = progress or _silent
    found = wishes.candidates(task, tell)
    chosen, why = _choose(wishes, task, found, tell, anyway=anyway)
    if error is not None:
        why += f" {_margin_sentence(error, chosen, task)}"
    tell("honest shares")
    made = Plan(
        title=title or (question.title if isinstance(question, Survey) else ""),
        parts=chosen.parts,
        users=task.users,
        reports=task.reports,
        crowd=chosen.crowd,
        rounds=task.rounds,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        shares=_epsilons_of_shares(chosen, task),
        contributions=task.contributions,
        honest=task.honest,
        group=question.group if isinstance(question, Survey) else None,
        own=chosen,
        alternatives=tuple(one for one in found if one is not chosen),
        choice=why,
    )
    refuse_useless(made.warnings, anyway=anyway)
    return made


def _margin_sentence(error: Error, chosen: Candidate, task: Task) -> str:
    reached = rounded_up(100.0 * error.margin(chosen.parts, task.reports))
    means = [part.question.shape == "number" for part in chosen.parts]
    of = "reports, or of the range," if any(means) else "reports"
    of = "range" if all(means) else of
    hold = "for all values of a question together" if error.together else "each by itself"
    return (
        f"The {percent_text(error.confidence)} intervals of a release, {hold}, are {reached:g}% "
        f"of the {of} to each side at most; {percent_text(error.share)} was asked for."
    )


@dataclass(frozen=True)
class _Wishes:
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

    def task(self) -> Task:
        """Return what is to be planned, with every wish checked."""
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
            protocols=_protocols(asked.questions, self.protocol),
        )
        if (self.target is None) == (self.error is None):
            raise InvalidInput("target", "given, or an error, but not both", self.target)
        if self.target is None:
            if self.protocol == LOCAL:
                raise InvalidInput("protocol", "one with a crowd, as an error is given", LOCAL)
            return with_levels(task, _error(self.error).standard_error(task.reports))
        if _target(self.target).epsilon == 0:
            raise InvalidInput("epsilon", "above 0", 0.0, hint="0 leaves no answer at all")
        checks.real("delta of the target", self.target.delta, least=1e-300, most=_LARGEST_DELTA)
        return with_levels(task, count_error(task, self.promise(self.target)))

    def candidates(self, task: Task, tell: Callable[[str], None]) -> list[Candidate]:
        """Return every candidate that was asked for, the local one with a target."""
        found = [] if self.protocol == LOCAL else [*self.in_crowd(task, tell)]
        if self.target is not None and (self.protocol is None or self.protocol == LOCAL):
            tell(LOCAL)
            found.append(for_local_target(self.promise(self.target), task))
        return found

    def in_crowd(
        self, task: Task, tell: Callable[[str], None], *, likely: bool = False
    ) -> Iterator[Candidate]:
        """Return the candidates that count on a crowd one by one, or only the likely ones."""
        if self.target is not None:
            return _meeting_target(task, self.promise(self.target), tell, likely=likely)
        delta = default_delta(task.users) if self.delta is None else checks.delta(self.delta)
        return _meeting_error(task, _error(self.error), delta, tell)

    @staticmethod
    def promise(target: Target) -> tuple[float, float]:
        """Return epsilon and delta."""
        return target.epsilon, target.delta


def _choose(
    wishes: _Wishes,
    task: Task,
    found: list[Candidate],
    tell: Callable[[str], None],
    *,
    anyway: bool,
) -> tuple[Candidate, str]:
    """Return the candidate to take, and why; raise where none may be taken."""
    alone = task.users == 1 or wishes.protocol == LOCAL
    offered = [one for one in found if one.crowd > 1 or alone]
    within = [one for one in offered if not one.ruled_out]
    choose = most_exact if wishes.target is not None else most_private
    if wishes.protocol is not None and offered and not within:
        refuse_broken_wishes(choose(offered, task)[0], anyway=anyway)
        within = offered
    if not within:
        tell("what would work")
        raise _nothing(wishes, task, found)
    useful = [one for one in within if task.is_useful(one)] or within
    chosen, why = choose(useful, task)
    if wishes.protocol is None:
        return chosen, why
    return chosen, asked_for(chosen) + (f" {why}" if len(useful) > 1 else "")


def _protocols(
    questions: Sequence[Asked], protocol: str | Mapping[str, str] | None
) -> dict[str, str]:
    """Return by the name of a question the protocol that was asked for; refuse unknown names.

    One name is for all questions, or, as a table tells a row of a survey, one after the other.
    Whether somebody answered is asked in its own way where that name is not one of a bit's.
    """
    if protocol is None or protocol == LOCAL:
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
        if one.name not in wanted or _is_named(one.question, wanted[one.name]):
            continue
        if one.answers_to is not None and not isinstance(protocol, Mapping):
            del wanted[one.name]
            continue
        known = variant_names(one.question)
        if len(questions) == 1:
            raise InvalidInput("protocol", one_of([*known, LOCAL]), wanted[one.name])
        raise InvalidInput(f"protocol of {one.name!r}", one_of(known), wanted[one.name])
    return wanted


def _is_named(question: Question, protocol: object) -> bool:
    return isinstance(protocol, str) and bool(named_variants(question, 1, protocol))


def _epsilons_of_shares(chosen: Candidate, task: Task) -> tuple[tuple[Fraction, float], ...]:
    """Return the epsilon that still holds with each honest share."""

    def among(crowd: int) -> Mechanism:
        return task.total(chosen.parts, crowd)

    return epsilons_of_shares(among, chosen.crowd, chosen.epsilon, chosen.delta)


def _default_influence(task: Task) -> float:
    """Return the most that one report may move a count where nobody said: half of the crowd.

    Protocols of very few people move it by a few more whatever they do.
    """
    return max(task.reports / 2, 10.0)


def default_delta(users: int) -> float:
    """Return min(1e-8, 1/(100·users)): the delta that is promised unless another is asked for."""
    users = checks.people("number of users", users)
    return min(1e-8, 1.0 / (100 * users))


def charged_delta(users: int, target: Target | None, delta: float | None) -> float:
    """Return the delta of which a part may go to batches with too few honest people."""
    if isinstance(target, Target):
        return target.delta
    return default_delta(users) if delta is None else checks.delta(delta)


def _task(  # noqa: PLR0917 - what is asked for, one by one
    question: Question | Survey,
    users: int,
    rounds: int,
    max_messages: int,
    honest: float,
    contributions: int,
    delta: float | None = None,
) -> Task:
    """Return what is to be planned, with every wish checked."""
    if isinstance(question, Survey):
        questions = expanded(question.planned.items())
    elif isinstance(question, QUESTIONS):
        questions = expanded([("answer", question)])
    else:
        raise InvalidInput("question", "a Bit, Choice, Number, Flags, Cross or Survey", question)
    crowd = checks.people("number of users", users)
    share = honest_share(honest)
    each = checks.whole("contributions", contributions, least=1, most=MOST_RECORDS)
    require_missing_rule({one.name: one.question for one in questions}, each)
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
    """Return every candidate that keeps the promise, or those that likely have few messages."""

    def calibrate(name: str, chosen: Sequence[Variant]) -> Candidate | None:
        if likely and not _fits(chosen, promise, task):
            return None
        return for_target(name, chosen, promise, task)

    return _weigh(task, promise, calibrate, tell)


def _fits(chosen: Sequence[Variant], promise: tuple[float, float], task: Task) -> bool:
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
    """Return every candidate with so small an error."""

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
    for name, chosen in _choices(task, promise):
        tell(name)
        try:
            one = calibrate(name, chosen)
        except InvalidInput:
            # Parameters beyond what its protocol can have: no candidate.
            continue
        if one is not None:
            yield one
            if len(task.questions) > 1 and not one.ruled_out:
                return


def _choices(task: Task, promise: tuple[float, float]) -> Iterator[tuple[str, list[Variant]]]:
    """Yield what is calibrated: every variant of one question, one for each of a survey.

    Where signed decoys were chosen for a survey and do not fit after all, one without is sought.
    """
    if len(task.questions) == 1:
        for one in task.variants(task.questions[0], task.max_messages):
            yield one.name, [one]
        return
    before = ""
    for clear in (True, False):
        chosen = choose_variants(task, promise, clear=clear)
        name = "; ".join(variant.name for variant in chosen)
        if chosen and name != before:
            yield name, chosen
        before = name


def _nothing(wishes: _Wishes, task: Task, found: list[Candidate]) -> NoPlanFound:
    """Return the error that says what would work: more users, more messages, a looser wish."""
    target, error = wishes.target, wishes.error
    wish = (
        f"epsilon {target.epsilon:g} with delta {target.delta:g}"
        if target is not None
        else _error_words(error)  # type: ignore[arg-type]
    )
    if task.local_epsilon is not None and math.isfinite(task.local_epsilon):
        wish += f", a local epsilon of at most {task.local_epsilon:g}"
    if math.isfinite(task.influence):
        unasked = " (the default)" if wishes.influence is None else ""
        wish += f", an influence of at most {task.influence:g} people{unasked}"
    ways = [*_other_wishes(wishes, task, found)] or [
        way
        for way in (
            _more_users(wishes),
            _more_messages(wishes, task, found),
            _looser_target(wishes),
            _looser_error(wishes),
        )
        if way
    ]
    hints = [_WAYS[name].format(value) for name, value in ways]
    which = "any one of these" if len(hints) > 1 else "this"
    kept = "protocol that does" if wishes.protocol is None else "way to use the protocol that does"
    return NoPlanFound(
        f"The plan must meet {wish} with {task.users:,} users and at most {task.max_messages} "
        f"messages per report. Got no {kept}.",
        hint=f"{which} would work: {'; '.join(hints)}" if hints else "ask for less, of more people",
        details={
            "users": task.users,
            "max_messages": task.max_messages,
            "would_work": [dict([way]) for way in ways],
        },
    )


_Way = tuple[str, float]
"""A wish, by its name among those of ``plan``, and a value with which a plan was found."""
_WAYS = {
    "users": "{:,} users",
    "max_messages": "{:,} messages per report",
    "epsilon": "epsilon {:g}",
    "error": "an error of {:g}",
    "local_epsilon": "a local epsilon of {:g}",
    "influence": "an influence of {:g} people",
}
_MOST_TRIES = 5
"""So many numbers of messages are tried: other protocols are chosen where more are allowed."""


def _error_words(error: Error) -> str:
    hold = " that hold together" if error.together else ""
    level = percent_text(error.confidence)
    return f"an error of {error.share:g} of the crowd in {level} intervals{hold}"


def _works(wishes: _Wishes) -> bool:
    """Return whether a plan is found that meets all wishes and is of use."""
    task = wishes.task()
    found = _of_use(task, wishes.in_crowd(task, _silent, likely=True))
    return any(not one.ruled_out for one in found)


def _is_likely(wishes: _Wishes) -> bool:
    """Return whether a plan has few enough messages at the Gaussian guess."""
    if wishes.target is None:
        return True
    task, promise = wishes.task(), wishes.promise(wishes.target)
    return any(_fits(chosen, promise, task) for _, chosen in _choices(task, promise))


def _first_that_works(ladder: Sequence[_Wishes]) -> _Wishes | None:
    """Return the first of rising wishes that a plan is found for.

    Noise falls along the ladder, and messages with it: what is not likely at the end of it, or
    found there, is not looked for farther down.
    """
    if not (ladder and _is_likely(ladder[-1]) and _works(ladder[-1])):
        return None
    last = len(ladder) - 1

    def works(down: int) -> bool:
        return _is_likely(ladder[last - down]) and _works(ladder[last - down])

    return ladder[last - bisect_whole(works, good=0, bad=last + 1)]


def _of_use(task: Task, found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates that a plan would be made of, but for the wishes they do not meet."""
    alone = task.users == 1
    return (one for one in found if (one.crowd > 1 or alone) and task.is_useful(one))


def _other_wishes(wishes: _Wishes, task: Task, found: list[Candidate]) -> Iterator[_Way]:
    """Yield what another wish would have to be, where nothing but it is in the way."""
    without = replace(task, local_epsilon=math.inf)
    free = [one for one in _of_use(task, found) if not without.ruled_out(one)]
    least = rounded_up(min((one.local_epsilon for one in free), default=math.inf))
    if math.isfinite(least) and _works(replace(wishes, local_epsilon=least)):
        yield "local_epsilon", least
    without = replace(task, influence=math.inf)
    free = [one for one in _of_use(task, found) if not without.ruled_out(one)]
    least = rounded_up(min((one.influence for one in free), default=math.inf))
    if math.isfinite(least) and _works(replace(wishes, influence=least)):
        yield "influence", least


def _more_users(wishes: _Wishes) -> _Way | None:
    # All reports, those of people who are not honest among them, must stay countable.
    most = checks.LARGEST_CROWD / 10 * wishes.honest / wishes.contributions
    if wishes.target is None:
        most = min(most, 64 * wishes.users)
    users, ladder = 4 * wishes.users, []
    while users <= most:
        ladder.append(replace(wishes, users=users))
        users *= 4
    found = _first_that_works(ladder)
    return None if found is None else ("users", found.users)


def _more_messages(wishes: _Wishes, task: Task, found: Iterable[Candidate]) -> _Way | None:
    least = 0
    for _ in range(_MOST_TRIES):
        without = replace(task, max_messages=checks.LARGEST_CROWD)
        free = [one for one in _of_use(task, found) if not without.ruled_out(one)]
        # Where more are allowed a survey is asked in another way, which may take more still.
        least = max(min((one.analyzer_operations for one in free), default=0), least + 1)
        if not free:
            return None
        again = replace(wishes, max_messages=least)
        task = again.task()
        found = [*again.in_crowd(task, _silent)]
        if any(not one.ruled_out for one in _of_use(task, found)):
            return "max_messages", least
    return None


def _looser_target(wishes: _Wishes) -> _Way | None:
    if wishes.target is None:
        return None
    (epsilon, delta), ladder = wishes.promise(wishes.target), []
    while not useless_promise(2.0 * epsilon, delta):
        epsilon *= 2.0
        ladder.append(replace(wishes, target=Target(epsilon, delta)))
    found = _first_that_works(ladder)
    return None if found is None or found.target is None else ("epsilon", found.target.epsilon)


def _looser_error(wishes: _Wishes) -> _Way | None:
    error = wishes.error
    while error is not None and error.share < 0.25:
        error = replace(error, share=rounded_up(2.0 * error.share))
        if _works(replace(wishes, error=error)):
            return "error", error.share
    return None


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


def _silent(_: str) -> None:
    """Ignore progress: nobody asked for it."""
