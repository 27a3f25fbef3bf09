"""The decision tree under differential privacy, as scikit-learn knows it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import sherd
from sherd.errors import PlanError, TableError
from sherd.methods.specialising.diffp_c45 import Branch, DiffPC45Classifier, pruned, rate_of

N = 3000
RNG = np.random.default_rng(3)
AGE, JOB = RNG.integers(17, 91, N), RNG.choice(["a", "b", "c"], N)
Y = np.where((AGE > 50) & (JOB != "c"), "high", "low")
TABLE = pa.table({"age": AGE, "job": JOB})
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "age": {"type": "integer", "domain": ["17", "90"]},
            "job": {"type": "category", "taxonomy": [["a", "x", "*"], ["b", "x", "*"], ["c", "*"]]},
            "income": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
        },
    }
)


def classifier(**more: Any) -> DiffPC45Classifier:
    """A reproducible classifier with plenty of epsilon."""
    return DiffPC45Classifier(SCHEMA, "income", **{"epsilon": 20.0, "random_state": 1, **more})


@pytest.mark.parametrize("criterion", ["max", "purity"])
def test_it_learns_what_there_is_to_learn(criterion: str) -> None:
    """With plenty of epsilon a rule of two attributes is found."""
    epsilon = 500.0 if criterion == "purity" else 50.0
    model = classifier(criterion=criterion, epsilon=epsilon).fit(TABLE, Y)
    assert model.score(TABLE, Y) > 0.97


def test_it_is_an_estimator() -> None:
    """Parameters in and out, clones, cross-validation, probabilities, errors before fit."""
    model = classifier()
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(max_depth=2).max_depth == 2
    assert cross_val_score(classifier(), TABLE.to_pandas(), Y, cv=3).mean() > 0.9
    with pytest.raises(NotFittedError):
        model.predict(TABLE)
    shares = model.fit(TABLE, Y).predict_proba(TABLE)
    assert shares.shape == (N, 2)
    assert np.allclose(shares.sum(axis=1), 1)
    assert set(model.predict(TABLE)) <= set(model.classes_)


def test_arrays_are_taken_in_the_order_of_the_schema() -> None:
    """Columns of an array are the schema's features."""
    array = np.array([AGE, JOB], dtype=object).T
    table, plain = classifier().fit(TABLE, Y), classifier().fit(array, Y)
    assert (table.predict(TABLE) == plain.predict(array)).all()


def test_two_paths_cost_epsilon() -> None:
    """Levels of a count, all splits and a choice, then the leaf's counts, on two paths."""
    rate = rate_of(Fraction(3), 4, 2)
    assert 2 * (4 * (rate + 2 * rate + rate) + 2 * rate) == 3


def test_noise_drowns_small_nodes() -> None:
    """With little epsilon the tree stays small, whatever the depth allowed."""
    small = classifier(epsilon=0.05, max_depth=8, prune=False).fit(TABLE, Y)
    large = classifier(epsilon=50.0, max_depth=8, prune=False).fit(TABLE, Y)
    assert small.tree_.leaves < 5 < large.tree_.leaves


def test_pruning_removes_splits_that_tell_nothing() -> None:
    """A split into children alike is undone, one that tells classes apart stays."""

    def split(*children: list[float]) -> Branch:
        from sherd.methods.specialising.specialise import Candidate

        below = tuple(Branch(counts=np.array(c)) for c in children)
        total = np.sum([b.counts for b in below], axis=0)
        candidate = Candidate(attribute=0, edges=tuple(range(len(below) + 1)))
        return Branch(counts=total, split=candidate, children=below)

    assert pruned(split([40.0, 10.0], [40.0, 10.0])).split is None
    assert pruned(split([50.0, 0.0], [0.0, 50.0])).split is not None
    assert pruned(split([0.0, 0.0], [0.0, 0.0])).split is None
    assert classifier(prune=True).fit(TABLE, Y).tree_.leaves > 1


def test_a_leaf_without_records_guesses_evenly() -> None:
    """No count above 0: every class is as likely."""
    model = classifier().fit(TABLE, Y)
    model.tree_ = Branch(counts=np.zeros(2))
    assert model.predict_proba(TABLE)[0].tolist() == [0.5, 0.5]


def test_without_a_seed_every_fit_differs() -> None:
    """The system's entropy is used where no seed is given."""
    trees = [classifier(random_state=None, epsilon=1.0).fit(TABLE, Y).tree_ for _ in range(2)]
    assert trees[0].counts.tolist() != trees[1].counts.tolist()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"max_depth": 0}, "max_depth"),
        ({"bins": 1}, "bins"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"criterion": "gini"}, "criterion"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], problem: str) -> None:
    """When fit is called, as scikit-learn has it."""
    with pytest.raises(PlanError, match=problem):
        classifier(**wrong).fit(TABLE, Y)


def test_wrong_tables_are_refused() -> None:
    """Unknown classes, other lengths, missing features, arrays of another width."""
    model = classifier()
    with pytest.raises(TableError, match="classes that the schema does not list"):
        model.fit(TABLE, np.full(N, "middling"))
    with pytest.raises(TableError, match="differ in length"):
        model.fit(TABLE, Y[1:])
    with pytest.raises(TableError, match="features are missing: age"):
        model.fit(TABLE.select(["job"]), Y)
    with pytest.raises(TableError, match="does not fit the schema"):
        model.fit(np.zeros((N, 3)), Y)
