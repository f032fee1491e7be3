"""How many steps numbers have whose quantiles are asked for: as many as the crowd is worth."""

from __future__ import annotations

import math

import pytest

import chaffinch as cf
from chaffinch.planning.candidates import choose_variants, tuned_parts
from chaffinch.planning.wishes import _task
from chaffinch.protocols import Encoded, Totals
from chaffinch.protocols.tuning import quantile_width, steps_for_quantiles
from tests.tiers import nightly

NUMBER = cf.Number(0, 60, quantiles=True)


def planned(users: int, view: str) -> Encoded | Totals:
    target = cf.Target(1.0, 1e-6)
    protocol = cf.plan(NUMBER, users=users, target=target, view=view).part().protocol
    assert isinstance(protocol, (Encoded, Totals))
    return protocol


@pytest.mark.parametrize(
    ("view", "users", "steps"),
    [
        ("totals", 1000, 32),
        ("totals", 6366, 128),
        ("totals", 10**5, 512),
        ("messages", 1000, 16),
        nightly("messages", 6366, 64),
        nightly("messages", 10**5, 64),
    ],
)
def test_steps_grow_with_the_crowd(view: str, users: int, steps: int) -> None:
    """On devices until the messages run out, of which a report has 64."""
    assert planned(users, view).resolution == steps


def test_the_number_of_steps_has_the_shortest_brackets() -> None:
    """Compared with all numbers, not powers of two alone."""
    for people in (300, 5_000, 100_000):
        chosen = steps_for_quantiles(0.25, people, 512)
        widths = [quantile_width(r, math.sqrt(r) / 0.25, people) for r in range(8, 513)]
        assert quantile_width(chosen, math.sqrt(chosen) / 0.25, people) < 1.1 * min(widths)


def test_where_an_error_leads_quantiles_count_too() -> None:
    """The mean is as exact with 8 steps; the quantiles are not."""
    made = cf.plan(NUMBER, users=1_000, error=cf.Error(0.03), delta=1e-6, max_messages=16)
    protocol = made.part().protocol
    assert isinstance(protocol, Encoded)
    assert protocol.resolution == 16


def test_a_survey_gives_quantiles_the_messages_that_others_leave() -> None:
    """A report has 64: an even share would be 21, and 16 steps."""
    survey = cf.Survey({"a": cf.Bit(), "b": cf.Choice(["x", "y"]), "c": NUMBER})
    task = _task(survey, 20_000, 1, 64, 1.0, 1, 1e-6)
    chosen = choose_variants(task, (1.0, 1e-6))
    assert [one.name for one in chosen][2] == "number in 32 bits, steps seen"
    parts = tuned_parts(chosen, 0.1, (1.0, 1e-6), 20_000, task)
    assert sum(part.sealed_messages for part in parts) <= 64
