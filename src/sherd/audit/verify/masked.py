"""Re-checking masked tables: columns, bounds, labels, cluster sizes.

Every row of a cluster got the same value, and rounding or clamping can only make clusters
look like one. So each distinct value of a masked attribute must occur at least k times.
"""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.audit.verify.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROTECTED = ("quasi-identifier", "sensitive")


def verify(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> list[Check]:
    """All checks of a masked table, or of a strict release's ordered centroids."""
    if "data" not in tables:
        return [Check(name="data", passed=False, detail="there is no table called data")]
    data, plan = tables["data"], manifest["plan"]
    schema = manifest["schema"]["attributes"]
    if plan.get("guarantee") == "strict":
        checks = _strict(data, plan, schema, manifest)
    else:
        checks = _columns(data, schema)
        for name in data.column_names:
            if name in schema and schema[name].get("role") in _PROTECTED:
                checks += _attribute(name, data.column(name), schema[name], manifest)
    return [*checks, *_beyond_reach()]


def _beyond_reach() -> list[Check]:
    return [
        Check(
            name="noise",
            passed=None,
            detail="that the noise was drawn as the plan says cannot be seen in a release; "
            "`sherd audit` with the original can test it",
        ),
        Check(
            name="assumptions",
            passed=None,
            detail="that bounds, orders and parameters were chosen without the data, and that "
            "every person has one row, only the owner knows",
        ),
    ]


def _columns(data: pa.Table, schema: Mapping[str, Any]) -> list[Check]:
    expected = {n for n, a in schema.items() if a.get("role") != "identifier"}
    given = set(data.column_names)
    hidden = sorted(n for n in given & set(schema) if schema[n].get("role") == "identifier")
    odd = sorted(expected ^ (given - set(hidden)))
    return [
        Check(
            name="columns",
            passed=not odd,
            detail="those of the schema" if not odd else "not as in the schema: " + ", ".join(odd),
        ),
        Check(
            name="no identifiers",
            passed=not hidden,
            detail="none" if not hidden else "released: " + ", ".join(hidden),
        ),
    ]


def _attribute(
    name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any], manifest: Mapping[str, Any]
) -> list[Check]:
    plan = manifest["plan"]
    checks = [_bounds(name, column, attribute, plan)]
    k = plan.get("k_of", {}).get(name, plan.get("k", 1))
    if k > 1:
        checks.append(_cluster_sizes(name, column, k))
    if column.null_count and _policy(attribute, manifest) != "keep":
        checks.append(
            Check(name=f"{name}: missing", passed=False, detail="cells are missing, against policy")
        )
    return checks


def _policy(attribute: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    return str(attribute.get("missing") or manifest["schema"].get("missing", "keep"))


def _bounds(
    name: str, column: pa.ChunkedArray, attribute: Mapping[str, Any], plan: Mapping[str, Any]
) -> Check:
    title = f"{name}: bounds"
    labels = _labels(attribute)
    if attribute["type"] in ("category", "ordinal"):
        if labels is None or (plan.get("category_order") == "frequency" and not labels):
            return Check(name=title, passed=None, detail="the schema lists no values")
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        seen = pc.unique(column.drop_null()).to_pylist()
        unknown = sum(_text(value) not in labels for value in seen)
        detail = "all labels are listed" if not unknown else f"{unknown} labels are not listed"
        return Check(name=title, passed=not unknown, detail=detail)
    if attribute["type"] == "boolean":
        passed = pa.types.is_boolean(column.type)
        return Check(name=title, passed=passed, detail=f"a column of type {column.type}")
    if attribute.get("domain") is None:
        return Check(name=title, passed=None, detail="the schema declares no domain")
    low, high = (_bound(text, attribute["type"]) for text in attribute["domain"])
    ends = pc.min_max(column)
    least, most = _comparable(ends["min"].as_py()), _comparable(ends["max"].as_py())
    inside = least is None or (low <= least and most <= high)
    detail = "within the domain" if inside else "values lie outside the declared domain"
    return Check(name=title, passed=bool(inside), detail=detail)


def _labels(attribute: Mapping[str, Any]) -> set[str] | None:
    if attribute.get("values") is not None:
        return set(attribute["values"])
    if attribute.get("taxonomy") is not None:
        return {path[0] for path in attribute["taxonomy"]}
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _bound(text: str, kind: str) -> Any:
    if kind == "date":
        return _comparable(date.fromisoformat(text))
    if kind == "datetime":
        return _comparable(datetime.fromisoformat(text))
    return Decimal(text)


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, date):
        return value
    return value


def _cluster_sizes(name: str, column: pa.ChunkedArray, k: int) -> Check:
    title = f"{name}: clusters of {k}"
    present = column.drop_null()
    if not len(present):
        return Check(name=title, passed=None, detail="no value is present")
    if pa.types.is_dictionary(present.type):
        present = present.cast(present.type.value_type)
    counts = pc.value_counts(present.combine_chunks()).field("counts")
    least = pc.min(counts).as_py()
    distinct, most = len(counts), len(present) // k
    passed = least >= k and distinct <= max(1, most)
    detail = f"the rarest value occurs {least} times; {distinct} values, at most {most} clusters"
    return Check(name=title, passed=passed, detail=detail)


def _strict(
    data: pa.Table,
    plan: Mapping[str, Any],
    schema: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> list[Check]:
    wanted = ["attribute", "cluster", "size", "value", "text"]
    if data.column_names != wanted:
        return [Check(name="columns", passed=False, detail="not those of ordered centroids")]
    expected = sorted(n for n, a in schema.items() if a.get("role") in _PROTECTED)
    given = sorted(set(data.column("attribute").to_pylist()))
    checks = [Check(name="attributes", passed=given == expected, detail=", ".join(given))]
    rows = manifest.get("facts", {}).get("rows")
    for name in given:
        part = data.filter(pc.equal(data.column("attribute"), name))
        sizes = part.column("size").to_pylist()
        values = part.column("value").to_pylist()
        k = plan.get("k_of", {}).get(name, plan["k"])
        large = min(sizes) >= k and sum(sizes) == rows and max(sizes) < 2 * k
        ascending = all(a <= b for a, b in itertools.pairwise(values))
        checks += [
            Check(name=f"{name}: clusters of {k}", passed=large, detail=f"least {min(sizes)}"),
            Check(name=f"{name}: ascending", passed=ascending, detail=f"{len(values)} centroids"),
        ]
        checks.append(_strict_bounds(name, values, schema.get(name, {})))
    return checks


def _strict_bounds(name: str, values: list[float], attribute: Mapping[str, Any]) -> Check:
    title = f"{name}: bounds"
    labels = _labels(attribute)
    if labels is not None:
        inside = min(values) >= 0 and max(values) <= len(labels) - 1
    elif attribute.get("type") in ("number", "integer") and attribute.get("domain"):
        low, high = (float(text) for text in attribute["domain"])
        inside = low <= min(values) and max(values) <= high
    elif attribute.get("type") == "boolean":
        inside = min(values) >= 0 and max(values) <= 1
    else:
        return Check(name=title, passed=None, detail="times are not compared here")
    detail = "within the domain" if inside else "centroids lie outside the domain"
    return Check(name=title, passed=inside, detail=detail)
