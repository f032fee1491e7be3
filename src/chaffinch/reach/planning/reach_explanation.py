"""A reach plan in plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaffinch.cards import card, paragraph, table
from chaffinch.charts.rounding import bytes_for_people, rounded_up
from chaffinch.plans.meaning import odds, promise_words, useless_promise
from chaffinch.privacy.guarantee import left_words, promised

if TYPE_CHECKING:
    from chaffinch.privacy import Guarantee
    from chaffinch.reach.planning.reach_plan import ReachPlan


def protected_ids(publishers: int) -> str:
    """Return what a promise covers, in words; nowhere else is it said what is protected.

    >>> protected_ids(1), protected_ids(3)
    ('one id', 'one id, at all 3 publishers together')
    """
    where = {1: "", 2: ", at both publishers together"}
    return "one id" + where.get(publishers, f", at all {publishers} publishers together")


GUESS = "whether an id is in these audiences or in none of them"
"""What a promise for ids keeps people from telling."""


def reach_warnings(epsilon: float, delta: float) -> list[str]:
    """Return a warning where a promise for ids protects nobody."""
    return useless_promise(epsilon, delta, guess=GUESS)


def explain(plan: ReachPlan) -> str:
    """Return what is promised, against whom it holds, what is done, and how exact it will be."""
    warnings = [f"Warning: {words}" for words in plan.warnings]
    told = [_promise(plan), _odds(plan), _trust(plan), _beside(plan), _doing(plan), _error(plan)]
    return "\n\n".join([*warnings, *told])


def _promise(plan: ReachPlan) -> str:
    helped = (
        ""
        if plan.shuffler is None
        else " If publishers help the analyzer, the same holds for an id at the others."
    )
    said = promise_words(
        plan.guarantee,
        protected_ids(len(plan.sizes)),
        change="adding or removing it",
        seen="the analyzer can see",
    )
    return f"{said}, proven for all audiences.{helped}"


def _odds(plan: ReachPlan) -> str:
    seen = "all filters" if plan.shuffler is None else "all that the shuffler hands over"
    return f"In odds: {odds(plan.guarantee, guess=GUESS, seen=seen)}"


def _trust(plan: ReachPlan) -> str:
    if plan.shuffler_guarantee is not None:
        return _shuffler_trust(plan, plan.shuffler_guarantee)
    alone = f"epsilon {rounded_up(plan.guarantee.local_epsilon):g}"
    other = (
        f"A publisher who helps the analyzer brings that key: an id at the other publishers then "
        f"has epsilon {rounded_up(plan.colluding_epsilon):g} left.{_with_one_hash(plan)}"
        if len(plan.sizes) > 1
        else ""
    )
    return (
        "This counts on every publisher flipping its bits, and on the analyzer not having the "
        f"campaign key. Whoever has it sees which columns are whose, and only the flips are left: "
        f"{alone} for an id{' at all publishers' if other else ''}. {other}".strip()
    )


def _shuffler_trust(plan: ReachPlan, promise: Guarantee) -> str:
    several = len(plan.sizes) > 1
    return (
        "This counts on the shuffler alone, who is no publisher and never has the campaign key: "
        "whatever publishers do, it flips every bit itself, and hands over how many columns look "
        "alike, in no order. Against the shuffler itself, also if it works with the analyzer, the "
        f"publishers' own flips promise epsilon {promised(promise.epsilon, 6)} and delta "
        f"{promised(promise.delta, 3)}, if all of them flip and it does not have the key "
        f"({promise.method}, proven for all audiences). "
        + (
            "A publisher who helps the shuffler brings the key, and only the own flips are left to "
            f"an id at the other publishers: {left_words(plan.colluding_epsilon)}."
            f"{_with_one_hash(plan)}"
            if several
            else f"With the key, only the own flips are left: {left_words(promise.local_epsilon)}."
        )
    )


def _with_one_hash(plan: ReachPlan) -> str:
    """Return what the plan with most left to an id would cost, where both were weighed."""
    weighed = [one for one in plan.options if one.hashes == 1]
    if plan.hashes == 1 or not weighed:
        return ""
    best = min(weighed, key=lambda one: one.standard_error)
    total = sum(plan.sizes)
    return (
        f" With one hash for each id (--hashes 1, hashes=1) about epsilon "
        f"{rounded_up(plan.left_to_colluder(best)):.3g} would be left, and the standard error of "
        f"the reach of all would be about {best.standard_error:,.0f} "
        f"({best.standard_error / total:.2%}) instead of {plan.standard_error:,.0f} "
        f"({plan.standard_error / total:.2%})."
    )


def _beside(plan: ReachPlan) -> str:
    return (
        "Beside it, at the same delta and of less use: one replaced column, which is what the "
        "technical details of buffling (2020) count, has a proven epsilon of "
        f"{rounded_up(plan.column_guarantee.epsilon):g}; and if "
        "the pair of audiences that they take for the worst were the worst (worst-pair-assumed, "
        f"not proven), an id would have {rounded_up(plan.assumed_epsilon):g}."
    )


def _doing(plan: ReachPlan) -> str:
    often = plan.audience.frequencies
    rows = (
        f"one filter of {plan.bits:,} bits"
        if often == 1
        else f"{often} filters of {plan.bits:,} bits, for those seen at least 1 to {often} times"
    )
    each = "one bit" if plan.hashes == 1 else f"{plan.hashes} bits"
    return (
        f"{plan.ids.sentence}. Every publisher fills {rows}: each id sets {each}, chosen by a hash "
        "with the campaign key. Then every bit is flipped with a chance of "
        f"{float(plan.flip_probability):.3%}, and the filter "
        f"({bytes_for_people(plan.filter_bytes)}) is sent to the "
        f"{'analyzer' if plan.shuffler is None else 'shuffler'} alone: whoever has the "
        f"key can read it.{_shuffling(plan)} The key is for one collection only: with the same key "
        "a second one would show the same columns again."
    )


def _shuffling(plan: ReachPlan) -> str:
    if plan.shuffler is None:
        return ""
    return (
        " The shuffler flips every bit of every filter again, with a chance of "
        f"{float(plan.shuffler.flip_probability):.3%}, once and never again, and hands over how "
        f"many columns are alike; {float(plan.all_flips):.3%} of all bits are others in the end."
        f"{_sealed(plan)}"
    )


def _sealed(plan: ReachPlan) -> str:
    if plan.parties is None:
        return ""
    shuffler, analyzer = plan.parties.hops[0].name, plan.parties.analyzer.name
    return (
        f" The shuffler is {shuffler}, and the analyzer {analyzer}. Every filter is sealed for "
        f"{shuffler} and signed by its publisher, who sends one and no other under this plan."
    )


def _error(plan: ReachPlan) -> str:
    total = sum(plan.sizes)
    return (
        f"The reach of all, about {total:,} if no two publishers share an id, will have a standard "
        f"error of about {plan.standard_error:,.0f} ({plan.standard_error / total:.2%}; if they do "
        "share ids the error is not larger, but the reach is smaller); "
        f"{plan.limit:,.0f} of it would be there without any flips, because ids share columns."
    )


def plan_html(plan: ReachPlan) -> str:
    """Return a plan as notebooks show it."""
    rows = [
        [name, f"{size:,}"] for name, size in zip(plan.audience.publishers, plan.sizes, strict=True)
    ]
    promise = _odds(plan).removeprefix("In odds: ")
    return card(
        plan.title or "Reach plan",
        paragraph(promise[0].upper() + promise[1:]),
        table(["publisher", "expected ids"], rows),
        paragraph(_error(plan)),
        notes=[f"{plan.guarantee}.", f"plan {plan.id[:16]}"],
    )
