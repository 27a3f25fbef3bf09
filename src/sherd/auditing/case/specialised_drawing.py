"""Generalised records of a specialising method as something to draw from.

Such a release has no book of labels: an interval is written as its ends, a group of labels by its
name in the schema's taxonomy, and "or (missing)" says that missing cells are in it too.

>>> book_of(["[17, 90] or (missing)", "[1, 27)", "(missing)"], {"type": "integer"})["[1, 27)"]
{'low': '1', 'high': '26'}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from sherd.auditing.case.record_drawing import GeneralisedRelease, kinds_of
from sherd.errors import FormatError
from sherd.verifying.specialisations import MISSING, OR_MISSING, values_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa


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
