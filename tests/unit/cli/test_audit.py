from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from sherd.cli import run
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
attributes:
  name: {role: identifier}
  age: {type: integer, domain: [0, 100]}
  pay: {type: integer, domain: [0, 5000]}
  ill: {type: category, values: ["no", "yes"], role: sensitive}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, its schema, and two releases with their row maps, the same in every run."""
    seeds = itertools.count(1)
    seeded = classmethod(lambda cls: cls.seeded(next(seeds)))
    place = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 200)
    table = pa.table(
        {
            "name": [f"n{i}" for i in range(200)],
            "age": age,
            "pay": (age * 40 + rng.integers(0, 200, 200)).clip(0, 5000),
            "ill": np.array(["no", "yes"])[(age > 60).astype(int)],
        }
    )
    pc.write_csv(table, place / "people.csv")
    (place / "people.yaml").write_text(SCHEMA)
    for name, more in (
        ("cbls", ["-m", "idp-cbls", "--guarantee", "paper", "-k", "4"]),
        ("dp", ["-m", "dp"]),
    ):
        args = ["protect", str(place / "people.csv"), "--schema", str(place / "people.yaml"), *more]
        args += ["-e", "1", "--ledger", "none", "--format", "csv", "-o", str(place / name)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Randomness, "from_system", seeded)
            assert run([*args, "--row-map", str(place / f"{name}.map.csv")]) == 0
    return place


def test_audit_writes_reports_and_a_verdict(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One call writes several reports, and the terminal shows the verdict."""
    outputs = [tmp_path / "report.html", tmp_path / "audit.json"]
    args = ["audit", str(folder / "people.csv"), str(folder / "cbls")]
    args += ["--row-map", str(folder / "cbls.map.csv"), "--no-alternatives"]
    for path in outputs:
        args += ["-o", str(path)]
    assert run(args) == 0
    shown = capsys.readouterr()
    assert "risk: " in shown.out
    assert "For the owner only" in shown.err
    data = json.loads(outputs[1].read_text())
    assert {m["code"] for m in data["measures"]} >= {"linkage", "mean-sse", "forest-accuracy"}
    assert data["verdict"]["headline"] in outputs[0].read_text()
    assert run(args) == 2
    assert "already exists" in capsys.readouterr().err


def test_audit_as_json_without_pairs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints the whole audit; without a row map it says what is left out and why."""
    args = ["audit", str(folder / "people.csv"), str(folder / "dp"), "--no-alternatives", "--json"]
    assert run(args) == 0
    data = json.loads(capsys.readouterr().out)
    left = {item["code"]: item["reason"] for item in data["left_out"]}
    assert "needs --row-map" in left["linkage"]
    assert all(check["passed"] is not False for check in data["checks"])


def test_bad_input_is_refused_with_a_reason(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another table, a missing column, an unknown target, a bad owner, no release: exit code 2."""
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    short = tmp_path / "short.csv"
    whole = (folder / "people.csv").read_text().splitlines()
    short.write_text("\n".join(whole[:50]) + "\n")
    table, release = str(folder / "people.csv"), str(folder / "dp")
    for args, said in (
        ([str(other), release], "no column of the table is in the schema"),
        ([str(short), release], "differ in their number of rows"),
        ([table, release, "--target", "il"], "no column 'il' to predict"),
        ([table, release, "--owner", "a"], "--owner cannot be read"),
        ([table, release, "-o", str(tmp_path / "x.doc")], "format is unknown"),
        ([table, str(tmp_path)], "not a release"),
        ([table, str(other)], "needs a schema"),
        ([table, str(tmp_path / "nowhere")], "no such release"),
        ([table, release, "--row-map", str(other)], "not a row map"),
    ):
        assert run(["audit", *args]) == 2, said
        assert said in capsys.readouterr().err


def test_audit_of_a_bare_table_with_owners(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any table of the same columns can be audited with a schema; owners are understood."""
    bare = folder / "bare.csv"
    bare.write_text(
        "\n".join(line.split(",", 1)[1] for line in (folder / "people.csv").read_text().split("\n")
                  if line)
        + "\n"
    )  # fmt: skip
    args = ["audit", str(folder / "people.csv"), str(bare), "--schema"]
    args += [str(folder / "people.yaml"), "--owner", "a=age,pay", "--holdout"]
    args += [str(folder / "people.csv"), "--json"]
    assert run(args) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"]["promise"] == "none"
    assert "insider" in {item["code"] for item in data["left_out"]}


def test_compare_recommends(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two releases on one map, with a recommendation and its reason."""
    args = ["compare", str(folder / "cbls"), str(folder / "dp"), "--original"]
    args += [str(folder / "people.csv"), "-o", str(tmp_path / "compare.html")]
    maps = ["--row-map", f"cbls={folder / 'cbls.map.csv'}", "--row-map", f"dp={folder}/dp.map.csv"]
    assert run([*args, *maps]) == 0
    shown = capsys.readouterr().out
    # The promise of cbls fails on this table by exact account.
    assert "Recommended: dp." in shown
    assert "Recommended: dp" in (tmp_path / "compare.html").read_text()
    apart = [line for line in shown.splitlines() if "not comparable" in line]
    assert apart, "the structure of clusters, which dp has not"
    assert all("by row structure" in line for line in apart)
    assert run([*args, "--force", "--row-map", f"cbls={folder / 'cbls.map.csv'}"]) == 0
    shown = capsys.readouterr().out
    assert "not comparable, run on cbls only: Re-identification by distance" in shown
    assert "Warning: On cbls, attacks that were not run on all " in shown
    assert "dp was not attacked in this way (no row map)" in shown
    assert run([*args, "--force", "--row-map", "nobody=x"]) == 2
    assert "--row-map cannot be read" in capsys.readouterr().err
    assert run(["compare", str(folder / "dp"), str(folder / "dp"), *args[3:], "--force"]) == 2
    assert "given twice" in capsys.readouterr().err
