"""The key folder of a party, on the disk.

::

    identity.pem      the Ed25519 key that plans name: it signs key lists, batches and receipts
    keyset.json       which keys there are, and how far on each is; its replacement is the one
                      step that makes a change true
    key-007.json      one key that opens envelopes, with the secret of its replay tags: both live
                      and die together

Folder and files are for their owner alone, and refused otherwise. A process that is killed at
any step leaves a folder that opens; the next one removes what is left over. One process at a
time changes a folder; any number may read it meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from chaffinch.disk.files import atomic, read_small, require_private, sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.leftovers import alone_in, remove_leftovers, staging_folder
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, InvalidInput, Reason, StorageFault
from chaffinch.keys.keyset import KeyEntry, Keyset, KeyState, Periods
from chaffinch.wire.envelopes import X25519, OpeningKey
from chaffinch.wire.key_lists import KeyList

_IDENTITY, _KEYSET, _STORE = "identity.pem", "keyset.json", "store.name"
_FORMAT = "chaffinch/key@1"
_LARGEST = 1 << 20
_SECRET = 32
_RULE = Periods()
_SEEN = "; if others could read it, make new keys and a new plan"
GRACE = 60.0
"""Seconds between the last moment at which a key is taken for and its end."""


@dataclass(frozen=True)
class StoredKey:
    """A key that still opens, with the secret of its replay tags. ``repr`` shows neither."""

    key: OpeningKey
    tag_secret: bytes = field(repr=False)
    state: KeyState
    since: float


class KeyFolder:
    """The identity of a party and the keys it opens envelopes with."""

    def __init__(self, path: Path, identity: Ed25519PrivateKey) -> None:
        self.path = path
        self.identity = identity
        self._content: bytes | None = None
        self._keyset = Keyset(0, ())
        self._stored: dict[str, StoredKey] = {}
        self._closed: dict[str, float] = {}
        self.refresh()

    @classmethod
    def create(cls, path: str | Path, *, kem: int = X25519, now: float | None = None) -> KeyFolder:
        """Make a folder with a new identity and a first active key; refuse one that exists."""
        place = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays a link
        number = Keyset(0, ()).next_id()
        try:
            with staging_folder(place.parent) as staging:
                made = staging / "keys"
                made.mkdir(0o700)
                identity = Ed25519PrivateKey.generate()
                form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                _write(made / _IDENTITY, identity.private_bytes(*form))
                entry = _write_key(made, number, kem, KeyState.ACTIVE, _clock(now))
                _write(made / _KEYSET, Keyset(0, ()).changed(entry).content())
                _write(made / _STORE, b"")
                kill_point("keys.created")
                # Complete before it has its name: no process sees half a key folder.
                made.rename(place)  # An empty folder is replaced, any other is refused.
                sync_folder(place.parent)
        except OSError as error:
            raise storage_fault(place.name, error, verb="create") from None
        return cls.open(place)

    @classmethod
    def open(cls, path: str | Path) -> KeyFolder:
        """Return the folder; refuse one that others may read, or that is damaged."""
        place = Path(path).resolve()
        require_private(place, hint=_SEEN)
        content = _read(place / _IDENTITY)
        try:
            identity = load_pem_private_key(content, None)
        except (ValueError, TypeError):
            identity = None
        if not isinstance(identity, Ed25519PrivateKey):
            raise _damaged(_IDENTITY, "an Ed25519 key in PEM", "another content")
        return cls(place, identity)

    @property
    def identity_hex(self) -> str:
        """Return the public identity key, as it stands in plans."""
        return self.identity.public_key().public_bytes_raw().hex()

    @property
    def serial(self) -> int:
        """Return a number that grows with every change."""
        return self._keyset.serial

    @property
    def entries(self) -> tuple[KeyEntry, ...]:
        """Return what is known of every key, also of destroyed ones."""
        return self._keyset.entries

    @property
    def store(self) -> str | None:
        """Return the name of the data that these keys work on.

        It is empty before the first start; None for keys of a version that noted no name.
        """
        place = self.path / _STORE
        return _read(place).decode(errors="replace") if place.exists() else None

    def note_store(self, name: str) -> None:
        """Note the name of the data that these keys work on from now on."""
        _write(self.path / _STORE, name.encode())

    def accepted_keys(self) -> dict[int, StoredKey]:
        """Return every key for which envelopes are taken, by id; the active one first."""
        return {one.id: self._stored[one.digest] for one in self._keyset.accepted}

    def opening_keys(self) -> dict[int, StoredKey]:
        """Return every key that still opens, by id; the active one first."""
        return {one.id: self._stored[one.digest] for one in self._keyset.opening}

    def key_list(self, plan_id: str) -> bytes:
        """Return the signed list for a plan: the same bytes until a key changes."""
        keys = tuple(one.key.sealing for one in self.accepted_keys().values())
        return KeyList(plan_id, self.serial, keys).signed(self.identity)

    def refresh(self) -> bool:
        """Read the folder again; return whether something has changed."""
        # Without a lock: the set is replaced in one step, and names each key file by its digest.
        while (content := _read(self.path / _KEYSET)) != self._content:
            keyset = Keyset.read(content, name=_KEYSET)
            try:
                stored = {one.digest: self._load(one) for one in keyset.opening}
            except (StorageFault, InvalidFile):
                # A key may have been destroyed between the two readings.
                if _read(self.path / _KEYSET) == content:
                    raise
                continue
            self._content, self._keyset, self._stored = content, keyset, stored
            closed = (one.digest for one in keyset.opening if one.state is KeyState.CLOSED)
            # By the monotonic clock of this process: after a restart the grace begins again.
            self._closed = {one: self._closed.get(one, time.monotonic()) for one in closed}
            return True
        return False

    # ------------------------------------------------------------------ changes

    def rotate(
        self, *, now: float | None = None, periods: Periods = _RULE, at_once: bool = False
    ) -> tuple[KeyEntry, ...]:
        """Let every key take the step that is due; return those that took one.

        Asked again at the same time, it does nothing. ``at_once`` lets a new key take over now,
        whatever the times. No key is destroyed: that is for the service that opens with it.
        """
        moment = _clock(now)
        with alone_in(self.path, "keys"):
            self._clean()
            before = self._keyset
            if before.wants_pending(moment, periods) or (at_once and not before.pending):
                self._add_pending(moment)
            self._commit(self._keyset.stepped(moment, periods, at_once=at_once))
        old = set(before.entries)
        return tuple(one for one in self.entries if one not in old)

    def close(self, number: int, *, now: float | None = None) -> None:
        """Take nothing more for an expired key; its service destroys it when nothing needs it."""
        with alone_in(self.path, "keys"):
            self._clean()
            entry = self._keyset.entry(number)
            if entry is None or entry.state in (KeyState.PENDING, KeyState.ACTIVE):
                state = "none of that id" if entry is None else f"one that is {entry.state}"
                hint = "`chaffinch keys rotate --at-once` lets another key take over"
                raise InvalidInput("key to destroy", "an expired one", state, hint=hint)
            if entry.state is KeyState.EXPIRED:
                self._commit(self._keyset.changed(entry.moved(KeyState.CLOSED, _clock(now))))

    def destroy_closed(
        self, needed: Callable[[int], bool], *, grace_seconds: float = GRACE
    ) -> tuple[int, ...]:
        """Destroy closed keys, each with its tag secret; return their ids.

        The file of a key that could not be wiped for want of room is wiped by a later call.

        For the service that opens with them: ``needed`` says whether anything is left to be
        opened with a key. It is asked only when the key has been seen closed for so long by the
        monotonic clock that whoever takes envelopes has surely seen it, too.
        """
        seen = time.monotonic() - grace_seconds
        gone = []
        if self._dead_files():
            with alone_in(self.path, "keys"):
                self._clean()
        for digest in [one for one, since in self._closed.items() if since <= seen]:
            entry = next(one for one in self.entries if one.digest == digest)
            if not needed(entry.id):
                with alone_in(self.path, "keys"):
                    self._destroy(entry, _clock(None))
                gone.append(entry.id)
        return tuple(gone)

    def _add_pending(self, now: float) -> None:
        number = self._keyset.next_id()
        kem = self._keyset.active.kem
        # The key is on the disk before the set names it: a set never names a key that is not there.
        entry = _write_key(self.path, number, kem, KeyState.PENDING, now)
        kill_point("keys.key-written")
        self._commit(self._keyset.changed(entry))

    def _destroy(self, entry: KeyEntry, now: float) -> None:
        self._clean()
        # The set first: after a kill in between the key is destroyed for everybody, and its file is
        # wiped by whoever cleans up next. In the other order the set would name a wiped file.
        self._commit(self._keyset.changed(entry.moved(KeyState.DESTROYED, now)))
        kill_point("keys.marked-destroyed")
        _wipe(_key_path(self.path, entry.id))

    def _commit(self, keyset: Keyset) -> None:
        if keyset is not self._keyset:
            _write(self.path / _KEYSET, keyset.content())
            kill_point("keys.set-written")
            self.refresh()

    def _clean(self) -> None:
        # Only under the lock: a file that the set does not name yet is a new key for another
        # process, and a leftover of a killed one only where nobody else is at work.
        self.refresh()
        remove_leftovers(self.path)
        for place in self._dead_files():
            _wipe(place)

    def _dead_files(self) -> set[Path]:
        living = {_key_path(self.path, one.id) for one in self._keyset.opening}
        return set(self.path.glob("key-*.json")) - living

    def _load(self, entry: KeyEntry) -> StoredKey:
        place = _key_path(self.path, entry.id)
        known = self._stored.get(entry.digest)
        if known is not None:
            return StoredKey(known.key, known.tag_secret, entry.state, entry.since)
        content = _read(place)
        if hashlib.sha256(content).hexdigest() != entry.digest:
            raise _damaged(place.name, "as it was written", "another content")
        found = json.loads(content)
        key = OpeningKey(found["id"], found["kem"], bytes.fromhex(found["private"]))
        return StoredKey(key, bytes.fromhex(found["tag_secret"]), entry.state, entry.since)


# ----------------------------------------------------------------------------
# Files, each for its owner alone.


def _key_path(folder: Path, number: int) -> Path:
    return folder / f"key-{number:03d}.json"


def _write_key(folder: Path, number: int, kem: int, state: KeyState, now: float) -> KeyEntry:
    key = OpeningKey.new(number, kem)
    document = {
        "format": _FORMAT,
        "id": number,
        "kem": kem,
        "private": key.private.hex(),
        "tag_secret": secrets.token_hex(_SECRET),
    }
    content = json.dumps(document, indent=2).encode() + b"\n"
    _write(_key_path(folder, number), content)
    return KeyEntry(number, kem, state, now, hashlib.sha256(content).hexdigest())


def _write(place: Path, content: bytes) -> None:
    with atomic(place, permissions=0o600) as file:
        file.write(content)
    sync_folder(place.parent)


def _wipe(place: Path) -> None:
    """Overwrite a file and remove it. A disk may still keep what was there: see the guide."""
    try:
        with place.open("r+b") as file:
            file.write(bytes(place.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        kill_point("keys.file-wiped")
        place.unlink()
        sync_folder(place.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_fault(place.name, error, verb="destroy") from None


def _read(place: Path) -> bytes:
    require_private(place, hint=_SEEN)
    return read_small(place, most=_LARGEST, must_be="a file of a key folder")


def _damaged(name: str, rule: str, got: str) -> InvalidFile:
    return InvalidFile(f"file {name}", rule, [got], reason=Reason.DAMAGED)


def _clock(now: float | None) -> float:
    return time.time() if now is None else now
