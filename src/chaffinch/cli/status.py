"""What a hop or an analyzer has received, in which state it is, and whether it adds up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import count_of
from chaffinch.cli import exits, paths
from chaffinch.cli.output import Output
from chaffinch.services.status import outcome_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chaffinch.services.status import PlanStatus


_BATCHES = {
    "sealed": "made, and not at the next party yet",
    "acknowledged": "at the next party, by its receipt",
    "purged": "at the next party, and removed here",
}
"""What the states of a batch mean."""


def status(*, config: Path, output: Output = Output()) -> int:  # noqa: B008 - frozen
    """Show what became of everything that a service has received, whether it runs or not.

    Everything that was acknowledged is counted in exactly one place. In a hop: durable = opened +
    duplicate + rejected + waiting + damaged, and opened = pooled + batched + expired; rejected
    reports are shown by reason. New reports are in an unopened segment, and are counted when the
    shuffler has opened it. In an analyzer: items = counted + dummies + replayed + rejected. Ends
    with code 1, and `"ready": false` in JSON, if the numbers do not add up, if the data is missing,
    if a service does not answer, or if there is any other problem.

    Parameters
    ----------
    config
        The settings of the service, as for `chaffinch serve`.
    """
    from chaffinch.services.party_status import look

    found = look(paths.require_name(config))
    if output.json:
        output.document(found.document() | {"ready": found.is_well})
    else:
        for plan in found.plans:
            _show_plan(plan, output)
        keys = ", ".join(f"number {number} is {state}" for number, state in found.keys.items())
        output.words(f"Keys of this party: {keys}.")
        for service, address in found.silent.items():
            output.words(f"The {service} does not answer at {address}.")
        for problem in found.complaints:
            output.words(f"Problem: {problem.removesuffix('.')}.")
        for name, value in found.gauges.items():
            output.words(f"{name.replace('_', ' ').capitalize()}: {value:,.0f}.")
        if found.gauges.get("unopened_segments"):
            output.words(
                "New reports are in segments that are not opened yet, and are not counted above; a "
                "running shuffler opens them within seconds."
            )
    return exits.OK if found.is_well else exits.PROBLEM


def _show_plan(plan: PlanStatus, output: Output) -> None:
    output.words(f"{plan.title or 'Plan'} ({plan.plan_id[:16]})")
    output.words("")
    if not plan.has_data:
        output.words("Nothing could be counted: the data of these keys is missing.")
        output.words("")
        return
    rows = []
    for law, holds in plan.verdicts.items():
        rows.append(
            [law.whole, "adds up" if holds else "DOES NOT ADD UP", f"{plan.counts[law.whole]:,}"]
        )
        rows += [
            [f"  {part.replace('_', ' ')}", outcome_words(part, law), f"{plan.counts[part]:,}"]
            for part in law.parts
        ]
    rows += [
        [f"batches {state}", _BATCHES.get(state, ""), f"{number:,}"]
        for state, number in plan.batches.items()
    ]
    output.table(["what", "", "number"], rows, texts=2)
    output.words("")
    for address in plan.releases:
        output.drawing(f"Release: {address}")
    for batch in plan.stuck:
        if not batch.why:
            output.words(f"{str(batch).capitalize()}.")
    if plan.filters:
        output.words(f"Filters: {_arrived(plan.filters)}.")
        output.words("")
    if plan.crowd is not None:
        output.words(
            f"{count_of(plan.counts['pooled'], 'report')} in the pool. A batch leaves at a tick, "
            f"with {plan.crowd:,} or more of one round that name the same keys."
        )
        if stray := plan.counts["not_given_out"]:
            output.words(
                f"{count_of(stray, 'report')} rejected for keys that this hop had not given out. "
                "They were made up, or a later party has shown somebody other keys."
            )
        output.words("")


def _arrived(filters: Mapping[str, bool]) -> str:
    said = []
    for arrived, one, several in (
        (True, "has come", "have come"),
        (False, "is missing", "are missing"),
    ):
        names = [name for name, found in filters.items() if found is arrived]
        if names:
            said.append(f"{', '.join(names)} {several if len(names) > 1 else one}")
    return "; ".join(said)
