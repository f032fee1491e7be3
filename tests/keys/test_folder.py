"""A key folder on a real disk: who may read it, what a killed process leaves, what is signed."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaffinch.disk.kill_points import VARIABLE
from chaffinch.disk.leftovers import alone_in
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput, StorageFault
from chaffinch.keys import KeyFolder, KeyState
from chaffinch.keys.folder import StoredKey
from chaffinch.keys.keyset import KeyEntry
from chaffinch.wire.envelopes import HYBRID, X25519, Binding
from chaffinch.wire.key_lists import KeyList
from tests import forks

PLAN = "ab" * 32
DAY, YEAR = 86_400.0, 365 * 86_400.0
START = 1_800_000_000.0


def unneeded(_: int) -> bool:
    return False


def needed(_: int) -> bool:
    return True


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder.create(tmp_path / "keys", now=START)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def states(folder: KeyFolder) -> list[str]:
    return [str(one.state) for one in folder.entries]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        folder = KeyFolder.create(tmp_path / "keys", now=START)
        folder.rotate(at_once=True, now=START + 1)
    finally:
        os.umask(before)
    assert mode(folder.path) == 0o700
    found = {one.name: mode(one) for one in folder.path.iterdir()}
    assert found == dict.fromkeys(
        ("identity.pem", "keyset.json", "store.name", "key-001.json", "key-002.json"), 0o600
    )


@pytest.mark.parametrize("name", ["", "identity.pem", "keyset.json", "key-001.json"])
@pytest.mark.parametrize("bits", [0o040, 0o004, 0o020, 0o001])
def test_what_others_may_read_is_refused(folder: KeyFolder, name: str, bits: int) -> None:
    place = folder.path / name
    place.chmod(mode(place) | bits)
    with pytest.raises(StorageFault, match="for its owner alone") as told:
        KeyFolder.open(folder.path)
    command, _, _ = told.value.hint.partition(";")
    subprocess.run(shlex.split(command), check=True)
    assert KeyFolder.open(folder.path).entries


def test_a_folder_that_exists_is_refused_and_stays(folder: KeyFolder) -> None:
    before = {one.name: one.read_bytes() for one in folder.path.iterdir()}
    with pytest.raises(StorageFault):
        KeyFolder.create(folder.path)
    assert {one.name: one.read_bytes() for one in folder.path.iterdir()} == before


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    assert KeyFolder.create(tmp_path / "keys").path.name == "keys"
    assert [one.name for one in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize("kem", [X25519, HYBRID])
def test_what_is_sealed_for_the_list_opens_with_the_folder(tmp_path: Path, kem: int) -> None:
    folder = KeyFolder.create(tmp_path / "keys", kem=kem)
    identity = bytes.fromhex(folder.identity_hex)
    binding = Binding(PLAN, 1, "hop1")
    for _ in range(2):
        listed = KeyList.read(folder.key_list(PLAN), plan_id=PLAN, identity=identity)
        assert listed.keys[0].id == folder.entries[-1].id
        envelope = listed.keys[0].seal(b"tea", binding)
        stored = KeyFolder.open(folder.path).opening_keys()[envelope[0]]
        assert stored.key.open(envelope, binding) == b"tea"
        folder.rotate(at_once=True)
    assert {one.kem for one in listed.keys} == {kem}


def test_the_list_is_the_same_for_everybody_until_a_key_changes(folder: KeyFolder) -> None:
    first = folder.key_list(PLAN)
    assert KeyFolder.open(folder.path).key_list(PLAN) == first
    folder.rotate(now=START + DAY)
    assert folder.key_list(PLAN) == first
    folder.rotate(at_once=True, now=START + DAY)
    identity = bytes.fromhex(folder.identity_hex)
    old, new = (
        KeyList.read(one, plan_id=PLAN, identity=identity) for one in (first, folder.key_list(PLAN))
    )
    assert new.serial > old.serial
    assert [one.id for one in new.keys] == [2, 1]


def test_a_service_notices_a_change_by_another_process(folder: KeyFolder) -> None:
    other = KeyFolder.open(folder.path)
    assert not other.refresh()
    folder.rotate(at_once=True)
    assert other.refresh()
    assert not other.refresh()
    assert other.key_list(PLAN) == folder.key_list(PLAN)
    assert list(other.opening_keys()) == [2, 1]


def test_a_key_and_its_tag_secret_stay_the_same_over_all_states(folder: KeyFolder) -> None:
    first = folder.opening_keys()[1]
    folder.rotate(at_once=True)
    later = KeyFolder.open(folder.path).opening_keys()[1]
    assert (later.key, later.tag_secret) == (first.key, first.tag_secret)
    assert (first.state, later.state) == (KeyState.ACTIVE, KeyState.EXPIRED)
    assert len(first.tag_secret) == 32
    assert folder.opening_keys()[2].tag_secret != first.tag_secret


def test_a_key_file_says_what_it_is(folder: KeyFolder) -> None:
    content = json.loads((folder.path / "key-001.json").read_bytes())
    stored = folder.opening_keys()[1]
    assert content == {
        "format": "chaffinch/key@1",
        "id": 1,
        "kem": X25519,
        "private": stored.key.private.hex(),
        "tag_secret": stored.tag_secret.hex(),
    }


def test_nothing_secret_is_shown(folder: KeyFolder) -> None:
    stored = folder.opening_keys()[1]
    shown = f"{stored!r} {folder!r} {folder.entries!r}"
    assert stored.tag_secret.hex() not in shown
    assert str(stored.tag_secret) not in shown
    assert stored.key.private.hex() not in shown
    assert str(stored.key.private) not in shown


# ---------------------------------------------------------------------------- destroying


def test_no_age_destroys_a_key(folder: KeyFolder) -> None:
    for now in (START + 10 * YEAR, START - 10 * YEAR, START + 20 * YEAR, START + 40 * YEAR):
        folder.rotate(now=now)
        folder.rotate(now=now + YEAR)
    assert states(folder).count("destroyed") == 0
    assert set(folder.opening_keys()) == {one.id for one in folder.entries}


@pytest.fixture
def closed(folder: KeyFolder) -> KeyFolder:
    """A folder whose first key is closed."""
    folder.rotate(at_once=True, now=START)
    folder.rotate(now=START + 2 * DAY)
    assert states(folder) == ["closed", "active"]
    return folder


def test_a_closed_key_is_taken_for_no_more_and_still_opens(closed: KeyFolder) -> None:
    assert list(closed.accepted_keys()) == [2]
    assert list(closed.opening_keys()) == [2, 1]
    identity = bytes.fromhex(closed.identity_hex)
    listed = KeyList.read(closed.key_list(PLAN), plan_id=PLAN, identity=identity)
    assert [one.id for one in listed.keys] == [2]


def test_a_closed_key_goes_when_nothing_needs_it(closed: KeyFolder) -> None:
    assert closed.destroy_closed(needed, grace_seconds=0) == ()
    assert closed.destroy_closed(unneeded) == ()  # whoever takes envelopes may not know yet
    assert 1 in closed.opening_keys()
    assert closed.destroy_closed({2}.__contains__, grace_seconds=0) == (1,)
    assert closed.destroy_closed(unneeded, grace_seconds=0) == ()
    assert states(closed) == ["destroyed", "active"]
    assert not (closed.path / "key-001.json").exists()
    assert list(KeyFolder.open(closed.path).opening_keys()) == [2]


def test_the_clock_of_the_wall_does_not_shorten_the_wait(
    closed: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: START + 10 * YEAR)
    assert KeyFolder.open(closed.path).destroy_closed(unneeded) == ()


def test_an_expired_key_can_be_closed_by_hand(folder: KeyFolder) -> None:
    folder.rotate(at_once=True)
    folder.close(1)
    folder.close(1)  # done before, it stays so
    assert states(folder) == ["closed", "active"]
    folder.destroy_closed(unneeded, grace_seconds=0)
    folder.close(1)
    assert states(folder) == ["destroyed", "active"]


@pytest.mark.parametrize("number", [2, 3, 200])
def test_only_an_expired_key_can_be_closed(folder: KeyFolder, number: int) -> None:
    folder.rotate(at_once=True, now=START)
    folder.rotate(now=START + 7 * DAY - 3600)
    assert states(folder) == ["closed", "active", "pending"]
    with pytest.raises(InvalidInput, match="an expired one"):
        folder.close(number)


def test_the_bytes_of_a_destroyed_key_are_overwritten(closed: KeyFolder) -> None:
    place = closed.path / "key-001.json"
    content = place.read_bytes()
    link = closed.path.parent / "same-file"
    os.link(place, link)
    closed.destroy_closed(unneeded, grace_seconds=0)
    assert link.read_bytes() == bytes(len(content))


def test_what_a_killed_process_left_is_wiped_by_the_next_change(folder: KeyFolder) -> None:
    key, draft = folder.path / "key-009.json", folder.path / ".keyset.json.0123456789abcdef.part"
    for place in (key, draft):
        place.write_bytes(b"secret")
        place.chmod(0o600)
    link = folder.path.parent / "same-file"
    os.link(key, link)
    serial, names = folder.serial, {"identity.pem", "keyset.json", "store.name", "key-001.json"}
    assert folder.rotate(now=START) == ()
    assert {one.name for one in folder.path.iterdir()} == names
    assert link.read_bytes() == bytes(6)
    assert folder.serial == serial, "no key has changed"


def test_asking_for_closed_keys_wipes_what_was_left_too(folder: KeyFolder) -> None:
    key = folder.path / "key-009.json"
    key.write_bytes(b"secret")
    key.chmod(0o600)
    assert folder.destroy_closed(unneeded) == ()
    assert not key.exists()


def test_the_name_of_the_data_is_kept_with_the_keys(folder: KeyFolder) -> None:
    place = folder.path / "store.name"
    assert folder.store == "", "before the first start"
    folder.note_store("inbox")
    assert folder.store == KeyFolder.open(folder.path).store == "inbox"
    assert mode(place) == 0o600
    place.write_bytes(b"in\xffbox")
    assert folder.store == "in\N{REPLACEMENT CHARACTER}box", "another name, and no crash"
    place.unlink()
    assert folder.store is None, "a folder of an earlier version"


def test_rotating_tells_which_keys_took_a_step(folder: KeyFolder) -> None:
    (pending,) = folder.rotate(now=START + 7 * DAY - 3600)
    assert (pending.id, pending.state) == (2, KeyState.PENDING)
    assert folder.rotate(now=START + 7 * DAY - 3600) == ()
    stepped = folder.rotate(now=START + 7 * DAY)
    assert [(one.id, str(one.state)) for one in stepped] == [(1, "expired"), (2, "active")]
    assert [one.since for one in stepped] == [START + 7 * DAY] * 2
    assert [str(one.state) for one in folder.rotate(now=START + 9 * DAY)] == ["closed"]
    # A key that waits to take over takes over, and no further one is made.
    folder.rotate(now=START + 14 * DAY - 3600)
    folder.rotate(now=START + 14 * DAY - 3600, at_once=True)
    assert states(folder) == ["closed", "expired", "active"]


def test_a_key_is_zeros_on_the_disk_before_its_name_goes(
    closed: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = closed.path / "key-001.json"
    length, fsync, synced = place.stat().st_size, os.fsync, []

    def watch(number: int) -> None:
        synced.append(Path(f"/proc/self/fd/{number}").resolve())
        if synced[-1] == place:
            assert place.read_bytes() == bytes(length)
        fsync(number)

    monkeypatch.setattr(os, "fsync", watch)
    closed.destroy_closed(unneeded, grace_seconds=0)
    assert synced[-2:] == [place, closed.path]


def test_a_key_that_cannot_be_wiped_is_told(
    closed: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail(number: int) -> None:
        if Path(f"/proc/self/fd/{number}").resolve().name == "key-001.json":
            raise OSError(errno.EIO, "")
        fsync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageFault, match="key-001"):
            closed.destroy_closed(unneeded, grace_seconds=0)
    assert states(closed) == ["destroyed", "active"]
    closed.rotate(now=START)
    assert not (closed.path / "key-001.json").exists()


# ---------------------------------------------------------------------------- several processes

CHANGES: dict[str, Callable[[KeyFolder], object]] = {
    "rotate": lambda folder: folder.rotate(at_once=True),
    "close": lambda folder: folder.close(1),
    "destroy": lambda folder: folder.destroy_closed(unneeded, grace_seconds=0),
    "wipe": lambda folder: folder.destroy_closed(needed),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_at_a_time_changes_a_folder(closed: KeyFolder, change: str) -> None:
    if change == "wipe":
        (closed.path / "key-009.json").touch(0o600)
    with ThreadPoolExecutor(1) as threads:
        with alone_in(closed.path, "keys"):
            work = threads.submit(CHANGES[change], closed)
            with pytest.raises(TimeoutError):
                work.result(0.2)
        work.result(20)


def test_a_key_is_destroyed_in_the_set_that_others_have_changed(closed: KeyFolder) -> None:
    closed.rotate(at_once=True, now=START + 2 * DAY)
    KeyFolder.open(closed.path).close(2)
    assert closed.destroy_closed({2}.__contains__, grace_seconds=0) == (1,)
    assert states(closed) == ["destroyed", "closed", "active"]


def test_a_change_starts_from_what_others_have_changed(folder: KeyFolder) -> None:
    other = KeyFolder.open(folder.path)
    folder.rotate(at_once=True, now=START)
    other.close(1)
    assert states(other) == ["closed", "active"]
    folder.refresh()
    other.rotate(at_once=True, now=START + 1)
    folder.destroy_closed(unneeded, grace_seconds=0)
    assert states(folder) == ["destroyed", "expired", "active"]
    other = KeyFolder.open(folder.path)
    folder.rotate(at_once=True, now=START + 2)
    assert other.rotate(now=START + 2) == ()
    assert states(other) == ["destroyed", "expired", "expired", "active"]


def test_a_key_that_goes_while_a_folder_is_read_is_no_fault(
    closed: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = KeyFolder._load  # noqa: SLF001 - to do something meanwhile

    def load_late(self: KeyFolder, entry: KeyEntry) -> StoredKey:
        if self is not closed:
            closed.destroy_closed(unneeded, grace_seconds=0)
        return load(self, entry)

    monkeypatch.setattr(KeyFolder, "_load", load_late)
    other = KeyFolder.open(closed.path)
    assert states(other) == ["destroyed", "active"]
    assert list(other.opening_keys()) == [2]


# ---------------------------------------------------------------------------- damage


@pytest.mark.parametrize("name", ["identity.pem", "keyset.json", "key-001.json"])
def test_a_missing_or_cut_file_is_refused(folder: KeyFolder, name: str) -> None:
    place = folder.path / name
    content = place.read_bytes()
    for damaged in (None, b"", content[: len(content) // 2], content[:-60]):
        place.unlink()
        if damaged is not None:
            place.write_bytes(damaged)
            place.chmod(0o600)
        with pytest.raises((StorageFault, InvalidFile)):
            KeyFolder.open(folder.path)
        place.write_bytes(content)
        place.chmod(0o600)
    assert KeyFolder.open(folder.path).serial == folder.serial


def test_every_changed_byte_of_a_key_is_noticed(folder: KeyFolder) -> None:
    place = folder.path / "key-001.json"
    content = place.read_bytes()
    for at in range(0, len(content), 3):
        place.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(InvalidFile, match="as it was written"):
            KeyFolder.open(folder.path)


# ---------------------------------------------------------------------------- kills

CREATE = "KeyFolder.create(path)"
ROTATE = "KeyFolder.open(path).rotate(at_once=True)"
DESTROY = "KeyFolder.open(path).destroy_closed(lambda number: False, grace_seconds=0)"


def killed(action: str, path: Path, failpoint: str) -> None:
    program = f"import sys\nfrom chaffinch.keys import KeyFolder\npath = sys.argv[1]\n{action}\n"
    done = forks.run(program, path, environment={VARIABLE: failpoint})
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("failpoint", ["keys.created"])
def test_killed_while_it_is_made_there_is_no_folder(tmp_path: Path, failpoint: str) -> None:
    killed(CREATE, tmp_path / "keys", failpoint)
    with pytest.raises(ChaffinchError):
        KeyFolder.open(tmp_path / "keys")
    KeyFolder.create(tmp_path / "keys")
    assert [one.name for one in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize(
    ("failpoint", "keys", "active"),
    [("keys.key-written", 1, 1), ("keys.set-written", 2, 1), ("keys.set-written:2", 2, 2)],
)
def test_killed_while_keys_rotate_the_folder_is_as_before_or_after(
    folder: KeyFolder, failpoint: str, keys: int, active: int
) -> None:
    killed(ROTATE, folder.path, failpoint)
    again = KeyFolder.open(folder.path)
    assert len(again.opening_keys()) == keys
    assert next(iter(again.opening_keys())) == active
    assert again.opening_keys()[1].key == folder.opening_keys()[1].key
    again.rotate(at_once=True)
    assert states(again).count("active") == 1
    living = {f"key-{one:03d}.json" for one in again.opening_keys()}
    rest = {"identity.pem", "keyset.json", "store.name"}
    assert {one.name for one in again.path.iterdir()} == living | rest


@pytest.mark.parametrize(
    "failpoint", ["keys.set-written", "keys.marked-destroyed", "keys.file-wiped"]
)
def test_killed_while_a_key_is_destroyed_it_is_gone_for_good(
    closed: KeyFolder, failpoint: str
) -> None:
    killed(DESTROY, closed.path, failpoint)
    again = KeyFolder.open(closed.path)
    assert states(again) == ["destroyed", "active"]
    assert 1 not in again.opening_keys()
    again.rotate(now=START)
    assert not (again.path / "key-001.json").exists()


def test_two_processes_that_rotate_at_once_make_one_key(folder: KeyFolder) -> None:
    program = (
        "import sys\nfrom chaffinch.keys import KeyFolder\n"
        f"KeyFolder.open(sys.argv[1]).rotate(now={START + 7 * DAY})\n"
    )
    running = [forks.Forked(program, folder.path) for _ in range(4)]
    assert [one.communicate() for one in running] == [("", "")] * 4
    assert [one.returncode for one in running] == [0] * 4
    assert states(KeyFolder.open(folder.path)) == ["active", "pending"]
