"""Bounds on the privacy of filters, the flips that a promise needs, and published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import count_of, promise_text
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.privacy import FlippedAudiences
    from chaffinch.privacy.guarantee import Method
    from chaffinch.reach.planning.comparison import ComparedFigure
    from chaffinch.reach.planning.reach_plan import ReachPlan


@Parameter(name="*")
@dataclass(frozen=True)
class _FilterOptions:
    filters: int | None = None
    """How many filters there are: publishers times frequencies."""
    bits: int | None = None
    """The number of bits of a filter."""
    flip: str | None = None
    """The chance that a bit is flipped."""
    hashes: int = 1
    """The number of bits that an id sets."""

    def mechanism(self) -> cf.privacy.FlippedAudiences:
        if self.filters is None or self.bits is None or self.flip is None:
            raise InvalidInput(
                "filters",
                "given by --plan, or by --filters, --bits and --flip",
                Unquoted("neither"),
            )
        return cf.privacy.FlippedAudiences(
            filters=self.filters, bits=self.bits, hashes=self.hashes, flip_probability=self.flip
        )


def compare(
    *,
    plan: Path | None = None,
    filters: _FilterOptions = _FilterOptions(),  # noqa: B008 - frozen
    delta: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    input_ones: int = 0,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Compare the proven guarantee with assumed, sampled and published figures.

    Only figures marked as a guarantee are one. A plan protects one id. The technical details of
    buffling (2020) count one column, which is less than an id that sets several columns.

    Parameters
    ----------
    plan
        A plan file.
    delta
        The delta at which all are compared [default: that of the plan].
    samples
        How many samples the Monte Carlo figure may take [default: as many as it needs, if a million
        are enough: for a delta of 1e-5 or more].
    seed
        Makes the samples repeatable.
    input_ones
        How many bits of one filter are set before the flips, for buffling's figure of one filter.
    """
    if plan is not None and filters != _FilterOptions():
        raise InvalidInput("filters", "given by --plan or by numbers", Unquoted("both"))
    found = None if plan is None else paths.open_reach_plan(plan)
    mechanism = filters.mechanism() if found is None else found.mechanism
    level = found.delta if delta is None and found is not None else delta
    if level is None:
        raise InvalidInput("delta", "given", Unquoted("none"), hint="add --delta")
    from chaffinch.reach.planning.comparison import compare as compared

    with output.thinking("comparing") as tell:
        tell("one id")
        ids = _ids(mechanism, found, level)
        tell("one column")
        columns = compared(
            mechanism.columns, level, samples=samples, seed=seed, input_ones=input_ones
        )
    if output.json:
        document = {"delta": level, "one_id": ids, "one_column": [c.document() for c in columns]}
        output.document(document)
        return
    output.words(
        f"{count_of(mechanism.filters, 'filter')} of {mechanism.bits:,} bits, "
        f"{float(mechanism.flip_probability):.4g} of them flipped, "
        f"{count_of(mechanism.hashes, 'column')} for each id; delta {level:g}."
    )
    output.words("")
    output.words("One id, more or less (what a plan promises)")
    _table(
        [[one["name"], one["value"], one["method"], _yes(one["guarantee"])] for one in ids], output
    )
    output.words("")
    output.words("One column, replaced (what buffling counts)")
    _table([[_name_of(one), one.value, one.method, _yes(one.guarantee)] for one in columns], output)
    output.words("")
    for one in columns:
        output.words(f"{one.name}: {one.note}")


def _ids(mechanism: FlippedAudiences, plan: ReachPlan | None, delta: float) -> list[dict[str, Any]]:
    def row(name: str, epsilon: float, method: str, *, guarantee: bool) -> dict[str, Any]:
        shown = promise_text(epsilon, 4)
        return {
            "name": name,
            "epsilon": epsilon,
            "value": shown,
            "method": method,
            "guarantee": guarantee,
        }

    proven = mechanism.epsilon(delta).upper
    rows = [row("proven bound", proven, mechanism.method, guarantee=True)]
    local = mechanism.local_epsilon if plan is None else plan.own_mechanism.local_epsilon
    if plan is not None and plan.shuffler is not None:
        alone = plan.own_mechanism.epsilon(delta).upper
        rows.append(row("to the shuffler", alone, mechanism.method, guarantee=True))
    rows.append(row("to whoever has the key", local, "exact", guarantee=True))
    if plan is not None and len(plan.sizes) > 1:
        left = plan.colluding_epsilon
        rows.append(row("if a publisher colludes", left, "exact", guarantee=True))
    assumed = mechanism.assumed_epsilon(delta)
    return [*rows, row("buffling's pair, per id", assumed, "worst-pair-assumed", guarantee=False)]


def _table(rows: Sequence[Sequence[str]], output: Output) -> None:
    output.table(["figure", "epsilon", "method", "guarantee"], rows)


def _name_of(one: ComparedFigure) -> str:
    return one.name if one.quantity == "epsilon" else f"{one.name} ({one.quantity})"


def _yes(value: object) -> str:
    return "yes" if value else "no"


# ----------------------------------------------------------------------------
# The smallest flip probability that keeps a promise, for filters given by their numbers.


def flips(
    *,
    epsilon: float,
    delta: float,
    filters: int,
    bits: int,
    hashes: int = 1,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Find the smallest flip probability that meets epsilon and delta.

    It is found for one id, which a plan protects, and for one column, which the technical details
    of buffling (2020) count; only proven ones are a guarantee. For example: `chaffinch reach flips
    --epsilon 1 --delta 1e-9 --filters 3 --bits 10000`

    Parameters
    ----------
    epsilon
        The epsilon to promise.
    delta
        The delta to promise.
    filters
        How many filters there are: publishers times frequencies.
    bits
        The number of bits of a filter.
    hashes
        The number of bits that an id sets.
    """
    with output.thinking("searching") as tell:
        tell("one id")
        rows = _found(epsilon=epsilon, delta=delta, filters=filters, bits=bits, hashes=hashes)
    if output.json:
        output.document({"epsilon": epsilon, "delta": delta, "flips": rows})
        return
    output.words(
        f"{count_of(filters, 'filter')} of {bits:,} bits, {count_of(hashes, 'column')} for each "
        f"id; epsilon {epsilon:g}, delta {delta:g}."
    )
    output.words("")
    output.table(
        ["of", "flip probability", "method", "guarantee"],
        [
            [
                row["of"],
                promise_text(float(Fraction(row["flip_probability"])), 6),
                row["method"],
                "yes" if row["guarantee"] else "no",
            ]
            for row in rows
        ],
    )


def _found(
    *, epsilon: float, delta: float, filters: int, bits: int, hashes: int
) -> list[dict[str, Any]]:
    from chaffinch.privacy.mechanisms.filters import audience_flip_probability, flip_probability_for

    of_id = audience_flip_probability(
        epsilon=epsilon, delta=delta, filters=filters, bits=bits, hashes=hashes
    )
    proven, assumed = (
        flip_probability_for(
            epsilon=epsilon, delta=delta, filters=filters, bits=bits, method=method
        )
        for method in ("proven", "assumed")
    )
    return [
        _row("one id", of_id, "upper-bound"),
        _row("one column", proven, "upper-bound"),
        _row("one column, buffling's pair", assumed, "worst-pair-assumed"),
    ]


def _row(of: str, flip: Fraction, method: Method) -> dict[str, Any]:
    from chaffinch.privacy.guarantee import PROVEN
    from chaffinch.wire.document_forms import exact_text

    exact, promised = exact_text(flip), method in PROVEN
    return {"of": of, "flip_probability": exact, "method": method, "guarantee": promised}


# ----------------------------------------------------------------------------
# Three published observations on signal to noise, drawn anew.


def figures(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Redraw published observations on signal to noise, and show whether each is true.

    All other figures: `chaffinch figures all`.

    Parameters
    ----------
    out
        The folder for the figures (SVG) and the page that shows them all.
    """
    from chaffinch.charts.gallery.signal_to_noise import write_figures

    with paths.fill_folder(out) as folder, output.thinking("drawing"):
        names = [path.name for path in write_figures(folder)]
    files = [str(out / name) for name in names]
    if output.json:
        output.document({"files": files})
        return
    for file in files:
        output.drawing(file)
