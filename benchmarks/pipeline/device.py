"""One report on one device: microseconds, with the plan verified before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from benchmarks.findings import Finding, Goal, Line, milliseconds, processor_seconds
from benchmarks.pipeline.variants import calibrated
from chaffinch.encoding.device import encode
from chaffinch.plans.plan import Plan
from chaffinch.questions import Bit, Choice, Number, Question

USERS = 100_000
EPSILON, DELTA = 1.0, 1e-6
REPORTS = 200
AIM = 50.0

CASES: dict[str, tuple[Question, str, object]] = {
    "one bit, flips": (Bit(), "flips", True),
    "one of 4, flips": (Choice(range(4), missing="refuse"), "flips", 2),
    "one of 100, flips": (Choice(range(100), missing="refuse"), "flips", 42),
    "one of 100, clear with decoys": (
        Choice(range(100), missing="refuse"),
        "clear with decoys",
        42,
    ),
    "one bit, signed decoys": (Bit(), "signed decoys, 75% of epsilon for the count", True),
    "one of 100, signed decoys": (
        Choice(range(100), missing="refuse"),
        "signed decoys, 75% of epsilon for the count",
        42,
    ),
    "one of 1024, flips": (Choice(range(1024), missing="refuse"), "flips", 512),
    "number in 32 bits": (Number(0, 1), "number in 32 bits, total seen", 0.3),
}


def findings() -> Iterator[Finding]:
    """Yield the one table."""
    plans = {name: _plan(question, variant) for name, (question, variant, _) in CASES.items()}
    jobs = {name: _job(plans[name], answer) for name, (_, _, answer) in CASES.items()}
    lines = []
    for name, runs in processor_seconds(jobs, repeats=15).items():
        each = 1e3 * milliseconds(runs) / REPORTS
        lines.append(Line(name, (each, float(plans[name].slots)), Goal(AIM, each, at_least=False)))
    yield Finding("One report on a device", ("µs per report", "slots"), lines)


def _job(plan: Plan, answer: object) -> Callable[[], None]:
    encode(answer, plan)  # Verifies the plan, once.

    def run() -> None:
        for _ in range(REPORTS):
            encode(answer, plan)

    return run


def _plan(question: Question, variant: str) -> Plan:
    found = calibrated(question, variant, USERS, (EPSILON, DELTA))
    return Plan(
        "bench",
        found.parts,
        users=USERS,
        reports=USERS,
        crowd=USERS,
        rounds=1,
        epsilon=EPSILON,
        delta=DELTA,
        shares=((Fraction(1, 2), float("inf")),),
    )
