"""All parties of a plan as services on this machine, with reports of made-up people."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.charts.rounding import count_of
from chaffinch.cli import paths
from chaffinch.cli.demo import BROWSERS
from chaffinch.cli.output import Output
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import NotDelivered, StorageFault

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release

_PEOPLE = 1000


def rehearse(
    survey: Path | None = None,
    *,
    hops: int = 1,
    people: int | None = None,
    keep: Annotated[Path | None, Parameter(show_default=False)] = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Start collector, shuffler and analyzer as processes, and send the reports of a made-up crowd.

    Every party gets a folder with its own keys, settings and data, and an address on this machine.
    Reports are sealed, collected, shuffled, forwarded, opened, counted and released as in a real
    collection. Then everything is removed, unless something failed.

    Parameters
    ----------
    survey
        A survey file; by default people are asked which browser they use.
    hops
        How many shufflers there are, one after the other.
    people
        How many people send reports [default: as many as the plan waits for].
    keep
        A new folder in which everything is kept: keys, settings, data, logs.
    """
    from chaffinch.release.surveys import read_release
    from chaffinch.services import rehearsal

    rehearsal.require_services()
    plan = _planned(survey, _PEOPLE if people is None else people, output)
    rehearsal.require_own_protocols(plan)
    crowd = -(-plan.reports // plan.contributions) if people is None else people
    rehearsal.require_crowd(plan, crowd)
    with _place(keep) as folder:
        stage = rehearsal.set_stage(folder, plan, hops=hops)
        services = [f"{path.parent.name} {role}" for role, path in stage.services()]
        output.say(f"starting {', '.join(services)} ...")
        with rehearsal.running(stage):
            with output.counting("sending", "reports") as tell:
                rehearsal.send_crowd(stage, crowd, tell)
            output.say(f"{count_of(crowd * plan.contributions, 'report')} durable at the first hop")
            with output.thinking("waiting for the release"):
                releases = [read_release(one) for one in rehearsal.wait_for_release(stage)]
    show(stage.plan, crowd * plan.contributions, releases, output)


def _planned(survey: Path | None, people: int, output: Output) -> Plan:
    from chaffinch import Choice, Survey, Target
    from chaffinch import plan as planned

    with output.thinking("planning") as tell:
        if survey is not None:
            asked_in = paths.open_survey(survey)
            tell("this may take a minute")
            return asked_in.plan(tell)
        question = Choice(BROWSERS, missing="refuse")
        asked = Survey({"browser": question}, "Which browser do you use? (a rehearsal)")
        return planned(asked, users=people, target=Target(1.0, 1e-6), progress=tell)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        try:
            keep.mkdir(mode=0o700)
        except OSError as error:
            taken = isinstance(error, FileExistsError)
            fault = OSError(errno.ENOTEMPTY, "") if taken else error
            raise storage_fault(keep.name, fault, verb="create") from None
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="chaffinch-"))
    goes = True
    try:
        yield folder
    except (NotDelivered, StorageFault):
        goes = False  # the logs of the services say why
        raise
    finally:
        if goes:
            shutil.rmtree(folder)


def show(plan: Plan, sent: int, releases: list[Release], output: Output) -> None:
    """Print the releases, and how many of the reports that were sent are in none."""
    if output.json:
        documents = [release.document() for release in releases]
        output.document({"plan": plan.document(), "releases": documents})
        return
    for release in releases:
        output.drawing(release.text(width=output.width))
        output.words("")
    waiting = sent - sum(release.reports for release in releases)
    if waiting > 0:
        output.words(
            f"The other {count_of(waiting, 'report')} came after the batch was closed: they "
            f"wait at the shuffler until {plan.reports:,} are there, as no batch has fewer."
        )
        output.words("")
    output.words(
        f"{plan.trust} Here one machine ran all parties, so this rehearsal protects nobody; the "
        "people are made up."
    )
