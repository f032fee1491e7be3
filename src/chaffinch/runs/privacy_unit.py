"""The privacy unit of a table: a person, or one row where nobody tells people apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.plans.protected_units import Unit
    from chaffinch.questions import PublicGroup
    from chaffinch.tables.read import Table

_LIKE_PEOPLE = re.compile(
    r"(user|person|people|customer|client|member|patient|visitor|device|account|subject)"
    r"[ _-]?(id|no|number|key)|e-?mail|uuid|guid|id",
    re.IGNORECASE | re.ASCII,
)
"""Names of columns that usually tell people apart."""
_PERSON = "--person COLUMN (person=...)"
_ROWS = "--rows-are-people (rows_are_people=True)"


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose rows a table holds: a column identifies the person, every row is one, or neither."""

    person: str | None = None
    contributions: int = 1
    rows_are_people: bool = False

    def check(self, group: PublicGroup | None) -> None:
        """Refuse two rules at once, a missing column of people, and one with public groups."""
        if self.person is not None and self.rows_are_people:
            raise InvalidInput(
                "people", "told apart by a column or by rows, not by both", Unquoted("both")
            )
        if self.person is None and self.contributions > 1:
            raise InvalidInput(
                "people",
                "told apart by a column where each has several rows",
                Unquoted("no such column"),
                hint=f"name it: {_PERSON}, or `person` in the survey",
            )
        if self.person is not None and group is not None:
            raise InvalidInput(
                "people",
                "told apart by rows where groups are public",
                Unquoted("a column of people"),
                hint="who has rows in several groups would be in several collections: make the "
                "group private with `by`",
            )

    @property
    def unit(self) -> Unit:
        """Return what a release protects."""
        return "person" if self.person is not None or self.rows_are_people else "row"

    def hint(self, table: Table, group: PublicGroup | None) -> str:
        """Return advice where only rows are protected; it names a column that looks like people.

        Other names of columns are not shown: in a table without a first line they are cells.
        Where groups are public, no column can tell people apart.
        """
        if group is not None:
            return (
                "one row is protected, and not one person with several rows, in one public group "
                "or in several: make the group private with `by` and tell people apart with "
                f"--person (person=...), or say with {_ROWS} that every row is another person"
            )
        likely = [name for name in table.columns if _LIKE_PEOPLE.fullmatch(name)]
        column = f", such as {likely[0]!r}" if likely else ""
        return (
            f"one row is protected, and not one person with several rows: {_PERSON}{column} "
            f"tells people apart, {_ROWS} says that every row is another person"
        )
