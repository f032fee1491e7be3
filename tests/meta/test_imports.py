"""Who may import whom. Package boundaries are trust boundaries, so this is checked by text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.meta import repository

PARTIES = (
    ("encoding", "reach/publisher"),
    ("shuffling", "reach/shuffler"),
    ("analysis", "reach/analyzer"),
)
"""Who encodes, who shuffles and who analyzes, each of a survey and of a reach."""

# Besides the standard library. A name allows what is inside it.
PRIVACY_MAY_IMPORT = (
    "chaffinch.cards",
    "chaffinch.errors",
    "chaffinch.privacy",
    "flint",
    "numpy",
    "scipy.special",
)


def allowed(name: str) -> bool:
    if name.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    # `from chaffinch.errors import checks` arrives here as "chaffinch.errors.checks".
    return any(name == good or name.startswith(f"{good}.") for good in PRIVACY_MAY_IMPORT)


def sources(package: str) -> list[tuple[Path, str]]:
    """Return the files of one package, each with the package its relative imports start from."""
    folder = repository.SOURCE / package
    return [
        (path, ".".join(["chaffinch", *path.relative_to(repository.SOURCE).parent.parts]))
        for path in sorted(folder.rglob("*.py"))
    ]


def test_privacy_is_there_to_be_checked() -> None:
    assert sources("privacy")


@each_case(
    ("path", "package"), [pytest.param(*pair, id=pair[0].stem) for pair in sources("privacy")]
)
def test_privacy_imports_only_pure_mathematics(path: Path, package: str) -> None:
    foreign = {name for name in repository.imports(path, package=package) if not allowed(name)}
    assert not foreign


@pytest.mark.parametrize("party", PARTIES, ids=lambda rooms: rooms[0])
def test_parties_never_import_one_another(party: tuple[str, ...]) -> None:
    foreign = tuple(
        f"chaffinch.{room.replace('/', '.')}."
        for other in PARTIES
        if other != party
        for room in other
    )
    for room in party:
        assert sources(room)
        for path, package in sources(room):
            names = repository.imports(path, package=package)
            crossed = {name for name in names if f"{name}.".startswith(foreign)}
            assert not crossed, f"{path.name} crosses a trust boundary"


HOP = ("collector", "group_commit", "hop", "shuffler")
ANALYZER = ("analyzer", "analyzer_process")


@pytest.mark.parametrize(
    ("own", "others", "room"), [(HOP, ANALYZER, "analysis"), (ANALYZER, HOP, "shuffling")]
)
def test_services_of_one_party_never_import_those_of_another(
    own: tuple[str, ...], others: tuple[str, ...], room: str
) -> None:
    foreign = (f"chaffinch.{room}.", *(f"chaffinch.services.{other}." for other in others))
    for path, package in sources("services"):
        if path.stem in own:
            names = repository.imports(path, package=package)
            assert not {name for name in names if f"{name}.".startswith(foreign)}
    assert set(own) <= {path.stem for path, _ in sources("services")}


@each_case(
    "line",
    [
        "import scipy.stats",
        "from scipy import stats",
        "from scipy.stats import binom",
        "import scipy",
        "import matplotlib.pyplot as plt",
        "from chaffinch import charts",
        "from chaffinch.charts import curves",
        "from .. import charts",
        "from ..charts import curves",
        "def late() -> None:\n    import pandas",
    ],
)
def test_the_rule_refuses_what_it_should(line: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(line, encoding="utf-8")
    names = repository.imports(path, package="chaffinch.privacy")
    assert not any(map(allowed, names))


@each_case(
    "line",
    [
        "import math",
        "import numpy as np",
        "from scipy import special",
        "from scipy.special import gammaln",
        "from chaffinch.errors import checks",
        "from chaffinch.errors import InvalidInput",
        "from . import laws",
        "from .laws import windows",
        "import flint",
    ],
)
def test_the_rule_allows_what_it_should(line: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(line, encoding="utf-8")
    names = repository.imports(path, package="chaffinch.privacy")
    assert names
    assert all(map(allowed, names))
