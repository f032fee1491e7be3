"""Exact parameters of every protocol beside those of published formulas."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.randomizers import bounds_at, read_table, show_bounds
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.planning.published_parameters import ParameterLine
    from chaffinch.privacy.amplification import ShuffledRandomizer

_Randomizer = Literal[
    "response",
    "symmetric-unary",
    "optimized-unary",
    "local-hashing",
    "subset-selection",
    "laplace",
]
_NARROW = 80
"""Below so many columns the label is left out."""
_LABEL = 2


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
    """Compare exact parameters with published formulas, or several bounds of one randomizer.

    Exact parameters are proven for every crowd of that size. Published ones are claims: some ask
    for too much noise, and some do not hold. For comparison the command shows the noise that a
    trusted centre would add, and how many people it would need for the same error. With
    --local-epsilon (k-ary randomized response, or another --randomizer) or --table (any randomizer)
    it shows the epsilon after shuffling: exact, blanket, clones, closed forms, variation ratio.

    Parameters
    ----------
    users
        The honest users that the guarantee counts on.
    delta
        The delta to promise.
    epsilon
        The epsilon to promise.
    local_epsilon
        Compare bounds of a randomizer among --values, with this local epsilon.
    randomizer
        The randomizer: k-ary response (also GRR or k-RR; the default), symmetric or optimized unary
        encoding (SUE, OUE), local hashing (OLH), subset selection, or Laplace noise on a grid of
        --values points.
    table
        Compare bounds of the randomizer in a CSV or JSON file: a row of chances for each input.
    values
        How many values there are to choose from.
    plot
        The file for a figure of the bounds: .svg, .png or .pdf.
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
    from chaffinch.charts.curves import mechanism_name
    from chaffinch.charts.figure import check_figure_name
    from chaffinch.privacy.amplification import ShuffledTable

    if plot is not None:
        check_figure_name(paths.require_writable(plot))
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
    from chaffinch.planning.published_parameters import compare_parameters

    with output.thinking("calibrating") as tell:
        lines = compare_parameters(users, values, cf.Target(epsilon, delta), tell)
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


def _cells_of(line: ParameterLine, *, first: bool) -> list[str]:
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
