"""Whether the books of labels in a manifest say what the released labels say.

A book says of each label that is not a value what it stands for: a range of a measured
attribute, or a list of values. A range is written out in its label, a list of values in its
label or in the schema's taxonomy, so that neither can be changed by itself. Only the label
for every value (``*``) leaves open what it stands for; then the book is held against the
schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.verifying.label_meaning import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANYTHING = "*"
_OR_MISSING = " or missing"


def fit(given: Any, columns: Mapping[str, pa.ChunkedArray], manifest: Mapping[str, Any]) -> bool:
    """Whether books of these released columns are theirs."""
    attributes = manifest["schema"]["attributes"]
    return (
        isinstance(given, dict)
        and set(given) <= set(columns)
        and all(
            _book(given[name], column, attributes[name])
            if name in given
            else _are_values(column, attributes[name])
            for name, column in columns.items()
        )
    )


def _are_values(column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> bool:
    """Whether a column that needs no book shows values, and no labels for several."""
    if not _is_text(column.type):
        return True
    known = _known(attribute)
    if attribute["type"] not in ("category", "ordinal", "boolean"):
        return False
    return known is None or known.issuperset(pc.unique(column.drop_null()).to_pylist())


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _book(book: Any, column: pa.ChunkedArray, attribute: Mapping[str, Any]) -> bool:
    measured = attribute["type"] not in ("category", "ordinal", "boolean")
    if not all(_says(label, said, attribute, measured) for label, said in book.items()):
        return False
    if not _is_text(column.type):
        return True  # a file's reader took labels for values
    seen = set(pc.unique(column.drop_null()).to_pylist())
    plain = seen - set(book)
    known = _known(attribute)
    return set(book) <= seen and (not plain if measured else known is None or plain <= known)


def _known(attribute: Mapping[str, Any]) -> set[str] | None:
    """The values a labelled attribute may have; None where the schema lists none."""
    if attribute["type"] == "boolean":
        return {"false", "true"}
    if attribute.get("taxonomy"):
        return {path[0] for path in attribute["taxonomy"]}
    values = attribute.get("values")
    return None if values is None else set(values)


def _says(label: str, said: Any, attribute: Mapping[str, Any], measured: bool) -> bool:
    """Whether an entry says what its label says."""
    rest = set(said) - {"missing"}
    if "missing" in said and said["missing"] is not True:
        return False
    if label == _ANYTHING:
        bare = label
    elif "missing" in said:
        bare = label.removesuffix(_OR_MISSING)
        if bare == label:
            return False
    else:
        bare = label
    if measured:
        return rest == {"low", "high", "closed"} and _range(bare, said, attribute)
    return rest == {"values"} and _values(bare, said["values"], attribute)


def _range(label: str, said: Mapping[str, Any], attribute: Mapping[str, Any]) -> bool:
    low, high, closed = said["low"], said["high"], said["closed"]
    if not (isinstance(low, str) and isinstance(high, str) and type(closed) is bool):
        return False
    kind = attribute["type"]
    start, end = parsed(low, kind), parsed(high, kind)
    if start > end:
        return False
    if label != _ANYTHING:
        written = f"[{low}, {high}{']' if closed else ')'}"
        return label == written or (closed and label == low == high)
    if not closed or attribute.get("domain") is None or kind in ("date", "datetime"):
        return closed
    least, most = (float(bound) for bound in attribute["domain"])
    return bool(start <= least and most <= end)


def _values(label: str, values: Any, attribute: Mapping[str, Any]) -> bool:
    if not isinstance(values, list) or not values or len(set(values)) < len(values):
        return False
    known, paths = _known(attribute), attribute.get("taxonomy")
    if not all(isinstance(value, str) for value in values):
        return False
    if known is not None and not known.issuperset(values):
        return False
    if label == _ANYTHING:
        return True
    if paths:
        return set(values) == {path[0] for path in paths if label in path}
    many = f"{values[0]} … {values[-1]} ({len(values)})"
    return label in ("|".join(values), many)
