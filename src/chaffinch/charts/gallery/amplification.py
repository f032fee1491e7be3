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

_DELTA = 1e-6
_USERS = tuple(round(10 ** (2 + step / 4)) for step in range(4, 25))
"""Four for each power of ten, from 10³ to 10⁸."""
_LOCALS = tuple((0.2 + 2.45 * np.linspace(0.0, 1.0, 61)) ** 2)
"""From 0.04 to 7, closer together where the lines are steep."""

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
        "al. 2021): the epsilon grows like e^(ε₀/2) instead of e^(3ε₀/2).",
        "It does. Where a line meets the local epsilon itself nothing is gained by shuffling: the "
        "bounds of 2019 get there several units earlier than two-value response does.",
    )


def blanket() -> Section:
    """Return ε against n for k-ary response."""
    return Section(
        "The privacy blanket of k-ary response",
        "privacy-blanket",
        (_blanket(2), _blanket(10)),
        "Bounds that know the randomizer, here k-ary response, are far tighter than those for any "
        "randomizer with the same local epsilon (Balle et al. 2019).",
        "They are. With ten values the blanket is exact to a tenth of a percent: a crowd that can "
        "exist has nearly its epsilon. With two values it is not, and the exact epsilon is known. "
        "The variation ratio, drawn for comparison, is below the truth from three values on.",
    )


def _by_users(local: float) -> Figure:
    lines = [
        _line(
            "two-value response, exact",
            "proven",
            _USERS,
            lambda n: _exact(local, n),
        ),
        *_any_randomizer(_USERS, lambda n: (local, n)),
    ]
    return _figure(
        f"Local epsilon {local:g}, delta {_DELTA:g}",
        Axis("users", float(_USERS[0]), float(_USERS[-1]), "log"),
        lines,
        y=_log_epsilon(lines, local),
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
        f"{users:,} users, delta {_DELTA:g}",
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
            "privacy blanket; band: down to the worst crowd found",
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
        f"{values} values, local epsilon {local:g}, delta {_DELTA:g}",
        Axis("users", float(_USERS[0]), float(_USERS[-1]), "log"),
        scaled,
        y=Axis("epsilon × √users", 0.0, 1.05 * max(max(line.y) for line in scaled)),
        crowd="all users honest, the target included",
    )


def _times_root_of_users(line: Series) -> Series:
    """Return a line over users that is level where epsilon falls like 1/√n, so that lines part."""

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
            places,
            of(clone_epsilon_closed_form),
        ),
        _line(
            "blanket by Bennett, Balle et al. 2019",
            "published",
            places,
            of(published.blanket_bennett_epsilon),
        ),
        _line(
            "blanket by Hoeffding, Balle et al. 2019",
            "published",
            places,
            of(published.blanket_hoeffding_epsilon),
        ),
        _line("Erlingsson et al. 2019", "published", places, of(published.erlingsson_epsilon)),
    ]


def _line(
    name: str, style: Style, places: tuple[float, ...], formula: Callable[[Any], float]
) -> Series:
    """Return a line over the places where a formula says something."""
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
    """Return the epsilon of two-value response: a bit that is flipped with 1/(1 + e^ε₀)."""
    bit = FlippedBits(users=users, flip_probability=1.0 / (1.0 + math.exp(local)))
    return bit.epsilon(_DELTA, relative_width=_WIDTH).upper
