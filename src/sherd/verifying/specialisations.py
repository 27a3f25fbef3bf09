"""The specialisations that a release of generalised records states, carried out again.

Rows come in the order of the cuts, so the labels of an attribute in the order in which they
occur are the intervals of its cut, and what a step divided is what lies between its edges.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

_PROTECTED = ("quasi-identifier", "sensitive")
MISSING = "(missing)"
OR_MISSING = f" or {MISSING}"


def _features(manifest: Mapping[str, Any]) -> list[str]:
    target = manifest["plan"].get("class_attribute")
    attributes = manifest["schema"]["attributes"]
    return [n for n, a in attributes.items() if a.get("role") in _PROTECTED and n != target]


def _labels(data: pa.Table, name: str) -> list[str]:
    return [str(label) for label in pc.unique(data.column(name)).to_pylist()]


def leaves(data: pa.Table, manifest: Mapping[str, Any]) -> int:
    """How many combinations of intervals there are, the class aside."""
    return math.prod(len(_labels(data, name)) for name in _features(manifest))


def fit(given: Any, data: pa.Table, manifest: Mapping[str, Any]) -> bool:
    """Whether these steps lead to the labels that the table shows."""
    names = _features(manifest)
    steps: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    if not isinstance(given, list) or len(given) > manifest["plan"]["h"]:
        return False
    for step in given:
        if set(step) != {"attribute", "value", "edges"} or step["attribute"] not in steps:
            return False
        steps[step["attribute"]].append(step)
    return all(
        _leads(steps[name], _labels(data, name), manifest["schema"]["attributes"][name])
        for name in names
    )


def _leads(
    steps: Sequence[Mapping[str, Any]], labels: list[str], attribute: Mapping[str, Any]
) -> bool:
    """Whether an attribute's steps, one after the other, end in a cut with these labels."""
    if not steps:
        return len(labels) == 1
    cut = [0, steps[0]["edges"][-1]]
    for step in steps:
        edges = step["edges"]
        if not all(type(edge) is int for edge in edges) or len(edges) < 3:
            return False
        if not all(a < b for a, b in itertools.pairwise(edges)):
            return False
        if (edges[0], edges[-1]) not in itertools.pairwise(cut):
            return False
        cut = sorted({*cut, *edges})
    if len(cut) - 1 != len(labels):
        return False
    place = {edge: at for at, edge in enumerate(cut)}
    return all(
        _names(step["value"], labels[place[step["edges"][0]] : place[step["edges"][-1]]], attribute)
        for step in steps
    )


def _names(value: Any, parts: list[str], attribute: Mapping[str, Any]) -> bool:
    """Whether a label is that of the parts together."""
    if attribute["type"] in ("category", "ordinal", "boolean"):
        below = {leaf for part in parts for leaf in values_below(part, attribute)}
        return isinstance(value, str) and values_below(value, attribute) == below != set()
    bare = [part.removesuffix(OR_MISSING) for part in parts if part != MISSING]
    if not bare:
        return False
    low, high = bare[0].partition(", ")[0], bare[-1].partition(", ")[2]
    missing = OR_MISSING if parts[-1].endswith(MISSING) else ""
    return bool(value == f"{low}, {high}{missing}")


def values_below(label: str, attribute: Mapping[str, Any]) -> set[str]:
    """The values a label stands for; missing cells, which hang at the root, are left aside."""
    paths = attribute.get("taxonomy")
    if paths:
        return {path[0] for path in paths if label in path}
    values = {"false", "true"} if attribute["type"] == "boolean" else set(attribute["values"])
    return values if label == "*" else {label} & values
