"""Exact parameters of every protocol beside what published formulas ask for.

Exact ones are proven for every crowd of that size. Published ones are claims: some ask for too
much, and some do not hold. Beside them stands what a trusted centre would add, and how many people
it would need for an error that is the same share of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from chaffinch import privacy
from chaffinch.errors import InvalidInput, NoParameterFound, checks
from chaffinch.planning.baselines import central_noises, people_with_centre
from chaffinch.planning.candidates import Task, for_target, most_exact
from chaffinch.planning.wishes import MOST_MESSAGES
from chaffinch.plans.expansion import expanded
from chaffinch.plans.parts import Part
from chaffinch.privacy import Target
from chaffinch.privacy.calibration import FINE
from chaffinch.privacy.numerics.roots import find_largest
from chaffinch.privacy.published import FORMULAS
from chaffinch.protocols.base import GRAIN
from chaffinch.protocols.tuning import flip_for_shift, gaussian_mu
from chaffinch.questions import Bit, Choice, Number, Question

_COPIES = 8


@dataclass(frozen=True)
class ParameterLine:
    """One way to set a parameter: where it comes from, what it is, what it costs."""

    protocol: str
    source: str
    kind: str
    """``exact`` (proven here) or ``published`` (a claim)."""
    parameter: str
    value: float | None
    """None where a formula gives nothing for this crowd."""
    error: float | None
    """The standard error of a count, in people."""
    ratio: float | None = None
    """The parameter over the exact one of the same protocol."""
    note: str = ""
    people_with_centre: int | None = None
    """How many people a trusted centre would need for an error that is the same share of them."""


def compare_parameters(
    users: int, values: int, target: Target, progress: Callable[[str], None]
) -> list[ParameterLine]:
    """Return the ways to set every protocol's parameter, then what a trusted centre would add.

    ``progress`` is told which protocol is calibrated.
    """
    checks.whole("number of users", users, least=2)
    checks.whole("number of values", values, least=2, most=10**6)
    lines: list[ParameterLine] = []
    for name, ways in _ways(users, values, target):
        progress(name)
        lines.extend(ways())
    progress("trusted centre")
    return _beside_centre(lines, users, values, target)


_Ways = tuple[str, Callable[[], Iterator[ParameterLine]]]


def _ways(users: int, values: int, target: Target) -> Iterator[_Ways]:
    yield "flipped bit", lambda: _bit(users, target)
    yield f"flipped bit, {_COPIES} copies", lambda: _copies(users, target)
    yield "clear with decoys", lambda: _decoys(users, values, target)
    yield "flipped values", lambda: _values(users, values, 0, target)
    yield "flipped values with decoys", lambda: _values(users, values, users, target)
    yield f"number in {_COPIES} bits", lambda: _number(users, target)
    yield "signed decoys", lambda: _signed(users, values, target)
    yield "local", lambda: _local(users, target)


def _bit(users: int, target: Target) -> Iterator[ParameterLine]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: privacy.FlippedBits(users=users, flip_probability=q), target, users, 1.0
        )

    claims = {
        "any_crowd_flip_probability": {"delta": target.delta},
        "binary_sum_flip_probability": {"delta": target.delta},
        "zero_crowd_flip_probability": {"delta": target.delta},
        "three_sigma_flip_probability": {},
    }
    keywords = {"users": users, "epsilon": target.epsilon}
    yield from _group(
        "flipped bit", "flip", exact, {name: keywords | more for name, more in claims.items()},
        lambda q: _flip_error(users, q),
    )  # fmt: skip


def _copies(users: int, target: Target) -> Iterator[ParameterLine]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: privacy.FlippedBits(users=users, flip_probability=q, copies=_COPIES),
            target,
            users,
            float(_COPIES),
        )

    given = {"users": users, "epsilon": target.epsilon, "copies": _COPIES}
    yield from _group(
        f"flipped bit, {_COPIES} copies",
        "flip",
        exact,
        {"three_sigma_copies_flip_probability": given},
        lambda q: _flip_error(users * _COPIES, q) / _COPIES,
    )


def _number(users: int, target: Target) -> Iterator[ParameterLine]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: privacy.EncodedNumbers(
                users=users, flip_probability=q, resolution=_COPIES, slots="together"
            ),
            target,
            users,
            float(_COPIES),
        )

    # Rounding to bits adds at most half a step per person.
    rounding = math.sqrt(users) / (2 * _COPIES)
    yield from _group(
        f"number in {_COPIES} bits",
        "flip",
        exact,
        {},
        lambda q: math.hypot(_flip_error(users * _COPIES, q) / _COPIES, rounding),
    )


def _decoys(users: int, values: int, target: Target) -> Iterator[ParameterLine]:

    def exact() -> float | None:
        return float(
            privacy.calibrate_count(
                lambda count: privacy.DecoyedValues(decoys=count, values=values), target
            )
        )

    given = {"epsilon": target.epsilon, "delta": target.delta, "values": values}
    del users
    yield from _group(
        "clear with decoys", "decoys", exact, {"clear_decoys": given},
        lambda count: math.sqrt(count * (values - 1)) / values,
    )  # fmt: skip


def _values(users: int, values: int, decoys: int, target: Target) -> Iterator[ParameterLine]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: privacy.FlippedValues(
                users=users, values=values, decoys=decoys, flip_probability=q
            ),
            target,
            users + decoys,
            2.0,
        )

    given = {"epsilon": target.epsilon, "delta": target.delta, "decoys": decoys}
    claims: dict[str, dict[str, Any]] = {
        "flipped_values_flip_probability": given | {"users": users}
    }
    if decoys:
        claims["decoy_cover_flip_probability"] = given
    spread = decoys * (values - 1) / values**2
    name = "flipped values" + (", a decoy each" if decoys else "")
    yield from _group(
        name, "flip", exact, claims,
        lambda q: math.hypot(_flip_error(users + decoys, q), math.sqrt(spread)),
    )  # fmt: skip


def _signed(users: int, values: int, target: Target) -> Iterator[ParameterLine]:
    for name, question in (
        ("bit", Bit()),
        ("choice", Choice(range(values), missing="refuse")),
    ):
        ratio = error = None
        part = _signed_part(question, users, target)
        if part is not None:
            mechanism = part.protocol.mechanism(part.question, users)
            if isinstance(mechanism, privacy.SignedDecoys):
                ratio, error = float(mechanism.plus_ratio), part.standard_error(users)
        told = None if ratio is None else 1.0
        yield ParameterLine(
            f"signed decoys, {name}", "chaffinch", "exact", "ratio", ratio, error, told
        )


def _signed_part(question: Question, users: int, target: Target) -> Part | None:
    asked = expanded([("answer", question)])
    wish = {"answer": "signed decoys"}
    task = Task(asked, users, users, 1, MOST_MESSAGES, local_epsilon=math.inf, protocols=wish)
    found = []
    for variant in task.variants(asked[0], MOST_MESSAGES):
        with suppress(InvalidInput):
            found.append(for_target(variant.name, [variant], (target.epsilon, target.delta), task))
    within = [one for one in found if one is not None and not one.ruled_out]
    return most_exact(within, task)[0].parts[0] if within else None


def _local(users: int, target: Target) -> Iterator[ParameterLine]:
    flip = 1.0 / (1.0 + math.exp(min(target.epsilon, 700.0)))
    error = _flip_error(users, flip)
    yield ParameterLine(
        "bit, no shuffler", "randomized response", "exact", "flip", flip, error, 1.0
    )


def _beside_centre(
    lines: list[ParameterLine], users: int, values: int, target: Target
) -> list[ParameterLine]:
    """Return the lines with how many people a centre would need, and what it would add."""
    questions: dict[str, Question] = {
        "bit": Bit(),
        "choice": Choice(range(values), missing="refuse"),
        "number": Number(0, 1),
    }
    noises = {
        name: central_noises(question, target.epsilon, target.delta)
        for name, question in questions.items()
    }

    def beside(line: ParameterLine, kind: str) -> ParameterLine:
        if not line.error:
            return line
        least = min(one.standard_error for one in noises[kind])
        return replace(line, people_with_centre=people_with_centre(line.error, users, least))

    parameters = {"discrete Laplace": "ratio", "discrete Gaussian": "sigma"}
    centres = [
        ParameterLine(
            f"trusted centre, {kind}",
            one.name,
            "exact",
            parameters[one.name],
            one.parameter,
            one.standard_error,
        )
        for kind, both in noises.items()
        for one in both
    ]
    return [beside(line, _question_of(line.protocol)) for line in [*lines, *centres]]


def _question_of(protocol: str) -> str:
    found = [kind for kind in ("number", "bit", "choice") if kind in protocol.replace("bits", "")]
    return found[0] if found else "choice"


def _group(
    protocol: str,
    parameter: str,
    exact: Callable[[], float | None],
    claims: dict[str, dict[str, Any]],
    error: Callable[[float], float],
) -> Iterator[ParameterLine]:
    """Yield the exact parameter of a protocol, then what each formula asks for."""
    try:
        best = exact()
    except NoParameterFound:
        best = None
    yield _line(protocol, "chaffinch", "exact", parameter, best, best, error)
    for formula in FORMULAS:
        if formula.name in claims:
            try:
                asked: float | None = float(formula.compute(**claims[formula.name]))  # type: ignore[arg-type]
            except InvalidInput:
                asked = None
            yield _line(
                protocol, formula.label, "published", parameter, asked, best, error, formula.defect
            )


def _smallest_flip(
    make: Callable[[Fraction], Any], target: Target, records: int, moved: float
) -> float | None:
    """Return a flip probability proven to keep the promise, at most ``FINE`` too large."""

    def exact(inverse: float) -> Fraction:
        return Fraction(min(math.ceil(GRAIN / inverse), GRAIN // 2 - 1), GRAIN)

    def excess(inverse: float) -> float:
        reached = make(exact(inverse)).delta_bound(target.epsilon)
        return math.log(reached / target.delta) if reached > 0 else -800.0

    guess = float(flip_for_shift(gaussian_mu(target.epsilon, target.delta), records, moved))
    inverse = find_largest(excess, 1.0 / guess, least=2.0, most=2.0**63, tolerance=FINE)
    return None if inverse is None else float(exact(inverse))


def _line(  # noqa: PLR0917 - what a line is made of
    protocol: str,
    source: str,
    kind: str,
    parameter: str,
    value: float | None,
    best: float | None,
    error: Callable[[float], float],
    note: str = "",
) -> ParameterLine:
    known = value is not None and (parameter != "flip" or value < 0.5)
    return ParameterLine(
        protocol,
        source,
        kind,
        parameter,
        value if known else None,
        error(value) if known and value is not None else None,
        value / best if known and value is not None and best else None,
        note,
    )


def _flip_error(records: int, flip: float) -> float:
    """Return √(n·q·(1 − q))/(1 − 2q), the standard deviation of an unbiased count."""
    return math.sqrt(records * flip * (1.0 - flip)) / (1.0 - 2.0 * flip)
