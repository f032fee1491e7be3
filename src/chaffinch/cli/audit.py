"""Attack the real pipeline: how private a plan is at least."""

from __future__ import annotations

from pathlib import Path

from chaffinch.cli import exits, paths
from chaffinch.cli.output import Output


def audit(
    *,
    plan: Path,
    trials: int = 20_000,
    crowd: int | None = None,
    seed: int | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> int:
    """Attack the real pipeline and bound its epsilon from below.

    Were the bound above the plan's promise, something would be wrong, and this would fail.

    Parameters
    ----------
    plan
        The plan file.
    trials
        How many collections are attacked, at least 1000.
    crowd
        The size of the attacked crowd, smaller than the plan's to make attacks stronger.
    seed
        Makes the result repeatable; without one a fresh seed is drawn and shown.
    """
    from chaffinch.simulate.audits import audit as attacked

    found = paths.open_plan(plan)
    with output.counting("attacking", "attacks") as tell:
        result = attacked(
            found, trials=trials, crowd=crowd, seed=seed, progress=lambda done: tell(done, None)
        )
    if output.json:
        output.document(result.document())
    else:
        output.words(f"{result.trials:,} collections, seed {result.seed}, delta {result.delta:g}.")
        output.words("")
        output.table(
            ["question", "attacked", "crowd", "epsilon at least", "claimed"],
            [
                [
                    one.question,
                    one.path,
                    f"{one.crowd:,}",
                    f"{one.lower_bound:.4g}",
                    f"{one.claimed:.4g}",
                ]
                for one in result.rows()
            ],
            texts=2,
        )
        output.words("")
        output.words(result.verdict)
    return exits.OK if result.ok else exits.REFUSED
