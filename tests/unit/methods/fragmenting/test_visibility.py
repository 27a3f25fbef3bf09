"""What must be seen together, what may be left out, and what is only believed."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.fragment_layout import layout
from sherd.methods.fragmenting.fragmentation import breaks, check_given, find_minimal
from sherd.methods.fragmenting.visibility import alternatives
from sherd.release.plan import Plan
from sherd.tables.schema import Schema
from sherd.verifying import verify_contents as verify
from sherd.verifying.fragmented_tables import shows

NAMES = tuple("abcdef")


def truth(formula: str, held: set[str]) -> bool:
    """A formula by Python's own reading of it."""
    return bool(eval(formula, {"__builtins__": {}}, {name: name in held for name in NAMES}))  # noqa: S307


def formula(rng: np.random.Generator, depth: int = 2) -> str:
    """A random formula over the names."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(NAMES))
    word = rng.choice(["and", "or"])
    parts = [formula(rng, depth - 1) for _ in range(rng.integers(2, 4))]
    return "(" + f" {word} ".join(parts) + ")" if rng.random() < 0.8 else f" {word} ".join(parts)


def test_formulas_are_read_as_python_reads_them() -> None:
    """By the method and by verification, each in its own way, over all sets of attributes."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        text = formula(rng)
        wanted = alternatives(text)
        for size in range(len(NAMES) + 1):
            for held in map(set, itertools.combinations(NAMES, size)):
                said = truth(text, held)
                assert any(one <= held for one in wanted) == said, (text, held)
                assert shows(text, held) == said, (text, held)


@pytest.mark.parametrize(
    "text", ["", "a and", "and b", "(a", "a b", "a or ()", "a) or b", '"" and a']
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    """With what a formula is made of."""
    with pytest.raises(PlanError, match="joined by 'and' and 'or'"):
        alternatives(text)
    wide = " and ".join(f"(a{i} or b{i})" for i in range(9))
    with pytest.raises(PlanError, match="at most 256"):
        alternatives(wide)


def splits(names: tuple[str, ...], optional: set[str]) -> Any:
    """Every way to put names into fragments, or to leave optional ones out."""
    if not names:
        yield []
        return
    first, rest = names[0], names[1:]
    for smaller in splits(rest, optional):
        if first in optional:
            yield smaller
        yield [[first], *smaller]
        for at, block in enumerate(smaller):
            yield [*smaller[:at], [first, *block], *smaller[at + 1 :]]


def test_the_fewest_fragments_then_the_fewest_left_out_as_enumeration_finds() -> None:
    """Random constraints, formulas and optional attributes, compared with all there is."""
    rng = np.random.default_rng(9)
    solved = 0
    for _ in range(25):
        pairs = {tuple(sorted(rng.choice(NAMES, 2, replace=False))) for _ in range(4)}
        optional = tuple(n for n in NAMES if rng.random() < 0.4)
        rules = Constraints(
            constraints=tuple((str(a), str(b)) for a, b in pairs),
            visible=tuple(formula(rng, 1) for _ in range(2)),
            optional=optional,
        )
        every = [s for s in splits(NAMES, set(optional)) if s and breaks(rules, s) is None]
        if not every:
            with pytest.raises(InfeasibleError, match="contradict"):
                find_minimal(rules, NAMES)
            continue
        solved += 1
        found = find_minimal(rules, NAMES)
        assert breaks(rules, found.fragments) is None
        fewest = min(map(len, every))
        assert len(found.fragments) == fewest
        left = min(len(NAMES) - sum(map(len, s)) for s in every if len(s) == fewest)
        assert len(found.withheld) == left
        assert set(found.withheld) <= set(optional)
    assert solved > 5


def test_what_may_be_left_out_is_kept_where_two_fragments_hold_it() -> None:
    """One fragment without it would fulfil the constraints, but be no fragmentation."""
    schema = Schema.from_data({"attributes": {name: {"type": "integer"} for name in NAMES}})
    rules = {"constraints": [["d", "f"]], "visible": ["a and d"], "optional": ["a", "f"]}
    found = layout(Plan(method="fragment", constraints=rules, looseness=4), schema)
    assert found.withheld == ()
    assert [set(f) >= {"a", "d"} for f in found.fragments].count(True) == 1
    rules = {"constraints": [["d"]], "optional": ["a"]}
    with pytest.raises(PlanError, match="need no fragmentation"):
        Plan(method="fragment", constraints=rules, looseness=4).check(schema)


def test_a_given_fragmentation_must_show_what_is_asked_for() -> None:
    """The formula that no fragment makes true is named."""
    rules = Constraints(constraints=(("a", "b"),), visible=("a and (c or d)",))
    assert check_given(rules, [["a", "d"], ["b", "c"]], NAMES).withheld == ("e", "f")
    with pytest.raises(PlanError, match=r"no fragment shows 'a and \(c or d\)'"):
        check_given(rules, [["a"], ["b", "c", "d"]], NAMES)


def test_a_dependency_counts_where_it_tells_more_than_one_in_k() -> None:
    """Right with 0.3: too often at looseness 4, not at 3; wrong numbers are refused."""
    guess = {"determines": ["c"], "follows": ["b"], "confidence": 0.3}
    rules = Constraints.from_data({"constraints": [["a", "b"]], "dependencies": [guess]})
    assert Constraints.from_data(rules.as_data()) == rules
    assert breaks(rules.believed(4), [["a", "c"], ["b"]]) is not None
    assert breaks(rules.believed(3), [["a", "c"], ["b"]]) is None
    for wrong in (0, 1.5, "0.3", True):
        with pytest.raises(PlanError, match="confidence of a dependency"):
            Constraints.from_data(
                {"constraints": [["a", "b"]], "dependencies": [{**guess, "confidence": wrong}]}
            )


def test_a_release_keeps_and_verification_checks_what_must_be_seen(make: Any) -> None:
    """A manifest that asks for another formula, or believes a dependency more, is found out."""
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 30, 300).astype(str) for name in "abcd"})
    schema = Schema.from_data({"attributes": {name: {"type": "category"} for name in "abcd"}})
    guess = {"determines": ["c"], "follows": ["b"], "confidence": 0.2}
    given = {
        "constraints": [["a", "b"]], "visible": ["a and c", "b or d"], "optional": ["d"],
        "dependencies": [guess],
    }  # fmt: skip
    made = make(table, schema, method="fragment", looseness=4, constraints=given)
    assert ["a", "c"] in [sorted(set(f) - {"d"}) for f in made.outcome.facts["fragments"]]
    assert not [c for c in verify(made.outcome.tables, made.manifest) if c.passed is False]
    words = Plan(method="fragment", looseness=4, constraints=given).guarantee(schema).words()
    assert "probability 1/k at most" in words
    for change, check in (
        ({"visible": ["b and c"]}, "what must be seen together"),
        ({"dependencies": [{**guess, "confidence": 0.5}]}, "dependencies link no fragments"),
    ):
        claimed = copy.deepcopy(made.manifest)
        claimed["plan"]["constraints"] |= change
        wrong = [c.name for c in verify(made.outcome.tables, claimed) if c.passed is False]
        assert check in wrong
