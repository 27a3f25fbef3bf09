from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sherd.errors import PlanError
from sherd.methods.fragmenting.constraints import AskedTogether, Constraints

if TYPE_CHECKING:
    from pathlib import Path


def test_supersets_and_repeats_are_dropped() -> None:
    """A constraint implied by another, or given twice, does not count."""
    given = Constraints(constraints=(("a", "b"), ("a", "b", "c"), ("b", "a"), ("d",), ("d", "e")))
    assert given.separate == (("a", "b"),)
    assert given.withheld == ("d",)


def test_round_trip(tmp_path: Path) -> None:
    """Constraints survive being written as plain data, whatever form they were given in."""
    file = tmp_path / "c.yaml"
    file.write_text(
        "constraints: [[a, b], c]\n"
        "dependencies: ['a, d -> e', {determines: [d], follows: [f]}]\n"
        "together: [[a, d]]\n"
        "affinity: [{attributes: [a, d], weight: 2}]\n"
        "workload: ['SELECT a, AVG(d) FROM release GROUP BY a', {attributes: [a, e], weight: 3}]\n"
        "looseness: 4\n"
    )
    given = Constraints.load(file)
    assert Constraints.from_data(given.as_data()) == given
    assert given.dependencies[0].determines == ("a", "d")
    assert given.workload[0].attributes == ("a", "d")
    assert given.workload[1] == AskedTogether(attributes=("a", "e"), weight=3.0)


def test_wishes_are_the_queries_that_leave_a_fragment() -> None:
    """A query wishes for any of its attributes, wherever it lies, unless it is exact anyway."""
    given = Constraints(
        constraints=(("a", "b"),),
        workload=(
            AskedTogether(attributes=("a", "c")),
            AskedTogether(attributes=("c", "d"), weight=2.0),
            AskedTogether(attributes=("a", "b")),
        ),
    )
    inside = {wish.attributes: wish.weight for wish in given.wishes([], ["a", "b"])}
    assert inside == {("a", "c"): 1.0}
    beside = {wish.attributes: wish.weight for wish in given.wishes([], ["c"])}
    assert beside == {("a", "c"): 1.0, ("c", "d"): 2.0}


def test_similar_attributes_wish_for_more_than_the_whole_workload() -> None:
    """They come first in their own fragment, and queries about them count twice everywhere."""
    given = Constraints(
        constraints=(("a", "b"),),
        workload=(
            AskedTogether(attributes=("a", "c")),
            AskedTogether(attributes=("c", "d"), weight=2.0),
        ),
    )
    inside = {wish.attributes: wish.weight for wish in given.wishes(["a"], ["a", "b"])}
    assert inside == {("a",): 4.5, ("a", "c"): 2.0}
    beside = {wish.attributes: wish.weight for wish in given.wishes(["a"], ["c"])}
    assert beside == {("a", "c"): 2.0, ("c", "d"): 2.0}


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"constraints": []},
        {"constraints": [[]]},
        {"constraints": [["a", "a"]]},
        {"constraints": "a"},
        {"constraints": [[1, 2]]},
        {"constraints": [["a", "b"]], "constrains": []},
        {"constraints": [["a", "b"]], "dependencies": ["a > b"]},
        {"constraints": [["a", "b"]], "dependencies": ["-> b"]},
        {"constraints": [["a", "b"]], "affinity": [{"attributes": ["a"], "weight": -1}]},
        {"constraints": [["a", "b"]], "workload": [{"attributes": 3}]},
    ],
)
def test_what_is_not_a_constraint_is_refused(data: Any) -> None:
    """Every malformed setting is a PlanError."""
    with pytest.raises(PlanError):
        Constraints.from_data(data)


def test_unknown_attributes_are_named_with_a_hint() -> None:
    """A mistyped attribute is reported with the one that was meant."""
    given = Constraints(constraints=(("salry", "name"),))
    with pytest.raises(PlanError, match="did you mean 'salary'"):
        given.check(["salary", "name"])
