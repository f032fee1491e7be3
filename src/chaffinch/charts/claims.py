"""Which published formulas speak about a mechanism, and with which parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.published import FORMULAS, Formula

_BY_NAME = {formula.name: formula for formula in FORMULAS}


@dataclass(frozen=True, slots=True)
class Claim:
    """A formula together with the parameters of one mechanism."""

    label: str
    formula: Formula
    parameters: dict[str, Any]

    def delta(self, epsilon: float) -> float:
        """Return the delta that is claimed at ``epsilon``; 1 where nothing is claimed."""
        if self.formula.claimed_delta is None:
            return 1.0
        try:
            return self.formula.claimed_delta(epsilon=epsilon, **self.parameters)
        except InvalidInput:
            return 1.0

    @property
    def epsilon_alone(self) -> float:
        """Return the epsilon of a formula that knows no delta; NaN for any other formula."""
        if self.formula.claimed_delta is not None or self.formula.claimed_epsilon is None:
            return math.nan
        return self.formula.claimed_epsilon(**self.parameters)


def about(mechanism: Mechanism) -> tuple[Claim, ...]:
    """Return what has been claimed about ``mechanism``, empty where nothing was."""
    find = _FINDERS.get(type(mechanism))
    return tuple(find(mechanism)) if find else ()


def _about_bits(mechanism: Any) -> Iterator[Claim]:
    if mechanism.decoys:
        return
    here = {"users": mechanism.users, "flip_probability": mechanism.flip_probability}
    if mechanism.copies > 1:
        formula = _BY_NAME["three_sigma_copies_flip_probability"]
        yield Claim("S1 (5.24), no delta", formula, here | {"copies": mechanism.copies})
        return
    # S0 (4.36) is left out: it speaks of one crowd, and these lines of all crowds.
    yield Claim("S0 (4.48)", _BY_NAME["any_crowd_flip_probability"], here)
    yield Claim("Cheu 2019", _BY_NAME["binary_sum_flip_probability"], here)
    yield Claim("S1 (4.45), no delta", _BY_NAME["three_sigma_flip_probability"], here)


def _about_decoyed(mechanism: Any) -> Iterator[Claim]:
    if mechanism.rate == 1:
        here = {"decoys": mechanism.senders, "values": mechanism.values}
        yield Claim("S0 (5.10)", _BY_NAME["clear_decoys"], here)


def _about_values(mechanism: Any) -> Iterator[Claim]:
    flip = {"flip_probability": mechanism.flip_probability}
    here = flip | {"users": mechanism.users, "decoys": mechanism.decoys}
    yield Claim("S0 (5.16)", _BY_NAME["flipped_values_flip_probability"], here)
    if mechanism.decoys:
        here = flip | {"decoys": mechanism.decoys}
        yield Claim("S0 (5.26)", _BY_NAME["decoy_cover_flip_probability"], here)


_FINDERS: dict[type[Mechanism], Callable[[Any], Iterator[Claim]]] = {
    privacy.DecoyedValues: _about_decoyed,
    privacy.FlippedBits: _about_bits,
    privacy.FlippedValues: _about_values,
}
