"""The closed forms of S0 (Zhilyaev, 2020), as tables beside the exact parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

from chaffinch import privacy
from chaffinch.charts.gallery.section import Section, TableFigure
from chaffinch.errors import InvalidInput, NoParameterFound
from chaffinch.privacy import Mechanism, Target, published

_DELTA, _MILLIONTH = 1e-6, "1e-6"
_CROWDS = (1_000, 10_000, 1_000_000)
_EPSILONS = (0.25, 0.5, 1.0, 2.0)
_VALUES = (10, 100, 1000)


def flipped_bits() -> Section:
    """Return S0 (4.36) and (4.48)."""
    return Section(
        "Flipping one bit: formulas and exact parameters",
        "flipped-bit-formulas",
        (_bits(),),
        "A flip probability of 3 ln(2/δ)/(n(1 − e^(−ε))²) is enough if everybody else holds zero, "
        "and 4/(n(1 − e^(−ε))) more for every crowd (Zhilyaev 2020, 4.36 and 4.48).",
        "Both hold wherever they were checked; the second asks for 2.8 to 6 times too many flips, "
        "and gives nothing for small crowds that can be protected. Everybody at zero is not always "
        "the worst crowd.",
    )


def decoys() -> Section:
    """Return S0 (5.10)."""
    return Section(
        "Decoys for values in clear: formula and exact numbers",
        "decoy-formulas",
        (_decoys(),),
        "Clear reports of one of d values are protected by 3 d ln(4/δ)((e^ε + 1)/(e^ε − 1))² "
        "uniform decoys (5.10).",
        "They are, although one step of the proof drops a term in the wrong direction. A sixth to "
        "a quarter of these decoys is enough.",
    )


def flipped_values() -> Section:
    """Return S0 (5.16)."""
    return Section(
        "Flipping one of many values: formula and exact parameters",
        "flipped-value-formulas",
        (_values(),),
        "One of d values, written as d bits of which each is flipped, needs a flip probability of "
        "3 ln(4/δ)/(n(1 − e^(−ε/2))²) + 4/(n(1 − e^(−ε/2))) (5.16).",
        "It is enough for the sums per value, and asks for six times too much. It is not "
        "enough for whole records: with ten values and these flips a record with one set bit "
        "names its sender's value.",
    )


def decoy_cover() -> Section:
    """Return S0 (5.26)."""
    return Section(
        "One person among flipped decoys: formula and exact parameters",
        "decoy-cover-formulas",
        (_cover(),),
        "With m decoys, everything flipped, a flip probability of "
        "(3 ln(4/δ)/m)((e^ε + 1)/(e^ε − 1))² hides one person without any other (5.26).",
        "It does wherever it was checked, and asks for several times too much. Its argument "
        "supposes that no decoy falls on the two values in question; the exact numbers average "
        "over where they fall.",
    )


def _bits() -> TableFigure:
    rows = []
    for users in _CROWDS:
        for epsilon in _EPSILONS:
            exact = _smallest(
                lambda q, n=users: privacy.FlippedBits(users=n, flip_probability=q),
                epsilon,
            )
            given = {"epsilon": epsilon, "delta": _DELTA, "users": users}
            zero = _asked(lambda k=given: published.zero_crowd_flip_probability(**k))  # type: ignore[misc]
            every = _asked(lambda k=given: published.any_crowd_flip_probability(**k))  # type: ignore[misc]
            rows.append(
                (
                    f"{users:,}",
                    f"{epsilon:g}",
                    _flip(exact),
                    _flip(zero),
                    _flip(every),
                    _ratio(every, exact),
                    _error(users, exact),
                    _error(users, every),
                )
            )
    return TableFigure(
        title=f"Flip probability of one bit, delta {_MILLIONTH}",
        heads=(
            "users",
            "epsilon",
            "exact",
            "by (4.36)",
            "by (4.48)",
            "(4.48) × exact",
            "error, exact",
            "error, (4.48)",
        ),
        rows=tuple(rows),
        note="Exact: the smallest for every crowd, proven. Nothing: a formula that asks for more "
        "than one half. Error: standard error of a count, in people.",
    )


def _decoys() -> TableFigure:
    rows = []
    for values in _VALUES:
        for epsilon in _EPSILONS:
            exact = privacy.calibrate_count(
                lambda m, d=values: privacy.DecoyedValues(decoys=m, values=d),  # type: ignore[misc]
                Target(epsilon, _DELTA),
            )
            asked = published.clear_decoys(epsilon=epsilon, delta=_DELTA, values=values)
            rows.append(
                (
                    f"{values:,}",
                    f"{epsilon:g}",
                    f"{exact:,}",
                    f"{math.ceil(asked):,}",
                    f"{asked / exact:.2f}",
                    f"{_decoy_error(exact, values):,.4g}",
                    f"{_decoy_error(asked, values):,.4g}",
                )
            )
    return TableFigure(
        title=f"Decoys for one of several values in clear, delta {_MILLIONTH}",
        heads=(
            "values",
            "epsilon",
            "exact",
            "by (5.10)",
            "× exact",
            "error, exact",
            "error, (5.10)",
        ),
        rows=tuple(rows),
        note="Error: standard error of the count of a value, in people.",
    )


def _values() -> TableFigure:
    rows = []
    for users in (10_000, 1_000_000):
        for epsilon in (0.5, 1.0, 2.0):
            exact = _smallest(
                lambda q, n=users: privacy.FlippedValues(users=n, values=100, flip_probability=q),
                epsilon,
            )
            given = {"epsilon": epsilon, "delta": _DELTA, "users": users}
            asked = _asked(lambda k=given: published.flipped_values_flip_probability(**k))  # type: ignore[misc]
            rows.append(
                (
                    f"{users:,}",
                    f"{epsilon:g}",
                    _flip(exact),
                    _flip(asked),
                    _ratio(asked, exact),
                    _error(users, exact),
                    _error(users, asked),
                )
            )
    return TableFigure(
        title=f"Flip probability of one of 100 values, sums seen, delta {_MILLIONTH}",
        heads=(
            "users",
            "epsilon",
            "exact",
            "by (5.16)",
            "× exact",
            "error, exact",
            "error, (5.16)",
        ),
        rows=tuple(rows),
        note="Exact: the smallest that is proven for every crowd. Error: standard error of the "
        "count of a value, in people.",
    )


def _cover() -> TableFigure:
    rows = []
    for decoys in (2_000, 10_000):
        for epsilon in (1.0, 2.0):
            exact = _smallest(
                lambda q, m=decoys: privacy.FlippedValues(
                    users=1, decoys=m, values=1000, flip_probability=q
                ),
                epsilon,
            )
            given = {"epsilon": epsilon, "delta": _DELTA, "decoys": decoys}
            asked = _asked(lambda k=given: published.decoy_cover_flip_probability(**k))  # type: ignore[misc]
            rows.append(
                (f"{decoys:,}", f"{epsilon:g}", _flip(exact), _flip(asked), _ratio(asked, exact))
            )
    return TableFigure(
        title=f"Flip probability, one of 1,000 values among decoys, sums seen, delta {_MILLIONTH}",
        heads=("decoys", "epsilon", "exact", "by (5.26)", "× exact"),
        rows=tuple(rows),
        note="Exact: the smallest that is proven.",
    )


def _smallest(make: Callable[..., Mechanism], epsilon: float) -> float | None:
    try:
        return float(privacy.calibrate(make, Target(epsilon, _DELTA), relative_tolerance=1e-3))
    except NoParameterFound:
        return None


def _asked(formula: Callable[[], float]) -> float | None:
    try:
        return formula()
    except InvalidInput:
        return None


def _flip(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def _ratio(asked: float | None, exact: float | None) -> str:
    return f"{asked / exact:.2f}" if asked is not None and exact is not None else ""


def _error(users: int, flip: float | None) -> str:
    if flip is None:
        return ""
    return f"{math.sqrt(users * flip * (1 - flip)) / (1 - 2 * flip):.4g}"


def _decoy_error(decoys: float, values: int) -> float:
    return math.sqrt(decoys * (values - 1)) / values
