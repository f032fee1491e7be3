"""From the publishers' filters to a release: estimates, errors, intervals."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

import chaffinch
from chaffinch.analysis import adjust
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import AnyPath
from chaffinch.disk.inputs import files_of
from chaffinch.disk.protected import kind_of
from chaffinch.errors import FilterFull, InvalidInput, PlanMismatch, Unquoted, checks
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.reach.analyzer.group_intervals import by_delta_method, intervals
from chaffinch.reach.analyzer.logos import (
    Logos,
    count_logos,
    not_filters,
    not_shuffled,
    read_columns,
)
from chaffinch.reach.planning.alignment import aligned_filters
from chaffinch.reach.planning.audience import Group, overlaps_left_out, usual_groups
from chaffinch.reach.planning.estimator import Columns
from chaffinch.reach.planning.id_rule import AS_IS
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.reach.release import ReachRelease, ReachRow
from chaffinch.tables.parallel import Progress
from chaffinch.wire.filter_files import Filter, ShuffledColumns, load_columns, load_filter

_ADJUSTMENTS = ("none", "non-negative")
_MOST_GROUPS = 1000
_Source = Filter | ShuffledColumns | AnyPath


class _LogoCounter(Protocol):
    def count_logos(
        self, filters: Sequence[Any], plan: ReachPlan, *, progress: Progress | None = None
    ) -> Logos: ...


def analyze(
    filters: Sequence[_Source] | ShuffledColumns | Logos,
    plan: ReachPlan,
    *,
    groups: Sequence[Group] = (),
    level: float = 0.95,
    adjustment: str = "none",
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    engine: _LogoCounter | None = None,
) -> ReachRelease:
    """Return how many ids are reached: by all, by each, by several, and how often.

    ``filters`` are those of all publishers of the plan, or files of them; under a plan with a
    shuffler, what it has handed over, or the file of that. ``groups`` are asked for besides the
    usual ones. Intervals hold with probability ``level`` or more, for any number of ids: each by
    itself, and, as the second pair, all rows together. That is proven for one publisher and
    measured for several (``reach.analyzer.group_intervals``). ``adjustment`` may move estimates to
    what is possible (``non-negative``), which biases them and is said in the release. With a
    ``ledger`` the release is charged before it is handed out, under the fingerprint of its
    campaign key: other filters with that key are refused. The ``engine`` spark of
    ``chaffinch.engines`` counts files of filters on a cluster.
    """
    checks.choice("adjustment", adjustment, _ADJUSTMENTS)
    share = checks.share("level", level, least=0.5, most=1 - 1e-12)
    require_plan(plan).verify()
    if not (ledger is None or isinstance(ledger, Ledger)):
        raise InvalidInput("ledger", "a Ledger", type(ledger).__name__, hint="use Ledger.open")
    if ledger is not None:
        ledger.of("analyzer")
    asked = _all_groups(plan, groups)
    logos = (
        _check_logos(filters, plan)
        if isinstance(filters, Logos)
        else _count_sources(filters, plan, progress, engine)
    )
    release = _release(logos, plan, asked, level=share, adjustment=adjustment)
    if ledger is not None:
        charge_release(ledger, plan, release)
    return release


def charge_release(ledger: Ledger, plan: ReachPlan, release: ReachRelease) -> Entry:
    """Charge a release durably; only afterwards may it be handed out.

    The same filters again cost nothing; other filters with the same key are refused.
    """
    check_key(ledger, release)
    with ledger.charging(Charge.of(plan), release.key, subject=release.batch) as paid:
        return paid


def check_key(ledger: Ledger, release: ReachRelease) -> None:
    """Refuse a release whose campaign key was charged for other filters."""
    for entry in ledger.of("analyzer").entries():
        if entry.key == release.key and entry.subject != release.batch:
            raise InvalidInput(
                "campaign key",
                "one for each collection",
                Unquoted("the key of other filters that were charged before"),
                hint="collect again with a new key; the same filters again cost nothing",
            )


def _count_sources(
    sources: Sequence[_Source] | ShuffledColumns,
    plan: ReachPlan,
    progress: Progress | None,
    engine: _LogoCounter | None,
) -> Logos:
    if isinstance(sources, ShuffledColumns):
        return read_columns(sources, plan)
    if isinstance(sources, (str, bytes, os.PathLike, Filter)):
        raise InvalidInput("filters", "a list, one for each publisher", type(sources).__name__)
    named = _expand_sources(sources)
    if engine is not None and plan.shuffler is None:
        return engine.count_logos(named, plan, progress=progress)
    opened = [_opened(one, plan) for one in named]
    filters = [one for one in opened if isinstance(one, Filter)]
    columns = [one for one in opened if isinstance(one, ShuffledColumns)]
    if plan.shuffler is None:
        if columns:
            raise not_filters()
        return count_logos(aligned_filters(filters, plan, sources=named), plan, progress=progress)
    if filters:
        raise not_shuffled()
    if len(columns) != 1:
        raise InvalidInput("number of files of shuffled columns", "1", len(columns))
    return read_columns(columns[0], plan)


def _expand_sources(sources: Sequence[_Source]) -> list[_Source]:
    found: list[_Source] = []
    for one in sources:
        if isinstance(one, (str, os.PathLike)):
            found += files_of([one])
        else:
            found.append(one)
    return found


def _opened(source: _Source, plan: ReachPlan) -> Filter | ShuffledColumns:
    if isinstance(source, (Filter, ShuffledColumns)):
        return source
    kind = kind_of(source)
    shuffled = kind is Kind.COLUMNS or (kind is not Kind.FILTER and plan.shuffler is not None)
    return load_columns(source) if shuffled else load_filter(source)


def _check_logos(logos: Logos, plan: ReachPlan) -> Logos:
    if logos.plan_id != plan.id:
        raise PlanMismatch("logo counts", expected=plan.id, found=logos.plan_id)
    counts = np.asarray(logos.counts)
    if counts.shape != (2**plan.audience.rows,) or counts.min() < 0 or counts.sum() != plan.bits:
        raise InvalidInput("logo counts", f"one for each logo, {plan.bits} in all", counts.shape)
    return logos


def _all_groups(plan: ReachPlan, groups: Sequence[Group]) -> list[tuple[Group, str]]:
    for group in groups:
        if not isinstance(group, Group):
            raise InvalidInput("group", "a Group", type(group).__name__)
        group.members(plan.audience)
    usual = [(group, _kind(group, plan)) for group in usual_groups(plan.audience)]
    known = {group.name for group, _ in usual}
    more = {group.name: group for group in groups if group.name not in known}
    checks.whole("number of groups", len(usual) + len(more), most=_MOST_GROUPS)
    return usual + [(group, "asked") for group in more.values()]


def _kind(group: Group, plan: ReachPlan) -> str:
    if group.times > 1:
        return "frequency"
    if group.none_of:
        return "only"
    if group.all_of:
        return "overlap"
    return "reach" if len(group.any_of) == len(plan.audience.publishers) else "publisher"


def _release(
    logos: Logos,
    plan: ReachPlan,
    groups: list[tuple[Group, str]],
    *,
    level: float,
    adjustment: str,
) -> ReachRelease:
    audience = plan.audience
    flip = float(plan.all_flips)
    columns = Columns(audience, plan.bits, plan.hashes, flip, logos.counts / plan.bits)
    for group, _ in groups:
        if not columns.countable(group):
            raise FilterFull(f"filters of {group.name}")
    found = [columns.estimate(group) for group, _ in groups]
    errors = np.array([error for _, error in found])
    plain = np.array([estimate for estimate, _ in found])
    shown, said = plain, []
    if adjustment == "non-negative":
        shown, words = adjust.non_negative(plain)
        said = [words]
    # All rows together: the chance to miss is shared out among them (Bonferroni), half each way.
    tails = ((1 - level) / 2, (1 - level) / (2 * len(groups)))
    rows = [
        ReachRow(
            group.name,
            kind,
            float(estimate),
            float(error),
            *chain(*intervals(columns, logos.counts, group, tails)),
        )
        for (group, kind), estimate, error in zip(groups, shown, errors, strict=True)
    ]
    named = [(group, row) for (group, _), row in zip(groups, rows, strict=True)]
    return ReachRelease(
        plan_id=plan.id,
        title=plan.title,
        guarantee=plan.guarantee,
        colluding_epsilon=plan.colluding_epsilon,
        shuffler_guarantee=plan.shuffler_guarantee,
        key=logos.key,
        batch=logos.digest[:32],
        publishers=audience.publishers,
        frequencies=audience.frequencies,
        bits=plan.bits,
        hashes=plan.hashes,
        flip=flip,
        level=level,
        version=chaffinch.__version__,
        rows=tuple(rows),
        notes=(*_reach_notes(plan, named), *said),
    )


# ----------------------------------------------------------------------------
# What a reader of a reach must know besides the numbers, and what may have gone wrong.

_FAR = 2.0
"""A list of less than half, or more than twice, its planned size is probably another one."""
_MOST_NAMED = 5
_NEARLY_ALL = 0.8
"""Where less than this is surely shared, intervals are too wide to say that lists are alike."""


def _reach_notes(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> list[str]:
    return [
        *_far_from_planned(plan, rows),
        *_shared_too_little(plan, rows),
        *_all_shared(rows),
        *_negative(rows),
        *_for_large_counts(plan, rows),
        *_left_out(plan),
    ]


def _far_from_planned(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    for group, row in rows:
        if row.kind == "asked" or len(group.any_of) != 1 or group.all_of or group.times > 1:
            continue
        expected = plan.sizes[plan.audience.place(group.any_of[0])]
        if row.high < expected / _FAR or row.low > expected * _FAR:
            found = f"about {max(row.estimate, 0):,.0f}"
            yield (
                f"Warning: {row.group} has {found} ids, and the plan expected {expected:,}. Is it "
                "the right list? The predicted error is for lists as long as planned."
            )


def _shared_too_little(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    """Yield one warning for all pairs of publishers whose common ids noise alone could make."""
    pairs = [row for group, row in rows if row.kind == "overlap" and len(group.all_of) == 2]
    lost = [row for row in pairs if row.low <= 0]
    if not lost:
        return
    named = [f"{row.group} (at most {math.ceil(row.high):,})" for row in lost[:_MOST_NAMED]]
    more = f", and {len(lost) - _MOST_NAMED} more pairs" if len(lost) > _MOST_NAMED else ""
    asked = (
        "The plan takes ids as they are, so Ann@example.org and ann@example.org are two: a rule "
        "for ids in the plan would make them one."
        if plan.ids == AS_IS
        else f"The plan's rule is {plan.ids.words}: did both use this plan and this kind of id?"
    )
    yield (
        "Warning: no shared ids can be told from noise here: "
        f"{', '.join(named)}{more}. If you expected some: do these publishers spell an id in the "
        f"same way? {asked}"
    )


def _all_shared(rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    """Yield one warning for all pairs of publishers whose lists may be one and the same."""
    own = {group.any_of: row for group, row in rows if row.kind == "publisher"}
    alike = []
    for group, both in rows:
        if both.kind == "overlap" and len(group.all_of) == 2:
            each = [own[name,] for name in group.all_of]
            largest = max(one.high for one in each)
            if both.high >= max(one.low for one in each) and both.low >= _NEARLY_ALL * largest:
                alike.append(both.group)
    if alike:
        more = f", and {len(alike) - _MOST_NAMED} more pairs" if len(alike) > _MOST_NAMED else ""
        yield (
            f"Warning: these lists cannot be told from one list: {', '.join(alike[:_MOST_NAMED])}"
            f"{more}. Was one file encoded for several publishers?"
        )


def _negative(rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    below = [row.group for _, row in rows if row.estimate < 0]
    if below:
        named = "; ".join(below[:_MOST_NAMED]) + ("; …" if len(below) > _MOST_NAMED else "")
        yield (
            f"An estimate below 0 ({named}) means few ids or none: the noise was larger than "
            "the true count. Its interval begins at 0, and ends at one standard error or later."
        )


def _for_large_counts(plan: ReachPlan, rows: Sequence[tuple[Group, ReachRow]]) -> Iterator[str]:
    normal = [row.group for group, row in rows if by_delta_method(plan.audience, group)]
    if normal:
        named = "; ".join(normal[:_MOST_NAMED]) + ("; …" if len(normal) > _MOST_NAMED else "")
        yield (
            f"Intervals of groups of so many publishers ({named}) are by the delta method, for "
            "large counts: with few ids they miss the truth more often than stated."
        )


def _left_out(plan: ReachPlan) -> Iterator[str]:
    left = overlaps_left_out(plan.audience)
    if left:
        yield f"{left} overlaps of two publishers are not shown; ask for those you need."
