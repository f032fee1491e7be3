"""What a collection would cost: work, bytes and money, from measured units."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.cli import paths
from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.planning.costs.cost import Cost


def cost(
    plan: Path,
    /,
    *,
    users: int | None = None,
    hops: int | None = None,
    core_hour: float = 0.05,
    gigabyte_month: float = 0.1,
    gigabyte_out: float = 0.09,
    days: float = 1.0,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Estimate what a collection costs: messages, bytes, processor time, money.

    Messages and bytes follow from the plan, processor time from measurements on one core. All costs
    are for one round.

    Parameters
    ----------
    plan
        A plan file, of a survey or of a reach.
    users
        How many people take part [default: as in the plan]. For a reach: the ids of all publishers.
    hops
        The number of hops that sealed reports pass [default: as in the plan, or 1]; 0 for files
        that are not sealed. For a reach: 1 for sealed filters that pass the shuffler of the plan, 0
        for files that people carry [default: 1 if the plan names parties, else 0].
    core_hour
        The price of one core for one hour, in any currency.
    gigabyte_month
        The price of storing 10⁹ bytes for thirty days.
    gigabyte_out
        The price of 10⁹ bytes that an operator sends.
    days
        How many days bytes are stored.
    """
    from chaffinch.planning.costs.cost import Prices

    prices = Prices(core_hour, gigabyte_month, gigabyte_out, days)
    _show(paths.open_any_plan(plan).cost(users, hops=hops, prices=prices), output)


def _show(found: Cost, output: Output) -> None:
    if output.json:
        output.document(found.document())
        return
    output.words(found.title)
    output.words("")
    output.words(found.summary)
    output.words("")
    for texts, (heads, rows) in zip((2, 1), found.tables(), strict=True):
        output.table(heads, rows, texts=texts)
        output.words("")
    output.words("\n".join(found.notes))
