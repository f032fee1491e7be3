"""Record a scene once, end it after every call, and look what becomes of it.

``python -m tests.services.faults.sweep FOLDER SCENE KILLS CUTS SEED [PLANT]`` with the recorder of
``calls.py`` loaded. Prints how many ends there were and what went wrong.
"""

from __future__ import annotations

import gc
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from chaffinch.protocols import intervals
from chaffinch.reach.analyzer import group_intervals, reach_analysis
from chaffinch.reach.analyzer.group_intervals import Ends
from chaffinch.reach.planning.audience import Group
from chaffinch.reach.planning.estimator import Columns
from tests.services.faults import plants
from tests.services.faults.calls import Call, read_calls, recorded
from tests.services.faults.disk import Disk, Image, image_of, write_image
from tests.services.faults.first_start import FirstStart
from tests.services.faults.reach import ReachScene
from tests.services.faults.scenes import End, Scene, SurveyScene

_TWICE = 5
"""One in so many ends is followed by a second one, while the parties are coming back."""
_PASSES = 32
"""In which a planted fault is looked for."""
SCENES: dict[str, Callable[[Path], Scene]] = {
    "one hop": lambda root: SurveyScene.make(root, hops=1),
    "two hops": lambda root: SurveyScene.make(root, hops=2),
    "rounds and rotation": lambda root: SurveyScene.make(root, hops=2, rounds=2),
    "reach": ReachScene.make,
    "first start": FirstStart.make,
}


def ends_of(
    disk: Disk, calls: Iterable[Call], wanted: Callable[[int, Disk], Iterable[tuple[str, Image]]]
) -> Iterator[tuple[str, End]]:
    """Yield what is left before each call that changes something, and after the last one."""
    known: dict[str, set[str]] = {"sent": set(), "told": set(), "receipt": set()}
    for place, call in enumerate([*calls, Call("end", 0, 0, b"", b"")]):
        if call.what == "n":
            word, _, name = call.first.decode().partition(" ")
            known[word].add(name)
            continue
        for kind, image in wanted(place, disk):
            yield kind, End(image, frozenset(known["sent"]), frozenset(known["told"]))
        if call.what != "end":
            disk.do(call)


class Sweep:
    """Plays a scene once below a folder, and ends it again and again."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._root = folder, folder / "world"
        self._scene = SCENES[name](self._root)
        self._before = Disk(self._root)
        with recorded(folder / "log", self._root):
            self._scene.play(self._root)
        self.calls = read_calls(folder / "log")
        self.failed: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def check_record(self) -> None:
        """Check that nothing has happened on the disk that was not written down."""
        disk = deepcopy(self._before)
        for call in self.calls:
            disk.do(call)
        assert disk.after_kill() == image_of(self._root)

    def run(
        self, kills: int, cuts: int, seed: int, *, most_failures: int = 20, passes: int = 1
    ) -> None:
        """End the scene so many times by a kill and by a cut, evenly spread.

        In several passes, all of which go through the whole scene: what goes wrong at its end alone
        is found in the first one, and not after everything before it.
        """
        drawn = random.Random(seed)
        places = [place for place, call in enumerate(self.calls) if call.what != "n"]
        changing = [place for place in places if self.calls[place].what != "s"]
        # Most is at risk when something was just told, or took its name: so all commits end.
        told = [one for one in places if self.calls[one - 1].what == "n"]
        after = [*places[1:], len(self.calls)]
        named = [
            then for one, then in zip(places, after, strict=True) if self.calls[one].what in "url"
        ]
        changing.append(len(self.calls))
        killed = {*_spread(named, min(kills // 2, len(named)), drawn)}
        others = [one for one in changing if one not in killed]
        killed.update(_spread(others, min(kills - len(killed), len(others)), drawn))
        cut = _spread([*places, len(self.calls)], cuts - cuts // 3, drawn)
        cut += _spread(told, cuts // 3, drawn)
        ends = [*((place, "kill") for place in killed), *((place, "cut") for place in cut)]
        ends.sort()
        for first in range(passes):
            for kind, end in self._ends(Counter(ends[first::passes]), drawn):
                self.done[kind] += 1
                try:
                    self._live(end, drawn)
                except Exception as fault:  # noqa: BLE001 - nothing may go wrong
                    self.failed[f"{kind}: {type(fault).__name__}: {fault}"] += 1
                    if self.failed.total() >= most_failures:
                        return

    def _ends(
        self, chosen: Counter[tuple[int, str]], drawn: random.Random
    ) -> Iterator[tuple[str, End]]:
        """Yield what is left at these places, in their order."""

        def wanted(place: int, disk: Disk) -> Iterator[tuple[str, Image]]:
            for _ in range(chosen[place, "kill"]):
                yield "kill", disk.after_kill()
            for _ in range(chosen[place, "cut"]):
                yield "cut", disk.after_cut(drawn.getrandbits(32))

        return ends_of(deepcopy(self._before), self.calls, wanted)

    def _live(self, end: End, drawn: random.Random) -> None:
        root = self._folder / "again"
        write_image(end.image, root)
        try:
            if drawn.randrange(_TWICE):
                self._scene.come_back(end, root)
            else:
                self._live_twice(end, root, drawn)
        finally:
            shutil.rmtree(root)

    def _live_twice(self, end: End, root: Path, drawn: random.Random) -> None:
        """End once more while everything comes back."""
        before, log = Disk(root), self._folder / "again-log"
        with recorded(log, root):
            self._scene.come_back(end, root)
        calls = read_calls(log)
        chosen = drawn.randrange(len(calls))

        def wanted(place: int, disk: Disk) -> Iterator[tuple[str, Image]]:
            if place == chosen:
                kind = drawn.choice(["kill", "cut"])
                yield kind, disk.after_kill() if kind == "kill" else disk.after_cut(chosen)

        for _, second in ends_of(before, calls, wanted):
            shutil.rmtree(root)
            write_image(second.image, root)
            both = End(second.image, end.sent, end.told | second.told)
            self._scene.come_back(both, root, life=2)


def _spread(places: list[int], many: int, drawn: random.Random) -> list[int]:
    """Return so many places, evenly spread; some more than once if there are not so many."""
    start = drawn.random()
    return [places[int((one + start) * len(places) / many)] for one in range(many)]


def work_out_once() -> None:
    """Let the ends of intervals be worked out once: every life has the same few tallies."""
    real = intervals._lower_ends  # noqa: SLF001
    known: dict[object, Any] = {}

    def lower_ends(noise: Any, tallies: Any, reports: int, tail: float) -> Any:
        asked = (repr(noise), tallies.tobytes(), reports, tail)
        if asked not in known:
            known[asked] = real(noise, tallies, reports, tail)
        return known[asked]

    intervals._lower_ends = lower_ends  # noqa: SLF001


def take_normal_ends() -> None:
    """Let a reach have the intervals of the delta method, which take next to no time.

    The flips of each life are its own, so there is nothing to work out once; and exact ends, which
    would be two thirds of all the time, say nothing of what is lost or counted twice.
    """

    def normal(columns: Columns, _: object, group: Group, tails: Sequence[float]) -> list[Ends]:
        estimate, error = columns.estimate(group)
        return [group_intervals._normal(estimate, error, tail) for tail in tails]  # noqa: SLF001

    assert vars(reach_analysis)["intervals"] is group_intervals.intervals
    vars(reach_analysis)["intervals"] = normal


def main(words: list[str]) -> None:
    folder, name, kills, cuts, seed, *planted = words
    work_out_once()
    take_normal_ends()
    for plant in planted:
        (plants.PLANTS | plants.REACH_PLANTS)[plant]()
    sweep = Sweep(Path(folder), name)
    if not planted:
        sweep.check_record()
    gc.collect()
    gc.freeze()  # Nobody need look through all modules again and again.
    once = {"most_failures": 1, "passes": _PASSES} if planted else {}
    sweep.run(int(kills), int(cuts), int(seed), **once)
    found = {"calls": len(sweep.calls), "done": sweep.done, "failed": sweep.failed}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
