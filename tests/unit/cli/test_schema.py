"""``sherd schema``: drafts with few questions, files that answer them, and answers asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sherd
from sherd.cli import cli, run

ROWS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of codes with zeros, many labels, and a number."""
    lines = [f"{i:05d},{'Ulm' if i % 2 else 'Kiel'},{20 + i % 30},l{i % 7}" for i in range(ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(["code,town,age,label", *lines]) + "\n")
    (tmp_path / "towns.csv").write_text("Ulm;South;*\nKiel;North;*\nBremen;North;*\n")
    (tmp_path / "labels.txt").write_text("\n".join(f"l{i}" for i in range(9)) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_draft_asks_for_real_decisions_only(folder: Path) -> None:
    """One for a number's bounds, one for a list of labels, one for what names people."""
    draft = sherd.schema(sherd.read("t.csv"))
    assert [name for name, _ in draft.decisions] == ["code", "town", "age", "label"]
    assert len(sherd.schema(sherd.read(":adult")).decisions) <= 15


def test_hierarchies_and_labels_come_from_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a file declares is not taken from the data: no question is left about it."""
    words = ["schema", "t.csv", "--hierarchy", "town=towns.csv", "--values", "label=labels.txt"]
    assert run([*words, "-o", "s.yaml"]) == 0
    assert "5 comments" in capsys.readouterr().err  # two columns, and three of the whole table
    assert Path("s.yaml").read_text().count("decide: ") == 5
    schema = sherd.Schema.load("s.yaml")
    assert schema["town"].taxonomy is not None
    assert schema["town"].taxonomy.leaves == ("Ulm", "Kiel", "Bremen")
    assert schema["label"].values == tuple(f"l{i}" for i in range(9))
    assert not schema["label"].values_from_data
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == schema.as_data()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--hierarchy", "town"], "ATTRIBUTE=FILE"),
        (["--hierarchy", "twon=towns.csv"], "did you mean 'town'"),
        (["--hierarchy", "town=nowhere.csv"], "does not exist"),
        (["--values", "label=t2.txt"], "does not exist"),
        (["--values", "label=twice.txt"], "each once"),
        (["--ask"], "--output"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    folder: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what they must be."""
    (folder / "twice.txt").write_text("a\na\n")
    assert run(["schema", "t.csv", *words]) == 2
    assert text in capsys.readouterr().err


def test_answers_make_a_finished_schema(folder: Path) -> None:
    """Roles, bounds and labels, then the table; what cannot be is asked for again, at once."""
    of_age = ["sensitive", "0", "many", "120", "0", "0", "120"]
    of_all = ["y", "code", "0", "3", "refuse", "people"]
    answers = "\n".join(["", "", "y", *of_age, "", "n", *of_all]) + "\n"
    done = CliRunner().invoke(cli, ["schema", "t.csv", "--ask", "-o", "s.yaml"], input=answers)
    assert done.exit_code == 0, done.output
    schema = sherd.Schema.load("s.yaml")
    assert [schema[name].role for name in schema.attributes] == [
        *("identifier", "quasi-identifier", "sensitive", "quasi-identifier")
    ]
    assert [str(bound) for bound in schema["age"].domain or ()] == ["0", "120"]
    assert not schema["town"].values_from_data
    assert schema["label"].values_from_data
    assert (schema.unit, schema.rows_per_unit) == ("code", 3)
    assert (schema.missing.value, schema.population) == ("refuse", "people")
    sherd.Plan(method="dp", epsilon=1.0).check(schema)


def test_more_labels_than_are_listed_are_asked_for_as_a_file(folder: Path) -> None:
    """And asked for again where the file is not there."""
    lines = [f"{20 + i % 30},d{i % 250}" for i in range(1000)]
    (folder / "many.csv").write_text("\n".join(["age,ill", *lines]) + "\n")
    (folder / "icd.txt").write_text("\n".join(f"d{i}" for i in range(300)) + "\n")
    answers = "\n".join(["", "0", "120", "", "nowhere.txt", "icd.txt", "", "people"]) + "\n"
    done = CliRunner().invoke(cli, ["schema", "many.csv", "--ask", "-o", "m.yaml"], input=answers)
    assert done.exit_code == 0, done.output
    assert len(sherd.Schema.load("m.yaml")["ill"].values or ()) == 300
    assert not sherd.Schema.load("m.yaml")["ill"].values_from_data


def test_all_mistakes_of_a_schema_are_told_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three attributes and two settings of the schema: a note for each mistake, in one run."""
    (folder / "s.yaml").write_text(
        "missing: kep\nunits: code\n"
        "attributes:\n  code: {role: identifyer}\n  town: {type: categry, domian: [0, 1]}\n"
        "  age: {type: integer, domain: [0]}\n  label: {type: category, values: [a]}\n"
    )
    assert run(["protect", "t.csv", "--schema", "s.yaml", "-m", "dp", "-e", "1", "-o", "o"]) == 2
    said = capsys.readouterr().err
    assert "6 settings of the schema are not valid" in said
    for text in ("did you mean 'identifier'", "did you mean 'category'", "[lowest, highest]"):
        assert text in said


def test_undeclared_domains_are_told_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ranking method names every attribute whose domain it lacks."""
    (folder / "s.yaml").write_text(
        "attributes:\n  code: {role: identifier}\n  town: {type: category, values: [Ulm, Kiel]}\n"
        "  age: {type: integer}\n  label: {type: number}\n"
    )
    assert run(["protect", "t.csv", "--schema", "s.yaml", "-m", "dp", "-e", "1", "-o", "o"]) == 2
    said = capsys.readouterr().err
    assert "'age'" in said
    assert "'label'" in said


def test_a_schema_is_saved_and_shown(folder: Path) -> None:
    """What is written reads back the same; a notebook shows a table."""
    schema = sherd.datasets.schema("adult")
    schema.save("adult.yaml")
    assert sherd.Schema.load("adult.yaml") == schema
    assert "<td>age</td><td>integer</td>" in schema._repr_html_()
    plan = sherd.Plan(method="dp", epsilon=1.0)
    assert "<dt>Promise</dt>" in plan.guarantee(schema)._repr_html_()
    release = sherd.protect(sherd.read(":wine"), sherd.datasets.schema("wine"), plan)
    assert repr(release) == "Release(method='dp', rows=6497, promise='differential-privacy')"
    assert "Promise: " in release._repr_html_()


def test_a_part_that_is_not_installed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and what to install, whatever imports it; another missing module is a bug."""
    import sherd.tables.infer

    for module, code, text in (
        ("sklearn.ensemble", 3, "pip install 'sherd[report]'"),
        ("antigravity_", 1, "this is a bug in sherd"),
    ):

        def fail(*_given: object, module: str = module, **_named: object) -> None:
            raise ModuleNotFoundError(f"No module named '{module}'", name=module)

        monkeypatch.setattr(sherd, "schema", fail)
        assert run(["schema", "t.csv"]) == code
        assert text in capsys.readouterr().err
