"""From deliveries to the joint release: verify, unite or join, shuffle, describe, write.

Horizontal: the rows of all owners. Vertical: the columns of all owners; every owner
delivered its rows in the order of the common pseudonyms, so that row r is the same person
everywhere and no table ever holds a pseudonym. Blocks: the rows of the owners of the same
attributes are put into the order of all pseudonyms first, then as vertical. Rows are then
shuffled, which takes the owner (or the pseudonyms' order) away.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.errors import VerificationError
from sherd.federation.aggregator.delivery_check import (
    RECORDS,
    check_delivery,
    check_part,
    holds_records,
)
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.joint_release import (
    followed,
    joint_guarantee,
    linkage,
    pooled_plan,
    pooled_schema,
)
from sherd.federation.protocol.linkage import POINT, points
from sherd.federation.protocol.people_groups import column_groups
from sherd.release.manifest import FORMAT
from sherd.signing_keys import fingerprint, verify_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.messages import Delivery, Masked
    from sherd.release.bundle import Release
    from sherd.release.method import Outcome

Tables = dict[str, "pa.Table"]


def check(data: RoundData, owner: str, tables: Tables) -> None:
    """Raise VerificationError where an owner's delivery is not what the plan asks for."""
    plan = data.plan
    assert plan is not None
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
    check_delivery(owner, tables, schema, plan.local(owner), rows)
    if plan.terms.kind.joins and not holds_records(tables, schema):
        raise VerificationError("a release of joined columns needs records from every owner")


def assemble(
    data: RoundData, deliveries: Mapping[str, Tables], people: Mapping[str, bytes] | None = None
) -> Release:
    """The joint release of deliveries that were checked; of blocks, ``people`` says whose rows."""
    from sherd.release.bundle import Release

    plan = data.plan
    assert plan is not None
    if all(holds_records(found, plan.schema(owner)) for owner, found in deliveries.items()):
        tables = {owner: found[RECORDS] for owner, found in deliveries.items()}
        order = pooled_schema(plan).released
        if plan.terms.kind is Kind.BLOCKS:
            tables = _columns(plan, tables, people or {})
        joined = _join(tables, order) if plan.terms.kind.joins else _union(tables, order)
        made = {RECORDS: _shuffled(joined)}
    else:
        made = {
            f"{name}-{owner}": table
            for owner, found in deliveries.items()
            for name, table in found.items()
        }
    rows = sum(table.num_rows for table in made.values())
    return Release(tables=made, manifest=manifest(data, rows))


def assemble_sums(data: RoundData, outcome: Outcome) -> Release:
    """The joint release of a round of sums, as its method made it of them."""
    from sherd.release.bundle import Release

    found = manifest(data, sum(table.num_rows for table in outcome.tables.values()))
    return Release(
        tables=outcome.tables,
        manifest={**found, "facts": dict(outcome.facts)},
        documents=outcome.documents,
    )


def _columns(
    plan: JointPlan, tables: Mapping[str, pa.Table], people: Mapping[str, bytes]
) -> dict[str, pa.Table]:
    """The rows of each group of owners as one table, in the order of everybody's pseudonyms."""
    import numpy as np

    from sherd.tables.coding import arrow_array

    found, everybody = {}, None
    for members in column_groups({owner: plan.schema(owner) for owner in plan.owners}):
        names = [name for owner in members for name in points(people[owner])]
        order = sorted(range(len(names)), key=names.__getitem__)
        here = [names[place] for place in order]
        if here != (here if everybody is None else everybody) or len(set(here)) != len(here):
            raise VerificationError("the owners' people do not make up the same list")
        everybody = here
        parts = {owner: tables[owner] for owner in members}
        whole = _union(parts, tuple(plan.schema(members[0]).released))
        found[members[0]] = whole.take(arrow_array(np.array(order, np.int64)))
    return found


def _union(tables: Mapping[str, pa.Table], order: tuple[str, ...]) -> pa.Table:
    """The rows of all owners; a column of labels is one if it is one at any owner."""
    import pyarrow as pa

    labelled = {
        name
        for table in tables.values()
        for name in order
        if pa.types.is_dictionary(table.schema.field(name).type)
    }
    try:
        return (
            pa.concat_tables(
                [_coded(table.select(list(order)), labelled) for table in tables.values()],
                promote_options="permissive",
            )
            .unify_dictionaries()
            .combine_chunks()
        )
    except pa.ArrowException:
        raise VerificationError(
            "the deliveries' columns are of types that do not go together"
        ) from None


def _coded(table: pa.Table, labelled: set[str]) -> pa.Table:
    """A table whose labels are codes into a list of texts, which is never written out."""
    import pyarrow as pa

    kind = pa.dictionary(pa.int32(), pa.string())
    for place, name in enumerate(table.column_names):
        column = table.column(name)
        if name not in labelled or column.type == kind:
            continue
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        chunks = [
            pa.DictionaryArray.from_arrays(
                chunk.indices.cast(pa.int32()), chunk.dictionary.cast(pa.string())
            )
            for chunk in column.chunks
        ]
        table = table.set_column(place, name, pa.chunked_array(chunks, type=kind))
    return table


def _join(tables: Mapping[str, pa.Table], order: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    columns = {name: table.column(name) for table in tables.values() for name in table.column_names}
    return pa.table({name: columns[name] for name in order}).combine_chunks()


def _shuffled(table: pa.Table) -> pa.Table:
    from sherd.randomness import Randomness
    from sherd.tables.coding import arrow_array

    order = Randomness.from_system().permutation(table.num_rows)
    return table.take(arrow_array(order))


def manifest(data: RoundData, rows: int) -> dict[str, Any]:
    """The manifest: that of any release, and how it came about."""
    import pyarrow as pa

    from sherd import __version__

    plan = data.plan
    assert plan is not None
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
