"""The whole pipeline of a reach on made-up ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.errors import ChaffinchError

if TYPE_CHECKING:
    from chaffinch.reach.planning.reach_plan import ReachPlan
    from chaffinch.simulate import Publishers

_UNIVERSE = 100_000
_SEED = 2026
_EPSILON, _DELTA = 1.0, 1e-9
_TITLE = "Autumn campaign (made-up ids)"
SIZES = {"daily": 40_000, "radio": 20_000, "shop": 45_000}
_FREQUENCIES = 2
_RELEASES = ("release.html", "release.json")


def demo(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])] = Path("reach-output"),
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Show the whole pipeline of a reach on made-up ids.

    Parameters
    ----------
    out
        The folder for the tables of ids, the plan, the key, the filters and the release.
    """
    from chaffinch.reach.planning.audience import usual_groups

    names = list(SIZES)
    audience = cf.Audience(names, frequencies=_FREQUENCIES)
    # A few ids are seen often and everywhere, most of them hardly ever.
    made_up = cf.simulate.heavy_tailed(
        audience, list(SIZES.values()), universe=_UNIVERSE, seed=_SEED
    )
    output.say(f"Counting {made_up.people:,} made-up ids at {len(names)} publishers ...")
    with output.thinking("planning") as tell:
        target = cf.Target(_EPSILON, _DELTA)
        plan = cf.reach.plan(audience, sizes=SIZES, target=target, title=_TITLE, progress=tell)
    with paths.fill_folder(out, own=_is_demo(out, plan)) as folder:
        plan.save(folder / "campaign.plan.json")
        # The ids are made up from a seed; key and flips are not.
        key = cf.reach.new_key()
        filters = []
        for name in names:
            table = folder / f"{name}.csv"
            table.write_text(_table(made_up, name), encoding="utf-8", newline="\n")
            with output.counting(f"encoding {name}", "rows") as told:
                made = cf.reach.encode(table, plan, publisher=name, key=key, progress=told)
            made.save(folder / f"{name}.filter")
            filters.append(made)
        key.save(folder / "campaign.key")
        release = cf.reach.analyze(filters, plan)
        for one in _RELEASES:
            release.save(folder / one)
    truth = {group.name: made_up.truth(group) for group in usual_groups(audience)}
    inputs = [f"{name}.{kind}" for name in names for kind in ("csv", "filter")]
    key_files = ("campaign.key", "campaign.key.record")
    written = ("campaign.plan.json", *key_files, *inputs, *_RELEASES)
    files = [str(out / name) for name in written]
    if output.json:
        output.document({"release": release.document(), "made_up_truth": truth, "files": files})
        return
    output.drawing(release.text(width=output.width, truths=truth))
    output.words("")
    output.words(
        "The column truth is there only because these ids are made up. Of real ones nobody "
        "learns it: each publisher knows its own list, and the analyzer knows none."
    )
    output.words("")
    # Not wrapped: a command is there to be copied.
    output.drawing(f"Look at   {out / 'release.html'}  (open it in a browser)")
    output.drawing(f"Then try  chaffinch reach plan --check {out / 'campaign.plan.json'} --explain")
    output.drawing("Or do the analyzer's part yourself:")
    listed = " ".join(str(out / f"{name}.filter") for name in names)
    output.drawing(f"chaffinch reach analyze {listed} --plan {out / 'campaign.plan.json'}")


def _is_demo(out: Path, plan: ReachPlan) -> bool:
    """Return whether a folder is a demo's: it has its plan, and a key that made nothing else.

    A demo that was killed may have left a key without its record.
    """
    from chaffinch.reach.planning.reach_plan import load_plan
    from chaffinch.reach.publisher.campaign_key import load_key

    try:
        if load_plan(out / "campaign.plan.json").id != plan.id:
            return False
        key = load_key(out / "campaign.key")
        made = [key.made_for(name) for name in SIZES]
    except ChaffinchError:
        return False
    return all(one is None or one["plan"] == plan.id for one in made)


def _table(made_up: Publishers, publisher: str) -> str:
    ids = (one for column in made_up.id_columns(publisher) for one in column.to_pylist())
    return "\n".join(["id", *ids, ""])
