"""Attack the real pipeline: a lower bound of the epsilon of a plan."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import count_of
from chaffinch.cli import exits, paths
from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.simulate.audits import Audit


def audit(
    *,
    plan: Path,
    trials: int = 20_000,
    crowd: int | None = None,
    seed: int | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> int:
    """Attack the real pipeline and bound its epsilon from below.

    If a lower bound is above the claimed epsilon, something is wrong, and the command fails. It
    also fails if a question is not tested because no attacked crowd has a claimed epsilon.

    Parameters
    ----------
    plan
        The plan file.
    trials
        The number of collections of each of two worlds that differ in one answer, at least 1000. Of
        large collections fewer are made; where only tallies are drawn, 20 times as many.
    crowd
        Attack only a crowd of this size; one that is smaller than the plan's makes attacks
        stronger.
    seed
        Makes the result repeatable; by default a fresh seed is drawn and shown.
    """
    from chaffinch.simulate.audits import audit as attacked

    found = paths.open_plan(plan, output)
    with output.thinking("attacking", logged=True) as tell:
        tell(f"{trials:,} collections of each of two worlds")
        result = attacked(
            found,
            trials=trials,
            crowd=crowd,
            seed=seed,
            progress=lambda done: tell(f"{count_of(done, 'attack')} done"),
        )
    if output.json:
        output.document(result.document())
    else:
        _show(result, output)
    return exits.OK if result.ok and not result.untested else exits.REFUSED


def _show(result: Audit, output: Output) -> None:
    output.words(f"Seed {result.seed}, delta {result.delta:g}.")
    output.words("")
    output.table(
        ["question", "attacked", "crowd", "of each world", "epsilon at least", "claimed"],
        [
            [
                one.question,
                one.path,
                f"{one.crowd:,}",
                f"{one.trials:,}",
                f"{one.lower_bound:.4g}",
                f"{one.claimed:.4g}" if math.isfinite(one.claimed) else "nothing",
            ]
            for one in result.rows()
        ],
        texts=2,
    )
    output.words("")
    output.table(["watched", "seen", "allowed"], result.checks(), texts=3)
    output.words("")
    output.words(result.verdict)
