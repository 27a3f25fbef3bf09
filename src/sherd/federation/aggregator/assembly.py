"""From deliveries to the joint release: verify, unite or join, shuffle, describe, write.

Horizontal: the rows of all owners. Vertical: the columns of all owners; every owner
delivered its rows in the order of the common pseudonyms, so that row r is the same person
everywhere and no table ever holds a pseudonym. Blocks: the rows of the owners of the same
attributes are put into the order of all pseudonyms first, then as vertical. Rows are then
shuffled, which takes the owner (or the pseudonyms' order) away.

No table is ever whole in memory: deliveries are mapped files, cells go into mapped files column by
column, and the release is written a row group at a time.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import VerificationError
from sherd.federation.aggregator.delivery_check import (
    RECORDS,
    check_delivery,
    check_part,
    holds_records,
)
from sherd.federation.protocol.agreement import column_groups
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.joint_release import (
    followed,
    joint_guarantee,
    linkage,
    pooled_plan,
    pooled_schema,
)
from sherd.federation.protocol.linkage import POINT, listed
from sherd.release.manifest import FORMAT
from sherd.signing_keys import fingerprint, verify_plan
from sherd.tables.write import StreamedTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.engines.mapped_columns import MappedColumns
    from sherd.federation.aggregator.mapped_bulk import FlatColumn
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.messages import Delivery, Masked
    from sherd.release.bundle import Release
    from sherd.release.method import Outcome

Tables = dict[str, "pa.Table"]

PART_ROWS = 1 << 20
"""Rows that are shuffled in memory at once."""


def check(data: RoundData, owner: str, tables: Tables) -> None:
    """Raise VerificationError where an owner's delivery is not what the plan asks for."""
    plan = data.agreed
    share = plan.share(owner)
    if not verify_plan(share.key, plan.hash, data.signatures.get(owner, "")):
        raise VerificationError(f"the plan is not signed by {owner}")
    check_part(data, owner, data.deliveries[owner])
    rows = share.rows
    if plan.terms.kind.joins:
        mine = (data.commons or {}).get(owner, data.common)
        assert mine is not None
        rows = mine.size // POINT
    schema = plan.schema(owner)
    check_delivery(owner, tables, schema, plan.local(owner), rows, coded=bool(plan.coded))
    if plan.terms.kind.joins and not holds_records(tables, schema):
        raise VerificationError("a release of joined columns needs records from every owner")


def assemble(
    data: RoundData,
    deliveries: Mapping[str, Tables],
    people: Mapping[str, Any] | None = None,
    *,
    scratch: MappedColumns | None = None,
) -> Release:
    """The joint release of deliveries that were checked; of blocks, ``people`` says whose rows.

    Its tables are made while they are written, from files in ``scratch``, which must stay until
    then; without it they are in the folder for temporary files.
    """
    from sherd.engines.mapped_columns import MappedColumns
    from sherd.release.bundle import Release

    plan = data.agreed
    if all(holds_records(delivered, plan.schema(owner)) for owner, delivered in deliveries.items()):
        tables = {owner: delivered[RECORDS] for owner, delivered in deliveries.items()}
        order = pooled_schema(plan).released
        groups = _groups(plan, tables, people or {})
        made = {RECORDS: _shuffled(scratch or MappedColumns(), groups, order)}
    else:
        made = {
            f"{name}-{owner}": _as_it_is(table)
            for owner, delivered in deliveries.items()
            for name, table in delivered.items()
        }
    rows = sum(table.num_rows for table in made.values())
    return Release(tables=made, manifest=manifest(data, rows))


def assemble_sums(data: RoundData, outcome: Outcome) -> Release:
    """The joint release of a round of sums, as its method made it of them."""
    from sherd.release.bundle import Release

    described = manifest(data, sum(table.num_rows for table in outcome.tables.values()))
    return Release(
        tables=outcome.tables,
        manifest={**described, "facts": dict(outcome.facts)},
        documents=outcome.documents,
    )


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Owners whose tables follow each other, and the order of their rows in which people agree."""

    tables: tuple[pa.Table, ...]
    order: NDArray[Any] | None = None

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)


def _groups(
    plan: JointPlan, tables: Mapping[str, pa.Table], people: Mapping[str, Any]
) -> list[_Group]:
    """The owners by whose rows follow each other; the columns of groups stand side by side."""
    if plan.terms.kind is Kind.HORIZONTAL:
        return [_Group(tables=tuple(tables.values()))]
    if plan.terms.kind is Kind.VERTICAL:
        return [_Group(tables=(table,)) for table in tables.values()]
    groups, everybody = list[_Group](), None
    for members in column_groups({owner: plan.schema(owner) for owner in plan.owners}):
        names = np.concatenate([listed(people[owner]) for owner in members])
        order = np.argsort(names, kind="stable")
        here = names[order]
        same = everybody is None or np.array_equal(here, everybody)
        if not same or bool(np.any(here[1:] == here[:-1])):
            raise VerificationError("the owners do not list the same people")
        everybody = here
        groups.append(_Group(tables=tuple(tables[owner] for owner in members), order=order))
    return groups


def _shuffled(
    scratch: MappedColumns, groups: list[_Group], order: tuple[str, ...]
) -> StreamedTable:
    """The rows of all groups in a random order, to be taken a row group at a time."""
    import pyarrow as pa

    from sherd.randomness import Randomness
    from sherd.tables.write import rows_of_piece

    rows = groups[0].rows
    if any(group.rows != rows for group in groups):
        raise VerificationError("the deliveries do not have the same rows")
    columns: dict[str, tuple[FlatColumn, _Group]] = {}
    for group in groups:
        for name, column in _flat(scratch, group).items():
            columns[name] = column, group
    places = scratch.places_by_parts(Randomness.from_system(), rows, 1, PART_ROWS)
    step = rows_of_piece(".parquet")
    kinds = [(name, columns[name][0].kind) for name in order]

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, max(rows, 1), step):
            here = np.asarray(places[start : start + step], np.int64)
            # A column of a row group is in memory, not all of them.
            yield pa.table(
                [
                    scratch.keep(column.take(here if group.order is None else group.order[here]))
                    for column, group in (columns[name] for name in order)
                ],
                names=list(order),
            )

    return StreamedTable(schema=pa.schema(kinds), num_rows=rows, pieces=pieces)


def _flat(scratch: MappedColumns, group: _Group) -> dict[str, FlatColumn]:
    """The columns of a group, each in a file of its own."""
    from sherd.federation.aggregator.mapped_bulk import (
        common_type,
        flat_column,
        released_batches,
    )
    from sherd.tables.released_form import released_form

    forms = [released_form(table.slice(0, 0)).schema for table in group.tables]
    columns = {
        name: flat_column(
            scratch, common_type([form.field(name).type for form in forms]), group.rows
        )
        for name in forms[0].names
    }
    for table in group.tables:
        for batch in released_batches(table):
            for name, column in columns.items():
                column.add(batch.column(name))
    return columns


def _as_it_is(table: pa.Table) -> StreamedTable:
    """A table whose rows are no records, in its own order."""
    from sherd.tables.released_form import released_form
    from sherd.tables.write import rows_of_piece

    step = rows_of_piece(".parquet")

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, max(table.num_rows, 1), step):
            yield released_form(table.slice(start, step)).combine_chunks()

    schema = released_form(table.slice(0, 0)).schema
    return StreamedTable(schema=schema, num_rows=table.num_rows, pieces=pieces)


def manifest(data: RoundData, rows: int) -> dict[str, Any]:
    """The manifest: that of any release, and how it came about."""
    import pyarrow as pa

    from sherd import __version__

    plan = data.agreed
    pooled, schema = pooled_plan(plan), pooled_schema(plan)
    tested = plan.terms.linkage is not Linkage.NONE
    handed_in: Mapping[str, Delivery | Masked] = data.masked or data.deliveries
    owners = {
        owner: {
            "key": plan.share(owner).key,
            "fingerprint": fingerprint(plan.share(owner).key),
            "signature": data.signatures[owner],
            "epsilon": plan.share(owner).epsilon,
            "rows": plan.share(owner).rows,
            "artefact": delivery.artefact,
            "ledger_head": delivery.head,
            "versions": delivery.versions,
            **({"part_signature": delivery.signature} if delivery.signature else {}),
        }
        for owner, delivery in handed_in.items()
        if owner not in data.dropped
    }
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "stamps": [],
        "guarantee": joint_guarantee(plan, tested).as_data(),
        "plan": pooled.as_data(),
        "plan_hash": pooled.hash,
        "schema": schema.as_data(),
        "schema_hash": schema.hash,
        "budget": {"recorded": plan.composed is not None, "spent": plan.composed},
        "facts": {"rows": rows},
        "joint": {
            **followed(plan),
            "linkage": linkage(plan, data.common_count),
            "owners": owners,
            "dropped_out": {owner: reason.words for owner, reason in data.dropped.items()},
        },
        "versions": {
            "sherd": __version__,
            "python": platform.python_version(),
            "pyarrow": pa.__version__,
        },
    }
