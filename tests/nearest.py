"""Lint and the tests nearest to a change, within a minute: what `make quick` runs.

Names and imports decide which tests are near, so there is no list to maintain. The order is:

0. a changed test,
1. the test with the name of a changed file: ``test_runs`` for ``runs``,
2. tests that import a changed file or what it defines (also through a package above it), or that
   name a changed file that is not Python,
3. the tests that run against a changed file in ``make mutants`` (``tests/mutation/rooms.toml``),
4. the tests of its folder: ``tests/ledger`` for ``src/chaffinch/ledger``,
5. tests that import a module, or a test helper, that imports a changed file,
6. the checks of the repository (``tests/meta``).

Tests that the time was too short for are reported.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath

import grimp
import pytest
from grimp.exceptions import SourceSyntaxError

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60.0
"""Limit for the whole run; a test that is running at the end of it is stopped."""
FILES = 40
"""Limit on test files: collecting more would use up the time for running them."""
ENDING = 10.0
"""Seconds, at the end of these, for a stopped test to clean up."""
_CODE = ("src/", "tests/", "tools/", "benchmarks/", "examples/")
RULES = 6
"""Distance of the checks that apply to every change."""

_DEFINED = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w*)", re.MULTILINE)
_OURS = r"((?:chaffinch|tests)(?:\.\w+)*)"
_IMPORTED = re.compile(rf"^ *import {_OURS}(?: as (\w+))?$", re.MULTILINE)
_TAKEN = re.compile(rf"^ *from {_OURS} import (\([^)]*\)|.*)", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?: as (\w+))?")
_USED = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z]\w*)")


def main() -> int:
    """Check a change; return 1 if a check fails. Running out of time is no failure."""
    end = time.monotonic() + SECONDS
    base = base_of_change()
    changed = changed_since(base)
    print(f"{len(changed)} files changed since {base[:10]}", flush=True)
    if not changed:
        return 0
    with tempfile.TemporaryFile() as told:
        # Types are checked in all files, on another core, because callers may break.
        types = subprocess.Popen([sys.executable, "-m", "mypy"], cwd=ROOT, stdout=told)
        try:
            fine = [lint(changed), run_tests(nearest(changed), end)]
            left = max(1.0, end - time.monotonic())
            fine.append(types.wait(left) == 0)
        except subprocess.TimeoutExpired:
            print("NOT FINISHED: types (the next run continues from the cache)")
        finally:
            types.kill()
            types.wait()
        told.seek(0)
        print(told.read().decode(), end="")
    print(f"{SECONDS - end + time.monotonic():.0f} seconds. `make test` checks everything.")
    return 0 if all(fine) else 1


# ---------------------------------------------------------------------------- what was changed


def git(*words: str) -> str:
    """Return what git says."""
    command = ("git", *words)
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def base_of_change() -> str:
    """Return the commit where the branch left main; on main, the parent of the last commit.

    If nothing but uncommitted changes separates the branch from main, it is the last commit.
    """
    head = git("rev-parse", "HEAD")
    known = git("for-each-ref", "--format=%(refname:short)").split()
    for main_branch in ("origin/main", "main"):
        if main_branch in known:
            base = git("merge-base", "HEAD", main_branch)
            if base != head:
                return base
    if git("status", "--porcelain"):
        return head
    return git("rev-list", "--max-count=2", "HEAD").split()[-1]


def changed_since(base: str) -> list[str]:
    """Return the files that differ from a commit, untracked ones included."""
    # A renamed file counts under both names: tests may still use the old one.
    tracked = git("diff", "--name-only", "--no-renames", "-z", base, "--").split("\0")
    new = git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted({name for name in (*tracked, *new) if name})


# ---------------------------------------------------------------------------- which tests are near


def nearest(changed: Iterable[str]) -> list[str]:
    """Return the test files near the changed files, nearest first."""
    distance: dict[str, int] = {}
    hits: Counter[str] = Counter()
    for path in changed:
        for test, far in near(path):
            distance[test] = min(far, distance.get(test, far))
            hits[test] += 1
    return sorted(distance, key=lambda test: (distance[test], -hits[test], test))


def near(path: str) -> Iterator[tuple[str, int]]:
    """Yield test files near one file, with their distance; a test may be yielded several times."""
    module, offered = module_of(path), defined(path)
    importers = importers_of(module)
    judges = judges_of(path)
    room = room_of(path)
    file = PurePosixPath(path)
    namesake = f"/test_{file.stem.strip('_')}.py"
    for test in tests():
        if test == path:
            yield test, 0
        if test.startswith(room) and test.endswith(namesake):
            yield test, 1
        if module:
            yield from ((test, 2) for each in mentioned(test) if is_of(each, module, offered))
        elif file.name in text_of(test):
            yield test, 2
        if test.startswith(judges):
            yield test, 3
        if test.startswith(room) and path not in tests():
            yield test, 4
        if any(is_of(each, one) for each in mentioned(test) for one in importers) or (
            module and any(is_of(each, module, offered) for each in mentioned_by_helpers(test))
        ):
            yield test, 5
        if test.startswith("tests/meta/"):
            yield test, RULES


@cache
def tests() -> tuple[str, ...]:
    """Return all files of tests."""
    found = (ROOT / "tests").rglob("test_*.py")
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


def room_of(path: str) -> str:
    """Return the folder of tests for a file: the deepest with the name of one of its folders."""
    file = PurePosixPath(path)
    top, *inner = file.parts
    if top == "tests":
        return f"{file.parent}/"
    parts = [*inner[1:-1], file.stem] if top == "src" else [top]
    for length in range(len(parts), 0, -1):
        folder = "/".join(["tests", *parts[:length]])
        if (ROOT / folder).is_dir():
            return f"{folder}/"
    return "tests/meta/"


def judges_of(path: str) -> tuple[str, ...]:
    """Return the test files and folders that run against a source file in `make mutants`."""
    rooms = tomllib.loads(text_of("tests/mutation/rooms.toml"))
    return tuple(
        judge.partition("::")[0]
        for room in rooms.values()
        if any(fnmatch(path, f"src/chaffinch/{pattern}") for pattern in room["files"])
        for judge in room["judges"]
        if not judge.startswith("--")
    )


def module_of(path: str) -> str:
    """Return the dotted name of a module in src or tests, or an empty string."""
    if not path.endswith(".py") or not path.startswith(("src/", "tests/")):
        return ""
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


@cache
def text_of(path: str) -> str:
    """Return the text of a file, or an empty string if it was deleted."""
    return (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""


def defined(path: str) -> frozenset[str]:
    """Return the public classes and functions that a module defines."""
    return frozenset(_DEFINED.findall(text_of(path))) if path.endswith(".py") else frozenset()


@cache
def mentioned(path: str) -> frozenset[str]:
    """Return the dotted names that a file uses from chaffinch and from tests.

    ``import chaffinch as cf`` and ``cf.Bit`` give ``chaffinch`` and ``chaffinch.Bit``. Regular
    expressions are enough, because only the order of tests depends on them; parsing into a syntax
    tree takes ten times as long.
    """
    text = text_of(path)
    bound = {short or module: module for module, short in _IMPORTED.findall(text)}
    for module, names in _TAKEN.findall(text):
        for name, short in _NAME.findall(names):
            bound[short or name] = f"{module}.{name}"
    used = {f"{bound[one]}.{name}" for one, name in _USED.findall(text) if one in bound}
    return frozenset(used.union(bound.values()))


@cache
def mentioned_by_helpers(test: str) -> frozenset[str]:
    """Return the dotted names used by the test helpers that a test imports."""
    names = {name for each in mentioned(test) for name in (each, each.rpartition(".")[0])}
    helpers = {f"{name.replace('.', '/')}.py" for name in names}
    return frozenset().union(*map(mentioned, helpers))


def is_of(name: str, module: str, offered: frozenset[str] = frozenset()) -> bool:
    """Return whether a name is a module, is in it, or is re-exported from it by a package."""
    package, _, last = name.rpartition(".")
    return module in (name, package) or (last in offered and module.startswith(f"{package}."))


def importers_of(module: str) -> set[str]:
    """Return the modules that import a module; packages, which only re-export it, are left out."""
    graph = graph_of_imports()
    found = graph.find_modules_that_directly_import(module) if module in graph.modules else ()
    return {name for name in found if not graph.find_children(name)}


@cache
def graph_of_imports() -> grimp.ImportGraph:
    """Return which module of chaffinch imports which; nothing if one is not valid Python."""
    try:
        return grimp.build_graph("chaffinch", cache_dir=None)
    except SourceSyntaxError:
        return grimp.ImportGraph()  # ruff reports the error


# ---------------------------------------------------------------------------- the checks


def lint(changed: Iterable[str]) -> bool:
    """Check the style of changed files and the import contracts."""
    code = [
        path
        for path in changed
        if path.endswith(".py") and path.startswith(_CODE) and (ROOT / path).exists()
    ]
    if not code:
        return True  # without arguments, ruff would check everything
    commands = (
        (sys.executable, "-m", "ruff", "check", *code),
        (sys.executable, "-m", "ruff", "format", "--check", *code),
        (str(Path(sys.executable).with_name("lint-imports")), "--no-cache"),
    )
    codes = [subprocess.run(words, cwd=ROOT, check=False).returncode for words in commands]
    return not any(codes)


def run_tests(ordered: Sequence[str], end: float) -> bool:
    """Run test files in this order until the time ends; return whether no test failed."""
    if ordered[FILES:]:
        print(f"NOT RUN: {len(ordered) - FILES} test files that are farther away", flush=True)
    # One process, because several would not keep the order.
    words = ("-q", "-n", "0", "--tb=short", "--randomly-dont-reorganize", "-p", "tests.nearest")
    command = (sys.executable, "-m", "pytest", *words, *ordered[:FILES])
    running = subprocess.Popen(command, cwd=ROOT)
    try:
        running.wait(max(1.0, end - ENDING - time.monotonic()))
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGUSR1)
        return ended(running)
    return running.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def ended(running: subprocess.Popen[bytes]) -> bool:
    """Wait for tests that are being stopped; return whether none had failed."""
    try:
        return running.wait(ENDING) == pytest.ExitCode.INTERRUPTED
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        print("KILLED: a test did not stop in time; failures are shown above")
        return False


# ---------------------------------------------------------------------------- inside of pytest

_waiting: defaultdict[str, int] = defaultdict(int)
"""Number of tests of each file that have not run yet."""


_over = _stoppable = False
"""Whether the time is over, and whether a test may be stopped just now."""


class _OutOfTime(BaseException):
    """Stops a test. A KeyboardInterrupt could be handled by the command that is tested."""


def pytest_configure() -> None:
    """Wait for the signal that the time is over."""
    signal.signal(signal.SIGUSR1, _stop)


def _stop(*_: object) -> None:
    global _over  # noqa: PLW0603 - a signal handler has no other place
    _over = True
    if _stoppable:
        raise _OutOfTime


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None]:
    """Let a test be stopped, but not its clean-up; outside of it this is an interrupt."""
    global _stoppable  # noqa: PLW0603
    if _over:
        pytest.exit("the time is over", returncode=pytest.ExitCode.INTERRUPTED)
    try:
        _stoppable = True
        return (yield)
    except _OutOfTime:
        pytest.exit("the time is over", returncode=pytest.ExitCode.INTERRUPTED)
    finally:
        _stoppable = False


pytest_runtest_call = pytest_runtest_setup


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests of each file."""
    for item in session.items:
        _waiting[item.nodeid.partition("::")[0]] += 1


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Count a test as run."""
    _waiting[nodeid.partition("::")[0]] -= 1


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a failure at once: there may be no time for a summary."""
    if report.failed:
        print(f"\nFAILED: {report.nodeid}\n{report.longreprtext}", flush=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Exit with the code of a failure if a test failed before the run was stopped."""
    if session.testsfailed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_keyboard_interrupt() -> None:
    """Report the tests that did not run, before the clean-up, which may take too long."""
    print(f"\nNOT RUN, out of time: {sum(_waiting.values())} tests")
    for file, count in _waiting.items():
        if count:
            print(f"{count:6} of {file}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
