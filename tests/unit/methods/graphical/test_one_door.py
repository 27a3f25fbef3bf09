"""Noisy counts are the only way from the data to a release: every byte of it follows from them.

The door itself is blocked: whatever the table, the same counts come out of it. Then tables that
have nothing in common but their schema and their number of records must lead to the same files,
byte by byte: cells, their types and order, dictionaries, ``model.json``, manifest and package.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.methods.graphical import dp_graph, drawing, public_grid
from sherd.methods.graphical.measuring import CodedTable
from sherd.release import protect as releasing
from sherd.release.protect import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.methods.graphical.measuring import Marginal

N = 300
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "keep",
        "outside": "clamp",
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "99"]},
            "wage": {"type": "number", "domain": ["0", "20000"], "grid": "0.01"},
            "sex": {"type": "category", "values": ["f", "m"]},
            "since": {"type": "date", "domain": ["1980-01-01", "2020-12-31"]},
            "member": {"type": "boolean"},
        },
    }
)


def plain() -> pa.Table:
    """Everybody is the same."""
    return pa.table(
        {
            "age": [30] * N,
            "wage": [0.0] * N,
            "sex": ["f"] * N,
            "since": pa.array([10_000] * N, pa.int32()).cast(pa.date32()),
            "member": [True] * N,
        }
    )


def varied() -> pa.Table:
    """Everybody is different, cells are missing, clamped, in other types, orders and chunks."""
    rng = np.random.default_rng(4)
    half = N // 2

    def texts(values: Any) -> pa.ChunkedArray:
        made = pa.array(values.tolist(), pa.string(), mask=rng.random(N) < 0.2)
        return pa.chunked_array([made[:half], made[half:]]).dictionary_encode()

    days = pa.array(rng.integers(4000, 15_000, N).astype(np.int32)).cast(pa.date32())
    table = pa.table(
        {
            "member": pa.array(rng.random(N) < 0.5, mask=rng.random(N) < 0.9),
            "since": days,
            "sex": texts(rng.choice(["m", "f"], N)),
            "wage": pa.array(rng.gamma(2, 9000, N)),
            "age": pa.array(rng.integers(-5, 120, N), pa.int16(), mask=rng.random(N) < 0.5),
        }
    )
    return table.replace_schema_metadata({"source": "of one table only"})


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same counts for whatever table."""

    def histogram(_: CodedTable, marginal: Marginal) -> Any:
        named = repr((marginal.attributes, marginal.bins)).encode()
        seed = int.from_bytes(hashlib.sha256(named).digest()[:8], "big")
        return (
            np.random.default_rng(seed)
            .multinomial(N, np.full(marginal.cells, 1 / marginal.cells))
            .reshape(marginal.shape)
        )

    monkeypatch.setattr(CodedTable, "histogram", histogram)


def files(table: pa.Table, folder: Path, kind: str, **plan: Any) -> dict[str, bytes]:
    """Every file of a release, the moment of its making left out."""
    chosen = sherd.Plan(method="dp-graph", epsilon=3.0, **plan)
    settings = Settings(seed=3, threads=1)
    releasing.protect_to(
        folder, lambda: table, SCHEMA, chosen, ledger=None, settings=settings, format=kind
    )
    found = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
    for name in ("manifest.json", "datapackage.json"):
        told = json.loads(found[name])
        assert told.pop("created")
        told.get("files", {}).pop("datapackage.json", None)  # a hash of what names the moment too
        found[name] = json.dumps(told).encode()
    return found


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        ("parquet", {"delta": 1e-6}),
        ("csv", {}),
        ("arrows", {"delta": 1e-6, "choice": "all", "class_attribute": "sex"}),
    ],
    ids=["tree, Gaussian", "tree, Laplace", "all with a class"],
)
def test_tables_with_nothing_in_common_lead_to_the_same_bytes(
    blocked: None, tmp_path: Path, kind: str, plan: dict[str, Any]
) -> None:
    """Of every file, with the door for counts blocked."""
    one = files(plain(), tmp_path / "one", kind, **plan)
    other = files(varied(), tmp_path / "other", kind, **plan)
    assert len(one) >= 4
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


@pytest.mark.parametrize("leak", ["type", "grid", "order"])
def test_a_leak_beside_the_door_is_found(
    blocked: None, tmp_path: Path, leak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type, a bound or an order taken from the table: planted, and seen in some file."""
    seen: dict[str, Any] = {}
    right_code, right_draw = dp_graph.code, drawing.draw

    def code(table: pa.Table, schema: Any, design: Any) -> Any:
        seen["table"] = table
        return right_code(table, schema, design)

    monkeypatch.setattr(dp_graph, "code", code)
    if leak == "order":

        def draw(model: Any, n: int, rng: Any) -> Any:
            rng.random(seen["table"]["age"].null_count)
            return right_draw(model, n, rng)

        monkeypatch.setattr(dp_graph, "draw", draw)
    else:
        right = public_grid.PublicGrid.column

        def column(self: Any, codes: Any, rng: Any, kind: Any) -> Any:
            made = right(self, codes, rng, kind)
            gaps = seen["table"][self.name].null_count
            if leak == "type" and not gaps and pa.types.is_boolean(made.type):
                return made.cast(pa.int8())
            if leak == "grid" and gaps:
                return right(self, np.minimum(codes, self.cells - 1), rng, kind)
            return made

        monkeypatch.setattr(public_grid.PublicGrid, "column", column)
    one = files(plain(), tmp_path / "one", "parquet", delta=1e-6)
    other = files(varied(), tmp_path / "other", "parquet", delta=1e-6)
    assert [name for name in one if one[name] != other[name]]
