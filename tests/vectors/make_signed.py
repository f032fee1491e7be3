"""Golden values of signed decoys, by sums over every (plus, minus) in balls.

``python -m tests.vectors.make_signed`` writes ``signed.json``. Ratios and rates are decimals of 40
digits, taken exactly. ``printed`` is the number as it was worked out before this repository, with
other programs: direct two-dimensional sums in 18 digits or more. ``value`` is the referees' answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from flint import arb

from tests.oracles import balls, signed

FILE = Path(__file__).with_name("signed.json")
BITS = 260
NOTES = "worked out in the design notes: direct two-dimensional sums"


def digits(value: arb) -> str:
    """Return 40 digits."""
    return str(value.str(40, radius=False))


def flat_flood(ratio: arb, growth: arb, delta: arb) -> list[arb]:
    """Return λ_k = (c^k − b^k)/k as far as the sum of all is below ln((1 − a)/δ), and the rest."""
    left = ((1 - ratio) / delta).log()
    found: list[arb] = []
    while True:
        k = len(found) + 1
        rate = (growth**k - ratio ** (2 * k)) / k
        if rate > left:
            return [*found, left]
        found.append(rate)
        left = left - rate


@dataclass(frozen=True, slots=True)
class Row:
    """One golden number: parameters of a mechanism, an epsilon, and delta there."""

    id: str
    ratio: str
    flood: list[str]
    steps: int
    share: str
    epsilon: float
    printed: str
    matches: int
    size: int
    source: str = NOTES

    def value(self) -> str:
        """Return delta in as many digits as the referees certify, at most 25."""
        with balls.precision(BITS):
            flood = [Fraction(rate) for rate in self.flood]
            ratio, share = Fraction(self.ratio), Fraction(self.share)
            law = signed.noise(ratio, ratio, flood, share, self.size)
            # The largest change is the worst one here; the package looks at all of them.
            found = signed.moved_delta(law, self.steps, balls.ball(self.epsilon).exp())
            good = min(25, int(found.rel_accuracy_bits() / 3.33))
            return str(found.mid().str(good, radius=False))


def rows() -> list[Row]:
    """Return all rows."""
    with balls.precision(BITS):
        ratio = (arb(-2) / 5).exp()
        flat = [digits(rate) for rate in flat_flood(ratio, (arb(1) / 5).exp(), arb(10) ** -6)]
        thirds = digits((arb(-2) / 15).exp())
        bit = digits(ratio)

    def row(name: str, flood: Sequence[str], printed: str, matches: int, **other: object) -> Row:
        given = {"ratio": bit, "steps": 1, "share": "1", "epsilon": 1.0, "size": 820} | other
        return Row(name, flood=list(flood), printed=printed, matches=matches, **given)  # type: ignore[arg-type]

    bursts = ["4", "3", "2", "1"]
    return [
        row("flat flood", flat, "1.00000000000000000e-6", 17),
        row("Poisson flood", ["100"], "0.000814406367763875027", 17, size=260),
        row("number, one step", bursts, "8.34915491252562790e-5", 17, ratio=thirds, size=480),
        row(
            "number, two steps",
            bursts,
            "0.00775839572280267177",
            17,
            ratio=thirds,
            steps=2,
            size=480,
        ),
        # The notes have the smallest epsilon at 1.001·δ^g in five digits: delta there, in two.
        row("share 0.99", flat, "1.15e-6", 2, share="0.99", epsilon=1.0114),
        row("share 0.9", flat, "3.98e-6", 3, share="0.9", epsilon=1.1233),
        row("share 0.5", flat, "0.001001", 4, share="0.5", epsilon=1.86816),
    ]


def main() -> None:
    """Compute every row and write the file."""
    found = []
    for row in rows():
        value = row.value()
        sys.stderr.write(f"{row.id}: {value}, printed {row.printed}\n")
        computed = "tests.oracles.signed, by python -m tests.vectors.make_signed"
        found.append(asdict(row) | {"value": value, "computed": computed})
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
