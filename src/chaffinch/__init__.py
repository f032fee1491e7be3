"""Count a crowd without seeing anyone in it.

Four verbs, in the order data flows: ``plan`` a collection, ``encode`` answers on each
device, ``shuffle`` the messages, ``analyze`` what arrives. ``chaffinch.privacy`` says exactly
how private all that is. Parts load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch import charts, errors, privacy, reach, simulate
    from chaffinch.analysis.analyze import analyze
    from chaffinch.analysis.trend import trend
    from chaffinch.encoding.bulk import encode_many
    from chaffinch.encoding.client import Client
    from chaffinch.encoding.device import encode
    from chaffinch.errors import checks
    from chaffinch.ledger import Ledger
    from chaffinch.planning.costs.cost import Cost, Prices
    from chaffinch.planning.planner import plan
    from chaffinch.planning.wishes import Error
    from chaffinch.plans.plan import Plan, load_plan
    from chaffinch.privacy import Target
    from chaffinch.privacy.progress import show_progress
    from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Survey
    from chaffinch.reach.planning.audience import Audience
    from chaffinch.release.surveys import Release, ReleaseRow, load_release
    from chaffinch.runs.run_table import finish_run, run
    from chaffinch.runs.survey_draft import SurveyDraft, draft_survey
    from chaffinch.runs.table_check import TableCheck, check
    from chaffinch.shuffling.in_memory import shuffle
    from chaffinch.simulate.randomizers import audit

__version__ = "0.1.0.dev0"

__all__ = [
    "Audience",
    "Bit",
    "Choice",
    "Client",
    "Cost",
    "Cross",
    "Error",
    "Flags",
    "Ledger",
    "Number",
    "Plan",
    "Prices",
    "Release",
    "ReleaseRow",
    "Survey",
    "SurveyDraft",
    "TableCheck",
    "Target",
    "__version__",
    "analyze",
    "audit",
    "charts",
    "check",
    "checks",
    "draft_survey",
    "encode",
    "encode_many",
    "errors",
    "finish_run",
    "load_plan",
    "load_release",
    "plan",
    "privacy",
    "reach",
    "run",
    "show_progress",
    "shuffle",
    "simulate",
    "trend",
]

_PARTS = {
    "charts": "charts",
    "checks": "errors.checks",
    "errors": "errors",
    "privacy": "privacy",
    "reach": "reach",
    "simulate": "simulate",
}
_NAMES = {
    "Audience": "reach.planning.audience",
    "Bit": "questions",
    "Choice": "questions",
    "Client": "encoding.client",
    "Cost": "planning.costs.cost",
    "Cross": "questions",
    "Error": "planning.wishes",
    "Flags": "questions",
    "Ledger": "ledger",
    "Number": "questions",
    "Plan": "plans.plan",
    "Prices": "planning.costs.cost",
    "Release": "release.surveys",
    "ReleaseRow": "release.surveys",
    "Survey": "questions",
    "SurveyDraft": "runs.survey_draft",
    "TableCheck": "runs.table_check",
    "Target": "privacy",
    "analyze": "analysis.analyze",
    "audit": "simulate.randomizers",
    "check": "runs.table_check",
    "draft_survey": "runs.survey_draft",
    "encode": "encoding.device",
    "encode_many": "encoding.bulk",
    "finish_run": "runs.run_table",
    "load_plan": "plans.plan",
    "load_release": "release.surveys",
    "plan": "planning.planner",
    "run": "runs.run_table",
    "show_progress": "privacy.progress",
    "shuffle": "shuffling.in_memory",
    "trend": "analysis.trend",
}


def __getattr__(name: str) -> Any:
    """Load a part of chaffinch on first use (PEP 562)."""
    if name in _PARTS:
        return importlib.import_module(f"chaffinch.{_PARTS[name]}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
