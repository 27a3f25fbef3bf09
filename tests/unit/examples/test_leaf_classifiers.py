"""Classifiers trained on a release's noisy counts."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import sherd
from sherd.errors import MissingPartError, UsageError
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.partition import Partition
from sherd.methods.specialising.specialise import Specialised
from sherd_examples.leaf_classifiers import CLASSIFIERS, accuracy, classes_of_leaves


def partition(counts: list[list[int]]) -> Partition:
    """Two labels × three parts of a number, two classes."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "a": {"type": "category", "values": ["u", "v"]},
                "b": {"type": "integer", "domain": ["0", "5"]},
                "c": {"type": "category", "values": ["never", "split"]},
            }
        }
    )
    cuts = ((0, 1, 2), (0, 2, 4, 6), (0, 2))
    return Partition(
        hierarchies=tuple(Hierarchy.of(one) for one in schema),
        specialised=Specialised(cuts=cuts, steps=(), choices=0),
        class_name="k",
        class_labels=("no", "yes"),
        counts=np.array(counts),
    )


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_what_the_counts_say_is_predicted(classifier: str) -> None:
    """Also where it takes both attributes to say it: an exclusive or, with some noise."""
    counts = [[900, 10], [880, -7], [3, 890], [12, 910], [-4, 905], [870, 8]]
    found = partition(counts)
    assert classes_of_leaves(found, 5400, classifier).tolist() == [0, 0, 1, 1, 1, 0]
    codes = [np.array([0, 1, 1, 0]), np.array([0, 0, 5, 5]), np.array([0, 1, 0, 1])]
    assert accuracy(found, 5400, codes, np.array([0, 1, 0, 0]), classifier) == 0.75


def test_noise_in_one_leaf_is_outvoted_by_its_neighbours() -> None:
    """A leaf of hardly any records takes the class that its values have elsewhere."""
    counts = [[900, 10], [905, 12], [880, -7], [20, 890], [12, 910], [2, 1]]
    assert classes_of_leaves(partition(counts), 4500).tolist() == [0, 0, 0, 1, 1, 1]


def test_a_release_of_one_class_predicts_it() -> None:
    """There is nothing to learn; nor is there of no records at all."""
    assert classes_of_leaves(partition([[-3, 40]] * 6), 240).tolist() == [1] * 6
    assert classes_of_leaves(partition([[0, 0]] * 6), 0).tolist() == [0] * 6


def test_unknown_classifiers_are_refused() -> None:
    """The error names those there are."""
    with pytest.raises(UsageError, match="logistic, tree"):
        classes_of_leaves(partition([[1, 1]] * 6), 12, "oracle")


def test_without_scikit_learn_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is part of an extra."""
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingPartError, match="report"):
        classes_of_leaves(partition([[1, 2]] * 6), 18)
