"""A plan, a tally and a table of data made by hand: nothing is planned, encoded or read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import chaffinch as cf
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.privacy import FlippedBits, compose
from chaffinch.protocols.flips import Flips
from chaffinch.runs.known_data import KnownData, SourceState
from chaffinch.wire.messages import Tally

USERS = 200
DELTA = 1e-6


def plan_of(flip: Fraction = Fraction(3, 8), rounds: int = 1, title: str = "") -> Plan:
    """Return a plan of one question, whose promise is that of its mechanism."""
    mechanism = FlippedBits(users=USERS, flip_probability=flip)
    epsilon = compose(mechanism, times=rounds).epsilon(DELTA).upper
    part = Part("tea", cf.Bit(missing="refuse"), Flips(flip))
    return Plan(title, (part,), USERS, USERS, USERS, rounds, epsilon, DELTA)


def tally_of(plan: Plan, name: str, count: int = 90, round_: int = 1) -> Tally:
    """Return what was counted in a batch of this name."""
    return Tally(plan.id, USERS, np.array([count], np.int64), name, round_)


def data_of(record: ReleaseRecord, *names: str) -> KnownData:
    """Return data that are called so in a record."""
    known = tuple(record.name_of("data", name.encode()) for name in names)
    return KnownData(record, None, SourceState("", ""), known, {})
