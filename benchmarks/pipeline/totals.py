"""Small tables that one party holds: standard errors beside those of OpenDP, in one run.

OpenDP has the same neighbours (one person is replaced by another, how many there are is public: two
steps of its symmetric distance) and the same promise. Its scale is what it finds itself for a chain
from the table to the noise, and its noise is drawn by the measurement of that chain; of its Laplace
and its Gaussian noise the better one counts. Ours is the plan that a run makes, and the noise that
it adds. Either is drawn many times, and the error is what was drawn: a ratio is known to half a
percent or so.

Medians are shown beside one another without a goal: OpenDP selects one of some candidates, for one
quantile; a run releases how many numbers are above each step, and with these all quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

import chaffinch as cf
from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch.analysis.number_estimates import Scale, survival
from chaffinch.questions import Question
from chaffinch.sampling import secure_words

DELTA = 1e-6
DRAWS = 100_000
ROUNDS = 12
AIM = 1.02
LOW, HIGH = 2700.0, 6300.0
SPECIES = ["Adelie", "Chinstrap", "Gentoo"]
ISLANDS = ["Biscoe", "Dream", "Torgersen"]
TABLES = {"344 penguins": 344, "1,000 members": 1000}
EPSILONS = (0.5, 1.0, 2.0)
MEDIANS, CANDIDATES = 300, 145
QUARTILES = 3
COLUMNS = ("ours", "OpenDP", "its Laplace", "its Gaussian", "ratio")


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is asked of a table, in the words of both."""

    name: str
    question: Question
    chain: Callable[[int, bool], Any]
    """What OpenDP does before it adds noise, Gaussian or not, to so many people."""
    kind: type = int
    """The numbers to which OpenDP adds it."""
    rounds: int = 1

    def unit(self, people: int) -> float:
        """Return what one unit of OpenDP's noise is in ours: a person, or a range of a sum."""
        return 1.0 if self.kind is int else people / (HIGH - LOW)


def bits(people: int, gaussian: bool) -> Any:  # noqa: ARG001, FBT001 - one distance for both
    """Return the sum of zeros and ones."""
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 1), T=int), size=people)
    return (domain, dp.symmetric_distance()) >> dp.t.then_sum()


def cells(*labels: str) -> Callable[[int, bool], Any]:
    """Return counts of these values."""

    def chain(_people: int, gaussian: bool) -> Any:  # noqa: FBT001 - as all chains
        domain = dp.vector_domain(dp.atom_domain(T=str))
        distance = dp.L2Distance[float] if gaussian else dp.L1Distance[int]
        counts = dp.t.then_count_by_categories([*labels], null_category=False, MO=distance)
        return (domain, dp.symmetric_distance()) >> counts

    return chain


def mean(people: int, gaussian: bool) -> Any:  # noqa: ARG001, FBT001 - one distance for both
    """Return the mean of numbers between the bounds of body mass."""
    domain = dp.vector_domain(dp.atom_domain(bounds=(LOW, HIGH), nan=False), size=people)
    return (domain, dp.symmetric_distance()) >> dp.t.then_mean()


CROSS = cf.Cross({"species": cf.Choice(SPECIES), "island": cf.Choice(ISLANDS)})
PAIRS = [f"{species} {island}" for species in SPECIES for island in ISLANDS]
STATISTICS = (
    Statistic("count", cf.Bit(), bits),
    Statistic("species", cf.Choice(SPECIES), cells(*SPECIES)),
    Statistic("species × island", CROSS, cells(*PAIRS)),
    Statistic("mean", cf.Number(LOW, HIGH), mean, float),
    Statistic(f"count, {ROUNDS} rounds", cf.Bit(), bits, rounds=ROUNDS),
)


def findings() -> Iterator[Finding]:
    """Yield a table for each size."""
    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    for title, people in TABLES.items():
        lines = []
        for asked in STATISTICS:
            for epsilon in EPSILONS:
                tell(f"{title}, {asked.name}, epsilon {epsilon:g}")
                lines.append(_line(asked, people, epsilon))
        note = (
            f"standard errors: of a count in people, of a mean in 1/{people:,} of its range; "
            f"delta = {DELTA:g}, {DRAWS:,} draws each"
        )
        yield Finding(title, COLUMNS, lines, [note])
        yield _medians(title, people)
    tell("")


def _line(asked: Statistic, people: int, epsilon: float) -> Line:
    ours = _ours(asked, people, epsilon)
    laplace, gaussian = (
        asked.unit(people) * _spread(asked.kind, _scale(asked, people, epsilon, gaussian), gaussian)
        for gaussian in (False, True)
    )
    best = min(laplace, gaussian)
    goal = Goal(AIM, ours / best, at_least=False)
    return Line(
        f"{asked.name}, epsilon {epsilon:g}", (ours, best, laplace, gaussian, ours / best), goal
    )


def _ours(asked: Statistic, people: int, epsilon: float) -> float:
    """Return how far what a run releases is from what it added up."""
    plan = cf.plan(
        asked.question,
        users=people,
        target=cf.Target(epsilon, DELTA),
        rounds=asked.rounds,
        view="totals",
        anyway=True,
    )
    part = plan.part()
    is_sum = part.question.shape == "number"
    zeros = np.zeros(DRAWS, object if is_sum else np.int64)
    noise = part.protocol.add_noise(part.question, zeros, secure_words())
    steps = part.protocol.thermometer.resolution if is_sum else 1
    return float(np.sqrt(np.mean(np.square(noise.astype(np.float64))))) / steps


def _medians(title: str, people: int) -> Finding:
    """Return how far medians of one table are from its own, as shares of the range."""
    draws = np.random.default_rng(1)
    answers = draws.normal(4200.0, 800.0, people).clip(LOW, HIGH)
    lines = []
    for epsilon in EPSILONS:
        tell(f"{title}, median, epsilon {epsilon:g}")
        off = [
            float(np.sqrt(np.mean(np.square(found - np.median(answers))))) / (HIGH - LOW)
            for found in (
                _our_medians(answers, epsilon),
                _their_medians(answers, epsilon),
                _their_medians(answers, epsilon / QUARTILES),
            )
        ]
        lines.append(Line(f"median, epsilon {epsilon:g}", (*off, off[0] / off[1])))
    columns = ("ours", "OpenDP", "one of three", "ratio")
    notes = [
        f"root mean squares of {MEDIANS} releases; OpenDP chooses among {CANDIDATES} candidates",
        "ours: all quantiles at once; one of three: OpenDP's for a third of epsilon, as three take",
    ]
    return Finding(f"{title}: the median, error as a share of the range", columns, lines, notes)


def _our_medians(answers: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    question, people = cf.Number(LOW, HIGH, quantiles=True), len(answers)
    target = cf.Target(epsilon, DELTA)
    plan = cf.plan(question, users=people, target=target, view="totals", anyway=True)
    part, words = plan.part(), secure_words()
    scale = Scale.of(question, part.protocol.thermometer)
    found = []
    for _ in range(MEDIANS):
        sums = part.protocol.add_up(part.question, (answers - LOW) / (HIGH - LOW), words)
        seen = part.protocol.add_noise(part.question, sums, words)
        _, middle, _ = survival(scale, seen, people, 0.95).quantiles([0.5])
        found.append(float(middle[0]))
    return np.array(found)


def _their_medians(answers: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    domain = dp.vector_domain(dp.atom_domain(bounds=(LOW, HIGH), nan=False), size=len(answers))
    candidates = np.linspace(LOW, HIGH, CANDIDATES).tolist()

    def made(scale: float) -> Any:
        select = dp.m.then_private_quantile(dp.max_divergence(), candidates, 0.5, scale)
        return (domain, dp.symmetric_distance()) >> select

    median = made(float(dp.binary_search_param(made, d_in=2, d_out=epsilon)))
    return np.array([median(answers.tolist()) for _ in range(MEDIANS)])


def _scale(asked: Statistic, people: int, epsilon: float, gaussian: bool) -> float:  # noqa: FBT001
    """Return the scale that OpenDP finds for this promise."""
    chain, times = asked.chain(people, gaussian), asked.rounds

    def made(scale: float) -> Any:
        measured = chain >> (dp.m.then_gaussian if gaussian else dp.m.then_laplace)(scale)
        whole = dp.c.make_composition([measured] * times) if times > 1 else measured
        if not gaussian:
            return whole
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(whole), DELTA)

    promise = (epsilon, DELTA) if gaussian else epsilon
    return float(dp.binary_search_param(made, d_in=2, d_out=promise))


def _spread(kind: type, scale: float, gaussian: bool) -> float:  # noqa: FBT001
    """Return how far OpenDP's noise of a scale is from zero, drawn in one long vector."""
    atoms = dp.atom_domain(T=int) if kind is int else dp.atom_domain(T=float, nan=False)
    then = dp.m.then_gaussian if gaussian else dp.m.then_laplace
    distance = dp.l2_distance(T=float) if gaussian else dp.l1_distance(T=kind)
    noise = ((dp.vector_domain(atoms), distance) >> then(scale))([kind(0)] * DRAWS)
    return float(np.sqrt(np.mean(np.square(np.array(noise, dtype=np.float64)))))
