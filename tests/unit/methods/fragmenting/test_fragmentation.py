from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.fragmenting import fragmentation
from sherd.methods.fragmenting.constraints import AskedTogether, Constraints, Dependency
from sherd.methods.fragmenting.fragmentation import breaks, check_given, find_minimal, is_minimal

from .patients import RULES, SEVEN, THREE

if TYPE_CHECKING:
    from collections.abc import Iterator


def partitions(names: tuple[str, ...]) -> Iterator[list[list[str]]]:
    """Every way to split names into blocks."""
    if not names:
        yield []
        return
    first, rest = names[0], names[1:]
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for at, block in enumerate(smaller):
            yield [*smaller[:at], [first, *block], *smaller[at + 1 :]]


def test_patients_needs_two_fragments() -> None:
    """The paper's example has a fragmentation into two, and none into one."""
    found = find_minimal(RULES, SEVEN)
    assert len(found.fragments) == 2
    assert found.proved
    assert breaks(RULES, found.fragments) is None
    assert sorted(n for f in found.fragments for n in f) == sorted(SEVEN)


def test_patients_has_forty_minimal_fragmentations() -> None:
    """Enumeration finds 40; the paper's own is among them and is not the smallest."""
    minimal = [
        {frozenset(block) for block in split}
        for split in partitions(SEVEN)
        if breaks(RULES, split) is None and is_minimal(RULES, split)
    ]
    assert len(minimal) == 40
    assert {frozenset(f) for f in THREE} in minimal
    assert min(map(len, minimal)) == 2


def test_fewest_is_the_true_minimum_for_random_constraints() -> None:
    """CP-SAT and enumeration agree on the number of fragments."""
    rng = np.random.default_rng(5)
    names = tuple("abcdefg")
    for _ in range(25):
        rules = Constraints(
            constraints=tuple(
                tuple(rng.choice(names, size=rng.integers(2, 4), replace=False).tolist())
                for _ in range(int(rng.integers(1, 7)))
            )
        )
        found = find_minimal(rules, names)
        true = min(len(s) for s in partitions(names) if breaks(rules, s) is None)
        assert len(found.fragments) == true
        assert is_minimal(rules, found.fragments)


def test_eighty_attributes_are_quick() -> None:
    """80 attributes under 120 constraints take well under five seconds."""
    rng = np.random.default_rng(1)
    names = [f"a{i}" for i in range(80)]
    rules = Constraints(
        constraints=tuple(tuple(rng.choice(names, 2, replace=False)) for _ in range(120))
    )
    start = time.process_time()
    found = find_minimal(rules, names)
    assert time.process_time() - start < 5
    assert breaks(rules, found.fragments) is None


def test_workload_keeps_queried_attributes_together() -> None:
    """With an objective, attributes asked about together share a fragment where they may."""
    rules = Constraints(
        constraints=(("a", "b"), ("c", "d")),
        workload=(
            AskedTogether(attributes=("a", "c"), weight=5.0),
            AskedTogether(attributes=("b", "d")),
        ),
    )
    found = find_minimal(rules, ("a", "b", "c", "d"), objective="workload")
    assert {frozenset(f) for f in found.fragments} == {frozenset("ac"), frozenset("bd")}
    assert found.value == 6.0
    assert found.proved


def test_affinity_is_the_best_there_is() -> None:
    """The affinity found equals the largest over all partitions into as many blocks."""
    rng = np.random.default_rng(8)
    names = tuple("abcdef")
    for _ in range(10):
        rules = Constraints(
            constraints=tuple(tuple(rng.choice(names, 2, replace=False)) for _ in range(4)),
            affinity=tuple(
                AskedTogether(attributes=pair, weight=float(rng.integers(1, 9)))
                for pair in itertools.combinations(names, 2)
                if rng.random() < 0.5
            ),
        )
        found = find_minimal(rules, names, objective="affinity")
        best = max(
            sum(a.weight for a in rules.affinity if any(set(a.attributes) <= set(b) for b in s))
            for s in partitions(names)
            if breaks(rules, s) is None
        )
        assert found.value == pytest.approx(best)


def test_a_time_limit_says_that_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the solver stops early, the result says so; where it finds nothing, it is an error."""
    rules = Constraints(constraints=(("a", "b"),), affinity=(AskedTogether(attributes=("a", "c")),))
    real = fragmentation.solved

    def hasty(*given: object) -> fragmentation.Fragmentation | None:
        found = real(*given)  # type: ignore[arg-type]
        if found is None:
            return None
        return fragmentation.Fragmentation(fragments=found.fragments, proved=False)

    monkeypatch.setattr(fragmentation, "solved", hasty)
    assert not find_minimal(rules, ("a", "b", "c")).proved
    monkeypatch.undo()
    names = [f"a{i}" for i in range(120)]
    hard = Constraints(constraints=tuple(itertools.combinations(names, 2)))
    with pytest.raises(InfeasibleError, match="time allowed"):
        find_minimal(hard, names, time_limit=1e-6)


def test_a_dependency_cannot_reconnect_fragments() -> None:
    """What an attribute determines counts as being beside it."""
    rules = Constraints(
        constraints=(("city", "illness"),),
        dependencies=(Dependency(determines=("zip",), follows=("city",)),),
    )
    assert breaks(rules, [["zip", "illness"], ["city"]]) is not None
    assert breaks(rules, [["zip"], ["city", "age"], ["illness"]]) is not None
    found = find_minimal(rules, ("zip", "city", "illness", "age"))
    together = next(f for f in found.fragments if "zip" in f)
    assert "city" in together
    assert "illness" not in together


def test_a_determined_secret_withholds_what_determines_it() -> None:
    """An attribute that determines a withheld one cannot be released."""
    rules = Constraints(
        constraints=(("name",), ("a", "b")),
        dependencies=(Dependency(determines=("id",), follows=("name",)),),
    )
    with pytest.raises(InfeasibleError, match="contradict"):
        find_minimal(rules, ("name", "id", "a", "b"))
    assert "'name'" in str(breaks(rules, [["id", "a"], ["b"]]))


def test_contradictory_constraints_are_refused() -> None:
    """Attributes that must stay together and may not be seen together are an error."""
    rules = Constraints(constraints=(("a", "b"),), together=(("a", "b"),))
    with pytest.raises(InfeasibleError, match="contradict"):
        find_minimal(rules, ("a", "b", "c"))
    everything = Constraints(constraints=(("a",), ("b",)))
    with pytest.raises(InfeasibleError, match="withhold"):
        find_minimal(everything, ("a", "b"))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ([["Name", "YoB", "Edu"], ["ZIP"]], "YoB, Edu"),
        ([["Name", "YoB"], ["Name", "Edu"]], "'Name' lies in fragments 1 and 2"),
        ([["Name", "Age"], ["Edu"]], "not a released attribute"),
        ([["Name"]], "too small"),
        ([["Name"], []], "too small"),
    ],
)
def test_a_given_fragmentation_that_is_wrong_is_refused(given: list[list[str]], wrong: str) -> None:
    """The message says which constraint breaks, or what else is wrong."""
    with pytest.raises(PlanError, match=wrong):
        check_given(RULES, given, SEVEN)


def test_a_given_fragmentation_may_leave_attributes_out() -> None:
    """Attributes in no fragment are withheld; ``together`` is respected."""
    found = check_given(RULES, [["Name", "YoB"], ["Edu", "ZIP"]], SEVEN)
    assert found.withheld == ("Job", "MarStatus", "Disease")
    assert found.minimal
    assert not check_given(RULES, [["Name"], ["YoB"], ["Edu", "ZIP"]], SEVEN).minimal
    rules = Constraints(constraints=(("a", "b"),), together=(("b", "c"),))
    assert "stay together" in str(breaks(rules, [["a", "c"], ["b"]]))
