"""Exact parameters of every protocol beside what published formulas ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.randomizers import bounds_at, read_table, show_bounds
from chaffinch.errors import InvalidInput, NoParameterFound, Unquoted

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part
    from chaffinch.privacy.shuffled_randomizers import ShuffledRandomizer
    from chaffinch.questions import Question

_Randomizer = Literal[
    "response",
    "symmetric-unary",
    "optimized-unary",
    "local-hashing",
    "subset-selection",
    "laplace",
]
_TOLERANCE = 1e-3
_NARROW = 80
"""Below so many columns the label is left out."""
_LABEL = 2
_COPIES = 8


@dataclass(frozen=True)
class _Line:
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


def compare(  # noqa: PLR0913 - one for each option
    *,
    users: int,
    delta: float,
    epsilon: float | None = None,
    local_epsilon: float | None = None,
    randomizer: _Randomizer | None = None,
    table: Path | None = None,
    values: int = 10,
    plot: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Set exact parameters beside published formulas, or bounds of a randomizer side by side.

    Exact ones are proven for every crowd of that size. Published ones are claims: some ask
    for too much, and some do not hold. Beside them stands what a trusted centre would add, and
    how many people it would need for the same error. With --local-epsilon (k-ary randomized
    response, or another --randomizer) or --table (any randomizer) it shows what shuffling makes of
    it: exact, blanket, clones, closed forms, variation ratio.

    Parameters
    ----------
    users
        The honest users a guarantee counts on.
    delta
        The delta to promise.
    epsilon
        The epsilon to promise.
    local_epsilon
        Compare bounds of a randomizer among --values, with this local epsilon.
    randomizer
        Which one: k-ary response (also GRR or k-RR; if none is named), symmetric or optimized unary
        encoding (SUE, OUE), local hashing (OLH), subset selection, or Laplace noise on a grid of
        --values points.
    table
        Compare bounds of the randomizer in a CSV or JSON file: a row of chances for each input.
    values
        How many values there are in a question with a choice.
    plot
        Draw the bounds into a file: .svg, .png or .pdf.
    """
    ways = {"epsilon": epsilon, "local-epsilon": local_epsilon, "table": table}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise InvalidInput(
            "options --epsilon, --local-epsilon and --table",
            "one of them",
            Unquoted(" and ".join(given) or "none"),
        )
    if plot is not None and epsilon is not None:
        rule = "given with --local-epsilon or --table"
        raise InvalidInput("option --plot", rule, Unquoted("--epsilon"))
    if randomizer is not None and local_epsilon is None:
        raise InvalidInput("option --randomizer", "given with --local-epsilon", randomizer)
    if epsilon is None:
        name = randomizer or "response"
        _compare_bounds(users, delta, local_epsilon, name, values, table, plot, output)
        return
    _compare_parameters(users, epsilon, delta, values, output)


def _compare_bounds(  # noqa: PLR0917 - the options
    users: int,
    delta: float,
    local_epsilon: float | None,
    randomizer: _Randomizer,
    values: int,
    table: Path | None,
    plot: Path | None,
    output: Output,
) -> None:
    """Show what is known of one randomizer, shuffled."""
    from chaffinch.charts.curves import mechanism_name
    from chaffinch.privacy.amplification import ShuffledTable

    if plot is not None:
        paths.require_writable(plot)
    mechanism: ShuffledRandomizer
    if table is not None:
        mechanism = ShuffledTable(read_table(table), users=users)
    else:
        local = math.nan if local_epsilon is None else local_epsilon
        mechanism = _named(randomizer, local, values, users)
    with output.thinking("comparing"):
        rows = bounds_at(mechanism, delta)
        if plot is not None:
            cf.charts.privacy_curve(mechanism).save(plot)
            output.say(f"wrote {plot}")
    if output.json:
        local = mechanism.local_epsilon
        asked = {"users": users, "delta": delta, "local_epsilon": local}
        output.document(asked | {"mechanism": mechanism_name(mechanism), "bounds": rows})
        return
    output.words(f"{mechanism_name(mechanism)}.")
    output.words("")
    show_bounds(rows, delta, output)


def _named(name: _Randomizer, local: float, values: int, users: int) -> ShuffledRandomizer:
    """Return a randomizer by its name."""
    known = cf.privacy.randomizers
    if name == "laplace":
        most = known.DiscreteLaplace.most_steps + 1
        cf.checks.whole("number of values of laplace", values, least=2, most=most)
        return known.DiscreteLaplace(local_epsilon=local, steps=values - 1, users=users)
    kinds = {
        "response": known.ShuffledResponse,
        "symmetric-unary": known.SymmetricUnary,
        "optimized-unary": known.OptimizedUnary,
        "local-hashing": known.LocalHashing,
        "subset-selection": known.SubsetSelection,
    }
    return kinds[name](local_epsilon=local, values=values, users=users)


def _compare_parameters(
    users: int, epsilon: float, delta: float, values: int, output: Output
) -> None:
    """Show the exact parameters of every protocol beside what formulas ask for."""
    cf.checks.whole("number of users", users, least=2)
    cf.checks.whole("number of values", values, least=2, most=10**6)
    lines: list[_Line] = []
    with output.thinking("calibrating") as tell:
        for name, ways in _ways(users, values, cf.privacy.Target(epsilon, delta)):
            tell(name)
            lines.extend(ways())
        tell("trusted centre")
        lines = _beside_centre(lines, users, values, cf.privacy.Target(epsilon, delta))
    if output.json:
        asked = {"users": users, "epsilon": epsilon, "delta": delta, "values": values}
        output.document(asked | {"lines": [asdict(line) for line in lines]})
        return
    output.words(f"{users:,} users, epsilon {epsilon:g} with delta {delta:g}, {values:,} values.")
    output.words("")
    rows = [
        _cells_of(line, first=place == 0)
        for _, group in groupby(lines, key=lambda one: one.protocol)
        for place, line in enumerate(group)
    ]
    heads = ["protocol", "source", "label", "parameter", "error", "× exact", "centre"]
    narrow = output.width < _NARROW
    if narrow:
        # The source tells the label as well.
        for row in (heads, *rows):
            del row[_LABEL]
    output.table(heads, rows, texts=2 if narrow else 3)
    output.words("")
    output.words(
        "error: standard error of a count, in people (of a sum, in ranges). × exact: the "
        "parameter over the exact one. Exact"
        + (" (chaffinch, randomized response, discrete noise)" if narrow else "")
        + ": proven for every crowd of this size. Published"
        + (" (all others)" if narrow else "")
        + ": a claim, never a guarantee; 'nothing' where a formula says nothing for this crowd. "
        "Centre: how many people a trusted centre would need for the same error as a share of "
        "them; the rest is the price of trusting nobody, in people."
    )
    for note in dict.fromkeys(f"{one.source}: {one.note}." for one in lines if one.note):
        output.words(f"note: {note}")


_Way = tuple[str, Callable[[], Iterator[_Line]]]


def _ways(users: int, values: int, target: Any) -> Iterator[_Way]:
    yield "flipped bit", lambda: _bit(users, target)
    yield f"flipped bit, {_COPIES} copies", lambda: _copies(users, target)
    yield "clear with decoys", lambda: _decoys(users, values, target)
    yield "flipped values", lambda: _values(users, values, 0, target)
    yield "flipped values with decoys", lambda: _values(users, values, users, target)
    yield f"number in {_COPIES} bits", lambda: _number(users, target)
    yield "signed decoys", lambda: _signed(users, values, target)
    yield "local", lambda: _local(users, target)


def _bit(users: int, target: Any) -> Iterator[_Line]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: cf.privacy.FlippedBits(users=users, flip_probability=q), target, users, 1.0
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


def _copies(users: int, target: Any) -> Iterator[_Line]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: cf.privacy.FlippedBits(users=users, flip_probability=q, copies=_COPIES),
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


def _number(users: int, target: Any) -> Iterator[_Line]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: cf.privacy.EncodedNumbers(
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


def _decoys(users: int, values: int, target: Any) -> Iterator[_Line]:

    def exact() -> float | None:
        return float(
            cf.privacy.calibrate_count(
                lambda count: cf.privacy.DecoyedValues(decoys=count, values=values), target
            )
        )

    given = {"epsilon": target.epsilon, "delta": target.delta, "values": values}
    del users
    yield from _group(
        "clear with decoys", "decoys", exact, {"clear_decoys": given},
        lambda count: math.sqrt(count * (values - 1)) / values,
    )  # fmt: skip


def _values(users: int, values: int, decoys: int, target: Any) -> Iterator[_Line]:

    def exact() -> float | None:
        return _smallest_flip(
            lambda q: cf.privacy.FlippedValues(
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


def _signed(users: int, values: int, target: Any) -> Iterator[_Line]:
    """Yield signed decoys as the planner tunes them where nothing else is wished."""
    for name, question in (
        ("bit", cf.Bit()),
        ("choice", cf.Choice(range(values), missing="refuse")),
    ):
        ratio = error = None
        part = _signed_part(question, users, target)
        if part is not None:
            mechanism = part.protocol.mechanism(part.question, users)
            if isinstance(mechanism, cf.privacy.SignedDecoys):
                ratio, error = float(mechanism.plus_ratio), part.standard_error(users)
        told = None if ratio is None else 1.0
        yield _Line(f"signed decoys, {name}", "chaffinch", "exact", "ratio", ratio, error, told)


def _signed_part(question: Question, users: int, target: Any) -> Part | None:
    """Return signed decoys for a question, where they keep the promise."""
    from chaffinch.planning.candidates import Task, for_target, most_exact
    from chaffinch.planning.wishes import MOST_MESSAGES
    from chaffinch.plans.expansion import expanded

    asked = expanded([("answer", question)])
    wish = {"answer": "signed decoys"}
    task = Task(asked, users, users, 1, MOST_MESSAGES, local_epsilon=math.inf, protocols=wish)
    found = []
    for variant in task.variants(asked[0], MOST_MESSAGES):
        with suppress(InvalidInput):
            found.append(for_target(variant.name, [variant], (target.epsilon, target.delta), task))
    within = [one for one in found if one is not None and not one.ruled_out]
    return most_exact(within, task)[0].parts[0] if within else None


def _local(users: int, target: Any) -> Iterator[_Line]:
    flip = 1.0 / (1.0 + math.exp(min(target.epsilon, 700.0)))
    error = _flip_error(users, flip)
    yield _Line("bit, no shuffler", "randomized response", "exact", "flip", flip, error, 1.0)


def _beside_centre(lines: list[_Line], users: int, values: int, target: Any) -> list[_Line]:
    """Return the lines with how many people a centre would need, and what it would add."""
    from chaffinch.planning.baselines import central_noises, people_with_centre

    questions: dict[str, Question] = {
        "bit": cf.Bit(),
        "choice": cf.Choice(range(values), missing="refuse"),
        "number": cf.Number(0, 1),
    }
    noises = {
        name: central_noises(question, target.epsilon, target.delta)
        for name, question in questions.items()
    }

    def beside(line: _Line, kind: str) -> _Line:
        if not line.error:
            return line
        least = min(one.standard_error for one in noises[kind])
        return replace(line, people_with_centre=people_with_centre(line.error, users, least))

    parameters = {"discrete Laplace": "ratio", "discrete Gaussian": "sigma"}
    centres = [
        _Line(
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
    return [beside(line, _kind_of(line.protocol)) for line in [*lines, *centres]]


def _kind_of(protocol: str) -> str:
    """Return what a protocol asks for, which its name tells."""
    found = [kind for kind in ("number", "bit", "choice") if kind in protocol.replace("bits", "")]
    return found[0] if found else "choice"


def _group(
    protocol: str,
    parameter: str,
    exact: Callable[[], float | None],
    claims: dict[str, dict[str, Any]],
    error: Callable[[float], float],
) -> Iterator[_Line]:
    """Yield the exact parameter of a protocol, then what each formula asks for."""
    from chaffinch.privacy.published import FORMULAS

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
    make: Callable[[Fraction], Any], target: Any, records: int, moved: float
) -> float | None:
    """Return a flip probability proven to keep the promise, at most ``_TOLERANCE`` too large."""
    from chaffinch.privacy.numerics.roots import find_largest
    from chaffinch.protocols.base import GRAIN
    from chaffinch.protocols.tuning import flip_for_shift, gaussian_mu

    def exact(inverse: float) -> Fraction:
        return Fraction(min(math.ceil(GRAIN / inverse), GRAIN // 2 - 1), GRAIN)

    def excess(inverse: float) -> float:
        reached = make(exact(inverse)).delta_bound(target.epsilon)
        return math.log(reached / target.delta) if reached > 0 else -800.0

    guess = float(flip_for_shift(gaussian_mu(target.epsilon, target.delta), records, moved))
    inverse = find_largest(excess, 1.0 / guess, least=2.0, most=2.0**63, tolerance=_TOLERANCE)
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
) -> _Line:
    known = value is not None and (parameter != "flip" or value < 0.5)
    return _Line(
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


def _cells_of(line: _Line, *, first: bool) -> list[str]:
    value = "nothing"
    if line.value is not None:
        whole = line.parameter == "decoys"
        value = f"{line.parameter} {line.value:.4g}"
        if whole:
            value = f"{math.ceil(line.value):,} decoys"
    return [
        line.protocol if first else "",
        line.source,
        line.kind,
        value,
        "" if line.error is None else f"{line.error:,.4g}",
        "" if line.ratio is None else f"{line.ratio:.2f}",
        "" if line.people_with_centre is None else f"{line.people_with_centre:,}",
    ]
