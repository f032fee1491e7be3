"""Write ``rationals.json``: exact deltas at rational e^epsilon, from a fixed seed.

``python -m tests.vectors.make_rationals``. Each row is computed by enumeration with integers
(``tests.oracles.exact``). ``ratio`` is e^epsilon; ``delta`` is "numerator/denominator" when that is
short and a decimal of 50 digits otherwise.
"""

from __future__ import annotations

import json
import random
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

from tests.oracles import exact, exact_views

FILE = Path(__file__).with_name("rationals.json")
SEED = 20
LONGEST = 80
Row = dict[str, int | str]


def written(value: Fraction) -> str:
    """Return the fraction itself when it is short, else 50 digits of it."""
    text = f"{value.numerator}/{value.denominator}"
    if len(text) <= LONGEST:
        return text
    with localcontext(Context(prec=50)):
        return str(Decimal(value.numerator) / Decimal(value.denominator))


def flip_of(source: random.Random) -> Fraction:
    """Return a flip probability below one half, small ones as likely as large ones."""
    bottom = source.choice([8, 10, 20, 64, 100, 1000])
    return Fraction(source.randint(1, (bottom - 1) // 2), bottom)


def ratio_of(source: random.Random, largest: Fraction) -> Fraction:
    """Return an e^epsilon from 1 to ``largest`` with a small denominator."""
    share = Fraction(source.randint(0, 24), 24)
    return max(Fraction(1), (1 + (largest - 1) * share**3).limit_denominator(1000))


def bits_row(source: random.Random) -> Row:
    flip, users = flip_of(source), source.randint(1, 24)
    copies, decoys = source.choice([1, 1, 1, 2, 3]), source.choice([0, 0, 0, 1, 5, 20])
    ratio = ratio_of(source, ((1 - flip) / flip) ** copies)
    truth = exact.worst_delta(exact.bits_pairs(users, flip, copies, decoys), ratio)
    parameters: Row = {"users": users, "flip_probability": str(flip)}
    parameters |= {"copies": copies, "decoys": decoys}
    return {"mechanism": "FlippedBits", **parameters, "ratio": str(ratio), "delta": written(truth)}


def decoyed_row(source: random.Random) -> Row:
    decoys, values = source.randint(0, 60), source.choice([2, 3, 5, 10, 100])
    ratio = ratio_of(source, Fraction(decoys + 2))
    truth = exact.decoyed_delta(decoys, values, ratio)
    parameters: Row = {"decoys": decoys, "values": values}
    return {
        "mechanism": "DecoyedValues",
        **parameters,
        "ratio": str(ratio),
        "delta": written(truth),
    }


def rated_row(source: random.Random) -> Row:
    users, values = source.randint(1, 40), source.choice([2, 3, 10])
    rate = Fraction(source.randint(1, 15), 16)
    ratio = ratio_of(source, Fraction(users + 2))
    truth = exact.decoyed_delta(users, values, ratio, rate)
    parameters: Row = {"users": users, "decoy_rate": str(rate), "values": values}
    return {
        "mechanism": "DecoyedValues",
        **parameters,
        "ratio": str(ratio),
        "delta": written(truth),
    }


def flipped_row(source: random.Random) -> Row:
    flip, users = flip_of(source), source.randint(1, 7)
    ratio = ratio_of(source, ((1 - flip) / flip) ** 2)
    crowds = ((a, b) for a in range(users) for b in range(users - a))
    pairs = (exact_views.two_sums_pair(a, b, users - 1, flip) for a, b in crowds)
    truth = exact.worst_delta(pairs, ratio)
    parameters: Row = {"users": users, "decoys": 0, "values": 9, "flip_probability": str(flip)}
    return {
        "mechanism": "FlippedValues",
        **parameters,
        "ratio": str(ratio),
        "delta": written(truth),
    }


def together_row(source: random.Random) -> Row:
    flip, users, resolution = flip_of(source), source.randint(1, 6), source.randint(1, 5)
    ratio = ratio_of(source, ((1 - flip) / flip) ** resolution)
    truth = exact.worst_delta(exact_views.slots_together_pairs(users, resolution, flip), ratio)
    parameters: Row = {"users": users, "resolution": resolution, "flip_probability": str(flip)}
    parameters["slots"] = "together"
    return {
        "mechanism": "EncodedNumbers",
        **parameters,
        "ratio": str(ratio),
        "delta": written(truth),
    }


COUNTS = {bits_row: 300, decoyed_row: 100, rated_row: 50, flipped_row: 75, together_row: 75}


def rows() -> list[Row]:
    """Return all rows, the same ones every time."""
    source = random.Random(SEED)
    return [make(source) for make, count in COUNTS.items() for _ in range(count)]


def main() -> None:
    """Write the file, one row to a line."""
    lines = ",\n ".join(json.dumps(row) for row in rows())
    FILE.write_text(f"[\n {lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
