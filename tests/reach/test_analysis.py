"""What is analyzed belongs together, and what is said of it is on the safe side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chaffinch.analysis.audiences.analyze import analyze
from chaffinch.analysis.audiences.logos import Logos, count_logos
from chaffinch.errors import InvalidInput, PlanMismatch
from chaffinch.ledger import Ledger
from chaffinch.planning.audiences.audience import Audience, Group
from chaffinch.planning.audiences.planner import plan
from chaffinch.privacy import Target
from tests.reach.publishing import made_up, small_plan

PLAN = small_plan(bits=1 << 16, flip=small_plan().flip_probability / 8)
LOGOS = count_logos([made_up(PLAN, name, load=0.2) for name in PLAN.audience.publishers], PLAN)


def test_counts_of_another_plan_are_refused() -> None:
    with pytest.raises(PlanMismatch):
        analyze(replace(LOGOS, plan_id="0" * 64), PLAN)


@pytest.mark.parametrize(
    "counts", [LOGOS.counts * 10, LOGOS.counts[:-1], np.array([-1, 1, 0, PLAN.bits])]
)
def test_counts_that_cannot_be_are_refused(counts: np.typing.NDArray[np.int64]) -> None:
    with pytest.raises(InvalidInput, match="65536 in all"):
        analyze(Logos(PLAN.id, LOGOS.key, LOGOS.batches, counts), PLAN)


def test_negative_estimates_are_set_to_nothing_when_asked() -> None:
    plain, moved = (analyze(LOGOS, PLAN, adjustment=how) for how in ("none", "non-negative"))
    for one, other in zip(plain.rows, moved.rows, strict=True):
        assert other.estimate == max(one.estimate, 0.0)
        assert other[3:] == one[3:]
    assert any("set to 0" in note for note in moved.notes)
    assert any("below 0" in note for note in plain.notes)
    assert not any("below 0" in note for note in moved.notes)


def test_rows_are_found_by_either_name() -> None:
    release = analyze(LOGOS, PLAN, groups=[Group(all_of=("daily", "radio"))])
    assert release.row("all publishers") == release.row("daily or radio") == release.reach
    assert release.row("only daily") == release.row("daily, not radio")
    with pytest.raises(InvalidInput, match="did you mean 'daily and radio'"):
        release.row("daily and radi")


def test_a_publisher_of_such_a_name_is_found_by_it() -> None:
    names = ["daily", "only daily", "all publishers"]
    odd = small_plan(names, bits=1 << 16, flip=PLAN.flip_probability)
    release = analyze(count_logos([made_up(odd, name, load=0.2) for name in names], odd), odd)
    for name in names:
        assert release.row(name).kind == "publisher"


def test_sentences_never_promise_more_than_the_plan() -> None:
    target = Target(epsilon=1.1, delta=1.234564e-6)
    words = plan(Audience(["a", "b"]), sizes=[5000, 5000], target=target).explain()
    assert "e^1.1 = 3.01" in words
    assert "1.24e-06" in words


def test_many_publishers_say_what_is_left_out() -> None:
    names = [f"p{place}" for place in range(13)]
    many = small_plan(names, bits=1 << 20, flip=PLAN.flip_probability)
    logos = count_logos([made_up(many, name, load=0.01) for name in names], many)
    assert any("12 overlaps" in note for note in analyze(logos, many).notes)


def test_a_ledger_pays_for_rows_and_not_for_names(tmp_path: Path) -> None:
    """The attack: other rows, or other counts, under the names that were paid for."""
    filters = [made_up(PLAN, name, load=0.2) for name in PLAN.audience.publishers]
    cap = Target(epsilon=1000, delta=0.9)
    ledger = Ledger.create(tmp_path / "l", role="analyzer", cap=cap, mark=tmp_path / "m")
    paid = analyze(filters, PLAN, ledger=ledger)
    assert analyze(filters[::-1], PLAN, ledger=ledger).batch == paid.batch
    other = made_up(PLAN, filters[0].publisher, load=0.3)
    rewritten = replace(filters[0], rows=other.rows)
    logos = count_logos(filters, PLAN)
    moved = logos.counts.copy()
    moved[:2] += (1, -1)
    forged = replace(logos, counts=moved)
    for changed in ([rewritten, *filters[1:]], forged):
        with pytest.raises(InvalidInput, match="other filters that were charged"):
            analyze(changed, PLAN, ledger=ledger)
    assert len(ledger.entries()) == 1
