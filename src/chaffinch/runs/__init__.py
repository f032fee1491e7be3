"""Releases from a table that one party holds: check the table, draft a survey, run it, pay once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.runs.run_table import finish_run, run
    from chaffinch.runs.survey_draft import SurveyDraft, draft_survey
    from chaffinch.runs.table_check import CheckedQuestion, TableCheck, check

__all__ = [
    "CheckedQuestion",
    "SurveyDraft",
    "TableCheck",
    "check",
    "draft_survey",
    "finish_run",
    "run",
]

_NAMES = {
    "CheckedQuestion": "table_check",
    "SurveyDraft": "survey_draft",
    "TableCheck": "table_check",
    "check": "table_check",
    "draft_survey": "survey_draft",
    "finish_run": "run_table",
    "run": "run_table",
}


def __getattr__(name: str) -> Any:
    """Load a name on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.runs.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.runs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
