"""`make quick` selects the tests nearest to a change and reports those that it did not run."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import grimp
import pytest

from tests import nearest
from tests.meta import repository

SLOW = """
import time

def test_it():
    try:
        time.sleep(600)
    except (Exception, KeyboardInterrupt):  # as a command does that is stopped
        raise AssertionError

def test_other():
    pass
"""


def in_git(folder: Path, *commands: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in commands:
        words = ("git", *who, *command.split())
        subprocess.run(words, cwd=folder, capture_output=True, check=True)


def first(*changed: str, many: int = 1) -> list[str]:
    return nearest.nearest(changed)[:many]


def test_every_source_has_tests_that_are_near() -> None:
    sources = [
        path.relative_to(repository.ROOT).as_posix()
        for path in repository.files()
        if path.is_relative_to(repository.SOURCE) and path.suffix in (".py", ".c", ".h")
    ]
    assert len(sources) > 200
    far = [source for source in sources if not has_tests(source)]
    assert not far, "add a test that imports it, or that has its name"


def has_tests(source: str) -> bool:
    """Return whether a source has tests beside the rules of the repository."""
    room = nearest.room_of(source)
    if room != "tests/meta/":
        return any(test.startswith(room) for test in nearest.tests())
    return any(distance < nearest.RULES for _, distance in nearest.near(source))


def test_the_nearest_come_first() -> None:
    roots = "src/chaffinch/privacy/numerics/roots.py"
    assert first(roots) == ["tests/privacy/test_roots.py"]
    found = first(roots, many=1000)
    # A test that imports it, a test of its folder, a check of the repository.
    order = ["tests/privacy/test_calibration.py", "tests/privacy/test_words.py"]
    places = [found.index(one) for one in (*order, "tests/meta/test_modules.py")]
    assert places == sorted(places)
    assert len(found) == len(set(found))
    # A changed test comes before everything else.
    assert first(roots, "tests/laws/test_delta.py", many=2) == [
        "tests/laws/test_delta.py",
        "tests/privacy/test_roots.py",
    ]


def test_a_name_counts_by_whichever_way_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    file = "tests/test_words.py"
    monkeypatch.setattr(nearest, "ROOT", tmp_path)
    module, offered = "chaffinch.privacy.mechanisms.bits", frozenset({"FlippedBits"})
    near = (
        "from chaffinch.privacy.mechanisms import bits",
        "from chaffinch.privacy.mechanisms.bits import _chance as chance",
        "import chaffinch.privacy.mechanisms.bits",
        "from chaffinch import privacy\nprivacy.FlippedBits(users=1)",
        "import chaffinch.privacy as p\np.FlippedBits(users=1)",
        "    from chaffinch.privacy import (\n    Target,\n    FlippedBits as Bits,\n)",
    )
    far = (
        "from chaffinch.privacy.mechanisms import values",
        "from chaffinch.ledger import FlippedBits",
        "from chaffinch import privacy\nprivacy.Target(1, 0)",
        "from elsewhere import FlippedBits",
    )
    for text in near + far:
        (tmp_path / file).write_text(text, encoding="utf-8")
        nearest.text_of.cache_clear()
        nearest.mentioned.cache_clear()
        found = any(nearest.is_of(each, module, offered) for each in nearest.mentioned(file))
        assert found == (text in near), text
    nearest.text_of.cache_clear()
    nearest.mentioned.cache_clear()


def test_a_syntax_error_is_left_to_the_linter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("def", encoding="utf-8")
    build = grimp.build_graph
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(grimp, "build_graph", lambda *_, **given: build("broken", **given))
    assert not nearest.graph_of_imports.__wrapped__().modules


def test_a_change_is_all_since_the_branch_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "ROOT", tmp_path)

    def changed() -> list[str]:
        return nearest.changed_since(nearest.base_of_change())

    def write(name: str) -> None:
        (tmp_path / name).write_text(name, encoding="utf-8")

    in_git(tmp_path, "init --initial-branch=main")
    write("first")
    in_git(tmp_path, "add .", "commit -m 1")
    assert changed() == [], "there is no commit before it"
    write("second")
    assert changed() == ["second"], "git does not know it yet"
    in_git(tmp_path, "add .", "commit -m 2")
    assert changed() == ["second"], "on main, the last commit"
    in_git(tmp_path, "checkout -b branch")
    write("third")
    in_git(tmp_path, "add .")
    assert changed() == ["third"], "the branch has no commit of its own"
    in_git(tmp_path, "commit -m 3", "mv first fourth")
    write("fifth")
    assert changed() == ["fifth", "first", "fourth", "third"]
    # What happens on main meanwhile is not a change of the branch.
    in_git(tmp_path, "reset --hard", "checkout main")
    write("sixth")
    in_git(tmp_path, "add .", "commit -m 6", "checkout branch")
    assert changed() == ["third"]


@pytest.mark.long
@pytest.mark.parametrize("fails", [False, True])
def test_tests_end_in_time_and_it_is_told_which_were_not_run(
    *,
    fails: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(nearest, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(repository.ROOT))
    (tmp_path / "test_quick.py").write_text(f"def test_it():\n    assert not {fails}\n")
    (tmp_path / "test_slow.py").write_text(SLOW)
    ordered = ["test_quick.py", "test_slow.py"]
    started = time.monotonic()
    assert nearest.run_tests(ordered, started + 15 + nearest.ENDING) != fails
    assert 15 <= time.monotonic() - started < 60
    told = capfd.readouterr().out
    assert "NOT RUN, out of time: 2 tests\n     2 of test_slow.py" in told
    assert "of test_quick.py" not in told
