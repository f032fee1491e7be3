"""The privacy core at work: what exact accounting gains over published formulas.

Prints a few tables and draws two figures. Run with ``make demo``, or
``python examples/privacy_demo.py [FOLDER]`` where the library is installed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaffinch import charts, privacy
from chaffinch.errors import InvalidInput, MissingExtra, NoParameterFound
from chaffinch.privacy import published

EPSILON, DELTA = 1.0, 1e-6
CROWDS = (100, 1_000, 10_000, 100_000, 1_000_000)
START = time.monotonic()


def main() -> int:
    """Print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo-output"))
    folder = parser.parse_args().folder
    flipped_bits()
    several_rounds()
    one_of_many_values()
    return figures(folder)


def flipped_bits() -> None:
    """Print how much flipping each crowd needs, exactly and as published."""
    print(f"A yes-or-no question, answered with epsilon {EPSILON:g} at delta {DELTA:g}.")
    print("Every answer is flipped with the probability shown; the count that comes out")
    print("is then off by the standard deviation shown, in people.\n")
    print(f"{'':>10}    {'exact':^17}    {'S0 (4.48)':^17}    {'Cheu 2019':^17}".rstrip())
    print(f"{'people':>10}" + f"    {'flip':>8} {'off by':>8}" * 3)
    for users in CROWDS:
        progress(f"calibrating for {users:,} people")
        cells = [cell(users, find) for find in (exact_flip, wide_flip, responders_flip)]
        progress()
        print((f"{users:>10,}    " + "    ".join(cells)).rstrip(), flush=True)
    print("\nExact is proven for every crowd of that size. The formulas ask for more flips")
    print("than needed, or find none that is enough ('none': it would be half or more).\n")


def exact_flip(users: int) -> float:
    """Return the smallest flip probability that meets the target, on the safe side."""
    target = privacy.Target(epsilon=EPSILON, delta=DELTA)
    return float(
        privacy.calibrate(lambda q: privacy.FlippedBits(users=users, flip_probability=q), target)
    )


def wide_flip(users: int) -> float:
    """Return what S0 (4.48) asks for."""
    return published.any_crowd_flip_probability(epsilon=EPSILON, delta=DELTA, users=users)


def responders_flip(users: int) -> float:
    """Return what Cheu et al. ask for."""
    return published.binary_sum_flip_probability(epsilon=EPSILON, delta=DELTA, users=users)


def cell(users: int, find: Callable[[int], float]) -> str:
    """Return a flip probability and the standard deviation of the count, √(nq(1−q))/(1−2q)."""
    try:
        flip = find(users)
    except (InvalidInput, NoParameterFound):
        return f"{'none':>8} {'':>8}"
    error = math.sqrt(users * flip * (1.0 - flip)) / (1.0 - 2.0 * flip)
    return f"{rounded_up(flip):>8.3g} {error:>8.1f}"


def rounded_up(flip: float) -> float:
    """Return a flip probability with three digits that is still enough: never rounded down."""
    unit = 10.0 ** (math.floor(math.log10(flip)) - 2)
    return math.ceil(flip / unit) * unit


def several_rounds() -> None:
    """Print what ten rounds add up to."""
    users, flip, rounds = 1_000, 0.1, 10
    progress("composing ten rounds")
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    once = mechanism.epsilon(DELTA).upper
    together = privacy.compose(mechanism, times=rounds).epsilon(DELTA).upper
    added = rounds * mechanism.epsilon(DELTA / rounds).upper
    progress()
    print(f"The same {users:,} people asked {rounds} times, flip probability {flip:g}:")
    print(f"  one round               epsilon {once:6.3f} at delta {DELTA:g}")
    print(f"  ten rounds, composed    epsilon {together:6.3f}")
    print(f"  ten rounds, added up    epsilon {added:6.3f}\n")


def one_of_many_values() -> None:
    """Print two ways to ask for one value out of a hundred."""
    values, users = 100, 10_000
    target = privacy.Target(epsilon=EPSILON, delta=DELTA)
    progress("calibrating decoys")
    decoys = privacy.calibrate_count(
        lambda count: privacy.DecoyedValues(decoys=count, values=values), target
    )
    formula = math.ceil(published.clear_decoys(epsilon=EPSILON, delta=DELTA, values=values))
    progress("flipped values")
    flip = published.flipped_values_flip_probability(epsilon=EPSILON, delta=DELTA, users=users)
    flipped = privacy.FlippedValues(users=users, values=values, flip_probability=flip)
    reached = flipped.epsilon(DELTA).upper
    progress()
    print(f"One value out of {values}, epsilon {EPSILON:g} at delta {DELTA:g}:")
    print(f"  in clear, among decoys    {decoys:,} are enough; S0 (5.10) asks for {formula:,}")
    print(f"  flipped, {users:,} people    at the flip probability of S0 (5.16), {flip:.3g},")
    print(f"                            the exact epsilon is {reached:.3f}\n")


def figures(folder: Path) -> int:
    """Draw the two curves into ``folder`` and one of them here."""
    progress("drawing")
    curve = charts.privacy_curve(privacy.FlippedBits(users=10_000, flip_probability=0.01))
    tradeoff = charts.tradeoff(privacy.FlippedBits(users=100, flip_probability=0.01))
    progress()
    print(curve.text(width=72, height=16))
    print()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in (("privacy-curve.png", curve), ("tradeoff.png", tradeoff)):
            print(f"figure: {figure.save(folder / name)}")
    except MissingExtra as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def progress(words: str = "") -> None:
    """Say on a terminal what is being done, once it has taken two seconds; erase it after."""
    if sys.stderr.isatty() and (not words or time.monotonic() - START > 2.0):
        sys.stderr.write(f"\r\033[K{words and words + ' …'}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
