"""What a collection costs, party by party and question by question: an estimate, and says so."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from chaffinch.cards import card, paragraph, table
from chaffinch.charts.text_tables import text_table
from chaffinch.errors import checks
from chaffinch.planning.costs.units import EXCHANGES

Table = tuple[list[str], list[list[str]]]
"""The heads of a table, and its rows."""
_WIDTH = 100
_SUM, _ALL, _OWN = "together", "all operators", "on devices"
"""What is paid for, and what people's own devices do, for which nobody else pays."""
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
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
            what = (
                "days that bytes are kept"
                if name == "days"
                else "price of a " + name.replace("_", " ")
            )
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


@dataclass(frozen=True, slots=True)
class PartCost:
    """One question with its protocol; or one publisher with its filter."""

    name: str
    protocol: str
    messages: float
    """Of one report: how many it holds on average, for the answer that has most."""
    most: int
    """Of one report: how many it holds at the most."""
    upload: int
    """Of one report: bytes that are sent for this question."""
    work: Work
    """Of all operators, for the messages of all people."""
    devices: Work = Work()
    """Of people's own devices, for the same messages."""

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        named = {name: getattr(self, name) for name in ("name", "protocol", "messages", "most")}
        own = {f"device_{name}": value for name, value in _work_document(self.devices).items()}
        return {**named, "upload_bytes": self.upload, **_work_document(self.work), **own}


@dataclass(frozen=True, slots=True)
class PartyCost:
    """What one party does for all people."""

    name: str
    work: Work
    memory: float
    """Bytes that one process of it needs."""
    paid: bool = True
    """Whether an operator pays for it; people's own devices cost nobody else anything."""

    def document(self, prices: Prices) -> dict[str, Any]:
        """Return it for JSON."""
        money = prices.money(self.work) if self.paid else None
        held = {"memory_bytes": round(self.memory), "money": money}
        return {"name": self.name, **_work_document(self.work), **held}


@dataclass(frozen=True)
class Cost:
    """An estimate of what one round of a collection costs.

    Messages and bytes follow from the plan. Processor time follows from units that were measured
    on one core; ``EXCHANGES`` says how fast that core is. Money follows from ``prices``.
    """

    title: str
    way: str
    """How reports travel, in words."""
    users: int
    reports: int
    sender: str
    """Who sends a report: a person, or a publisher."""
    messages: float
    """How many messages one report holds on average, where answers have most."""
    most_messages: int
    upload: int
    """Bytes of one report as it is sent."""
    parts: tuple[PartCost, ...]
    rest: PartCost
    """What is done for no part alone: with the parts it is what all parties do."""
    parties: tuple[PartyCost, ...]
    prices: Prices
    notes: tuple[str, ...]
    """What is counted, and what is not."""

    exchanges: ClassVar[float] = EXCHANGES

    @property
    def core_hours(self) -> float:
        """Return the hours of one core of all operators; people's devices are not among them."""
        return math.fsum(one.work.core_hours for one in self.parties if one.paid)

    @property
    def money(self) -> float:
        """Return what all operators pay together."""
        return math.fsum(self.prices.money(one.work) for one in self.parties if one.paid)

    def party(self, name: str) -> PartyCost:
        """Return one of the parties."""
        return next(one for one in self.parties if one.name == name)

    # -------------------------------------------------------------------- for people and files

    @property
    def summary(self) -> str:
        """Return the whole in a sentence."""
        plural = "s" if self.reports != 1 else ""
        return (
            f"Estimate for {self.users:,} people, {self.reports:,} report{plural}, {self.way}: "
            f"{short(self.core_hours)} core-hours of all operators, {short(self.money)} in money."
        )

    def tables(self) -> list[Table]:
        """Return what each question costs, and what each party does; both add up to the same."""
        heads = ["question", "protocol", "messages", "most", "bytes", "operations", "core-hours"]
        rows = [self._part_row(part) for part in self.parts]
        if self.rest.work != Work():
            rows.append(self._part_row(self.rest))
        rows.append([_SUM, "", *self._report_cells(), *_work_cells(self._paid)])
        if self._own != Work():
            heads.append(_OWN)
            shown = [*self.parts, self.rest]
            for row, part in zip(rows, shown, strict=False):
                row.append(short(part.devices.core_hours))
            rows[-1].append(short(self._own.core_hours))
        return [(heads, rows), self._party_table()]

    def _party_table(self) -> Table:
        heads = ["party", "operations", "core-hours", "sent", "stored", "memory", "money"]
        paid = [one for one in self.parties if one.paid]
        rows = [
            [
                *_party_cells(one.name, one.work),
                size(one.memory),
                short(self.prices.money(one.work)),
            ]
            for one in paid
        ]
        rows.append([*_party_cells(_ALL, self._paid), "", short(self.money)])
        rows += [
            [*_party_cells(_OWN, one.work), size(one.memory), "their own"]
            for one in self.parties
            if not one.paid
        ]
        return heads, rows

    def _part_row(self, part: PartCost) -> list[str]:
        held = [f"{part.messages:,.4g}", f"{part.most:,}"] if part.most else ["", ""]
        sent = f"{part.upload:,}" if part.upload else ""
        return [part.name, part.protocol, *held, sent, *_work_cells(part.work)]

    def _report_cells(self) -> list[str]:
        if self.sender != "person":
            return [""] * 3
        return [f"{self.messages:,.4g}", f"{self.most_messages:,}", f"{self.upload:,}"]

    @property
    def _paid(self) -> Work:
        return sum((one.work for one in self.parties if one.paid), Work())

    @property
    def _own(self) -> Work:
        return sum((one.work for one in self.parties if not one.paid), Work())

    def document(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "estimate": True,
            "title": self.title,
            "way": self.way,
            "users": self.users,
            "reports": self.reports,
            "sender": self.sender,
            "upload_bytes": self.upload,
            "messages": self.messages,
            "most_messages": self.most_messages,
            "core_hours": self.core_hours,
            "money": self.money,
            "parts": [part.document() for part in self.parts],
            "rest": self.rest.document(),
            "parties": [one.document(self.prices) for one in self.parties],
            "assumed_prices": asdict(self.prices),
            "measured_exchanges_per_second": self.exchanges,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.title, self.summary, ""]
        for heads, rows in self.tables():
            lines += [*text_table([heads, *rows], _WIDTH), ""]
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        tables = [table(heads, rows) for heads, rows in self.tables()]
        return card(self.title, paragraph(self.summary), *tables, notes=self.notes)


def short(value: float) -> str:
    """Return an estimate in three digits.

    >>> short(0.01234), short(1234.5), short(2.5e12), short(0)
    ('0.0123', '1,230', '2.5e12', '0')
    """
    if not value:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if 1e-3 <= abs(rounded) < 1e9:
        return f"{rounded:,.{max(0, digits)}f}"
    return f"{value:.3g}".replace("e+", "e").replace("e0", "e")


def size(value: float) -> str:
    """Return a number of bytes in three digits.

    >>> size(412), size(59e9), size(0)
    ('412 B', '59 GB', '0 B')
    """
    power = min(int(math.log10(value) // 3), len(_SIZES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {_SIZES[power]}"


def _work_cells(work: Work) -> list[str]:
    return [short(work.operations), short(work.core_hours)]


def _party_cells(name: str, work: Work) -> list[str]:
    return [name, *_work_cells(work), size(work.sent), size(work.stored)]


def _work_document(work: Work) -> dict[str, float]:
    return {
        "public_key_operations": work.operations,
        "core_hours": work.core_hours,
        "sent_bytes": work.sent,
        "stored_bytes": work.stored,
    }
