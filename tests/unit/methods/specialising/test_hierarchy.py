"""Attributes as lines of codes: taxonomies, public grids, missing cells."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pyarrow as pa
import pytest

import sherd
from sherd.methods.specialising.hierarchy import MISSING, Hierarchy


def hierarchy(data: dict[str, Any], **more: Any) -> Hierarchy:
    """The hierarchy of an attribute given as in a schema file."""
    return Hierarchy.of(sherd.Schema.from_data({"attributes": {"a": data}})["a"], **more)


def chunked(values: list[Any], kind: pa.DataType | None = None) -> pa.ChunkedArray:
    """A column."""
    return pa.chunked_array([pa.array(values, kind)])


PATHS = [["a", "x", "*"], ["c", "z", "y", "*"], ["b", "x", "*"], ["d", "y", "*"]]


def test_leaves_of_a_node_are_neighbours() -> None:
    """Leaves are numbered so that every node is an interval, whatever the file's order."""
    one = hierarchy({"type": "category", "taxonomy": PATHS})
    assert one.children == {(0, 4): (0, 2, 4), (0, 2): (0, 1, 2), (2, 4): (2, 3, 4)}
    assert one.label(0, 2) == "x"
    assert one.label(0, 4) == "*"
    assert one.codes(chunked(["d", "a", "b", "c"])).tolist() == [3, 0, 1, 2]


def test_a_node_with_one_child_is_that_child() -> None:
    """Specialising into one child would tell nothing apart and is skipped."""
    one = hierarchy({"type": "category", "taxonomy": PATHS})
    assert one.label(2, 3) == "c"
    assert (2, 3) not in one.children


def test_values_without_taxonomy_are_children_of_one_root() -> None:
    """A plain list and a boolean have two levels."""
    assert hierarchy({"type": "ordinal", "values": ["u", "v", "w"]}).children == {
        (0, 3): (0, 1, 2, 3)
    }
    flag = hierarchy({"type": "boolean"})
    assert [flag.label(0, 1), flag.label(1, 2)] == ["false", "true"]


@pytest.mark.parametrize("paths", [PATHS, [["a", "*"], ["b", "*"]], [["a", "*"]]])
def test_kept_missing_cells_are_a_value(paths: list[list[str]]) -> None:
    """They have the last code, beside the root's children."""
    one = hierarchy({"type": "category", "taxonomy": paths}, keeps_missing=True)
    assert one.label(one.size - 1, one.size) == MISSING
    assert one.codes(chunked(["a", None])).tolist() == [0, one.size - 1]
    assert one.children[0, one.size][-2:] == (one.size - 1, one.size)
    edges = one.children[0, one.size]
    assert all(one.label(a, b) for a, b in itertools.pairwise(edges))


def test_grid_depends_on_the_domain_alone() -> None:
    """Cells are equally wide, from the declared domain, and cover it."""
    one = hierarchy({"type": "integer", "domain": ["0", "999"]}, bins=10)
    assert one.edges == tuple(range(0, 1001, 100))
    assert one.codes(chunked([0, 99, 100, 999, 5000, -3])).tolist() == [0, 0, 1, 9, 9, 0]
    assert one.label(1, 3) == "[100, 300)"
    assert one.label(3, 10) == "[300, 999]"


def test_small_domains_have_a_cell_for_each_value() -> None:
    """No cell is empty by construction."""
    assert hierarchy({"type": "integer", "domain": ["1", "16"]}).size == 16


def test_uneven_cells_agree_with_their_edges() -> None:
    """Every position lies in the cell whose edges enclose it."""
    one = hierarchy({"type": "integer", "domain": ["0", "72"]}, bins=10)
    codes = one.codes(chunked(list(range(73))))
    for position, code in enumerate(codes.tolist()):
        assert one.edges[code] <= position < one.edges[code + 1]


def test_kept_missing_numbers_lie_above_the_grid() -> None:
    """A node that holds them says so; alone they are named as missing."""
    one = hierarchy({"type": "number", "domain": ["0", "1"]}, bins=4, keeps_missing=True)
    assert one.codes(chunked([0.1, None, 1.0])).tolist() == [0, 4, 3]
    assert one.label(2, 5).startswith("[0.5")
    assert one.label(2, 5).endswith("1] or (missing)")
    assert one.label(4, 5) == MISSING


@pytest.mark.parametrize(
    ("data", "value", "label"),
    [
        ({"type": "date", "domain": ["2020-01-01", "2020-12-31"]}, dt.date(2020, 1, 5), "[2020-"),
        (
            {"type": "datetime", "domain": ["2020-01-01", "2021-01-01"]},
            dt.datetime(2020, 3, 1, tzinfo=dt.UTC),
            "[2020-01-01T00:00:00+00:00, 20",
        ),
    ],
)
def test_times_have_grids_too(data: dict[str, Any], value: Any, label: str) -> None:
    """Dates and times are cut into cells and named in their own words."""
    one = hierarchy(data, bins=12)
    assert 0 <= one.codes(chunked([value]))[0] < 12
    assert one.label(0, 6).startswith(label)
