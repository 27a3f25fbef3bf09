"""Taxonomies: trees over the values of an attribute, from leaves to one root.

The file form is the field's own: one line a leaf, from the value to the root, separated
by commas or semicolons (``Bachelors;Undergraduate;Higher education;*``). Equal
neighbours on a line are one node, so branches may be of different depth.

>>> tree = Taxonomy.from_paths([["a", "x", "*"], ["b", "x", "*"], ["c", "c", "*"]])
>>> tree.leaves, tree.children("*"), tree.leaves_under("x")
(('a', 'b', 'c'), ('x', 'c'), ('a', 'b'))
>>> tree.covering(["a", "b"]), tree.covering(["a", "c"])
('x', '*')
"""

from __future__ import annotations

import csv
import io
import itertools
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import FormatError, SchemaError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_BYTES = 64 << 20
"""The largest taxonomy file that is read."""


@dataclass(frozen=True, kw_only=True)
class Taxonomy:
    """A tree over the values of an attribute.

    ``paths`` holds one path a leaf, from the leaf to the root, without repeated
    neighbours. The order of the leaves is the order of the file.
    """

    paths: tuple[tuple[str, ...], ...]
    _parents: dict[str, str] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not self.paths:
            raise SchemaError("the taxonomy is empty", must="one line for every value")
        roots = {path[-1] for path in self.paths}
        if len(roots) != 1:
            raise SchemaError(
                "the taxonomy has more than one root",
                must="lines that all end in the same root",
                got=f"{len(roots)} roots",
                do="end every line with '*'",
            )
        parents: dict[str, str] = {}
        leaves: set[str] = set()
        for path in self.paths:
            if path[0] in leaves:
                raise SchemaError(f"the taxonomy lists the value '{path[0]}' twice")
            leaves.add(path[0])
            if len(set(path)) != len(path):
                raise SchemaError(
                    f"the taxonomy's line of '{path[0]}' visits a node twice",
                    must="a tree: every node once on the way to the root",
                )
            for child, parent in itertools.pairwise(path):
                if parents.setdefault(child, parent) != parent:
                    raise SchemaError(
                        f"the taxonomy gives '{child}' two parents",
                        must="a tree: one parent for every node",
                    )
        inner = {node for path in self.paths for node in path[1:]}
        if leaves & inner:
            node = min(leaves & inner)
            raise SchemaError(f"the taxonomy uses '{node}' both as a value and as a group")
        object.__setattr__(self, "_parents", parents)

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[str]]) -> Taxonomy:
        """A taxonomy from lines of leaf, group, …, root; equal neighbours are one node."""
        cleaned = []
        for path in paths:
            if not path:
                raise SchemaError("the taxonomy has an empty line", must="a value, …, the root")
            nodes = [path[0]] + [b for a, b in itertools.pairwise(path) if a != b]
            cleaned.append(tuple(nodes))
        return cls(paths=tuple(cleaned))

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """Read a taxonomy file, separated by commas or semicolons, without a header."""
        path = Path(path)
        try:
            status = path.stat()
            kind = stat.S_IFMT(status.st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFDIR) or status.st_size > MOST_BYTES:
                # A device or a pipe may never end.
                raise FormatError(
                    "the taxonomy's path does not lead to a readable file",
                    must=f"a file of at most {MOST_BYTES >> 20} MiB",
                    got=str(path),
                    do="correct the path in the schema",
                )
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise SchemaError(
                "the taxonomy file does not exist", got=str(path), do="check the schema's path"
            ) from None
        except UnicodeDecodeError:
            raise FormatError("the taxonomy file is not UTF-8", got=str(path)) from None
        except OSError as error:
            raise StorageError(
                "the taxonomy file cannot be read", got=f"{path}: {error.strerror}"
            ) from None
        first = text.splitlines()[0] if text.strip() else ""
        delimiter = ";" if ";" in first else ","
        try:
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        except csv.Error:
            raise FormatError("the taxonomy file is not CSV", got=str(path)) from None
        return cls.from_paths(rows)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Every value, in the order of the file."""
        return tuple(path[0] for path in self.paths)

    @property
    def root(self) -> str:
        """The node above all others."""
        return self.paths[0][-1]

    @property
    def height(self) -> int:
        """The number of steps from the deepest leaf to the root."""
        return max(len(path) for path in self.paths) - 1

    def parent(self, node: str) -> str | None:
        """The node above, None for the root."""
        return self._parents.get(node)

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        below: dict[str, dict[str, None]] = {}  # keys of a mapping: in order, and each once
        for path in self.paths:
            for child, parent in itertools.pairwise(path):
                below.setdefault(parent, {})[child] = None
        return {node: tuple(children) for node, children in below.items()}

    def children(self, node: str) -> tuple[str, ...]:
        """The nodes directly below, none for a leaf."""
        return self._children.get(node, ())

    @cached_property
    def _leaves_under(self) -> dict[str, tuple[str, ...]]:
        below: dict[str, list[str]] = {}
        for path in self.paths:
            for node in path:
                below.setdefault(node, []).append(path[0])
        return {node: tuple(leaves) for node, leaves in below.items()}

    def leaves_under(self, node: str) -> tuple[str, ...]:
        """The values at or below a node."""
        if node not in self._leaves_under:
            raise SchemaError("the taxonomy has no such node", got=repr(node))
        return self._leaves_under[node]

    def ancestors(self, node: str) -> tuple[str, ...]:
        """The node itself and every node above it, up to the root."""
        path = [node]
        while (above := self._parents.get(path[-1])) is not None:
            path.append(above)
        return tuple(path)

    def covering(self, values: Iterable[str]) -> str:
        """The lowest node above (or equal to) all the values."""
        shared: tuple[str, ...] | None = None
        for value in set(values):
            if value not in self._leaves_under:
                raise SchemaError("the taxonomy does not list a value it should cover")
            line = self.ancestors(value)
            shared = line if shared is None else tuple(n for n in shared if n in line)
        if not shared:
            raise SchemaError("no value was given to cover")
        return shared[0]
