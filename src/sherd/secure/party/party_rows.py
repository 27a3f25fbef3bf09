"""A party's rows: its cells, the class, and whom they belong to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.errors import TableError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.specialising.hierarchy import Hierarchy
    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Input:
    """A party's fragment in the order of the identifiers, and what it knows of all cells."""

    cells: PartyCells
    classes: NDArray[np.int64]
    identifiers: tuple[bytes, ...]

    @property
    def rows(self) -> int:
        """How many rows the party has."""
        return len(self.identifiers)

    @property
    def ids_hash(self) -> str:
        """A hash of all identifiers."""
        return hashlib.sha256(b"\n".join(self.identifiers)).hexdigest()

    @property
    def classes_hash(self) -> str:
        """A hash of all classes, in the order of the rows."""
        return hashlib.sha256(self.classes.tobytes()).hexdigest()

    def take(self, places: NDArray[np.int64]) -> Input:
        """Some of the rows, in the order given."""
        from sherd.methods.specialising.secure_leaf_counts import PartyCells

        return Input(
            cells=PartyCells(codes=tuple(codes[places] for codes in self.cells.codes)),
            classes=self.classes[places],
            identifiers=tuple(self.identifiers[place] for place in places.tolist()),
        )


def _refuse_missing(table: pa.Table, schema: Schema, one: Hierarchy, *, is_class: bool) -> None:
    """Raise where cells that this party holds are missing and the schema has no place for them.

    Every party knows the class, so an empty cell of it is missing; any other is another party's.
    """
    from sherd.tables.coding import nulls, positions

    if one.keeps_missing:
        return
    column = table.column(one.name)
    _, gaps = positions(column, one.axis, schema.missing_values)
    if not is_class:
        gaps = gaps & ~nulls(column.combine_chunks())
    if gaps.any():
        kind = "class" if is_class else "attribute"
        raise TableError(
            f"the {kind} '{one.name}' has missing cells",
            must="a value in every cell that this party holds",
            do=f"set `missing: keep` for '{one.name}' in the schema, the same at all parties",
        )


def _identifiers(table: pa.Table, id_name: str) -> list[bytes]:
    """Whom the rows belong to."""
    from sherd.federation.protocol.linkage import canonical_identifier

    given = table.column(id_name)
    ids = [canonical_identifier(one) for one in given.to_pylist()]
    if given.null_count or b"" in ids or len(set(ids)) != len(ids):
        raise TableError(f"the ids in '{id_name}' are empty or not unique", must="one for each row")
    return ids


def read_cells(table: pa.Table, schema: Schema, plan: Plan, id_name: str) -> Input:
    """A fragment of cells for a model; empty cells and absent columns are held by others."""
    import numpy as np

    from sherd.methods.graphical.dp_graph import design_of
    from sherd.methods.graphical.fragment_numbers import own_codes
    from sherd.methods.specialising.secure_leaf_counts import PartyCells

    if id_name not in table.column_names:
        raise TableError(f"the column '{id_name}' is missing", must="the ids of the records")
    ids = _identifiers(table, id_name)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    codes = own_codes(table.take(order), schema, design_of(plan, schema))
    return Input(
        cells=PartyCells(codes=codes),
        classes=np.zeros(len(ids), np.int64),
        identifiers=tuple(ids[place] for place in order),
    )


def read_input(table: pa.Table, schema: Schema, plan: Plan, id_name: str) -> Input:
    """A fragment from a table whose empty cells are held by others."""
    import numpy as np

    from sherd.methods.specialising.diffgen import encode, settings
    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.tables.coding import nulls

    chosen = settings(plan, schema)
    target = plan["class_attribute"]
    wanted = [id_name, *(one.name for one in chosen.hierarchies), *([target] if target else [])]
    absent = [name for name in wanted if name not in table.column_names]
    if absent:
        raise TableError("columns are missing: " + ", ".join(absent), must="those of the schema")
    ids = _identifiers(table, id_name)
    for one in (*chosen.hierarchies, *filter(None, [chosen.class_hierarchy])):
        _refuse_missing(table, schema, one, is_class=one.name == target)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    table = table.take(order)
    codes, classes = encode(table, schema, chosen)
    held = [~nulls(table.column(one.name).combine_chunks()) for one in chosen.hierarchies]
    mine = tuple(np.where(own, code, -1) for own, code in zip(held, codes, strict=True))
    return Input(
        cells=PartyCells(codes=mine),
        classes=classes,
        identifiers=tuple(ids[place] for place in order),
    )
