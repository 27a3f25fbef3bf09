"""Journals: what was opened is never drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from agreed import agreement, uniform

from sherd.errors import FormatError, StorageError, VerificationError
from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine
from sherd.secure.engine.shapes import NotKnownError, Shapes
from sherd.secure.party.journaled_engine import JournaledEngine
from sherd.secure.party.run_journal import (
    RunJournal,
    RunWords,
    SignedResult,
    cells_of_run,
    finished,
)
from sherd.signing_keys import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(1)
CODES = [RNG.integers(0, 10, 150), RNG.integers(0, 3, 150)]
CLASSES = RNG.integers(0, 2, 150)
SIGNERS = [SigningKey.generate(), SigningKey.generate()]
KEYS = [one.public for one in SIGNERS]
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


def sign(_what: str, _values: tuple[int, ...], text: bytes) -> tuple[str, ...]:
    """Both parties sign."""
    return tuple(one.sign(text) for one in SIGNERS)


def result(what: str, *values: int) -> SignedResult:
    """A result that nobody signed."""
    return SignedResult(what=what, values=values)


def signed(journal: RunJournal, what: str, *values: int) -> SignedResult:
    """The next result of a journal, signed by both."""
    text = journal.next_text(what, values)
    return SignedResult(what=what, values=values, signatures=sign(what, values, text))


def journal_of(path: Path) -> RunJournal:
    """The run's journal, begun."""
    journal = RunJournal.load(path) or RunJournal(path=path, run="run", statement={"records": 150})
    journal.begin()
    return journal


def attempt(path: Path, seed: int, after: int = 1000) -> tuple[Any, Fragile]:
    """One start of the run, with fresh randomness."""
    engine = Fragile(seed, after)
    resumed: Any = JournaledEngine(engine, journal_of(path), sign)
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
    assert tuple(found.counts.ravel().tolist()) == whole[-1].values
    # A third start opens nothing at all and gives the same release.
    again, silent = attempt(path, seed=200)
    assert silent.transcript == []
    assert (again.counts == found.counts).all()


def test_the_longest_journal_that_all_signed_counts(tmp_path: Path) -> None:
    """A party that missed the last result takes it from the others."""
    journal, other = journal_of(tmp_path / "a"), journal_of(tmp_path / "b")
    journal.append(signed(journal, "x", 1))
    other.append(signed(other, "x", 1))
    other.append(signed(other, "y", 2, 3))
    journal.adopt([other.entries, []], KEYS)
    journal.begin()
    assert journal_of(tmp_path / "a").entries == other.entries


def forgeries(journal: RunJournal) -> dict[str, list[SignedResult]]:
    """Longer journals that one party alone can make of what it has."""
    first = journal.entries[0]
    mine, theirs = SIGNERS[0], first.signatures[1]
    text = journal.next_text("y", (9,))
    own = SignedResult(what="y", values=(9,), signatures=(mine.sign(text), theirs))
    twice = SignedResult(what="y", values=(9,), signatures=(mine.sign(text), mine.sign(text)))
    other = journal_of(journal.path.with_name("other"))
    other.run = "another run"
    other.append(signed(other, "x", 1))
    return {
        "unsigned": [first, result("y", 9)],
        "signed by one": [
            first,
            SignedResult(what="y", values=(9,), signatures=(mine.sign(text),)),
        ],
        "with the signature of another result": [first, own],
        "signed twice by one": [first, twice],
        "changed": [
            SignedResult(what="x", values=(2,), signatures=first.signatures),
            result("y", 9),
        ],
        "moved": [first, first],
        "of another run": [*other.entries, signed(other, "y", 9)],
    }


@pytest.mark.parametrize(
    "kind",
    [
        "unsigned", "signed by one", "with the signature of another result",
        "signed twice by one", "changed", "moved", "of another run",
    ],
)  # fmt: skip
def test_a_party_that_edits_its_journal_forges_nothing(tmp_path: Path, kind: str) -> None:
    """Neither the others nor the party itself take what not all signed; the rest stays."""
    journal = journal_of(tmp_path / "a")
    journal.append(signed(journal, "x", 1))
    true = list(journal.entries)
    forged = forgeries(journal)[kind]
    assert len(forged) > len(true)
    journal.adopt([forged], KEYS)
    assert journal.entries == true
    edited = RunJournal(path=tmp_path / "b", run="run", statement={"records": 150}, entries=forged)
    assert edited.checked(KEYS).entries == [one for one in forged[:1] if one == true[0]]


def test_contradicting_journals_stop_the_run(tmp_path: Path) -> None:
    """Two parties that hold different results that all signed do not go on."""
    journal, other = journal_of(tmp_path / "a"), journal_of(tmp_path / "b")
    journal.append(signed(journal, "x", 1))
    other.append(signed(other, "x", 2))
    with pytest.raises(VerificationError, match="contradict"):
        journal.adopt([other.entries], KEYS)


def test_a_result_that_not_all_signed_is_computed_again_and_is_the_same(tmp_path: Path) -> None:
    """The second party never signs the third result; what follows is as if nothing had been."""

    def start(name: str, signing: Any) -> Any:
        words = [RunWords(b"k%d" % party, "run", "cells") for party in (0, 1)]

        class Both:
            def at(self, step: int) -> None:
                for one in words:
                    one.at(step)

        engine = PlainEngine(words)
        resumed: Any = JournaledEngine(engine, journal_of(tmp_path / name), signing, Both())
        held = [np.array(party == HOLDER, np.bool_) for party in (0, 1)]
        return release(resumed, cells_of(CODES, held), CLASSES, agreement())

    seen = []

    def refuse(what: str, values: tuple[int, ...], text: bytes) -> tuple[str, ...]:
        seen.append(values)
        if len(seen) == 3:
            raise BreakingOffError
        return sign(what, values, text)

    whole = start("a", sign)
    with pytest.raises(BreakingOffError):
        start("b", refuse)
    assert len(journal_of(tmp_path / "b").entries) == 2
    again = start("b", sign)
    assert (again.counts == whole.counts).all()
    assert journal_of(tmp_path / "b").entries[2].values == seen[2]
    assert journal_of(tmp_path / "b").entries == journal_of(tmp_path / "a").entries


def test_words_of_a_run_depend_on_key_run_step_and_table() -> None:
    """The same when a step begins again, others for anything else; a table is not shown."""
    first = RunWords(b"key", "run", "cells")
    drawn = [first.words(4).tolist(), first.words(4).tolist()]
    first.at(0)
    assert [first.words(4).tolist(), first.words(4).tolist()] == drawn
    first.at(1)
    others = [RunWords(b"KEY", "run", "cells"), RunWords(b"key", "Run", "cells"),
              RunWords(b"key", "run", "Cells"), first]  # fmt: skip
    assert len({tuple(one.words(4).tolist()) for one in others} | {tuple(drawn[0])}) == 5
    assert uniform(RunWords(b"key", "run", "cells").words(100_000)) > 1e-4
    assert cells_of_run(b"key", "run", [b"1"]) == cells_of_run(b"key", "run", [b"1"])
    assert cells_of_run(b"key", "run", [b"1"]) != cells_of_run(b"KEY", "run", [b"1"])


def test_a_line_that_was_cut_off_is_not_a_result(tmp_path: Path) -> None:
    """A crash in the middle of writing leaves the results before it."""
    path = tmp_path / "a"
    journal = journal_of(path)
    journal.append(result("x", 1))
    with path.open("a") as file:
        file.write('["y", [2')
    assert journal_of(path).entries == [result("x", 1)]
    journal_of(path).append(result("y", 5))
    assert journal_of(path).entries == [result("x", 1), result("y", 5)]


def test_looking_at_a_journal_leaves_it_as_it_is(tmp_path: Path) -> None:
    """Somebody may be writing it; there may be none; a finished one lies beside."""
    path = tmp_path / "a.jsonl"
    assert RunJournal.load(path) is None
    journal_of(path).append(result("x", 1))
    path.write_text(path.read_text() + '["y", [2')
    before = path.read_text()
    found = RunJournal.load(path)
    assert found is not None
    assert (found.run, found.statement, found.entries) == (
        "run",
        {"records": 150},
        [result("x", 1)],
    )
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
        '{"run": "r", "statement": {}}\n["x", [1.5], []]\n',
        '{"run": "r", "statement": {}}\n["x", [9223372036854775808], []]\n',
        '{"run": "r", "statement": {}}\n[3, [1], []]\n',
        '{"run": "r", "statement": {}}\n["x"]\n',
        '{"run": "r", "statement": {}}\n["x", [1]]\n',
        '{"run": "r", "statement": {}}\n["x", [1], [2]]\n',
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing is taken from a file that holds anything else."""
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(FormatError, match="cannot be read"):
        RunJournal.load(path)


def test_new_results_are_signed_once(tmp_path: Path) -> None:
    """All sign before the journal has it; known ones are not signed again."""
    path, told = tmp_path / "a", list[str]()

    def noting(what: str, values: tuple[int, ...], text: bytes) -> tuple[str, ...]:
        assert len(journal_of(path).entries) == len(told)
        told.append(what)
        return sign(what, values, text)

    def start(after: int) -> Any:
        resumed: Any = JournaledEngine(Fragile(1, after), journal_of(path), noting)
        held = [np.array(party == HOLDER, np.bool_) for party in (0, 1)]
        return release(resumed, cells_of(CODES, held), CLASSES, agreement())

    with pytest.raises(BreakingOffError):
        start(after=2)
    assert told == ["whether every cell has one holder", "places of choices"]
    start(after=1000)
    assert [one.what for one in journal_of(path).entries] == told
    journal = journal_of(path)
    assert journal.checked(KEYS).entries == journal.entries


def test_with_all_results_nothing_is_needed_of_anybody(tmp_path: Path) -> None:
    """Neither cells nor classes nor an engine; with one result less it is not enough."""
    path = tmp_path / "a"
    found, _ = attempt(path, seed=1)
    whole = journal_of(path)

    def alone() -> Any:
        resumed: Any = JournaledEngine(Shapes(2), whole)
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
        one = journal.entries[1]
        journal.entries[1:] = [result(one.what, *(place,) * len(one.values))]
        journal.begin()
        with pytest.raises(VerificationError, match="none of the candidates"):
            attempt(path, seed=1)
        path.unlink()


def test_a_journal_that_does_not_fit_is_found(tmp_path: Path) -> None:
    """A result of another kind or size where the run opens something else."""
    path = tmp_path / "a"
    journal_of(path).append(result("noisy counts", 1))
    with pytest.raises(VerificationError, match="does not fit the run"):
        attempt(path, seed=1)


def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    """A result that cannot be written down is an error, not a shrug."""
    journal = journal_of(tmp_path / "a")
    journal.begin()
    journal.path = tmp_path
    with pytest.raises(StorageError, match="cannot be written"):
        journal.append(result("x", 1))
