"""Pictures of every panel, to be looked at: ``python -m tests.web.screenshots [FOLDER [PANEL]]``.

They are of real pages on made-up data: phone, tablet and desk, light, dark and on paper.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect

import chaffinch as cf
from chaffinch import reach
from tests.web.browsing import Visit, browser, server
from tests.web.test_watch import make_services

_PATIENCE = 300_000
"""Milliseconds for the price of several questions."""
WIDTHS = (360, 768, 1440)
LOOKS = ("light", "dark", "print")
_SURVEY = """\
title = "Lunch at the office"
users = 3000
epsilon = 1.0
rounds = 2
rows_are_people = true

[questions.team]
kind = "choice"
values = ["sales and customer service", "research", "workshop"]

[questions.lunch]
kind = "choice"
values = ["canteen", "from home", "nothing"]

[questions.minutes]
kind = "number"
low = 0
high = 60
unit = "minutes"
by = "team"
"""
_IDS = {"daily": range(2400), "radio": range(1800, 3000), "shop": range(2350, 2700)}


def fill(folder: Path) -> None:
    """Put a survey, tables and releases into a folder."""
    (folder / "survey.toml").write_text(_SURVEY)
    (folder / "services").mkdir()
    make_services(folder / "services")
    for turn, month in enumerate(("may", "june"), 1):
        draws = np.random.default_rng(turn)
        team = draws.choice(3, 3000, p=[0.5, 0.3, 0.2])
        lunch = draws.choice(["canteen", "from home", "nothing"], 3000, p=[0.55, 0.38, 0.07])
        minutes = np.clip(draws.normal(22 + 8 * team + 4 * turn, 8), 0, 60).round()
        teams = np.array(["sales and customer service", "research", "workshop"])[team]
        rows = zip(teams, lunch, minutes, strict=True)
        lines = ["team,lunch,minutes", *(f"{one},{two},{three:g}" for one, two, three in rows)]
        (folder / f"{month}.csv").write_text("\n".join(lines))
        cf.run(folder / "survey.toml", folder / f"{month}.csv", folder / month, round=turn)
    plan = reach.plan(
        cf.Audience(list(_IDS)), sizes=[*map(len, _IDS.values())], target=cf.Target(2.0, 1e-8)
    )
    key = reach.new_key()
    filters = [
        reach.encode([f"id {one}" for one in ids], plan, publisher=name, key=key)
        for name, ids in _IDS.items()
    ]
    reach.analyze(filters, plan).save(folder / "audience.json")


def _planned(page: Page) -> None:
    expect(page.locator("#state")).to_contain_text("proven")
    expect(page.locator("#price svg").first).to_be_attached()
    expect(page.locator("#price.old")).to_have_count(0)
    expect(page.locator("#tried")).to_contain_text("made-up people")
    page.locator("#curve summary").click()
    expect(page.locator("#curve svg").first).to_be_attached()


def _several(page: Page) -> None:
    page.get_by_label("kind of question").select_option("survey")
    page.locator("[name=survey]").fill(_SURVEY)
    expect(page.locator("#example")).to_contain_text("mean of minutes")
    _planned(page)


def _held(page: Page) -> None:
    page.get_by_label("counted by whom").select_option("totals")
    expect(page.locator("#command")).to_contain_text("totals")
    _planned(page)


def _refused(page: Page) -> None:
    _planned(page)
    page.get_by_label("how many people").fill("a lot")
    expect(page.locator("#state")).to_contain_text("no plan")


def _checked(page: Page) -> None:
    page.locator("[name=table]").select_option("may.csv")
    page.get_by_role("button", name="Check the table").click()
    expect(page.locator("#state")).to_contain_text("checked")


def _ran(page: Page) -> None:
    page.locator("[name=table]").select_option("may.csv")
    page.get_by_role("button", name="Run and release").click()
    expect(page.locator("#outcome [role=alert]")).to_be_visible()


def _released(page: Page) -> None:
    page.get_by_role("link", name="Lunch at the office").first.click()


def _trend(page: Page) -> None:
    page.get_by_role("link", name="trend of this plan").click()


def _audience(page: Page) -> None:
    page.get_by_role("link", name="Reach of plan").click()


def _reached(page: Page) -> None:
    expect(page.locator("#state")).to_contain_text("proven")


def _nothing(_page: Page) -> None:
    """Leave a panel as it is."""


PANELS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "plan": ("", _planned),
    "plan-several": ("", _several),
    "plan-table": ("", _held),
    "plan-refused": ("", _refused),
    "run": ("run", _checked),
    "run-refused": ("run", _ran),
    "watch": ("watch", _nothing),
    "results": ("results", _nothing),
    "release": ("results", _released),
    "trend": ("results", _trend),
    "audience": ("results", _audience),
    "reach": ("reach", _reached),
}


def take(to: Path, wanted: str = "") -> list[Path]:
    """Take pictures of all panels, or of those whose names begin so; return where they are."""
    made: list[Path] = []
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, browser() as chromium:
        # What runs record of these made-up people is nobody's.
        os.environ["XDG_STATE_HOME"] = place
        folder = Path(place) / "office"
        folder.mkdir()
        fill(folder)
        with server(folder) as (address, _):
            for name, (path, prepare) in PANELS.items():
                if name.startswith(wanted):
                    with Visit.of(chromium, address, path) as visit:
                        made += _panel(visit, to / name, prepare)
    return made


def _panel(visit: Visit, to: Path, prepare: Callable[[Page], None]) -> Iterator[Path]:
    """Yield the pictures of one panel, which is prepared once: no look plans anything anew."""
    page = visit.page
    expect.set_options(timeout=_PATIENCE)
    prepare(page)
    for look in LOOKS:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            scheme: Any = "dark" if look == "dark" else "light"
            media: Any = "print" if look == "print" else "screen"
            page.emulate_media(color_scheme=scheme, media=media)
            picture = to.with_name(f"{to.name}-{width}-{look}.png")
            page.screenshot(path=picture, full_page=True)
            yield picture


if __name__ == "__main__":
    places = take(Path(sys.argv[1] if sys.argv[1:] else "build/screenshots"), *sys.argv[2:3])
    sys.stdout.write("".join(f"{one}\n" for one in places))
