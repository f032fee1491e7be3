"""A whole reach on made-up ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chaffinch.cli import places
from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.reach.audience import Audience

IDS = 100_000
SEED = 2026
EPSILON, DELTA = 1.0, 1e-9
TITLE = "Autumn campaign (made-up ids)"
PUBLISHERS = {"daily": 0.4, "radio": 0.2, "shop": 0.3}
"""Who takes part, and the share of all ids that each has on its own account."""
TOGETHER = 0.5
"""Of those whom daily reaches, so many see the shop as well."""
FREQUENCIES = 2
MEAN_VIEWS = 1.8
RELEASES = ("release.html", "release.json")


def demo(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("reach-output"),
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Show a whole reach on made-up ids.

    Parameters
    ----------
    out
        The folder for the tables of ids, the plan, the key, the filters and the release.
    """
    from chaffinch import Audience, Target, reach

    names = list(PUBLISHERS)
    audience = Audience(names, frequencies=FREQUENCIES)
    output.say(f"Counting {IDS:,} made-up ids at {len(names)} publishers ...")
    views = seen(names)
    sizes = {name: int((views[name] > 0).sum()) for name in names}
    with output.thinking("planning") as tell:
        # Publishers know their sizes only roughly beforehand.
        rough = {name: round(size, -3) for name, size in sizes.items()}
        target = Target(EPSILON, DELTA)
        plan = reach.plan(audience, sizes=rough, target=target, title=TITLE, progress=tell)
    with places.folder(out) as folder:
        plan.save(folder / "campaign.plan.json")
        # The ids are made up from a seed; key and flips are not.
        key = reach.new_key()
        key.save(folder / "campaign.key")
        filters = []
        for name in names:
            table = folder / f"{name}.csv"
            table.write_text(_table(views[name]), encoding="utf-8", newline="\n")
            with output.counting(f"encoding {name}", "rows") as told:
                made = reach.encode(table, plan, publisher=name, key=key, progress=told)
            made.save(folder / f"{name}.filter")
            filters.append(made)
        release = reach.analyze(filters, plan)
        for one in RELEASES:
            release.save(folder / one)
    truth = truths(views, audience)
    inputs = [f"{name}.{kind}" for name in names for kind in ("csv", "filter")]
    files = [str(out / name) for name in ("campaign.plan.json", "campaign.key", *inputs, *RELEASES)]
    if output.json:
        output.document({"release": release.document(), "made_up_truth": truth, "files": files})
        return
    from chaffinch.reach.release_text import text

    output.drawing(text(release, width=output.width, truths=truth))
    output.words("")
    output.words(
        "The column truth is there only because these ids are made up. Of real ones nobody "
        "learns it: each publisher knows its own list, and the analyzer knows none."
    )
    output.words("")
    output.words(f"Look at   {out / 'release.html'}  (open it in a browser)")
    output.words(f"Then try  chaffinch reach plan --check {out / 'campaign.plan.json'} --explain")
    output.words("Or do the analyzer's part yourself:")
    # Not wrapped: a command is there to be copied.
    listed = " ".join(str(out / f"{name}.filter") for name in names)
    output.drawing(f"chaffinch reach analyze {listed} --plan {out / 'campaign.plan.json'}")


def seen(names: list[str]) -> dict[str, Any]:
    """Return how often each made-up id was seen at each publisher, from a seed."""
    import numpy as np

    from chaffinch.simulate.seeded import generator

    draws = generator(SEED, "population")
    reached = {name: draws.random(IDS) < PUBLISHERS[name] for name in names}
    # Audiences are not independent: many readers of one are customers of another.
    reached["shop"] |= reached["daily"] & (draws.random(IDS) < TOGETHER)
    return {
        name: np.where(there, draws.geometric(1 / MEAN_VIEWS, IDS), 0)
        for name, there in reached.items()
    }


def truths(views: dict[str, Any], audience: Audience) -> dict[str, float]:
    """Return the true number of ids in every usual group."""
    import numpy as np

    from chaffinch.reach.audience import usual_groups

    held = np.zeros(audience.grid)
    most = audience.frequencies
    np.add.at(held, tuple(np.minimum(views[name], most) for name in audience.publishers), 1)
    return {
        group.name: float(held[group.members(audience)].sum()) for group in usual_groups(audience)
    }


def _table(views: Any) -> str:
    """Return a table with a row for each view."""
    import numpy as np

    numbers = np.repeat(np.arange(len(views)), views).tolist()
    return "\n".join(["id", *(f"user-{number:06d}@example.org" for number in numbers), ""])
