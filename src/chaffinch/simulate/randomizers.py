"""Attack any randomizer: a function from an answer to messages, or a table of chances.

An audit refutes, and never proves: a lower bound above the claim shows a fault, one below it
shows nothing. What is looked at is learned from a first sample; the threshold is chosen on a
second one and judged on a third, so no choice costs confidence (`audits.lower_bound`).
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations, islice
from typing import Any, overload

import numpy as np

from chaffinch.cards import card, paragraph, table
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.plans.plan import Plan
from chaffinch.privacy.amplification import ShuffledTable
from chaffinch.protocols.noise import Floats
from chaffinch.simulate.audits import Audit, lower_bound
from chaffinch.simulate.audits import audit as audit_plan
from chaffinch.simulate.seeded import chosen, generator

_Messages = list[Hashable]
_MOST_ANSWERS = 50
_LEAST_TRIALS = 1000
_BINS = 64
_RARE = 0.1
"""Numbers of which more than this share are new are looked at in bins."""
_DRAWN = 1 << 16
"""So many users' messages are held at a time."""
_NEVER = "An audit can refute a claim and never prove one."


@dataclass(frozen=True, slots=True)
class RandomizerAudit:
    """What an attack on one randomizer showed."""

    answers: tuple[str, str]
    """The two answers that were told apart."""
    others: str
    """What everybody else held; empty for one user alone."""
    users: int
    trials: int
    """How many views of each of the two worlds."""
    delta: float
    confidence: float
    """That the lower bound is not above the truth."""
    claimed: float
    """Infinite where nothing was claimed: then nothing can be refuted."""
    lower_bound: float
    """Epsilon is at least this at ``delta``, with ``confidence``."""
    seed: int | None
    """None for a function, which has its own randomness."""

    @property
    def ok(self) -> bool:
        """Return whether the claim was not refuted, which is no proof of it."""
        return self.lower_bound <= self.claimed

    @property
    def verdict(self) -> str:
        """Return the result in a few sentences."""
        sure = f"(confidence 1 − {1 - self.confidence:.1g}, delta {self.delta:g})"
        found = f"epsilon is at least {self.lower_bound:.4g} {sure}"
        tried = f"Attacked: answers {self.answers[0]} and {self.answers[1]}"
        if self.users > 1:
            tried += f" of one among {self.users:,} users, all others holding {self.others}"
        tried += f"; {self.trials:,} views of each."
        if not self.ok:
            return f"Refuted: {found}, and {self.claimed:.4g} was claimed. {tried}"
        if math.isinf(self.claimed):
            return f"Nothing was claimed; {found}. {tried} {_NEVER}"
        return f"Not refuted: {found}, and {self.claimed:.4g} is claimed. {tried} {_NEVER}"

    def _repr_html_(self) -> str:
        claim = f"{self.claimed:.4g}" if math.isfinite(self.claimed) else "nothing"
        row = [" and ".join(self.answers), f"{self.users:,}", f"{self.lower_bound:.4g}", claim]
        heads = ["answers", "users", "epsilon at least", "claimed"]
        return card("Audit of a randomizer", paragraph(self.verdict), table(heads, [row]))

    def document(self) -> dict[str, Any]:
        """Return everything as JSON-ready data."""
        document = asdict(self) | {"answers": list(self.answers)}
        result = {"ok": self.ok, "verdict": self.verdict}
        return {"format": "chaffinch/randomizer-audit@1", **document, **result}


def audit_randomizer(  # noqa: PLR0913 - one for each option
    randomizer: Callable[[Any], object] | Sequence[Sequence[Any]],
    *,
    answers: Iterable[Any] | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    users: int = 1,
    see: Callable[[_Messages], Hashable] | None = None,
    trials: int = 50_000,
    confidence: float = 1 - 1e-6,
    seed: int | None = None,
) -> RandomizerAudit:
    """Return what an attack proves about a randomizer that somebody brings.

    ``randomizer`` is a function that makes of an answer one message, or a list of messages whose
    order nobody sees; or a table, ``table[x][v]`` the chance that input x sends output v.
    ``answers`` are those to tell apart, for a table all its inputs. With several ``users`` all
    others hold one answer, and only the messages of all together are seen. ``see`` may say what
    of the messages is looked at. ``epsilon`` is the claim, with ``delta``; for a table it is the
    accountant's own number. An honest randomizer is accused with chance at most
    1 − ``confidence``, if its calls do not depend on one another.

    >>> result = audit_randomizer([["0.8", "0.2"], ["0.2", "0.8"]], epsilon=1.0, seed=1)
    >>> result.ok, 1.3 < result.lower_bound < math.log(4)
    (False, True)
    """
    users = checks.people("number of users", users, most=1000)
    trials = checks.whole("number of trials", trials, least=_LEAST_TRIALS, most=10**8)
    delta = checks.real("delta", delta, least=0.0, most=1.0)
    confidence = checks.real("confidence", confidence, least=0.5, most=1 - 1e-12)
    source, root, own = _source(randomizer, answers, users, seed)
    claimed = own(delta) if epsilon is None else checks.epsilon(epsilon)
    attack = _learned(source, users, trials // 2, delta, see)
    scores = [attack.scores(source, world, trials) for world in (1, 0)]
    # Two directions, and two ends of a bound in each.
    bound = lower_bound(scores[0], scores[1], delta, (1 - confidence) / 4)
    return RandomizerAudit(
        answers=(repr(source.answers[attack.one]), repr(source.answers[attack.zero])),
        others=repr(source.answers[attack.other]) if users > 1 else "",
        users=users,
        trials=trials,
        delta=delta,
        confidence=confidence,
        claimed=claimed,
        lower_bound=bound,
        seed=root,
    )


# -------------------------------------------------------------------- where messages come from


@dataclass(frozen=True, slots=True)
class _Source:
    answers: tuple[Any, ...]
    draw: Callable[[int, int], list[_Messages]]
    """(place of an answer, how often) → the messages of each time."""


def _source(
    randomizer: Any, answers: Iterable[Any] | None, users: int, seed: int | None
) -> tuple[_Source, int | None, Callable[[float], float]]:
    if callable(randomizer):
        if answers is None or isinstance(answers, (str, bytes)):
            rule = "a list of the answers to tell apart"
            raise InvalidInput("answers", rule, answers, hint="for example answers=[True, False]")
        given = tuple(answers)
        checks.whole("number of answers", len(given), least=2, most=_MOST_ANSWERS)

        def call(place: int, count: int) -> list[_Messages]:
            return [_messages(randomizer(given[place])) for _ in range(count)]

        return _Source(given, call), None, lambda _: math.inf
    mechanism = ShuffledTable(randomizer, users=users)
    rows = np.array(mechanism.table, dtype=np.float64)
    asked = tuple(range(len(rows))) if answers is None else tuple(answers)
    checks.whole("number of answers", len(asked), least=2, most=_MOST_ANSWERS)
    for answer in asked:
        checks.whole("answer", answer, most=len(rows) - 1)
    root = chosen(seed)
    draws = generator(root, "one device")

    def sample(place: int, count: int) -> list[_Messages]:
        found = draws.choice(rows.shape[1], size=count, p=rows[asked[place]])
        return [[message] for message in found.tolist()]

    def own(delta: float) -> float:
        alone = users == 1 or delta == 0
        return mechanism.local_epsilon if alone else mechanism.epsilon(delta).upper

    return _Source(asked, sample), root, own


def _messages(sent: object) -> _Messages:
    return [_message(one) for one in sent] if isinstance(sent, list) else [_message(sent)]


def _message(message: Any) -> Hashable:
    if isinstance(message, np.ndarray):
        return (message.shape, *message.ravel().tolist())
    if isinstance(message, np.generic):
        message = message.item()
    try:
        hash(message)
    except TypeError:
        rule = "something that can be compared: a number, a text, bytes or a tuple"
        raise InvalidInput("message", rule, type(message).__name__) from None
    return message  # type: ignore[no-any-return]


# -------------------------------------------------------------------- what is learned of it


@dataclass(frozen=True, slots=True)
class _Attack:
    """Two answers, what all others hold, and a score of what is seen."""

    one: int
    zero: int
    other: int
    users: int
    score: Callable[[_Messages], float]

    def scores(self, source: _Source, world: int, trials: int) -> Floats:
        views = _views(source, self.one if world else self.zero, self.other, self.users, trials)
        return np.fromiter(map(self.score, views), np.float64, count=trials)


def _views(source: _Source, held: int, other: int, users: int, trials: int) -> Iterator[_Messages]:
    """Yield everything that is sent, in each trial; a part of it is drawn at a time."""
    part = max(1, _DRAWN // users)
    for first in range(0, trials, part):
        views = source.draw(held, min(part, trials - first))
        rest = iter(source.draw(other, len(views) * (users - 1)))
        for view in views:
            yield [*view, *chain.from_iterable(islice(rest, users - 1))]


def _learned(
    source: _Source, users: int, trials: int, delta: float, see: Callable[..., Hashable] | None
) -> _Attack:
    places = range(len(source.answers))
    look = see or _without_order
    if users == 1 or see is not None:
        samples = [_views(source, place, places[0], users, trials) for place in places]
        seen = [list(map(look, views)) for views in samples]
        code = _coding([outcome for one in seen for outcome in one])
        laws = [Counter(map(code, one)) for one in seen]
        found = []
        for one, zero in combinations(places, 2):
            score = _LogRatio(laws[one], laws[zero])
            scores = [np.array([score(code(outcome)) for outcome in seen[w]]) for w in (one, zero)]
            gain = lower_bound(scores[0], scores[1], delta, 0.01)
            found.append((gain, -one, -zero, score))
        _, one, zero, best = max(found, key=lambda told: told[:3])
        return _Attack(-one, -zero, 0, users, lambda view: best(code(look(view))))
    drawn = [[m for sent in source.draw(place, trials) for m in sent] for place in places]
    code = _coding([message for one in drawn for message in one])
    laws = [Counter(map(code, one)) for one in drawn]
    return _crowd_attack(laws, code, users, trials)


def _without_order(view: _Messages) -> Hashable:
    return view[0] if len(view) == 1 else tuple(sorted(view, key=repr))


def _coding(outcomes: list[Any]) -> Callable[[Any], Hashable]:
    """Return how outcomes are told apart: by themselves, or numbers that never repeat by bins."""
    different = set(outcomes)
    if len(different) <= max(_BINS, _RARE * len(outcomes)):
        return lambda outcome: outcome
    if not all(isinstance(one, numbers.Real) for one in different):
        raise InvalidInput(
            "messages",
            "few different ones, or numbers",
            Unquoted(f"{len(different)} different ones in {len(outcomes)}"),
            hint="say with `see` what of them is looked at",
        )
    edges = np.unique(np.quantile(np.array(outcomes, float), np.linspace(0, 1, _BINS + 1)[1:-1]))

    def bin_number(outcome: object) -> int:
        if not isinstance(outcome, numbers.Real):
            raise InvalidInput(
                "messages",
                "numbers throughout, as all of the first sample were",
                type(outcome).__name__,
                hint="say with `see` what of them is looked at",
            )
        return int(np.searchsorted(edges, float(outcome)))

    return bin_number


class _LogRatio:
    def __init__(self, one: Counter[Hashable], zero: Counter[Hashable]) -> None:
        # Half an outcome more in each: what was seen in one world only is not infinitely likelier.
        self._logs = {
            outcome: math.log((one[outcome] + 0.5) / (zero[outcome] + 0.5))
            for outcome in one.keys() | zero.keys()
        }

    def __call__(self, outcome: Hashable) -> float:
        return self._logs.get(outcome, 0.0)


def _crowd_attack(
    laws: list[Counter[Hashable]], code: Callable[[Any], Hashable], users: int, trials: int
) -> _Attack:
    """Return the pair and the crowd whose messages tell most, scored by the ratio of chances.

    With m the law of the others' messages, P₁/P₀ of a view is Σ R₁(v)/m(v) over Σ R₀(v)/m(v),
    summed over its messages, if everybody sends one; any other score is valid, too.
    """
    outcomes = sorted(set().union(*laws), key=repr)
    place = {outcome: number for number, outcome in enumerate(outcomes)}
    chances = np.array([[law[outcome] + 0.5 for outcome in outcomes] for law in laws]) / trials
    found = [
        (float((np.square(chances[one] - chances[zero]) / chances[other]).sum()), one, zero, other)
        for one, zero in combinations(range(len(laws)), 2)
        for other in range(len(laws))
    ]
    _, one, zero, other = max(found)
    high, low = (np.append(chances[held] / chances[other], 0.0) for held in (one, zero))

    def score(view: _Messages) -> float:
        told = [place.get(code(message), len(outcomes)) for message in view]
        return math.log((high[told].sum() + 1e-12) / (low[told].sum() + 1e-12))

    return _Attack(one, zero, other, users, score)


@overload
def audit(subject: Plan, **options: Any) -> Audit: ...


@overload
def audit(
    subject: Callable[[Any], object] | Sequence[Sequence[Any]], **options: Any
) -> RandomizerAudit: ...


def audit(subject: Any, **options: Any) -> Audit | RandomizerAudit:
    """Return what attacks prove: of a plan's own pipeline, or of a randomizer somebody brings.

    ``options`` are those of `simulate.audit` for a plan, and of `simulate.audit_randomizer` for a
    function that makes messages of an answer or for a table of chances. An audit refutes a claim
    and never proves one.

    >>> silent = audit(lambda answer: "" if answer else "no", answers=[True, False], epsilon=1)
    >>> silent.ok
    False
    """
    if isinstance(subject, Plan):
        return audit_plan(subject, **options)
    if isinstance(subject, (str, bytes)):
        rule = "a plan, a function of an answer, or a table of chances"
        raise InvalidInput("subject of an audit", rule, subject, hint="load a plan with load_plan")
    return audit_randomizer(subject, **options)
