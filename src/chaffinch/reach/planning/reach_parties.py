"""The parties of a reach, as a plan describes them: who runs it, and what the shuffler flips.

A publisher signs its filter with the key that the plan names for it. So nobody else can send one
in its place, and the shuffler knows whose filters are still to come.

Where a shuffler stands between publishers and analyzer, publishers flip their own bits and hand
their filters to the shuffler, who is no publisher and never has the campaign key. It flips every
bit of every row again and hands over how many columns have each logo. Who sees what:

* The analyzer sees these counts. Publishers who help it know the hash, and choose their own rows.
  For any hash and any rows an id is a group of columns in some crowd, so the shuffler's flips
  alone carry the bound for every crowd: ``FlippedAudiences`` at the shuffler's flips. What the
  publishers flipped before is one more thing that the crowd may be; it is not counted on.
* The shuffler sees all rows in their order, without the key, so that the order is uniform:
  ``FlippedAudiences`` at the publishers' flips. What the analyzer has, it could make itself, so
  the two together learn no more.
* The shuffler together with a publisher knows the order: only the own flips of the others are left.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import Field

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.plans.parties import (
    Parties,
    PartiesForm,
    Party,
    PartyForm,
    read_parties_file,
)
from chaffinch.plans.plan_document import GuaranteeForm
from chaffinch.privacy.guarantee import Guarantee
from chaffinch.privacy.numerics.precision import log_of_power
from chaffinch.protocols.base import GRAIN
from chaffinch.reach.planning.audience import Audience
from chaffinch.wire.document_forms import Exact, Form, Listed, Written

MOST_EPSILON, MOST_DELTA = 100.0, 0.01
"""More than this is no promise, and a plan that makes it is a mistake or a trap."""


@dataclass(frozen=True)
class Shuffler:
    """What a shuffler flips, and what the publishers' own flips promise against it."""

    flip_probability: Fraction
    """The chance that the shuffler flips a bit: the promise against the analyzer stands on it."""
    epsilon: float
    """With ``delta``: what is promised against the shuffler, who does not have the key."""
    delta: float

    def __post_init__(self) -> None:
        if (self.flip_probability * GRAIN).denominator != 1:
            rule = "a multiple of 1/2⁶⁴"
            raise InvalidInput("flip probability of the shuffler", rule, self.flip_probability)
        checks.real("epsilon against the shuffler", self.epsilon, least=1e-9, most=MOST_EPSILON)
        checks.real("delta against the shuffler", self.delta, least=1e-300, most=MOST_DELTA)

    @property
    def numerator(self) -> int:
        """Return the flip probability in units of 2⁻⁶⁴."""
        return int(self.flip_probability * GRAIN)


class ShufflerForm(Form):
    """What the shuffler flips, and what the publishers' flips promise against it."""

    flip_probability: Exact
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]


def both_flips(own: Fraction, shuffled: Fraction) -> Fraction:
    """Return the chance that a bit differs in the end: flipped by one of two, not by both.

    >>> both_flips(Fraction(1, 4), Fraction(1, 4))
    Fraction(3, 8)
    """
    return own + shuffled - 2 * own * shuffled


def colluding_epsilon(audience: Audience, hashes: int, flip: Fraction) -> float:
    """Return what the own flips alone leave to an id at all publishers but one."""
    others = audience.rows - audience.frequencies
    return log_of_power((1 - flip) / flip, others * hashes) if others else 0.0


def local_flip(audience: Audience, hashes: int, epsilon: float) -> Fraction:
    """Return the smallest flip probability k/2⁶⁴ that alone leaves ``epsilon``, up to 1e-12.

    It is left to an id at all publishers but one, who tells the key; where there is only one
    publisher, to an id there.

    >>> two = Audience(["daily", "radio"])
    >>> flip = local_flip(two, 2, 3.0)
    >>> round(float(flip), 4), colluding_epsilon(two, 2, flip) <= 3.0
    (0.1824, True)
    """
    power = hashes * ((audience.rows - audience.frequencies) or audience.rows)
    numerator = max(1, int(GRAIN / (1.0 + math.exp(min(epsilon / power, 40.0)))))
    # The float is off by far less than 2⁻⁴⁰ of itself; what is returned was checked.
    step = max(1, numerator >> 40)
    while log_of_power(Fraction(GRAIN - numerator, numerator), power) > epsilon:
        numerator += step
    return Fraction(numerator, GRAIN)


@dataclass(frozen=True)
class ReachParties(Parties):
    """One hop, which is the shuffler; the analyzer; the identity of each publisher, in hex."""

    publishers: tuple[tuple[str, str], ...] = ()
    """Name and identity, in the order of the plan."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hops) != 1:
            raise InvalidInput("number of hops of a reach", "1", len(self.hops))
        known = {self.hops[0].identity, self.analyzer.identity}
        for _, identity in self.publishers:
            if not re.fullmatch(r"[0-9a-f]{64}", identity):
                raise InvalidInput("identity of a publisher", "64 hexadecimal digits", identity)
            if identity in known:
                raise InvalidInput(
                    "identity of a publisher",
                    "that of nobody else",
                    Unquoted("the same one twice"),
                    hint="who shuffles or analyzes is no publisher, and has no campaign key",
                )
            known.add(identity)

    def publisher(self, identity: str) -> str:
        """Return the name of the publisher with an identity."""
        for name, known in self.publishers:
            if known == identity:
                return name
        raise InvalidInput(
            "identity of the key folder",
            "that of a publisher of the plan",
            identity,
            hint="use the folder whose identity the plan names, or plan with this one",
        )

    def ordered(self, names: tuple[str, ...]) -> ReachParties:
        """Return the same parties with publishers in the order of names; refuse other ones."""
        found = dict(self.publishers)
        if set(found) != set(names) or len(self.publishers) != len(names):
            raise InvalidInput(
                "publishers among the parties", "those of the plan", ", ".join(found) or "none"
            )
        publishers = tuple((name, found[name]) for name in names)
        return ReachParties(self.hops, self.analyzer, self.outer_kem, publishers)


class ReachPartiesForm(PartiesForm):
    """Who runs a reach."""

    makes = ReachParties

    hops: Annotated[
        tuple[Annotated[Party, PartyForm.written()], ...], Listed(at_least=1, at_most=1)
    ]
    publishers: Annotated[
        tuple[tuple[str, str], ...],
        Written(
            Annotated[dict[str, str], Field(min_length=1)], lambda named: (*named.items(),), dict
        ),
    ]


def read_reach_parties(path: str | Path) -> ReachParties:
    """Return the parties of a reach that a file names; refuse one with all its faults."""
    parties: ReachParties = read_parties_file(path, ReachPartiesForm)
    return parties
