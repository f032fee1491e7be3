"""The plan of a reach: what all publishers must do alike, and the guarantee that follows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from chaffinch import privacy
from chaffinch.disk.files import read_small
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.plans.kinds import Kind
from chaffinch.plans.parties import KEMS
from chaffinch.plans.plan import Plan
from chaffinch.plans.plan_document import GuaranteeForm
from chaffinch.plans.verification import require_reached, require_within
from chaffinch.privacy.guarantee import Guarantee, Target
from chaffinch.protocols.base import GRAIN
from chaffinch.questions import label

# Only for methods that no party calls while a reach runs: its names load with the first of them.
from chaffinch.reach import planning
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.id_rule import AS_IS, IdRule, IdsForm
from chaffinch.reach.planning.reach_parties import (
    MOST_DELTA,
    MOST_EPSILON,
    ReachParties,
    ReachPartiesForm,
    Shuffler,
    ShufflerForm,
    both_flips,
    colluding_epsilon,
)
from chaffinch.wire.document_forms import Exact, Form, Listed
from chaffinch.wire.documents import (
    digest,
    file_model,
    identified,
    read_document,
    require_round_trip,
    save_document,
)
from chaffinch.wire.filter_files import LEAST_BITS, MOST_BITS
from chaffinch.wire.sealed_filters import FilterLayout

if TYPE_CHECKING:
    from chaffinch.planning.costs.cost import Cost, Prices

_FORMAT = "chaffinch/reach-plan@1"
_LARGEST_FILE = 1 << 20
_RULE = f"a plan in the format {_FORMAT}"
MOST_IDS = 10**12
FULL_BELOW = 5.0
"""A row with fewer empty columns than so many standard errors of the flips is full."""
REACH: Kind[ReachPlan] = Kind("reach")


@dataclass(frozen=True, slots=True)
class Option:
    """One way that was weighed: so many hashes, with the size that suits them."""

    hashes: int
    bits: int
    flip: float
    standard_error: float
    limit: float
    """The error that filters of this size would have without any flips."""
    own: float
    """What each publisher flips: all of ``flip``, unless a shuffler flips again."""


@dataclass(frozen=True)
class ReachPlan:
    """How several publishers count their reach together.

    ``sizes`` are the expected audiences, which decide nothing but the error that is foretold.
    ``flip_probability`` is what each publisher flips. ``epsilon`` and ``delta`` protect one id at
    all publishers, in one collection, from the analyzer: who must not have the key, or, where a
    ``shuffler`` stands in between and flips again, who may have it and any publisher's help.
    """

    kind: ClassVar[Kind[Any]] = REACH

    title: str
    audience: Audience
    sizes: tuple[int, ...]
    bits: int
    hashes: int
    flip_probability: Fraction
    epsilon: float
    delta: float
    ids: IdRule = AS_IS
    """How every publisher spells its ids."""
    shuffler: Shuffler | None = None
    """Who flips again and hides the order; None where the key alone does."""
    parties: ReachParties | None = None
    """Who runs it, where filters travel sealed; None where people carry files."""
    options: tuple[Option, ...] = field(default=(), compare=False, repr=False)
    """What was weighed; not part of the document."""

    def __post_init__(self) -> None:
        label("title", self.title, empty=True)
        audience: object = self.audience
        if not isinstance(audience, Audience):
            raise InvalidInput("audience", "an Audience", audience)
        between: object = self.shuffler
        if not (between is None or isinstance(between, Shuffler)):
            raise InvalidInput("shuffler", "a Shuffler", type(between).__name__)
        self._check_parties()
        if not isinstance(self.ids, IdRule):
            raise InvalidInput("rule for ids", "an IdRule", type(self.ids).__name__)
        if len(self.sizes) != len(self.audience.publishers):
            raise InvalidInput("sizes", "one for each publisher", len(self.sizes))
        for size in self.sizes:
            checks.whole("expected size of an audience", size, least=1, most=MOST_IDS)
        check_bits("number of bits", self.bits)
        checks.real("epsilon", self.epsilon, least=1e-9, most=MOST_EPSILON)
        checks.real("delta", self.delta, least=1e-300, most=MOST_DELTA)
        if (self.flip_probability * GRAIN).denominator != 1:
            raise InvalidInput("flip probability", "a multiple of 1/2⁶⁴", self.flip_probability)
        _ = self.mechanism, self.own_mechanism

    def _check_parties(self) -> None:
        if self.parties is None:
            return
        if self.shuffler is None:
            raise InvalidInput(
                "plan that names its parties",
                "one with a shuffler",
                Unquoted("one without"),
                hint="plan with --shuffled (shuffled=True)",
            )
        if self.parties != self.parties.ordered(self.audience.publishers):
            raise InvalidInput(
                "publishers among the parties", "in the order of the plan", Unquoted("others")
            )

    @cached_property
    def mechanism(self) -> privacy.FlippedAudiences:
        """Return what the analyzer sees of one id: by the shuffler's flips, if there is one."""
        if self.shuffler is None:
            return self.own_mechanism
        return self._seen_with(self.shuffler.flip_probability)

    @cached_property
    def own_mechanism(self) -> privacy.FlippedAudiences:
        """Return what is seen of one id in the filters as publishers hand them out."""
        return self._seen_with(self.flip_probability)

    def _seen_with(self, flip: Fraction) -> privacy.FlippedAudiences:
        return privacy.FlippedAudiences(
            filters=self.audience.rows, bits=self.bits, hashes=self.hashes, flip_probability=flip
        )

    def round_mechanism(self) -> privacy.FlippedAudiences:
        """Return what one release exposes: its charge in a ledger."""
        return self.mechanism

    @property
    def numerator(self) -> int:
        """Return what each publisher flips in units of 2⁻⁶⁴."""
        return int(self.flip_probability * GRAIN)

    @property
    def all_flips(self) -> Fraction:
        """Return the chance that a bit is another one when the analyzer sees it."""
        if self.shuffler is None:
            return self.flip_probability
        return both_flips(self.flip_probability, self.shuffler.flip_probability)

    @property
    def frequencies(self) -> int:
        """Return how far views are counted."""
        return self.audience.frequencies

    @property
    def publishers(self) -> tuple[tuple[str, int], ...]:
        """Return the name of each publisher, and the audience it expects."""
        return tuple(zip(self.audience.publishers, self.sizes, strict=True))

    @property
    def shuffler_terms(self) -> tuple[Fraction, Guarantee] | None:
        """Return what the shuffler flips, and what is promised against it."""
        if self.shuffler is None or self.shuffler_guarantee is None:
            return None
        return self.shuffler.flip_probability, self.shuffler_guarantee

    # -------------------------------------------------------------------- who runs it

    def run_by(self, parties: ReachParties) -> ReachPlan:
        """Return this plan with the parties who run it: another plan, with an id of its own."""
        return replace(self, parties=parties.ordered(self.audience.publishers))

    @property
    def named_parties(self) -> ReachParties:
        """Return who runs it; refuse a plan that names nobody."""
        if self.parties is None:
            raise InvalidInput(
                "plan",
                "one that names the parties who run it",
                Unquoted("a plan without parties"),
                hint="name them: chaffinch reach plan … --shuffled --parties parties.toml",
            )
        return self.parties

    @cached_property
    def layout(self) -> FilterLayout:
        """Return how long everything is that travels; refuse a plan that names no parties."""
        kem = KEMS[self.named_parties.outer_kem]
        return FilterLayout(self.id, self.filter_bytes, 1 << self.audience.rows, self.bits, kem)

    @property
    def least_items(self) -> int:
        """Return how many items the shuffler hands over: all columns are one."""
        return 1

    @property
    def reports(self) -> int:
        """Return how many filters are shuffled together: that of every publisher."""
        return len(self.audience.publishers)

    @property
    def rounds(self) -> int:
        """Return how often publishers are asked: once, as every filter has noise of its own."""
        return 1

    # -------------------------------------------------------------------- what is promised

    @cached_property
    def guarantee(self) -> Guarantee:
        """Return the promise for one id, at all publishers and in all its columns."""
        by = "" if self.shuffler is None else "; flipped by the shuffler"
        return self._promised(self.mechanism, self.epsilon, self.delta, by)

    @cached_property
    def shuffler_guarantee(self) -> Guarantee | None:
        """Return what is promised against a shuffler without the key, or None without one."""
        if self.shuffler is None:
            return None
        told = self.shuffler
        return self._promised(
            self.own_mechanism, told.epsilon, told.delta, "; flipped by the publishers"
        )

    def _promised(
        self, mechanism: privacy.FlippedAudiences, epsilon: float, delta: float, by: str
    ) -> Guarantee:
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            neighbours=mechanism.neighbours,
            view=mechanism.view,
            crowd=mechanism.crowd_words + by,
            # Whoever has the key and the filters as they left the publishers has this much.
            local_epsilon=self.own_mechanism.local_epsilon,
            method=mechanism.method,
        )

    @property
    def warnings(self) -> list[str]:
        """Return why the plan is of no use, if so: it protects nobody.

        ``plan`` refuses to make such a plan unless it is told to do it anyway.
        """
        return planning.reach_warnings(self.epsilon, self.delta)

    @cached_property
    def column_guarantee(self) -> Guarantee:
        """Return what S4 promises: one replaced column, proven; smaller than what an id has."""
        return self.mechanism.columns.guarantee(delta=self.delta)

    @cached_property
    def assumed_epsilon(self) -> float:
        """Return the epsilon if S4's pair were the worst (``worst-pair-assumed``): no promise."""
        return self.mechanism.assumed_epsilon(self.delta)

    @property
    def colluding_epsilon(self) -> float:
        """Return what protects an id at the other publishers from one who helps the reader.

        That is the analyzer, or the shuffler where there is one. Such a publisher has the key and
        knows everybody's columns: only the publishers' own flips are left.
        """
        return colluding_epsilon(self.audience, self.hashes, self.flip_probability)

    def is_chosen(self, option: Option) -> bool:
        """Return whether an option that was weighed is this plan."""
        return (option.hashes, option.bits) == (self.hashes, self.bits)

    def left_to_colluder(self, option: Option) -> float:
        """Return what ``colluding_epsilon`` would be under an option; about, if not chosen."""
        flip = self.flip_probability if self.is_chosen(option) else Fraction(option.own)
        return colluding_epsilon(self.audience, option.hashes, flip)

    def verify(self, *, within: Target | None = None) -> None:
        """Recompute the guarantee from the parameters; raise if it does not hold.

        ``within`` is the most that this party accepts, whatever the plan promises.
        """
        limit: object = within
        if not (limit is None or isinstance(limit, Target)):
            raise InvalidInput("within", "a Target(epsilon=…, delta=…)", limit)
        for promise, mechanism in self._promises():
            require_within(promise.epsilon, promise.delta, within)
            reached = _reached(mechanism, promise.epsilon)
            require_reached(reached, promise.epsilon, promise.delta)

    def _promises(self) -> list[tuple[Guarantee, privacy.FlippedAudiences]]:
        """Return all that is promised, each with what it follows from."""
        others = self.shuffler_guarantee
        more = [] if others is None else [(others, self.own_mechanism)]
        return [(self.guarantee, self.mechanism), *more]

    # -------------------------------------------------------------------- what to expect

    @property
    def standard_error(self) -> float:
        """Return the foretold standard error of the reach of all, if no two share an id."""
        return planning.estimator.apart(
            self.sizes, bits=self.bits, hashes=self.hashes, flip=float(self.all_flips)
        )

    def foretold_errors(self, groups: Iterable[Group]) -> dict[str, float]:
        """Return the foretold standard error of each of some groups, if no two share an id."""
        estimator = planning.estimator
        columns = estimator.expected(
            self.audience,
            estimator.disjoint(self.audience, self.sizes),
            bits=self.bits,
            hashes=self.hashes,
            flip=float(self.all_flips),
        )
        return {group.name: columns.estimate(group)[1] for group in groups}

    @property
    def limit(self) -> float:
        """Return the part of it that the hash makes, flips or not."""
        return planning.estimator.without_noise(self.sizes, bits=self.bits, hashes=self.hashes)

    @property
    def filter_bytes(self) -> int:
        """Return the size of what one publisher sends."""
        return filter_bytes(self.audience, self.bits)

    # -------------------------------------------------------------------- for people and files

    @cached_property
    def id(self) -> str:
        """Return the SHA-256 of the plan's canonical form, in hexadecimal."""
        return digest(_FORMAT, ReachPlanForm.document(self))

    def save(self, path: str | Path) -> None:
        """Write the plan to a file that all publishers and the analyzer load and verify."""
        save_document(path, _FORMAT, ReachPlanForm.document(self))

    def cost(
        self, users: int | None = None, *, hops: int | None = None, prices: Prices | None = None
    ) -> Cost:
        """Return an estimate of what one collection costs: work, bytes and money.

        ``users`` are the ids of all publishers together; without them, those that are expected.
        ``hops`` is 1 where filters travel sealed through the shuffler, 0 where people carry files;
        without it, as the plan says. ``prices`` are assumed unless they are given.
        """
        return planning.cost_of(self, users, hops, prices)

    def explain(self) -> str:
        """Return in plain sentences what is promised, against whom, and how exact it will be."""
        return planning.explain(self)

    def document(self) -> dict[str, Any]:
        """Return the plan as it stands in its file."""
        return identified(_FORMAT, ReachPlanForm.document(self))

    def __repr__(self) -> str:
        names = ", ".join(self.audience.publishers)
        promise = f"epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"<ReachPlan {self.title!r} {self.id[:16]} ({names}), {promise}>"

    def _repr_html_(self) -> str:
        return planning.plan_html(self)

    def __str__(self) -> str:
        return f"{self.title or 'reach plan'} ({self.id[:16]}): {self.guarantee}"


AnyPlan = Plan | ReachPlan
"""What a service runs, and a ledger pays for."""


def check_bits(parameter: str, bits: object) -> int:
    """Return a number of bits: a power of two, so that the hash fills all columns alike."""
    size = checks.whole(parameter, bits, least=LEAST_BITS, most=MOST_BITS)
    if size & (size - 1):
        near = 1 << (size.bit_length() - 1)
        hint = f"{near} or {2 * near}" if 2 * near <= MOST_BITS else f"{near}"
        raise InvalidInput(parameter, "a power of two", bits, hint=hint)
    return size


def filter_bytes(audience: Audience, bits: int) -> int:
    """Return the size of what one publisher sends."""
    return audience.frequencies * bits // 8


@lru_cache(maxsize=64)
def _reached(mechanism: privacy.FlippedAudiences, epsilon: float) -> float:
    return mechanism.delta_bound(epsilon)


def require_plan(plan: object) -> ReachPlan:
    """Return a reach plan, or refuse what is none."""
    if not isinstance(plan, ReachPlan):
        raise InvalidInput(
            "plan", "a ReachPlan", type(plan).__name__, hint="load a file with reach.load_plan"
        )
    return plan


# -------------------------------------------------------------------- plans as files


class PublisherForm(Form):
    """One publisher and the audience it expects."""

    name: str
    size: int


class FilterForm(Form):
    """What all filters have in common."""

    bits: int
    hashes: int
    frequencies: int
    flip_probability: Exact
    hash: Literal["siphash-2-4"]


class ReachPlanForm(Form):
    """A reach plan file; with a shuffler, ``guarantee`` stands on what the shuffler flips."""

    title: str
    publishers: Annotated[
        tuple[Annotated[tuple[str, int], PublisherForm.as_tuple()], ...], Listed(at_least=1)
    ]
    ids: Annotated[IdRule, IdsForm.written()] = AS_IS
    filters: FilterForm
    shuffler_terms: Annotated[
        Annotated[tuple[Fraction, Guarantee], ShufflerForm.as_tuple()] | None,
        Field(alias="shuffler"),
    ] = None
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]
    parties: Annotated[ReachParties, ReachPartiesForm.written()] | None = None


def load_plan(path: str | Path) -> ReachPlan:
    """Return the plan in a file; refuse one that is not whole, unchanged and well-formed."""
    text = read_small(path, most=_LARGEST_FILE, must_be=_RULE)
    return plan_from(text, name=Path(path).name)


def plan_from(text: str | bytes, *, name: str = "plan") -> ReachPlan:
    """Return the plan in a text."""
    form, body = read_document(text, ReachPlanForm, _FORMAT, name=name)
    return require_round_trip(
        lambda: _built_plan(form), ReachPlanForm.document, body, name=name, rule=_RULE
    )


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of plan files of a reach."""
    schema: dict[str, Any] = file_model(ReachPlanForm, _FORMAT).model_json_schema()
    return schema


def _built_plan(form: ReachPlanForm) -> ReachPlan:
    names, sizes = zip(*form.publishers, strict=True)
    shuffler = None
    if form.shuffler_terms is not None:
        flip, promise = form.shuffler_terms
        shuffler = Shuffler(flip, promise.epsilon, promise.delta)
    return ReachPlan(
        title=form.title,
        audience=Audience(names, frequencies=form.filters.frequencies),
        sizes=sizes,
        bits=form.filters.bits,
        hashes=form.filters.hashes,
        flip_probability=form.filters.flip_probability,
        epsilon=form.guarantee.epsilon,
        delta=form.guarantee.delta,
        ids=form.ids,
        shuffler=shuffler,
        parties=None if form.parties is None else form.parties.ordered(names),
    )
