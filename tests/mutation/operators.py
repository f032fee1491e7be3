"""Which faults are made: mutmut's, and those that its operators lack and privacy turns on.

Added: a statement that is a call is left out, a ``raise`` is left out, a sort is left out,
smallest and largest, up and down, all and any, lower and upper ends are swapped. Properties,
cached functions and context managers are changed like plain functions, which mutmut passes by.

Left out: what the type checker refuses (None for an argument or in an assignment, a needed
argument dropped), what an error says or calls a parameter (that it is raised is what counts),
two of mutmut's three ways to spoil a text, ``strict=True`` of a zip, which guards against
mistakes of our own, and ``reach(…)``, which names a place where a test may end the process.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut.mutation import file_mutation, mutators
from mutmut.runners import harness
from mutmut.workers import isolation
from mutmut.workers.timeout import register_timeout

SWAPS = {
    "min": "max",
    "minimum": "maximum",
    "floor": "ceil",
    "all": "any",
    "lower": "upper",
}
_SWAPPED = SWAPS | {new: old for old, new in SWAPS.items()}
_SORTS = ("sort", "sorted")
_CHECKS = (
    *("whole", "real", "probability", "choice", "check_chance", "word"),
    *("fraction_text", "_fraction_from", "_fields", "_check_names"),
)
"""Functions whose first argument is what an error calls a thing."""
_ERRORS = frozenset(
    re.findall(
        r"(?m)^class (\w+)\(",
        Path(__file__)
        .parents[2]
        .joinpath("src/chaffinch/errors/__init__.py")
        .read_text(encoding="utf-8"),
    )
)
_DECORATORS = ("property", "cached_property", "cache", "lru_cache", "contextmanager")
SHARE = "CHAFFINCH_MUTANTS"
"""The variable with the share of mutants that is judged."""
_NOT_RUN = 35
"""The code of a mutant that is suspicious, and so not noticed."""
_PATIENCE = 20
"""How much longer than mutmut would a mutant may wait: what it computes is bounded by itself."""


def install() -> None:
    """Teach mutmut these operators; it must be called before mutants are made."""
    operators: list[Any] = mutators.mutation_operators
    replaced = (
        mutators.operator_string,
        mutators.operator_arg_removal,
        mutators.operator_assignment,
    )
    operators[:] = [pair for pair in operators if pair[1] not in replaced]
    operators += [
        (cst.Call, _leave_out_keyword),
        (cst.SimpleString, _spoil_text),
        (cst.Expr, _leave_out_call),
        (cst.Raise, _leave_out),
        (cst.Call, _leave_out_sort),
        (cst.Call, _swap_function),
        (cst.Attribute, _swap_attribute),
    ]
    file_mutation.MutationVisitor = _Visitor
    file_mutation.function_trampoline_arrangement = _arrange
    isolation.register_timeout = _wait_longer
    harness.PytestRunner.run_tests = _run_tests


def in_sample(name: str, share: float) -> bool:
    """Return whether a mutant is one of those that stand for all.

    By the digest of its name: as good as by lot, the same each time, and whatever other mutants
    there are.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) < share * 2**64


def _wait_longer(process: int, seconds: float) -> None:
    """Let processor time end a mutant that computes for ever; a busy machine must not."""
    register_timeout(process, _PATIENCE * seconds)


_run_plainly = harness.PytestRunner.run_tests


def _run_tests(runner: Any, **asked: Any) -> int:
    """Run tests; where pytest does not find one by its name, mutmut would take that for a kill."""
    try:
        return int(_run_plainly(runner, **asked))
    except harness.BadTestExecutionCommandsException:
        return _NOT_RUN


def _spoil_text(node: cst.SimpleString) -> Iterable[cst.CSTNode]:
    return list(mutators.operator_string(node))[:1]


def _leave_out_keyword(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Leave out arguments that may have a default."""
    for place, each in enumerate(node.args):
        if each.keyword and each.keyword.value != "strict":
            yield node.with_changes(args=[*node.args[:place], *node.args[place + 1 :]])


def _leave_out(_node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield cst.Pass()


def _leave_out_call(node: cst.Expr) -> Iterator[cst.CSTNode]:
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def _leave_out_sort(node: cst.Call) -> Iterator[cst.CSTNode]:
    if _last_name(node.func) in _SORTS and node.args:
        given = node.args[0]
        bare = isinstance(given.value, cst.GeneratorExp)
        yield cst.Call(cst.Name("list"), [given]) if bare else given.value


def _swap_function(node: cst.Call) -> Iterator[cst.CSTNode]:
    if isinstance(node.func, cst.Name) and node.func.value in _SWAPPED:
        yield node.with_changes(func=cst.Name(_SWAPPED[node.func.value]))


def _swap_attribute(node: cst.Attribute) -> Iterator[cst.CSTNode]:
    if node.attr.value in _SWAPPED:
        yield node.with_changes(attr=cst.Name(_SWAPPED[node.attr.value]))


def _last_name(node: cst.CSTNode) -> str:
    """Return ``c`` of ``a.b.c``, or of a call of it."""
    if isinstance(node, cst.Call):
        return _last_name(node.func)
    if isinstance(node, cst.Attribute):
        return _last_name(node.attr)
    return str(node.value) if isinstance(node, cst.Name) else ""


def _is_failpoint(node: cst.CSTNode) -> bool:
    """Return whether a statement only names a place, for a test that ends the process there.

    Such a test starts a process of its own, and fails if the place has another name.
    """
    call = node.value if isinstance(node, cst.Expr) else None
    return (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Name)
        and call.func.value == "kill_point"
    )


def _is_wrapped(node: cst.CSTNode) -> bool:
    """Return whether a function has decorators that a changed copy of it can be put under."""
    return (
        isinstance(node, cst.FunctionDef)
        and bool(node.decorators)
        and all(_last_name(each.decorator) in _DECORATORS for each in node.decorators)
    )


class _Visitor(file_mutation.MutationVisitor):  # type: ignore[misc]
    """Looks for places: into wrapped functions too, but not into what an error says."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._names: set[int] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        into = bool(super().on_visit(node))
        return into and not isinstance(node, cst.Raise)

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Arg) and node.keyword and node.keyword.value == "strict":
            return True
        if isinstance(node, cst.Call) and _last_name(node.func) in _CHECKS:
            self._names.add(id(node.args[0].value))
        if isinstance(node, cst.Call) and _last_name(node.func) in _ERRORS:
            return True
        if id(node) in self._names or _is_failpoint(node):
            return True
        return not _is_wrapped(node) and bool(super()._skip_node_and_children(node))


_arrange_plain = file_mutation.function_trampoline_arrangement


def _arrange(
    function: cst.FunctionDef, mutants: Iterable[Any], class_name: str | None
) -> tuple[Sequence[Any], list[Any], Sequence[Any], Sequence[str]]:
    """Arrange the copies of a function: bare ones, and its decorators around the choice of one."""
    if not _is_wrapped(function):
        return _arrange_plain(function, mutants, class_name)  # type: ignore[no-any-return]
    bare = function.with_changes(decorators=())
    declared, (choice, *copies), assigned, names = _arrange_plain(bare, mutants, class_name)
    outside = choice.with_changes(decorators=[*function.decorators, *choice.decorators])
    return declared, [outside, *copies], assigned, names


if __name__ == "__main__":
    from mutmut import __main__ as program

    install()
    collect = program.collect_source_file_mutation_data

    def collect_sample(**options: Any) -> tuple[list[Any], dict[str, Any]]:
        found, files = collect(**options)
        share = float(os.environ[SHARE])
        return [each for each in found if in_sample(each[1], share)], files

    program.collect_source_file_mutation_data = collect_sample
    program.cli()
