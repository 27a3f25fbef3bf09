from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sherd.cli import run

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, its schema and constraints."""
    lines = [f"{i % 40},{i % 37},{i % 31},{i * 7 % 41}" for i in range(ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(["job,age,pay,illness", *lines]) + "\n")
    (tmp_path / "s.yaml").write_text(
        "attributes:\n"
        + "".join(f"  {n}: {{type: integer}}\n" for n in ("job", "age", "pay", "illness"))
    )
    (tmp_path / "c.yaml").write_text(
        "constraints:\n  - [age, illness]\n  - [job, illness]\n"
        "workload:\n  - SELECT job, AVG(pay) FROM release GROUP BY job\n"
    )
    return tmp_path


def fragment(folder: Path, *more: str) -> int:
    """Run the command on the table."""
    return run(
        ["fragment", str(folder / "t.csv"), "--schema", str(folder / "s.yaml"),
         "--constraints", str(folder / "c.yaml"), *more]
    )  # fmt: skip


def test_fragment_verify_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release is made, passes verification and answers queries."""
    out = folder / "out"
    assert fragment(folder, "--looseness", "6", "--similar", "pay,illness", "-o", str(out)) == 0
    said = capsys.readouterr()
    assert "Fragment 1" in said.out
    assert "not differential privacy" in said.out
    assert "suppressed" in said.err
    files = sorted(path.name for path in out.iterdir())
    assert files == [
        "association.parquet", "datapackage.json", "fragment-1.parquet", "fragment-2.parquet",
        "manifest.json",
    ]  # fmt: skip
    assert run(["verify", str(out)]) == 0
    capsys.readouterr()
    assert (
        run(["query", str(out), "SELECT job, COUNT(*) n FROM release GROUP BY job", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["exact"] is True
    assert sum(row["n"] for row in found["rows"]) == ROWS
    assert run(["query", str(out), "SELECT job, AVG(illness) FROM release GROUP BY job"]) == 0
    said = capsys.readouterr()
    assert "avg(illness)_error" in said.out
    assert "standard errors" in said.err


def test_csv_and_own_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV releases work the same; own tables are joined; answers can be written."""
    out = folder / "out"
    assert fragment(folder, "--looseness", "6", "--format", "csv", "-o", str(out)) == 0
    assert run(["verify", str(out)]) == 0
    (folder / "mine.csv").write_text("job,sector\n1,x\n2,y\n")
    sql = "SELECT sector, SUM(pay) s FROM release JOIN mine USING (job) GROUP BY sector"
    answer = folder / "answer.csv"
    command = ["query", str(out), sql, "--table", f"mine={folder / 'mine.csv'}", "-o", str(answer)]
    assert run(command) == 0
    assert "sector" in answer.read_text()
    assert run(command) == 2
    assert run(["query", str(out), sql, "--table", "mine"]) == 2
    capsys.readouterr()


def test_two_releases_are_verified_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release beside itself passes; the same table grouped anew does not."""
    for name in ("one", "two"):
        assert fragment(folder, "--looseness", "6", "-o", str(folder / name)) == 0
    one, two = str(folder / "one"), str(folder / "two")
    assert run(["verify", one, "--beside", one]) == 0
    assert "groups stay or go whole" in capsys.readouterr().out
    assert run(["verify", two, "--beside", one]) == 4
    plain = folder / "plain"
    assert run(
        ["protect", ":wine", "-m", "dp", "-e", "1", "--ledger", "none", "-o", str(plain)]
    ) == 0  # fmt: skip
    assert run(["verify", str(plain), "--beside", one]) == 2
    capsys.readouterr()


def test_explain_reads_no_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fragments and promise are told without opening the table."""
    (folder / "t.csv").unlink()
    assert fragment(folder, "--looseness", "4", "--explain") == 0
    assert "Fragment 2" in capsys.readouterr().out
    assert fragment(folder, "--looseness", "4", "--explain", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["guarantee"]["k"] == 4
    assert told["proved_best"] is True


def test_explain_says_what_could_be_merged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A given fragmentation that is finer than it need be is used, and said to be so."""
    (folder / "f.yaml").write_text("[[age], [job], [pay, illness]]\n")
    given = ("--looseness", "4", "--fragments", str(folder / "f.yaml"), "--explain")
    assert fragment(folder, *given) == 0
    assert "could be merged" in capsys.readouterr().out


def test_given_fragments_and_settings_in_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fragmentation from a file is used; settings may stand beside the constraints."""
    (folder / "f.yaml").write_text("fragments:\n  - [age, job]\n  - [pay, illness]\n")
    with (folder / "c.yaml").open("a") as file:
        file.write("looseness: 4\n")
    out = folder / "out"
    given = ("--fragments", str(folder / "f.yaml"), "--sizes", "2,2", "-o", str(out), "--json")
    assert fragment(folder, *given) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["manifest"]["facts"]["fragments"] == [["age", "job"], ["pay", "illness"]]
    assert made["internal"][0]["label"] == "internal: not for publication"


@pytest.mark.parametrize(
    "more",
    [
        ("--looseness", "400"),
        ("--looseness", "6", "--sizes", "2,2"),
        ("--looseness", "6", "--sizes", "a,b"),
        ("--looseness", "6", "--similar", "nothing"),
        (),
    ],
)
def test_bad_input_writes_nothing(
    folder: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Infeasible looseness, wrong sizes, unknown attributes: exit code 2 and no folder."""
    out = folder / "out"
    assert fragment(folder, *more, "-o", str(out)) == 2
    assert "error:" in capsys.readouterr().err
    assert not out.exists()
    assert not list(folder.glob(".out*"))


def test_missing_options_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Schema, constraints and output are asked for by name."""
    assert run(["fragment", "x.csv"]) == 2
    assert "--schema" in capsys.readouterr().err
    assert run(["fragment", "x.csv", "--schema", str(folder / "s.yaml")]) == 2
    assert "--constraints" in capsys.readouterr().err
    assert fragment(folder, "--looseness", "4") == 2
    assert "--output" in capsys.readouterr().err
