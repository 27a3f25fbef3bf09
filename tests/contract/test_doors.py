"""One door for each verb: exported from ``sherd``, and called by its command."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sherd
from sherd.cli import COMMANDS
from sherd.errors import PlanError, UsageError, VerificationError

DOORS = {
    "protect": "protect_to",
    "slice": "protect_to",
    "fragment": "protect_to",
    "query": "query",
    "tune": "tune",
    "methods": "methods",
    "schema": "schema",
    "verify": "verify",
    "audit": "audit",
    "compare": "compare",
    "key": "make_key",
    "sign": "sign",
    "fetch": "fetch",
    "login": "log_in",
    "party": "take_part",
    "owner": "OwnerHome",
    "aggregator": "AggregatorHome",
}
"""The function of ``sherd`` behind each command."""

PEOPLE = pa.table(
    {
        "who": [f"p{i}" for i in range(400)],
        "job": [i % 40 for i in range(400)],
        "age": [i % 37 for i in range(400)],
        "ill": [i * 7 % 41 for i in range(400)],
    }
)
SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "who": {"type": "category", "role": "identifier"},
            **{name: {"type": "integer"} for name in ("job", "age", "ill")},
        }
    }
)
CONSTRAINTS: dict[str, Any] = {"constraints": [["age", "ill"], ["job", "ill"]]}


@pytest.mark.parametrize(("command", "door"), DOORS.items())
def test_a_command_goes_through_its_door(command: str, door: str) -> None:
    """Its module calls the exported function, and no other one of the same kind."""
    module = COMMANDS[command][0].partition(":")[0]
    source = Path("src", *module.split(".")).with_suffix(".py")
    tree = ast.parse((Path(__file__).parents[2] / source).read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "sherd"
    }
    imported = [
        getattr(importlib.import_module(str(node.module)), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == door
    ]
    assert door in used or any(one is getattr(sherd, door) for one in imported)


NO_DOOR = {
    "ledger": "the class `Ledger` is its door",
    "studio": "a page, not a function",
    "reproduce": "experiments that stand beside the package",
    "demo": "examples that stand beside the package",
}
"""Commands without a function behind them, and why."""


def test_every_command_has_a_door() -> None:
    """A command that is added says which function it calls."""
    assert set(DOORS) | set(NO_DOOR) == set(COMMANDS)
    assert not set(DOORS) & set(NO_DOOR)


@pytest.mark.parametrize("name", sherd.__all__)
def test_every_door_says_what_it_takes(name: str) -> None:
    """Typed and documented, verb first where it is a function."""
    door = getattr(sherd, name)
    assert inspect.getdoc(door)
    if inspect.isfunction(door):
        signature = inspect.signature(door)
        assert signature.return_annotation is not signature.empty
        assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_read_knows_files_and_tables_that_ship(tmp_path: Path) -> None:
    """As on the command line, ``:wine`` is a table."""
    assert sherd.read(":wine").num_rows == 6497
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert sherd.read(tmp_path / "t.csv").to_pylist() == [{"a": 1}]
    with pytest.raises(UsageError, match="did you mean 'wine'"):
        sherd.read(":wien")


def test_fragment_follows_a_release(tmp_path: Path) -> None:
    """From the record of the first; its deletions are withdrawn in the second."""
    first = sherd.fragment(PEOPLE, SCHEMA, constraints=CONSTRAINTS, looseness=4, key="who")
    folder = first.save(tmp_path / "one")
    assert first.record is not None
    record = first.record.belonging_to(_hash(folder))
    second = sherd.fragment(
        PEOPLE.slice(1), after=folder, record=record, withdraw="groups", most_withdrawn=1.0
    )
    assert second.manifest["facts"]["after"] == record.release
    with pytest.raises(UsageError, match="needs the record"):
        sherd.fragment(PEOPLE, after=folder)
    with pytest.raises(UsageError, match="needs a schema and no record"):
        sherd.fragment(PEOPLE, constraints=CONSTRAINTS, looseness=4)
    with pytest.raises(PlanError, match="--key is not the attribute"):
        sherd.fragment(PEOPLE, after=folder, record=record, key="job")


def _hash(folder: Path) -> str:
    from sherd.release.bundle import MANIFEST, digest

    return digest(folder / MANIFEST)


def test_query_answers_and_refuses_changed_files(tmp_path: Path) -> None:
    """A bundle is asked only as it was released."""
    made = sherd.fragment(PEOPLE, SCHEMA, constraints=CONSTRAINTS, looseness=4)
    folder = made.save(tmp_path / "out", format="csv")
    sql = "SELECT COUNT(*) AS n FROM release"
    assert sherd.query(folder, sql).table.to_pylist() == sherd.query(made, sql).table.to_pylist()
    file = folder / "fragment-1.csv"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(VerificationError, match=r"fragment-1\.csv"):
        sherd.query(folder, sql)
    plan = sherd.Plan(method="dp", epsilon=1.0)
    wine = sherd.protect(sherd.read(":wine"), sherd.datasets.schema("wine"), plan)
    with pytest.raises(UsageError, match="neither fragments nor measured counts"):
        sherd.query(wine, sql)


def test_tune_tries_every_method_with_noise() -> None:
    """Without names: those that release records under an epsilon, of any dataframe."""
    cells = sherd.tune(
        sherd.read(":wine").slice(0, 300).to_pandas(),
        sherd.datasets.schema("wine"),
        epsilons=[1.0],
        ks=[5],
        runs=2,
        threads=1,
    )
    assert {cell.method for cell in cells} == {"dp", "idp", "dp-um", "idp-ls", "idp-cbls"}


def test_doors_take_paths_as_text(tmp_path: Path) -> None:
    """A path may be given as text wherever the Python interface takes one."""
    schema = sherd.datasets.schema("nursery")
    plan = sherd.Plan(method="dp", epsilon=1.0)
    table = sherd.datasets.load("nursery").slice(0, 20)
    folder, key = str(tmp_path / "out"), str(tmp_path / "key")
    sherd.protect(table, schema, plan, ledger=None).save(folder)
    mine = sherd.make_key(key)
    assert sherd.sign(folder, key) == mine
    assert sherd.verify(folder, key=key + ".pub").passed
