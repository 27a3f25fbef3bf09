"""The partition tree of a release, to print and to draw.

The root holds all records. The first specialisation splits it, every later one splits all
nodes that hold the value it replaces, so the tree's leaves are the leaves of the partition.
Numbers are sums of the released noisy counts.

Text grows by a line a node; ``depth`` cuts it off. A drawing with more than ``MOST_DRAWN``
leaves would be a smear, so it is cut off where it would get there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sherd.methods.specialising.partition import Partition

MOST_DRAWN = 64


@dataclass(frozen=True, kw_only=True)
class Node:
    """A set of leaves: what it is called, its noisy counts by class, and its children."""

    label: str
    counts: tuple[int, ...]
    children: tuple[Node, ...] = ()

    @property
    def leaves(self) -> int:
        """How many nodes without children are below (or are this one)."""
        return sum(child.leaves for child in self.children) or 1


def build(partition: Partition, depth: int | None = None) -> Node:
    """The tree down to a number of specialisations, all of them where none is given."""
    steps = partition.specialised.steps[:depth]
    everything: list[tuple[int, int]] = [(0, one.size) for one in partition.hierarchies]
    cube = partition.counts.reshape(*partition.shape, partition.counts.shape[1])

    def visit(label: str, box: list[tuple[int, int]], after: int) -> Node:
        children: list[Node] = []
        for place in range(after, len(steps)):
            step = steps[place]
            a, edges = step.attribute, step.edges
            if box[a] != (edges[0], edges[-1]):
                continue
            one = partition.hierarchies[a]
            for part in itertools.pairwise(edges):
                inside = [*box[:a], part, *box[a + 1 :]]
                children.append(visit(f"{one.name}: {one.label(*part)}", inside, place + 1))
            break
        return Node(label=label, counts=_within(partition, cube, box), children=tuple(children))

    return visit("all records", everything, 0)


def _within(
    partition: Partition, cube: NDArray[np.int64], box: list[tuple[int, int]]
) -> tuple[int, ...]:
    for axis, (cut, (start, stop)) in enumerate(zip(partition.specialised.cuts, box, strict=True)):
        # Summed attribute by attribute: the axis that is done is kept with length 1.
        part = slice(cut.index(start), cut.index(stop))
        chosen = cube[(slice(None),) * axis + (part,)]
        cube = chosen.sum(axis=axis, keepdims=True)
    return tuple(int(count) for count in cube.ravel())


def text(partition: Partition, depth: int | None = None) -> str:
    """The tree as lines of text, counts by class behind each node."""
    lines = []
    names = partition.class_labels if partition.class_name is not None else ("",)

    def walk(node: Node, indent: str, last: bool, top: bool) -> None:
        counts = ", ".join(
            f"{name} {count}".strip() for name, count in zip(names, node.counts, strict=True)
        )
        branch = "" if top else indent + ("└─ " if last else "├─ ")
        lines.append(f"{branch}{node.label} ({counts})")
        below = "" if top else indent + ("   " if last else "│  ")
        for child in node.children:
            walk(child, below, child is node.children[-1], False)

    walk(build(partition, depth), "", True, True)
    return "\n".join(lines)


def draw(partition: Partition, path: str | Path, depth: int | None = None) -> int:
    """Draw the tree to an SVG, PNG or PDF file; returns how many specialisations are shown."""
    from matplotlib.figure import Figure

    suffix = str(path).rsplit(".", 1)[-1].lower()
    if suffix not in ("svg", "png", "pdf"):
        raise UsageError("the drawing's format is unknown", must=".svg, .png or .pdf", got=suffix)
    shown = len(partition.specialised.steps) if depth is None else depth
    tree = build(partition, shown)
    while tree.leaves > MOST_DRAWN and shown > 1:
        shown -= 1
        tree = build(partition, shown)
    placed = list(_placed(tree))
    deepest = max(level for _, _, level, _ in placed)
    figure = Figure(figsize=(4 + 3.2 * deepest, 1 + 0.34 * tree.leaves))
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for node, height, level, parent in placed:
        if parent is not None:
            x = [level - 0.35, level - 0.06]
            axes.plot(x, [parent, height], color="0.6", linewidth=0.8)
        counts = " / ".join(str(count) for count in node.counts)
        axes.text(level - 0.05, height, f"{node.label}  {counts}", fontsize=7, va="center")
    axes.set_xlim(-0.1, deepest + 1)
    axes.set_ylim(tree.leaves - 0.5, -0.5)
    figure.savefig(path)
    return shown


def _placed(tree: Node) -> Iterator[tuple[Node, float, int, float | None]]:
    """Every node with its height, level and its parent's height; leaves at whole heights."""
    heights: dict[int, float] = {}

    def settle(node: Node, next_leaf: int) -> int:
        if not node.children:
            heights[id(node)] = float(next_leaf)
            return next_leaf + 1
        for child in node.children:
            next_leaf = settle(child, next_leaf)
        ends = [heights[id(child)] for child in (node.children[0], node.children[-1])]
        heights[id(node)] = float(np.mean(ends))
        return next_leaf

    def walk(
        node: Node, level: int, parent: float | None
    ) -> Iterator[tuple[Node, float, int, float | None]]:
        yield node, heights[id(node)], level, parent
        for child in node.children:
            yield from walk(child, level + 1, heights[id(node)])

    settle(tree, 0)
    return walk(tree, 0, None)
