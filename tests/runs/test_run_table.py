"""A run in Python: the record, the refusals, the payment and the files of the command."""

from __future__ import annotations

import errno
import io
import json
import re
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch import reach
from chaffinch.disk.files import state_folder
from chaffinch.disk.staged import StagedFiles
from chaffinch.errors import BudgetExhausted, DataRepeated, InvalidInput, InvalidTable, StorageFault
from chaffinch.ledger import Ledger
from chaffinch.ledger.release_record import ReleaseRecord, RunRelease
from chaffinch.planning.survey_file import SurveyFile
from chaffinch.runs import finish_run, pipeline
from chaffinch.runs.known_data import KnownData
from chaffinch.tables.fingerprint import Fingerprint
from chaffinch.tables.read import open_table
from tests.runs.conftest import SURVEY, USERS

pandas = pytest.importorskip("pandas")

Columns = dict[str, list[object]]
Command = Callable[..., tuple[int, str]]


def all_forms(folder: Path, table: Columns) -> dict[str, Any]:
    """Return the same table in all kinds of forms."""
    arrow = pa.table(table)
    pq.write_table(arrow, folder / "people.parquet")
    return {
        "columns": table,
        "pandas": pandas.DataFrame(table),
        "polars": pl.DataFrame(table),
        "arrow": arrow,
        "rows": arrow.to_pylist(),
        "rows that come once": iter(arrow.to_pylist()),
        "batches that come once": iter(arrow.to_batches(max_chunksize=7)),
        "a query": pl.DataFrame(table).lazy(),
        "a reader": arrow.to_reader(),
        "csv": folder / "people.csv",
        "text path": str(folder / "people.csv"),
        "parquet": folder / "people.parquet",
        "a stream": io.BytesIO((folder / "people.parquet").read_bytes()),
    }


def releases_of(table: object) -> tuple[RunRelease, ...]:
    """Return what was released of a table in memory, as far as all of its columns name it."""
    data = KnownData.of(table).opened(open_table(table), lambda *_: None)
    return data.record.of_same_data(data.names)


def digest_of(table: object) -> str:
    return KnownData.of(table).opened(open_table(table), lambda *_: None).state.digest


def charged(ledger: Ledger) -> int:
    return len(ledger.entries())


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    path, mark = tmp_path / "a.ledger", tmp_path / "a.mark"
    return Ledger.create(path, role="analyzer", cap=cf.Target(2, 1e-6), mark=mark)


# ------------------------------------------------------------------ one record


def test_what_python_has_released_is_refused_in_any_form_and_by_the_command(
    folder: Path, plan: cf.Plan, table: Columns, command: Command
) -> None:
    release = cf.run(plan, table)
    assert (release.reports, release.unit, release.one_party) == (USERS, "row", True)
    for name, form in all_forms(folder, table).items():
        with pytest.raises(DataRepeated, match="Got data with 1 release so far") as refused:
            cf.run(plan, form)
        assert "--again (again=True)" in refused.value.hint, name
    words = ("run", folder / "tea.plan.json", "--data", folder / "people.csv", "--out")
    code, out = command(*words, folder / "out", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (4, "data-repeated")
    assert len(releases_of(table)) == 1


def test_what_the_command_has_released_is_refused_in_python_in_any_form(
    folder: Path, plan: cf.Plan, table: Columns, command: Command
) -> None:
    words = ("run", folder / "tea.plan.json", "--data", folder / "people.csv", "--out")
    assert command(*words, folder / "out")[0] == 0
    for form in all_forms(folder, table).values():
        with pytest.raises(DataRepeated):
            cf.run(plan, form)
    table["tea"][0] = "no"  # one person has another answer
    assert cf.run(plan, table).reports == USERS


def test_every_verb_takes_what_a_run_takes(folder: Path, plan: cf.Plan, table: Columns) -> None:
    audience = reach.plan(cf.Audience(["a"]), sizes=[USERS], target=cf.Target(1, 1e-6))
    for name, form in all_forms(folder, table).items():
        verbs: list[Callable[[Any], Any]] = [
            lambda one: cf.check(one, plan).rows == USERS,
            lambda one: cf.draft_survey(one).kinds["tea"] == "bit",
            lambda one: cf.encode_many(one, plan).count == USERS,
            lambda one: reach.encode(
                one, audience, publisher="a", key=reach.new_key(), column="cups"
            ),
        ]
        once = name in {"a reader", "a stream"} or "once" in name
        for verb in verbs:
            # What comes once is made anew for each.
            assert verb(all_forms(folder, table)[name] if once else form), name


def test_a_refused_table_is_known_before_anything_is_planned_or_encoded(
    folder: Path, plan: cf.Plan, table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    cf.run(plan, table)
    steps: list[str] = []
    monkeypatch.setattr(pipeline, "tally_table", lambda *_: pytest.fail("encoded"))
    with pytest.raises(DataRepeated):
        cf.run(folder / "survey.toml", table, progress=steps.append)
    assert {step.partition(":")[0] for step in steps} == {"identifying the table", "checking"}


def test_other_questions_to_the_same_frame_are_asked_of_the_same_people(
    plan: cf.Plan, table: Columns
) -> None:
    """As with a file: all columns count, and not only those that were asked for."""
    cf.run(plan, pandas.DataFrame(table))
    cups = cf.Survey({"cups": cf.Number(0, USERS)})
    other = cf.plan(cups, users=USERS, target=cf.Target(2, 1e-6))
    for same in (table, pl.DataFrame(table).reverse()):
        with pytest.raises(DataRepeated):
            cf.run(other, same)
    both = cf.run(other, table, again=True)
    assert both.together is not None
    assert both.together.releases == 2
    assert both.together.guarantee.epsilon > 2
    assert cf.run(other, table | {"cups": [0, *table["cups"][:-1]]}).together is None


def test_a_frame_is_known_however_it_holds_its_cells(table: Columns) -> None:
    """Other libraries hold the same cells in other types, and a gap makes whole numbers reals."""
    days = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(USERS)]
    cells: Columns = {
        **table,
        "when": [None, *days[1:]],
        "age": [None, *range(1, USERS)],
        "weight": [number / 8 for number in range(USERS)],
        "shop": ["north", None] * (USERS // 2),
        "new": [True, False] * (USERS // 2),
    }
    frame = pandas.DataFrame(cells)
    forms = {
        "columns": cells,
        "polars": pl.DataFrame(cells),
        "arrow": pa.table(cells),
        "pandas": frame,
        "categories": frame.astype({"shop": "category"}),
        "own types": frame.convert_dtypes(),
        "from pandas": pl.from_pandas(frame),
        "seconds": frame.astype({"when": "datetime64[s, UTC]"}),
        "objects": frame.astype(object),
        "rows": pl.DataFrame(cells).to_dicts(),
        "rows that come once": iter(pl.DataFrame(cells).to_dicts()),
        "batches": pa.table(cells).to_batches(max_chunksize=7),
        "a query": pl.DataFrame(cells).lazy(),
        "records": pa.table(cells).to_struct_array(),
    }
    digests = {name: digest_of(form) for name, form in forms.items()}
    assert len(set(digests.values())) == 1, digests
    for name, cell in (("when", days[0]), ("age", 0), ("weight", 1e-9), ("new", False)):
        assert digest_of(cells | {name: [cell, *cells[name][1:]]}) != digests["columns"], name


def test_objects_of_several_kinds_have_one_name(table: Columns) -> None:
    cells = table | {"odd": [2**70, *["a", 1, True, 2.5] * (USERS // 4)][:USERS]}
    plain = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    forms = [cells, pandas.DataFrame(cells), plain, iter(plain)]
    assert len({digest_of(form) for form in forms}) == 1
    assert digest_of(cells) != digest_of(table)


def test_numbers_of_an_array_have_the_name_of_their_columns() -> None:
    rows = [(number, number / 4) for number in range(9)]
    columns = dict(zip("ab", map(list, zip(*rows, strict=True)), strict=True))
    digests = {
        digest_of(np.array(rows, dtype=[("a", order + "i4"), ("b", order + "f8")]))
        for order in "<>"
    }
    assert digests == {digest_of(columns)}


def test_which_cells_share_a_row_tells_tables_apart(plan: cf.Plan, table: Columns) -> None:
    """The same people with other answers are other data, although every column has the same."""
    cf.run(plan, table)
    other = table | {"cups": table["cups"][::-1]}
    assert (len(releases_of(table)), releases_of(other)) == (1, ())
    cups = cf.plan(cf.Survey({"cups": cf.Number(0, USERS)}), users=USERS, target=cf.Target(2, 1e-6))
    assert cf.run(cups, other).together is None


def test_a_column_that_cannot_be_read_does_not_matter(plan: cf.Plan, table: Columns) -> None:
    odd: dict[str, Any] = {
        "mixed": pandas.DataFrame(table | {"odd": [{"x": 1}, object()] * (USERS // 2)}),
        "large": pl.DataFrame(table | {"odd": pl.Series([2**70] * USERS, dtype=pl.Int128)}),
        "deque": table | {"odd": deque(range(USERS))},
        "set": table | {"odd": set(range(USERS))},
        "dict": table | {"odd": dict.fromkeys(range(USERS))},
    }
    cf.run(plan, table)
    question = cf.Survey({"odd": cf.Number(0, USERS)})
    asked = cf.plan(question, users=USERS, target=cf.Target(2, 1e-6))
    for name, form in odd.items():
        with pytest.raises(DataRepeated):
            cf.run(plan, form)
        assert len(releases_of(form)) == 1, name
        with pytest.raises(InvalidTable):
            cf.run(asked, form)


def test_a_name_with_half_a_character_is_refused(plan: cf.Plan, table: Columns) -> None:
    with pytest.raises(InvalidTable, match="names of whole characters"):
        cf.run(plan, table | {"\ud800": table["cups"]})


def test_columns_of_a_frame_may_have_any_name(plan: cf.Plan, table: Columns) -> None:
    names = ("read", "read_next_batch", "column_names", "num_rows", "schema", "columns", "nbytes")
    cells = table | dict.fromkeys(names, table["cups"])
    for form in (pandas.DataFrame(cells), pl.DataFrame(cells), pa.table(cells), cells):
        assert cf.check(form, plan).rows == USERS
        assert digest_of(form) == digest_of(cells)


def test_a_column_that_is_not_there_is_refused_before_the_table_is_read(
    plan: cf.Plan, table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fingerprint, "read_all", lambda *_: pytest.fail("read"))
    with pytest.raises(InvalidTable, match="no column of that name"):
        cf.run(plan, pandas.DataFrame(table), columns={"tea": "coffee"})
    with pytest.raises(InvalidTable, match="The table has 1 column;"):
        cf.run(plan, pandas.DataFrame({"tea": table["tea"]}), columns={"tea": "coffee"})


# ------------------------------------------------------------------ files, and none


def test_without_a_folder_nothing_is_written_or_printed(
    plan: cf.Plan,
    table: Columns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    notes: list[str] = []
    steps: list[str] = []
    cf.run(plan, table, tell=notes.append, progress=steps.append)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert [note.partition(":")[0] for note in notes] == ["note"]
    seen = [step.partition(":")[0] for step in steps]
    assert list(dict.fromkeys(seen)) == [
        *("identifying the table", "checking", "verifying the plan"),
        *("encoding", "shuffling", "counting", "intervals"),
    ]
    assert f"encoding: {USERS} of {USERS} reports" in steps


def test_a_killed_run_without_a_folder_leaves_what_the_next_one_removes(
    plan: cf.Plan, table: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f".chaffinch-staging.{'0' * 16}.part" / "files").mkdir(parents=True)
    cf.run(plan, table)
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_for_temporary_files_nothing_is_released(
    plan: cf.Plan, table: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageFault, match="temporary folder"):
        cf.run(plan, table)
    assert releases_of(table) == ()


def test_a_folder_gets_what_the_command_writes_and_keeps_the_plan(
    folder: Path, table: Columns
) -> None:
    out, notes = folder / "out", list[str]()
    release = cf.run(folder / "survey.toml", pandas.DataFrame(table), out, rows_are_people=True)
    assert cf.load_release(out / "release.json") == release
    names = {"survey.plan.json", ".chaffinch-survey.json", "release.html", "release.csv"}
    assert {one.name for one in out.iterdir()} == {*names, "release.json"}
    once_more: dict[str, Any] = {"rows_are_people": True, "again": True, "tell": notes.append}
    with pytest.raises(InvalidInput, match="a folder without a release"):
        cf.run(folder / "survey.toml", table, out, **once_more)
    assert cf.load_release(out / "release.json") == release
    again = cf.run(folder / "survey.toml", table, out, **once_more, replace=True)
    assert again.plan_id == release.plan_id
    kept = out / "survey.plan.json"
    assert f"using the plan that was made for this survey before: {kept}" in notes
    other = replace(cf.load_plan(kept), title="Other")
    with pytest.raises(InvalidInput, match="results of another plan") as refused:
        cf.run(other, table, out, rows_are_people=True, again=True, anyway=True)
    assert "replace=True" in refused.value.hint
    made = cf.run(other, table, out, rows_are_people=True, again=True, anyway=True, replace=True)
    assert (made.title, cf.load_release(out / "release.json")) == ("Other", made)


def test_the_command_goes_on_in_a_folder_of_python(
    folder: Path, table: Columns, command: Command
) -> None:
    out = folder / "out"
    release = cf.run(folder / "survey.toml", table, out)
    words = ("run", folder / "survey.toml", "--data", folder / "people.csv", "--out", out)
    assert command(*words)[0] == 4
    code, printed = command(*words, "--again", "--replace", "--json")
    told = json.loads(printed)["release"]
    assert (code, told["plan"], told["together"]["releases"]) == (0, release.plan_id, 2)


# ------------------------------------------------------------------ payment


def test_a_run_that_is_stopped_after_it_has_paid_is_finished_by_the_same_call(
    folder: Path, plan: cf.Plan, table: Columns, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between charge and release; the same table finishes it in any column order, and no other."""

    def killed(_: StagedFiles) -> None:
        raise OSError(errno.EIO, "")

    for payer in (None, ledger):
        out = folder / ("free" if payer is None else "paid")
        kind: dict[str, Any] = {"again": payer is not None}
        with monkeypatch.context() as patch:
            patch.setattr(StagedFiles, "put_in_place", killed)
            with pytest.raises(OSError, match="5"):
                cf.run(plan, table, out, payer, **kind)
        assert not (out / "release.json").exists()
        (waiting,) = out.glob(".chaffinch-*.waiting")
        command = json.loads((waiting / "waiting.json").read_text())["command"]
        assert command == "the same call of chaffinch.run in Python"
        # The second has the same cells in every column, but not in the same rows.
        for other in (["yes"] * USERS, [*table["tea"][1:], table["tea"][0]]):
            with pytest.raises(InvalidInput, match="still to be finished") as refused:
                cf.run(plan, table | {"tea": other}, out, payer, **kind)
        assert "finish with: the same call of chaffinch.run in Python" in refused.value.hint
        notes: list[str] = []
        shuffled = {name: table[name] for name in sorted(table)}
        release = cf.run(plan, shuffled, out, payer, tell=notes.append, **kind)
        assert any("finished an earlier run" in note for note in notes)
        assert release == cf.load_release(out / "release.json")
        assert len(releases_of(table)) == 1 + (payer is not None)
    assert charged(ledger) == 1


def test_what_waits_is_finished_without_its_table(
    folder: Path, plan: cf.Plan, table: Columns, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "out"

    def killed(_: StagedFiles) -> None:
        raise OSError(errno.EIO, "")

    with pytest.raises(InvalidInput, match="release to finish"):
        finish_run(out, ledger)
    with monkeypatch.context() as patch:
        patch.setattr(StagedFiles, "put_in_place", killed)
        with pytest.raises(OSError, match="5"):
            cf.run(plan, table, out, ledger)
    with pytest.raises(InvalidInput, match="release to finish"):
        finish_run(out)  # the record of releases knows nothing of what the ledger has paid
    (release,) = finish_run(out, ledger)
    assert release == cf.load_release(out / "release.json")
    assert charged(ledger) == 1


def test_without_a_folder_it_is_paid_before_anybody_has_the_release(
    plan: cf.Plan, table: Columns, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before it is paid nothing was released; stopped after, one release is recorded."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseRecord, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            cf.run(plan, table, ledger=ledger)
    assert (releases_of(table), charged(ledger)) == ((), 0)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "RunResult", killed)
        with pytest.raises(KeyboardInterrupt):
            cf.run(plan, table, ledger=ledger, key="spring")
    assert (len(releases_of(table)), charged(ledger)) == (1, 1)
    assert ledger.entries()[0].key == "spring"
    other = table | {"tea": [*table["tea"][1:], table["tea"][0]]}
    assert cf.run(plan, other, ledger=None, again=True).reports == USERS  # a release of its own
    notes: list[str] = []
    late = cf.run(plan, table, ledger=ledger, key="spring", tell=notes.append)
    assert any("finished an earlier run" in note for note in notes)
    assert (late.reports, len(releases_of(table)), charged(ledger)) == (USERS, 2, 1)
    assert not any((state_folder() / "unreturned").iterdir())


def test_a_release_that_waits_is_returned_only_where_the_same_ledger_pays(
    plan: cf.Plan, table: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also no ledger is another one: a release of another payer was never charged here."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    cap = cf.Target(9, 1e-5)
    book = Ledger.create(tmp_path / "b.ledger", role="analyzer", cap=cap, mark=tmp_path / "b.mark")
    last = Ledger.create(tmp_path / "c.ledger", role="analyzer", cap=cap, mark=tmp_path / "c.mark")
    steps: list[tuple[object, str]]
    steps = [(pipeline, "RunResult"), (StagedFiles, "put_in_place")]
    for place, step in steps:
        for first, second in ((None, book), (book, last)):
            notes: list[str] = []
            before = charged(second)
            with monkeypatch.context() as patch:
                patch.setattr(place, step, killed)
                with pytest.raises(KeyboardInterrupt):
                    cf.run(plan, table, ledger=first, again=True, anyway=True)
            cf.run(plan, table, ledger=second, tell=notes.append)
            assert charged(second) == before + 1
            assert not any("finished an earlier run" in note for note in notes)
            cf.run(plan, table, ledger=first, tell=notes.append)
            assert any("finished an earlier run" in note for note in notes)
    assert not any((state_folder() / "unreturned").iterdir())


def test_a_release_that_cannot_be_removed_stays_for_the_same_call(
    plan: cf.Plan, table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.unlink

    def refused(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent.parent.name == "unreturned":
            raise PermissionError(errno.EACCES, "")
        usual(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(StorageFault, match="state folder"):
            cf.run(plan, table)
    assert cf.run(plan, table).reports == USERS
    assert len(releases_of(table)) == 1


def test_a_release_that_was_staged_and_paid_for_is_returned_by_the_same_call(
    folder: Path, plan: cf.Plan, table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: StagedFiles) -> None:
        raise KeyboardInterrupt

    for form in (table, folder / "people.csv", pa.table(table).to_reader()):
        recognized = not isinstance(form, pa.RecordBatchReader)
        with monkeypatch.context() as patch:
            patch.setattr(StagedFiles, "put_in_place", killed)
            if recognized:
                with pytest.raises(KeyboardInterrupt):
                    cf.run(plan, form, again=True, anyway=True)
            else:
                cf.run(plan, form, again=True, anyway=True)
        made = len(releases_of(table))
        assert recognized == any((state_folder() / "unreturned").glob("*/*"))
        if recognized:
            cf.run(plan, form)
            with pytest.raises(DataRepeated):
                cf.run(plan, form)
        assert len(releases_of(table)) == made
        assert not any((state_folder() / "unreturned").iterdir())


def test_a_spent_budget_releases_and_records_nothing(
    folder: Path, plan: cf.Plan, table: Columns, ledger: Ledger
) -> None:
    cf.run(plan, table, ledger=ledger)
    for out in (None, folder / "out"):
        with pytest.raises(BudgetExhausted):
            cf.run(plan, table, out, ledger)
    assert not (folder / "out").exists()
    assert len(releases_of(table)) == charged(ledger) == 1


@pytest.mark.parametrize("form", ["columns", "csv"])
def test_a_table_that_changes_meanwhile_is_not_paid_for(
    form: str, folder: Path, plan: cf.Plan, table: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, given = pipeline.tally_table, all_forms(folder, table)[form]

    def changed(*arguments: Any) -> Any:
        table["tea"].reverse()
        table["tea"][0] = "yes"
        (folder / "people.csv").write_text("tea\n" + "yes\n" * 2 * USERS)
        return real(*arguments)

    monkeypatch.setattr(pipeline, "tally_table", changed)
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        cf.run(plan, given)
    assert releases_of(table) == ()


# ------------------------------------------------------------------ options of the command


def test_the_options_of_the_command_have_arguments(folder: Path, plan: cf.Plan) -> None:
    visits = {
        "who": [f"p{n // 2}" for n in range(2 * USERS)],
        "hot drink": ["yes", "n/a"] * USERS,
    }
    lenient = (folder / "survey.toml").read_text().replace('"refuse"', '"no"')
    (folder / "survey.toml").write_text(lenient)
    release = cf.run(
        folder / "survey.toml",
        visits,
        columns={"tea": "hot drink"},
        person="who",
        written={"missing_values": ["n/a"]},
        level=0.5,
        adjustment="total",
    )
    assert (release.reports, release.unit, release.rows_were_drawn) == (USERS, "person", True)
    assert release.level == 0.5
    del plan


def test_rounds_and_a_plan_that_was_made_before(folder: Path, table: Columns) -> None:
    (folder / "survey.toml").write_text("rounds = 2\n" + SURVEY)
    survey = cf.Survey({"tea": cf.Bit(missing="refuse")})
    made = cf.plan(survey, users=USERS, target=cf.Target(2, 1e-6), max_messages=1, rounds=2)
    for number in (1, 2):
        release = cf.run(folder / "survey.toml", table, plan=made, round=number)
        assert (release.plan_id, release.round, release.together) == (made.id, number, None)
    made.save(folder / "made.plan.json")
    with pytest.raises(DataRepeated):
        cf.run(folder / "survey.toml", table, plan=folder / "made.plan.json", round=2)
    with pytest.raises(InvalidInput, match="given, from 1 to 2"):
        cf.run(made, {**table, "tea": ["no"] * USERS})


def test_one_public_group_of_a_frame(folder: Path) -> None:
    text = SURVEY.replace("max_messages", 'by_public = "place"\nmax_messages')
    text += '[questions.place]\nkind = "choice"\nvalues = ["here", "there"]\nmissing = "refuse"\n'
    (folder / "survey.toml").write_text(text)
    frame = pl.DataFrame(
        {"place": ["here", "there"] * USERS, "tea": ["yes", "no", "no", "yes"] * (USERS // 2)}
    )
    with pytest.raises(InvalidInput, match="one of 'here', 'there'"):
        cf.run(folder / "survey.toml", frame)
    for place in ("here", "there"):
        release = cf.run(folder / "survey.toml", frame, group=place)
        assert (release.reports, release.group, release.together) == (USERS, ("place", place), None)
    with pytest.raises(DataRepeated):
        cf.run(folder / "survey.toml", frame, group="here")


def test_what_is_no_argument_is_refused_before_anything_is_read(
    folder: Path, plan: cf.Plan, table: Columns
) -> None:
    closed = io.BytesIO(b"tea\nyes\n")
    closed.close()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"survey": 7}, "survey"),
        ({"plan": plan}, "plan"),
        ({"survey": folder / "survey.toml", "plan": 7}, "plan"),
        ({"ledger": "a.ledger"}, "ledger"),
        ({"columns": "tea"}, "columns"),
        ({"columns": {"coffee": "tea"}}, "question of a column"),
        ({"level": 95}, "level"),
        ({"level": 0.3}, "level"),
        ({"adjustment": "more"}, "adjustment"),
        ({"rows_are_people": "no"}, "rows_are_people"),
        ({"again": "no"}, "again"),
        ({"anyway": 1}, "anyway"),
        ({"replace": "no"}, "replace"),
        ({"written": 3}, "settings of a table"),
        ({"tell": 3}, "tell"),
        ({"progress": 3}, "progress"),
        ({"out": 3}, "output"),
        ({"out": ""}, "output"),
        ({"table": io.StringIO("tea\nyes\n"), "format": "csv"}, "stream of a table"),
        ({"table": closed, "format": "csv"}, "stream of a table"),
        ({"group": "here"}, "group"),
        ({"person": "tea", "rows_are_people": True}, "people"),
        ({"written": {"decimals": ","}}, "setting of a table"),
        ({"table": 7}, "table"),
        ({"out": folder / "people.csv"}, "output"),
    ]
    for given, thing in wrong:
        with pytest.raises(InvalidInput, match=f"The {thing} must be"):
            cf.run(**{"survey": plan, "table": table, **given})
    assert releases_of(table) == ()


def test_a_survey_that_was_not_planned_is_told_how_to_be(table: Columns) -> None:
    for survey in (cf.Survey({"tea": cf.Bit()}), cf.Bit()):
        with pytest.raises(InvalidInput, match="plan it first"):
            cf.run(survey, table)  # type: ignore[arg-type]


def test_what_was_read_already_is_told_so(plan: cf.Plan, table: Columns) -> None:
    reader = pa.table(table).to_reader()
    cf.run(plan, reader)
    with pytest.raises(InvalidTable, match="read already"):
        cf.run(plan, reader)


def test_wishes_that_cannot_be_met_are_refused_before_planning(
    folder: Path, table: Columns, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SurveyFile, "plan", lambda *_, **__: pytest.fail("planned"))
    wishes: list[dict[str, Any]] = [{"level": 0.1}, {"level": "x"}, {"adjustment": "all"}]
    for wish in wishes:
        with pytest.raises(InvalidInput):
            cf.run(folder / "survey.toml", table, **wish)
    words = ("run", folder / "survey.toml", "--data", folder / "people.csv")
    assert command(*words, "--out", folder / "out", "--level", "95")[0] == 2


def test_hints_name_the_arguments_beside_the_options(plan: cf.Plan, table: Columns) -> None:
    advice = cf.check(table, plan).advice
    assert "--person COLUMN (person=...)" in advice
    assert "--rows-are-people (rows_are_people=True)" in advice


def test_a_column_of_another_name_is_told_how_to_be_named(plan: cf.Plan, table: Columns) -> None:
    table["drink"] = table.pop("tea")
    with pytest.raises(InvalidTable) as refused:
        cf.run(plan, table)
    assert "--map tea=COLUMN (columns=...)" in str(refused.value)


def test_names_of_a_frame_may_be_cells_and_are_shown_to_nobody(plan: cf.Plan) -> None:
    """A library takes the first line of a text for names, whatever stands in it."""
    text = "alice@example.org,soup,soup\n" + "bob@example.org,rice,rice\n" * USERS
    bare = "yes,yes\n" * USERS
    frames = [pandas.read_csv(io.StringIO(text)), pl.read_csv(io.StringIO(text))]
    frames += [pandas.read_csv(io.StringIO(bare)), pl.read_csv(io.StringIO(bare))]
    for number, frame in enumerate(frames):
        with pytest.raises(InvalidTable) as refused:
            cf.check(frame, plan)
        assert f"The table has {len(frame.columns)} columns" in refused.value.hint
        with pytest.raises(InvalidTable, match="looks like an answer") as drafted:
            cf.draft_survey(frame)
        told = f"{refused.value}{drafted.value}"
        assert not {"alice", "soup", "'yes'"} & {*re.findall(r"[a-z']+", told)}, number
    alone = pandas.DataFrame({"yes": ["no"] * USERS})
    with pytest.raises(InvalidTable, match="itself an answer"):
        cf.check(alone, plan)
    with pytest.raises(InvalidTable, match="columns 1 and 2 of the same name"):
        cf.check(pandas.DataFrame([["yes", "no"]], columns=["alice", "alice"]), plan)


def test_a_table_in_the_place_of_something_else_shows_no_cell(plan: cf.Plan) -> None:
    secret = {"tea": ["SECRET"]}
    wrong: list[dict[str, Any]] = []
    for table in (secret, pandas.DataFrame(secret), pa.table(secret), pandas.Series(["SECRET"])):
        for name in ("out", "written", "tell", "again", "replace", "rows_are_people", "level"):
            wrong.append({name: table})  # noqa: PERF401 - a comprehension of two loops is no plainer
    for given in wrong:
        with pytest.raises(InvalidInput) as refused:
            cf.run(plan, secret, **given)
        assert "SECRET" not in str(refused.value), given


def test_numbers_of_numpy_are_numbers(plan: cf.Plan, table: Columns) -> None:
    given: dict[str, Any] = {"level": np.float32(0.9), "again": np.False_}
    release = cf.run(plan, table, key="k", **given)
    assert (release.level, release.reports) == (float(np.float32(0.9)), 200)
    with pytest.raises(InvalidInput, match=r"key must be a text\. Got 'bytes'"):
        cf.run(plan, table, key=b"k")  # type: ignore[arg-type]
