"""By which rule keys come and go, whatever the clock does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.keys.keyset import _IDS, KeyEntry, Keyset, KeyState, Periods
from tests.cases import each_case

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
START = 1_800_000_000.0
RULE = Periods()
FIRST = Keyset(0, ()).changed(KeyEntry(1, 32, KeyState.ACTIVE, START, "0" * 64))


def rotated(keyset: Keyset, now: float) -> Keyset:
    """What a rotation does, without a disk; nothing needs a key that is closed."""
    if keyset.wants_pending(now, RULE):
        number = keyset.next_id()
        digest = f"{keyset.serial:064x}"
        keyset = keyset.changed(KeyEntry(number, 32, KeyState.PENDING, now, digest))
    return keyset.stepped(now, RULE)


def cleared(keyset: Keyset, now: float) -> Keyset:
    closed = [one for one in keyset.entries if one.state is KeyState.CLOSED]
    return keyset.changed(*(one.moved(KeyState.DESTROYED, now) for one in closed))


def states(keyset: Keyset) -> dict[int, str]:
    return {one.id: str(one.state) for one in keyset.entries}


def test_a_key_passes_through_all_states_by_the_hour() -> None:
    keyset = FIRST
    seen: dict[tuple[int, str], int] = {}
    for hour in range(10 * 24 + 1):
        keyset = rotated(keyset, START + hour * HOUR)
        for number, state in states(keyset).items():
            seen.setdefault((number, state), hour)
    assert seen[2, "pending"] == 7 * 24 - 1
    assert seen[2, "active"] == seen[1, "expired"] == 7 * 24
    assert seen[1, "closed"] == 9 * 24
    assert (3, "pending") not in seen


def test_asked_twice_at_one_time_it_does_nothing_more() -> None:
    for now in (START, START + 7 * DAY, START + YEAR, START - YEAR):
        once = rotated(FIRST, now)
        again = rotated(once, now)
        assert again is once


def test_after_ten_years_forward_each_state_lasts_its_time() -> None:
    far = START + 10 * YEAR
    keyset = rotated(FIRST, far)
    assert states(keyset) == {1: "active", 2: "pending"}
    keyset = rotated(keyset, far + HOUR - 1)
    assert states(keyset) == {1: "active", 2: "pending"}
    keyset = rotated(keyset, far + HOUR)
    assert states(keyset) == {1: "expired", 2: "active"}
    assert states(rotated(keyset, far + HOUR + 2 * DAY - 1))[1] == "expired"
    assert states(rotated(keyset, far + HOUR + 2 * DAY))[1] == "closed"


def test_after_ten_years_back_the_periods_start_again() -> None:
    back = START - 10 * YEAR
    keyset = rotated(FIRST, back)
    assert states(keyset) == {1: "active"}
    keyset = rotated(keyset, back + 7 * DAY)
    keyset = rotated(keyset, back + 7 * DAY + HOUR)
    assert states(keyset) == {1: "expired", 2: "active"}


@given(st.lists(st.floats(-10 * YEAR, 10 * YEAR), max_size=60))
def test_whatever_the_clock_does_one_key_is_active_and_none_skips_a_state(
    jumps: list[float],
) -> None:
    order = [str(one) for one in KeyState]
    keyset = FIRST
    for jump in jumps:
        later = rotated(cleared(keyset, START), START + jump)
        assert list(states(later).values()).count("active") == 1
        assert later.serial >= keyset.serial
        for number, state in states(later).items():
            before = states(cleared(keyset, START)).get(number, "pending")
            assert 0 <= order.index(state) - order.index(before) <= 1 or before == "destroyed"
        keyset = later


def test_ids_come_round_over_destroyed_keys_only() -> None:
    keyset, now = FIRST, START
    given_out = [1]
    for _ in range(3 * 2 * _IDS):
        now += 4 * DAY
        keyset = rotated(cleared(keyset, now), now)
        last = keyset.entries[-1].id
        if last != given_out[-1]:
            given_out.append(last)
    assert len(given_out) > 2 * _IDS
    assert all(after == (before + 1) % _IDS for before, after in itertools.pairwise(given_out))
    assert len(keyset.entries) <= _IDS


def test_an_id_that_still_opens_is_passed_over() -> None:
    kept = KeyEntry(2, 32, KeyState.EXPIRED, START, "a" * 64)
    last = KeyEntry(1, 32, KeyState.ACTIVE, START, "b" * 64)
    assert Keyset(5, (kept, last)).next_id() == 3


def test_without_a_free_id_nothing_is_given_out() -> None:
    entries = [KeyEntry(one, 32, KeyState.EXPIRED, START, f"{one:064x}") for one in range(_IDS)]
    entries[7] = entries[7].moved(KeyState.ACTIVE, START)
    with pytest.raises(StorageFault, match="no free id"):
        Keyset(5, tuple(entries)).next_id()


def test_a_set_reads_back_as_it_was_written() -> None:
    keyset = rotated(FIRST, START + 7 * DAY)
    assert Keyset.read(keyset.content(), name="keyset.json") == keyset


def test_a_closed_key_opens_and_is_not_given_out() -> None:
    keyset = rotated(rotated(FIRST, START + 7 * DAY), START + 7 * DAY + HOUR)
    keyset = rotated(keyset, START + 9 * DAY + HOUR)
    assert states(keyset) == {1: "closed", 2: "active"}
    assert [one.id for one in keyset.accepted] == [2]
    assert [one.id for one in keyset.opening] == [2, 1]


@each_case(
    ("old", "new"),
    [
        (b'"active"', b'"gone"'),
        (b'"active"', b'"expired"'),
        (b'"serial": 1', b'"serial": 0'),
        (b'"serial": 1', b'"serial": 1, "serial": 2'),
        (b'"id": 1', b'"id": 256'),
        (b"keyset@1", b"keyset@2"),
        (b"{", b""),
        (b'"since": 1800000000.0', b'"since": NaN'),
    ],
)
def test_a_damaged_set_is_refused(old: bytes, new: bytes) -> None:
    content = FIRST.content()
    assert old in content
    with pytest.raises(InvalidFile):
        Keyset.read(content.replace(old, new, 1), name="keyset.json")


def test_two_keys_of_one_id_are_refused() -> None:
    doubled = Keyset(3, (*FIRST.entries, FIRST.entries[0].moved(KeyState.EXPIRED, START)))
    with pytest.raises(InvalidFile, match="two keys of one id"):
        Keyset.read(doubled.content(), name="keyset.json")


@each_case("name", ["pending", "active", "expired"])
@each_case("seconds", [-1.0, float("nan"), float("inf")])
def test_no_period_is_negative_or_endless(name: str, seconds: float) -> None:
    assert vars(Periods(**{name: 0.0}))[name] == 0
    with pytest.raises(InvalidInput, match=name):
        Periods(**{name: seconds})


@pytest.mark.parametrize("free", [_IDS - 1, _IDS - 2, 0, 100])
def test_the_one_id_that_is_free_is_found(free: int) -> None:
    entries = [KeyEntry(one, 32, KeyState.EXPIRED, START, f"{one:064x}") for one in range(_IDS)]
    entries[free] = entries[free].moved(KeyState.DESTROYED, START)
    assert Keyset(5, tuple(entries)).next_id() == free


def test_a_key_that_is_known_waits_until_the_active_one_has_had_its_time() -> None:
    pending = KeyEntry(2, 32, KeyState.PENDING, START, "b" * 64)
    keyset = FIRST.changed(pending)
    assert states(keyset.stepped(START + 7 * DAY - 1, RULE)) == {1: "active", 2: "pending"}
    assert states(keyset.stepped(START + 7 * DAY, RULE)) == {1: "expired", 2: "active"}
    late = FIRST.changed(pending.moved(KeyState.PENDING, START + 8 * DAY))
    assert states(late.stepped(START + 8 * DAY + HOUR - 1, RULE)) == {1: "active", 2: "pending"}
    assert states(late.stepped(START + 8 * DAY + HOUR, RULE)) == {1: "expired", 2: "active"}


def test_two_pending_keys_are_refused() -> None:
    more = [KeyEntry(one, 32, KeyState.PENDING, START, f"{one:064x}") for one in (2, 3)]
    content = Keyset(3, (*FIRST.entries, *more)).content()
    with pytest.raises(InvalidFile, match="two pending keys"):
        Keyset.read(content, name="keyset.json")
    one = Keyset(3, (*FIRST.entries, more[0]))
    assert Keyset.read(one.content(), name="keyset.json") == one
