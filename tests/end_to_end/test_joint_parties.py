"""Parties as real processes: SPU, TLS, ledgers, and what happens when one fails.

They run with the interpreter that SHERD_JOINT_PYTHON names: SPU needs numpy 1.26.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml
from word_noise import WordNoise

import sherd
from sherd.methods.specialising.plain_oracle import PlainOracle
from sherd.methods.specialising.specialise import specialise
from sherd.randomness import Randomness
from sherd.secure.engine.link import make_key

HERE = Path(__file__).parent
SOURCE = Path(sherd.__file__).parent.parent
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has SPU."""
    given = os.environ.get("SHERD_JOINT_PYTHON")
    if not given:
        reason = "SHERD_JOINT_PYTHON does not name a Python with SPU"
        if os.environ.get("SHERD_REQUIRE") == "all":
            pytest.fail(f"SHERD_REQUIRE=all, but {reason}", pytrace=False)
        pytest.skip(reason)
    return given


def start(python: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """A process of ours with the same sherd."""
    places = os.pathsep.join((str(SOURCE), str(HERE.parent / "support")))
    environment = {**os.environ, "PYTHONPATH": places}
    with log.open("wb") as out:
        return subprocess.Popen(
            [python, *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def ports(n: int) -> list[int]:
    """Free ports."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return found


def worker() -> Any:
    """The module of the worker, for its table and agreement."""
    spec = importlib.util.spec_from_file_location("joint_worker", HERE / "joint_worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ATTRIBUTES = {
    "x": {"type": "integer", "domain": ["0", "6"]},
    "y": {"type": "category", "taxonomy": [["a", "g", "*"], ["b", "g", "*"], ["d", "*"]]},
}


@pytest.mark.slow
@pytest.mark.parametrize(("parties", "utility"), [(2, "max"), (3, "gain"), (2, "spread")])
def test_secure_runs_open_what_the_plain_oracle_computes(
    python: str, tmp_path: Path, parties: int, utility: str
) -> None:
    """CHEETAH and ABY3, bit by bit, from the same randomness; nothing else is opened."""
    case = {
        "attributes": ATTRIBUTES, "classes": ["n", "y"], "utility": utility, "epsilon": "1",
        "h": 2, "n": 50, "seed": 5, "parties": parties, "ports": ports(parties),
        "words": [11 * (i + 1) for i in range(parties)],
    }  # fmt: skip
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case))
    for i in range(parties):
        make_key(tmp_path, f"p{i}")
    script = str(HERE / "joint_worker.py")
    running = [
        start(python, script, str(path), str(i), str(tmp_path / f"out{i}"), log=tmp_path / f"{i}")
        for i in range(parties)
    ]
    assert [one.wait(400) for one in running] == [0] * parties, (tmp_path / "0").read_text()[-2000:]
    found = [json.loads((tmp_path / f"out{i}").read_text()) for i in range(parties)]
    assert all(one == found[0] for one in found)

    module = worker()
    agreed = module.agreement_of(case)
    codes, classes, _ = module.data_of(case)
    sources = [Randomness.seeded(seed) for seed in case["words"]]  # type: ignore[attr-defined]

    def words(n: int, bits: int) -> np.ndarray:
        keep = np.uint64(2**bits - 1)
        total = np.zeros(n, np.uint64)
        for source in sources:
            total += source.words(n) & keep
        return (total & keep).view(np.int64)

    oracle = PlainOracle(
        codes, [one.size for one in agreed.hierarchies], classes, 2, utility=utility,
        budget=agreed.budget, noise=WordNoise(words),
    )  # fmt: skip
    plain = specialise(agreed.hierarchies, oracle, h=2, max_leaves=40)
    assert [list(cut) for cut in plain.cuts] == [list(cut) for cut in found[0]["cuts"]]
    assert oracle.count(plain.cuts, plain.choices).tolist() == found[0]["counts"]
    opened = {what for what, _ in found[0]["transcript"]}
    assert opened == {"whether every cell has one holder", "places of choices", "noisy counts"}


def consortium(folder: Path, *, timeout: int = 60, n: int = 300, **changed: Any) -> list[Path]:
    """Two parties with keys, fragments, schema and plan; ``changed`` alters the second's plan."""
    rng = np.random.default_rng(4)
    names = ["a", "b"]
    for name in names:
        (folder / name).mkdir()
        make_key(folder / name, name)
    (folder / "b" / "a.pem").write_text((folder / "a" / "a.pem").read_text())
    (folder / "a" / "b.pem").write_text((folder / "b" / "b.pem").read_text())
    peers = [
        {"name": name, "address": f"127.0.0.1:{port}", "certificate": f"{name}.pem"}
        for name, port in zip(names, ports(2), strict=True)
    ]
    columns: dict[str, Any] = {"x": rng.integers(0, 7, n), "y": rng.choice(["a", "b", "d"], n)}
    holder = rng.integers(0, 2, (n, 2))
    classes = rng.choice(["low", "high"], n)
    schema = {
        "population": "people",
        "missing": "refuse",
        "attributes": {
            "id": {"role": "identifier"},
            **ATTRIBUTES,
            "c": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
        },
    }
    for i, name in enumerate(names):
        cells = {
            key: pa.array(values.tolist(), mask=holder[:, j] != i)
            for j, (key, values) in enumerate(columns.items())
        }
        table = pa.table({"id": [f"r{k}" for k in range(n)], **cells, "c": classes.tolist()})
        pyarrow.csv.write_csv(table, folder / name / "fragment.csv")
        (folder / name / "schema.yaml").write_text(yaml.safe_dump(schema))
        plan = {"epsilon": 1, "h": 2, "class_attribute": "c", **(changed if i else {})}
        settings = {
            "name": name, "parties": peers, "key": f"{name}.key", "table": "fragment.csv",
            "schema": "schema.yaml", "plan": plan, "id": "id", "output": "release",
            "timeout": timeout,
        }  # fmt: skip
        (folder / name / "party.yaml").write_text(yaml.safe_dump(settings))
    return [folder / name for name in names]


def run_party(python: str, folder: Path) -> subprocess.Popen[bytes]:
    """``sherd party run`` in a process of its own."""
    return start(
        python, "-m", "sherd", "party", "run", str(folder / "party.yaml"),
        "--ledger", str(folder / "ledger.db"), log=folder / "log",
    )  # fmt: skip


def charges(folder: Path) -> list[float]:
    """What a party's ledger was charged."""
    entries = sherd.Ledger(folder / "ledger.db").entries()
    return [float(one.amount) for one in entries if one.kind == "charge" and one.amount]


def test_two_parties_make_one_release(python: str, tmp_path: Path) -> None:
    """Separate processes behind TLS end with the same release, each charged once."""
    folders = consortium(tmp_path)
    running = [run_party(python, folder) for folder in folders]
    assert [one.wait(300) for one in running] == [0, 0], (folders[0] / "log").read_text()[-2000:]
    data = [(folder / "release" / "data.parquet").read_bytes() for folder in folders]
    assert data[0] == data[1]
    assert [charges(folder) for folder in folders] == [[1.0], [1.0]]
    release = sherd.Release.load(folders[0] / "release")
    assert release.manifest["facts"]["protocol"] == "CHEETAH"
    assert release.manifest["guarantee"]["delta"] > 0
    opened = {one["what"] for one in release.manifest["facts"]["opened"]}
    assert opened == {"whether every cell has one holder", "places of choices", "noisy counts"}
    from sherd.verifying import verify

    assert not [c for c in verify(folders[0] / "release").checks if c.passed is False]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stalled"])
def test_a_lost_party_ends_the_run_and_a_restart_goes_on(
    python: str, tmp_path: Path, fault: signal.Signals
) -> None:
    """The other side ends within its time-out with a message; nothing is drawn or paid twice."""
    folders = consortium(tmp_path, timeout=20)
    first, second = (run_party(python, folder) for folder in folders)
    journal = folders[1] / "journal.jsonl"
    deadline = time.monotonic() + 120
    while not (journal.exists() and len(journal.read_text().splitlines()) >= 3):
        assert time.monotonic() < deadline, (folders[1] / "log").read_text()[-2000:]
        time.sleep(0.02)
    os.killpg(second.pid, fault)
    try:
        assert first.wait(90) == 5, (folders[0] / "log").read_text()[-2000:]
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()
    assert "error:" in (folders[0] / "log").read_text()
    assert not (folders[0] / "release").exists()
    before = journal.read_text().splitlines()
    before = [line for line in before if line.endswith(("]", "}"))]
    running = [run_party(python, folder) for folder in folders]
    assert [one.wait(300) for one in running] == [0, 0], (folders[0] / "log").read_text()[-2000:]
    after = (folders[1] / "journal.finished").read_text().splitlines()
    assert after[: len(before)] == before
    assert [charges(folder) for folder in folders] == [[1.0], [1.0]]


@pytest.mark.slow
def test_a_wrong_certificate_is_refused(python: str, tmp_path: Path) -> None:
    """A party with another key than the agreed one: both end, nothing is charged."""
    folders = consortium(tmp_path, timeout=10)
    (folders[1] / "b.key").unlink()
    make_key(folders[1], "b")
    running = [run_party(python, folder) for folder in folders]
    assert [one.wait(120) for one in running] == [5, 5], (folders[0] / "log").read_text()[-2000:]
    assert "could not be reached" in (folders[0] / "log").read_text()
    assert [charges(folder) for folder in folders] == [[], []]


@pytest.mark.slow
def test_parties_with_different_plans_do_not_start(python: str, tmp_path: Path) -> None:
    """Both are told what differs; nothing is charged."""
    folders = consortium(tmp_path, timeout=20, epsilon=2)
    running = [run_party(python, folder) for folder in folders]
    assert [one.wait(120) for one in running] == [2, 2], (folders[0] / "log").read_text()[-2000:]
    assert "differ in plan" in (folders[0] / "log").read_text()
    assert [charges(folder) for folder in folders] == [[], []]
