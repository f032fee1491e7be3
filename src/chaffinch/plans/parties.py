"""Who runs a plan: the hops of the shuffler and the analyzer, each with its identity key.

A plan that names its parties has another id than the same plan without them. A party agrees to
a plan by signing a list of its keys for it (``wire.key_lists``); a device that holds the plan
knows from it whose signatures to look for. People write who they are in a file of TOML.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.questions import label
from chaffinch.wire.document_forms import Form, Listed
from chaffinch.wire.documents import read_toml
from chaffinch.wire.envelopes import HYBRID, X25519
from chaffinch.wire.sealed_reports import MOST_HOPS, Layout

KEMS = {"x25519": X25519, "x25519-ml-kem-768": HYBRID}
"""What the outer envelope of a report can be sealed with; inner ones are always X25519."""

EXAMPLE = """\
# Who runs a plan. Everybody who is named here must agree to it, and nobody may be two parties:
# what is promised holds as long as those who shuffle do not work together with who analyzes.

# What reports are sealed with on the outside. "x25519-ml-kem-768" also withstands quantum
# computers; the first hop then makes its keys with `chaffinch keys create --kem`.
outer_kem = "x25519"

# The hops of the shuffler, the first one first: people send their reports there.
# `chaffinch keys create` prints the identity of a party.
[[hops]]
name = "University"
identity = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
address = "https://shuffler.example.org"

# [[hops]]              # one more; `chaffinch plan` says which of them the promise counts on
# name = "Newspaper"
# identity = "..."
# address = "https://shuffler.example.net"

[analyzer]
name = "Ministry"
identity = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
address = "https://analyzer.example.com"
"""


@dataclass(frozen=True)
class Party:
    """One operator: what people call it, its Ed25519 identity key in hex, where it listens."""

    name: str
    identity: str
    address: str

    def __post_init__(self) -> None:
        label("name of a party", self.name)
        if not re.fullmatch(r"[0-9a-f]{64}", self.identity):
            raise InvalidInput(
                "identity of a party", "64 hexadecimal digits", self.identity, hint=_MADE_BY
            )
        try:
            parts = urlsplit(self.address)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            good = False
        if not good or parts.query or parts.fragment or parts.username or parts.password:
            raise InvalidInput("address of a party", "like https://host:port", self.address)

    @property
    def key(self) -> bytes:
        """Return the public identity key."""
        return bytes.fromhex(self.identity)

    @property
    def answers_itself(self) -> bool:
        """Return whether nobody on the way can answer for it: by TLS, or on this machine."""
        parts = urlsplit(self.address)
        if parts.scheme == "https" or parts.hostname == "localhost":
            return True
        try:
            return ipaddress.ip_address(parts.hostname or "").is_loopback
        except ValueError:
            return False

    def url(self, *steps: object) -> str:
        """Return an address below that of the party."""
        return "/".join([self.address.rstrip("/"), *map(str, steps)])


_MADE_BY = "`chaffinch keys create` prints it"


@dataclass(frozen=True)
class Parties:
    """The hops of the shuffler, the first one first, and the analyzer."""

    hops: tuple[Party, ...]
    analyzer: Party
    outer_kem: str = "x25519"

    def __post_init__(self) -> None:
        checks.whole("number of hops", len(self.hops), least=1, most=MOST_HOPS)
        checks.choice("outer KEM", self.outer_kem, tuple(KEMS))
        first = self.hops[0]
        if not first.answers_itself:
            # A device believes it that a report was refused, and that its key lists are of today.
            rule = "one that starts with https, or is on this machine"
            raise InvalidInput(f"address of {first.name}", rule, first.address)
        everyone = (*self.hops, self.analyzer)
        for what in ("name", "identity"):
            if len({getattr(party, what) for party in everyone}) < len(everyone):
                raise InvalidInput(
                    f"{what} of a party",
                    "that of one party only",
                    Unquoted("the same one twice"),
                    hint="nobody may be two parties: each must not know what the other knows",
                )

    def place_of(self, identity: str) -> int:
        """Return which party an identity is: hops count from 1, the analyzer comes after them."""
        known = [party.identity for party in (*self.hops, self.analyzer)]
        if identity not in known:
            raise InvalidInput(
                "identity of the key folder",
                "that of a party of the plan",
                identity,
                hint="use the folder whose identity the plan names, or plan with this one",
            )
        return known.index(identity) + 1

    def party(self, place: int) -> Party:
        """Return the party at a place; hops count from 1, the analyzer comes after them."""
        return (*self.hops, self.analyzer)[place - 1]

    def layout(self, plan_id: str, slots: int, fixed_slots: int = 0) -> Layout:
        """Return how long everything is that travels for a plan of so many slots."""
        return Layout(plan_id, slots, len(self.hops), KEMS[self.outer_kem], fixed_slots)

    def trust(self, *, first_hop_alone: bool) -> str:
        """Return what is counted on, as a sentence.

        ``first_hop_alone``: the number of messages in a report tells of the noise, and the
        first hop sees it. Otherwise one honest hop is enough. It does not help against a hop before
        it that leaves reports out or makes them up: the crowd that it would hide a report in is
        not there. What hops after it do changes nothing: they get what it has mixed.
        """
        *others, last = [hop.name for hop in self.hops]
        analyzer = self.analyzer.name
        if first_hop_alone or not others:
            return (
                f"It holds as long as {self.hops[0].name} does not work together with {analyzer}, "
                "and neither leaves reports out nor makes them up."
            )
        return (
            f"It holds as long as one of {', '.join(others)} and {last} keeps to the plan and does "
            f"not work together with {analyzer}, and none before it leaves reports out or makes "
            "them up."
        )


class PartyForm(Form):
    """One operator."""

    makes = Party

    name: str
    identity: str
    address: str


class PartiesForm(Form):
    """Who runs a plan: the hops of the shuffler in their order, and the analyzer."""

    makes = Parties
    hops: Annotated[
        tuple[Annotated[Party, PartyForm.written()], ...], Listed(at_least=1, at_most=MOST_HOPS)
    ]
    analyzer: Annotated[Party, PartyForm.written()]
    outer_kem: Literal["x25519", "x25519-ml-kem-768"]


def read_parties(path: str | Path) -> Parties:
    """Return the parties that a file names; refuse one that breaks a rule, with all its faults."""
    parties: Parties = read_parties_file(path, PartiesForm)
    return parties


def read_parties_file(path: str | Path, form: type[PartiesForm]) -> Any:
    """Return what a file says of the parties of some kind of plan."""
    return read_toml(
        path,
        lambda found: form.model_validate({"outer_kem": "x25519", **found}).build(),
        form,
        rule="a list of the parties who run a plan",
        hint="`chaffinch plan --example-parties` prints one to start from",
    )
