"""The smallest flip probability that keeps a promise, for filters given by their numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from chaffinch.charts.rounding import promise_text
from chaffinch.cli.output import Output, count_of

if TYPE_CHECKING:
    from chaffinch.privacy.guarantee import Method


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

    For one id, as a plan promises it, and for one column, as the technical details of buffling
    (2020) count; only what is proven is a guarantee. For example:
    `chaffinch reach flips --epsilon 1 --delta 1e-9 --filters 3 --bits 10000`

    Parameters
    ----------
    epsilon
        The epsilon to promise.
    delta
        The delta to promise.
    filters
        How many filters there are: publishers times frequencies.
    bits
        How many bits each has.
    hashes
        How many bits an id sets.
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
    """Return the flip probabilities, each with what it protects and how it was found."""
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
    from chaffinch.wire.documents import exact_text

    exact, promised = exact_text(flip), method in PROVEN
    return {"of": of, "flip_probability": exact, "method": method, "guarantee": promised}
