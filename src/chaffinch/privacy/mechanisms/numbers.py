"""One real number from 0 to 1, sent as several flipped bits (S3, algorithms 2 and 3).

A number x becomes a thermometer of ``resolution`` bits of which about x·resolution are set.
The worst neighbours are x = 0 and x = 1, which differ in every bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from chaffinch import privacy
from chaffinch.errors import checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.mechanisms.bits import FlippedBits, SumMechanism
from chaffinch.privacy.numerics.precision import Floats

_MOST_BITS = 1_000


@dataclass(frozen=True, init=False)
class EncodedNumbers(Mechanism):
    """Users send a number as ``resolution`` flipped bits, each its own message.

    ``slots="separate"``: the analyzer sees a sum per bit position, which composes
    ``resolution`` collections of one bit whose crowds may all differ. ``slots="together"``:
    it sees only the total, as with ``resolution`` copies among a crowd whose ones may be any
    number; it is never less private, because the total is made from the sums.
    """

    users: int
    resolution: int
    flip_probability: Fraction
    slots: str

    view = "messages"
    document_name = "encoded-numbers"
    document_fields = (
        "users",
        "resolution",
        "flip_probability",
        "slots",
    )
    document_fractions = ("flip_probability",)

    def __init__(
        self,
        *,
        users: int,
        resolution: int,
        flip_probability: float | str | Fraction,
        slots: str = "separate",
    ) -> None:
        object.__setattr__(self, "users", checks.people("number of users", users))
        object.__setattr__(
            self, "resolution", checks.whole("resolution", resolution, least=1, most=_MOST_BITS)
        )
        object.__setattr__(self, "flip_probability", checks.flip_probability(flip_probability))
        object.__setattr__(self, "slots", checks.choice("slots", slots, ("separate", "together")))

    @property
    def inner(self) -> _Together | privacy.Composition | FlippedBits:
        """Return the mechanism that carries the proof."""
        if self.slots == "together":
            return _Together(self.users, self.resolution, self.flip_probability)
        bit = FlippedBits(users=self.users, flip_probability=self.flip_probability)
        # Every slot has its own crowd, so the slots compose; they are not one sum.
        return bit if self.resolution == 1 else privacy.compose(bit, times=self.resolution)

    @property
    def opened(self) -> Mechanism:
        """Return the single bits, where they are seen apart."""
        return self.inner if isinstance(self.inner, privacy.Composition) else self

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``exact`` for the total; separate sums are bounded by composition."""
        return self.inner.method

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"{self.users} honest users, {self.resolution} bits each, {self.slots}"

    @property
    def local_epsilon(self) -> float:
        """Return resolution · ln(p/q), rounded up."""
        return self.inner.local_epsilon

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta for x = 0 against x = 1."""
        return self.inner.delta(epsilon)

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta, quickly."""
        return self.inner.delta_bound(epsilon)

    def delta_within(self, epsilon: float, most: float) -> float:
        """Return an upper end of delta that is at most ``most``, if that is true and proven."""
        return self.inner.delta_within(epsilon, most)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        return self.inner.epsilon(delta)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        return self.inner.profile(epsilons)

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at many epsilons, quickly."""
        return self.inner.profile_bound(epsilons)

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP."""
        return self.inner.gaussian_mu()

    def profile_end(self) -> float:
        """Return about where the inner profile ends."""
        return self.inner.profile_end()

    def quick_nodes(self) -> Floats:
        """Return the epsilons that describe the inner profile."""
        return self.inner.quick_nodes()

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the laws for one crowd, where there is one sum."""
        return self.inner.instance()


@dataclass(frozen=True)
class _Together(SumMechanism):
    """The total of all bits of all users: the others' ones are any number from 0 up."""

    users: int
    resolution: int
    flip_probability: Fraction

    view = "messages"

    @property
    def bit_crowds(self) -> BitCrowds:
        # The bits of one person need not agree here: every one of the others' bits counts for
        # itself.
        return BitCrowds(
            flip=self.flip_probability,
            copies=self.resolution,
            step=1,
            last=self.resolution * (self.users - 1),
        )

    @property
    def crowd_words(self) -> str:
        return f"{self.users} honest users, {self.resolution} bits each"
