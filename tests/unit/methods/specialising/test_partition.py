"""What comes out: weighted and expanded records, the tree in text and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sherd
from sherd.errors import UsageError
from sherd.methods.specialising import partition_tree as tree
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.partition import Partition, consistent
from sherd.methods.specialising.specialise import Candidate, Specialised

if TYPE_CHECKING:
    from pathlib import Path


def partition(counts: list[list[int]], class_name: str | None = "Class") -> Partition:
    """The partition tree of Fig. 2: jobs into two groups, ages at 26."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "Job": {
                    "type": "category",
                    "taxonomy": [
                        ["Teacher", "Professional", "ANY_JOB"],
                        ["Doctor", "Professional", "ANY_JOB"],
                        ["Clerk", "Worker", "ANY_JOB"],
                        ["Cook", "Worker", "ANY_JOB"],
                    ],
                },
                "Age": {"type": "integer", "domain": ["1", "99"]},
            }
        }
    )
    return Partition(
        hierarchies=tuple(Hierarchy.of(attribute) for attribute in schema),
        specialised=Specialised(
            cuts=((0, 2, 4), (0, 25, 99)),
            steps=(
                Candidate(attribute=0, edges=(0, 2, 4)),
                Candidate(attribute=1, edges=(0, 25, 99)),
            ),
            choices=3,
        ),
        class_name=class_name,
        class_labels=("Y", "N") if class_name else ("",),
        counts=np.array(counts),
    )


FIGURE_2 = [[0, 0], [4, 1], [0, 3], [2, 0]]


def test_weighted_table_has_a_row_for_every_leaf_and_class() -> None:
    """Noisy counts as drawn, empty leaves and negative counts included."""
    rows = partition([[0, -2], [4, 1], [0, 3], [2, 0]]).weighted().to_pylist()
    assert len(rows) == 8
    assert rows[1] == {"Job": "Professional", "Age": "[1, 26)", "Class": "N", "count": -2}
    assert rows[6] == {"Job": "Worker", "Age": "[26, 99]", "Class": "Y", "count": 2}


def test_expanded_table_has_a_row_for_every_record() -> None:
    """As many rows as records went in, none of a leaf without records."""
    rows = partition(FIGURE_2).expanded(10).to_pylist()
    assert len(rows) == 10
    assert rows.count({"Job": "Worker", "Age": "[26, 99]", "Class": "Y"}) == 2
    assert not any(r["Job"] == "Professional" and r["Age"] == "[1, 26)" for r in rows)


def test_without_a_class_there_is_no_class_column() -> None:
    """One count a leaf."""
    table = partition([[0], [5], [3], [2]], class_name=None).weighted()
    assert table.column_names == ["Job", "Age", "count"]


def test_tree_is_printed_as_in_figure_2() -> None:
    """Job first, then Age below both; each node with its classes."""
    assert tree.text(partition(FIGURE_2)) == "\n".join(
        [
            "all records (Y 6, N 4)",
            "├─ Job: Professional (Y 4, N 1)",
            "│  ├─ Age: [1, 26) (Y 0, N 0)",
            "│  └─ Age: [26, 99] (Y 4, N 1)",
            "└─ Job: Worker (Y 2, N 3)",
            "   ├─ Age: [1, 26) (Y 0, N 3)",
            "   └─ Age: [26, 99] (Y 2, N 0)",
        ]
    )
    assert len(tree.text(partition(FIGURE_2), depth=1).splitlines()) == 3


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_tree_is_drawn(tmp_path: Path, suffix: str) -> None:
    """A file of the kind its name says, with the nodes' names in it where it is text."""
    path = tmp_path / f"tree.{suffix}"
    assert tree.draw(partition(FIGURE_2), path) == 2
    content = path.read_bytes()
    assert content[:4] == (b"\x89PNG" if suffix == "png" else b"<?xm")


def test_unknown_picture_format_is_refused(tmp_path: Path) -> None:
    """Neither SVG, PNG nor PDF."""
    with pytest.raises(UsageError, match=r"\.svg, \.png or \.pdf"):
        tree.draw(partition(FIGURE_2), tmp_path / "tree.doc")


def test_large_trees_are_drawn_as_far_as_they_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be a smear is cut off, and the caller is told how much is shown."""
    monkeypatch.setattr(tree, "MOST_DRAWN", 3)
    assert tree.draw(partition(FIGURE_2), tmp_path / "tree.svg") == 1


@settings(deadline=None)
@given(st.lists(st.integers(-50, 200), min_size=1, max_size=40), st.integers(0, 500))
def test_consistent_counts_add_up(counts: list[int], total: int) -> None:
    """Whole, from 0, adding up to the total, and in the order of the noisy counts."""
    found = consistent(np.array(counts), total)
    assert found.min() >= 0
    assert found.sum() == total
    order = np.argsort(counts, kind="stable")
    assert (np.diff(found[order]) >= -1).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_counts_without_noise_stay(counts: list[int]) -> None:
    """True counts are consistent already."""
    assert consistent(np.array(counts), sum(counts)).tolist() == counts
