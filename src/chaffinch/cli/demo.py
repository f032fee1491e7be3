"""The whole pipeline on made-up people, with sealed reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.leftovers import remove_folder
from chaffinch.errors import ChaffinchError
from chaffinch.runs.results import RELEASES

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan
    from chaffinch.questions import Choice
    from chaffinch.wire.messages import Tally

PEOPLE = 20_000
EPSILON, DELTA = 1.0, 1e-8
_TITLE = "Which browser do you use? (made-up people)"
BROWSERS = ("chrome", "safari", "edge", "firefox", "other")
_WEIGHTS = (0.52, 0.24, 0.11, 0.08, 0.05)
_OF_SERVICES = ("httptools", "uvloop", "prometheus_client")
"""What the extra of services installs; without it nothing can be rehearsed."""


def demo(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("demo-output"),
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Show the whole pipeline on made-up people.

    Each report is sealed. A shuffler opens the envelopes and puts all messages into a random order;
    an analyzer opens the messages and counts them. `rehearse` does the same with a process for each
    party.

    Parameters
    ----------
    out
        The folder for the survey, the people, the plan and the release.
    """
    from chaffinch import Choice, Survey, Target, analyze
    from chaffinch import plan as planned

    question = Choice(BROWSERS, missing="refuse")
    output.say(f"Asking {PEOPLE:,} made-up people which browser they use ...")
    with output.thinking("planning") as tell:
        plan = planned(
            Survey({"browser": question}, _TITLE),
            users=PEOPLE,
            target=Target(EPSILON, DELTA),
            progress=tell,
        )
    answers, truth = people(question)
    with paths.fill_folder(out, own=_is_demo(out, plan)) as folder:
        tally, sealed = _collect(answers, plan, folder / "sealed", output)
        release = replace(analyze(tally, plan), one_party=True, unit="person")
        plan.save(folder / "browsers.plan.json")
        (folder / "survey.toml").write_text(_survey(), encoding="utf-8")
        (folder / "people.csv").write_text(
            "\n".join(["browser", *answers, ""]), encoding="utf-8", newline="\n"
        )
        for name in RELEASES:
            release.save(folder / name)
    inputs = ("survey.toml", "people.csv", "browsers.plan.json")
    files = [str(out / name) for name in (*inputs, *RELEASES)]
    counts = dict(zip(BROWSERS, truth, strict=True))
    if output.json:
        told = {"release": release.document(), "made_up_truth": counts, "sealed": asdict(sealed)}
        output.document({**told, "files": files})
        return
    output.drawing(release.text(width=output.width, truths=counts))
    output.words("")
    output.words(
        "Noise was added to every report before it was sealed, as on a device: "
        f"{sealed.envelopes:,} envelopes of {sealed.envelope_bytes:,} bytes, all of one length, "
        f"went to the shuffler ({sealed.envelopes * sealed.envelope_bytes / 1e6:,.0f} MB), and "
        f"{sealed.messages:,} sealed messages of {sealed.message_bytes} bytes reached the "
        "analyzer in a random order. Here one process ran all parties, so whoever ran it knows the "
        "exact numbers. If each party is run by another operator, nobody knows them."
    )
    output.words("")
    output.words(
        "The column truth is there only because these people are made up. No release about real "
        "people has it."
    )
    output.words("")
    # Not wrapped: a command is there to be copied.
    output.drawing(f"See       chaffinch rehearse  (each party as a process{_needed()})")
    output.drawing(f"Look at   {out / 'release.html'}  (open it in a browser)")
    output.drawing(f"Then try  chaffinch plan --check {out / 'browsers.plan.json'} --explain")
    output.drawing("Or run the whole pipeline on the same people yourself:")
    output.drawing(f"chaffinch run {out / 'survey.toml'} --data {out / 'people.csv'} --out result")


def _is_demo(out: Path, plan: Plan) -> bool:
    """Return whether a folder is a demo's: it has its plan, and a release of no other."""
    from chaffinch import load_plan, load_release

    try:
        if load_plan(out / "browsers.plan.json").id != plan.id:
            return False
        release = out / "release.json"
        return not release.exists() or load_release(release).plan_id == plan.id
    except ChaffinchError:
        return False


def _needed() -> str:
    there = all(find_spec(name) for name in _OF_SERVICES)
    return "" if there else "; first: pip install '.[services]'"


@dataclass(frozen=True)
class _Sealed:
    envelopes: int
    envelope_bytes: int
    messages: int
    message_bytes: int


def _collect(answers: list[str], plan: Plan, folder: Path, output: Output) -> tuple[Tally, _Sealed]:
    from chaffinch.simulate.sealed_collection import SealedCollection

    folder.mkdir(mode=0o700)
    collection = SealedCollection.make(plan, folder)
    with output.counting("sealing", "reports") as tell:
        collection.send(answers, tell)
    with output.counting("shuffling", "reports") as tell:
        batch = collection.shuffle(tell)
    with output.thinking("opening messages"):
        tally = collection.count(batch)
    # Keys and envelopes go with the parties who were made for this demo.
    remove_folder(folder)
    layout = collection.plan.layout
    messages = int(tally.counts.sum())
    return tally, _Sealed(len(answers), layout.report_length, messages, layout.item_length(1))


def _survey() -> str:
    values = ", ".join(f'"{name}"' for name in BROWSERS)
    return f"""\
title = "{_TITLE}"
users = {PEOPLE}
rows_are_people = true
epsilon = {EPSILON:g}
delta = {DELTA:g}

[questions.browser]
kind = "choice"
values = [{values}]
missing = "refuse"
"""


def people(question: Choice) -> tuple[list[str], list[int]]:
    """Return made-up answers in a mixed order, and how many there are of each."""
    import numpy as np

    from chaffinch.simulate.seeded import generator

    # Others each time: a run releases the same data once only, whoever made them.
    draws = generator(randbits(64), "population")
    numbers = draws.choice(len(BROWSERS), PEOPLE, p=_WEIGHTS)
    counts: Any = np.bincount(numbers, minlength=len(BROWSERS))
    return [question.labels[number] for number in numbers.tolist()], counts.tolist()
