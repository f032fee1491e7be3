"""Reach: how many people several publishers have together, planned before anybody sends."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from chaffinch import Audience, Target, reach
from chaffinch.charts.rounding import bytes_for_people, error_text
from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import left_words
from chaffinch.reach.planning.audience import usual_groups
from chaffinch.reach.planning.id_rule import IdRule
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.planning.reach_planner import CHOICE, reach_target
from chaffinch.web.controls import CONTROLS
from chaffinch.web.frame import card, code_block, facts, folded, table
from chaffinch.web.markup import Markup, join, tag
from chaffinch.web.plan_panel import dots
from chaffinch.web.survey_form import bare_number
from chaffinch.web.worker import Tell

_BETWEEN = ",; \t\r\n"
_PUBLISHER = re.compile(
    r"(?:(?P<alone>[^=,;\n]+?)[ \t]+|(?P<name>[^=\n]+?)[ \t]*=[ \t]*)"
    r"(?P<size>[0-9]{1,3}(?:[,_ \u2009\u202f][0-9]{3})+(?![0-9])"
    r"|[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]{1,2})?)(?=[,;\s]|$)(?![ \t]*=)"
)
"""A name and a number, with or without a sign between them; names may have numbers in them."""
_MOST_ROWS, _MOST_PAIRS = 10, 6
"""Errors of what two publishers share are foretold of so many rows and pairs."""
_RULES = {
    "as-is": "taken as they are",
    "e-mail": "e-mail addresses",
    "phone": "phone numbers",
    "lower-case": "texts in any letters",
}
"""What ids may be, by the rule that spells them."""
_PUBLISHERS = "daily = 1,200,000\nradio = 400,000\nshop = 250,000"


def reach_page() -> Iterator[Markup]:
    """Yield the panel with its blanks filled in."""
    publishers = tag(
        "label",
        tag("span", "publishers, with how many ids each expects", class_="soft"),
        tag("textarea", _PUBLISHERS, name="publishers", rows=5, aria_label="publishers"),
        class_="block",
    )
    rules = [tag("option", words, value=name) for name, words in _RULES.items()]
    fields = [
        ("ids are", tag("select", *rules, name="ids", class_="box", aria_label="ids are")),
        ("privacy loss, ε", _box("epsilon", "epsilon", "1")),
        ("chance of a miss, δ", _box("delta", "delta", "1e-8")),
        ("views counted", _box("frequencies", "views counted", "1")),
        (
            CONTROLS["shuffled"],
            tag(
                "label",
                tag("input", type="checkbox", name="shuffled", value="1"),
                " the promise then holds even if publishers help the analyzer",
            ),
        ),
    ]
    yield tag(
        "form",
        tag("input", type="hidden", name="hashes"),
        card(
            "Who has an audience",
            publishers,
            facts(fields),
            folded("more: title, phone numbers, what is left", facts(_more()), id_="more"),
            tag("output", "", id="state", role="status"),
        ),
        tag("div", id="faults"),
        tag("div", id="reach"),
        id="reaching",
        method="post",
        autocomplete="off",
    )


def _box(name: str, label: str, value: str = "") -> Markup:
    return tag("input", name=name, value=value, class_="box", aria_label=label)


def _more() -> list[tuple[str, Markup]]:
    def noted(name: str, label: str, note: str) -> tuple[str, Markup]:
        return label, join(_box(name, label), " ", tag("span", note, class_="soft"))

    return [
        noted("title", "title", "for readers"),
        noted("country_code", "country code", "of phone numbers without a plus, such as 49"),
        noted("trunk", "trunk prefix", "what people dial first there: 0, 1, or nothing"),
        noted("shuffler_epsilon", "shuffler’s ε", "against the shuffler itself; empty: the same"),
        noted("local_epsilon", "left to a colluder", "the largest ε, with a shuffler; or none"),
    ]


def reach_task(tell: Tell, *, form: Mapping[str, str]) -> None:
    """Plan the filters of several publishers."""
    began = time.monotonic()
    sizes, hashes = _sizes(form.get("publishers", "")), form.get("hashes", "")
    target = reach_target(
        _real("epsilon", form.get("epsilon", "")), _real("delta", form.get("delta", ""))
    )
    against = _wished(form, "shuffler_epsilon")
    make = partial(
        reach.plan,
        Audience(list(sizes), frequencies=_whole("views counted", form.get("frequencies", "1"))),
        sizes=sizes,
        target=target,
        ids=_rule(form),
        shuffled="shuffled" in form,
        shuffler_target=None if against is None else Target(against, target.delta),
        local_epsilon=_wished(form, "local_epsilon"),
        title=form.get("title", "").strip(),
        progress=lambda words: tell({"step": words}),
    )
    plan = make()
    if hashes and _whole("hashes", hashes) != plan.hashes:
        # What was weighed stays in sight, so that another one can be chosen.
        wished = make(hashes=_whole("hashes", hashes))
        (own,) = wished.options
        options = (own if one.hashes == own.hashes else one for one in plan.options)
        plan = replace(wished, options=tuple(options))
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
    name = "reach.plan.json"
    link = tag("a", name, href=f"./files/{name}", class_="file", data_file=name)
    wished = bool(form.get("hashes"))
    program = _program(plan, form, wished=wished)
    return join(
        tag("div", _promised(plan), _expected(plan), class_="pair"),
        folded(
            "Why is that true?",
            *(tag("p", one) for one in plan.explain().split("\n\n")),
            id_="why",
        ),
        _weighed(plan, wished=wished),
        folded(
            "The command",
            code_block(_command(plan, sizes, form, wished=wished), "the command"),
            id_="command",
        ),
        folded("The Python", code_block(program, "the program"), id_="python"),
        tag("p", link, tag("span", f"plan {plan.id[:12]}", class_="soft"), class_="files"),
    )


def _promised(plan: ReachPlan) -> Markup:
    odds = plan.guarantee.odds
    sentence = tag(
        "p",
        "Of 100 people who guess whether an id is in these audiences or in none of them, at most ",
        tag("strong", f"{odds.right}", class_="odds"),
        " are right.",
        class_="large",
    )
    return card("What each id is promised", sentence, dots(odds))


def _expected(plan: ReachPlan) -> Markup:
    several = len(plan.sizes) > 1
    found: dict[str, str] = {"reach of all together": f"± {error_text(plan.standard_error)} ids"}
    if several and plan.audience.rows <= _MOST_ROWS:
        pairs = [one for one in usual_groups(plan.audience) if len(one.all_of) == 2]
        errors = plan.foretold_errors(pairs[:_MOST_PAIRS])
        found |= {name: f"± {error_text(error)} ids" for name, error in errors.items()}
    found["a filter to send"] = bytes_for_people(plan.filter_bytes)
    if several:
        left = join(_left(plan.colluding_epsilon), ", for an id at the other publishers")
        found[f"left if a publisher helps {_helped(plan)}"] = left
    found["ids"] = f"{plan.ids.sentence}."
    words = "Errors are one standard error, if no two publishers share an id."
    return card("What you will see", facts(found.items()), tag("p", words, class_="soft"))


def _helped(plan: ReachPlan) -> str:
    return "the analyzer" if plan.shuffler is None else "the shuffler"


def _left(epsilon: float) -> Markup:
    before, word, rest = left_words(epsilon).partition("epsilon ")
    if not word:
        return join(before)
    number = rest.removesuffix(")")
    kept = tag("span", f"ε\u00a0{number}", class_="together")
    # One piece: on phones the parts of a cell would stand beside one another.
    return tag("span", before, kept, rest.removeprefix(number))


def _weighed(plan: ReachPlan, *, wished: bool) -> Markup:
    def choose(words: str, hashes: int | str = "") -> Markup:
        return tag("button", words, type="button", class_="choose", value=hashes)

    badge = tag("span", "chosen", class_="badge")
    rows = [
        (
            join(f"{one.hashes} ", badge if plan.is_chosen(one) else ""),
            f"{one.bits:,}",
            f"± {error_text(one.standard_error)}",
            *([_left(plan.left_to_colluder(one))] * (len(plan.sizes) > 1)),
            "" if plan.is_chosen(one) else choose("choose", one.hashes),
        )
        for one in plan.options
    ]
    left = [f"left if a publisher helps {_helped(plan)}"] * (len(plan.sizes) > 1)
    why = "Chosen because it was asked for." if wished else f"{CHOICE}. More hashes leave less."
    return card(
        "Filters that were weighed",
        table(
            ("hashes", "bits", "error of the reach", *left, "take it"),
            rows,
            "The chosen one is calibrated, the others are guesses",
        ),
        tag("p", why, " ", choose("let the planner choose") if wished else "", class_="soft"),
    )


def _program(plan: ReachPlan, form: Mapping[str, str], *, wished: bool) -> str:
    """Return a program that makes the same plan."""
    often = f", frequencies={plan.frequencies}" if plan.frequencies > 1 else ""
    rule, left = plan.ids, _wished(form, "local_epsilon")
    ids = repr(rule.name)
    if rule.country_code is not None:
        ids = f"reach.IdRule({ids}, country_code={rule.country_code!r}, trunk={rule.trunk!r})"
    own = _wished(form, "shuffler_epsilon")
    lines = [
        "from chaffinch import Audience, Target, reach",
        "",
        f"sizes = {dict(plan.publishers)!r}",
        "plan = reach.plan(",
        f"    Audience(list(sizes){often}),",
        "    sizes=sizes,",
        f"    target=Target({plan.epsilon!r}, {plan.delta!r}),",
        *([f"    hashes={plan.hashes},"] * wished),
        *([f"    ids={ids},"] * (rule.name != "as-is")),
        *(["    shuffled=True,"] * (plan.shuffler is not None)),
        *([f"    shuffler_target=Target({own!r}, {plan.delta!r}),"] * (own is not None)),
        *([f"    local_epsilon={left!r},"] * (left is not None)),
        *([f"    title={plan.title!r},"] * bool(plan.title)),
        ")",
        'plan.save("reach.plan.json")',
    ]
    return "\n".join(lines)


def _command(
    plan: ReachPlan, sizes: Mapping[str, int], form: Mapping[str, str], *, wished: bool
) -> str:
    publishers = (f"--publisher {shlex.quote(f'{name}={size}')}" for name, size in sizes.items())
    words = [
        "chaffinch reach plan",
        *publishers,
        f"--epsilon {plan.epsilon!r} --delta {plan.delta!r}",
        f"--frequencies {plan.frequencies}" if plan.frequencies > 1 else "",
        f"--hashes {plan.hashes}" if wished else "",
        *_ids_options(plan.ids),
        "--shuffled" if "shuffled" in form else "",
        *(
            f"--{name.replace('_', '-')} {wish!r}"
            for name in ("shuffler_epsilon", "local_epsilon")
            if (wish := _wished(form, name)) is not None
        ),
        f"--title {shlex.quote(plan.title)}" if plan.title else "",
        "--out reach.plan.json",
    ]
    return " ".join(filter(None, words))


def _rule(form: Mapping[str, str]) -> IdRule:
    """Return how ids are spelled; what the fields of phone numbers hold counts for them alone."""
    name, code = form.get("ids", "as-is"), form.get("country_code", "").strip().lstrip("+")
    if name != "phone" or not code:
        return IdRule(name)
    return IdRule(name, country_code=code, trunk=form.get("trunk", "").strip())


def _ids_options(rule: IdRule) -> list[str]:
    if rule.name == "as-is":
        return []
    if rule.country_code is None:
        return [f"--ids {rule.name}"]
    return [f"--ids {rule.name} --country-code {rule.country_code} --trunk {rule.trunk or 'none'}"]


def _wished(form: Mapping[str, str], name: str) -> float | None:
    """Return a number that somebody wished for, or None where the field is empty."""
    text = form.get(name, "").strip()
    return _real(name.replace("_", " "), text) if text else None


def _sizes(text: str) -> dict[str, int]:
    """Return the sizes of publishers, with commas, spaces or new lines between them.

    >>> _sizes("daily news = 1,200,000, radio=4e5; shop 250 000")
    {'daily news': 1200000, 'radio': 400000, 'shop': 250000}
    """
    found: dict[str, int] = {}
    rest = text.strip(_BETWEEN)
    while rest:
        one = _PUBLISHER.match(rest)
        if one is None:
            raise _no_publisher(rest.splitlines()[0])
        name = (one.group("alone") or one.group("name")).strip()
        if name in found:
            raise InvalidInput("publisher", "named once", name)
        found[name] = _whole(f"ids of {name}", one.group("size"))
        rest = rest[one.end() :].lstrip(_BETWEEN)
    return found


def _no_publisher(said: str) -> InvalidInput:
    name, sign, size = map(str.strip, said.partition("="))
    if sign and name:
        return InvalidInput(f"ids of {name}", "a whole number", size)
    return InvalidInput("publisher", "a name and a number, such as daily = 1,200,000", said)


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
