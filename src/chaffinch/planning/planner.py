"""Choose and compare protocols: from a promise to an error, or from an error to a promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from chaffinch.charts.rounding import percent_text, rounded_up
from chaffinch.planning.candidates import (
    LEAST_EPSILON,
    NEAR,
    Candidate,
    Task,
    Weighed,
    most_exact,
    most_private,
)
from chaffinch.planning.choosing import (
    asked_for,
    refuse_broken_wishes,
    refuse_useless,
)
from chaffinch.planning.fewer_honest import epsilons_of_shares
from chaffinch.planning.hints import no_plan_found, silent
from chaffinch.planning.levels import hopeless_rounds
from chaffinch.planning.wishes import MOST_MESSAGES, Error, Wishes
from chaffinch.plans.meaning import useless_promise
from chaffinch.plans.plan import Plan
from chaffinch.privacy import Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanism_documents import mechanism_text
from chaffinch.protocols.base import MESSAGES
from chaffinch.protocols.registry import LOCAL, PROTOCOLS
from chaffinch.questions import Question, Survey

_FLOOR = (
    f" No plan goes far below an epsilon of {LEAST_EPSILON:g}, so this one is more exact than "
    "asked for."
)
"""What is told where an error is looser than the least promise needs."""


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
    view: str = MESSAGES,
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
    ``influence`` is the most that one dishonest report may move a count, in people, or a sum,
    in ranges (unasked: half of the reports, and at least 10). ``max_messages`` bounds the
    messages of a report that must be sealed, on average; room for more, which is padding, is
    not counted. ``protocol`` takes one by its name in the table of alternatives, such as
    "flips, 4 copies" or "local", or the best of those whose names begin so, such as "signed
    decoys"; of a survey for all questions, or a name for each in a mapping. A plan of no use (a
    promise that lets everybody guess right, an error as large as the crowd), or with a protocol
    that was asked for and does not meet a wish, is refused unless it is wanted ``anyway``. The
    ``view`` is what is seen: "messages" of devices, or "totals" that one party who may see the
    answers adds up, with noise added once. ``progress`` is told the name of each protocol
    before it is calibrated.

    >>> from chaffinch.questions import Bit
    >>> one = plan(Bit(), users=10_000, target=Target(1.0, 1e-6), max_messages=1)
    >>> one.guarantee.epsilon, one.guarantee.neighbours
    (1.0, 'replace-one')
    """
    wishes = Wishes(
        question, users, target, error, delta, rounds, contributions, max_messages, honest,
        local_epsilon, influence, protocol, view,
    )  # fmt: skip
    task = wishes.task()
    if target is not None:
        weak = useless_promise(target.epsilon, target.delta)
        refuse_useless(weak, anyway=anyway, wish="for a smaller epsilon or delta")
        hopeless = hopeless_rounds(task, wishes.promise(target))
        refuse_useless(
            hopeless, anyway=anyway, wish="more people, or for fewer rounds, or another epsilon"
        )
    tell = progress or silent
    found = wishes.candidates(task, tell)
    _require_documents(found)
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
        shares=_epsilons_of_shares(chosen, task) if view == MESSAGES else (),
        contributions=task.contributions,
        honest=task.honest,
        group=question.group if isinstance(question, Survey) else None,
        own=chosen,
        alternatives=Weighed(one for one in found if one is not chosen),
        choice=why,
    )
    wish = "for another epsilon" if error is None else "for less: a larger error"
    refuse_useless(made.warnings, anyway=anyway, wish=f"more people, or {wish}")
    return made


def _require_documents(found: Sequence[Candidate]) -> None:
    """Refuse protocols from elsewhere whose mechanisms no ledger could charge later."""
    for one in found:
        for part in one.parts:
            if part.protocol.kind not in PROTOCOLS:
                mechanism_text(part.mechanism(one.crowd))


def _margin_sentence(error: Error, chosen: Candidate, task: Task) -> str:
    margin = error.margin(chosen.parts, task.reports)
    reached, loose = rounded_up(100.0 * margin), margin < (1.0 - NEAR) * error.share
    means = [part.question.shape == "number" for part in chosen.parts]
    of = "reports, or of the range," if any(means) else "reports"
    of = "range" if all(means) else of
    hold = "for all values of a question together" if error.together else "each by itself"
    return (
        f"The {percent_text(error.confidence)} intervals of a release, {hold}, are {reached:g}% "
        f"of the {of} to each side at most; {percent_text(error.share)} was asked for."
        + (_FLOOR if loose and chosen.epsilon < 2 * LEAST_EPSILON else "")
    )


def _choose(
    wishes: Wishes,
    task: Task,
    found: list[Candidate],
    tell: Callable[[str], None],
    *,
    anyway: bool,
) -> tuple[Candidate, str]:
    alone = task.users == 1 or wishes.protocol == LOCAL
    offered = [one for one in found if one.crowd > 1 or alone]
    within = [one for one in offered if not one.ruled_out]
    choose = most_exact if wishes.target is not None else most_private
    if wishes.protocol is not None and offered and not within:
        refuse_broken_wishes(choose(offered, task)[0], anyway=anyway)
        within = offered
    if not within:
        tell("what would work")
        raise no_plan_found(wishes, task, found)
    useful = [one for one in within if task.is_useful(one)] or within
    chosen, why = choose(useful, task)
    if wishes.protocol is None:
        return chosen, why
    return chosen, asked_for(chosen) + (f" {why}" if len(useful) > 1 else "")


def _epsilons_of_shares(chosen: Candidate, task: Task) -> tuple[tuple[Fraction, float], ...]:
    def among(crowd: int) -> Mechanism:
        return task.total(chosen.parts, crowd)

    return epsilons_of_shares(among, chosen.crowd, chosen.epsilon, chosen.delta)
