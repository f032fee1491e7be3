"""Attack the pipeline of a plan, and check whether it leaks more than the accountant says.

A lower bound above the claim proves that something is broken. One below it proves nothing:
that is what the exact accounting is for. Audits are sharp for a large delta and for small
crowds, and blunt for a tiny delta, which no number of trials would ever show.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from chaffinch.cards import card, paragraph, table
from chaffinch.charts.rounding import promise_text
from chaffinch.errors import GuaranteeNotProven, checks
from chaffinch.planning.fewer_honest import smallest_epsilon
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.protocols.noise import Floats
from chaffinch.simulate.attacks import Attack, worst_attack
from chaffinch.simulate.judging import clopper_pearson, same_law, two_samples
from chaffinch.simulate.populations import draw_tallies
from chaffinch.simulate.seeded import chosen, generator
from chaffinch.simulate.small_collections import Pipeline, Seen, collect, collect_alone

_SMALL_CROWD = 20
_LARGEST_REAL_CROWD = 100
"""Larger crowds are attacked through the sampler of tallies, which has the same law."""
_SAMPLED = 20
"""The sampler is so much cheaper that it gets so many times the trials."""
_LIMIT = 6.5
"""Standard deviations that order and freshness may be off: a chance below 1e-10 each."""
_UNLIKELY = 1e-8
"""A smaller p-value of the law of the tallies is no chance any more."""
_THRESHOLDS = 2000
_LEAST_TRIALS = 1000
_MOST_MESSAGES = 6e6
"""So many messages of concentrated noise are made for each world, at 1000 collections or more."""
_RARE = 1e-4


@dataclass(frozen=True, slots=True)
class Finding:
    """One attack: what it proved and what it was set against."""

    question: str
    path: str
    """``one device``, ``real path`` (encode, shuffle, tally) or ``sampler``."""
    crowd: int
    trials: int
    """How many collections of each of the two worlds."""
    claimed: float
    """The accountant's epsilon for this crowd with the plan's randomizer, at the audit's delta.

    Infinite where nothing is claimed: then nothing can be broken.
    """
    lower_bound: float
    """Epsilon is at least this, with the audit's confidence."""

    @property
    def ok(self) -> bool:
        """Return whether the claim stands."""
        return self.lower_bound <= self.claimed


def _claim_text(finding: Finding) -> str:
    return f"{finding.claimed:.4g}" if math.isfinite(finding.claimed) else "nothing"


@dataclass(frozen=True, slots=True)
class Audit:
    """What attacks on a plan's pipeline showed."""

    plan_id: str
    seed: int
    delta: float
    confidence: float
    """That no lower bound is above the truth, all findings and both directions together."""
    findings: tuple[Finding, ...]
    order: float
    """How far the shuffled order is from uniform, in standard deviations."""
    repeats: float
    """How alike the noise of different collections is, in standard deviations."""
    law: float
    """A p-value: that the tallies of the real path have the law that was proven private."""
    promise: str = ""
    """What the plan itself promises, for its own crowd and delta, in words."""
    sizes: float = 1.0
    """A p-value: that the number of messages of a report does not depend on the answer."""
    dummies: int = 0
    """How many messages that stand for nothing reached the analyzer."""
    watched: tuple[str, ...] = ("order", "repeats", "law", "sizes", "dummies")
    """What the attacks could see besides epsilon; the others have not been looked at."""

    @property
    def untested(self) -> tuple[str, ...]:
        """Return the questions of which no attacked crowd is promised anything."""
        claimed = {one.question for one in self.findings if math.isfinite(one.claimed)}
        return tuple(dict.fromkeys(q.question for q in self.findings if q.question not in claimed))

    @property
    def ok(self) -> bool:
        """Return whether nothing was found to be broken; see ``untested`` for what was tested."""
        alike = max(self.order, self.repeats) <= _LIMIT and not self.dummies
        lawful = min(self.law, self.sizes) >= _UNLIKELY
        return alike and lawful and all(one.ok for one in self.findings)

    @property
    def sharpest(self) -> Finding | None:
        """Return the finding that comes closest to its claim, or goes furthest beyond."""
        claimed = [one for one in self.findings if math.isfinite(one.claimed)]
        return max(claimed, key=lambda one: one.lower_bound / max(one.claimed, 1e-9), default=None)

    @property
    def lower_bound(self) -> float:
        """Return the lower bound of the sharpest finding."""
        return self.sharpest.lower_bound if self.sharpest else 0.0

    @property
    def claimed(self) -> float:
        """Return the claim that the sharpest finding was set against."""
        return self.sharpest.claimed if self.sharpest else math.inf

    @property
    def trials(self) -> int:
        """Return how many collections were made in all."""
        return sum(2 * one.trials for one in self.findings)

    @property
    def verdict(self) -> str:
        """Return the result in a few sentences."""
        for wrong, what in (
            (self.dummies, "dummies reached the analyzer: their number tells of the noise"),
            (self.sizes < _UNLIKELY, "the number of messages of a report depends on the answer"),
            (self.order > _LIMIT, "the order of the shuffled messages is not uniform"),
            (self.repeats > _LIMIT, "different collections share their noise"),
        ):
            if wrong:
                return f"Broken: {what}."
        best = self.sharpest
        if self.law < _UNLIKELY and (best is None or best.ok):
            return "Broken: the tallies do not have the law that the guarantee is about."
        if best is None:
            return (
                "Nothing was tested: no epsilon is claimed at this delta for such crowds, "
                "so that no attack could break one."
            )
        promise = f"the plan promises {self.promise}"
        start = f"No violation found: {promise}" if best.ok else f"Broken, though {promise}"
        rest = ", ".join(repr(name) for name in self.untested)
        missing = f" Not tested, because no attacked crowd is promised anything: {rest}."
        return f"{start}. {self._sharpest_said(best)}{missing if rest else ''}"

    def _sharpest_said(self, best: Finding) -> str:
        where = f"on a crowd of {best.crowd:,} ({best.path})"
        if best.crowd == 1:
            where = "on one device alone, without a crowd to hide in"
        return (
            f"The sharpest attack was {where}, for which the accountant claims an epsilon of its "
            f"own, {best.claimed:.4g} at the audit's delta {self.delta:g}; the attack proved "
            f"at least {best.lower_bound:.4g} (confidence 1 − {1 - self.confidence:.1g}). It saw "
            f"{best.trials:,} collections of each of two worlds that differ in one answer, out of "
            f"{self.trials:,} in all attacks together."
        )

    def rows(self) -> list[Finding]:
        """Return all findings."""
        return list(self.findings)

    def checks(self) -> list[tuple[str, str, str]]:
        """Return what was watched besides epsilon, what was seen, and what is allowed."""
        apart, unlikely = f"at most {_LIMIT:g} deviations", f"a p-value of at least {_UNLIKELY:g}"
        found = {
            "order": ("order of messages", f"{self.order:.2g} off", apart),
            "repeats": ("noise used twice", f"{self.repeats:.2g} off", apart),
            "law": ("law of tallies", f"{self.law:.2g}", unlikely),
            "sizes": ("sizes and answers", f"{self.sizes:.2g}", unlikely),
            "dummies": ("dummies", f"{self.dummies:,}", "none at the analyzer"),
        }
        return [
            (what, seen if name in self.watched else "not looked at", allowed)
            for name, (what, seen, allowed) in found.items()
        ]

    def _repr_html_(self) -> str:
        rows = [
            [one.question, one.path, f"{one.crowd:,}", f"{one.lower_bound:.4g}", _claim_text(one)]
            for one in self.findings
        ]
        heads = ["question", "attacked", "crowd", "epsilon at least", "claimed"]
        return card("Audit", paragraph(self.verdict), table(heads, rows))

    def document(self) -> dict[str, Any]:
        """Return everything as JSON-ready data."""
        document = asdict(self)
        document["findings"] = list(document["findings"])
        document["watched"] = list(self.watched)
        result = {
            "ok": self.ok,
            "untested": list(self.untested),
            "trials": self.trials,
            "verdict": self.verdict,
        }
        return {"format": "chaffinch/audit@1", **document, **result}


def audit(
    plan: Plan,
    *,
    trials: int = 20_000,
    crowd: int | None = None,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
    broken: Pipeline | None = None,
) -> Audit:
    """Return what the best attacks on a plan's pipeline prove about its epsilon.

    Every question is attacked on one device alone, in a small crowd on the real path, and in
    the plan's own crowd through the sampler of tallies; with ``crowd``, in that crowd only.
    Decoys that a large crowd shares out are next to none in a small one: the small crowd sends as
    many together as the plan's own. Each finding is set against the accountant's number for *its*
    crowd with the plan's randomizer, at the audit's ``delta``, which is not the plan's.
    ``trials`` collections are made of each of two worlds, fewer where they are large, and
    20 times as many by the sampler. What an attack on
    tallies cannot see is watched too: that the order of messages is uniform, that no noise is
    used twice, that the tallies have the law that was proven private, that the number of messages
    of a report does not depend on the answer, and that no dummy reaches the analyzer.
    ``broken`` replaces a step of the pipeline, to see that the audit notices.
    """
    plan = require_devices(plan)
    trials = checks.whole("number of trials", trials, least=_LEAST_TRIALS, most=10**9)
    delta = checks.delta(delta)
    confidence = checks.real("confidence", confidence, least=0.5, most=1 - 1e-12)
    honest = plan.honest_reports
    sizes = {1, min(honest, _SMALL_CROWD), honest} if crowd is None else {crowd}
    root = chosen(seed)
    jobs = [
        (part, checks.whole("crowd", size, least=1))
        for part in plan.parts
        for size in sorted(sizes)
    ]
    # Two directions, and two ends of a bound in each.
    alpha = (1 - confidence) / (4 * len(jobs))
    pipeline = broken or Pipeline()
    findings, watched = [], []
    for place, (whole, size) in enumerate(jobs):
        part = _in_crowd(whole, honest, size)
        claimed = _claim(part, size, delta)
        attack = worst_attack(part, size, min(claimed, 300.0))
        count = trials if part is whole else _affordable(part, size, trials)
        path, worlds = _worlds(attack, count, pipeline, (root, place))
        watched.append(_watch(attack, path, worlds, (root, place)))
        scores = [attack.score(seen.tallies) for seen in worlds]
        bound = lower_bound(scores[1], scores[0], delta, alpha)
        findings.append(Finding(part.name, path, size, len(scores[0]), claimed, bound))
        if progress is not None:
            progress(place + 1)
    promise = (
        f"epsilon {promise_text(plan.epsilon, 6)} at delta {promise_text(plan.delta, 3)} "
        f"in a crowd of {plan.crowd:,}"
    )
    return Audit(
        plan_id=plan.id,
        seed=root,
        delta=delta,
        confidence=confidence,
        findings=tuple(findings),
        promise=promise,
        **_seen_besides(watched),
    )


@dataclass(frozen=True, slots=True)
class _Watched:
    path: str
    order: float
    repeats: float
    dummies: int
    laws: list[float]
    """P-values that the tallies of each world have the proven law; none where that is unknown."""
    sizes: list[float]
    """A p-value that sizes do not depend on the answer; none where they may, or are not seen."""


def _watch(attack: Attack, path: str, worlds: list[Seen], seed: tuple[int, int]) -> _Watched:
    laws = []
    if path != "sampler" and _uncut(attack.part, attack.crowd):
        laws = [_law(attack, world, seen, seed) for world, seen in enumerate(worlds)]
    return _Watched(
        path=path,
        order=max(seen.order for seen in worlds),
        repeats=max(seen.repeats for seen in worlds),
        dummies=sum(seen.dummies for seen in worlds),
        laws=laws,
        sizes=_sizes_alike(attack.part, worlds),
    )


def _seen_besides(seen: list[_Watched]) -> dict[str, Any]:
    laws = [law for one in seen for law in one.laws]
    sizes = [alike for one in seen for alike in one.sizes]
    paths = {one.path for one in seen}
    looked = {
        "order": "real path" in paths,
        "repeats": paths != {"sampler"},
        "law": bool(laws),
        "sizes": bool(sizes),
        "dummies": "real path" in paths,
    }
    return {
        "order": max(one.order for one in seen),
        "repeats": max(one.repeats for one in seen),
        "law": _union(laws),
        "sizes": _union(sizes),
        "dummies": sum(one.dummies for one in seen),
        "watched": tuple(name for name, done in looked.items() if done),
    }


def _in_crowd(part: Part, planned: int, crowd: int) -> Part:
    """Return the part for a small crowd on the real path, which sends the noise of the large."""
    if not 1 < crowd <= min(_LARGEST_REAL_CROWD, planned - 1):
        return part
    protocol = part.protocol.concentrated(part.question, Fraction(planned, crowd))
    return part if protocol is part.protocol else replace(part, protocol=protocol)


def _affordable(part: Part, crowd: int, trials: int) -> int:
    messages = crowd * part.protocol.expected_messages(part.question)
    return max(_LEAST_TRIALS, min(trials, int(_MOST_MESSAGES / messages)))


def _claim(part: Part, crowd: int, delta: float) -> float:
    """Return the accountant's epsilon for a crowd with the part's randomizer; may be infinite."""
    try:
        if crowd > _LARGEST_REAL_CROWD:
            # Rounded up to four digits, which is much quicker to prove.
            return smallest_epsilon(part.mechanism(crowd), delta, guess=1.0)
        return part.mechanism(crowd).epsilon(delta).upper
    except GuaranteeNotProven:
        return math.inf


def lower_bound(one: Floats, zero: Floats, delta: float, alpha: float) -> float:
    """Return a lower bound of epsilon, from the scores of two worlds.

    It is wrong with a chance of at most 4·``alpha``.
    """
    # The threshold is chosen on the first half of the trials and judged on the second, so that the
    # choice costs no confidence.
    half = len(one) // 2
    best = 0.0
    # Both directions: a high score speaks for world 1, a low one for world 0.
    for likely, other in ((one, zero), (-zero, -one)):
        places = np.unique(likely[:half])
        if len(places) > _THRESHOLDS:
            places = np.unique(np.quantile(places, np.linspace(0, 1, _THRESHOLDS)))
        found = _bounds(likely[:half], other[:half], places, delta, alpha)
        chosen_place = places[[int(np.argmax(found))]]
        best = max(best, float(_bounds(likely[half:], other[half:], chosen_place, delta, alpha)[0]))
    return best


def _bounds(likely: Floats, other: Floats, places: Floats, delta: float, alpha: float) -> Floats:
    # From P ≤ e^ε·Q + δ follows ε ≥ ln((P − δ)/Q), which the lower end of P and the upper end of Q
    # bound from below.
    hits, false = (
        len(scores) - np.searchsorted(np.sort(scores), places) for scores in (likely, other)
    )
    low, _ = clopper_pearson(hits, len(likely), alpha)
    _, high = clopper_pearson(false, len(other), alpha)
    gain = np.maximum(low - delta, 0.0) / high
    return np.log(np.maximum(gain, 1.0))


def _law(attack: Attack, world: int, seen: Seen, seed: tuple[int, int]) -> float:
    root, place = seed
    draws = generator(root, "tallies", place, world)
    runs = 2 * len(seen.tallies)
    return same_law(
        seen.tallies, draw_tallies(attack.part, attack.truth(world), runs, draws, attack.places)
    )


def _sizes_alike(part: Part, worlds: list[Seen]) -> list[float]:
    """Return a p-value that the reports of both worlds have as many messages, where they must."""
    zero, one = (seen.sizes for seen in worlds)
    if zero is None or one is None or part.protocol.answer_messages(part.question) is None:
        return []
    return [two_samples(zero, one)]


def _union(values: list[float]) -> float:
    return min(1.0, len(values) * min(values)) if values else 1.0


def _uncut(part: Part, crowd: int) -> bool:
    """Return whether slots are so ample that the sampler, which has no limit, has the same law."""
    protocol = part.protocol
    return crowd * protocol.records * protocol.overflow(part.question) < _RARE


def _worlds(
    attack: Attack, trials: int, pipeline: Pipeline, seed: tuple[int, int]
) -> tuple[str, list[Seen]]:
    root, place = seed
    if attack.crowd > _LARGEST_REAL_CROWD:
        worlds = []
        for world in (0, 1):
            draws = generator(root, "other world", place, world)
            truth = attack.truth(world)
            found = draw_tallies(attack.part, truth, _SAMPLED * trials, draws, attack.places)
            worlds.append(Seen(found))
        return "sampler", worlds
    alone = attack.crowd == 1
    collector = collect_alone if alone else collect
    key = int(generator(root, "encode", place).integers(1 << 62))
    return (
        "one device" if alone else "real path",
        [collector(attack, world, trials, pipeline, key) for world in (0, 1)],
    )
