"""Write ``s4.json``: what every procedure of S4 gives, corrected, on a fixed grid.

``python -m tests.vectors.make_s4``. A row names S4's function and section, the quantity, its
parameters, the value and how it was found. Values are exact ("numerator/denominator") where they
are short, else 50 digits of them; ``parameters`` use S4's letters, save that the flip probability
is ``q`` (S4 calls it p). Corrections of the document are rows of docs/claims.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from mpmath import mp

from tests.oracles import exact, filters
from tests.oracles import filter_procedures as referee
from tests.vectors.make_rationals import written

FILE = Path(__file__).with_name("s4.json")
Row = dict[str, Any]

FLIPS = ("1/50", "1/10", "1/5", "2/5")
COUNTS = (
    (5, 0),
    (3, 2),
    (4, 0, 0, 0),
    (2, 0, 1, 0),
    (1, 1, 1, 1),
    (9, 0, 0, 0, 0, 0, 0, 0),
    (10, 100, 10, 5, 5, 5, 5, 1),
    referee.skewed_counts(3, 2),
    referee.skewed_counts(3, 5),
)
SIZES = (1, 2, 5, 12)
LARGE = (
    (10_000, 4900, 5000, "1/100"),
    (1010, 503, 505, "1/10000"),
    (10_000, 0, 2000, "1/5"),
    (10_000, 7000, 6200, "1/5"),
)
SERIES = tuple(product((-1, -2, -6), (0, -1, -5), (1, 4), ("9/4", "81")))
QUANTILES = (
    (1, 4, "1/5", "1/10"),
    (1, 60, "1/5", "1/20"),
    (1, 200, "1/10", "1/50"),
    (2, 16, "1/5", "1/10"),
    (2, 30, "3/10", "1/20"),
    (3, 8, "2/5", "1/50"),
    (4, 2, "2/5", "1/10"),
)
SAMPLES, SEED, FALSE_ALARM = 200_000, 4, 1e-6
SEARCHES = ((1, 20, 1.0, "1/100"), (2, 6, 1.5, "1/20"), (3, 3, 2.0, "1/10"))
SEARCH_STEPS = 30


def transition() -> Iterator[Row]:
    for count, flip in product((1, 2, 3), FLIPS):
        table = filters.transition(count, Fraction(flip))
        yield {
            "function": "transition matrix",
            "section": "I",
            "quantity": "chances of logo 0",
            "parameters": {"k": count, "q": flip},
            "value": [written(chance) for chance in table[0]],
            "computed": "rationals, by Hamming distance",
        }


def signals() -> Iterator[Row]:
    for counts, flip in product(COUNTS, FLIPS):
        count = (len(counts) - 1).bit_length()
        ratios = {
            move: filters.signal_to_noise(counts, Fraction(flip), *move)
            for move in referee.moves(count)
        }
        top = max(ratios.values())
        yield {
            "function": "signal to noise",
            "section": "I",
            "quantity": "every move",
            "parameters": {"k": count, "d": list(counts), "q": flip},
            "value": [[*move, written(ratio)] for move, ratio in ratios.items()],
            "largest": written(top),
            "loudest": [list(move) for move, ratio in ratios.items() if ratio == top],
            "computed": "rationals, by elimination",
        }


def coefficients() -> Iterator[Row]:
    for counts, flip in product(COUNTS, FLIPS):
        ends = (0, len(counts) - 1)
        best = referee.centred_coefficients(counts, Fraction(flip), *ends)
        yield {
            "function": "signal to noise",
            "section": "I",
            "quantity": "best coefficients, mean zero and length one",
            "parameters": {"d": list(counts), "q": flip, "move": list(ends)},
            "value": [unit(value, best) for value in best],
            "computed": "rationals, by elimination; divided by the root of their squares",
        }


def unit(value: Fraction, vector: list[Fraction]) -> str:
    """Return a coordinate of the vector at length one, 40 digits."""
    square = sum((x * x for x in vector), Fraction(0))
    with localcontext(Context(prec=60)):
        length = (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()
        shown = Decimal(value.numerator) / Decimal(value.denominator) / length
    with localcontext(Context(prec=40)):
        return str(+shown)


def ratios_of_expectations() -> Iterator[Row]:
    for size, flip in product(SIZES, FLIPS):
        for before in range(size):
            q = Fraction(flip)
            losses = [
                filters.hypergeometric_ratio(size, before, shown, q) for shown in range(size + 1)
            ]
            yield {
                "function": "ratio_of_hypergeometric_mgf",
                "section": "II.2",
                "quantity": "R(y_x | y_d) for y_x = 0, …, m",
                "parameters": {"m": size, "y_d": before, "q": flip},
                "value": [written(loss) for loss in losses],
                "computed": "rationals, as the ratio of two expectations",
            }


def large_ratios() -> Iterator[Row]:
    for size, before, shown, flip in LARGE:
        value = referee.large_ratio(size, before, shown, Fraction(flip), 40)
        with mp.workdps(40):
            digits = mp.nstr(value, 40)
        yield {
            "function": "ratio_of_hypergeometric_mgf",
            "section": "II.2",
            "quantity": "R(y_x | y_d)",
            "parameters": {"m": size, "y_d": before, "y_x": shown, "q": flip},
            "value": digits,
            "computed": "mpmath, 60 digits, sums of positive terms",
        }


def series() -> Iterator[Row]:
    for a, b, c, z in SERIES:
        yield {
            "function": "evaluate_gauss_continued_fraction",
            "section": "II.3",
            "quantity": "2F1(a+1, b; c+1; z) / 2F1(a, b; c; z)",
            "parameters": {"a": a, "b": b, "c": c, "z": z},
            "value": written(referee.series_quotient(a, b, c, Fraction(z))),
            "computed": "rationals, by the two series, which end",
        }


def one_filter() -> Iterator[Row]:
    for size, flip, delta in product((4, 12), ("1/10", "1/5"), ("1/20", "1/100")):
        for before in (0, size // 2, size - 1):
            atoms = referee.one_filter_atoms(size, before, Fraction(flip))
            yield {
                "function": "evaluate_privacy_for_one_bloom_filter",
                "section": "II.1",
                "quantity": "e^epsilon by quantiles, sign corrected",
                "parameters": {"m": size, "y_d": before, "q": flip, "delta": delta},
                "value": written(referee.quantile_ratio(atoms, Fraction(delta))),
                "computed": "rationals, from the law of the number of set bits",
            }


def several_filters() -> Iterator[Row]:
    # Dvoretzky, Kiefer and Wolfowitz with Massart's constant, for two samples.
    slack = Fraction(math.sqrt(math.log(4 / FALSE_ALARM) / (2 * SAMPLES)))
    for count, size, flip, delta in QUANTILES:
        atoms = referee.filters_atoms(count, size, Fraction(flip))
        level = Fraction(delta)
        yield {
            "function": "evaluate_privacy_for_bloom_filter",
            "section": "III.1",
            "quantity": "e^epsilon by quantiles, sign corrected",
            "parameters": {"k": count, "m": size, "q": flip, "delta": delta},
            "value": written(referee.quantile_ratio(atoms, level)),
            "computed": "rationals, from the law of the whole multiset",
            "monte_carlo": {
                "samples": SAMPLES,
                "seed": SEED,
                "low": written(referee.quantile_ratio(atoms, level, -slack)),
                "high": written(referee.quantile_ratio(atoms, level, slack)),
                "false_alarm": FALSE_ALARM,
            },
            "values_of_R": [written(ratio) for ratio, *_ in atoms],
        }


def searches() -> Iterator[Row]:
    for count, size, epsilon, delta in SEARCHES:
        ratio = exact.exp_bounds(epsilon)[0]
        for quantity, deltas in (
            ("least flip probability, S4's pair", referee.assumed_delta),
            ("least flip probability, every crowd and pair", referee.worst_delta),
        ):

            def reached(flip: Fraction, deltas: Any = deltas) -> Fraction:
                found: Fraction = deltas(count, size, flip, ratio)  # noqa: B023 - used at once
                return found

            low, high = referee.least_flip(reached, Fraction(delta), SEARCH_STEPS)
            yield {
                "function": "estimate_flip_prob",
                "section": "III.2",
                "quantity": quantity,
                "parameters": {"k": count, "m": size, "epsilon": epsilon, "delta": delta},
                "value": [str(low), str(high)],
                "computed": "rationals, by halving: the first misses the target, the second not",
            }


MAKERS = (
    transition,
    signals,
    coefficients,
    ratios_of_expectations,
    large_ratios,
    series,
    one_filter,
    several_filters,
    searches,
)


def rows() -> list[Row]:
    """Return all rows, computed anew."""
    return [row for make in MAKERS for row in make()]


def main() -> None:
    """Write the file, one row to a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows())
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
