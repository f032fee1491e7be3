"""Filters that belong together under a plan, in its order: one from each publisher, and no other.

Whatever would make the sum of the filters a number without meaning is refused here: another
plan, key or size, a publisher that is missing or there twice. What the rows hold is not looked
at: a shuffler who refused rows for what they hold would tell of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from chaffinch.errors import InvalidInput, PlanMismatch, Unquoted
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.wire.filter_files import Filter, FilterFacts

_WORDS = 1 << 16
"""Words of each row that are counted at once: half a mebibyte, and four million columns."""
_AnyFilter = TypeVar("_AnyFilter", Filter, FilterFacts)
_ENCODE = "encode again with the plan and the key that all publishers share"


def aligned_filters(
    filters: Sequence[_AnyFilter], plan: ReachPlan, *, sources: Sequence[object] = ()
) -> list[_AnyFilter]:
    """Return the filters in the order of the plan's publishers, if they belong together.

    ``sources`` are what they were read from, for those who look for one that is there twice.
    """
    given: Sequence[object] = filters
    if not all(isinstance(one, (Filter, FilterFacts)) for one in given):
        raise InvalidInput("filters", "a list of Filter", type(filters).__name__)
    for one in filters:
        if one.plan_id != plan.id:
            thing = f"filter of {one.publisher!r}"
            raise PlanMismatch(thing, expected=plan.id, found=one.plan_id)
    _refuse_missing_filters(filters, plan, sources)
    by_name = {one.publisher: one for one in filters}
    ordered = [by_name[name] for name in plan.audience.publishers]
    first = ordered[0]
    for one in ordered:
        if one.key != first.key:
            raise InvalidInput(
                "filters",
                "made with one campaign key",
                Unquoted(f"another key at {one.publisher!r} than at {first.publisher!r}"),
                hint=_ENCODE,
            )
        _same(one, "bits", one.bits, plan.bits)
        _same(one, "rows", one.frequencies, plan.audience.frequencies)
    return ordered


def _refuse_missing_filters(
    filters: Sequence[Filter | FilterFacts], plan: ReachPlan, sources: Sequence[object]
) -> None:
    names = [one.publisher for one in filters]
    if not names:
        raise InvalidInput("number of filters", f"{len(plan.audience.publishers)}", 0)
    for name in names:
        plan.audience.place(name)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        paths = [
            Path(source).name
            for one, source in zip(filters, sources, strict=False)
            if one.publisher == name and isinstance(source, (str, Path))
        ]
        files = f": {', '.join(paths)}" if paths else ""
        got = Unquoted(f"{times} of {name!r}{files}")
        raise InvalidInput("filters", "one for each publisher", got)
    batch, times = Counter(one.batch for one in filters).most_common(1)[0]
    if times > 1:
        both = [one.publisher for one in filters if one.batch == batch]
        raise InvalidInput("filters", "all different", Unquoted(f"the same batch from {both}"))
    absent = [name for name in plan.audience.publishers if name not in names]
    if absent:
        raise InvalidInput(
            "filters",
            "one for each publisher",
            Unquoted(f"none of {', '.join(map(repr, absent))}"),
            hint="wait for the missing ones, or plan again without them",
        )


def _same(one: Filter | FilterFacts, what: str, found: int, expected: int) -> None:
    if found != expected:
        thing = f"number of {what} of the filter of {one.publisher!r}"
        raise InvalidInput(thing, f"{expected}, as in the plan", found, hint=_ENCODE)


def column_chunks(bits: int) -> Iterator[tuple[int, int]]:
    """Yield where a chunk of columns starts, and how many it has."""
    for start in range(0, bits, 64 * _WORDS):
        yield start, min(64 * _WORDS, bits - start)


def word_range(bits: int, place: int, count: int) -> slice:
    """Return which words of a row are in one of so many ranges that are nearly alike.

    >>> [word_range(1 << 10, place, 3) for place in range(3)]
    [slice(0, 5, None), slice(5, 10, None), slice(10, 16, None)]
    """
    start, end = (bits // 64 * one // count for one in (place, place + 1))
    return slice(start, end)
