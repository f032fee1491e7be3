"""The campaign key: 32 secret bytes that all publishers share and the analyzer never has.

Everything secret about the columns follows from it by HKDF-SHA256 (RFC 5869), bound to the
plan: the two SipHash keys that send an id to its columns. Whoever lacks the key sees columns in
an order that tells nothing, so the hash is the secret permutation; whoever has it can look an
id's columns up. A fingerprint, derived the same way, shows whether two filters were made with
one key, without showing the key.
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from chaffinch.errors import InvalidFile, InvalidInput, RandomnessUnavailable
from chaffinch.files import atomic, read_small

SIZE = 32
_HASH_KEY = 16
FORM = "chaffinch-campaign-key-1:"
_RULE = "a campaign key as `chaffinch reach key` writes it"


@dataclass(frozen=True)
class CampaignKey:
    """A key for one campaign. It never shows itself.

    >>> CampaignKey(bytes(32))
    CampaignKey(...)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        given: object = self.secret
        if not isinstance(given, bytes) or len(given) != SIZE:
            # What was given may be a key that lost a byte: it is not shown.
            raise InvalidInput("campaign key", f"{SIZE} bytes", type(given).__name__)

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
        """Write the key to a new file that only its owner can read."""
        with atomic(path, overwrite=False, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
            file.write(f"{FORM}{self.secret.hex()}\n".encode())


def new_key() -> CampaignKey:
    """Return a fresh key from the operating system's randomness."""
    try:
        return CampaignKey(secrets.token_bytes(SIZE))
    except (NotImplementedError, OSError):
        raise RandomnessUnavailable("operating system", "give random bytes") from None


def load_key(path: str | Path) -> CampaignKey:
    """Return the key in a file; refuse one that others on this machine can read."""
    text = read_small(path, most=1024, must_be=_RULE).decode("ascii", errors="replace").strip()
    name = f"file {Path(path).name}"
    if not text.startswith(FORM):
        raise InvalidFile(name, _RULE, ["something else"], hint="make one with chaffinch reach key")
    try:
        secret = bytes.fromhex(text.removeprefix(FORM))
    except ValueError:
        raise InvalidFile(name, _RULE, ["damaged digits"]) from None
    if len(secret) != SIZE:
        raise InvalidFile(name, _RULE, [f"{len(secret)} bytes"])
    if os.name == "posix" and Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidFile(
            name, "readable by its owner only", ["open to others"], hint="chmod 600 on that file"
        )
    return CampaignKey(secret)
