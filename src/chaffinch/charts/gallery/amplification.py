"""Figures of the field on amplification by shuffling, as Feldman et al. and Balle et al. draw them.

What shuffling makes of a local epsilon: against the number of users, and against the local epsilon
itself. The exact line is two-value response, whose worst crowd is known; every bound for any
randomizer with that local epsilon has to stay above it. For k-ary response no exact line is
known, and both ends of what is proven are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chaffinch.charts.axis import Axis
from chaffinch.charts.figure import Figure, Series, Style, Terms
from chaffinch.charts.gallery.section import Section
from chaffinch.errors import InvalidInput
from chaffinch.privacy import FlippedBits, published
from chaffinch.privacy.amplification import (
    ShuffledResponse,
    clone_epsilon,
    clone_epsilon_closed_form,
)

_DELTA, _MILLIONTH = 1e-6, "1e-6"
_USERS = tuple(round(10 ** (3 + step / 8)) for step in range(41))
"""Eight for each power of ten, from 10³ to 10⁸."""
_LOCALS = tuple(np.linspace(0.1**0.5, 7.0**0.5, 81) ** 2)
"""From 0.1 to 7, closer together where the lines are steep."""
_FINER = 8
"""Closed forms, which cost next to nothing, have so many times as many points."""

_ENDS = (float(_USERS[0]), float(_USERS[-1]))

_WIDTH = 5e-3
"""Of the exact epsilon: less than a line is thick."""


def by_users() -> Section:
    """Return ε against n for two local epsilons."""
    return Section(
        "Amplification by shuffling: epsilon against users",
        "amplification-by-users",
        (_by_users(0.5), _by_users(4.0)),
        "The epsilon after shuffling falls like 1/√n. Erlingsson et al. (2019) proved it for small "
        "local epsilons, Balle et al. (2019) with better constants, Feldman et al. (2021) for "
        "large ones.",
        "It does, and the numerical clone bound is within a factor of 1.4 (local epsilon 0.5) or "
        "2.4 (local epsilon 4) of what two-value response really has. The closed forms "
        "cost far more.",
    )


def by_local_epsilon() -> Section:
    """Return ε against ε₀ for two crowds."""
    return Section(
        "Amplification by shuffling: epsilon against the local epsilon",
        "amplification-by-local-epsilon",
        (_by_local(10_000), _by_local(1_000_000)),
        "For large local epsilons the clones are better than all that was known before (Feldman et "
        "al. 2021): the epsilon grows like e^(ε₀/2), which is the best possible.",
        "They are, from a local epsilon of about 3 on: there the bound by Bennett grows like e^ε₀ "
        "and the one by Hoeffding like e^(3ε₀/2). Where a line meets the local epsilon itself "
        "nothing is gained by shuffling: the bounds of 2019 get there several units earlier than "
        "two-value response does.",
    )


def blanket() -> Section:
    """Return ε against n for k-ary response."""
    return Section(
        "The privacy blanket of k-ary response",
        "privacy-blanket",
        (_blanket(2), _blanket(10)),
        "Bounds that know the randomizer, here k-ary response, are far tighter than those for any "
        "randomizer with the same local epsilon (Balle et al. 2019).",
        "The blanket itself is, and with ten values the bound by Bennett; with two values both "
        "closed forms are no better than the clones. With ten values the blanket is exact to a "
        "tenth of a percent: a crowd that can exist has nearly its epsilon. With two values it is "
        "not, and the exact epsilon is known. The variation ratio lies on the blanket, and yet is "
        "no bound: with ten values and 1,000 users it is below the truth (0.08010 for at least "
        "0.08013).",
    )


def _by_users(local: float) -> Figure:
    lines = [
        _line(
            "two-value response, exact",
            "proven",
            _USERS,
            lambda n: _exact(local, n),
        ),
        *_any_randomizer(_USERS, lambda n: (local, round(n))),
    ]
    return _figure(
        f"Amplification by shuffling: local epsilon {local:g}, delta {_MILLIONTH}",
        Axis("users", *_ENDS, "log"),
        [*lines, Series("the local epsilon", _ENDS, (local, local), "reference")],
        y=_log_epsilon(lines, 10.0 ** math.ceil(math.log10(local))),
        crowd="all users honest, the target included",
    )


def _by_local(users: int) -> Figure:
    lines = [
        _line(
            "two-value response, exact",
            "proven",
            _LOCALS,
            lambda e: _exact(e, users),
        ),
        *_any_randomizer(_LOCALS, lambda e: (e, users)),
    ]
    diagonal = Series("the local epsilon", _LOCALS, _LOCALS, "reference")
    return _figure(
        f"Amplification by shuffling: {users:,} users, delta {_MILLIONTH}",
        Axis("local epsilon", 0.0, _LOCALS[-1]),
        [*lines, diagonal],
        y=_log_epsilon(lines, _LOCALS[-1]),
        crowd=f"{users:,} honest users",
    )


def _blanket(values: int) -> Figure:
    local = 1.0
    brackets = {
        n: ShuffledResponse(local_epsilon=local, values=values, users=n).epsilon(_DELTA)
        for n in _USERS
    }
    given: dict[str, Any] = {"local_epsilon": local, "delta": _DELTA, "values": values}
    lines = [
        Series(
            "privacy blanket" + ("; band: down to the worst crowd" if values == 2 else ""),
            tuple(map(float, _USERS)),
            tuple(brackets[n].upper for n in _USERS),
            "proven",
            tuple(brackets[n].lower for n in _USERS),
        )
    ]
    if values == 2:
        lines.append(
            _line(
                "exact, worst crowd",
                "bound",
                _USERS,
                lambda n: _exact(local, n),
            )
        )
    variation = math.expm1(local) / (math.exp(local) + values - 1)
    lines += [
        _line(
            "blanket by Bennett, Balle et al. 2019",
            "published",
            _USERS,
            lambda n: published.blanket_bennett_epsilon(users=n, **given),
        ),
        _line(
            "blanket by Hoeffding, Balle et al. 2019",
            "published",
            _USERS,
            lambda n: published.blanket_hoeffding_epsilon(users=n, **given),
        ),
        _line(
            "variation ratio, Wang et al. 2024",
            "published",
            _USERS,
            lambda n: published.variation_ratio_epsilon(
                local_epsilon=local, variation=variation, users=n, delta=_DELTA
            ),
        ),
        _line(
            "clones for any randomizer, Feldman et al. 2021",
            "bound",
            _USERS,
            lambda n: clone_epsilon(local_epsilon=local, users=n, delta=_DELTA).upper,
        ),
    ]
    scaled = [_times_root_of_users(line) for line in lines]
    return _figure(
        f"Response among {values} values, local epsilon {local:g}, delta {_MILLIONTH}",
        Axis("users", *_ENDS, "log"),
        scaled,
        y=Axis("epsilon × √users", 0.0, 1.05 * max(max(line.y) for line in scaled)),
        crowd="all users honest, the target included",
    )


def _times_root_of_users(line: Series) -> Series:
    # Level where epsilon falls like 1/√n, so that lines of different constants lie apart.
    def scaled(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(y * math.sqrt(x) for x, y in zip(line.x, values, strict=False))

    return replace(line, y=scaled(line.y), other_end=scaled(line.other_end))


def _any_randomizer(
    places: tuple[float, ...], parameters: Callable[[Any], tuple[float, int]]
) -> list[Series]:
    """Return the bounds for every randomizer; ``parameters`` are local epsilon and users."""

    def of(formula: Callable[..., float]) -> Callable[[Any], float]:
        def at(place: Any) -> float:
            local, users = parameters(place)
            return formula(local_epsilon=local, users=users, delta=_DELTA)

        return at

    finer = _finer(places)
    return [
        _line(
            "clones, numerical, Feldman et al. 2021",
            "bound",
            places,
            of(lambda **given: clone_epsilon(**given).upper),
        ),
        _line(
            "clones, closed form, Feldman et al. 2021",
            "bound",
            finer,
            of(clone_epsilon_closed_form),
        ),
        _line(
            "blanket by Bennett, Balle et al. 2019",
            "published",
            finer,
            of(published.blanket_bennett_epsilon),
        ),
        _line(
            "blanket by Hoeffding, Balle et al. 2019",
            "published",
            finer,
            of(published.blanket_hoeffding_epsilon),
        ),
        _line("Erlingsson et al. 2019", "published", finer, of(published.erlingsson_epsilon)),
    ]


def _finer(places: tuple[float, ...]) -> tuple[float, ...]:
    steps = np.linspace(0, len(places) - 1, _FINER * (len(places) - 1) + 1)
    return tuple(np.interp(steps, np.arange(len(places)), places).tolist())


def _line(
    name: str, style: Style, places: tuple[float, ...], formula: Callable[[Any], float]
) -> Series:
    found = []
    for place in places:
        try:
            found.append((float(place), formula(place)))
        except InvalidInput:
            continue
    return Series(name, tuple(x for x, _ in found), tuple(y for _, y in found), style)


def _log_epsilon(lines: list[Series], most: float) -> Axis:
    lowest = min(min(line.y) for line in lines if line.y)
    return Axis("epsilon", 10.0 ** math.floor(math.log10(lowest)), max(most, 1.0), "log")


def _figure(title: str, x: Axis, lines: list[Series], *, y: Axis, crowd: str) -> Figure:
    shown = [line for line in lines if line.x]
    ends = [f"'{line.name}' from {line.y[0]:.3g} to {line.y[-1]:.3g}." for line in shown]
    return Figure(
        title=title,
        x=x,
        y=y,
        series=tuple(shown),
        alternative=f"{y.label.capitalize()} against {x.label}. " + " ".join(ends),
        terms=Terms(neighbours="replace-one", view="messages", crowd=crowd, method="upper-bound"),
    )


def _exact(local: float, users: int) -> float:
    # Two-value response with ε₀ flips a bit with 1/(1 + e^ε₀).
    bit = FlippedBits(users=users, flip_probability=1.0 / (1.0 + math.exp(local)))
    return bit.epsilon(_DELTA, relative_width=_WIDTH).upper
