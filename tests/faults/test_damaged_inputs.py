"""Every kind of input, damaged in every way: one clear error and nothing done, or the same read.

A verb that gets a damaged file ends with a documented code and one message, tells nothing of
what is private, writes nothing and charges nothing. Where a file carries a digest, a checksum or
a chain, it is accepted only if what is read is what was written.

The long tier damages every kind of input 300 times, about 7,000 files in some five minutes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch import Bit, Ledger, Survey, Target, load_plan, load_release, plan, reach
from chaffinch.engines import engine
from chaffinch.errors import ChaffinchError
from chaffinch.ledger import Charge
from chaffinch.planning.survey_file import SurveyFile, load_survey
from chaffinch.wire.message_reader import MessageReader
from tests.faults import calls, damage
from tests.faults.calls import Done

USERS = 20
PEOPLE = 25
CANARY = "CANARY8731"
REFUSED = {2, 3, 4, 5}
MANY = 300
"""How often each kind of input is damaged in the long tier."""
SURVEY = f"""\
title = "Members"
users = {USERS}
epsilon = 2
delta = 1e-2

[questions.answer]
kind = "bit"
missing = "refuse"
"""

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Input:
    """A file, the verb that reads it, and what was read if it is accepted."""

    file: str
    words: str
    read: Read | None
    """Returns what the verb goes by; None if the verb must refuse the file, whole or damaged."""
    changes: tuple[damage.Change, ...] = damage.BYTES
    exact: bool = True
    """Whether what is read must be what was written: the file proves itself."""


# ----------------------------------------------------------------------------
# What is read from a file.


def messages(path: Path) -> object:
    """Return messages and facts; a reader proves them."""
    reader = MessageReader(path)
    codes = [int(code) for batch in reader.batches() for code in batch]
    return codes, reader.facts, reader.digest


def entries(path: Path) -> object:
    """Return what a ledger held before; a verb that accepts it may charge it."""
    ledger = Ledger.open(path.with_name("ledger"), mark=path.with_name("mark"))
    return ledger.role, ledger.cap, ledger.entries()[:2]


def survey(path: Path) -> object:
    """Return a survey, which must be what another reader of TOML finds."""
    found = load_survey(path)
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    assert (found.users, found.survey.title) == (told["users"], told.get("title", ""))
    assert set(found.survey.questions) == set(told["questions"])
    return None


def csv_rows(path: Path) -> int:
    """Return how many rows another reader of CSV finds."""
    return _csv_rows(path.read_bytes())


def gzip_rows(path: Path) -> int:
    """Return how many rows another reader finds in a zipped CSV."""
    return _csv_rows(gzip.decompress(path.read_bytes()))


def _csv_rows(content: bytes) -> int:
    # What stands in a column that nobody asks for is not read, so it may be anything.
    text = content.decode("utf-8-sig", "replace")
    return len([row for row in csv.reader(io.StringIO(text, newline="")) if row]) - 1


def json_rows(path: Path) -> int:
    """Return how many lines of JSON there are."""
    return len([line for line in path.read_bytes().split(b"\n") if line.strip()])


def parquet_rows(path: Path) -> int:
    """Return how many rows another reader of Parquet finds."""
    return int(pq.ParquetFile(path).read(columns=["answer"]).num_rows)


def arrow_rows(path: Path) -> int:
    """Return how many rows another reader of Arrow finds."""
    options = pa.ipc.IpcReadOptions(included_fields=[0])
    return int(pa.ipc.open_stream(path.read_bytes(), options=options).read_all().num_rows)


_ENCODE = "encode {0}/%s --plan {0}/survey.plan.json --column answer -o {0}/new.parquet --json"
_SHUFFLE = "shuffle {0}/%s --plan {0}/survey.plan.json --record {0}/fresh -o {0}/new.parquet"
_ANALYZE = (
    "analyze {0}/%s --plan {0}/survey.plan.json -o {0}/r.json --ledger {0}/ledger --mark {0}/mark"
)
_PUBLISH = (
    "reach encode {0}/ids.csv --plan {0}/reach.plan.json --publisher %s --key {0}/campaign.key "
    "-o {0}/new.filter"
)
_PUBLISH_OTHER = _PUBLISH.replace("campaign.key", "other.key")
_KEY = reach.CampaignKey(bytes(range(32)))
_KEY_RECORD = f"state/chaffinch/keys/{_KEY._name}.record"  # noqa: SLF001 - nobody else needs it
_REACH = "reach analyze {0}/daily.filter {0}/radio.filter --plan {0}/reach.plan.json"
_COUNT = f"{_REACH} -o {{0}}/r.json --ledger {{0}}/other --mark {{0}}/other.mark"
_COUNT_COLUMNS = (
    "reach analyze {0}/made.columns --plan {0}/shuffled.plan.json -o {0}/r.json "
    "--ledger {0}/other --mark {0}/other.mark"
)

INPUTS: dict[str, Input] = {
    "plan, checked": Input(
        "survey.plan.json", "plan --check {0}/survey.plan.json", load_plan, damage.JSON
    ),
    "plan, encoding": Input("survey.plan.json", _ENCODE % "people.csv", load_plan, damage.JSON),
    "reach plan": Input(
        "reach.plan.json", "reach plan --check {0}/reach.plan.json", reach.load_plan, damage.JSON
    ),
    "reach plan, counting": Input("reach.plan.json", _COUNT, reach.load_plan, damage.JSON),
    "survey": Input(
        "survey.toml", "plan {0}/survey.toml -o {0}/new.plan.json", survey, exact=False
    ),
    "encoded": Input("encoded.parquet", _SHUFFLE % "encoded.parquet", messages),
    "encoded stream": Input("encoded.arrow", _SHUFFLE % "encoded.arrow", messages),
    "shuffled": Input("shuffled.parquet", _ANALYZE % "shuffled.parquet", messages),
    "shuffled stream": Input("shuffled.arrow", _ANALYZE % "shuffled.arrow", messages),
    "columns": Input(
        "made.columns", _COUNT_COLUMNS, lambda path: reach.load_columns(path).digest, damage.JSON
    ),
    "filter": Input("daily.filter", _COUNT, lambda path: reach.load_filter(path).digest),
    "key": Input("campaign.key", _PUBLISH % "daily", lambda path: reach.load_key(path).secret),
    # Radio has encoded with this key: no damage to the record makes it forget that.
    "key record": Input(_KEY_RECORD, _PUBLISH % "radio", None, damage.JSON),
    "key record, beside": Input("other.key.record", _PUBLISH_OTHER % "radio", None, damage.JSON),
    "ledger": Input("ledger", "ledger check {0}/ledger --mark {0}/mark", entries),
    "ledger, charged": Input("ledger", _ANALYZE % "shuffled.parquet", entries),
    "mark": Input("mark", "ledger check {0}/ledger --mark {0}/mark", entries, damage.JSON),
    "mark, charged": Input("mark", _ANALYZE % "shuffled.parquet", entries, damage.JSON),
    # With these files a batch was made: no damage to the record lets another set have them.
    "shuffler's record": Input(
        "record",
        "shuffle {0}/spent.parquet {0}/encoded.parquet --plan {0}/survey.plan.json "
        "--record {0}/record -o {0}/new.parquet",
        None,
    ),
    "CSV": Input("people.csv", _ENCODE % "people.csv", csv_rows, exact=False),
    "JSONL": Input("people.jsonl", _ENCODE % "people.jsonl", json_rows, exact=False),
    "Parquet": Input("people.parquet", _ENCODE % "people.parquet", parquet_rows, exact=False),
    "Arrow": Input("people.arrow", _ENCODE % "people.arrow", arrow_rows, exact=False),
    "gzip": Input("people.csv.gz", _ENCODE % "people.csv.gz", gzip_rows, exact=False),
    "ids": Input("ids.csv", _PUBLISH % "daily", csv_rows, exact=False),
}


# ----------------------------------------------------------------------------
# A folder with all of them.


def prepare(folder: Path) -> Path:
    """Write one whole file of every kind."""
    folder.mkdir()
    made = plan(Survey({"answer": Bit("refuse")}, "Members"), users=USERS, target=Target(2, 1e-2))
    made.save(folder / "survey.plan.json")
    (folder / "survey.toml").write_text(SURVEY)
    rows = [{"answer": "yes" if row % 3 else "no", "note": CANARY} for row in range(PEOPLE)]
    table = pa.Table.from_pylist(rows)
    lines = "".join(f"{row['answer']},{row['note']}\n" for row in rows)
    (folder / "people.csv").write_text("answer,note\n" + lines)
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes()))
    (folder / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(table, folder / "people.parquet")
    with (
        pa.OSFile(str(folder / "people.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write_table(table)
    local = engine()
    for name in ("encoded.parquet", "encoded.arrow", "spent.parquet", "e.parquet"):
        local.encode(table.select(["answer"]), made, folder / name)
    local.shuffle([folder / "spent.parquet"], made, folder / "s.parquet", record=folder / "record")
    for name in ("shuffled.parquet", "shuffled.arrow"):
        local.shuffle([folder / "e.parquet"], made, folder / name, record=folder / "r")
        (folder / "r").unlink()
    audience = reach.plan(
        reach.Audience(["daily", "radio"]), sizes=[200, 200], target=Target(2, 1e-3)
    )
    audience.save(folder / "reach.plan.json")
    (folder / "ids.csv").write_text("id\n" + "".join(f"{CANARY}{n}\n" for n in range(200)))
    shared = reach.new_key()
    for name in ("daily", "radio"):
        filtered = reach.encode(folder / "ids.csv", audience, publisher=name, key=shared)
        filtered.save(folder / f"{name}.filter")
    between = reach.plan(
        reach.Audience(["daily"]), sizes=[200], target=Target(2, 1e-3), shuffled=True
    )
    between.save(folder / "shuffled.plan.json")
    own = reach.encode(folder / "ids.csv", between, publisher="daily", key=reach.new_key())
    reach.shuffle([own], between, record=folder / "handed").save(folder / "made.columns")
    # Of each key one record is left: either of them forbids a second filter.
    _KEY.save(folder / "campaign.key")
    assert call(_PUBLISH % "radio", folder).code == 0
    (folder / "campaign.key.record").unlink()
    (folder / "new.filter").unlink()
    reach.new_key().save(folder / "other.key")
    assert call(_PUBLISH_OTHER % "radio", folder).code == 0
    (folder / "new.filter").unlink()
    (other,) = {*(folder / _KEY_RECORD).parent.iterdir()} - {folder / _KEY_RECORD}
    other.unlink()
    cap = Target(20, 1e-2)
    ledger = Ledger.create(folder / "ledger", role="analyzer", cap=cap, mark=folder / "mark")
    for key in ("first", "second"):
        ledger.charge(Charge.of(made), key, subject=key)
    # Losses of people and of ids do not compose, so these have a ledger of their own.
    Ledger.create(folder / "other", role="analyzer", cap=cap, mark=folder / "other.mark")
    for spent in ("e.parquet", "s.parquet"):
        (folder / spent).unlink()
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one whole file of every kind."""
    return prepare(tmp_path_factory.mktemp("damage") / "whole")


@pytest.fixture(autouse=True)
def _planned_before(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a survey that was read become a plan at once: planning has tests of its own."""
    made = load_plan(whole / "survey.plan.json")
    monkeypatch.setattr(SurveyFile, "plan", lambda *_, **__: made)


# ----------------------------------------------------------------------------
# One damaged file.


def call(words: str, folder: Path) -> Done:
    """Run a command in a folder, where records are kept too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        return calls.call(words.format(folder).split())


def contents(folder: Path) -> dict[str, bytes]:
    """Return all that is in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def check_refused(ended: Done, about: object) -> None:
    """Check the one message."""
    assert ended.code in REFUSED, about
    assert "Traceback" not in ended.out + ended.err, about
    if ended.out:
        assert json.loads(ended.out)["error"]["message"], about
    else:
        assert ended.err.count("error: ") == 1, about


def check_accepted(one: Input, folder: Path, expected: object, ended: Done, about: object) -> None:
    """Check that what was read is what was written, or what others read."""
    assert one.read is not None, ("accepted", about)
    found = one.read(folder / one.file)
    if one.exact:
        assert found == expected, ("accepted although it is damaged", about)
    elif one.words.startswith("encode"):
        assert json.loads(ended.out)["reports"] == found, about


def damaged(one: Input, whole: Path, folder: Path, times: int, seed: str) -> Iterator[int]:
    """Damage a file many times; yield the code that its verb ends with each time."""
    drawn = random.Random(seed)
    shutil.copytree(whole, folder)
    before, content = contents(folder), (whole / one.file).read_bytes()
    expected = one.read(folder / one.file) if one.read and one.exact else None
    for number in range(times):
        spoiled = content
        while spoiled == content:  # such as two equal bytes that changed places
            change = drawn.choice(one.changes)
            spoiled = change(content, drawn)
        (folder / one.file).write_bytes(spoiled)
        ended = call(one.words, folder)
        after = contents(folder)
        about: Any = (one.file, number, change.__name__, spoiled[:3000], ended)
        head = spoiled.split(b"\n")[0]  # names of columns are told, and damage can make some
        assert CANARY not in ended.out + ended.err or CANARY.encode() in head, about
        if ended.code == 0:
            check_accepted(one, folder, expected, ended, about)
        else:
            check_refused(ended, about)
            assert after == before | {one.file: spoiled}, (set(after) ^ set(before), about)
        for name in set(after) - set(before):
            (folder / name).unlink()
        for name in [name for name in before if after.get(name) != before[name]]:
            (folder / name).write_bytes(before[name])
        yield ended.code


@pytest.mark.parametrize("name", INPUTS)
def test_some_damage(name: str, whole: Path, tmp_path: Path) -> None:
    one = INPUTS[name]
    ended = call(one.words, shutil.copytree(whole, tmp_path / "copy"))
    assert (ended.code == 0) == (one.read is not None), ended
    codes = list(damaged(one, whole, tmp_path / "folder", 5, name))
    assert set(codes) - {0}


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", INPUTS)
def test_much_damage(name: str, whole: Path, tmp_path: Path) -> None:
    seed = str(random.SystemRandom().random())
    codes = list(damaged(INPUTS[name], whole, tmp_path / "folder", MANY, seed))
    assert len(codes) == MANY
    assert set(codes) - {0}, seed


def test_the_long_tier_damages_enough() -> None:
    assert len(INPUTS) * MANY >= 5000


@pytest.mark.parametrize("times", [20, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["survey", "reach"])
def test_releases(kind: str, times: int, whole: Path, tmp_path: Path) -> None:
    """No verb reads a release; the library gives what stands in the file, or an error of ours."""
    folder = shutil.copytree(whole, tmp_path / "folder")
    words = (_ANALYZE % "shuffled.parquet") if kind == "survey" else _COUNT
    assert call(words, folder).code == 0
    load: Any = load_release if kind == "survey" else reach.load_release
    content, drawn, refused = (folder / "r.json").read_bytes(), random.Random(kind), 0
    for _ in range(times):
        spoiled = drawn.choice(damage.JSON)(content, drawn)
        (folder / "r.json").write_bytes(spoiled)
        try:
            found = load(folder / "r.json")
        except ChaffinchError:
            refused += 1
        else:
            assert found.document() == json.loads(spoiled)
            assert found.text()
    assert refused > times / 3
