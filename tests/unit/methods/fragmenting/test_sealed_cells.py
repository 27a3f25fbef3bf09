"""Withheld attributes as ciphertext: opened by the owner's key alone, and telling nothing else."""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import (
    FormatError,
    InfeasibleError,
    PlanError,
    SchemaError,
    StorageError,
    UsageError,
    VerificationError,
)
from sherd.methods.fragmenting import sealed_cells
from sherd.methods.fragmenting.query import answer
from sherd.randomness import Randomness
from sherd.release.private_files import CellKey
from sherd.tables.schema import Schema
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.from_data(
    {
        "attributes": {
            "insurance": {"type": "text"},
            "born": {"type": "date"},
            "town": {"type": "category", "values": [f"t{i}" for i in range(30)]},
            "job": {"type": "category", "values": [f"j{i}" for i in range(30)]},
            "pay": {"type": "integer", "domain": [0, 1000]},
        }
    }
)
CONSTRAINTS = {"constraints": [["insurance"], ["born"], ["town", "job"]]}


def people(rows: int = 200, seed: int = 1) -> pa.Table:
    """Made-up people; every fifth has no insurance number."""
    rng = random.Random(seed)  # noqa: S311 - test data
    start = datetime.date(1950, 1, 1)
    return pa.table(
        {
            "insurance": [None if i % 5 == 0 else f"number {i:04}" for i in range(rows)],
            "born": [start + datetime.timedelta(days=rng.randrange(20_000)) for _ in range(rows)],
            "town": [f"t{rng.randrange(30)}" for _ in range(rows)],
            "job": [f"j{rng.randrange(30)}" for _ in range(rows)],
            "pay": [rng.randrange(1000) for _ in range(rows)],
        }
    )


def sealed(table: pa.Table, key: CellKey | None, **more: Any) -> Any:
    """A release of two fragments with ciphertext."""
    settings = sherd.Settings(cell_key=key, seed=more.pop("seed", None))
    return sherd.fragment(
        table, SCHEMA, constraints=CONSTRAINTS, looseness=4, withheld="ciphertext",
        settings=settings, **more,
    )  # fmt: skip


KEY = CellKey.generate()


def test_with_the_key_every_query_is_exact() -> None:
    """Withheld attributes and those of several fragments together, as DuckDB over the original."""
    table = people()
    release = sealed(table, KEY)
    assert release.manifest["facts"]["suppressed"] == 0
    for sql in (
        "SELECT town, job, COUNT(*), AVG(pay) FROM release GROUP BY ALL ORDER BY ALL",
        "SELECT insurance, born, town, job, pay FROM release ORDER BY ALL",
        "SELECT COUNT(insurance), MIN(born), MAX(born) FROM release",
        "SELECT year(born) // 10, SUM(pay) FROM release GROUP BY 1 ORDER BY 1",
    ):
        found = sherd.query(release, sql, key=KEY)
        with duckdb.connect() as connection:
            connection.register("release", table)
            real = connection.sql(sql).to_arrow_table()
        assert found.exact
        assert found.opened
        assert [tuple(r.values()) for r in found.table.to_pylist()] == [
            tuple(r.values()) for r in real.to_pylist()
        ]
    assert "your key" in found.words()


def test_without_the_key_withheld_attributes_are_not_answered_about() -> None:
    """The message names the way for the owner, and nothing of the cells."""
    release = sealed(people(), KEY)
    with pytest.raises(UsageError, match="withheld") as caught:
        sherd.query(release, "SELECT COUNT(insurance) FROM release")
    assert "--key" in str(caught.value)
    assert not sherd.query(release, "SELECT town, COUNT(*) FROM release GROUP BY 1").opened


def test_another_key_is_a_clear_error() -> None:
    """Before a cell is tried."""
    release = sealed(people(), KEY)
    with pytest.raises(UsageError, match="not the key of the release"):
        sherd.query(release, "SELECT COUNT(*) FROM release", key=CellKey.generate())


def test_a_key_for_a_release_without_ciphertext_is_refused() -> None:
    """Answers would not be what was asked for."""
    release = sherd.fragment(people(), SCHEMA, constraints=CONSTRAINTS, looseness=4)
    assert "ciphertext" not in release.tables
    with pytest.raises(UsageError, match="no ciphertext"):
        sherd.query(release, "SELECT COUNT(*) FROM release", key=KEY)
    with pytest.raises(UsageError, match="no ciphertext"):
        answer(release.tables, release.manifest, "SELECT 1 FROM release", key=KEY)


def _cells(release: Any) -> list[str]:
    table = release.tables["ciphertext"]
    return [cell for name in table.column_names for cell in table[name].to_pylist()]


def test_bytes_tell_neither_length_nor_equality_nor_what_is_missing() -> None:
    """Every cell of a column is as long as every other, and no two are alike, empty ones too."""
    table = people()
    release = sealed(table, KEY, cell_bytes=40)
    for name in ("sealed_1", "sealed_2"):
        lengths = {len(base64.b64decode(c)) for c in release.tables["ciphertext"][name].to_pylist()}
        assert lengths == {40 + 16}
    cells = _cells(release)
    assert len(set(cells)) == len(cells) == 200 * 3
    text = "".join(cells) + json.dumps(release.manifest["facts"])
    assert "number" not in text


def test_two_releases_of_one_table_share_no_cell_whatever_the_seed() -> None:
    """Also with one seed: the salt is never drawn from it, or a nonce could come twice."""
    table = people()
    first, second = (sealed(table, KEY, seed=7) for _ in range(2))
    assert first.tables["fragment-1"].equals(second.tables["fragment-1"])
    assert not set(_cells(first)) & set(_cells(second))
    stated = [r.manifest["facts"]["ciphertext"] for r in (first, second)]
    assert stated[0]["key_check"] != stated[1]["key_check"]
    assert stated[0]["salt"] != stated[1]["salt"]


def test_the_order_of_slots_tells_nothing_of_the_fragments() -> None:
    """Over many releases the tuple in the first slot lies anywhere in the first fragment."""
    table = people(12)
    seen: Counter[int] = Counter()
    orders = [np.arange(12), np.arange(12)]
    for seed in range(600):
        made, facts = sealed_cells.seal(
            table, orders, [["town"], ["job", "pay"]], ["insurance"], cell_bytes=32, key=KEY,
            randomness=Randomness.seeded(seed),
        )  # fmt: skip
        cipher = sealed_cells._Cipher(KEY, bytes.fromhex(facts["salt"]), ["insurance"])
        first = cipher.opened(0, made["sealed_0"])[0]
        seen[int.from_bytes(first[:8], "little")] += 1
    assert len(seen) == 12
    assert max(seen.values()) < 90
    assert min(seen.values()) > 20


@pytest.mark.parametrize("left", [0, 1, 199])
def test_slots_cannot_be_left_out(left: int) -> None:
    """Or counts over what is left would be called exact."""
    release = sealed(people(), KEY)
    tables = {**release.tables, "ciphertext": release.tables["ciphertext"].slice(0, left)}
    with pytest.raises(VerificationError, match=r"released|belongs to"):
        answer(tables, release.manifest, "SELECT COUNT(*) FROM release", key=KEY)


@pytest.mark.parametrize("change", ["swap rows", "swap columns", "other release", "flip", "empty"])
def test_cells_cannot_be_moved_or_changed(change: str) -> None:
    """Release, attribute and slot are bound to every cell."""
    release = sealed(people(), KEY)
    table = release.tables["ciphertext"]
    cells = {name: table[name].to_pylist() for name in table.column_names}
    if change == "swap rows":
        cells["sealed_1"][:2] = cells["sealed_1"][1::-1]
    elif change == "swap columns":
        cells["sealed_1"], cells["sealed_2"] = cells["sealed_2"], cells["sealed_1"]
    elif change == "other release":
        cells["sealed_1"][0] = sealed(people(), KEY).tables["ciphertext"]["sealed_1"][0].as_py()
    elif change == "flip":
        raw = bytearray(base64.b64decode(cells["sealed_2"][5]))
        raw[3] ^= 1
        cells["sealed_2"][5] = base64.b64encode(bytes(raw)).decode()
    else:
        cells["sealed_2"][5] = ""
    tables = {**release.tables, "ciphertext": pa.table(cells)}
    with pytest.raises(VerificationError, match="not as it was released") as caught:
        answer(tables, release.manifest, "SELECT COUNT(*) FROM release", key=KEY)
    assert "number" not in str(caught.value)


@pytest.mark.parametrize("change", ["cell", "order", "fewer"])
def test_changed_fragments_are_found_when_tuples_are_put_together(change: str) -> None:
    """A keyed hash of each tuple's cells lies in its link."""
    release = sealed(people(), KEY)
    part = release.tables["fragment-1"]
    if change == "cell":
        name = part.column_names[0]
        cells = part[name].to_pylist()
        cells[3] = next(c for c in cells if c != cells[3])
        part = part.set_column(0, name, pa.array(cells))
    elif change == "order":
        part = part.take(pa.array([*range(1, part.num_rows), 0]))
    else:
        part = part.slice(0, 50)
    with pytest.raises(VerificationError, match="not those that the ciphertext belongs to"):
        answer({**release.tables, "fragment-1": part}, release.manifest,
               "SELECT COUNT(*) FROM release", key=KEY)  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_saved_release_verifies_and_is_opened(tmp_path: Path, form: str) -> None:
    """By command line and Python alike, in text files too."""
    table = people()
    sealed(table, KEY).save(tmp_path / "out", format=form)
    outcome = verify(tmp_path / "out")
    assert all(c.passed is not False for c in outcome.checks), outcome.checks
    assert any(c.name == "ciphertext: equal lengths" and c.passed for c in outcome.checks)
    found = sherd.query(tmp_path / "out", "SELECT SUM(pay), COUNT(insurance) FROM release", key=KEY)
    assert found.table.to_pylist()[0] == {
        found.table.column_names[0]: sum(table["pay"].to_pylist()),
        found.table.column_names[1]: 160,
    }


def _broken(release: Any, change: str) -> dict[str, pa.Table]:
    table = release.tables["ciphertext"]
    cells = {name: table[name].to_pylist() for name in table.column_names}
    tables = dict(release.tables)
    if change == "length":
        cells["sealed_1"][0] = base64.b64encode(bytes(20)).decode()
    elif change == "alike":
        cells["sealed_1"][0] = cells["sealed_1"][1]
    elif change == "plain":
        cells["sealed_1"] = people()["insurance"].to_pylist()
    elif change == "rows":
        cells = {name: values[1:] for name, values in cells.items()}
    elif change == "column":
        cells["more"] = cells["sealed_1"]
    elif change == "missing":
        return {name: t for name, t in tables.items() if name != "ciphertext"}
    elif change == "table":
        return {**tables, "extra": table}
    return {**tables, "ciphertext": pa.table(cells)}


@pytest.mark.parametrize(
    "change", ["length", "alike", "plain", "rows", "column", "missing", "table"]
)
def test_the_verifier_finds_broken_ciphertext(change: str) -> None:
    """From the tables alone, without the key."""
    from sherd.verifying.fragmented_tables import verify as check

    release = sealed(people(), KEY)
    assert not [c for c in check(release.tables, release.manifest) if c.passed is False]
    assert [c for c in check(_broken(release, change), release.manifest) if c.passed is False]


def test_ciphertext_that_no_plan_asked_for_is_found() -> None:
    """It could say anything."""
    from sherd.verifying.fragmented_tables import verify as check

    plain = sherd.fragment(people(), SCHEMA, constraints=CONSTRAINTS, looseness=4)
    tables = {**plain.tables, "ciphertext": sealed(people(), KEY).tables["ciphertext"]}
    failed = [c for c in check(tables, plain.manifest) if c.passed is False]
    assert [c.detail for c in failed] == ["the plan asks for none"]


def test_a_release_that_follows_another_has_ciphertext_of_its_own(tmp_path: Path) -> None:
    """Nothing of it is found in the first one's; with the key it is the changed table."""
    rows = 120
    table = people(rows)
    schema = Schema.from_data(
        {"attributes": {"who": {"type": "integer", "role": "identifier"},
                        **SCHEMA.as_data()["attributes"]}}
    )  # fmt: skip
    table = table.append_column("who", pa.array(range(rows)))
    first = sherd.fragment(
        table, schema, constraints=CONSTRAINTS, looseness=4, withheld="ciphertext", key="who",
        settings=sherd.Settings(cell_key=KEY),
    )  # fmt: skip
    first.save(tmp_path / "first")
    from sherd.release.bundle import MANIFEST, digest

    assert first.record is not None
    record = first.record.belonging_to(digest(tmp_path / "first" / MANIFEST))
    second = sherd.fragment(
        table, after=tmp_path / "first", record=record, schema=schema,
        settings=sherd.Settings(cell_key=KEY),
    )  # fmt: skip
    assert not set(_cells(first)) & set(_cells(second))
    sql = "SELECT insurance, town, job FROM release ORDER BY ALL"
    one, two = (sherd.query(r, sql, key=KEY).table for r in (first, second))
    assert one.equals(two)
    second.save(tmp_path / "second")
    outcome = verify(tmp_path / "second", beside=tmp_path / "first")
    assert all(c.passed is not False for c in outcome.checks), outcome.checks


def test_what_does_not_fit_is_refused_without_the_value() -> None:
    """Nobody's length decides on the length of cells."""
    with pytest.raises(InfeasibleError, match="does not fit") as caught:
        sealed(people().set_column(0, "insurance", pa.array(["x" * 60 + "secret"] * 200)), KEY)
    assert "secret" not in str(caught.value)


def test_plans_that_make_no_sense_are_refused() -> None:
    """Before any data is read."""
    with pytest.raises(PlanError, match="needs your key"):
        sealed(people(), None)
    with pytest.raises(PlanError, match="nothing to encrypt"):
        sherd.fragment(people(), SCHEMA, constraints=CONSTRAINTS, looseness=4,
                       settings=sherd.Settings(cell_key=KEY))  # fmt: skip
    with pytest.raises(PlanError, match="nothing to release as ciphertext"):
        sherd.fragment(people(), SCHEMA, constraints={"constraints": [["town", "job"]]},
                       looseness=4, withheld="ciphertext",
                       settings=sherd.Settings(cell_key=KEY))  # fmt: skip
    with pytest.raises(PlanError, match="cell_bytes"):
        sealed(people(), KEY, cell_bytes=70_000)
    odd = {"attributes": {**SCHEMA.as_data()["attributes"], "sealed_3": {"type": "text"}}}
    with pytest.raises(SchemaError, match="called like"):
        sherd.fragment(people(), Schema.from_data(odd), constraints=CONSTRAINTS, looseness=4)


def test_the_promise_names_the_key() -> None:
    """To whoever has it the release is the table."""
    told = sealed(people(), KEY).manifest["guarantee"]
    assert "cell-key-secret" in str(told["assumes"])


def test_a_key_is_its_owners_alone(tmp_path: Path) -> None:
    """Made once with mode 600, never written over, refused where other users can read it."""
    path = tmp_path / "cells.key"
    key = CellKey.load_or_generate(path)
    assert not path.exists()
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert CellKey.load_or_generate(path) == key
    assert key.secret.hex() not in repr(key)
    path.chmod(0o644)
    with pytest.raises(StorageError, match="other users can read"):
        CellKey.load(path)
    with pytest.raises(StorageError, match="cannot be read"):
        CellKey.load(tmp_path / "none")
    path.chmod(0o600)
    path.write_text("something else")
    with pytest.raises(FormatError, match="does not hold a key"):
        CellKey.load_or_generate(path)
    with pytest.raises(StorageError, match="cannot be written"):
        key.save(path)
    assert path.read_text() == "something else"


def test_no_two_rows_have_one_hash() -> None:
    """A cell may hold what parts cells: rows that differ are told apart all the same."""
    from sherd.methods.fragmenting.sealed_cells import _hashes

    rows: list[tuple[str | None, str | None]] = [
        ("a\0+b", "c"),
        ("a", "b\0+c"),
        ("a\0", "+b"),
        ("a", None),
        ("a\0-", ""),
        ("a~", ""),
    ]
    rows += [("a\0~+b", "c"), ("a\0~", "+b"), (None, "a"), ("-", "a"), ("", "\0"), ("\0", "")]
    table = pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]})
    assert len(set(_hashes(b"k", table, [["x"], ["y"]]))) == len(rows)
    # Without such cells the hashes are those of earlier releases.
    plain = pa.table({"x": ["a", None], "y": ["b", "c"]})
    before = [hmac.digest(b"k", text, "sha256")[:16] for text in (b"+a\0+b", b"-\0+c")]
    assert [one[:16] for one in _hashes(b"k", plain, [["x"], ["y"]])] == before


def test_a_refused_run_leaves_no_key(tmp_path: Path) -> None:
    """A key is written with the release that it opens; one inside the release is refused."""
    from sherd.cli import run

    table, plan = tmp_path / "t.csv", tmp_path / "plan.yaml"
    rows = [f"{i % 7},{i % 5},{i % 3}" for i in range(60)]
    table.write_text("a,b,c\n" + "\n".join(rows) + "\n")
    schema = tmp_path / "schema.yaml"
    kinds = "".join(f"  {n}: {{type: integer, domain: [0, 9]}}\n" for n in "abc")
    schema.write_text(f"attributes:\n{kinds}")
    plan.write_text(
        "method: fragment\nlooseness: 2\nwithheld: ciphertext\n"
        "constraints: {constraints: [[a, b], [c]]}\n"
    )
    key, out = tmp_path / "keys" / "cells.key", tmp_path / "out"
    args = ["protect", str(table), "--schema", str(schema), "--plan", str(plan), "--ledger", "none"]
    args += ["-o", str(out), "--cell-key"]
    assert run([*args, str(out / "cells.key")]) == 2
    schema.write_text(f"attributes:\n{kinds}  d: {{type: integer, domain: [0, 9]}}\n")
    assert run([*args, str(key)]) == 2
    assert not key.exists()
    schema.write_text(f"attributes:\n{kinds}")
    assert run([*args, str(key)]) == 0
    assert key.stat().st_mode & 0o777 == 0o600
    made = CellKey.load(key)
    assert run([*args, str(key), "--force"]) == 0
    assert CellKey.load(key) == made
