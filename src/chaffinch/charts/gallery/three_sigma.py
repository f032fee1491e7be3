"""The worked numbers of S1 (Zhilyaev and Zeber, 2016), as tables beside what is true."""

from __future__ import annotations

import math

from chaffinch import privacy
from chaffinch.charts.gallery.section import Section, TableFigure
from chaffinch.privacy import Target, published

_USERS, _RATIO = 1000, 2
"""N and λ of the example in S1, section 4.3."""
_EPSILON = math.log(_RATIO)
_DELTA, _MILLIONTH = 1e-6, "1e-6"
_CROWD = 10_000
_COPIES = (1, 2, 4, 8, 16, 32)


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
    clear, ruled = _error(_USERS, alone), _error(_USERS, flip)
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
        (f"standard error for delta {_MILLIONTH}", "", f"{_error(_USERS, enough):.3f}"),
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
                f"{_error(_CROWD * count, float(flip)) / count:.3f}",
            )
        )
    return TableFigure(
        title="Standard error of a count",
        heads=("copies", "promised", "by (5.23)", "exact flip probability", "exact"),
        rows=tuple(rows),
        note=f"Promised and (5.23): ratio {_RATIO}, any number of people. Exact: {_CROWD:,} "
        f"people, epsilon 1, delta {_MILLIONTH}, worst crowd.",
    )


def _error(records: int, flip: float) -> float:
    """Return √(n·q·(1 − q))/(1 − 2q)."""
    return math.sqrt(records * flip * (1.0 - flip)) / (1.0 - 2.0 * flip)


def _interval(ones: int, zeros: int, flip: float) -> str:
    """Return mean and three deviations of the sum, to both sides."""
    mean = ones * (1 - flip) + zeros * flip
    reach = 3 * math.sqrt((ones + zeros) * flip * (1 - flip))
    return f"{mean - reach:.2f} to {mean + reach:.2f}"
