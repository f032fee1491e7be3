"""Choose how many bits, how many hashes and how many flips make the reach most exact.

More columns hide one column better, so fewer flips are needed, but every column brings noise;
more hashes count every id several times over, but expose it in more columns. The search runs on
a Gaussian guess of the flips that a guarantee needs. The guess steers and is never promised:
the chosen way is calibrated with the proven bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from chaffinch import checks
from chaffinch.errors import InvalidInput, NoParameterFound, NoPlanFound
from chaffinch.privacy import Target
from chaffinch.privacy.audiences import audience_flip_probability, share_of, weight
from chaffinch.reach import predict
from chaffinch.reach.audience import Audience
from chaffinch.reach.plans import LEAST_BITS, MOST_BITS, MOST_IDS, Option, ReachPlan

HASHES = (1, 2, 3, 4, 6, 8, 12, 16)
MAX_BITS = 2**27
"""By default a row of a filter has at most 16 MiB."""
CLOSE = 1.05
"""Within this factor of the least error the smallest filter is taken."""
MOST_ERROR = 0.25
"""A reach that is off by more than this share of itself is no answer."""
_LARGEST_LOAD, _SMALLEST_LOAD = 6.0, 1e-4
_STEP = math.sqrt(2.0)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Task:
    audience: Audience
    sizes: tuple[int, ...]
    target: Target


def plan(
    audience: Audience,
    *,
    sizes: Mapping[str, int] | Sequence[int],
    target: Target,
    bits: int | None = None,
    hashes: int | None = None,
    max_bits: int = MAX_BITS,
    title: str = "",
    progress: Progress | None = None,
) -> ReachPlan:
    """Return the plan with the most exact reach of all publishers that meets the target.

    ``sizes`` are the expected audiences; they decide the size of the filters and the error
    that is foretold, never the guarantee. ``bits`` or ``hashes`` fix what is otherwise chosen;
    ``max_bits`` is the largest filter that anybody wants to send.

    >>> two = Audience(["daily", "radio"])
    >>> found = plan(two, sizes=[200_000, 50_000], target=Target(epsilon=1, delta=1e-8))
    >>> found.verify()
    >>> found.standard_error < 1_000
    True
    """
    given: object = audience
    if not isinstance(given, Audience):
        raise InvalidInput("audience", "an Audience", given)
    wish: object = target
    if not isinstance(wish, Target):
        raise InvalidInput("target", "a Target(epsilon=…, delta=…)", wish)
    task = _Task(audience, checked_sizes(audience, sizes), target)
    tell = progress or (lambda _words: None)
    tell("weighing sizes of filters")
    options = weighed(task, bits, hashes, max_bits)
    chosen = _chosen(options)
    tell("calibrating the flips")
    try:
        flip = audience_flip_probability(
            epsilon=target.epsilon,
            delta=target.delta,
            filters=audience.rows,
            bits=chosen.bits,
            hashes=chosen.hashes,
        )
    except NoParameterFound as fault:
        raise NoPlanFound(fault.message, hint=fault.hint) from None
    found = ReachPlan(
        title=title,
        audience=audience,
        sizes=task.sizes,
        bits=chosen.bits,
        hashes=chosen.hashes,
        flip_probability=flip,
        epsilon=target.epsilon,
        delta=target.delta,
    )
    _useful(found)
    true = replace(chosen, flip=float(flip), standard_error=found.standard_error)
    return replace(found, options=tuple(true if one is chosen else one for one in options))


def checked_sizes(audience: Audience, sizes: Mapping[str, int] | Sequence[int]) -> tuple[int, ...]:
    """Return the expected sizes in the order of the publishers."""
    if isinstance(sizes, Mapping):
        unknown = set(sizes) ^ set(audience.publishers)
        if unknown:
            raise InvalidInput("sizes", "one for each publisher", sorted(map(str, unknown)))
        sizes = [sizes[name] for name in audience.publishers]
    if isinstance(sizes, (str, bytes)) or len(sizes) != len(audience.publishers):
        raise InvalidInput("sizes", f"one for each of {len(audience.publishers)} publishers", sizes)
    return tuple(
        checks.whole("expected size of an audience", size, least=1, most=MOST_IDS) for size in sizes
    )


def weighed(task: _Task, bits: int | None, hashes: int | None, max_bits: int) -> tuple[Option, ...]:
    """Return, for each number of hashes, the size of filter that suits it."""
    checks.whole("largest number of bits", max_bits, least=LEAST_BITS, most=MOST_BITS)
    if bits is not None:
        checks.whole("number of bits", bits, least=LEAST_BITS, most=MOST_BITS)
    if hashes is not None:
        checks.whole("number of hashes", hashes, least=1, most=64)
    counts = HASHES if hashes is None else (hashes,)
    total = sum(task.sizes)
    options: list[Option] = []
    for count in counts:
        places = [bits] if bits is not None else _places(count * total, max_bits)
        tried = [_option(task, place, count) for place in places]
        least = min(one.standard_error for one in tried)
        options.append(next(one for one in tried if one.standard_error <= CLOSE * least))
    return tuple(options)


def _places(balls: int, most: int) -> list[int]:
    """Return sizes of filters, each √2 times the one before, that hold so many balls."""
    first = math.log(max(min(balls / _LARGEST_LOAD, most), LEAST_BITS), _STEP)
    last = math.log(max(min(balls / _SMALLEST_LOAD, most), LEAST_BITS), _STEP)
    powers = np.arange(math.floor(first), math.ceil(last) + 1)
    return sorted({min(max(64 * round(_STEP**power / 64), LEAST_BITS), most) for power in powers})


def _option(task: _Task, bits: int, hashes: int) -> Option:
    flip = guessed_flip(task.target, task.audience.rows, bits, hashes)
    error = predict.apart(task.sizes, bits=bits, hashes=hashes, flip=flip)
    limit = predict.without_noise(task.sizes, bits=bits, hashes=hashes)
    return Option(hashes, bits, flip, error, limit)


def _chosen(options: Sequence[Option]) -> Option:
    least = min(one.standard_error for one in options)
    close = [one for one in options if one.standard_error <= CLOSE * least]
    return min(close, key=lambda one: (one.bits, one.hashes)) if close else options[0]


def guessed_flip(target: Target, rows: int, bits: int, hashes: int) -> float:
    """Return about the flip probability that the proven bound will ask for.

    The blanket hides one column among bits·(2q)^R uniform ones: a Gaussian shift of
    μ² = 2·((p² + q²)^R − (2pq)^R) / (bits·q^R).
    """
    step = share_of(target.epsilon, hashes)
    room = target.delta / weight(step, hashes)
    shift = _shift(step, max(room, 1e-280))

    def excess(logit: float) -> float:
        flip = 0.5 * special.expit(logit)
        right = 1.0 - flip
        top = 2.0 * ((right**2 + flip**2) ** rows - (2 * right * flip) ** rows)
        logarithm = math.log(max(top, 1e-300)) - math.log(bits) - rows * math.log(flip)
        return logarithm - 2.0 * math.log(shift)

    if excess(-30.0) <= 0:
        return 0.5 * float(special.expit(-30.0))
    if excess(30.0) >= 0:
        return 0.5 * float(special.expit(30.0))
    return 0.5 * float(special.expit(optimize.brentq(excess, -30.0, 30.0)))


def _shift(epsilon: float, delta: float) -> float:
    """Return the Gaussian shift μ whose hockey-stick at ``epsilon`` is ``delta``."""

    def excess(logarithm: float) -> float:
        shift = math.exp(logarithm)
        first = special.log_ndtr(-epsilon / shift + shift / 2)
        second = epsilon + special.log_ndtr(-epsilon / shift - shift / 2)
        if second >= first:
            return -math.inf
        return float(first + math.log(-math.expm1(second - first)) - math.log(delta))

    low, high = -25.0, 5.0
    while excess(low) > 0:
        low -= 5.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return math.exp(low)


def _useful(found: ReachPlan) -> None:
    total = sum(found.sizes)
    if found.standard_error <= MOST_ERROR * total:
        return
    share = found.standard_error / total
    raise NoPlanFound(
        f"The error of the reach must be at most {MOST_ERROR:.0%} of it. "
        + (f"Got {share:.3g} times the reach" if math.isfinite(share) else "Got no limit")
        + f" with {found.audience.rows} rows at epsilon {found.epsilon:g}.",
        hint="larger audiences, a larger epsilon, fewer publishers or fewer frequencies",
    )
