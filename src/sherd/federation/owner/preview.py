"""What a release would cost an owner, shown before it approves and never sent.

The preview is made with noise of its own, not the release's, and is not kept. That a person
approved after seeing it is itself a fact about the data that no epsilon covers; the
documentation says so.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.joint_plan import Linkage

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.protocol.knowledge import OwnerData
    from sherd.tables.schema import Attribute

LABEL = "internal: not for publication"


def preview(home: OwnerHome, data: OwnerData) -> dict[str, Any]:
    """Each attribute's distance from the truth, and what the method found about the table.

    Where columns are joined the common people are not known yet, so all of the owner's rows are
    used.
    """
    from sherd.release.protect import protect
    from sherd.tables.coding import arrow_array

    plan = data.plan
    assert plan is not None
    schema = plan.schema(data.owner)
    linked = plan.terms.linkage is not Linkage.NONE
    table = home.source().load(schema, linked=linked).table
    release = protect(table, schema, plan.local(data.owner), ledger=None)
    found: dict[str, Any] = {
        "label": LABEL,
        "guarantee": release.manifest["guarantee"]["words"],
        "findings": [
            {"name": f.name, "value": f.value, "meaning": f.meaning}
            for f in release.findings
            if f.attribute is None
        ],
    }
    if release.order is not None:
        order = arrow_array(release.order)
        masked = release.tables["data"]
        found["distance"] = {
            name: _distance(table.column(name).take(order), masked.column(name), schema[name])
            for name in schema.protected
        }
    return found


def _distance(
    truth: pa.ChunkedArray, masked: pa.ChunkedArray, attribute: Attribute
) -> dict[str, float]:
    """How far masked cells are from the true ones: in shares of the domain, or of cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if attribute.type.labelled or not pa.types.is_primitive(truth.type):
        same = pc.equal(truth.cast(pa.string()), masked.cast(pa.string()))
        return {"share_of_cells_changed": 1.0 - float(pc.mean(same.cast(pa.float64())).as_py())}
    gap = pc.abs(pc.subtract(_number(truth), _number(masked)))
    mean = float(pc.mean(gap).as_py() or 0.0)
    if attribute.domain is not None and isinstance(attribute.domain[0], Decimal):
        width = float(attribute.domain[1]) - float(attribute.domain[0])  # type: ignore[arg-type]
    else:
        bounds = pc.min_max(_number(truth)).as_py()
        width = (bounds["max"] - bounds["min"]) or 1.0
    return {"mean_distance": mean, "share_of_the_domain": mean / width}


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.cast(pa.float64(), safe=False)
