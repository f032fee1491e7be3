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
from fractions import Fraction

from scipy import optimize, special

from chaffinch.errors import InvalidInput, NoParameterFound, NoPlanFound, Unquoted, checks
from chaffinch.planning.choosing import refuse_useless
from chaffinch.privacy import Target
from chaffinch.privacy.mechanisms.filters import (
    audience_flip_probability,
    column_epsilon,
    group_weight,
)
from chaffinch.privacy.numerics.roots import bisect_real
from chaffinch.reach.planning import estimator
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.id_rule import AS_IS, IdRule, id_rule
from chaffinch.reach.planning.reach_explanation import reach_warnings
from chaffinch.reach.planning.reach_parties import (
    MOST_DELTA,
    MOST_EPSILON,
    Shuffler,
    both_flips,
    local_flip,
)
from chaffinch.reach.planning.reach_plan import MOST_IDS, Option, ReachPlan, check_bits
from chaffinch.wire.filter_files import LEAST_BITS

_HASHES = (1, 2, 3, 4, 6, 8, 12, 16)
MAX_BITS = 2**27
"""By default a row of a filter has at most 16 MiB."""
CLOSE = 1.05
"""An error within this factor of the least is as good."""
_TRIES = 3
"""Guesses err where epsilon is large: so many ways are calibrated until one is good."""
ENOUGH = 0.001
CHOICE = (
    f"Chosen are the fewest hashes whose error is within {CLOSE - 1:.0%} of the least, or at most "
    f"{ENOUGH:.1%} of the reach"
)
"""How an option is chosen."""
"""So is one of at most this share of the reach: nobody asks for more."""
_LEAST_DELTA = 1e-290
"""A group of columns shares delta between them, and the accounting ends at 1e-300."""
_MOST_ERROR = 0.25
"""A reach that is off by more than this share of itself is no answer."""
_LARGEST_LOAD, _SMALLEST_LOAD = 6.0, 1e-4


@dataclass(frozen=True)
class _OwnWish:
    """What publishers' own flips are to keep from a shuffler."""

    target: Target
    """Without the key."""
    local_epsilon: float | None
    """With the key, which a publisher told it; None if that may be anything."""


@dataclass(frozen=True)
class _Task:
    audience: Audience
    sizes: tuple[int, ...]
    target: Target
    own: _OwnWish | None
    """None where no shuffler flips again."""


@dataclass(frozen=True)
class _Flips:
    own: Fraction
    shuffled: Fraction | None

    @property
    def both(self) -> float:
        return float(self.own if self.shuffled is None else both_flips(self.own, self.shuffled))

    def shuffler(self, wish: _OwnWish | None) -> Shuffler | None:
        if wish is None or self.shuffled is None:
            return None
        return Shuffler(self.shuffled, wish.target.epsilon, wish.target.delta)


def plan(  # noqa: PLR0913
    audience: Audience,
    *,
    sizes: Mapping[str, int] | Sequence[int],
    target: Target,
    bits: int | None = None,
    hashes: int | None = None,
    max_bits: int = MAX_BITS,
    ids: IdRule | str = AS_IS,
    shuffled: bool = False,
    shuffler_target: Target | None = None,
    local_epsilon: float | None = None,
    anyway: bool = False,
    title: str = "",
    progress: Callable[[str], None] | None = None,
) -> ReachPlan:
    """Return the plan with the most exact reach of all publishers that meets the target.

    ``sizes`` are the expected audiences; they decide the size of the filters and the error
    that is foretold, never the guarantee. ``bits`` or ``hashes`` fix what is otherwise chosen;
    ``max_bits`` is the largest filter that anybody wants to send. ``ids`` is the rule by which
    every publisher spells its ids: ``"as-is"``, ``"lower-case"``, ``"e-mail"``, ``"phone"`` or an
    ``IdRule``. A promise that protects nobody is refused unless it is wanted ``anyway``.

    With ``shuffled`` a shuffler stands between publishers and analyzer, and the target holds
    against the analyzer together with publishers. What publishers flip themselves then protects
    from the shuffler: by ``shuffler_target`` as long as it has no key (the target again, if it is
    not given), and by a ``local_epsilon`` at most, if one is given, where a publisher helps it.

    >>> two = Audience(["daily", "radio"])
    >>> found = plan(two, sizes=[200_000, 50_000], target=Target(epsilon=1, delta=1e-8))
    >>> found.verify()
    >>> found.standard_error < 1_000
    True
    """
    _check_question(audience, target)
    own = _own_wish(target, shuffler_target, local_epsilon, shuffled=shuffled)
    task = _Task(audience, _ordered_sizes(audience, sizes), target, own)
    rule = id_rule(ids)
    weak = reach_warnings(target.epsilon, target.delta)
    refuse_useless(weak, anyway=anyway, wish="for a smaller epsilon or delta")
    tell = progress or (lambda _words: None)
    tell("weighing sizes of filters")
    options = _weigh_options(task, bits, hashes, max_bits)
    good = _good_enough_error(options, sum(task.sizes))
    hopeful = [one for one in options if one.standard_error <= good][:_TRIES]
    # Far beyond use by a guess that errs on the hopeful side: not worth a calibration.
    _useful(task, hopeful[0], 2 * _MOST_ERROR)
    guess, true, flips = _best_option(task, hopeful, good, tell)
    _useful(task, true, _MOST_ERROR)
    _refuse_full_filters(task, true)
    return ReachPlan(
        title=title,
        audience=audience,
        sizes=task.sizes,
        bits=true.bits,
        hashes=true.hashes,
        flip_probability=flips.own,
        epsilon=target.epsilon,
        delta=target.delta,
        ids=rule,
        shuffler=flips.shuffler(task.own),
        options=tuple(true if one is guess else one for one in options),
    )


def _check_question(audience: object, target: object) -> None:
    if not isinstance(audience, Audience):
        raise InvalidInput("audience", "an Audience", audience)
    if not isinstance(target, Target):
        raise InvalidInput("target", "a Target(epsilon=…, delta=…)", target)
    reach_target(target.epsilon, target.delta)


def reach_target(epsilon: float, delta: float) -> Target:
    """Return a promise that filters can keep."""
    return Target(
        checks.real("epsilon", epsilon, least=1e-9, most=MOST_EPSILON),
        checks.real("delta", delta, least=_LEAST_DELTA, most=MOST_DELTA),
    )


def _best_option(
    task: _Task, hopeful: Sequence[Option], good: float, tell: Callable[[str], None]
) -> tuple[Option, Option, _Flips]:
    """Return the guessed option that has the least error once it is calibrated.

    With it come the calibrated option and its flips.
    """
    calibrated: list[tuple[Option, Option, _Flips]] = []
    for option in hopeful:
        tell("calibrating the flips")
        flips = _calibrated(task, option)
        error = estimator.apart(task.sizes, bits=option.bits, hashes=option.hashes, flip=flips.both)
        made = replace(option, flip=flips.both, own=float(flips.own), standard_error=error)
        calibrated.append((option, made, flips))
        if error <= good:
            # A calibration takes far longer than all guesses together, so none follows.
            break
    return min(calibrated, key=lambda one: one[1].standard_error)


def _own_wish(
    target: Target, wanted: Target | None, local_epsilon: float | None, *, shuffled: bool
) -> _OwnWish | None:
    if not shuffled:
        if wanted is not None or local_epsilon is not None:
            raise InvalidInput(
                "promise against the shuffler",
                "asked of a plan with a shuffler",
                Unquoted("one without"),
                hint="plan with --shuffled (shuffled=True)",
            )
        return None
    wish: object = wanted
    if not (wish is None or isinstance(wish, Target)):
        raise InvalidInput("target of the shuffler", "a Target(epsilon=…, delta=…)", wish)
    if local_epsilon is not None:
        checks.real("local epsilon", local_epsilon, least=0.01, most=MOST_EPSILON)
    if wanted is None:
        return _OwnWish(target, local_epsilon)
    checks.real("epsilon against the shuffler", wanted.epsilon, least=1e-9, most=MOST_EPSILON)
    checks.real("delta against the shuffler", wanted.delta, least=_LEAST_DELTA, most=MOST_DELTA)
    return _OwnWish(wanted, local_epsilon)


def _calibrated(task: _Task, option: Option) -> _Flips:
    first = _proven_flip(task, option, task.target)
    wish = task.own
    if wish is None:
        return _Flips(first, None)
    own = first if wish.target == task.target else _proven_flip(task, option, wish.target)
    if wish.local_epsilon is not None:
        own = max(own, local_flip(task.audience, option.hashes, wish.local_epsilon))
    return _Flips(own, first)


def _proven_flip(task: _Task, option: Option, target: Target) -> Fraction:
    try:
        return audience_flip_probability(
            epsilon=target.epsilon,
            delta=target.delta,
            filters=task.audience.rows,
            bits=option.bits,
            hashes=option.hashes,
        )
    except NoParameterFound as fault:
        raise NoPlanFound(fault.message, hint=fault.hint) from None


def _ordered_sizes(audience: Audience, sizes: Mapping[str, int] | Sequence[int]) -> tuple[int, ...]:
    if isinstance(sizes, Mapping):
        unknown = set(sizes) ^ set(audience.publishers)
        if unknown:
            raise InvalidInput("sizes", "one for each publisher", sorted(map(str, unknown)))
        sizes = [sizes[name] for name in audience.publishers]
    given: object = sizes
    listed = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    if not listed or len(sizes) != len(audience.publishers):
        raise InvalidInput("sizes", f"one for each of {len(audience.publishers)} publishers", sizes)
    return tuple(
        checks.people("expected size of an audience", size, most=MOST_IDS) for size in sizes
    )


def _weigh_options(
    task: _Task, bits: int | None, hashes: int | None, max_bits: int
) -> tuple[Option, ...]:
    check_bits("largest number of bits", max_bits)
    if bits is not None:
        check_bits("number of bits", bits)
    if hashes is not None:
        checks.whole("number of hashes", hashes, least=1, most=64)
    counts = _HASHES if hashes is None else (hashes,)
    total = sum(task.sizes)
    options: list[Option] = []
    for count in counts:
        places = [bits] if bits is not None else _filter_sizes(count * total, max_bits)
        tried = [_option(task, place, count) for place in places]
        least = min(one.standard_error for one in tried)
        options.append(next(one for one in tried if one.standard_error <= CLOSE * least))
    return tuple(options)


def _filter_sizes(balls: int, most: int) -> list[int]:
    first = math.log2(max(min(balls / _LARGEST_LOAD, most), LEAST_BITS))
    last = math.log2(max(min(balls / _SMALLEST_LOAD, most), LEAST_BITS))
    return [min(2**power, most) for power in range(math.floor(first), math.ceil(last) + 1)]


def _option(task: _Task, bits: int, hashes: int) -> Option:
    flips = _guessed_flips(task, bits, hashes)
    error = estimator.apart(task.sizes, bits=bits, hashes=hashes, flip=flips.both)
    limit = estimator.without_noise(task.sizes, bits=bits, hashes=hashes)
    return Option(hashes, bits, flips.both, error, limit, float(flips.own))


def _guessed_flips(task: _Task, bits: int, hashes: int) -> _Flips:
    def guessed(target: Target) -> Fraction:
        return Fraction(_guessed_flip(target, task.audience.rows, bits, hashes))

    first, wish = guessed(task.target), task.own
    if wish is None:
        return _Flips(first, None)
    own = guessed(wish.target)
    if wish.local_epsilon is not None:
        own = max(own, local_flip(task.audience, hashes, wish.local_epsilon))
    return _Flips(own, first)


def _good_enough_error(options: Sequence[Option], total: int) -> float:
    # Of all options within this error the one with the fewest hashes is taken: it leaves most
    # protection if a publisher colludes.
    return max(CLOSE * min(one.standard_error for one in options), ENOUGH * total)


def _guessed_flip(target: Target, rows: int, bits: int, hashes: int) -> float:
    step = column_epsilon(target.epsilon, hashes)
    room = max(target.delta / group_weight(step, hashes), 1e-280)
    if rows == 1:
        # One row is accounted without a blanket.
        return _guessed_flip_of_one_row(step, room, bits)
    shift = _gaussian_shift(step, room)

    # The blanket hides one column among bits·(2q)^R uniform ones: a Gaussian shift of
    # μ² = 2·((p² + q²)^R − (2pq)^R) / (bits·q^R). The guess is within 3 % of the proven flips where
    # epsilon / hashes is at most 1/2. The larger that is, the more skewed is the true law: at 3 it
    # asks for up to 1.8 times as many flips.
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


def _guessed_flip_of_one_row(epsilon: float, delta: float, bits: int) -> float:
    # The flips hide one bit about as well as a Poisson number X of the same variance hides whether
    # it is X + 1. That variance is λ = bits·pq/(p − q)².
    def excess(logarithm: float) -> float:
        mean, factor = math.exp(logarithm), math.exp(epsilon)
        # P[X = k]/P[X + 1 = k] = λ/k is at least e^ε up to k = λ/e^ε, and below e^−ε from λ·e^ε on.
        low, high = math.floor(mean / factor), math.floor(mean * factor)
        below = special.pdtr(low, mean) - factor * (special.pdtr(low - 1, mean) if low else 0.0)
        above = special.pdtrc(high - 1, mean) - factor * special.pdtrc(high, mean)
        return max(float(below), float(above)) - delta

    found = bisect_real(lambda x: excess(x) <= 0, good=60.0, bad=-5.0, steps=80)
    mean = math.exp(found)
    # Solved for q: (p − q)² = bits/(bits + 4λ) =: r, and q = (1 − √r)/2 without cancellation.
    rest = bits / (bits + 4.0 * mean)
    return (1.0 - rest) / (2.0 * (1.0 + math.sqrt(rest)))


def _gaussian_shift(epsilon: float, delta: float) -> float:
    # δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), in logarithms, because delta itself underflows.
    def excess(logarithm: float) -> float:
        shift = math.exp(logarithm)
        first = special.log_ndtr(-epsilon / shift + shift / 2)
        second = epsilon + special.log_ndtr(-epsilon / shift - shift / 2)
        if second >= first:
            return -math.inf
        return float(first + math.log(-math.expm1(second - first)) - math.log(delta))

    low = -25.0
    while excess(low) > 0:
        low -= 5.0
    return math.exp(bisect_real(lambda x: excess(x) <= 0, good=low, bad=5.0, steps=80))


def _refuse_full_filters(task: _Task, option: Option) -> None:
    columns = estimator.expected(
        task.audience,
        estimator.disjoint(task.audience, task.sizes),
        bits=option.bits,
        hashes=option.hashes,
        flip=option.flip,
    )
    if not columns.countable(Group(any_of=task.audience.publishers)):
        raise NoPlanFound(
            f"The filters must leave enough columns empty to count by. Got {option.bits:,} bits "
            f"for {sum(task.sizes):,} ids.",
            hint="more bits",
        )


def _useful(task: _Task, option: Option, most: float) -> None:
    total = sum(task.sizes)
    share = option.standard_error / total
    if share <= most:
        return
    rows = task.audience.rows
    raise NoPlanFound(
        f"The standard error of the reach must be at most {_MOST_ERROR:.0%} of it. "
        + (f"Got {share:.0%}" if share < 100 else "Got more than can be counted by")
        + f", with {option.bits:,} bits for {rows} rows at epsilon {task.target.epsilon:g}.",
        hint="more bits, or smaller audiences"
        if option.limit > _MOST_ERROR * total
        else "larger audiences, a larger epsilon, fewer publishers or fewer frequencies",
    )
