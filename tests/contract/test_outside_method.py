"""A method that another package ships is protected, verified, audited and listed like ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.run import audit
from sherd.cli import cli
from sherd.errors import MissingPartError, PlanError
from sherd.release.method import find, names, usable
from sherd.release.plan import suggested
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 200
TABLE = pa.table(
    {"age": [i % 80 for i in range(ROWS)], "pay": [37 * i % 1000 for i in range(ROWS)]}
)
ATTRIBUTES = {
    "age": {"type": "integer", "role": "quasi-identifier", "domain": [0, 100]},
    "pay": {"type": "integer", "role": "sensitive", "domain": [0, 1000]},
}
SCHEMA = sherd.Schema.from_data({"attributes": ATTRIBUTES})
PLAN: dict[str, Any] = {"method": "coarse", "step": 10}
QUICK = Limits(attacked=60, modelled=150, compared=100, queries=10, triples=3, runs=50)

pytestmark = pytest.mark.usefixtures("outside_methods")


def made() -> sherd.Release:
    """A release by the method from outside."""
    return sherd.protect(TABLE, SCHEMA, sherd.Plan(**PLAN), settings=sherd.Settings(seed=1))


def test_it_is_found_and_listed() -> None:
    """It comes after the methods of the package, and `sherd methods` tells of it."""
    assert find("coarse").traits.family == "coarsening"
    assert names()[-3:] == ("broken", "coarse", "misnamed")
    told = CliRunner().invoke(cli, ["methods", "coarse", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)[0]["parameters"][0]["name"] == "step"


def test_none_takes_the_place_of_ours() -> None:
    """An entry point called dp does not change what dp is."""
    assert find("dp").title == "Differential privacy by noise on every value"
    assert names().count("dp") == 1


@pytest.mark.parametrize(("name", "error"), [("broken", MissingPartError), ("misnamed", PlanError)])
def test_what_is_no_method_is_refused(name: str, error: type[Exception]) -> None:
    """An entry point that leads nowhere, or to a method of another name, says so."""
    with pytest.raises(error, match=name):
        find(name)


def test_a_broken_one_takes_away_none_else() -> None:
    """What cannot be loaded is named, and every other method is listed, suggested and tried."""
    usable_names = [method.name for method in usable()]
    assert set(names()) - set(usable_names) == {"broken", "misnamed"}
    told = CliRunner().invoke(cli, ["methods"])
    assert told.exit_code == 0, told.output
    assert all(f"{name}: " in told.stdout for name in usable_names)
    assert "'broken' cannot be loaded: repair or remove the package" in told.stderr
    assert suggested(SCHEMA, ROWS)[0][0].name == "dp-graph"


def test_it_is_protected_and_verified(tmp_path: Path) -> None:
    """Its own verifier and facts are asked, and a changed cell is found."""
    made().save(tmp_path / "out", format="csv")
    checks = {check.name: check.passed for check in verify(tmp_path / "out").checks}
    assert checks["multiples"] is True
    assert checks["facts"] is True
    assert False not in checks.values()
    wrong = made()
    odd = wrong.tables["data"].set_column(0, "age", pa.array([7] * ROWS))
    sherd.Release(tables={"data": odd}, manifest=wrong.manifest).save(tmp_path / "odd")
    checks = {check.name: check.passed for check in verify(tmp_path / "odd").checks}
    assert checks["multiples"] is False


def test_its_documents_are_released_and_read_back(tmp_path: Path) -> None:
    """Plain data beside the tables: hashed, in the data package, and there again after loading."""
    folder = made().save(tmp_path / "out")
    assert json.loads((folder / "steps.json").read_text()) == {"age": 10, "pay": 10}
    assert sherd.Release.load(folder).documents == {"steps": {"age": 10, "pay": 10}}
    package: dict[str, Any] = json.loads((folder / "datapackage.json").read_text())
    assert [one["path"] for one in package["resources"]] == ["data.parquet", "steps.json"]
    (folder / "steps.json").write_text('{"age": 9, "pay": 10}\n')
    checks = {check.name: check.passed for check in verify(folder).checks}
    assert checks["file steps.json"] is False


def test_it_is_audited(tmp_path: Path) -> None:
    """As a table of records, with its own verifier, and as a place on the risk-utility map."""
    result = audit(TABLE, made(), limits=QUICK, seed=1)
    assert "multiples" in [check.name for check in result.checks]
    assert result.released_rows == ROWS
    assert "coarse" in [place.name for place in result.pictures.places]


def test_it_is_an_alternative_to_ours() -> None:
    """What it declares decides whether it is set beside another method's release."""
    plan = sherd.Plan(method="dp", epsilon=1.0)
    ours = sherd.protect(TABLE, SCHEMA, plan, settings=sherd.Settings(seed=1))
    result = audit(TABLE, ours, limits=QUICK, seed=1)
    assert "coarse" in [place.name for place in result.pictures.places if not place.this]


def test_the_command_line_needs_nothing_more(tmp_path: Path) -> None:
    """Protect and verify by command, its parameter given like any other."""
    import pyarrow.csv

    pyarrow.csv.write_csv(TABLE, tmp_path / "people.csv")
    (tmp_path / "people.yaml").write_text(json.dumps({"attributes": ATTRIBUTES}))
    words = ["protect", "people.csv", "--schema", "people.yaml", "--method", "coarse"]
    done = CliRunner().invoke(
        cli,
        [
            *(str(tmp_path / w) if w.startswith("people.") else w for w in words),
            *("--set", "step=10", "--ledger", "none", "-o", str(tmp_path / "out")),
        ],
    )
    assert done.exit_code == 0, done.output
    checked = CliRunner().invoke(cli, ["verify", str(tmp_path / "out")])
    assert checked.exit_code == 0, checked.output
    assert "multiples" in checked.output
