"""Journals: what was opened is never drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from agreed import agreement

from sherd.errors import FormatError, StorageError, VerificationError
from sherd.methods.specialising.joint_specialisation import cells_of, release
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine
from sherd.secure.engine.shapes import NotKnownError, Shapes
from sherd.secure.party.run_journal import Journal, Resumed, finished

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(1)
CODES = [RNG.integers(0, 10, 150), RNG.integers(0, 3, 150)]
CLASSES = RNG.integers(0, 2, 150)
HOLDER = np.asarray(RNG.integers(0, 2, (150, 2)))


class BreakingOffError(Exception):
    """The run is cut."""


class Fragile(PlainEngine):
    """Breaks off before it opens the n-th result."""

    def __init__(self, seed: int, after: int) -> None:
        super().__init__([Randomness.seeded(seed), Randomness.seeded(seed + 1)])
        self.left = after

    def open(self, a: Any, what: str) -> np.ndarray:
        """Open, or break off."""
        if self.left == 0:
            raise BreakingOffError
        self.left -= 1
        return super().open(a, what)


def journal_of(path: Path) -> Journal:
    """The run's journal, begun."""
    journal = Journal.load(path) or Journal(path=path, run="run", statement={"records": 150})
    journal.begin()
    return journal


def attempt(path: Path, seed: int, after: int = 1000) -> tuple[Any, Fragile]:
    """One start of the run, with fresh randomness."""
    engine = Fragile(seed, after)
    resumed: Any = Resumed(engine, journal_of(path))
    held = [np.array(party == HOLDER, np.bool_) for party in (0, 1)]
    return release(resumed, cells_of(CODES, held), CLASSES, agreement()), engine


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5, 6])
def test_a_restart_repeats_no_opened_draw(tmp_path: Path, after: int) -> None:
    """What was opened before the break stays; only the rest is opened by the second run."""
    path = tmp_path / "journal.jsonl"
    with pytest.raises(BreakingOffError):
        attempt(path, seed=1, after=after)
    before = journal_of(path).entries
    assert len(before) == after
    found, engine = attempt(path, seed=100)
    whole = journal_of(path).entries
    assert whole[:after] == before
    assert len(engine.transcript) == len(whole) - after
    assert tuple(found.counts.ravel().tolist()) == whole[-1][1]
    # A third start opens nothing at all and gives the same release.
    again, silent = attempt(path, seed=200)
    assert silent.transcript == []
    assert (again.counts == found.counts).all()


def test_the_longest_journal_counts(tmp_path: Path) -> None:
    """A party that missed the last result takes it from the others."""
    journal = journal_of(tmp_path / "a")
    journal.append("x", (1,))
    journal.adopt([[("x", (1,)), ("y", (2, 3))], []])
    journal.begin()
    assert journal_of(tmp_path / "a").entries == [("x", (1,)), ("y", (2, 3))]


def test_contradicting_journals_stop_the_run(tmp_path: Path) -> None:
    """Two parties that saw different results do not go on."""
    journal = journal_of(tmp_path / "a")
    journal.append("x", (1,))
    with pytest.raises(VerificationError, match="contradict"):
        journal.adopt([[("x", (2,)), ("y", (2, 3))]])


def test_a_line_that_was_cut_off_is_not_a_result(tmp_path: Path) -> None:
    """A crash in the middle of writing leaves the results before it."""
    path = tmp_path / "a"
    journal = journal_of(path)
    journal.append("x", (1,))
    with path.open("a") as file:
        file.write('["y", [2')
    assert journal_of(path).entries == [("x", (1,))]
    journal_of(path).append("y", (5,))
    assert journal_of(path).entries == [("x", (1,)), ("y", (5,))]


def test_looking_at_a_journal_leaves_it_as_it_is(tmp_path: Path) -> None:
    """Somebody may be writing it; there may be none; a finished one lies beside."""
    path = tmp_path / "a.jsonl"
    assert Journal.load(path) is None
    journal_of(path).append("x", (1,))
    path.write_text(path.read_text() + '["y", [2')
    before = path.read_text()
    found = Journal.load(path)
    assert found is not None
    assert (found.run, found.statement, found.entries) == ("run", {"records": 150}, [("x", (1,))])
    assert path.read_text() == before
    found.finish()
    assert not path.exists()
    assert finished(path).read_text() == before


@pytest.mark.parametrize(
    "text",
    [
        "no journal\n",
        '{"run": "r"}\n',
        '{"run": "r", "statement": {}}\n["x", "y"]\n',
        '{"run": "r", "statement": {}}\n["x", [1.5]]\n',
        '{"run": "r", "statement": {}}\n["x", [9223372036854775808]]\n',
        '{"run": "r", "statement": {}}\n[3, [1]]\n',
        '{"run": "r", "statement": {}}\n["x"]\n',
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing is taken from a file that holds anything else."""
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(FormatError, match="cannot be read"):
        Journal.load(path)


def test_new_results_are_told_after_they_are_written(tmp_path: Path) -> None:
    """Whoever is told finds them in the journal; known ones are not told again."""
    path, told = tmp_path / "a", []

    def tell(what: str, values: tuple[int, ...]) -> None:
        assert journal_of(path).entries[-1] == (what, values)
        told.append(what)

    def start(after: int) -> Any:
        resumed: Any = Resumed(Fragile(1, after), journal_of(path), tell)
        held = [np.array(party == HOLDER, np.bool_) for party in (0, 1)]
        return release(resumed, cells_of(CODES, held), CLASSES, agreement())

    with pytest.raises(BreakingOffError):
        start(after=2)
    assert told == ["whether every cell has one holder", "places of choices"]
    start(after=1000)
    assert [what for what, _ in journal_of(path).entries] == told


def test_with_all_results_nothing_is_needed_of_anybody(tmp_path: Path) -> None:
    """Neither cells nor classes nor an engine; with one result less it is not enough."""
    path = tmp_path / "a"
    found, _ = attempt(path, seed=1)
    whole = journal_of(path)

    def alone() -> Any:
        resumed: Any = Resumed(Shapes(2), whole)
        return release(resumed, {}, np.zeros(150, np.int64), agreement())

    assert (alone().counts == found.counts).all()
    assert alone().specialised == found.specialised
    whole.entries.pop()
    with pytest.raises(NotKnownError):
        alone()


def test_a_choice_that_nobody_offered_is_found(tmp_path: Path) -> None:
    """A journal, which may be another party's, is not believed blindly."""
    path = tmp_path / "a"
    for place in (-1, 10**6):
        attempt(path, seed=1)
        journal = journal_of(path)
        what, values = journal.entries[1]
        journal.entries[1:] = [(what, (place,) * len(values))]
        journal.begin()
        with pytest.raises(VerificationError, match="none of the candidates"):
            attempt(path, seed=1)
        path.unlink()


def test_a_journal_that_does_not_fit_is_found(tmp_path: Path) -> None:
    """A result of another kind or size where the run opens something else."""
    path = tmp_path / "a"
    journal_of(path).append("noisy counts", (1,))
    with pytest.raises(VerificationError, match="does not fit the run"):
        attempt(path, seed=1)


def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    """A result that cannot be written down is an error, not a shrug."""
    journal = journal_of(tmp_path / "a")
    journal.begin()
    journal.path = tmp_path
    with pytest.raises(StorageError, match="cannot be written"):
        journal.append("x", (1,))
