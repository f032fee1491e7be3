"""A report counts once: copied, renamed, linked, in another container, in another order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.tally import tally
from chaffinch.engines.local import Local
from chaffinch.errors import BatchRepeated, BatchTooSmall, InvalidFile, InvalidInput, Reason
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.flips import Flips
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate.seeded import SeededWords
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter
from chaffinch.wire.messages import Origin, Report, Reports, Shuffled
from tests.engines import plans

PLAN = plans.clear(40, 5)
ENGINE = Local(workers=1)


def answers(count: int, value: str = "v1") -> list[str]:
    return [value] * count


def again(source: Path, target: Path, *, name: str | None = None, reverse: bool = True) -> Path:
    """Write a batch a second time: another container or order, under its own name or another."""
    reader = MessageReader(source)
    codes = np.concatenate(list(reader.batches()))
    facts = vars(reader.facts) | ({} if name is None else {"name": name})
    reports = facts.pop("reports")
    with MessageWriter(target, **facts) as writer:
        writer.write(codes[::-1].copy() if reverse else codes, reports)
    return target


COPIES: dict[str, Callable[[Path, Path], Any]] = {
    "a copy": shutil.copy,
    "a link": lambda one, two: two.symlink_to(one),
    "a hard link": os.link,
    "another order": again,
    "another container": lambda one, two: again(one, two.with_suffix(".arrow")),
}


@pytest.mark.parametrize("kind", COPIES)
def test_the_same_batch_twice_is_refused(kind: str, tmp_path: Path) -> None:
    ENGINE.encode(answers(20), PLAN, tmp_path / "a.parquet")
    COPIES[kind](tmp_path / "a.parquet", tmp_path / "b.parquet")
    files = sorted(tmp_path.glob("[ab].*"))
    assert len(files) == 2
    with pytest.raises(BatchRepeated, match="twice"):
        ENGINE.shuffle(files, PLAN, tmp_path / "s", record=tmp_path / "record")
    assert not (tmp_path / "s").exists()
    assert not (tmp_path / "record").exists()


def test_one_report_is_no_crowd_however_often_it_is_copied(tmp_path: Path) -> None:
    ENGINE.encode(answers(1), PLAN, tmp_path / "0")
    for number in range(1, 40):
        shutil.copy(tmp_path / "0", tmp_path / str(number))
    files = [tmp_path / str(number) for number in range(40)]
    with pytest.raises(BatchRepeated):
        ENGINE.shuffle(files, PLAN, tmp_path / "s")


def test_equal_reports_of_two_people_both_count(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(40)]
    for path in files:
        ENGINE.encode(answers(1), PLAN, path)
    facts = ENGINE.shuffle(files, PLAN, tmp_path / "s")
    assert facts.reports == 40
    assert ENGINE.tally([tmp_path / "s"], PLAN).counts.sum() == 40


def test_a_name_with_other_messages_is_damaged(tmp_path: Path) -> None:
    ENGINE.encode(answers(20), PLAN, tmp_path / "a")
    name = MessageReader(tmp_path / "a").start.name
    plans.written(tmp_path / "b", PLAN, [2] * 20, name=name)
    with pytest.raises(InvalidFile) as caught:
        ENGINE.shuffle([tmp_path / "a", tmp_path / "b"], PLAN, tmp_path / "s")
    assert caught.value.reason is Reason.DAMAGED
    assert name not in str(caught.value)


def test_shuffled_batches_are_counted_once(tmp_path: Path) -> None:
    ENGINE.encode(answers(40), PLAN, tmp_path / "e")
    ENGINE.shuffle([tmp_path / "e"], PLAN, tmp_path / "s.parquet")
    again(tmp_path / "s.parquet", tmp_path / "t.arrow")
    with pytest.raises(BatchRepeated):
        ENGINE.tally([tmp_path / "s.parquet", tmp_path / "t.arrow"], PLAN)


def test_container_and_order_do_not_change_the_digest(tmp_path: Path) -> None:
    ENGINE.encode(["v0", "v3", "v1"] * 20, PLAN, tmp_path / "e.parquet")
    ENGINE.shuffle([tmp_path / "e.parquet"], PLAN, tmp_path / "s.parquet")
    found = ENGINE.tally([tmp_path / "s.parquet"], PLAN)
    other = ENGINE.tally([again(tmp_path / "s.parquet", tmp_path / "s.arrow")], PLAN)
    reader = MessageReader(tmp_path / "s.parquet")
    assert sum(map(len, reader.batches())) == found.counts.sum()
    assert found.digest == other.digest == reader.digest
    renamed = again(tmp_path / "s.parquet", tmp_path / "r", name="ab" * 16)
    assert ENGINE.tally([renamed], PLAN).digest != found.digest


def test_every_fact_and_every_count_is_in_the_digest() -> None:
    origin = Origin("plan", 5, 1, 4)
    base = Reports(origin, 3, np.array([0, 0, 1, 4], np.uint32), name="ab" * 16)
    others: list[Any] = [
        replace(base, count=4),
        replace(base, name="ac" * 16),
        replace(base, origin=replace(origin, round=2)),
        replace(base, origin=replace(origin, plan_id="plan2")),
        replace(base, origin=replace(origin, codes=6)),
        replace(base, messages=np.array([0, 1, 1, 4], np.uint32)),
        replace(base, messages=np.array([0, 0, 1, 3], np.uint32)),
        replace(base, messages=np.array([0, 0, 4], np.uint32)),
        Shuffled(origin, 3, base.messages, None, base.name),
    ]
    digests = {base.digest, *(one.digest for one in others)}
    assert len(digests) == 1 + len(others)
    assert replace(base, messages=base.messages[::-1].copy()).digest == base.digest
    assert all(len(digest) == 64 for digest in digests)


def test_packed_rows_have_the_digest_of_their_messages() -> None:
    plan = plans.flipped(50, 100, Fraction(1, 8))
    reports = cf.encode_many([f"v{number % 99}" for number in range(50)], plan)
    assert reports.rows
    loose = np.repeat(np.arange(100, dtype=np.uint32), reports.row_counts())
    plain = Reports(
        reports.origin, 50, np.concatenate([reports.messages, loose]), name=reports.name
    )
    assert plain.digest == reports.digest


# ------------------------------------------------------------------------------ in memory

BITS = Plan("", (Part("q", cf.Bit(), Flips(Fraction(1, 16))),), 30, 30, 30, 1, 5.0, 1e-2)


def reports(count: int) -> list[Report]:
    return [cf.encode("yes", BITS) for _ in range(count)]


def test_copies_in_memory_are_refused() -> None:
    one = cf.encode("yes", BITS)
    with pytest.raises(BatchRepeated, match="twice"):
        cf.shuffle([one] * 30)
    with pytest.raises(BatchRepeated, match="twice"):
        cf.shuffle([*reports(29), *([one, replace(one)])])
    with pytest.raises(BatchTooSmall):
        cf.shuffle(reports(29))
    assert cf.shuffle(reports(30)).reports == 30


def test_a_changed_report_under_its_name_is_damaged() -> None:
    rest = reports(29)
    plain = Report(rest[0].origin, (0,))
    changed = replace(plain, codes=(0xFFFF_FFFF,))
    with pytest.raises(InvalidFile, match="different messages"):
        cf.shuffle([*rest, plain, changed])


def test_a_batch_and_then_one_report_more_is_refused() -> None:
    first = reports(30)
    cf.shuffle(first)
    with pytest.raises(BatchRepeated, match="30 that this process has shuffled"):
        cf.shuffle([*first, cf.encode("no", BITS)])
    with pytest.raises(BatchRepeated):
        cf.shuffle(first[:1] + reports(29))
    many = cf.encode_many(["yes"] * 30, BITS)
    cf.shuffle(many)
    with pytest.raises(BatchRepeated):
        cf.shuffle(many)


def test_what_is_refused_is_not_remembered() -> None:
    few = reports(29)
    with pytest.raises(BatchTooSmall):
        cf.shuffle(few)
    with pytest.raises(BatchRepeated):
        cf.shuffle([*few, few[0]])
    assert cf.shuffle([*few, *reports(1)]).reports == 30


def test_the_name_of_a_shuffled_batch_is_new() -> None:
    many = cf.encode_many(["yes"] * 30, BITS)
    shuffled = cf.shuffle(many)
    assert len(shuffled.name) == 32
    assert shuffled.name != many.name
    assert tally(shuffled).digest == shuffled.digest
    seeded = [shuffle_with(many, SeededWords(1)).name for _ in range(2)]
    assert seeded[0] == seeded[1]  # simulations repeat


def test_nothing_private_is_shown() -> None:
    one, many = cf.encode("yes", BITS), cf.encode_many(["yes"] * 30, BITS)
    shuffled = cf.shuffle(many)
    for thing in (one, many, shuffled, tally(shuffled), *many.rows):
        shown = repr(thing)
        assert "codes=(" not in shown
        assert "array" not in shown
    assert one.name not in repr(one)
    assert many.name not in repr(many)


# ------------------------------------------------------------------------------ rounds

WEEKS = replace(BITS, rounds=3, epsilon=15.0, delta=3e-2)


def test_a_round_must_be_given_where_there_are_several() -> None:
    for encode in (cf.encode, lambda answer, plan, **more: cf.encode_many([answer], plan, **more)):
        assert encode("yes", BITS).origin.round == 1
        assert encode("yes", WEEKS, round=2).origin.round == 2
        with pytest.raises(InvalidInput, match="from 1 to 3"):
            encode("yes", WEEKS)
        wrongs: list[Any] = [0, 4, "2", True]
        for wrong in wrongs:
            with pytest.raises(InvalidInput, match="round"):
                encode("yes", WEEKS, round=wrong)


def test_rounds_do_not_mix(tmp_path: Path) -> None:
    mixed = [cf.encode("yes", WEEKS, round=1 + number % 2) for number in range(30)]
    with pytest.raises(InvalidInput, match="of round 1"):
        cf.shuffle(mixed)
    for week in (1, 2):
        ENGINE.encode(["yes"] * 30, WEEKS, tmp_path / f"e{week}", round=week)
        facts = ENGINE.shuffle([tmp_path / f"e{week}"], WEEKS, tmp_path / f"s{week}")
        assert facts.round == week
        assert ENGINE.tally([tmp_path / f"s{week}"], WEEKS).round == week
    for stage, verb in (
        ("e", lambda files: ENGINE.shuffle(files, WEEKS, tmp_path / "s")),
        ("s", lambda files: ENGINE.tally(files, WEEKS)),
    ):
        with pytest.raises(InvalidFile, match="of round 1"):
            verb([tmp_path / f"{stage}1", tmp_path / f"{stage}2"])
    beyond = plans.written(tmp_path / "e9", WEEKS, [0] * 30, round=9)
    with pytest.raises(InvalidFile, match="3 rounds"):
        ENGINE.shuffle([beyond], WEEKS, tmp_path / "s")


def test_rounds_have_their_own_charges(tmp_path: Path) -> None:
    cap = cf.Target(20.0, 0.1)
    mine = cf.Ledger.create(tmp_path / "c", role="client", cap=cap, mark=tmp_path / "cm")
    for week in (1, 2):
        cf.encode("yes", WEEKS, round=week, ledger=mine)
    with pytest.raises(InvalidInput):
        cf.encode("no", WEEKS, round=2, ledger=mine)
    assert len(mine.entries()) == 2
