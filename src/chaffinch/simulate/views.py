"""What each party sees of one collection of made-up people: devices, shuffler, analyzer, reader.

It is one collection, and everything shown is of it: the messages of the people who are shown are
among those that the analyzer counts, and the release is made of these counts. Nothing is sealed;
lengths and numbers of envelopes are those that the plan's layout gives to sealed reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.analyze import analyze
from chaffinch.analysis.tally import tally
from chaffinch.cards import card, listing
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_prepared
from chaffinch.errors import InvalidInput, checks
from chaffinch.plans.expansion import (
    GAP_SHARE,
    counts_gaps,
    square_shares,
    tells_answered,
    tells_squares,
)
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.protocols.base import settle_levels, unit_text
from chaffinch.protocols.noise import Truth
from chaffinch.questions import MISSING, Flags, Number, Question
from chaffinch.release.surveys import Release
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate.populations import (
    Population,
    column_numbers,
    count_people,
    draw_tallies,
    gaps_of,
)
from chaffinch.simulate.seeded import SeededWords, branch, chosen, generator
from chaffinch.wire.batches import Counts, new_name
from chaffinch.wire.messages import EMPTY, Origin, Report, Reports, Tally
from chaffinch.wire.sealed_reports import Layout

MOST_ENCODED = 100_000
"""Of more people tallies are drawn from their law: it is the same, and takes no time."""
_MOST_MESSAGES = 5_000_000
_MOST_SHOWN = 1000
_FIRST = 24
"""So many messages are shown in the order in which the analyzer gets them."""
_PEOPLE = ("Ada", "Ben", "Cleo", "Dev", "Eva", "Finn", "Gia", "Hugo", "Ines", "Jan", "Kira", "Liam")


@dataclass(frozen=True, slots=True)
class Device:
    """One report of one person, as the person's own device knows it."""

    person: str
    answers: dict[str, str]
    """What the person holds, by question."""
    messages: tuple[str, ...]
    """What the report says, in the order of the codes: its own order is random."""
    empty: int
    """Messages that say nothing, so that every report has as many."""


@dataclass(frozen=True, slots=True)
class Sender:
    """One report as the first shuffler sees it: from whom, and how many sealed messages."""

    person: str
    envelopes: int


@dataclass(frozen=True, slots=True)
class ShufflerView:
    """What the first shuffler sees; those behind it see sealed messages without senders."""

    senders: tuple[Sender, ...]
    """The reports of the people who are shown."""
    reports: int
    envelopes: int
    """Sealed messages of all people, empty ones among them."""
    least: int
    """The fewest sealed messages that a report has."""
    most: int
    """The most: as many as the fewest where the number says nothing at all."""
    report_bytes: int | None
    """The one length of all reports; None where a report is too long to be sealed."""
    envelope_bytes: int | None
    """The length of one sealed message within a report."""

    @property
    def varies(self) -> bool:
        """Return whether people send different numbers of messages; see ``Plan.varying``."""
        return self.least < self.most


@dataclass(frozen=True, slots=True, eq=False)
class AnalyzerView:
    """What the analyzer sees: how often each message was sent, and in which order they came."""

    names: tuple[str, ...]
    counts: Counts
    """How often each message was sent, by its code."""
    empty: int
    """Messages that say nothing, which are thrown away."""
    reports: int
    first: tuple[str, ...]
    """The first messages in the order of the shuffle; none where tallies were drawn."""

    def rows(self) -> Iterator[tuple[str, int]]:
        """Yield each message with how often it was sent."""
        yield from zip(self.names, self.counts.tolist(), strict=True)

    @property
    def messages(self) -> int:
        """Return how many messages say something."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """One collection of made-up people, as each party sees it."""

    plan_id: str
    seed: int
    people: Population
    """What everybody holds: known only because they are made up."""
    drawn: bool
    """Whether only those shown were encoded, and the tallies of all others drawn from their law."""
    devices: tuple[Device, ...]
    shuffler: ShufflerView
    analyzer: AnalyzerView
    release: Release
    """What everybody sees."""
    sees: dict[str, tuple[str, ...]]
    """All that a ``device``, the ``shuffler``, the ``analyzer`` and ``everybody`` see, in words."""

    def _repr_html_(self) -> str:
        lists = (listing(who.capitalize(), told) for who, told in self.sees.items())
        return card("What each party sees", *lists)


def collect(
    plan: Plan, answers: Any, *, shown: int = 9, level: float = 0.95, seed: int | None = None
) -> Collection:
    """Return one collection of made-up people, and what each party sees of it.

    ``answers`` are a ``Population``, or a column or table as ``encode_many`` takes it; where
    people send several reports each, a row is a report. The first ``shown`` people, or some who
    are picked at random from a population, are encoded one by one, as on their devices, and all
    others at once. Above 100,000 reports, or where there would be too many messages, the tallies
    of the others are drawn from their law, which leaves out only what does not fit into a report.

    >>> import chaffinch as cf
    >>> plan = cf.plan(cf.Bit(), users=1000, target=cf.Target(1, 1e-6), protocol="flips")
    >>> seen = collect(plan, cf.simulate.uniform(plan, 1000, seed=1), seed=2)
    >>> seen.devices[0].person, seen.shuffler.senders[0].envelopes, seen.analyzer.names
    ('Ada', 1, ('yes',))
    >>> print(seen.sees["analyzer"][0])
    1,000 messages of 1,000 reports, in a random order
    """
    plan, root = require_devices(plan), chosen(seed)
    many = checks.whole("number of people shown", shown, most=_MOST_SHOWN) * plan.contributions
    made = _made_up(plan, answers, many, root)
    people = made.people.people
    expected = sum(part.expected_messages for part in plan.parts)
    drawn = people > MOST_ENCODED or people * expected > _MOST_MESSAGES
    words = SeededWords(branch(root, "one device"))
    reports = [
        encode_prepared(_alone(plan, made.shown, row), plan, words, 1) for row in range(made.count)
    ]
    found, first = (_draw if drawn else _shuffle)(plan, made, reports, root)
    return Collection(
        plan_id=plan.id,
        seed=root,
        people=made.people,
        drawn=drawn,
        devices=tuple(_device(plan, made.shown, row, one) for row, one in enumerate(reports)),
        shuffler=(shuffler := _shuffler_view(plan, reports, found)),
        analyzer=(analyzer := _analyzer_view(plan, found, first)),
        release=analyze(found, plan, level=level),
        sees=_sees(plan, shuffler, analyzer),
    )


# ----------------------------------------------------------------------------
# Who they are


@dataclass(frozen=True, slots=True, eq=False)
class _MadeUp:
    people: Population
    shown: list[NDArray[Any]]
    """Answers of the people who are shown, for each part."""
    count: int
    rest: list[NDArray[Any]] | None
    """Answers of all others, or None where only their counts are known."""
    truths: list[Truth]
    """The counts of all others; none where there is nobody else."""


def _made_up(plan: Plan, answers: Any, shown: int, seed: int) -> _MadeUp:
    if isinstance(answers, Population):
        answers.fits(plan)
        return _picked(plan, answers, min(shown, answers.people), seed)
    numbers = column_numbers(plan.parts, answers)
    words = SeededWords(branch(seed, "shown people"))
    # A number in a cross is rounded by chance, here as on a device.
    numbers = [
        settle_levels(part.question, told, words)
        for part, told in zip(plan.parts, numbers, strict=True)
    ]
    people = count_people(plan.parts, numbers)
    people.fits(plan)
    count = min(shown, people.people)
    rest = [told[count:] for told in numbers]
    truths = list(count_people(plan.parts, rest).truths) if people.people > count else []
    return _MadeUp(people, [told[:count] for told in numbers], count, rest, truths)


def _picked(plan: Plan, people: Population, count: int, seed: int) -> _MadeUp:
    """Return some people out of a population; of several questions any people will do."""
    shown: dict[int, NDArray[Any]] = {}
    left: dict[int, Truth] = {}
    parts = plan.parts

    def turn(place: int) -> tuple[bool, bool]:
        """Return whose turn comes later: who answered is known before numbers, squares after."""
        return not tells_answered(parts[place]), tells_squares(parts[place])

    for place in sorted(range(len(parts)), key=turn):
        picks, truth = generator(seed, "shown people", place), people.truths[place]
        counts = truth.counts.copy()
        told: NDArray[Any]
        if tells_squares(parts[place]):
            told = square_shares(shown[place - 1 - tells_answered(parts[place - 1])])
            np.subtract.at(counts, np.searchsorted(truth.numbers_apart, told), 1)
        elif truth.shape == "flags":
            told = np.zeros((count, len(counts)), np.uint8)
            for flag, held in enumerate(truth.counts.tolist()):
                told[:, flag] = picks.choice(people.people, count, replace=False) < held
            counts -= told.sum(axis=0, dtype=np.int64)
        elif counts_gaps(parts[place].question):
            # Who has not answered sends the middle, and all others hold what is left of it.
            silent = shown[place + 1] == 0
            gaps = gaps_of(truth.numbers_apart, int(people.truths[place + 1].counts[0]))
            told = np.full(count, GAP_SHARE)
            held = _places(counts - gaps, int((~silent).sum()), picks)
            told[~silent] = truth.numbers_apart[held]
            np.subtract.at(counts, np.searchsorted(truth.numbers_apart, told), 1)
        else:
            held = _places(counts, count, picks)
            told = held if truth.shares is None else truth.shares[held]
            np.subtract.at(counts, held, 1)
        shown[place] = told
        if people.people > count:
            left[place] = Truth(truth.shape, people.people - count, counts, truth.shares)
    listed = [shown[place] for place in range(len(parts))]
    return _MadeUp(people, listed, count, None, [left[place] for place in sorted(left)])


def _places(counts: Counts, some: int, picks: np.random.Generator) -> NDArray[Any]:
    """Return what some people hold, who are drawn from all of these."""
    drawn = picks.choice(int(counts.sum()), some, replace=False)
    return np.searchsorted(np.cumsum(counts), drawn, side="right")


def _alone(plan: Plan, shown: Sequence[NDArray[Any]], row: int) -> list[Any]:
    """Return the answers in one row as a device takes them: of flags those that hold."""
    return [
        np.flatnonzero(told[row]) if part.question.shape == "flags" else told[row]
        for part, told in zip(plan.parts, shown, strict=True)
    ]


# ----------------------------------------------------------------------------
# What becomes of it


def _shuffle(
    plan: Plan, made: _MadeUp, reports: Sequence[Report], seed: int
) -> tuple[Tally, tuple[str, ...]]:
    """Encode everybody else, shuffle all messages and count them."""
    rest = made.rest or [truth.numbers() for truth in made.truths]
    others = made.people.people - made.count
    codes = np.array([one.codes for one in reports], np.uint32).ravel()
    origin, messages = Origin.of(plan, 1), codes[codes != EMPTY]
    joined = Reports(origin, made.count, messages)
    if others:
        batch = encode_numbers(plan, rest, others, SeededWords(branch(seed, "encode")))
        messages = np.concatenate([messages, batch.messages])
        joined = Reports(origin, made.people.people, messages, batch.rows)
    shuffled = shuffle_with(joined, SeededWords(branch(seed, "shuffle")))
    first = tuple(map(plan.message_name, shuffled.messages[:_FIRST].tolist()))
    # Packed rows are counted where they are: of them there is no order to show.
    return tally(shuffled), () if joined.rows else first


def _draw(
    plan: Plan, made: _MadeUp, reports: Sequence[Report], seed: int
) -> tuple[Tally, tuple[str, ...]]:
    """Draw the tallies of everybody else, and add the messages of those who are shown."""
    codes = np.array([one.codes for one in reports], np.int64).ravel()
    counts = np.bincount(codes[codes != EMPTY], minlength=plan.codes)
    for place, (part, first, truth) in enumerate(
        zip(plan.parts, plan.offsets, made.truths, strict=True)
    ):
        draws = generator(seed, "tallies", place)
        counts[first : first + part.codes] += draw_tallies(part, truth, 1, draws)[0]
    return Tally(plan.id, made.people.people, counts, new_name(), 1), ()


# ----------------------------------------------------------------------------
# Who sees what


def _person(plan: Plan, row: int) -> str:
    number = row // plan.contributions
    return _PEOPLE[number] if number < len(_PEOPLE) else f"person {number + 1}"


def _items(plan: Plan, report: Report) -> tuple[list[int], int]:
    """Return the codes of a report, and how many dummies are sealed beside them."""
    sent = [code for code in report.codes if code != EMPTY]
    fixed = sum(
        first <= code < first + part.codes
        for part, first in zip(plan.parts, plan.offsets, strict=True)
        if not part.varies
        for code in sent
    )
    return sent, plan.fixed_slots - fixed


def _device(plan: Plan, shown: Sequence[NDArray[Any]], row: int, report: Report) -> Device:
    sent, empty = _items(plan, report)
    answers = {}
    for place, (part, told) in enumerate(zip(plan.parts, shown, strict=True)):
        if part.answers_to is None:
            answered = plan.parts[place + 1 : place + 2]
            silent = bool(answered and tells_answered(answered[0]) and not shown[place + 1][row])
            answers[part.name] = MISSING if silent else answer_text(part.question, told[row])
    return Device(_person(plan, row), answers, tuple(map(plan.message_name, sent)), empty)


def answer_text(question: Question, told: Any) -> str:
    """Return an answer in words, from the number that an encoder takes.

    >>> from chaffinch.questions import Choice
    >>> answer_text(Number(0, 60, unit="minutes"), 0.25), answer_text(Choice(["a", "b"]), 1)
    ('15 minutes', 'b')
    """
    if isinstance(question, Number):
        value = question.low + float(told) * (question.high - question.low)
        return unit_text(question, f"{value:.6g}")
    if isinstance(question, Flags):
        return ", ".join(np.array(question.labels)[np.asarray(told, bool)]) or "none of them"
    return question.labels[int(told)]


def _shuffler_view(plan: Plan, reports: Sequence[Report], found: Tally) -> ShufflerView:
    try:
        layout = plan.layout if plan.parties else _layout(plan)
    except InvalidInput:
        layout = None
    senders = []
    for row, report in enumerate(reports):
        sent, empty = _items(plan, report)
        senders.append(Sender(_person(plan, row), len(sent) + empty))
    varying = [part for part in plan.parts if part.varies]
    answered = sum(part.protocol.answer_messages(part.question) or 0 for part in varying)
    return ShufflerView(
        senders=tuple(senders),
        reports=found.reports,
        envelopes=int(found.counts.sum()) + _empty(plan, found),
        least=plan.fixed_slots + answered,
        most=plan.slots,
        report_bytes=None if layout is None else layout.report_length,
        envelope_bytes=None if layout is None else layout.item_length(1),
    )


def _layout(plan: Plan) -> Layout:
    """Return the lengths of a plan that names no parties, as one shuffler would see them."""
    return Layout(plan.id, plan.slots, fixed_slots=plan.fixed_slots)


def _empty(plan: Plan, found: Tally) -> int:
    """Return how many dummies all reports hold: fixed slots, less what fills them."""
    filled = sum(
        int(found.counts[first : first + part.codes].sum())
        for part, first in zip(plan.parts, plan.offsets, strict=True)
        if not part.varies
    )
    return found.reports * plan.fixed_slots - filled


def _analyzer_view(plan: Plan, found: Tally, first: tuple[str, ...]) -> AnalyzerView:
    empty = _empty(plan, found)
    return AnalyzerView(plan.message_names, found.counts, empty, found.reports, first)


def _sees(plan: Plan, shuffler: ShufflerView, analyzer: AnalyzerView) -> dict[str, tuple[str, ...]]:
    """Return all that each party sees, in words."""
    reports, messages = f"{shuffler.reports:,} reports", analyzer.messages + analyzer.empty
    whole = "reports that are too long to be sealed: this plan cannot be run by several parties"
    length = ""
    if shuffler.report_bytes and shuffler.envelope_bytes:
        whole = f"reports of {shuffler.report_bytes:,} bytes, all alike, whatever is in them"
        length = f" of {shuffler.envelope_bytes:,} bytes"
    number = f"in every report {shuffler.most:,} sealed messages{length}, empty ones among them"
    if shuffler.varies:
        number = f"in each report {shuffler.least:,} to {shuffler.most:,} sealed messages{length}: "
        number += "how many follows the noise, and never the answer"
    if plan.sizes_tell:
        number += "; together with the opened messages it tells much of the noise"
    return {
        "device": ("its own answer, what it drew, and what it sends", "the plan and its promise"),
        "shuffler": (
            f"who sends each of {reports}, and when",
            whole,
            number,
            f"{shuffler.envelopes:,} sealed messages in all",
            "no message: each is sealed for the analyzer",
        ),
        "analyzer": (
            f"{messages:,} messages of {reports}, in a random order",
            f"{analyzer.empty:,} of them empty, which are thrown away",
            "how often each message was sent",
            "not who sent a message, nor which messages came in one report",
        ),
        "everybody": (
            "the plan and its promise",
            "how many reports there were",
            "the tally and the estimate of each value, with intervals",
        ),
    }
