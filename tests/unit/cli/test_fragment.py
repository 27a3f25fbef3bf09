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
    assert " ± " in said.out
    assert "standard errors" in said.err


def test_changed_fragments_are_not_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4, and no answer that would be called exact."""
    out = folder / "out"
    assert fragment(folder, "--looseness", "6", "-o", str(out), "--format", "csv") == 0
    file = next(out.glob("fragment*.csv"))
    file.write_text(file.read_text() + "\n")
    capsys.readouterr()
    assert run(["query", str(out), "SELECT job, COUNT(*) n FROM release GROUP BY job"]) == 4
    printed, said = capsys.readouterr()
    assert not printed
    assert f"'{file.name}' is not as it was released" in said


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
    """A release beside itself passes; the same table grouped again does not."""
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


PEOPLE = 400


def people(path: Path, numbers: list[int], column: str = "who") -> None:
    """A table with a row for each number, the same one whenever it is asked for."""
    lines = [f"p{i},{i % 40},{i % 37},{i % 31},{i * 7 % 41}" for i in numbers]
    path.write_text("\n".join([f"{column},job,age,pay,illness", *lines]) + "\n")


@pytest.fixture
def kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A first release with its record, and the table after one deletion and 120 new tuples."""
    schema = (folder / "s.yaml").read_text()
    (folder / "s.yaml").write_text(schema + "  who: {type: category, role: identifier}\n")
    people(folder / "t.csv", list(range(PEOPLE)))
    people(folder / "t2.csv", list(range(1, PEOPLE + 120)))
    given = ("--looseness", "4", "--key", "who", "--record", str(folder / "r1.json"))
    assert fragment(folder, *given, "-o", str(folder / "one")) == 0
    assert "secret" in capsys.readouterr().err
    return folder


def follow(folder: Path, *more: str, table: str = "t2.csv", number: int = 2) -> int:
    """Run the command that makes the release after the one before."""
    before = {2: "one", 3: "out2"}[number]
    return run(
        ["fragment", str(folder / table), "--after", str(folder / before),
         "--old-record", str(folder / f"r{number - 1}.json"),
         "--record", str(folder / f"r{number}.json"), "-o", str(folder / f"out{number}"), *more]
    )  # fmt: skip


def test_a_next_release_is_made_verified_and_asked(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It keeps groups, hides the deletion, promises the union and can be followed itself."""
    assert (kept / "r1.json").stat().st_mode & 0o077 == 0
    assert follow(kept, "--withdraw", "groups") == 0
    said = capsys.readouterr()
    assert "nobody who holds this release and an earlier one knows who was deleted" in said.out
    for text in ("deleted: 1 ", "changed: 0 ", "appended: ", "held back: ", "withdrawn: "):
        assert text in said.err
    one, two = str(kept / "one"), str(kept / "out2")
    manifest = json.loads((kept / "out2" / "manifest.json").read_text())
    assert manifest["facts"]["after"] == json.loads((kept / "r1.json").read_text())["release"]
    assert manifest["facts"]["after"] in manifest["guarantee"]["words"]
    assert "suppressed" not in manifest["facts"]
    assert run(["verify", two]) == 0
    assert run(["verify", two, "--beside", one]) == 0
    assert "follows: the release beside it" in capsys.readouterr().out
    assert run(["query", two, "SELECT job, AVG(illness) FROM release GROUP BY job"]) == 0
    assert "does not say how many" in capsys.readouterr().err
    # the third withdraws nothing, but still rests on what the second took for granted
    assert follow(kept, "--key", "who", "--format", "csv", number=3) == 0
    third = json.loads((kept / "out3" / "manifest.json").read_text())
    assert "deletions-unknown" in third["guarantee"]["assumes"]
    for before in ("one", "out2"):
        assert run(["verify", str(kept / "out3"), "--beside", str(kept / before)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ((), "--withdraw groups"),
        (("--set", "most_withdrawn=0", "--withdraw", "groups"), "most_withdrawn"),
        (("--key", "job"), "--key is not the attribute"),
        (("--looseness", "6"), "'looseness' parameter is not that of the old release"),
        (("--sizes", "4,4"), "'sizes' parameter is not that of the old release"),
        (("--constraints", "other.yaml"), "'constraints' parameter is not that"),
        (("--schema", "other-schema.yaml"), "the schema is not that of the old release"),
        (("--missing", "drop"), "need --schema"),
        (("--record", "out2/r.json"), "inside the release"),
        (("--record", "one/r.json"), "inside the release"),
        (("--record", "r1.json"), "already exists"),
        (("--old-record", "t2.csv"), "not the record of a release"),
    ],
)
def test_a_next_release_that_does_not_fit_is_refused(
    kept: Path,
    more: tuple[str, ...],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message says what is wrong; neither release nor record is written."""
    monkeypatch.chdir(kept)
    (kept / "other.yaml").write_text("constraints:\n  - [age, illness]\n")
    schema = (kept / "s.yaml").read_text()
    (kept / "other-schema.yaml").write_text(
        schema.replace("pay: {type: integer", "pay: {type: number")
    )
    record = (kept / "r1.json").read_bytes()
    assert follow(kept, *more) == 2
    assert text in capsys.readouterr().err
    assert not (kept / "out2").exists()
    assert not (kept / "r2.json").exists()
    assert (kept / "r1.json").read_bytes() == record


def test_the_record_of_another_release_is_refused(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record knows its release by the hash of its manifest."""
    other = ("--looseness", "4", "--key", "who", "--record", str(kept / "other.json"))
    assert fragment(kept, *other, "-o", str(kept / "other")) == 0
    assert follow(kept, "--old-record", str(kept / "other.json")) == 2
    assert "not that of the old release" in capsys.readouterr().err
    assert not (kept / "out2").exists()


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--key", "nobody"), "not an attribute of the schema"),
        (("--key", "job"), "does not tell them apart"),
        (("--key", "who", "--set", "projections=[[1, 2]]"), "projections"),
        (("--key", "who", "--withdraw", "groups"), "--after"),
        (("--key", "who", "--old-record", "r1.json"), "--after"),
        ((), "given together"),
    ],
)
def test_a_record_that_cannot_be_kept(
    kept: Path, more: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown or repeated key, options without the others: nothing is written."""
    record = ("--looseness", "4", "--record", str(kept / "new.json"), "-o", str(kept / "new"))
    assert fragment(kept, *record, *more) == 2
    assert text in capsys.readouterr().err
    assert not (kept / "new").exists()
    assert not (kept / "new.json").exists()


def test_a_release_that_fails_leaves_no_record(
    kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new record is gone again; one that was to be overwritten is as it was."""
    from sherd.errors import StorageError
    from sherd.release.bundle import Staged

    def fail(_self: Staged) -> None:
        raise StorageError("the disk failed")

    monkeypatch.setattr(Staged, "publish", fail)
    assert follow(kept, "--withdraw", "groups") == 5
    assert not (kept / "r2.json").exists()
    before = (kept / "r1.json").read_bytes()
    over = ("--record", str(kept / "r1.json"), "--force", "--withdraw", "groups")
    assert follow(kept, *over) == 5
    assert (kept / "r1.json").read_bytes() == before
    assert (kept / "r1.json").stat().st_mode & 0o077 == 0
    capsys.readouterr()


def test_a_seed_is_handed_down(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups anybody can reproduce stay so in the next release, which must say it."""
    given = ("--looseness", "4", "--key", "who", "--record", str(kept / "r1.json"), "--force")
    assert fragment(kept, *given, "--seed", "1", "-o", str(kept / "one")) == 0
    assert follow(kept, "--withdraw", "groups") == 2
    assert "--seed" in capsys.readouterr().err
    assert follow(kept, "--withdraw", "groups", "--seed", "2") == 0
    assert "carries no guarantee" in capsys.readouterr().out


def test_after_needs_both_records(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the old one there is no next release, without the new one none after that."""
    command = ["fragment", str(kept / "t2.csv"), "--after", str(kept / "one")]
    assert run(command) == 2
    assert "--old-record" in capsys.readouterr().err
    assert run([*command, "--old-record", str(kept / "r1.json")]) == 2
    assert "--record" in capsys.readouterr().err
