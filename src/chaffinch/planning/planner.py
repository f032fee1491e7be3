"""Choose and compare protocols: from a promise to an error, or from an error to a promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from chaffinch import checks
from chaffinch.errors import InvalidInput, NoPlanFound, UselessPlan
from chaffinch.planning.candidates import (
    Candidate,
    Task,
    choose_variants,
    for_error,
    for_local_target,
    for_target,
    most_exact,
    most_private,
    smallest_epsilon,
    tuned_parts,
)
from chaffinch.planning.expansion import expanded
from chaffinch.planning.explanation import useless_promise
from chaffinch.planning.honest_share import honest_share, needed_reports
from chaffinch.planning.levels import count_error, with_levels
from chaffinch.planning.margins import largest_margin
from chaffinch.planning.plan import Part, Plan, refuse_silence
from chaffinch.privacy import Target
from chaffinch.privacy.groups import MOST_RECORDS
from chaffinch.privacy.numerics import special
from chaffinch.protocols import Variant
from chaffinch.protocols.intervals import miss_chance
from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import QUESTIONS, Question, Survey
from chaffinch.rounding import percent_text, rounded_up

_HONEST_SHARES = (Fraction(9, 10), Fraction(7, 10), Fraction(1, 2))
"""A plan says what is left of its guarantee when only so many of the users are honest."""

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
    average; room for more, which is padding, is not counted. A plan of no
    use (a promise that lets everybody guess right, an error as large as the crowd) is refused
    unless it is wanted ``anyway``. ``progress`` is told the name of each protocol before it is
    calibrated.

    >>> from chaffinch.questions import Bit
    >>> one = plan(Bit(), users=10_000, target=Target(1.0, 1e-6), max_messages=1)
    >>> one.guarantee.epsilon, one.guarantee.neighbours
    (1.0, 'replace-one')
    """
    charged = charged_delta(users, target, delta)
    asked = _task(question, users, rounds, max_messages, honest, contributions, charged)
    task = replace(
        asked,
        local_epsilon=None if local_epsilon is None else _wish("local epsilon", local_epsilon),
        influence=_default_influence(asked) if influence is None else _wish("influence", influence),
    )
    tell = progress or _silent
    if (target is None) == (error is None):
        raise InvalidInput("target", "given, or an error, but not both", target)
    if target is not None:
        promise = (_target(target).epsilon, target.delta)
        if promise[0] == 0:
            raise InvalidInput("epsilon", "above 0", 0.0, hint="0 leaves no answer at all")
        checks.real("delta of the target", target.delta, least=1e-300, most=_LARGEST_DELTA)
        _refuse_useless(useless_promise(*promise), anyway=anyway)
        task = with_levels(task, count_error(task, promise))
        found = _meeting_target(task, promise, tell)
    else:
        allowed = default_delta(task.users) if delta is None else checks.delta(delta)
        task = with_levels(task, _error(error).standard_error(task.reports))
        found = _meeting_error(task, _error(error), allowed, tell)
    within = [one for one in found if not one.ruled_out and one.crowd > 1]
    if not within and task.users == 1:
        within = [one for one in found if not one.ruled_out]
    if not within:
        raise _nothing(task, target, error, found)
    useful = [one for one in within if task.is_useful(one)] or within
    choose = most_exact if target is not None else most_private
    chosen, why = choose(useful, task)
    if error is not None:
        why += f" {_margin_sentence(error, chosen, task)}"
    name = title or (question.title if isinstance(question, Survey) else "")
    tell("honest shares")
    group = question.group if isinstance(question, Survey) else None
    made = replace(_plan(chosen, task, found, name), choice=why, group=group)
    _refuse_useless(made.warnings, anyway=anyway)
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


def _refuse_useless(warnings: Sequence[str], *, anyway: bool) -> None:
    if warnings and not anyway:
        raise UselessPlan(warnings)


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
    refuse_silence({one.name: one.question for one in questions}, each)
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
    task: Task, promise: tuple[float, float], tell: Callable[[str], None]
) -> list[Candidate]:
    """Return every candidate that keeps the promise."""

    def calibrate(name: str, chosen: Sequence[Variant]) -> Candidate | None:
        return for_target(name, chosen, promise, task)

    found = _weigh(task, promise, calibrate, tell)
    tell("local")
    return [*found, for_local_target(promise, task)]


def _meeting_error(
    task: Task, error: Error, delta: float, tell: Callable[[str], None]
) -> list[Candidate]:
    """Return every candidate with so small an error."""

    def calibrate(name: str, chosen: Sequence[Variant]) -> Candidate | None:
        return for_error(name, chosen, error, delta, task)

    return _weigh(task, (1.0, delta), calibrate, tell)


def _weigh(
    task: Task,
    promise: tuple[float, float],
    calibrate: Callable[[str, Sequence[Variant]], Candidate | None],
    tell: Callable[[str], None],
) -> list[Candidate]:
    """Return all candidates of one question; of a survey the first that meets all wishes.

    Where signed decoys were chosen for a survey and do not fit after all, one without is sought.
    """
    survey = len(task.questions) > 1
    choices = (
        (choose_variants(task, promise, clear=clear) for clear in (True, False))
        if survey
        else ([one] for one in task.variants(task.questions[0].question, task.max_messages))
    )
    found: list[Candidate] = []
    for chosen in choices:
        name = "; ".join(variant.name for variant in chosen)
        tell(name)
        try:
            one = calibrate(name, chosen)
        except InvalidInput:
            # Parameters beyond what its protocol can have: no candidate.
            continue
        found += [one] if one is not None else []
        if survey and one is not None and not one.ruled_out:
            break
    return found


def _plan(chosen: Candidate, task: Task, found: list[Candidate], title: str) -> Plan:
    """Return the plan of a candidate, with what smaller honest shares leave."""
    shares = _epsilons_of_shares(chosen, task) if chosen.crowd > 1 else ()
    return Plan(
        title=title,
        parts=chosen.parts,
        users=task.users,
        reports=task.reports,
        crowd=chosen.crowd,
        rounds=task.rounds,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        shares=shares,
        alternatives=tuple(one for one in found if one is not chosen),
        contributions=task.contributions,
        honest=task.honest,
    )


def _epsilons_of_shares(chosen: Candidate, task: Task) -> tuple[tuple[Fraction, float], ...]:
    """Return the epsilon that still holds with each honest share, rising as the share falls.

    Each is proven by itself, to a width, so that one search can end below another: below that of
    a larger share, or of the whole crowd. The larger of the two holds for both.
    """
    found, least = [], chosen.epsilon
    for share in _HONEST_SHARES:
        crowd = max(1, math.floor(chosen.crowd * share))
        total = task.total(chosen.parts, crowd)
        if total.takes_minutes:
            found.append((share, math.inf))
            continue
        guess = chosen.epsilon / math.sqrt(float(share))
        own = smallest_epsilon(total, chosen.delta, guess)
        least = max(least, own)
        found.append((share, least))
    return tuple(found)


def _nothing(
    task: Task, target: Target | None, error: Error | None, found: list[Candidate]
) -> NoPlanFound:
    """Return the error that says what would work: more users, more messages, a looser wish."""
    wish = (
        f"epsilon {target.epsilon:g} with delta {target.delta:g}"
        if target is not None
        else f"an error of {error.share:g} of the crowd"  # type: ignore[union-attr]
    )
    if task.local_epsilon is not None:
        wish += f", a local epsilon of at most {task.local_epsilon:g}"
    if math.isfinite(task.influence):
        unasked = " (the default)" if task.influence == _default_influence(task) else ""
        wish += f", an influence of at most {task.influence:g} people{unasked}"
    hints = _with_other_wishes(task, found) or [
        hint
        for hint in (
            _with_more_users(task, target, error),
            _with_more_messages(task, found),
            _with_looser_target(task, target),
        )
        if hint
    ]
    return NoPlanFound(
        f"The plan must meet {wish} with {task.users} users and at most {task.max_messages} "
        f"messages per report. Got no protocol that does.",
        hint="any one of these would work: " + "; ".join(hints)
        if hints
        else "ask for less, of more people",
        details={"users": task.users, "max_messages": task.max_messages},
    )


def _works(task: Task, target: Target | None, error: Error | None) -> bool:
    """Return whether a plan exists: weighed at the Gaussian guess, then by the accountant."""
    if target is not None:
        promise = (target.epsilon, target.delta)
        for asked, variant in zip(task.questions, choose_variants(task, promise), strict=True):
            alone = replace(task, questions=(asked,))
            mu = gaussian_mu(*promise) / task.growth
            parts = tuned_parts([variant], mu, promise, task.users, alone)
            if sum(part.sealed_messages for part in parts) > task.max_messages:
                return False
        found = _meeting_target(task, promise, _silent)
    else:
        assert error is not None  # noqa: S101 - one of the two is always given
        found = _meeting_error(task, error, default_delta(task.users), _silent)
    return any(not one.ruled_out for one in _of_use(task, found))


def _of_use(task: Task, found: list[Candidate]) -> list[Candidate]:
    """Return the candidates that a plan would be made of, but for the wishes they do not meet."""
    alone = task.users == 1
    return [one for one in found if (one.crowd > 1 or alone) and task.is_useful(one)]


def _with_other_wishes(task: Task, found: list[Candidate]) -> list[str]:
    """Return what another wish would have to be, where nothing but it is in the way."""
    wishes = (
        (replace(task, local_epsilon=math.inf), "local_epsilon", "a local epsilon of {:g}"),
        (replace(task, influence=math.inf), "influence", "an influence of {:g} people"),
    )
    hints = []
    for without, name, words in wishes:
        free = [one for one in _of_use(task, found) if not without.ruled_out(one)]
        least = min((getattr(one, name) for one in free), default=math.inf)
        if math.isfinite(least):
            hints.append(words.format(rounded_up(least)))
    return hints


def _with_more_users(task: Task, target: Target | None, error: Error | None) -> str:
    users = task.users
    most = checks.LARGEST_CROWD // 10 if target is not None else 64 * task.users
    while users < most:
        users *= 4
        reports = needed_reports(
            users,
            task.honest,
            contributions=task.contributions,
            rounds=task.rounds,
            delta=charged_delta(users, target, None),
        )
        if _works(replace(task, users=users, reports=reports), target, error):
            return f"{users:,} users"
    return ""


def _with_more_messages(task: Task, found: list[Candidate]) -> str:
    without = replace(task, max_messages=checks.LARGEST_CROWD)
    free = [one for one in _of_use(task, found) if not without.ruled_out(one)]
    least = min((one.analyzer_operations for one in free), default=0)
    return f"{least:,} messages per report" if least else ""


def _with_looser_target(task: Task, target: Target | None) -> str:
    if target is None:
        return ""
    epsilon = target.epsilon
    while epsilon < 16:
        epsilon *= 2
        if _works(task, Target(epsilon, target.delta), None):
            return f"epsilon {epsilon:g}"
    return ""


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
