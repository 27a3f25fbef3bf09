"""dp-graph by parties as real processes: columns and cells, both engines, one that dies."""

from __future__ import annotations

import json
import os
import signal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import dying_party
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from parties import PLAIN, Parties, consortium, ended, joint_python, wait_until

import sherd

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)

PLAN = {"method": "dp-graph", "epsilon": 4, "delta": 1e-6, "choice": "all"}
COLUMNS = {"a": ["id", "x"], "b": ["id", "y", "c"], "c": ["id"]}


def parties_of(folder: Path, names: tuple[str, ...], *, by_columns: bool, **more: Any) -> Parties:
    """Parties with a plan for dp-graph; by columns each has columns of its own."""
    parties = consortium(folder, names, n=300, plan=PLAN, **more)
    if by_columns:
        for name, place in parties.folders.items():
            mine = {key: parties.columns[key] for key in COLUMNS[name]}
            pyarrow.csv.write_csv(pa.table(mine), place / "fragment.csv")
    return parties


def check(parties: Parties, *, charged: int = 1) -> dict[str, Any]:
    """Every party has the same verified release, and paid for it once; its model."""
    tables, models = [], []
    for place in parties.folders.values():
        found = sherd.verify(place / "release")
        assert found.passed, [one for one in found.checks if one.passed is False]
        assert any(one.name == "noise that parties face" for one in found.checks)
        release = sherd.Release.load(place / "release")
        assert release.tables["data"].num_rows == 300
        tables.append(release.tables["data"])
        models.append(json.loads((place / "release" / "model.json").read_text()))
    assert all(one.equals(tables[0]) for one in tables)
    assert parties.charges() == [[4.0] * charged] * len(parties.folders)
    model: dict[str, Any] = models[0]
    assert all(one["fine"] == model["fine"] for one in models)
    return model


def residuals(parties: Parties, model: dict[str, Any]) -> np.ndarray[Any, Any]:
    """How far the opened 1-ways are from the truth, in deviations of the stated noise."""
    values: dict[str, list[Any]] = {"x": list(range(7)), "y": ["a", "b", "d"], "c": ["low", "high"]}
    apart = []
    for one in model["fine"]:
        (name,) = one["attributes"]
        exact = [parties.columns[name].count(value) for value in values[name]]
        scale = float(Fraction(one["scale"]))
        apart += [(noisy - true) / scale for noisy, true in zip(one["counts"], exact, strict=True)]
    return np.array(apart)


@pytest.mark.parametrize("by_columns", [pytest.param(True, marks=pytest.mark.slow), False])
def test_three_parties_by_mpyc(tmp_path: Path, by_columns: bool) -> None:
    """Columns, or single cells, of three parties lead to one release with the stated noise."""
    names = ("a", "b", "c")
    parties = parties_of(tmp_path, names, by_columns=by_columns, engine="mpyc", linkage="known")
    assert parties.run(dict.fromkeys(names, PLAIN)) == dict.fromkeys(names, 0), parties.logs()
    model = check(parties)
    apart = residuals(parties, model)
    assert 0 < np.abs(apart).max() < 6
    facts = sherd.Release.load(parties.folders["a"] / "release").manifest["facts"]
    assert facts["insiders"]["epsilon"] > 4
    several, everybody = "several parties", "every party"
    cells = {"x": several, "y": several, "c": everybody}
    columns = {"x": "a", "y": "b", "c": "b"}
    assert facts["insiders"]["holders"] == (columns if by_columns else cells)
    assert {one["what"] for one in facts["opened"]} <= {
        "noisy counts",
        "whether every cell has one holder",
    }
    assert all("8675309" not in parties.log(name) for name in names)


@pytest.mark.parametrize(
    ("names", "by_columns"),
    [
        (("a", "b"), True),
        pytest.param(("a", "b"), False, marks=pytest.mark.slow),
        pytest.param(("a", "b", "c"), True, marks=pytest.mark.slow),
        pytest.param(("a", "b", "c"), False, marks=pytest.mark.slow),
    ],
    ids=["CHEETAH, columns", "CHEETAH, cells", "ABY3, columns", "ABY3, cells"],
)
def test_parties_by_spu(tmp_path: Path, names: tuple[str, ...], by_columns: bool) -> None:
    """The same with two parties and CHEETAH or three and ABY3, linked by OPRF."""
    python = joint_python()
    parties = parties_of(tmp_path, names, by_columns=by_columns, engine="spu")
    assert parties.run(dict.fromkeys(names, python)) == dict.fromkeys(names, 0), parties.logs()
    apart = residuals(parties, check(parties))
    assert 0 < np.abs(apart).max() < 6
    facts = sherd.Release.load(parties.folders["a"] / "release").manifest["facts"]
    assert facts["protocol"] == {2: "CHEETAH", 3: "ABY3"}[len(names)]


@pytest.mark.parametrize("results", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_party_that_dies(tmp_path: Path, results: int) -> None:
    """A party killed before or between results: all start again, and pay nothing more."""
    names = ("a", "b", "c")
    parties = parties_of(
        tmp_path, names, by_columns=True, engine="mpyc", linkage="known", timeout=5
    )
    running = {name: parties.start(name, PLAIN) for name in names}
    journal = parties.folders["b"] / "journal.jsonl"
    wait_until(lambda: journal.exists() and len(parties.journal("b")) >= results, parties)
    os.killpg(running["b"].pid, signal.SIGKILL)
    codes = ended(running, 120)
    before = {name: parties.journal(name) for name in names}
    if any((place / "release").exists() for place in parties.folders.values()):
        assert codes["b"] != 0
    assert parties.run(dict.fromkeys(names, PLAIN)) == dict.fromkeys(names, 0), parties.logs()
    check(parties)
    for name, lines in before.items():
        assert parties.journal(name)[: len(lines)] == lines, "another result was opened"


RUN = "sherd.secure.party"
MEASURE = "sherd.methods.graphical.secure_measuring:SecureMeasurer.measure"
STEPS = {
    "met": (f"{RUN}.party_run:_Party._meet", "after", 1),
    "to pay": (f"{RUN}.run_budget:RunBudget.pay", "before", 1),
    "paid": (f"{RUN}.run_budget:RunBudget.pay", "after", 1),
    "to count 1-ways": (MEASURE, "before", 1),
    "1-ways counted": (MEASURE, "after", 1),
    "to count marginals": (MEASURE, "before", 2),
    "marginals counted": (MEASURE, "after", 2),
    "staged": ("sherd.release.bundle:Release.stage", "after", 1),
    "published": ("sherd.release.bundle:Staged.publish", "after", 1),
}  # fmt: skip
KILLS = [
    *((step, "b", True) for step in STEPS),
    *((step, "a", False) for step in STEPS),
    *((step, "c", True) for step in ("paid", "marginals counted")),
]
"""Step, party, and whether the table is cut by columns or by cells."""


SPU_KILLS = [
    *((step, "b", ("a", "b"), True) for step in STEPS),
    *((step, "c", ("a", "b", "c"), True) for step in STEPS),
    *((step, "a", ("a", "b"), False) for step in ("to pay", "1-ways counted", "marginals counted")),
    *((step, "a", ("a", "b", "c"), False) for step in ("paid", "1-ways counted", "staged")),
]
"""The same for SPU, with those who take part: two compute with CHEETAH, three with ABY3."""


def killed_at(parties: Parties, step: str, victim: str, python: str) -> None:
    """Kill a party at a step: all start again, one release, one charge, nothing else opened."""
    names = tuple(parties.folders)
    killer = str(dying_party.__file__)
    place, when, calls = STEPS[step]
    running = {
        name: parties.start(name, python, killer, place, when, str(calls))
        if name == victim
        else parties.start(name, python)
        for name in names
    }
    assert ended(running, 240)[victim] == -signal.SIGKILL, parties.logs()
    before = {name: parties.journal(name) for name in names}
    assert all(len(charged) <= 1 for charged in parties.charges())
    if not all((place / "release").exists() for place in parties.folders.values()):
        assert parties.run(dict.fromkeys(names, python)) == dict.fromkeys(names, 0), parties.logs()
    check(parties)
    for name, lines in before.items():
        assert parties.journal(name)[: len(lines)] == lines, "another result was opened"


@pytest.mark.slow
@pytest.mark.parametrize(("step", "victim", "by_columns"), KILLS)
def test_party_killed_at_a_step(tmp_path: Path, step: str, victim: str, by_columns: bool) -> None:
    """Three parties and MPyC."""
    names = ("a", "b", "c")
    parties = parties_of(
        tmp_path, names, by_columns=by_columns, engine="mpyc", linkage="known", timeout=10
    )
    killed_at(parties, step, victim, PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "victim", "names", "by_columns"), SPU_KILLS)
def test_party_of_spu_killed_at_a_step(
    tmp_path: Path, step: str, victim: str, names: tuple[str, ...], by_columns: bool
) -> None:
    """Two parties and CHEETAH, three and ABY3, linked by OPRF."""
    python = joint_python()
    parties = parties_of(tmp_path, names, by_columns=by_columns, engine="spu", timeout=20)
    killed_at(parties, step, victim, python)
