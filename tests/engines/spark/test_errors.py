"""An error that a task raises says the same where it arrives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from chaffinch import errors
from chaffinch.errors import ChaffinchError, Reason
from tests.cases import each_case

CELLS = errors.CellFaults("age", "a number", 2, (3, 9), "spell it")
MADE: list[ChaffinchError] = [
    errors.InvalidInput("target", "another file", "x", hint="name one"),
    errors.InvalidAnswer("yes or no", hint="one of them"),
    errors.InvalidTable("whole", "half", column="age", row=3, reason=Reason.UNKNOWN_COLUMN),
    errors.InvalidCells([CELLS], stopped=errors.InvalidTable("whole", "half")),
    errors.InvalidFile("file", "whole", ["a", "b"], hint="again", reason=Reason.DAMAGED),
    errors.PlanMismatch("file", expected="a", found="b"),
    errors.NoPlanFound("none", hint="less"),
    errors.UselessPlan(["it says nothing"], wish="more people"),
    errors.NoParameterFound("none"),
    errors.GuaranteeNotProven("epsilon", upper=1.0),
    errors.BatchTooSmall(have=1, need=2),
    errors.BatchRepeated("file", "twice", hint="once"),
    errors.FilterFull("filter"),
    errors.BudgetExhausted(cap=1.0, delta=1e-6, asked=2.0, spent=0.5, remaining=0.5),
    errors.DataRepeated("twice", hint="once"),
    errors.NotDelivered("hop", "nothing", waiting=3),
    errors.ClusterFault("none", hint="again"),
    errors.StorageFault("full", details={"errno": 28}, reason=Reason.NO_SPACE),
    errors.LedgerRolledBack("old"),
    errors.RandomnessUnavailable("system", "give bytes"),
    errors.MissingExtra("engine", "spark"),
]


@each_case("error", MADE, ids=lambda one: type(one).__name__)
def test_an_error_is_the_same_in_another_process(error: ChaffinchError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert {name: str(value) for name, value in vars(found).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


def test_every_error_is_tried() -> None:
    def below(kind: type[ChaffinchError]) -> Iterator[type[ChaffinchError]]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    ours = {kind for kind in below(ChaffinchError) if kind.__module__ == errors.__name__}
    assert ours == set(map(type, MADE))
