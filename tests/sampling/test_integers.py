"""No float and no insecure generator between the random words and the result."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.meta import repository

FOLDER = repository.SOURCE / "sampling"
EXACT = ("coins", "flips", "gaps", "words")
INSECURE = ("random", "numpy.random")


def floats(tree: ast.AST) -> list[str]:
    """Return every float literal, true division, and word that makes a float."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            found.append(repr(node.value))
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            found.append(ast.unparse(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            found.extend(negative_power(node))
        name = getattr(node, "id", getattr(node, "attr", ""))
        if "float" in name or name in {"sqrt", "log", "log1p", "log2", "exp", "true_divide"}:
            found.append(name)
    return found


def negative_power(node: ast.BinOp) -> list[str]:
    """Return a power that is not a whole number's whole power, as far as the text can tell."""
    return [ast.unparse(node)] if isinstance(node.right, ast.UnaryOp) else []


@pytest.mark.parametrize("name", EXACT)
def test_sampling_uses_whole_numbers_only(name: str) -> None:
    assert floats(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) == []


@each_case(
    "line", ["x = 0.5", "x = a / b", "x /= 2", "x = float(y)", "y = np.float64", "z = 2 ** -3"]
)
def test_the_rule_finds_floats(line: str) -> None:
    assert floats(ast.parse(line))


def test_the_extension_has_no_floats() -> None:
    text = (FOLDER / "native" / "_native.c").read_text(encoding="utf-8")
    assert not any(word in text for word in ("float", "double", "math.h"))


def insecure(path: Path) -> set[str]:
    names = repository.imports(path, package="chaffinch.sampling")
    return {name for name in names if any(f"{name}.".startswith(f"{bad}.") for bad in INSECURE)}


@each_case("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_no_insecure_generator_is_imported_or_named(path: Path) -> None:
    assert not insecure(path)
    text = path.read_text(encoding="utf-8")
    assert "np.random" not in text
    assert "default_rng" not in text


@pytest.mark.parametrize(
    "line", ["import random", "from numpy import random", "import numpy.random"]
)
def test_the_rule_finds_generators(line: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(line, encoding="utf-8")
    assert insecure(path)
