"""Closed forms of S0 (Zhilyaev, 2020), worked numbers of S1 (2016): tables beside exact ones."""

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
_USERS, _RATIO = 1000, 2
"""N and λ of the example in S1, section 4.3."""
_EPSILON = math.log(_RATIO)
_CROWD = 10_000
_COPIES = (1, 2, 4, 8, 16, 32)


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
        return float(privacy.calibrate(make, Target(epsilon, _DELTA)))
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


# ----------------------------------------------------------------------------
# The worked numbers of S1 (Zhilyaev and Zeber, 2016).


def worked_numbers() -> Section:
    """Return S1 section 4.3: the example of the three-sigma rule."""
    return Section(
        "One flipped bit by the three-sigma rule",
        "three-sigma-numbers",
        (_example(),),
        "A ratio of 2 among 1,000 people needs a flip probability of 0.009 instead of 1/3, and "
        "holds for 99.98 % of the outcomes (Zhilyaev and Zeber 2016a, section 4.3).",
        "The arithmetic is right up to rounding, but for the gain in precision, which is 15 by its "
        "own two errors. The promise is not: the ratio is above 2 for up "
        "to 8 % of the outcomes, and with this flip probability delta at epsilon ln 2 is 0.0125. "
        "For delta 1e-6 five times as many flips are needed, with 2.5 times the error.",
    )


def copies() -> Section:
    """Return S1 section 5: what copies of a bit gain."""
    return Section(
        "Copies of a flipped bit",
        "copies-numbers",
        (_gain(),),
        "Sending every bit k times raises the precision in proportion to √k at the same privacy "
        "(section 5).",
        "By the source's own (5.23) the deviation rises with k, from 3/(λ − 1) to 3/ln λ. At fixed "
        "exact epsilon and delta more copies do help, but only down to the Gaussian mechanism.",
    )


def _example() -> TableFigure:
    flip = published.three_sigma_flip_probability(epsilon=_EPSILON, users=_USERS)
    alone = 1 / (1 + _RATIO)
    clear, ruled = _standard_error(_USERS, alone), _standard_error(_USERS, flip)
    bit = privacy.FlippedBits(users=_USERS, flip_probability=flip)
    enough = float(
        privacy.calibrate(
            lambda q: privacy.FlippedBits(users=_USERS, flip_probability=q),
            Target(_EPSILON, _DELTA),
        )
    )
    fails = bit.pointwise(_EPSILON).upper
    rounded = 0.009
    rows = [
        ("flip probability without a crowd", "0.333", f"{alone:.4f}"),
        ("flip probability by the rule (4.45)", "0.009", f"{flip:.6f}"),
        ("noise falls by the factor", "37", f"{alone / flip:.1f}"),
        ("standard error without a crowd", "44.7", f"{clear:.2f}"),
        ("standard error by the rule", "3", f"{ruled:.3f}"),
        ("precision grows by the factor", "10", f"{clear / ruled:.1f}"),
        ("interval of all ones, no crowd", "621.98 to 711.42", _interval(_USERS, 0, 0.3333)),
        ("the same with one zero", "621.65 to 711.09", _interval(_USERS - 1, 1, 0.3333)),
        ("interval of all ones, by the rule", "982.04 to 999.96", _interval(_USERS, 0, rounded)),
        ("the same with one zero", "981.06 to 998.98", _interval(_USERS - 1, 1, rounded)),
        ("chance that 100 ones, q = 0.3, all read zero", "5e-53", f"{0.3**100:.2e}"),
        ("outcomes with a ratio of at most 2", "99.98 %", f"{100 * (1 - fails):.1f} %"),
        ("delta at epsilon ln 2, worst crowd", "", f"{bit.delta(_EPSILON).upper:.4f}"),
        (f"flip probability for delta {_MILLIONTH}", "", f"{enough:.6f}"),
        (f"standard error for delta {_MILLIONTH}", "", f"{_standard_error(_USERS, enough):.3f}"),
    ]
    return TableFigure(
        title=f"{_USERS:,} people, ratio {_RATIO}",
        heads=("what", "printed", "computed"),
        rows=tuple(rows),
        note="The intervals without a crowd are those at q = 0.3333. Outcomes: of the worst crowd, "
        "the worse of both directions.",
    )


def _gain() -> TableFigure:
    rows = []
    for count in _COPIES:
        flip = privacy.calibrate(
            lambda q, k=count: privacy.FlippedBits(users=_CROWD, flip_probability=q, copies=k),  # type: ignore[misc]
            Target(1.0, _DELTA),
        )
        rows.append(
            (
                str(count),
                f"{3 / (_RATIO - 1) / math.sqrt(count):.3f}",
                f"{3 / (count * math.expm1(_EPSILON / count)):.3f}",
                f"{float(flip):.6f}",
                f"{_standard_error(_CROWD * count, float(flip)) / count:.3f}",
            )
        )
    return TableFigure(
        title="Standard error of a count",
        heads=("copies", "promised", "by (5.23)", "exact flip probability", "exact"),
        rows=tuple(rows),
        note=f"Promised and (5.23): ratio {_RATIO}, any number of people. Exact: {_CROWD:,} "
        f"people, epsilon 1, delta {_MILLIONTH}, worst crowd.",
    )


def _standard_error(records: int, flip: float) -> float:
    return math.sqrt(records * flip * (1.0 - flip)) / (1.0 - 2.0 * flip)


def _interval(ones: int, zeros: int, flip: float) -> str:
    mean = ones * (1 - flip) + zeros * flip
    reach = 3 * math.sqrt((ones + zeros) * flip * (1 - flip))
    return f"{mean - reach:.2f} to {mean + reach:.2f}"
