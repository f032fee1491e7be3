"""What is made public of a reach, with everything needed to judge it."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from chaffinch.errors import InvalidInput
from chaffinch.privacy import Guarantee
from chaffinch.release.release import guarantee_fields

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "chaffinch/reach-release@1"


class ReachRow(NamedTuple):
    """How many ids are in one group."""

    group: str
    kind: str
    """reach, publisher, only, overlap, frequency, or asked."""
    estimate: float
    standard_error: float
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all rows of the release at once."""
    high_together: float


@dataclass(frozen=True)
class ReachRelease:
    """The public result of one collection of filters."""

    plan_id: str
    title: str
    guarantee: Guarantee
    colluding_epsilon: float
    """What is left of it against a publisher who helps the analyzer."""
    key: str
    """The fingerprint of the campaign key."""
    batch: str
    """A name made of the random names of all filters."""
    publishers: tuple[str, ...]
    frequencies: int
    bits: int
    hashes: int
    flip: float
    level: float
    version: str
    rows: tuple[ReachRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def reach(self) -> ReachRow:
        """Return the number of ids that any publisher has."""
        return self.rows[0]

    def row(self, group: str) -> ReachRow:
        """Return the row of a group, by its name in words or by what tables call it."""
        from chaffinch.release.audience_sentences import sections

        known = {
            label: row
            for section in sections(self)
            for label, row in zip(section.labels, section.rows, strict=True)
        }
        # A publisher may be called what tables call a group: its own name comes first.
        known |= {row.group: row for row in self.rows}
        if group in known:
            return known[group]
        near = difflib.get_close_matches(str(group), known, n=1)
        listed = ", ".join(repr(row.group) for row in self.rows[:20])
        hint = f"did you mean {near[0]!r}?" if near else ""
        raise InvalidInput("group", f"one of {listed}", group, hint=hint)

    def table(self) -> list[ReachRow]:
        """Return all rows: group, kind, estimate, standard error and both intervals."""
        return list(self.rows)

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data."""
        colluding = self.colluding_epsilon
        return {
            "format": FORMAT,
            "plan": self.plan_id,
            "title": self.title,
            "version": self.version,
            "guarantee": guarantee_fields(self.guarantee),
            "colluding_epsilon": "infinite" if math.isinf(colluding) else colluding,
            "key": self.key,
            "batch": self.batch,
            "publishers": list(self.publishers),
            "filters": {
                "bits": self.bits,
                "hashes": self.hashes,
                "frequencies": self.frequencies,
                "flip_probability": self.flip,
            },
            "level": self.level,
            "groups": [row._asdict() for row in self.rows],
            "notes": list(self.notes),
        }

    def save(self, path: str | Path) -> None:
        """Write the release; the suffix says how: .json, .csv, .parquet or .html."""
        from chaffinch.release.audience_files import save_release

        save_release(self, path)

    def __str__(self) -> str:
        from chaffinch.release.audience_text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chaffinch.release.audience_page import summary

        return summary(self)
