"""MPyC opens what the plain engine computes, and parties release with it on any Python."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from parties import MARKER, PLAIN, consortium, ended, wait_until
from secure import SecureParties, agreement_of, measuring_case, operations, table_of

import sherd
from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def _installed(require_or_skip: Callable[[str], None]) -> None:
    if importlib.util.find_spec("mpyc") is None:
        require_or_skip("MPyC is not installed")


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureParties]:
    """Three processes that compute together, alive over all cases."""
    running = SecureParties(sys.executable, 3, tmp_path_factory.mktemp("mpyc"), "mpyc")
    yield running
    running.stop()


def test_operations_are_those_of_the_plain_engine(parties: SecureParties) -> None:
    """Every operation, on numbers of both signs; at every party."""
    values = [[3, -7, 5], [0, 9, 9]]
    plain = PlainEngine([Randomness.seeded(0) for _ in range(3)])
    expected = operations(plain, np.array(values))
    for answer in parties.run({"do": "operations", "values": values}):
        assert answer == expected


@pytest.mark.parametrize("utility", ["max", "info-gain"])
def test_a_release_is_that_of_the_plain_engine(parties: SecureParties, utility: str) -> None:
    """The same cuts and counts from the same words, bit by bit."""
    rng = np.random.default_rng(2)
    case: dict[str, Any] = {
        "do": "release",
        "attributes": {
            "x": {"type": "integer", "domain": ["0", "4"]},
            "y": {"type": "category", "taxonomy": [["a", "g", "*"], ["b", "g", "*"], ["d", "*"]]},
        },
        "n_classes": 2, "utility": utility, "epsilon": "20", "h": 2, "max_leaves": 8, "parties": 3,
        "classes": (np.arange(40) % 2).tolist(), "holder": rng.integers(0, 3, (40, 2)).tolist(),
        "codes": [rng.integers(0, size, 40).tolist() for size in (5, 3)], "words": [4, 5, 6],
    }  # fmt: skip
    codes, classes, held = table_of(case)
    plain = release(
        PlainEngine([Randomness.seeded(seed) for seed in case["words"]]),
        cells_of(codes, held), classes, agreement_of(case),
    )  # fmt: skip
    for answer in parties.run(case):
        assert [tuple(cut) for cut in answer["cuts"]] == list(plain.specialised.cuts)
        assert answer["counts"] == plain.counts.tolist()


def test_histograms_are_those_of_the_whole_table(parties: SecureParties) -> None:
    """By columns, cell by cell and with an attribute that everybody has, all pairs and triples."""
    case, exact = measuring_case(3)
    for answer in parties.run(case):
        assert answer == exact


def test_three_parties_release_with_mpyc_and_a_lost_one_ends_the_run(tmp_path: Path) -> None:
    """One is killed in the middle: the others end; started again, nothing is charged twice."""
    names = "abc"
    parties = consortium(
        tmp_path, names, n=60, h=1, epsilon=20, timeout=20, engine="mpyc", linkage="known"
    )
    running = {name: parties.start(name, PLAIN) for name in names}
    wait_until(lambda: len(parties.journal("c")) >= 1, parties)
    lost = running.pop("c")
    os.killpg(lost.pid, signal.SIGKILL)
    assert ended(running, 120) == {"a": 5, "b": 5}, parties.logs()
    ended({"c": lost}, 0.1)
    assert set(parties.run(dict.fromkeys(names, PLAIN)).values()) == {0}, parties.logs()
    assert parties.charges() == [[20.0]] * 3
    found = [sherd.Release.load(folder / "release") for folder in parties.folders.values()]
    assert len({str(one.tables["data"].to_pylist()) for one in found}) == 1
    facts = found[0].manifest["facts"]
    assert (facts["protocol"], facts["computing"]) == ("MPyC", ["a", "b", "c"])
    assert all(str(MARKER) not in parties.log(name) for name in names)
