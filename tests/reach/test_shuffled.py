"""Filters through the shuffler, the whole way: counted as foretold, charged once, and no other way.

The tests of ``test_simulated`` judge bias, standard errors and coverage here too, at a false-alarm
rate of 1e-6, for counts drawn from their law and for real filters of real ids.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from chaffinch import Ledger, reach
from chaffinch.errors import InvalidFile, InvalidInput, PlanMismatch
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.logos import Logos, count_logos, read_columns
from chaffinch.reach.planning.audience import Audience, Group, usual_groups
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.shuffler.hand_over import shuffle_with
from chaffinch.simulate import Publishers, draw_logos
from chaffinch.simulate.seeded import SeededWords
from chaffinch.wire.filter_files import Filter, ShuffledColumns
from tests.reach.publishing import made_up, small_plan
from tests.reach.test_simulated import RUNS, analyzed, estimated, faults
from tests.tiers import nightly

CROWD: dict[tuple[int, ...], int] = {(1, 0): 3000, (0, 1): 1500, (1, 1): 1000}
PEOPLE = Publishers(Audience(["daily", "radio"]), CROWD)
EVERYONE = Group(any_of=("daily", "radio"))
REAL_RUNS = 200


@lru_cache
def planned() -> ReachPlan:
    return reach.plan(
        PEOPLE.audience,
        sizes=PEOPLE.sizes,
        target=Target(1, 1e-6),
        shuffled=True,
        shuffler_target=Target(2, 1e-6),
        hashes=2,
    )


@lru_cache
def drawn() -> tuple[Logos, ...]:
    return tuple(draw_logos(planned(), PEOPLE, seed=4, run=run) for run in range(RUNS))


@lru_cache
def made() -> tuple[Logos, ...]:
    """Return what the real path makes of real ids, under another key each time."""
    found = []
    for run in range(REAL_RUNS):
        key = reach.new_key()
        filters = [
            reach.encode(
                [one for part in PEOPLE.id_columns(name) for one in part.to_pylist()],
                planned(),
                publisher=name,
                key=key,
            )
            for name in PEOPLE.audience.publishers
        ]
        found.append(read_columns(shuffle_with(filters, planned(), SeededWords(run)), planned()))
    return tuple(found)


@pytest.mark.long
@pytest.mark.parametrize("logos", [drawn, made])
def test_releases_are_as_exact_as_predicted(logos: Any) -> None:
    """All estimates; and of fewer collections the whole release, whose intervals take longer."""
    groups = usual_groups(PEOPLE.audience)
    assert faults(estimated(logos(), planned(), groups), planned(), PEOPLE) == []
    assert faults(analyzed(logos()[:40], planned()), planned(), PEOPLE) == []


def believing(flip: Fraction) -> ReachPlan:
    """Return the plan as somebody reads it who knows of these flips alone."""
    return replace(planned(), flip_probability=flip, shuffler=None)


@pytest.mark.parametrize("logos", [drawn, nightly(made)])
@pytest.mark.parametrize("whose", ["publishers", "shuffler"])
def test_a_belief_in_the_flips_of_one_of_them_is_seen(logos: Any, whose: str) -> None:
    between = planned().shuffler
    assert between is not None
    known = between.flip_probability if whose == "shuffler" else planned().flip_probability
    wrong = believing(known)
    found = faults(estimated(logos(), wrong, [EVERYONE]), wrong, PEOPLE)
    assert f"mean: {EVERYONE.name}" in found
    assert f"coverage: {EVERYONE.name}" in found


# ----------------------------------------------------------------- what the analyzer takes


@pytest.fixture
def plan() -> ReachPlan:
    return small_plan(bits=4096, shuffled=Fraction(1, 8))


@pytest.fixture
def filters(plan: ReachPlan) -> list[Filter]:
    return [made_up(plan, name) for name in plan.audience.publishers]


@pytest.fixture
def columns(plan: ReachPlan, filters: list[Filter], tmp_path: Path) -> ShuffledColumns:
    return reach.shuffle(filters, plan, record=tmp_path / "record")


def test_columns_are_taken_in_memory_and_from_a_file(
    plan: ReachPlan, columns: ShuffledColumns, tmp_path: Path
) -> None:
    path = tmp_path / "campaign.columns"
    columns.save(path)
    wanted = reach.analyze(columns, plan)
    for sources in ([columns], [path], [str(path)], [reach.load_columns(path)]):
        assert reach.analyze(sources, plan) == wanted
    assert wanted.key == columns.key
    assert wanted.flip == float(plan.all_flips)
    assert wanted.shuffler_guarantee == plan.shuffler_guarantee


def test_filters_never_go_to_the_analyzer_of_such_a_plan(
    plan: ReachPlan, filters: list[Filter], columns: ShuffledColumns, tmp_path: Path
) -> None:
    paths = []
    for one in filters:
        paths.append(tmp_path / f"{one.publisher}.filter")
        one.save(paths[-1])
    given: list[list[Any]] = [[*filters], [*paths], [columns, *filters], [paths[0]]]
    for sources in given:
        with pytest.raises(InvalidInput, match="shuffled columns, for a plan with") as caught:
            reach.analyze(sources, plan)
        assert "reach shuffle" in caught.value.hint
    with pytest.raises(InvalidInput, match="shuffled columns, for a plan with"):
        count_logos(filters, plan)


def test_columns_never_pass_for_filters(columns: ShuffledColumns, tmp_path: Path) -> None:
    keyed = small_plan(bits=4096)
    path = tmp_path / "campaign.columns"
    columns.save(path)
    for sources in ([columns], [path]):
        with pytest.raises(InvalidInput, match="without a shuffler"):
            reach.analyze(sources, keyed)
    forged = replace(columns, plan_id=keyed.id)
    with pytest.raises(InvalidInput, match="without a shuffler"):
        reach.analyze(forged, keyed)


def test_columns_of_another_plan_size_or_number_are_refused(
    plan: ReachPlan, columns: ShuffledColumns, tmp_path: Path
) -> None:
    with pytest.raises(PlanMismatch):
        reach.analyze(columns, small_plan(bits=8192, shuffled=Fraction(1, 8)))
    larger = columns.counts.copy()
    larger[0] += 4096
    with pytest.raises(InvalidInput, match="as in the plan"):
        reach.analyze(replace(columns, bits=8192, counts=larger), plan)
    for sources in ([], [columns, columns]):
        with pytest.raises(InvalidInput, match="must be 1"):
            reach.analyze(sources, plan)
    (tmp_path / "no.columns").write_text("{}")
    with pytest.raises(InvalidFile, match="shuffled columns"):
        reach.analyze([tmp_path / "no.columns"], plan)


def test_columns_with_too_few_flips_are_refused(plan: ReachPlan, columns: ShuffledColumns) -> None:
    clear = columns.counts * 0
    clear[0] = plan.bits
    with pytest.raises(InvalidInput, match="fewer set bits than flips alone make"):
        reach.analyze(replace(columns, counts=clear), plan)


def test_a_hand_over_is_charged_once(
    plan: ReachPlan, columns: ShuffledColumns, filters: list[Filter], tmp_path: Path
) -> None:
    ledger = Ledger.create(
        tmp_path / "a.ledger", role="analyzer", cap=Target(90, 1e-2), mark=tmp_path / "a.mark"
    )
    for _ in range(2):
        reach.analyze(columns, plan, ledger=ledger)
    assert len(ledger.entries()) == 1
    second = shuffle_with(filters, plan, SeededWords(1))
    with pytest.raises(InvalidInput, match="one for each collection"):
        reach.analyze(second, plan, ledger=ledger)
    # What is charged is what the analyzer sees: the shuffler's flips.
    assert ledger.entries()[0].charge.mechanism == plan.mechanism != plan.own_mechanism


def test_a_release_says_all_three_and_is_read_again(
    plan: ReachPlan, columns: ShuffledColumns, tmp_path: Path
) -> None:
    release = reach.analyze(columns, plan)
    release.save(tmp_path / "release.json")
    assert reach.load_release(tmp_path / "release.json") == release
    statement = release.statement()
    terms = dict(statement.terms)
    assert "by the shuffler's flips alone" in terms["Against analyzer and publishers"]
    assert "by the publishers' own flips" in terms["Against the shuffler"]
    assert "at the other publishers" in terms["Against shuffler and key"]
    assert "not on any publisher" in statement.trust
    assert "also if other publishers help" in statement.promise
    assert all(words in release.page() for words in ("Against the shuffler", "again by the"))


def test_one_publisher_and_a_shuffler(tmp_path: Path) -> None:
    alone = small_plan(["daily"], bits=4096, shuffled=Fraction(1, 8))
    columns = reach.shuffle([made_up(alone, "daily")], alone, record=tmp_path)
    release = reach.analyze(columns, alone)
    assert "if it has the campaign key" in release.statement().trust
    assert "if a publisher tells it" in dict(release.statement().terms)["Against shuffler and key"]
