"""A kind of plan is an interface: no service asks a plan for its class."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from chaffinch import Bit, Target, plan
from chaffinch.errors import InvalidInput
from chaffinch.keys import KeyFolder
from chaffinch.plans.kinds import NAMES, Kind, RunPlan
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import SURVEY, Plan
from chaffinch.reach.planning.reach_plan import REACH, ReachPlan
from chaffinch.services import analyzer
from chaffinch.services.collector import Collector
from chaffinch.services.shuffler import WORKS, Shuffler, ShufflerSettings
from tests.meta import repository

CLASSES = {Plan.__name__, ReachPlan.__name__}


def asked_for_its_class(path: Path) -> list[int]:
    """Return the lines of a file in which something is asked whether it is a plan of one kind."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "type", "issubclass")
        and any(isinstance(one, ast.Name) and one.id in CLASSES for one in ast.walk(node))
    ]


def test_no_party_asks_a_plan_for_its_class(tmp_path: Path) -> None:
    files = [
        path
        for room in ("analysis", "services", "shuffling")
        for path in sorted((repository.SOURCE / room).rglob("*.py"))
    ]
    assert len(files) > 30
    assert not {path.name: found for path in files if (found := asked_for_its_class(path))}
    sample = tmp_path / "sample.py"
    sample.write_text("if isinstance(plan, (int, ReachPlan)):\n    pass\n")
    assert asked_for_its_class(sample) == [1], "the rule finds what it forbids"


def test_every_kind_of_plan_has_its_work_at_every_party() -> None:
    kinds = {SURVEY.name: Plan.kind, REACH.name: ReachPlan.kind}
    assert kinds == {SURVEY.name: SURVEY, REACH.name: REACH}
    assert WORKS.keys() == kinds.keys()
    assert all(work.kind == kinds[name] for name, work in WORKS.items())
    assert analyzer.ANALYSES.keys() == kinds.keys() == set(NAMES)


def test_a_plan_of_another_kind_is_refused_by_every_party(tmp_path: Path) -> None:
    class OddPlan(Plan):
        kind = Kind("odd")

    keys = {name: KeyFolder.create(tmp_path / name) for name in ("hop", "analyzer")}
    hop, last = (
        Party(name, one.identity_hex, f"https://{name}.example") for name, one in keys.items()
    )
    usual = plan(Bit(), users=200, target=Target(3, 1e-4)).run_by(Parties((hop,), last))
    odd = OddPlan(**{one.name: getattr(usual, one.name) for one in fields(Plan)})
    starts: list[Callable[[Path, RunPlan], object]] = [
        lambda folder, one: Collector(folder, [one], keys["hop"]),
        lambda folder, one: Shuffler(
            folder, keys["hop"], [one], ShufflerSettings(openers=1)
        ).close(),
        lambda folder, one: analyzer.AnalyzerFront(folder, [one], keys["analyzer"]),
        lambda folder, one: analyzer.AnalyzerWorker(
            folder, [one], keys["analyzer"], settings=analyzer.AnalyzerSettings(openers=1)
        ).close(),
    ]
    for place, start in enumerate(starts):
        start(tmp_path / f"{place}", usual)
        with pytest.raises(InvalidInput, match="kind of a plan must be one of 'survey', 'reach'"):
            start(tmp_path / f"{place}-odd", odd)
