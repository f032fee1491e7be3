"""Plans for every protocol and every kind of question, made directly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Protocol, Signed
from chaffinch.protocols.base import GRAIN
from chaffinch.protocols.signed import Digit
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Bit, Choice, Flags, Number, Question

ALARM = 1e-6


def chance(value: float) -> Fraction:
    """Return a chance that a device can draw: a whole number of 2⁻⁶⁴."""
    return Fraction(round(value * 2**40) * (GRAIN >> 40), GRAIN)


def planned(users: int, *asked: tuple[Question, Protocol]) -> Plan:
    parts = tuple(Part(f"q{place}", *pair) for place, pair in enumerate(asked))
    return Plan("", parts, users, users, users, 1, 1.0, 1e-6)


def changed(plan: Plan, factor: float) -> Plan:
    """Return the plan of devices whose chances (flip, decoy rate, ratio) are off by a factor."""
    return replace(plan, parts=tuple(_changed(part, factor) for part in plan.parts))


def _changed(part: Part, factor: float) -> Part:
    protocol: Any = part.protocol
    name = NOISE[type(protocol)]
    wrong: dict[str, Any] = {name: chance(float(getattr(protocol, name)) * factor)}
    if getattr(protocol, "finer", None):
        other = [replace(one, ratio=chance(float(one.ratio) * factor)) for one in protocol.finer]
        wrong["finer"] = tuple(other)
    if isinstance(protocol, Weighted):
        # The ratio alone is little beside the rest.
        wrong["levels"] = tuple(
            tuple(chance(float(rate) * factor) for rate in group) for group in protocol.levels
        )
        for flood in ("code_flood", "link_flood", "top_flood"):
            rates = getattr(protocol, flood)
            wrong[flood] = tuple(chance(float(rate) * factor) for rate in rates)
    return replace(part, protocol=replace(protocol, **wrong))


def reflooded(plan: Plan, factor: float) -> Plan:
    """Return the plan of devices whose floods of signed decoys are off by a factor."""

    def other(part: Part) -> Part:
        how = part.protocol
        assert isinstance(how, Signed)
        finer = how.finer and tuple(replace(one, flood=scaled(one.flood)) for one in how.finer)
        return replace(part, protocol=replace(how, flood=scaled(how.flood), finer=finer))

    def scaled(flood: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return tuple(chance(float(rate) * factor) for rate in flood)

    return replace(plan, parts=tuple(other(part) for part in plan.parts))


NOISE: dict[type[Protocol], str] = {
    Decoys: "decoy_rate",
    Encoded: "flip_probability",
    FlippedDecoys: "flip_probability",
    Flips: "flip_probability",
    Signed: "ratio",
    Weighted: "ratio",
}


def signed(users: int, *flood: float, ratio: float = 0.6, steps: int | None = None) -> Signed:
    return Signed(chance(ratio), tuple(chance(rate) for rate in flood), users, 60, steps)


def digits(users: int, *sizes: int, ratio: float) -> Signed:
    """Return a number in two digits or more, whose noise is not the same."""
    first = signed(users, 2.0, 2.0, 2.0, ratio=ratio, steps=sizes[0])
    finer = tuple(
        Digit(chance(ratio * 0.95**place), (chance(2.5), chance(3.0), chance(1.0)), size)
        for place, size in enumerate(sizes[1:], start=1)
    )
    return replace(first, finer=finer)


def weighted(users: int, *groups: int, ratio: float = 0.6, **changes: Any) -> Weighted:
    levels = tuple((chance(0.5),) * size for size in groups)
    # Little beside the noise of the sum, so that tests which change its ratio notice.
    floods = {"link_flood": (chance(0.3),), "top_flood": (chance(0.25),)}
    codes = (chance(1.0), chance(0.5))
    return Weighted(1, levels, chance(ratio), codes, **floods, cut_for=users, room=120, **changes)


def choice(size: int) -> Choice:
    return Choice([f"v{place}" for place in range(size)], missing="refuse")


SMALL: dict[str, tuple[Question, Protocol]] = {
    "bit flips": (Bit(), Flips(chance(0.2))),
    "bit copies": (Bit(), Flips(chance(0.2), copies=3)),
    "bit decoys": (Bit(), Decoys(2, chance(0.4))),
    "bit with missing": (Bit(missing="count"), Flips(chance(0.2), slots=3)),
    "choice flips": (choice(5), Flips(chance(0.2), slots=5)),
    "choice flips packed": (choice(70), Flips(chance(0.2), slots=70)),
    "choice decoys": (choice(4), Decoys(3, chance(0.5))),
    "choice flipped decoys": (choice(4), FlippedDecoys(chance(0.25), 2, 4)),
    "flags": (Flags(["a", "b", "c"]), Flips(chance(0.2))),
    "number together": (Number(0, 10), Encoded(chance(0.2), 5, together=True)),
    "number separate": (Number(0, 10), Encoded(chance(0.2), 5, together=False)),
    "bit signed": (Bit(), signed(20, 3.0, 1.5)),
    "doubled signed": (Bit(), replace(signed(20, 3.0, 1.5, ratio=0.4), doubled=True)),
    "choice signed": (choice(4), signed(20, 3.0, 1.5)),
    "flags signed": (Flags(["a", "b"]), signed(20, 3.0, 1.5)),
    "number signed": (Number(0, 10), signed(20, 2.0, 2.0, 1.0, ratio=0.7, steps=3)),
    "digits signed": (Number(0, 10), digits(20, 1, 2, ratio=0.6)),
    "number weighted": (Number(0, 10), weighted(20, 1, 1)),
    "whole weighted": (Number(0, 10), weighted(20, 2, whole_flood=(chance(2.0),))),
}
"""At 20 people, where thousands of real collections can be made."""

LARGE: dict[str, tuple[Question, Protocol]] = {
    "bit flips": (Bit(), Flips(chance(0.05))),
    "bit copies": (Bit(), Flips(chance(0.1), copies=5)),
    "bit decoys": (Bit(), Decoys(1, chance(0.2))),
    "choice flips": (choice(6), Flips(chance(0.05), slots=6)),
    "choice decoys": (choice(6), Decoys(2, chance(0.4))),
    "choice flipped decoys": (choice(24), FlippedDecoys(chance(0.1), 1, 24)),
    "flags": (Flags(["a", "b", "c"]), Flips(chance(0.05))),
    "number together": (Number(0, 10), Encoded(chance(0.05), 8, together=True)),
    "number separate": (Number(0, 10), Encoded(chance(0.05), 8, together=False)),
    "bit signed": (Bit(), signed(20_000, 2.0, 1.5, 1.0)),
    "doubled signed": (Bit(), replace(signed(20_000, 2.0, 1.5, 1.0, ratio=0.7), doubled=True)),
    "choice signed": (choice(6), signed(20_000, 2.0, 1.5, 1.0)),
    "flags signed": (Flags(["a", "b", "c"]), signed(20_000, 2.0, 1.5, 1.0)),
    # As many steps as the numbers have: without any rounding the noise is all there is.
    "number signed": (Number(0, 10), signed(20_000, 2.0, 1.5, 1.0, ratio=0.85, steps=200)),
    "digits signed": (Number(0, 10), digits(20_000, 9, 9, 1, ratio=0.85)),
    "number weighted": (Number(0, 10), weighted(20_000, 4, 3)),
}
"""At 20,000 people, where only tallies are drawn."""
