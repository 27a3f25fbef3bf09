"""``sherd slice``, from the command line to a verified release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.csv
import pytest

from sherd.cli import run

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.tables.schema import Schema


@pytest.fixture
def files(tmp_path: Path, people: Any, people_schema: Schema) -> tuple[str, str]:
    """A table and its schema on disk."""
    table, schema = tmp_path / "people.csv", tmp_path / "people.yaml"
    pyarrow.csv.write_csv(people(200), table)
    schema.write_text(json.dumps(people_schema.as_data()))
    return str(table), str(schema)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_slice_then_verify(
    files: tuple[str, str], tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release passes every check, from its files alone, in either format."""
    table, schema = files
    out = str(tmp_path / "out")
    code = run(
        ["slice", table, "--schema", schema, "--l", "3", "--columns", "2", "--min-frequency", "10",
         "--regroup", "--format", form, "-o", out]
    )  # fmt: skip
    told = capsys.readouterr()
    assert code == 0
    assert "released 200 rows" in told.out
    assert "not differential privacy" in told.out
    assert "column 2: ill" in told.out
    assert "membership advantage" in told.err
    assert run(["verify", out]) == 0
    assert "ill: 3-diversity" in capsys.readouterr().out


def test_groups_bins_and_other_parameters_reach_the_plan(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written on the command line stands in the manifest, and JSON is printed."""
    table, schema = files
    code = run(
        ["slice", table, "--schema", schema, "--l", "2", "--sensitive", "age", "--sensitive",
         "ill", "--bins", "age=30,40,55", "--group", "sex,town", "--group", "age,ill",
         "--suppress", "--set", "tries=3", "--seed", "7", "--json", "-o", str(tmp_path / "out")]
    )  # fmt: skip
    assert code == 0
    plan = json.loads(capsys.readouterr().out)["manifest"]["plan"]
    assert plan["groups"] == [["sex", "town"], ["age", "ill"]]
    assert plan["bins"] == {"age": [30.0, 40.0, 55.0]}
    assert plan["sensitive"] == ["age", "ill"]
    assert plan["tries"] == 3
    assert plan["suppress"] is True


def test_explain_reads_no_data(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The promise is told from plan and schema; the table need not exist."""
    _, schema = files
    base = ["slice", "nowhere.csv", "--schema", schema, "--l", "3", "--explain"]
    assert run(base) == 0
    assert "3-diversity" in capsys.readouterr().out
    assert run([*base, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["notion"] == "l-diversity"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--l", "9"], "at most"),
        (["--l", "3", "--sensitive", "illness"], "did you mean"),
        (["--l", "3", "--bins", "age"], "ATTRIBUTE=EDGES"),
    ],
)
def test_wrong_usage_exits_with_two_and_writes_nothing(
    files: tuple[str, str],
    tmp_path: Path,
    more: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An infeasible l or a mistyped name is told with its remedy; nothing is left behind."""
    table, schema = files
    out = tmp_path / "out"
    code = run(["slice", table, "--schema", schema, *more, "-o", str(out)])
    assert code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_missing_options_are_told(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """No schema, no output folder: usage errors that name the option."""
    table, schema = files
    assert run(["slice", table, "--l", "3"]) == 2
    assert "--schema" in capsys.readouterr().err
    assert run(["slice", table, "--schema", schema, "--l", "3"]) == 2
    assert "--output" in capsys.readouterr().err


def test_a_number_of_bins_divides_the_domain(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--bins age=5`` makes five equal bins; their edges stand in the manifest."""
    table, schema = files
    out = str(tmp_path / "out")
    code = run(
        ["slice", table, "--schema", schema, "--l", "2", "--sensitive", "age", "--bins", "age=5",
         "--json", "-o", out]
    )  # fmt: skip
    assert code == 0
    facts = json.loads(capsys.readouterr().out)["manifest"]["facts"]
    assert facts["bins"]["age"] == pytest.approx([29.8, 39.6, 49.4, 59.2])
    assert run(["verify", out]) == 0


def test_conditions_and_a_second_release_on_the_command_line(
    files: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole numbers, fractions and pairs are read; a second release asks for ``--again``."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    table, schema = files
    asked = ["slice", table, "--schema", schema, "--condition", "entropy=2", "--condition",
             "closeness=0.5", "--condition", "recursive=2.5,2", "-o"]  # fmt: skip
    assert run([*asked, str(tmp_path / "one")]) == 0
    assert "entropy 2-diversity; recursive (2.5, 2)-diversity" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "one")]) == 0
    told = capsys.readouterr().out
    for check in ("ill: entropy 2", "ill: closeness 0.5", "ill: recursive 2.5, 2"):
        assert check in told
    assert run([*asked, str(tmp_path / "two")]) == 2
    assert "--again" in capsys.readouterr().err
    assert run([*asked, str(tmp_path / "two"), "--again"]) == 0
