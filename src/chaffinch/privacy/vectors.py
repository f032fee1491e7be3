"""One vector of bits per user, every bit flipped, whole vectors shuffled (S1 §6, S2 §2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from chaffinch import checks
from chaffinch.privacy.records import WordMechanism, checked_flip

MOST_BITS = 20


@dataclass(frozen=True, init=False)
class FlippedVectors(WordMechanism):
    """Each user flips every bit of a vector with ``flip_probability`` and sends it whole.

    The analyzer sees the multiset of flipped vectors. ``users`` are the honest ones a
    guarantee counts on, the target among them. The bracket is (worst crowd found, proven
    bound over all crowds and pairs).

    >>> answers = FlippedVectors(users=10_000, bits=3, flip_probability="0.2")
    >>> answers.assumed_pair().epsilon(1e-6).upper < answers.epsilon(1e-6).upper < 0.42
    True
    """

    users: int
    bits: int
    flip_probability: Fraction

    view = "records"

    def __init__(self, *, users: int, bits: int, flip_probability: float | str | Fraction) -> None:
        object.__setattr__(self, "users", checks.whole("number of users", users, least=1))
        length = checks.whole("number of bits", bits, least=1, most=MOST_BITS)
        object.__setattr__(self, "bits", length)
        object.__setattr__(self, "flip_probability", checked_flip(flip_probability, length))

    @property
    def records(self) -> int:
        """Return the number of vectors released."""
        return self.users

    @property
    def length(self) -> int:
        """Return the number of bits of a vector."""
        return self.bits

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"{self.users} honest users, each with {self.bits} bits of any value"
