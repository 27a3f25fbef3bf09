"""The commands, in this process: what they print, write and refuse."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import sherd
from sherd import cli
from sherd.cli import options
from sherd.errors import PlanError
from sherd.release.bundle import digest, read_manifest
from sherd.release.method import DIRECTORY
from sherd.release.traits import Traits

SCHEMA = """
population: people
attributes:
  id: {role: identifier}
  x: {type: number, domain: [0, 100]}
  c: {type: category, values: [a, b]}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table, a schema, and a ledger of the test's own."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger" / "ledger.db"))
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"p{i},{i},{'ab'[i % 2]}\n" for i in range(30))
    Path("people.csv").write_text("id,x,c\n" + rows)
    Path("people.yaml").write_text(SCHEMA)


def _protect(*more: str, method: str = "dp-um", k: str = "3") -> int:
    ks = ["-k", k] if k else []
    given = ["protect", "people.csv", "--schema", "people.yaml", "-m", method, "-e", "1", *ks]
    return cli.run([*given, *more])


def test_protect_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    """And what was spent; findings go to standard error, for the owner."""
    assert _protect("-o", "out", "--guarantee", "paper", method="idp-ls") == 0
    out, err = capsys.readouterr()
    assert out.startswith("released 30 rows to out\n")
    assert "Promise: ε-individual differential privacy with ε = 1" in out
    assert "Budget: 1 spent of 'people' so far, no limit is set." in out
    assert "epsilon with clusters recomputed" in err
    assert "epsilon with clusters recomputed" not in out


def test_a_parameter_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """By its own option and by --set: neither wins silently."""
    assert _protect("-o", "out", "--set", "epsilon=3") == 2
    assert "'epsilon' is given twice" in capsys.readouterr().err
    assert not Path("out").exists()


def test_no_ledger_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by --ledger none: nothing is charged, and no file of that name is made."""
    monkeypatch.setenv("SHERD_LEDGER", "none")
    assert _protect("-o", "out") == 0
    assert not Path("none").exists()
    assert "charge" not in read_manifest(Path("out"))["budget"]


def test_what_is_there_and_no_release_cannot_be_forced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So --force is not proposed for it."""
    Path("out").write_text("mine")
    for more in ((), ("--force",)):
        assert _protect("-o", "out", *more) == 2
        assert "only releases are ever overwritten" in capsys.readouterr().err
    assert Path("out").read_text() == "mine"


def test_without_arguments_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    """And no word of an error; the exit code says that nothing was done."""
    assert cli.run([]) == 2
    assert capsys.readouterr().err.startswith("Usage: sherd")


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_a_demonstration_refuses_its_epsilon_before_it_begins(
    epsilon: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any process is started or folder made."""
    assert cli.run(["demo", "-e", epsilon, "-o", "demo"]) == 2
    assert "--epsilon" in capsys.readouterr().err
    assert not Path("demo").exists()


def test_protect_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Manifest, internal findings and the account."""
    assert _protect("-o", "out", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"output", "manifest", "internal", "account"}
    assert data["account"]["spent"] == 1
    assert all(f["label"] == "internal: not for publication" for f in data["internal"])
    assert _protect("-o", "free", "--json", "--ledger", "none") == 0
    assert json.loads(capsys.readouterr().out)["account"] is None


def test_stamps_and_limits_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed and a kept order each have theirs."""
    assert cli.run(["ledger", "set-limit", "people", "5"]) == 0
    assert _protect("-o", "out", "--seed", "1", "--keep-order") == 0
    out = capsys.readouterr().out
    assert "STAMP: reproducible: carries no guarantee" in out
    assert "STAMP: order of rows kept: not for publication" in out
    assert "limit 5." in out


def test_explain_reads_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    """In words and as JSON, without an output or a table."""
    Path("people.csv").unlink()
    assert _protect("--explain") == 0
    assert "Masks: x, c." in capsys.readouterr().out
    assert _protect("--explain", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["plan"]["k"] == 3
    assert data["guarantee"]["notion"] == "differential-privacy"


def test_a_plan_from_a_file_with_changes() -> None:
    """Options come before the file, --set before both."""
    sherd.Plan(method="dp-um", epsilon=2, k=4, weights={"x": 2}).save("plan.json")
    given = ["protect", "people.csv", "--schema", "people.yaml", "--plan", "plan.json"]
    more = ["-k", "5", "--k-of", "c=6", "--weight", "c=1.5", "--set", "min-scale=0.1", "-o", "out"]
    assert cli.run([*given, *more]) == 0
    assert read_manifest(Path("out"))["plan"] == {
        "method": "dp-um", "epsilon": 2.0, "guarantee": "paper", "k": 5, "k_of": {"c": 6},
        "weights": {"c": 1.5}, "min_scale": 0.1, "category_order": "declared",
    }  # fmt: skip


def test_policies_on_the_command_line() -> None:
    """They are written into the release's schema."""
    assert _protect("-o", "out", "--missing", "drop", "--outside", "refuse") == 0
    schema = read_manifest(Path("out"))["schema"]
    assert (schema["missing"], schema["outside"]) == ("drop", "refuse")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["protect", "people.csv", "-m", "dp", "-e", "1", "-o", "o"], "Missing option '--schema'"),
        (["protect", "people.csv", "--schema", "people.yaml", "-e", "1"], "Missing option '-m'"),
        (["protect", ":wine", "-m", "dp", "-e", "1"], "Missing option '-o'"),
        (["tune", "people.csv"], "Missing option '--schema'"),
        (["protect", ":wine", "--weight", "x", "-m", "dp"], "ATTRIBUTE=NUMBER"),
        (["protect", ":wine", "--weight", "x=y", "-m", "dp"], "ATTRIBUTE=NUMBER"),
        (["protect", ":wine", "--k-of", "=3", "-m", "dp-um"], "ATTRIBUTE=NUMBER"),
        (["protect", ":wine", "-k", "3", "-m", "dp"], "the method 'dp' has no option '-k'"),
        (["protect", ":wine", "--set", "x", "-m", "dp"], "NAME=VALUE"),
        (["protect", ":wine", "--set", "x=[", "-m", "dp"], "NAME=VALUE"),
        (["protect", ":nowhere", "-m", "dp", "-e", "1", "-o", "o"], "nowhere"),
        (["protct"], "did you mean 'protect'"),
        (["qqqqqq"], "sherd --help"),
        (["protect", "--frobnicate"], "sherd protect --help"),
        (["tune", ":wine", "-o", "map.gif"], ".png, .json or .csv"),
        (["methods", "idp-sl"], "did you mean 'idp-ls'"),
        (["verify", "nowhere"], "not a release"),
    ],
)
def test_wrong_usage(given: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, the reason on standard error, and as JSON where that is asked for."""
    assert cli.run(given) == 2
    out, err = capsys.readouterr()
    assert text in err
    assert out == ""
    assert cli.run([*given, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 2


def test_the_row_map_is_private_and_whole(tmp_path: Path) -> None:
    """One line a released row, for the owner's eyes only."""
    assert _protect("-o", "out", "--row-map", "map.csv") == 0
    lines = Path("map.csv").read_text().splitlines()
    assert lines[0] == "released_row,input_row"
    assert sorted(int(line.split(",")[1]) for line in lines[1:]) == list(range(30))
    assert Path("map.csv").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("row_map", "text"),
    [
        ("out/map.csv", "inside the release"),
        ("out", "inside the release"),
        ("people.yaml", "already exists"),
    ],
)
def test_a_row_map_in_the_wrong_place_is_refused(
    row_map: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be published, or overwrite something; nothing is charged."""
    assert _protect("-o", "out", "--row-map", row_map) == 2
    assert text in capsys.readouterr().err
    assert not Path("out").exists()
    assert Path("people.yaml").read_text() == SCHEMA


def test_no_row_map_is_left_of_a_release_that_was_not_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the charge fails, or there are no rows; an older map survives an early failure."""
    from sherd.budget.ledger import Ledger
    from sherd.errors import StorageError

    given = ["--row-map", "map.csv", "--missing", "refuse", "--guarantee", "strict"]
    assert _protect("-o", "out", *given) == 2
    assert "come from no single record" in capsys.readouterr().err
    Path("map.csv").write_text("older")
    assert _protect("-o", "out", *given, "--force") == 2
    assert Path("map.csv").read_text() == "older"
    Path("map.csv").unlink()

    def fail(*_given: Any, **_named: Any) -> None:
        raise StorageError("the disk failed")

    monkeypatch.setattr(Ledger, "charge", fail)
    assert _protect("-o", "out", "--row-map", "map.csv") == 5
    assert not Path("map.csv").exists()
    assert not Path("out").exists()


def test_a_row_map_of_a_paid_release_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release will be published by the next run; both errors say so."""
    from sherd.release.bundle import Staged

    def stop(_self: Staged) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Staged, "publish", stop)
    assert _protect("-o", "out", "--row-map", "map.csv") == 130
    assert "paid for already" in capsys.readouterr().err
    assert Path("map.csv").exists()


def test_methods_are_listed_with_their_promises(capsys: pytest.CaptureFixture[str]) -> None:
    """In general: e^ε, not a number; the parameters of one that is named."""
    assert cli.run(["methods"]) == 0
    out = capsys.readouterr().out
    assert "at most e^ε times" in out
    assert "2.718" not in out
    for name in DIRECTORY:
        assert f"\n{name}: " in f"\n{out}"
    assert cli.run(["methods", "idp-cbls"]) == 0
    out = capsys.readouterr().out
    assert "epsilon (needed): a number above 0" in out
    assert "--guarantee centroids: " in out
    assert cli.run(["methods", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [method["name"] for method in data] == list(DIRECTORY)
    assert all({"promise", "covers", "not_covered", "source"} <= set(p)
               for m in data for p in m["promises"])  # fmt: skip


def test_a_method_that_does_not_describe_itself_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its summary."""
    bare = SimpleNamespace(
        name="bare", title="Bare", summary="Does little.", parameters=(), traits=Traits(family="x")
    )
    monkeypatch.setitem(sys.modules, "bare", SimpleNamespace(METHOD=bare))
    monkeypatch.setitem(DIRECTORY, "bare", "bare:METHOD")
    assert cli.run(["methods", "bare"]) == 0
    assert capsys.readouterr().out == "bare: Bare\n  Does little.\n  parameters:\n\n"


def test_verify_says_what_it_could_not_check(capsys: pytest.CaptureFixture[str]) -> None:
    """And counts what it could."""
    assert _protect("-o", "out") == 0
    capsys.readouterr()
    assert cli.run(["verify", "out"]) == 0
    out = capsys.readouterr().out
    assert "ok    promise: what plan and schema lead to" in out
    assert "?     noise:" in out
    assert "checks passed; 5 could not be made" in out
    assert cli.run(["verify", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


def _edited(**change: Any) -> int:
    manifest = read_manifest(Path("out"))
    for key, value in change.items():
        manifest[key] = {**manifest[key], **value} if isinstance(value, dict) else value
    Path("out/manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return cli.run(["verify", "out"])


@pytest.mark.parametrize(
    "change",
    [
        {"guarantee": {"epsilon": 0.1}},
        {"guarantee": {"words": "Promise: perfect secrecy."}},
        {"guarantee": []},
        {"plan": {"k": -1}},
        {"plan": []},
        {"schema": {"attributes": {}}},
        {"stamps": ["reproducible: carries no guarantee"]},
    ],
)
def test_a_promise_that_does_not_follow_fails(
    change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers, words, plan, schema or stamps were changed: exit code 4."""
    assert _protect("-o", "out") == 0
    assert _edited(**change) == 4
    out, err = capsys.readouterr()
    assert "FAIL  promise" in out
    assert "checks failed" in err
    assert cli.run(["verify", "out", "--json"]) == 4


def test_words_of_another_version_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """The promise is the same, its wording is that of the version that made it."""
    assert _protect("-o", "out") == 0
    package = json.loads(Path("out/datapackage.json").read_text())
    package["description"] = "Promise: as before."
    text = json.dumps(package, indent=2, ensure_ascii=False) + "\n"
    Path("out/datapackage.json").write_text(text)
    facts = {
        "sha256": digest(Path("out/datapackage.json")),
        "bytes": Path("out/datapackage.json").stat().st_size,
    }
    words = {"words": "Promise: as before."}
    changed = {"guarantee": words, "files": {"datapackage.json": facts}}
    assert _edited(**changed, versions={"sherd": "0.0.1"}) == 0
    assert "?     promise: follows from plan and schema; its words are those of sherd 0.0.1" in (
        capsys.readouterr().out
    )


def test_a_seeded_release_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    """Its promise is none, and that follows from the stamp."""
    assert _protect("-o", "out", "--seed", "4") == 0
    assert cli.run(["verify", "out"]) == 0


TUNE = ["tune", "people.csv", "--schema", "people.yaml", "-m", "dp-um", "-e", "1", "-k", "3",
        "--runs", "2"]  # fmt: skip


def test_tune_prints_and_writes_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, PNG, JSON and CSV, all marked internal; existing files need --force."""
    outputs = ["-o", "map.json", "-o", "map.csv", "-o", "map.png"]
    assert cli.run([*TUNE, *outputs]) == 0
    out = capsys.readouterr().out
    assert "internal: not for publication" in out
    assert "<- least" in out
    assert "wrote map.csv" in out
    data = json.loads(Path("map.json").read_text())
    assert data["label"] == "internal: not for publication"
    assert data["cells"][0]["runs"] == 2
    assert Path("map.csv").read_text().startswith("method,guarantee,epsilon,k,loss,")
    assert Path("map.png").read_bytes().startswith(b"\x89PNG")
    assert cli.run([*TUNE, *outputs]) == 2
    assert "the file already exists" in capsys.readouterr().err
    assert cli.run([*TUNE, "-o", "map.json", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["method"] == "dp-um"


def test_tune_needs_matplotlib_for_pictures_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so before the work, not after it."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "matplotlib" else real(name, *a),
    )
    assert cli.run([*TUNE, "-o", "map.png"]) == 3
    assert "sherd[report]" in capsys.readouterr().err
    assert cli.run([*TUNE, "-o", "map.csv"]) == 0


def test_schema_is_drafted_and_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    """To standard output, a file, or as JSON."""
    assert cli.run(["schema", "people.csv"]) == 0
    assert "attributes:" in capsys.readouterr().out
    assert cli.run(["schema", "people.csv", "-o", "people.yaml"]) == 2
    assert cli.run(["schema", "people.csv", "-o", "draft.yaml"]) == 0
    assert "comments ask" in capsys.readouterr().err
    assert "x" in sherd.Schema.load("draft.yaml").attributes
    assert cli.run(["schema", "people.csv", "--json"]) == 0
    assert "attributes" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted: nothing was written"),
        (click.exceptions.Abort(), 130, "interrupted: nothing was written"),
        (OSError(28, "No space left on device"), 5, "No space left on device"),
        (OSError("nothing is said"), 5, "no reason"),
        (MemoryError(), 5, "does not fit into memory"),
        (click.exceptions.Exit(7), 7, ""),
        (ZeroDivisionError("marker"), 1, "this is a bug in sherd"),
        (PlanError("wrong", must="right", got="left", do="turn"), 2, "must be: right"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_every_end_has_its_code(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And says nothing of what an unexpected error was about: it could quote a cell."""

    def fail(*_given: Any, **_named: Any) -> None:
        raise error

    monkeypatch.setattr(cli.cli, "main", fail)
    assert cli.run(["methods"]) == code
    err = capsys.readouterr().err
    assert text in err
    assert "marker" not in err


def test_notes_of_an_error_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a reservation that could not be freed."""

    def fail(*_given: Any, **_named: Any) -> None:
        error = PlanError("wrong")
        error.add_note("and more")
        raise error

    monkeypatch.setattr(cli.cli, "main", fail)
    assert cli.run(["methods"]) == 2
    assert "note: and more" in capsys.readouterr().err


def test_a_bug_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHERD_DEBUG shows the whole traceback."""

    def fail(*_given: Any, **_named: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli.cli, "main", fail)
    monkeypatch.setenv("SHERD_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.run(["methods"])


def test_a_reader_that_went_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """``sherd methods | head`` ends quietly."""
    moved: list[int] = []

    def fail(_data: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("sherd.cli.methods.emit_json", fail)
    monkeypatch.setattr("os.dup2", lambda _from, to: moved.append(to))
    assert cli.run(["methods", "--json"]) == 0
    assert moved == [1]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has its line, and its own help."""
    for flag in ("-h", "--help", "--version"):
        assert cli.run([flag]) == 0
    out = capsys.readouterr().out
    for name, (_, text) in cli.COMMANDS.items():
        assert name in out
        assert cli.run([name, "--help"]) == 0
        assert text
    assert cli.LazyGroup().get_command(click.Context(cli.cli), "nothing") is None


def test_main_ends_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the arguments it is given; a polite end is taken like Ctrl-C while it runs."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {one: signal.getsignal(one) for one in signals}
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    during: list[object] = []
    true = cli.run

    def run(args: list[str]) -> int:
        during.extend(signal.getsignal(one) for one in signals)
        return true(args)

    monkeypatch.setattr(cli, "run", run)
    try:
        with pytest.raises(SystemExit) as caught:
            cli.main(["methods", "nothing-like-it"])
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert caught.value.code == 2
    assert during[0] == during[1] != signal.default_int_handler


def test_a_bar_is_shown_where_a_person_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, and nowhere else."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with options.progress("test") as advance:
        advance("step", 1, 2)
        advance("step", 2, 2)


def test_key_and_signature_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """For a program that hands the fingerprint on; the key itself is printed nowhere."""
    assert cli.run(["key", "owner.key", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["public_key"] == "owner.key.pub"
    assert Path(made["private_key"]).read_text() not in str(made)
    assert _protect("-o", "out") == 0
    capsys.readouterr()
    assert cli.run(["sign", "out", "--key", "owner.key", "--json"]) == 0
    signed = json.loads(capsys.readouterr().out)
    assert signed == {"release": "out", "fingerprint": made["fingerprint"]}
