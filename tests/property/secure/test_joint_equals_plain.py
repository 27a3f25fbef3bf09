"""The joint computation opens exactly what the plain one computes from the same randomness."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from agreed import attributes
from hypothesis import given, settings
from hypothesis import strategies as st
from lined_gain import lined_gain
from word_noise import WordNoise

import sherd
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.plain_oracle import PlainOracle
from sherd.methods.specialising.scores import Budget, sensitivity
from sherd.methods.specialising.specialise import specialise
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine


@dataclass(frozen=True, kw_only=True)
class Case:
    """A random table, who holds which cell, and what the parties agreed on."""

    codes: list[np.ndarray]
    classes: np.ndarray
    held: list[np.ndarray]
    hosts: int
    agreement: Agreement


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Everything random: tables, partitions, taxonomies, parties, parameters."""
    given_ = {
        f"a{i}": draw(attributes(top=12, labels=6, groups=3))
        for i in range(draw(st.integers(1, 4)))
    }
    hierarchies = tuple(Hierarchy.of(a) for a in sherd.Schema.from_data({"attributes": given_}))
    n, n_classes = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    parties = draw(st.integers(2, 6))
    hosts = draw(st.integers(2, min(parties, 4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    holder = rng.integers(0, parties, (n, len(hierarchies)))
    utility = draw(st.sampled_from(["max", "gain", "info-gain", "spread"]))
    return Case(
        codes=[rng.integers(0, one.size, n) for one in hierarchies],
        classes=rng.integers(0, n_classes, n),
        held=[holder == party for party in range(parties)],
        hosts=hosts,
        agreement=Agreement(
            hierarchies=hierarchies,
            class_name="class",
            class_labels=tuple(f"c{i}" for i in range(n_classes)),
            utility=utility,
            budget=Budget(
                epsilon=draw(st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(20)])),
                specialisations=draw(st.integers(1, 4)),
                numeric=sum(one.numeric for one in hierarchies),
                sensitivity=sensitivity(utility, n),
            ),
            max_leaves=draw(st.sampled_from([1, 4, 80])),
        ),
    )


class LinedOracle(PlainOracle):
    """The plain oracle, with logarithms as secure computation has them."""

    records = 0

    def utilities(self, group: Any) -> Any:
        """Of information gain that of ``entropy_lines``."""
        if self._utility != "info-gain":
            return super().utilities(group)
        children, first = self._histograms.children(group)
        return lined_gain(children, first, self.records)


def words_of(seeds: list[int]) -> Any:
    """What the parties' words add up to, drawn from the same seeds in the same order."""
    sources = [Randomness.seeded(seed) for seed in seeds]

    def words(n: int, bits: int) -> np.ndarray:
        total = np.zeros(n, np.uint64)
        for source in sources:
            total += source.words(n) & np.uint64(2**bits - 1)
        return (total & np.uint64(2**bits - 1)).view(np.int64)

    return words


def replay(case: Case, seeds: list[int]) -> PlainOracle:
    """The plain oracle with the words of the joint run."""
    agreed = case.agreement
    oracle = LinedOracle(
        case.codes,
        [one.size for one in agreed.hierarchies],
        case.classes,
        len(agreed.class_labels),
        utility=agreed.utility,
        budget=agreed.budget,
        noise=WordNoise(words_of(seeds[: case.hosts])),
    )
    oracle.records = len(case.classes)
    return oracle


@settings(max_examples=100, deadline=None)
@given(case=cases(), seed=st.integers(0, 10**6))
def test_joint_release_equals_the_plain_one(case: Case, seed: int) -> None:
    """Same cuts, same counts, for any table, partition, taxonomy and number of parties.

    Also where some owners only share their cells out to those that compute.
    """
    seeds = [seed + 7 * party for party in range(len(case.held))]
    sources = [Randomness.seeded(one) for one in seeds]
    engine = PlainEngine(sources[: case.hosts], len(case.held) - case.hosts)
    joint = release(engine, cells_of(case.codes, case.held), case.classes, case.agreement)
    oracle = replay(case, seeds)
    agreed = case.agreement
    plain = specialise(
        agreed.hierarchies, oracle, h=agreed.budget.specialisations, max_leaves=agreed.max_leaves
    )
    assert joint.specialised == plain
    assert (joint.counts == oracle.count(plain.cuts, plain.choices)).all()
