"""Record a scene once, end it after every call, and look what becomes of it.

``python -m tests.services.faults.sweep FOLDER SCENE KILLS CUTS SEED [PLANT]`` with the recorder of
``calls.py`` loaded. Prints how many ends there were and what went wrong.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from chaffinch.analysis import intervals
from chaffinch.keys import KeyFolder
from tests.services.faults import plants
from tests.services.faults.calls import Call, note, read_calls, recorded
from tests.services.faults.disk import Disk, Image, image_of, write_image
from tests.services.faults.world import LEVEL, Upload, World, sealed_uploads
from tests.services.oracle import Collection

OTHER_LEVEL = 0.9
"""Of the analyzer that comes after the end: it would make other releases of the same batches."""
_CROWD = 4
_FIRST_FILLER = 40
_TWICE = 5
"""One in so many ends is followed by a second one, while the parties are coming back."""


@dataclass
class Scene:
    """A collection and what happens to it."""

    collection: Collection
    uploads: dict[str, Upload] = field(default_factory=dict)
    fillers: list[Upload] = field(default_factory=list)
    """Numbers that are sent after the end, so that nothing waits for its crowd."""

    @classmethod
    def make(cls, root: Path, *, hops: int, rounds: int = 1) -> Scene:
        collection = World.prepare(root, crowd=_CROWD, numbers=100, hops=hops, rounds=rounds)
        scene = cls(collection)
        scene.fillers = scene.fill(_FIRST_FILLER)
        return scene

    def fill(self, first: int) -> list[Upload]:
        """Return enough for a crowd in every round, for the keys that are in use now."""
        rounds = range(1, self.collection.plan.rounds + 1)
        shapes = [
            (f"filler {first}", number, range(first, first + _CROWD))
            for first, number in zip(range(first, 100, _CROWD), rounds, strict=False)
        ]
        return sealed_uploads(self.collection, shapes)

    def send(self, world: World, *shapes: tuple[str, int, list[int]]) -> None:
        """Send what nobody has sent before."""
        uploads = sealed_uploads(self.collection, shapes)
        for upload in uploads:
            self.uploads[upload.name] = upload
            note(f"sent {upload.name}")
        assert world.send(*uploads) == [201] * len(uploads)

    def play(self, world: World) -> None:
        """Let things happen: copies at once and later, lost messages, too few for a crowd."""
        rounds = self.collection.plan.rounds
        self.send(world, ("a", 1, [0, 1, 1]))
        self.send(world, ("b", 1, [2]), ("c", rounds, [3, 4]))
        world.send(self.uploads["a"], *[self.uploads["b"]] * 3)
        world.seal()
        world.work()
        self.send(world, ("d", 1, [5]), ("e", rounds, [6, 7, 8, 9]))
        world.lose("drop-request", "drop-reply", "drop-reply")
        world.seal()
        world.work()
        if rounds > 1:
            self._rotate(world)
        self.send(world, ("f", rounds, [10, 11]), ("g", 1, [12, 13, 14]))
        world.send(self.uploads["e"])
        world.seal()
        world.work()

    def _rotate(self, world: World) -> None:
        for keys in (*self.collection.hops, self.collection.analyzer):
            keys.rotate(at_once=True)
        world.follow_keys()

    def opened_in(self, root: Path) -> Scene:
        """Return the same in another folder."""
        hops = [KeyFolder.open(root / keys.path.name) for keys in self.collection.hops]
        analyzer = KeyFolder.open(root / self.collection.analyzer.path.name)
        there = Collection(self.collection.plan, tuple(hops), analyzer)
        return Scene(there, self.uploads, self.fillers)


class End(NamedTuple):
    """What is left when everything ends at once."""

    image: Image
    sent: frozenset[str]
    acknowledged: frozenset[str]


def ends_of(
    disk: Disk, calls: Iterable[Call], wanted: Callable[[int, Disk], Iterable[tuple[str, Image]]]
) -> Iterator[tuple[str, End]]:
    """Yield what is left before each call that changes something, and after the last one."""
    sent: set[str] = set()
    told: set[str] = set()
    for place, call in enumerate([*calls, Call("end", 0, 0, b"", b"")]):
        if call.what == "n":
            word, _, name = call.first.decode().partition(" ")
            (sent if word == "sent" else told).add(name)
            continue
        for kind, image in wanted(place, disk):
            yield kind, End(image, frozenset(sent), frozenset(told))
        if call.what != "end":
            disk.do(call)


def come_back(scene: Scene, end: End, root: Path, *, life: int = 1) -> None:
    """Start everything on what is left, send again what nobody was told of, and look."""
    with World(root, scene.collection.plan, OTHER_LEVEL) as world:
        # What the first of two lives has paid for has the level of that one.
        paid = {entry.subject for entry in world.ledger.entries()} if life == 1 else set()
        again = [scene.uploads[name] for name in sorted(end.sent - end.acknowledged)]
        here = scene.opened_in(root)
        world.send(*again, *scene.fillers, *here.fill(_FIRST_FILLER + 8 * life))
        world.seal()
        world.work()
        known = set(end.acknowledged) | world.acknowledged
        check(scene, world, known, paid)
        if len(end.image) % 3 == 0:
            world.send(
                *(scene.uploads[name] for name in sorted(end.sent)), *here.fill(72 + 8 * life)
            )
            world.seal()
            world.work()
            check(scene, world, known, paid)


def check(scene: Scene, world: World, known: set[str], paid: set[str]) -> None:
    """Hold what has come out against what was told: the oracle."""
    found = world.histogram()
    twice = sorted(number for number, times in found.items() if times > 1)
    assert not twice, f"counted twice: {twice}"
    told = {
        number
        for name, upload in scene.uploads.items()
        if name in known
        for number in upload.numbers
    }
    lost = sorted(told - found.keys())
    assert not lost, f"acknowledged and lost: {lost}"
    early = [number for number in found if number < _FIRST_FILLER and number not in told]
    assert not early, f"never sent: {early}"
    world.check_law()
    for digest, level in world.levels().items():
        assert level == LEVEL or digest not in paid, "what was paid for is another release now"


# ----------------------------------------------------------------------------
# All ends.

SCENES: dict[str, Callable[[Path], Scene]] = {
    "one hop": lambda root: Scene.make(root, hops=1),
    "two hops": lambda root: Scene.make(root, hops=2),
    "rounds and rotation": lambda root: Scene.make(root, hops=2, rounds=2),
}


class Sweep:
    """Plays a scene once below a folder, and ends it again and again."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._root = folder, folder / "world"
        self._scene = SCENES[name](self._root)
        self._before = Disk(self._root)
        with (
            recorded(folder / "log", self._root),
            World(self._root, self._scene.collection.plan) as world,
        ):
            self._scene.play(world)
        self.calls = read_calls(folder / "log")
        self.failed: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def check_record(self) -> None:
        """Check that nothing has happened on the disk that was not written down."""
        disk = deepcopy(self._before)
        for call in self.calls:
            disk.do(call)
        assert disk.after_kill() == image_of(self._root)

    def run(self, kills: int, cuts: int, seed: int, *, most_failures: int = 20) -> None:
        """End the scene so many times by a kill and by a cut, evenly spread."""
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
        cut = Counter(_spread([*places, len(self.calls)], cuts - cuts // 3, drawn))
        cut.update(_spread(told, cuts // 3, drawn))

        def wanted(place: int, disk: Disk) -> Iterator[tuple[str, Image]]:
            if place in killed:
                yield "kill", disk.after_kill()
            for _ in range(cut[place]):
                yield "cut", disk.after_cut(drawn.getrandbits(32))

        for kind, end in ends_of(deepcopy(self._before), self.calls, wanted):
            self.done[kind] += 1
            try:
                self._live(end, drawn)
            except Exception as fault:  # noqa: BLE001 - nothing may go wrong
                self.failed[f"{kind}: {type(fault).__name__}: {fault}"] += 1
                if self.failed.total() >= most_failures:
                    return

    def _live(self, end: End, drawn: random.Random) -> None:
        root = self._folder / "again"
        write_image(end.image, root)
        try:
            if drawn.randrange(_TWICE):
                come_back(self._scene, end, root)
            else:
                self._live_twice(end, root, drawn)
        finally:
            shutil.rmtree(root)

    def _live_twice(self, end: End, root: Path, drawn: random.Random) -> None:
        """End once more while everything comes back."""
        before, log = Disk(root), self._folder / "again-log"
        with recorded(log, root):
            come_back(self._scene, end, root)
        calls = read_calls(log)
        chosen = drawn.randrange(len(calls))

        def wanted(place: int, disk: Disk) -> Iterator[tuple[str, Image]]:
            if place == chosen:
                kind = drawn.choice(["kill", "cut"])
                yield kind, disk.after_kill() if kind == "kill" else disk.after_cut(chosen)

        for _, second in ends_of(before, calls, wanted):
            shutil.rmtree(root)
            write_image(second.image, root)
            told = frozenset(name for name in second.acknowledged if name in self._scene.uploads)
            both = End(second.image, end.sent, end.acknowledged | told)
            come_back(self._scene, both, root, life=2)


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


def main(words: list[str]) -> None:
    folder, name, kills, cuts, seed, *planted = words
    work_out_once()
    for plant in planted:
        plants.PLANTS[plant]()
    sweep = Sweep(Path(folder), name)
    if not planted:
        sweep.check_record()
    sweep.run(int(kills), int(cuts), int(seed), most_failures=1 if planted else 20)
    found = {"calls": len(sweep.calls), "done": sweep.done, "failed": sweep.failed}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
