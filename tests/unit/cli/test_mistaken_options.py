"""Options and sources that were meant otherwise: refused before anything is read or spent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sherd.cli import run

SCHEMA = """
population: people
attributes:
  id: {role: identifier}
  x: {type: number, domain: [0, 100]}
"""
PROTECT = ["protect", "people.csv", "--schema", "people.yaml", "-m", "dp", "-e", "1", "-o", "out"]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table, a schema, and a ledger of the test's own."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,x\n" + "".join(f"p{i},{i}\n" for i in range(30)))
    Path("people.yaml").write_text(SCHEMA)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command is refused with; it writes no release and spends nothing."""
    assert run(words) == 2
    assert not Path("out").exists()
    said = capsys.readouterr().err
    run(["ledger", "show"])
    assert "people" not in capsys.readouterr().out
    return said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-e", "2"], "the option --epsilon is given twice"),
        (["-m", "idp"], "the option --method is given twice"),
        (["--master", "local[1]"], "--master is only for --engine spark"),
        (["--staging", "there"], "--staging is only for --engine spark"),
        (["--to", "records=there"], "a destination names a table that the release does not have"),
        (["--population", "a\x1b[31mb"], "signs that cannot be printed"),
        (["--plan", "people.csv"], "got: people.csv"),
    ],
)
def test_an_option_that_would_be_ignored_or_fail_late_is_refused(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two values the last would win; a wrong destination was told once all was paid for."""
    assert said in refused([*PROTECT, *more], capsys)


def test_options_that_may_be_repeated_are(capsys: pytest.CaptureFixture[str]) -> None:
    """So are flags, which say the same twice, and what is no part of the promise."""
    again = ["--keep-order", "--keep-order", "--format", "csv", "--format", "parquet"]
    assert run([*PROTECT, "--to", "data=there", *again]) == 0
    more = ["--set", "weights={x: 1}", "--set", "min_scale=0", "--force"]
    assert run([*PROTECT, *more]) == 0, capsys.readouterr().err


def test_a_file_that_is_not_a_schema_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The table given in its place, say."""
    words = [word.replace("people.yaml", "people.csv") for word in PROTECT]
    said = refused(words, capsys)
    assert "the file is not a schema" in said
    assert "got: people.csv" in said


@pytest.mark.parametrize("engine", ["memory", "columns", "duckdb"])
def test_a_pipe_is_refused_at_once(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table is read more than once; opening a pipe that nobody writes to waits for ever."""
    os.mkfifo("pipe.csv")
    for source in ("pipe.csv", "-"):
        assert run(["schema", source]) == 2
        assert "a pipe or a device" in capsys.readouterr().err
    words = [word.replace("people.csv", "pipe.csv") for word in PROTECT]
    assert run([*words, "--engine", engine]) == 2
    assert "a pipe or a device" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its name ends in."""
    Path("tables").mkdir()
    assert run(["schema", "tables"]) == 2
    assert "the source is a folder" in capsys.readouterr().err


def test_why_a_column_often_has_no_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """By its place: a row index comes first, a delimiter too many last."""
    for header, said in ((",x,y", "row index"), ("x,,y", "name it"), ("x,y,", "end of every row")):
        Path("odd.csv").write_text(f"{header}\n1,2,\n")
        assert run(["schema", "odd.csv"]) == 2
        assert said in capsys.readouterr().err


def test_a_port_that_there_is_not_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """The socket's own error would be taken for a bug."""
    assert run(["studio", "--port", "99999999", "--no-browser"]) == 2
    assert "65535" in capsys.readouterr().err
