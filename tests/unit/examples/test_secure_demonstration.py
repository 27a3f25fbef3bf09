"""The pieces of ``sherd demo --joint`` that need no secure computation."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.cli import run as command
from sherd.cli.demo import print_joint
from sherd.errors import ConnectionFailedError, MissingPartError, OutputExistsError
from sherd.secure.party import PartySettings
from sherd.secure.party.party_rows import read_input
from sherd.tables.read import read
from sherd_examples.secure_demonstration import (
    Scene,
    alone_accuracy,
    demonstrate,
    interpreter,
    joint_accuracy,
    pooled_accuracy,
    prepare,
    run_parties,
    scene,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def given() -> Scene:
    """A small part of Adult with very much epsilon, so that results are clear."""
    return scene("50", 3, 1500, seed=1)


@pytest.fixture
def no_spu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without secure computation."""
    monkeypatch.delenv("SHERD_JOINT_PYTHON", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.chdir(tmp_path)


def test_records_are_divided_two_to_one(given: Scene) -> None:
    """And without missing cells."""
    assert (given.train.num_rows, given.test.num_rows) == (1000, 500)
    assert all(given.train.column(name).null_count == 0 for name in given.train.column_names)


@pytest.mark.usefixtures("no_spu")
def test_without_secure_computation_it_is_said_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As an error of the library, and at the command line, where nothing is written."""
    with pytest.raises(MissingPartError, match="make joint"):
        interpreter()
    assert command(["demo", "--joint", "-o", str(tmp_path / "out")]) == 3
    assert "make joint" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_spu")
def test_the_environment_of_make_joint_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the interpreter that runs, and before both the one that is named."""
    made = tmp_path / ".venv-joint" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert interpreter() == str(made)
    monkeypatch.setenv("SHERD_JOINT_PYTHON", "/some/python")
    assert interpreter() == "/some/python"


def test_every_cell_is_dealt_to_one_party(given: Scene, tmp_path: Path) -> None:
    """The settings load, and the fragments that parties read make up the table."""
    names = [name for name in given.schema.protected if name != "income"]
    holder = np.random.default_rng(3).integers(0, 3, (1000, len(names)))
    homes = prepare(tmp_path / "p", given, holder, 3)
    held = []
    for home in homes:
        loaded = PartySettings.load(home / "party.yaml")
        assert (loaded.plan["h"], loaded.names) == (3, ["clinic", "insurer", "registry"])
        mine = read_input(read(loaded.table), loaded.schema, loaded.plan, loaded.id)
        held.append(np.stack([codes >= 0 for codes in mine.cells.codes]))
        assert (home / f"{home.name}.key").stat().st_mode & 0o077 == 0
        assert {one.name for one in home.glob("*.key")} == {f"{home.name}.key"}
    assert (np.sum(held, axis=0) == 1).all()


def test_pooled_records_are_worth_more_than_a_partys_own(given: Scene) -> None:
    """A party that holds no cell at all can only name the more frequent class."""
    nothing = np.zeros((1000, len(given.schema.protected) - 1), bool)
    common = (np.array(given.test.column("income").to_pylist()) == "<=50K").mean()
    assert alone_accuracy(given, nothing) == pytest.approx(common, abs=0.02)
    assert pooled_accuracy(given) > common + 0.01


def test_a_release_is_read_back_for_the_classifier(given: Scene) -> None:
    """What joint parties release has the form of diffgen's release."""
    release = sherd.protect(given.train, given.schema, given.plan("diffgen"), ledger=None)
    assert joint_accuracy(given, release) == pytest.approx(pooled_accuracy(given), abs=0.04)


def test_a_release_is_read_in_its_own_order(given: Scene) -> None:
    """Parties whose schema lists the attributes in another order release other rows first."""
    turned = dict(sorted(given.schema.attributes.items(), reverse=True))
    release = sherd.protect(
        given.train,
        replace(given.schema, attributes=turned),
        given.plan("diffgen"),
        ledger=None,
        settings=sherd.Settings(seed=1),
    )
    table = release.tables["data"].to_pandas()
    assert next(iter(table)) == next(name for name in turned if name != "income")
    ours = [name for name in given.schema.attributes if name in table and name != "income"]
    ours.append("income")
    labels = [sorted(table[name].unique(), key=list(table[name]).index) for name in ours]
    rank = [table[name].map(labels[at].index) for at, name in enumerate(ours)]
    sorted_rows = table.iloc[np.lexsort(rank[::-1])]
    again = replace(release, tables={"data": pa.Table.from_pandas(sorted_rows[[*ours, "count"]])})
    assert joint_accuracy(given, again) == joint_accuracy(given, release)


def test_parties_list_attributes_as_the_table_does(given: Scene, tmp_path: Path) -> None:
    """The schema a party reads has the order of the one it was made from."""
    holder = np.zeros((1000, len(given.schema.protected) - 1), np.int64)
    home = prepare(tmp_path / "p", given, holder, 2)[0]
    loaded = PartySettings.load(home / "party.yaml").schema
    assert list(loaded.attributes) == ["record", *given.schema.attributes]


def test_other_folders_are_left_alone(
    given: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a demonstration's own is replaced."""
    monkeypatch.setenv("SHERD_JOINT_PYTHON", "/bin/false")
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OutputExistsError, match="not a demonstration's"):
        demonstrate(tmp_path, given)


def test_a_party_that_fails_is_named(given: Scene, tmp_path: Path) -> None:
    """With its exit code and where its log is."""
    home = tmp_path / "clinic"
    home.mkdir()
    with pytest.raises(ConnectionFailedError, match="'clinic' failed"):
        run_parties("/bin/false", [home], given, lambda _step, _done, _total: None)


def test_the_outcome_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Accuracies beside each other, then seconds and traffic by step."""
    result: dict[str, Any] = {
        "records": 1000, "tested": 500, "epsilon": "1", "h": 10, "pooled": 0.82,
        "runs": [{
            "parties": ["clinic", "insurer"], "protocol": "CHEETAH", "release": "x/release",
            "leaves": 96, "joint": 0.815, "alone": {"clinic": 0.79, "insurer": 0.78},
            "seconds": 60.2, "steps": {"leaf counts": {"seconds": 31.0, "bytes": 7e8}},
        }],
    }  # fmt: skip
    print_joint(json.loads(json.dumps(result)))
    shown = capsys.readouterr().out
    for text in ("82.0 % right", "81.5 % right", "clinic alone", "700.0 MB", "sherd verify"):
        assert text in shown
