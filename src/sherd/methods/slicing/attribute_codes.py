"""Attributes as small integers that keep their order, and ranges of them as labels.

Every attribute becomes codes 0, 1, … in its own order: measured values by size, labels as
declared, labels with a taxonomy in the order of its branches, so that every node is a
range of codes. A missing value is a value of its own and comes first.

A range of codes has a label: the value itself, a node of the taxonomy, an interval, or a
set of labels, and ``*`` for everything. ``describe`` says what a label stands for, so that
an analyst (and the audit) need not parse it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.coding import texts
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute
    from sherd.tables.taxonomy import Taxonomy

ANYTHING = "*"
"""The label of a range that holds every value."""

_LISTED = 8  # a set of more labels than this is named by its ends


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One attribute as codes.

    ``values[code]`` is the value behind a code (None for a missing one). ``depth[code]``
    belongs to the boundary below ``code``: how deep the lowest taxonomy node above both
    sides lies; a cut is made at the boundaries of least depth in a range, so that ranges
    stay nodes. Without a taxonomy all boundaries are equal.
    """

    name: str
    type: Type
    codes: NDArray[np.int32]
    values: tuple[Any, ...]
    depth: NDArray[np.int32]
    taxonomy: Taxonomy | None = None
    bounds: tuple[Any, Any] | None = None

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.values)

    @property
    def has_missing(self) -> bool:
        """Whether code 0 stands for a missing value."""
        return self.size > 0 and self.values[0] is None

    def label(self, low: int, high: int, *, tight: bool = False) -> str | None:
        """The label of the codes from ``low`` to ``high``; None for missing alone."""
        if low == 0 and high == self.size - 1 and self.size > 1 and not self._exact(tight):
            return ANYTHING
        with_missing = self.has_missing and low == 0
        if with_missing and high == 0:
            return None
        text = self._label_of_values(low + with_missing, high, tight)
        return f"{text} or missing" if with_missing else text

    def _exact(self, tight: bool) -> bool:
        """Whether ranges say where they end even if they hold everything."""
        return tight and self.type.measured

    def _label_of_values(self, low: int, high: int, tight: bool) -> str:
        if self.type.measured:
            return self._interval(low, high, tight)
        labels = [str(value) for value in self.values[low : high + 1]]
        if len(labels) == 1:
            return labels[0]
        if self.taxonomy is not None:
            return self.taxonomy.covering(labels)
        if len(labels) <= _LISTED:
            return "|".join(labels)
        return f"{labels[0]} … {labels[-1]} ({len(labels)})"

    def _interval(self, low: int, high: int, tight: bool) -> str:
        start, end, closed = self.interval(low, high, tight)
        if closed and start == end:
            return _said(start)
        return f"[{_said(start)}, {_said(end)}{']' if closed else ')'}"

    def interval(self, low: int, high: int, tight: bool) -> tuple[Any, Any, bool]:
        """The published interval of a range of measured codes, and whether its end is in it.

        The end is the next value's beginning, not the largest value seen: a tight box
        would say that its corners are somebody's. With ``tight`` it says so.
        """
        if tight:
            return self.values[low], self.values[high], True
        first = 1 if self.has_missing else 0
        start = self.values[low]
        if low == first and self.bounds is not None:
            start = min(start, self.bounds[0])
        if high + 1 < self.size:
            following = self.values[high + 1]
            if self.type is Type.INTEGER:
                return start, following - 1, True
            if self.type is Type.DATE:
                return start, following - timedelta(days=1), True
            return start, following, False
        end = self.values[high]
        return start, end if self.bounds is None else max(end, self.bounds[1]), True

    def describe(self, low: int, high: int, *, tight: bool = False) -> dict[str, object]:
        """What a label stands for, as plain data."""
        first = 1 if self.has_missing else 0
        said: dict[str, object] = {}
        if first and low == 0:
            said["missing"] = True
            low = 1
        if low > high:
            return said
        if self.type.measured:
            start, end, closed = self.interval(low, high, tight)
            return said | {"low": _said(start), "high": _said(end), "closed": closed}
        labels = [str(value) for value in self.values[low : high + 1]]
        if self.taxonomy is not None and len(labels) > 1:
            labels = list(self.taxonomy.leaves_under(self.taxonomy.covering(labels)))
        return said | {"values": labels}


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)


def encode(column: pa.ChunkedArray, attribute: Attribute, marks: Sequence[str] = ()) -> Coded:
    """The codes of one attribute of a prepared table; ``marks`` are texts for missing."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    occurring, old = _occurring(array)
    if attribute.type.measured:
        # Missing ones come first.
        order = np.roll(pc.sort_indices(occurring).to_numpy(), occurring.null_count)
        values = occurring.take(pa.array(order)).to_pylist()
        new = np.empty(len(order), dtype=np.int32)
        new[order] = np.arange(len(order), dtype=np.int32)
        depth = np.zeros(len(order), dtype=np.int32)
        return Coded(
            name=attribute.name,
            type=attribute.type,
            codes=new[old],
            values=tuple(values),
            depth=depth,
            bounds=_bounds(attribute, values),
        )
    gone = set(marks) - set(attribute.labels or ())
    labels = [None if label in gone else label for label in texts(occurring)]
    return _encode_labels(old, labels, attribute)


def _occurring(array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values that occur, a missing one among them, and every row's place in these."""
    if pa.types.is_dictionary(array.type) and not pa.types.is_floating(array.type.value_type):
        # What no row uses belongs to nobody here, and a dictionary may name a value twice.
        missing = len(array.dictionary)
        places = array.indices.cast(pa.int32()).fill_null(missing).to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(places, minlength=missing + 1))
        values = pa.concat_arrays([array.dictionary, pa.nulls(1, array.type.value_type)])
        occurring, few = _occurring(values.take(pa.array(used)))
        of_place = np.zeros(missing + 1, dtype=np.int64)
        of_place[used] = few
        return occurring, of_place[places]
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    encoded = array.dictionary_encode(null_encoding="encode")
    old = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return encoded.dictionary, old


def _encode_labels(old: NDArray[np.int64], labels: list[str | None], attribute: Attribute) -> Coded:
    present = {value for value in labels if value is not None}
    taxonomy = attribute.taxonomy
    if taxonomy is not None and present <= set(taxonomy.leaves):
        leaves, deep = _branches(taxonomy)
        ordered, depths = list(leaves), list(deep)
    else:
        taxonomy = None
        # A list that was taken from the data may hold labels of people who were left out.
        declared = () if attribute.values_from_data else attribute.labels or ()
        ordered = [*declared, *sorted(present - set(declared))]
        depths = [0] * len(ordered)
    missing = any(value is None for value in labels)
    values: list[Any] = ([None] if missing else []) + ordered
    depth = [-1, *depths] if missing else depths
    if missing and ordered:
        depth[1] = -1  # missing against present is the first boundary to cut at
    place = {value: code for code, value in enumerate(values)}
    new = np.array([place[value] for value in labels], dtype=np.int32)
    return Coded(
        name=attribute.name,
        type=attribute.type,
        codes=new[old] if len(new) else np.empty(0, dtype=np.int32),
        values=tuple(values),
        depth=np.array(depth, dtype=np.int32),
        taxonomy=taxonomy,
    )


@lru_cache(maxsize=256)
def _branches(taxonomy: Taxonomy) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The leaves branch by branch, and the depth of the node above each and its predecessor."""
    leaves: list[str] = []
    waiting = [taxonomy.root]
    while waiting:
        node = waiting.pop()
        below = taxonomy.children(node)
        if below:
            waiting.extend(reversed(below))
        else:
            leaves.append(node)
    depths = [0]
    for before, after in itertools.pairwise(leaves):
        one, two = taxonomy.ancestors(before)[::-1], taxonomy.ancestors(after)[::-1]
        depths.append(sum(a == b for a, b in zip(one, two, strict=False)) - 1)
    return tuple(leaves), tuple(depths)


def _bounds(attribute: Attribute, values: list[Any]) -> tuple[Any, Any] | None:
    present = [value for value in (values[:2] + values[-1:]) if value is not None]
    if attribute.domain is None or not present:
        return None
    low, high = attribute.domain
    sample = present[0]
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        if isinstance(sample, int):
            return int(low), int(high)
        return (float(low), float(high)) if isinstance(sample, float) else (low, high)
    if isinstance(sample, datetime) and isinstance(low, datetime) and isinstance(high, datetime):
        return low.replace(tzinfo=sample.tzinfo), high.replace(tzinfo=sample.tzinfo)
    return low, high


def combined(parts: list[NDArray[np.int32]], sizes: list[int]) -> tuple[NDArray[np.int32], int]:
    """One code for each combination of several attributes' codes, and how many occur."""
    if not parts:
        return np.zeros(0, dtype=np.int32), 0
    keys = parts[0].astype(np.int64)
    room = max(sizes[0], 1)
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        if room * max(size, 1) >= 2**62:
            _, keys = np.unique(keys, return_inverse=True)
            room = int(keys.max()) + 1 if len(keys) else 1
        keys = keys * max(size, 1) + part
        room *= max(size, 1)
    if room <= 4 * len(keys) + 1024:  # few possible combinations: count instead of sorting
        seen = np.zeros(room, dtype=bool)
        seen[keys] = True
        place = np.cumsum(seen, dtype=np.int64) - 1
        return place[keys].astype(np.int32), int(place[-1]) + 1
    distinct, inverse = np.unique(keys, return_inverse=True)
    return inverse.astype(np.int32), len(distinct)
