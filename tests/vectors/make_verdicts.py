"""Plans that just keep a promise, and the same with one that they just do not keep.

``python -m tests.vectors.make_verdicts`` writes ``verdicts.json``; with a number N and a first seed
it prints N others of each kind, one in a line. No verifier may prove a plan with the delta
``unproven``, a ten-thousandth below the lower end of the bracket. One that is as exact as the
client for web pages proves it with ``proven``: a ten-thousandth above the upper end, of several
questions or rounds together a tenth. None is asked of flips with decoys, whose decoys that client
takes for people with the worst values.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaffinch.errors import GuaranteeNotProven
from chaffinch.plans.honest_share import HonestShare
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.questions import Bit, Choice, Flags, Number
from tests.engines.plans import plan_of

FILE = Path(__file__).with_name("verdicts.json")
SOURCE = "made by tests/vectors/make_verdicts.py; docs/reference/vectors.md says what for"
SINGLES, COMPOSITIONS = 12, 2
"""How many cases of each kind are in the file."""
_AT_THE_END = 1000
"""Of flips from this seed on the worst event of some is the last one that can be."""
_GRAIN = 2**64
_NEAR, _LOOSE = 1e-4, 0.1
_MOST_USERS = 30_000
"""More people take a device long where several things are composed."""

Draws = random.Random
Parts = list[tuple[Any, ...]]


def _chance(value: float) -> Fraction:
    return Fraction(max(1, int(value * _GRAIN)), _GRAIN)


def _flip(draws: Draws, users: int, epsilon: float, delta: float, copies: float = 1) -> Fraction:
    """Return a flip chance for about so much of delta: 1/(copies·n·q) is about mu squared."""
    mu = epsilon / math.sqrt(2 * math.log(1 / delta)) * draws.uniform(0.9, 1.3)
    noise = min(1 / (copies * users * mu * mu) * (1 + 0.2 * epsilon), 0.45)
    return _chance(noise)


def _values(count: int) -> Choice:
    return Choice([f"v{place}" for place in range(count)], missing="refuse")


def _flat(
    draws: Draws, epsilon: float, delta: float, ways: int
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return a ratio and a flood that is flat, or nearly."""
    split = draws.uniform(0.6, 0.9)
    ratio = math.exp(-split * epsilon / 2)
    growth = math.exp(epsilon * (1 - split)) * draws.choice([1.0, 1.0, 0.98])
    need, flood = math.log((1 - ratio) * ways / delta), list[float]()
    while need > 0 and len(flood) < 60:
        k = len(flood) + 1
        rate = min(need, (growth**k - ratio ** (2 * k)) / k)
        flood.append(rate)
        need -= rate
    return _chance(ratio), tuple(map(_chance, flood))


def _signed(
    draws: Draws, users: int, epsilon: float, delta: float, ways: int = 1, **more: Any
) -> Signed:
    ratio, flood = _flat(draws, epsilon, delta, ways)
    cut_for = draws.choice([users, users, max(1, users // 2)])
    return Signed(ratio, flood, cut_for, draws.choice([300, 600]), **more)


def bit(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    copies = draws.choice([1, 1, 1, 2, 4, 8, 32])
    return [("a", Bit(), Flips(_flip(draws, users, epsilon, delta, copies), copies))]


def choice(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    values = draws.choice([2, 3, 10, 100])
    flip = _flip(draws, users, epsilon, delta, 0.5)
    slots = min(values, 12 + int(4 * values * flip))
    return [("a", _values(values), Flips(flip, 1, slots))]


def decoys(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    values = draws.choice([2, 2, 3, 10, 100])
    mu = epsilon / math.sqrt(2 * math.log(1 / delta)) * draws.uniform(0.9, 1.3)
    each = 2 * values / (mu * mu * users)
    slots = max(1, math.ceil(each))
    asked = Bit() if values == 2 else _values(values)
    return [("a", asked, Decoys(slots, _chance(min(each / slots, 0.999))))]


def flipped_decoys(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    values = draws.choice([2, 5, 30])
    fakes = draws.choice([1, 2])
    flip = _flip(draws, users * (1 + fakes), epsilon, delta, 0.5)
    return [("a", _values(values), FlippedDecoys(flip, fakes, values))]


def signed_bit(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    return [("a", Bit(), _signed(draws, users, epsilon, delta))]


def doubled_bit(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    split = draws.uniform(0.6, 0.9)
    ratio, growth = math.exp(-split * epsilon), math.exp(epsilon * (1 - split))
    need, flood = math.log((1 - ratio) / delta), list[float]()
    while need > 0 and len(flood) < 60:
        k = len(flood) + 1
        rate = min(need, (growth**k - (0 if k % 2 else 2 * ratio**k)) / k)
        flood.append(max(rate, 0.0))
        need -= rate
    made = Signed(_chance(ratio), tuple(map(_chance, flood)), users, 400, doubled=True)
    return [("a", Bit(), made)]


def signed_choice(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    return [("a", _values(draws.choice([3, 20])), _signed(draws, users, epsilon, delta, 2))]


def signed_number(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    steps = draws.choice([2, 5, 20])
    made = _signed(draws, users, epsilon / steps, delta * 0.01)
    return [("a", Number(0, 60), replace(made, steps=steps, room=2000))]


def total(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    bits = draws.choice([2, 8, 32])
    return [
        (
            "a",
            Number(0, 60),
            Encoded(_flip(draws, users, epsilon, delta, bits), bits, together=True),
        )
    ]


SINGLE: dict[str, Callable[[Draws, int, float, float], Parts]] = {
    "flips": bit,
    "choice": choice,
    "decoys": decoys,
    "flipped decoys": flipped_decoys,
    "signed bit": signed_bit,
    "doubled bit": doubled_bit,
    "signed choice": signed_choice,
    "signed number": signed_number,
    "total": total,
}


def flags(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    size = draws.choice([2, 5, 12])
    names = Flags([f"f{place}" for place in range(size)])
    return [("a", names, Flips(_flip(draws, users, epsilon, delta, 1 / size), 1))]


def signed_flags(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    names = Flags(["x", "y", "z"])
    return [("a", names, _signed(draws, users, epsilon / 2, delta / 3))]


def steps(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    bits = draws.choice([8, 16])
    question = Number(0, 60, quantiles=True)
    return [
        (
            "a",
            question,
            Encoded(_flip(draws, users, epsilon, delta, 1 / bits), bits, together=False),
        )
    ]


def digits(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    first = _signed(draws, users, epsilon / 20, delta * 0.001)
    ratio, flood = _flat(draws, epsilon / 8, delta * 0.001, 1)
    return [
        ("a", Number(0, 1), replace(first, steps=7, room=3000, finer=(Digit(ratio, flood, 3),)))
    ]


def survey(draws: Draws, users: int, epsilon: float, delta: float) -> Parts:
    (one,) = bit(draws, users, epsilon * 0.6, delta / 2)
    (other,) = draws.choice([decoys, bit, signed_bit, choice])(
        draws, users, epsilon * 0.6, delta / 2
    )
    return [one, ("b", *other[1:])]


COMPOSED: dict[str, Callable[[Draws, int, float, float], Parts]] = {
    "flags": flags,
    "signed flags": signed_flags,
    "steps": steps,
    "digits": digits,
    "survey": survey,
    "rounds": bit,
    "rounds of decoys": decoys,
}


def made(kind: str, seed: int) -> dict[str, Any] | None:
    """Return one case, or nothing where the numbers that were drawn make no sense."""
    draws = random.Random(f"{kind} {seed}")
    users = int(10 ** draws.uniform(1.5, 6))
    epsilon = round(draws.choice([0.2, 0.5, 1.0, 1.0, 2.0, 4.0]) * draws.uniform(0.8, 1.2), 3)
    delta = 10 ** draws.uniform(-9, -3)
    rounds = draws.choice([2, 3, 12]) if kind.startswith("rounds") else 1
    parts = (SINGLE | COMPOSED)[kind](draws, users, epsilon / math.sqrt(rounds), delta)
    plan = replace(plan_of(*parts, users=users), rounds=rounds, epsilon=epsilon)
    if draws.random() < 0.15 and kind in SINGLE:
        share = HonestShare(Fraction(draws.choice(["0.9", "0.5", "0.99"])))
        spread = math.sqrt(users) * draws.uniform(4, 7)
        plan = replace(plan, reports=int((users + spread) / share.share) + 2, honest=share)
    try:
        found = plan.mechanism().delta(epsilon)
    except GuaranteeNotProven:
        return None
    if not (found.lower > 1e-14 and found.upper < 0.05):
        return None
    if kind in COMPOSED and users > _MOST_USERS:
        return None
    document = plan.document()
    room = _LOOSE if kind in COMPOSED else _NEAR
    return {
        "kind": kind,
        **{name: document[name] for name in ("crowd", "questions", "messages")},
        "epsilon": document["guarantee"]["epsilon"],
        "proven": None if kind == "flipped decoys" else repr(found.upper * (1 + room)),
        "unproven": repr(found.lower * (1 - _NEAR)),
    }


def cases(kind: str, count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield so many cases of a kind, those of the first seeds that make sense."""
    for seed in itertools.count(first):
        case = made(kind, seed) if count else None
        count -= case is not None
        if case is not None:
            yield case
        if not count:
            return


def main() -> None:
    """Write the file, or print other cases."""
    if len(sys.argv) > 1:
        for kind in sys.argv[3:] or SINGLE | COMPOSED:
            for case in cases(kind, int(sys.argv[1]), int(sys.argv[2])):
                sys.stdout.write(json.dumps(case) + "\n")
        return
    counts = dict.fromkeys(SINGLE, SINGLES) | dict.fromkeys(COMPOSED, COMPOSITIONS)
    found = [case for kind, count in counts.items() for case in cases(kind, count)]
    found += cases("flips", SINGLES, _AT_THE_END)
    lines = ",\n".join(json.dumps(case) for case in found)
    FILE.write_text(f'{{"source": {json.dumps(SOURCE)}, "cases": [\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
