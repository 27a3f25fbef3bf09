# ruff: noqa: E741 - l is the field's own name for it
"""Releasing buckets again after the data changed: every record keeps its signature.

The *signature* of a record is the set of sensitive values listed in its bucket, each once, at
least l of them. It is given at the first release of a record and kept for ever: in every later
one the record lies in a bucket of the same signature, however it is composed (m-invariance,
xiao2007). Where too few records of a value are left, their place in the bucket stays empty, and the
list of values is one longer than the list of records.

Then somebody who holds all releases, and knows everybody's quasi-identifiers and who was
released when, has for each value of a record's signature the same posterior, at most 1/l. Proof:
take a world, that is values for all records at all times which fits every release, and a
permutation π of the signature. Apply π to the values of all records of that signature, at all
times. Every bucket of the signature lists each value once, before and after, and no other bucket
is touched: it is a world again, and fits. So as many worlds give the record v as π(v).

The proof needs no more than that a bucket lists each value of its signature *equally often*. So
where buckets must have at least k rows, as the classes of ``mondrian``, they list each several
times. It also holds for anybody who sees less of the quasi-identifiers: ``slice`` permutes columns
inside the buckets, ``mondrian`` shows ranges. But buckets of different signatures must not be put
together: their common list fits worlds in which values of one are taken by records of the other.

A record whose value changes to one outside its signature keeps the value it was last released
with: were it left out, or given another signature, that would say that it changed, and away from
what. A record that returns has the signature it had. New records fill empty places of their
value, form buckets of their own, or are held back. Their values decide which are: the proof counts
worlds that fit the releases, not worlds that would have held the same records back, so somebody who
knows who joined the table when can learn more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import InfeasibleError
from sherd.release.method import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.slicing.signature_record import SignatureRecord
    from sherd.release.method import Lineage, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The buckets of a release: rows and values of each, and what it cost to keep signatures.

    ``values[b]`` are the values that bucket b lists, ``places[b]`` the table's rows that have
    them, −1 where nobody does; ``rows[b]`` are those that somebody has. ``stale``
    records keep an older value, ``held_back`` new ones wait, ``empty`` places have no record.
    """

    places: list[list[int]]
    values: list[tuple[str, ...]]
    record: SignatureRecord
    stale: int = 0
    held_back: int = 0
    stay: int = 0

    def add(self, signature: tuple[str, ...], columns: list[list[int]], times: int) -> None:
        """Add buckets of a signature: ``columns[v]`` are the places of value v, all as many."""
        for start in range(0, len(columns[0]), times):
            self.places.append([row for rows in columns for row in rows[start : start + times]])
            self.values.append(tuple(v for v in signature for _ in range(times)))

    @property
    def rows(self) -> list[list[int]]:
        """The table's rows in every bucket."""
        return [[row for row in places if row >= 0] for places in self.places]

    @property
    def empty(self) -> int:
        """How many listed values belong to nobody."""
        return sum(row < 0 for places in self.places for row in places)

    def expanded(self, table: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
        """One row for every listed value, and its bucket; empty places have no other cells."""
        import pyarrow as pa

        index = [None if row < 0 else row for places in self.places for row in places]
        listed = [value for values in self.values for value in values]
        name = self.record.sensitive
        large = table.take(pa.array(index, pa.int64()))
        kind = table.schema.field(name).type
        plain = shown(listed, getattr(kind, "value_type", kind))
        at = large.schema.get_field_index(name)
        lengths = [len(values) for values in self.values]
        return large.set_column(at, name, plain), np.repeat(np.arange(len(lengths)), lengths)

    def findings(self) -> tuple[Finding, ...]:
        """What the owner is told."""
        told = (
            ("kept", self.stay, "records of earlier releases, each with its signature"),
            ("held back", self.held_back, "new records that found no bucket; they may come later"),
            ("stale", self.stale, "records that keep the value they were last released with"),
            ("empty places", self.empty, "listed values that belong to nobody any more"),
        )
        return tuple(Finding(name=name, value=n, meaning=text) for name, n, text in told)


@dataclass(kw_only=True)
class _Kept:
    """The signatures and members of a record while buckets are added."""

    signatures: list[tuple[str, ...]]
    members: dict[str, tuple[int, str]]
    number: dict[tuple[str, ...], int] = field(default_factory=dict)

    def signature(self, values: Sequence[str]) -> int:
        made = tuple(sorted(values))
        if made not in self.number:
            self.number[made] = len(self.signatures)
            self.signatures.append(made)
        return self.number[made]


MISSING, PRESENT = "-", "+"
"""The sign that a value in a record begins with."""


def kept_buckets(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    lineage: Lineage,
    *,
    order: NDArray[np.int64],
    local: bool = False,
    least: int = 1,
) -> Buckets:
    """The buckets of a table with clamped values, going on from the record of earlier releases.

    ``order`` decides which rows meet; with ``local``, rows that lie near each other in it do.
    Buckets list at least ``least`` values, counted with repetitions.
    """
    import pyarrow as pa

    from sherd.methods.slicing.diversity_feasibility import feasible_rows
    from sherd.methods.slicing.signature_record import earlier
    from sherd.tables.coding import texts

    old = earlier(lineage, plan, schema, run)
    column = table[old.sensitive].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = [MISSING if cell is None else PRESENT + cell for cell in texts(column)]
    made = bucketed_again(old, lineage.keys.values, values, order, local=local, least=least)
    if lineage.past is None:
        # The guarantee of a first release names no waiting, only suppression that was asked for.
        share = plan["most_suppressed"] if plan["suppress"] else 0.0
        if made.held_back > share * table.num_rows:
            feasible_rows(table, schema, plan, run.randomness)  # says what would help
            raise InfeasibleError(
                "no first release with a record exists that leaves out so few records",
                must=f"groups that take all but {share:.0%} of the records".replace("%", " %"),
                do="lower l or k, or "
                + ("raise 'most_suppressed'" if plan["suppress"] else "add 'suppress'"),
            )
    return made


def shown(values: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Values of a record as a column of a released table."""
    import pyarrow as pa

    return pa.array([None if v == MISSING else v[1:] for v in values], pa.string()).cast(kind)


def bucketed_again(
    old: SignatureRecord,
    keys: Sequence[str],
    values: Sequence[str],
    order: NDArray[np.int64],
    *,
    local: bool = False,
    least: int = 1,
) -> Buckets:
    """Buckets for a table (a key and a sensitive value a row) that keep every signature."""
    kept = _Kept(signatures=list(old.signatures), members=dict(old.members))
    kept.number = {values: at for at, values in enumerate(kept.signatures)}
    staying: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    fresh: dict[str, list[int]] = defaultdict(list)
    stale = stay = 0
    for row in order.tolist():
        known = kept.members.get(keys[row])
        if known is None:
            fresh[values[row]].append(row)
            continue
        number, last = known
        stay += 1
        if values[row] not in kept.signatures[number]:
            stale += 1
        else:
            last = values[row]
        kept.members[keys[row]] = number, last
        staying[number][last].append(row)
    made = Buckets(places=[], values=[], record=old, stale=stale, stay=stay)
    for number in sorted(staying):
        signature, of_value = kept.signatures[number], staying[number]
        times = -(-least // len(signature))
        count = -(-max(map(len, of_value.values())) // times) * times
        for value in signature:
            while len(of_value[value]) < count and fresh[value]:
                row = fresh[value].pop()
                kept.members[keys[row]] = number, value
                of_value[value].append(row)
        made.add(signature, [_filled(of_value[v], count) for v in signature], times)
    held = _new_buckets(fresh, keys, old.l, least, kept, made, order, local=local)
    record = replace(old, signatures=tuple(kept.signatures), members=kept.members, release="")
    return replace(made, record=record, held_back=held)


def _filled(rows: list[int], count: int) -> list[int]:
    """The rows, followed by as many empty places as make ``count``."""
    return rows + [-1] * (count - len(rows))


def _new_buckets(
    fresh: dict[str, list[int]],
    keys: Sequence[str],
    l: int,
    least: int,
    kept: _Kept,
    made: Buckets,
    order: NDArray[np.int64],
    *,
    local: bool,
) -> int:
    """Add buckets of nothing but new records; returns how many of them find none.

    Where a bucket must be larger than there are different values for it, records of one value go
    together in *units*, which are then grouped as single records are.
    """
    from sherd.methods.slicing.diversity_feasibility import surviving
    from sherd.methods.slicing.local_grouping import grouped, local_groups
    from sherd.methods.slicing.sensitive_values import Sensitive

    waiting = sum(map(len, fresh.values()))
    if not waiting:
        return 0
    different = max(l, min(least, waiting // max(map(len, fresh.values()))))
    times = -(-least // different)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    units = [
        (int(rank[rows[at]]), value, rows[at : at + times])
        for value, rows in fresh.items()
        for at in range(0, len(rows), times)
    ]
    units.sort()
    names = sorted(fresh)
    codes = np.array([names.index(value) for _, value, _ in units], dtype=np.int32)
    sensitive = Sensitive(names=("",), codes=codes[:, None], sizes=(len(names),))
    nothing = np.zeros(len(units), dtype=np.int32)
    fits = surviving(sensitive, nothing, different, np.arange(len(units)))
    if len(fits) < different:
        return waiting
    group = (local_groups if local else grouped)(codes[fits], len(names), different)
    buckets: list[list[int]] = [[] for _ in range(int(group.max()) + 1)]
    for at, number in zip(fits.tolist(), group.tolist(), strict=True):
        buckets[number].append(at)
    for bucket in buckets:
        mine = {units[at][1]: units[at][2] for at in bucket}
        number = kept.signature(list(mine))
        signature = kept.signatures[number]
        for value in signature:
            for row in mine[value]:
                kept.members[keys[row]] = number, value
                waiting -= 1
        made.add(signature, [_filled(mine[value], times) for value in signature], times)
    return waiting
