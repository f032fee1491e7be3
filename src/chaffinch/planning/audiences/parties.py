"""Who runs a reach: the shuffler, the analyzer, and the publishers with their identity keys.

A publisher signs its filter with the key that the plan names for it. So nobody else can send one
in its place, and the shuffler knows whose filters are still to come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chaffinch.errors import InvalidInput
from chaffinch.planning.parties import Parties, PartiesModel, PartyModel, read_parties_file


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
                    "the same one twice",
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

    def document(self) -> dict[str, Any]:
        """Return the parties as they stand in a plan file."""
        return super().document() | {"publishers": dict(self.publishers)}


class ReachPartiesModel(PartiesModel):
    """Who runs a reach."""

    hops: Annotated[list[PartyModel], Field(min_length=1, max_length=1)]
    publishers: Annotated[dict[str, str], Field(min_length=1)]

    def build(self) -> ReachParties:
        """Return the parties."""
        hops = tuple(hop.build() for hop in self.hops)
        named = tuple(self.publishers.items())
        return ReachParties(hops, self.analyzer.build(), self.outer_kem, named)


def read_reach_parties(path: str | Path) -> ReachParties:
    """Return the parties of a reach that a file names; refuse one with all its faults."""
    return read_parties_file(path, ReachPartiesModel).build()
