"""Signatures of the parties: Ed25519 over some words, a zero byte, and what is signed.

The words say what a signature is for: one for a batch is none for a receipt.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = 64
"""Bytes of a signature."""


def sign(identity: Ed25519PrivateKey, words: bytes, content: bytes) -> bytes:
    """Return the signature of a party."""
    return identity.sign(words + b"\0" + content)


def is_signed(identity: bytes, words: bytes, content: bytes, signature: bytes) -> bool:
    """Return whether the party of a public key has signed this."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, words + b"\0" + content)
    except (InvalidSignature, ValueError):
        return False
    return True
