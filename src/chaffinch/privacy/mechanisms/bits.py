"""One bit per user, flipped and shuffled; copies of it; fake bits among them (S0 §4, S1 §5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from chaffinch import checks
from chaffinch.privacy.mechanisms.one_sum import Family, SumMechanism


@dataclass(frozen=True, init=False)
class FlippedBits(SumMechanism):
    """Each user flips a bit with ``flip_probability``, ``copies`` times over, and sends them all.

    ``decoys`` more records of value zero are flipped and sent alike. The analyzer sees the
    sum. ``users`` are the honest ones a guarantee counts on, the target among them.

    >>> FlippedBits(users=20, flip_probability="0.05").delta(0.2).upper.__round__(9)
    0.378258922
    """

    users: int
    flip_probability: Fraction
    copies: int
    decoys: int

    view = "messages"

    def __init__(
        self,
        *,
        users: int,
        flip_probability: float | str | Fraction,
        copies: int = 1,
        decoys: int = 0,
    ) -> None:
        object.__setattr__(self, "users", checks.whole("number of users", users, least=1))
        object.__setattr__(self, "flip_probability", checks.flip_probability(flip_probability))
        object.__setattr__(
            self, "copies", checks.whole("number of copies", copies, least=1, most=10_000)
        )
        object.__setattr__(self, "decoys", checks.whole("number of decoys", decoys))

    @property
    def family(self) -> Family:
        """Return the crowds: every other user holds 0 or 1, every decoy holds 0."""
        return Family(
            flip=self.flip_probability,
            copies=self.copies,
            step=self.copies,
            last=self.users - 1,
            fixed_zeros=self.decoys * self.copies,
        )

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        fakes = f" and {self.decoys} decoys" if self.decoys else ""
        return f"{self.users} honest users{fakes}"
