r"""How all publishers of a plan spell their ids: the rule, and what it does to a text.

Two lists can only be counted together where one person has one spelling in both. A plan names
the rule, so that its id binds it, and every publisher applies it before anything is hashed. What
each rule does to a text, so that another program can do the same:

``as-is``
    Nothing: an id is its bytes.
``lower-case``
    White space at both ends is left out. Then Unicode's normal form C, the simple lower-case
    mapping of every character by itself (İ becomes i, a final Σ becomes σ), and form C again.
``e-mail``
    As ``lower-case``. The part behind the @ is then written as the domain name system has it
    (IDNA of 2003, RFC 3490, where it is not ASCII already: münchen.de is xn--mnchen-3ya.de).
    What stands before it is kept: dots and +tags tell people apart at some providers.
``phone``
    White space, brackets, full stops, slashes, dashes and invisible characters are left out,
    and so is the (0) in +49 (0)170. A leading 00 is a plus. Without either, a number is of the
    plan's country code, if it has one: its trunk prefix is left out. A number that begins with
    the country code itself could be read in two ways, and does not fit.

Every rule leaves what it has spelled as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.wire.document_forms import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


RuleName = Literal["as-is", "lower-case", "e-mail", "phone"]
_COUNTRY_CODE = re.compile(r"[1-9][0-9]{0,2}")
_TRUNK = re.compile(r"[0-9]{0,2}")
_SENTENCES = {
    "as-is": "Ids are taken as they are: another spelling is another id",
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
                Unquoted("one without the other"),
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


class IdsForm(Form):
    """How ids are spelled, where they are not taken as they are."""

    makes = IdRule

    name: Annotated[RuleName, Field(alias="rule")]
    country_code: str | None = None
    trunk: str | None = None


# ----------------------------------------------------------------------------
# What each rule does to a text, a batch at a time.

_BEFORE_AT = r'[^\p{Z}\p{Cc}\p{Cf}@"(),:;<>\[\\\]]{1,64}'
_DOMAIN = r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])"
_ADDRESS = rf"^{_BEFORE_AT}@{_DOMAIN}$"
_LONGEST_ADDRESS = 254
_FOREIGN_DOMAIN = r"^[^@]+@[^@]*[^\x00-\x7f@][^@]*$"
_BETWEEN_DIGITS = r"[\p{Z}\p{Pd}\p{Cf}\x{2212}\t\n\v\f\r()\[\]./]"
_BRACKETED_TRUNK = r"^(\s*(?:\+|00)[^()]*)\(0\)"
_LIKE_A_PHONE = r"^(\+[0-9 ()./-]{8,}|[0(][0-9]*[ ()./-][0-9 ()./-]{6,})$"
_NUMBER = r"^\+[1-9][0-9]{7,14}$"


def spell_ids(texts: pa.Array, rule: IdRule) -> pa.Array:
    """Return texts as a rule spells them: nothing for blanks, a gap for what does not fit.

    >>> import pyarrow as pa
    >>> from chaffinch.reach.planning.id_rule import IdRule
    >>> spell_ids(pa.array([" Ann@Example.ORG", "ann", " "]), IdRule("e-mail")).to_pylist()
    ['ann@example.org', None, '']
    """
    return _SPELLED[rule.name](texts, rule)


@dataclass(frozen=True)
class Likeness:
    """What ids look like that a plan takes as they are.

    >>> import pyarrow as pa
    >>> likeness(pa.array([" Ann@b.org", "bob@b.org"]))
    Likeness(ids=2, addresses=2, phones=0, changed=1)
    """

    ids: int = 0
    addresses: int = 0
    phones: int = 0
    """Texts of digits that have a plus in front or signs between them."""
    changed: int = 0
    """Ids that have capital letters, white space at an end, or, as phone numbers, other signs."""

    def __add__(self, more: Likeness) -> Likeness:
        return Likeness(
            self.ids + more.ids,
            self.addresses + more.addresses,
            self.phones + more.phones,
            self.changed + more.changed,
        )

    @property
    def rule(self) -> str:
        """Return the rule that was probably meant."""
        if 2 * self.addresses > self.ids:
            return "e-mail"
        return "phone" if 2 * self.phones > self.ids else "lower-case"

    @property
    def kind(self) -> str:
        """Return what these probably are."""
        return {"e-mail": "e-mail addresses", "phone": "phone numbers"}.get(self.rule, "ids")

    @property
    def doubtful(self) -> bool:
        """Return whether these are addresses or phone numbers in more than one way of writing."""
        return self.changed > 0 and self.rule != "lower-case"


NO_LIKENESS = Likeness()


def likeness(texts: pa.Array) -> Likeness:
    """Return what ids look like; of bytes that are no texts nothing is known."""
    import pyarrow as pa
    from pyarrow import compute

    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return NO_LIKENESS

    def count(some: pa.Array) -> int:
        return compute.sum(some).as_py() or 0

    try:
        small = _lower_case(texts, AS_IS)
        phones = compute.match_substring_regex(small, _LIKE_A_PHONE)
        signs = compute.and_(phones, compute.match_substring_regex(small, "[^0-9+]"))
        changed = compute.or_(compute.not_equal(texts, small), signs)
        there = compute.not_equal(small, _like([""], small)[0])
        return Likeness(
            count(there),
            count(compute.match_substring(small, "@")),
            count(phones),
            count(compute.and_(changed, there)),
        )
    except pa.ArrowException:
        return NO_LIKENESS


def _as_is(texts: pa.Array, _rule: IdRule) -> pa.Array:
    return texts


def _lower_case(texts: pa.Array, _rule: IdRule) -> pa.Array:
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(texts)
    if compute.all(compute.string_is_ascii(trimmed)).as_py() is not False:
        return compute.ascii_lower(trimmed)
    # Twice: J with a caron has no capital letter of its own, and so has form C before but not
    # after its letter became a small one.
    small = compute.utf8_lower(compute.utf8_normalize(trimmed, form="NFC"))
    return compute.utf8_normalize(small, form="NFC")


def _e_mail(texts: pa.Array, rule: IdRule) -> pa.Array:
    from pyarrow import compute

    small = _lower_case(texts, rule)
    foreign = compute.match_substring_regex(small, _FOREIGN_DOMAIN)
    if compute.any(foreign).as_py():
        parts = [one.partition("@") for one in small.filter(foreign).to_pylist()]
        written = {one: _ascii_domain(one) for one in {domain for _, _, domain in parts}}
        found = [f"{name}@{written[domain]}" for name, _, domain in parts]
        small = compute.replace_with_mask(small, foreign, _like(found, small))
    fits = compute.match_substring_regex(small, _ADDRESS)
    short = compute.less_equal(compute.binary_length(small), _LONGEST_ADDRESS)
    return _kept(small, compute.and_(fits, short))


def _ascii_domain(domain: str) -> str:
    """Return a domain as the domain name system writes it.

    One that cannot be written so keeps its letters, which the rule does not let pass.
    """
    if len(domain) > _LONGEST_ADDRESS:
        return domain
    try:
        return domain.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return domain


def _phone(texts: pa.Array, rule: IdRule) -> pa.Array:
    from pyarrow import compute

    def replaced(some: pa.Array, pattern: str, by: str) -> pa.Array:
        return compute.replace_substring_regex(some, pattern=pattern, replacement=by)

    plain = replaced(replaced(texts, _BRACKETED_TRUNK, r"\1"), _BETWEEN_DIGITS, "")
    plain = replaced(plain, "^00", "+")
    if rule.country_code is not None:
        trunk, code = re.escape(rule.trunk or ""), rule.country_code
        if trunk:
            plain = replaced(plain, f"^{trunk}([0-9]+)$", rf"+{code}\1")
        twofold = compute.match_substring_regex(plain, f"^{code}")
        national = replaced(plain, "^([0-9]+)$", rf"+{code}\1")
        plain = compute.if_else(twofold, plain, national)
    return _kept(plain, compute.match_substring_regex(plain, _NUMBER))


def _kept(spelled: pa.Array, fits: pa.Array) -> pa.Array:
    """Return what fits, or is blank; a gap for everything else."""
    import pyarrow as pa
    from pyarrow import compute

    blank = compute.equal(spelled, _like([""], spelled)[0])
    return compute.if_else(compute.or_(fits, blank), spelled, pa.scalar(None, spelled.type))


def _like(texts: list[str], array: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(texts, array.type)


_SPELLED: dict[str, Callable[[pa.Array, IdRule], pa.Array]] = {
    "as-is": _as_is,
    "lower-case": _lower_case,
    "e-mail": _e_mail,
    "phone": _phone,
}
