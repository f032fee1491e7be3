"""What is said of mutants that no test notices is about code that is there."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

from tests.cases import each_case
from tests.meta import repository
from tests.mutation import survivors

PAGE = repository.ROOT / "docs" / "concepts" / "mutation-testing.md"
ROOMS = tomllib.loads(
    (repository.ROOT / "tests" / "mutation" / "rooms.toml").read_text(encoding="utf-8")
)


def words(text: str) -> str:
    return " ".join(text.split())


def test_explained_survivors_are_about_lines_that_are_there() -> None:
    gone = [
        str(each)
        for each in survivors.explanations()
        if words(each.was) not in words((repository.SOURCE / each.file).read_text(encoding="utf-8"))
    ]
    assert not gone, "take these out of tests/mutation/survivors.toml"


def test_explanations_say_why() -> None:
    assert all(len(reason.why.split()) > 4 for reason in survivors.explanations().values())


def test_the_page_counts_the_survivors_of_each_kind() -> None:
    kinds = Counter(reason.kind for reason in survivors.explanations().values())
    page = PAGE.read_text(encoding="utf-8")
    assert [kind for kind, count in kinds.items() if f"| {kind} | {count} |" not in page] == []


@each_case("room", ROOMS)
def test_rooms_have_files_and_judges_that_are_there(room: str) -> None:
    for pattern in (*ROOMS[room]["files"], *ROOMS[room].get("but", ())):
        assert list(repository.SOURCE.glob(pattern))
    for judge in ROOMS[room]["judges"]:
        path, _, name = judge.removeprefix("--deselect=").partition("::")
        found = repository.ROOT / path
        assert found.exists()
        if name:
            assert f"def {name.partition('[')[0]}(" in found.read_text(encoding="utf-8")


def test_the_tool_names_only_files_that_are_there() -> None:
    # The tool itself runs in an environment of its own, so `make test` never imports it.
    folder = repository.ROOT / "tests" / "mutation"
    named = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r'"(src/[\w/]+\.py)"', path.read_text(encoding="utf-8"))
    }
    assert named
    assert [name for name in named if not (repository.ROOT / name).is_file()] == []
