"""Open the page of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli.output import Output


def web(
    folder: Path = Path(),
    *,
    port: int = 0,
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Open a page to plan, try, run, watch and read collections in a browser.

    Only this machine can reach it, under an address that nobody else knows; nothing leaves the
    machine. It ends with Ctrl+C.

    Parameters
    ----------
    folder
        The folder whose tables, surveys and releases the page shows.
    port
        The port; 0 is any free one.
    browser
        Open the browser.
    """
    from chaffinch.web.serving import serve

    def announce(address: str) -> None:
        if output.json:
            output.document({"address": address})
        else:
            output.drawing(address)
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(folder, announce, port=port)
