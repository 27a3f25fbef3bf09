"""The quick ways of writing and reading values agree with the plain ones."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PeerError
from sherd.values import canonical, canonical_text, from_data, to_data


class Colour(StrEnum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leaf:
    """Frozen, with everything a value may have."""

    name: str
    count: int
    sure: bool
    colour: Colour
    maybe: str | None
    anything: Any


@dataclasses.dataclass(kw_only=True)
class Tree:
    """Not frozen."""

    leaves: tuple[Leaf, ...]
    by_name: dict[str, Leaf]
    numbers: dict[str, int]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
leaves = st.builds(
    Leaf,
    name=st.text(),
    count=st.integers(),
    sure=st.booleans(),
    colour=st.sampled_from(Colour),
    maybe=st.none() | st.text(),
    anything=plain,
)
trees = st.builds(
    Tree,
    leaves=st.lists(leaves, max_size=3).map(tuple),
    by_name=st.dictionaries(st.text(), leaves, max_size=3),
    numbers=st.dictionaries(st.text(), st.integers(), max_size=3),
)


@given(trees)
def test_the_text_is_the_canonical_form(tree: Tree) -> None:
    """Written twice, the second time from memory, it is what the plain way writes."""
    expected = canonical(to_data(tree)).decode()
    assert canonical_text(tree) == expected
    assert canonical_text(tree) == expected
    assert from_data(Tree, json.loads(expected)) == tree


@given(trees, st.data())
def test_what_is_changed_is_refused_by_field(tree: Tree, data: st.DataObject) -> None:
    """A field that is missing, unknown or of another type is named in the error."""
    found = to_data(tree)
    how = data.draw(st.sampled_from(["missing", "unknown", "type", "number"]))
    if how == "missing":
        del found["numbers"]
    elif how == "unknown":
        found["more"] = 1
    elif how == "type":
        found["leaves"] = {}
    else:
        found["numbers"] = {"a": True}
    with pytest.raises(PeerError, match="Tree"):
        from_data(Tree, found)
