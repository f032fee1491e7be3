"""Every verb: how it is called, what it makes, who pays, and what proves it whole."""

from __future__ import annotations

import sqlite3
import stat
import time
import tomllib
import xml.dom.minidom
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from chaffinch import (
    Bit,
    Choice,
    Ledger,
    Plan,
    Target,
    analyze,
    encode_many,
    load_plan,
    load_release,
    plan,
    reach,
    shuffle,
)
from chaffinch.engines import engine
from chaffinch.errors import ChaffinchError
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import Parties, Party
from chaffinch.questions import PublicGroup
from chaffinch.reach import load_filter, load_key
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.message_reader import MessageReader

USERS = 40
IDS = 1000
SURVEY = f'users = {USERS}\nepsilon = 2\ndelta = 1e-2\n\n[questions.answer]\nkind = "bit"\n'
Check = Callable[[Path], object]


@dataclass(frozen=True)
class Verb:
    """One way to call a verb. In its words {0} is the folder with all inputs."""

    words: str
    results: Mapping[str, Check] = field(default_factory=dict)
    """What is there when all went well, and what raises unless it is whole."""
    pays: str = ""
    """The role of the ledger that is charged once, or the record of the key, of runs or of what
    was handed over; of a key folder, the state that one key takes."""
    bills: int = 1
    """How many results are paid for, each once."""
    sends: int = 0
    """How many reports arrive at a first hop."""
    kept: tuple[str, ...] = ()
    """What else may be there then, as a pattern: records."""
    finished: int = 0
    """How the same command ends once it has finished, if not in the same way."""
    private: bool = True
    """Whether whatever a killed process leaves must be for the owner only."""

    @property
    def reads_only(self) -> bool:
        """Return whether nothing is to be there afterwards that was not before."""
        return not (self.results or self.pays or self.sends)

    def line(self, folder: Path) -> list[str]:
        """Return the words in a folder."""
        return self.words.format(folder).split()


# ----------------------------------------------------------------------------
# What is whole.


def whole_messages(stage: str, path: Path) -> None:
    """Read a message file to its end, which proves its digest."""
    reader = MessageReader(path)
    for _ in reader.batches():
        pass
    assert (reader.facts.stage, reader.facts.reports) == (stage, 2 * USERS)
    if stage == "encoded":
        for_owner_only(path)


def whole_page(path: Path) -> None:
    """Look for the end of a page."""
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


def whole_picture(path: Path) -> None:
    """Parse a drawing."""
    xml.dom.minidom.parse(str(path)).unlink()  # noqa: S318 - a drawing of our own


def whole_rows(path: Path) -> None:
    """Look for the end of the last line of a table."""
    assert path.read_bytes().endswith(b"\n")


def whole_filter(path: Path) -> None:
    """Read a filter, which proves its checksum."""
    load_filter(path)
    for_owner_only(path)


def whole_ledger(path: Path) -> None:
    """Open a ledger with the mark beside it."""
    Ledger.open(path, mark=path.with_suffix(".mark"))
    for_owner_only(path)


def whole_keys(path: Path) -> None:
    """Open the key folder of a file, which proves every key that its list names."""
    KeyFolder.open(path.parent)
    for_owner_only(path)


def whole_list(path: Path) -> None:
    """Read a key list, which proves its signature."""
    identity = bytes.fromhex(KeyFolder.open(path.parent / "due").identity_hex)
    asked = load_plan(path.parent / "sealed.plan.json")
    KeyList.read(path.read_bytes(), plan_id=asked.id, identity=identity)


def for_owner_only(path: Path) -> None:
    """Check who may read a file."""
    assert not stat.S_IMODE(path.stat().st_mode) & 0o077, (path, oct(path.stat().st_mode))


def whole_columns(path: Path) -> None:
    """Read shuffled columns, which must be those that the shuffler has kept."""
    columns = reach.load_columns(path)
    (kept,) = (path.parent / "state" / "chaffinch" / "handed-over").glob("*.record")
    assert columns.batch in kept.read_text()
    for_owner_only(path)


RELEASE: dict[str, Check] = {
    "release.html": whole_page,
    "release.json": load_release,
    "release.csv": whole_rows,
}
TABLE: dict[str, Check] = {"release.parquet": pq.read_table}
REACH_RELEASE = RELEASE | {"release.json": reach.load_release}


def into(folder: str, checks: Mapping[str, Check]) -> dict[str, Check]:
    """Return results in a folder."""
    return {f"{folder}/{name}": check for name, check in checks.items()}


# ----------------------------------------------------------------------------
# The verbs.

_ANALYZE = "analyze {0}/shuffled.parquet --plan {0}/survey.plan.json " + " ".join(
    f"-o {{0}}/{name}" for name in RELEASE | TABLE
)
_REACH_ANALYZE = "reach analyze {0}/made.filter --plan {0}/reach.plan.json " + " ".join(
    f"-o {{0}}/{name}" for name in REACH_RELEASE
)
_REACH_ENCODE = (
    "reach encode {0}/ids.csv --plan {0}/reach.plan.json --key {0}/campaign.key "
    "--publisher daily -o {0}/daily.filter"
)
_STATE = ("state", "state/*")
_SEND = "send --plan {0}/sent.plan.json --outbox {0}/outbox "
_OUTBOX = ("outbox", "outbox/*")
_RECORDS = (*_STATE, "campaign.key.record")
_PAID = " --ledger {0}/analyzer.ledger --mark {0}/analyzer.mark"
_PAID_BY_CLIENT = _PAID.replace("analyzer", "client")
_RUN = "run {0}/survey.plan.json --data {0}/people.csv -o {0}/out"
_RUN_RESULTS = RELEASE | {"survey.plan.json": load_plan}
_GROUPS = into("out/001-north", _RUN_RESULTS) | into("out/002-south", _RUN_RESULTS)
_DEMO = RELEASE | {
    "browsers.plan.json": load_plan,
    "survey.toml": whole_rows,
    "people.csv": whole_rows,
}
_PUBLISHERS = ("daily", "radio", "shop")
_REACH_DEMO: dict[str, Check] = {
    "release.html": whole_page,
    "release.json": reach.load_release,
    "campaign.plan.json": reach.load_plan,
    "campaign.key": load_key,
    **{f"{name}.filter": whole_filter for name in _PUBLISHERS},
    **{f"{name}.csv": whole_rows for name in _PUBLISHERS},
}
_FIGURES: dict[str, Check] = {
    "signal-to-noise.html": whole_page,
    **{f"moves-{number}.svg": whole_picture for number in range(1, 7)},
    "coefficients.svg": whole_picture,
    "skewness.svg": whole_picture,
}
_GALLERY: dict[str, Check] = {
    "figures.html": whole_page,
    "random-responders-delta.svg": whole_picture,
}
_BITS = "bits --users 20 --flip 0.1"
_OPEN_PLAN = "--publisher daily=1000 --epsilon 2 --delta 1e-4 --bits 4096"
_LEDGER = "{0}/analyzer.ledger --mark {0}/analyzer.mark"
_NEW_LEDGER = "{0}/new.ledger --mark {0}/new.mark --epsilon 3 --delta 1e-3"

VERBS: dict[str, Verb] = {
    "run": Verb(_RUN, into("out", _RUN_RESULTS), pays="runs", kept=_STATE, finished=4),
    "run, paid": Verb(
        _RUN + _PAID, into("out", _RUN_RESULTS), pays="analyzer", kept=_STATE, finished=2
    ),
    "run, groups": Verb(
        _RUN.replace("survey.plan", "groups.plan").replace("people", "groups"),
        _GROUPS,
        pays="runs",
        bills=2,
        kept=_STATE,
        finished=4,
    ),
    "survey": Verb(
        "survey {0}/people.csv -o {0}/new.toml",
        {"new.toml": lambda path: tomllib.loads(path.read_text())},
        private=False,
        finished=2,
    ),
    "plan": Verb(
        "plan {0}/survey.toml -o {0}/new.plan.json", {"new.plan.json": load_plan}, private=False
    ),
    "encode": Verb(
        "encode {0}/people.csv --plan {0}/survey.plan.json -o {0}/new.parquet",
        {"new.parquet": partial(whole_messages, "encoded")},
        finished=2,
    ),
    "shuffle": Verb(
        "shuffle {0}/encoded.parquet --plan {0}/survey.plan.json -o {0}/new.parquet",
        {"new.parquet": partial(whole_messages, "shuffled")},
        kept=_STATE,
        finished=4,
        private=False,
    ),
    "send, paid": Verb(
        _SEND + "--answer yes" + _PAID_BY_CLIENT, pays="client", sends=1, kept=_OUTBOX
    ),
    "send, table": Verb(_SEND + "--data {0}/people.csv", sends=2 * USERS, kept=_OUTBOX, finished=4),
    "analyze": Verb(_ANALYZE, RELEASE | TABLE),
    "analyze, paid": Verb(_ANALYZE + _PAID, RELEASE | TABLE, pays="analyzer"),
    "trend": Verb(
        "trend {0}/first.json {0}/second.json -o {0}/new.html -o {0}/new.csv",
        {"new.html": whole_page, "new.csv": whole_rows},
        private=False,
    ),
    "ledger create": Verb(
        "ledger create " + _NEW_LEDGER,
        {"new.ledger": whole_ledger, "new.mark": for_owner_only},
        finished=2,
    ),
    "ledger charge": Verb(
        f"ledger charge {_LEDGER} --plan {{0}}/survey.plan.json --key k --subject s",
        pays="analyzer",
    ),
    "keys create": Verb(
        "keys create {0}/new",
        {
            f"new/{name}": whole_keys
            for name in ("identity.pem", "keyset.json", "key-001.json", "store.name")
        },
        finished=5,
    ),
    "keys rotate": Verb(
        "keys rotate {0}/due",
        {"due/keyset.json": whole_keys, "due/key-002.json": for_owner_only},
        pays="due: pending",
    ),
    "keys destroy": Verb(
        "keys destroy {0}/old 1", {"old/keyset.json": whole_keys}, pays="old: closed"
    ),
    "keys list": Verb(
        "keys list {0}/due --plan {0}/sealed.plan.json --out {0}/new.keys",
        {"new.keys": whole_list},
        finished=5,
        private=False,
    ),
    "reach plan": Verb(
        f"reach plan {_OPEN_PLAN} -o {{0}}/new.plan.json",
        {"new.plan.json": reach.load_plan},
        private=False,
    ),
    "reach key": Verb("reach key -o {0}/new.key", {"new.key": load_key}, finished=2),
    "reach encode": Verb(
        _REACH_ENCODE,
        {"daily.filter": whole_filter},
        pays="record",
        kept=_RECORDS,
        finished=2,
    ),
    "reach encode, paid": Verb(
        _REACH_ENCODE + _PAID_BY_CLIENT,
        {"daily.filter": whole_filter},
        pays="client",
        kept=_RECORDS,
        finished=2,
    ),
    "reach shuffle": Verb(
        "reach shuffle {0}/own.filter --plan {0}/shuffled.plan.json -o {0}/made.columns",
        {"made.columns": whole_columns},
        pays="handed over",
        kept=_STATE,
    ),
    "reach analyze": Verb(_REACH_ANALYZE, REACH_RELEASE),
    "reach analyze, paid": Verb(_REACH_ANALYZE + _PAID, REACH_RELEASE, pays="analyzer"),
    "reach figures": Verb("reach figures -o {0}/out", into("out", _FIGURES), private=False),
    "figures": Verb(
        "figures random-responders-delta -o {0}/out", into("out", _GALLERY), private=False
    ),
    "demo": Verb("demo -o {0}/out", into("out", _DEMO)),
    "reach demo": Verb(
        "reach demo -o {0}/out",
        into("out", _REACH_DEMO),
        kept=(*_STATE, "out/campaign.key.record"),
    ),
    "privacy": Verb(
        f"privacy {_BITS} --plot {{0}}/new.svg", {"new.svg": whole_picture}, private=False
    ),
    # These read, and must leave everything as it was.
    "check": Verb("check {0}/survey.toml --data {0}/people.csv"),
    "compare": Verb("compare --users 50 --epsilon 1 --delta 1e-6"),
    "cost": Verb("cost {0}/survey.plan.json --users 1000000"),
    "simulate": Verb("simulate --plan {0}/survey.plan.json --runs 100 --seed 1"),
    "audit": Verb("audit --plan {0}/survey.plan.json --trials 1000 --seed 1"),
    "ledger show": Verb(f"ledger show {_LEDGER}"),
    "ledger check": Verb(f"ledger check {_LEDGER} --plan {{0}}/survey.plan.json"),
    "keys show": Verb("keys show {0}/due"),
    "reach flips": Verb("reach flips --epsilon 1 --delta 1e-3 --filters 1 --bits 64"),
    "reach compare": Verb(
        "reach compare --filters 1 --bits 64 --flip 0.2 --delta 1e-3 --samples 1000"
    ),
}


# ----------------------------------------------------------------------------
# What is there before, and what can be found afterwards.


def prepare(folder: Path) -> Path:
    """Fill a new folder with everything that verbs read."""
    folder.mkdir()
    survey = plan(Bit(), users=USERS, target=Target(2, 1e-2))
    audience = reach.plan(reach.Audience(["daily"]), sizes=[IDS], target=Target(2, 1e-4))
    survey.save(folder / "survey.plan.json")
    audience.save(folder / "reach.plan.json")
    (folder / "survey.toml").write_text(SURVEY)
    (folder / "people.csv").write_text("answer\n" + "yes\nno\n" * USERS)
    (folder / "ids.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(IDS)))
    local = engine()
    for name in ("encoded", "other"):
        local.encode(folder / "people.csv", survey, folder / f"{name}.parquet")
    record = folder / "record"
    local.encode(folder / "people.csv", survey, folder / "e.parquet")
    local.shuffle([folder / "e.parquet"], survey, folder / "shuffled.parquet", record=record)
    for spent in ("e.parquet", "record"):
        (folder / spent).unlink()
    for name in ("first", "second"):
        answers = encode_many(["yes", "no"] * USERS, survey)
        analyze(shuffle(answers), survey).save(folder / f"{name}.json")
    reach.new_key().save(folder / "campaign.key")
    made = reach.encode(folder / "ids.csv", audience, publisher="daily", key=reach.new_key())
    made.save(folder / "made.filter")
    between = reach.plan(audience.audience, sizes=[IDS], target=Target(2, 1e-4), shuffled=True)
    between.save(folder / "shuffled.plan.json")
    own = reach.encode(folder / "ids.csv", between, publisher="daily", key=reach.new_key())
    own.save(folder / "own.filter")
    groups = PublicGroup("region", Choice(("north", "south"), missing="refuse"))
    replace(survey, group=groups).save(folder / "groups.plan.json")
    rows = "north,yes\nsouth,yes\nnorth,no\nsouth,no\n" * (USERS // 2)
    (folder / "groups.csv").write_text("region,answer\n" + rows)
    prepare_keys(folder, survey)
    for role in ("analyzer", "client"):
        Ledger.create(
            folder / f"{role}.ledger",
            role=role,
            cap=Target(20, 1e-2),
            mark=folder / f"{role}.mark",
        )
    return folder


def prepare_keys(folder: Path, survey: Plan) -> None:
    """Make a key folder whose next key is due, one with an expired key, and a plan for it."""
    due = KeyFolder.create(folder / "due", now=time.time() - 8 * 86_400)
    KeyFolder.create(folder / "old").rotate(at_once=True)
    party = Party("hop", due.identity_hex, "http://127.0.0.1:9")
    analyzer = Party("analyzer", "ab" * 32, "http://127.0.0.1:9")
    survey.run_by(Parties((party,), analyzer)).save(folder / "sealed.plan.json")


def readable(folder: Path, before: set[str]) -> list[str]:
    """Return every new file, hidden ones included, that can be taken for a result."""
    found = []
    for path in new_files(folder, before):
        for read in (load_filter, reach.load_columns, load_release, reach.load_release):
            try:
                read(path)
            except ChaffinchError:
                continue
            found.append(str(path.relative_to(folder)))
    return found


def releases_in(record: Path) -> int:
    """Return how many releases a record of runs holds."""
    with closing(sqlite3.connect(record)) as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM releases").fetchone()
    return int(count)


def new_files(folder: Path, before: set[str]) -> Iterator[Path]:
    """Yield files that were not there before."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and str(path.relative_to(folder)) not in before:
            yield path


def names_in(folder: Path) -> set[str]:
    """Return the names of all files and folders in a folder, below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
