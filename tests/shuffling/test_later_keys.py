"""The first hop follows the keys of the parties behind it: which lists it takes, and gives out."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from chaffinch.errors import InvalidFile
from chaffinch.plans.parties import Party
from chaffinch.shuffling import later_keys as module
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.shuffling.state import State, seen_key_lists
from chaffinch.wire.envelopes import HYBRID, OpeningKey, SealingKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.sealed_reports import route_of
from tests.services.oracle import Collection, Receiver, dies_at, port_of, receiving

QUICK = Patience(connect=2.0, reply=2.0, first_pause=0.001, longest_pause=0.002)


def _clocks(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[float]]:
    """Return the wall clock and that of the process, to be set from now on."""
    wall, life = [1e9], [1000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    monkeypatch.setattr(time, "monotonic", lambda: life[0])
    return wall, life


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> Collection:
    return Collection.make(tmp_path / "keys")


@pytest.fixture(name="state")
def _state(tmp_path: Path) -> Iterator[State]:
    state = State.open(tmp_path / "state.sqlite")
    yield state
    state.close()


def followed(collection: Collection, state: State, *, pause: float = 0.0) -> LaterKeys:
    behind = {collection.plan.id: collection.behind}
    return LaterKeys(state, behind, patience=QUICK, pause_seconds=pause)


def signed(collection: Collection, serial: int, *keys: SealingKey) -> bytes:
    """Return a list that the analyzer has signed."""
    return KeyList(collection.plan.id, serial, keys).signed(collection.analyzer.identity)


def key(number: int, kem: int = 0x0020) -> SealingKey:
    return OpeningKey.new(number, kem).sealing


def is_given_out(collection: Collection, state: State, *keys: SealingKey) -> bool:
    with state.changing() as change:
        return change.is_given_out(collection.plan.id, route_of(keys))


def analyzer(collection: Collection) -> Party:
    return collection.behind[-1]


def test_only_newer_lists_are_taken(collection: Collection, state: State) -> None:
    later, name, party = followed(collection, state), collection.plan.id, analyzer(collection)
    one, two, other = key(1), key(2), key(1)
    later.take(name, party, signed(collection, 5, one))
    later.take(name, party, signed(collection, 5, one))
    for serial, wrong in ((4, one), (5, other), (5, two), (0, two)):
        with pytest.raises(InvalidFile, match="newer than number 5"):
            later.take(name, party, signed(collection, serial, wrong))
    with pytest.raises(InvalidFile, match="X25519"):
        later.take(name, party, signed(collection, 6, key(3, HYBRID), one))
    stranger = KeyList(name, 7, (two,)).signed(collection.hops[0].identity)
    with pytest.raises(InvalidFile, match="signed"):
        later.take(name, party, stranger)
    assert later.first_key(name) == one
    later.take(name, party, signed(collection, 6, two, one))
    assert later.first_key(name) == two
    assert is_given_out(collection, state, one), "reports for it may still be on their way"
    assert is_given_out(collection, state, two)
    assert not is_given_out(collection, state, other)


def test_what_was_taken_outlives_the_process(collection: Collection, state: State) -> None:
    name, party = collection.plan.id, analyzer(collection)
    one = key(1)
    followed(collection, state).take(name, party, signed(collection, 5, one))
    again = followed(collection, state)
    assert again.first_key(name) == one
    with pytest.raises(InvalidFile, match="newer than number 5"):
        again.take(name, party, signed(collection, 5, key(1)))


def test_only_the_first_key_of_a_list_is_given_out(collection: Collection, state: State) -> None:
    """A list with the same keys in another order would be one for a single device."""
    later, one, pending = followed(collection, state), key(1), key(2)
    later.take(collection.plan.id, analyzer(collection), signed(collection, 1, one, pending))
    assert not is_given_out(collection, state, pending)


def test_a_party_that_changes_its_key_again_and_again_waits(
    collection: Collection, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    later = followed(collection, state, pause=60.0)
    name, party, keys = collection.plan.id, analyzer(collection), [key(n) for n in range(40)]
    for second, one in enumerate(keys):
        now[0] = 1000.0 + 5 * second
        later.take(name, party, signed(collection, second, one))
    given_out = [number for number, one in enumerate(keys) if is_given_out(collection, state, one)]
    assert given_out == [0, 12, 24, 36], "each for a minute, the first one, too"
    # What changes nothing for devices is taken at once.
    later.take(name, party, signed(collection, 99, keys[36], keys[0]))
    assert seen_key_lists(state_path(state), name) == {
        party.identity: signed(collection, 99, keys[36], keys[0])
    }


def test_a_party_that_drops_the_key_that_devices_have_is_told(
    collection: Collection, state: State
) -> None:
    """What is sealed for it reaches nobody; the pause ends all the same when it ends."""
    later = followed(collection, state, pause=60.0)
    name, party, old, new = collection.plan.id, analyzer(collection), key(1), key(2)
    later.take(name, party, signed(collection, 1, old))
    later.take(name, party, signed(collection, 2, new, old))
    assert later.faults == ()
    later.take(name, party, signed(collection, 3, new))
    assert "takes nothing more for the key that devices have" in "".join(later.faults)
    assert not is_given_out(collection, state, new)


@pytest.mark.parametrize("lives", [1, 4])
def test_the_first_way_is_given_out_for_a_whole_pause(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    """A key that is known and not given out for want of another has no crowd: it does not count."""
    collection = Collection.make(tmp_path / "two", hops=2)
    wall, life = _clocks(monkeypatch)
    later, name = followed(collection, state, pause=60.0), collection.plan.id
    second, last = collection.behind
    (hop,) = (one.key.sealing for one in collection.hops[1].accepted_keys().values())
    one, two = key(1), key(2)
    later.take(name, last, signed(collection, 1, one))
    for seconds, is_taken in ((100.0, False), (59.0, False), (1.0, True)):
        life[0], wall[0] = life[0] + seconds, wall[0] + seconds
        if lives > 1:
            later = followed(collection, state, pause=60.0)
        later.take(name, second, collection.hops[1].key_list(name))
        later.take(name, last, signed(collection, 2, two))
        assert is_given_out(collection, state, hop, one)
        assert is_given_out(collection, state, hop, two) is is_taken


@pytest.mark.parametrize("lives", [1, 2])
def test_two_parties_that_work_together_have_nobody_between_their_changes(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    """Each waits for its pause, and the second changes a minute after the first."""
    collection = Collection.make(tmp_path / "two", hops=2)
    wall, life = _clocks(monkeypatch)
    later, name = followed(collection, state, pause=3600.0), collection.plan.id
    second, last = collection.behind
    old, new, one, two = (key(number) for number in (1, 2, 1, 2))

    def shown(serial: int, first: SealingKey) -> bytes:
        return KeyList(name, serial, (first,)).signed(collection.hops[1].identity)

    later.take(name, second, shown(1, old))
    later.take(name, last, signed(collection, 1, one))
    for seconds, is_taken in ((3600.0, False), (60.0, False), (3539.0, False), (1.0, True)):
        life[0], wall[0] = life[0] + seconds, wall[0] + seconds
        if lives > 1:
            later = followed(collection, state, pause=3600.0)
        later.take(name, second, shown(2, new))
        later.take(name, last, signed(collection, 2, two))
        assert is_given_out(collection, state, new, one)
        assert is_given_out(collection, state, new, two) is is_taken
        assert not is_given_out(collection, state, old, two)


@pytest.mark.parametrize("lives", [1, 3])
def test_a_way_of_which_no_time_is_known_is_given_out_for_a_whole_pause(
    collection: Collection, state: State, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    """The version before noted none: nobody waits for an upgrade to change a key twice."""
    wall, life = _clocks(monkeypatch)
    name, party, one, two = collection.plan.id, analyzer(collection), key(1), key(2)
    with state.changing() as change:
        change.keep_key_list(name, party.identity, signed(collection, 1, one))
        change.give_out(name, route_of([one]))
    later = followed(collection, state, pause=60.0)
    for seconds, is_taken in ((0.0, False), (59.0, False), (1.0, True)):
        life[0], wall[0] = life[0] + seconds, wall[0] + seconds
        if lives > 1:
            later = followed(collection, state, pause=60.0)
        later.take(name, party, signed(collection, 2, two))
        assert is_given_out(collection, state, two) is is_taken


def test_what_has_changed_while_a_hop_was_away_is_one_other_way(
    tmp_path: Path, state: State
) -> None:
    """With the new key of one party and the old one of the other reports would go astray."""
    collection = Collection.make(tmp_path / "two", hops=2)
    folders = collection.hops[1], collection.analyzer

    def first_keys() -> list[SealingKey]:
        return [next(iter(one.accepted_keys().values())).key.sealing for one in folders]

    def asked(later: LaterKeys) -> None:
        last = time.monotonic() + 20
        while not is_given_out(collection, state, *first_keys()):
            assert time.monotonic() < last
            later.step()
        later.close()

    with (
        receiving(Receiver(collection, folders[0]), port_of(collection.plan, "hop2")),
        receiving(Receiver(collection, folders[1]), port_of(collection.plan, "analyzer")),
    ):
        asked(followed(collection, state, pause=0.2))
        old = first_keys()
        for one in folders:
            one.rotate(at_once=True)
        time.sleep(0.3)
        asked(followed(collection, state, pause=0.2))
    assert not is_given_out(collection, state, first_keys()[0], old[1])
    assert not is_given_out(collection, state, old[0], first_keys()[1])


def test_parties_that_never_answer_keep_nobody_else_from_new_keys(
    collection: Collection, tmp_path: Path, state: State
) -> None:
    silent = [Collection.make(tmp_path / f"silent{number}") for number in range(5)]
    behind = {one.plan.id: one.behind for one in (*silent, collection)}
    with ExitStack() as stack:
        for one in silent:
            place = ("127.0.0.1", port_of(one.plan, "analyzer"))
            stack.enter_context(socket.create_server(place))
        receiver = Receiver(collection, collection.analyzer)
        stack.enter_context(receiving(receiver, port_of(collection.plan, "analyzer")))
        later = LaterKeys(state, behind, patience=Patience(reply=60.0))
        last = time.monotonic() + 10
        while later.first_key(collection.plan.id) is None:
            assert time.monotonic() < last
            later.step()
            time.sleep(0.01)
        later.close()


@pytest.mark.parametrize(
    ("passed", "wait"),
    [(0, 60), (10, 50), (59, 1), (60, 0), (1e9, 0), (-1, 60), (-1e9, 60)],
)
def test_the_pause_outlives_the_process(
    collection: Collection,
    state: State,
    monkeypatch: pytest.MonkeyPatch,
    passed: float,
    wait: float,
) -> None:
    """A clock that was put back opens no door early: the pause starts again."""
    wall, life = _clocks(monkeypatch)
    name, party, keys = collection.plan.id, analyzer(collection), [key(n) for n in range(3)]
    for serial in (0, 1):
        first = followed(collection, state, pause=60.0)
        first.take(name, party, signed(collection, serial, keys[serial]))
        wall[0], life[0] = wall[0] + 60.0, life[0] + 60.0
    wall[0] += passed - 60.0
    life[0] = 5.0  # Another life, whose clock has started anew.
    later = followed(collection, state, pause=60.0)
    if wait:
        life[0] = 5.0 + wait - 0.5
        wall[0] = 2e9  # What the clock does in a life changes nothing.
        later.take(name, party, signed(collection, 2, keys[2]))
        assert not is_given_out(collection, state, keys[2])
    life[0] = 5.0 + wait
    later.take(name, party, signed(collection, 2, keys[2]))
    assert is_given_out(collection, state, keys[2])


def test_a_list_is_read_when_it_comes_and_not_at_every_look(
    collection: Collection, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    later, name = followed(collection, state), collection.plan.id
    later.take(name, analyzer(collection), signed(collection, 1, key(1)))
    monkeypatch.setattr(KeyList, "read", lambda *_, **__: pytest.fail("it was read before"))
    assert later.first_key(name) is not None


def test_what_was_kept_is_given_out_by_an_owner_with_another_form_of_routes(
    tmp_path: Path, state: State
) -> None:
    collection = Collection.make(tmp_path / "two", hops=2)
    later, name = followed(collection, state), collection.plan.id
    for party, folder in zip(
        collection.behind, (collection.hops[1], collection.analyzer), strict=True
    ):
        later.take(name, party, folder.key_list(name))
    with state._store.changing() as connection:  # noqa: SLF001 - as an older version leaves it
        connection.execute("DELETE FROM routes")
    assert not is_given_out(collection, state, *collection.sealer.keys[1:])
    followed(collection, state)
    assert is_given_out(collection, state, *collection.sealer.keys[1:])


def state_path(state: State) -> Path:
    ((_, _, path),) = state._store.rows("PRAGMA database_list")  # noqa: SLF001 - of a fixture
    return Path(path)


def test_a_way_needs_all_parties_behind_this_one(tmp_path: Path, state: State) -> None:
    collection = Collection.make(tmp_path / "two", hops=2)
    later, name = followed(collection, state), collection.plan.id
    second, last = collection.behind
    later.take(name, last, collection.analyzer.key_list(name))
    assert state.overview().has_keys == frozenset()
    later.take(name, second, collection.hops[1].key_list(name))
    assert state.overview().has_keys == {name}
    (old,) = (one.key.sealing for one in collection.hops[1].accepted_keys().values())
    (end,) = (one.key.sealing for one in collection.analyzer.accepted_keys().values())
    assert is_given_out(collection, state, old, end)
    collection.hops[1].rotate(at_once=True)
    later.take(name, second, collection.hops[1].key_list(name))
    new = next(iter(collection.hops[1].accepted_keys().values())).key.sealing
    assert is_given_out(collection, state, new, end)
    assert is_given_out(collection, state, old, end)


def test_parties_are_asked_until_they_answer_and_then_again(
    collection: Collection, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    later, name = followed(collection, state), collection.plan.id

    def until_seen(wanted: object) -> None:
        last = time.monotonic() + 20
        while later.first_key(name) != wanted:
            assert time.monotonic() < last
            later.step()

    while not later.faults:
        later.step()
    assert "analyzer has shown no keys" in later.faults[0]
    assert "(no connection)" in later.faults[0]
    with receiving(Receiver(collection, collection.analyzer), port_of(collection.plan, "analyzer")):
        until_seen(collection.sealer.keys[1])
        assert later.faults == ()
        monkeypatch.setattr(module, "_AGAIN", 0.0)
        later = followed(collection, state)
        collection.analyzer.rotate(at_once=True)
        until_seen(collection.sealer.keys[1])
    later = followed(collection, state)
    while not any(one.failures for one in later._each()):  # noqa: SLF001 - nobody is there
        later.step()
    assert later.faults == (), "what was seen is given out, whoever is away"


def test_a_list_that_is_not_taken_is_told(collection: Collection, state: State) -> None:
    later, name = followed(collection, state), collection.plan.id
    later.take(name, analyzer(collection), signed(collection, 99, key(9)))
    with receiving(Receiver(collection, collection.analyzer), port_of(collection.plan, "analyzer")):
        while not later.faults:
            later.step()
    assert "newer than number 99" in later.faults[0]
    later.close()


@pytest.mark.parametrize("place", ["later-keys.written", "later-keys.kept"])
def test_a_hop_that_is_killed_has_a_list_or_asks_again(
    collection: Collection, tmp_path: Path, place: str
) -> None:
    data = tmp_path / "data"
    assert dies_at(place, lambda: collection.show_keys_to(data))
    # What devices may have been shown, their reports can name: it is given out, and stays so.
    shown = seen_key_lists(data / "state.sqlite", collection.plan.id)
    assert bool(shown) is (place == "later-keys.kept")
    with closing(State.open(data / "state.sqlite")) as state:
        assert is_given_out(collection, state, collection.sealer.keys[1]) is bool(shown)
    collection.show_keys_to(data)
    kept = seen_key_lists(data / "state.sqlite", collection.plan.id)
    assert kept == {analyzer(collection).identity: collection.analyzer.key_list(collection.plan.id)}
    with closing(State.open(data / "state.sqlite")) as state:
        assert is_given_out(collection, state, collection.sealer.keys[1])
