"""The services whose settings are in the folder: what they hold, and what stands in their way.

What is shown is what ``chaffinch status`` tells, as of the last tick of each service: a reload
never shows when one report came in.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaffinch.charts.rounding import bytes_for_people
from chaffinch.charts.svg import element
from chaffinch.errors import ChaffinchError
from chaffinch.services.party_status import look
from chaffinch.services.status import PlanStatus, Status, outcome_words
from chaffinch.web.folder import Folder
from chaffinch.web.frame import card, facts, fault_of, table
from chaffinch.web.markup import Inside, Markup, join, tag

_IN_ORDER = ("collector", "shuffler", "analyzer")
"""The services as data passes them; what cannot be read stands behind them."""
_BYTES = "_bytes"


def watch_page(folder: Folder) -> Iterator[Markup]:
    """Yield the panel; the script asks for its content again and again."""
    yield tag("div", watch_html(folder), id="watched", aria_live="off", data_again="watched")


def watch_html(folder: Folder) -> Markup:
    """Return the status of all services."""
    names = folder.services()
    if not names:
        return card(
            "No services here",
            tag(
                "p",
                "This folder has no settings of a service. ",
                tag("code", "chaffinch rehearse"),
                " shows all parties at work; the guide to services says how to run your own.",
            ),
        )
    found: dict[str, list[Markup]] = {one: [] for one in (*_IN_ORDER, "")}
    for name in names:
        try:
            status = look(folder.path(name))
            found[status.service].append(_service(name, status))
        except ChaffinchError as fault:
            found[""].append(card(name, fault_of(fault)))
    return join(*(one for several in found.values() for one in several))


def _service(name: str, status: Status) -> Markup:
    state = "✓ all is well" if status.is_well else "needs somebody"
    complaints = [tag("li", one) for one in status.complaints]
    complaints += [
        tag("li", f"the {service} does not answer at {address}")
        for service, address in status.silent.items()
    ]
    keys = ", ".join(f"number {number} is {state}" for number, state in status.keys.items())
    return card(
        f"{status.service.capitalize()} · {name}",
        tag("p", tag("span", state, class_="safe" if status.is_well else "leak")),
        tag("ul", *complaints) if complaints else "",
        *(_plan(plan) for plan in status.plans),
        facts([("keys", keys or "none"), *_gauges(status)]),
    )


def _gauges(status: Status) -> list[tuple[str, str]]:
    return [
        (name.removesuffix(_BYTES).replace("_", " "), bytes_for_people(int(value)))
        if name.endswith(_BYTES)
        else (name.replace("_", " "), f"{value:,.0f}")
        for name, value in status.gauges.items()
    ]


def _plan(plan: PlanStatus) -> Markup:
    rows: list[tuple[Inside, str, str]] = []
    for law, holds in plan.verdicts.items():
        verdict = "adds up" if holds else "DOES NOT ADD UP"
        rows.append((tag("b", law.whole), f"{plan.counts[law.whole]:,}", verdict))
        rows += [
            (f"– {part.replace('_', ' ')}", f"{plan.counts[part]:,}", outcome_words(part, law))
            for part in law.parts
        ]
    rows += [(f"batches {state}", f"{number:,}", "") for state, number in plan.batches.items()]
    return tag(
        "div",
        tag("h3", plan.title or f"Plan {plan.plan_id[:16]}"),
        _crowd(plan),
        tag("ul", *(tag("li", str(one)) for one in plan.stuck)) if plan.stuck else "",
        tag("p", *(join(tag("a", "a release", href=one), " ") for one in plan.releases))
        if plan.releases
        else "",
        table(
            ("what", "number", "meaning"),
            rows,
            "Where everything is that was taken",
            words=("meaning",),
        ),
    )


def _crowd(plan: PlanStatus) -> Markup:
    """Return how many reports wait, against how many are needed."""
    if plan.crowd is None:
        return Markup("")
    waiting = plan.counts.get("pooled", 0)
    share = min(waiting / plan.crowd, 1.0)
    bar = tag(
        "svg",
        Markup(element("rect", x=0, y=0, width="100%", height=10, class_="track")),
        Markup(element("rect", x=0, y=0, width=f"{100 * share:.1f}%", height=10, class_="bar")),
        width="100%",
        height=10,
        role="img",
        aria_label=f"{waiting:,} of {plan.crowd:,} reports",
    )
    words = f"{waiting:,} of {plan.crowd:,} needed wait for the next batch"
    return join(tag("p", words), bar)
