"""Make the secret key that the publishers of one collection share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.errors import InvalidInput
from chaffinch.storage.leftovers import remove_leftovers

_ABOUT_KEYS = (
    "Give it to the publishers of one collection and to nobody else: in mail sealed to each of "
    "them (HPKE), or through a secret manager; never beside a filter. The analyzer must not have "
    "it, nor a shuffler: with the key, an id's columns can be looked up. It is for one collection; "
    "the next one needs a new key."
)


def key(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Make the secret key that the publishers of one collection share.

    It is for publishers only: the analyzer must never have it. A file that exists is not
    overwritten.

    Parameters
    ----------
    out
        The new file, such as campaign.key; only you will be able to read it.
    """
    from chaffinch import reach

    # One that was killed after the key had its name leaves a second name for it.
    remove_leftovers(paths.require_name(out).parent)
    if out.exists():
        hint = "a key is never overwritten: name another file"
        raise InvalidInput("file of a new key", "one that does not exist yet", out.name, hint=hint)
    reach.new_key().save(out)
    if output.json:
        output.document({"file": str(out), "for": "publishers only, one collection"})
        return
    output.say(f"wrote {out}, readable by you only")
    output.words(_ABOUT_KEYS)
