"""Items of two routes never open with one: whoever opens a batch knows the keys behind it."""

from __future__ import annotations

from itertools import product

import pytest

from chaffinch.encoding.sealing import Sealer
from chaffinch.sampling import secure_words
from chaffinch.wire.envelopes import Binding, OpeningKey
from chaffinch.wire.messages import Origin, Report
from chaffinch.wire.sealed_reports import Layout, route_of

PLAN = "5a" * 32


def item_for(layout: Layout, keys: list[OpeningKey]) -> bytes:
    """Return the one item of a report that a device seals for these keys."""
    sealer = Sealer(layout, tuple(key.sealing for key in keys), 1, (range(9),))
    payload = keys[0].open(
        sealer.seal(Report(Origin(PLAN, 9, 1, 1), (5,)), secure_words()), layout.binding(1, 1)
    )
    assert payload is not None
    unpacked = layout.unpack(payload)
    assert unpacked is not None
    return unpacked[1]


def check_all_routes(hops: int) -> None:
    """Try every route of two keys for each party on items of every other.

    Both keys of a party have one id. A hop opens an item of another route just if that differs
    before it: the keys from there on are the same ones.
    """
    layout = Layout(PLAN, 1, hops)
    own = OpeningKey.new(1)
    pairs = [(OpeningKey.new(number), OpeningKey.new(number)) for number in range(2, hops + 2)]
    routes = [list(keys) for keys in product(*pairs)]
    for sealed_for in routes:
        layers = [item_for(layout, [own, *sealed_for])]
        for place, key in enumerate(sealed_for):
            for said in routes:
                behind = route_of([later.sealing for later in said[place + 1 :]])
                content = said[place].open(layers[-1], layout.binding(place + 2, 1, behind))
                same = sealed_for[place:] == said[place:]
                assert (content is not None) is same, "opened for a route that it is not for"
            behind = route_of([later.sealing for later in sealed_for[place + 1 :]])
            layers.append(key.open(layers[-1], layout.binding(place + 2, 1, behind)) or b"")
        assert layers[-1] == (5).to_bytes(4, "big")


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_an_item_opens_for_its_own_route_alone(hops: int) -> None:
    check_all_routes(hops)


@pytest.mark.parametrize("hops", [2, 3, 4])
@pytest.mark.parametrize("kept", [0, 1])
def test_an_info_that_leaves_out_names_is_noticed(
    monkeypatch: pytest.MonkeyPatch, hops: int, kept: int
) -> None:
    """One that names no key behind it, and one that has of each its id alone."""
    info = Binding.info

    def forgetful(binding: Binding, head: bytes) -> bytes:
        ids = binding.behind[::32] * kept
        return info(Binding(binding.plan_id, binding.round, binding.layer, ids), head)

    monkeypatch.setattr(Binding, "info", forgetful)
    with pytest.raises(AssertionError, match="a route that it is not for"):
        check_all_routes(hops)
