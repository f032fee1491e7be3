"""What happens to the parties of a survey, and what must hold whenever and however it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from chaffinch.keys import KeyFolder
from tests.services.faults.calls import note
from tests.services.faults.disk import Image
from tests.services.faults.world import Upload, World, sealed_uploads
from tests.services.oracle import Collection

OTHER_LEVEL = 0.9
"""Of the analyzer that comes after the end: it would make other releases of the same batches."""
_CROWD = 4
_NUMBERS = 64
_FIRST_FILLER = 16


class End(NamedTuple):
    """What is left when everything ends at once, and what was known to the world then."""

    image: Image
    sent: frozenset[str]
    """What a sender has tried to send."""
    told: frozenset[str]
    """What was acknowledged, and the ids of batches that have left a party."""


class Scene(Protocol):
    """Something that happens once, and can end anywhere."""

    def play(self, root: Path) -> None:
        """Let things happen in a folder that was prepared."""

    def come_back(self, end: End, root: Path, *, life: int = 1) -> None:
        """Start everything on what is left, send again what nobody was told of, and look."""


@dataclass
class SurveyScene:
    """A collection and what happens to it."""

    collection: Collection
    uploads: dict[str, Upload] = field(default_factory=dict)
    fillers: list[Upload] = field(default_factory=list)
    """Numbers that are sent after the end, so that nothing waits for its crowd."""

    @classmethod
    def make(cls, root: Path, *, hops: int, rounds: int = 1) -> SurveyScene:
        collection = World.prepare(root, crowd=_CROWD, numbers=_NUMBERS, hops=hops, rounds=rounds)
        scene = cls(collection)
        scene.fillers = scene.fill(_FIRST_FILLER)
        return scene

    def fill(self, first: int) -> list[Upload]:
        """Return enough for a crowd in every round, for the keys that are in use now."""
        rounds = range(1, self.collection.plan.rounds + 1)
        shapes = [
            (f"filler {first}", number, range(first, first + _CROWD))
            for first, number in zip(range(first, _NUMBERS, _CROWD), rounds, strict=False)
        ]
        return sealed_uploads(self.collection, shapes)

    def send(self, world: World, *shapes: tuple[str, int, list[int]]) -> None:
        """Send what nobody has sent before."""
        uploads = sealed_uploads(self.collection, shapes)
        for upload in uploads:
            self.uploads[upload.name] = upload
            note(f"sent {upload.name}")
        assert world.send(*uploads) == [201] * len(uploads)

    def play(self, root: Path) -> None:
        """Let things happen: copies at once and later, lost messages, too few for a crowd."""
        rounds = self.collection.plan.rounds
        with World(root, self.collection.plan) as world:
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

    def _opened_in(self, root: Path) -> SurveyScene:
        """Return the same in another folder."""
        hops = [KeyFolder.open(root / keys.path.name) for keys in self.collection.hops]
        analyzer = KeyFolder.open(root / self.collection.analyzer.path.name)
        there = Collection(self.collection.plan, tuple(hops), analyzer)
        return SurveyScene(there, self.uploads, self.fillers)

    def come_back(self, end: End, root: Path, *, life: int = 1) -> None:
        """Start everything on what is left, send again what nobody was told of, and look."""
        with World(root, self.collection.plan, OTHER_LEVEL) as world:
            # What the first of two lives has paid for has the level of that one.
            paid = {entry.subject for entry in world.ledger.entries()} if life == 1 else set()
            again = [self.uploads[name] for name in sorted(end.sent - end.told)]
            here = self._opened_in(root)
            world.send(*again, *self.fillers, *here.fill(_FIRST_FILLER + 8 * life))
            world.seal()
            world.work()
            known = end.told | world.acknowledged
            self._check(world, known, paid)
            if len(end.image) % 3 == 0:
                world.send(
                    *(self.uploads[name] for name in sorted(end.sent)),
                    *here.fill(_FIRST_FILLER + 16 + 8 * life),
                )
                world.seal()
                world.work()
                self._check(world, known, paid)

    def _check(self, world: World, known: frozenset[str], paid: set[str]) -> None:
        """Hold what has come out against what was told: the oracle."""
        found = world.histogram()
        twice = sorted(number for number, times in found.items() if times > 1)
        assert not twice, f"counted twice: {twice}"
        told = {
            number
            for name, upload in self.uploads.items()
            if name in known
            for number in upload.numbers
        }
        lost = sorted(told - found.keys())
        assert not lost, f"acknowledged and lost: {lost}"
        early = [number for number in found if number < _FIRST_FILLER and number not in told]
        assert not early, f"never sent: {early}"
        world.check_law(paid)
