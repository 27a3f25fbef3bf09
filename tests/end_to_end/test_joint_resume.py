"""A party that dies around the last opening finishes on restart from what others have."""

from __future__ import annotations

from pathlib import Path

import pytest
from parties import PLAIN, consortium, ended, joint_python

import sherd
from sherd.secure.party.run_journal import RunJournal, SignedResult
from sherd.signing_keys import SigningKey

ROGUE = str(Path(__file__).parent / "rogue_party.py")
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def data_of(folder: Path) -> list[dict[str, object]]:
    """The released table."""
    rows: list[dict[str, object]] = (
        sherd.Release.load(folder / "release").tables["data"].to_pylist()
    )
    return rows


def test_a_party_that_lost_the_last_result_has_it_from_one_that_finished(tmp_path: Path) -> None:
    """It died before writing it down: alone it cannot finish, with the other's help it can."""
    spu = joint_python()
    parties = consortium(tmp_path)
    running = {
        "a": parties.start("a", spu),
        "b": parties.start("b", spu, ROGUE, "dies-before-writing"),
    }
    assert ended(running, 240) == {"a": 0, "b": 9}, parties.logs()
    assert len(parties.journal("b")) == len(parties.journal("a")) - 1
    parties.change("b", timeout=3)
    assert parties.run({"b": spu}, 120) == {"b": 5}
    assert "could not be reached" in parties.log("b")
    parties.change("b", timeout=60)
    before = data_of(parties.folders["a"])
    assert parties.run({"a": spu, "b": spu}, 240) == {"a": 0, "b": 0}, parties.logs()
    assert data_of(parties.folders["b"]) == data_of(parties.folders["a"]) == before
    assert parties.journal("b") == parties.journal("a")
    assert parties.charges() == [[1.0], [1.0]]


def test_a_party_that_edits_its_journal_cannot_forge_a_release(tmp_path: Path) -> None:
    """It lost the last result and makes one up, signed by itself twice: nobody takes it."""
    spu = joint_python()
    parties = consortium(tmp_path)
    running = {
        "a": parties.start("a", spu),
        "b": parties.start("b", spu, ROGUE, "dies-before-writing"),
    }
    assert ended(running, 240) == {"a": 0, "b": 9}, parties.logs()
    true = data_of(parties.folders["a"])
    folder = parties.folders["b"]
    journal = RunJournal.load(folder / "journal.jsonl")
    assert journal is not None
    values = tuple(10**6 for _ in true)
    key = SigningKey.load(folder / "b.key")
    mine = key.sign(journal.next_text("noisy counts", values))
    journal.append(SignedResult(what="noisy counts", values=values, signatures=(mine, mine)))
    parties.change("b", timeout=3)
    # Alone it would have to believe its own journal.
    assert parties.run({"b": spu}, 120) == {"b": 5}, parties.logs()
    assert not (folder / "release").exists()
    parties.change("b", timeout=60)
    assert parties.run({"a": spu, "b": spu}, 240) == {"a": 0, "b": 0}, parties.logs()
    assert data_of(folder) == true
    assert parties.journal("b") == parties.journal("a")
    assert parties.charges() == [[1.0], [1.0]]


def test_a_party_that_knows_all_results_finishes_alone(tmp_path: Path) -> None:
    """It died before publishing: nobody else is needed, nothing is drawn or charged again."""
    spu = joint_python()
    parties = consortium(tmp_path)
    running = {
        "a": parties.start("a", spu),
        "b": parties.start("b", spu, ROGUE, "dies-before-publishing"),
    }
    assert ended(running, 240) == {"a": 0, "b": 9}, parties.logs()
    assert not (parties.folders["b"] / "release").exists()
    parties.change("b", timeout=3)
    assert parties.run({"b": spu}, 120) == {"b": 0}, parties.logs()
    assert data_of(parties.folders["b"]) == data_of(parties.folders["a"])
    assert parties.charges() == [[1.0], [1.0]]


def test_an_owner_that_does_not_compute_needs_any_one_of_the_others(tmp_path: Path) -> None:
    """It died before the last result reached it; one of two computing parties is back."""
    spu = joint_python()
    parties = consortium(tmp_path, "abc", compute=["a", "b"])
    running = {
        "a": parties.start("a", spu),
        "b": parties.start("b", spu),
        "c": parties.start("c", PLAIN, ROGUE, "dies-before-writing"),
    }
    codes = ended(running, 240)
    assert codes["c"] == 9, parties.logs()
    assert (codes["a"], codes["b"]) == (0, 0), parties.logs()
    for name in "bc":
        parties.change(name, timeout=20)
    assert parties.run({"b": spu, "c": PLAIN}, 240) == {"b": 0, "c": 0}, parties.logs()
    assert data_of(parties.folders["c"]) == data_of(parties.folders["a"])
    assert parties.charges() == [[1.0], [1.0], [1.0]]
