"""Taxonomies: trees, read from lines of leaf to root."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sherd.errors import FormatError, SchemaError, StorageError
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pathlib import Path

TREE = Taxonomy.from_paths([["a", "x", "*"], ["b", "x", "*"], ["c", "c", "*"]])


def test_the_tree_can_be_walked() -> None:
    """Up, down, and to what covers several."""
    assert TREE.root == "*"
    assert TREE.height == 2
    assert TREE.parent("a") == "x"
    assert TREE.parent("*") is None
    assert TREE.children("a") == ()
    assert TREE.ancestors("b") == ("b", "x", "*")
    assert TREE.leaves_under("*") == ("a", "b", "c")
    assert TREE.leaves_under("c") == ("c",)
    assert TREE.covering(["a"]) == "a"


@pytest.mark.parametrize("text", ["a;x;*\nb;x;*\n", "a,x,*\nb,x,*\n", "\ufeffa;x;*\n\nb;x;*\n"])
def test_a_file_is_read(tmp_path: Path, text: str) -> None:
    """With semicolons or commas, with a mark of its encoding, empty lines left out."""
    (tmp_path / "t.csv").write_text(text)
    assert Taxonomy.load(tmp_path / "t.csv").leaves == ("a", "b")


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ([], "is empty"),
        ([[]], "an empty line"),
        ([["a", "*"], ["b", "+"]], "more than one root"),
        ([["a", "*"], ["a", "*"]], "lists the value 'a' twice"),
        ([["a", "x", "*"], ["b", "x", "y", "*"]], "gives 'x' two parents"),
        ([["x", "*"], ["b", "x", "*"]], "both as a value and as a group"),
        ([["a", "x", "y", "x"], ["b", "x"]], "visits a node twice"),
    ],
)
def test_what_is_no_tree_is_refused(paths: list[list[str]], text: str) -> None:
    """Loops too, which would never end."""
    with pytest.raises(SchemaError, match=text):
        Taxonomy.from_paths(paths)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, not UTF-8, no CSV, a folder, empty: each with its own message."""
    with pytest.raises(SchemaError, match="does not exist"):
        Taxonomy.load(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"caf\xe9;*\n")
    with pytest.raises(FormatError, match="not UTF-8"):
        Taxonomy.load(tmp_path / "latin.csv")
    (tmp_path / "huge.csv").write_text("a" * 200_000 + ";*\n")
    with pytest.raises(FormatError, match="not CSV"):
        Taxonomy.load(tmp_path / "huge.csv")
    with pytest.raises(StorageError, match="cannot be read"):
        Taxonomy.load(tmp_path)
    (tmp_path / "empty.csv").write_text("\n")
    with pytest.raises(SchemaError, match="is empty"):
        Taxonomy.load(tmp_path / "empty.csv")


def test_unknown_nodes_are_refused() -> None:
    """By asking what is below them or above them; without any value there is no cover."""
    with pytest.raises(SchemaError, match="no such node"):
        TREE.leaves_under("q")
    with pytest.raises(SchemaError, match="does not list a value"):
        TREE.covering(["a", "q"])
    with pytest.raises(SchemaError, match="no value was given"):
        TREE.covering([])


def test_a_flat_tree_of_many_leaves_is_quick() -> None:
    """Children are found in one pass, not by looking through all siblings each time."""
    tree = Taxonomy.from_paths([[f"v{i}", "*"] for i in range(50_000)])
    start = time.perf_counter()
    assert len(tree.children("*")) == 50_000
    assert time.perf_counter() - start < 2
