"""A kind of plan is an interface: no service asks a plan for its class."""

from __future__ import annotations

import ast
from pathlib import Path

from chaffinch.plans.plan import SURVEY, Plan
from chaffinch.reach.planning.reach_plan import REACH, ReachPlan
from chaffinch.services import analyzer
from chaffinch.services.shuffler import WORKS
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
    assert analyzer.ANALYSES.keys() == kinds.keys()
