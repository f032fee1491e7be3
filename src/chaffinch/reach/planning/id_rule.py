"""How all publishers of a plan spell their ids: the rule's name, and what belongs to it.

Two lists can only be counted together where one person has one spelling in both. A plan names
the rule, so that its id binds it, and every publisher applies it before anything is hashed.
What a rule does to a text stands in ``reach.publisher.spelling``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from chaffinch.errors import InvalidInput, checks

RuleName = Literal["as-is", "lower-case", "e-mail", "phone"]
_COUNTRY_CODE = re.compile(r"[1-9][0-9]{0,2}")
_TRUNK = re.compile(r"[0-9]{0,2}")
_SENTENCES = {
    "as-is": "Ids are taken as they are, byte for byte",
    "lower-case": "Ids are trimmed and put into lower-case letters",
    "e-mail": "Ids are e-mail addresses, trimmed and put into lower-case letters, each with its "
    "domain as the domain name system writes it",
    "phone": "Ids are phone numbers, written as a plus and 8 to 15 digits (E.164)",
}


@dataclass(frozen=True)
class IdRule:
    """How ids are spelled: ``as-is``, ``lower-case``, ``e-mail`` or ``phone``.

    Phone numbers without a plus or 00 in front get the ``country_code``, if there is one; the
    ``trunk`` prefix that people dial first within that country is left out: "0" in most of
    Europe, "1" in North America, nothing in Italy.

    >>> IdRule("phone", country_code="49", trunk="0").words
    'phone (numbers without a plus are of +49, a 0 in front is left out)'
    """

    name: str = "as-is"
    country_code: str | None = None
    trunk: str | None = None

    def __post_init__(self) -> None:
        checks.choice("rule for ids", self.name, get_args(RuleName))
        if (self.country_code is None) != (self.trunk is None):
            raise InvalidInput(
                "country code",
                "given with the trunk prefix of that country",
                "one without the other",
                hint='the trunk prefix is "0" in most of Europe, "1" in North America, "" in Italy',
            )
        if self.country_code is None or self.trunk is None:
            return
        if self.name != "phone":
            raise InvalidInput("country code", "one for the rule 'phone'", self.name)
        for parameter, given, form, must_be in (
            ("country code", self.country_code, _COUNTRY_CODE, "one to three digits, such as 49"),
            ("trunk prefix", self.trunk, _TRUNK, "two digits at most, such as 0"),
        ):
            text: object = given
            if not (isinstance(text, str) and text.isascii() and form.fullmatch(text)):
                raise InvalidInput(parameter, must_be, text)

    @property
    def words(self) -> str:
        """Return the rule's name, with what belongs to it."""
        if self.country_code is None:
            return self.name
        left_out = f", a {self.trunk} in front is left out" if self.trunk else ""
        return f"{self.name} (numbers without a plus are of +{self.country_code}{left_out})"

    @property
    def sentence(self) -> str:
        """Return what the rule does, without a full stop."""
        if self.country_code is None:
            return _SENTENCES[self.name]
        left_out = f", without the {self.trunk} in front of them" if self.trunk else ""
        return (
            f"{_SENTENCES[self.name]}; those without a plus are of +{self.country_code}{left_out}"
        )


AS_IS = IdRule()


def id_rule(given: IdRule | str) -> IdRule:
    """Return a rule, which may be given by its name."""
    wanted: object = given
    if isinstance(wanted, IdRule):
        return wanted
    if isinstance(wanted, str):
        return IdRule(wanted)
    raise InvalidInput("rule for ids", "an IdRule or its name", type(wanted).__name__)
