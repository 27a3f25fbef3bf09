"""What crosses the wire between real processes holds no raw value and no identifier."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from capture import Proxy, found, look
from people import PARTS, SCHEMA, part, people
from processes import Village, free_port

from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.states import RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 20


@pytest.fixture
def wired(quick_path: Path) -> Iterator[tuple[Village, Proxy]]:
    """An aggregator whose owners call it through a proxy that keeps every byte."""
    port = free_port()
    proxy = Proxy(port)
    village = Village(quick_path, port=port, url=proxy.url)
    yield village, proxy
    village.close()
    proxy.close()


def plant(table: pa.Table, seed: int, label: str) -> tuple[pa.Table, list[str | float]]:
    """The table with identifiers and incomes that occur nowhere else, and those."""
    random = np.random.default_rng(seed)
    ids = [f"{label}-MARKER-{number:04x}" for number in random.integers(0, 1 << 16, ROWS)]
    table = table.set_column(0, "id", pa.array(ids))
    incomes: list[float] = []
    if "income" in table.column_names:
        incomes = [float(value) for value in random.uniform(100, 900, ROWS)]
        table = table.set_column(2, "income", pa.array(incomes))
    return table, [*ids, *incomes]


def check_power(village: Village, proxy: Proxy) -> None:
    """A marker that is sent on purpose is found, however it is wrapped."""
    word, number = "SENT-ON-PURPOSE-51c9", 271.8281828459045
    table = pa.table({"id": [word], "income": [number]})
    plain, packed, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    for sink, codec in ((plain, None), (packed, "zstd")):
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
    pq.write_table(table, parquet)
    text = f"{word} {number!r}".encode()
    bodies = {
        "plain": text,
        "gzip": gzip.compress(text),
        "zstd": bytes(pa.compress(text, codec="zstd", asbytes=True)),
        "base64": json.dumps({"a": [base64.b64encode(text).decode()]}).encode(),
        "url-safe base64 in JSON in JSON": json.dumps(
            {"m": json.dumps({"b": base64.urlsafe_b64encode(text).decode().rstrip("=")})}
        ).encode(),
        "gzip in base64": base64.b64encode(gzip.compress(text)),
        "Arrow": plain.getvalue(),
        "Arrow, compressed": packed.getvalue(),
        "Parquet": parquet.getvalue(),
    }
    with httpx.Client(base_url=proxy.url, trust_env=False) as client:
        for what, body in bodies.items():
            before = len(proxy.captured)
            client.post("/v1/challenge", content=body, headers={"Connection": "close"})
            sent = proxy.captured[before:]
            assert found([word, number], look(sent)) == [word, number], what
            assert not found(["ANOTHER-WORD", 3.141592653589793], look(sent))
    assert village.running["aggregator"].poll() is None


@pytest.mark.parametrize(
    ("kind", "linkage"), [(Kind.HORIZONTAL, Linkage.NONE), (Kind.VERTICAL, Linkage.OPRF)]
)
def test_nothing_raw_on_the_wire(
    wired: tuple[Village, Proxy], kind: Kind, linkage: Linkage
) -> None:
    """Planted values and identifiers, and hashes of identifiers, are in no captured byte.

    Searched as they are and after decoding JSON, base64, hexadecimal, gzip, zstd, lz4, Arrow
    and Parquet. What should be there (envelopes, deliveries, the release) is found.
    """
    village, proxy = wired
    markers: list[str | float] = []
    for number, name in enumerate(("north", "south")):
        vertical = kind is Kind.VERTICAL
        table = part(name, ROWS) if vertical else people(ROWS, seed=number)
        # In a vertical round the owners have the same people.
        table, planted = plant(table, 7 if vertical else number, "V" if vertical else name)
        markers += planted
        village.add_owner(name, table, PARTS[name] if vertical else SCHEMA, key="id")
    village.start_all()
    village.open_round(kind=kind, linkage=linkage)
    data = village.check_released()
    # A table that stopped fitting its schema is refused; its cells are not told either.
    folder = village.folder / "north"
    bad = pq.read_table(folder / "table.parquet")
    name = bad.column_names[-1]
    bad = bad.set_column(bad.num_columns - 1, name, pa.array(["CELL-MARKER-90aa"] * ROWS))
    pq.write_table(bad, folder / "table.parquet")
    village.open_round("r2", kind=kind, linkage=linkage)
    assert village.wait("r2").state is RoundState.ABORTED
    markers.append("CELL-MARKER-90aa")

    seen = look(proxy.captured)
    assert found(markers, seen) == []
    assert [table.num_rows for table in seen.arrow if table.num_rows] == [ROWS, ROWS]
    (release,) = seen.parquet  # fetched by both owners, the same bytes
    assert release.num_rows == (ROWS if kind is Kind.VERTICAL else 2 * ROWS)
    whole = b"\0".join(seen.views)
    assert data.plan is not None
    assert data.manifest is not None
    assert data.plan.hash.encode() in whole
    assert data.manifest.encode() in whole
    for log in village.logs:
        assert not [marker for marker in markers if str(marker).encode() in log.read_bytes()]
    check_power(village, proxy)
