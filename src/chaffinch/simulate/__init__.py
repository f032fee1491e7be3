"""Whole collections of made-up people: how exact, and how private, the pipeline really is.

>>> import chaffinch as cf
>>> from chaffinch.simulate import simulate, uniform
>>> plan = cf.plan(cf.Bit(), users=1000, target=cf.Target(epsilon=1, delta=1e-6))
>>> simulate(plan, uniform(plan, 1000, seed=1), runs=1000, seed=2).ok
True
"""

from __future__ import annotations

from chaffinch.protocols.noise import Truth
from chaffinch.simulate.accuracy import Simulation, simulate
from chaffinch.simulate.audits import Audit, Finding, audit
from chaffinch.simulate.guessing import Guess, GuessingGame, Score, guessing_game
from chaffinch.simulate.populations import Population, from_column, uniform, zipf
from chaffinch.simulate.publishers import (
    Publishers,
    disjoint,
    draw_logos,
    heavy_tailed,
    independent,
    nested,
    seen_again,
)
from chaffinch.simulate.randomizers import RandomizerAudit, audit_randomizer
from chaffinch.simulate.seeded import SeededWords
from chaffinch.simulate.small_collections import Pipeline
from chaffinch.simulate.views import AnalyzerView, Collection, Device, Sender, ShufflerView, collect

__all__ = [
    "AnalyzerView",
    "Audit",
    "Collection",
    "Device",
    "Finding",
    "Guess",
    "GuessingGame",
    "Pipeline",
    "Population",
    "Publishers",
    "RandomizerAudit",
    "Score",
    "SeededWords",
    "Sender",
    "ShufflerView",
    "Simulation",
    "Truth",
    "audit",
    "audit_randomizer",
    "collect",
    "disjoint",
    "draw_logos",
    "from_column",
    "guessing_game",
    "heavy_tailed",
    "independent",
    "nested",
    "seen_again",
    "simulate",
    "uniform",
    "zipf",
]
