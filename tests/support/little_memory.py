"""Link or assemble under a limit of memory: ``python little_memory.py WHAT FOLDER``."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

import sherd
from sherd.engines.mapped_columns import MappedColumns
from sherd.federation.aggregator.assembly import assemble
from sherd.federation.aggregator.delivery_check import check_delivery
from sherd.federation.aggregator.round_tasks import compared
from sherd.federation.protocol.composition import make_plan
from sherd.federation.protocol.joint_plan import Kind, Offer, write_schema
from sherd.federation.protocol.knowledge import RoundData
from sherd.federation.protocol.linkage import check_pseudonyms
from sherd.federation.protocol.messages import Attachment, Delivery
from sherd.signing_keys import SigningKey

ROWS, PEOPLE = 1_700_000, 3_400_000
MORE = 120 << 20
"""By how much memory may grow; the tables take twice as much and more."""


def held() -> int:
    """The bytes of this process's own memory."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024


def limit(needed: int) -> None:
    """Let memory grow by ``MORE`` at most, and see that what is ``needed`` cannot be had."""
    most = held() + MORE
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    assert needed > 1.5 * MORE, needed
    try:
        np.ones(needed, np.uint8)
    except MemoryError:
        return
    raise AssertionError("the limit does not hold")


def schema_of(names: str) -> sherd.Schema:
    """Numbers called by letters, and a label."""
    attributes: dict[str, Any] = {n: {"type": "number", "domain": [0, 1000]} for n in names}
    attributes[f"kind{names}"] = {"type": "category", "values": ["few", "many", "none at all"]}
    return sherd.Schema.from_data({"attributes": attributes})


def mapped_table(scratch: MappedColumns, schema: sherd.Schema, seed: int) -> pa.Table:
    """An owner's rows in a mapped file, as a delivery is."""
    random = np.random.default_rng(seed)

    def batches() -> Any:
        for _ in range(0, ROWS, ROWS // 20):
            count = ROWS // 20
            cells: dict[str, Any] = {}
            for name in schema.attributes:
                if name.startswith("kind"):
                    labels = pa.array(["few", "many", "none at all"])
                    codes = pa.array(random.integers(0, 3, count), pa.int32())
                    cells[name] = pa.DictionaryArray.from_arrays(codes, labels)
                else:
                    cells[name] = pa.array(random.integers(0, 1000, count).astype(float))
            yield pa.table(cells)

    return scratch.take_in(batches)


def a_round(kind: Kind, schemas: dict[str, sherd.Schema]) -> RoundData:
    """A round whose plan is signed."""
    from people import terms_of

    keys = {name: SigningKey.generate() for name in schemas}
    offers = {
        name: Offer(schema=write_schema(schema), rows=ROWS, key=True)
        for name, schema in schemas.items()
    }
    terms = terms_of(tuple(schemas), 0, round="r1", kind=kind)
    publics = {name: key.public for name, key in keys.items()}
    plan = make_plan(terms, offers, publics, "11" * 32)
    data = RoundData(terms=terms, aggregator_key="11" * 32, keys=publics, plan=plan)
    data.signatures = {name: key.sign_plan(plan.hash) for name, key in keys.items()}
    data.common_count = None if kind is Kind.HORIZONTAL else ROWS
    for name in keys:
        whole = Attachment(sha256="33" * 32, size=1, chunks=("33" * 32,))
        data.deliveries[name] = Delivery(
            artefact="22" * 32, files={"data.arrows": whole}, rows=ROWS, head="44" * 32,
            versions={"sherd": "1"},
        )  # fmt: skip
    return data


def assembled(kind: Kind, folder: Path) -> None:
    """Check, unite or join, shuffle and write two owners' tables."""
    scratch = MappedColumns(folder)
    names = ("abcdefg", "abcdefg") if kind is Kind.HORIZONTAL else ("abcdefg", "hijklmn")
    schemas = {owner: schema_of(n) for owner, n in zip(("north", "south"), names, strict=True)}
    data = a_round(kind, schemas)
    tables = {
        owner: {"data": mapped_table(scratch, schema, seed)}
        for seed, (owner, schema) in enumerate(schemas.items())
    }
    assert data.plan is not None
    few = assemble(data, {o: {"data": t["data"].slice(0, 9)} for o, t in tables.items()})
    few.stage(folder / "few").publish()  # whatever is set up once is set up now
    limit(sum(found["data"].nbytes for found in tables.values()))
    for owner, found in tables.items():
        check_delivery(owner, found, schemas[owner], data.plan.local(owner), ROWS)
    assemble(data, tables, scratch=scratch).stage(folder / "release").publish()
    written = pq.ParquetFile(folder / "release" / "data.parquet")
    rows = 2 * ROWS if kind is Kind.HORIZONTAL else ROWS
    assert written.metadata.num_rows == rows
    assert written.metadata.num_row_groups > 1
    for column in ("a", "kindabcdefg"):
        expected = pa.chunked_array(
            [
                chunk
                for found in tables.values()
                if column in found["data"].column_names
                for chunk in found["data"].column(column).chunks
            ]
        )
        seen = written.read(columns=[column]).column(column)
        assert _counts(seen) == _counts(expected)


def _counts(column: pa.ChunkedArray) -> dict[Any, int]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    counted = column.value_counts()
    pairs = zip(counted.field("values"), counted.field("counts"), strict=True)
    return {value.as_py(): count.as_py() for value, count in pairs}


def people(kind: Kind, folder: Path) -> None:
    """Compare two long lists of pseudonyms, of which every second is in both."""
    scratch = MappedColumns(folder)
    lists: dict[str, Any] = {}
    for owner, step in (("north", 2), ("south", 4)):
        numbers = (np.arange(PEOPLE) * step).astype(">u8")
        names = scratch.mapped_array(PEOPLE * 32, np.uint8).reshape(PEOPLE, 32)
        names[:, :8] = numbers.view(np.uint8).reshape(PEOPLE, 8)
        lists[owner] = names.reshape(-1).data
    plan = a_round(kind, dict.fromkeys(lists, schema_of("a")) if kind is Kind.HORIZONTAL
                   else {"north": schema_of("a"), "south": schema_of("b")}).plan  # fmt: skip
    assert plan is not None
    limit(sum(len(names) for names in lists.values()) + PEOPLE * 16)
    for names in lists.values():
        check_pseudonyms(names, PEOPLE)
    twice, count, found = compared(plan, lists, scratch)
    both = PEOPLE // 2
    if kind is Kind.HORIZONTAL:
        assert (twice, found) == (both, {})
    else:
        assert (twice, count, len(found["south"])) == (0, both, both * 32)


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    sherd.Plan(method="dp-um", k=3, epsilon=1.0)
    {
        "rows": lambda: assembled(Kind.HORIZONTAL, place),
        "columns": lambda: assembled(Kind.VERTICAL, place),
        "people": lambda: people(Kind.VERTICAL, place),
        "overlap": lambda: people(Kind.HORIZONTAL, place),
    }[what]()
    sys.stdout.write(f"{what}: done\n")
