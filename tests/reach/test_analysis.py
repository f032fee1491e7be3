"""What is analyzed belongs together, and what is said of it is on the safe side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chaffinch.errors import InvalidFile, InvalidInput, PlanMismatch
from chaffinch.ledger import Ledger
from chaffinch.privacy import Target
from chaffinch.reach import ReachRelease, encode, new_key
from chaffinch.reach.analyzer.logos import Logos, count_logos
from chaffinch.reach.analyzer.reach_analysis import analyze
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.id_rule import IdRule
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.planning.reach_planner import plan
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


def test_an_estimate_below_nothing_is_explained_by_its_name() -> None:
    release = analyze(LOGOS, PLAN)
    below = [row.group for row in release.rows if row.estimate < 0]
    assert below
    (note,) = [one for one in release.notes if "below 0" in one]
    assert all(name in note for name in below)
    for shown in (str(release), release.page(), release._repr_html_()):
        assert "means few ids or none" in shown


def lists(shared: int, size: int = 20_000) -> list[list[str]]:
    first = [f"u{n}@example.org" for n in range(size)]
    return [first, [*first[:shared], *(f"v{n}@example.org" for n in range(size - shared))]]


def counted(found: ReachPlan, *sources: list[str]) -> ReachRelease:
    key = new_key()
    names = found.audience.publishers
    filters = [
        encode(ids, found, publisher=name, key=key, told=lambda _: None)
        for name, ids in zip(names, sources, strict=True)
    ]
    return analyze(filters, found, level=1 - 1e-7)


USUAL = plan(Audience(["daily", "radio"]), sizes=[20_000] * 2, target=Target(1, 1e-6))


def test_publishers_who_share_less_than_noise_are_told_to_look_at_their_spelling() -> None:
    one, other = lists(10_000)
    loud = [text.upper() for text in other]
    (warned,) = [note for note in counted(USUAL, one, loud).notes if "told from noise" in note]
    assert "daily and radio (at most " in warned
    assert "spell an id in the same way" in warned
    assert "takes ids as they are" in warned
    ruled = replace(USUAL, ids=IdRule("e-mail"))
    assert not any("told from noise" in note for note in counted(ruled, one, loud).notes)
    (apart,) = [note for note in counted(ruled, *lists(0)).notes if "told from noise" in note]
    assert "rule is e-mail" in apart


def test_one_list_of_two_publishers_is_told_and_two_lists_are_not() -> None:
    same, _ = lists(0)
    (warned,) = [note for note in counted(USUAL, same, same).notes if "from one list" in note]
    assert warned.startswith("Warning")
    assert "daily and radio" in warned
    for shared in (0, 10_000, 17_000):
        assert not any("from one list" in note for note in counted(USUAL, *lists(shared)).notes)


def test_no_interval_looks_like_certainty() -> None:
    """Columns of one list under two names: now and then they reject every number of ids apart."""
    three = small_plan(["daily", "radio", "shop"], bits=1 << 12, flip=PLAN.flip_probability)
    own = made_up(three, "daily", load=0.2).rows
    logos = count_logos(
        [replace(made_up(three, name, load=0.2), rows=own) for name in three.audience.publishers],
        three,
    )
    # Fewer columns of one publisher alone than flips would make: all three were flipped as one.
    release = analyze(logos, three)
    only = [row for row in release.rows if row.kind == "only"]
    assert all(row.estimate < -3 * row.standard_error for row in only)
    for row in release.rows:
        assert row.high >= row.low + row.standard_error or row.low > 0
        assert row.high_together >= row.high


@pytest.mark.parametrize(("share", "warned"), [(1.0, False), (0.7, False), (0.3, True), (3, True)])
def test_a_list_far_from_its_planned_size_is_told(share: float, *, warned: bool) -> None:
    short = [f"w{n}" for n in range(int(share * 20_000))]
    notes = [note for note in counted(USUAL, lists(0)[0], short).notes if "expected" in note]
    assert len([note for note in notes if "radio has about" in note]) == warned
    assert not any("daily has about" in note for note in notes)


def test_rows_are_found_by_either_name() -> None:
    release = analyze(LOGOS, PLAN, groups=[Group(all_of=("daily", "radio"))])
    assert release.row("all publishers") == release.row("daily or radio") == release.reach
    assert release.row("only daily") == release.row("daily, not radio")
    group = Group(all_of=("daily", "radio"))
    assert release.row(group) == release.row(group.name)
    with pytest.raises(InvalidInput, match="did you mean 'daily and radio'"):
        release.row("daily and radi")
    with pytest.raises(InvalidInput, match="there is no publisher 'tv'"):
        release.row("daily and tv")
    with pytest.raises(InvalidInput, match="groups="):
        release.row(Group(any_of=("daily", "radio"), times=2))


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


def test_a_filter_that_is_there_twice_is_named_by_its_files(tmp_path: Path) -> None:
    for name, load in (("daily", 0.2), ("radio", 0.2), ("other", 0.1)):
        of = "radio" if name == "other" else name
        made_up(PLAN, of, load=load).save(tmp_path / f"{name}.filter")
    with pytest.raises(InvalidInput, match=r"2 of 'radio': other\.filter, radio\.filter"):
        analyze([tmp_path / "*.filter"], PLAN)


def test_a_folder_or_a_pattern_names_all_filters(tmp_path: Path) -> None:
    for name in PLAN.audience.publishers:
        made_up(PLAN, name, load=0.2).save(tmp_path / f"{name}.filter")
    wanted = analyze([tmp_path / f"{name}.filter" for name in PLAN.audience.publishers], PLAN)
    for source in (tmp_path, tmp_path / "*.filter"):
        assert analyze([source], PLAN).rows == wanted.rows
    with pytest.raises(InvalidFile, match="that some file fits"):
        analyze([tmp_path / "*.none"], PLAN)
