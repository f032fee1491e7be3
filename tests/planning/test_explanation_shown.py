"""An explanation of a plan, as a notebook shows it."""

from __future__ import annotations

import re
from importlib import import_module

import chaffinch as cf


def test_an_explanation_reads_as_paragraphs_and_names_protocols_of_all_parts_once() -> None:
    survey = cf.Survey({name: cf.Bit(missing="refuse") for name in ("tea", "milk", "age")})
    plan = cf.plan(survey, users=6000, target=cf.Target(2, 1e-6), view="totals")
    said = plan.explain()
    assert import_module("IPython.lib.pretty").pretty(said) == str(said)
    assert "\n\n" in said
    assert "discrete Gaussian" in said
    assert not re.search("(discrete [GL][a-z]+); totals, \\1", said)
