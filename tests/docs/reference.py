"""Write docs/reference from the code: run ``python -m tests.docs.reference``.

What a page says comes from signatures and the first paragraph of docstrings, so it cannot
drift. Of the mathematics, whose arguments mean little by their names, it is all of them.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import chaffinch
from chaffinch import errors, planning, reach, runs
from chaffinch.plans.plan import plan_schema
from chaffinch.privacy.mechanism import BETWEEN_MODULES, Mechanism
from chaffinch.reach.planning.reach_plan import plan_schema as reach_plan_schema
from chaffinch.reach.release import release_schema as reach_release_schema
from chaffinch.release.surveys import release_schema
from chaffinch.services import analyzer_process, hop
from tests.meta import repository

FOLDER = repository.ROOT / "docs" / "reference"
_SOURCES = "../references.md#the-five-source-documents"
NOTE = "*Written by `make docs` from the code; edit the docstrings instead.*"


def written() -> dict[Path, str]:
    """Return every generated page with the text it should have."""
    return {
        FOLDER / "pipeline.md": "\n".join(pipeline_page()) + "\n",
        FOLDER / "reach.md": "\n".join(reach_page()) + "\n",
        FOLDER / "reach-release.schema.json": schema(reach_release_schema()) + "\n",
        FOLDER / "reach-plan.schema.json": schema(reach_plan_schema()) + "\n",
        FOLDER / "plan.schema.json": schema(plan_schema()) + "\n",
        FOLDER / "release.schema.json": schema(release_schema()) + "\n",
        FOLDER / "privacy.md": "\n".join(privacy_page()) + "\n",
        FOLDER / "errors.md": "\n".join(errors_page()) + "\n",
        FOLDER / "services.md": "\n".join(services_page()) + "\n",
    }


def pipeline_page() -> Iterator[str]:
    """Yield the lines of the page on the names that chaffinch itself offers."""
    yield from ["# The pipeline", "", NOTE, "", first_paragraph(chaffinch), ""]
    yield "A plan file follows [this JSON Schema](plan.schema.json),"
    yield "a release in JSON [this one](release.schema.json)."
    for name in chaffinch.__all__:
        yield from entry(f"chaffinch.{name}", getattr(chaffinch, name), level=2)
    for name in chaffinch.simulate.__all__:
        thing = getattr(chaffinch.simulate, name)
        yield from entry(f"chaffinch.simulate.{name}", thing, level=2)
    for name in ("Price", "price"):
        yield from entry(f"chaffinch.planning.{name}", getattr(planning, name), level=2)
    for name in sorted(set(runs.__all__) - set(chaffinch.__all__)):
        yield from entry(f"chaffinch.runs.{name}", getattr(runs, name), level=2)


def reach_page() -> Iterator[str]:
    """Yield the lines of the page on audiences."""
    yield from ["# Audiences", "", NOTE, "", first_paragraph(reach), ""]
    yield "A plan file follows [this JSON Schema](reach-plan.schema.json),"
    yield "a release in JSON [this one](reach-release.schema.json)."
    for name in reach.__all__:
        yield from entry(f"reach.{name}", getattr(reach, name), level=2)


def schema(document: dict[str, object]) -> str:
    """Return a JSON Schema as it stands in its file."""
    return json.dumps(document, indent=2, sort_keys=True)


def privacy_page() -> Iterator[str]:
    """Yield the lines of the page on chaffinch.privacy."""
    module = importlib.import_module("chaffinch.privacy")
    yield from ["# The privacy module", "", NOTE, "", first_paragraph(module)]
    yield from shared_by_mechanisms()
    names = list(module.__all__)
    parts = [name for name in names if inspect.ismodule(getattr(module, name))]
    for name in names:
        if name not in parts:
            yield from entry(f"privacy.{name}", getattr(module, name), level=2, said=paragraphs)
    for name in parts:
        part: ModuleType = getattr(module, name)
        yield from ["", f"## privacy.{name}", "", first_paragraph(part)]
        for inner in part.__all__:
            thing = getattr(part, inner)
            yield from entry(f"privacy.{name}.{inner}", thing, level=3, said=paragraphs)


def shared_by_mechanisms() -> Iterator[str]:
    """Yield what every mechanism answers, once."""
    yield from ["", "## Every mechanism", "", "| Question | Answer |", "|---|---|"]
    for name, words in documented(Mechanism):
        yield f"| `{name}` | {words} |"
    yield from ["", "Below, each mechanism lists only what it has beside these."]


def entry(
    label: str,
    thing: object,
    *,
    level: int,
    said: Callable[[object], Iterable[str]] = lambda thing: [first_paragraph(thing)],
) -> Iterator[str]:
    """Yield one function or class: its call, what is said of it, its methods."""
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        return
    yield from ["", f"{'#' * level} {label}", ""]
    yield from ["```text", call(label.rpartition(".")[2], thing), "```", ""]
    yield from said(thing)
    if inspect.isclass(thing):
        shared = set(dict(documented(Mechanism))) if issubclass(thing, Mechanism) else set()
        methods = [one for one in documented(thing) if one[0] not in shared]
        if methods:
            yield ""
        for name, words in methods:
            yield f"- `{name}`: {words}"


def documented(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class with their first paragraphs.

    A question is a value: its numbering is what plans ask, and only how it is made is listed.
    """
    question = owner.__module__.startswith("chaffinch.questions")
    for name in sorted(name for name in dir(owner) if not name.startswith("_")):
        if issubclass(owner, Mechanism) and name in BETWEEN_MODULES:
            continue
        if any(name in vars(kind) for kind in owner.__mro__ if kind.__module__ == "builtins"):
            continue
        member = inspect.getattr_static(owner, name)
        if question and not isinstance(member, classmethod):
            continue
        if isinstance(member, property):
            yield name, first_paragraph(member)
        elif callable(getattr(owner, name)) and inspect.getdoc(getattr(owner, name)):
            function = getattr(owner, name)
            yield call(name, function), first_paragraph(function)


def call(name: str, thing: object) -> str:
    """Return how a thing is called, without the types: ``name(first, *, second=1)``."""
    if not callable(thing):
        raise TypeError(f"{name} cannot be called")
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.name != "self"
    ]
    # A function has an address in its picture, another one in every run.
    return re.sub(r"<function (\w+) at \w+>", r"\1", f"{name}{inspect.Signature(parameters)}")


def first_paragraph(thing: object) -> str:
    """Return the first paragraph of a docstring on one line."""
    paragraph = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")


def paragraphs(thing: object) -> Iterator[str]:
    """Yield a docstring as lines of a page: prose, formulas, examples."""
    for place, paragraph in enumerate((inspect.getdoc(thing) or "").split("\n\n")):
        if place:
            yield ""
        if paragraph.startswith((">>>", " ")):
            kind = "pycon" if paragraph.startswith(">>>") else "text"
            # Directives of a test are for the test.
            shown = re.sub(r" *# doctest:.*", "", paragraph)
            yield from [f"```{kind}", *inspect.cleandoc(shown).splitlines(), "```"]
        else:
            prose = " ".join(paragraph.split()).replace("``", "`")
            yield re.sub(r"\b(S[0-4])\b", rf"[\1]({_SOURCES})", prose)


def errors_page() -> Iterator[str]:
    """Yield the lines of the page on errors: one row for each, with its stable code."""
    yield from ["# Errors", "", NOTE, "", "Everything chaffinch raises on purpose:", ""]
    yield from ["| Error | Code | When |", "|---|---|---|"]
    for name, thing in vars(errors).items():
        if inspect.isclass(thing) and issubclass(thing, errors.ChaffinchError):
            yield f"| `{name}` | `{thing.code}` | {first_paragraph(thing)} |"
    yield from [
        "",
        "Each has `message`, `hint` (what to do about it) and `details`, safe to log.",
    ]


METRICS = {
    "chaffinch_acknowledged_reports": "reports that are durable and acknowledged",
    "chaffinch_adds_up": "1 as long as the conservation laws hold: alert on 0",
    "chaffinch_batches": "batches in each state: `sealed` ones wait for a receipt",
    "chaffinch_build": "what runs: version and service",
    "chaffinch_counts": "reports by plan and outcome; for `rejected` also the reason, such as "
    "`not_given_out`: for keys that this hop had not given out",
    "chaffinch_disk_free_bytes": "free space; below the limit nothing is accepted, and clients "
    "are asked to retry later",
    "chaffinch_key": "the state of each key",
    "chaffinch_offers_total": "how often batches were offered to the next party, by result: "
    "`no connection`, `outdatedKeys`, …; the log names each result once",
    "chaffinch_ready": "1 if the service is ready, as `/readyz` says",
    "chaffinch_received_batches": "received batches that wait to be opened",
    "chaffinch_stuck_batches": "batches that cannot leave a hop, or exceed the budget of the "
    "analyzer, by reason: alert above 0 for longer than an hour",
    "chaffinch_unopened_segments": "segments that wait to be opened, with the one being written",
}


def services_page() -> Iterator[str]:
    """Yield the lines of the page on services: their settings, and what they tell operators."""
    yield from ["# Services", "", NOTE, ""]
    yield "How to run them: [running a collection](../guides/running-a-collection.md)."
    yield "A file of settings is TOML; unknown keys are refused, and all faults are told at once."
    for heading, example in (
        ("Settings of a hop", hop.EXAMPLE),
        ("Settings of an analyzer", analyzer_process.EXAMPLE),
    ):
        yield from ["", f"## {heading}", "", "```toml", example.rstrip(), "```"]
    yield from ["", "## Metrics", "", "At `/metrics` of the `admin` address, for Prometheus."]
    yield from ["", "| Metric | Means |", "|---|---|"]
    yield from (f"| `{name}` | {words} |" for name, words in METRICS.items())


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
