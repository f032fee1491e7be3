"""The standard error of a count: calibrated exactly, and by what has been published.

Every published formula is asked for its parameter at the same epsilon and delta, and the
standard error follows from that parameter by the same law. ``true delta`` is what the
parameter gives by exact accounting: a formula that promises no delta may be far above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from benchmarks.pipeline.variants import calibrated
from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.planning.baselines import central_noises
from chaffinch.planning.candidates import Candidate
from chaffinch.privacy import published
from chaffinch.protocols import Encoded
from chaffinch.protocols.noise import Noise
from chaffinch.protocols.tuning import flip_for_local
from chaffinch.questions import Bit, Choice, Number, Question

EPSILON, DELTA = 1.0, 1e-6
USERS = (10**4, 10**6)
VALUES = 100
RESOLUTIONS = (8, 16, 32, 64)
AIM = 1.7
COLUMNS = ("standard error", "x exact", "parameter", "true delta")
COPIES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Claim:
    """A published calibration: the parameter it asks for, and what follows from that."""

    source: str
    parameter: Callable[[], float]
    error: Callable[[Fraction], float]
    mechanism: Callable[[Fraction], privacy.Mechanism]
    promises_delta: bool = True

    def line(self, exact: float, *, judged: bool = True) -> Line:
        """Return the row; it has a goal where it calibrates what chaffinch offers too."""
        tell(self.source)
        name = f"  {self.source}"
        try:
            found = Fraction(self.parameter())
        except InvalidInput:
            return Line(name, ("impossible", None, "q ≥ 1/2", None), Goal(AIM, None))
        error = self.error(found)
        true = self.mechanism(found).delta_bound(EPSILON)
        goal = Goal(AIM, error / exact) if self.promises_delta and judged else None
        note = "" if self.promises_delta else "speaks of no delta: no match for one that holds"
        return Line(name, (error, error / exact, float(found), true), goal, note)


def findings() -> Iterator[Finding]:
    """Yield a table for each shape of question and each crowd."""
    for users in USERS:
        yield _bits(users)
        yield _choices(users)
        yield _numbers(users)
    tell("")


def _bits(users: int) -> Finding:
    lines: list[Line] = []
    for copies in (1, *COPIES):
        exact = _calibrated(Bit(), "flips" if copies == 1 else f"flips, {copies} copies", users)
        lines.append(_exact(exact))
        error = exact.error
        if copies == 1:
            lines += [claim.line(error) for claim in _bit_claims(users)]
        lines.append(_three_sigma(users, copies).line(error))
    decoyed = _calibrated(Bit(), "clear with decoys", users)
    fixed = _fixed_decoys(2)
    lines += [fixed, _decoy_claim(2).line(_cell(fixed), judged=False)]
    lines += [_exact(decoyed), _decoy_claim(2).line(decoyed.error)]
    best = min(_cell(line) for line in lines if line.name.startswith("exact"))
    chance = flip_for_local(EPSILON)
    others = {
        "local randomized response": _error(Noise.flips(chance), users),
        **_central(Bit()),
    }
    return _finding("One bit", users, lines, others, best)


def _choices(users: int) -> Finding:
    question = Choice(range(VALUES), missing="refuse")
    flips = _calibrated(question, "flips", users)
    decoyed = _calibrated(question, "clear with decoys", users)
    fixed = _fixed_decoys(VALUES)
    both = _calibrated(question, "flips with decoys", users)
    lines = [
        _exact(flips),
        _value_claim(users, 0).line(flips.error),
        fixed,
        _decoy_claim(VALUES).line(_cell(fixed), judged=False),
        _exact(decoyed),
        _decoy_claim(VALUES).line(decoyed.error),
        _exact(both),
        _value_claim(users, users).line(both.error),
        _cover_claim(users).line(both.error),
    ]
    keep = math.exp(EPSILON)
    chance = Fraction(VALUES / (keep + VALUES - 1))
    others = {
        "local, symmetric one-hot": _error(Noise.flips(flip_for_local(EPSILON / 2)), users),
        "local, k-ary": _error(Noise(1, 1 - chance + chance / VALUES, chance / VALUES), users),
        **_central(question),
    }
    best = min(one.error for one in (flips, decoyed, both))
    found = _finding(f"One of {VALUES} values", users, lines, others, best)
    found.notes.append(
        "flips with decoys: every user sends one uniform decoy record, whose own scatter, "
        f"√(n/d) = {math.sqrt(users / VALUES):.0f}, no calibration can take away"
    )
    return found


def _numbers(users: int) -> Finding:
    lines: list[Line] = []
    best = math.inf
    for bits in RESOLUTIONS:
        exact = _calibrated(Number(0, 1), f"number in {bits} bits, total seen", users)
        protocol = exact.parts[0].protocol
        assert isinstance(protocol, Encoded)
        best = min(best, exact.error)
        noise = _error(Noise.flips(protocol.flip_probability, copies=bits), users)
        cells = (exact.error, 1.0, float(protocol.flip_probability), exact.delta)
        lines.append(
            Line(f"exact: number in {bits} bits", cells, note=f"of which flips: {noise:.3g}")
        )
        lines += [
            _per_bit(users, bits).line(exact.error),
            _three_sigma(users, bits, rounded=True).line(exact.error),
        ]
    others = {
        "local randomized response, one bit": math.hypot(
            _error(Noise.flips(flip_for_local(EPSILON)), users), math.sqrt(users) / 2
        ),
        **_central(Number(0, 1)),
    }
    found = _finding("The sum of numbers from 0 to 1", users, lines, others, best)
    found.notes.append(
        "S3 has no (epsilon, delta) formula, and its Gaussian parameter is infinite as printed; "
        "so Cheu's bound for one bit at epsilon/r and delta/r (basic composition) stands in: "
        "a comparison made up here, not one that was published"
    )
    found.notes.append("standard errors contain the rounding to bits, which no calibration changes")
    return found


# ------------------------------------------------------------------ published calibrations


def _bit_claims(users: int) -> list[Claim]:
    wish = {"epsilon": EPSILON, "delta": DELTA, "users": users}
    named: dict[str, Callable[..., float]] = {
        "S0 (4.36)": published.zero_crowd_flip_probability,
        "S0 (4.48)": published.any_crowd_flip_probability,
        "Cheu et al., as S3 C.1": published.binary_sum_flip_probability,
    }

    def claim(source: str, formula: Callable[..., float]) -> Claim:
        return Claim(
            source,
            lambda: formula(**wish),
            lambda q: _error(Noise.flips(q), users),
            lambda q: privacy.FlippedBits(users=users, flip_probability=q),
        )

    return [claim(source, formula) for source, formula in named.items()]


def _three_sigma(users: int, copies: int, *, rounded: bool = False) -> Claim:
    return Claim(
        "S1 (4.45)" if copies == 1 else f"S1 (5.24), k = {copies}",
        lambda: published.three_sigma_copies_flip_probability(
            epsilon=EPSILON, users=users, copies=copies
        ),
        # The bits of a number are copies of one bit where everybody holds 0 or 1.
        lambda q: math.hypot(
            _error(Noise.flips(q, copies=copies), users),
            _rounding(users, copies) if rounded else 0.0,
        ),
        lambda q: privacy.FlippedBits(users=users, flip_probability=q, copies=copies),
        promises_delta=False,
    )


def _per_bit(users: int, bits: int) -> Claim:
    return Claim(
        f"Cheu et al. per bit, r = {bits}",
        lambda: published.binary_sum_flip_probability(
            epsilon=EPSILON / bits, delta=DELTA / bits, users=users
        ),
        lambda q: math.hypot(_error(Noise.flips(q, copies=bits), users), _rounding(users, bits)),
        lambda q: privacy.EncodedNumbers(
            users=users, resolution=bits, flip_probability=q, slots="together"
        ),
    )


def _decoy_claim(values: int) -> Claim:
    return Claim(
        "S0 (5.10)",
        lambda: math.ceil(published.clear_decoys(epsilon=EPSILON, delta=DELTA, values=values)),
        lambda decoys: _scatter(int(decoys), values),
        lambda decoys: privacy.DecoyedValues(values=values, decoys=int(decoys)),
    )


def _value_claim(users: int, decoys: int) -> Claim:
    return Claim(
        "S0 (5.16), a decoy each" if decoys else "S0 (5.12)",
        lambda: published.flipped_values_flip_probability(
            epsilon=EPSILON, delta=DELTA, users=users, decoys=decoys
        ),
        lambda q: _error(_with_decoys(q, decoys // users), users),
        lambda q: privacy.FlippedValues(
            users=users, decoys=decoys, values=VALUES, flip_probability=q
        ),
    )


def _cover_claim(users: int) -> Claim:
    return Claim(
        "S0 (5.26), a decoy each",
        lambda: published.decoy_cover_flip_probability(epsilon=EPSILON, delta=DELTA, decoys=users),
        lambda q: _error(_with_decoys(q, 1), users),
        lambda q: privacy.FlippedValues(
            users=users, decoys=users, values=VALUES, flip_probability=q
        ),
    )


def _fixed_decoys(values: int) -> Line:
    """Return the row of the least number of decoys that will do, counted in all."""
    low, high = 0, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        enough = privacy.DecoyedValues(values=values, decoys=middle).delta_bound(EPSILON) <= DELTA
        low, high = (low, middle) if enough else (middle, high)
    cells = (_scatter(high, values), 1.0, float(high), DELTA)
    return Line(
        "exact: fixed number of decoys, as S0", cells, note="for comparison: not offered here"
    )


def _scatter(decoys: int, values: int) -> float:
    """Return the standard deviation of how many of so many decoys fall on one value."""
    return math.sqrt(decoys * (1.0 - 1.0 / values) / values)


def _with_decoys(flip: Fraction, each: int) -> Noise:
    if not each:
        return Noise.flips(flip)
    return Noise.flips_with_decoys(flip, decoy_slots=each, rate=Fraction(1), values=VALUES)


# ------------------------------------------------------------------ rows


def _calibrated(question: Question, name: str, users: int) -> Candidate:
    tell(name)
    return calibrated(question, name, users, (EPSILON, DELTA))


def _exact(found: Candidate) -> Line:
    protocol = found.parts[0].protocol
    flip = getattr(protocol, "flip_probability", None)
    parameter = float(flip) if flip is not None else None
    return Line(f"exact: {found.name}", (found.error, 1.0, parameter, found.delta))


def _error(noise: Noise, reports: int) -> float:
    """Return the standard deviation of the estimate of a value that 1 in VALUES holds."""
    return float(np.sqrt(noise.variance(reports / VALUES, reports)))


def _rounding(users: int, bits: int) -> float:
    """Return the most that rounding numbers to so many bits scatters their sum."""
    return math.sqrt(users) / (2.0 * bits)


def _central(question: Question) -> dict[str, float]:
    """Return the standard errors of a trusted centre with the same promise."""
    noises = central_noises(question, EPSILON, DELTA)
    return {f"central {one.name}": one.standard_error for one in noises}


def _cell(line: Line) -> float:
    error = line.cells[0]
    assert isinstance(error, float)
    return error


def _finding(
    what: str, users: int, lines: list[Line], others: dict[str, float], best: float
) -> Finding:
    lines = [
        *lines,
        *(Line(name, (error, error / best, None, None)) for name, error in others.items()),
    ]
    notes = [
        "x exact: over the exact one above it; local and central ones: over the best exact one"
    ]
    if any(line.cells[0] == "impossible" for line in lines):
        notes.append("impossible: the formula has no answer for this crowd; counted as beaten")
    if any("copies" in line.name for line in lines):
        notes.append("copies: nothing published promises a delta for them, so there is no goal")
    if any("decoys" in line.name for line in lines):
        who = "sent by the users by chance, they scatter more than S0's fixed number"
        notes.append(f"clear with decoys: {who}, and nobody is trusted to send them")
    title = f"{what}, {users:,} users, epsilon = {EPSILON:g}, delta = {DELTA:g}"
    return Finding(title, COLUMNS, lines, notes)
