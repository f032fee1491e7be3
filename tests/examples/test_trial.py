"""The whole trial: three real tables, from a draft of a survey to two releases, as a user would.

The tables are those of `examples/trial`: flights (once with flights as people, once with planes),
penguins with their gaps, and Fair's survey of 1978. What three publishers with a million ids
each find out is in `tests/reach/test_trial.py`.

False alarm: 32 families of intervals, each at 1e-6. A run fails wrongly with a chance of at most
3.2e-5, less than once in 10,000.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean

import pytest

import chaffinch as cf
from chaffinch.release.crossed import Crossed
from tests.meta import repository

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SURVEYS = repository.ROOT / "examples" / "trial"
TABLES = repository.ROOT / ".data" / "trial"
LEVEL = "0.999999"

Row = dict[str, str]


def chaffinch(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command, which must end with a code."""
    done = subprocess.run(
        [sys.executable, "-m", "chaffinch", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(cf.__file__).parents[1])},
    )
    assert done.returncode == code, done.stderr
    return done


def rows_of(table: Path) -> list[Row]:
    assert table.exists(), "run `make test-long`, which fetches the tables of the trial"
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draft(survey: Path, table: Path, *, otherwise: Mapping[str, str]) -> None:
    """Draft a survey; the completed one asks for the same, but for kinds that were guessed wrong.

    What had to be filled in is not in the draft.
    """
    drafted = json.loads(chaffinch("survey", table, "--json").stdout)
    assert "FILL IN: users" in drafted["survey"]
    completed = tomllib.loads(survey.read_text(encoding="utf-8"))
    for name, question in completed["questions"].items():
        column = question.get("column", name)
        assert drafted["columns"][column] == otherwise.get(column, question["kind"])
        for value in question.get("values", []):
            assert f'"{value}"' not in drafted["survey"]


def releases(name: str, table: Path, folder: Path, private: Iterable[str]) -> list[cf.Release]:
    """Check, plan, run; run again, which is refused; run again and say so. Return both releases.

    No file of a release holds one of the ``private`` words.
    """
    survey, plan = SURVEYS / f"{name}.toml", folder / "survey.plan.json"
    checked = chaffinch("check", survey, "--data", table)
    assert "every cell answers its question" in flat(checked.stdout)
    chaffinch("plan", survey, "-o", plan)
    words = ("run", survey, "--plan", plan, "--data", table, "--level", LEVEL, "--out")
    first = chaffinch(*words, folder / "first")
    assert "adds to" not in first.stdout
    refused = chaffinch(*words, folder / "second", code=4)
    assert "--again" in refused.stderr
    assert not (folder / "second").exists()
    # Two releases of epsilon 4 protect nobody together, and are wanted all the same.
    second = chaffinch(*words, folder / "second", "--again", "--anyway")
    assert "This release adds to 1 earlier release of the same data" in flat(second.stdout)
    for out in (folder / "first", folder / "second"):
        assert {path.name for path in out.iterdir()} == {
            *("survey.plan.json", "release.html", "release.json", "release.csv")
        }
        for path in out.iterdir():
            text = path.read_text(encoding="utf-8")
            written = {*re.findall(r"[\w.]+", text), *re.findall(r"\d+(?:,\d+)+", text)}
            assert written.isdisjoint(private), path.name
    found = [cf.load_release(folder / out / "release.json") for out in ("first", "second")]
    alone, together = found[0].guarantee, found[1].together
    assert found[0].together is None
    assert together is not None
    assert together.releases == 2
    assert alone.epsilon < together.guarantee.epsilon <= 2 * alone.epsilon
    assert together.guarantee.delta == 2 * alone.delta
    return found


def flat(text: str) -> str:
    return " ".join(text.split())


def crossed(release: cf.Release, name: str) -> Crossed:
    found = release.answer(name).crossed
    assert found is not None
    return found


def counts(release: cf.Release, name: str, truth: Mapping[str, int]) -> None:
    """Find every count in its interval; what no row has, is none."""
    for row in release.answer(name).rows():
        assert row.low_together <= truth.get(row.value, 0) <= row.high_together, row.value


def margins(found: Crossed, question: str, truth: Mapping[str, int]) -> None:
    """Find the count of every answer to one of the crossed questions in its interval."""
    told = [row for row in found.of_kind("margin") if row.question == question]
    assert {row.value for row in told} == set(truth)
    for row in told:
        assert row.low_together <= truth[row.value] <= row.high_together, row.value


def shares(found: Crossed, truth: Callable[[str, str], float], *, told: set[str]) -> None:
    """Find the shares of answers in their intervals, of the groups that are large enough."""
    assert {row.given[0] for row in found.of_kind("share")} >= told
    for row in found.of_kind("share"):
        assert row.low_together <= truth(row.given[0], row.value) <= row.high_together, row


def means(found: Crossed, truth: Mapping[tuple[str, ...], float]) -> None:
    """Find the mean of everybody and of every group in its interval."""
    assert {row.given for row in found.of_kind("mean")} == set(truth)
    for row in found.of_kind("mean"):
        assert row.low_together <= truth[row.given] <= row.high_together, row.given


def test_penguins(tmp_path: Path) -> None:
    """Gaps in sex and body mass are counted, and bias neither shares nor means."""
    table = TABLES / "penguins.csv"
    rows = rows_of(table)
    draft(SURVEYS / "penguins.toml", table, otherwise={})
    pairs = Counter((row["species"], row["sex"].replace("NA", "(missing)")) for row in rows)
    species = Counter(one for one, _ in pairs.elements())
    sexes = Counter(sex for _, sex in pairs.elements())
    masses = [float(row["body_mass_g"]) for row in rows if row["body_mass_g"] != "NA"]
    assert (len(rows), sexes["(missing)"], len(masses)) == (344, 11, 342)

    def share(of: str, sex: str) -> float:
        gaps = pairs[of, "(missing)"]
        return pairs[of, sex] / (species[of] - (0 if sex == "(missing)" else gaps))

    for release in releases("penguins", table, tmp_path, {"Torgersen", "Biscoe", "Dream"}):
        assert (release.reports, release.unit) == (344, "person")
        counts(release, "species × sex", {" × ".join(pair): n for pair, n in pairs.items()})
        found = crossed(release, "species × sex")
        margins(found, "species", species)
        margins(found, "sex", sexes)
        shares(found, share, told={"Adelie", "Chinstrap", "Gentoo"})
        told = {row.value: row for row in release.table() if row.question == "mass"}
        assert told["mean"].low <= fmean(masses) <= told["mean"].high
        assert told["answered"].low <= len(masses) <= told["answered"].high
        assert told["sum"].low <= sum(masses) <= told["sum"].high
        assert told["mean"].high - told["mean"].low < 2_000


def test_fair(tmp_path: Path) -> None:
    """Who is happily married has fewer affairs: the shares of small groups, too."""
    table = TABLES / "fair.csv"
    rows = rows_of(table)
    draft(SURVEYS / "fair.toml", table, otherwise={"ratemarr": "number"})
    words = {"0": "no", "1": "yes"}
    pairs = Counter((row["ratemarr"], words[row["affair"]]) for row in rows)
    happiness = Counter(one for one, _ in pairs.elements())
    affairs = Counter(one for _, one in pairs.elements())
    kids = Counter(words[row["kids"]] for row in rows)
    years = defaultdict[tuple[str, ...], list[float]](list)
    for row in rows:
        years[words[row["kids"]],].append(float(row["yrsmarr"]))
        years[()].append(float(row["yrsmarr"]))
    odd = {row["yrsmarr"] for row in rows if len(row["yrsmarr"]) > 10}
    assert odd
    for release in releases("fair", table, tmp_path, odd):
        assert (release.reports, release.unit) == (601, "person")
        counts(release, "happiness × affair", {" × ".join(pair): n for pair, n in pairs.items()})
        found = crossed(release, "happiness × affair")
        margins(found, "happiness", happiness)
        margins(found, "affair", affairs)
        shares(found, lambda of, one: pairs[of, one] / happiness[of], told={"3", "4", "5"})
        found = crossed(release, "years by kids")
        margins(found, "kids", kids)
        means(found, {group: fmean(some) for group, some in years.items()})


def test_flights(tmp_path: Path) -> None:
    """Flights that never arrived have no delay, and do not move the mean of the others."""
    table = TABLES / "flights.csv"
    rows = rows_of(table)
    draft(SURVEYS / "flights.toml", table, otherwise={})
    origins = Counter(row["origin"] for row in rows)
    delays = defaultdict[tuple[str, ...], list[float]](list)
    for row in rows:
        if row["arr_delay"] not in ("", "NA"):
            delays[row["origin"],].append(float(row["arr_delay"]))
            delays[()].append(float(row["arr_delay"]))
    gaps = len(rows) - len(delays[()])
    assert gaps == 9_430
    as_low = (sum(delays[()]) - 120 * gaps) / len(rows)
    as_middle = (sum(delays[()]) + 690 * gaps) / len(rows)
    private = {row[column] for row in rows for column in ("carrier", "tailnum")} - {"NA"}
    for release in releases("flights", table, tmp_path, private):
        assert (release.reports, release.unit) == (len(rows), "person")
        found = crossed(release, "delay by origin")
        margins(found, "origin", origins)
        means(found, {group: fmean(some) for group, some in delays.items()})
        (everybody,) = [row for row in found.of_kind("mean") if not row.given]
        # Gaps as the least, or as the middle, would be noticed.
        assert as_low < everybody.low_together
        assert as_middle > everybody.high_together


def test_planes(tmp_path: Path) -> None:
    """A plane is the person: two of its flights count, and who has no name is refused."""
    raw, table = TABLES / "flights.csv", tmp_path / "planes.csv"
    rows = rows_of(raw)
    draft(SURVEYS / "planes.toml", raw, otherwise={})
    refused = chaffinch("check", SURVEYS / "planes.toml", "--data", raw, code=2)
    assert "2,512 cells of column 'tailnum' must be the name of a person" in refused.stderr
    named = [row for row in rows if row["tailnum"] != "NA"]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, named[0])
        writer.writeheader()
        writer.writerows(named)
    carriers = defaultdict[str, Counter[str]](Counter)
    for row in named:
        carriers[row["tailnum"]][row["carrier"]] += 1
    # Which two flights are drawn matters only for the few planes of two carriers: of each
    # carrier, at least and at most so many can be drawn.
    least, most = Counter[str](), Counter[str]()
    for flown in carriers.values():
        drawn = min(2, flown.total())
        for carrier, times in flown.items():
            least[carrier] += max(0, drawn - (flown.total() - times))
            most[carrier] += min(drawn, times)
        least["(missing)"] += 2 - drawn
        most["(missing)"] += 2 - drawn
    assert 0 < most.total() - least.total() < 100
    private = {*carriers, "2512", "2,512", "334264", "334,264"}
    for release in releases("planes", table, tmp_path, private):
        assert release.unit == "person"
        assert release.reports == 2 * len(carriers) == 8_086
        told = list(release.answer("carrier").rows())
        assert {row.value for row in told} == set(most)
        for found in told:
            assert found.low_together <= most[found.value], found.value
            assert found.high_together >= least[found.value], found.value
