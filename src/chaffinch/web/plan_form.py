"""What is asked: a sentence with blanks, and a dial between privacy and error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from chaffinch.charts.price import PriceFigure
from chaffinch.charts.rounding import decimal_places, promise_text, upper_text
from chaffinch.charts.svg import element
from chaffinch.planning.survey_file import ABOUT_DEVICES
from chaffinch.plans.meaning import factor
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.web.frame import card, folded
from chaffinch.web.markup import Markup, join, tag
from chaffinch.web.survey_form import DEFAULTS
from chaffinch.web.try_panel import try_section
from chaffinch.web.view_choice import who_adds_up, who_is_trusted

KINDS = {
    "choice": "one of these",
    "bit": "yes or no",
    "number": "a number",
    "flags": "any of these",
    "survey": "several questions",
}
"""What people may be asked for, by the kind of question."""
STOPS = tuple(float(f"{10 ** (step / 20):.2g}") for step in range(-20, 14))
"""The epsilons of the dial, 1 among them: below, answers say little; above, all of 100 guessers
can be right."""
_NAMED = (53, 57, 63, 74, 89, 99)
"""The odds that are written below the dial."""


def plan_page() -> Iterator[Markup]:
    """Yield the panel with its blanks filled in as they are at the beginning."""
    yield tag(
        "form",
        tag("input", type="hidden", name="protocol"),
        tag("input", type="hidden", name="own"),
        _sentence(),
        tag("div", id="faults"),
        _dials(),
        tag(
            "div",
            card("What each person is promised", tag("div", id="promise")),
            card("What you will see", tag("div", id="example")),
            class_="pair",
        ),
        tag("div", id="reasons"),
        card("Ways to protect it", tag("div", id="ways")),
        tag("div", id="code"),
        id="asked",
        method="post",
        action="./",
        autocomplete="off",
    )
    yield try_section()


def _sentence() -> Markup:
    options = [tag("option", words, value=kind) for kind, words in KINDS.items()]
    crowd = tag(
        "span",
        "Ask ",
        _blank("users", "how many people", 8),
        " people for ",
        data_kinds="choice bit number flags",
    )
    kind = _hidden_label("kind of question", tag("select", *options, name="kind", class_="blank"))
    return join(
        tag("p", crowd, kind, " ", _values(), _range(), class_="sentence"),
        _survey(),
        tag("p", "Counted ", who_adds_up(MESSAGES), class_="sentence"),
        who_is_trusted(_WHO_COUNTS),
    )


_WHO_COUNTS = {
    MESSAGES: "People: honest ones who are sure to answer. They hide each other; nothing is "
    "released before they are there.",
    TOTALS: "People: so many rows are sure to be there; nothing is released of fewer.",
}


def _values() -> Markup:
    field = tag("input", name="values", value=DEFAULTS["values"], class_="blank wide-blank")
    said = "the values, with commas between them"
    return _hidden_label(said, field, data_kinds="choice flags")


def _range() -> Markup:
    spread = tag("input", type="checkbox", name="spread", value="1")
    quantiles = tag("input", type="checkbox", name="quantiles", value="1")
    return tag(
        "span",
        "between ",
        _blank("low", "the least number", 4),
        " and ",
        _blank("high", "the largest number", 4),
        " ",
        _blank("unit", "the unit", 7),
        tag("label", spread, " and their standard deviation"),
        " ",
        tag("label", quantiles, " and their quantiles"),
        data_kinds="number",
        hidden=True,
    )


def _survey() -> Markup:
    said = "A survey file: it counts as it stands, until something is changed below"
    return tag(
        "label",
        tag("span", said, class_="soft"),
        tag("textarea", name="survey", rows=14, spellcheck="false"),
        data_kinds="survey",
        hidden=True,
        class_="block",
    )


def _hidden_label(words: str, field: Markup, **attributes: str) -> Markup:
    """Return a field whose place in a sentence says what it is to those who see it."""
    return tag("label", tag("span", words, class_="hidden"), field, **attributes)


def _blank(name: str, label: str, width: int, kind: str = "blank") -> Markup:
    return tag(
        "input",
        name=name,
        value=DEFAULTS.get(name, ""),
        size=width,
        class_=kind,
        aria_label=label,
    )


def _dials() -> Markup:
    dial = tag(
        "input",
        type="range",
        id="dial",
        min=0,
        max=len(STOPS) - 1,
        step=1,
        value=STOPS.index(1.0),
        aria_label="Privacy loss",
        data_stops=json.dumps(dial_stops()),
    )
    ends = tag(
        "div",
        tag("b", "safer for people", class_="safe"),
        tag("b", "more exact for you", class_="leak"),
        class_="ends",
    )
    return tag(
        "section",
        _lead(),
        tag("div", id="price"),
        dial,
        ends,
        _odds_scale(),
        tag("p", "of 100 guessers are right, at most", class_="soft middle"),
        folded("more: δ, collusion, rounds, honest people, lies, title", _more(), id_="more"),
        class_="card",
        aria_label="Privacy or error",
    )


def _lead() -> Markup:
    """Return the two boxes, one of which leads, and the line of what is known."""

    def led(by: str, verb: str, words: str, *, checked: bool = False) -> Markup:
        button = tag("input", type="radio", name="lead", value=by, checked=checked)
        return tag("label", button, tag("b", f" {verb}"), words)

    return tag(
        "div",
        led("epsilon", "Promise", " a privacy loss ε ", checked=True),
        _blank("epsilon", "epsilon", 6, "box"),
        tag("span", " or ", class_="soft"),
        led("error", "Allow", " an error ± "),
        _blank("error", "error in percent", 6, "box"),
        tag("span", " %", tag("span", id="people")),
        tag("output", "", id="state", role="status"),
        class_="boxes",
    )


def _more() -> Markup:
    def field(name: str, label: str, note: str) -> Markup:
        box = tag("input", name=name, size=10, class_="box", id=f"field-{name}")
        # What says nothing of a table that one party adds up is not asked then.
        view = MESSAGES if name in dict(ABOUT_DEVICES) else None
        return join(
            tag("dt", tag("label", label, for_=f"field-{name}"), data_view=view),
            tag("dd", box, " ", tag("span", note, class_="soft"), data_view=view),
        )

    return tag(
        "dl",
        field(
            "delta",
            "chance of a miss, δ",
            "what is added to every chance; empty: 1 in 100 million, or less in a large crowd",
        ),
        field(
            "local_epsilon",
            "left if they collude",
            "the largest ε that may be left if shuffler and analyzer work together, or none",
        ),
        field("rounds", "rounds", "how often the same people are asked"),
        field("contributions", "reports each", "how many reports each person sends"),
        field("honest", "honest people", "such as 90%: more reports are then waited for"),
        field("max_messages", "messages", "how many sealed messages a report may have, on average"),
        field(
            "influence",
            "one lie moves",
            "the most people by which one dishonest report may move a count; empty: half of those "
            "who are asked",
        ),
        field("title", "title", "for readers"),
    )


def dial_stops(delta: float = 1e-8, chart: PriceFigure | None = None) -> list[dict[str, Any]]:
    """Return for each stop of the dial what it promises, and about what it costs."""
    found = []
    for place, epsilon in enumerate(STOPS):
        right = right_guesses(epsilon, delta)
        words = f"epsilon {epsilon:g}: at most {right} of 100 guessers are right"
        stop = {
            "epsilon": f"{epsilon:g}",
            "right": right,
            "loss": loss_words(epsilon, delta),
            "words": words,
        }
        error = None if chart is None else chart.error_at(epsilon)
        if chart is not None and error is not None:
            # On the line, and where the thumb is: its places are even, epsilons are rounded.
            even = chart.x.at(place / (len(STOPS) - 1))
            _, y = chart.spot(even, chart.error_at(even) or error)
            stop |= {
                "error": up(100 * error),
                "words": f"{words}; error {up(100 * error)} percent",
                "x": _stop_place(place),
                "y": y,
            }
        found.append(stop)
    return found


def loss_words(epsilon: float, delta: float) -> str:
    """Return what a privacy loss is a bound of."""
    return (
        f"Privacy loss ε {promise_text(epsilon, 4)}: what one person answers changes the chance of "
        f"anything that is seen by a factor of at most {factor(epsilon)}, plus a chance of "
        f"1 in {math.floor(1 / delta):,} (δ)."
    )


def _odds_scale() -> Markup:
    labels = []
    for right in _NAMED:
        place = next(
            (at for at, one in enumerate(STOPS) if right_guesses(one, 1e-8) >= right),
            len(STOPS) - 1,
        )
        labels.append(
            Markup(
                element(
                    "text",
                    f"{right}",
                    x=_stop_place(place),
                    y=12,
                    text_anchor="middle",
                    class_="cf-soft",
                )
            )
        )
    drawn = tag(
        "svg", *labels, class_="cf-chart scale", width="100%", height=18, aria_hidden="true"
    )
    return tag("div", drawn, class_="scale-box")


def _stop_place(place: float) -> str:
    """Return where a stop of the dial lies, as its thumb does: half of it inside at either end."""
    return f"{100 * place / (len(STOPS) - 1):.2f}%"


def up(number: float) -> str:
    """Return how far an interval goes, in two digits and never less than it is."""
    return upper_text(number, decimal_places(number))
