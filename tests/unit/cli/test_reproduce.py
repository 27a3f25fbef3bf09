"""``sherd reproduce``: what it compares, writes and refuses, with a paper of the test's own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sherd import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
EXPERIMENT = """
from reproduction import Claim, DataMissingError, Figure

TITLE = "A paper of one number"
ABOUT = "It says that the sum of two draws is small."
READINGS = {"sum": ("plain", "tripled")}


def draw_two(setting):
    found = [float(setting.source().below(10, 1)[0]) for _ in range(setting.count(50, 2))]
    return [{"plain": sum(found), "tripled": 3 * sum(found), "numbers": len(found)}]


def missing(setting):
    raise DataMissingError("the table is looked for elsewhere")


FIGURES = (
    Figure(number="1", title="The sum", compute=draw_two),
    Figure(number="2", title="The same runs", compute=draw_two, same_runs="1"),
    Figure(number="3", title="Not at hand", compute=missing),
)
CLAIMS = (
    Claim(id="small", figures=("1",), switches=("sum",),
          judge=lambda rows, *, sum, most: (f"{rows[0][sum]:g}", rows[0][sum] <= most)),
    Claim(id="two", figures=("2",),
          judge=lambda rows: (f"{rows[0]['numbers']} draws", rows[0]["numbers"] == 2)),
    Claim(id="gone", figures=("3",), judge=lambda rows: ("", True)),
)
"""
EXPECTED = """
small: {claim: The sum is small., tolerance: {most: 20}, verdict: reproduced}
two:
  claim: Two numbers are drawn.
  verdict: reproduced
  full: {verdict: not reproduced, reason: The full version draws more.}
gone: {claim: Something about a table., verdict: reproduced}
"""


@pytest.fixture(name="framework")
def _framework(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The checkout's framework, forgotten again after the test."""
    monkeypatch.setenv("SHERD_BENCHMARKS", str(BENCHMARKS))
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("reproduction")


@pytest.fixture(name="record")
def _record(
    tmp_path: Path, framework: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Write the records of a paper whose experiment is there."""
    folder = tmp_path / "papers" / "900-toy"
    folder.mkdir(parents=True)
    (folder / "experiment.py").write_text(EXPERIMENT)
    monkeypatch.setattr(framework, "HERE", tmp_path / "papers")
    monkeypatch.delenv("SHERD_REQUIRE", raising=False)
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> None:
        (folder / "expected.yaml").write_text(text)

    write(EXPECTED)
    return write


def _run(*more: str) -> int:
    return cli.run(["reproduce", "900", "--jobs", "1", "-o", "out", *more])


def _verdicts() -> dict[str, dict[str, Any]]:
    data = json.loads(Path("out/900-toy/verdicts.json").read_text())
    return {verdict["id"]: verdict for verdict in data}


def test_recorded_verdicts_pass(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """And the figure without a table is left out with its reason."""
    assert _run("--quick") == 0
    out = capsys.readouterr().out
    assert "reproduced      small:" in out
    assert "skipped         figure 3: the table is looked for elsewhere" in out
    found = _verdicts()
    assert found["small"]["tolerance"] == {"most": 20}
    assert found["gone"]["skipped"]


def test_a_changed_verdict_fails_and_is_named(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, with the claim and what is recorded."""
    record(EXPECTED.replace("most: 20", "most: -1"))
    assert _run("--quick") == 4
    out, err = capsys.readouterr()
    assert "DIFFERS         small: 'reproduced' is recorded" in out
    assert "1 verdicts differ from their record" in err


def test_a_judge_that_fails_loses_no_tables(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was computed is on disk before it is judged, with the facts of the run."""
    record(EXPECTED.replace("most: 20", "few: 20"))
    assert _run("--quick") == 1
    table = json.loads(Path("out/900-toy/figure-1.json").read_text())
    assert table[0]["numbers"] == 2
    made = json.loads(Path("out/900-toy/run.json").read_text())
    assert set(made["seconds of processor"]) == {"1", "2"}
    assert made["missing"] == {"3": "the table is looked for elsewhere"}


@pytest.mark.parametrize("slip", [("--figure", "9"), ("--reading", "sun=plain")])
def test_what_no_paper_has_is_refused(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str], slip: tuple[str, str]
) -> None:
    """A figure or a switch that is not there, with those that are; nothing is written."""
    assert _run("--quick", *slip) == 2
    err = capsys.readouterr().err
    assert ("1, 2, 3" if slip[0] == "--figure" else "must be: one of sum") in err
    assert not Path("out").exists()


def test_other_random_numbers_are_not_held_to_the_record(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another seed draws other numbers; what differs is said and fails nothing."""
    record(EXPECTED.replace("most: 20", "most: -1"))
    sums = set()
    for seed in range(1, 6):
        assert _run("--quick", "--seed", str(seed)) == 0
        assert "'reproduced' is recorded, of other runs" in capsys.readouterr().out
        sums.add(_verdicts()["small"]["ours"])
    assert len(sums) > 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_every_figure_that_is_done_is_said(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    """On standard error, where nobody watches a bar: once for figures of the same runs."""
    assert _run("--quick", "--jobs", jobs) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "figure" in line] == [
        "900-toy, figure 1, 2: 0 s of processor",
        "900-toy, figure 3: the table is looked for elsewhere",
    ]


def test_a_claim_without_a_record_fails(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A record cannot be avoided by leaving it out; nor can one outlive its claim."""
    record("forgotten: {verdict: reproduced}\n" + EXPECTED.replace("two:", "too:"))
    assert _run("--quick") == 4
    out = capsys.readouterr().out
    assert "DIFFERS         two: there is no record of it" in out
    assert "DIFFERS         forgotten: recorded, but no such claim" in out


def test_the_full_version_has_its_own_record(record: Callable[[str], None]) -> None:
    """Where it differs from the short one."""
    record(EXPECTED.replace("most: 20", "most: 2000"))
    assert _run() == 0
    assert _verdicts()["two"]["verdict"] == "not reproduced"


def test_readings_are_switches(record: Callable[[str], None]) -> None:
    """The page says which reading fits; another one can be chosen, and the record is then moot."""
    assert _run("--quick") == 0
    total = int(_verdicts()["small"]["ours"])
    assert total > 0, "or both readings fit"
    record(EXPECTED.replace("most: 20", f"most: {total}"))
    assert _run("--quick") == 0
    assert _verdicts()["small"]["readings"] == {"plain": "reproduced", "tripled": "not reproduced"}
    assert _run("--quick", "--reading", "sum=tripled") == 0
    assert _verdicts()["small"]["ours"] == f"{3 * total}"
    assert "Reproduced with: plain" in Path("out/900-toy/index.html").read_text()


@pytest.mark.parametrize("reading", ["sum", "sum=halved"])
def test_readings_that_there_are_not(
    record: Callable[[str], None], reading: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused, with what there is."""
    assert _run("--quick", "--reading", reading) == 2
    assert "must be" in capsys.readouterr().err


def test_runs_are_the_same_again(record: Callable[[str], None]) -> None:
    """Also when a figure is computed alone, and in other processes; CSV and JSON agree."""
    assert _run("--quick") == 0
    first = Path("out/900-toy/figure-1.json").read_text()
    assert _run("--quick", "--figure", "1") == 0
    assert Path("out/900-toy/figure-1.json").read_text() == first
    assert _run("--quick", "--jobs", "2") == 0
    assert Path("out/900-toy/figure-1.json").read_text() == first
    assert Path("out/900-toy/figure-2.json").read_text() == first
    assert Path("out/900-toy/figure-1.csv").read_text().startswith("plain,tripled,numbers\n")


def test_nothing_may_be_left_out_where_all_is_required(
    record: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SHERD_REQUIRE=all makes a missing table an error."""
    monkeypatch.setenv("SHERD_REQUIRE", "all")
    assert _run("--quick") == 3
    assert "the table is looked for elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("record_of_small", "message"),
    [
        ("{verdict: not reproduced}", "needs a reason"),
        ("{verdict: maybe}", "must be one of"),
        ("{verdict: reproduced, note: x}", "unknown key note"),
    ],
)
def test_records_are_checked(
    record: Callable[[str], None], framework: ModuleType, record_of_small: str, message: str
) -> None:
    """A verdict other than "reproduced" needs a reason; nothing else may be written."""
    records = importlib.import_module("records")
    record(f"small: {record_of_small}\n")
    with pytest.raises(records.RecordError, match=message):
        records.load(framework.HERE / "900-toy")


def test_an_unknown_paper_is_refused(
    record: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With those there are."""
    assert cli.run(["reproduce", "901", "-o", "out"]) == 2
    assert "one of 900" in capsys.readouterr().err


def test_an_installed_package_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The experiments are in the source only."""
    from sherd.cli import reproduce

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHERD_BENCHMARKS", raising=False)
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    assert cli.run(["reproduce"]) == 3
    assert "run from a checkout" in capsys.readouterr().err


def test_results_are_put_into_readmes(
    record: Callable[[str], None], framework: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the marks, judged again by the claims as they stand now."""
    recording = importlib.import_module("record")
    assert _run("--quick") == 0
    readme = framework.HERE / "900-toy" / "README.md"
    readme.write_text(f"before\n{recording.BEGIN}\nOUTDATED\n{recording.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["record.py", "out"])
    assert recording.main() == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "OUTDATED" not in text
    assert "| **small** The sum is small. |" in text
    readme.write_text("no marks")
    with pytest.raises(SystemExit, match="no marks"):
        recording.main()


@pytest.mark.slow  # `make reproduce` finds the same, later
@pytest.mark.parametrize(
    "folder", sorted(p.parent for p in BENCHMARKS.glob("*/experiment.py")), ids=lambda p: p.name
)
def test_every_paper_records_its_claims(framework: ModuleType, folder: Path) -> None:
    """Each claim has a text and a record, and each record a claim."""
    records = importlib.import_module("records")
    paper = framework.load(folder)
    recorded = records.load(folder)
    assert [claim.id for claim in paper.CLAIMS if claim.id not in recorded] == []
    assert records.without_claim(recorded, [claim.id for claim in paper.CLAIMS]) == []
    assert all(claim.text or recorded[claim.id].claim for claim in paper.CLAIMS)
    numbers = [figure.number for figure in paper.FIGURES]
    assert all(set(claim.figures) <= set(numbers) for claim in paper.CLAIMS)
