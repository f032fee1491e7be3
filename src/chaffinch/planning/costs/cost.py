"""What a collection costs, party by party and question by question: an estimate, and says so."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from chaffinch.planning.costs.units import EXCHANGES
from chaffinch.planning.costs.work import Prices, Work
from chaffinch.text_tables import html_table, text_table

Table = tuple[list[str], list[list[str]]]
"""The heads of a table, and its rows."""
_WIDTH = 100
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


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
    """Of all parties, for the messages of all people."""

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        named = {name: getattr(self, name) for name in ("name", "protocol", "messages", "most")}
        return {**named, "upload_bytes": self.upload, **_work_document(self.work)}


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
        """Return what each question costs, and what each party does."""
        asked = [
            [
                part.name,
                part.protocol,
                f"{part.messages:,.4g}",
                f"{part.most:,}",
                f"{part.upload:,}",
                short(part.work.operations),
                short(part.work.core_hours),
            ]
            for part in self.parts
        ]
        done = [
            [
                one.name,
                short(one.work.operations),
                short(one.work.core_hours),
                size(one.work.sent),
                size(one.work.stored),
                size(one.memory),
                short(self.prices.money(one.work)) if one.paid else "own",
            ]
            for one in self.parties
        ]
        return [
            (["", "protocol", "messages", "most", "bytes", "operations", "core-hours"], asked),
            (["", "operations", "core-hours", "sent", "stored", "memory", "money"], done),
        ]

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
        return f"<p>{self.summary}</p>" + "".join(html_table(*table) for table in self.tables())


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


def _work_document(work: Work) -> dict[str, float]:
    return {
        "public_key_operations": work.operations,
        "core_hours": work.core_hours,
        "sent_bytes": work.sent,
        "stored_bytes": work.stored,
    }
