"""The publisher's last step under a plan that names its parties: the filter leaves, sealed."""

from __future__ import annotations

from pathlib import Path

from chaffinch.cli import paths
from chaffinch.cli.output import Output


def send(
    filter: Path,  # noqa: A002 - the name of the argument in the help
    /,
    *,
    plan: Path,
    keys: Path,
    patience: float = 60.0,
    trusted: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Seal a filter for the shuffler, sign it and send it, once, whatever fails on the way.

    The plan must name its parties. The shuffler takes one filter of each publisher. What is sent is
    kept beside the filter: the same command again sends the same bytes.

    Parameters
    ----------
    filter
        The filter file of `chaffinch reach encode`.
    plan
        The plan file.
    keys
        The key folder of this publisher, of `chaffinch keys create`; the plan names its identity.
    patience
        Seconds for which a shuffler that does not answer is asked again.
    trusted
        A file of TLS roots, in place of the system's.
    """
    from chaffinch.keys import KeyFolder
    from chaffinch.reach.publisher.sending import send_filter

    found = paths.open_reach_plan(plan)
    source = paths.require_file(paths.require_name(filter))
    own = KeyFolder.open(keys)
    try:
        with output.thinking("sending"):
            sent = send_filter(
                source, found, own, patience=patience, trusted=trusted, tell=output.say
            )
    except KeyboardInterrupt:
        output.say(
            "the filter may have arrived or not: the same command again sends it, and nothing twice"
        )
        raise
    shuffler = found.named_parties.hops[0].name
    if output.json:
        output.document(
            {
                "plan": found.id,
                "publisher": sent.publisher,
                "new": sent.new,
                "sha256": sent.digest,
                "receipt": sent.receipt.hex(),
            }
        )
    elif sent.new:
        output.say(f"{shuffler} has the filter of {sent.publisher}, and has signed for it")
    else:
        output.say(f"{shuffler} had this filter of {sent.publisher} before, and has signed for it")
