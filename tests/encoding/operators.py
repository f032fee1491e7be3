"""The parties of a plan with all their keys, for tests: whoever holds them can open everything."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.plans.parties import KEMS, Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.wire.envelopes import X25519, OpeningKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.sealed_reports import route_of


@dataclass(frozen=True)
class Operators:
    """Hops and an analyzer who run one plan; their keys have the ids 1, 2, …"""

    identities: tuple[Ed25519PrivateKey, ...]
    keys: tuple[OpeningKey, ...]
    plan: Plan

    @classmethod
    def of(
        cls, plan: Plan, hops: int = 1, kem: str = "x25519", addresses: tuple[str, ...] = ()
    ) -> Operators:
        identities = tuple(Ed25519PrivateKey.generate() for _ in range(hops + 1))
        places = addresses or tuple(f"https://party{place}.example" for place in range(hops + 1))
        parties = [
            Party(f"party {place}", identity.public_key().public_bytes_raw().hex(), address)
            for place, (identity, address) in enumerate(zip(identities, places, strict=True))
        ]
        run = plan.run_by(Parties(tuple(parties[:-1]), parties[-1], kem))
        kems = (KEMS[kem], *[X25519] * hops)
        keys = tuple(OpeningKey.new(place, one) for place, one in enumerate(kems, 1))
        return cls(identities, keys, run)

    @cached_property
    def key_lists(self) -> tuple[KeyList, ...]:
        return tuple(KeyList(self.plan.id, 1, (key.sealing,)) for key in self.keys)

    def signed(self, place: int) -> bytes:
        """Return the list of a party as it travels."""
        return self.key_lists[place].signed(self.identities[place])

    def open(self, sealed: bytes, number: int = 1) -> list[int]:
        """Return the codes in a sealed report, in the order of its items."""
        layout = self.plan.layout
        payload = self.keys[0].open(sealed, layout.binding(1, number))
        assert payload is not None
        unpacked = layout.unpack(payload)
        assert unpacked is not None
        route, items = unpacked
        assert route == route_of([key.sealing for key in self.keys[1:]])
        length = layout.item_length(1)
        starts = range(0, len(items), length)
        return [self.open_item(items[at : at + length], number) for at in starts]

    def open_item(self, item: bytes, number: int = 1) -> int:
        """Return the code in an item, as all who open it find it, one behind the other."""
        for hop, key in enumerate(self.keys[1:], 2):
            behind = route_of([later.sealing for later in self.keys[hop:]])
            opened = key.open(item, self.plan.layout.binding(hop, number, behind))
            assert opened is not None
            item = opened
        return int.from_bytes(item, "big")
