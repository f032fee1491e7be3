"""How far the intervals of a release will reach from its estimates.

A margin is the larger distance from an estimate to an end of its interval, as a release prints it,
before it is cut at what is possible; of all counts and means the one with the largest. What is
seen of a batch changes it in two ways. Of uniform decoys as many are counted with as an honest
batch has at the most. And a mean of those who answered a number is more exact the more they are:
its margin is that of a collection in which everybody answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.plans.expansion import COUNT_SHARE, counts_gaps
from chaffinch.protocols.intervals import farthest_end, rounding_share
from chaffinch.protocols.noise import DecoyNoise, SeenDecoys, TallyNoise

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part


def largest_margin(
    parts: Sequence[Part], reports: int, alpha: float, *, together: bool = False
) -> float:
    """Return the largest margin of all questions, as a share of the reports or of a range.

    Intervals miss with a chance of at most ``alpha``: each by itself, or all of a question
    ``together``.
    """
    found = []
    for place, part in enumerate(parts):
        if counts_gaps(part.question):
            found.append(_margin_of_answered(part, parts[place + 1], reports, alpha))
        elif part.question.shape == "number":
            found.append(_margin_of_mean(part, reports, alpha))
        else:
            sharing = len(part.labels) if together else 1
            found.append(_margin_of_count(part, reports, alpha / sharing))
    return max(found)


def _margin_of_count(part: Part, reports: int, alpha: float) -> float:
    law = part.protocol.noise(part.question)
    if isinstance(law, DecoyNoise):
        # A batch with more messages than this is no honest one.
        most = part.protocol.most_messages(part.question, reports)
        assert most is not None  # noqa: S101 - known wherever decoys are counted
        law = SeenDecoys(law.values, np.array([most - reports]))
    assert isinstance(law, TallyNoise)  # noqa: S101 - there are no others
    return farthest_end(law, reports, alpha) / reports


def _margin_of_mean(part: Part, reports: int, alpha: float) -> float:
    steps = part.protocol.thermometer
    trials = steps.resolution * reports
    share, room = rounding_share(steps.noise, trials, reports, alpha)
    return (farthest_end(steps.noise, trials, alpha * (1.0 - share)) + room) / trials


def _margin_of_answered(number: Part, answered: Part, reports: int, alpha: float) -> float:
    """Return the margin of c + W/C, where C of n people answered and W is n times u.

    With the margins w of W/n and v of C/n, both ends of u/(C/n) are within (w + |u|·v)/(1 − v) of
    u, and u is half a range at the most.
    """
    own = _margin_of_mean(number, reports, alpha * (1.0 - COUNT_SHARE))
    people = _margin_of_count(answered, reports, alpha * COUNT_SHARE)
    return (own + 0.5 * people) / (1.0 - people) if people < 1.0 else 1.0
