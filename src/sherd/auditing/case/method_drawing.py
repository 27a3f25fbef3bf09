"""Drawing records from releases that have none: fragments, ordered centroids, generalised records.

*Fragments* with a loose association. A row of the association names one group of every fragment;
which of a group's tuples it means is hidden. A draw deals the tuples of each group to the
association's rows at random, each once, which is all that the release says. Fragments that no
association speaks of are shuffled whole.

A release that follows another has empty places in its association, where a part of a tuple was
withdrawn: the record that is drawn lacks that part, and no query finds it there.

*Ordered centroids* of a strict release. Each attribute is drawn by itself, every centroid as often
as its cluster is large; nothing ties attributes together, so a draw shuffles each.

*Generalised records* of a specialising method. Such a release has no book of labels: an interval is
written as its ends, a group of labels by its name in the schema's taxonomy, and "or (missing)" says
that missing cells are in it too.

>>> book_of(["[17, 90] or (missing)", "[1, 27)", "(missing)"], {"type": "integer"})["[1, 27)"]
{'low': '1', 'high': '26'}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.auditing.case.record_drawing import (
    CountQuery,
    GeneralisedRelease,
    MaskedRelease,
    data_of,
    kinds_of,
    require_known,
)
from sherd.errors import FormatError, UsageError
from sherd.tables.schema import Schema
from sherd.verifying.generalised_records import MISSING, OR_MISSING, values_below
from sherd.verifying.label_meaning import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from sherd.randomness import Randomness
    from sherd.verifying.fragmented_tables import ReleasedFragments


EMPTY = -1
"""Stands for the group, or the tuple, of an empty place."""


@dataclass(frozen=True, kw_only=True)
class FragmentedRelease:
    """Fragments and the association that ties most of them together.

    ``sides`` has for each fragment the group of each of its tuples and the group that each
    association row names, -1 for an empty place (both None where no association speaks of the
    fragment).
    """

    layout: ReleasedFragments
    sides: tuple[tuple[NDArray[np.int64], NDArray[np.int64]] | None, ...]
    rows: int

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> FragmentedRelease:
        """The release made of these tables."""
        from sherd.verifying.fragmented_tables import read_layout

        layout = read_layout(tables)
        if layout is None:
            raise UsageError(
                "this release cannot be turned into records",
                must="fragments and an association between them",
                got=", ".join(sorted(tables)),
            )
        _, association = max(layout.associations, key=lambda pair: pair[1].num_columns)
        named = [pc.is_valid(column).to_numpy() for column in association.columns]
        association = association.filter(pa.array(np.any(named, axis=0)))
        sides: list[tuple[NDArray[np.int64], NDArray[np.int64]] | None] = []
        for fragment, groups in zip(layout.fragments, layout.groups, strict=True):
            shared = [name for name in groups if name in association.column_names]
            if not shared:
                sides.append(None)
                continue
            both = pa.chunked_array(
                [*fragment[shared[0]].chunks, *association[shared[0]].chunks]
            ).combine_chunks()
            indices = both.dictionary_encode().indices.cast(pa.int64())
            codes = pc.fill_null(indices, EMPTY).to_numpy()
            sides.append((codes[: fragment.num_rows], codes[fragment.num_rows :]))
        return cls(layout=layout, sides=tuple(sides), rows=association.num_rows)

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """Records: every association row with a tuple of each of its groups."""
        for _ in range(n_draws):
            columns = {}
            for fragment, names, side in zip(
                self.layout.fragments, self.layout.attributes, self.sides, strict=True
            ):
                taken = np.full(self.rows, EMPTY, np.int64)
                if side is None:
                    mixed = randomness.permutation(fragment.num_rows)[: self.rows]
                    taken[: len(mixed)] = mixed
                else:
                    held = side[1] != EMPTY
                    taken[held] = _deal(side[0], side[1][held], randomness)
                places = pa.array(taken, mask=taken == EMPTY)
                for name in names:
                    columns[name] = fragment[name].take(places)
            yield pa.table(columns)

    def count(self, query: CountQuery) -> float:
        """Σ over association rows of Π (share of the group's tuples that satisfy the query)."""
        require_known(query, sorted({name for names in self.layout.attributes for name in names}))
        chance = np.ones(self.rows)
        for fragment, names, side in zip(
            self.layout.fragments, self.layout.attributes, self.sides, strict=True
        ):
            where = {name: query.where[name] for name in names if name in query.where}
            if not where:
                continue
            held = MaskedRelease(table=fragment.select(names)).satisfied(CountQuery(where=where))
            if side is None:
                chance *= held.mean()
                continue
            groups, asked = side
            size = int(max(groups.max(), asked.max())) + 1
            total = np.bincount(groups, minlength=size)
            right = np.bincount(groups, weights=held, minlength=size)
            chance *= np.where(asked == EMPTY, 0.0, (right / np.maximum(total, 1))[asked])
        return float(chance.sum())


def _deal(
    groups: NDArray[np.int64], asked: NDArray[np.int64], randomness: Randomness
) -> NDArray[np.int64]:
    """For every association row a tuple of its group, each tuple once, at random."""
    shuffled = randomness.permutation(len(groups))
    tuples = shuffled[np.argsort(groups[shuffled], kind="stable")]
    rows = np.argsort(asked, kind="stable")
    ordered, wanted = groups[tuples], asked[rows]
    # Tuples of a group that no row asks for were suppressed; skip them.
    first = np.searchsorted(ordered, wanted, side="left")
    nth = np.arange(len(wanted)) - np.searchsorted(wanted, wanted, side="left")
    dealt = np.empty(len(asked), np.int64)
    dealt[rows] = tuples[np.minimum(first + nth, len(tuples) - 1)]
    return dealt


def fragments(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> FragmentedRelease:
    """A release made of fragments as something to draw from."""
    del manifest  # the tables say all
    return FragmentedRelease.of(tables)


def centroids(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> CentroidRelease:
    """A strict release as something to draw from."""
    schema = Schema.from_data(manifest["schema"])
    return CentroidRelease(table=data_of(tables), schema=schema)


def _value(cell: Any, kind: str) -> Any:
    """A cell in the attribute's own kind: texts stand for truth values, dates and times."""
    return parsed(cell, kind) if isinstance(cell, str) else cell


@dataclass(frozen=True, kw_only=True)
class CentroidRelease:
    """A table of attribute, cluster, size, value and text."""

    table: pa.Table
    schema: Schema

    def _columns(self) -> dict[str, pa.Array]:
        columns = {}
        for name in pc.unique(self.table.column("attribute")).to_pylist():
            part = self.table.filter(pc.equal(self.table.column("attribute"), name))
            field = "value" if self.schema[name].type.value in ("number", "integer") else "text"
            times = np.repeat(np.arange(part.num_rows), part.column("size").to_numpy())
            columns[name] = part.column(field).combine_chunks().take(pa.array(times))
        return columns

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """Tables of independent columns, each with its centroids in random rows."""
        columns = self._columns()
        for _ in range(n_draws):
            yield pa.table(
                {
                    name: column.take(pa.array(randomness.permutation(len(column))))
                    for name, column in columns.items()
                }
            )

    def count(self, query: CountQuery) -> float:
        """The expected count: the product of the shares of each condition."""
        columns = self._columns()
        rows = len(next(iter(columns.values())))
        share = 1.0
        for name, condition in query.where.items():
            kind = self.schema[name].type.value
            listed = columns[name].value_counts().to_pylist()
            share *= sum(
                one["counts"] for one in listed if condition.holds(_value(one["values"], kind))
            )
            share /= rows
        return share * rows


def records(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> GeneralisedRelease:
    """The records of a release, each label with what it stands for."""
    table = tables["records"]
    attributes = manifest["schema"]["attributes"]
    books = {
        name: book_of(pc.unique(table.column(name)).to_pylist(), attributes[name])
        for name in table.column_names
    }
    return GeneralisedRelease(table=table, books=books, kinds=kinds_of(manifest), grouped=False)


def book_of(labels: Iterable[Any], attribute: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What every label of an attribute stands for."""
    return {str(label): _meaning(str(label), attribute) for label in labels if label is not None}


def _meaning(label: str, attribute: Mapping[str, Any]) -> dict[str, Any]:
    if label == MISSING:
        return {"values": [], "missing": True}
    bare = label.removesuffix(OR_MISSING)
    kind = attribute["type"]
    if kind in ("category", "ordinal", "boolean"):
        listed = sorted(values_below(bare, attribute)) or [bare]
        return {"values": listed, "missing": label != bare}
    if bare[:1] != "[" or bare[-1:] not in "])" or ", " not in bare:
        raise FormatError("the release has a label that is neither an interval nor a group")
    low, _, high = bare[1:-1].partition(", ")
    if bare.endswith(")") and kind == "integer":
        high = str(int(high) - 1)
    return {"low": low, "high": high}
