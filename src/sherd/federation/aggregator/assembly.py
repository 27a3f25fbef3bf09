"""From deliveries to the joint release: verify, unite or join, shuffle, describe, write.

Horizontal: the rows of all owners. Vertical: the columns of all owners; every owner
delivered its rows in the order of the common pseudonyms, so that row r is the same person
everywhere and no table ever holds a pseudonym. Rows are then shuffled, which takes the
owner (or the pseudonyms' order) away.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.errors import VerificationError
from sherd.federation.aggregator.delivery_check import RECORDS, check_delivery, holds_records
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import JointPlan, Kind, Linkage, local_plan
from sherd.federation.wire.signing_keys import fingerprint, verify_plan
from sherd.values import to_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.federation.protocol.knowledge import RoundData
    from sherd.guarantees import Guarantee
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

Tables = dict[str, "pa.Table"]


def check(data: RoundData, owner: str, tables: Tables) -> None:
    """Raise VerificationError where an owner's delivery is not what the plan asks for."""
    plan = data.plan
    assert plan is not None
    share = plan.share(owner)
    if not verify_plan(share.key, plan.hash, data.signatures.get(owner, "")):
        raise VerificationError(f"the plan is not signed by {owner}")
    rows = data.common_count if plan.terms.kind is Kind.VERTICAL else share.rows
    assert rows is not None
    schema = plan.schema(owner)
    check_delivery(owner, tables, schema, plan.local(owner), rows)
    if plan.terms.kind is Kind.VERTICAL and not holds_records(tables, schema):
        raise VerificationError("a vertical release needs records from every owner")


def assemble(data: RoundData, deliveries: Mapping[str, Tables]) -> Release:
    """The joint release of deliveries that were checked."""
    from sherd.release.bundle import Release

    plan = data.plan
    assert plan is not None
    if all(holds_records(found, plan.schema(owner)) for owner, found in deliveries.items()):
        tables = {owner: found[RECORDS] for owner, found in deliveries.items()}
        order = pooled_schema(plan).released
        vertical = plan.terms.kind is Kind.VERTICAL
        joined = _join(tables, order) if vertical else _union(tables, order)
        made = {RECORDS: _shuffled(joined)}
    else:
        made = {
            f"{name}-{owner}": table
            for owner, found in deliveries.items()
            for name, table in found.items()
        }
    rows = sum(table.num_rows for table in made.values())
    return Release(tables=made, manifest=manifest(data, rows))


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


def pooled_schema(plan: JointPlan) -> Schema:
    """The schema of the joint release."""
    from sherd.tables.schema import Schema

    schemas = [plan.schema(owner) for owner in plan.owners]
    if plan.terms.kind is Kind.HORIZONTAL:
        return schemas[0]
    attributes = {}
    for schema in schemas:
        for attribute in schema:
            # Table-wide policies may differ between owners, so each attribute carries its own.
            attributes[attribute.name] = replace(
                attribute,
                missing=schema.missing_policy(attribute.name),
                outside=schema.outside_policy(attribute.name),
            )
    return Schema(attributes=attributes)


def pooled_plan(plan: JointPlan) -> Plan:
    """The plan as if one owner had everything: the method with the composed epsilon."""
    return local_plan(plan.terms, plan.composed, pooled_schema(plan))


def joint_guarantee(plan: JointPlan, overlap_tested: bool) -> Guarantee:
    """What the joint release promises, and what the federation adds to what is not covered."""
    base = pooled_plan(plan).guarantee(pooled_schema(plan))
    found = list(base.not_covered)
    if plan.terms.kind is Kind.HORIZONTAL:
        found.append("how many records each owner has, and who is at which owner")
        if not overlap_tested and len(plan.shares) > 1:
            total = "" if plan.bound is None else f", up to {plan.bound} in all"
            found.append(
                "a person at several owners, which is assumed not to happen and was not tested: "
                f"such a person is protected by the sum of what each owner spends{total}"
            )
    else:
        found.append("which people are known to every owner: who is in the release")
    if plan.terms.linkage is Linkage.HMAC:
        found.append("the linkage is of low assurance: every owner holds the key of the pseudonyms")
    return replace(base, not_covered=tuple(found))


def manifest(data: RoundData, rows: int) -> dict[str, Any]:
    """The manifest: that of any release, and how it came about."""
    import pyarrow as pa

    from sherd import __version__

    plan = data.plan
    assert plan is not None
    pooled, schema = pooled_plan(plan), pooled_schema(plan)
    tested = plan.terms.linkage is not Linkage.NONE
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
        }
        for owner, delivery in data.deliveries.items()
        if owner not in data.dropped
    }
    return {
        "format": 1,
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


def followed(plan: JointPlan) -> dict[str, Any]:
    """What a joint manifest says that follows from the plan alone."""
    return {
        "round": plan.terms.round,
        "kind": plan.terms.kind.value,
        "plan": to_data(plan),
        "plan_hash": plan.hash,
        "composition": plan.composition,
        "epsilon": plan.composed,
        "epsilon_of_a_person_at_every_owner": plan.bound,
        "disjointness": _disjointness(plan),
        "learns_beyond_the_release": collusion_table(plan.terms),
    }


def _disjointness(plan: JointPlan) -> str:
    if plan.terms.kind is Kind.VERTICAL:
        return "attributes are disjoint, as the plan shows"
    if plan.terms.linkage is Linkage.NONE:
        return "assumed: nobody is at two owners"
    return "tested by pseudonyms: nobody is at two owners"


def linkage(plan: JointPlan, common: int | None) -> dict[str, Any]:
    """What a joint manifest says of how people were matched."""
    assurance = {
        Linkage.NONE: "none",
        Linkage.OPRF: "chained OPRF on ristretto255",
        Linkage.HMAC: "low: one key shared by all owners",
    }[plan.terms.linkage]
    found: dict[str, Any] = {"mode": plan.terms.linkage.value, "assurance": assurance}
    if common is not None:
        found["common_people"] = common
        found["note"] = "that these people are known to every owner is not covered by epsilon"
    return found
