"""The table of docs/guides/a-billion-people-a-day.md, made by the commands of that page.

Run ``python -m tests.docs.costs_page`` to write it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaffinch.planning.costs.cost import Cost, short, size
from chaffinch.plans.kinds import load_any_plan
from chaffinch.plans.plan import Plan
from chaffinch.reach.planning.reach_plan import AnyPlan
from tests.docs import pages
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "guides" / "a-billion-people-a-day.md"
START, END = "<!-- made by `make docs` -->\n", "<!-- end -->\n"
PEOPLE = 10**9
NAMES = {
    "bit": "a bit",
    "choice": "a choice of 100",
    "number": "a number",
    "survey": "a survey of three",
    "campaign": "a campaign",
}
HEADS = (
    "collection",
    "way",
    "messages",
    "upload",
    "operations",
    "core-hours",
    "stored",
    "largest memory",
    "money",
)


def commands(place: int) -> str:
    """Return one of the blocks of commands."""
    return [block.text for block in pages.blocks(PAGE) if block.language == "bash"][place]


def run(text: str, folder: Path) -> str:
    """Run commands as they stand on the page; return what they print."""
    script = f'set -euo pipefail\nchaffinch() {{ "{sys.executable}" -m chaffinch "$@"; }}\n{text}'
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def plans(folder: Path) -> dict[str, AnyPlan]:
    """Return the plans that the first commands make in a folder, by the names of their files."""
    run(commands(0), folder)
    return {kind: load_any_plan(folder / f"{kind}.plan.json") for kind in NAMES}


def costs(plan: AnyPlan) -> Iterator[Cost]:
    """Yield what a plan costs in each way."""
    # Filters pass one shuffler, never two.
    for hops in (1, 2, 0) if isinstance(plan, Plan) else (1, 0):
        yield plan.cost(PEOPLE, hops=hops)


def row(name: str, cost: Cost) -> str:
    """Return a row of the table."""
    paid = [one for one in cost.parties if one.paid]
    cells = (
        name,
        cost.way,
        f"{cost.messages:,.4g}",
        size(cost.upload),
        short(sum(one.work.operations for one in paid)),
        short(cost.core_hours),
        size(sum(one.work.stored for one in paid)),
        size(max(one.memory for one in paid)),
        short(cost.money),
    )
    return "| " + " | ".join(cells) + " |"


def table(found: dict[str, AnyPlan]) -> str:
    """Return the table in Markdown."""
    lines = ["| " + " | ".join(HEADS) + " |", "|---|---|" + "---:|" * (len(HEADS) - 2)]
    lines += [row(NAMES[kind], cost) for kind, plan in found.items() for cost in costs(plan)]
    return "\n".join(lines) + "\n"


def written(text: str, made: str) -> str:
    """Return the page with another table."""
    before, _, rest = text.partition(START)
    return before + START + made + END + rest.partition(END)[2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _name:
        _made = table(plans(Path(_name)))
    PAGE.write_text(written(PAGE.read_text("utf-8"), _made), "utf-8")
