"""HPKE of RFC 9180, base mode, X25519, HKDF-SHA256 and AES-128-GCM, written out step by step.

It shares nothing with the package but the curve, the hash and the cipher.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEM = b"KEM" + bytes.fromhex("0020")


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    """Return LabeledExtract of section 4."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + material, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """Return LabeledExpand of section 4, for at most one block of the hash."""
    text = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, text + b"\1", "sha256")[:length]


@dataclass(frozen=True)
class Secrets:
    """What both ends agree on."""

    shared_secret: bytes
    key: bytes
    base_nonce: bytes


def receive(private: bytes, enc: bytes, info: bytes) -> Secrets:
    """Return the secrets of the receiver: Decap of section 4.1, KeySchedule of section 5.1."""
    own = X25519PrivateKey.from_private_bytes(private)
    shared = own.exchange(X25519PublicKey.from_public_bytes(enc))
    context = enc + own.public_key().public_bytes_raw()
    return _schedule(shared, context, info)


def offer(ephemeral: bytes, public: bytes, info: bytes) -> Secrets:
    """Return the secrets of the sender: Encap of section 4.1 with a given ephemeral key."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    return _schedule(shared, own.public_key().public_bytes_raw() + public, info)


def _schedule(exchanged: bytes, kem_context: bytes, info: bytes) -> Secrets:
    extracted = _extract(_KEM, b"", b"eae_prk", exchanged)
    return schedule(_expand(_KEM, extracted, b"shared_secret", kem_context, 32), info)


def schedule(shared: bytes, info: bytes, algorithms: str = "0020 0001 0001") -> Secrets:
    """Return the secrets that follow from a shared one, for a KEM, a KDF and an AEAD."""
    suite = b"HPKE" + bytes.fromhex(algorithms)
    length = 16 if suite.endswith(b"\1") else 32  # of an AES-128 key, or any other
    psk = _extract(suite, b"", b"psk_id_hash", b"")
    context = b"\0" + psk + _extract(suite, b"", b"info_hash", info)
    secret = _extract(suite, shared, b"secret", b"")
    return Secrets(
        shared,
        _expand(suite, secret, b"key", context, length),
        _expand(suite, secret, b"base_nonce", context, 12),
    )


def unseal(private: bytes, sealed: bytes, info: bytes, aad: bytes = b"") -> bytes:
    """Return what is sealed in ``enc`` and the ciphertext behind it: the first message."""
    found = receive(private, sealed[:32], info)
    return AESGCM(found.key).decrypt(found.base_nonce, sealed[32:], aad)


def seal(ephemeral: bytes, public: bytes, content: bytes, info: bytes, aad: bytes = b"") -> bytes:
    """Return ``enc`` and the ciphertext of a first message, with a given ephemeral key."""
    found = offer(ephemeral, public, info)
    enc = X25519PrivateKey.from_private_bytes(ephemeral).public_key().public_bytes_raw()
    return enc + AESGCM(found.key).encrypt(found.base_nonce, content, aad)
