"""A test that loops over a table judges every row of it, as if each were a test."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.tiers import nightly


def marks_of(test: Any) -> list[pytest.Mark]:
    return list(test.pytestmark)


def test_every_row_is_judged_also_of_two_tables() -> None:
    seen: list[tuple[int, str, int]] = []

    @each_case("number, letter", [(1, "a"), (2, "b")])
    @each_case("other", (one for one in (5, 6)))
    def judged(number: int, letter: str, other: int) -> None:
        seen.append((number, letter, other))

    judged()
    assert seen == [(1, "a", 5), (1, "a", 6), (2, "b", 5), (2, "b", 6)]


@pytest.mark.parametrize("place", range(3))
def test_whichever_row_fails_the_test_fails_and_names_it(place: int) -> None:
    @each_case("number", [10, 20, 30])
    def judged(number: int) -> None:
        assert number != 10 * (place + 1), "planted"

    with pytest.raises(AssertionError, match="planted") as failed:
        judged()
    assert failed.value.__notes__ == [f"The case that failed: number={10 * (place + 1)}"]


def test_what_is_not_raised_fails_too() -> None:
    @each_case("number", [1, 2], ids=["one", "two"])
    def judged(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 / (number - 1)

    with pytest.raises(pytest.fail.Exception) as failed:
        judged()
    assert failed.value.__notes__ == ["The case that failed: two"]


def test_names_are_those_that_parameters_would_have() -> None:
    @each_case("number, word", [(1, "x"), pytest.param(2, "y", id="the second")], ids=str)
    def judged(number: int, word: str) -> None:
        assert word == "y" if number == 1 else word == "x"

    with pytest.raises(AssertionError) as first:
        judged()
    assert first.value.__notes__ == ["The case that failed: 1-x"]

    @each_case("word", [pytest.param("y", id="the only one")], ids=str)
    def named(word: str) -> None:
        assert word == "x"

    with pytest.raises(AssertionError) as second:
        named()
    assert second.value.__notes__ == ["The case that failed: the only one"]


def test_a_row_is_never_skipped() -> None:
    @each_case("number", [1, 2])
    def judged(number: int) -> None:
        if number == 1:
            pytest.skip("nothing to judge")

    with pytest.raises(AssertionError, match="never skipped: number=1"):
        judged()


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="judges nothing"):
        each_case("number", [])


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        each_case("one, two", [(1,)])
    with pytest.raises(ValueError, match="shorter"):
        each_case("one", [1, 2], ids=["only one"])
    with pytest.raises(ValueError, match="longer"):
        each_case("one", [1, 2], ids={"first": 1, "second": 2, "third": 3})
    with pytest.raises(ValueError, match="nothing else"):
        each_case("one", [pytest.param(1, marks=pytest.mark.xfail)])


def test_rows_for_the_night_are_another_test() -> None:
    seen: list[int] = []

    @each_case("number", [1, nightly(2), 3])
    def judged(number: int) -> None:
        seen.append(number)

    [mark] = marks_of(judged)
    gate, night = mark.args[1]
    assert (gate.id, [one.name for one in gate.marks]) == ("gate", [])
    assert (night.id, [one.name for one in night.marks]) == ("night", ["long"])
    judged(rows_of_number=gate.values[0])
    assert seen == [1, 3]
    judged(rows_of_number=night.values[0])
    assert seen == [1, 3, 2]


def test_marks_below_are_kept() -> None:
    @each_case("number", [1])
    @pytest.mark.parametrize("other", [1, 2])
    @pytest.mark.long
    def judged(number: int, other: int) -> None:
        assert number <= other

    assert [mark.name for mark in marks_of(judged)] == ["long", "parametrize"]


@each_case("number", range(3))
@each_case("letter", "ab")
def test_each_row_has_its_own_folder_state_patches_and_output(
    number: int,
    letter: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not list(tmp_path.iterdir())
    (tmp_path / "left").touch()
    state = Path(os.environ["XDG_STATE_HOME"])
    assert not state.exists()
    state.mkdir(parents=True)
    assert "PLANTED" not in os.environ
    monkeypatch.setenv("PLANTED", "here")
    assert capsys.readouterr().out == ""
    sys.stdout.write(f"{number} {letter}")
