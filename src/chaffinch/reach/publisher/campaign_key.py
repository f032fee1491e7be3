"""The campaign key: 32 secret bytes that all publishers share and the analyzer never has.

Everything secret about the columns follows from it by HKDF-SHA256 (RFC 5869), bound to the
plan: the two SipHash keys that send an id to its columns. Whoever lacks the key cannot
tell which columns are whose, so the hash is the secret permutation; whoever has it can look an
id's columns up. A fingerprint, derived the same way, shows whether two filters were made with
one key, without showing the key.

A key makes one filter for each publisher. Flips are drawn afresh for every filter, so two
filters of one list under one key would show the same columns twice and average the flips away.
What a key has made is remembered with it in memory, and for a key with a file in two records:
in the user's state folder, under a name that follows from the key, so that it is found when the
file was renamed, moved, linked or copied; and beside the file, for whoever has another state
folder. Either of them forbids a second filter. Publishers have copies of the key on other machines,
each with records of its own.

A key is for one plan, whoever the publisher is. Another plan gives other columns, so filters of two
plans cannot be laid on top of one another; but all who have the key of the one could look ids up in
the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from chaffinch.disk.files import atomic, make_folder, read_small, state_folder
from chaffinch.disk.leftovers import alone_in
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, InvalidInput, RandomnessUnavailable, Unquoted
from chaffinch.wire.filter_files import Filter

_SIZE = 32
_HASH_KEY = 16
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR
_FORM = "chaffinch-campaign-key-2:"
_OLD_FORM = "chaffinch-campaign-key-1:"
"""Without check digits; such files are still read."""
_DIGITS = re.compile(r"([0-9a-f]{64})-([0-9a-f]{8})")
_OLD_DIGITS = re.compile(r"([0-9a-f]{64})")
_RULE = "a campaign key as `chaffinch reach key` writes it"
_RECORD_FORMAT = "chaffinch/key-record@2"
_RECORD_RULE = "the record of a campaign key"
_LARGEST_RECORD = 1 << 22


@dataclass(frozen=True)
class CampaignKey:
    """A key for one campaign. It never shows itself.

    >>> CampaignKey(bytes(32))
    CampaignKey(...)
    """

    secret: bytes = field(repr=False)
    _files: list[Path | None] = field(default_factory=list, init=False, repr=False, compare=False)
    """Where the key is kept; None if it came through a pipe, which has nothing beside it. A key
    in memory alone has no records."""
    _made: dict[str, dict[str, str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        given: object = self.secret
        if not isinstance(given, bytes) or len(given) != _SIZE:
            # What was given may be a key that lost a byte: it is not shown.
            raise InvalidInput("campaign key", f"{_SIZE} bytes", type(given).__name__)

    def __repr__(self) -> str:
        return "CampaignKey(...)"

    def hash_keys(self, plan_id: str) -> tuple[bytes, bytes]:
        """Return the key that digests ids and the one that leads to further columns."""
        keys = self._derived("hash", plan_id, 2 * _HASH_KEY)
        return keys[:_HASH_KEY], keys[_HASH_KEY:]

    def fingerprint(self, plan_id: str) -> str:
        """Return a name of the key under a plan, in hexadecimal; it tells nothing else."""
        return self._derived("fingerprint", plan_id, 16).hex()

    def _derived(self, purpose: str, plan_id: str, length: int) -> bytes:
        info = f"chaffinch/reach@1/{purpose}/{plan_id}".encode()
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self.secret)

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner can read.

        What it has made is recorded before the file is there, and what it makes from now on.
        """
        with atomic(path, overwrite=False, permissions=_OWNER_ONLY) as file:
            file.write(f"{_FORM}{self.secret.hex()}-{self._check_digits}\n".encode())
            self._files.append(Path(os.path.realpath(path)))
            for entry in list(self._made.values()):
                with self._recorded(entry):
                    pass

    @property
    def _check_digits(self) -> str:
        """Return digits by which a wrong digit of the key is noticed; they do not show it."""
        return self._derived("check", "", 4).hex()

    @property
    def _name(self) -> str:
        return self._derived("record", "", 16).hex()

    @property
    def records(self) -> list[Path]:
        """Return where it is recorded what the key has made: this user's record, then others."""
        if not self._files:
            return []
        usual = state_folder() / "keys" / f"{self._name}.record"
        return [usual, *(one.with_name(f"{one.name}.record") for one in self._files if one)]

    @property
    def payer(self) -> str:
        """Return a name of this key with its record: other users have other records."""
        kept = "".join(map(str, self.records[:1]))
        return hashlib.sha256(f"{self._name} {kept}".encode()).hexdigest()[:32]

    # ------------------------------------------------------------------ what it has made

    def made_for(self, publisher: str) -> dict[str, str] | None:
        """Return what is recorded of the filter that the key has made for a publisher."""
        if publisher in self._made:
            return self._made[publisher]
        return next((one for one in self._entries() if one["publisher"] == publisher), None)

    def _entries(self) -> Iterator[dict[str, str]]:
        yield from self._made.values()
        for record in self.records:
            yield from (one for one in _read_record(record) if one["key"] == self._name)

    def refuse_second(self, publisher: str, plan_id: str) -> None:
        """Refuse another plan, and a publisher for whom the key has made a filter before."""
        # The plan first: to send the filter of another collection would be no help.
        self._refuse_other_plan(plan_id)
        before = self.made_for(publisher)
        if before is not None:
            raise InvalidInput(
                "campaign key",
                f"one that has made no filter of {publisher!r} yet",
                Unquoted("a key that has made one"),
                hint=f"send the filter made then (SHA-256 {before['sha256'][:8]}…), or start anew: "
                "all publishers need a new key",
            )

    def _refuse_other_plan(self, plan_id: str) -> None:
        """Refuse a plan if the key has made a filter for another one.

        Entries of plans that are not named say nothing.
        """
        other = next(
            (one["plan"] for one in self._entries() if one["plan"] not in ("", plan_id)), None
        )
        if other is not None:
            raise InvalidInput(
                "campaign key",
                "one that has made no filter for another plan",
                Unquoted(f"a key that has made one for the plan {other[:16]}…"),
                hint="a key is for one collection: otherwise everybody who takes part in one "
                "could look ids up in the other; make another one with `chaffinch reach key`",
            )

    def remember(self, made: Filter) -> None:
        """Record a filter durably, before anybody gets it; refuse any but the first."""
        self.take(made.publisher, made.plan_id, made.digest, made.batch)

    def take(self, publisher: str, plan_id: str, digest: str, batch: str = "") -> None:
        """Use the key up for the filter of a publisher that has this digest, and no other."""
        with self.taking(publisher, plan_id, digest, batch):
            pass

    def taking(
        self, publisher: str, plan_id: str, digest: str, batch: str = ""
    ) -> AbstractContextManager[None]:
        """Use the key up as ``take`` does, if a block ends well.

        The records are on the disk, as drafts, when the block begins, and have their names when
        it has ended well: what is paid inside is not paid where it cannot be recorded.
        """
        return self._recorded(
            {
                "key": self._name,
                "plan": plan_id,
                "publisher": publisher,
                "batch": batch,
                "sha256": digest,
            }
        )

    @contextmanager
    def _recorded(self, entry: dict[str, str]) -> Iterator[None]:
        # A key on a disk that cannot be written to is recorded in the state folder alone.
        beside = [one for one in self.records[1:] if os.access(one.parent, os.W_OK)]
        records = self.records[:1] + beside
        publisher = entry["publisher"]
        # Read under the lock that is held until the records have their names: otherwise two
        # processes could both find that the key has made nothing yet.
        with _locked_folders(records):
            before = self.made_for(publisher)
            if before is not None and before["sha256"] != entry["sha256"]:
                self.refuse_second(publisher, entry["plan"])
            if before is None:  # What it has made may be handed out, whatever it has made besides.
                self._refuse_other_plan(entry["plan"])
            kept = before or entry
            with ExitStack() as drafts:
                for record in records:
                    entries = _read_record(record)
                    if not any(self._is_of(one, publisher) for one in entries):
                        drafts.enter_context(_drafted_record(record, [*entries, kept]))
                yield
            # Not before a record has its name: until then the key has made nothing.
            self._made.setdefault(publisher, kept)

    def _is_of(self, entry: dict[str, str], publisher: str) -> bool:
        return (entry["key"], entry["publisher"]) == (self._name, publisher)


def new_key() -> CampaignKey:
    """Return a fresh key from the operating system's randomness."""
    try:
        return CampaignKey(secrets.token_bytes(_SIZE))
    except (NotImplementedError, OSError):
        raise RandomnessUnavailable("operating system", "give random bytes") from None


def load_key(path: str | Path) -> CampaignKey:
    """Return the key in a file; refuse one that others on this machine can read.

    What it encodes is recorded in the user's state folder, and beside the file.
    """
    text = read_small(path, most=1024, must_be=_RULE).decode("ascii", errors="replace").strip()
    name = f"file {Path(path).name}"
    old = text.startswith(_OLD_FORM)
    if not old and not text.startswith(_FORM):
        raise InvalidFile(name, _RULE, ["something else"], hint="make one with chaffinch reach key")
    found = (_OLD_DIGITS if old else _DIGITS).fullmatch(text.partition(":")[2])
    key = CampaignKey(bytes.fromhex(found[1])) if found else None
    if found is None or key is None or not (old or key._check_digits == found[2]):  # noqa: SLF001
        raise InvalidFile(
            name, _RULE, ["wrong digits"], hint="copy the key again from who made it, in full"
        )
    if os.name == "posix" and Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidFile(
            name, "readable by its owner only", ["open to others"], hint="chmod 600 on that file"
        )
    place = Path(os.path.realpath(path))
    key._files.append(place if place.is_file() else None)  # noqa: SLF001 - its other half
    return key


# ----------------------------------------------------------------------------
# The record: which filters keys have made. It grows, and is replaced as a whole.


def _read_record(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    text = read_small(path, most=_LARGEST_RECORD, must_be=_RECORD_RULE)
    try:
        document: Any = json.loads(text)
        entries = document["filters"]
        # A changed entry would let the key make a second filter, so the digest is of them all.
        whole = document == _record_document(entries) and all(
            isinstance(one[name], str)
            for one in entries
            for name in ("key", "plan", "publisher", "batch", "sha256")
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise InvalidFile(
            f"file {path.name}",
            _RECORD_RULE,
            ["something else, or a damaged one"],
            hint="without it nobody knows what the key has made: use a new key for all publishers",
        )
    return list(entries)


def _record_document(entries: list[dict[str, str]]) -> dict[str, Any]:
    """Return the record of some filters, with a digest by which damage is noticed."""
    listed = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(listed).hexdigest()
    return {"format": _RECORD_FORMAT, "filters": entries, "digest": digest}


@contextmanager
def _locked_folders(records: list[Path]) -> Iterator[None]:
    with ExitStack() as held:
        # Every process takes the locks in the same order, so that no two wait for one another.
        for folder in sorted({_made_folder(record) for record in records}):
            held.enter_context(alone_in(folder, "keys"))
        yield


@contextmanager
def _drafted_record(path: Path, entries: list[dict[str, str]]) -> Iterator[None]:
    """Write a record to the disk; it has its name when the block has ended well."""
    with atomic(path, permissions=_OWNER_ONLY) as file:
        file.write(json.dumps(_record_document(entries), indent=1).encode() + b"\n")
        # On the disk before the block pays: a record that cannot be written must cost nothing.
        file.flush()
        try:
            os.fsync(file.fileno())
        except OSError as error:
            raise storage_fault(path.name, error, verb="write") from None
        yield


def _made_folder(path: Path) -> Path:
    try:
        make_folder(path.parent)
    except OSError as error:
        raise storage_fault(path.name, error, verb="write") from None
    return Path(os.path.realpath(path.parent))
