"""Where the widest hardware float is a double, brackets get wider, never wrong."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
np.longdouble = np.float64
from fractions import Fraction
from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.numerics import precision
assert precision.Wide is np.float64
from tests.oracles import exact, judge
settings = [(1, "1/1000", 1, 0), (12, "0.1", 1, 0), (9, "0.3", 3, 2), (40, "0.02", 1, 0)]
for users, flip, copies, decoys in settings:
    q = Fraction(flip)
    mechanism = privacy.FlippedBits(users=users, flip_probability=q, copies=copies, decoys=decoys)
    for epsilon in (0.0, 0.2, 1.0, 2.5, mechanism.local_epsilon * (1 - 1e-9)):
        try:
            bracket = mechanism.delta(epsilon, relative_width=0.5)
        except GuaranteeNotProven as said:
            bracket = privacy.Bracket(said.lower, said.upper)
        pairs = exact.bits_pairs(users, q, copies, decoys)
        found = judge.complaint(bracket, judge.true_delta(pairs, epsilon))
        assert not found, (users, flip, copies, decoys, epsilon, found)
from chaffinch.privacy.numerics.sums import count_outcomes
for power in range(1000):
    rare = Fraction(10) ** -32 / (1 + power)
    bracket = count_outcomes(([Fraction(1), Fraction(-9)], [rare, 1 - rare]), 10)
    # A sum is above 0 when all ten are rare.
    assert Fraction(bracket.lower) <= 10 * rare**10 <= Fraction(bracket.upper), (power, bracket)
print("sound")
"""


def test_brackets_hold_in_double_precision() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "sound\n", done.stderr
