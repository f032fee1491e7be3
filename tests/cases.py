"""Tests of tables: one test judges all rows, and a failure names its row."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
Case = tuple[str, dict[str, Any]]
"""A row: what it is called, and the arguments that it gives to the test."""


def each_case(
    arguments: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Judge every row of a table in one test; the first that fails is named.

    It is written as ``pytest.mark.parametrize`` is, and meant for rows that take next to no time:
    thousands of them as tests of their own cost more than what they judge. Rows for the night
    (`tests.tiers.nightly`) make a second test. As parameters do, each row has a folder, a state,
    patches and captured output of its own.
    """
    names = (
        [one.strip() for one in arguments.split(",")] if isinstance(arguments, str) else arguments
    )
    gate: list[Case] = []
    night: list[Case] = []
    table = list(rows)
    labels = [ids] * len(table) if ids is None or callable(ids) else list(ids)
    for row, label in zip(table, labels, strict=True):
        (night if _is_for_the_night(row) else gate).append(_case(names, row, label))
    if not gate and not night:
        raise ValueError("a table without rows judges nothing")

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in names]
        tier = f"rows_of_{names[0]}"

        def judge(**given: Any) -> None:
            for number, case in enumerate(given.pop(tier, gate)):
                _judge(test, case, given, number)

        judge.__name__ = judge.__qualname__ = test.__name__
        judge.__doc__, judge.__module__ = test.__doc__, test.__module__
        vars(judge)["pytestmark"] = list(vars(test).get("pytestmark", []))
        if night:
            left.append(inspect.Parameter(tier, inspect.Parameter.KEYWORD_ONLY))
            tiers = [pytest.param(gate, id="gate")] if gate else []
            tiers.append(pytest.param(night, id="night", marks=pytest.mark.long))
            pytest.mark.parametrize(tier, tiers)(judge)
        vars(judge)["__signature__"] = signature.replace(parameters=left)
        return judge

    return decorated


def _case(names: Sequence[str], row: Any, label: str | Callable[[Any], object] | None) -> Case:
    if isinstance(row, pytest.ParameterSet):
        values, label = row.values, label if row.id is None else str(row.id)
    else:
        values = row if len(names) > 1 else (row,)
    given = dict(zip(names, values, strict=True))
    if callable(label):
        label = "-".join(str(label(value)) for value in values)
    return label or ", ".join(f"{name}={value!r:.200}" for name, value in given.items()), given


def _is_for_the_night(row: Any) -> bool:
    marks = [mark.name for mark in row.marks] if isinstance(row, pytest.ParameterSet) else []
    if set(marks) - {"long"}:
        raise ValueError(f"a row may be for the night, and nothing else: {marks}")
    return bool(marks)


def _judge(test: Test, case: Case, given: dict[str, Any], number: int) -> None:
    label, row = case
    own = {**given, **row}
    with pytest.MonkeyPatch.context() as patch:
        # `tests.conftest` gives each test a state of its own, and a row is a test.
        patch.setenv("XDG_STATE_HOME", f"{os.environ['XDG_STATE_HOME']}-{number}")
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        if isinstance(folder := own.get("tmp_path"), Path):
            own["tmp_path"] = folder / str(number)
            own["tmp_path"].mkdir()
        if "capsys" in own:
            own["capsys"].readouterr()
        try:
            test(**own)
        except pytest.skip.Exception as skipped:
            raise AssertionError(f"a row of a table is never skipped: {label}") from skipped
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"The case that failed: {label}")
            raise
