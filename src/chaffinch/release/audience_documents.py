"""Releases of a reach read back from JSON, checked field by field."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from chaffinch.errors import InvalidInput
from chaffinch.files import read_small
from chaffinch.planning.audiences.audience import Audience
from chaffinch.release.audience_release import FORMAT, ReachRelease, ReachRow
from chaffinch.release.documents import (
    LARGEST_FILE,
    Amount,
    GuaranteeModel,
    Strict,
    Text,
    contradiction,
    listing_faults,
    read_back,
)
from chaffinch.wire.filter_files import LEAST_BITS, MOST_BITS

Hexadecimal = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class GroupModel(Strict):
    """How many ids are in one group."""

    group: Text
    kind: Literal["reach", "publisher", "only", "overlap", "frequency", "asked"]
    estimate: FiniteFloat
    standard_error: Amount
    low: Amount
    high: Amount
    low_together: Amount
    high_together: Amount


class FilterModel(Strict):
    """What all filters had in common."""

    bits: Annotated[int, Field(ge=LEAST_BITS, le=MOST_BITS)]
    hashes: Annotated[int, Field(ge=1)]
    frequencies: Annotated[int, Field(ge=1)]
    flip_probability: Annotated[float, Field(gt=0, lt=0.5)]


class ReachReleaseModel(Strict):
    """A release file."""

    format: Literal["chaffinch/reach-release@1"]
    plan: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    title: Text
    version: Text
    guarantee: GuaranteeModel
    colluding_epsilon: Amount | Literal["infinite"]
    key: Hexadecimal
    batch: Hexadecimal
    publishers: Annotated[list[Text], Field(min_length=1)]
    filters: FilterModel
    level: Annotated[float, Field(gt=0, lt=1)]
    groups: Annotated[list[GroupModel], Field(min_length=1)]
    notes: list[Text]

    def build(self) -> ReachRelease:
        """Return the release."""
        left, filters = self.colluding_epsilon, self.filters
        return ReachRelease(
            plan_id=self.plan,
            title=self.title,
            guarantee=self.guarantee.build(),
            colluding_epsilon=math.inf if left == "infinite" else left,
            key=self.key,
            batch=self.batch,
            publishers=tuple(self.publishers),
            frequencies=filters.frequencies,
            bits=filters.bits,
            hashes=filters.hashes,
            flip=filters.flip_probability,
            level=self.level,
            version=self.version,
            rows=tuple(ReachRow(**dict(one)) for one in self.groups),
            notes=tuple(self.notes),
        )


def load_release(path: str | Path) -> ReachRelease:
    """Return the release in a JSON file; refuse one of another format or with any fault.

    That it is the release of a plan cannot be seen from the file: compare ``plan_id``.
    """
    text = read_small(path, most=LARGEST_FILE, must_be=f"a release in the format {FORMAT}")
    return release_from(text, name=Path(path).name)


def release_from(text: str | bytes, *, name: str = "release") -> ReachRelease:
    """Return the release in a text."""
    document = read_back(text, FORMAT, name=name)
    with listing_faults(FORMAT, name):
        release = ReachReleaseModel.model_validate(document).build()
    if release.document() != document or not _sound(release):
        raise contradiction(FORMAT, name)
    return release


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release files."""
    return ReachReleaseModel.model_json_schema()


def _sound(release: ReachRelease) -> bool:
    """Return whether there can be such a release: one reach, possible publishers, intervals."""
    try:
        Audience(release.publishers, frequencies=release.frequencies)
    except InvalidInput:
        return False
    kinds = [row.kind for row in release.rows]
    ordered = all(
        row.low <= row.high and row.low_together <= row.high_together for row in release.rows
    )
    return ordered and kinds[0] == "reach" and kinds.count("reach") == 1
