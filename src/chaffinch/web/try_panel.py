"""The plan tried on made-up people: the real pipeline, what each party sees, and a guess.

Truth stands beside estimates here and nowhere else: nobody is asked, so nobody is exposed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from chaffinch.analysis.analyze import analyze
from chaffinch.charts.rounding import lower_text, nearest_text, upper_text
from chaffinch.charts.svg import element
from chaffinch.plans.plan import Plan
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.protocols.noise import Truth
from chaffinch.release.statement import Line
from chaffinch.release.surveys import Release
from chaffinch.simulate import Collection, Population, collect, guessing_game, uniform
from chaffinch.simulate.populations import draw_tallies, exact_rows
from chaffinch.web.frame import card, table
from chaffinch.web.markup import Markup, join, tag
from chaffinch.web.planned import planned
from chaffinch.web.worker import Tell
from chaffinch.wire.batches import new_name
from chaffinch.wire.messages import Tally

_MOST_SLIDERS = 12
_MOST_ROWS = 24
_MOST_MARKS = 6
"""Kinds of messages of a report that are shown; of the rest, how many messages."""
_SHOWN = 9
_ROUNDS = 40
_SCORED = 1000


def try_section() -> Markup:
    """Return the panel, which fills when there is a plan."""
    return tag(
        "section",
        tag("h2", "Try it on made-up people", class_="large"),
        tag("p", "Nobody is asked. Set what they hold, and run the real thing.", class_="soft"),
        tag(
            "form",
            tag(
                "div",
                card(
                    "Who they are",
                    tag("div", id="who"),
                    tag(
                        "p",
                        tag("button", "Run once more", type="submit", class_="main"),
                        " ",
                        tag("output", "", id="tried", role="status", class_="soft"),
                    ),
                ),
                card("What comes out", tag("div", id="out")),
                class_="pair",
            ),
            tag(
                "div",
                card("Guess it yourself", tag("div", id="guess")),
                data_view=MESSAGES,
            ),
            card("Who sees what", tag("div", id="views")),
            id="trying",
            autocomplete="off",
        ),
        id="try",
        aria_label="Try it on made-up people",
    )


def who_html(plan: Plan) -> Markup:
    """Return the sliders: a share for each value of the only question."""
    names, part = _sliders(plan), plan.parts[0]
    if not names:
        return tag("p", "Made-up people whose answers are all as likely as one another.")
    if part.question.shape == "number":
        return _slider(0, names[0], 42)
    alone = part.question.shape in ("bit", "flags")
    weights = [1.0 / (place + 1) for place in range(len(names))]
    shares = [60 * one if alone else 100 * one / sum(weights) for one in weights]
    return join(*(_slider(at, name, round(shares[at])) for at, name in enumerate(names)))


def _sliders(plan: Plan) -> list[str]:
    """Return the names of the sliders; none where there would be too many."""
    part = plan.parts[0]
    special = {"number": ["their mean, between the two bounds"], "bit": ["yes"]}
    names = special.get(part.question.shape, list(part.labels))
    return names if len(plan.parts) == 1 and len(names) <= _MOST_SLIDERS else []


def _slider(at: int, name: str, value: int) -> Markup:
    field = tag(
        "input", type="range", name=f"share-{at}", id=f"share-{at}", min=0, max=100, value=value
    )
    return tag(
        "p",
        tag("label", name, for_=f"share-{at}"),
        field,
        tag("output", f"{value} %", for_=f"share-{at}"),
        class_="slider",
    )


def try_task(
    tell: Tell, *, text: str, folder: str = "", view: str = MESSAGES, shares: Sequence[float]
) -> None:
    """Run the whole pipeline on made-up people, and tell what each party sees."""
    _, plan = planned(text, lambda name: tell({"step": name}), folder, view)
    # Public groups are collections of their own, all alike: the first one is tried.
    if plan.groups:
        plan = plan.of_group(plan.groups[0])
    people = _people(plan, shares)
    if plan.view == TOTALS:
        tell({"to": "out", "html": _out(plan, people, _added_up(plan, people))})
        tell({"to": "views", "html": _views_of_table(plan)})
        tell({"done": f"{people.people:,} made-up people"})
        return
    seen = collect(plan, people, shown=_SHOWN)
    drawn = " Their tallies were drawn from their law: it is the same." if seen.drawn else ""
    tell({"to": "out", "html": _out(plan, people, seen.release, drawn)})
    tell({"to": "views", "html": _views(plan, seen)})
    game = guessing_game(plan, question=plan.parts[0].name, others=people)
    rounds = [
        {"seen": _told(one.differences), "best": one.best, "holds": one.holds}
        for one in game.play(_ROUNDS)
    ]
    score = game.score(_SCORED)
    tell(
        {
            "to": "guess",
            "html": _game(game.first, game.second, rounds, score.of_hundred, score.promise),
        }
    )
    tell({"done": f"{people.people:,} made-up people, seed {seen.seed}"})


def _people(plan: Plan, shares: Sequence[float]) -> Population:
    """Return made-up people who hold what the sliders say; by default all alike."""
    part, people = plan.parts[0], plan.reports
    # No sliders, or still those of another question.
    if not shares or len(shares) != len(_sliders(plan)):
        return uniform(plan, people, seed=int(np.random.default_rng().integers(2**31)))
    shape = part.question.shape
    wanted = np.clip(np.array(shares, dtype=np.float64), 0.0, 100.0)
    if shape == "number":
        # Everybody around one number, within a quarter of the range.
        draws = np.random.default_rng()
        spread = draws.triangular(-0.25, 0.0, 0.25, people) + wanted[0] / 100.0
        found, counts = np.unique(np.clip(np.rint(spread * 200) / 200, 0, 1), return_counts=True)
        truth = Truth(shape, people, counts, found)
    elif shape == "flags":
        truth = Truth(shape, people, np.rint(people * wanted / 100.0).astype(np.int64))
    else:
        if shape == "bit":
            wanted = np.array([100.0 - wanted[0], wanted[0]])
        weights = wanted if wanted.sum() else np.ones_like(wanted)
        ends = np.rint(np.cumsum(weights) / weights.sum() * people).astype(np.int64)
        truth = Truth(shape, people, np.diff(ends, prepend=0))
    return Population(people, (truth,), "the sliders")


def _added_up(plan: Plan, people: Population) -> Release:
    """Return the release of whoever adds a table of these people up."""
    draws = np.random.default_rng()
    tallies = [
        draw_tallies(part, truth, 1, draws)[0]
        for part, truth in zip(plan.parts, people.truths, strict=True)
    ]
    seen = Tally(plan.id, people.people, np.concatenate(tallies), new_name(), noisy=True)
    return analyze(seen, plan)


def _out(plan: Plan, people: Population, release: Release, drawn: str = "") -> Markup:
    statement = release.statement()
    truths = exact_rows(plan, people)
    told = []
    held = known = 0
    for section in statement.sections:
        rows = []
        for line in section.rows[:_MOST_ROWS]:
            truth = truths.get((section.heading, line.name or line.label))
            if truth is not None:
                known += 1
                held += line.ends[0] - 1e-9 <= truth <= line.ends[1] + 1e-9
            rows.append(_row(line, truth))
        alone = len(statement.sections) == 1
        named = "What is released, beside the truth" if alone else section.heading
        told.append(table(("value", "released", "95 % interval", "truth"), rows, named))
    return join(
        *told,
        tag(
            "p",
            f"{held} of {known} intervals hold the truth beside them; in the long run at least 95 "
            f"of 100 do. We know it only because these people are made up.{drawn}",
            class_="soft",
        ),
    )


def _row(line: Line, truth: float | None) -> tuple[str, ...]:
    low, high = line.ends
    return (
        line.label,
        nearest_text(line.estimate, line.decimals),
        # Outwards: what is shown must hold whenever the interval does.
        f"{lower_text(low, line.decimals)} to {upper_text(high, line.decimals)}",
        "" if truth is None else nearest_text(truth, line.decimals),
    )


# ----------------------------------------------------------------------------
# Who sees what.


def _views_of_table(plan: Plan) -> Markup:
    """Return who sees what where one party holds the table: nothing is hidden from it."""
    parties = (
        ("Each person", ["gives an answer, which stands in the table as it is"]),
        (
            "Whoever holds the table",
            ["every row, and who gave it", "the exact totals", "the noise, drawn once"],
        ),
        ("Everybody", [f"the release above, and the promise of plan {plan.id[:12]}: nothing else"]),
    )
    views = [_view(place, name, seen) for place, (name, seen) in enumerate(parties, 1)]
    return tag("div", *views, class_="views few")


def _view(place: int, name: str, sees: Iterable[str], *shown: Markup) -> Markup:
    return tag(
        "section",
        tag("h3", tag("span", f"{place}", class_="step"), f" {name}"),
        tag("ul", *(tag("li", one) for one in sees), class_="soft"),
        *shown,
    )


def _views(plan: Plan, seen: Collection) -> Markup:
    columns = (
        ("Each device", "device", _devices(seen)),
        ("The shuffler", "shuffler", _shuffler(seen)),
        ("The analyzer", "analyzer", _analyzer(seen)),
        ("Everybody", "everybody", _everybody(plan)),
    )
    views = [
        _view(place, name, seen.sees[key], shown)
        for place, (name, key, shown) in enumerate(columns, 1)
    ]
    return tag("div", *views, class_="views many" if len(plan.parts) > 1 else "views")


def _devices(seen: Collection) -> Markup:
    rows = [
        (one.person, ", ".join(one.answers.values()), _messages(one.messages, one.empty))
        for one in seen.devices
    ]
    return table(("person", "answer", "sends"), rows, "What nine devices know")


def _messages(messages: Sequence[str], empty: int) -> Markup:
    counted = Counter(messages)
    shown = dict(islice(counted.items(), _MOST_MARKS))
    marks = [
        join(tag("span", _message(one), f" × {times}" * (times > 1), class_="together"), " ")
        for one, times in shown.items()
    ]
    more = counted.total() - sum(shown.values())
    rest = [f"and {more} more"] if more else []
    rest += [f"{empty} empty"] if empty else []
    return tag("div", *marks, tag("span", ", ".join(rest), class_="soft"))


def _message(name: str) -> Markup:
    # Of several questions a message begins with that which it answers.
    less = name.rpartition(": ")[2].startswith("−")
    return tag("span", name, class_="message less" if less else "message")


def _shuffler(seen: Collection) -> Markup:
    rows = [(one.person, _envelopes(one.envelopes)) for one in seen.shuffler.senders]
    return table(("person", "sealed messages"), rows, "What it gets from the same nine")


def _envelopes(count: int) -> Markup:
    shown = min(count, 8)
    boxes = [
        Markup(element("rect", x=14 * at, y=2, width=11, height=8, rx=2, class_="envelope"))
        for at in range(shown)
    ]
    drawn = tag(
        "svg", *boxes, width=14 * shown, height=12, role="img", aria_label=f"{count} sealed"
    )
    return join(drawn, f" × {count}" if count > shown else "")


def _analyzer(seen: Collection) -> Markup:
    listed = sorted(seen.analyzer.rows(), key=lambda one: -one[1])[:_MOST_ROWS]
    most = max((count for _, count in listed), default=1) or 1
    rows = [
        (
            _message(name),
            _bar(count / most),
            f"{count:,}",
        )
        for name, count in listed
    ]
    return table(("message", "how often", "times"), rows, "What it counts")


def _bar(share: float) -> Markup:
    track = Markup(element("rect", x=0, y=0, width="100%", height=8, class_="track"))
    bar = Markup(element("rect", x=0, y=0, width=f"{100 * share:.1f}%", height=8, class_="bar"))
    return tag("svg", track, bar, width="64", height=8, aria_hidden="true")


def _everybody(plan: Plan) -> Markup:
    return tag("p", f"The release above, and the promise of plan {plan.id[:12]}: nothing else.")


# ----------------------------------------------------------------------------
# The game.


def _told(differences: Sequence[tuple[str, float]]) -> str:
    return "; ".join(f"{name}: {round(number):+,}" for name, number in differences[:4])


def _game(
    first: str, second: str, rounds: Sequence[Mapping[str, Any]], best: float, promise: int
) -> Markup:
    buttons = [
        tag("button", name, type="button", class_="answer", data_answer=name)
        for name in (first, second)
    ]
    return tag(
        "div",
        tag(
            "p",
            "Ada holds ",
            tag("b", first),
            " or ",
            tag("b", second),
            ", by a fair coin. You know what everybody else holds, and you see what is released, "
            "less what the others hold:",
        ),
        tag("p", "", class_="large", id="clue", aria_live="polite"),
        tag("p", *(join(one, " ") for one in buttons)),
        tag("p", "Which is it?", id="verdict", role="status"),
        tag(
            "p",
            f"The best guesser was right in {best:.0f} of 100 of {_SCORED:,} rounds; the promise: "
            f"at most {promise}. A coin: 50.",
            class_="soft",
        ),
        data_rounds=json.dumps(rounds, ensure_ascii=False),
        id="game",
    )


TASKS = {"try": try_task}
