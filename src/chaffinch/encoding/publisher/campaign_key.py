"""The campaign key: 32 secret bytes that all publishers share and the analyzer never has.

Everything secret about the columns follows from it by HKDF-SHA256 (RFC 5869), bound to the
plan: the two SipHash keys that send an id to its columns. Whoever lacks the key sees columns in
an order that tells nothing, so the hash is the secret permutation; whoever has it can look an
id's columns up. A fingerprint, derived the same way, shows whether two filters were made with
one key, without showing the key.

A key makes one filter for each publisher. Flips are drawn afresh for every filter, so two
filters of one list under one key would show the same columns twice and average the flips away.
What a key has made is remembered with it in memory, and for a key from a file in a record in the
user's state folder, under a name that follows from the key. So it is found again when the file was
renamed, moved, linked or copied. A record that an earlier version has left beside the file counts
as well. Publishers have copies of the key on other machines, each with a record of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from chaffinch.errors import InvalidFile, InvalidInput, RandomnessUnavailable
from chaffinch.storage.faults import storage_fault
from chaffinch.storage.files import atomic, read_small, state_folder
from chaffinch.storage.locks import has_name, wait_for_lock
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
    record: Path | None = field(default=None, repr=False, compare=False)
    """Where it is kept what the key has made; in memory alone if there is no file."""
    beside: Path | None = field(default=None, repr=False, compare=False)
    """Where an earlier version has kept it: beside the key file. It is read, never written."""
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
        """Write the key to a new file that only its owner can read, and record what it has made."""
        if self._made:
            with _locked_record(self._usual_record) as entries:
                entries.extend(one for one in self._made.values() if one not in entries)
        with atomic(path, overwrite=False, permissions=_OWNER_ONLY) as file:
            file.write(f"{_FORM}{self.secret.hex()}-{self._check_digits}\n".encode())

    @property
    def _check_digits(self) -> str:
        """Return digits by which a wrong digit of the key is noticed; they do not show it."""
        return self._derived("check", "", 4).hex()

    @property
    def _name(self) -> str:
        """Return what the key is called in records, whatever the plan."""
        return self._derived("record", "", 16).hex()

    @property
    def _usual_record(self) -> Path:
        """Return where this user's record of the key is, wherever its file is."""
        return state_folder() / "keys" / f"{self._name}.record"

    @property
    def payer(self) -> str:
        """Return a name of this key with its record: other users have other records."""
        return hashlib.sha256(f"{self._name} {self.record or ''}".encode()).hexdigest()[:32]

    # ------------------------------------------------------------------ what it has made

    def made_for(self, publisher: str) -> dict[str, str] | None:
        """Return what is recorded of the filter that the key has made for a publisher."""
        if publisher in self._made:
            return self._made[publisher]
        records = (one for one in (self.record, self.beside) if one is not None)
        entries = (entry for record in records for entry in _read_record(record))
        return next((one for one in entries if self._is_of(one, publisher)), None)

    def refuse_second(self, publisher: str) -> None:
        """Refuse a publisher for whom the key has made a filter before."""
        before = self.made_for(publisher)
        if before is not None:
            raise InvalidInput(
                "campaign key",
                f"one that has made no filter of {publisher!r} yet",
                "one that has",
                hint=f"send the filter made then (batch {before['batch'][:8]}…), or start anew: "
                "all publishers need a new key",
            )

    def remember(self, made: Filter) -> None:
        """Record a filter durably, before anybody gets it; refuse any but the first."""
        entry = {
            "key": self._name,
            "plan": made.plan_id,
            "publisher": made.publisher,
            "batch": made.batch,
            "sha256": made.digest,
        }
        if self.record is None:
            if self._made.setdefault(made.publisher, entry) != entry:
                self.refuse_second(made.publisher)
            return
        with _locked_record(self.record) as entries:
            if self.made_for(made.publisher) not in (None, entry):
                self.refuse_second(made.publisher)
            if entry not in entries:
                entries.append(entry)

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

    What it encodes is recorded in the user's state folder, whatever the file is called.
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
    beside = place.with_name(f"{place.name}.record")
    return replace(key, record=key._usual_record, beside=beside)  # noqa: SLF001 - its other half


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
def _locked_record(path: Path) -> Iterator[list[dict[str, str]]]:
    """Yield the entries of a record; what was added is on the disk when the block ends."""
    with _locked_folder(path):
        entries = _read_record(path)
        before = len(entries)
        yield entries
        if len(entries) == before:
            return
        text = json.dumps(_record_document(entries), indent=1)
        with atomic(path, permissions=_OWNER_ONLY) as file:
            file.write(text.encode() + b"\n")


@contextmanager
def _locked_folder(path: Path) -> Iterator[None]:
    """Let one process at a time use the records of a folder, by a lock on the folder.

    Who waited may have locked a folder that another has taken the place of: then it is that one.
    """
    while True:
        number = _open_folder(path)
        try:
            wait_for_lock(number)
            if has_name(number, Path(os.path.realpath(path.parent))):
                yield
                return
        finally:
            os.close(number)


def _open_folder(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise storage_fault(path.name, error, verb="write") from None
