"""Three published observations on signal to noise, drawn anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output


def figures(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Draw published observations on signal to noise anew, with what is true of each.

    All other figures: `chaffinch figures all`.

    Parameters
    ----------
    out
        The folder for the figures (SVG) and the page that shows them all.
    """
    from chaffinch.charts.gallery.signal_to_noise import write_figures

    with paths.fill_folder(out) as folder, output.thinking("drawing"):
        names = [path.name for path in write_figures(folder)]
    files = [str(out / name) for name in names]
    if output.json:
        output.document({"files": files})
        return
    for file in files:
        output.drawing(file)
