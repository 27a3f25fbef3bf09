"""SPU itself opens what the plain oracle computes, and its messages tell nothing of the data.

One set of processes for two parties and one for three answer all cases: see ``secure``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from agreed import attributes, uniform
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from secure import SecureParties, agreement_of, measuring_case, table_of
from word_noise import WordNoise

from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.methods.specialising.plain_oracle import PlainOracle
from sherd.methods.specialising.specialise import specialise
from sherd.randomness import Randomness
from sherd.secure.engine.cell_holders import ONE_AT_MOST, ONE_HOLDER, OWN_CELLS
from sherd.secure.engine.interface import PlainEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Case = dict[str, Any]

pytestmark = pytest.mark.timeout(1200)

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "arbdistdp.md"


@pytest.fixture(scope="module", params=[2, 3], ids=["CHEETAH", "ABY3"])
def parties(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    require_or_skip: Callable[[str], None],
) -> Iterator[SecureParties]:
    """Processes that compute together, alive over all cases."""
    python = os.environ.get("SHERD_JOINT_PYTHON")
    if not python:
        require_or_skip("SHERD_JOINT_PYTHON does not name a Python with SPU")
    assert python is not None
    running = SecureParties(python, request.param, tmp_path_factory.mktemp("secure"))
    yield running
    running.stop()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Everything random but the number of parties: tables, partitions, taxonomies, parameters."""
    given_ = {
        f"a{i}": draw(attributes(top=6, labels=4, groups=2)) for i in range(draw(st.integers(1, 3)))
    }
    case: Case = {
        "do": "release",
        "attributes": given_,
        "n_classes": draw(st.integers(1, 3)),
        "utility": draw(st.sampled_from(["max", "gain", "spread"])),
        "epsilon": draw(st.sampled_from(["1/10", "1", "20"])),
        "h": draw(st.integers(1, 3)),
        "max_leaves": draw(st.sampled_from([1, 4, 40])),
    }
    seed = draw(st.integers(0, 2**31))
    return filled(case, n=draw(st.integers(0, 30)), seed=seed)


def filled(case: Case, *, n: int, seed: int) -> Case:
    """A case with random cells, holders still to be dealt out, and seeds for the parties."""
    rng = np.random.default_rng(seed)
    case = {**case, "classes": (np.arange(n) % case["n_classes"]).tolist()}
    sizes = [one.size for one in agreement_of(case).hierarchies]
    return {
        **case,
        "codes": [rng.integers(0, size, n).tolist() for size in sizes],
        "holder": rng.integers(0, 6, (n, len(sizes))).tolist(),
        "words": [seed + 7 * party for party in range(3)],
    }


def dealt(case: Case, parties: int) -> Case:
    """The case for a number of parties; six divides by two and three alike."""
    holder = np.array(case["holder"], np.int64) % parties
    return {**case, "parties": parties, "holder": holder.tolist()}


def check_equal(parties: SecureParties, case: Case) -> None:
    """The secure run's cuts and counts are those of the plain oracle with the same words."""
    case = dealt(case, parties.count)
    answers = parties.run(case)
    agreed = agreement_of(case)
    codes, classes, _ = table_of(case)
    sources = [Randomness.seeded(seed) for seed in case["words"][: parties.count]]

    def words(n: int, bits: int) -> np.ndarray:
        keep = np.uint64(2**bits - 1)
        total = sum((source.words(n) & keep for source in sources), np.zeros(n, np.uint64))
        return (total & keep).view(np.int64)

    oracle = PlainOracle(
        codes, [one.size for one in agreed.hierarchies], classes, case["n_classes"],
        utility=case["utility"], budget=agreed.budget, noise=WordNoise(words),
    )  # fmt: skip
    plain = specialise(agreed.hierarchies, oracle, h=case["h"], max_leaves=case["max_leaves"])
    counts = oracle.count(plain.cuts, plain.choices).tolist()
    for answer in answers:
        assert [tuple(cut) for cut in answer["cuts"]] == [tuple(cut) for cut in plain.cuts]
        assert answer["counts"] == counts
        assert answer["opened"] == answers[0]["opened"]
        assert {what for what, _ in answer["opened"]} <= documented()


def documented() -> set[str]:
    """What the documentation says is opened: the names in its table of messages."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.split("## What each party sees")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \| opened", table, re.MULTILINE))


QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(
    max_examples=3, deadline=None, suppress_health_check=QUIET, derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(case=cases())
def test_secure_runs_open_what_the_plain_oracle_computes(
    parties: SecureParties, case: Case
) -> None:
    """Some random cases; nothing is opened that the documentation does not list."""
    check_equal(parties, case)


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=QUIET,
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(case=cases())
def test_secure_runs_open_what_the_plain_oracle_computes_often(
    parties: SecureParties, case: Case
) -> None:
    """The same with many more cases."""
    check_equal(parties, case)


FIXED: Case = {
    "do": "release",
    "attributes": {
        "x": {"type": "integer", "domain": ["0", "6"]},
        "y": {"type": "category", "taxonomy": [["a", "g", "*"], ["b", "g", "*"], ["d", "*"]]},
    },
    "n_classes": 2,
    "utility": "max",
    "epsilon": "1",
    "h": 2,
    "max_leaves": 40,
}


@pytest.mark.parametrize("overlaps", ["first", "majority"])
def test_overlaps_and_holes_are_settled_as_by_the_plain_engine(
    parties: SecureParties, overlaps: str
) -> None:
    """Any set of holders for every cell, nobody included: the release of the plain engine."""
    case = {**filled({**FIXED, "overlaps": overlaps, "holes": "missing"}, n=80, seed=5)}
    every = np.random.default_rng(8).integers(0, 2**parties.count, (80, 2))
    case |= {"holder": every.tolist(), "parties": parties.count}
    answers = parties.run(case)
    codes, classes, held = table_of(case)
    engine = PlainEngine([Randomness.seeded(seed) for seed in case["words"][: parties.count]])
    plain = release(engine, cells_of(codes, held), classes, agreement_of(case))
    for answer in answers:
        assert [tuple(cut) for cut in answer["cuts"]] == list(plain.specialised.cuts)
        assert answer["counts"] == plain.counts.tolist()
        assert {what for what, _ in answer["opened"]} <= documented()


def test_information_gain_on_shares_is_that_of_the_plain_engine(parties: SecureParties) -> None:
    """Logarithms by chords, in whole numbers: the same cuts and counts, bit by bit."""
    case = dealt(filled({**FIXED, "utility": "info-gain"}, n=40, seed=6), parties.count)
    codes, classes, held = table_of(case)
    engine = PlainEngine([Randomness.seeded(seed) for seed in case["words"][: parties.count]])
    plain = release(engine, cells_of(codes, held), classes, agreement_of(case))
    for answer in parties.run(case):
        assert [tuple(cut) for cut in answer["cuts"]] == list(plain.specialised.cuts)
        assert answer["counts"] == plain.counts.tolist()
        assert {what for what, _ in answer["opened"]} <= documented()


def test_histograms_are_those_of_the_whole_table(parties: SecureParties) -> None:
    """By columns, cell by cell and with an attribute that everybody has, all pairs and triples."""
    case, exact = measuring_case(parties.count)
    for answer in parties.run(case):
        assert answer == exact


def test_messages_do_not_depend_on_the_data(parties: SecureParties) -> None:
    """Two tables of one shape, who holds what included, and the same opened choices.

    In every program and every opening as many messages, of as many bytes, are sent. With CHEETAH
    this holds for each party, and ciphertexts are compressed: their lengths vary by chance by
    less than a hundredth. With ABY3 common randomness decides who plays which role, so it holds
    for all parties together, to the byte. What a party receives is what others send; the link
    counts it when it arrives, which may be during the next program, so it is not compared.
    """
    # The first run also pays what is paid once in the life of the processes.
    seen = [traffic(parties, seed) for seed in (1, 1, 2)]
    for first, second in zip(seen[1], seen[2], strict=True):
        assert [one["step"] for one in first] == [one["step"] for one in second]
    if parties.count == 3:
        assert together(seen[1]) == together(seen[2])
        return
    for first, second in zip(seen[1], seen[2], strict=True):
        assert [one["messages"] for one in first] == [one["messages"] for one in second]
        for one, other in zip(first, second, strict=True):
            assert abs(one["bytes"] - other["bytes"]) <= max(64, one["bytes"] // 100)


def together(seen: list[Any]) -> list[tuple[int, int]]:
    """Messages and bytes of each program and opening, of all parties."""
    return [
        (sum(one["messages"] for one in step), sum(one["bytes"] for one in step))
        for step in zip(*seen, strict=True)
    ]


def traffic(parties: SecureParties, seed: int) -> list[Any]:
    """Messages and bytes that each party sends in each program and opening."""
    case = filled(FIXED, n=60, seed=seed)
    holder = np.arange(120).reshape(60, 2) // 2
    case = dealt({**case, "holder": holder.tolist()}, parties.count)
    # The first split of x, then y, then the left group of y: never another split.
    case["places"] = [[2], [1], [1]]
    return [answer["traffic"] for answer in parties.run(case)]


@pytest.mark.statistical
def test_shares_that_leave_a_party_are_uniform(parties: SecureParties) -> None:
    """Of the same numbers again and again; false alarms 2·10^-4 a party and draw.

    The test has power: the numbers themselves, and shares masked by 60 bits, are found out.
    """
    values = [12345] * 4000
    case = {"do": "share", "parties": parties.count, "values": values}
    for answer in parties.run(case):
        raw = bytes.fromhex(answer["sent"])
        # A replicated share (ABY3) is two numbers for each value, an additive one (CHEETAH) one.
        width = 8 * len(values) * (parties.count - 1)
        words = np.frombuffer(raw[-width:], np.uint64)
        assert len(words) == len(values) * (parties.count - 1)
        assert uniform(words, 4) > 1e-4
        assert uniform(words >> np.uint64(4), 4) < 1e-6
    assert uniform(np.array(values, np.uint64), 4) < 1e-6


def test_the_documentation_lists_what_is_opened() -> None:
    """The reader of the page finds the kinds of results, and no others."""
    kinds = {ONE_HOLDER, ONE_AT_MOST, OWN_CELLS, "places of choices", "noisy counts"}
    assert documented() == kinds
