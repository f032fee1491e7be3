"""Where the widest hardware float is a double, brackets get wider, never wrong."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import math
from itertools import product
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
from chaffinch.privacy.numerics.sums import _count_outcomes
for power in range(1000):
    rare = Fraction(10) ** -32 / (1 + power)
    bracket = _count_outcomes(([Fraction(1), Fraction(-9)], [rare, 1 - rare]), 10)
    # A sum is above 0 when all ten are rare.
    assert Fraction(bracket.lower) <= 10 * rare**10 <= Fraction(bracket.upper), (power, bracket)
from tests.oracles import balls, signed
floods = [[], ["1/2"], ["0", "3/10", "1e-30"], ["2", "1/1000"]]
ratios = [("1/3", "1/4"), ("1/1000000", "1/5"), ("1/18446744073709551616", "1/5")]
for flood, (plus, minus), share, steps in product(floods, ratios, ["1", "2/3"], [1, 3]):
    exact = dict(plus=Fraction(plus), minus=Fraction(minus), share=Fraction(share))
    rates = [Fraction(rate) for rate in flood]
    with balls.precision(300):
        law = signed.noise(flood=rates, size=30, **exact)
    mechanism = privacy.SignedDecoys(
        question="number", plus_ratio=plus, minus_ratio=minus, flood=flood, share=share, steps=steps
    )
    for epsilon in (0.0, 0.7, 2.0, 30.0, 200.0):
        with balls.precision(300):
            truth = signed.steps_delta(law, steps, balls.ball(epsilon).exp())
        bracket = mechanism.delta(epsilon)
        found = judge.ball_complaint(bracket, truth)
        assert not found, (flood, plus, minus, share, steps, epsilon, found)
        narrow = epsilon > 80 or bracket.upper <= float(truth.upper()) * (1 + 1e-6)
        assert narrow, (mechanism, epsilon, bracket)
a = math.exp(-0.4)
flat = [(math.exp(0.2 * k) - a ** (2 * k)) / k for k in range(1, 43)]
deep = privacy.SignedDecoys(question="bit", plus_ratio=a, minus_ratio=a, flood=flat)
with balls.precision(300):
    rates, ratio = balls.ball(sum(deep.flood)), balls.ball(deep.plus_ratio)
    truth = (1 - ratio) * (-rates).exp()
assert not judge.ball_complaint(deep.delta(5.0), truth), deep.delta(5.0)
rates = {"code_flood": [600], "link_flood": [738, 20], "top_flood": [900, 200]}
many = privacy.WeightedNumbers(tops=1, levels=[["8"]], ratio="1/2", **rates)
found = many.delta_bound(0.0), many.delta_bound(1.0), many.delta(0.2).lower
# What 80-bit floats give; both are on the safe side, and near one another.
wide = 0.3333333333557286, 5.5084536300741216e-08, 0.10446282668569318
for value, other in zip(found, wide, strict=True):
    assert abs(value / other - 1) < 1e-6, (value, other)
print("sound")
"""


def test_brackets_hold_in_double_precision() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "sound\n", done.stderr
