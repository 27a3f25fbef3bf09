"""The worked examples of wang2020 on its Table 1, one by one."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from paper_protocol import PaperOracle, segment, winner

import sherd
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.diffgen import encode, settings
from sherd.methods.specialising.plain_oracle import Histograms, leaf_counts
from sherd.methods.specialising.scores import Budget, scores
from sherd.methods.specialising.secure_leaf_counts import LeafCounter
from sherd.methods.specialising.shared_oracle import JointOracle
from sherd.methods.specialising.specialise import Candidate, specialise, split_candidates
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.methods.specialising.diffgen import SpecialisationSettings

ANY_JOB = Candidate(attribute=0, edges=(0, 2, 4))
AGE_AT_26 = Candidate(attribute=1, edges=(0, 25, 99))
WORKER_FROM_26 = 3


@pytest.fixture
def chosen(schema1: sherd.Schema) -> SpecialisationSettings:
    """Hierarchies of Job and Age."""
    plan = sherd.Plan(method="diffgen", epsilon=1.0, class_attribute="Class", h=2)
    return settings(plan, schema1)


@pytest.fixture
def coded(
    table1: pa.Table, schema1: sherd.Schema, chosen: SpecialisationSettings
) -> tuple[list[np.ndarray], np.ndarray]:
    """The codes of the ten records and their classes (Y is 0, N is 1)."""
    return encode(table1, schema1, chosen)


def budget(epsilon: Fraction = Fraction(1)) -> Budget:
    """Two specialisations of one measured attribute and one of labels."""
    return Budget(epsilon=epsilon, specialisations=2, numeric=1, sensitivity=1)


def test_example_1_cuts_of_table_1(chosen: SpecialisationSettings) -> None:
    """The first cuts are ANY_JOB and [1, 99]; ANY_JOB falls into Professional and Worker."""
    job, age = chosen.hierarchies
    assert job.label(0, job.size) == "ANY_JOB"
    assert age.label(0, age.size) == "[1, 99]"
    edges = job.children[0, job.size]
    assert [job.label(a, b) for a, b in ((0, 2), (2, 4))] == ["Professional", "Worker"]
    assert edges == (0, 2, 4)


class Scripted:
    """Chooses age 26 for the split, then Job, then Age, and counts without noise."""

    def __init__(self, codes: list[np.ndarray], classes: np.ndarray) -> None:
        self.codes, self.classes = codes, classes
        self.wanted = [AGE_AT_26, ANY_JOB, AGE_AT_26]

    def choose(self, groups: list[list[Candidate]]) -> list[int]:
        """The place of the next candidate of the example."""
        return [groups[0].index(self.wanted.pop(0))] + [0] * (len(groups) - 1)

    def count(self, cuts: tuple[tuple[int, ...], ...], choices: int) -> np.ndarray:
        """Exact counts."""
        assert choices == 3
        return leaf_counts(self.codes, cuts, self.classes, 2)


def test_example_2_data_processing(
    chosen: SpecialisationSettings, coded: tuple[list[np.ndarray], np.ndarray]
) -> None:
    """Job, then Age at 26: four leaves with the counts of Fig. 2."""
    oracle = Scripted(*coded)
    found = specialise(chosen.hierarchies, oracle, h=2, max_leaves=100)  # type: ignore[arg-type]
    assert found.cuts == ((0, 2, 4), (0, 25, 99))
    assert oracle.count(found.cuts, found.choices).tolist() == [[0, 0], [4, 1], [0, 3], [2, 0]]


def test_example_3_utilities_are_7_and_9(coded: tuple[list[np.ndarray], np.ndarray]) -> None:
    """ANY_JOB scores 4 + 3, the split of [1, 99] at 26 scores 3 + 6."""
    codes, classes = coded
    children, first = Histograms.of(codes, [4, 99], classes, 2).children([ANY_JOB, AGE_AT_26])
    assert children.tolist() == [[4, 1], [2, 3], [0, 3], [6, 1]]
    assert scores("max", children, first).tolist() == [7, 9]


def test_example_4_local_counts_are_shares(
    coded: tuple[list[np.ndarray], np.ndarray], held1: list[np.ndarray]
) -> None:
    """P1 counts one Y and one N among professionals, P2 three Y; together 7 is scored."""
    codes, classes = coded
    fragments = cells_of(codes, held1)
    local = [
        Histograms.of(fragments[p].codes, [4, 99], classes, 2).children([ANY_JOB])[0]
        for p in (0, 1)
    ]
    assert local[0][0].tolist() == [1, 1]
    assert local[1][0].tolist() == [3, 0]
    engine = PlainEngine([Randomness.seeded(1), Randomness.seeded(2)])
    oracle = JointOracle(engine, fragments, [4, 99], classes, 2, utility="max", budget=budget())
    assert oracle._utilities([ANY_JOB, AGE_AT_26]).value.tolist() == [7, 9]


def test_example_5_selection_of_a_cut() -> None:
    """567 and 912 out of 1479; 263 falls on ANY_JOB."""
    lengths = [segment(3, 4, Fraction(1, 2), 1), segment(7, 2, Fraction(1, 2), 1)]
    assert lengths == [567, 912]
    assert winner(lengths, 263) == 0
    assert winner(lengths, 1478) == 1


def test_example_6_candidates_are_the_values_that_occur(
    coded: tuple[list[np.ndarray], np.ndarray],
) -> None:
    """The paper's protocol offers 23, 25, 26, 29, 35 to 38, and so gives them away."""
    codes, classes = coded
    oracle = PaperOracle(
        codes, [4, 99], classes, 2, epsilon=Fraction(1), choice=Fraction(1, 10),
        randomness=Randomness.seeded(1),
    )  # fmt: skip
    group = split_candidates(1, 0, 99)
    values = [group[place].edges[1] + 1 for place in oracle.candidates(group)]
    assert values == [23, 25, 26, 29, 35, 36, 37, 38]
    assert oracle.candidates([ANY_JOB, AGE_AT_26]) == [0, 1]


def test_example_6_ours_offers_every_point_of_the_public_grid() -> None:
    """Whatever the data, so that being offered says nothing."""
    assert [one.edges[1] + 1 for one in split_candidates(1, 0, 99)] == list(range(2, 100))


def test_example_7_binary_vectors_of_table_3(
    coded: tuple[list[np.ndarray], np.ndarray], held1: list[np.ndarray]
) -> None:
    """The parties' vectors for ⟨Worker, [26, 99]⟩ are as printed; their product is 2."""
    codes, classes = coded
    engine = PlainEngine([Randomness.seeded(1), Randomness.seeded(2)])
    cuts = ((0, 2, 4), (0, 25, 99))
    counter = LeafCounter(engine=engine, cells=cells_of(codes, held1), cuts=cuts, holes=False)
    vectors = [counter._consistent(p, range(2), np.arange(10), 10)[WORKER_FROM_26] for p in (0, 1)]
    assert vectors[0].tolist() == [0, 0, 1, 0, 1, 1, 1, 0, 1, 1]
    assert vectors[1].tolist() == [1, 1, 0, 1, 0, 0, 1, 1, 0, 1]
    assert int(vectors[0] @ vectors[1]) == 2
    assert leaf_counts(codes, cuts, classes, 2)[WORKER_FROM_26].sum() == 2


def test_example_8_noise_on_every_leaf(
    chosen: SpecialisationSettings,
    coded: tuple[list[np.ndarray], np.ndarray],
    held1: list[np.ndarray],
) -> None:
    """Every leaf and class has a noisy count; with very much epsilon it is the exact one."""
    codes, classes = coded
    agreement = Agreement(
        hierarchies=chosen.hierarchies,
        class_name="Class",
        class_labels=("Y", "N"),
        utility="max",
        budget=budget(Fraction(4000)),
        max_leaves=100,
    )
    engine = PlainEngine([Randomness.seeded(5), Randomness.seeded(6)])
    found = release(engine, cells_of(codes, held1), classes, agreement)
    assert found.counts.shape == (found.leaves, 2)
    cuts = found.specialised.cuts
    assert found.counts.tolist() == leaf_counts(codes, cuts, classes, 2).tolist()
    first = found.specialised.steps[0]  # 27 to 29 tell the classes apart even better than 26
    assert first.attribute == 1
    assert 26 <= first.edges[1] <= 28


def test_lemma_1_squared_gaussians_are_laplace(
    coded: tuple[list[np.ndarray], np.ndarray],
) -> None:
    """The noise of Algorithm 5 has the variance of Lap(2/ε), 8/ε²."""
    nobody = np.zeros(0, np.int64)
    oracle = PaperOracle(
        [nobody], [40_000], nobody, 1, epsilon=Fraction(1, 10), choice=Fraction(1, 10),
        randomness=Randomness.seeded(3),
    )  # fmt: skip
    noise = oracle.count((tuple(range(40_001)),), 0)
    assert noise.var() == pytest.approx(8 * 100, rel=0.06)


def test_the_papers_choice_prefers_what_scores_more(
    coded: tuple[list[np.ndarray], np.ndarray],
) -> None:
    """With a large epsilon' the simulation chooses the split at 26 over ANY_JOB."""
    codes, classes = coded
    oracle = PaperOracle(
        codes, [4, 99], classes, 2, epsilon=Fraction(50), choice=Fraction(20),
        randomness=Randomness.seeded(4),
    )  # fmt: skip
    assert oracle.choose([[ANY_JOB, AGE_AT_26]] * 5) == [1] * 5
