"""Stop verbs at each of their steps in turn, and look at the disk every time.

Called as a program, so that forks start from a process without threads. Prints how often each
verb was stopped, and by what.
"""

from __future__ import annotations

import gc
import importlib
import io
import itertools
import json
import os
import pkgutil
import random
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import chaffinch
from chaffinch import Choice, Ledger, Survey, Target, load_plan, plan, reach
from chaffinch.cli import demo as survey_demo
from chaffinch.cli import main
from chaffinch.cli.reach import reach_demo
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Charge
from chaffinch.planning import planner
from chaffinch.planning.wishes import Wishes
from chaffinch.reach.planning import reach_planner
from tests.faults import steps
from tests.faults.collector import arrived, collecting, forget_arrivals
from tests.faults.steps import FULL, STOPPED, TORN, Fault
from tests.faults.verbs import VERBS, Verb, names_in, readable, releases_in

MUTABLE = ("*.ledger", "*.mark", "*.ledger-journal", "*/keyset.json")
"""Files that are there before and may change."""


@dataclass(frozen=True)
class Start:
    """The folder that every life of a verb starts from."""

    folder: Path
    verb: Verb
    name: str

    @cached_property
    def before(self) -> set[str]:
        """Return what is in it."""
        return names_in(self.folder)

    @cached_property
    def state(self) -> dict[str, tuple[int, bytes]]:
        """Return all of it."""
        return state_of(self.folder)

    @cached_property
    def seen(self) -> dict[str, Any]:
        """Return what is seen of it before anything has happened."""
        if self.verb.sends:
            forget_arrivals(self.folder)
        with self.copied("untouched") as folder:
            return dict(steps.ask(partial(look, folder, self)))

    def results_in(self, folder: Path) -> set[str]:
        """Return the paths of all results."""
        return {str(folder / name) for name in self.verb.results}

    @contextmanager
    def copied(self, suffix: str) -> Iterator[Path]:
        """Yield a copy for one life, in which records are kept too."""
        slug = self.name.replace(",", "").replace(" ", "-")
        folder = self.folder.with_name(f"{self.folder.name}-{slug}-{suffix}")
        shutil.copytree(self.folder, folder)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def state_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the content of every file, and the mode of every folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


@dataclass(frozen=True)
class Seen:
    """What is on the disk."""

    charges: int
    missing: list[str]
    """Results that are not there."""
    broken: list[str]
    """Results that are there and not whole."""
    extra: list[str]
    """What is neither a result nor was there before."""
    readable: list[str]
    """What can be taken for a filter or a release."""
    open_to_others: list[str]
    changed: list[str]
    """Inputs that are not what they were."""
    arrived: int
    """How many different reports have arrived."""

    @property
    def complete(self) -> bool:
        """Return whether all is as after a command that went well."""
        return not (self.missing or self.broken or self.extra)


def look(folder: Path, start: Start) -> dict[str, Any]:
    """Return what is on the disk after a command was stopped, or has ended."""
    verb, before = start.verb, start.before
    missing: list[str] = []
    broken: list[str] = []
    for name, check in verb.results.items():
        try:
            check(folder / name)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not whole
            gone = not (folder / name).exists()
            (missing if gone else broken).append(name if gone else f"{name}: {error}")
    usual = {part for name in verb.results for part in (name, *map(str, Path(name).parents))}
    extra = [
        name
        for name in sorted(names_in(folder) - before - usual)
        if not any(fnmatch(name, pattern) for pattern in verb.kept)
    ]
    open_to_others = [
        name for name in extra if (folder / name).is_file() and _open_to_others(folder, name)
    ]
    changed = [
        name
        for name in sorted(before)
        if (start.folder / name).is_file()
        and not any(fnmatch(name, pattern) for pattern in MUTABLE)
        and (folder / name).read_bytes() != (start.folder / name).read_bytes()
    ]
    return vars(
        Seen(
            _charges(folder, verb) if verb.pays else 0,
            missing,
            broken,
            extra,
            readable(folder, before),
            open_to_others,
            changed,
            arrived(start.folder) if verb.sends else 0,
        )
    )


def _charges(folder: Path, verb: Verb) -> int:
    if verb.pays == "record":
        # In the state folder and beside the key: either forbids a second filter.
        records = [json.loads(one.read_bytes())["filters"] for one in folder.rglob("*.record")]
        return len({one["sha256"] for made in records for one in made})
    if verb.pays == "handed over":
        return len(list((folder / "state" / "chaffinch" / "handed-over").glob("*.record")))
    if verb.pays == "runs":
        record = folder / "state" / "chaffinch" / "releases.record"
        return releases_in(record) if record.exists() else 0
    place, _, state = verb.pays.partition(": ")
    if state:
        return sum(one.state == state for one in KeyFolder.open(folder / place).entries)
    ledger = Ledger.open(folder / f"{verb.pays}.ledger", mark=folder / f"{verb.pays}.mark")
    return len(ledger.entries())


def _open_to_others(folder: Path, name: str) -> bool:
    """Return whether others may read a file; nobody enters a folder that is not theirs."""
    inner = [folder / name, *(folder / part for part in Path(name).parents if str(part) != ".")]
    return all(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in inner)


# ----------------------------------------------------------------------------
# One life: stopped, looked at, run again, looked at again.


def check_stopped(seen: Seen, ended: steps.Ended, fault: Fault, verb: Verb, about: object) -> None:
    """Check what a stopped command has left."""
    assert not seen.broken, about
    assert not seen.changed, about
    assert seen.charges <= verb.bills, about
    assert seen.arrived <= verb.sends, about
    if verb.pays:
        assert seen.arrived <= seen.charges, ("something unpaid was sent", about)
    if verb.pays and seen.readable:
        # What waits is in a hidden folder beside its place.
        folders = {str(Path(name).parent).partition("/.")[0] for name in seen.readable}
        paid = min(len(folders), verb.bills)
        assert seen.charges >= paid, ("something unpaid can be read", about)
    if verb.private:
        assert not seen.open_to_others, about
    # A signal that comes before the command listens to it, or when it is over, kills it.
    if ended.code is not None and ended.reached and fault.kind != FULL:
        # A command that handles a signal leaves nothing, except what is paid for.
        assert ended.code in {STOPPED, 0}, about
        if fault.after is None and not seen.charges and ended.code == STOPPED:
            assert not seen.extra, ("left behind", about)


def look_and_run_again(folder: Path, start: Start) -> dict[str, Any]:
    """Look, run the same command again where it has something to do, and look again.

    All in one copy of this process: to make one takes longer than most commands.
    """
    verb, seen = start.verb, look(folder, start)
    done = Seen(**seen).complete and verb.reads_only
    if done or start.name == "shuffle":
        return {"seen": seen}
    code = steps.quietly(verb.line(folder))
    if verb.sends and code == verb.finished != 0:  # what is in the outbox is not made again
        code = steps.quietly([*verb.line(folder)[:5], "--resume"])
    return {"seen": seen, "again": {"code": code, "seen": look(folder, start)}}


def live(start: Start, fault: Fault, number: int) -> bool:
    """Stop a verb once and check everything; return whether the fault came before the end."""
    with start.copied(str(number)) as folder:
        return live_in(folder, start, fault)


def live_in(folder: Path, start: Start, fault: Fault) -> bool:
    """Stop a verb in a folder of its own, look, run the same again, and look again."""
    verb = start.verb
    if verb.sends:
        forget_arrivals(start.folder)
    ended = steps.run(verb.line(folder), start.results_in(folder), fault)
    # A disk that is as it was is what the first command of all has found: it went well.
    untouched = state_of(folder) == start.state and not (verb.sends and arrived(start.folder))
    later = partial(look_and_run_again, folder, start)
    found = {"seen": start.seen} if untouched else steps.ask(later)
    seen = Seen(**found["seen"])
    about: Any = (start.name, fault, ended, seen)
    check_stopped(seen, ended, fault, verb, about)
    if not ended.reached:
        assert ended.code == 0, about
        assert seen.complete, about
        assert seen.charges == bool(verb.pays) * verb.bills, about
        assert seen.arrived == verb.sends, about
    if start.name == "shuffle" and not untouched:
        check_batches(start, folder, seen, about)
    elif "again" in found:
        again = found["again"]
        after = Seen(**again["seen"])
        about = (*about, again)
        allowed = {0} if seen.missing else {0, verb.finished}
        assert again["code"] in allowed, ("the same command again", about)
        assert after.complete, about
        assert not after.changed, about
        assert after.arrived == verb.sends, ("every report arrives once", about)
        bills = bool(verb.pays) * verb.bills
        assert after.charges == bills, ("paid once for one result", about)
    return ended.reached


def check_batches(start: Start, folder: Path, seen: Seen, about: object) -> None:
    """Check that no report goes into two different batches, whatever was stopped."""
    more = "shuffle {0}/encoded.parquet {0}/other.parquet --plan {0}/survey.plan.json"
    wider = f"{more} -o {{0}}/wider.parquet".format(folder).split()
    code = steps.ask(partial(steps.quietly, wider))
    again = steps.ask(partial(steps.quietly, start.verb.line(folder)))
    if code == 0:
        assert "new.parquet" in seen.missing, ("a report in two batches", about)
        assert again == 4, ("a report in two batches", about)
        return
    assert code == 4, (code, about)
    assert not (folder / "wider.parquet").exists(), about
    # A batch that is there is not replaced, and what is in it is not shuffled again.
    allowed = {0} if seen.missing else {0, 2, 4}
    assert again in allowed, ("the same command again", again, about)
    after = Seen(**steps.ask(partial(look, folder, start)))
    assert after.complete, (after, about)


# ----------------------------------------------------------------------------
# All lives.


def modules_of(folder: Path, start: Start) -> list[str]:
    """Return what a verb imports that nobody has imported yet."""
    before = set(sys.modules)
    assert steps.quietly(start.verb.line(folder)) == 0, start.name
    return sorted(set(sys.modules) - before)


def import_late(names: Sequence[str]) -> None:
    """Import once what every life would import again."""
    for name in names:
        with suppress(ImportError):  # a part of another module, which was imported with it
            importlib.import_module(name)
    # The allocator of Arrow has a thread too, and is made for forks.
    tasks = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert len([one for one in tasks if "jemalloc" not in one]) <= 1, tasks
    gc.freeze()


PURE = (
    (Wishes, "candidates"),
    (planner, "_epsilons_of_shares"),
    (reach_planner, "_calibrated"),
)
"""What takes long and touches no disk: searches of the planners."""


def remember(module: ModuleType | type, name: str) -> None:
    """Let a function answer the same question once in all lives: kills in it show nothing."""
    answered, answers = getattr(module, name), dict[str, Any]()

    def answer(*given: Any) -> Any:
        asked = repr([one for one in given if not callable(one)])
        if asked not in answers:
            answers[asked] = answered(*given)
        return answers[asked]

    setattr(module, name, answer)


def shrink_demos() -> None:
    """Let demos have few people: their steps on the disk are the same."""
    survey_demo.PEOPLE, survey_demo.EPSILON, survey_demo.DELTA = 60, 3.0, 1e-2
    reach_demo._UNIVERSE = 4000  # noqa: SLF001 - part of what makes a demo large
    reach_demo.SIZES = {"daily": 1600, "radio": 800, "shop": 1800}


def import_everything() -> None:
    """Import all that any verb may ask for."""
    for module in pkgutil.walk_packages(chaffinch.__path__, "chaffinch."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for late in ("pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.fs"):
        importlib.import_module(late)


def warm_up(folder: Path, verbs: Sequence[str]) -> None:
    """Import everything, and work out what all lives ask for, without leaving a thread behind."""
    import_everything()
    survey = load_plan(folder / "survey.plan.json")
    audience = reach.load_plan(folder / "reach.plan.json")
    survey.verify()
    audience.verify()
    reach.load_plan(folder / "shuffled.plan.json").verify()
    if any(VERBS[verb].sends for verb in verbs):
        load_plan(folder / "sent.plan.json").verify()
    for role, asked in (("analyzer", survey), ("analyzer", audience), ("client", audience)):
        opened = Ledger.open(folder / f"{role}.ledger", mark=folder / f"{role}.mark")
        opened.would_spend(Charge.of(asked))
    for planning, search in PURE:
        remember(planning, search)
    shrink_demos()
    if "demo" in verbs:
        question = Choice(survey_demo.BROWSERS, missing="refuse")
        target = Target(survey_demo.EPSILON, survey_demo.DELTA)
        plan(Survey({"browser": question}), users=survey_demo.PEOPLE, target=target)
    if "reach demo" in verbs:
        publishers = reach.Audience(list(reach_demo.SIZES), frequencies=2)
        reach.plan(publishers, sizes=reach_demo.SIZES, target=Target(1.0, 1e-9))
    for name in {"plan", "privacy", "compare", "reach plan", "reach compare"} & set(verbs):
        words = VERBS[name].line(folder)
        if words[-2] in {"-o", "--plot"}:
            del words[-2:]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main(words) == 0, words


def at_steps(ended: steps.Ended, most: int) -> Iterator[Fault]:
    """Yield kills at all steps, or at so many of them, and as many other faults.

    Where all steps have their turn, a step that removes something gets every signal: whoever is
    asked to end there must still remove it.
    """
    kinds = itertools.cycle(("terminate", TORN, "hang up", FULL, "interrupt"))
    every = max(1, ended.steps // most)
    for step in range(1 + every // 2, ended.steps + 1, every):
        yield Fault("kill", step)
        if every == 1 and step in ended.removing:
            yield from (Fault(kind, step) for kind in ("terminate", "hang up", "interrupt"))
        else:
            yield Fault(next(kinds), step)


@dataclass
class Pace:
    """How long a command takes, on a machine that is now busy and now is not.

    About five of six moments come before the end: fewer are wasted lives, and if all did, some
    of the last steps would never be met.
    """

    seconds: float

    def note(self, *, reached: bool) -> None:
        """Take longer moments after one that came before the end, and shorter ones otherwise."""
        self.seconds *= 1.02 if reached else 0.9


def at_moments(pace: Pace) -> Iterator[Fault]:
    """Yield kills at any moment of a command, without end."""
    drawn = random.Random()
    kinds = itertools.cycle(("kill", "terminate", "kill", "hang up"))
    while True:
        yield Fault(next(kinds), after=drawn.uniform(0, pace.seconds))


def sweep(name: str, folder: Path, most: int, kills: int) -> dict[str, int]:
    """Stop a verb at its steps, and then at any moment until it was killed so many times.

    Returns how often each fault happened; one that came after the end is not counted.
    """
    start = Start(folder, VERBS[name], name)
    with start.copied("first") as first:
        import_late(steps.ask(partial(modules_of, first, start)))
    with start.copied("whole") as whole:
        ended = steps.run(start.verb.line(whole), start.results_in(whole))
        seen = Seen(**steps.ask(partial(look, whole, start)))
    assert start.state == state_of(folder)
    assert not start.seen["extra"]
    assert ended.code == 0, ended
    assert not ended.direct, ("written under its own name before it is whole", ended)
    assert seen.complete, seen
    failed: list[str] = []
    happened: Counter[str] = Counter()
    pace = Pace(ended.seconds)
    moments = itertools.islice(at_moments(pace), 10 * kills)
    for number, fault in enumerate(itertools.chain(at_steps(ended, most), moments)):
        if fault.after is not None and happened.total() - happened[FULL] >= kills:
            break
        try:
            reached = live(start, fault, number)
        except AssertionError as error:
            failed.append(str(error))
            continue
        happened[fault.kind] += reached
        if fault.after is not None:
            pace.note(reached=reached)
    assert not failed, f"{len(failed)} lives of {name} went wrong:\n" + "\n".join(failed[:20])
    return dict(happened)


if __name__ == "__main__":
    os.environ["CHAFFINCH_TRACE"] = "1"  # a failure tells where it comes from
    _, place, at_most, least, *verbs = sys.argv
    sent = any(VERBS[verb].sends for verb in verbs)
    with collecting(Path(place)) if sent else nullcontext():
        warm_up(Path(place), verbs)
        counts = {verb: sweep(verb, Path(place), int(at_most), int(least)) for verb in verbs}
    sys.stdout.write(json.dumps(counts))
