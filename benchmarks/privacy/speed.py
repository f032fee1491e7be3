"""How long an answer takes: every crowd size and flip probability, plans, and their verification.

Each time is that of a first call in this process: nothing is remembered from another question.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import chaffinch
from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch import privacy
from chaffinch.planning.survey_file import load_survey
from chaffinch.questions import Question

DELTA = 1e-6
SIZES = tuple(10**digits for digits in range(2, 10))
FLIPS = (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.45)
TARGET = chaffinch.Target(1.0, 1e-6)
FLIGHTS = Path(__file__).parents[2] / "examples" / "flights" / "survey.toml"
QUESTIONS: dict[str, Question] = {
    "a bit": chaffinch.Bit(),
    "a choice of 5": chaffinch.Choice(list("abcde"), missing="count"),
    "a choice of 100": chaffinch.Choice(range(100), missing="count"),
    "5 flags": chaffinch.Flags(list("abcde")),
    "a number": chaffinch.Number(0, 100),
    "a number with quantiles": chaffinch.Number(0, 100, quantiles=True),
}


def findings() -> Iterator[Finding]:
    """Yield the tables: bits, what is composed of them, plans."""
    yield _bits()
    yield _others()
    yield _plans()
    tell("")


def _seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def _bits() -> Finding:
    lines, every = [], []
    for users in SIZES:
        row = []
        for flip in FLIPS:
            tell(f"{users} users, flip probability {flip:g}")
            mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
            row.append(1e3 * _seconds(lambda asked=mechanism: asked.epsilon(DELTA)))  # type: ignore[misc]
        every += row
        lines.append(Line(f"{users:.0e} users", tuple(row), Goal(500, max(row), at_least=False)))
    middle = statistics.median(every)
    lines.append(Line("median of all", (middle,) + (None,) * 6, Goal(50, middle, at_least=False)))
    return Finding(
        f"The worst crowd's epsilon at delta = {DELTA:g}, in milliseconds on one core",
        tuple(f"q = {flip:g}" for flip in FLIPS),
        lines,
        ["brackets 1e-9 wide up to 10⁴ others, 4e-6 beyond"],
    )


def _others() -> Finding:
    large = privacy.FlippedBits(users=10**8, flip_probability=0.01)
    jobs: dict[str, tuple[Callable[[], object], float]] = {
        "1,000 rounds of 1e8 users, q = .01": (
            lambda: privacy.compose(large, times=1000).epsilon(DELTA),
            2.0,
        )
    }
    for users in (10**4, 10**5, 3 * 10**5, 10**6):
        values = privacy.FlippedValues(users=users, values=100, flip_probability=0.1)
        jobs[f"FlippedValues, {users:.0e} users, q = .1"] = (
            lambda asked=values: asked.epsilon(DELTA),  # type: ignore[misc]
            5.0,
        )
    lines = []
    for name, (job, most) in jobs.items():
        tell(name)
        seconds = _seconds(job)
        lines.append(Line(name, (seconds,), Goal(most, seconds, at_least=False)))
    return Finding(f"Epsilon at delta = {DELTA:g} of larger views", ("seconds",), lines)


def _plans() -> Finding:
    lines = []
    for name, question in QUESTIONS.items():
        for users in (10**4, 10**6):
            tell(f"plan of {name}")
            start = time.process_time()
            made = chaffinch.plan(question, users=users, target=TARGET)
            planned = time.process_time() - start
            line = f"{name}, {users:.0e} users"
            goal = Goal(2.0, planned, at_least=False)
            lines.append(Line(line, (planned,), goal))
            most = 0.05 if len(made.parts) == 1 and name == "a bit" else 1.0
            verified = _fresh_verification(made)
            goal = Goal(most, verified, at_least=False)
            lines.append(Line("  verified", (verified,), goal))
    tell("the survey of flights")
    flights = load_survey(FLIGHTS)
    seconds = _seconds(flights.plan)
    lines.append(Line("four questions (flights)", (seconds,), Goal(8.0, seconds, at_least=False)))
    rows = privacy.FlippedFilters(filters=20, bits=10**6, flip_probability=0.4)
    tell("20 filters")
    epsilon = rows.epsilon(1e-9).upper
    seconds = _seconds(lambda: rows.delta_bound(1.001 * epsilon))
    lines.append(Line("20 filters, verified", (seconds,), Goal(3.0, seconds, at_least=False)))
    return Finding(
        f"A plan for epsilon {TARGET.epsilon:g} and delta {TARGET.delta:g}; flights as filed",
        ("seconds",),
        lines,
    )


def _fresh_verification(plan: chaffinch.Plan) -> float:
    """Return how long another process takes to verify the plan, once it has read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        code = (
            "import sys, time, chaffinch\n"
            "plan = chaffinch.load_plan(sys.argv[1])\n"
            "plan.mechanism\n"
            "start = time.process_time(); plan.verify(); print(time.process_time() - start)"
        )
        command = [sys.executable, "-c", code, str(path)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return float(done.stdout)
