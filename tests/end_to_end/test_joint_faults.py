"""Parties that send nonsense, die or stall, as real processes: how the others end.

Killed and stalled computing parties, wrong certificates and different plans are in
``test_joint_parties``; every kind of malformed frame, one by one, in the unit tests of the channel.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import yaml
from parties import MARKER, PLAIN, SCHEMA, consortium, ended, joint_python, wait_until

ROGUE = str(Path(__file__).parent / "rogue_party.py")
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("garbage", "a frame of a known kind"),
        ("oversize", "at most 67108864 bytes"),
        ("truncated", "closed the connection"),
        ("wrong-type", "what a party says first"),
        ("wrong-kind", "a message where a message is due"),
    ],
)
def test_malformed_frames_end_the_run_before_it_costs(
    tmp_path: Path, fault: str, problem: str
) -> None:
    """A party with the right key that sends no frames: a clear message, nothing is charged."""
    spu = joint_python()
    parties = consortium(tmp_path, timeout=30)
    running = {"a": parties.start("a", spu), "b": parties.start("b", spu, ROGUE, fault)}
    assert ended(running, 240)["a"] == 5, parties.logs()
    assert problem in parties.log("a")
    assert str(MARKER) not in parties.log("a")
    assert parties.charges()[0] == []
    assert not (parties.folders["a"] / "release").exists()


@pytest.mark.parametrize("fault", ["shares-cut", "shares-random"])
def test_malformed_shares_end_the_run_and_it_can_be_finished(tmp_path: Path, fault: str) -> None:
    """What is opened is no share: the other side ends; a restart is not charged again."""
    spu = joint_python()
    parties = consortium(tmp_path, timeout=30)
    running = {"a": parties.start("a", spu), "b": parties.start("b", spu, ROGUE, fault)}
    assert ended(running, 240)["a"] == 5, parties.logs()
    assert "error:" in parties.log("a")
    assert str(MARKER) not in parties.log("a")
    assert parties.journal("a") == []
    assert set(parties.run({"a": spu, "b": spu}).values()) == {0}, parties.logs()
    assert parties.charges() == [[1.0], [1.0]]


def test_an_owner_that_sends_too_few_numbers_ends_the_run(tmp_path: Path) -> None:
    """Both computing parties end with a message; the run can be finished."""
    spu = joint_python()
    parties = consortium(tmp_path, "abc", timeout=30, compute=["a", "b"], linkage="known")
    running = {"a": parties.start("a", spu), "b": parties.start("b", spu),
               "c": parties.start("c", PLAIN, ROGUE, "too-few")}  # fmt: skip
    codes = ended(running, 240)
    assert (codes["a"], codes["b"]) == (5, 5), parties.logs()
    assert "cannot be read" in parties.log("a") + parties.log("b")
    assert set(parties.run({"a": spu, "b": spu, "c": PLAIN}).values()) == {0}, parties.logs()
    assert parties.charges() == [[1.0], [1.0], [1.0]]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stalled"])
def test_a_lost_owner_that_does_not_compute_ends_the_run(
    tmp_path: Path, fault: signal.Signals
) -> None:
    """All others end within the time-out; a restart draws and charges nothing twice."""
    spu = joint_python()
    parties = consortium(tmp_path, "abc", n=2000, h=3, timeout=30, compute=["a", "b"])
    pythons = {"a": spu, "b": spu, "c": PLAIN}
    running = {name: parties.start(name, python) for name, python in pythons.items()}
    wait_until(lambda: len(parties.journal("c")) >= 2, parties)
    lost = running.pop("c")
    os.killpg(lost.pid, fault)
    begin = time.monotonic()
    codes = ended(running, 120)
    assert codes == {"a": 5, "b": 5}, parties.logs()
    assert time.monotonic() - begin < 30 + 30
    ended({"c": lost}, 0.1)
    before = max((parties.journal(name) for name in "abc"), key=len)
    assert set(parties.run(pythons).values()) == {0}, parties.logs()
    assert parties.charges() == [[1.0], [1.0], [1.0]]
    for name in "abc":
        assert parties.journal(name)[: len(before)] == before
        assert str(MARKER) not in parties.log(name)


def test_parties_with_different_schemas_do_not_start(tmp_path: Path) -> None:
    """All are told what differs; nothing is charged."""
    spu = joint_python()
    parties = consortium(tmp_path, "abc", timeout=20, compute=["a", "b"])
    changed = {**SCHEMA, "population": "others"}
    (parties.folders["c"] / "schema.yaml").write_text(yaml.safe_dump(changed))
    codes = parties.run({"a": spu, "b": spu, "c": PLAIN}, 60)
    assert codes == {"a": 2, "b": 2, "c": 2}, parties.logs()
    for name in "abc":
        assert "differ in schema" in parties.log(name)
    assert parties.charges() == [[], [], []]
