"""The shuffler of filters: what it flips, what it counts, what it refuses, and only once."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from chaffinch import reach, sampling
from chaffinch.disk.locks import lock_file
from chaffinch.errors import (
    BatchRepeated,
    FilterFull,
    GuaranteeNotProven,
    InvalidInput,
    PlanMismatch,
    StorageFault,
)
from chaffinch.reach.planning import alignment
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.shuffler.hand_over import HandedOver, shuffle, shuffle_with
from chaffinch.sampling import flip as right_flip
from chaffinch.simulate.seeded import SeededWords
from chaffinch.wire.filter_files import Filter
from tests.cases import each_case
from tests.reach.publishing import KEY, encode, made_up, small_plan
from tests.simulate.settings import ALARM

SHUFFLED = Fraction(1, 8)
RUNS = 400


def plan_of(bits: int = 1024, flip: Fraction = Fraction(1, 4), **more: Any) -> ReachPlan:
    return small_plan(bits=bits, flip=flip, shuffled=SHUFFLED, **more)


def filters_of(plan: ReachPlan) -> list[Filter]:
    return [made_up(plan, name) for name in plan.audience.publishers]


def empty_filters(plan: ReachPlan) -> list[Filter]:
    """Return filters without any set bit: whatever is seen of them was flipped by the shuffler."""
    rows = tuple(np.zeros(plan.bits // 64, np.uint64) for _ in range(plan.audience.frequencies))
    return [replace(one, rows=rows) for one in filters_of(plan)]


# ----------------------------------------------------------------- the law of the flips


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a chunk be 128 columns, so that a collection has many of them."""
    monkeypatch.setattr(alignment, "_WORDS", 2)


def drawn(plan: ReachPlan, filters: list[Filter]) -> NDArray[np.int64]:
    return np.array([shuffle_with(filters, plan, SeededWords(run)).counts for run in range(RUNS)])


def wrong_flips(counts: NDArray[np.int64], plan: ReachPlan) -> list[str]:
    """Return what is further off than chance allows, of empty filters flipped many times.

    Columns are independent, and so are the rows of each: the counts of one run are multinomial.
    """
    q = float(SHUFFLED)
    logos = np.arange(counts.shape[1])
    ones = np.bitwise_count(logos).astype(float)
    law = q**ones * (1 - q) ** (plan.audience.rows - ones)
    found = []
    total, expected = counts.sum(axis=0), law * counts.sum()
    off = float(((total - expected) ** 2 / expected).sum())
    if special.chdtrc(len(law) - 1, off) < ALARM / 3:
        found.append("law")
    # Each run's chi-square has the mean (logos − 1): more is flips that repeat within a run.
    each = ((counts - law * plan.bits) ** 2 / (law * plan.bits)).sum(axis=1)
    freedom = RUNS * (len(law) - 1)
    if special.chdtrc(freedom, float(each.sum())) < ALARM / 3:
        found.append("too much scatter")
    if special.chdtr(freedom, float(each.sum())) < ALARM / 3:
        found.append("too little scatter")
    return found


@pytest.mark.usefixtures("small_chunks")
def test_every_bit_of_every_row_is_flipped_with_the_plans_chance() -> None:
    plan = plan_of(bits=2048)
    assert wrong_flips(drawn(plan, empty_filters(plan)), plan) == []


def nothing(words: Any, row: Any, numerator: int, bits: int) -> None:
    pass


def a_tenth_less(words: Any, row: Any, numerator: int, bits: int) -> None:
    right_flip(words, row, numerator * 9 // 10, bits)


class _LeavingOut:
    """Flips all rows but the last one of each chunk, as for a publisher who flips itself."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, words: Any, row: Any, numerator: int, bits: int) -> None:
        self.calls += 1
        if self.calls % 2:
            right_flip(words, row, numerator, bits)


class _Together:
    """Flips both rows of a column at once."""

    def __init__(self) -> None:
        self.masks: list[NDArray[np.uint64]] = []

    def __call__(self, words: Any, row: Any, numerator: int, bits: int) -> None:
        if not self.masks:
            mask = np.zeros_like(row)
            right_flip(words, mask, numerator, bits)
            self.masks.append(mask)
            row ^= mask
        else:
            row ^= self.masks.pop()


class _Again:
    """Draws the flips of the first chunk and uses them for all."""

    def __init__(self) -> None:
        self.words: Any = None
        self.masks: list[NDArray[np.uint64]] = []
        self.place = 0

    def __call__(self, words: Any, row: Any, numerator: int, bits: int) -> None:
        if words is not self.words:
            self.words, self.masks, self.place = words, [], 0
        if len(self.masks) < 2:
            mask = np.zeros_like(row)
            right_flip(words, mask, numerator, bits)
            self.masks.append(mask)
        row ^= self.masks[self.place % 2]
        self.place += 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("fault", [nothing, a_tenth_less, _LeavingOut(), _Together(), _Again()])
def test_other_flips_are_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(bits=2048)
    monkeypatch.setattr(sampling, "flip", fault)
    assert wrong_flips(drawn(plan, empty_filters(plan)), plan)


@pytest.mark.usefixtures("small_chunks")
def test_what_was_set_is_counted_in_the_order_of_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(bits=256, frequencies=2)
    filters = filters_of(plan)
    monkeypatch.setattr(sampling, "flip", nothing)
    told: list[tuple[int, int | None]] = []
    found = shuffle_with(
        filters[::-1], plan, SeededWords(1), progress=lambda done, of: told.append((done, of))
    )
    rows = [row for one in filters for row in one.rows]
    for place, row in enumerate(rows):
        ones = found.counts.reshape(-1, 2, 1 << place)[:, 1].sum()
        assert ones == np.bitwise_count(row).sum()
    assert told == [(128, 256), (256, 256)]
    assert (found.bits, found.rows) == (256, 4)


def test_words_decide_everything() -> None:
    plan = plan_of()
    filters = filters_of(plan)
    first, again, other = (
        shuffle_with(filters, plan, SeededWords(seed)).content() for seed in (1, 1, 2)
    )
    assert first == again
    assert json.loads(first)["batch"] != json.loads(other)["batch"]


def test_every_column_of_many_is_counted_once() -> None:
    plan = plan_of(bits=1 << 14)
    found = shuffle_with(filters_of(plan), plan, SeededWords(1))
    assert found.counts.sum() == plan.bits


@pytest.mark.usefixtures("small_chunks")
def test_how_far_it_is_is_told(tmp_path: Path) -> None:
    plan, told = plan_of(bits=512), list[tuple[int, int | None]]()
    shuffle(filters_of(plan), plan, record=tmp_path, progress=lambda *far: told.append(far))
    assert told == [(128, 512), (256, 512), (384, 512), (512, 512)]


def test_one_publisher_is_shuffled_as_many_are(tmp_path: Path) -> None:
    plan = plan_of(publishers=("daily",))
    handed = shuffle(filters_of(plan), plan, record=tmp_path)
    assert shuffle(filters_of(plan), plan, record=tmp_path).content() == handed.content()
    with pytest.raises(ValueError, match="read-only"):
        shuffle_with(filters_of(plan), plan, SeededWords(1)).counts[0] = 1


def test_filters_stay_as_they_are() -> None:
    plan = plan_of()
    filters = filters_of(plan)
    before = [one.rows[0].copy() for one in filters]
    shuffle_with(filters, plan, SeededWords(1))
    assert all((a == b.rows[0]).all() for a, b in zip(before, filters, strict=True))


# ----------------------------------------------------------------- what it refuses


REFUSED: dict[str, tuple[Callable[[list[Filter]], list[Filter]], str]] = {
    "one is missing": (lambda two: two[:1], "none of 'radio'"),
    "none": (lambda _: [], "number of filters"),
    "one twice": (lambda two: [*two, two[0]], "2 of 'daily'"),
    "another key": (lambda two: [two[0], replace(two[1], key="0" * 32)], "one campaign key"),
    "another name": (lambda two: [two[0], replace(two[1], publisher="shop")], "one of"),
    "one filter as two": (
        lambda two: [two[0], replace(two[0], publisher="radio")], "the same batch",
    ),
}  # fmt: skip


@each_case("name", REFUSED)
def test_what_does_not_belong_together_is_refused(name: str, tmp_path: Path) -> None:
    change, words = REFUSED[name]
    plan = plan_of()
    with pytest.raises(InvalidInput, match=words):
        shuffle(change(filters_of(plan)), plan, record=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_filters_and_plans_of_another_kind_are_refused(tmp_path: Path) -> None:
    plan, keyed = plan_of(), small_plan()
    with pytest.raises(PlanMismatch):
        shuffle(filters_of(keyed), plan, record=tmp_path)
    with pytest.raises(InvalidInput, match="one with a shuffler"):
        shuffle(filters_of(keyed), keyed, record=tmp_path)
    with pytest.raises(InvalidInput, match="one with a shuffler"):
        shuffle_with(filters_of(keyed), keyed, SeededWords(1))


def test_a_plan_that_does_not_keep_its_promise_is_not_run(tmp_path: Path) -> None:
    plan = replace(plan_of(), epsilon=0.01)
    with pytest.raises(GuaranteeNotProven):
        shuffle(filters_of(plan), plan, record=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_filters_may_come_in_files(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    paths = [tmp_path / one.publisher for one in filters]
    for one, path in zip(filters, paths, strict=True):
        one.save(path)
    handed = shuffle([paths[0], filters[1]], plan, record=tmp_path / "record")
    assert shuffle(filters, plan, record=tmp_path / "record").content() == handed.content()


def test_a_full_or_clear_filter_is_shuffled_as_any_other(tmp_path: Path) -> None:
    """To refuse it would tell what it holds; the analyzer sees flipped rows, and judges those."""
    plan = plan_of()
    full = [
        replace(one, rows=tuple(np.full_like(row, 2**64 - 1) for row in one.rows))
        for one in filters_of(plan)
    ]
    found = shuffle(full, plan, record=tmp_path)
    assert found.counts[-1] > plan.bits / 2
    with pytest.raises(FilterFull):
        reach.analyze(found, plan)


# ----------------------------------------------------------------- once


def test_the_same_filters_give_the_same_bytes(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    first = shuffle(filters, plan, record=tmp_path)
    again = shuffle(filters[::-1], plan, record=tmp_path)
    assert again.content() == first.content()
    (kept,) = tmp_path.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # Without a record others are drawn: so it is the record that gives the same.
    assert shuffle(filters, plan, record=tmp_path / "new").content() != first.content()


def test_nothing_of_the_filters_is_in_what_is_handed_over(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    text = shuffle(filters, plan, record=tmp_path).content().decode()
    for one in filters:
        assert one.digest not in text
        assert one.batch not in text
    assert set(json.loads(text)) == {
        "format", "id", "plan_id", "key", "batch", "bits", "rows", "counts",
    }  # fmt: skip


def test_other_filters_with_the_same_key_are_refused(tmp_path: Path) -> None:
    """Also if all but one are the same: their rows would be flipped a second time."""
    plan = plan_of()
    first, second = filters_of(plan)
    handed = shuffle([first, second], plan, record=tmp_path)
    other = made_up(plan, "radio", seed=5)
    for changed in ([first, other], [replace(first, batch="0" * 32), second]):
        with pytest.raises(BatchRepeated, match="others than those"):
            shuffle(changed, plan, record=tmp_path)
    new = CampaignKey(b"another key of thirty-two bytes!")
    fresh = [encode([name], plan, publisher=name, key=new) for name in plan.audience.publishers]
    assert shuffle(fresh, plan, record=tmp_path).key != handed.key
    assert shuffle([first, second], plan, record=tmp_path).content() == handed.content()


def test_what_is_kept_is_on_the_disk_before_anybody_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of()
    filters = filters_of(plan)

    def full(*_: object, **__: object) -> Iterator[None]:
        raise StorageFault("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr("chaffinch.reach.shuffler.hand_over.atomic", full)
        with pytest.raises(StorageFault):
            shuffle(filters, plan, record=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert shuffle(filters, plan, record=tmp_path).content()


def test_many_at_once_hand_over_the_same(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda _: shuffle(filters, plan, record=tmp_path).content(), range(16))
        )
    assert len(set(made)) == 1
    assert len(list(tmp_path.glob("*.record"))) == 1


def test_one_process_at_a_time_keeps_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of another version: the file that it locks has this name in all of them."""
    names: list[str] = []

    def lock(path: Path, **more: Any) -> int:
        names.append(path.name)
        return lock_file(path, **more)

    monkeypatch.setattr("chaffinch.disk.leftovers.lock_file", lock)
    plan = plan_of()
    shuffle(filters_of(plan), plan, record=tmp_path)
    assert [name.partition(".0")[0] for name in names] == [".chaffinch-shuffle"]


def test_a_damaged_record_hands_over_nothing(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    shuffle(filters, plan, record=tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-40], whole.replace(b'"rows":2', b'"rows":1'), b"{}"):
        kept.write_bytes(damaged)
        with pytest.raises(StorageFault, match="must be whole"):
            shuffle(filters, plan, record=tmp_path)
    for place in range(0, len(whole) - 1, 3):
        changed = bytearray(whole)
        changed[place] ^= 1
        kept.write_bytes(changed)
        with pytest.raises(StorageFault, match="must be whole"):
            shuffle(filters, plan, record=tmp_path)
    kept.write_bytes(whole)
    other = plan_of(bits=2048)
    moved = HandedOver(tmp_path, other.id, filters_of(other)).path
    moved.write_bytes(whole)
    with pytest.raises(StorageFault, match="must be whole"):
        shuffle(filters_of(other), other, record=tmp_path)


def test_a_record_that_cannot_be_looked_at_or_made_hands_over_nothing(tmp_path: Path) -> None:
    plan = plan_of()
    filters = filters_of(plan)
    in_the_way = tmp_path / "a file"
    in_the_way.write_bytes(b"")
    for record, verb in ((tmp_path / ("a" * 300), "read"), (in_the_way, "write")):
        with pytest.raises(StorageFault, match=verb):
            shuffle(filters, plan, record=record)
    assert list(tmp_path.iterdir()) == [in_the_way]


def test_the_usual_record_is_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = plan_of()
    filters = filters_of(plan)
    first = reach.shuffle(filters, plan)
    assert reach.shuffle(filters, plan).content() == first.content()
    (kept,) = (tmp_path / "chaffinch" / "handed-over").iterdir()
    assert kept.name == f"{plan.id[:32]}-{KEY.fingerprint(plan.id)}.record"
    assert stat.S_IMODE(kept.parent.stat().st_mode) & 0o077 == 0
