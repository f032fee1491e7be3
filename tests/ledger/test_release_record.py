"""The record of runs: which releases are of the same data, and what they cost together."""

from __future__ import annotations

import hashlib
import hmac
import math
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.disk.files import state_folder
from chaffinch.errors import DataRepeated, Reason, StorageFault
from chaffinch.ledger import Charge
from chaffinch.ledger.charge import promised_at, total
from chaffinch.ledger.release_record import _SAME_DATA, ReleaseRecord, RunRelease, promise_together
from chaffinch.privacy import FlippedBits, Grouped, Shortened, SignedDecoys, compose

BITS = FlippedBits(users=200, flip_probability="0.1")
DELTA = 1e-6
FLOOD = tuple(Fraction(tenths, 10) for tenths in (22, 18, 21, 26, 34, 48, 69, 100))
"""How many messages more a plan of signed decoys sends, by step."""
OTHER = FlippedBits(users=300, flip_probability="0.2")


def release(number: int, plan: str = "plan", *, rounds: int = 1, round_: int = 1) -> RunRelease:
    mechanism = BITS if plan == "plan" else OTHER
    epsilon = compose(mechanism, times=rounds).epsilon(DELTA).upper
    charge = Charge(plan, mechanism)
    return RunRelease(f"{number:064x}", charge, epsilon, DELTA, rounds, round_, "person")


@pytest.fixture
def runs(tmp_path: Path) -> ReleaseRecord:
    return ReleaseRecord(tmp_path / "state" / "runs.record")


def names(runs: ReleaseRecord, *words: str) -> list[str]:
    return [runs.name_of("rows", word.encode()) for word in words]


def test_a_chain_of_shared_names_leads_to_all_releases(runs: ReleaseRecord) -> None:
    one, two, three, apart = map(release, range(4))
    runs.add(one, names(runs, "file", "rows"), ())
    assert runs.of_same_data(names(runs, "other")) == ()
    runs.add(two, names(runs, "elsewhere", "more"), ())
    runs.add(apart, names(runs, "apart"), ())
    runs.add(three, names(runs, "rows", "more"), (one, two))
    for word in ("file", "rows", "elsewhere", "more"):
        assert runs.of_same_data(names(runs, word)) == (one, two, three)
    assert runs.of_same_data(names(runs, "apart", "nowhere")) == (apart,)
    assert runs.of_same_data([]) == ()


def test_the_search_for_releases_of_one_file_grows_with_their_number() -> None:
    """A table of many public groups has a release of each."""

    def steps(connection: sqlite3.Connection, releases: range) -> int:
        named = (("file", one) for one in releases), ((f"rows {one}", one) for one in releases)
        connection.executemany("INSERT INTO data VALUES (?, ?)", chain(*named))
        made = 0

        def count() -> int:
            nonlocal made
            made += 1
            return 0

        connection.set_progress_handler(count, 100)
        found = connection.execute(_SAME_DATA.format("?"), ["file"]).fetchall()
        assert {number for (number,) in found} == {*range(1, releases.stop)}
        return made

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE data (name, release, PRIMARY KEY (name, release))")
        connection.execute("CREATE INDEX names ON data (release)")
        once = steps(connection, range(1, 101))
        assert steps(connection, range(101, 401)) < 6 * once, "of four times as many"


def test_recorded_once_removed_once(runs: ReleaseRecord) -> None:
    one = release(1)
    assert not runs.is_charged("", one.subject)
    for _ in range(2):
        runs.add(one, names(runs, "a"), ())
    assert runs.is_charged("", one.subject)
    assert runs.of_same_data(names(runs, "a")) == (one,)
    runs.remove(one.subject)
    assert not runs.is_charged("", one.subject)
    assert runs.of_same_data(names(runs, "a")) == ()


def test_what_was_removed_leaves_no_name_to_the_next_release(runs: ReleaseRecord) -> None:
    """The next one gets the same number."""
    runs.add(release(1), names(runs, "a"), ())
    runs.remove(release(1).subject)
    runs.add(release(2), names(runs, "b"), ())
    assert runs.of_same_data(names(runs, "a")) == ()


def test_releases_that_have_every_name(runs: ReleaseRecord) -> None:
    one, two = release(1), release(2, "another")
    runs.add(one, names(runs, "a", "b"), ())
    runs.add(two, names(runs, "b", "c"), (one,))
    assert runs.of_all_names(names(runs, "a", "b", "b")) == (one,)
    assert runs.of_all_names(names(runs, "b")) == (one, two)
    assert runs.of_all_names(names(runs, "a", "c")) == ()
    assert runs.of_plan("another") == (two,)
    assert runs.of_plan("a third") == ()


def test_every_user_has_a_record(tmp_path: Path) -> None:
    runs = ReleaseRecord()
    assert (state_folder() / "releases.record").is_file()
    assert (len(bytes.fromhex(runs.id)), len(runs.key)) == (16, 32)
    assert ReleaseRecord().id == runs.id != ReleaseRecord(tmp_path / "other").id


def test_names_stay_what_they_are(runs: ReleaseRecord) -> None:
    """Otherwise the record would not know the data of earlier versions."""
    told = hmac.new(runs.key, b"rows\0content", hashlib.sha256).hexdigest()
    assert runs.name_of("rows", b"content") == told


def test_of_what_is_being_recorded_nobody_knows_how_far_it_came(tmp_path: Path) -> None:
    path = tmp_path / "runs.record"
    runs = ReleaseRecord(path)
    path.write_bytes(b"something else")
    with pytest.raises(StorageFault) as caught:
        runs.add(release(1), [], ())
    assert caught.value.reason is Reason.UNCERTAIN
    with pytest.raises(StorageFault) as caught:
        runs.remove("")
    assert caught.value.reason is Reason.UNCERTAIN
    with pytest.raises(StorageFault) as caught:
        runs.of_plan("plan")
    assert caught.value.reason is None
    with pytest.raises(StorageFault) as caught:
        ReleaseRecord(path / "below")
    assert caught.value.reason is None


def test_of_runs_at_the_same_time_one_is_first(runs: ReleaseRecord) -> None:
    def add(number: int) -> bool:
        try:
            runs.add(release(number), names(runs, "a"), ())
        except DataRepeated:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(add, range(8))) == 1
    assert len(runs.of_same_data(names(runs, "a"))) == 1
    # Whom a ledger pays for is not asked, and is known afterwards.
    runs.add(release(9), names(runs, "a"), None)
    assert len(runs.of_same_data(names(runs, "a"))) == 2


def test_the_file_is_the_owners_and_tells_nothing_of_the_data(tmp_path: Path) -> None:
    runs = ReleaseRecord(tmp_path / "new" / "runs.record")
    runs.add(release(1), names(runs, "secret rows"), ())
    path = tmp_path / "new" / "runs.record"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert b"secret rows" not in path.read_bytes()
    again, other = ReleaseRecord(path), ReleaseRecord(tmp_path / "other" / "runs.record")
    assert (again.id, again.key) == (runs.id, runs.key)
    assert other.id != runs.id
    assert names(other, "secret rows") != names(runs, "secret rows") == names(again, "secret rows")
    assert runs.name_of("file", b"x") != runs.name_of("rows", b"x")


def test_what_releases_cost_together() -> None:
    once = promise_together([release(1)])
    assert (once.epsilon, once.method) == (release(1).epsilon, BITS.method)
    assert promise_together([replace(release(1), delta=0.6), release(2)]).delta < 1
    assert promise_together([replace(release(n), delta=0.6) for n in (1, 2)]).delta == 1
    twice = promise_together([release(1), release(2)])
    assert twice.delta == 2 * DELTA
    assert twice.epsilon == compose(BITS, times=2).epsilon(2 * DELTA).upper
    # At the larger delta both have a smaller epsilon than one of them promises alone.
    both = promise_together([release(1), release(2, "another")])
    assert compose([BITS, OTHER]).epsilon(2 * DELTA).upper < both.epsilon == release(1).epsilon
    # A plan of three rounds costs three, however few of them were released, and then more.
    of_three = [release(n, rounds=3, round_=n) for n in (1, 2, 3, 3)]
    thrice = compose(BITS, times=3).epsilon(DELTA).upper
    for some in (of_three[:1], of_three[:3]):
        found = promise_together(some)
        assert (found.epsilon, found.delta) == (thrice, DELTA)
    more = promise_together(of_three)
    assert (more.epsilon, more.delta) == (
        compose(BITS, times=4).epsilon(2 * DELTA).upper,
        2 * DELTA,
    )


@pytest.mark.parametrize("first", [1, 4, 7])
def test_repeats_of_all_rounds_of_a_group_count(first: int) -> None:
    """Whichever group it is, and whichever of its rounds were repeated."""
    for again in ((0, 1), (0, 2), (1, 2)):
        made = [release(0, rounds=3, round_=first + place) for place in (0, 1, 2, *again)]
        found = promise_together(made)
        assert found.epsilon == compose(BITS, times=5).epsilon(2 * DELTA).upper
        assert found.delta == 2 * DELTA


def test_promises_of_plans_add_up_where_composing_proves_nothing() -> None:
    """Cut reports may use up all of the delta: then the sum of epsilons is what is known."""
    plan = cf.plan(cf.Choice(["a", "b", "c"]), users=1000, target=cf.Target(2, 1e-8))
    one = RunRelease("", Charge.of(plan), 2.0, 1e-8, 1, 1, "person")
    assert promised_at(total([Charge.of(plan)] * 3), 3e-8).epsilon == math.inf
    found = [promise_together([one] * times) for times in range(1, 6)]
    assert [promise.delta for promise in found] == [1e-8, 2e-8, 3e-8, 4e-8, 5e-8]
    assert found[0].epsilon == 2, "never less than one plan promises"
    assert 3 < found[1].epsilon < 4, "composed, where that is less"
    assert [(promise.epsilon, promise.method) for promise in found[2:]] == [
        (6, "upper-bound"),
        (8, "upper-bound"),
        (10, "upper-bound"),
    ]
    # Rounds are promised together, so five releases of two rounds are three promises.
    rounds = replace(one, rounds=2)
    assert promise_together([rounds] * 5).epsilon == 6


def test_rounds_of_one_plan_cover_each_other_once() -> None:
    first, second = release(1, rounds=2), release(2, rounds=2, round_=2)
    assert second.is_covered_by(first)
    assert not release(3, rounds=2).is_covered_by(first)
    assert not second.is_covered_by(release(4, "another", rounds=2))


def test_a_damaged_or_foreign_record_is_not_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.record"
    ReleaseRecord(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM head")
    with pytest.raises(StorageFault, match="record of runs"):
        ReleaseRecord(path)
    path.write_bytes(b"something else, of some length" * 100)
    with pytest.raises(StorageFault, match="record of runs"):
        ReleaseRecord(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE head (record TEXT, key BLOB)")
    with pytest.raises(StorageFault, match="another file"):
        ReleaseRecord(path)


def test_several_reports_of_each_person_cost_less_together_than_added_up() -> None:
    """Reports may be cut, so losses are not followed down to the smallest delta."""
    ratio = Fraction(167, 256)
    decoys = SignedDecoys(question="choice", plus_ratio=ratio, minus_ratio=ratio, flood=FLOOD)
    mechanism = Grouped(Shortened(decoys, Fraction(3, 10**11)), 2)
    alone = mechanism.epsilon(DELTA).upper
    made = [
        RunRelease(word * 64, Charge("plan", mechanism), alone, DELTA, 1, 1, "person")
        for word in "ab"
    ]
    found = promise_together(made)
    assert found.delta == 2 * DELTA
    assert alone < found.epsilon < 2 * alone
