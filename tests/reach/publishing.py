"""What several tests of publishers share: small plans, a key, and the hash written plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy import Target
from chaffinch.reach.planning.audience import Audience
from chaffinch.reach.planning.id_rule import AS_IS, IdRule
from chaffinch.reach.planning.reach_parties import Shuffler
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import encode as publishers_encode
from chaffinch.wire.filter_files import Filter

SECRET = b"canary key: thirty-two bytes!!!!"
KEY = CampaignKey(SECRET)
_MASK = 2**64 - 1


def small_plan(
    publishers: Sequence[str] = ("daily", "radio"),
    *,
    frequencies: int = 1,
    bits: int = 1024,
    hashes: int = 1,
    flip: Fraction = Fraction(1, 4),
    ids: IdRule = AS_IS,
    title: str = "",
    shuffled: Fraction | None = None,
) -> ReachPlan:
    """Return a plan that promises little, and so holds; ``shuffled`` is what a shuffler flips."""
    audience = Audience(publishers, frequencies=frequencies)

    def local(chance: Fraction) -> float:
        return 1.01 * audience.rows * hashes * float(np.log(float((1 - chance) / chance)))

    return ReachPlan(
        title=title,
        audience=audience,
        sizes=(100,) * len(audience.publishers),
        bits=bits,
        hashes=hashes,
        flip_probability=flip,
        epsilon=local(flip if shuffled is None else shuffled),
        delta=1e-6,
        ids=ids,
        shuffler=None if shuffled is None else Shuffler(shuffled, local(flip), 1e-6),
    )


def encode(source: Any, plan: ReachPlan, *, key: CampaignKey = KEY, **options: Any) -> Filter:
    """Encode as publishers do who accept any of these plans, with a key that is as good as new."""
    given: object = key
    if isinstance(given, CampaignKey):
        key = CampaignKey(given.secret)
    options = {"within": Target(epsilon=100, delta=0.01)} | options
    return publishers_encode(source, plan, key=key, **options)


def siphash(key: bytes, message: bytes) -> int:
    """Return SipHash-2-4 as its authors write it down."""
    one, two = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    state = [
        one ^ 0x736F6D6570736575,
        two ^ 0x646F72616E646F6D,
        one ^ 0x6C7967656E657261,
        two ^ 0x7465646279746573,
    ]
    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & _MASK
        v[1] = _left(v[1], 13) ^ v[0]
        v[0] = _left(v[0], 32)
        v[2] = (v[2] + v[3]) & _MASK
        v[3] = _left(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & _MASK
        v[3] = _left(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & _MASK
        v[1] = _left(v[1], 17) ^ v[2]
        v[2] = _left(v[2], 32)


def _left(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK


def columns_of(identity: bytes, plan: ReachPlan, key: CampaignKey) -> set[int]:
    """Return the columns of one id."""
    first, further = key.hash_keys(plan.id)
    digest = siphash(first, identity)
    found = {digest * plan.bits >> 64}
    for _ in range(plan.hashes - 1):
        digest = siphash(further, digest.to_bytes(8, "little"))
        found.add(digest * plan.bits >> 64)
    return found


def brute_force(ids: Iterable[bytes], plan: ReachPlan, key: CampaignKey) -> list[set[int]]:
    """Return the columns that are set in each row, one id after the other."""
    rows: list[set[int]] = [set() for _ in range(plan.audience.frequencies)]
    for identity, times in Counter(ids).items():
        for row in rows[:times]:
            row.update(columns_of(identity, plan, key))
    return rows


def set_bits(row: NDArray[np.uint64]) -> set[int]:
    """Return the columns that are set in a packed row."""
    return {
        64 * place + bit
        for place, word in enumerate(row.tolist())
        for bit in range(64)
        if word >> bit & 1
    }


def made_up(
    plan: ReachPlan, publisher: str, *, load: float = 0.5, seed: int = 0, bits: int | None = None
) -> Filter:
    """Return a filter as an honest publisher with so many ids per column would make it."""
    random = np.random.default_rng([seed, *publisher.encode()])
    rows = []
    size = bits or plan.bits
    for times in range(plan.audience.frequencies):
        held = random.random(size) < 1 - np.exp(-load * plan.hashes / 2**times)
        held ^= random.random(size) < float(plan.flip_probability)
        packed = np.packbits(held, bitorder="little")
        whole = np.zeros(8 * -(-size // 64), np.uint8)
        whole[: len(packed)] = packed
        rows.append(whole.view("<u8").astype(np.uint64))
    return Filter(
        plan_id=plan.id,
        publisher=publisher,
        key=KEY.fingerprint(plan.id),
        batch=random.bytes(16).hex(),
        bits=size,
        rows=tuple(rows),
    )
