"""One way to use every release: record-level tables drawn from it, and counting queries.

A sliced or bucketised table hides which cells belong together; drawing relinks them at
random inside their buckets. A generalised table hides exact values; drawing samples them
from their range or group. A masked table is drawn as it is. Averages over several draws
are what an analyst can learn.

>>> q = CountQuery(where={"age": Range(low=30, high=39), "sex": Values(of=frozenset({"F"}))})
>>> sorted(q.where)
['age', 'sex']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sherd.errors import UsageError
from sherd.release.method import traits_of
from sherd.release.traits import loaded
from sherd.verifying.label_meaning import Book, Labelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.randomness import Randomness


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values from ``low`` to ``high``, both included; None leaves an end open."""

    low: Any = None
    high: Any = None

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range; a missing one is not."""
        if value is None:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True, kw_only=True)
class Values:
    """A condition that a value is one of several."""

    of: frozenset[Any]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.of


@dataclass(frozen=True, kw_only=True)
class CountQuery:
    """How many records satisfy a condition on each of some attributes."""

    where: Mapping[str, Range | Values]


class Drawable(Protocol):
    """A release that can be used as if it were records."""

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """Record-level tables that the release could stand for, one after the other."""

    def count(self, query: CountQuery) -> float:
        """The expected number of records that satisfy the query."""


def _satisfied(
    table: pa.Table,
    fields: Mapping[str, str],
    query: CountQuery,
    books: Mapping[str, Book],
    kinds: Mapping[str, str],
) -> NDArray[np.float64]:
    """For every row the chance that its cells satisfy the conditions on the given fields."""
    chance = np.ones(table.num_rows)
    for attribute, field in fields.items():
        if attribute in query.where:
            kind = kinds.get(attribute, "category")
            labelled = Labelled.of(table[field], books.get(attribute), kind)
            chance *= labelled.chances(query.where[attribute])
    return chance


def require_known(query: CountQuery, known: Sequence[str]) -> None:
    """Refuse a query about an attribute that a release does not have."""
    for name in query.where:
        if name not in known:
            raise UsageError(
                "the query asks about an attribute that the release does not have",
                must="one of " + ", ".join(known),
                got=repr(name),
            )


@dataclass(frozen=True, kw_only=True)
class MaskedRelease:
    """A table whose rows are records already."""

    table: pa.Table

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """The table itself, as often as asked for."""
        del randomness
        for _ in range(n_draws):
            yield self.table

    def satisfied(self, query: CountQuery) -> NDArray[np.float64]:
        """1 for every row that satisfies the query, 0 for the others."""
        require_known(query, self.table.column_names)
        fields = {name: name for name in self.table.column_names}
        return _satisfied(self.table, fields, query, {}, {})

    def count(self, query: CountQuery) -> float:
        """The number of rows that satisfy the query."""
        return float(self.satisfied(query).sum())


@dataclass(frozen=True, kw_only=True)
class DrawnRelease(MaskedRelease):
    """A table of rows that were drawn from a model: none stands for a record."""


@dataclass(frozen=True, kw_only=True)
class GeneralisedRelease:
    """A table with labels for ranges and groups, and the books that explain them.

    ``kinds`` are the attributes' types, as a schema writes them; ``grouped`` whether rows with
    equal labels are a class of real records, not such as noise made.
    """

    table: pa.Table
    books: Mapping[str, Book]
    kinds: Mapping[str, str]
    grouped: bool = True

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """The table with every label replaced by a value it stands for, chosen evenly."""
        columns = {
            name: Labelled.of(self.table[name], self.books.get(name), self.kinds[name])
            for name in self.table.column_names
        }
        for _ in range(n_draws):
            yield pa.table({name: one.sample(randomness) for name, one in columns.items()})

    def count(self, query: CountQuery) -> float:
        """The expected count, values spread evenly over what a label stands for."""
        require_known(query, self.table.column_names)
        fields = {name: name for name in self.table.column_names}
        return float(_satisfied(self.table, fields, query, self.books, self.kinds).sum())


@dataclass(frozen=True, kw_only=True)
class SlicedRelease:
    """Columns that were permuted inside buckets.

    ``columns`` maps, for each column, attributes to their fields; an attribute that stands
    in several columns is taken from the first.
    """

    table: pa.Table
    bucket: str
    columns: tuple[Mapping[str, str], ...]
    books: Mapping[str, Book]
    kinds: Mapping[str, str]

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """The columns relinked at random inside every bucket."""
        buckets = self.table[self.bucket].to_numpy().astype(np.int64)
        plain = {
            (place, attribute): Labelled.of(
                self.table[field], self.books.get(attribute), self.kinds[attribute]
            )
            for place, column in enumerate(self.columns)
            for attribute, field in column.items()
        }
        for _ in range(n_draws):
            fields: dict[str, Any] = {}
            for place, column in enumerate(self.columns):
                moved = pa.array(randomness.permutation_within(buckets))
                for attribute in column:
                    if attribute not in fields:
                        fields[attribute] = plain[place, attribute].sample(randomness).take(moved)
            yield pa.table(fields)

    def count(self, query: CountQuery) -> float:
        """Σ_B |B| Π (share of B's cells that satisfy the query), over the columns."""
        known = list(dict.fromkeys(name for column in self.columns for name in column))
        require_known(query, known)
        buckets = self.table[self.bucket].to_numpy()
        _, place, sizes = np.unique(buckets, return_inverse=True, return_counts=True)
        expected = sizes.astype(np.float64)
        asked: set[str] = set()
        for column in self.columns:
            fresh = {a: f for a, f in column.items() if a not in asked}
            asked |= set(fresh)
            if set(fresh) & set(query.where):
                chance = _satisfied(self.table, fresh, query, self.books, self.kinds)
                expected *= np.bincount(place, weights=chance, minlength=len(sizes)) / sizes
        return float(expected.sum())


@dataclass(frozen=True, kw_only=True)
class BucketisedRelease:
    """Quasi-identifiers with buckets, and the sensitive values of every bucket with counts."""

    quasi: pa.Table
    sensitive: pa.Table
    bucket: str
    count_field: str
    kinds: Mapping[str, str]

    def as_sliced(self) -> SlicedRelease:
        """The same as a sliced table of two columns, rows ordered by bucket."""
        times = self.sensitive[self.count_field].to_numpy().astype(np.int64)
        listed = self.sensitive.take(pa.array(np.repeat(np.arange(len(times)), times)))
        listed = listed.take(pa.array(np.argsort(listed[self.bucket].to_numpy(), kind="stable")))
        quasi = self.quasi.take(
            pa.array(np.argsort(self.quasi[self.bucket].to_numpy(), kind="stable"))
        )
        known = [name for name in quasi.column_names if name != self.bucket]
        hidden = [n for n in listed.column_names if n not in (self.bucket, self.count_field)]
        fields = {name: quasi[name] for name in quasi.column_names}
        return SlicedRelease(
            table=pa.table(fields | {name: listed[name] for name in hidden}),
            bucket=self.bucket,
            columns=({n: n for n in known}, {n: n for n in hidden}),
            books={},
            kinds=self.kinds,
        )

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """Every record with a sensitive value of its bucket, dealt at random."""
        return self.as_sliced().draw(randomness, n_draws)

    def count(self, query: CountQuery) -> float:
        """The expected count, values dealt evenly inside every bucket."""
        return self.as_sliced().count(query)


def drawable(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> Drawable:
    """The release of a bundle as something to draw from, as its method declares.

    A release of records is drawn as it is, and so is one of an unknown method.
    """
    traits = traits_of(manifest)
    if traits is None or traits.drawing is None or traits.of_records(manifest["plan"]):
        return MaskedRelease(table=data_of(tables))
    drawn: Drawable = loaded(traits.drawing)(tables, manifest)
    return drawn


def data_of(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The table called data; refused where a release has none."""
    if "data" not in tables:
        raise UsageError(
            "this release cannot be turned into records",
            must="a release with a table called data",
            got=", ".join(sorted(tables)),
        )
    return tables["data"]


def drawn_rows(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> DrawnRelease:
    """Rows that a method drew as they are; no row map can speak of them."""
    del manifest
    return DrawnRelease(table=data_of(tables))


def kinds_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The type of every attribute, as the schema writes it."""
    return {name: a["type"] for name, a in manifest["schema"]["attributes"].items()}


def slices(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> SlicedRelease:
    """A sliced table as something to draw from."""
    facts = manifest["facts"]
    attributes = facts["attributes"]
    return SlicedRelease(
        table=data_of(tables),
        bucket=facts["bucket"],
        columns=tuple({attributes.get(f, f): f for f in fields} for fields in facts["columns"]),
        books=facts["labels"],
        kinds=kinds_of(manifest),
    )


def buckets(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> BucketisedRelease:
    """A bucketised table as something to draw from."""
    facts = manifest["facts"]
    return BucketisedRelease(
        quasi=tables["quasi-identifiers"],
        sensitive=tables["sensitive"],
        bucket=facts["bucket"],
        count_field=facts["count"],
        kinds=kinds_of(manifest),
    )


def classes(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> GeneralisedRelease:
    """A table with generalised classes as something to draw from."""
    books = manifest["facts"]["labels"]
    return GeneralisedRelease(table=data_of(tables), books=books, kinds=kinds_of(manifest))
