"""The owner's table as the round needs it: attributes it may share, rows, keys, order.

Raw values stay in here and in ``protect``; what leaves this module is metadata, counts,
identifiers for the linkage (which blinds them) and tables handed to ``protect``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sherd.errors import SchemaError, TableError
from sherd.federation.protocol.joint_plan import Offer, write_schema
from sherd.federation.protocol.linkage import canonical_identifier

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.federation.owner.policy import Policy
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where an owner's table comes from, what it means, and which column links people."""

    read: Callable[[], pa.Table]
    schema: Schema
    key: str | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.key not in self.schema.attributes:
            raise SchemaError(
                "the linkage key is not an attribute of the schema",
                got=repr(self.key),
                do="list it with the role identifier",
            )
        if self.schema.rows_per_unit != 1:
            raise SchemaError(
                "a joint release needs one row for each person",
                must="`rows_per_unit: 1`",
                do="reduce the table first",
            )

    def shared_schema(self, policy: Policy) -> Schema:
        """The schema of what may be shared: allowed, released, without unit and population."""
        kept = {name: self.schema[name] for name in self.schema.released if policy.allows(name)}
        if not kept:
            raise SchemaError("the policy shares no attribute", do="list some in the policy")
        return replace(self.schema, attributes=kept, unit=None, population=None)

    def load(self, shared: Schema, *, linked: bool) -> Loaded:
        """Read the table and check it, without changing its values."""
        import numpy as np

        from sherd.tables.prepare import check_unit, prepare

        table = self.read()
        check_unit(table, self.schema)
        columns = table.select(list(shared.attributes))
        prepared = prepare(columns, shared)
        kept = prepared.kept if prepared.kept is not None else np.arange(table.num_rows)
        identifiers: list[bytes] = []
        if linked:
            kept, identifiers = self._identifiers(table, kept)
        return Loaded(table=columns, kept=kept, identifiers=identifiers)

    def _identifiers(
        self, table: pa.Table, kept: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[bytes]]:
        if self.key is None:
            raise TableError("there is no linkage key", do="name one when the owner is set up")
        cells = table.column(self.key).to_pylist()
        places = [int(place) for place in kept if cells[place] is not None]
        found = [canonical_identifier(cells[place]) for place in places]
        if len(set(found)) != len(found):
            raise TableError(
                "the linkage key is not unique",
                must="one row for each person",
                got=f"{len(found) - len(set(found))} rows too many",
            )
        import numpy as np

        return np.asarray(places, dtype=np.int64), found

    def offer(self, policy: Policy, *, linked: bool) -> Offer:
        """What the owner offers: metadata and the number of rows."""
        shared = self.shared_schema(policy)
        loaded = self.load(shared, linked=linked)
        return Offer(schema=write_schema(shared), rows=loaded.rows, key=self.key is not None)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A table that was read: which rows count, and their identifiers if they are linked."""

    table: pa.Table
    kept: NDArray[np.int64]
    identifiers: list[bytes]

    @property
    def rows(self) -> int:
        """How many rows count."""
        return len(self.kept)

    @property
    def identity(self) -> str:
        """A hash of the identifiers in their order: the same table, seen again."""
        whole = hashlib.sha256()
        for identifier in self.identifiers:
            whole.update(len(identifier).to_bytes(4, "big") + identifier)
        return whole.hexdigest()

    def whole(self) -> pa.Table:
        """All rows that count, in their own order."""
        from sherd.tables.coding import arrow_array

        return self.table.take(arrow_array(self.kept))

    def arranged(self, pseudonyms: bytes, common: bytes) -> pa.Table:
        """The common people's rows in the order of the common pseudonyms."""
        import pyarrow as pa

        place = {pseudonyms[i * 32 : i * 32 + 32]: i for i in range(len(pseudonyms) // 32)}
        wanted = [common[start : start + 32] for start in range(0, len(common), 32)]
        if len(place) != self.rows or not all(name in place for name in wanted):
            raise TableError("the common people are not all in the table", do="do not go on")
        return self.table.take(pa.array([int(self.kept[place[name]]) for name in wanted]))
