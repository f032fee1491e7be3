"""The plan: what is promised, what comes of it, and every way to protect it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from chaffinch.analysis.cross_margins import crossed_answer
from chaffinch.charts.curves import privacy_curve
from chaffinch.charts.estimates import counts_chart, measured_chart, number_chart
from chaffinch.charts.guesses import LEGEND, guesses_chart, legend_mark
from chaffinch.charts.price import price_chart
from chaffinch.charts.rounding import error_text, promise_text, rounded_up
from chaffinch.charts.svg import Picture
from chaffinch.planning.as_program import as_program
from chaffinch.planning.candidates import Candidate
from chaffinch.planning.survey_file import SurveyFile
from chaffinch.planning.wishes import default_delta
from chaffinch.plans.expansion import counts_gaps
from chaffinch.plans.meaning import useless_promise
from chaffinch.plans.parts import Part, influences
from chaffinch.plans.plan import Plan
from chaffinch.privacy.guarantee import NO_PROTECTION, Odds, left_words, right_guesses
from chaffinch.protocols import row_name
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.protocols.noise import Truth
from chaffinch.questions import MISSING, Cross, Number, Question
from chaffinch.release.crossed import group_label
from chaffinch.simulate.populations import draw_tallies
from chaffinch.web.frame import code_block, folded, prose, table
from chaffinch.web.markup import Markup, join, tag
from chaffinch.web.plan_form import STOPS, dial_stops, loss_words, up
from chaffinch.web.planned import planned, read_survey
from chaffinch.web.survey_form import wishes_of
from chaffinch.web.try_panel import who_html
from chaffinch.web.worker import Tell

_PRICED = (*STOPS[:-1:3], STOPS[-1])
"""The epsilons whose price is found; between them it is interpolated, and marked as such."""
_LEVEL = 0.95
_MOST_EXAMPLES, _MOST_VALUES = 4, 12
_BARE = "Nothing protects an answer then."
_SEED = 1
"""Of made-up noise: the same plan has the same picture."""


def plan_task(tell: Tell, *, text: str, folder: str = "", view: str = MESSAGES) -> None:
    """Find the plan of a survey file, and tell all that is shown of it."""
    began = time.monotonic()
    tell({"file": text})
    asked, plan = planned(text, lambda name: tell({"step": f"planning: {name}"}), folder, view)
    unused = read_survey(text, folder, MESSAGES).wishes_about_devices if view == TOTALS else []
    tell({"to": "promise", "html": join(_unused_html(unused), promise_html(plan))})
    tell({"to": "example", "html": example_html(plan)})
    why = folded("Why is that true?", prose(plan.explain()), id_="why")
    tell({"to": "reasons", "html": why})
    tell({"to": "ways", "html": ways_html(plan, asked_for=asked.protocol is not None)})
    tell({"to": "code", "html": code_html(plan, asked, text)})
    files = {
        "survey.toml": text,
        "survey.plan.json": json.dumps(plan.document(), indent=2, ensure_ascii=False) + "\n",
    }
    tell({"keep": files})
    tell({"to": "who", "html": who_html(plan)})
    tell({"proven": _proven(plan, asked, time.monotonic() - began)})


def _proven(plan: Plan, asked: SurveyFile, seconds: float) -> dict[str, Any]:
    return {
        "words": f"✓ proven in {seconds:.1f} s",
        "asked": {
            "lead": "epsilon" if asked.error is None else "error",
            "delta": f"{plan.delta:g}",
            "title": asked.survey.title,
            **wishes_of(asked),
            **({} if asked.error is None else {"error": f"{100 * asked.error.share:g}"}),
        },
        "epsilon": promise_text(plan.epsilon, 4),
        "margin": up(100 * plan.margin()),
        "people": _in_units(plan, plan.margin(), up),
    }


def _unused_html(wishes: Sequence[str]) -> Markup:
    """Return which wishes of a survey say nothing of a table that one party adds up."""
    if not wishes:
        return join()
    words = "about devices: for a table that one party adds up they say nothing."
    return tag("p", f"Not used: {', '.join(wishes)}, ", words, class_="soft")


def promise_html(plan: Plan) -> Markup:
    """Return what each person is promised, in odds, and what it counts on."""
    reached = plan.guarantee.epsilon
    right = tag("strong", f"{right_guesses(reached, plan.delta)}", class_="odds")
    sentence = tag(
        "p",
        "Of 100 people who guess which of two answers someone gave, at most ",
        right,
        " are right. ",
        tag("span", "A coin gets 50.", class_="soft"),
        class_="large",
    )
    return join(
        sentence,
        dots(plan.guarantee.odds),
        tag("p", "What if …", class_="soft"),
        tag("div", *_what_ifs(plan), class_="chips"),
        tag("p", loss_words(reached, plan.delta), class_="soft", id="loss"),
    )


def _what_ifs(plan: Plan) -> Iterator[Markup]:
    """Yield a button for each thing that may go wrong, with the odds that are left then."""
    told = [("everyone keeps their role", plan.guarantee.epsilon)]
    for share, epsilon in plan.reached.shares:
        honest = math.floor(plan.crowd * share)
        told.append((f"only {honest:,} of {plan.crowd:,} are honest", epsilon))
    if plan.view == TOTALS:
        told.append(("whoever holds the table looks", math.inf))
    elif plan.crowd > 1:
        told.append(("shuffler and analyzer work together", plan.guarantee.local_epsilon))
    for at, (words, epsilon) in enumerate(told):
        bare = math.isinf(epsilon)
        yield tag(
            "button",
            words,
            type="button",
            class_="what-if",
            aria_pressed="false" if at else "true",
            data_right=100 if bare else right_guesses(epsilon, plan.delta),
            data_loss=_BARE if bare else loss_words(epsilon, plan.delta),
        )


def _unit(plan: Plan) -> str:
    return "people" if plan.contributions == 1 else "reports"


def dots(odds: Odds) -> Markup:
    """Return a hundred guessers: right by luck, right because of what is seen, and wrong."""
    legend = [tag("span", Markup(legend_mark(kind)), f" {words} ") for kind, words in LEGEND]
    drawn = Markup(guesses_chart(odds).svg(name="guesses", styled=False))
    return join(tag("div", drawn, class_="guesses"), tag("p", *legend, class_="soft legend"))


def ways_html(plan: Plan, *, asked_for: bool) -> Markup:
    """Return every protocol that was weighed: those that nothing beats, then the rest.

    Where one was ``asked_for`` the choice can be left to the planner again.
    """
    own = plan.own
    rows = [one for one in (own, *plan.alternatives) if one is not None]
    rows.sort(key=lambda one: one.error)
    best = [one for one in rows if one is own or not any(_beats(other, one) for other in rows)]
    rest = [one for one in rows if one not in best]
    # Where an error leads, each way has a promise of its own.
    promises = len({one.epsilon for one in rows}) > 1
    devices = ["messages", "bytes", "one lie moves", "left if they collude", "take it"]
    heads = [
        "way to protect",
        *(["privacy loss"] if promises else []),
        "error (one s.e.)",
        *(devices if plan.view == MESSAGES else []),
    ]
    of = "privacy, error, messages" if promises else "error, messages"
    caption = f"Unbeaten: nothing is better in {of} and what is left at once"
    leave = tag("button", "let the planner choose", type="button", value="", class_="choose")

    def shown(some: Sequence[Candidate], caption: str) -> Markup:
        rows = [_way(one, plan, chosen=one is own, promises=promises) for one in some]
        return table(heads, rows, caption)

    return join(
        shown(best, caption if plan.view == MESSAGES else "What one party may add"),
        folded(
            f"{len(rest)} that are beaten, or ruled out",
            shown(rest, "Beaten or ruled out"),
            id_="beaten",
        )
        if rest
        else "",
        tag("p", plan.choice, " ", leave if asked_for else "", class_="soft"),
    )


def _beats(one: Candidate, other: Candidate) -> bool:
    """Return whether a way is better in what is shown of both, and worse in nothing of it."""
    ours, theirs = map(_compared, (one, other))
    better = ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))
    return better and not one.ruled_out


def _compared(one: Candidate) -> tuple[float, ...]:
    shown = one.epsilon, one.error, one.messages, one.local_epsilon
    return tuple(float(f"{rounded_up(number):.3g}") for number in shown)


def _way(one: Candidate, plan: Plan, *, chosen: bool, promises: bool) -> Iterator[Any]:
    yield join(tag("span", "chosen", class_="badge") if chosen else "", " ", row_name(one.name))
    if promises:
        yield f"ε {promise_text(one.epsilon, 4)}"
    share = one.error / plan.reports
    error = f"± {error_text(100 * share)} %", _in_units(plan, share, error_text).lstrip()
    yield join(*(join(tag("span", one, class_="together"), " ") for one in error if one))
    if plan.view == TOTALS:
        return
    yield f"{one.messages:,.3g}"
    yield f"{one.report_bytes:,}"
    yield "; ".join(influences(one.parts, one.slots).values())
    left = left_words(one.local_epsilon).replace("epsilon ", "ε ")
    yield tag("b", left, class_="leak") if NO_PROTECTION in left else left
    if chosen:
        yield ""
    elif one.ruled_out:
        yield tag("span", "; ".join(one.ruled_out), class_="soft")
    elif useless_promise(one.epsilon, one.delta):
        yield tag("span", "protects nobody", class_="leak")
    else:
        yield tag("button", "choose", type="button", value=one.name, class_="choose")


def code_html(plan: Plan, asked: SurveyFile, text: str) -> Markup:
    """Return how to have the same plan without this page."""
    view = " --view totals" if plan.view == TOTALS else ""
    command = f"chaffinch plan survey.toml{view} --out survey.plan.json"
    links = [
        tag("a", name, href=f"./files/{name}", class_="file", data_file=name)
        for name in ("survey.toml", "survey.plan.json")
    ]
    return join(
        folded("The command", code_block(command, "the command"), id_="command"),
        folded("The Python", code_block(as_program(asked), "the program"), id_="python"),
        folded("survey.toml", code_block(text, "the survey file"), id_="toml"),
        folded("The exact curve", tag("p", "drawing …", class_="soft"), id_="curve", load="curve"),
        tag(
            "p",
            *(join(link, " ") for link in links),
            tag("span", f"plan {plan.id[:12]}", class_="soft"),
            class_="files",
        ),
    )


def example_html(plan: Plan) -> Markup:
    """Return what a release will look like: made-up shares, with the whiskers of this plan."""
    several = len(plan.questions) > 1
    drawn = [
        join(tag("h3", name) if several else "", _example(plan, name), _cells(plan, name))
        for name in list(plan.questions)[:_MOST_EXAMPLES]
    ]
    if all(map(_is_measured, plan.questions.values())):
        return join(*drawn)
    return join(*drawn, tag("p", f"{_whiskers(plan)}.", class_="soft"))


def _is_measured(question: Question) -> bool:
    return isinstance(question, Cross) and question.measure is not None


def _whiskers(plan: Plan) -> str:
    """Return how far whiskers reach, and what is taken for granted where that is not certain."""
    asked, margin = plan.questions.values(), plan.margin()
    value = "a value, means of groups aside," if any(map(_is_measured, asked)) else "a value"
    made, within = "Made-up shares, real whiskers", f"lands within ± {up(100 * margin)} %"
    if any(map(counts_gaps, asked)):
        # How exact a mean is follows from how many answered, which nobody knows beforehand.
        half = up(100 * plan.margin(answered=0.5))
        return f"{made}, if everybody answers: {value} {within}, or within ± {half} % if half do"
    words = f"{made}: in at least 95 of 100 collections {value} {within}"
    if not _counts(plan):
        return words + _in_units(plan, margin, up)
    far, unit = margin * plan.reports, _unit(plan)
    return f"{words}, or {up(far)} {unit}. A value in fewer than {up(2 * far)} {unit} drowns"


def _cells(plan: Plan, name: str) -> Markup:
    """Return what a cell of a crossed question is, and what else a release says of it."""
    question = plan.part(name).question
    if not isinstance(question, Cross):
        return join()
    *groups, last = question.questions
    by, cell = " and ".join(groups), plan.part(name).labels[0]
    if question.measure is None:
        words = (
            f"“{cell}” is a cell: those who gave these answers to {by} and {last}. "
            f"The release also has the shares of {last} in each {by}."
        )
    else:
        levels = " or ".join(one for one in question.axes[-1] if one != MISSING)
        words = (
            f"Made-up means of groups of one size: a smaller group's mean is less exact. {last} is "
            f"rounded by chance to {levels}, which does not move its mean. The release also counts "
            f"the cells, such as “{cell}”."
        )
    return tag("p", words, class_="soft")


def _counts(plan: Plan) -> bool:
    return all(one.shape != "number" for one in plan.questions.values())


def _in_units(plan: Plan, share: float, written: Callable[[float], str]) -> str:
    """Return a share of what is possible in people, or in the unit of the only number."""
    if _counts(plan):
        return f" = {written(share * plan.reports)} {_unit(plan)}"
    question = plan.parts[0].question
    if len(plan.parts) > 1 or not isinstance(question, Number):
        return ""
    width = question.high - question.low
    return f" = {written(share * width)} {question.unit or 'of the mean'}"


def _example(plan: Plan, name: str) -> Markup:
    part, reports = plan.part(name), plan.reports
    margin = plan.margin(question=name)
    if isinstance(part.question, Cross) and part.question.measure is not None:
        chart = _means_example(part, part.question, reports)
    elif part.question.shape == "number":
        number = part.question
        assert isinstance(number, Number)  # noqa: S101 - nothing else has that shape
        width = number.high - number.low
        mean, half = number.low + 0.42 * width, margin * width
        chart = number_chart(
            name,
            (mean, mean - half, mean + half),
            level=_LEVEL,
            unit=number.unit,
            within=(number.low, number.high),
        )
    else:
        labels = part.labels[:_MOST_VALUES]
        weights = 1.0 / np.arange(1, len(labels) + 1)
        # Flags and a yes are held by some; of several values everybody has one.
        alone = part.question.shape == "flags" or len(labels) == 1
        shares = 0.6 * weights if alone else weights / weights.sum()
        # Of yes and no, yes is the larger share, as that of the slider below.
        shares = shares[::-1] if part.question.shape == "bit" else shares
        half = margin * reports
        wide = plan.margin(question=name, together=True) * reports

        def around(count: float, far: float) -> tuple[float, float]:
            return max(count - far, 0.0), min(count + far, float(reports))

        rows = [
            (label, count, around(count, half), around(count, wide))
            for label, count in zip(labels, (shares * reports).tolist(), strict=True)
        ]
        chart = counts_chart(name, rows, level=_LEVEL, unit=_unit(plan), crowd=reports)
    return tag("figure", Markup(chart.svg(name=f"example-{name}", styled=False)))


def _means_example(part: Part, question: Cross, reports: int) -> Picture:
    """Return means of groups of one size, drawn once from the law of the noise."""
    number, scores = question.measure, np.array(question.scores)
    assert number is not None  # noqa: S101 - asked of crosses with a number only
    groups = math.prod(question.sizes[:-1])
    cells = np.zeros((groups, question.sizes[-1]))
    # Of each group so many are at the two ends of the range that this is its mean.
    means = np.linspace(0.3, 0.6, groups)
    cells[:, 0], cells[:, len(scores) - 1] = 1.0 - means, means
    ends = np.rint(np.cumsum(cells) * reports / groups).astype(np.int64)
    truth = Truth("choice", reports, np.diff(ends, prepend=0))
    (codes,) = draw_tallies(part, truth, 1, np.random.default_rng(_SEED))
    seen = part.protocol.read(part.question, codes, reports)
    joint = part.protocol.joint(question, seen.tallies, reports)
    estimates = seen.noise.estimate(seen.tallies, reports)
    found = crossed_answer(question, joint, estimates, reports, _LEVEL)
    rows = [
        (group_label(row), row.estimate, row[6:8], row[8:10])
        for row in found.of_kind("mean")[: _MOST_VALUES + 1]
    ]
    return measured_chart(
        found.name_of_means,
        rows,
        level=_LEVEL,
        unit=number.unit,
        within=(number.low, number.high),
    )


def price_task(tell: Tell, *, text: str, folder: str = "", view: str = MESSAGES) -> None:
    """Draw what promises cost, and tell for each stop of the dial what it would cost."""
    asked = read_survey(text, folder, view)
    delta = default_delta(asked.users) if asked.delta is None else asked.delta
    delta = delta if asked.target is None else asked.target.delta
    found = []
    tell({"step": f"0 of {len(_PRICED)}"})
    for one in asked.price(_PRICED, delta=delta):
        found.append(one)
        tell({"step": f"{len(found)} of {len(_PRICED)}"})
    if sum(one.plan is not None for one in found) < 2:
        nothing = tag("p", "There is no plan at other promises.", class_="soft")
        tell({"to": "price", "html": nothing})
        return
    marked = STOPS[len(STOPS) // 2] if asked.target is None else asked.target.epsilon
    chart = price_chart(found, marked=min(max(marked, STOPS[0]), STOPS[-1]), labelled=False)
    tell({"to": "price", "html": tag("figure", Markup(chart.svg(name="price", styled=False)))})
    tell({"stops": dial_stops(delta, chart)})


def curve_task(tell: Tell, *, text: str, folder: str = "", view: str = MESSAGES) -> None:
    """Draw the exact curve of a plan, with what others have published about it."""
    _, plan = planned(text, lambda name: tell({"step": name}), folder, view)
    tell({"step": "drawing the curve"})
    drawn = privacy_curve(plan.mechanism())
    caption = tag("figcaption", drawn.caption, class_="soft")
    tell(
        {
            "to": "curve-inside",
            "html": tag("figure", Markup(drawn.svg(name="curve", styled=False)), caption),
        }
    )


TASKS = {"plan": plan_task, "price": price_task, "curve": curve_task}
