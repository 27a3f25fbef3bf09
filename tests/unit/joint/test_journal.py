"""Journals: what was opened is never drawn again."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sherd
from sherd.errors import FormatError, StorageError, VerificationError
from sherd.joint.arbdistdp import Agreement, fragments_of, release
from sherd.joint.budget import Budget
from sherd.joint.engine import PlainEngine
from sherd.joint.hierarchy import Hierarchy
from sherd.joint.journal import Journal, Resumed, run_of
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(1)
CODES = [RNG.integers(0, 10, 150), RNG.integers(0, 3, 150)]
CLASSES = RNG.integers(0, 2, 150)
HOLDER = np.asarray(RNG.integers(0, 2, (150, 2)))


def agreement() -> Agreement:
    """Two attributes, two classes, three specialisations."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "x": {"type": "integer", "domain": ["0", "9"]},
                "y": {"type": "category", "values": ["a", "b", "c"]},
            }
        }
    )
    return Agreement(
        hierarchies=tuple(Hierarchy.of(a) for a in schema),
        class_name="c",
        class_labels=("n", "y"),
        utility="max",
        budget=Budget(epsilon=Fraction(1), specialisations=3, numeric=1, sensitivity=1),
        max_leaves=50,
    )


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


def attempt(path: Path, seed: int, after: int = 1000) -> tuple[Any, Fragile]:
    """One start of the run, with fresh randomness."""
    engine = Fragile(seed, after)
    resumed: Any = Resumed(engine, Journal.load(path, "run"))
    held = [np.array(party == HOLDER, np.bool_) for party in (0, 1)]
    return release(resumed, fragments_of(CODES, held), CLASSES, agreement()), engine


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5, 6])
def test_a_restart_repeats_no_opened_draw(tmp_path: Path, after: int) -> None:
    """What was opened before the break stays; only the rest is opened by the second run."""
    path = tmp_path / "journal.jsonl"
    with pytest.raises(BreakingOffError):
        attempt(path, seed=1, after=after)
    before = Journal.load(path, "run").entries
    assert len(before) == after
    found, engine = attempt(path, seed=100)
    whole = Journal.load(path, "run").entries
    assert whole[:after] == before
    assert len(engine.transcript) == len(whole) - after
    assert tuple(found.counts.ravel().tolist()) == whole[-1][1]
    # A third start opens nothing at all and gives the same release.
    again, silent = attempt(path, seed=200)
    assert silent.transcript == []
    assert (again.counts == found.counts).all()


def test_the_longest_journal_counts(tmp_path: Path) -> None:
    """A party that missed the last result takes it from the others."""
    journal = Journal.load(tmp_path / "a", "run")
    journal.append("x", (1,))
    journal.adopt([[("x", (1,)), ("y", (2, 3))], []])
    assert Journal.load(tmp_path / "a", "run").entries == [("x", (1,)), ("y", (2, 3))]


def test_contradicting_journals_stop_the_run(tmp_path: Path) -> None:
    """Two parties that saw different results do not go on."""
    journal = Journal.load(tmp_path / "a", "run")
    journal.append("x", (1,))
    with pytest.raises(VerificationError, match="contradict"):
        journal.adopt([[("x", (2,)), ("y", (2, 3))]])


def test_a_line_that_was_cut_off_is_not_a_result(tmp_path: Path) -> None:
    """A crash in the middle of writing leaves the results before it."""
    path = tmp_path / "a"
    journal = Journal.load(path, "run")
    journal.append("x", (1,))
    with path.open("a") as file:
        file.write('["y", [2')
    assert Journal.load(path, "run").entries == [("x", (1,))]
    Journal.load(path, "run").append("y", (5,))
    assert Journal.load(path, "run").entries == [("x", (1,)), ("y", (5,))]


def test_journals_of_other_runs_and_other_files_are_refused(tmp_path: Path) -> None:
    """Nothing is taken from a journal that is not this run's."""
    path = tmp_path / "a"
    Journal.load(path, "run").append("x", (1,))
    assert run_of(path) == "run"
    assert run_of(tmp_path / "none") is None
    with pytest.raises(FormatError, match="another run"):
        Journal.load(path, "walk")
    path.write_text("no journal\n")
    with pytest.raises(FormatError, match="cannot be read"):
        Journal.load(path, "run")
    path.write_text('{"run": "run"}\n["x", "y"]\n')
    with pytest.raises(FormatError, match="cannot be read"):
        Journal.load(path, "run")


def test_a_journal_that_does_not_fit_is_found(tmp_path: Path) -> None:
    """A result of another kind or size where the run opens something else."""
    path = tmp_path / "a"
    Journal.load(path, "run").append("noisy counts", (1,))
    with pytest.raises(VerificationError, match="does not fit the run"):
        attempt(path, seed=1)


def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    """A result that cannot be written down is an error, not a shrug."""
    journal = Journal.load(tmp_path / "a", "run")
    journal.begin()
    journal.path = tmp_path
    with pytest.raises(StorageError, match="cannot be written"):
        journal.append("x", (1,))
