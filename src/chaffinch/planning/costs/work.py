"""Work of one party, in quantities that add up."""

from __future__ import annotations

from dataclasses import dataclass

from chaffinch import checks

HOUR, MONTH_IN_DAYS, GIGABYTE = 3600.0, 30.0, 1e9


@dataclass(frozen=True, slots=True)
class Work:
    """What is done for one report or message, or for many."""

    seconds: float = 0.0
    """Processor time of one core like the one that was measured."""
    operations: float = 0.0
    """Public-key operations: envelopes sealed or opened."""
    sent: float = 0.0
    """Bytes that leave the party."""
    stored: float = 0.0
    """The most bytes on its disks at a time."""

    def __add__(self, other: Work) -> Work:
        return Work(
            self.seconds + other.seconds,
            self.operations + other.operations,
            self.sent + other.sent,
            self.stored + other.stored,
        )

    def __mul__(self, times: float) -> Work:
        return Work(
            self.seconds * times, self.operations * times, self.sent * times, self.stored * times
        )

    @property
    def core_hours(self) -> float:
        """Return the processor time in hours of one core."""
        return self.seconds / HOUR


@dataclass(frozen=True, slots=True)
class Prices:
    """What is paid, in any currency. The defaults are an assumption: round list prices in dollars.

    ``core_hour`` for one core for one hour, ``gigabyte_month`` for 10⁹ bytes on a disk for thirty
    days, ``gigabyte_out`` for 10⁹ bytes that leave a data centre. ``days`` is how long bytes are
    kept.
    """

    core_hour: float = 0.05
    gigabyte_month: float = 0.10
    gigabyte_out: float = 0.09
    days: float = 1.0

    def __post_init__(self) -> None:
        for name in ("core_hour", "gigabyte_month", "gigabyte_out", "days"):
            what = "days that bytes are kept" if name == "days" else "price of a " + _words(name)
            checks.real(what, getattr(self, name), least=0.0, most=1e9)

    def money(self, work: Work) -> float:
        """Return what work costs whoever pays for it."""
        kept = work.stored / GIGABYTE * self.days / MONTH_IN_DAYS
        return (
            work.core_hours * self.core_hour
            + kept * self.gigabyte_month
            + work.sent / GIGABYTE * self.gigabyte_out
        )

    @property
    def words(self) -> str:
        """Return the prices as a sentence."""
        return (
            f"Money, by assumed prices: {self.core_hour:g} for a core-hour, "
            f"{self.gigabyte_month:g} for a GB stored for 30 days, of which it is {self.days:g}, "
            f"{self.gigabyte_out:g} for a GB that an operator sends."
        )


def _words(name: str) -> str:
    return name.replace("_", " ")
