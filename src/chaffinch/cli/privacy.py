"""How private a mechanism is: epsilon and delta, curves and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.randomizers import (
    bounds_at,
    lower_text,
    read_table,
    show_bounds,
    upper_text,
)
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.privacy import Bracket, Mechanism
    from chaffinch.privacy.mechanisms.records import WordMechanism

_FLAG = Parameter(negative=(), show_default=False)
_LIST = Parameter(negative=())
_DELTAS = (1e-4, 1e-6, 1e-8, 1e-10)
_Name = Literal[
    "bits",
    "decoys",
    "values",
    "vectors",
    "numbers",
    "filters",
    "audiences",
    "totals",
    "signed",
    "responders",
    "sample",
    "response",
    "symmetric-unary",
    "optimized-unary",
    "rappor",
    "local-hashing",
    "subset-selection",
    "laplace",
    "table",
]

_BY_LOCAL_EPSILON = ("users", "values", "local_epsilon")
_MECHANISMS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "bits": ("FlippedBits", ("users", "flip"), ("copies", "decoys")),
    "decoys": ("DecoyedValues", ("values",), ("decoys", "users", "rate")),
    "values": ("FlippedValues", ("users", "values", "flip"), ("decoys",)),
    "vectors": ("FlippedVectors", ("users", "bits", "flip"), ()),
    "numbers": ("EncodedNumbers", ("users", "resolution", "flip"), ("slots",)),
    "filters": ("FlippedFilters", ("filters", "bits", "flip"), ()),
    "audiences": ("FlippedAudiences", ("filters", "bits", "hashes", "flip"), ()),
    "totals": ("NoisyTotals", ("law", "scale"), ("counts", "steps")),
    "signed": ("SignedDecoys", ("question", "ratio", "flood"), ("steps", "share")),
    "sample": ("SampleAndThreshold", ("sampling", "threshold"), ("neighbours",)),
    "responders": ("RandomResponders", ("responders",), ()),
    "response": ("amplification.ShuffledResponse", _BY_LOCAL_EPSILON, ()),
    "symmetric-unary": ("randomizers.SymmetricUnary", _BY_LOCAL_EPSILON, ()),
    "optimized-unary": ("randomizers.OptimizedUnary", _BY_LOCAL_EPSILON, ()),
    "rappor": (
        "randomizers.Rappor",
        ("users", "bits", "hashes", "permanent"),
        ("one", "zero", "reports"),
    ),
    "local-hashing": ("randomizers.LocalHashing", _BY_LOCAL_EPSILON, ("buckets",)),
    "subset-selection": ("randomizers.SubsetSelection", _BY_LOCAL_EPSILON, ("size",)),
    "laplace": ("randomizers.DiscreteLaplace", _BY_LOCAL_EPSILON, ()),
    "table": ("amplification.ShuffledTable", ("users", "table"), ()),
}
"""By name: the mechanism, the options it needs, and those it may have."""
_ARGUMENTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "flip": lambda text: {"flip_probability": text},
    "sampling": lambda text: {"sampling_rate": text},
    "rate": lambda text: {"decoy_rate": text},
    "ratio": lambda text: {"plus_ratio": text, "minus_ratio": text},
    "flood": lambda text: {"flood": [rate.strip() for rate in text.split(",")]},
    "table": lambda path: {"table": read_table(path)},
}
"""How an option becomes an argument, where its name is another one or it has to be read."""

_FOUND = "worst crowd found"
_ASSUMED = "assumed pair: all others as the target (exact; no guarantee)"


@Parameter(name="*")
@dataclass(frozen=True)
class _Parameters:
    users: int | None = None
    """The honest users that the guarantee counts on, the target included."""
    flip: str | None = None
    """The chance that a bit is reported wrong, such as 0.03 or 1/20."""
    copies: int | None = None
    """How many times each bit is sent (bits)."""
    decoys: int | None = None
    """How many decoys there are in total (bits, decoys, values)."""
    rate: str | None = None
    """The chance that a user adds a decoy (decoys, with users)."""
    values: int | None = None
    """How many values there are to choose from (decoys, values, response and other randomizers)."""
    resolution: int | None = None
    """In how many bits a number is sent (numbers)."""
    slots: Literal["separate", "together"] | None = None
    """Whether the bits of a number can be distinguished (numbers)."""
    bits: int | None = None
    """The length of a vector or of a filter (vectors, filters, audiences, rappor)."""
    filters: int | None = None
    """How many filters there are (filters, audiences)."""
    law: Literal["laplace", "gaussian"] | None = None
    """The law of the noise: masses like e^-|z|/scale, or like e^-z²/2·scale² (totals)."""
    scale: str | None = None
    """The scale of the noise (totals)."""
    counts: int | None = None
    """How many counts one person moves (totals)."""
    responders: int | None = None
    """How many users answer at random while all others tell the truth (responders)."""
    sampling: str | None = None
    """The chance that a user is in the sample, such as 0.105 (sample)."""
    threshold: int | None = None
    """The smallest count that is published (sample)."""
    neighbours: Literal["add-remove", "replace-one"] | None = None
    """Whether neighbours differ by one user more, or by one changed value (sample)."""
    local_epsilon: float | None = None
    """The epsilon of one message alone (response and other randomizers)."""
    hashes: int | None = None
    """How many bits a value or an id sets in a filter (audiences, rappor)."""
    permanent: str | None = None
    """The chance that a bit is replaced by a coin flip, permanently (rappor)."""
    one: str | None = None
    """The chance that a 1 is reported for a 1 (rappor)."""
    zero: str | None = None
    """The chance that a 1 is reported for a 0 (rappor)."""
    reports: Literal["one", "all"] | None = None
    """Whether the guarantee is for one report or for all reports ever (rappor)."""
    buckets: int | None = None
    """The number of buckets that values are hashed to (local-hashing)."""
    size: int | None = None
    """How many values a message names (subset-selection)."""
    table: Path | None = None
    """A CSV or JSON file of chances: a row for each input, a column for each output (table)."""
    question: Literal["bit", "choice", "number"] | None = None
    """What is asked (signed)."""
    ratio: str | None = None
    """The ratio of the geometric noise of both signs, such as 2/3 (signed)."""
    flood: str | None = None
    """The rates of bursts of 1, 2, … pairs, of all users together: 3/4,5/12 (signed)."""
    steps: int | None = None
    """In how many steps a number is sent (signed), or how far a person moves a count (totals)."""
    share: str | None = None
    """The honest users as a share of those that the noise was divided among (signed)."""


def privacy(  # noqa: PLR0913 - one for each option
    mechanism: _Name,
    *,
    parameters: _Parameters = _Parameters(),  # noqa: B008 - frozen
    times: int = 1,
    delta: Annotated[list[float] | None, _LIST] = None,
    epsilon: Annotated[list[float] | None, _LIST] = None,
    curve: Annotated[bool, _FLAG] = False,
    tradeoff: Annotated[bool, _FLAG] = False,
    plot: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Show how private a mechanism is, exactly.

    Both ends of every number are proven. For vectors and filters they may be far apart, and each is
    printed with how it was found. For example: `chaffinch privacy bits --users 1000 --flip 0.03
    --delta 1e-6 --curve`

    Parameters
    ----------
    mechanism
        bits (flipped), decoys (clear among decoys), values (flipped one-hot), vectors (flipped,
        seen whole), numbers (in flipped bits), filters (flipped Bloom filters, one column
        replaced), audiences (the same, one id more or less: a reach), totals (one party adds up and
        adds noise once, as `chaffinch run` does), signed (clear among signed decoys), responders
        (bits in clear, some users answer at random), sample (counts of a sample, published from a
        threshold on), response (k-ary randomized response: GRR, k-RR), symmetric-unary and
        optimized-unary (one-hot vectors sent whole: SUE, OUE), rappor (both steps), local-hashing
        (OLH), subset-selection, laplace (local noise: each message on a grid, then shuffled), table
        (any randomizer of one message).
    times
        How many times the same people are asked.
    delta
        Find the epsilon at this delta; may be given several times.
    epsilon
        Find the delta at this epsilon; may be given several times.
    curve
        Draw delta against epsilon, with published bounds and claims.
    tradeoff
        Draw the two errors of a test that tries to distinguish two answers.
    plot
        The file for the curve (or the trade-off): .svg, .png or .pdf.
    """
    from chaffinch.charts.curves import mechanism_name, mechanism_terms
    from chaffinch.charts.figure import check_figure_name

    made = _make_mechanism(mechanism, parameters)
    if plot is not None:
        check_figure_name(paths.require_writable(plot))
    found: Mechanism = made if times == 1 else cf.privacy.compose(made, times=times)
    with output.thinking("computing"):
        rows = _rows(found, tuple(delta or ()), tuple(epsilon or ()))
    figures = []
    if curve or (plot is not None and not tradeoff):
        with output.thinking("the curve"):
            figures.append(cf.charts.privacy_curve(found))
    if tradeoff:
        with output.thinking("the trade-off"):
            figures.append(cf.charts.tradeoff(found))
    if plot is not None:
        figures[-1].save(plot)
        output.say(f"wrote {plot}")
    compared = _compared(found, rows)
    unproven = _unproven_of(found)
    if output.json:
        document = _document(found, mechanism_name(found), rows, figures) | compared
        output.document(document if unproven is None else document | {"unproven": unproven})
        return
    output.words(mechanism_name(found))
    output.words("")
    _show_numbers(rows, output)
    output.words("")
    if unproven is not None:
        output.words(unproven)
        output.words("")
    output.words(f"Local epsilon: {upper_text(found.local_epsilon)}. {mechanism_terms(found)}")
    if compared:
        output.words("")
        show_bounds(compared["bounds"], compared["bounds_delta"], output)
    for drawn in figures if curve or tradeoff else []:
        output.words("")
        output.drawing(drawn.text(width=min(output.width, 78), height=18))


def _make_mechanism(name: str, parameters: _Parameters) -> Mechanism:
    kind, needed, allowed = _MECHANISMS[name]
    given = {
        field.name: value
        for field in fields(parameters)
        if (value := getattr(parameters, field.name)) is not None
    }
    known = (*needed, *allowed)
    for option, value in given.items():
        if option not in known:
            takes = ", ".join(map(_option, known))
            raise InvalidInput(
                f"option {_option(option)}",
                f"left out for {name}",
                value,
                hint=f"{name} takes {takes}",
            )
    for option in needed:
        if option not in given:
            raise InvalidInput(
                f"option {_option(option)}", f"given for {name}", Unquoted("nothing")
            )
    arguments: dict[str, Any] = {}
    for option, value in given.items():
        arguments |= _ARGUMENTS[option](value) if option in _ARGUMENTS else {option: value}
    if name == "laplace":
        arguments["steps"] = arguments.pop("values") - 1
    made: Mechanism = attrgetter(kind)(cf.privacy)(**arguments)
    return made


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _compared(found: Mechanism, rows: list[dict[str, Any]]) -> dict[str, Any]:
    from chaffinch.privacy.amplification import ShuffledRandomizer

    delta = next((row["delta"] for row in rows if "delta" in row), None)
    if delta is None or not isinstance(found, ShuffledRandomizer):
        return {}
    return {"bounds_delta": delta, "bounds": bounds_at(found, delta)}


def _rows(
    found: Mechanism, deltas: tuple[float, ...], epsilons: tuple[float, ...]
) -> list[dict[str, Any]]:
    rows = []
    for delta in deltas or (() if epsilons else _DELTAS):
        bracket = found.epsilon(delta)
        row = _row(f"delta {delta:g}", "epsilon", bracket) | {"delta": delta}
        rows.append(
            row | _ends_of_words(found, "epsilon", delta, lower=bracket.lower, upper=bracket.upper)
        )
    for epsilon in epsilons:
        bracket = found.delta(epsilon)
        row = _row(f"epsilon {epsilon:g}", "delta", bracket) | {"epsilon": epsilon}
        rows.append(
            row | _ends_of_words(found, "delta", epsilon, lower=bracket.lower, upper=bracket.upper)
        )
    return rows


def _row(given: str, found: str, bracket: Bracket) -> dict[str, Any]:
    return {"given": given, "found": found, "lower": bracket.lower, "upper": bracket.upper}


def _show_numbers(rows: list[dict[str, Any]], output: Output) -> None:
    if any("lower_is" in row for row in rows):
        output.table(["given", "found", "what", "at least", "at most"], _word_lines(rows), texts=3)
        return
    output.table(
        ["given", "found", "at least", "at most"],
        [
            [row["given"], row["found"], lower_text(row["lower"]), upper_text(row["upper"])]
            for row in rows
        ],
        texts=2,
    )


def _document(
    found: Mechanism, title: str, rows: list[dict[str, Any]], figures: list[Any]
) -> dict[str, Any]:
    return {
        "mechanism": title,
        "method": found.method,
        "neighbours": found.neighbours,
        "view": found.view,
        "crowd": found.crowd_words,
        "local_epsilon": found.local_epsilon,
        "numbers": rows,
        "figures": [
            {
                "title": figure.title,
                "x": figure.x.label,
                "y": figure.y.label,
                "lines": [
                    {
                        "name": line.name,
                        "style": line.style,
                        "x": line.x,
                        "y": line.y,
                        "other_end": line.other_end,
                    }
                    for line in figure.series
                ],
            }
            for figure in figures
        ],
    }


# ----------------------------------------------------------------------------
# Whole words (vectors, columns of filters): ends of different origin.
#
# Of these no search covers all crowds. The lower end is a crowd, the upper end is a proof, and what
# the sources take for the worst pair lies between them: three numbers, not one bracket.


def _ends_of_words(
    found: Mechanism, what: str, given: float, *, lower: float, upper: float
) -> dict[str, Any]:
    """Return what both ends of a number are and the assumed pair's own; nothing for other views.

    ``what`` ("epsilon" or "delta") was asked for at ``given``.
    """
    words = _whole_words(found)
    if words is None:
        return {}
    if words is not found:
        # Of several rounds there is no assumed pair, and the ends are still of different origin.
        return {"lower_is": _FOUND, "upper_is": "its rounds composed"}
    pair = words.assumed_pair()
    bracket = pair.epsilon(given) if what == "epsilon" else pair.delta(given)
    epsilon = upper if what == "epsilon" else given
    return {
        # The pair is a crowd like any other, and was looked at more closely than all of them.
        "lower": min(max(lower, bracket.lower), upper),
        "lower_is": _FOUND,
        "upper_is": words.proof(epsilon),
        "assumed_pair": {"lower": bracket.lower, "upper": bracket.upper, "method": pair.method},
    }


def _unproven_of(found: Mechanism) -> str | None:
    words = _whole_words(found)
    if words is None:
        return None
    return (
        "Unproven: that no crowd is worse than the worst one found. The guarantee is the proven "
        "number, which may be far above the truth: of the others the privacy blanket counts only "
        f"words that are redrawn in all {words.length} bits, on average {words.hidden_words:.3g} "
        f"of {words.records:,}{'' if words is found else ' in a round'}."
    )


def _word_lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    lines = []
    for row in rows:
        proven = f"every crowd, proven ({row['upper_is']})"
        lines += [
            [row["given"], row["found"], row["lower_is"], lower_text(row["lower"]), ""],
            ["", "", proven, "", upper_text(row["upper"])],
        ]
        if "assumed_pair" in row:
            low, high = row["assumed_pair"]["lower"], row["assumed_pair"]["upper"]
            lines.append(["", "", _ASSUMED, lower_text(low), upper_text(high)])
    return lines


def _whole_words(found: Mechanism) -> WordMechanism | None:
    """Return the words that are released, once or in every round."""
    from chaffinch.privacy import Composition
    from chaffinch.privacy.mechanisms.records import WordMechanism

    once = found.parts[0][0] if isinstance(found, Composition) else found
    # One bit a word is a plain sum, of which every crowd is searched.
    return once if isinstance(once, WordMechanism) and once.length > 1 else None
