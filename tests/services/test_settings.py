"""What operators write: the example has every key, from its models, and every fault is told."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.planning import survey_file
from chaffinch.plans import parties
from chaffinch.services import analyzer_process, hop
from chaffinch.services.analyzer import AnalyzerSettings
from chaffinch.services.analyzer_process import read_analyzer
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.collector import CollectorLimits
from chaffinch.services.connections import Limits
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.hop import EXAMPLE, HopSettings, read_hop
from chaffinch.services.openers import Cluster
from chaffinch.services.settings import (
    Address,
    ServiceModel,
    limits_of,
    names_analyzer,
    numbers_of,
    write_example,
)
from chaffinch.services.shuffler import ShufflerSettings
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.release_rule import ReleaseRule
from chaffinch.wire.document_forms import Strict

OTHER_DEFAULTS = {"most_ticks", "openers"}
"""What is left out of a file is not a number: for ever, one for each core."""
NO_LIMITS = {"inbox", "batches", "rule", "patience", "trusted", "cluster"}


def read(folder: Path, text: str) -> HopSettings:
    (folder / "hop.toml").write_text(text)
    return read_hop(folder / "hop.toml")


def uncommented(text: str) -> str:
    return re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.MULTILINE)


def test_the_example_says_the_defaults(tmp_path: Path) -> None:
    plain = read(tmp_path, EXAMPLE)
    full = read(tmp_path, uncommented(EXAMPLE))
    assert full.collector.limits == plain.collector.limits == CollectorLimits()
    assert full.collector.front.server == plain.collector.front.server == Limits()
    assert plain.shuffler == ShufflerSettings()
    assert full.shuffler.patience == plain.shuffler.patience
    assert full.shuffler.interval_seconds == plain.shuffler.interval_seconds
    assert full.shuffler.memory_bytes == plain.shuffler.memory_bytes
    assert full.shuffler.rule.largest_batch == plain.shuffler.rule.largest_batch
    assert full.collector.front.tls is not None
    assert full.shuffler.cluster == Cluster("spark://host:7077")
    assert full.place.data == tmp_path / "data"


def test_the_example_has_every_limit() -> None:
    front = (CollectorLimits, InboxLimits, BatchLimits, Limits)
    behind = (ShufflerSettings, ReleaseRule, Patience)
    assert names_of(*front, *behind) <= commented(EXAMPLE)
    assert names_of(BatchLimits, Limits, AnalyzerSettings) <= commented(analyzer_process.EXAMPLE)


def names_of(*kinds: type) -> set[str]:
    return {one.name for kind in kinds for one in fields(kind)} - NO_LIMITS


def commented(text: str) -> set[str]:
    return set(re.findall(r"^# ([a-z_]+) = ", text, re.MULTILINE))


def test_the_example_of_an_analyzer_says_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "analyzer.toml"
    path.write_text(analyzer_process.EXAMPLE)
    plain = read_analyzer(path)
    assert names_analyzer(path)
    path.write_text(uncommented(analyzer_process.EXAMPLE))
    full = read_analyzer(path)
    assert full.batches == plain.batches == BatchLimits()
    assert full.front.server == plain.front.server == Limits()
    assert plain.work == AnalyzerSettings()
    assert (full.work.level, full.work.look_seconds) == (0.95, plain.work.look_seconds)
    assert plain.budget is None
    assert full.work.cluster == Cluster("spark://host:7077")
    assert full.budget is not None
    assert full.budget.mark == tmp_path / "ledger.mark"
    path.write_text(analyzer_process.EXAMPLE + "level = 0.9\n")
    with pytest.raises(InvalidFile, match="level is no limit"):
        read_analyzer(path)


@pytest.mark.parametrize("level", ["0.3", "1.0", "nan"])
def test_a_level_that_no_interval_can_have_is_refused(tmp_path: Path, level: str) -> None:
    """Otherwise the service would fail at its first batch, or refuse it for ever."""
    path = tmp_path / "analyzer.toml"
    path.write_text(analyzer_process.EXAMPLE.replace("# level = 0.95", f"level = {level}"))
    with pytest.raises(InvalidFile, match=r"analyzer\.level"):
        read_analyzer(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('keys = "keys"', 'key = "keys"', "key: is not known here; did you mean 'keys'?"),
        (
            'listen = "127.0.0.1:8081"',
            'lissen = "127.0.0.1:8081"',
            "collector.listen: must be there",
        ),
        (
            'listen = "127.0.0.1:8081"',
            'lissen = "127.0.0.1:8081"',
            "collector.lissen: is not known here; did you mean 'listen'?",
        ),
        (
            "# [collector.tls]",
            '[collector.tls]\ncertificates = "a"',
            "collector.tls.certificates: is not known here; did you mean 'certificate'?",
        ),
        (
            "[collector.limits]",
            "[collector.limit]",
            "collector.limit: is not known here; did you mean 'limits'?",
        ),
        (
            "# body_bytes = 4194304",
            "body_byte = 4194304",
            "limits: body_byte is not known here; did you mean 'body_bytes'?",
        ),
        ("# body_bytes = 4194304", "body_bytes = 0", "body_bytes must be above 0"),
        ("# body_bytes = 4194304", "body_bytes = 0.5", "body_bytes must be whole"),
        ("# body_bytes = 4194304", 'body_bytes = "4"', "limits: body_bytes must be a number"),
        ("# body_bytes = 4194304", "body_bytes = true", "limits: body_bytes must be a number"),
        ('data = "data"', "data = 1", "data: must be words in quotes"),
        ("# reply = 60.0", "reply = nan", "reply must be above 0"),
        ("# key_pause_seconds = 3600.0", "key_pause_seconds = 1e6", "pause between keys"),
        ("# most_ticks = 1000", "most_ticks = 1.5", "most_ticks must be whole"),
        ("127.0.0.1:8081", "8081", "collector.listen: must be HOST:PORT"),
        ("127.0.0.1:8081", "127.0.0.1:70000", "HOST:PORT"),
        ('plans = ["survey.plan.json"]', "plans = []", "plans: has too few entries"),
        ("[collector]", "[collector", "no TOML document"),
        ("# [shuffler.cluster]", "[shuffler.cluster]", "shuffler.cluster.engine: must be there"),
        (
            '# [shuffler.cluster]\n# engine = "spark"',
            '[shuffler.cluster]\nengine = "ray"',
            "shuffler.cluster.engine: must be 'spark'",
        ),
    ],
)
def test_what_breaks_a_rule_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(InvalidFile, match=re.escape(said)):
        read(tmp_path, EXAMPLE.replace(old, new, 1))


def test_the_settings_of_another_service_are_named(tmp_path: Path) -> None:
    hop, analyzer = tmp_path / "hop.toml", tmp_path / "analyzer.toml"
    hop.write_text(EXAMPLE)
    analyzer.write_text(analyzer_process.EXAMPLE)
    with pytest.raises(InvalidFile, match=r"settings of an analyzer\. Got those of a hop") as told:
        read_analyzer(hop)
    assert "`chaffinch serve collector`" in told.value.hint
    with pytest.raises(InvalidFile, match=r"settings of a hop\. Got those of an analyzer") as told:
        read_hop(analyzer)
    assert "`chaffinch serve analyzer`" in told.value.hint
    survey = tmp_path / "survey.toml"
    survey.write_text(survey_file.EXAMPLE)
    with pytest.raises(InvalidFile, match=r"settings of a service\. Got a survey\b"):
        read_hop(survey)
    survey.write_text(parties.EXAMPLE)
    for read in (read_hop, read_analyzer):
        with pytest.raises(InvalidFile, match=r"settings of a service\. Got a list of parties"):
            read(survey)


def test_a_plan_that_is_not_there_is_looked_for_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageFault) as told:
        read(tmp_path, EXAMPLE).place.load_plans()
    assert f"'survey.plan.json' must be in the folder {tmp_path}. Got none." in told.value.message


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    text = EXAMPLE.replace("# body_bytes = 4194304", "body_bytes = 0").replace(
        "# reply = 60.0", "replies = 1"
    )
    with pytest.raises(InvalidFile) as refused:
        read(tmp_path, text)
    assert len(refused.value.faults) == 2


@pytest.mark.parametrize("text", ["", ":80", "host", "host:", "host:-1", "host:65536", "host:٣"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(InvalidInput):
        Address.of(text)


# ----------------------------------------------------------------------------
# Examples are generated from models.


@dataclass(frozen=True)
class Inner:
    rooms: Annotated[int, "of a house"] = 3
    longest: Annotated[int | None, "after which a text that is long goes on in " * 2, 7] = None


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    seconds: Annotated[float, ""] = 2.5
    silent: float = 1.0


class Part(Strict):
    name: str = Field(examples=["x"])


class House(ServiceModel):
    limited: ClassVar = (Outer, Inner)

    door: str = Field(description="Where people come in.", examples=["front"])
    bell: int = Field(4, description="how often it rings")
    part: Part | None = Field(None, description="What may be left out.")


class Street(Strict):
    houses: list[str] = Field(examples=[["a", "b"]])
    house: House


STREET = """\
# A street.
# Paths are taken from where this file is. What is commented out is the default, unless its line
# says what holds without it.

houses = ["a", "b"]

[house]
# Where people come in.
door = "front"
# bell = 4                      # how often it rings

# What may be left out.
# [house.part]
# name = "x"

[house.limits]
# rooms = 3                     # of a house
# longest = 7                   # after which a text that is long goes on in after which a text
                                # that is long goes on in
# seconds = 2.5
"""


def test_an_example_is_written_from_its_models() -> None:
    assert write_example("A street.", Street) == STREET


def test_limits_reach_the_dataclasses_inside() -> None:
    assert list(numbers_of(Outer)) == ["rooms", "longest", "seconds"]
    made = limits_of({"rooms": 5, "seconds": 9.0}, Outer, silent=0.5)
    assert made == Outer(Inner(5), 9.0, 0.5)


def test_every_line_of_the_examples_is_toml_and_fits_on_a_screen() -> None:
    for example in (hop.EXAMPLE, analyzer_process.EXAMPLE):
        assert tomllib.loads(example).keys() == tomllib.loads(uncommented(example)).keys()
        assert max(map(len, example.splitlines())) < 100
        assert not [line for line in example.splitlines() if line != line.rstrip()]
