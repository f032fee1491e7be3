"""Sealing: a report becomes one envelope for the first hop, of the one length of its plan.

Each message is sealed on its own to the analyzer, then to every later hop, the last one first.
Each layer says for which keys the layers inside of it are sealed (``wire.sealed_reports``).
Where a part of the plan has fixed slots, an empty one holds a dummy that is sealed like a
message: the number of items, and the work, are the same for every answer. Where the number of
messages follows the noise, there are no dummies, and the rest is padding.

Items stand in a random order. Nobody can read them before the analyzer, but a hop that passes
on the first item of a report only would otherwise know that it passes on the lowest code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from multiprocessing import get_context

from chaffinch.errors import InvalidInput, PlanMismatch, Unquoted
from chaffinch.plans.plan import Plan, require_plan
from chaffinch.sampling import Words, permutation, secure_words
from chaffinch.tables.parallel import cores
from chaffinch.wire.envelopes import NAME, X25519, Binding, SealingKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY, Report
from chaffinch.wire.sealed_reports import Layout, pack_code, route_of

_CHUNK = 64
"""Reports that a process seals before it hands them back."""


def seal_report(report: Report, plan: Plan, key_lists: Sequence[KeyList]) -> bytes:
    """Return a report as it travels to the first hop.

    ``key_lists`` are those of all parties: the hops in their order, then the analyzer.
    """
    return Sealer.of(plan, key_lists).seal(report, secure_words())


def seal_many(
    reports: Iterable[Report],
    plan: Plan,
    key_lists: Sequence[KeyList],
    *,
    workers: int | None = None,
) -> Iterator[bytes]:
    """Yield many sealed reports, in their order, worked out by several processes.

    A few chunks are taken ahead; memory does not grow with their number.
    """
    sealer, source = Sealer.of(plan, key_lists), iter(reports)
    number = cores() if workers is None else workers
    chunks = iter(lambda: tuple(islice(source, _CHUNK)), ())
    if number == 1:
        for chunk in chunks:
            yield from sealer.seal_all(chunk)
        return
    # Fresh processes: a copy of this one would have its random words, and locks of its threads.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(sealer.seal_all, chunk) for chunk in islice(chunks, number + 2)]
        while waiting:
            yield from waiting.pop(0).result()
            waiting += [pool.submit(sealer.seal_all, chunk) for chunk in islice(chunks, 1)]


@dataclass(frozen=True)
class Sealer:
    """What a device needs to seal reports of one plan: lengths, keys, and what has dummies."""

    layout: Layout
    keys: tuple[SealingKey, ...]
    """The key of each hop, then that of the analyzer."""
    fixed_slots: int
    """How many slots belong to parts that fill all of theirs."""
    fixed_codes: tuple[range, ...]
    """The codes of those parts."""

    @classmethod
    def of(cls, plan: Plan, key_lists: Sequence[KeyList]) -> Sealer:
        """Return the sealer of a plan; refuse keys of other plans, parties too few or too many."""
        layout = require_plan(plan).layout
        if len(key_lists) != layout.hops + 1:
            raise InvalidInput(
                "key lists", f"{layout.hops + 1}: of every hop, then the analyzer", len(key_lists)
            )
        for found in key_lists:
            if found.plan_id != plan.id:
                raise PlanMismatch("key list", expected=plan.id, found=found.plan_id)
        keys = tuple(found.keys[0] for found in key_lists)
        for key, kem in zip(keys, (layout.outer_kem, *[X25519] * layout.hops), strict=True):
            if key.kem != kem:
                raise InvalidInput(
                    "key to seal for",
                    f"one of the KEM {kem:#06x}, as the plan says",
                    Unquoted(f"{key.kem:#06x}"),
                    hint="the party must make a key of that kind: `chaffinch keys create`",
                )
        parts = zip(plan.parts, plan.offsets, strict=True)
        fixed = [(part, at) for part, at in parts if not part.varies]
        return cls(
            layout,
            keys,
            plan.fixed_slots,
            tuple(range(at, at + part.codes) for part, at in fixed),
        )

    def seal_all(self, reports: Iterable[Report]) -> list[bytes]:
        """Return sealed reports, in their order."""
        words = secure_words()
        return [self.seal(report, words) for report in reports]

    def seal(self, report: Report, words: Words) -> bytes:
        """Return a sealed report; ``words`` give the order of its items."""
        return self.wrap(self.payload(report, words), report.origin.round)

    def wrap(self, payload: bytes, number: int) -> bytes:
        """Return a payload in an envelope for the first hop; ``number`` is that of the round."""
        return self.keys[0].seal(payload, self.layout.binding(1, number))

    def payload(self, report: Report, words: Words) -> bytes:
        """Return what is in the outer envelope: items that are sealed for all behind it."""
        layout, number = self.layout, report.origin.round
        if report.origin.plan_id != layout.plan_id:
            raise PlanMismatch("report", expected=layout.plan_id, found=report.origin.plan_id)
        codes = self.with_dummies(report)
        layers = self._layers(number)
        # A random order: by its place an item would tell which slot it comes from.
        items = [_item(codes[place], layers) for place in permutation(words, len(codes))]
        return layout.pack(self._route, items)

    def with_dummies(self, report: Report) -> list[int]:
        """Return the codes of a report and a dummy for every fixed slot that is empty."""
        sent = [code for code in report.codes if code != EMPTY]
        fixed = sum(any(code in codes for codes in self.fixed_codes) for code in sent)
        if fixed > self.fixed_slots:
            raise InvalidInput(
                "report", f"one of {self.fixed_slots} fixed slots", Unquoted("another")
            )
        return sent + [EMPTY] * (self.fixed_slots - fixed)

    @cached_property
    def _route(self) -> bytes:
        return route_of(self.keys[1:])

    def _layers(self, number: int) -> list[tuple[SealingKey, Binding]]:
        """Return what an item is sealed with, that of the analyzer first."""
        return [
            (self.keys[hop - 1], self.layout.binding(hop, number, self._route[(hop - 1) * NAME :]))
            for hop in range(self.layout.hops + 1, 1, -1)
        ]


def _item(code: int, layers: Sequence[tuple[SealingKey, Binding]]) -> bytes:
    """Return a message as it leaves the first hop."""
    item = pack_code(code)
    for key, binding in layers:
        item = key.seal(item, binding)
    return item
