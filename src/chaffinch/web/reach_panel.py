"""Reach: how many people several publishers have together, planned before anybody sends."""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Iterator, Mapping

from chaffinch import Audience, Target, reach
from chaffinch.charts.rounding import bytes_for_people, error_text, promise_text
from chaffinch.errors import InvalidInput
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.web.frame import card, code_block, facts, folded, table
from chaffinch.web.markup import Markup, join, tag
from chaffinch.web.plan_panel import dots
from chaffinch.web.survey_form import bare_number
from chaffinch.web.worker import Tell

_PUBLISHERS = "daily = 1,200,000\nradio = 400,000\nshop = 250,000"


def reach_page() -> Iterator[Markup]:
    """Yield the panel with its blanks filled in."""
    fields = [
        (
            "publishers, with how many ids each expects",
            tag("textarea", _PUBLISHERS, name="publishers", rows=5, aria_label="publishers"),
        ),
        (
            "privacy loss, ε",
            tag("input", name="epsilon", value="1", class_="box", aria_label="epsilon"),
        ),
        (
            "chance of a miss, δ",
            tag("input", name="delta", value="1e-8", class_="box", aria_label="delta"),
        ),
        (
            "views counted",
            tag("input", name="frequencies", value="1", class_="box", aria_label="views counted"),
        ),
        (
            "a shuffler stands between",
            tag(
                "label",
                tag("input", type="checkbox", name="shuffled", value="1"),
                " the promise then holds even if publishers help the analyzer",
            ),
        ),
    ]
    yield tag(
        "form",
        card("Who has an audience", facts(fields), tag("output", "", id="state", role="status")),
        tag("div", id="faults"),
        tag("div", id="reach"),
        id="reaching",
        method="post",
        autocomplete="off",
    )


def reach_task(tell: Tell, *, form: Mapping[str, str]) -> None:
    """Plan the filters of several publishers."""
    began = time.monotonic()
    sizes = _sizes(form.get("publishers", ""))
    plan = reach.plan(
        Audience(list(sizes), frequencies=_whole("views counted", form.get("frequencies", "1"))),
        sizes=sizes,
        target=Target(
            _real("epsilon", form.get("epsilon", "")), _real("delta", form.get("delta", ""))
        ),
        shuffled="shuffled" in form,
        progress=lambda words: tell({"step": words}),
    )
    tell(
        {
            "keep": {
                "reach.plan.json": json.dumps(plan.document(), indent=2, ensure_ascii=False) + "\n"
            }
        }
    )
    tell({"to": "reach", "html": _reach_html(plan, sizes, form)})
    tell({"proven": {"words": f"✓ proven in {time.monotonic() - began:.1f} s", "plan": plan.id}})


def _reach_html(plan: ReachPlan, sizes: Mapping[str, int], form: Mapping[str, str]) -> Markup:
    right = plan.guarantee.odds.right
    promise, *rest = plan.explain().split("\n\n")
    publishers = " ".join(
        f"--publisher {shlex.quote(f'{name}={size}')}" for name, size in sizes.items()
    )
    command = (
        f"chaffinch reach plan {publishers} --epsilon {plan.epsilon!r} --delta {plan.delta!r}"
        + (f" --frequencies {plan.frequencies}" if plan.frequencies > 1 else "")
        + (" --shuffled" if "shuffled" in form else "")
        + " --out reach.plan.json"
    )
    rows = [
        (
            join(f"{one.hashes} ", tag("span", "chosen", class_="badge") if chosen else ""),
            f"{one.bits:,}",
            f"± {error_text(one.standard_error)}",
        )
        for one in plan.options
        for chosen in [(one.hashes, one.bits) == (plan.hashes, plan.bits)]
    ]
    left = plan.colluding_epsilon
    return join(
        tag(
            "div",
            card(
                "What each id is promised",
                tag(
                    "p",
                    "Of 100 people who guess whether an id is in these audiences or in none of "
                    "them, at most ",
                    tag("strong", f"{right}", class_="odds"),
                    " are right.",
                    class_="large",
                ),
                dots(plan.guarantee.odds),
                folded(
                    "Why is that true?",
                    tag("p", promise),
                    *(tag("p", one) for one in rest),
                    id_="why",
                ),
            ),
            card(
                "What you will see",
                facts(
                    [
                        (
                            "reach of all together",
                            f"± {error_text(plan.standard_error)} ids (one s.e., without overlap)",
                        ),
                        ("a filter to send", bytes_for_people(plan.filter_bytes)),
                        (
                            "left if they collude",
                            "nothing" if math.isinf(left) else f"ε {promise_text(left, 4)}",
                        ),
                    ]
                ),
            ),
            class_="pair",
        ),
        card(
            "Filters that were weighed",
            table(
                ("hashes", "bits", "error of the reach"),
                rows,
                "The chosen one is calibrated, the others are guesses",
            ),
        ),
        folded("The command", code_block(command, "the command"), id_="command"),
        tag(
            "p",
            tag(
                "a",
                "reach.plan.json",
                href="./files/reach.plan.json",
                class_="file",
                data_file="reach.plan.json",
            ),
            tag("span", f"plan {plan.id[:12]}", class_="soft"),
            class_="files",
        ),
    )


def _sizes(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, size = line.rpartition("=")
        if not sign:
            name, _, size = line.rpartition(" ")
        if not name.strip():
            raise InvalidInput("publisher", "a name and a number, such as daily = 1,200,000", line)
        if name.strip() in found:
            raise InvalidInput("publisher", "named once", name.strip())
        found[name.strip()] = _whole(f"ids of {name.strip()}", size)
    return found


def _whole(parameter: str, text: str) -> int:
    bare = bare_number(text)
    if not re.fullmatch(r"[0-9]{1,12}", bare):
        raise InvalidInput(parameter, "a whole number", text)
    return int(bare)


def _real(parameter: str, text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise InvalidInput(parameter, "a number", text) from None


TASKS = {"reach": reach_task}
