"""The plan: one immutable document, known to all parties, that says what is sent and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

# Only for methods that a device never calls: its names load the planner with the first of them.
from chaffinch import planning
from chaffinch.cards import Words
from chaffinch.disk.files import read_small
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.plans.expansion import expanded
from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.kinds import LARGEST_FILE, Kind
from chaffinch.plans.meaning import useless_promise
from chaffinch.plans.parties import Parties
from chaffinch.plans.parts import Part, shortfall_of, total_of
from chaffinch.plans.plan_document import MessagesForm, PlanForm
from chaffinch.plans.verification import require_proof, require_reached, require_within
from chaffinch.privacy.guarantee import HOP_APART, MOST_RECORDS, Guarantee, Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.protocols.registry import require_registered
from chaffinch.questions import REFUSE, PublicGroup, Question, asked_apart, label
from chaffinch.wire.document_forms import exact_text
from chaffinch.wire.documents import (
    digest,
    file_model,
    identified,
    read_document,
    require_round_trip,
    save_document,
)
from chaffinch.wire.messages import EMPTY
from chaffinch.wire.sealed_reports import Layout

if TYPE_CHECKING:
    from chaffinch.planning import Candidate, Certificate, Cost, Prices, Reached

_PLAN_FORMAT = "chaffinch/plan@1"

NOTHING = "nothing"
"""What a message says that only fills a report up."""
_RULE = f"a plan in the format {_PLAN_FORMAT}"
MOST_QUESTIONS = 100
_MOST_CODES = 10_000_000
_MOST_SLOTS = 1_000_000
SURVEY: Kind[Plan] = Kind("survey")


@dataclass(frozen=True)
class Plan:
    """Who is asked what, how it is protected, and the guarantee that follows.

    ``users`` are the honest people who are sure to take part; ``reports`` is how many reports
    must be there before anything is released; ``crowd`` is how many honest users the
    guarantee counts on (1: it trusts no shuffler at all). ``epsilon`` and ``delta`` cover
    everything one person sends: all questions, in all ``rounds``, and in all their reports where
    each sends ``contributions`` of them into one batch.
    """

    kind: ClassVar[Kind[Any]] = SURVEY

    title: str
    parts: tuple[Part, ...]
    users: int
    reports: int
    crowd: int
    rounds: int
    epsilon: float
    delta: float
    shares: tuple[tuple[Fraction, float], ...] = ()
    """For each share of honest users the epsilon that still holds with the same delta."""
    contributions: int = 1
    group: PublicGroup | None = None
    """The question whose answers are public: this is a plan for any of its groups, or for one."""
    parties: Parties | None = None
    """Who runs it; without them it can be run by one party, and with files."""
    honest: HonestShare | None = None
    """How likely each of the others is to be honest; None where nobody said that some may lie."""
    own: Candidate | None = field(default=None, compare=False, repr=False)
    """This plan as the planner weighed it, with its name; not part of the document."""
    alternatives: tuple[Candidate, ...] = field(default=(), compare=False, repr=False)
    """The other protocols that were weighed; not part of the document."""
    choice: str = field(default="", compare=False, repr=False)
    """Why this one was chosen, in a sentence; not part of the document."""

    def __post_init__(self) -> None:
        checks.whole("number of users", self.users, least=1)
        self._check_contributions()
        checks.whole("number of reports", self.reports, least=self.users * self.contributions)
        checks.whole("crowd", self.crowd, least=1, most=self.users)
        checks.whole("number of rounds", self.rounds, least=1, most=10**6)
        checks.real("epsilon", self.epsilon, least=1e-9)
        checks.delta(self.delta)
        label("title", self.title, empty=True)
        checks.whole("number of questions", len(self.parts), most=MOST_QUESTIONS)
        self._check_shares()
        if not self.parts or len({part.name for part in self.parts}) < len(self.parts):
            raise InvalidInput(
                "questions", "at least one, all with different names", [p.name for p in self.parts]
            )
        self._check_answered()
        checks.whole("number of codes", self.codes, least=1, most=_MOST_CODES)
        self._check_view()
        least = 1 if self.view == MESSAGES else 0
        checks.whole("number of slots", self.slots, least=least, most=_MOST_SLOTS)
        for part in self.parts:
            crowd = self.honest_reports if self.crowd > 1 else 1
            require_proof(part.protocol.mechanism(part.question, crowd))
            part.protocol.document()  # Parameters that stand in no file are refused here.

    def _check_view(self) -> None:
        """Refuse totals among messages, and where devices or several parties are counted on."""
        if len({part.protocol.view for part in self.parts}) > 1:
            raise InvalidInput("protocols of a plan", "of one view", Unquoted("of several"))
        for_devices = {
            "parties": self.parties is not None,
            "honest share": self.honest is not None,
            "honest shares": bool(self.shares),
            "crowd of one": self.crowd == 1,
        }
        for name, given in for_devices.items():
            if given and self.view == TOTALS:
                rule = "a plan for devices: totals are added up by one party"
                raise InvalidInput(f"plan with {name}", rule, Unquoted("one for totals"))

    def _check_answered(self) -> None:
        """Refuse a part that follows from anything but the number before it."""
        name, following = "", list[Question]()
        for part in self.parts:
            if part.answers_to is None:
                name = part.name
                following = [one.question for one in expanded([(name, part.question)])[1:]]
            elif part.answers_to == name and part.question in following:
                del following[: following.index(part.question) + 1]
            else:
                rule = (
                    "a bit behind the number whose missing answers are counted, or the squares "
                    "behind the number whose spread is asked for"
                )
                raise InvalidInput("part that follows from a number", rule, part.name)

    def _check_contributions(self) -> None:
        checks.whole("contributions", self.contributions, least=1, most=MOST_RECORDS)
        require_missing_rule(self.questions, self.contributions)

    def _check_shares(self) -> None:
        """Refuse shares that cannot be true: fewer honest users never protect better."""
        before, least = Fraction(1), self.epsilon
        for share, epsilon in self.shares:
            if not (0 < share < before and epsilon >= least):
                raise InvalidInput(
                    "honest shares",
                    "falling, with rising epsilons",
                    Unquoted(f"{share}: {epsilon:g}"),
                )
            before, least = share, epsilon

    # -------------------------------------------------------------------- other protocols

    def choose(self, name: str, *, anyway: bool = False) -> Plan:
        """Return the plan of another protocol that was weighed, by its name in the table.

        It keeps the promise like this one, and is saved, verified and run like it. One that does
        not meet a wish, or is of no use, is refused unless it is wanted ``anyway``. A plan from
        a file was weighed against nothing: give ``chaffinch.plan`` the name as ``protocol``.

        >>> import chaffinch as cf
        >>> made = cf.plan(cf.Bit(), users=10_000, target=cf.Target(1.0, 1e-6))
        >>> made.choose("flips, 2 copies").part().protocol.name
        'flips, 2 copies'
        """
        return planning.choose(self, name, anyway=anyway)

    # -------------------------------------------------------------------- what is sent

    @property
    def view(self) -> str:
        """Return what is seen: ``messages`` of devices, or ``totals`` that one party adds up."""
        return self.parts[0].protocol.view

    @property
    def slots(self) -> int:
        """Return the number of message slots in every report."""
        return sum(part.slots for part in self.parts)

    @property
    def codes(self) -> int:
        """Return how many different messages there are."""
        return sum(part.codes for part in self.parts)

    @cached_property
    def message_names(self) -> tuple[str, ...]:
        """Return for every code, in order, what a message says, in words that people read.

        Where a plan has several parts the name of the question stands before it. ``message_name``
        also knows the empty messages that fill a report up.

        >>> import chaffinch as cf
        >>> made = cf.plan(cf.Bit(), users=10_000, target=cf.Target(1.0, 1e-6), max_messages=1)
        >>> made.message_names, made.message_name(0)
        (('yes',), 'yes')
        """
        if len(self.parts) == 1:
            return self.parts[0].message_names
        return tuple(f"{one.name}: {name}" for one in self.parts for name in one.message_names)

    def message_name(self, code: int) -> str:
        """Return what a message says; of the code of an empty slot "nothing"."""
        return NOTHING if code == EMPTY else self.message_names[code]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Return the first code of each part."""
        starts, total = [], 0
        for part in self.parts:
            starts.append(total)
            total += part.codes
        return tuple(starts)

    @cached_property
    def questions(self) -> dict[str, Question]:
        """Return what people are asked, by name."""
        return {part.name: part.question for part in self.parts if part.answers_to is None}

    @property
    def asked(self) -> dict[str, Question]:
        """Return what people answer, by name: crossed questions one by one."""
        return dict(asked_apart(self.questions))

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the public groups; none where all people are one collection."""
        return () if self.group is None else self.group.question.labels

    def of_group(self, value: str) -> Plan:
        """Return the plan of one public group, which is a collection of its own."""
        if self.group is None:
            raise InvalidInput("group", "that of a plan with public groups", value)
        return replace(self, group=replace(self.group, value=value))

    def part(self, name: str | None = None) -> Part:
        """Return the part of that name, or that of the only question."""
        for part in self.parts:
            if name == part.name or (name is None and len(self.questions) == 1):
                return part
        names = ", ".join(repr(part.name) for part in self.parts)
        raise InvalidInput("name of a question", f"one of {names}", name)

    # -------------------------------------------------------------------- what is promised

    def mechanism(self, share: Fraction = Fraction(1)) -> Mechanism:
        """Return what one person is exposed to in total, among a share of the crowd."""
        crowd = max(1, math.floor(self.crowd * share))
        return total_of(self.parts, crowd, self.rounds, self.contributions, self.shortfall)

    def round_mechanism(self) -> Mechanism:
        """Return what one round alone exposes: the charge of one release."""
        return total_of(self.parts, self.crowd, 1, self.contributions, self.shortfall)

    @cached_property
    def shortfall(self) -> Fraction:
        """Return the chance that a round has fewer honest people than the guarantee counts on."""
        return shortfall_of(self.honest, self.crowd, self.reports, self.contributions)

    @property
    def honest_reports(self) -> int:
        """Return how many reports of honest users the guarantee counts on."""
        return self.crowd * self.contributions

    @cached_property
    def promise(self) -> Guarantee:
        """Return what the plan's file promises, with everything it depends on."""
        mechanism = self.mechanism()
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=mechanism.neighbours,
            view="one report" if self.crowd == 1 else mechanism.view,
            crowd=self._counted_on,
            local_epsilon=mechanism.local_epsilon,
            method=mechanism.method,
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """Return what holds: the promise, or less where there is more noise than it needs.

        A wish for the single report can ask for that much noise. The file keeps what was asked for.

        >>> import chaffinch as cf
        >>> target = cf.Target(1.0, 1e-6)
        >>> made = cf.plan(cf.Bit(), users=10_000, target=target, local_epsilon=4)
        >>> made.promise.epsilon, made.guarantee.epsilon
        (1.0, 0.3147)
        """
        if not self.reached.less:
            return self.promise
        return replace(self.promise, epsilon=self.reached.epsilon, method="upper-bound")

    @cached_property
    def reached(self) -> Reached:
        """Return the epsilons that hold with delta: among all honest users, and among fewer."""
        return planning.reached(self)

    @property
    def _counted_on(self) -> str:
        """Return who must do what was promised, in words."""
        if self.view == TOTALS:
            return self.parts[0].mechanism(self.crowd).crowd_words
        if self.crowd == 1:
            return "nobody but oneself"
        hop = HOP_APART if self.sizes_tell else ""
        alike = "" if self.group is None else f" with the same {self.group.name}"
        return f"{self.crowd} honest users{self._each}{alike}{self._among}{hop}"

    @property
    def _each(self) -> str:
        return f" with {self.contributions} reports each" if self.contributions > 1 else ""

    @property
    def _among(self) -> str:
        if self.honest is None:
            return ""
        share = exact_text(self.honest.share)
        return (
            f" (of {self.people} people, each honest with a chance of {share}, independently of "
            "one another and of the answers)"
        )

    @property
    def people(self) -> int:
        """Return how many people send the reports that a release waits for, at least."""
        return -(-self.reports // self.contributions)

    @property
    def sizes_tell(self) -> bool:
        """Return whether the number of messages in each report tells of the noise."""
        return any(part.protocol.sizes_tell_noise for part in self.parts)

    @property
    def trust(self) -> str:
        """Return what is counted on of the named parties, as a sentence; nothing without them."""
        if self.parties is None or self.crowd == 1:
            return ""
        return self.parties.trust(first_hop_alone=self.sizes_tell)

    def run_by(self, parties: Parties) -> Plan:
        """Return this plan with the parties who run it: another plan, with an id of its own."""
        made = replace(require_devices(self), parties=parties)
        _ = made.layout  # Reports too long to be sealed are refused here.
        return made

    @cached_property
    def layout(self) -> Layout:
        """Return how long everything is that travels; refuse a plan that names no parties."""
        if self.parties is None:
            raise InvalidInput(
                "plan",
                "one that names the parties who run it",
                Unquoted("a plan without parties"),
                hint="name them: chaffinch plan survey.toml --parties parties.toml",
            )
        return self.parties.layout(self.id, self.slots, self.fixed_slots)

    @property
    def varying(self) -> tuple[str, ...]:
        """Return the questions whose number of messages follows the noise, never the answer."""
        return tuple(part.name for part in self.parts if part.varies)

    @property
    def fixed_slots(self) -> int:
        """Return how many slots of every report are filled, with dummies if need be."""
        return sum(part.slots for part in self.parts if not part.varies)

    @cached_property
    def least_items(self) -> int:
        """Return how many items the reports of the honest users have at least, dummies included.

        Where their number follows the noise they have fewer with a chance of 1e-9 for a question.
        """
        honest = self.honest_reports
        return sum(
            part.protocol.least_messages(part.question, honest)
            if part.varies
            else honest * part.slots
            for part in self.parts
        )

    def verify(self, *, within: Target | None = None, shares: bool = False) -> None:
        """Recompute the guarantee from the parameters; raise if it does not hold.

        Once per plan: the result is remembered, so that encoding stays cheap. ``within`` is
        the most that this party accepts, whatever the plan promises. With ``shares`` also
        what is said of smaller honest shares is recomputed.
        """
        require_within(self.epsilon, self.delta, within)
        _ = self._verified
        for share, epsilon in self.shares if shares else ():
            self._prove(share, epsilon)

    @cached_property
    def _verified(self) -> bool:
        self._prove(Fraction(1), self.epsilon)
        return True

    def _prove(self, share: Fraction, epsilon: float) -> None:
        if math.isinf(epsilon):
            return
        mechanism = self.mechanism(share)
        # Devices verify before they encode: a plan that keeps them busy is as bad as a false one.
        reached = 1.0 if mechanism.takes_minutes else mechanism.delta_within(epsilon, self.delta)
        require_reached(reached, epsilon, self.delta, among=f" with {float(share):.0%} honest")

    # -------------------------------------------------------------------- for people and files

    @cached_property
    def id(self) -> str:
        """Return the SHA-256 of the plan's canonical form, in hexadecimal."""
        return digest(_PLAN_FORMAT, PlanForm.document(self))

    def save(self, path: str | Path) -> None:
        """Write the plan to a file that other parties can load and verify."""
        for part in self.parts:
            require_registered(part.protocol)
        save_document(path, _PLAN_FORMAT, PlanForm.document(self))

    def certificate(self) -> Certificate:
        """Return what a stranger needs to check the promise, for ``tools/check_certificate.py``.

        ``plan.certificate().save("browsers.certificate.json")`` writes it to a file. The search
        takes up to some seconds and so does the check that every certificate has to pass;
        GuaranteeNotProven is raised where there is no proof, and InvalidInput where the checker
        knows no such plans.
        """
        return planning.certify(self)

    @property
    def warnings(self) -> list[str]:
        """Return why this plan is of no use, if it is of none: to nobody protected, or too inexact.

        ``plan`` refuses to make such a plan unless it is told to do it anyway.
        """
        return useless_promise(self.epsilon, self.delta) + [
            words for part in self.parts for words in part.warnings(self.reports)
        ]

    def margin(
        self,
        confidence: float = 0.95,
        *,
        question: str | None = None,
        together: bool = False,
        answered: float = 1.0,
    ) -> float:
        """Return how far the intervals of a release reach from its estimates, at the most.

        It is a share of the reports for counts and of the range for means: 0.005 is half a percent
        to each side, as ``Error(0.005)`` asks for it. Of several questions it is the largest, or
        that of the ``question`` with this name. ``together`` means the intervals that hold for all
        values of a question at once. ``answered`` is the share of people who answer a number whose
        missing answers are counted, which nobody knows beforehand: with fewer it is less exact.

        >>> import chaffinch as cf
        >>> made = cf.plan(cf.Bit(), users=10_000, target=cf.Target(1.0, 1e-6), max_messages=1)
        >>> round(made.margin() * made.reports), round(made.margin(0.99) * made.reports)
        (13, 17)
        """
        return planning.margin_of(self, confidence, question, together=together, answered=answered)

    def cost(
        self, users: int | None = None, *, hops: int | None = None, prices: Prices | None = None
    ) -> Cost:
        """Return an estimate of what one round costs with so many people: work, bytes and money.

        Without ``users``, with those of the plan. ``hops`` are those that the plan names, or one;
        0 is for files of messages that nobody seals. ``prices`` are assumed unless they are given.
        """
        return planning.cost_of(require_devices(self), users, hops, prices)

    def explain(self) -> str:
        """Return in plain sentences what is promised, what is sent and why this protocol."""
        return Words(planning.explain(self))

    def document(self) -> dict[str, Any]:
        """Return the plan as it stands in its file."""
        return identified(_PLAN_FORMAT, PlanForm.document(self))

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{part.name}: {part.question.kind} by {part.protocol.kind}" for part in self.parts
        )
        promise = f"users={self.users}, epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"<Plan {self.title!r} {self.id[:16]} ({parts}), {promise}>"

    def __str__(self) -> str:
        asked = f" (promised: epsilon {self.epsilon:g})" if self.reached.less else ""
        return f"{self.title or 'plan'} ({self.id[:16]}): {self.guarantee}{asked}"

    def _repr_html_(self) -> str:
        return planning.plan_html(self)


def require_missing_rule(questions: Mapping[str, Question], contributions: int) -> None:
    """Refuse several reports of whoever cannot be silent in one of them."""
    apart = asked_apart(questions)
    silent = [name for name, question in apart.items() if question.missing == REFUSE]
    if contributions > 1 and silent:
        raise InvalidInput(
            "missing answers of every question",
            "of some use where everybody sends several reports",
            "a refusal: " + ", ".join(silent),
            hint='who has fewer answers sends reports without one: set missing = "count"',
        )


def require_plan(plan: object) -> Plan:
    """Return a plan, or refuse what is none: a path, an answer, arguments in another order."""
    if not isinstance(plan, Plan):
        raise InvalidInput(
            "plan", "a Plan", type(plan).__name__, hint="load a file with chaffinch.load_plan"
        )
    if plan.group is not None and plan.group.value is None:
        raise InvalidInput(
            "plan",
            f"that of one group of {plan.group.name!r}",
            Unquoted("one for all groups"),
            hint=f"plan.of_group({plan.groups[0]!r}); `chaffinch run` takes one after the other",
        )
    return plan


def require_devices(plan: object) -> Plan:
    """Return a plan for devices, or refuse one for totals, of which nothing is sent."""
    found = require_plan(plan)
    if found.view == TOTALS:
        raise InvalidInput(
            "plan",
            "one for devices",
            Unquoted("one for totals, which one party adds up"),
            hint="whoever holds the table runs it: `chaffinch run` (chaffinch.run)",
        )
    return found


# -------------------------------------------------------------------- plans as files


def load_plan(path: str | Path) -> Plan:
    """Return the plan in a file; refuse one that is not whole, unchanged and well-formed.

    Whether its guarantee holds is another question: ``plan.verify()`` recomputes it, and
    encoding does so by itself.
    """
    text = read_small(path, most=LARGEST_FILE, must_be=_RULE)
    return plan_from(text, name=Path(path).name)


def plan_from(text: str | bytes, *, name: str = "plan") -> Plan:
    """Return the plan in a text."""
    form, body = read_document(text, PlanForm, _PLAN_FORMAT, name=name)
    return require_round_trip(
        lambda: _built_plan(form), PlanForm.document, body, name=name, rule=_RULE
    )


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of plan files."""
    schema: dict[str, Any] = file_model(PlanForm, _PLAN_FORMAT).model_json_schema()
    return schema


def _built_plan(form: PlanForm) -> Plan:
    said = form.build()
    promise = said.pop("promise")
    for follows in MessagesForm.model_fields:
        del said[follows]
    plan = Plan(**said, epsilon=promise.epsilon, delta=promise.delta)
    needed = [(one.answers_to, one.question) for one in expanded(plan.questions.items())]
    if needed != [(part.answers_to, part.question) for part in plan.parts]:
        rule = "with a count of who answered, and with squares, where they are needed"
        raise InvalidInput("parts of a plan", rule, Unquoted("others"))
    return plan
