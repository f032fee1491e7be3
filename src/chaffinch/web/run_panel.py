"""A table is checked and run, as the command does it; no cell of it is ever shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import chaffinch as cf
from chaffinch.charts.rounding import promise_text
from chaffinch.errors import ChaffinchError, InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.runs.listener import Callbacks
from chaffinch.runs.opened_survey import open_collection
from chaffinch.runs.table_check import TableCheck
from chaffinch.web.controls import CONTROLS, named_as_here
from chaffinch.web.folder import Folder
from chaffinch.web.frame import card, facts, fault_of, table
from chaffinch.web.markup import Inside, Markup, join, tag
from chaffinch.web.plan_panel import example_html
from chaffinch.web.results_panel import release_html
from chaffinch.web.survey_form import Form
from chaffinch.web.view_choice import who_adds_up, who_is_trusted
from chaffinch.web.worker import Tell

_WISHES = {
    "rows_are_people": "every row is another person",
    "person": "if one person may have several rows",
    "round": "of a plan of several rounds",
    "ledger": "",
    "mark": "",
    "again": "also release if these data were released before: it adds up",
    "replace": "overwrite the release in that folder",
}
"""What else can be wished for, and what it does."""
_PLAN_SAYS = (
    "A plan says itself how it is counted, and is run so: one for devices as they would send it. "
    "Its release says who was trusted."
)
_MOST_UNREAD = 5
_TICKS = ("rows_are_people", "again", "replace")
_OF_GROUP = "Each group has a release of its own. "
_ONCE = ("again", "replace")
"""What was meant for one run only."""


def run_page(folder: Folder) -> Iterator[Markup]:
    """Yield the panel: what is to be run on what."""
    surveys, tables = folder.surveys(), folder.tables()
    if not (surveys and tables):
        yield _nothing_to_run(folder, "no table" if surveys else "no survey")
        yield _unread(folder)
        return
    yield tag(
        "form",
        card(
            "What is run",
            facts(_fields(surveys, tables)),
            _unread(folder),
            tag(
                "details",
                tag("summary", "more: people, rounds, ledger, repeats"),
                facts(_wishes(folder)),
                id="more",
            ),
            tag(
                "div",
                _button("check", "Check the table", "main"),
                tag("output", "", id="state", role="status"),
                class_="boxes",
            ),
            tag(
                "p",
                "Nothing is released by a check, and the table stays where it is. What breaks a "
                "rule is told by its row and column, never by what a cell holds.",
                class_="soft",
            ),
        ),
        tag("div", id="checked"),
        card(
            "Release",
            tag("div", _button("run", "Run and release", "final"), class_="boxes"),
            tag(
                "p",
                "The table is checked first. A release cannot be taken back: it is recorded, so "
                "that the same data are not released twice by mistake. A run goes on if you leave "
                "this page.",
                class_="soft",
            ),
        ),
        tag("div", id="outcome"),
        id="running",
        method="post",
        autocomplete="off",
    )


def _nothing_to_run(folder: Folder, missing: str) -> Markup:
    return card(
        "Nothing to run yet",
        tag(
            "p",
            f"This folder has {missing}. Save a survey from the page ",
            tag("a", "Plan & try", href="./"),
            ", and put a table (CSV, JSONL, Parquet or Arrow) beside it: ",
            tag("code", str(folder.root)),
        ),
    )


def _unread(folder: Folder) -> Markup:
    """Return which tables are not offered and why, if there are any."""
    found = folder.unread()
    named = [f"{name}, {why}" for name, why in found.items()][:_MOST_UNREAD]
    named += [f"and {len(found) - len(named)} more"] if len(found) > len(named) else []
    return tag("p", f"Not read: {'; '.join(named)}.", class_="soft") if named else join()


def _fields(surveys: Iterable[str], tables: Iterable[str]) -> Iterator[tuple[str, Inside]]:
    yield "Run", _select("survey", surveys)
    yield "on the table", _select("table", tables)
    chosen = who_adds_up(TOTALS, look="box left")
    said = tag("p", _PLAN_SAYS, class_="soft", data_asks="plan")
    yield "Counted", join(tag("div", chosen, who_is_trusted(), data_asks="survey"), said)
    yield "Release into the folder", _box("out", "folder for the release", "release")


def _wishes(folder: Folder) -> Iterator[tuple[str, Inside]]:
    names = folder.names()
    files = {
        "ledger": [one for one in names if one.endswith((".ledger", ".db", ".sqlite"))],
        "mark": [one for one in names if one.endswith(".mark")],
    }
    for name, words in _WISHES.items():
        label = CONTROLS[name.replace("_", "-")]
        if name in files:
            yield label, _select(name, ["", *files[name]])
        elif name in _TICKS:
            yield label, _tick(name, words)
        else:
            box = _box(name, name, "")
            yield label, join(box, " ", tag("span", words, class_="soft"))


def _button(task: str, words: str, look: str) -> Markup:
    return tag("button", words, type="submit", name="task", value=task, class_=look)


def _select(name: str, options: Iterable[str]) -> Markup:
    listed = [tag("option", one or "none", value=one) for one in options]
    return tag("select", *listed, name=name, class_="box left", id=f"field-{name}", aria_label=name)


def _tick(name: str, words: str) -> Markup:
    field = tag("input", type="checkbox", name=name, value="1")
    return tag("label", field, f" {words}")


def _box(name: str, label: str, value: str) -> Markup:
    return tag(
        "input", name=name, value=value, class_="box left", id=f"field-{name}", aria_label=label
    )


def asked_again(form: Form) -> Form:
    """Return what a page shows of a run that was asked for before."""
    return {name: said for name, said in form.items() if name not in _ONCE}


def wanted(form: Form, folder: Folder) -> dict[str, Any]:
    """Return what a form asks for, with places instead of names."""
    given: dict[str, Any] = {
        "survey": str(folder.path(form.get("survey", ""))),
        "table": str(folder.path(form.get("table", ""))),
        "person": form.get("person", "").strip() or None,
        "rows_are_people": "rows_are_people" in form,
        # What a field holds that is not shown does not count: a plan is run as what it is.
        "as_devices": form.get("view") == MESSAGES and not form.get("survey", "").endswith(".json"),
    }
    return given


def paid(form: Form, folder: Folder) -> dict[str, Any]:
    """Return what else a run is asked for."""
    ledger, turn = form.get("ledger", ""), form.get("round", "").strip()
    if turn and not re.fullmatch("[0-9]{1,9}", turn):
        raise InvalidInput("round", "a whole number, or nothing", turn)
    if ledger and not form.get("mark", ""):
        raise InvalidInput("mark", "the file that was made with the ledger", "none")
    return {
        "out": str(folder.new(form.get("out", "").strip())),
        "round": int(turn) if turn else None,
        "again": "again" in form,
        "replace": "replace" in form,
        "ledger": str(folder.path(ledger)) if ledger else None,
        "mark": str(folder.path(form["mark"])) if ledger else None,
    }


# ----------------------------------------------------------------------------
# Tasks of the worker.


def check_task(tell: Tell, **given: Any) -> None:
    """Check every cell of a table, and tell how exact its release would be."""
    notes: list[str] = []
    step = Callbacks(None, lambda words: tell({"step": words}))
    found = cf.check(**given, tell=notes.append, progress=step.progress)
    tell({"to": "checked", "html": _checked(found, notes)})
    asked = open_collection(given["survey"], None, step, as_devices=given["as_devices"])
    try:
        expected = _expected(asked.make_plan(step, anyway=False))
    except ChaffinchError as fault:
        expected = fault_of(fault)
    tell({"to": "checked", "html": join(_checked(found, notes), expected)})
    tell({"done": "checked"})


def _expected(plan: Plan) -> Markup:
    """Return how exact a release will be, before it is made."""
    # Public groups are collections of their own, all alike.
    one = plan.of_group(plan.groups[0]) if plan.groups else plan
    reached = plan.guarantee.epsilon
    right = right_guesses(reached, plan.delta)
    promise = (
        f"ε {promise_text(reached, 4)}: of 100 people who guess which of two answers someone "
        f"gave, at most {right} are right."
    )
    return card(
        "How exact a release will be",
        tag("p", f"{_OF_GROUP if plan.groups else ''}Privacy loss {promise}"),
        tag("p", "Nothing below is of the table: its numbers are made up.", class_="soft"),
        example_html(one),
    )


def _checked(found: TableCheck, notes: Sequence[str]) -> Markup:
    protected = "every person" if found.protected == "person" else "every row"
    rows = [
        (one.name, one.kind, ", ".join(one.columns), _counted(one.counted))
        for one in found.questions
    ]
    heads = ("question", "kind", "column", "counts as something else")
    told = dict.fromkeys([*notes, *found.notes, *found.warnings, found.advice])
    return card(
        "✓ Every cell is an answer",
        facts([("protected", protected)]),
        table(heads, rows, "What answers what", words=heads),
        tag("p", found.verdict),
        *(tag("p", named_as_here(one), class_="soft") for one in told if one),
    )


def _counted(counted: Mapping[str, Mapping[str, int]]) -> str:
    words = [
        f"{number:,} {what}"
        for column in counted.values()
        for what, number in column.items()
        if what != "cells"
    ]
    return ", ".join(words) or "nothing"


def run_task(tell: Tell, *, ledger: str | None, mark: str | None, **given: Any) -> None:
    """Check, plan, encode, shuffle, analyze and release."""
    notes: list[str] = []
    paying = None if ledger is None or mark is None else cf.Ledger.open(ledger, mark=mark)
    release = cf.run(
        **given, ledger=paying, tell=notes.append, progress=lambda words: tell({"step": words})
    )
    folder = Path(given["out"]).name
    answer = card(
        "✓ Released",
        tag(
            "p",
            "Into the folder ",
            tag("code", folder),
            ". It stays under ",
            tag("a", "Results", href="./results"),
            ".",
        ),
        *(tag("p", named_as_here(one), class_="soft") for one in notes),
    )
    tell({"to": "outcome", "html": join(answer, release_html(release))})
    tell({"done": "released"})


TASKS = {"check": check_task, "run": run_task}
