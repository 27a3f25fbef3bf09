"""The owner's table as the round needs it: attributes it may share, rows, keys, order.

Raw values stay in here and in ``protect``; what leaves this module is metadata, counts,
identifiers for the linkage (which blinds them) and tables handed to ``protect``.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sherd.errors import SchemaError, TableError
from sherd.federation.protocol.linkage import POINT, canonical_identifier, check_pseudonyms
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.federation.owner.policy import Policy
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class OwnerTable:
    """Where an owner's table comes from, what it means, and which columns link people."""

    read: Callable[[], pa.Table]
    schema: Schema
    key: tuple[str, ...] = ()
    normalise: str = "exact"

    def __post_init__(self) -> None:
        for name in self.key:
            if name not in self.schema.attributes:
                raise SchemaError(
                    "the linkage key is not an attribute of the schema",
                    got=repr(name),
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

    def load(self, shared: Schema, *, linked: bool) -> LoadedTable:
        """Read the table once, and check and prepare it once for everything a round does."""
        from sherd.tables.coding import arrow_array
        from sherd.tables.prepare import check_unit, prepare

        raw = self.read()
        check_unit(raw, self.schema)
        prepared = prepare(raw.select(list(shared.attributes)), shared)
        table, identifiers = prepared.table, list[bytes]()
        if linked:
            kept = range(raw.num_rows) if prepared.kept is None else prepared.kept.tolist()
            places, identifiers = self._identifiers(raw, kept)
            if len(places) < table.num_rows:
                table = table.take(arrow_array(places))
        return LoadedTable(
            table=table, identifiers=identifiers, identity=_identity(table, identifiers)
        )

    def _identifiers(
        self, raw: pa.Table, kept: Sequence[int]
    ) -> tuple[NDArray[np.int64], list[bytes]]:
        """Which of the kept rows have an identifier, and the identifiers."""
        import numpy as np

        if not self.key:
            raise TableError("there is no linkage key", do="name one when the owner is set up")
        cells = list(zip(*(raw.column(name).to_pylist() for name in self.key), strict=True))
        places = [place for place, row in enumerate(kept) if None not in cells[row]]
        identifiers = [
            canonical_identifier(*cells[kept[place]], how=self.normalise) for place in places
        ]
        if len(set(identifiers)) != len(identifiers):
            raise TableError(
                "the linkage key is not unique",
                must="one row for each person",
                got=f"{len(identifiers) - len(set(identifiers))} rows too many",
            )
        return np.asarray(places, dtype=np.int64), identifiers


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """A table that was read and prepared, and its people's identifiers if they are linked.

    ``identity`` is the hash of both: the same table, seen again.
    """

    table: pa.Table
    identifiers: list[bytes]
    identity: str

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def arranged(self, pseudonyms: bytes, common: bytes) -> pa.Table:
        """The common people's rows in the order of the common pseudonyms.

        The maker of the list may have chosen the people in it, so it must name each once and
        nobody else: a person named often would be masked by copies of itself alone.
        """
        import pyarrow as pa

        check_pseudonyms(common, len(common) // POINT)
        place = {pseudonyms[i * POINT : (i + 1) * POINT]: i for i in range(self.rows)}
        wanted = [common[start : start + POINT] for start in range(0, len(common), POINT)]
        if len(place) != self.rows or not all(name in place for name in wanted):
            raise Reason.UNEXPECTED.error(
                "the list of common people names somebody this owner does not have"
            )
        return self.table.take(pa.array([place[name] for name in wanted]))


def table_hash(table: pa.Table) -> bytes:
    """The sha256 of a table's cells, names and types, in order."""
    import pyarrow as pa

    sink = _Hashing()
    with pa.ipc.new_stream(
        pa.PythonFile(sink, mode="w"),
        table.schema,
        options=pa.ipc.IpcWriteOptions(unify_dictionaries=True),
    ) as stream:
        stream.write_table(table.combine_chunks().unify_dictionaries())
    return sink.whole.digest()


class _Hashing(io.RawIOBase):
    """A file that keeps nothing but the hash of what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = hashlib.sha256()

    def writable(self) -> bool:
        """Whether it can be written: always."""
        return True

    def write(self, data: Any) -> int:
        """Take bytes in."""
        self.whole.update(data)
        return len(data)


def _identity(table: pa.Table, identifiers: list[bytes]) -> str:
    whole = hashlib.sha256(table_hash(table))
    for identifier in identifiers:
        whole.update(len(identifier).to_bytes(4, "big") + identifier)
    return whole.hexdigest()
