"""Published figures and worked numbers, redrawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output

FigureName = Literal[
    "all",
    "one-bit-errors",
    "one-bit-delta",
    "ten-bits-errors",
    "ten-bits-delta",
    "random-responders-errors",
    "random-responders-delta",
    "three-sigma-numbers",
    "copies-numbers",
    "flipped-bit-formulas",
    "decoy-formulas",
    "flipped-value-formulas",
    "decoy-cover-formulas",
    "skewness",
    "moves",
    "coefficients",
    "amplification-by-users",
    "amplification-by-local-epsilon",
    "privacy-blanket",
]


def figures(
    name: FigureName = "all",
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Redraw published figures and worked numbers beside the exact values.

    Figures are SVG files, tables are CSV files. The page figures.html shows all of them, with what
    was published and whether it is true. For example: `chaffinch figures all -o figures`

    Parameters
    ----------
    name
        One figure or table, or all of them.
    out
        The folder for the files. No other file in it is overwritten.
    """
    from chaffinch.charts.gallery.exhibits import chosen_exhibits, write_gallery

    chosen = chosen_exhibits(name)
    with paths.fill_folder(out) as folder, output.counting("drawing", "done") as meter:

        def progress(done: int, what: str) -> None:
            meter(done, len(chosen))
            meter.words(f"drawing {what}")

        made = write_gallery(folder, chosen, progress=progress)
    files = {section: [str(out / path.name) for path in some] for section, some in made.items()}
    if output.json:
        listed = [
            {"name": one.name, "source": one.source, "files": files[one.name]} for one in chosen
        ]
        every = [file for some in files.values() for file in some]
        output.document({"figures": listed, "page": files["page"][0], "files": every})
        return
    for some in files.values():
        for file in some:
            output.drawing(file)
