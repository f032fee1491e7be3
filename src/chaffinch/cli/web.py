"""Open the page of this machine."""

from __future__ import annotations

import html
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    with _private_opener() as open_address:

        def announce(address: str) -> None:
            if output.json:
                output.document({"address": address})
            else:
                output.drawing(address)
            sys.stdout.flush()
            if browser:
                open_address(address)

        serve(folder, announce, port=port)


@contextmanager
def _private_opener() -> Iterator[Callable[[str], object]]:
    """Yield what opens an address in the browser so that no other user of the machine can read it.

    A browser is told where to go in its command line, which everybody can read. So it is told of
    a file that only this user can, and the file sends it on.
    """
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as place:  # mode 0700

        def open_address(address: str) -> None:
            import webbrowser

            page = Path(place) / "open.html"
            page.touch(0o600, exist_ok=False)
            page.write_text(_REDIRECT.format(html.escape(address)), encoding="utf-8")
            webbrowser.open(page.as_uri())

        yield open_address


_REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}"><title>chaffinch</title></head>
<body><p><a href="{0}">Open the page</a></p></body></html>
"""
