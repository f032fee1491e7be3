"""Certificates of plans in which some people may lie: proven with the chance of too few of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.errors import GuaranteeNotProven
from chaffinch.planning.certificate import Certificate, certify
from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.plan import Plan
from chaffinch.wire.documents import identified
from tests.tools.checker import checker

Document = dict[str, Any]


@pytest.fixture(scope="module")
def proven() -> tuple[Plan, Document]:
    target = cf.Target(1.0, 1e-6)
    plan = cf.plan(cf.Bit(), users=300, target=target, max_messages=1, honest=0.9)
    return plan, plan.certificate().document()


def verdict(plan: Document, certificate: Document) -> str:
    """Return the line of the checker, or why it refuses."""
    try:
        words = str(checker.check(certificate))
        return words + str(checker.check_plan(plan, certificate))
    except checker.Refused as reason:
        return f"refused: {reason}"


def changed(document: Document, change: Callable[[Document], object]) -> Document:
    """Return a document that was changed, with an id that fits."""
    copy = json.loads(json.dumps(document))
    change(copy)
    body = {key: value for key, value in copy.items() if key not in ("format", "id")}
    return identified(copy["format"], body)


def test_the_checker_charges_what_the_plan_does(proven: tuple[Plan, Document]) -> None:
    plan, certificate = proven
    honest = {"share": "0.9", "reading": "independent"}
    assert certificate["claim"]["honest"] == honest
    assert certificate["claim"]["reports"] == plan.reports
    line = verdict(plan.document(), certificate)
    assert "crowd: 300 of 380, each honest with a chance of 0.9;" in line, line
    own = checker.short_crowd(300, plan.reports, Fraction(9, 10))
    assert own <= plan.shortfall <= own * Fraction(102, 100)


def test_both_sides_bound_the_exact_chance() -> None:
    for users, share in ((1, "0.5"), (2, "0.001"), (3, "0.999"), (40, "0.75"), (300, "0.9")):
        h = Fraction(share)
        for more in (0, 1, 10, 90):
            reports = math.ceil(users / h) + more
            hit, miss = h.numerator, h.denominator - h.numerator
            ways = sum(
                math.comb(reports - 1, k) * hit**k * miss ** (reports - 1 - k)
                for k in range(users - 1)
            )
            exact = Fraction(ways, h.denominator ** (reports - 1))
            own = checker.short_crowd(users, reports, h)
            theirs = HonestShare(h).shortfall(users=users, reports=reports)
            assert exact <= own <= 1
            assert own == theirs or theirs / Fraction(102, 100) <= own <= theirs
    # A trillion people take no time, and lose no digits.
    own = checker.short_crowd(10**12, 10**12 + 10**9 + 10**6, Fraction(999, 1000))
    theirs = HonestShare(Fraction(999, 1000)).shortfall(
        users=10**12, reports=10**12 + 10**9 + 10**6
    )
    assert own == theirs or theirs / Fraction(102, 100) <= own <= theirs


FORGED: dict[str, tuple[Callable[[Document], object], str]] = {
    "a larger share": (lambda c: c["claim"]["honest"].update(share="0.95"), "something else"),
    "more reports": (lambda c: c["claim"].update(reports=400), "something else"),
    "too few reports": (lambda c: c["claim"].update(reports=340), "only proven"),
    "far too few": (lambda c: c["claim"].update(reports=1), "only proven"),
    "another reading": (
        lambda c: c["claim"]["honest"].update(reading="of the reports"),
        "not known here",
    ),
    "a share above one": (lambda c: c["claim"]["honest"].update(share="1.1"), "below 1"),
    "no share": (lambda c: c["claim"].update(honest=None), "other fields"),
    "a field more": (lambda c: c["claim"]["honest"].update(more=1), "other fields"),
    "a word": (lambda c: c["claim"].update(reports="380"), "whole number"),
    "nobody lies": (
        lambda c: (c["claim"].pop("honest"), c["claim"].pop("reports")),
        "something else",
    ),
}


def test_a_certificate_that_says_something_else_is_refused(
    proven: tuple[Plan, Document],
) -> None:
    plan, certificate = proven
    for name, (change, reason) in FORGED.items():
        found = verdict(plan.document(), changed(certificate, change))
        assert found.startswith("refused"), name
        assert reason in found, (name, found)


def test_a_plan_that_says_something_else_is_refused(proven: tuple[Plan, Document]) -> None:
    plan, certificate = proven
    for change, reason in (
        (lambda p: p["crowd"]["honest"].update(share="0.95"), "something else"),
        (lambda p: p["crowd"].update(reports=400), "something else"),
        (lambda p: p["crowd"].pop("honest"), "something else"),
        (lambda p: p["guarantee"].update(crowd="300 honest users"), "in its words"),
    ):
        forged = changed(plan.document(), change)
        about = changed(certificate, lambda c, forged=forged: c.update(plan=forged["id"]))  # type: ignore[misc]
        found = verdict(forged, about)
        assert found.startswith("refused"), found
        assert reason in found, found


def test_what_leaves_no_room_gets_no_certificate(proven: tuple[Plan, Document]) -> None:
    plan, _ = proven
    with pytest.raises(GuaranteeNotProven, match=r"too few honest people .* Got 1,"):
        certify(replace(plan, reports=334, shares=()))
    # What a report itself keeps needs no honest people.
    local = plan.guarantee.local_epsilon
    alone = replace(plan, reports=334, epsilon=1.01 * local, shares=())
    alone.verify()
    assert "refused" not in verdict(alone.document(), certify(alone).document())


@pytest.mark.long
def test_rounds_are_charged_one_by_one() -> None:
    made = cf.plan(
        cf.Bit(), users=200, target=cf.Target(2.0, 1e-4), max_messages=1, honest=0.8, rounds=2
    )
    certificate: Certificate = made.certificate()
    assert "proven" not in verdict(made.document(), certificate.document())
    few = changed(certificate.document(), lambda c: c["claim"].update(reports=262))
    assert "refused" in verdict(made.document(), few)
