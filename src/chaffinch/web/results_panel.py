"""Releases of the folder: read, drawn, and taken along as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

import chaffinch as cf
from chaffinch import Release, reach
from chaffinch.charts.rounding import promise_text
from chaffinch.errors import ChaffinchError
from chaffinch.release.page import statement_inside
from chaffinch.release.publication import Publication
from chaffinch.release.trend_release import Trend, load_trend
from chaffinch.web.folder import Folder
from chaffinch.web.frame import card, table
from chaffinch.web.markup import Inside, Markup, join, tag

FILES = (".json", ".csv", ".parquet", ".html")


def results_page(folder: Folder) -> Iterator[Markup]:
    """Yield the list of releases."""
    found = folder.releases()
    if not found:
        yield card(
            "No release yet",
            tag(
                "p",
                "What is released into this folder is listed here: ",
                tag("code", str(folder.root)),
            ),
        )
        return
    loaded = {word: load(folder.root / name) for word, name in found.items()}
    batches = {(one.plan_id, one.batch) for one in loaded.values() if isinstance(one, Release)}
    plans = Counter(plan_id for plan_id, _ in batches)
    rows: list[tuple[Inside, ...]] = []
    for word, release in loaded.items():
        if release is None:
            rows.append(("cannot be shown", "", "", found[word]))
            continue
        said, several = release.statement(), isinstance(release, Release)
        # Beside the first release of a plan that has several.
        several = several and plans.pop(release.plan_id, 0) > 1
        trend = tag("a", "trend of this plan", href=f"./trends/{word}") if several else ""
        together = release.together if isinstance(release, Release) else None
        promise = together.guarantee if together else release.guarantee
        of_all = f" ({together.releases} releases of these people)" if together else ""
        rows.append(
            (
                join(tag("a", said.title, href=f"./results/{word}"), " · " * several, trend),
                " · ".join(one for one in said.byline if one != "Release"),
                f"ε {promise_text(promise.epsilon, 4)}{of_all}",
                found[word],
            )
        )
    heads = ("release", "of whom, and when", "privacy loss", "file")
    yield card("Releases of this folder", table(heads, rows, "The newest first", words=heads[1:2]))


def trend_of(folder: Folder, word: str) -> Trend | None:
    """Return the trend of all releases of one plan; None where there is no such plan."""
    found = folder.releases()
    loaded = {name: load(folder.root / name) for name in found.values()}
    wanted = loaded[found[word]] if word in found else None
    if not isinstance(wanted, Release):
        return None
    # Copies of a file are one release; the newest stands first.
    same = {
        one.batch: (name, one)
        for name, one in reversed(loaded.items())
        if isinstance(one, Release) and one.plan_id == wanted.plan_id
    }
    named = sorted(same.values(), key=lambda one: (one[1].round or 0, one[1].made_on or date.min))
    names = [_called(release) for _, release in named]
    if len(set(names)) < len(names):
        names = [", ".join(filter(None, (_place(name), _called(one)))) for name, one in named]
    return cf.trend(
        [release for _, release in named],
        names=names if len(set(names)) == len(names) else None,
        plans=[plan for plan in _plans(folder) if plan.id == wanted.plan_id],
    )


def _called(release: Release) -> str:
    """Return what a release is called: by its round, or its day."""
    if release.round is not None:
        return f"round {release.round}"
    return "" if release.made_on is None else f"{release.made_on.day} {release.made_on:%B %Y}"


def _place(name: str) -> str:
    """Return what tells a release from others of one day: its folder, or the name of its file."""
    path = Path(name)
    return path.parent.name or path.stem


def _plans(folder: Folder) -> Iterator[cf.Plan]:
    for name in folder.surveys():
        if name.endswith(".plan.json"):
            with suppress(ChaffinchError):
                yield cf.load_plan(folder.root / name)


def load(path: Path) -> Publication | None:
    """Return what was released in a file; None if it is damaged, or no release of any kind."""
    for read in (cf.load_release, reach.load_release, load_trend):
        with suppress(ChaffinchError):
            return read(path)
    return None


def files_html(word: str) -> Markup:
    """Return where the files of a release are to be had."""
    links = [tag("a", name, href=f"./{word}/{name}") for name in (f"release{one}" for one in FILES)]
    return tag("p", *(join(one, " ") for one in links), class_="files")


def release_html(release: Publication) -> Markup:
    """Return what a release says, as its page does."""
    return tag("div", Markup(statement_inside(release.statement())), class_="release")
