"""How a table is written is guessed where only one reading is possible, told, and can be said."""

from __future__ import annotations

import io
from typing import Any

import pytest

from chaffinch.errors import InvalidInput, InvalidTable
from chaffinch.tables.dialect import _ENCODINGS, _SEPARATORS, Settings, joined
from chaffinch.tables.read import Table, open_table
from tests.cases import each_case

ROWS = {"name": ["Zoë", "Ann"], "remark": ["a, b; c", "d | e"]}


def written(sign: str, encoding: str = "utf-8", end: str = "\n") -> bytes:
    lines = ["name,remark".replace(",", sign)]
    lines += [f'{name}{sign}"{remark}"' for name, remark in zip(*ROWS.values(), strict=True)]
    return (end.join(lines) + end).encode(encoding)


def opened(content: bytes, format: str = "csv", **said: Any) -> Table:  # noqa: A002
    return open_table(io.BytesIO(content), format=format, settings=Settings(**said))


def cells(table: Table) -> dict[str, list[str]]:
    (batch,) = table.batches(list(table.columns))
    return dict(batch.to_pydict())


@each_case("sign", _SEPARATORS.values())
@each_case("end", ["\n", "\r\n"])
def test_the_separator_is_found(sign: str, end: str) -> None:
    table = opened(written(sign, end=end))
    assert cells(table) == ROWS
    assert len(table.notes) == (sign != ",")
    assert cells(opened(written(sign), separator=sign)) == ROWS


def test_a_separator_that_was_said_is_not_told() -> None:
    assert opened(written(";"), separator="semicolon").notes == ()
    assert opened(written(";")).notes == ("its cells are separated by ';'",)


def test_two_readings_are_refused() -> None:
    content = b"a;b,c;d\n1;2,3;4\n"
    with pytest.raises(InvalidTable, match="comma or semicolon could part") as caught:
        opened(content)
    assert "--separator comma" in caught.value.hint
    assert opened(content, separator="comma").columns == ("a;b", "c;d")
    assert opened(content, separator=";").columns == ("a", "b,c", "d")
    # Only one of them parts every line alike.
    assert opened(b"a;b,c\n1;2,3\n4;5\n").columns == ("a", "b,c")
    assert opened(b"a;b,c\n1,2;\n4,5;6;7\n").columns == ("a;b", "c")


def test_a_comma_in_one_column_of_numbers_is_no_separator() -> None:
    with pytest.raises(InvalidTable, match="1 cells in every row"):
        cells(opened(b"price\n1,5\n2,5\n"))


def test_tabs_are_usual_in_tsv() -> None:
    assert opened(written("\t"), format="tsv").notes == ()


@each_case("encoding", _ENCODINGS)
def test_encodings_can_be_said(encoding: str) -> None:
    assert cells(opened(written(",", encoding), encoding=encoding)) == ROWS


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_enough(encoding: str) -> None:
    table = opened(written(";", encoding))
    assert cells(table) == ROWS
    assert ("its text is utf-16" in table.notes) == (encoding == "utf-16")


def test_other_bytes_are_refused_with_what_to_say() -> None:
    for content in (written(",", "cp1252"), written(",", "utf-16-le"), written(",", "utf-16-be")):
        with pytest.raises(InvalidTable, match="UTF-8") as caught:
            cells(opened(content))
        assert "--encoding cp1252" in caught.value.hint
    with pytest.raises(InvalidTable, match="text in cp1252"):
        cells(opened(b"a,b\n1,\x81\n", encoding="cp1252"))


def test_long_texts_are_recoded_in_blocks() -> None:
    lines = "a,b\n" + "é,ü\n" * 400_000
    table = opened(lines.encode("utf-16"))
    rows = sum(batch.num_rows for batch in table.batches(["a"]))
    assert rows == 400_000
    assert {x for batch in table.batches(["b"]) for x in batch["b"].to_pylist()} == {"ü"}
    cut = open_table(
        io.BytesIO(b"a,b\n" + b"1,2\n" * 400_000 + b"1,\x81\n"),
        format="csv",
        settings=Settings(encoding="cp1252"),
    )
    with pytest.raises(InvalidTable, match="text in cp1252"):
        list(cut.batches(["b"]))


# ------------------------------------------------------------------ cells of several lines


def test_line_breaks_are_read_if_they_were_said() -> None:
    content = b'id,remark,tea\n1,"two\nlines, and ""more""\r\n",yes\n2,,no\n3,"\n\n\n",yes\n'
    table = opened(content, line_breaks=True)
    assert cells(table) == {
        "id": ["1", "2", "3"],
        "remark": ['two\nlines, and "more"\r\n', None, "\n\n\n"],
        "tea": ["yes", "no", "yes"],
    }
    with pytest.raises(InvalidTable, match="a quote in line 2 ") as caught:
        cells(opened(content))
    assert "--line-breaks, or line_breaks = true" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'a,b\nyes,"no\nyes,no\n', 2),
        (b'a,b\nyes,"no\n2,"x"\n', 2),
        (b'a,b\n"1\n2",x\nyes,"no" or\n', 4),
        (b'a,b\nyes,no\nyes,"no', 3),
    ],
)
def test_quotes_must_be_closed_all_the_same(content: bytes, line: int) -> None:
    with pytest.raises(InvalidTable, match=f"a quote in line {line} "):
        cells(opened(content, line_breaks=True))


def test_line_breaks_between_blocks() -> None:
    row = b'"' + b"x\n" * 5000 + b'",yes\n'
    table = opened(b"a,b\n" + row * 500, line_breaks=True)
    found = [x for batch in table.batches(["b"]) for x in batch["b"].to_pylist()]
    assert found == ["yes"] * 500
    with pytest.raises(InvalidTable):
        list(opened(b'a,b\n"' + b"x\n" * (1 << 20), line_breaks=True).batches(["b"]))


@each_case(
    "said",
    [
        {"separator": "x"},
        {"separator": [","]},
        {"encoding": "ascii"},
        {"encoding": 3},
        {"line_breaks": 1},
        {"decimal": 3},
        {"thousands": [","]},
        {"date_format": "day"},
        {"date_format": ["%d"]},
        {"missing_values": "NA"},
        {"missing_values": [3]},
    ],
)
def test_other_settings_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Settings(**said)


def test_what_is_said_later_counts() -> None:
    before = Settings(separator=";", encoding="cp1252")
    assert joined(Settings(encoding="utf-8"), before) == Settings(";", "utf-8")
    assert joined(Settings(line_breaks=True), before) == Settings(";", "cp1252", line_breaks=True)
