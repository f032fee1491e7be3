"""Simulated collections: whether a plan is as exact as predicted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import chaffinch as cf
from chaffinch.cli import exits, paths
from chaffinch.cli.output import Output
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.inputs import require_file
from chaffinch.disk.protected import kind_of
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan
    from chaffinch.simulate import Population, Simulation

_MOST_ROWS = 30
_TRUE = ("truth", "mean")
"""What tells the true answers; shown of made-up people only."""


def simulate(
    survey: Path | None = None,
    *,
    plan: Path | None = None,
    runs: int = 1000,
    population: str = "uniform",
    seed: int | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> int:
    """Run a plan many times on made-up people.

    The command checks whether bias, errors and intervals are as predicted, and fails if not.

    Parameters
    ----------
    survey
        A survey file, which is planned first, or a plan file.
    plan
        A plan file, instead of a survey file.
    runs
        The number of collections, at least 100.
    population
        The true answers: uniform, zipf, or FILE:COLUMN for those of a table. The true
        counts of a table are not printed.
    seed
        Makes the result repeatable; by default a fresh seed is drawn and shown.
    """
    from chaffinch.simulate.seeded import chosen

    found = _plan(survey, plan, output)
    root = chosen(seed)
    people, made = _population(population, found, root)
    with output.thinking(f"{runs:,} collections"):
        result = cf.simulate.simulate(found, people, runs, seed=root)
    code = exits.OK if result.ok else exits.REFUSED
    if output.json:
        output.document(_document(result, made_up=made))
        return code
    output.words(f"{runs:,} collections of {people.people:,} people, seed {result.seed}.")
    output.words("")
    rows = [_shown(row._asdict(), made_up=made) for row in result.rows()[:_MOST_ROWS]]
    truth = ["truth", "mean"] if made else []
    output.table(
        ["question", "value", *truth, "bias/se", "error", "seen", "coverage"], rows, texts=2
    )
    if len(result.rows()) > _MOST_ROWS:
        output.words(f"The first {_MOST_ROWS} of {len(result.rows()):,} values.")
    output.words("")
    output.words(
        "bias/se: bias in standard errors of the mean. error: predicted standard error; seen: "
        "the one observed. coverage: how often the interval held the truth."
    )
    output.words(result.verdict)
    return code


def _plan(survey: Path | None, plan: Path | None, output: Output) -> Plan:
    if (survey is None) == (plan is None):
        got = Unquoted("neither" if plan is None else "both")
        raise InvalidInput("plan", "given by a survey file or by --plan, one of the two", got)
    if survey is None:
        return paths.open_plan(plan, output)
    if not paths.is_pipe(survey) and kind_of(survey) is Kind.PLAN:
        return paths.open_plan(survey, output)
    wanted = paths.open_survey(survey)
    with output.thinking("planning") as tell:
        return wanted.plan(tell)


def _population(words: str, plan: Plan, seed: int) -> tuple[Population, bool]:
    from chaffinch.tables.read import open_table

    if words in ("uniform", "zipf"):
        drawn: Population = getattr(cf.simulate, words)(plan, plan.reports, seed)
        return drawn, True
    file, sign, column = words.rpartition(":")
    if not (sign and file and column) or len(plan.questions) > 1:
        raise InvalidInput(
            "population", "uniform, zipf, or FILE:COLUMN for a single question", words
        )
    named = {plan.parts[0].name: column}
    return cf.simulate.from_column(plan, open_table(require_file(Path(file))), columns=named), False


def _shown(row: dict[str, Any], *, made_up: bool) -> list[str]:
    true = [f"{row[name]:,.6g}" for name in _TRUE] if made_up else []
    return [
        row["question"],
        row["value"],
        *true,
        f"{row['bias_z']:+.2f}",
        f"{row['error_predicted']:,.4g}",
        f"{row['error_observed']:,.4g}",
        f"{row['coverage']:.1%}",
    ]


def _document(result: Simulation, *, made_up: bool) -> dict[str, Any]:
    document = result.document()
    if not made_up:
        # The mean over many runs is the truth in all but name.
        document["values"] = [
            {name: one for name, one in row.items() if name not in _TRUE}
            for row in document["values"]
        ]
    return document
