"""The whole pipeline on made-up people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chaffinch.cli import places, results
from chaffinch.cli.output import Output
from chaffinch.cli.run import RELEASES, tallied

if TYPE_CHECKING:
    from chaffinch.planning.questions import Choice

PEOPLE = 20_000
SEED = 2026
TITLE = "Which browser do you use? (made-up people)"
BROWSERS = ("chrome", "safari", "edge", "firefox", "other")
WEIGHTS = (0.52, 0.24, 0.11, 0.08, 0.05)


def demo(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("demo-output"),
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Show the whole pipeline on made-up people.

    Parameters
    ----------
    out
        The folder for the plan and the release.
    """
    from chaffinch import Choice, Survey, Target, analyze
    from chaffinch import plan as planned

    question = Choice(BROWSERS, missing="refuse")
    output.say(f"Asking {PEOPLE:,} made-up people which browser they use ...")
    with output.thinking("planning") as tell:
        plan = planned(
            Survey({"browser": question}, TITLE),
            users=PEOPLE,
            target=Target(epsilon=1.0, delta=1e-8),
            progress=tell,
        )
    answers, truth = people(question)
    with places.folder(out) as folder:
        # The people are made up from a seed; what protects them is not.
        tally = tallied({"browser": answers}, plan, folder, output)
        release = analyze(tally, plan)
        plan.save(folder / "browsers.plan.json")
        for name in RELEASES:
            release.save(folder / name)
    files = [str(out / name) for name in ("browsers.plan.json", *RELEASES)]
    if output.json:
        counts = dict(zip(BROWSERS, truth, strict=True))
        output.document({"release": release.document(), "made_up_truth": counts, "files": files})
        return
    results.show(release, output, truths={"browser": truth})
    output.words(
        "The column truth is there only because these people are made up. Of real people nobody "
        "learns it."
    )
    output.words("")
    output.words(f"Look at   {out / 'release.html'}  (open it in a browser)")
    output.words(f"Then try  chaffinch plan --check {out / 'browsers.plan.json'} --explain")


def people(question: Choice) -> tuple[list[str], list[int]]:
    """Return made-up answers in a mixed order, and how many there are of each."""
    import numpy as np

    from chaffinch.simulate.seeded import generator

    draws = generator(SEED, "population")
    numbers = draws.choice(len(BROWSERS), PEOPLE, p=WEIGHTS)
    counts: Any = np.bincount(numbers, minlength=len(BROWSERS))
    return [question.labels[number] for number in numbers.tolist()], counts.tolist()
