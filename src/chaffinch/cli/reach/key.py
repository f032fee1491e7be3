"""Make the secret key that the publishers of one collection share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output

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
    paths.require_new(out, "campaign key", hint="a key is never overwritten: name another file")
    cf.reach.new_key().save(out)
    if output.json:
        output.document({"file": str(out), "for": "publishers only, one collection"})
        return
    output.say(f"wrote {out}, readable by you only")
    if not output.quiet:
        output.words(_ABOUT_KEYS)
